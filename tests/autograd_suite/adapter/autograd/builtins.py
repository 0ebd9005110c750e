from builtins import tuple, type  # noqa: F401
