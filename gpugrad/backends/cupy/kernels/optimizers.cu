// Kernels of gpugrad/optim and of the clipping in gpugrad/nn/utils.py. One launch processes many
// tensors; each block processes up to CHUNK elements of one tensor.

#define CHUNK 2048

// A table has the sizes of the tensors, the addresses of all their first arrays, those of all their
// second ones, and so on.

// Runs `rule(x)` for each element of the block's chunk, where x holds the values of ARRAYS arrays,
// and stores all of them but the first READ_ONLY.
template <int ARRAYS, int READ_ONLY, class Rule>
__device__ inline void each(const Table& tensors, Rule rule)
{
    int which = find(tensors);
    long long first = tensors.words[which];
    long long start = (blockIdx.x - first) * CHUNK;
    long long rest = tensors.words[tensors.count + which] - start;
    int n = (int)(rest < CHUNK ? rest : CHUNK);
    T* at[ARRAYS];
    bool aligned = true;
#pragma unroll
    for (int k = 0; k < ARRAYS; k++) {
        at[k] = (T*)tensors.words[(k + 2) * tensors.count + which] + start;
        aligned = aligned && is_aligned(at[k]);
    }
    int packed = aligned ? n / PACK * PACK : 0;
    A x[ARRAYS];
    for (int i = threadIdx.x * PACK; i < packed; i += blockDim.x * PACK) {
        Pack packs[ARRAYS];
#pragma unroll
        for (int k = 0; k < ARRAYS; k++) packs[k] = *(const Pack*)(at[k] + i);
#pragma unroll
        for (int j = 0; j < PACK; j++) {
#pragma unroll
            for (int k = 0; k < ARRAYS; k++) x[k] = load(packs[k].items + j);
            rule(x);
#pragma unroll
            for (int k = READ_ONLY; k < ARRAYS; k++) store(packs[k].items + j, x[k]);
        }
#pragma unroll
        for (int k = READ_ONLY; k < ARRAYS; k++) *(Pack*)(at[k] + i) = packs[k];
    }
    for (int i = packed + threadIdx.x; i < n; i += blockDim.x) {
#pragma unroll
        for (int k = 0; k < ARRAYS; k++) x[k] = load(at[k] + i);
        rule(x);
#pragma unroll
        for (int k = READ_ONLY; k < ARRAYS; k++) store(at[k] + i, x[k]);
    }
}

// The updates. The arrays are the gradient, the parameter and its state; the numbers are those that
// the optimizer's `fused_kernel` returns: `by`, or what `at` points to, which a captured program
// changes between its launches. If `skip` is not 0, a kernel changes nothing.

struct SgdNumbers { A lr, weight_decay; };

extern "C" __global__ void
sgd(const Table tensors, SgdNumbers by, const SgdNumbers* at, const float* skip)
{
    if (*skip != 0) return;
    if (at) by = *at;
    each<2, 1>(tensors, [=](A* x) {
        if (by.weight_decay != 0) x[0] += by.weight_decay * x[1];
        x[1] -= by.lr * x[0];
    });
}

// new_share: the gradient's in the momentum buffer.
struct MomentumNumbers { A lr, weight_decay, momentum, new_share, nesterov; };

extern "C" __global__ void
sgd_momentum(const Table tensors, MomentumNumbers by, const MomentumNumbers* at,
             const float* skip)
{
    if (*skip != 0) return;
    if (at) by = *at;
    each<3, 1>(tensors, [=](A* x) {
        if (by.weight_decay != 0) x[0] += by.weight_decay * x[1];
        x[2] = by.momentum * x[2] + by.new_share * x[0];
        x[1] -= by.lr * (by.nesterov != 0 ? x[0] + by.momentum * x[2] : x[2]);
    });
}

// kept: the factor of the parameter, for decoupled weight decay.
// decay1, share1: beta1 / (1 - beta1) and 1 - beta1; share2: 1 - beta2.
// step, eps: lr and eps with Adam's bias correction.
struct AdamNumbers { A weight_decay, kept, decay1, share1, beta2, share2, step, eps; };

template <bool AMSGRAD>
__device__ inline void update_by_adam(const Table& tensors, const AdamNumbers& by)
{
    each<AMSGRAD ? 5 : 4, 1>(tensors, [=](A* x) {
        if (by.weight_decay != 0) x[0] += by.weight_decay * x[1];
        x[2] = (x[2] * by.decay1 + x[0]) * by.share1;
        x[3] = x[3] * by.beta2 + x[0] * x[0] * by.share2;
        if (AMSGRAD) x[4] = maximum(x[4], x[3]);
        x[1] = by.kept * x[1] - x[2] / (sqrt(x[AMSGRAD ? 4 : 3]) + by.eps) * by.step;
    });
}

extern "C" __global__ void
adam(const Table tensors, const AdamNumbers by, const AdamNumbers* at, const float* skip)
{
    if (*skip == 0) update_by_adam<false>(tensors, at ? *at : by);
}

extern "C" __global__ void
amsgrad(const Table tensors, const AdamNumbers by, const AdamNumbers* at, const float* skip)
{
    if (*skip == 0) update_by_adam<true>(tensors, at ? *at : by);
}

// Clipping. Sums are always added up in the same order, so results are reproducible.

// Stores each block's sum of squares in `sums`.
extern "C" __global__ void squares(const Table tensors, A* sums)
{
    A sum = 0;
    each<1, 1>(tensors, [&](A* x) { sum += x[0] * x[0]; });
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Run by one block: out[0] is the norm, out[1] the factor that clips it to `most`.
extern "C" __global__ void __launch_bounds__(1024)
total_norm(const A* sums, A* out, long long n, double most)
{
    A sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) sum += sums[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        A norm = sqrt(sum), factor = (A)most / (norm + (A)1e-6);
        out[0] = norm;
        out[1] = factor > 1 ? A(1) : factor;  // keeps nan
    }
}

extern "C" __global__ void scale(const Table tensors, const A* factor)
{
    A by = *factor;
    each<1, 0>(tensors, [=](A* x) { x[0] *= by; });
}

// Multiplies by `factor`, and sets `found` to 1 if an element was not finite.
extern "C" __global__ void unscale(const Table tensors, const float* factor, float* found)
{
    A by = (A)*factor;
    bool bad = false;
    each<1, 0>(tensors, [&](A* x) {
        bad = bad || !isfinite(x[0]);
        x[0] *= by;
    });
    if (bad) *found = 1;
}
