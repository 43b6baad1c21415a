"""Kernel IR to LLVM text: one function for each kernel."""
