// Elementwise functions of the namespace, each of which would take several of CuPy's kernels.

extern "C" __global__ void zero_discarded_nans(const T* c, const T* g, T* out, long long n)
{
    bool packed = n % PACK == 0 && is_aligned(c) && is_aligned(g) && is_aligned(out);
    long long first = thread_number(), stride = thread_count();
    if (packed) first *= PACK, stride *= PACK;
    for (long long i = first; i < n; i += stride) {
        if (packed) {
            Pack a = *(const Pack*)(c + i), b = *(const Pack*)(g + i);
#pragma unroll
            for (int k = 0; k < PACK; k++) {
                A x = load(a.items + k);
                if (x != x && load(b.items + k) == 0) store(a.items + k, 0);
            }
            *(Pack*)(out + i) = a;
        } else {
            A x = load(c + i);
            store(out + i, x != x && load(g + i) == 0 ? 0 : x);
        }
    }
}
