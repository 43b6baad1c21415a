"""Builders of LLVM text, and small pieces of code that do not depend on kernels."""
