"""What the compiler did, for people: lineage, explanations, profiles, reports."""
