"""Special functions, under SciPy's names."""
