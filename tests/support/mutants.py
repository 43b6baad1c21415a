"""Libraries with something wrong in them, made from a seed, loaded in a process of their own.

Run as a script: ``mutants.py LIBRARY OTHER SCRATCH FIRST LAST`` makes the mutants of these seeds
one after the other and loads each. A mutant is refused with ArtifactError, or gives what the
library gives. The seed is printed before each, so that whoever started the process knows which one
ended it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from graphc import aot
from graphc.aot.artifact import signed
from graphc.base.errors import ArtifactError

SMALL = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 1, 7, 2**31, 2**62, 2**70, 1.5, "", "x", "../x", "float64", "bool", "n",
    [], {}, [[]], [0], {"r": [0]}, "\0", "[[]]\n[]", float("nan"), [1] * 100,
)  # fmt: skip


def answers(folder: Path) -> list[bytes]:
    """All that two runs of a library give."""
    program = aot.load(folder)
    found = [np.asarray(array) for _ in range(2) for array in program(SMALL)]
    found += [program.get(place) for place in range(len(program.signature.variables))]
    return [array.dtype.str.encode() + array.tobytes() for array in found]


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.endswith(".py"))


def signature_of(folder: Path) -> Path:
    (found,) = folder.glob("*.json")
    return found


# --- mutations -----------------------------------------------------------------------------------


def flipped(content: bytes, chance: random.Random) -> bytes:
    """A few bits, bytes or pieces otherwise."""
    result = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(result)) if result else 0
        action = chance.randrange(4)
        if action == 0:
            del result[place : place + chance.randint(1, 40)]
        elif action == 1 and result:
            result[place] ^= 1 << chance.randrange(8)
        elif action == 2:
            result[place:place] = bytes(chance.choices(b'{}[]",:0123456789-%\x00\xff', k=3))
        elif result:
            result = result[:place] + result[place : place + 20] + result[place:]
    return bytes(result)


def of_bytes(folder: Path, other: Path, chance: random.Random) -> None:
    path = chance.choice(files_of(folder))
    path.write_bytes(flipped(path.read_bytes(), chance))


def of_length(folder: Path, other: Path, chance: random.Random) -> None:
    path = chance.choice(files_of(folder))
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def of_kind(folder: Path, other: Path, chance: random.Random) -> None:
    """A file is missing, a link, a pipe, a directory."""
    path = chance.choice(files_of(folder))
    action = chance.randrange(4)
    moved = folder.parent / "moved"
    path.replace(moved)
    if action == 1:
        path.symlink_to(moved)
    elif action == 2:
        os.mkfifo(path)
    elif action == 3:
        path.mkdir()


def swapped(folder: Path, other: Path, chance: random.Random) -> None:
    """One file is another one: of this library or of one that differs; hashes are mended or not."""
    path = chance.choice(files_of(folder))
    source = chance.choice([*files_of(folder), *files_of(other), other / path.name])
    if path.suffix in (".so", ".o") and source.suffix != path.suffix:
        source = other / path.name
    path.write_bytes(source.read_bytes())
    if chance.random() < 0.7 and path.suffix != ".json":
        mend(folder)


def edited(folder: Path, other: Path, chance: random.Random) -> None:
    """Entries of the signature are changed, its own hash made right again."""
    path = signature_of(folder)
    data = json.loads(path.read_text())
    for _ in range(chance.randint(1, 3)):
        edit(data, chance)
    del data["sha256"]
    path.write_bytes(signed(data))


def retyped(folder: Path, other: Path, chance: random.Random) -> None:
    """The signature's text is changed, its own hash made right again if it still can be read."""
    path = signature_of(folder)
    text = flipped(path.read_bytes(), chance)
    try:
        data = json.loads(text)
        path.write_bytes(signed(data))
    except (ValueError, RecursionError):
        path.write_bytes(text)


def nested(folder: Path, other: Path, chance: random.Random) -> None:
    """An entry is nested as deep as can be written."""
    path = signature_of(folder)
    data = json.loads(path.read_text())
    deep: Any = 0
    for _ in range(chance.choice([65, 300, 900])):
        deep = ["list", deep] if chance.random() < 0.5 else {"r": deep}
    key = chance.choice([key for key in data if key not in ("format", "sha256")])
    data[key] = deep
    del data["sha256"]
    path.write_bytes(signed(data))


def edit(data: Any, chance: random.Random) -> None:
    """Changes something somewhere in a tree."""
    while True:
        keys = list(data) if isinstance(data, dict) else list(range(len(data)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = data[key]
        if isinstance(inner, (dict, list)) and inner and chance.random() < 0.85:
            data = inner
            continue
        action = chance.randrange(5)
        if key == "sha256" and len(data) > 2:
            return
        if action == 0:
            del data[key]
        elif action == 1 and isinstance(inner, int) and not isinstance(inner, bool):
            data[key] = inner + chance.choice([-1, 1, 64, 1 << 20])
        elif action == 2 and isinstance(inner, str):
            data[key] = flipped(inner.encode(), chance).decode(errors="replace")
        elif action == 3 and isinstance(data, list):
            data.append(data[chance.randrange(len(data))])
        else:
            data[key] = chance.choice(JUNK)
        return


def mend(folder: Path) -> None:
    """Makes the hashes and lengths of all files those that they have."""
    import hashlib

    path = signature_of(folder)
    data = json.loads(path.read_text())
    for name, info in data["files"].items():
        content = (folder / name).read_bytes()
        info.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        if name.endswith(".safetensors") and isinstance(data.get("weights"), dict):
            data["weights"]["sha256"] = info["sha256"]
    del data["sha256"]
    path.write_bytes(signed(data))


MUTATIONS: tuple[Callable[[Path, Path, random.Random], None], ...] = (
    of_bytes, of_length, of_kind, swapped, edited, edited, retyped, nested,
)  # fmt: skip


def main(library: Path, other: Path, scratch: Path, first: int, last: int) -> None:
    expected = answers(library)
    refused = 0
    for seed in range(first, last):
        print(f"seed {seed}", flush=True)
        chance = random.Random(seed)
        folder = scratch / "mutant"
        shutil.copytree(library, folder)
        MUTATIONS[seed % len(MUTATIONS)](folder, other, chance)
        try:
            found = answers(folder)
        except ArtifactError as error:
            refused += 1
            assert error.where is not None and error.where.filename == __file__, error
        else:
            assert found == expected, f"seed {seed}: a wrong answer"
        for path in scratch.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    print(f"refused {refused}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), *map(int, sys.argv[4:]))
