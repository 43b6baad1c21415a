"""A DLL, loaded into a process on Linux on x86-64. What it imports is not there.

Windows differs in what a function may do with registers and how vectors are passed, which is all
inside of the DLL but at its entries; those are called by a function made for it.
"""

from __future__ import annotations

import ctypes
import mmap
import struct

from graphc.runtime.jit import Library, load

_CALL = """
define i64 @call(ptr %f, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %g) {
  %r = call win64cc i64 %f(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %g)
  ret i64 %r
}
"""


class WindowsLibrary:
    """An image of a DLL in memory.

    Attributes:
        addresses: of the exported functions.
        imports_nothing: whether it is whole without other libraries.
    """

    def __init__(self, image: bytes) -> None:
        (header,) = struct.unpack_from("<I", image, 60)
        assert image[header : header + 4] == b"PE\0\0"
        (sections,) = struct.unpack_from("<H", image, header + 6)
        (optional_size,) = struct.unpack_from("<H", image, header + 20)
        optional = header + 24
        (base,) = struct.unpack_from("<Q", image, optional + 24)
        (size,) = struct.unpack_from("<I", image, optional + 56)
        directories = [struct.unpack_from("<II", image, optional + 112 + 8 * n) for n in range(16)]
        self.imports_nothing = directories[1] == (0, 0)
        self._memory = mmap.mmap(
            -1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        )
        for number in range(sections):
            place = optional + optional_size + 40 * number
            _, address, held, offset = struct.unpack_from("<IIII", image, place + 8)
            self._memory[address : address + held] = image[offset : offset + held]
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._relocate(directories[5], self._start - base)
        self.addresses = self._exports(directories[0][0])
        self._library: Library = load(_CALL, ("call",))
        self._call = self._library.function(
            "call", ctypes.c_void_p, *[ctypes.c_int64] * 6, result=ctypes.c_int64
        )

    def _read(self, form: str, place: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self._memory, place)

    def _relocate(self, directory: tuple[int, ...], moved: int) -> None:
        place, end = directory[0], sum(directory)
        while place < end:
            page, size = self._read("<II", place)
            for entry in range(place + 8, place + size, 2):
                (word,) = self._read("<H", entry)
                if word >> 12 == 10:
                    at = page + (word & 0xFFF)
                    (value,) = self._read("<Q", at)
                    struct.pack_into("<Q", self._memory, at, value + moved)
                else:
                    assert word >> 12 == 0
            place += size

    def _exports(self, table: int) -> dict[str, int]:
        count, addresses, names, ordinals = self._read("<IIII", table + 24)
        found = {}
        for number in range(count):
            (name,) = self._read("<I", names + 4 * number)
            (ordinal,) = self._read("<H", ordinals + 2 * number)
            (address,) = self._read("<I", addresses + 4 * ordinal)
            end = self._memory.find(b"\0", name)
            found[self._memory[name:end].decode()] = self._start + address
        return found

    def call(self, function: str, *arguments: int) -> int:
        """Calls a function of up to six integers and addresses."""
        given = [*arguments, *[0] * (6 - len(arguments))]
        result: int = self._call(self.addresses[function], *given)
        return result
