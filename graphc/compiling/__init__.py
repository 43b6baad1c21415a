"""The compiler as a whole: from an extraction to a program, in tiers and from the cache."""
