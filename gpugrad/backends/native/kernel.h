/* What the text of generated kernels builds on. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef void (*loop_of_numpy)(char **, const int64_t *, const int64_t *, void *);

/* Puts the address of the elements of the array in a register into the table, or returns from the
   kernel, with NOT_ALIGNED of prelude.h, if there is no array or one that is not aligned: of a
   PyListObject, a PyObject and a PyArrayObject. */
#define FIND(k, list, slot, kind)                                                               \
    do {                                                                                        \
        char *item = (*(char ***)((char *)(list) + HEAD + 8))[slot];                            \
        if (*(char **)(item + HEAD - 8) != (kind)) return 64;                                   \
        if (!(*(int *)(item + HEAD + 48) & 0x100)) return 64; /* flags, NPY_ARRAY_ALIGNED */    \
        P[k] = *(char **)(item + HEAD);                                                         \
    } while (0)

/* Where a piece of n elements begins and ends, if all pieces but the last have `part`. */
#define PIECE(n, part)                                                                          \
    const int64_t start = piece * (part);                                                       \
    const int64_t end = start + (part) < (n) ? start + (part) : (n)

#if defined(__clang__)
#define EACH _Pragma("clang loop vectorize(assume_safety)") for
#else
#define EACH _Pragma("GCC ivdep") for
#endif

#define GENERIC(x, name) _Generic((x), float: name##f, double: name)
#define SQRT(x) GENERIC(x, sqrt)(x)
#define FABS(x) GENERIC(x, fabs)(x)
#define FLOOR(x) GENERIC(x, floor)(x)
#define CEIL(x) GENERIC(x, ceil)(x)
#define TRUNC(x) GENERIC(x, trunc)(x)
#define RINT(x) GENERIC(x, rint)(x)
#define COPYSIGN(x, y) GENERIC(x, copysign)(x, y)

/* The bits of a number as those of another type of the same size. */
#define AS(type, x) ({ __typeof__(x) x_ = (x); type y_; memcpy(&y_, &x_, sizeof y_); y_; })

static inline float select_f(uint8_t c, float x, float y) {
    int32_t mask = -(int32_t)(c != 0);
    return AS(float, (AS(int32_t, x) & mask) | (AS(int32_t, y) & ~mask));
}
static inline double select_d(uint8_t c, double x, double y) {
    int64_t mask = -(int64_t)(c != 0);
    return AS(double, (AS(int64_t, x) & mask) | (AS(int64_t, y) & ~mask));
}
static inline int64_t select_q(uint8_t c, int64_t x, int64_t y) { return c ? x : y; }
#define SELECT(c, x, y) _Generic((x), float: select_f, double: select_d, default: select_q)(c, x, y)

/* numpy.clip by numbers: nan and -0 stay, and bounds that are nan give nan. */
static inline float clip_f(float x, float low, float high) {
    x = x < low || low != low ? low : x;
    return x > high || high != high ? high : x;
}
static inline double clip_d(double x, double low, double high) {
    x = x < low || low != low ? low : x;
    return x > high || high != high ? high : x;
}
#define CLIP(x, low, high) _Generic((x), float: clip_f, double: clip_d)(x, low, high)

/* Functions of the libraries, see pool.c, rows.c and table.h. */
typedef void (*gg_run)(void (*)(void *, int64_t), void *, int64_t);
typedef int64_t (*gg_matmul)(int64_t, const int64_t *, const void *, const void *, void *);
typedef float (*gg_sum_f)(const void *, int64_t);
typedef double (*gg_sum_d)(const void *, int64_t);
typedef int64_t (*gg_rows)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, double, double,
                           void *, void *, void *, void *, void *);

/* A long row of n elements, of which `block` computes `count` totals for a part of up to BLOCK. */
typedef struct {
    void (*block)(char **P, int64_t first, int64_t n, double *totals);
    void (*add)(double *a, const double *b); /* a += b, in the types of the totals */
    char **P;
    int64_t n;
    int pieces, count; /* the pieces that threads share, a power of 2 */
    double *totals;    /* those of each piece */
} Row;

static int64_t half_of(int64_t n) { return n / 2 - n / 2 % 8; }

/* The totals of a part, in the order of NumPy's pairwise sum: halves are added. */
static void add_up(const Row *row, int64_t first, int64_t n, double *totals) {
    if (n <= BLOCK) {
        row->block(row->P, first, n, totals);
        return;
    }
    const int64_t half = half_of(n);
    double right[row->count];
    add_up(row, first, half, totals);
    add_up(row, first + half, n - half, right);
    row->add(totals, right);
}

static void add_up_piece(void *context, int64_t piece) {
    const Row *row = context;
    int64_t first = 0, n = row->n;
    for (int bit = row->pieces / 2; bit; bit /= 2) {
        const int64_t half = half_of(n);
        if (piece & bit) first += half, n -= half;
        else n = half;
    }
    add_up(row, first, n, row->totals + piece * row->count);
}

/* Leaves the totals of the row in those of its first piece. */
static void add_up_row(Row *row, gg_run run) {
    run(add_up_piece, row, row->pieces);
    for (int step = 1; step < row->pieces; step *= 2)
        for (int i = 0; i < row->pieces; i += 2 * step)
            row->add(row->totals + i * row->count, row->totals + (i + step) * row->count);
}

/* The errors of a piece, as `float_errors` in pool.c numbers them. NumPy's loops forget earlier ones,
   so they are noted before a loop is called. */
#ifdef NOTES_ERRORS
#include <fenv.h>
static _Thread_local int64_t errors;
static void note_errors(void) {
    const int found = fetestexcept(FE_ALL_EXCEPT);
    errors |= (found & FE_DIVBYZERO ? 1 : 0) | (found & FE_OVERFLOW ? 2 : 0) |
              (found & FE_UNDERFLOW ? 4 : 0) | (found & FE_INVALID ? 8 : 0);
}
#define FIRST_ERRORS (errors = 0, feclearexcept(FE_ALL_EXCEPT))
#define LAST_ERRORS(all) (note_errors(), __atomic_fetch_or((int64_t *)&(all), errors, __ATOMIC_RELAXED))
#else
#define note_errors()
#endif

static inline void call1(char *f, char *data, const void *x, int64_t s, void *y, int64_t n,
                         int64_t size) {
    char *args[] = {(char *)x, y};
    int64_t steps[] = {s, size};
    note_errors();
    ((loop_of_numpy)f)(args, &n, steps, data);
}
static inline void call2(char *f, char *data, const void *x1, int64_t s1, const void *x2,
                         int64_t s2, void *y, int64_t n, int64_t size) {
    char *args[] = {(char *)x1, (char *)x2, y};
    int64_t steps[] = {s1, s2, size};
    note_errors();
    ((loop_of_numpy)f)(args, &n, steps, data);
}
/* Along a row: y is the first element, then f(y, x) for each of the others. */
static inline void reduce(char *f, char *data, const void *x, int64_t size, void *y, int64_t n) {
    memcpy(y, x, size);
    char *args[] = {y, (char *)x + size, y};
    int64_t count = n - 1, steps[] = {0, size, 0};
    if (count) ((loop_of_numpy)f)(args, &count, steps, data);
}
