/* A pool of threads, and products of matrices that are divided among them.

   Threads

   gg_run(work, context, pieces) calls work(context, piece) for each piece from 0 on, in any order
   and by several threads, and returns when all calls have returned. The calling thread takes pieces
   too. One thread of the program at a time has the help of others; other calls, and calls from
   within a piece, have all their pieces done by their own thread.

   gg_threads(number) sets how many threads there are, the calling one among them; 1 at first. They
   are made when they are needed. Where there is no work, they wait busily for a moment and sleep.
   gg_after_fork() is called in the child of a fork, which has none of them.

   Products

   gg_matmul(number, d, x1, x2, out) computes what `matmul` in backends/numpy/threads.py computes
   with `number` threads: the same division into the same pieces, so the same bits. With 1 nothing
   is divided. Each piece is computed by NumPy's own loop of `numpy.matmul`, which gg_start is told.
   out must not overlap the operands. Returns which floating-point errors there were: the sum of 1
   for a division by zero, 2 for an overflow, 4 for an underflow, 8 for an invalid operation. The
   caller has OpenBLAS compute with one thread meanwhile (`with_one_thread`).

   d describes a product as constants, all int64_t; steps are in bytes:
     d[0]      dtype: 0 float32, 1 float64, 2 complex64, 3 complex128
     d[1]      how many leading axes the result has
     d[2..4]   rows, inner dimension, columns
     d[5..10]  steps of x1 along rows and inner, of x2 along inner and columns, of out along rows and
               columns
     then for each leading axis, the first one first, its length in the result and the steps of x1,
     x2 and out, which are 0 for an operand that has no such axis or is broadcast along it

   gg_matmul_whole(d, x1, x2, out) is `numpy.matmul` itself: nothing is divided or transposed.

   gg_pieces(number, d) is 4 times the width of the pieces, plus 0 if they are parts of the first
   leading axis, 1 of the rows, 2 of the columns; or 0 if the product is not divided. */
#ifndef _WIN32
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void gg_work(void *context, int64_t piece);
typedef void gg_loop(char **args, const intptr_t *lengths, const intptr_t *steps, void *data);

/* The pool */

#define BUSY 30000 /* nanoseconds of waiting busily before a thread sleeps */

static struct {
    pthread_mutex_t owner; /* held by who has the help */
    pthread_mutex_t lock;  /* of the conditions, of `started` and of `helpers` */
    pthread_cond_t has_work, has_changed;
    gg_work *work;
    void *context;
    int64_t pieces;
    int started;                                    /* threads that there are */
    _Atomic int helpers;                            /* threads that there should be */
    _Atomic int sleeping;                           /* threads that wait for has_work */
    _Atomic int is_waiting;                         /* whether the owner waits for has_changed */
    _Alignas(64) _Atomic int64_t todo;              /* pieces that nobody has begun, if positive */
    _Alignas(64) _Atomic int inside;                /* helpers that may take pieces now */
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
          PTHREAD_COND_INITIALIZER};

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    for (int i = 0; i < 8; i++) __builtin_ia32_pause();
#elif defined(__aarch64__)
    for (int i = 0; i < 8; i++) __asm__ volatile("isb");
#endif
}

static void take_pieces(void) {
    int64_t left;
    while (pool.todo > 0 && (left = atomic_fetch_sub(&pool.todo, 1)) > 0)
        pool.work(pool.context, pool.pieces - left);
}

static void *help(void *argument) {
    const int index = (int)(intptr_t)argument;
    for (;;) {
        int64_t end = now() + BUSY;
        while (pool.todo <= 0 && index < pool.helpers && now() < end) pause_briefly();
        if (pool.todo <= 0 || index >= pool.helpers) {
            pthread_mutex_lock(&pool.lock);
            pool.sleeping++; /* before `todo` is read: who sets that reads this afterwards */
            while (pool.todo <= 0 && index < pool.helpers)
                pthread_cond_wait(&pool.has_work, &pool.lock);
            pool.sleeping--;
            if (index >= pool.helpers) {
                pool.started--;
                pthread_cond_broadcast(&pool.has_changed);
                pthread_mutex_unlock(&pool.lock);
                return NULL;
            }
            pthread_mutex_unlock(&pool.lock);
        }
        pool.inside++; /* from now on, the owner waits */
        take_pieces();
        if (!--pool.inside && pool.is_waiting) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_broadcast(&pool.has_changed);
            pthread_mutex_unlock(&pool.lock);
        }
    }
}

static void start(int number) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 23);
    pthread_mutex_lock(&pool.lock);
    for (; pool.started < number; pool.started++)
        if (pthread_create(&thread, &attributes, help, (void *)(intptr_t)pool.started)) break;
    pthread_mutex_unlock(&pool.lock);
    pthread_attr_destroy(&attributes);
}

void gg_run(gg_work *work, void *context, int64_t pieces) {
    if (pieces < 2 || !pool.helpers || pthread_mutex_trylock(&pool.owner)) {
        for (int64_t i = 0; i < pieces; i++) work(context, i);
        return;
    }
    int useful = pieces - 1 < pool.helpers ? (int)(pieces - 1) : pool.helpers;
    if (pool.started < useful) start(useful);
    pool.work = work, pool.context = context, pool.pieces = pieces;
    pool.todo = pieces;
    if (pool.sleeping) {
        pthread_mutex_lock(&pool.lock);
        for (int i = 0; i < useful; i++) pthread_cond_signal(&pool.has_work);
        pthread_mutex_unlock(&pool.lock);
    }
    take_pieces();
    for (int64_t end = now() + BUSY; pool.inside && now() < end;) pause_briefly();
    if (pool.inside) {
        pthread_mutex_lock(&pool.lock);
        pool.is_waiting = 1;
        while (pool.inside) pthread_cond_wait(&pool.has_changed, &pool.lock);
        pool.is_waiting = 0;
        pthread_mutex_unlock(&pool.lock);
    }
    pthread_mutex_unlock(&pool.owner);
}

void gg_threads(int64_t number) {
    pthread_mutex_lock(&pool.owner);
    pthread_mutex_lock(&pool.lock);
    pool.helpers = (int)number - 1;
    pthread_cond_broadcast(&pool.has_work);
    while (pool.started > pool.helpers) pthread_cond_wait(&pool.has_changed, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.owner);
}

void gg_after_fork(void) {
    const int helpers = pool.helpers;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pool.owner = pool.lock = mutex;
    pool.has_work = pool.has_changed = condition;
    pool.started = pool.sleeping = pool.is_waiting = pool.inside = 0;
    pool.todo = 0;
    pool.helpers = helpers;
}

/* Products */

static struct {
    int64_t header;    /* bytes of an object before what PyArrayObject adds */
    void *dtypes[4];   /* the objects in the order of d[0] */
    gg_loop *loops[4]; /* NumPy's, of matmul */
} numpy;

static struct { int64_t least, piece, small, elements, many, large; } rules; /* see `_pieces` */

static const int64_t SIZES[4] = {4, 8, 8, 16};

typedef struct {
    const int64_t *d;
    char *x[3]; /* both operands and the result */
    int64_t axis, width, count;   /* pieces of the first leading axis (0), rows (1), columns (2) */
    int64_t first;                /* the piece that is piece 0 of a call of gg_run */
    int is_long;                  /* whether all pieces together take long */
    _Atomic int64_t errors;
} Product;

/* Call NumPy's loop for all leading axes from `axis` on, with the first of these `length` long. */
static void all_matrices(const int64_t *d, int64_t axis, int64_t length, const intptr_t *lengths,
                         char *const *x) {
    const int64_t *a = d + 11 + 4 * axis;
    const int is_last = axis + 1 >= d[1];
    if (!is_last) {
        for (int64_t i = 0; i < length; i++) {
            char *next[3] = {x[0] + i * a[1], x[1] + i * a[2], x[2] + i * a[3]};
            all_matrices(d, axis + 1, a[4], lengths, next);
        }
        return;
    }
    intptr_t all[4] = {d[1] ? length : 1, lengths[0], lengths[1], lengths[2]};
    intptr_t steps[9] = {0};
    for (int i = 0; i < 3 && d[1]; i++) steps[i] = a[1 + i];
    /* as NumPy does, 0 where the length is 1 */
    const int of[6] = {1, 2, 2, 3, 1, 3};
    for (int i = 0; i < 6; i++) steps[3 + i] = all[of[i]] == 1 ? 0 : d[5 + i];
    char *args[3] = {x[0], x[1], x[2]};
    numpy.loops[d[0]](args, all, steps, NULL);
}

/* See `_product`: (x2.T @ x1.T).T, where OpenBLAS computes it faster. */
static int by_transposes(const int64_t *d, const intptr_t *l, char *const *x) {
    if (d[0] || d[1] || l[0] < 8 || l[0] > 64 || l[1] < 256 || l[2] < 2 * l[0] ||
        l[0] * l[2] <= rules.elements || d[7] != 4 || d[8] != 4 * l[1])
        return 0;
    float *buffer = malloc(sizeof(float) * l[0] * l[2]);
    if (!buffer) return 0;
    const intptr_t lengths[4] = {1, l[2], l[1], l[0]};
    const intptr_t steps[9] = {0, 0, 0, d[8], d[7], d[6], d[5], 4 * l[0], 4};
    char *args[3] = {x[1], x[0], (char *)buffer};
    numpy.loops[0](args, lengths, steps, NULL);
    for (int64_t i = 0; i < l[0]; i++)
        for (int64_t j = 0; j < l[2]; j++)
            *(float *)(x[2] + i * d[9] + j * d[10]) = buffer[j * l[0] + i];
    free(buffer);
    return 1;
}

static int64_t float_errors(void) {
    const int found = fetestexcept(FE_ALL_EXCEPT);
    return (found & FE_DIVBYZERO ? 1 : 0) + (found & FE_OVERFLOW ? 2 : 0) +
           (found & FE_UNDERFLOW ? 4 : 0) + (found & FE_INVALID ? 8 : 0);
}

static void multiply(void *context, int64_t i) {
    Product *p = context;
    const int64_t *d = p->d;
    intptr_t lengths[3] = {d[2], d[3], d[4]};
    int64_t first = d[1] ? d[11] : 1;
    char *x[3] = {p->x[0], p->x[1], p->x[2]};
    if (p->count > 1) { /* the part of one axis */
        const int64_t all[3] = {first, d[2], d[4]};
        const int64_t steps[3][3] = {
            {d[1] ? d[12] : 0, d[1] ? d[13] : 0, d[1] ? d[14] : 0}, {d[5], 0, d[9]}, {0, d[8], d[10]}};
        const int64_t start = (p->first + i) * p->width, left = all[p->axis] - start;
        const int64_t length = left < p->width ? left : p->width;
        for (int k = 0; k < 3; k++) x[k] += start * steps[p->axis][k];
        if (p->axis == 0) first = length;
        if (p->axis == 1) lengths[0] = length;
        if (p->axis == 2) lengths[2] = length;
    }
    feclearexcept(FE_ALL_EXCEPT);
    if (!by_transposes(d, lengths, x)) all_matrices(d, 0, first, lengths, x);
    p->errors |= float_errors();
}

/* `_pieces`: along which axis a product is divided, and into pieces of which width. */
static void divide(Product *p, int64_t number) {
    const int64_t *d = p->d;
    int64_t work = d[2] * d[3] * d[4], length = d[2] > d[4] ? d[2] : d[4], least = 64, step = 16;
    for (int64_t i = 0; i < d[1]; i++) work *= d[11 + 4 * i];
    p->is_long = work / number > (int64_t)1 << 30;
    p->count = 1;
    if (number < 2 || work < rules.least || p->x[0] == p->x[1]) return;
    const int64_t result = work / d[3];
    p->axis = d[2] >= d[4] ? 1 : 2;
    if (d[1] && d[11] >= number) p->axis = 0, length = d[11], least = step = 1;
    int64_t count = number * (work < rules.large ? 2 : 4);
    if (count > work / rules.piece) count = work / rules.piece;
    if (count > length / least) count = length / least;
    if (p->axis) {
        const int is_transposed = d[3] > 1 && d[4] > 1 && d[7] == SIZES[d[0]];
        int64_t elements = rules.small / d[3];
        if (is_transposed && elements > rules.elements) elements = rules.elements;
        const int64_t width = elements / (result / length) / step * step;
        const int64_t most = 4 * number > rules.many ? 4 * number : rules.many;
        if (width && length <= most * width) count = (length + width - 1) / width;
    }
    if (count < 2) return;
    p->width = (length + count * step - 1) / (count * step) * step;
    p->count = (length + p->width - 1) / p->width;
}

int64_t gg_matmul(int64_t number, const int64_t *d, const void *x1, const void *x2, void *out) {
    Product p = {.d = d, .x = {(char *)x1, (char *)x2, out}};
    divide(&p, number);
    gg_run(multiply, &p, p.count);
    return p.errors;
}

int64_t gg_pieces(int64_t number, const int64_t *d) {
    Product p = {.d = d, .x = {NULL, (char *)d}};
    divide(&p, number);
    return p.count < 2 ? 0 : 4 * p.width + p.axis;
}

int64_t gg_matmul_whole(const int64_t *d, const void *x1, const void *x2, void *out) {
    const intptr_t lengths[3] = {d[2], d[3], d[4]};
    char *const x[3] = {(char *)x1, (char *)x2, out};
    feclearexcept(FE_ALL_EXCEPT);
    all_matrices(d, 0, d[1] ? d[11] : 1, lengths, x);
    return float_errors();
}

typedef struct { /* what PyArrayObject adds to an object */
    char *data;
    int ndim;
    intptr_t *lengths, *steps;
    void *base, *dtype;
    int flags;
} Array;

enum { ALIGNED = 0x100, WRITEABLE = 0x400 };

void gg_start(int64_t header, void *const *dtypes, gg_loop *const *loops, const int64_t *numbers) {
    numpy.header = header;
    memcpy(numpy.dtypes, dtypes, sizeof numpy.dtypes);
    memcpy(numpy.loops, loops, sizeof numpy.loops);
    memcpy(&rules, numbers, sizeof rules);
}

/* The lowest and the highest byte of an array, which has elements. */
static void bounds(const Array *x, int64_t size, char **low, char **high) {
    *low = x->data, *high = x->data + size;
    for (int i = 0; i < x->ndim; i++)
        *(x->steps[i] < 0 ? low : high) += (x->lengths[i] - 1) * x->steps[i];
}

static int overlap(const Array *x1, const Array *x2, int64_t size) {
    char *low1, *high1, *low2, *high2;
    bounds(x1, size, &low1, &high1), bounds(x2, size, &low2, &high2);
    return low1 < high2 && low2 < high1;
}

/* Pieces of the product of two arrays, the objects of Python: all, or as many as are interrupted
   late enough. Returns the errors, plus 16 times the piece to go on with (0 if all is done), or -1
   if NumPy is to do it. */
int64_t gg_product(int64_t number, char *object1, char *object2, char *object, int64_t piece) {
    const Array *x1 = (Array *)(object1 + numpy.header), *x2 = (Array *)(object2 + numpy.header);
    const Array *out = (Array *)(object + numpy.header), *all[3] = {x1, x2, out};
    int64_t d[11 + 4 * 64] = {0};
    const int leading = out->ndim - 2;
    while (d[0] < 4 && numpy.dtypes[d[0]] != x1->dtype) d[0]++;
    if (d[0] == 4 || leading < 0 || leading > 62 || x1->ndim < 2 || x2->ndim < 2) return -1;
    if (!(out->flags & WRITEABLE)) return -1;
    for (int k = 0; k < 3; k++) {
        const Array *x = all[k];
        if (x->dtype != x1->dtype || !(x->flags & ALIGNED) || x->ndim > out->ndim) return -1;
        for (int i = 0; i < x->ndim - 2; i++) {
            int64_t *axis = d + 11 + 4 * (i + out->ndim - x->ndim);
            const int64_t length = out->lengths[i + out->ndim - x->ndim];
            if (x->lengths[i] != length && x->lengths[i] != 1) return -1;
            axis[0] = length, axis[1 + k] = x->lengths[i] == 1 ? 0 : x->steps[i];
        }
        d[5 + 2 * k] = x->steps[x->ndim - 2], d[6 + 2 * k] = x->steps[x->ndim - 1];
    }
    d[1] = leading, d[2] = out->lengths[leading], d[4] = out->lengths[leading + 1];
    const intptr_t *l1 = x1->lengths + x1->ndim - 2, *l2 = x2->lengths + x2->ndim - 2;
    d[3] = l1[1];
    if (l1[0] != d[2] || l2[0] != d[3] || l2[1] != d[4]) return -1;
    Product p = {.d = d, .x = {x1->data, x2->data, out->data}, .first = piece};
    divide(&p, number);
    const int64_t size = SIZES[d[0]];
    if (p.count < 2 || overlap(out, x1, size) || overlap(out, x2, size)) return -1;
    int64_t pieces = p.count - piece;
    if (p.is_long && pieces > number) pieces = number;
    gg_run(multiply, &p, pieces);
    piece += pieces;
    return p.errors + 16 * (piece < p.count ? piece : 0);
}
#else /* no threads */
#include <stdint.h>
void gg_run(void (*work)(void *, int64_t), void *context, int64_t pieces) {
    for (int64_t i = 0; i < pieces; i++) work(context, i);
}
#endif
