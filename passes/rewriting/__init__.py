"""The mechanism of rules: patterns, the driver that applies them, and what it asks of a graph."""
