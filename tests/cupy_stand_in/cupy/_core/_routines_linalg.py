"""CuPy's numbers for how exact products are."""

COMPUTE_TYPE_DEFAULT = 1
COMPUTE_TYPE_TF32 = 7
