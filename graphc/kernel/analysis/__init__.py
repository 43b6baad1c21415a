"""What is read off kernels: bounds, index ranges, cost, aliasing, scopes of scratch, task sizes."""
