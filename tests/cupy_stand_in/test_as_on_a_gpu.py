"""All tests that need a GPU (``pytest -m gpu``), run on the stand-in for CuPy.

This file has no tests of its own: `stand_in.py` collects the tests of all other files here.
"""
