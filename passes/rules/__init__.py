"""The rules, by subject: identities that the driver in ``passes.rewriting.rewrite`` applies.

Every file of rules has them in a tuple ``RULES``; here they become the sets that passes apply.
Invariant: a rule holds exactly under the conditions it states; what is wrong for some input of its
dtypes (NaN, infinities, -0.0, wrap-around) has a class or flags that say so. Of several rules that
match, the first one fires.
"""

from passes.rewriting.rewrite import RuleSet
from passes.rules import (
    affine,
    arithmetic,
    casts,
    complex_parts,
    fast_math,
    integers,
    logic,
    order,
    products,
    reduce,
    relaxed,
    shape,
    stability,
    strength,
)

ALGEBRA = RuleSet(
    rule
    for subject in (
        complex_parts, arithmetic, integers, logic, order, casts, strength, fast_math, affine,
    )
    for rule in subject.RULES
)
"""What ``simplify`` applies."""

STABILITY = RuleSet(stability.RULES)
"""What ``stabilize`` applies, before and after it looks at exponents."""

SHAPES = RuleSet(rule for subject in (shape, reduce, products) for rule in subject.RULES)
"""What ``shapes`` applies."""

RELAXED = RuleSet(relaxed.RULES)
"""What ``relax`` applies."""

RELAXED_WITHOUT_FMA = RuleSet(relaxed.FUNCTIONS)
"""The same for targets without fused multiply-add."""

RULE_SETS: tuple[RuleSet, ...] = (ALGEBRA, STABILITY, SHAPES, RELAXED)
"""All sets, in the order in which they run."""
