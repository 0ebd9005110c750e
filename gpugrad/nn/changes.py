"""Tells compiled functions that an attribute of some module may have changed."""


class _Changes:
    """version: a number that every assignment to an attribute of a module changes."""

    version = 0


changes = _Changes()
