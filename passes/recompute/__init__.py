"""Values that are computed again instead of being kept."""
