"""Plans as text for the cache: quick to read, and independent of the user's lines.

Role: a program from the cache has to be there in milliseconds, which the plan's text form, made for
people, does not allow. Records of a kind that stand side by side are written column by column,
types and dims once each, and bodies of kernels stay text until somebody looks at them. Lines are
written as numbers that the caller gives them a meaning for, so that a program serves sources whose
lines have moved.

What only a compiler needs (the text form of kernels) loads when it is asked for.

Invariant: ``plan_of`` gives what ``plan_text`` was given, but for the arrays of constants and what
is not data. A field of a kind that is not known here is refused when it is written, not when it is
read. The text is as trustworthy as the cache's entry around it; nothing in it is evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import groupby, repeat, starmap
from string import ascii_letters
from typing import TYPE_CHECKING, Any

from graphc.base.errors import UnsupportedError
from graphc.base.source import Location
from graphc.ir import dtypes
from graphc.ir.attributes import Array
from graphc.ir.dims import expressions as dims
from graphc.ir.dims.expressions import Dim, DimExpr
from graphc.ir.guard import Guard
from graphc.ir.types import TensorType
from graphc.kernel.signature import Buffer, Site, Split
from graphc.plan.ir import Branch, ConcurrentGroup, Copy, Jump, Launch, Layout, Plan, Require, Slot
from graphc.plan.memory import MemorySolution

if TYPE_CHECKING:
    from graphc.kernel.ir import Kernel, Statement
    from graphc.kernel.schedule.base import Schedule

_RECORDS: tuple[type, ...] = (
    Slot, Launch, Copy, Branch, Jump, Guard, ConcurrentGroup, Layout, MemorySolution, Buffer, Site,
    Split, Plan, Require,
)  # fmt: skip

_RECORD, _RECORDS_OF, _TYPE, _DIM, _LINE, _KERNEL = "r", "rs", "t", "d", "l", "k"
_PICKED, _RANGE = "p", "n"
"""What an object of one field stands for; everything else is itself, and a list is a tuple."""

_PLAIN = {"type": _TYPE, "where": _LINE}
"""Fields of records that are bare numbers of a type or a line, for speed."""

_OMITTED: Mapping[type, str] = {Plan: "constants"}

_AROUND = ("name", "buffers", "sites", "split")
"""The fields of a kernel that are written beside its text."""


_LETTERS = ascii_letters
_SHORT = 16
"""Lists below this length are written as they are."""


class StoredKernel:
    """A kernel whose statements are read when somebody looks at them; a run needs none of them.

    It has what a ``Kernel`` has, without loading what those are made of.
    """

    __slots__ = (
        "_text", "_whole", "buffers", "dims", "name", "reckoned", "sites", "sizes", "split",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        buffers: tuple[Buffer, ...],
        sites: tuple[Site, ...],
        split: Split | None,
        dims: tuple[str, ...],
        sizes: tuple[DimExpr, ...],
        reckoned: tuple[Dim, ...],
        text: str,
    ) -> None:
        self.name = name
        self.buffers = buffers
        self.sites = sites
        self.split = split
        self.dims = dims
        self.sizes = sizes
        self.reckoned = reckoned
        self._text = text
        self._whole: Kernel | None = None

    @property
    def whole(self) -> Kernel:
        """What the text describes, over these buffers; sites have their lines beside it."""
        if self._whole is None:
            from graphc.kernel.parser import parse_kernel

            self._whole = replace(parse_kernel(self._text, self.buffers), sites=self.sites)
        return self._whole

    @property
    def body(self) -> tuple[Statement, ...]:
        """The statements."""
        return self.whole.body

    @property
    def schedule(self) -> Mapping[Statement, Schedule]:
        """How statements are carried out."""
        return self.whole.schedule

    @property
    def symbols(self) -> frozenset[DimExpr]:
        """The symbols that shapes and statements mention."""
        return self.whole.symbols

    def __repr__(self) -> str:
        return repr(self.whole)


@cache
def _names(record: type) -> tuple[str, ...]:
    """The fields that are written, in the order the record is made from."""
    return tuple(f.name for f in fields(record) if f.name != _OMITTED.get(record))


class _Writer:
    def __init__(self, number_of: Callable[[Location], int]) -> None:
        self.number_of = number_of
        self.dims: dict[DimExpr, int] = {}
        self.types: dict[TensorType, int] = {}
        self.texts: list[str] = []
        self._end = 0

    def data(self, value: Any) -> Any:
        """What JSON writes for a value. Records are nested a few levels deep."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (tuple, list)):
            if len(value) > 1 and all(type(item) in _RECORDS for item in value):
                runs = groupby(value, type)
                return {_RECORDS_OF: [self.run(kind, [*records]) for kind, records in runs]}
            return _compact([self.data(item) for item in value])
        if isinstance(value, TensorType):
            return {_TYPE: self.types.setdefault(value, len(self.types))}
        if isinstance(value, DimExpr):
            return self.dim(value)
        if isinstance(value, Location):
            return {_LINE: self.number_of(value)}
        if type(value) in _RECORDS:
            return {_RECORD: self.run(type(value), [value])}
        return {_KERNEL: self.kernel(value)}

    def kernel(self, value: Any) -> list[Any]:
        from graphc.kernel.ir import Kernel
        from graphc.kernel.printer import print_kernel

        if not isinstance(value, Kernel):
            raise UnsupportedError(f"a plan that holds a {type(value).__name__} cannot be stored")
        bare = replace(value, sites=tuple(replace(site, where=None) for site in value.sites))
        around = [self.data(getattr(value, name)) for name in _AROUND]
        text = print_kernel(bare)
        self.texts.append(text)
        start, self._end = self._end, self._end + len(text)
        around += [self.data(value.sizes), self.data(value.reckoned)]
        return [around, list(value.dims), start, self._end]

    def run(self, kind: type, records: Sequence[Any]) -> list[Any]:
        """Records of one kind: its number, how many there are, and the columns of its fields.

        A column of one and the same number or text is written as that alone. Of many records of
        which few differ these are written, and a letter for each in place of how many there are.
        """
        count: int | str = len(records)
        if len(records) >= _SHORT:
            distinct = [*dict.fromkeys(records)]
            if len(distinct) <= min(len(_LETTERS), len(records) // 2):
                letters = dict(zip(distinct, _LETTERS, strict=False))
                count = "".join(map(letters.__getitem__, records))
                records = distinct
        columns: list[Any] = []
        for name in _names(kind):
            column = [self.data(getattr(record, name)) for record in records]
            table = _PLAIN.get(name)
            if table is not None:
                column = [None if item is None else item[table] for item in column]
            if any(isinstance(item, (list, dict)) for item in column):
                columns.append(column)
                continue
            alike = len({*map(_kind, column)}) == 1
            columns.append(column[0] if alike else _compact(column))
        return [_RECORDS.index(kind), count, *columns]

    def dim(self, dim: DimExpr) -> dict[str, int]:
        return {_DIM: self.dims.setdefault(dim, len(self.dims))}

    def shapes(self) -> list[Any]:
        return [[t.dtype.name, [self.data(dim) for dim in t.shape]] for t in self.types]


def _kind(item: Any) -> tuple[type, Any]:
    """Numbers that are equal may be of two kinds."""
    return type(item), item


def _compact(items: list[Any]) -> Any:
    """What JSON writes for a list: for a long one of few numbers and texts these, and a text that
    has a letter for each item; for evenly spaced numbers where they begin, end and their step."""
    if len(items) < _SHORT or any(isinstance(item, (list, dict)) for item in items):
        return items
    known = dict(zip(dict.fromkeys(map(_kind, items)), _LETTERS, strict=False))
    picked = [known.get(_kind(item)) for item in items]
    if None not in picked:
        return {_PICKED: ["".join(map(str, picked)), [item for _, item in known]]}
    if {*map(type, items)} == {int}:
        step = items[1] - items[0]
        ends = items[0], items[-1] + (1 if step > 0 else -1), step or 1
        if [*range(*ends)] == items:
            return {_RANGE: ends}
    return items


def plan_text(plan: Plan, number_of: Callable[[Location], int]) -> str:
    """All of a plan but the arrays of its constants: two lines, and the texts of kernels.

    Args:
        plan: a placed plan.
        number_of: gives the number of a line, or raises what then comes out of here.

    Raises:
        UnsupportedError: for a plan that has no such form.
    """
    writer = _Writer(number_of)
    body = json.dumps(writer.run(Plan, [plan]), separators=(",", ":"))
    types = writer.shapes()
    head = json.dumps([dims.flatten(*writer.dims), types])
    return "\n".join((head, body, "".join(writer.texts)))


def plan_of(text: str, constants: dict[int, Array], lines: Sequence[Location | None]) -> Plan:
    """The plan of a text.

    Args:
        text: what ``plan_text`` gave.
        constants: the content of constant slots.
        lines: each line by its number.
    """
    head, body, texts = text.split("\n", 2)
    dim_data, type_data = json.loads(head)
    dim_table = dims.restored(*dim_data)
    types = [
        TensorType(
            dtypes.dtype(name),
            tuple(dim if isinstance(dim, int) else dim_table[dim[_DIM]] for dim in shape),
        )
        for name, shape in type_data
    ]
    tables: dict[str, Sequence[Any]] = {_TYPE: types, _DIM: dim_table, _LINE: lines}

    def value_of(data: dict[str, Any]) -> Any:
        ((kind, content),) = data.items()
        if kind == _PICKED:
            letters, values = content
            table = dict(zip(_LETTERS, values, strict=False))
            return [*map(table.__getitem__, letters)]
        if kind == _RANGE:
            return [*range(*content)]
        if kind == _RECORDS_OF:
            return tuple([record for run in content for record in records(run)])
        if kind == _RECORD:
            (record,) = records(content)
            return record
        if kind == _KERNEL:
            around, names, start, end = content
            name, buffers, sites, split, sizes, reckoned = _tuples(around)
            own, text = tuple(names), texts[start:end]
            return StoredKernel(name, buffers, sites, split, own, sizes, reckoned, text)
        return tables[kind][content]

    def records(run: list[Any]) -> Iterable[Any]:
        number, count, *columns = run
        kind = _RECORDS[number]
        if type(count) is int:
            return starmap(kind, fields_of(kind, count, columns))
        made = starmap(kind, fields_of(kind, len({*count}), columns))
        return map(dict(zip(_LETTERS, made, strict=False)).__getitem__, count)

    def fields_of(record: type, count: int, columns: list[Any]) -> Iterable[tuple[Any, ...]]:
        """What each of the records is made of."""
        for place, (name, column) in enumerate(zip(_names(record), columns, strict=True)):
            table = tables.get(_PLAIN.get(name, ""))
            if type(column) is not list:
                item = column if table is None or column is None else table[column]
                columns[place] = repeat(item, count)
            elif table is not None:
                columns[place] = [None if item is None else table[item] for item in column]
            else:
                columns[place] = _tuples(column)
        return zip(*columns, strict=True)

    plan = json.loads(body, object_hook=value_of)
    (values,) = fields_of(Plan, 1, plan[2:])
    given = dict(zip(_names(Plan), values, strict=True))
    return Plan(**given, constants=constants)


def _tuples(items: list[Any]) -> tuple[Any, ...]:
    """Lists as tuples, at every level; they are nested a few levels deep."""
    if list not in map(type, items):
        return tuple(items)
    return tuple(
        [
            item
            if type(item) is not list
            else _tuples(item)
            if list in map(type, item)
            else tuple(item)
            for item in items
        ]
    )


__all__ = ["StoredKernel", "plan_of", "plan_text"]
