// What the text of generated elementwise kernels builds on.

template <class X> __device__ inline X load(const X* p) { return *p; }
template <class X> __device__ inline void store(X* p, X x) { *p = x; }

template <class X, int N> struct alignas(N * sizeof(X)) Items { X items[N]; };

// The value of x after it has been stored as an X and loaded again.
template <class X> __device__ inline float rounded(float x)
{
    X t;
    store(&t, x);
    return load(&t);
}

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#define NOT_A_NUMBER __int_as_float(0x7fc00000)
