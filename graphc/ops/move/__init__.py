"""Operations that move elements: shapes, slices, padding, concatenation."""
