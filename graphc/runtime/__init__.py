"""What runs compiled programs: the JIT, buffers, variables, the executor."""
