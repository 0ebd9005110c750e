// Elementwise functions of the namespace, each of which would take several of CuPy's kernels.

// out = c, but 0 where c is nan and g is 0. out may be c, of which only what changes is written then.
// g is read only near nan. single: g is one element for all others. As CuPy compiles with -ftz=true,
// a subnormal g counts as 0.
extern "C" __global__ void zero_discarded_nans(const T* c, const T* g, T* out, long long n,
                                               bool single)
{
    bool aligned = is_aligned(c) && (single || is_aligned(g)) && is_aligned(out);
    long long packed = aligned ? n / PACK * PACK : 0;
    for (long long i = thread_number() * PACK; i < packed; i += thread_count() * PACK) {
        Pack a = *(const Pack*)(c + i);
        bool any = false;
#pragma unroll
        for (int k = 0; k < PACK; k++) {
            A x = load(a.items + k);
            any = any || x != x;
        }
        if (any) {
#pragma unroll
            for (int k = 0; k < PACK; k++) {
                A x = load(a.items + k);
                if (x != x && load(g + (single ? 0 : i + k)) == 0) store(a.items + k, 0);
            }
        }
        if (any || out != c) *(Pack*)(out + i) = a;
    }
    for (long long i = packed + thread_number(); i < n; i += thread_count()) {
        A x = load(c + i);
        bool is_nan = x != x;
        if (is_nan && load(g + (single ? 0 : i)) == 0) x = 0;
        if (is_nan || out != c) store(out + i, x);
    }
}

// x = a * x + b * y, for the few elements of statistics, of which there may be a second kind; if
// there is a count, it is increased by 1.
extern "C" __global__ void blend(T* x, const T* y, double b, T* x2, const T* y2, double b2,
                                 long long* count, long long n, double a)
{
    long long first = thread_number();
    if (count && first == 0) *count += 1;
    for (long long i = first; i < n; i += thread_count()) {
        store(x + i, (A)a * load(x + i) + (A)b * load(y + i));
        if (x2) store(x2 + i, (A)a * load(x2 + i) + (A)b2 * load(y2 + i));
    }
}

// out[o, k, i] = x[o, i]: each row of `columns` elements of x, `repeats` times in a row.
extern "C" __global__ void repeat_rows(const T* x, T* out, long long n, unsigned repeats,
                                       unsigned columns)
{
    bool aligned = columns % PACK == 0 && is_aligned(x) && is_aligned(out);
    auto place = [=](unsigned i) {  // in x, of the element i of out; divisions take long
        if (columns == n / repeats) return i % columns;
        if (columns == 1) return i / repeats;
        return i / columns / repeats * columns + i % columns;
    };
    if (aligned) {
        for (long long i = thread_number() * PACK; i < n; i += thread_count() * PACK)
            *(Pack*)(out + i) = *(const Pack*)(x + place(i));
        return;
    }
    long long packed = is_aligned(out) ? n / PACK * PACK : 0;
    for (long long i = thread_number() * PACK; i < packed; i += thread_count() * PACK) {
        Pack pack;
#pragma unroll
        for (int k = 0; k < PACK; k++) pack.items[k] = x[place(i + k)];
        *(Pack*)(out + i) = pack;
    }
    for (long long i = packed + thread_number(); i < n; i += thread_count()) out[i] = x[place(i)];
}
