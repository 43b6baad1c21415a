"""What is to be proved, taken apart into cases of which one is true.

A case ends where it can't arise, or where its goal follows from what is known in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from graphc.ir.dims import expressions as dims
from graphc.ir.dims.algebra import Atom, expression, intern_atom, lone_atom, terms_of
from graphc.ir.dims.division import floor_divide
from graphc.ir.dims.expressions import Dim, DimExpr
from graphc.ir.proof.facts import contradict
from graphc.ir.proof.parts import are_equal, at_least, divided, is_negative, parts_in, replaced

_WHOLE = dims.symbol("whole", 1)
_NONE = intern_atom("symbol", "whole", (), (1, 1))


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be proved, and what is known.

    Attributes:
        goal: is to be at least 0.
        indices: each with its extent, which is at least 1; the outermost first.
        facts: are at least 0.
        equal: pairs that are equal.
        either: pairs that are equal, unless the left one is 1.
        unlike: pairs that are not equal.
    """

    goal: Dim
    indices: tuple[tuple[DimExpr, Dim], ...]
    facts: tuple[Dim, ...]
    equal: tuple[tuple[Dim, Dim], ...]
    either: tuple[tuple[Dim, Dim], ...]
    unlike: tuple[tuple[Dim, Dim], ...] = ()

    @property
    def dims(self) -> list[Dim]:
        """All dims but the indices themselves."""
        pairs = (dim for pair in (*self.equal, *self.either) for dim in pair)
        return [self.goal, *(extent for _, extent in self.indices), *self.facts, *pairs]

    def mapped(self, new: Mapping[Atom, Dim]) -> Case:
        """The case with dims in the place of parts."""

        def change(dim: Dim) -> Dim:
            return replaced(dim, new)

        return Case(
            change(self.goal),
            tuple((index, change(extent)) for index, extent in self.indices),
            tuple(map(change, self.facts)),
            tuple((change(a), change(b)) for a, b in self.equal),
            tuple((change(a), change(b)) for a, b in self.either),
            tuple((change(a), change(b)) for a, b in self.unlike),
        )


def follows(case: Case) -> bool:
    """Whether the goal follows from the facts, or these contradict each other."""
    goal, facts = case.goal, list(case.facts)
    if at_least(goal, 0):
        return True
    for left, right in case.equal:
        facts += (left - right, right - left)
    for index, extent in case.indices:
        facts += (extent - 1, extent - 1 - index)
    for atom in parts_in(goal, *facts):
        if atom.kind != "symbol":
            facts += _meaning(atom, expression(atom))
    if any(map(is_negative, facts)):
        return True
    # products with sizes, where the goal has such
    factors = Counter(
        atom
        for monomial, _ in terms_of(goal)
        if sum(power for _, power in monomial) > 1
        for atom, _ in monomial
        if atom.kind == "symbol" and atom.interval[0] >= 0
    )
    often = sorted(factors, key=lambda atom: (-factors[atom], atom.key))[:2]
    facts += [fact * expression(atom) for fact in facts for atom in often]
    return contradict([-1 - goal, *facts])


# --- what is known -------------------------------------------------------------------------------


def simplified(case: Case) -> Case | None:
    """The case with sizes that equal others replaced by them; None if it can't arise."""
    while True:
        kept: list[tuple[Dim, Dim]] = []
        new: dict[Atom, Dim] = {}
        again = False
        call: tuple[Atom, Dim] | None = None
        for left, right in case.equal:
            same = are_equal(left, right)
            if same is False:
                return None
            if same:
                continue
            told = _told(left, right) or _told(right, left)
            if told is not None:
                facts, pairs, unlike = told
                case = replace(
                    case, facts=(*case.facts, *facts), unlike=(*case.unlike, *unlike)
                )
                kept += pairs
                again = True
                continue
            found = _defined(left, right) or _defined(right, left)
            called = _called(left, right) or _called(right, left)
            if again or new or call or not (found or called):
                kept.append((left, right))
            elif found:
                new = dict([found])
            else:
                call = called
        case = replace(case, equal=tuple(kept))
        if again:
            continue
        if call is not None:
            atom, value = call
            meaning = _meaning(atom, value)
            case = replacing(case, atom, value)
            case = replace(case, facts=(*case.facts, *meaning))
            continue
        if not new:
            new = _grown(case)
        if not new:
            break
        try:
            case = case.mapped(new)
        except (ZeroDivisionError, ValueError):
            break
    if any(is_negative(extent - 1) for _, extent in case.indices):
        return None
    case = replace(case, goal=divided(_settled(case.goal)))
    if any(are_equal(left, right) for left, right in case.unlike):
        return None
    return case


def running(case: Case) -> Case:
    """The case with sizes as large as they are where all its loops run."""
    new = _grown(case)
    return case.mapped(new) if new else case


def _grown(case: Case) -> dict[Atom, Dim]:
    """Sizes that are known to be larger than their bounds say, with such bounds.

    A loop that runs has an iteration, and so has each size its extent is a multiple of.
    """
    least = [(size, 1) for _, extent in case.indices for size in _factors(extent)]
    least += [_least(extent - 1) for _, extent in case.indices]
    least += map(_least, case.facts)
    return {
        atom: dims.symbol(atom.name, low, dims.bounds(expression(atom))[1])
        for atom, low in least
        if atom.interval[0] < low <= atom.interval[1]
    }


def _settled(goal: Dim) -> Dim:
    """The goal with numbers for calls whose bounds say that they are one."""
    for atom in parts_in(goal):
        low, high = atom.interval
        if atom.kind != "symbol" and isinstance(low, int) and low == high:
            return _settled(replaced(goal, {atom: low}))
    return goal


def _defined(left: Dim, right: Dim) -> tuple[Atom, Dim] | None:
    """A size and what it equals, if the left dim is one that the right one lacks."""
    atom = lone_atom(left, "symbol")
    if atom is None or atom in parts_in(right):
        return None
    low, high = dims.bounds(right)
    least, most = dims.bounds(left)
    if (least or 0) > (0 if low is None else low) or (most is not None and high != most):
        return None  # what is known of the size would be lost
    return atom, right


def _told(
    left: Dim, right: Dim
) -> tuple[list[Dim], list[tuple[Dim, Dim]], list[tuple[Dim, Dim]]] | None:
    """What a selection that equals a dim tells, if that is not what one of its arms is: facts,
    pairs that are equal and pairs that are not."""
    call = lone_atom(left, "eq", "lt")
    if call is None:
        return None
    one, other, if_so, if_not = call.arguments
    if are_equal(if_so, right) is False:
        if call.kind == "lt":
            return [one - other], [(if_not, right)], []
        return _gaps(one, other), [(if_not, right)], [(one, other)]
    if are_equal(if_not, right) is False:
        if call.kind == "lt":
            return [other - one - 1], [(if_so, right)], []
        return [], [(if_so, right), (one, other)], []
    return None


def _gaps(one: Dim, other: Dim) -> list[Dim]:
    """What is at least 0 as dims differ of which one is known not to be less."""
    return [gap - 1 for gap in (one - other, other - one) if at_least(gap, 0)]


def _called(left: Dim, right: Dim) -> tuple[Atom, Dim] | None:
    """The call that the left dim is, and what it equals, if that does not mention it."""
    call = lone_atom(left)
    if call is None or call.kind == "symbol" or call in parts_in(right):
        return None
    return call, right


def _meaning(atom: Atom, value: Dim) -> list[Dim]:
    """What is at least 0 if a value is that of a call."""
    arguments = atom.arguments
    if atom.kind == "max":
        return [value - argument for argument in arguments]
    if atom.kind in ("floordiv", "mod") and at_least(arguments[1], 1):
        rest = arguments[0] - arguments[1] * value if atom.kind == "floordiv" else value
        return [rest, arguments[1] - 1 - rest]
    return []


def _least(fact: Dim) -> tuple[Atom, int]:
    """A size and how large it is at least, if that is what a fact says."""
    terms = terms_of(fact)
    if len(terms) == 2 and terms[0][1] == 1 and not terms[1][0]:
        monomial = terms[0][0]
        if len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0].kind == "symbol":
            return monomial[0][0], -terms[1][1]
    return _NONE, 1


def _factors(extent: Dim) -> list[Atom]:
    """Sizes that are not 0 if the extent is not: of a product, or what it is a part of."""
    terms = terms_of(extent)
    if len(terms) != 1:
        return []
    inner = lone_atom(extent, "floordiv", "mod")
    if inner is not None:
        return _factors(inner.arguments[0]) if at_least(inner.arguments[1], 1) else []
    return [atom for atom, _ in terms[0][0] if atom.kind == "symbol"]


# --- cases ---------------------------------------------------------------------------------------


def told_apart(case: Case) -> list[Case]:
    """Cases by what the goal itself is made of: by the guards of sizes that it mentions beside what
    they have to be, by calls that choose, and without remainders by numbers."""
    atoms = parts_in(case.goal)
    for number, (left, right) in enumerate(case.either):
        size, whole = lone_atom(left, "symbol"), lone_atom(right)
        if size is None or whole is None or size not in atoms:
            continue
        if whole is size or size in parts_in(replaced(case.goal, {whole: _WHOLE})):
            return either(case, number)
    for atom in atoms:
        if atom.kind in CHOICES:
            return CHOICES[atom.kind](case, atom)
        if atom.kind == "mod":
            value, divisor = atom.arguments
            quotient = floor_divide(value, divisor)
            if isinstance(divisor, int) or any(a in atoms for a in [*parts_in(quotient)][-1:]):
                return [replacing(case, atom, value - divisor * quotient)]
    return []


def either(case: Case, number: int) -> list[Case]:
    """The two cases of a guard that lets a size be 1."""
    left, right = case.either[number]
    rest = replace(case, either=(*case.either[:number], *case.either[number + 1 :]))
    return [replace(rest, equal=(*rest.equal, (left, side))) for side in (1, right)]


def replacing(case: Case, atom: Atom, value: Dim) -> Case:
    """The case with a dim in the place of an atom."""

    return case.mapped({atom: value})


def _of_maximum(case: Case, atom: Atom) -> list[Case]:
    """One operand is the greatest."""
    cases = []
    for chosen in atom.arguments:
        made = replacing(case, atom, chosen)
        others = tuple(chosen - other for other in atom.arguments if other is not chosen)
        cases.append(replace(made, facts=(*made.facts, *others)))
    return cases


def _of_equality(case: Case, atom: Atom) -> list[Case]:
    left, right, if_equal, if_not = atom.arguments
    same = replacing(case, atom, if_equal)
    other = replacing(case, atom, if_not)
    facts = (*other.facts, *_gaps(left, right))
    unlike = (*other.unlike, (left, right))
    return [
        replace(same, equal=(*same.equal, (left, right))),
        replace(other, facts=facts, unlike=unlike),
    ]


def _of_order(case: Case, atom: Atom) -> list[Case]:
    left, right, if_less, if_not = atom.arguments
    less, other = replacing(case, atom, if_less), replacing(case, atom, if_not)
    return [
        replace(less, facts=(*less.facts, right - left - 1)),
        replace(other, facts=(*other.facts, left - right)),
    ]


CHOICES: Mapping[str, Callable[[Case, Atom], list[Case]]] = {
    "max": _of_maximum, "eq": _of_equality, "lt": _of_order,
}  # fmt: skip
"""How a call is split into cases."""


