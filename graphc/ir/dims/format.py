"""The text of symbolic dimensions.

Role: from terms to characters, above ``graphc.ir.dims.text``.  A minimum or maximum is printed
where the terms are one; what a large dim mentions several times is defined once, in front:
``let(t0 = (n + 1)//2, 2*t0 + max(t0, 2))``.  Invariant: the length is linear in distinct atoms, and
``graphc.ir.dims.expressions.parse_dim`` reads the same dim.
"""

from __future__ import annotations

from graphc.ir.dims.algebra import Atom, Dim, Terms, linear_atom, terms_of
from graphc.ir.dims.pieces import extreme_arms
from graphc.ir.dims.text import RELATION_TEXT, AtomText, format_name, format_polynomial
from graphc.ir.dims.walks import atoms_in_order

# A dim of at most this many atoms is printed without definitions, each atom where it stands.
_LARGEST_PLAIN = 40
# A part of at most this many atoms isn't worth a definition.
_TOO_SMALL = 2


def format_dim(value: Dim) -> str:
    """The text of a dim; see ``graphc.ir.dims.expressions.parse_dim``."""
    atoms = atoms_in_order(value)
    shared = _shared(value, atoms)
    texts: dict[Atom, AtomText] = {}
    definitions: list[str] = []
    taken = {atom.name for atom in atoms if atom.kind == "symbol"} if shared else set()
    names = (name for n in range(len(shared) + len(taken)) if (name := f"t{n}") not in taken)

    def polynomial(terms: Terms) -> AtomText:
        arms = None if shared else extreme_arms(terms)
        if arms is not None:
            kind, left, right = arms
            return AtomText(f"{kind}({polynomial(left).text}, {polynomial(right).text})")
        return format_polynomial(
            [(c, [(texts[atom], power) for atom, power in monomial]) for monomial, c in terms]
        )

    for atom in atoms:
        text = _atom_text(atom, [polynomial(terms_of(a)) for a in atom.arguments])
        if atom in shared:
            name = next(names)
            definitions.append(f"{name} = {text.text}")
            text = AtomText(name)
        texts[atom] = text
    result = polynomial(terms_of(value)).text
    return f"let({', '.join(definitions)}, {result})" if definitions else result


def _atom_text(atom: Atom, arguments: list[AtomText]) -> AtomText:
    if atom.kind == "symbol":
        return AtomText(format_name(atom.name))
    if atom.kind in ("floordiv", "mod"):
        sign = "//" if atom.kind == "floordiv" else " % "
        return AtomText(f"{arguments[0].tight()}{sign}{arguments[1].tight()}", compound=True)
    plain = [argument.text for argument in arguments]
    if atom.kind in RELATION_TEXT:
        plain[:2] = [f"{plain[0]} {RELATION_TEXT[atom.kind]} {plain[1]}"]
        return AtomText(f"select({', '.join(plain)})")
    if atom.kind == "broadcast":
        member, before, after = plain
        kept = [_members(atom.arguments[1], before), member, _members(atom.arguments[2], after)]
        plain = [text for text in kept if text]
    return AtomText(f"{atom.kind}({', '.join(plain)})")


def _members(tree: Dim, text: str) -> str:
    """The sizes that broadcast, without the name of the function; nothing if there are none."""
    if tree == 1:
        return ""
    (monomial, coefficient), *others = terms_of(tree)
    # a multiple of such a set is one size
    is_set = coefficient == 1 and not others and linear_atom(monomial, "broadcast") is not None
    return text.removeprefix("broadcast(").removesuffix(")") if is_set and "(" in text else text


def _shared(value: Dim, atoms: list[Atom]) -> dict[Atom, None]:
    """The atoms worth a definition, in order: none where the text is short without."""
    sizes: dict[Atom, int] = {}
    uses: dict[Atom, int] = {}
    size = 0
    for atom in (*atoms, None):
        size = 1
        for part in atom.arguments if atom is not None else (value,):
            for monomial, _ in terms_of(part):
                for used, _ in monomial:
                    size += sizes[used]
                    uses[used] = uses.get(used, 0) + 1
        if atom is not None:
            sizes[atom] = size
    if size <= _LARGEST_PLAIN:
        return {}
    return {a: None for a in atoms if uses[a] > 1 and sizes[a] > _TOO_SMALL}
