// Products of matrices within a piece, by NumPy's own loop. It comes after rows.c.

#ifndef _WIN32 // where that loop is not known
typedef struct {
    char *at;
    int64_t by_row, by_column; // steps in bytes
} Matrix;

typedef T Element __attribute__((aligned(1))); // of masks, too, which may lie anywhere

#define ELEMENT(x, row, column)                                                                    \
    (*(Element *)((x).at + (row) * (x).by_row + (column) * (x).by_column))
static Matrix in_order(T *x, int64_t columns) {
    return (Matrix){(char *)x, columns * sizeof(T), sizeof(T)};
}

static Matrix transposed(Matrix x) { return (Matrix){x.at, x.by_column, x.by_row}; }

// out = x @ y, (rows, inner) times (inner, columns), with the bits of `undivided` in
// backends/numpy/threads.py.
static T *multiplied(int64_t rows, int64_t inner, int64_t columns, Matrix x, Matrix y, T *out) {
    if (inner == 1) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                out[i * columns + j] = ELEMENT(x, i, 0) * ELEMENT(y, 0, j);
        return out;
    }
    T *products = rows * columns == 1 ? malloc(inner * sizeof(T)) : NULL;
    if (products) { // in BLAS, the order of additions may depend on where the vectors lie in memory
        for (int64_t i = 0; i < inner; i++) products[i] = ELEMENT(x, 0, i) * ELEMENT(y, i, 0);
        *out = sum_of(products, inner);
        free(products);
        return out;
    }
    const intptr_t lengths[4] = {1, rows, inner, columns};
    intptr_t steps[9] = {
        0, 0, 0, x.by_row, x.by_column, y.by_row, y.by_column, columns * sizeof(T), sizeof(T)};
    const int of[6] = {1, 2, 2, 3, 1, 3};
    for (int i = 0; i < 6; i++)
        if (lengths[of[i]] == 1) steps[3 + i] = 0; // as NumPy does
    char *args[3] = {x.at, y.at, (char *)out};
    pool.products[sizeof(T) == 8](args, lengths, steps, NULL);
    return out;
}
#endif
