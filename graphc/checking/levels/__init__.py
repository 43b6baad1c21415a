"""The levels below the graph against each other: kernels, machine code, the plan."""
