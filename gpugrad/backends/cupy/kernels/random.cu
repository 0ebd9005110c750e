// Random numbers, and kernels of gpugrad/ops/dropout.py: what a key decides.

typedef unsigned long long word;

// A block of four words of Philox4x64-10; see gpugrad/backends/philox.py.
__device__ inline void philox(word first, word second, long long block, word again, word* words)
{
    words[0] = (word)block + 1;
    words[1] = again;
    words[2] = words[3] = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        word low0 = 0xD2E7470EE14C6C93ull * words[0];
        word low2 = 0xCA5A826395121157ull * words[2];
        word high0 = __umul64hi(0xD2E7470EE14C6C93ull, words[0]);
        word high2 = __umul64hi(0xCA5A826395121157ull, words[2]);
        words[0] = high2 ^ words[1] ^ first;
        words[1] = low2;
        words[2] = high0 ^ words[3] ^ second;
        words[3] = low0;
        first += 0x9E3779B97F4A7C15ull;
        second += 0xBB67AE8584CAA73Bull;
    }
}

// The 16 elements of a block, as bits: whether their lanes are at least `least`.
__device__ inline unsigned kept(word first, word second, long long block, long long least)
{
    word words[4];
    philox(first, second, block, 0, words);
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 16; i++)
        bits |= (unsigned)((unsigned)(words[i / 4] >> i % 4 * 16 & 0xffff) >= (unsigned)least) << i;
    return bits;
}

// Each thread makes the bits of a block, and the warp's threads read and write its 512 elements in
// turns, side by side, with the bits of whoever has them.
extern "C" __global__ void dropout(const T* x, T* out, double scale, long long n, word first,
                                   word second, long long least)
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
extern "C" __global__ void dropout_mask(bool* out, long long n, word first, word second,
                                        long long least)
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

// How many bits of a number below 1 each type can hold.
__device__ inline int digits(const float*) { return 24; }
__device__ inline int digits(const double*) { return 53; }
__device__ inline int digits(const half*) { return 11; }
__device__ inline int digits(const bf16*) { return 8; }

const int PER_WORD = sizeof(T) == 8 ? 1 : 2;  // numbers, of 64 or of 32 bits
const int NUMBERS = 4 * PER_WORD;             // of a block

// The k-th number of a block: its most significant bits, `count` of them, as an integer.
__device__ inline A leading(const word* words, int k, int count)
{
    if constexpr (PER_WORD == 1)
        return (A)(words[k] >> (64 - count));
    else
        return (A)((unsigned)(words[k / 2] >> k % 2 * 32) >> (32 - count));
}

// From 0, and less than 1 in any rounding.
extern "C" __global__ void uniform(T* out, long long n, word first, word second)
{
    long long block = thread_number();
    word words[4];
    philox(first, second, block, 0, words);
    int count = digits((const T*)0);
#pragma unroll
    for (int k = 0; k < NUMBERS; k++) {
        long long i = block * NUMBERS + k;
        if (i < n) store(out + i, leading(words, k, count) / (A)(1ull << count));
    }
}

__device__ inline void sine_and_cosine(float x, float* s, float* c) { sincospif(x, s, c); }
__device__ inline void sine_and_cosine(double x, double* s, double* c) { sincospi(x, s, c); }

// Standard normal, in pairs (Box and Muller 1958).
extern "C" __global__ void normal(T* out, long long n, word first, word second)
{
    const int count = sizeof(A) == 8 ? 53 : 32;
    long long block = thread_number();
    word words[4];
    philox(first, second, block, 0, words);
#pragma unroll
    for (int k = 0; k < NUMBERS; k += 2) {
        A steps = (A)(1ull << count), pair[2];
        A radius = sqrt(-2 * log((leading(words, k, count) + 1) / steps));  // of (0, 1]
        sine_and_cosine(2 * leading(words, k + 1, count) / steps, pair, pair + 1);
        for (int j = 0; j < 2; j++) {
            long long i = block * NUMBERS + k + j;
            if (i < n) store(out + i, radius * pair[j]);
        }
    }
}

// `low` plus integers from 0 and less than `range`, each as likely (Lemire 2019); 0 means 2**64.
extern "C" __global__ void integers(long long* out, long long n, word first, word second,
                                    long long low, word range)
{
    long long block = thread_number();
    word words[4];
    philox(first, second, block, 0, words);
    word fewest = range ? (0 - range) % range : 0;
    for (int k = 0; k < 4 && block * 4 + k < n; k++) {
        word x = words[k];
        for (word again = 1; range && range * x < fewest; again++) {
            word others[4];
            philox(first, second, block, again, others);
            x = others[k];
        }
        out[block * 4 + k] = low + (long long)(range ? __umul64hi(range, x) : x);
    }
}
