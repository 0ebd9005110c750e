"""Faster ways to the values of ops, for one array library each: see `Op.twin`."""
