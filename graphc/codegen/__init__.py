"""Kernel IR to LLVM text: mechanical emission, one function per kernel construct."""
