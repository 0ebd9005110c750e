// The beginning of a library of kernels for rows, windows or layers.

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>

// The threads of pool.c, and NumPy's loops of products, for float and double.
static struct {
    void (*run)(gg_work *, void *, int64_t), (*run_short)(gg_work *, void *, int64_t);
    void (*run_by)(int64_t, gg_work *, void *, int64_t, int64_t);
    int64_t (*matmul)(int64_t, const int64_t *, const void *, const void *, void *);
    gg_loop *products[2];
} pool;

void gg_set_pool(const void *told) { memcpy(&pool, told, sizeof pool); }

// NumPy's own inner loops, whose bits nothing else has: arrays, lengths, strides in bytes, data.
typedef void (*Loop)(char **arrays, const intptr_t *lengths, const intptr_t *steps, void *data);

typedef struct {
    Loop function;
    void *data;
} Loops;

enum { EXP, LOG, TANH, MAXIMUM, MINIMUM, LOOPS };
static Loops loops[LOOPS];
static double zero; // the number that NumPy's sums begin with, 0 or -0

void gg_set_loop(int64_t number, void *function, void *data) {
    loops[number] = (Loops){(Loop)function, data};
}

void gg_set_zero(double value) { zero = value; }

enum { ARRAYS = 5 };
// More than `float_errors` finds. Compilers exchange operands, so a nan's sign is not NumPy's.
enum { NO_MEMORY = 16, NAN_AS_SUM = 32, NOT_ALIGNED = 64 };

// Whether elements of this size may lie at an address. NumPy copies those that may not.
#define IS_ALIGNED(address, size) ((uintptr_t)(address) % (size) == 0)
typedef int64_t Index __attribute__((aligned(4))); // in an array beside those of float

// A kernel's arguments. What they mean is said at each kernel.
typedef struct Job {
    void *a[ARRAYS];
    int64_t items, in_piece, length, n, m;
    double s, t;
    const struct Kernel *kernel;
    _Atomic int64_t errors;
} Job;

// What a piece of a job has for itself.
typedef struct {
    const Job *job;
    void *scratch;
    int64_t errors;
} Piece;

// Some kernels compute up to TOGETHER rows, or about SHORT elements, at a time, since a call of
// NumPy's loop takes as long as dozens of numbers.
enum { SHORT = 512, TOGETHER = 64 };
enum { STRIP = 64 }; // elements of slices that `add_slices` adds up at a time

// A kernel computes the items from `first` to `last`, such as rows, without looking at others.
typedef struct Kernel {
    void (*work)(Piece *piece, int64_t first, int64_t last);
    int64_t scratch; // arrays of `length` elements that a piece needs
    int64_t size;    // bytes of an element
} Kernel;

static void work_on(void *context, int64_t number) {
    Job *job = context;
    Piece piece = {job, NULL, 0};
    void *memory = NULL;
    int64_t bytes = job->kernel->scratch * job->kernel->size * (job->length + SHORT);
    if (bytes) {
        memory = malloc(bytes + 64);
        if (!memory) {
            atomic_fetch_or(&job->errors, NO_MEMORY);
            return;
        }
        piece.scratch = (void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    }
    int64_t first = number * job->in_piece, last = first + job->in_piece;
    feclearexcept(FE_ALL_EXCEPT);
    job->kernel->work(&piece, first, last < job->items ? last : job->items);
    atomic_fetch_or(&job->errors, piece.errors | float_errors());
    free(memory);
}

// Pieces from which on threads are woken at once: the caches of one processor hold fewer, and more
// work on large arrays is likely to follow, which finds the threads awake.
enum { MANY = 8 };

static int64_t run_job(Job *job) {
    int64_t pieces = (job->items + job->in_piece - 1) / job->in_piece;
    if (pieces > 1) job->in_piece = (job->items + pieces - 1) / pieces; // so that none is small
    if (pieces == 1)
        work_on(job, 0);
    else if (pieces < MANY)
        pool.run_short(work_on, job, pieces);
    else
        pool.run(work_on, job, pieces);
    return job->errors;
}
