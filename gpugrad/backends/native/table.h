// The way into the kernels of a library.

#define NAME_OF(name, scratch) #name " "
const char gg_names[] = KERNELS(NAME_OF);
#define KERNEL_OF(name, scratch) {name, scratch, sizeof(T)},
static const Kernel kernels[] = {KERNELS(KERNEL_OF)};

// Returns the errors of floating-point operations. Arrays are given by the addresses of pointers to
// their elements, as array objects have them.
int64_t gg_rows(int64_t kernel, int64_t items, int64_t in_piece, int64_t length, int64_t n,
                int64_t m, double s, double t, void *const *a0, void *const *a1, void *const *a2,
                void *const *a3, void *const *a4) {
    void *const *given[ARRAYS] = {a0, a1, a2, a3, a4};
    Job job = {{0}, items, in_piece, length, n, m, s, t, kernels + kernel};
    for (int i = 0; i < ARRAYS; i++) {
        job.a[i] = given[i] ? *given[i] : NULL;
        if (!IS_ALIGNED(job.a[i], sizeof(T))) return NOT_ALIGNED;
    }
    return run_job(&job);
}
