"""Machine code kernel by kernel: assembly cut into functions."""

from __future__ import annotations

import re
from collections.abc import Sequence

_INSTRUCTION = re.compile(r"^\t(\S+)(?:\t| |$)(.*)$")


def functions_of_assembly(text: str, symbols: Sequence[str]) -> list[str]:
    """The instructions of each symbol in assembly text, without the directives of the assembler.

    Raises:
        ValueError: if one has no label.
    """
    marks = [(text.index(f"\n{symbol}:") + 1, symbol) for symbol in symbols]
    result: dict[str, str] = {}
    for start, symbol in marks:
        end = text.find("\n.Lfunc_end", start)
        lines = text[start : end if end >= 0 else len(text)].splitlines()
        kept = [
            _INSTRUCTION.sub(lambda found: f"    {found[1]:<13}{found[2]}", line)
            for line in lines
            if not line.strip().startswith((".cfi_", ".p2align", "#"))
        ]
        result[symbol] = "\n".join(kept) + "\n"
    return [result[symbol] for symbol in symbols]
