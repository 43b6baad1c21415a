"""Programs from the cache: no pass runs and nothing is lowered where the same was compiled before.

What is the same: the graph, with its names and the content of its constants; which of its nodes
share a line of the user; the options; the CPU with its features; and the sources of graphc. Lines
themselves don't count: an entry holds numbers of lines, which are those of the graph at hand, so
errors name today's lines.

Invariant: a program from the cache is the one that compiling would give. Where that can't be told
(an operation of the user's own, whose code may have changed) or where the passes are to be seen at
work, nothing is taken from the cache; the reason is told with each compilation.
"""
