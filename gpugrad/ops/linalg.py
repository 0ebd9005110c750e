"""Linear algebra: decompositions, solvers and norms of matrices and stacks of them."""
