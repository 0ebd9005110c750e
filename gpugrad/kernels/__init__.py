"""Faster implementations of ops, each for one array library: see `Op.twin`."""
