"""CuPy's constants for the precision of matrix products."""

COMPUTE_TYPE_DEFAULT = 1
COMPUTE_TYPE_TF32 = 7
