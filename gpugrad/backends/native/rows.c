// Kernels that go through arrays row by row, with the bits of NumPy's functions. This text is
// compiled with T as float, and with T as double.

typedef T V __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
#define EACH for (int64_t i = 0; i < n; i++)
#define LEAST(x, bound) ((x) > (bound) ? (bound) : (x)) // as NumPy's clip: nan and -0 stay
#define MOST(x, bound) ((x) < (bound) ? (bound) : (x))
#define KERNEL(name) static void name(Piece *piece, int64_t first, int64_t last)
#define JOB                                                                                        \
    const Job *job = piece->job;                                                                   \
    const int64_t n = job->length;
#define ROW(k) ((T *)job->a[k] + row * n)

// Processors fetch memory ahead within a page only, which a row may be: fetch the row after x.
static void fetch(const T *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 64 / sizeof(T)) __builtin_prefetch(x + n + i);
}

// NumPy's loops

static void apply(int which, T *x, int64_t n) {
    char *arrays[] = {(char *)x, (char *)x};
    intptr_t length = n, steps[] = {sizeof(T), sizeof(T)};
    loops[which].function(arrays, &length, steps, loops[which].data);
}

// Look for the largest of n numbers, or the smallest with the sign -1. n is at least `lanes`, a
// power of 2. Returns 0 where there are nans or zeros, of which NumPy knows which one to take.
static inline __attribute__((always_inline)) int best(const int lanes, T sign, const T *x,
                                                      int64_t n, T *out) {
    T best[64];
    int is_nan[64], has_nan = 0;
    for (int k = 0; k < lanes; k++) best[k] = sign * x[k], is_nan[k] = 0;
    for (int64_t i = lanes; i < n; i += lanes) {
        i = i < n - lanes ? i : n - lanes;
        for (int k = 0; k < lanes; k++) {
            best[k] = MOST(best[k], sign * x[i + k]);
            is_nan[k] |= x[i + k] != x[i + k];
        }
    }
    for (int k = 0; k < lanes; k++) has_nan |= is_nan[k] | (best[k] != best[k]);
#pragma GCC unroll 6
    for (int half = lanes / 2; half; half /= 2)
        for (int k = 0; k < half; k++) best[k] = MOST(best[k], best[k + half]);
    *out = sign * best[0];
    return !has_nan && best[0] != 0;
}

// Of n numbers, at least 1. NumPy's loop takes longer, 1.6 times as long for many numbers. It
// forgets the errors before it, which are noted unless piece is NULL.
static T extremum(Piece *piece, int which, const T *x, int64_t n) {
    T sign = which == MAXIMUM ? 1 : -1, out;
    if (piece) piece->errors |= float_errors();
    if (n >= 64  ? best(64, sign, x, n, &out)
        : n >= 8 ? best(8, sign, x, n, &out)
                 : best(1, sign, x, n, &out))
        return out;
    out = x[0];
    char *arrays[] = {(char *)&out, (char *)(x + 1), (char *)&out};
    intptr_t length = n - 1, steps[] = {0, sizeof(T), 0};
    if (length) loops[which].function(arrays, &length, steps, loops[which].data);
    return out;
}

// Sums, in the order of NumPy's pairwise sum

typedef struct {
    T a, b;
} Two;

// What the terms of sums are made of, and where what is computed beside them is added.
typedef struct {
    const T *x, *y, *z;
    T number, scale, *to_z, *more;
} Terms;

typedef Two Leaf(const Terms *terms, int64_t i, int64_t n);

static Two tree(Leaf *leaf, const Terms *terms, int64_t i, int64_t n) {
    if (n <= 128 || (n <= 512 && n > 256 && n % 32 == 0)) return leaf(terms, i, n);
    int64_t half = n / 2;
    half -= half % 8;
    Two first = tree(leaf, terms, i, half);
    Two second = tree(leaf, terms, i + half, n - half);
    return (Two){first.a + second.a, first.b + second.b};
}

#define FOLD(v) (((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])))
#define FOLD4(v) ((FOLD(v[0]) + FOLD(v[1])) + (FOLD(v[2]) + FOLD(v[3])))
#define FETCH(p) __builtin_prefetch(of.p + i + 4096 / sizeof(T))
#define AT(p) (*(U *)(of.p + i))
// Sums of terms, `term` and `other`, which are computed as vectors U or numbers U: of at most 128,
// or of four times as many as in a quarter, which do not wait for each other.
#define LEAF(name, both, TERMS)                                                                    \
    static Two name(const Terms *terms, int64_t i, int64_t n) {                                    \
        const Terms of = *terms;                                                                   \
        int64_t end = i + n, quarter = n / 4;                                                      \
        Two sums = {(T) - 0.0, (T) - 0.0};                                                         \
        V a[4], b[4];                                                                              \
        for (int k = 0; k < 4; k++) a[k] = b[k] = (T) - 0.0 - (V){0};                              \
        if (n > 128) {                                                                             \
            for (int64_t start = i; start < end - 3 * quarter; start += 8)                         \
                for (int k = 0; k < 4; k++) {                                                      \
                    typedef V U;                                                                   \
                    U other = {0};                                                                 \
                    i = start + k * quarter;                                                       \
                    TERMS;                                                                         \
                    a[k] += term;                                                                  \
                    if (both) b[k] += other;                                                       \
                }                                                                                  \
            return (Two){FOLD4(a), both ? FOLD4(b) : 0};                                           \
        }                                                                                          \
        if (n >= 8) {                                                                              \
            for (; i < end - n % 8; i += 8) {                                                      \
                typedef V U;                                                                       \
                U other = {0};                                                                     \
                TERMS;                                                                             \
                a[0] += term;                                                                      \
                if (both) b[0] += other;                                                           \
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

static T pairwise(const T *x, int64_t n) {
    Terms terms = {x};
    return tree(plain, &terms, 0, n).a;
}

static T sum_of(const T *x, int64_t n) { return (T)zero + pairwise(x, n); }

T gg_sum(const void *x, int64_t n) { return sum_of(x, n); }

static void look_for_nan(Piece *piece, const T *restrict x, int64_t n) {
    int found = 0;
    EACH found |= x[i] != x[i];
    if (found) piece->errors |= NAN_AS_SUM;
}

// a: x (items, length), out (items)
KERNEL(sum) {
    JOB;
    for (int64_t row = first; row < last; row++) ((T *)job->a[1])[row] = sum_of(ROW(0), n);
    look_for_nan(piece, (T *)job->a[1] + first, last - first);
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
        ((T *)job->a[1])[item] = pairwise((T *)job->a[0] + start, n);
        look_for_nan(piece, (T *)job->a[1] + item, 1);
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
        look_for_nan(piece, out, n);
    }
}

// Extrema over the middle axis, as for `sum_middle`.
static void extrema(Piece *piece, int which, int64_t first, int64_t last) {
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
            loops[which].function(arrays, &n, steps, loops[which].data);
        }
    }
}

KERNEL(max_middle) { extrema(piece, MAXIMUM, first, last); }
KERNEL(min_middle) { extrema(piece, MINIMUM, first, last); }

// a: x (items, length), out (items)
KERNEL(max) {
    JOB;
    for (int64_t row = first; row < last; row++)
        ((T *)job->a[1])[row] = extremum(NULL, MAXIMUM, ROW(0), n);
}

KERNEL(min) {
    JOB;
    for (int64_t row = first; row < last; row++)
        ((T *)job->a[1])[row] = extremum(NULL, MINIMUM, ROW(0), n);
}

// Softmax and what is made of it

typedef struct {
    T most[TOGETHER], total[TOGETHER], log_of[TOGETHER];
} Block;

// exp(x - most) in e, where most is the largest of x, and its sum, of which log_of is the logarithm
// if it is wanted. row: its number among `rows`, those of a piece. Short rows are computed together
// when the first one of them comes. Returns the row's place among them.
static int64_t exponentials(Piece *piece, const T *restrict x, T *restrict e, int64_t row,
                            int64_t rows, Block *of, int has_log) {
    const int64_t n = piece->job->length, together = LEAST(SHORT / n + 1, TOGETHER);
    const int64_t place = row % together, count = LEAST(rows - row, together);
    if (place) return place;
    fetch(x, count * n);
    for (int64_t k = 0; k < count; k++)
        of->most[k] = extremum(k ? NULL : piece, MAXIMUM, x + k * n, n);
    for (int64_t k = 0; k < count; k++) EACH e[k * n + i] = x[k * n + i] - of->most[k];
    apply(EXP, e, count * n);
    for (int64_t k = 0; k < count; k++) of->log_of[k] = of->total[k] = sum_of(e + k * n, n);
    if (has_log) apply(LOG, of->log_of, count);
    return 0;
}

// a: x, out
KERNEL(softmax) {
    JOB;
    Block of;
    for (int64_t row = first; row < last; row++) {
        T *restrict y = ROW(1);
        const int64_t k = exponentials(piece, ROW(0), y, row - first, last - first, &of, 0);
        EACH y[i] /= of.total[k];
    }
}

// a: g, out, to_x
KERNEL(softmax_vjp) {
    JOB;
    for (int64_t row = first; row < last; row++) {
        const T *restrict g = ROW(0), *restrict out = ROW(1);
        T *restrict y = ROW(2);
        Terms terms = {g, out};
        T total = (T)zero + tree(products, &terms, 0, n).a;
        fetch(y, n);
        EACH y[i] = (g[i] - total) * out[i];
    }
}

// a: x, out
KERNEL(log_softmax) {
    JOB;
    Block of;
    for (int64_t row = first; row < last; row++) {
        const T *restrict x = ROW(0);
        T *restrict y = ROW(1), *e = piece->scratch;
        const int64_t k = exponentials(piece, x, e, row - first, last - first, &of, 1);
        fetch(y, n);
        EACH y[i] = (x[i] - of.most[k]) - of.log_of[k];
    }
}

// a: g, out, to_x
KERNEL(log_softmax_vjp) {
    JOB;
    for (int64_t row = first; row < last; row++) {
        const T *restrict g = ROW(0);
        T *restrict y = ROW(2);
        T total = sum_of(g, n);
        fetch(ROW(1), n);
        fetch(y, n);
        memcpy(y, ROW(1), n * sizeof(T));
        apply(EXP, y, n);
        EACH y[i] = g[i] - y[i] * total;
    }
}

// a: logits, labels (items) as int64, losses (items), to_logits, the cotangents of the losses,
// which are m elements apart; losses or to_logits may be absent. n: the label that does not count.
KERNEL(cross_entropy) {
    JOB;
    T *losses = job->a[2], *to_logits = job->a[3];
    Block of;
    for (int64_t row = first; row < last; row++) {
        const int64_t label = ((Index *)job->a[1])[row];
        T *restrict y = to_logits ? ROW(3) : piece->scratch;
        const int64_t k =
            exponentials(piece, ROW(0), y, row - first, last - first, &of, losses != NULL);
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
static Two statistics(const Job *job, const T *x) {
    const int64_t n = job->length;
    Terms terms = {.x = x, .number = job->n ? sum_of(x, n) / (T)n : 0};
    T squares = (T)zero + tree(deviations, &terms, 0, n).a;
    T scale = (T)sqrt((double)n) / (T)sqrt(squares + (T)(job->s * (double)n));
    return (Two){terms.number, scale};
}

// The array that is given, or else one of these numbers in memory.
static T *or(const T *given, T number, T *memory, int64_t n) {
    if (!given) EACH memory[i] = number;
    return given ? (T *)given : memory;
}

// a: x, weight, bias, out
KERNEL(layer_norm) {
    JOB;
    T *scratch = piece->scratch;
    const T *restrict w = or(job->a[1], 1, scratch, n);
    const T *restrict b = or(job->a[2], (T)-0.0, scratch + n, n);
    for (int64_t row = first; row < last; row++) {
        const T *restrict x = ROW(0);
        T *restrict y = ROW(3);
        Two of = statistics(job, x);
        fetch(y, n);
        EACH y[i] = (x[i] - of.a) * of.b * w[i] + b[i];
    }
}

enum { BLOCK = 64 }; // rows whose contributions to the weight's gradient are added first

// An item has BLOCK rows, of m in all.
// a: g, x, weight, to_x, sums of g * out and of g over each block (items, 2, length)
KERNEL(layer_norm_vjp) {
    JOB;
    T *to_w = piece->scratch, *to_b = to_w + n; // aligned, which saves a sixth of the time
    const T *restrict w = or(job->a[2], 1, to_b + n, n);
    for (int64_t item = first; item < last; item++) {
        int64_t start = item * BLOCK, end = start + BLOCK;
        end = end < job->m ? end : job->m;
        or(NULL, (T)zero, to_w, 2 * n);
        for (int64_t row = start; row < end; row++) {
            const T *restrict g = ROW(0), *restrict x = ROW(1);
            T *restrict y = ROW(3);
            Two of = statistics(job, x);
            Terms terms = {g, x, w, of.a, of.b, to_w, to_b};
            Two found = tree(slopes, &terms, 0, n);
            if (!job->a[3]) continue;
            fetch(y, n);
            T along = ((T)zero + found.a) / (T)n;
            T total = job->n ? ((T)zero + found.b) / (T)n : 0;
            EACH y[i] = (g[i] * w[i] - total - (x[i] - of.a) * of.b * along) * of.b;
        }
        if (job->a[4]) memcpy((T *)job->a[4] + item * 2 * n, to_w, 2 * n * sizeof(T));
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
        const Two of = statistics(job, x);
        fetch(y, n);
        for (int64_t k = 0; k < size; k++, x += each, y += each) {
            const T factor = w ? of.b * w[channel + k] : of.b, more = b ? b[channel + k] : (T)-0.0;
            for (int64_t i = 0; i < each; i++) y[i] = (x[i] - of.a) * factor + more;
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
        const Two of = statistics(job, x);
        for (int64_t k = 0; k < size; k++) {
            Terms terms = {g + k * each, x + k * each, .number = of.a, .scale = of.b};
            const Two found = tree(along, &terms, 0, each);
            sums[k] = (T)zero + found.a, sums_of_g[k] = (T)zero + found.b;
            weighted[k] = w ? sums[k] * w[k] : sums[k];
            weighted_g[k] = w ? sums_of_g[k] * w[k] : sums_of_g[k];
        }
        if (!job->a[3]) continue;
        const T slope = sum_of(weighted, size) * of.b / (T)n;
        const T shift = sum_of(weighted_g, size) * of.b / (T)n;
        T *restrict y = ROW(3);
        fetch(y, n);
        for (int64_t k = 0; k < size; k++, g += each, x += each, y += each) {
            const T factor = w ? of.b * w[k] : of.b;
            for (int64_t i = 0; i < each; i++)
                y[i] = g[i] * factor - ((x[i] - of.a) * of.b * slope + shift);
        }
    }
}

// Channels of a batch of n examples. An item is one of m channels. s: eps.

// Add up the terms of a channel: those of an example first, as NumPy does.
static Two of_channel(const Job *job, Leaf *leaf, Terms terms) {
    Two sums = {(T)zero, (T)zero};
    for (int64_t k = 0; k < job->n; k++) {
        const Two found = tree(leaf, &terms, k * job->m * job->length, job->length);
        sums.a += found.a, sums.b += found.b;
    }
    return sums;
}

// a: x, weight, bias, out, the mean and the variance of each channel (2, items)
KERNEL(batch_norm) {
    JOB;
    const T *w = job->a[1], *b = job->a[2], count = (T)(n * job->n);
    for (int64_t row = first; row < last; row++) {
        Terms terms = {.x = ROW(0)};
        const T mean = terms.number = of_channel(job, plain, terms).a / count;
        const T variance = of_channel(job, deviations, terms).a / count;
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
        Terms terms = {.x = ROW(1)};
        const T mean = terms.number = of_channel(job, plain, terms).a / count;
        const T variance = of_channel(job, deviations, terms).a / count;
        const T scale = 1 / (T)sqrt(variance + (T)job->s);
        terms = (Terms){ROW(0), ROW(1), .number = mean, .scale = scale};
        const Two sums = of_channel(job, along, terms);
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
        Terms terms = {ROW(0), ROW(1), .number = ((T *)job->a[2])[row], .scale = 1};
        const Two sums = of_channel(job, along, terms);
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
    for (int64_t row = 0; row < job->n; row++) EACH sums[i] = (row ? sums[i] : (T)zero) + (term);

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

// All kernels with the number of their scratch arrays
#define KERNELS(X)                                                                                 \
    X(sum, 0) X(sum_part, 0) X(sum_middle, 0) X(max, 0) X(min, 0) X(outer_product, 0)              \
    X(add_slices, 0) X(max_middle, 0) X(min_middle, 0) X(softmax, 0) X(softmax_vjp, 0)             \
    X(log_softmax, 1) X(log_softmax_vjp, 0) X(cross_entropy, 1) X(layer_norm, 2)                   \
    X(layer_norm_vjp, 3) X(group_norm, 0) X(group_norm_vjp, 2) X(batch_norm, 0)                    \
    X(batch_norm_vjp, 0) X(batch_norm_columns, 0) X(batch_norm_columns_vjp, 0)                     \
    X(scale_channels, 0) X(sums_of_channels, 0)
