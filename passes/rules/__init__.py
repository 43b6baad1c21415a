"""The rules, by subject: identities that the drivers in ``passes.rewrite`` apply.

Invariant: a rule holds exactly under the conditions it states; what is wrong for some input of its
dtypes (NaN, infinities, -0.0, wrap-around) is not here.
"""
