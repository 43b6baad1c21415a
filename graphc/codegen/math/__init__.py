"""Elementary functions of floats as LLVM text, and the calls of them."""
