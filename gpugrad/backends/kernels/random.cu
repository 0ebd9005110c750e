// Kernels of gpugrad/ops/dropout.py. What is kept, gpugrad/backends/philox.py says.

// The 16 elements of a block, as bits: whether their lanes are at least `least`.
__device__ inline unsigned kept(
    unsigned long long first, unsigned long long second, long long block, long long least)
{
    unsigned long long words[4] = {(unsigned long long)block + 1, 0, 0, 0};
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long low0 = 0xD2E7470EE14C6C93ull * words[0];
        unsigned long long low2 = 0xCA5A826395121157ull * words[2];
        unsigned long long high0 = __umul64hi(0xD2E7470EE14C6C93ull, words[0]);
        unsigned long long high2 = __umul64hi(0xCA5A826395121157ull, words[2]);
        words[0] = high2 ^ words[1] ^ first;
        words[1] = low2;
        words[2] = high0 ^ words[3] ^ second;
        words[3] = low0;
        first += 0x9E3779B97F4A7C15ull;
        second += 0xBB67AE8584CAA73Bull;
    }
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 16; i++)
        bits |= (unsigned)((unsigned)(words[i / 4] >> i % 4 * 16 & 0xffff) >= (unsigned)least) << i;
    return bits;
}

// Each thread makes the bits of a block, and the warp's threads read and write its 512 elements in
// turns, side by side, with the bits of whoever has them.
extern "C" __global__ void dropout(const T* x, T* out, double scale, long long n,
                                   unsigned long long first, unsigned long long second,
                                   long long least)
{
    const int turns = 16 / PACK;
    int lane = threadIdx.x % 32;
    long long block = thread_number(), start = (block - lane) * 16;
    A factor = (A)scale;
    if (start + 512 <= n && is_aligned(x) && is_aligned(out)) {
        Pack packs[turns];  // on their way while the bits are made
#pragma unroll
        for (int k = 0; k < turns; k++) packs[k] = ((const Pack*)(x + start))[k * 32 + lane];
        unsigned own = kept(first, second, block, least);
#pragma unroll
        for (int k = 0; k < turns; k++) {
            int place = k * 32 + lane;
            unsigned bits = __shfl_sync(0xffffffff, own, place / turns) >> place % turns * PACK;
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                T* item = packs[k].items + i;
                store(item, bits >> i & 1 ? load(item) * factor : A(0));
            }
            ((Pack*)(out + start))[place] = packs[k];
        }
        return;
    }
    unsigned own = kept(first, second, block, least);
    for (int k = 0; k < 16; k++) {
        int place = k * 32 + lane;
        unsigned bits = __shfl_sync(0xffffffff, own, place / 16);
        long long i = start + place;
        if (i < n) store(out + i, bits >> place % 16 & 1 ? load(x + i) * factor : A(0));
    }
}

struct alignas(16) Bools { bool items[16]; };

// On a kernel called `mask` NVRTC 13 crashes.
extern "C" __global__ void dropout_mask(bool* out, long long n, unsigned long long first,
                                        unsigned long long second, long long least)
{
    long long block = thread_number();
    unsigned bits = kept(first, second, block, least);
    if (block * 16 + 16 <= n) {
        Bools bools;
#pragma unroll
        for (int i = 0; i < 16; i++) bools.items[i] = bits >> i & 1;
        ((Bools*)out)[block] = bools;
        return;
    }
    for (long long i = block * 16; i < n; i++) out[i] = bits >> i % 16 & 1;
}
