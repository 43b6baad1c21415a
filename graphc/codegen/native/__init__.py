"""The native run time as LLVM text: the loop over a plan, threads, and the entry from Python."""
