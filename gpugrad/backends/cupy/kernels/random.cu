// Random numbers and dropout, determined by a key.

// Each thread computes the bits of one block. The threads of a warp then read and write the warp's
// 512 elements together, at adjacent addresses, and get each element's bits from the thread that
// computed them.
extern "C" __global__ void dropout(const T* x, T* out, double scale, long long n, word first,
                                   word second, const word* at, long long chance)
{
    Key key = key_of(first, second, at);
    unsigned least = limit(key, chance);
    const int turns = 16 / PACK;
    int lane = threadIdx.x % 32;
    long long block = thread_number(), start = (block - lane) * 16;
    A factor = (A)scale;
    if (start + 512 <= n && is_aligned(x) && is_aligned(out)) {
        Pack packs[turns];  // loaded while the bits are computed
#pragma unroll
        for (int k = 0; k < turns; k++) packs[k] = ((const Pack*)(x + start))[k * 32 + lane];
        unsigned own = kept(key, block, least);
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
    unsigned own = kept(key, block, least);
    for (int k = 0; k < 16; k++) {
        int place = k * 32 + lane;
        unsigned bits = __shfl_sync(0xffffffff, own, place / 16);
        long long i = start + place;
        if (i < n) store(out + i, bits >> place % 16 & 1 ? load(x + i) * factor : A(0));
    }
}

struct alignas(16) Bools { bool items[16]; };

// The name must not be `mask`, on which NVRTC 13 crashes.
extern "C" __global__ void dropout_mask(bool* out, long long n, word first, word second,
                                        const word* at, long long chance, long long start)
{
    Key key = key_of(first, second, at);
    unsigned least = limit(key, chance);
    long long block = thread_number();
    unsigned bits = kept(key, start + block, least);
    if (block * 16 + 16 <= n) {
        Bools bools;
#pragma unroll
        for (int i = 0; i < 16; i++) bools.items[i] = bits >> i & 1;
        ((Bools*)out)[block] = bools;
        return;
    }
    for (long long i = block * 16; i < n; i++) out[i] = bits >> i % 16 & 1;
}

// The number of bits with which each type can represent all fractions from 0 to 1.
__device__ inline int digits(const float*) { return 24; }
__device__ inline int digits(const double*) { return 53; }
__device__ inline int digits(const half*) { return 11; }
__device__ inline int digits(const bf16*) { return 8; }

const int PER_WORD = sizeof(T) == 8 ? 1 : 2;  // numbers of 64 or 32 bits in a word
const int NUMBERS = 4 * PER_WORD;             // numbers in a block

// The `count` most significant bits of a block's k-th number, as an integer.
__device__ inline A leading(const word* words, int k, int count)
{
    if constexpr (PER_WORD == 1)
        return (A)(words[k] >> (64 - count));
    else
        return (A)((unsigned)(words[k / 2] >> k % 2 * 32) >> (32 - count));
}

// Uniform in [0, 1); no number is rounded up to 1.
extern "C" __global__ void
uniform(T* out, long long n, word first, word second, const word* at)
{
    Key key = key_of(first, second, at);
    long long block = thread_number();
    word words[4];
    philox(key, block, 0, words);
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
extern "C" __global__ void
normal(T* out, long long n, word first, word second, const word* at)
{
    Key key = key_of(first, second, at);
    const int count = sizeof(A) == 8 ? 53 : 32;
    long long block = thread_number();
    word words[4];
    philox(key, block, 0, words);
#pragma unroll
    for (int k = 0; k < NUMBERS; k += 2) {
        A steps = (A)(1ull << count), pair[2];
        A radius = sqrt(-2 * log((leading(words, k, count) + 1) / steps));  // log of (0, 1]
        sine_and_cosine(2 * leading(words, k + 1, count) / steps, pair, pair + 1);
        for (int j = 0; j < 2; j++) {
            long long i = block * NUMBERS + k + j;
            if (i < n) store(out + i, radius * pair[j]);
        }
    }
}

// `low` plus integers in [0, range), all equally likely (Lemire 2019); a range of 0 means 2**64.
extern "C" __global__ void integers(long long* out, long long n, word first, word second,
                                    const word* at, long long low, word range)
{
    Key key = key_of(first, second, at);
    long long block = thread_number();
    word words[4];
    philox(key, block, 0, words);
    word fewest = range ? (0 - range) % range : 0;
    for (int k = 0; k < 4 && block * 4 + k < n; k++) {
        word x = words[k];
        for (word again = 1; range && range * x < fewest; again++) {
            word others[4];
            philox(key, block, again, others);
            x = others[k];
        }
        out[block * 4 + k] = low + (long long)(range ? __umul64hi(range, x) : x);
    }
}
