"""Small programs that try to get something else from a compiled function than from the function.

Each tries to get a stale value, a lost or repeated side effect, or other bits. `harness` says how a
program is written; every other module has the programs of one family.
"""
