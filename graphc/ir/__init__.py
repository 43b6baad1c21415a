"""Graph IR: whole tensors, the operations between them, and the graphs that hold both."""
