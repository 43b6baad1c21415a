"""What a library says of itself, as data.

Invariant: a signature is well-formed: everything is of its type, names and numbers fit each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from graphc.base.errors import ArtifactError
from graphc.frontend.structure_data import structure_of
from graphc.ir import dtypes

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
"""What a library may be called, since that begins the names of its functions."""

_LIBRARIES = {
    "shared": ("lib{}.so", "lib{}.dylib", "{}.dll", "{}.wasm"), "object": ("{}.o",),
    "package": ("{}.o",),
}  # fmt: skip
"""The names that machine code may have, by the kind of library."""


class TensorInfo(NamedTuple):
    """An argument, a result or a variable.

    Attributes:
        name: its label.
        dtype: NumPy's name of it.
        shape: ints, and symbolic dims as text.
        read: which of the plan's feeds it is; None where the plan does not need it.
        written: which of the plan's outputs it is, or gets; None for none.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    read: int | None = None
    written: int | None = None

    @property
    def type(self) -> str:
        """dtype and shape, as text."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


class ProgramInfo(NamedTuple):
    """A library's program for one kind of processor.

    Attributes:
        name: of the kind.
        level: the psABI level of x86-64 that it needs, 0 for any processor of the target.
        kernels: how many there are.
        workspace: what a run takes beside its arrays, in bytes, on one thread and at ``sizes``.
        sizes: of the symbolic dims.
        constants: slot, place among the weights, dtype and shape of each.
        plan: see ``graphc.plan.serialize``.
        lines: file, line, column and last column of each line that the plan names.
    """

    name: str
    level: int
    kernels: int
    workspace: int
    sizes: Mapping[str, int]
    constants: tuple[tuple[int, int, str, tuple[int, ...]], ...]
    plan: str
    lines: tuple[tuple[str, int, int | None, int | None], ...]


class WeightsInfo(NamedTuple):
    """Where the weights are.

    Attributes:
        file: the name of the file, None where they are embedded.
        start: where arrays begin in it.
        sha256: of the whole file, or of what is embedded.
    """

    file: str | None
    start: int
    sha256: str


class Signature(NamedTuple):
    """What a library says of itself.

    Attributes:
        graphc_version: of the compiler.
        name: of the library; begins the names of its functions.
        kind: "shared", "object" or "package".
        target, triple: what it was made for, in graphc's and in LLVM's words.
        numerics, fast_math: what it was compiled with.
        threads: whether kernels may run on several threads.
        dims: name, least and greatest size of each symbolic dim.
        arguments: in the order of positional arguments.
        outputs: the values among the results.
        results: the leaves of what a call returns, each the place of an output; None for an effect.
        structure: how they are nested, see ``structure_data``.
        variables: those the program reads or writes.
        initial: where the first value of each lies among the weights.
        programs: the best first.
        weight_bytes: all constants and first values.
        library: the name of the file of machine code.
        weights: where they are.
        digest: a hash of all this, which the machine code knows too.
    """

    graphc_version: str
    name: str
    kind: str
    target: str
    triple: str
    numerics: str
    fast_math: tuple[str, ...]
    threads: bool
    dims: tuple[tuple[str, int, int], ...]
    arguments: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    results: tuple[int | None, ...]
    structure: Any
    variables: tuple[TensorInfo, ...]
    initial: tuple[int, ...]
    programs: tuple[ProgramInfo, ...]
    weight_bytes: int
    library: str
    weights: WeightsInfo
    digest: bytes

    @property
    def needed_files(self) -> set[str]:
        """The names of the files that a run needs."""
        return {self.library, *filter(None, [self.weights.file])}

    @property
    def fetched(self) -> tuple[TensorInfo | None, ...]:
        """The leaves of what a call returns; None for an effect."""
        return tuple(None if place is None else self.outputs[place] for place in self.results)

    def __str__(self) -> str:
        """What ``graphc inspect`` shows: all but the plans, which are long."""
        flags = f", fast_math {', '.join(self.fast_math)}" if self.fast_math else ""
        lines = [
            f"library {self.name!r} ({self.kind}), graphc {self.graphc_version}",
            f"target: {self.target}, {self.triple}",
            f"numerics: {self.numerics}{flags}",
            f"threads: {'as many as are asked for' if self.threads else 'one'}",
            "programs, the best first:",
        ]
        for program in self.programs:
            sizes = ", ".join(f"{name}={size}" for name, size in program.sizes.items())
            lines.append(
                f"  {program.name.replace('_', '-')}: {program.kernels} kernels, workspace "
                f"{program.workspace:,} bytes on one thread{f' at {sizes}' if sizes else ''}"
            )
        lines.append("dims:" if self.dims else "dims: none")
        lines += [f"  {name}: {least} to {greatest:,}" for name, least, greatest in self.dims]
        for title, infos in (
            ("arguments", self.arguments),
            ("results", self.fetched),
            ("variables", self.variables),
        ):
            lines.append(f"{title}:" if infos else f"{title}: none")
            for place, info in enumerate(infos):
                unused = title == "arguments" and info is not None and info.read is None
                lines.append(
                    f"  {place} {'effect' if info is None else info}{', not needed' * unused}"
                )
        stored = self.weights.file
        where = "embedded" if stored is None else f"in {stored}"
        return "\n".join([*lines, f"weights: {self.weight_bytes:,} bytes, {where}"])


def damaged(what: str) -> NoReturn:
    """Refuses a signature, naming the entry that is wrong."""
    raise ArtifactError(f"its signature is damaged at {what!r}", hint="write the library again")


def signature_of(data: Mapping[str, Any], digest: bytes) -> Signature:
    """The signature that a file's content describes.

    Raises:
        ArtifactError: naming the entry that is not as it must be.
    """
    name, kind, library = _text(data, "name"), _text(data, "kind"), _text(data, "library")
    if not IDENTIFIER.fullmatch(name):
        damaged("name")
    if kind not in _LIBRARIES:
        damaged("kind")
    if library not in [pattern.format(name) for pattern in _LIBRARIES[kind]]:
        damaged("library")
    target, threads = data.get("target"), data.get("threads")
    if not isinstance(target, dict):
        damaged("target")
    if type(threads) is not bool:
        damaged("threads")
    outputs = _infos(data, "outputs")
    variables = _infos(data, "variables")
    results = _list(data, "results")
    if [n for n in results if n is not None] != [*range(len(outputs))]:
        damaged("results")
    structure = data.get("structure")
    structure_of(structure, len(results), lambda number: None)
    initial = _numbers(data, "initial")
    if any(isinstance(dim, str) for variable in variables for dim in variable.shape):
        damaged("variables")
    if len(initial) != len(variables):
        damaged("initial")
    programs = tuple(_program(item) for item in _list(data, "programs"))
    if not programs:
        damaged("programs")
    return Signature(
        graphc_version=_text(data, "graphc_version"), name=name, kind=kind,
        target=_text(target, "name"), triple=_text(target, "triple"),
        numerics=_text(data, "numerics"), fast_math=_texts(data, "fast_math"), threads=threads,
        dims=tuple(_dim(item) for item in _list(data, "dims")),
        arguments=_infos(data, "arguments"), outputs=outputs, results=tuple(results),
        structure=structure, variables=variables, initial=initial, programs=programs,
        weight_bytes=_number(data, "weight_bytes"), library=library,
        weights=_weights(data, name), digest=digest,
    )  # fmt: skip


# --- parts ---------------------------------------------------------------------------------------


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        damaged(key)
    return value


def _number(data: Mapping[str, Any], key: str) -> int:
    value = data.get(key)
    if type(value) is not int or not 0 <= value < 2**62:
        damaged(key)
    return value


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        damaged(key)
    return value


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = _list(data, key)
    if not all(isinstance(item, str) for item in value):
        damaged(key)
    return tuple(value)


def _numbers(data: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = _list(data, key)
    if not all(map(_is_size, value)):
        damaged(key)
    return tuple(value)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _is_dtype(name: Any) -> bool:
    return isinstance(name, str) and name in {dtype.name for dtype in dtypes.EVERY}


def _dim(item: Any) -> tuple[str, int, int]:
    if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str):
        damaged("dims")
    name, least, greatest = item
    if not _is_size(least) or not _is_size(greatest):
        damaged("dims")
    return name, least, greatest


def _infos(data: Mapping[str, Any], key: str) -> tuple[TensorInfo, ...]:
    return tuple(_info(item, key) for item in _list(data, key))


def _info(item: Any, where: str) -> TensorInfo:
    if not isinstance(item, dict):
        damaged(where)
    name, dtype, shape = _text(item, "name"), _text(item, "dtype"), item.get("shape")
    if not _is_dtype(dtype) or not isinstance(shape, list) or len(shape) > 64:
        damaged(where)
    if not all(isinstance(dim, str) or _is_size(dim) for dim in shape):
        damaged(where)
    places = item.get("read"), item.get("written")
    if not all(place is None or _is_size(place) for place in places):
        damaged(where)
    return TensorInfo(name, dtype, tuple(shape), *places)


def _weights(data: Mapping[str, Any], name: str) -> WeightsInfo:
    item = data.get("weights")
    if not isinstance(item, dict):
        damaged("weights")
    file = item.get("file")
    if file not in (None, f"{name}.safetensors"):
        damaged("weights")
    return WeightsInfo(file, _number(item, "start"), _text(item, "sha256"))


def _program(item: Any) -> ProgramInfo:
    if not isinstance(item, dict):
        damaged("programs")
    workspace = item.get("workspace")
    if not isinstance(workspace, dict):
        damaged("workspace")
    sizes = workspace.get("dims")
    if not isinstance(sizes, dict) or not all(map(_is_size, sizes.values())):
        damaged("workspace")
    return ProgramInfo(
        name=_text(item, "name"), level=_number(item, "level"), kernels=_number(item, "kernels"),
        workspace=_number(workspace, "bytes"), sizes=sizes,
        constants=tuple(map(_constant, _list(item, "constants"))), plan=_text(item, "plan"),
        lines=tuple(map(_line, _list(item, "lines"))),
    )  # fmt: skip


def _constant(item: Any) -> tuple[int, int, str, tuple[int, ...]]:
    if not isinstance(item, list) or len(item) != 4:
        damaged("constants")
    slot, offset, dtype, shape = item
    if not _is_size(slot) or not _is_size(offset) or not _is_dtype(dtype):
        damaged("constants")
    if not isinstance(shape, list) or len(shape) > 64 or not all(map(_is_size, shape)):
        damaged("constants")
    return slot, offset, dtype, tuple(shape)


def _line(item: Any) -> tuple[str, int, int | None, int | None]:
    if not isinstance(item, list) or len(item) != 4 or not isinstance(item[0], str):
        damaged("lines")
    file, line, *columns = item
    if not _is_size(line) or not all(column is None or _is_size(column) for column in columns):
        damaged("lines")
    return file, line, columns[0], columns[1]


__all__ = [
    "IDENTIFIER",
    "ProgramInfo",
    "Signature",
    "TensorInfo",
    "WeightsInfo",
    "damaged",
    "signature_of",
]
