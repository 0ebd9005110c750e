// A pool of threads, and products of matrices that are divided among them.
//
// gg_run(work, context, pieces) calls work(context, piece) for each piece from 0 on, in any order
// and by several threads, and returns when all calls have returned. The calling thread takes pieces
// too: it begins with the first one, and the others with the last one, so that in several calls for
// the same arrays each thread finds the parts that it has in the caches of its processor. One
// thread of the program at a time has the help of others; other calls, and calls from within a
// piece, have all their pieces done by their own thread. gg_run_short does the same, but wakes
// threads that sleep only if the work turns out to be long.
//
// gg_threads(number) sets how many threads there are, the calling one among them; 1 at first. They
// are made when they are needed. Where there is no work, they wait busily for a moment and sleep. On
// the processor of the thread that called gg_run they do not wait, and take no pieces: if there is
// work they move to another processor, or sleep if they may use no other.
// gg_after_fork() is called in the child of a fork, which has none of them.
//
// gg_matmul(number, d, x1, x2, out) computes what `matmul` in backends/numpy/threads.py computes
// with `number` threads: the same division into the same pieces, so the same bits. With 1 nothing
// is divided, and with 0 it is `numpy.matmul` itself. Each piece is computed by NumPy's own loop,
// which gg_start is told. out must not overlap the operands. Returns which floating-point errors
// there were, see `float_errors`. The caller has OpenBLAS compute with one thread meanwhile
// (`with_one_thread`).
//
// d describes a product by constants (`description`), all int64_t; steps are in bytes:
//   d[0]      dtype: 0 float32, 1 float64, 2 complex64, 3 complex128
//   d[1]      how many leading axes the result has
//   d[2..4]   rows, inner dimension, columns
//   d[5..10]  steps of x1 along rows and inner, of x2 along inner and columns, and of out along
//             rows and columns
//   then for each leading axis, the first one first, its length in the result and the steps of x1,
//   x2 and out, which are 0 for an operand that has no such axis or is broadcast along it; 1, 0, 0,
//   0 if there is none
//
// gg_map calls an inner loop of NumPy for parts of arrays, or of rows of them. gg_join copies rows
// of several arrays side by side, or zeros in the place of an array without address.
// gg_transpose copies matrices transposed.
//
// gg_pieces(number, d) is 4 times the width of the pieces, plus 0 if they are parts of the first
// leading axis, 1 of the rows, 2 of the columns; or 0 if the product is not divided.

#ifdef _WIN32 // without threads
void gg_run(gg_work *work, void *context, int64_t pieces) {
    for (int64_t i = 0; i < pieces; i++) work(context, i);
}

void gg_run_short(gg_work *work, void *context, int64_t pieces) { gg_run(work, context, pieces); }
#else
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define BUSY 200000    // nanoseconds of waiting busily before a thread sleeps
#define REST 1000000   // and of leaving threads asleep, of which one was in the owner's way
#define WORTH 100000   // and of work that is worth waking a thread, which takes 5000 to 25000
#define LONG (1 << 22) // multiplications that take longer than that

#ifndef __linux__
#define sched_getcpu() -1 // nobody knows
#endif

static struct {
    pthread_mutex_t owner; // held by who has the help
    pthread_mutex_t lock;  // of the conditions, of `started` and of `helpers`
    pthread_cond_t has_work, has_changed;
    gg_work *work;
    void *context;
    _Atomic int processor;             // on which the owner began
    _Atomic int64_t rest;              // until when nobody is woken
    int started;                       // threads that there are
    _Atomic int helpers;               // threads that there should be
    _Atomic int sleeping;              // threads that wait for has_work
    _Atomic int is_waiting;            // whether the owner waits for has_changed
    _Alignas(64) _Atomic int64_t todo; // LEFT: pieces that nobody has begun; above: the first one
    _Alignas(64) _Atomic int inside;   // helpers that may take pieces now
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

#define LEFT(todo) ((todo) & 0xffffffff)

// The owner takes the first of the pieces that nobody has begun, others the last one. Returns how
// many are left, or -1 if there was none.
static int64_t take_piece(int is_owner) {
    int64_t todo = pool.todo;
    while (LEFT(todo)) {
        const int64_t next = todo - 1 + (is_owner ? (int64_t)1 << 32 : 0);
        if (!atomic_compare_exchange_weak(&pool.todo, &todo, next)) continue;
        pool.work(pool.context, (todo >> 32) + (is_owner ? 0 : LEFT(next)));
        return LEFT(next);
    }
    return -1;
}

// Whether this thread has the processor on which the owner runs, who has to wait for it.
static int is_in_the_way(void) {
    const int processor = sched_getcpu();
    return processor >= 0 && processor == pool.processor;
}

// Leave the owner's processor. The system may keep this thread there although another one is idle.
static void move_away(void) {
#ifdef __linux__
    cpu_set_t all, others;
    if (sched_getaffinity(0, sizeof all, &all)) return; // there are more processors than it holds
    others = all;
    CPU_CLR(pool.processor, &others);
    if (!sched_setaffinity(0, sizeof others, &others)) sched_setaffinity(0, sizeof all, &all);
#endif
}

// Wait for work; returns whether the thread is to end instead.
//
// is_refused: whether it cannot do the work that there is, because it is in the owner's way.
static int sleep_until_needed(int index, int is_refused) {
    pthread_mutex_lock(&pool.lock);
    pool.sleeping++; // before `todo` is read: who sets that reads this afterwards
    if (is_refused) pool.rest = now() + REST;
    for (; index < pool.helpers && (is_refused || !LEFT(pool.todo)); is_refused = 0)
        pthread_cond_wait(&pool.has_work, &pool.lock);
    pool.sleeping--;
    const int is_end = index >= pool.helpers;
    if (is_end) {
        pool.started--;
        pthread_cond_broadcast(&pool.has_changed);
    }
    pthread_mutex_unlock(&pool.lock);
    return is_end;
}

static void *help(void *argument) {
    const int index = (int)(intptr_t)argument;
    for (;;) {
        int64_t end = now() + BUSY;
        while (!LEFT(pool.todo) && !is_in_the_way() && now() < end) pause_briefly();
        if (LEFT(pool.todo) && is_in_the_way()) move_away();
        const int is_refused = LEFT(pool.todo) && is_in_the_way();
        if (!LEFT(pool.todo) || index >= pool.helpers || is_refused) {
            if (sleep_until_needed(index, is_refused)) return NULL;
            continue;
        }
        pool.inside++; // from now on, the owner waits
        while (take_piece(0) > 0) {}
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

static void run_alone(gg_work *work, void *context, int64_t first, int64_t pieces) {
    for (int64_t i = first; i < first + pieces; i++) work(context, i);
}

// Pieces from `first` on. is_long: whether to wake threads that sleep at once; else the time of the
// first of the pieces decides.
static void run(gg_work *work, void *context, int64_t first, int64_t pieces, int is_long) {
    if (pieces < 2 || !pool.helpers || pthread_mutex_trylock(&pool.owner)) {
        run_alone(work, context, first, pieces);
        return;
    }
    int useful = pieces - 1 < pool.helpers ? (int)(pieces - 1) : pool.helpers;
    if (pool.started < useful) start(useful);
    pool.work = work, pool.context = context;
    pool.processor = sched_getcpu();
    pool.todo = (first << 32) + pieces;
    if (pool.sleeping) {
        const int64_t start = now(), left = is_long ? 0 : take_piece(1);
        if ((is_long || left * (now() - start) > WORTH) && start > pool.rest) {
            pthread_mutex_lock(&pool.lock);
            for (int i = 0; i < useful; i++) pthread_cond_signal(&pool.has_work);
            pthread_mutex_unlock(&pool.lock);
        }
    }
    while (take_piece(1) > 0) {}
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

void gg_run(gg_work *work, void *context, int64_t pieces) { run(work, context, 0, pieces, 1); }

void gg_run_short(gg_work *work, void *context, int64_t pieces) {
    run(work, context, 0, pieces, 0);
}

// By this number of threads, which with 1 is the calling one.
void gg_run_by(int64_t number, gg_work *work, void *context, int64_t first, int64_t pieces) {
    if (number > 1)
        run(work, context, first, pieces, 1);
    else
        run_alone(work, context, first, pieces);
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
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pool.owner = pool.lock = mutex;
    pool.has_work = pool.has_changed = condition;
    pool.started = pool.sleeping = pool.is_waiting = pool.inside = 0;
    pool.todo = 0;
}

static struct {
    int64_t header;    // bytes of an object before what PyArrayObject adds
    void *dtypes[4];   // the objects, in the order of d[0]
    gg_loop *loops[4]; // NumPy's, of matmul
} numpy;

static struct {
    int64_t least, piece, small, elements, many, large, huge;
} rules; // see threads.py

static const int64_t SIZES[4] = {4, 8, 8, 16};

void gg_start(int64_t header, void *const *dtypes, gg_loop *const *loops, const int64_t *numbers) {
    numpy.header = header;
    memcpy(numpy.dtypes, dtypes, sizeof numpy.dtypes);
    memcpy(numpy.loops, loops, sizeof numpy.loops);
    memcpy(&rules, numbers, sizeof rules);
}

typedef struct {
    const int64_t *d;
    int64_t number;
    char *x[3];                 // both operands and the result
    int64_t axis, width, count; // of the pieces: parts of the first leading axis, rows or columns
    _Atomic int64_t errors;
} Product;

// Call NumPy's loop for all leading axes from `axis` on, the first of which is l[0] long.
static void all_matrices(const int64_t *d, int64_t axis, const intptr_t *l, char *const *x) {
    const int64_t *a = d + 11 + 4 * axis;
    if (axis + 1 < d[1]) {
        const intptr_t lengths[4] = {a[4], l[1], l[2], l[3]};
        for (int64_t i = 0; i < l[0]; i++) {
            char *const next[3] = {x[0] + i * a[1], x[1] + i * a[2], x[2] + i * a[3]};
            all_matrices(d, axis + 1, lengths, next);
        }
        return;
    }
    const int of[6] = {1, 2, 2, 3, 1, 3};
    intptr_t steps[9] = {a[1], a[2], a[3]};
    for (int i = 0; i < 6; i++) steps[3 + i] = l[of[i]] == 1 ? 0 : d[5 + i]; // as NumPy does
    char *args[3] = {x[0], x[1], x[2]};
    numpy.loops[d[0]](args, l, steps, NULL);
}

// See `_product`: (x2.T @ x1.T).T, where OpenBLAS computes it faster.
static int by_transposes(const int64_t *d, const intptr_t *l, char *const *x) {
    if (d[0] || d[1] || l[1] < 8 || l[1] > 64 || l[2] < 256 || l[3] < 2 * l[1] ||
        l[1] * l[3] <= rules.elements || d[7] != 4 || d[8] != 4 * l[2])
        return 0;
    float *buffer = malloc(sizeof(float) * l[1] * l[3]);
    if (!buffer) return 0; // other bits are better than none
    const intptr_t lengths[4] = {1, l[3], l[2], l[1]};
    const intptr_t steps[9] = {0, 0, 0, d[8], d[7], d[6], d[5], 4 * l[1], 4};
    char *args[3] = {x[1], x[0], (char *)buffer};
    numpy.loops[0](args, lengths, steps, NULL);
    for (int64_t i = 0; i < l[1]; i++)
        for (int64_t j = 0; j < l[3]; j++)
            *(float *)(x[2] + i * d[9] + j * d[10]) = buffer[j * l[1] + i];
    free(buffer);
    return 1;
}

static void multiply(void *context, int64_t i) {
    Product *p = context;
    const int64_t *d = p->d;
    intptr_t lengths[4] = {d[11], d[2], d[3], d[4]};
    char *x[3] = {p->x[0], p->x[1], p->x[2]};
    if (p->count > 1) {
        const int64_t steps[3][3] = {{d[12], d[13], d[14]}, {d[5], 0, d[9]}, {0, d[8], d[10]}};
        const int64_t start = i * p->width;
        intptr_t *length = lengths + (const int[]){0, 1, 3}[p->axis];
        *length = *length - start < p->width ? *length - start : p->width;
        for (int k = 0; k < 3; k++) x[k] += start * steps[p->axis][k];
    }
    feclearexcept(FE_ALL_EXCEPT);
    if (!p->number || !by_transposes(d, lengths, x)) all_matrices(d, 0, lengths, x);
    p->errors |= float_errors();
}

#define VECTOR 4 // `_VECTOR`

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

// `_division`: along which axis a product is divided, and into pieces of which width. Returns how
// many multiplications there are.
static int64_t divide(Product *p) {
    const int64_t *d = p->d, number = p->number;
    const int is_transposed = d[3] > 1 && d[4] > 1 && d[7] == SIZES[d[0]];
    const int by_rows = d[2] >= d[4] * (is_transposed && d[4] >= number * 128 ? 3 : 1);
    int64_t result = d[2] * d[4], length = by_rows ? d[2] : d[4], least = 64, step = 16;
    for (int64_t i = 0; i < d[1]; i++) result *= d[11 + 4 * i];
    const int64_t work = result * d[3], shift = d[2] == 1 || d[4] == 1 ? VECTOR : 0;
    p->count = 1;
    if (number < 2 || work < rules.least >> shift || p->x[0] == p->x[1]) return work;
    p->axis = by_rows ? 1 : 2;
    if (d[11] >= number) p->axis = 0, length = d[11], least = step = 1;
    const int64_t each = work < rules.large && p->axis && !shift ? 1 : work < rules.huge ? 2 : 4;
    int64_t count = least_of(number * each, work / (rules.piece >> shift));
    count = least_of(count, length / least);
    if (p->axis && !shift) {
        int64_t elements = rules.small / d[3];
        if (is_transposed) elements = least_of(elements, rules.elements);
        const int64_t width = elements / (result / length) / step * step;
        const int64_t most = 4 * number > rules.many ? 4 * number : rules.many;
        if (length <= width * most) count = (length + width - 1) / width;
    }
    if (count < 2) return work;
    p->width = (length + count * step - 1) / (count * step) * step;
    p->count = (length + p->width - 1) / p->width;
    return work;
}

int64_t gg_matmul(int64_t number, const int64_t *d, const void *x1, const void *x2, void *out) {
    Product p = {.d = d, .number = number, .x = {(char *)x1, (char *)x2, out}};
    const int64_t work = divide(&p);
    run(multiply, &p, 0, p.count, work > LONG);
    return p.errors;
}

int64_t gg_pieces(int64_t number, const int64_t *d) {
    Product p = {.d = d, .number = number, .x = {NULL, (char *)d}};
    divide(&p);
    return p.count < 2 ? 0 : 4 * p.width + p.axis;
}

typedef struct { // what PyArrayObject adds to an object
    char *data;
    int ndim;
    intptr_t *lengths, *steps;
    void *base, *dtype;
    int flags;
} Array;

enum { ALIGNED = 0x100, WRITEABLE = 0x400 };

// Whether the memory of two arrays, which have elements, may overlap.
static int overlap(const Array *x, const Array *y, int64_t size) {
    const Array *arrays[2] = {x, y};
    char *low[2] = {x->data, y->data}, *high[2] = {x->data + size, y->data + size};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < arrays[k]->ndim; i++) {
            const intptr_t step = arrays[k]->steps[i];
            *(step < 0 ? low + k : high + k) += (arrays[k]->lengths[i] - 1) * step;
        }
    return low[0] < high[1] && low[1] < high[0];
}

// Pieces of the product of two arrays, objects of Python, from one piece on. Where it takes long,
// these are as many as there are threads, so that Ctrl-C can end it between them. Returns the
// errors, plus 16 times the piece to go on with (0 at the end), or -1 if NumPy is to multiply.
int64_t gg_product(int64_t number, char *object1, char *object2, char *object, int64_t piece) {
    const Array *x1 = (Array *)(object1 + numpy.header), *x2 = (Array *)(object2 + numpy.header);
    const Array *out = (Array *)(object + numpy.header), *all[3] = {x1, x2, out};
    int64_t d[11 + 4 * 64] = {0};
    while (d[0] < 4 && numpy.dtypes[d[0]] != x1->dtype) d[0]++;
    if (d[0] == 4 || x1->ndim < 2 || x2->ndim < 2 || !(out->flags & WRITEABLE)) return -1;
    d[1] = out->ndim - 2, d[2] = d[3] = d[4] = -1, d[11] = 1;
    for (int k = 0; k < 3; k++) {
        const Array *x = all[k];
        const int more = out->ndim - x->ndim, last = x->ndim - 1;
        if (x->dtype != x1->dtype || !(x->flags & ALIGNED) || more < 0) return -1;
        for (int i = 0; i < last - 1; i++) {
            int64_t *axis = d + 11 + 4 * (more + i);
            if (x->lengths[i] != out->lengths[more + i] && x->lengths[i] != 1) return -1;
            axis[0] = out->lengths[more + i], axis[1 + k] = x->lengths[i] == 1 ? 0 : x->steps[i];
        }
        d[5 + 2 * k] = x->steps[last - 1], d[6 + 2 * k] = x->steps[last];
        const int of[3][2] = {{2, 3}, {3, 4}, {2, 4}};
        for (int i = 0; i < 2; i++) {
            int64_t *length = d + of[k][i];
            if (*length >= 0 && *length != x->lengths[last - 1 + i]) return -1;
            *length = x->lengths[last - 1 + i];
        }
    }
    Product p = {.d = d, .number = number, .x = {x1->data, x2->data, out->data}};
    const int64_t work = divide(&p);
    if (p.count < 2 || overlap(out, x1, SIZES[d[0]]) || overlap(out, x2, SIZES[d[0]])) return -1;
    const int64_t left = p.count - piece;
    const int64_t pieces = work / number > 1 << 30 ? least_of(number, left) : left;
    run(multiply, &p, piece, pieces, work > LONG);
    piece += pieces;
    return p.errors + 16 * (piece < p.count ? piece : 0);
}

typedef struct {
    gg_loop *loop;
    void *data;
    int64_t count, axes;    // of arrays; of the rows
    const int64_t *lengths; // of the axes of the rows, then that of a row
    const int64_t *steps;   // of each array along these, in bytes; 0 where it has a single number
    int64_t parts, in_part; // of a row; elements of each but the last
    int64_t tasks, in_piece; // parts of all rows; those of a piece
    char *x[4];
    _Atomic int64_t errors;
} Map;

static void map_piece(void *context, int64_t number) {
    Map *map = context;
    const int64_t end = least_of((number + 1) * map->in_piece, map->tasks), axes = map->axes;
    intptr_t steps[4];
    int64_t errors = 0;
    for (int i = 0; i < map->count; i++) steps[i] = map->steps[i * (axes + 1) + axes];
    feclearexcept(FE_ALL_EXCEPT);
    for (int64_t task = number * map->in_piece; task < end; task++) {
        const int64_t first = task % map->parts * map->in_part;
        const intptr_t length = least_of(map->in_part, map->lengths[axes] - first);
        char *x[4];
        for (int i = 0; i < map->count; i++) x[i] = map->x[i] + first * steps[i];
        int64_t row = task / map->parts;
        for (int64_t axis = axes - 1; axis >= 0; row /= map->lengths[axis--])
            for (int i = 0; i < map->count; i++)
                x[i] += row % map->lengths[axis] * map->steps[i * (axes + 1) + axis];
        if (length > 0) map->loop(x, &length, steps, map->data);
        errors |= float_errors(); // which the next call may forget
    }
    map->errors |= errors;
}

// places: the addresses of the arrays' pointers to their elements, of `count` inputs and results.
// For the rest see Map. Returns the errors.
int64_t gg_map(gg_loop *loop, void *data, int64_t axes, const int64_t *lengths, int64_t pieces,
               int64_t count, char *const *const *places, const int64_t *steps) {
    int64_t rows = 1, length = lengths[axes];
    for (int i = 0; i < axes; i++) rows *= lengths[i];
    const int64_t parts = (pieces + rows - 1) / rows, tasks = parts * rows;
    Map map = {loop,  data, count, axes, lengths, steps, parts, (length + parts - 1) / parts,
               tasks, (tasks + pieces - 1) / pieces};
    for (int i = 0; i < count; i++) map.x[i] = *places[i];
    gg_run(map_piece, &map, pieces);
    return map.errors;
}

typedef struct {
    const char *from;  // NULL for zeros
    int64_t step, end; // bytes from a row of it to the next one, and where it ends in a row of all
} Part;

typedef struct {
    char *to;
    int64_t length, size, piece;
    const Part *parts;
} Join;

static void join_piece(void *context, int64_t i) {
    const Join *j = context;
    const int64_t end = least_of((i + 1) * j->piece, j->size);
    const Part *part = j->parts;
    for (int64_t k = i * j->piece; k < end;) {
        const int64_t row = k / j->length, place = k % j->length;
        if (!place) part = j->parts;
        while (part->end <= place) part++;
        const int64_t first = part > j->parts ? part[-1].end : 0;
        const int64_t count = least_of(part->end - place, end - k);
        if (part->from)
            memcpy(j->to + k, part->from + row * part->step + place - first, count);
        else
            memset(j->to + k, 0, count);
        k += count;
    }
}

void gg_join(char *to, int64_t rows, const Part *parts, int64_t count, int64_t pieces) {
    const int64_t length = parts[count - 1].end, size = length * rows;
    Join join = {to, length, size, (size + pieces - 1) / pieces, parts};
    gg_run(join_piece, &join, pieces);
}

typedef struct {
    const char *from;
    char *to;
    int64_t size, rows, columns; // of an element in bytes; of a matrix
    int64_t strips, count;       // of a matrix, TILE columns wide; of all matrices in a piece
    int64_t matrices;
} Transposition;

enum { TILE = 16 }; // so many elements of 4 bytes fill a line of the cache

#define TRANSPOSE(type)                                                                            \
    for (int64_t j = 0; j < width; j++)                                                            \
        for (int64_t i = 0; i < height; i++)                                                       \
            ((type *)to)[j * rows + i] = ((const type *)from)[i * columns + j]

static void transpose_tile(const char *from, char *to, int64_t size, int64_t rows, int64_t columns,
                           int64_t height, int64_t width) {
    switch (size) {
    case 1: TRANSPOSE(uint8_t); break;
    case 2: TRANSPOSE(uint16_t); break;
    case 4: TRANSPOSE(uint32_t); break;
    default: TRANSPOSE(uint64_t);
    }
}

static void transpose_piece(void *context, int64_t number) {
    const Transposition *t = context;
    const int64_t end = least_of((number + 1) * t->count, t->strips * t->matrices);
    for (int64_t k = number * t->count; k < end; k++) {
        const int64_t column = k % t->strips * TILE, width = least_of(TILE, t->columns - column);
        const int64_t first = k / t->strips * t->rows * t->columns; // the matrix
        for (int64_t row = 0; row < t->rows; row += TILE)
            transpose_tile(t->from + (first + row * t->columns + column) * t->size,
                           t->to + (first + column * t->rows + row) * t->size, t->size, t->rows,
                           t->columns, least_of(TILE, t->rows - row), width);
    }
}

// Copy matrices transposed. All lie in C order, without gaps. size: of an element: 1, 2, 4 or 8.
void gg_transpose(const char *from, char *to, int64_t size, int64_t matrices, int64_t rows,
                  int64_t columns, int64_t pieces) {
    Transposition t = {from, to, size, rows, columns, (columns + TILE - 1) / TILE, 0, matrices};
    t.count = (t.strips * matrices + pieces - 1) / pieces;
    gg_run(transpose_piece, &t, pieces);
}
#endif
