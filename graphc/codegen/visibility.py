"""Which symbols of a module are seen outside of the library that it becomes part of.

A linker is told too; but that of macOS goes by what stands in the objects.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_DEFINITION = re.compile(
    r"^(?P<head>define )(?!internal |private |hidden )(?=[^@\n]*@(?P<function>[\w.]+)\()"
    r"|^(?P<global>@(?P<name>[\w.]+) = )(?=(?:unnamed_addr )?(?:constant|global) )",
    re.MULTILINE,
)


def hidden_but(text: str, exports: Collection[str]) -> str:
    """A module of LLVM text whose definitions are hidden, except those of these symbols."""

    def mark(found: re.Match[str]) -> str:
        name = found["function"] or found["name"]
        return found[0] if name in exports else f"{found[0]}hidden "

    return _DEFINITION.sub(mark, text)


__all__ = ["hidden_but"]
