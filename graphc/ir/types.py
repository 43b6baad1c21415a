"""Tensor types: an element type and a shape of symbolic dims. Layout is explicit in ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType

Shape = tuple[Dim, ...]

_WIDTH = 60


@dataclass(slots=True, unsafe_hash=True)
class TensorType:
    """dtype and shape of a value; equal types compare equal."""

    # ``Final`` and not frozen: each node has one, and frozen ones take three times as long to make
    dtype: Final[DType]
    shape: Final[Shape]

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return expressions.product(self.shape)

    @property
    def bytes(self) -> Dim:
        """Bytes of the elements, packed."""
        return self.size * self.dtype.bytes

    @property
    def is_static(self) -> bool:
        """True when every dim is a number."""
        return all(isinstance(dim, int) for dim in self.shape)

    @property
    def stored(self) -> TensorType:
        """How kernels see it: a complex element is its two parts, along a last axis."""
        if not self.dtype.is_complex:
            return self
        return TensorType(self.dtype.part, (*self.shape, 2))

    def with_shape(self, shape: Shape) -> TensorType:
        """The same dtype with another shape."""
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape with another dtype."""
        return TensorType(dtype, self.shape)

    def brief(self) -> str:
        """As text for errors; of a long type, whose dims are formulas, beginning and end."""
        text = str(self)
        return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 20]} … {text[-17:]}"

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    __repr__ = __str__
