"""Running passes: the contract of a pass, the manager, instruments around each pass."""
