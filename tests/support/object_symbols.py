"""What a relocatable object needs from elsewhere: ELF, COFF, Mach-O and WebAssembly."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def undefined_symbols(image: bytes) -> set[str]:
    """The names, as C has them."""
    if image[:6] == b"\x7fELF\x02\x01":
        return _elf(image)
    if image[:4] == b"\xcf\xfa\xed\xfe":
        return _macho(image)
    if image[:4] == b"\0asm":
        return _wasm(image)
    assert image[:2] == b"\x64\x86", "an object of a known kind"
    return _coff(image)


def _text(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode()


def _elf(image: bytes) -> set[str]:
    (table,) = struct.unpack_from("<Q", image, 40)
    entry, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + n * entry) for n in range(count)]
    found = set()
    for _, kind, _, _, offset, size, link, _, _, step in sections:
        if kind != 2:
            continue
        names = sections[link][4]
        for place in range(offset + step, offset + size, step):
            name, _, _, section = struct.unpack_from("<IBBH", image, place)
            if section == 0:
                found.add(_text(image, names + name))
    return found


def _coff(image: bytes) -> set[str]:
    table, count = struct.unpack_from("<II", image, 8)
    names = table + 18 * count
    found, number = set(), 0
    while number < count:
        place = table + 18 * number
        zero, offset = struct.unpack_from("<II", image, place)
        _, section, _, kind, further = struct.unpack_from("<IhHBB", image, place + 8)
        if section == 0 and kind == 2:
            # a name of at most eight bytes stands here, a longer one in a table
            short = image[place : place + 8].rstrip(b"\0")
            found.add(_text(image, names + offset) if zero == 0 else short.decode())
        number += 1 + further
    return found


def _macho(image: bytes) -> set[str]:
    # external, with no section and no size
    return {name for name, kind, value in _macho_symbols(image) if kind == 0x01 and value == 0}


def macho_exports(image: bytes) -> set[str]:
    """What others may use of a Mach-O library or object."""
    # external, not private, and in a section; what begins with two underscores is the linker's
    found = {name for name, kind, _ in _macho_symbols(image) if kind & 0x1F == 0x0F}
    return {name for name in found if not name.startswith("_")}


def _macho_symbols(image: bytes) -> Iterator[tuple[str, int, int]]:
    """Of each symbol its name, the byte that says what it is, and its value."""
    (count,) = struct.unpack_from("<I", image, 16)
    place = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", image, place)
        if command == 2:
            symbols, number, names, _ = struct.unpack_from("<IIII", image, place + 8)
            for at in range(symbols, symbols + 16 * number, 16):
                name, kind, _, _, value = struct.unpack_from("<IBBHQ", image, at)
                yield _text(image, names + name).removeprefix("_"), kind, value
        place += size


def _wasm(image: bytes) -> set[str]:
    found, place = set(), 8

    def number() -> int:
        nonlocal place
        result = shift = 0
        while True:
            byte = image[place]
            place += 1
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result

    def name() -> str:
        nonlocal place
        size = number()
        place += size
        return image[place - size : place].decode()

    while place < len(image):
        section = image[place]
        place += 1
        end = number() + place
        if section == 2:
            for _ in range(number()):
                name()
                field = name()
                kind = image[place]
                place += 1
                if kind == 0:
                    number()
                    found.add(field)
                elif kind == 1:
                    place += 1
                    if number() & 1:
                        number()
                    number()
                elif kind == 2:
                    if number() & 1:
                        number()
                    number()
                else:
                    place += 2
        place = end
    return found - {"__stack_pointer"}
