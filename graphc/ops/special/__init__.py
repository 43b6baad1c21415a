"""Special functions: what SciPy has in ``scipy.special``."""
