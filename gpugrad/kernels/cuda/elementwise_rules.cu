// The VJPs and forwards of elementwise ops. elementwise.py has tables of them, and defines a kernel
// for each after this source.

template <int INPUTS, int RESULTS> struct Arrays { const T* from[INPUTS]; T* to[RESULTS]; };

// Runs `rule(v, c)` for each element, where v has the element of each input and c is for that of
// each result. In a VJP the first input is the cotangent of the op's result.
//
// single: bits that say which inputs are one element for all others. One that is null is `number`.
// guarded: whether a result is 0 instead of nan where the cotangent is 0.
template <int INPUTS, int RESULTS, class Rule>
__device__ inline void each(const Arrays<INPUTS, RESULTS> at, long long n, double number,
                            int single, bool guarded, Rule rule)
{
    A v[INPUTS], c[RESULTS];
    bool aligned = true;
#pragma unroll
    for (int k = 0; k < INPUTS; k++) {
        if (single >> k & 1)
            v[k] = at.from[k] ? load(at.from[k]) : stored((A)number);
        else
            aligned = aligned && is_aligned(at.from[k]);
    }
    auto run = [&] {
        rule(v, c);
#pragma unroll
        for (int k = 0; k < RESULTS; k++)
            if (guarded && c[k] != c[k] && v[0] == 0) c[k] = 0;
    };
    long long packed = aligned ? n / PACK * PACK : 0;
    for (long long i = thread_number() * PACK; i < packed; i += thread_count() * PACK) {
        Pack in[INPUTS], out[RESULTS];
#pragma unroll
        for (int k = 0; k < INPUTS; k++)
            if (!(single >> k & 1)) in[k] = *(const Pack*)(at.from[k] + i);
#pragma unroll
        for (int j = 0; j < PACK; j++) {
#pragma unroll
            for (int k = 0; k < INPUTS; k++)
                if (!(single >> k & 1)) v[k] = load(in[k].items + j);
            run();
#pragma unroll
            for (int k = 0; k < RESULTS; k++) store(out[k].items + j, c[k]);
        }
#pragma unroll
        for (int k = 0; k < RESULTS; k++) *(Pack*)(at.to[k] + i) = out[k];
    }
    for (long long i = packed + thread_number(); i < n; i += thread_count()) {
#pragma unroll
        for (int k = 0; k < INPUTS; k++)
            if (!(single >> k & 1)) v[k] = load(at.from[k] + i);
        run();
#pragma unroll
        for (int k = 0; k < RESULTS; k++) store(at.to[k] + i, c[k]);
    }
}

// 1, 0 or -1, and nan of nan.
__device__ inline A sign(A x) { return x != x ? x : A((x > 0) - (x < 0)); }
