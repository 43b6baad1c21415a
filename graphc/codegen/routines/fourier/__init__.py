"""The routines of discrete Fourier transforms."""
