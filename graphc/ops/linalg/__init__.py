"""Matrix products and Einstein summation."""
