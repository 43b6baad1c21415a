"""``implicit``: what solves equations, differentiated by the implicit function theorem.

Where r(x, p) = 0, x changes with p by dr/dx · dx + dr/dp · dp = 0. So the derivative of x needs the
solution and one linear system, whatever way the solution was found. Both rules of the node read the
solution as its own results: derivatives of second order follow the theorem too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.frontend.custom_derivatives import with_rules
from graphc.frontend.derivatives import jacobian
from graphc.frontend.differentiate import differentiable, gradients, jvp
from graphc.frontend.regions import called, check_callable
from graphc.frontend.structure import filled, leaves_like, rebuild
from graphc.ir.builder import apply
from graphc.ir.value import Value
from graphc.ops.convert import as_value
from graphc.ops.linalg.systems import solve
from graphc.ops.move.joining import concatenate
from graphc.ops.move.shape import reshape, reshape_op, swapaxes

LinearSolver = Callable[[Callable[[Any], Any], Any], Any]


def implicit(
    residual: Callable[..., Any],
    solver: Callable[..., Any],
    *parameters: Any,
    linear_solver: LinearSolver | None = None,
    sparsity: Any = None,
) -> Any:
    """The solution x of ``residual(x, *parameters) = 0``, differentiated as such.

    A fixed point of f is where ``lambda x, *p: f(x, *p) - x`` is zero. Gradients and tangents, of
    any order, are those of the implicit function theorem. The solver is not differentiated, so it
    may contain what has no derivative; how exact they are goes by how well it solves.

    Args:
        residual: takes x and the parameters, gives values in the structure of x, of its dtype and
            shapes.
        solver: takes the parameters; gives x, a float value or a nested structure of such.
        parameters: float values, or nested structures of such, by which x can be differentiated. By
            other values that the functions read its derivative is zero.
        linear_solver: takes a function ``product`` and ``right``, both in the structure of x;
            gives u with ``product(u) = right``. The product is by the derivative of the residual
            by x, or by its transpose. Derivatives of second order go through what it computes.
            Without one the matrix is made and ``gx.linalg.solve`` takes n³ steps for n elements.
        sparsity: what may be other than zero in that matrix, as for ``gx.jacobian``: bools [n, n]
            of all elements of x in order. Only without a linear solver.

    Returns:
        What the solver gives.

    Raises:
        DTypeError: for an x or parameters that are not real floats, an x of several dtypes, and a
            residual or a linear solver that gives others.
        ShapeError: for a residual or a linear solver that gives another structure or other sizes.
        GraphError: for functions that don't take these arguments, and without parameters.
        GradientError: for a residual that has no derivative.
        LinAlgError: where the matrix is singular, when the graph runs.
    """
    check_callable("implicit", residual=residual, solver=solver)
    if linear_solver is not None:
        check_callable("implicit", **{"linear solver": linear_solver})
        if sparsity is not None:
            raise GraphError(
                "implicit with a linear solver and a sparsity",
                where=caller(),
                hint="the sparsity is for the matrix that is made without a linear solver",
            )
    given = rebuild(parameters, as_value)
    operands = _floats(given, "the parameters of implicit")
    if not operands:
        raise GraphError(
            "implicit has no parameters", where=caller(), hint="give what x depends on"
        )
    solved = called(solver, given, "the solver of implicit")
    # values of their own, so that a parameter that the solver gives back is told from the solution
    found = [_itself(x) for x in _floats(rebuild(solved, as_value), "the solution of implicit")]
    if len({x.dtype for x in found}) != 1:
        raise DTypeError(
            f"the solution of implicit has dtypes {', '.join(x.dtype.name for x in found)}",
            where=caller(),
            hint="give floats of one dtype; convert with astype",
        )

    def system() -> _System:
        """The equations around values of their own: partial derivatives are by these."""
        unknown, own = _itself(_joined(found)), list(map(_itself, operands))
        arguments = (filled(solved, _parted(unknown, found)), *filled(given, own))
        made = called(residual, arguments, "the residual of implicit")
        return _System(
            unknown, own, _joined(_alike(solved, made, found, "the residual of implicit"))
        )

    def solution(equations: _System, right: Value, is_transposed: bool) -> Value:
        if linear_solver is None:
            matrix = jacobian(equations.residual, equations.unknown, sparsity=sparsity)
            return solve(swapaxes(matrix, 0, 1) if is_transposed else matrix, right)

        def product(vector: Any) -> Any:
            whole = _joined(_alike(solved, vector, found, "the linear solver of implicit"))
            return filled(solved, _parted(equations.product(whole, is_transposed), found))

        made = called(
            linear_solver,
            (product, filled(solved, _parted(right, found))),
            "the linear solver of implicit",
        )
        return _joined(_alike(solved, made, found, "the linear solver of implicit"))

    def gradient(cotangents: list[Value]) -> list[Value]:
        equations = system()
        weights = solution(equations, _joined(cotangents), True)
        pulled: list[Value] = gradients(equations.residual, equations.own, -weights, "zeros")
        return pulled

    def tangent(tangents: list[Value]) -> list[Value]:
        equations = system()
        change = jvp(equations.residual, equations.own, tangents)
        return _parted(solution(equations, -change, False), found)

    rules = {"gradient": gradient, "tangent": tangent}
    return with_rules(filled(solved, found), operands, rules, "implicit")


@dataclass(frozen=True, slots=True, eq=False)
class _System:
    """Equations at their solution.

    Attributes:
        unknown: all elements of the solution, a vector.
        own: the parameters.
        residual: what the equations say of both, a vector as long.
    """

    unknown: Value
    own: list[Value]
    residual: Value

    def product(self, vector: Value, is_transposed: bool) -> Value:
        """The derivative of the residual by the unknown, or its transpose, times a vector."""
        if is_transposed:
            found: Value = gradients(self.residual, self.unknown, vector, "zeros")
        else:
            found = jvp(self.residual, self.unknown, vector)
        return found


def _floats(structure: Any, what: str) -> list[Value]:
    """The values of a structure.

    Raises:
        DTypeError: for other values than real floats.
    """
    found = differentiable(structure, what)
    for value in found:
        if not value.dtype.is_float:
            raise DTypeError(
                f"{what} hold a {value.dtype}",
                where=caller(),
                hint="take gx.real and gx.imag of it, as two values",
            )
    return found


def _alike(like: Any, given: Any, values: Sequence[Value], what: str) -> list[Value]:
    """The values of a structure, which has the types of others.

    Raises:
        DTypeError, ShapeError: if it has not.
    """
    made = list(map(as_value, leaves_like(like, given, f"{what} gives")))
    for place, (value, other) in enumerate(zip(made, values, strict=True)):
        if value.type != other.type:
            wrong = DTypeError if value.dtype is not other.dtype else ShapeError
            raise wrong(
                f"{what} gives {value.type.brief()} for value {place} of the solution, which is "
                f"{other.type.brief()}",
                where=caller(),
                hint="it has the dtype and the shape of what it belongs to",
            )
    return made


def _itself(value: Value) -> Value:
    """A value equal to this one, through which derivatives flow."""
    return apply(reshape_op, value, shape=value.shape)


def _joined(values: Sequence[Value]) -> Value:
    """All elements, as one vector."""
    flat = [reshape(value, (value.size,)) for value in values]
    return concatenate(flat) if len(flat) > 1 else flat[0]


def _parted(vector: Value, like: Iterable[Value]) -> list[Value]:
    """The values of such types of which a vector has the elements."""
    made = []
    first: Any = 0
    for value in like:
        last = first + value.size
        made.append(reshape(vector[first:last], value.shape))
        first = last
    return made
