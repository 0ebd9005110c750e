// Kernels that go through arrays row by row, with the bits of NumPy's functions. This text is
// compiled for T float and for T double, with NAME(x) x_f and x_d.

typedef T NAME(V) __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
#define V NAME(V)
#undef EACH
#define EACH for (int64_t i = 0; i < n; i++)
#define LEAST(x, bound) ((x) > (bound) ? (bound) : (x)) // as NumPy's clip: nan and -0 stay
#define MOST(x, bound) ((x) < (bound) ? (bound) : (x))
#define KERNEL(name) static void NAME(name)(Piece * piece, int64_t first, int64_t last)
#define JOB                                                                                        \
    const Job *job = piece->job;                                                                   \
    const int64_t n = job->length;
#define ROW(k) ((T *)job->a[k] + row * n)

// Processors fetch memory ahead within a page only, which a row may be: fetch the row after x.
static void NAME(fetch)(const T *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 64 / sizeof(T))
        __builtin_prefetch(x + n + i);
}

// NumPy's loops

static void NAME(apply)(int which, T *x, int64_t n) {
    char *arrays[] = {(char *)x, (char *)x};
    intptr_t length = n, steps[] = {sizeof(T), sizeof(T)};
    NAME(loops)[which].function(arrays, &length, steps, NAME(loops)[which].data);
}

// Look for the largest of n numbers, or the smallest with the sign -1. n is at least `lanes`, a
// power of 2. Returns 0 where there are nans or zeros, of which NumPy knows which one to take.
static inline __attribute__((always_inline)) int
NAME(best)(const int lanes, T sign, const T *x, int64_t n, T *out) {
    T best[64];
    int is_nan[64], has_nan = 0;
    for (int k = 0; k < lanes; k++)
        best[k] = sign * x[k], is_nan[k] = 0;
    for (int64_t i = lanes; i < n; i += lanes) {
        i = i < n - lanes ? i : n - lanes;
        for (int k = 0; k < lanes; k++) {
            best[k] = MOST(best[k], sign * x[i + k]);
            is_nan[k] |= x[i + k] != x[i + k];
        }
    }
    for (int k = 0; k < lanes; k++)
        has_nan |= is_nan[k] | (best[k] != best[k]);
#pragma GCC unroll 6
    for (int half = lanes / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            best[k] = MOST(best[k], best[k + half]);
    *out = sign * best[0];
    return !has_nan && best[0] != 0;
}

// Of n numbers, at least 1. NumPy's loop takes longer, 1.6 times as long for many numbers. It
// forgets the errors before it, which are noted unless piece is NULL.
static T NAME(extremum)(Piece *piece, int which, const T *x, int64_t n) {
    T sign = which == MAXIMUM ? 1 : -1, out;
    if (piece) piece->errors |= float_errors();
    if (n >= 64 ? NAME(best)(64, sign, x, n, &out) : n >= 8 ? NAME(best)(8, sign, x, n, &out)
                                                            : NAME(best)(1, sign, x, n, &out))
        return out;
    out = x[0];
    char *arrays[] = {(char *)&out, (char *)(x + 1), (char *)&out};
    intptr_t length = n - 1, steps[] = {0, sizeof(T), 0};
    if (length)
        NAME(loops)[which].function(arrays, &length, steps, NAME(loops)[which].data);
    return out;
}

// Sums, in the order of NumPy's pairwise sum

typedef struct {
    T a, b;
} NAME(Two);

// What the terms of sums are made of, and where what is computed beside them is added.
typedef struct {
    const T *x, *y, *z;
    T number, scale, *to_z, *more;
} NAME(Terms);

typedef NAME(Two) NAME(Leaf)(const NAME(Terms) *terms, int64_t i, int64_t n);

static NAME(Two) NAME(tree)(NAME(Leaf) *leaf, const NAME(Terms) *terms, int64_t i, int64_t n) {
    if (n <= 128 || (n <= 512 && n > 256 && n % 32 == 0))
        return leaf(terms, i, n);
    int64_t half = n / 2;
    half -= half % 8;
    NAME(Two) first = NAME(tree)(leaf, terms, i, half);
    NAME(Two) second = NAME(tree)(leaf, terms, i + half, n - half);
    return (NAME(Two)){first.a + second.a, first.b + second.b};
}

#define FOLD(v) (((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])))
#define FOLD4(v) ((FOLD(v[0]) + FOLD(v[1])) + (FOLD(v[2]) + FOLD(v[3])))
#define FETCH(p) __builtin_prefetch(of.p + i + 4096 / sizeof(T))
#define AT(p) (*(U *)(of.p + i))
// Sums of terms, `term` and `other`, which are computed as vectors U or numbers U: of at most 128,
// or of four times as many as in a quarter, which do not wait for each other.
#define LEAF(name, both, TERMS)                                                                    \
    static NAME(Two) NAME(name)(const NAME(Terms) *terms, int64_t i, int64_t n) {                  \
        const NAME(Terms) of = *terms;                                                             \
        int64_t end = i + n, quarter = n / 4;                                                      \
        NAME(Two) sums = {(T)-0.0, (T)-0.0};                                                       \
        V a[4], b[4];                                                                              \
        for (int k = 0; k < 4; k++)                                                                \
            a[k] = b[k] = (T)-0.0 - (V){0};                                                        \
        if (n > 128) {                                                                             \
            for (int64_t start = i; start < end - 3 * quarter; start += 8)                         \
                for (int k = 0; k < 4; k++) {                                                      \
                    typedef V U;                                                                   \
                    U other = {0};                                                                 \
                    i = start + k * quarter;                                                       \
                    TERMS;                                                                         \
                    a[k] += term;                                                                  \
                    if (both)                                                                      \
                        b[k] += other;                                                             \
                }                                                                                  \
            return (NAME(Two)){FOLD4(a), both ? FOLD4(b) : 0};                                     \
        }                                                                                          \
        if (n >= 8) {                                                                              \
            for (; i < end - n % 8; i += 8) {                                                      \
                typedef V U;                                                                       \
                U other = {0};                                                                     \
                TERMS;                                                                             \
                a[0] += term;                                                                      \
                if (both)                                                                          \
                    b[0] += other;                                                                 \
            }                                                                                      \
            sums.a = FOLD(a[0]), sums.b = both ? FOLD(b[0]) : 0;                                   \
        }                                                                                          \
        for (; i < end; i++) {                                                                     \
            typedef T U;                                                                           \
            U other = 0;                                                                           \
            TERMS;                                                                                 \
            sums.a += term;                                                                        \
            sums.b += other;                                                                       \
        }                                                                                          \
        return sums;                                                                               \
    }

LEAF(plain, 0, FETCH(x); U term = AT(x))
LEAF(products, 0, FETCH(x); FETCH(y); U term = AT(x) * AT(y))
LEAF(deviations, 0, FETCH(x); U d = AT(x) - of.number; U term = d * d)
LEAF(along, 1, FETCH(x); U g = AT(x); U term = g * ((AT(y) - of.number) * of.scale); other = g)
LEAF(slopes, 1, FETCH(x); U g = AT(x); U term = g * ((AT(y) - of.number) * of.scale);
     AT(to_z) += term; AT(more) += g; term *= AT(z); other = g * AT(z))

static T NAME(pairwise)(const T *x, int64_t n) {
    NAME(Terms) terms = {x};
    return NAME(tree)(NAME(plain), &terms, 0, n).a;
}

static T NAME(sum_of)(const T *x, int64_t n) { return (T)zero + NAME(pairwise)(x, n); }

T NAME(gg_sum)(const void *x, int64_t n) { return NAME(sum_of)(x, n); }

static void NAME(look_for_nan)(Piece *piece, const T *restrict x, int64_t n) {
    int found = 0;
    EACH found |= x[i] != x[i];
    if (found)
        piece->errors |= NAN_AS_SUM;
}

// a: x (items, length), out (items)
KERNEL(sum) {
    JOB;
    for (int64_t row = first; row < last; row++)
        ((T *)job->a[1])[row] = NAME(sum_of)(ROW(0), n);
    NAME(look_for_nan)(piece, (T *)job->a[1] + first, last - first);
}

// a: x (items), y (length), out (items, length)
KERNEL(outer_product) {
    JOB;
    const T *restrict y = job->a[1];
    for (int64_t row = first; row < last; row++) {
        const T x = ((T *)job->a[0])[row];
        T *restrict out = ROW(2);
        EACH out[i] = x * y[i];
    }
}

// Add slices at places along an axis, in their order. An item is a strip of the other axes.
// a: x (.., n, length), places (n), out (.., m, length)
KERNEL(add_slices) {
    const Job *job = piece->job;
    const int64_t length = job->length, strips = (length + STRIP - 1) / STRIP;
    const Index *places = job->a[1];
    for (int64_t item = first; item < last; item++) {
        const int64_t lead = item / strips, start = item % strips * STRIP;
        const int64_t n = length - start < STRIP ? length - start : STRIP;
        const T *restrict x = (T *)job->a[0] + lead * job->n * length + start;
        T *restrict out = (T *)job->a[2] + lead * job->m * length + start;
        for (int64_t k = 0; k < job->n; k++, x += length) {
            T *restrict to = out + (places[k] + (places[k] < 0 ? job->m : 0)) * length;
            EACH to[i] += x[i];
        }
    }
}

// Parts of a pairwise sum, as many as a power of two. a: x (n), out (items)
KERNEL(sum_part) {
    const Job *job = piece->job;
    for (int64_t item = first; item < last; item++) {
        int64_t start = 0, n = job->n;
        for (int64_t bit = job->items / 2; bit; bit /= 2) {
            int64_t half = n / 2;
            half -= half % 8;
            start += item & bit ? half : 0;
            n = item & bit ? n - half : half;
        }
        ((T *)job->a[1])[item] = NAME(pairwise)((T *)job->a[0] + start, n);
        NAME(look_for_nan)(piece, (T *)job->a[1] + item, 1);
    }
}

// Sums over the middle axis. a: x (..., n, m), out (..., m). Of the m, an item has `length`.
KERNEL(sum_middle) {
    const Job *job = piece->job;
    const int64_t inner = job->m, items = (inner + job->length - 1) / job->length;
    for (int64_t item = first; item < last; item++) {
        int64_t lead = item / items, start = item % items * job->length;
        int64_t n = inner - start < job->length ? inner - start : job->length;
        const T *restrict x = (T *)job->a[0] + lead * job->n * inner + start;
        T *restrict out = (T *)job->a[1] + lead * inner + start;
        EACH out[i] = (T)zero + x[i];
        for (int64_t row = 1; row < job->n; row++) {
            x += inner;
            EACH out[i] += x[i];
        }
        NAME(look_for_nan)(piece, out, n);
    }
}

// Extrema over the middle axis, as for `sum_middle`.
static void NAME(extrema)(Piece *piece, int which, int64_t first, int64_t last) {
    const Job *job = piece->job;
    const int64_t inner = job->m, items = (inner + job->length - 1) / job->length;
    for (int64_t item = first; item < last; item++) {
        int64_t lead = item / items, start = item % items * job->length;
        intptr_t n = inner - start < job->length ? inner - start : job->length;
        intptr_t steps[] = {sizeof(T), sizeof(T), sizeof(T)};
        T *x = (T *)job->a[0] + lead * job->n * inner + start;
        T *out = (T *)job->a[1] + lead * inner + start;
        memcpy(out, x, n * sizeof(T));
        for (int64_t row = 1; row < job->n; row++) {
            char *arrays[] = {(char *)out, (char *)(x += inner), (char *)out};
            NAME(loops)[which].function(arrays, &n, steps, NAME(loops)[which].data);
        }
    }
}

KERNEL(max_middle) { NAME(extrema)(piece, MAXIMUM, first, last); }
KERNEL(min_middle) { NAME(extrema)(piece, MINIMUM, first, last); }

// a: x (items, length), out (items)
KERNEL(max) {
    JOB;
    for (int64_t row = first; row < last; row++)
        ((T *)job->a[1])[row] = NAME(extremum)(NULL, MAXIMUM, ROW(0), n);
}

KERNEL(min) {
    JOB;
    for (int64_t row = first; row < last; row++)
        ((T *)job->a[1])[row] = NAME(extremum)(NULL, MINIMUM, ROW(0), n);
}

// Softmax and what is made of it

typedef struct {
    T most[TOGETHER], total[TOGETHER], log_of[TOGETHER];
} NAME(Block);

// exp(x - most) in e, where most is the largest of x, and its sum, of which log_of is the logarithm
// if it is wanted. row: its number among `rows`, those of a piece. Short rows are computed together
// when the first one of them comes. Returns the row's place among them.
static int64_t NAME(exponentials)(Piece *piece, const T *restrict x, T *restrict e, int64_t row,
                                  int64_t rows, NAME(Block) *of, int has_log) {
    const int64_t n = piece->job->length, together = LEAST(SHORT / n + 1, TOGETHER);
    const int64_t place = row % together, count = LEAST(rows - row, together);
    if (place) return place;
    NAME(fetch)(x, count * n);
    for (int64_t k = 0; k < count; k++)
        of->most[k] = NAME(extremum)(k ? NULL : piece, MAXIMUM, x + k * n, n);
    for (int64_t k = 0; k < count; k++)
        EACH e[k * n + i] = x[k * n + i] - of->most[k];
    NAME(apply)(EXP, e, count * n);
    for (int64_t k = 0; k < count; k++)
        of->log_of[k] = of->total[k] = NAME(sum_of)(e + k * n, n);
    if (has_log) NAME(apply)(LOG, of->log_of, count);
    return 0;
}

// a: x, out
KERNEL(softmax) {
    JOB;
    NAME(Block) of;
    for (int64_t row = first; row < last; row++) {
        T *restrict y = ROW(1);
        const int64_t k = NAME(exponentials)(piece, ROW(0), y, row - first, last - first, &of, 0);
        EACH y[i] /= of.total[k];
    }
}

// a: g, out, to_x
KERNEL(softmax_vjp) {
    JOB;
    for (int64_t row = first; row < last; row++) {
        const T *restrict g = ROW(0), *restrict out = ROW(1);
        T *restrict y = ROW(2);
        NAME(Terms) terms = {g, out};
        T total = (T)zero + NAME(tree)(NAME(products), &terms, 0, n).a;
        NAME(fetch)(y, n);
        EACH y[i] = (g[i] - total) * out[i];
    }
}

// a: x, out
KERNEL(log_softmax) {
    JOB;
    NAME(Block) of;
    for (int64_t row = first; row < last; row++) {
        const T *restrict x = ROW(0);
        T *restrict y = ROW(1), *e = piece->scratch;
        const int64_t k = NAME(exponentials)(piece, x, e, row - first, last - first, &of, 1);
        NAME(fetch)(y, n);
        EACH y[i] = (x[i] - of.most[k]) - of.log_of[k];
    }
}

// a: g, out, to_x
KERNEL(log_softmax_vjp) {
    JOB;
    for (int64_t row = first; row < last; row++) {
        const T *restrict g = ROW(0);
        T *restrict y = ROW(2);
        T total = NAME(sum_of)(g, n);
        NAME(fetch)(ROW(1), n);
        NAME(fetch)(y, n);
        memcpy(y, ROW(1), n * sizeof(T));
        NAME(apply)(EXP, y, n);
        EACH y[i] = g[i] - y[i] * total;
    }
}

// a: logits, labels (items) as int64, losses (items), to_logits, the cotangents of the losses,
// which are m elements apart; losses or to_logits may be absent. n: the label that does not count.
KERNEL(cross_entropy) {
    JOB;
    T *losses = job->a[2], *to_logits = job->a[3];
    NAME(Block) of;
    for (int64_t row = first; row < last; row++) {
        const int64_t label = ((Index *)job->a[1])[row];
        T *restrict y = to_logits ? ROW(3) : piece->scratch;
        const int64_t k =
            NAME(exponentials)(piece, ROW(0), y, row - first, last - first, &of, losses != NULL);
        const T total = of.total[k];
        if (losses) losses[row] = label == job->n ? 0 : of.log_of[k] - (ROW(0)[label] - of.most[k]);
        if (to_logits && label == job->n) memset(y, 0, n * sizeof(T));
        if (!to_logits || label == job->n) continue;
        const T g = ((T *)job->a[4])[row * job->m], at_label = (y[label] / total - 1) * g;
        EACH y[i] = y[i] / total * g;
        y[label] = at_label;
    }
}

// Normalization. s: eps. n: whether the mean is subtracted.

// The mean of x, or 0 if it is not subtracted, and the reciprocal of the standard deviation.
static NAME(Two) NAME(statistics)(const Job *job, const T *x) {
    const int64_t n = job->length;
    NAME(Terms) terms = {.x = x, .number = job->n ? NAME(sum_of)(x, n) / (T)n : 0};
    T squares = (T)zero + NAME(tree)(NAME(deviations), &terms, 0, n).a;
    T scale = (T)sqrt((double)n) / (T)sqrt(squares + (T)(job->s * (double)n));
    return (NAME(Two)){terms.number, scale};
}

// The array that is given, or else one of these numbers in memory.
static T *NAME(or)(const T *given, T number, T *memory, int64_t n) {
    if (!given)
        EACH memory[i] = number;
    return given ? (T *)given : memory;
}

// a: x, weight, bias, out
KERNEL(layer_norm) {
    JOB;
    T *scratch = piece->scratch;
    const T *restrict w = NAME(or)(job->a[1], 1, scratch, n);
    const T *restrict b = NAME(or)(job->a[2], (T)-0.0, scratch + n, n);
    for (int64_t row = first; row < last; row++) {
        const T *restrict x = ROW(0);
        T *restrict y = ROW(3);
        NAME(Two) of = NAME(statistics)(job, x);
        NAME(fetch)(y, n);
        EACH y[i] = (x[i] - of.a) * of.b * w[i] + b[i];
    }
}

enum { NAME(BLOCK) = 64 }; // rows whose contributions to the weight's gradient are added first

// An item has BLOCK rows, of m in all.
// a: g, x, weight, to_x, sums of g * out and of g over each block (items, 2, length)
KERNEL(layer_norm_vjp) {
    JOB;
    T *to_w = piece->scratch, *to_b = to_w + n; // aligned, which saves a sixth of the time
    const T *restrict w = NAME(or)(job->a[2], 1, to_b + n, n);
    for (int64_t item = first; item < last; item++) {
        int64_t start = item * NAME(BLOCK), end = start + NAME(BLOCK);
        end = end < job->m ? end : job->m;
        NAME(or)(NULL, (T)zero, to_w, 2 * n);
        for (int64_t row = start; row < end; row++) {
            const T *restrict g = ROW(0), *restrict x = ROW(1);
            T *restrict y = ROW(3);
            NAME(Two) of = NAME(statistics)(job, x);
            NAME(Terms) terms = {g, x, w, of.a, of.b, to_w, to_b};
            NAME(Two) found = NAME(tree)(NAME(slopes), &terms, 0, n);
            if (!job->a[3])
                continue;
            NAME(fetch)(y, n);
            T along = ((T)zero + found.a) / (T)n;
            T total = job->n ? ((T)zero + found.b) / (T)n : 0;
            EACH y[i] = (g[i] * w[i] - total - (x[i] - of.a) * of.b * along) * of.b;
        }
        if (job->a[4])
            memcpy((T *)job->a[4] + item * 2 * n, to_w, 2 * n * sizeof(T));
    }
}

// Groups of channels. A row is a group, and a channel has t elements of it. n: 1. m: groups.

// a: x, weight, bias, out
KERNEL(group_norm) {
    JOB;
    const int64_t each = job->t, size = n / each;
    for (int64_t row = first; row < last; row++) {
        const int64_t channel = row % job->m * size;
        const T *w = job->a[1], *b = job->a[2], *restrict x = ROW(0);
        T *restrict y = ROW(3);
        const NAME(Two) of = NAME(statistics)(job, x);
        NAME(fetch)(y, n);
        for (int64_t k = 0; k < size; k++, x += each, y += each) {
            const T factor = w ? of.b * w[channel + k] : of.b, more = b ? b[channel + k] : (T)-0.0;
            for (int64_t i = 0; i < each; i++)
                y[i] = (x[i] - of.a) * factor + more;
        }
    }
}

// a: g, x, weight, to_x or NULL, sums of g * out and of g of each channel (2, items, size)
KERNEL(group_norm_vjp) {
    JOB;
    const int64_t each = job->t, size = n / each;
    T *weighted = piece->scratch, *weighted_g = weighted + size;
    for (int64_t row = first; row < last; row++) {
        const T *restrict g = ROW(0), *restrict x = ROW(1), *w = job->a[2];
        T *sums = (T *)job->a[4] + row * size, *sums_of_g = sums + job->items * size;
        w = w ? w + row % job->m * size : NULL;
        const NAME(Two) of = NAME(statistics)(job, x);
        for (int64_t k = 0; k < size; k++) {
            NAME(Terms) terms = {g + k * each, x + k * each, .number = of.a, .scale = of.b};
            const NAME(Two) found = NAME(tree)(NAME(along), &terms, 0, each);
            sums[k] = (T)zero + found.a, sums_of_g[k] = (T)zero + found.b;
            weighted[k] = w ? sums[k] * w[k] : sums[k];
            weighted_g[k] = w ? sums_of_g[k] * w[k] : sums_of_g[k];
        }
        if (!job->a[3])
            continue;
        const T slope = NAME(sum_of)(weighted, size) * of.b / (T)n;
        const T shift = NAME(sum_of)(weighted_g, size) * of.b / (T)n;
        T *restrict y = ROW(3);
        NAME(fetch)(y, n);
        for (int64_t k = 0; k < size; k++, g += each, x += each, y += each) {
            const T factor = w ? of.b * w[k] : of.b;
            for (int64_t i = 0; i < each; i++)
                y[i] = g[i] * factor - ((x[i] - of.a) * of.b * slope + shift);
        }
    }
}

// Channels of a batch of n examples. An item is one of m channels. s: eps.

// Add up the terms of a channel: those of an example first, as NumPy does.
static NAME(Two) NAME(of_channel)(const Job *job, NAME(Leaf) *leaf, NAME(Terms) terms) {
    NAME(Two) sums = {(T)zero, (T)zero};
    for (int64_t k = 0; k < job->n; k++) {
        const NAME(Two) found = NAME(tree)(leaf, &terms, k * job->m * job->length, job->length);
        sums.a += found.a, sums.b += found.b;
    }
    return sums;
}

// a: x, weight, bias, out, the mean and the variance of each channel (2, items)
KERNEL(batch_norm) {
    JOB;
    const T *w = job->a[1], *b = job->a[2], count = (T)(n * job->n);
    for (int64_t row = first; row < last; row++) {
        NAME(Terms) terms = {.x = ROW(0)};
        const T mean = terms.number = NAME(of_channel)(job, NAME(plain), terms).a / count;
        const T variance = NAME(of_channel)(job, NAME(deviations), terms).a / count;
        const T scale = 1 / (T)sqrt(variance + (T)job->s);
        const T factor = w ? scale * w[row] : scale, more = b ? b[row] : (T)-0.0;
        ((T *)job->a[4])[row] = mean, ((T *)job->a[4])[row + job->m] = variance;
        for (int64_t k = 0; k < job->n; k++) {
            const T *restrict x = ROW(0) + k * job->m * n;
            T *restrict y = ROW(3) + k * job->m * n;
            EACH y[i] = (x[i] - mean) * factor + more;
        }
    }
}

// a: g, x, weight, to_x or NULL, sums of g * out and of g of each channel (2, items)
KERNEL(batch_norm_vjp) {
    JOB;
    const T *w = job->a[2], count = (T)(n * job->n);
    for (int64_t row = first; row < last; row++) {
        NAME(Terms) terms = {.x = ROW(1)};
        const T mean = terms.number = NAME(of_channel)(job, NAME(plain), terms).a / count;
        const T variance = NAME(of_channel)(job, NAME(deviations), terms).a / count;
        const T scale = 1 / (T)sqrt(variance + (T)job->s);
        terms = (NAME(Terms)){ROW(0), ROW(1), .number = mean, .scale = scale};
        const NAME(Two) sums = NAME(of_channel)(job, NAME(along), terms);
        ((T *)job->a[4])[row] = sums.a, ((T *)job->a[4])[row + job->m] = sums.b;
        const T factor = w ? scale * w[row] : scale, by_count = factor / -count;
        const T slope = sums.a * by_count, shift = sums.b * by_count;
        for (int64_t k = 0; job->a[3] && k < job->n; k++) {
            const T *restrict g = ROW(0) + k * job->m * n, *restrict x = ROW(1) + k * job->m * n;
            T *restrict y = ROW(3) + k * job->m * n;
            EACH y[i] = g[i] * factor + (x[i] - mean) * scale * slope + shift;
        }
    }
}

// a: x, scale and shift of each of m channels, out
KERNEL(scale_channels) {
    JOB;
    for (int64_t row = first; row < last; row++) {
        const T *restrict x = ROW(0);
        T *restrict y = ROW(3);
        const T scale = ((T *)job->a[1])[row % job->m], shift = ((T *)job->a[2])[row % job->m];
        EACH y[i] = x[i] * scale + shift;
    }
}

// a: g, x, mean, sums of g * (x - mean) and of g of each channel (2, items)
KERNEL(sums_of_channels) {
    JOB;
    for (int64_t row = first; row < last; row++) {
        NAME(Terms) terms = {ROW(0), ROW(1), .number = ((T *)job->a[2])[row], .scale = 1};
        const NAME(Two) sums = NAME(of_channel)(job, NAME(along), terms);
        ((T *)job->a[3])[row] = sums.a, ((T *)job->a[3])[row + job->m] = sums.b;
    }
}

// Normalization of a matrix (n, m), whose columns are the channels. An item is STRIP of them.

#define COLUMNS                                                                                    \
    const Job *job = piece->job;                                                                   \
    const int64_t m = job->m;                                                                      \
    for (int64_t item = first, start, n; item < last; item++)                                      \
        if (start = item * STRIP, n = m - start < STRIP ? m - start : STRIP, n > 0)
#define COLUMN(k, row) ((T *)job->a[k] + (row) * m + start)
#define SUMS(sums, term)                                                                           \
    for (int64_t row = 0; row < job->n; row++)                                                     \
        EACH sums[i] = (row ? sums[i] : (T)zero) + (term);

KERNEL(batch_norm_columns) {
    COLUMNS {
        T mean[STRIP], squares[STRIP], factor[STRIP], more[STRIP], *of = job->a[4];
        SUMS(mean, COLUMN(0, row)[i]);
        EACH mean[i] /= (T)job->n;
        SUMS(squares, (COLUMN(0, row)[i] - mean[i]) * (COLUMN(0, row)[i] - mean[i]));
        EACH {
            const T variance = squares[i] / (T)job->n, scale = 1 / (T)sqrt(variance + (T)job->s);
            of[start + i] = mean[i], of[start + i + m] = variance;
            factor[i] = job->a[1] ? scale * COLUMN(1, 0)[i] : scale;
            more[i] = job->a[2] ? COLUMN(2, 0)[i] : (T)-0.0;
        }
        for (int64_t row = 0; row < job->n; row++) {
            const T *restrict x = COLUMN(0, row);
            T *restrict y = COLUMN(3, row);
            EACH y[i] = (x[i] - mean[i]) * factor[i] + more[i];
        }
    }
}

KERNEL(batch_norm_columns_vjp) {
    COLUMNS {
        T mean[STRIP], scale[STRIP], along[STRIP], total[STRIP], factor[STRIP], *of = job->a[4];
        SUMS(mean, COLUMN(1, row)[i]);
        EACH mean[i] /= (T)job->n;
        SUMS(scale, (COLUMN(1, row)[i] - mean[i]) * (COLUMN(1, row)[i] - mean[i]));
        EACH scale[i] = 1 / (T)sqrt(scale[i] / (T)job->n + (T)job->s);
        SUMS(along, COLUMN(0, row)[i] * ((COLUMN(1, row)[i] - mean[i]) * scale[i]));
        SUMS(total, COLUMN(0, row)[i]);
        EACH {
            of[start + i] = along[i], of[start + i + m] = total[i];
            factor[i] = job->a[2] ? scale[i] * COLUMN(2, 0)[i] : scale[i];
            along[i] *= factor[i] / -(T)job->n, total[i] *= factor[i] / -(T)job->n;
        }
        for (int64_t row = 0; job->a[3] && row < job->n; row++) {
            const T *restrict g = COLUMN(0, row), *restrict x = COLUMN(1, row);
            T *restrict y = COLUMN(3, row);
            EACH y[i] = g[i] * factor[i] + (x[i] - mean[i]) * scale[i] * along[i] + total[i];
        }
    }
}

// Maxima of tiles: windows of 1 to 3 lines and 2 or 3 columns that lie side by side, in planes of
// `lines` lines of `line` elements. The first array of each job is a Windows.

#ifndef TILES
#define TILES
// A `Geometry` of backends/windows.py with two axes and, behind them, the axis before them.
typedef struct {
    int64_t lengths[3], size[3], counts[3], stride[3], before[3], dilation[3];
} Windows;

// Of all axes
#define PRODUCT(x) ((x)[0] * (x)[1] * (x)[2])

// Go through the rows of tiles: of the values of tiles, and of the elements, one begins at `at` and
// `from`. The loops go on to a multiple of 8 tiles, which is faster. What they write too much, the
// next row overwrites; where there is none, they do not.
#define EACH_ROW_OF_TILES(...)                                                                     \
    const Windows *w = piece->job->a[0];                                                           \
    const int64_t rows = w->counts[0], columns = w->counts[1], height = w->size[0];                \
    const int64_t lines = w->lengths[0], line = w->lengths[1], width = w->size[1];                 \
    const int64_t many = (columns + 7) & ~(int64_t)7;                                              \
    for (int64_t row = first * rows; row < last * rows; row++) {                                   \
        const int64_t at = row * columns;                                                          \
        const int64_t from = (row / rows * lines + row % rows * height) * line;                    \
        const int64_t end = from + (height - 1) * line + many * width;                             \
        const int has_room = at + many <= last * rows * columns && end <= last * lines * line;     \
        const int64_t n = has_room ? many : columns;                                               \
        if (width == 2)                                                                            \
            BY_HEIGHT(2, __VA_ARGS__)                                                              \
        else                                                                                       \
            BY_HEIGHT(3, __VA_ARGS__)                                                              \
    }
// With the size of tiles as constants, so that there are vectors of tiles.
#define BY_HEIGHT(width_, ...)                                                                     \
    if (height == 1)                                                                               \
        WITH_SIZE(1, width_, __VA_ARGS__)                                                          \
    else if (height == 2)                                                                          \
        WITH_SIZE(2, width_, __VA_ARGS__)                                                          \
    else                                                                                           \
        WITH_SIZE(3, width_, __VA_ARGS__)
#define WITH_SIZE(height_, width_, ...)                                                            \
    {                                                                                              \
        enum { H = height_, W = width_ };                                                          \
        __VA_ARGS__                                                                                \
    }
#define IN_TILE                                                                                    \
    _Pragma("GCC unroll 3") for (int64_t k = 0; k < H; k++)                                        \
        _Pragma("GCC unroll 3") for (int64_t j = 0; j < W; j++)
#define GIVEN(type, k) ((type *)piece->job->a[k])
// A nan is the same as another one.
#define IS_SAME(x, value) (((x) == (value)) | (((x) != (x)) & ((value) != (value))))
#endif

typedef __typeof__(_Generic((T)0, float: (int32_t)0, double: (int64_t)0)) NAME(Integer);
#define Integer NAME(Integer)
typedef Integer NAME(Integers) __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T))));
typedef int8_t NAME(Bytes) __attribute__((vector_size(8), aligned(1)));

// NumPy decides where there is a nan or -0. a: Windows, x, out
KERNEL(tile_maxima) {
    Integer is_open = 0;
    EACH_ROW_OF_TILES({
        const T *restrict x = GIVEN(T, 1) + from;
        T *restrict out = GIVEN(T, 2) + at;
        EACH {
            T best = x[W * i];
            IN_TILE best = MOST(best, x[k * line + W * i + j]);
            out[i] = best;
        }
    })
    const T *restrict x = GIVEN(T, 1);
    for (int64_t i = first * lines * line; i < last * lines * line; i++) {
        Integer bits;
        memcpy(&bits, x + i, sizeof bits);
        is_open |= -(Integer)(x[i] != x[i]) | -(Integer)(bits == (Integer)1 << (8 * sizeof(T) - 1));
    }
    feclearexcept(FE_INVALID); // by comparing with nan
    piece->errors |= is_open ? NAN_AS_SUM : 0;
}

// Where the values of tiles are in them: the number of the first element that is the same, or 0.
// a: Windows, x, values, out
KERNEL(tile_places) {
    Integer *restrict found = piece->scratch;
    EACH_ROW_OF_TILES({
        const T *restrict x = GIVEN(T, 1) + from, *restrict values = GIVEN(T, 2) + at;
        int8_t *restrict out = GIVEN(int8_t, 3) + at;
        EACH {
            Integer place = 0, is_before = 0;
            IN_TILE {
                const Integer is_here = -(Integer)IS_SAME(x[k * line + W * i + j], values[i]);
                place |= is_here & ~is_before & (k * W + j);
                is_before |= is_here;
            }
            found[i] = place;
        }
        for (int64_t i = 0; has_room && i < n; i += 8)
            *(NAME(Bytes) *)(out + i) =
                __builtin_convertvector(*(NAME(Integers) *)(found + i), NAME(Bytes));
        for (int64_t i = 0; !has_room && i < n; i++) out[i] = found[i];
    })
    feclearexcept(FE_INVALID);
}

// Zeros, and the values of tiles at places in them. a: Windows, values, places, out
KERNEL(put_in_tiles) {
    Integer *restrict place = piece->scratch;
    EACH_ROW_OF_TILES({
        const Integer *restrict values = GIVEN(Integer, 1) + at; // their bits
        const int8_t *restrict places = GIVEN(int8_t, 2) + at;
        Integer *restrict out = GIVEN(Integer, 3) + from;
        for (int64_t i = 0; has_room && i < n; i += 8)
            *(NAME(Integers) *)(place + i) =
                __builtin_convertvector(*(NAME(Bytes) *)(places + i), NAME(Integers));
        for (int64_t i = 0; !has_room && i < n; i++) place[i] = places[i];
        for (int64_t k = 0; k < H; k++) {
            EACH for (int64_t j = 0; j < W; j++)
                out[k * line + W * i + j] = -(Integer)(place[i] == k * W + j) & values[i];
            if (line > columns * W)
                memset(out + k * line + columns * W, 0, (line - columns * W) * sizeof(T));
        }
        const int64_t left = row % rows == rows - 1 ? lines - rows * H : 0;
        if (left) memset(out + H * line, 0, left * line * sizeof(T));
    })
}
// The first and the last column of windows whose tap is in the plane.
static inline void NAME(columns_inside)(const Windows *w, int64_t left, int64_t *start,
                                        int64_t *stop) {
    const int64_t step = w->stride[1], room = w->lengths[1] - left; // to the end of the row
    *start = left < 0 ? (step - 1 - left) / step : 0;
    *stop = room > 0 ? (room - 1) / step + 1 : 0;
    *stop = *stop < w->counts[1] ? *stop : w->counts[1];
}

#ifndef FIND
#define FIND(step)                                                                                 \
    for (int64_t i = start; i < stop; i++)                                                         \
        found[i] = IS_SAME(x[(step) * i], values[i]) ? tap : found[i]
#endif

// The same of any windows, which may overlap and reach beyond their plane.
// a: Windows, x, values, out
KERNEL(window_places) {
    const Windows *w = piece->job->a[0];
    const int64_t n = w->counts[1], step = w->stride[1];
    Integer *restrict found = piece->scratch;
    for (int64_t row = first * w->counts[0]; row < last * w->counts[0]; row++) {
        const T *restrict values = GIVEN(T, 2) + row * n;
        int8_t *restrict out = GIVEN(int8_t, 3) + row * n;
        for (int64_t i = 0; i < n; i++) found[i] = 0;
        for (int64_t tap = w->size[0] * w->size[1] - 1; tap >= 0; tap--) {
            const int64_t left = tap % w->size[1] * w->dilation[1] - w->before[1];
            const int64_t y = row % w->counts[0] * w->stride[0] +
                              tap / w->size[1] * w->dilation[0] - w->before[0];
            if (y < 0 || y >= w->lengths[0]) continue;
            int64_t start, stop;
            NAME(columns_inside)(w, left, &start, &stop);
            const int64_t line = row / w->counts[0] * w->lengths[0] + y;
            const T *restrict x = GIVEN(T, 1) + line * w->lengths[1] + left;
            switch (step) { // so that there are vectors for the usual ones
            case 1: FIND(1); break;
            case 2: FIND(2); break;
            default: FIND(step);
            }
        }
        for (int64_t i = 0; i < n; i++) out[i] = found[i];
    }
    feclearexcept(FE_INVALID);
}

// In the order of taps: from the last window to the first one. m: whether no two windows overlap.
// a: Windows, values, places, out
KERNEL(put_in_windows) {
    const Windows *w = piece->job->a[0];
    const int64_t n = w->counts[1], size = w->lengths[0] * w->lengths[1];
    const int64_t taps = w->size[0] * w->size[1];
    int64_t down[128], right[128];
    for (int64_t tap = 0; tap < taps; tap++) {
        down[tap] = tap / w->size[1] * w->dilation[0] - w->before[0];
        right[tap] = tap % w->size[1] * w->dilation[1] - w->before[1];
    }
    memset(GIVEN(T, 3) + first * size, 0, (last - first) * size * sizeof(T));
    for (int64_t row = last * w->counts[0] - 1; row >= first * w->counts[0]; row--) {
        const T *restrict values = GIVEN(T, 1) + row * n;
        const int8_t *restrict places = GIVEN(int8_t, 2) + row * n;
        T *restrict out = GIVEN(T, 3) + row / w->counts[0] * size;
        const int64_t top = row % w->counts[0] * w->stride[0];
        for (int64_t i = n - 1; i >= 0; i--) {
            if (places[i] < 0 || places[i] >= taps) continue;
            const int64_t y = top + down[places[i]], x = i * w->stride[1] + right[places[i]];
            if (y < 0 || y >= w->lengths[0] || x < 0 || x >= w->lengths[1]) continue;
            T *const to = out + y * w->lengths[1] + x;
            *to = piece->job->m ? values[i] : *to + values[i];
        }
    }
}
#undef Integer

// The elements of windows in volumes: at each tap, those of all windows, or 0 outside.
static void NAME(put_windows)(const Windows *w, const T *volumes, int64_t number, T *out) {
    const int64_t n = w->counts[1], step = w->stride[1], taps = PRODUCT(w->size);
    const int64_t in_plane = w->size[0] * w->size[1], rows = w->counts[2] * w->counts[0];
    for (int64_t item = 0; item < number * taps; item++) {
        const int64_t volume = item / taps, deep = item % taps / in_plane, tap = item % in_plane;
        const int64_t left = tap % w->size[1] * w->dilation[1] - w->before[1];
        const int64_t top = tap / w->size[1] * w->dilation[0] - w->before[0];
        int64_t start, stop;
        NAME(columns_inside)(w, left, &start, &stop);
        for (int64_t row = 0; row < rows; row++, out += n) {
            const int64_t y = row % w->counts[0] * w->stride[0] + top;
            const int64_t z =
                row / w->counts[0] * w->stride[2] + deep * w->dilation[2] - w->before[2];
            const int is_inside = y >= 0 && y < w->lengths[0] && z >= 0 && z < w->lengths[2];
            if (!is_inside || start >= stop) {
                memset(out, 0, n * sizeof(T));
                continue;
            }
            const int64_t line = (volume * w->lengths[2] + z) * w->lengths[0] + y;
            const T *x = volumes + line * w->lengths[1] + left;
            for (int64_t i = 0; i < start; i++) out[i] = 0;
            if (step > 1 || stop - start < 8)
                for (int64_t i = start; i < stop; i++) out[i] = x[i * step];
            else { // the last vector may overlap the one before it
                for (int64_t i = start; i < stop - 8; i += 8) *(V *)(out + i) = *(V *)(x + i);
                *(V *)(out + stop - 8) = *(V *)(x + stop - 8);
            }
            for (int64_t i = stop; i < n; i++) out[i] = 0;
        }
    }
}

// a: Windows, x, out
KERNEL(copy_windows) {
    const Windows *w = piece->job->a[0];
    const int64_t of_out = PRODUCT(w->size) * PRODUCT(w->counts);
    const T *x = GIVEN(T, 1) + first * PRODUCT(w->lengths);
    NAME(put_windows)(w, x, last - first, GIVEN(T, 2) + first * of_out);
}

// All kernels with the number of their scratch arrays, and the way into them

#ifndef KERNELS
#define KERNELS(X)                                                                                 \
    X(sum, 0) X(sum_part, 0) X(sum_middle, 0) X(max, 0) X(min, 0) X(outer_product, 0)              \
    X(add_slices, 0) X(max_middle, 0) X(min_middle, 0)                                             \
    X(softmax, 0) X(softmax_vjp, 0) X(log_softmax, 1) X(log_softmax_vjp, 0) X(cross_entropy, 1)    \
    X(layer_norm, 2) X(layer_norm_vjp, 3) X(group_norm, 0) X(group_norm_vjp, 2)                    \
    X(batch_norm, 0) X(batch_norm_vjp, 0) X(batch_norm_columns, 0) X(batch_norm_columns_vjp, 0)    \
    X(scale_channels, 0) X(sums_of_channels, 0)                                                    \
    X(tile_maxima, 0) X(tile_places, 1) X(put_in_tiles, 1) X(window_places, 1)                     \
    X(put_in_windows, 0) X(copy_windows, 0)
#define NAME_OF(name, scratch) #name " "
const char gg_names[] = KERNELS(NAME_OF);
#endif
#ifndef LAYERS // for which the library has other functions
#define KERNEL_OF(name, scratch) {NAME(name), scratch, sizeof(T)},
static const Kernel NAME(kernels)[] = {KERNELS(KERNEL_OF)};

// Returns the errors of floating-point operations. Arrays are given by the addresses of pointers to
// their elements, as array objects have them.
int64_t NAME(gg_rows)(int64_t kernel, int64_t items, int64_t in_piece, int64_t length, int64_t n,
                      int64_t m, double s, double t, void *const *a0, void *const *a1,
                      void *const *a2, void *const *a3, void *const *a4) {
    void *const *given[ARRAYS] = {a0, a1, a2, a3, a4};
    Job job = {{0}, items, in_piece, length, n, m, s, t, NAME(kernels) + kernel};
    for (int i = 0; i < ARRAYS; i++) {
        job.a[i] = given[i] ? *given[i] : NULL;
        if (!IS_ALIGNED(job.a[i], sizeof(T))) return NOT_ALIGNED;
    }
    return run_job(&job);
}
#endif

#undef COLUMNS
#undef COLUMN
#undef SUMS
#undef KERNEL
#undef JOB
#undef LEAF
#undef AT
#undef FOLD
#undef ROW
#undef V
