// Attention and its cotangents, with the bits of the class in kernels/numpy/attention.py. This text
// comes after rows.c and products.h. Each matrix of weights is computed in blocks of queries, by one
// thread each, which keeps what belongs to a block in its cache.

#ifndef _WIN32 // where NumPy's loop of matmul is not known
enum { QUERY, KEY, VALUE, ADDED, OUT, TO_OUT, TO_QUERY, TO_KEY, TO_VALUE, OPERANDS };

// matrices: how many matrices of weights there are. n, m, d, e: as in ops/attention.py.
// in_block: queries in a block. least, key: of dropout, see backends/philox.py; without it, least
// is -1.
typedef struct {
    int64_t matrices, n, m, d, e, in_block, is_causal, least;
    uint64_t key[2];
    struct {
        char *data;           // NULL where there is no such operand, or it is not wanted
        const int64_t *start; // of each matrix, in bytes from there, as are the steps
        int64_t by_row, by_column;
    } operands[OPERANDS];
    double scale, rate; // the latter of weights that dropout keeps
    double lowest;      // what is taken for the largest score where all are less
    _Atomic int64_t errors;
} Attention;

// Which weights of a row dropout keeps: lanes of 16 bits of Philox4x64-10.
static void keep(const Attention *a, int64_t row, int64_t n, uint8_t *kept) {
    const int64_t lanes = 16, blocks = (a->m + lanes - 1) / lanes;
    for (int64_t i = 0; i < n; i += lanes) {
        uint64_t x[4] = {(uint64_t)(row * blocks + i / lanes + 1), 0, 0, 0};
        uint64_t key[2] = {a->key[0], a->key[1]};
        for (int round = 0; round < 10; round++) {
            const unsigned __int128 first = (unsigned __int128)x[0] * 0xD2E7470EE14C6C93;
            const unsigned __int128 second = (unsigned __int128)x[2] * 0xCA5A826395121157;
            x[0] = (uint64_t)(second >> 64) ^ x[1] ^ key[0], x[1] = (uint64_t)second;
            x[2] = (uint64_t)(first >> 64) ^ x[3] ^ key[1], x[3] = (uint64_t)first;
            key[0] += 0x9E3779B97F4A7C15, key[1] += 0xBB67AE8584CAA73B;
        }
        for (int64_t lane = 0; lane < LEAST(lanes, n - i); lane++)
            kept[i + lane] = (int64_t)(x[lane / 4] >> 16 * (lane % 4) & 0xFFFF) >= a->least;
    }
}

// Go through rows y of `from`, which lies in order, and x of `to`, whose elements lie side by side.
#define EACH_PAIR(rows, columns, to, from, ...)                                                    \
    for (int64_t i = 0; i < (rows); i++) {                                                         \
        T *restrict x = (T *)((to).at + i * (to).by_row), *restrict y = (from) + i * (columns);    \
        for (int64_t j = 0; j < (columns); j++) __VA_ARGS__;                                       \
    }

// The rows of a matrix of an operand from the first one on.
static Matrix part(const Attention *a, int which, int64_t matrix, int64_t first) {
    const int64_t by_row = a->operands[which].by_row;
    char *data = a->operands[which].data;
    return (Matrix){data ? data + a->operands[which].start[matrix] + first * by_row : NULL, by_row,
                    a->operands[which].by_column};
}

// A row of weights in place of n scores, before they are divided by their total, which is returned.
// The query may use the first `used` keys. bias: is added to the scores, if there is one.
static T weigh(Piece *piece, T *restrict x, int64_t n, int64_t used, Matrix bias, T lowest) {
    int is_open = 0;
    if (bias.at)
        for (int64_t i = 0; i < used; i++) x[i] += ELEMENT(bias, 0, i);
    for (int64_t i = used; i < n; i++)
        is_open |= !(x[i] + (bias.at ? ELEMENT(bias, 0, i) : 0) < (T)INFINITY);
    T most = extremum(piece, MAXIMUM, x, used);
    if (is_open || !(most - most == 0)) { // nan or infinities, which may reach other keys
        for (int64_t i = used; i < n; i++)
            x[i] = x[i] - (T)INFINITY + (bias.at ? ELEMENT(bias, 0, i) : 0);
        used = n;
        most = MOST(extremum(piece, MAXIMUM, x, n), lowest);
    }
    for (int64_t i = 0; i < used; i++) x[i] -= most;
    apply(EXP, x, used);
    memset(x + used, 0, (n - used) * sizeof(T));
    const T total = sum_of(x, n);
    return total == 0 ? 1 : total;
}

// The cotangents of a row of scores in place of those of the weights, which are divided by `total`.
static void slope(T *restrict g, const T *restrict weights, int64_t n, T total) {
    Terms terms = {weights, g};
    const T mean = ((T)zero + tree(products, &terms, 0, n).a) / total;
    for (int64_t i = 0; i < n; i++) g[i] = (g[i] - mean) * weights[i];
}

// Add rows to those of a matrix, or to zeros if there is none before. All of them are written then.
static void add(int64_t before, int64_t m, int64_t all, int64_t columns, Matrix to, T *rows) {
    if (before) {
        EACH_PAIR(m, columns, to, rows, x[j] += y[j])
        return;
    }
    EACH_PAIR(m, columns, to, rows, x[j] = 0 + y[j])
    for (int64_t i = m; i < all; i++) memset(to.at + i * to.by_row, 0, columns * sizeof(T));
}

// A block of queries of a matrix, from the first one on. memory: for what has `most` elements.
static void attend(Attention *a, int64_t matrix, int64_t first, T *memory, int64_t most) {
    const int64_t d = a->d, e = a->e, n = LEAST(a->n - first, a->in_block);
    const int64_t m = a->is_causal ? LEAST(first + n, a->m) : a->m; // keys that are used
    T *weights = memory, *slopes = weights + a->in_block * a->m;
    T *rows = slopes + a->in_block * a->m, *g = rows + most;
    T *totals = g + a->in_block * e, rate = a->rate;
    uint8_t *kept = a->least < 0 ? NULL : (uint8_t *)(totals + a->in_block);
    const Matrix query = part(a, QUERY, matrix, first), key = part(a, KEY, matrix, 0);
    const Matrix value = part(a, VALUE, matrix, 0), out = part(a, OUT, matrix, first);
    const Matrix bias = part(a, ADDED, matrix, first);
    const Matrix to_out = part(a, TO_OUT, matrix, first);
    const Matrix to_query = part(a, TO_QUERY, matrix, first);
    const Matrix to_key = part(a, TO_KEY, matrix, 0);
    const Matrix to_value = part(a, TO_VALUE, matrix, 0);
    const Matrix weights_ = in_order(weights, m), slopes_ = in_order(slopes, m);
    const Matrix g_ = in_order(g, e);
    Piece piece = {0};
    feclearexcept(FE_ALL_EXCEPT);
    multiplied(n, d, m, query, transposed(key), weights);
    for (int64_t i = 0; i < n; i++) {
        const int64_t used = a->is_causal ? LEAST(first + i + 1, m) : m;
        const Matrix row = {bias.at ? bias.at + i * bias.by_row : NULL, 0, bias.by_column};
        totals[i] = weigh(&piece, weights + i * m, m, used, row, a->lowest);
    }
    for (int64_t i = 0; kept && i < n; i++) keep(a, matrix * a->n + first + i, m, kept + i * m);
    if (out.at) {
        for (int64_t i = 0; kept && i < n * m; i++) weights[i] = kept[i] ? weights[i] : 0;
        for (int64_t i = 0; kept && i < n; i++) totals[i] *= rate;
        multiplied(n, m, e, weights_, value, rows);
        EACH_PAIR(n, e, out, rows, x[j] = y[j] / totals[i])
    } else {
        EACH_PAIR(n, e, to_out, g, y[j] = x[j] / totals[i])
        for (int64_t i = 0; kept && i < n * e; i++) g[i] /= rate;
    }
    if (to_value.at) {
        for (int64_t i = 0; kept && i < n * m; i++) slopes[i] = kept[i] ? weights[i] : 0;
        multiplied(m, n, e, transposed(kept ? slopes_ : weights_), g_, rows);
        add(first, m, a->m, e, to_value, rows);
    }
    if (to_query.at || to_key.at) {
        multiplied(n, e, m, g_, transposed(value), slopes);
        for (int64_t i = 0; kept && i < n * m; i++) slopes[i] = kept[i] ? slopes[i] : 0;
        for (int64_t i = 0; i < n; i++) slope(slopes + i * m, weights + i * m, m, totals[i]);
    }
    if (to_query.at) {
        multiplied(n, m, d, slopes_, key, rows);
        EACH_PAIR(n, d, to_query, rows, x[j] = y[j] * (T)a->scale)
    }
    if (to_key.at) {
        multiplied(m, n, d, transposed(slopes_), query, rows);
        add(first, m, a->m, d, to_key, rows);
    }
    a->errors |= piece.errors | float_errors();
}

// A piece is a block, or all blocks of a matrix, which add to the same cotangents.
static void attend_piece(void *context, int64_t piece) {
    Attention *a = context;
    const int64_t blocks = (a->n + a->in_block - 1) / a->in_block;
    const int64_t longest = a->in_block > a->m ? a->in_block : a->m;
    const int64_t most = longest * (a->d > a->e ? a->d : a->e);
    const int64_t number = a->in_block * (2 * a->m + a->e + 1) + most;
    T *memory = malloc(sizeof(T) * number + (a->least < 0 ? 0 : a->in_block * a->m));
    if (!memory)
        a->errors |= NO_MEMORY;
    else if (a->operands[OUT].data)
        attend(a, piece / blocks, piece % blocks * a->in_block, memory, most);
    else
        for (int64_t i = 0; i < blocks; i++) attend(a, piece, i * a->in_block, memory, most);
    free(memory);
}

// Compute some pieces from one on. numbers: an `Attention` up to its operands, whose data are given
// as for gg_rows. Returns the errors of floating-point operations.
int64_t gg_attention(const int64_t *numbers, double scale, double rate, double lowest,
                     int64_t first, int64_t pieces, int64_t number) {
    Attention a = {.scale = scale, .rate = rate, .lowest = lowest};
    memcpy(&a, numbers, offsetof(Attention, scale));
    for (int i = 0; i < OPERANDS; i++)
        if (a.operands[i].data) a.operands[i].data = *(char **)a.operands[i].data;
    pool.run_by(number, attend_piece, &a, first, pieces);
    return a.errors;
}
#endif
