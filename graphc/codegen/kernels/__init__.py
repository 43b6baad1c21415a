"""Kernels as LLVM functions: statements, loops, and one file for each schedule."""
