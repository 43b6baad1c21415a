"""What graphc does to programs: passes from a graph to a graph, and the planners.

Invariant: every module here takes frozen data of one level and gives new data of the same level;
nothing here runs a program or writes code.
"""
