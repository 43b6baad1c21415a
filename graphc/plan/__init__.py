"""The plan: a flat table of steps over slots with offsets, run by a native loop."""
