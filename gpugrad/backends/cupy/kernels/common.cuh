// Code that all kernels share. They are compiled for each dtype: T is the type that is stored,
// float, double, half or bf16; A is the type in which kernels compute, double for double and float
// for the others.

// The 16-bit floats are defined here because CUDA's headers may not be installed.

struct half { unsigned short bits; };
struct bf16 { unsigned short bits; };

typedef STORED T;  // macros named T and A would break the compiler's own headers
typedef COMPUTED A;
typedef OTHER O;  // of arrays that may have another dtype than the others

#ifndef __CUDA_ARCH__  // for tests on a CPU, which must convert as the hardware does

// Drops the lowest bits, `dropped` of them, rounding to nearest, ties to even.
__device__ inline unsigned rounded(unsigned bits, int dropped)
{
    unsigned kept = bits >> dropped, rest = bits & ((1u << dropped) - 1), tie = 1u << (dropped - 1);
    return kept + (rest > tie || (rest == tie && (kept & 1)));
}

#endif

__device__ inline float load(const half* p)
{
#ifdef __CUDA_ARCH__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(p->bits));
    return x;
#else
    unsigned sign = (unsigned)(p->bits & 0x8000) << 16, magnitude = p->bits & 0x7fff;
    if (magnitude >= 0x7c00)  // inf or nan
        return __uint_as_float(sign | 0x7f800000 | magnitude << 13);
    float x = __uint_as_float(magnitude << 13) * __uint_as_float((254 - 15) << 23);  // by 2**112
    return sign ? -x : x;
#endif
}

__device__ inline void store(half* p, float x)
{
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(x));
#else
    unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    unsigned exponent = magnitude >> 23, out;
    if (magnitude > 0x7f800000)
        out = 0x7fff, sign = 0;  // the hardware's only nan
    else if (magnitude >= 0x477ff000)  // rounds to 2**16 or more
        out = 0x7c00;
    else if (exponent >= 113)
        out = rounded(magnitude - (112u << 23), 13);
    else if (exponent >= 102)  // subnormal: in steps of 2**-24
        out = rounded((magnitude & 0x7fffff) | 0x800000, 126 - exponent);
    else
        out = 0;
    p->bits = (unsigned short)(sign | out);
#endif
}

__device__ inline float load(const bf16* p)
{
    return __uint_as_float((unsigned)p->bits << 16);
}

__device__ inline void store(bf16* p, float x)
{
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(p->bits) : "f"(x));
#else
    unsigned bits = __float_as_uint(x);
    unsigned tie = 0x7fff + (bits >> 16 & 1);  // to nearest, ties to even
    p->bits = (unsigned short)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (bits + tie) >> 16);
#endif
}

__device__ inline float load(const float* p) { return *p; }
__device__ inline double load(const double* p) { return *p; }
__device__ inline void store(float* p, float x) { *p = x; }
__device__ inline void store(double* p, double x) { *p = x; }

// The value of `x` after it has been stored and loaded again.
__device__ inline A stored(A x)
{
    T t;
    store(&t, x);
    return load(&t);
}

// The number of elements in 16 bytes, which are read or written at a time.
#define PACK ((int)(16 / sizeof(T)))
struct alignas(16) Pack { T items[PACK]; };

__device__ inline bool is_aligned(const void* p) { return (unsigned long long)p % 16 == 0; }

__device__ inline A infinity() { return (A)__int_as_float(0x7f800000); }

// The greater of two numbers; nan if either is nan.
__device__ inline A maximum(A a, A b) { return a > b || a != a ? a : b; }

// What expressions in gpugrad/backends/declarations.py call in another way in C.
#define SQRT(x) sqrt(x)
#define FABS(x) fabs(x)
#define FLOOR(x) floor(x)
#define CEIL(x) ceil(x)
#define TRUNC(x) trunc(x)
#define RINT(x) rint(x)
#define COPYSIGN(x, y) copysign(x, y)
#define SELECT(c, x, y) ((c) ? (x) : (y))

// This thread's number in a one-dimensional grid, and the number of threads in it.
__device__ inline long long thread_number()
{
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ inline long long thread_count() { return (long long)gridDim.x * blockDim.x; }

// Reductions over a warp or over a one-dimensional block of whole warps. Every thread must take
// part, and every thread gets the result.

__device__ inline A warp_sum(A x)
{
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

__device__ inline A warp_max(A x)
{
    for (int step = 16; step; step /= 2) x = maximum(x, __shfl_xor_sync(0xffffffff, x, step));
    return x;
}

__device__ inline A block_sum(A x)
{
    __shared__ A parts[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_sum(x);
    if (warps == 1) return x;
    __syncthreads();  // until an earlier sum has been read
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? parts[lane] : A(0));
}

__device__ inline A block_max(A x)
{
    __shared__ A parts[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_max(x);
    if (warps == 1) return x;
    __syncthreads();  // until an earlier maximum has been read
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    return warp_max(lane < warps ? parts[lane] : -infinity());
}

// Whether this block is the last one of `count` to come here; it then sees what all of them have
// stored before. `arrived` is 0 before and afterwards, see reductions.py.
__device__ inline bool is_last(unsigned* arrived, unsigned count)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        last = atomicAdd(arrived, 1u) == count - 1;
        if (last) *arrived = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

// A launch that processes many arrays gets a table of them, see `tables` in loader.py. Of each array
// it has the number of its first block and other numbers: first those of one kind of all `count`
// arrays, then those of the next kind.

#define WORDS 448  // so that a table and other arguments fit into the 4 KB of a launch

struct Table { long long count, words[WORDS]; };

// The array of this block: the last one whose first block is not after it.
__device__ inline int find(const Table& table)
{
    int low = 0, high = (int)table.count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (table.words[middle] <= blockIdx.x) low = middle;
        else high = middle - 1;
    }
    return low;
}

// Random numbers that a key determines.

typedef unsigned long long word;

// A kernel gets its key by value, or by the address of the two words in the device's memory, `at`,
// which a captured program changes between its launches.
struct Key { word first, second; };

__device__ inline Key key_of(word first, word second, const word* at)
{
    return at ? Key{at[0], at[1]} : Key{first, second};
}

// Computes a block of four words by Philox4x64-10; see gpugrad/backends/philox.py.
__device__ inline void philox(Key key, long long block, word again, word* words)
{
    word first = key.first, second = key.second;
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

// `limit` in gpugrad/backends/philox.py, of the probability in units of 2**-32.
__device__ inline unsigned limit(Key key, long long chance)
{
    word fraction = key.first + key.second * 0x9E3779B97F4A7C15ull >> 48;
    return (unsigned)((word)chance + fraction >> 16);
}

// One bit for each of a block's 16 elements: whether its lane is at least `least`.
__device__ inline unsigned kept(Key key, long long block, unsigned least)
{
    word words[4];
    philox(key, block, 0, words);
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 16; i++)
        bits |= (unsigned)((unsigned)(words[i / 4] >> i % 4 * 16 & 0xffff) >= least) << i;
    return bits;
}

// Sums of columns, always added up in the same order. A block of 32 by SUMMED_ROWS threads processes
// one chunk of the rows of a strip, which is 32 columns or, if packed, 32 packs wide.

#define SUMMED_ROWS 16

// Adds each column's sums over the threads of a block, divides them and stores them.
template <int N, class S>
__device__ void store_sums(const A* sums, S* out, long long column, long long columns, A divisor)
{
    __shared__ A parts[SUMMED_ROWS][32];
    int x = threadIdx.x, y = threadIdx.y;
#pragma unroll
    for (int k = 0; k < N; k++) {
        __syncthreads();  // until the previous sums have been read
        parts[y][x] = sums[k];
        __syncthreads();
        A sum = 0;
        if (y == 0 && column + k < columns) {
            for (int i = 0; i < SUMMED_ROWS; i++) sum += parts[i][x];
            store(out + column + k, sum / divisor);
        }
    }
}

// Sums the values of each column; `get(i, column, values)` gives the N values from element i on,
// the first of which is in that column. The sums, divided, go to total. If there are several chunks
// of rows, each chunk's go to parts, and the last block of a strip to arrive adds them up.
template <int N, class Get>
__device__ void sum_columns(Get get, T* total, A* parts, unsigned* arrived, long long rows,
                            long long columns, A divisor)
{
    long long column = ((long long)blockIdx.x * 32 + threadIdx.x) * N;
    long long chunk = (rows + gridDim.y - 1) / gridDim.y;
    long long start = blockIdx.y * chunk, stop = start + chunk < rows ? start + chunk : rows;
    A sums[N] = {};
    if (column < columns) {
#pragma unroll 4
        for (long long row = start + threadIdx.y; row < stop; row += SUMMED_ROWS) {
            A values[N];
            get(row * columns + column, column, values);
#pragma unroll
            for (int k = 0; k < N; k++) sums[k] += values[k];
        }
    }
    if (gridDim.y > 1) {
        store_sums<N>(sums, parts + blockIdx.y * columns, column, columns, A(1));
        if (!is_last(arrived + blockIdx.x, gridDim.y)) return;
#pragma unroll
        for (int k = 0; k < N; k++) {
            sums[k] = 0;
            if (column + k < columns)
                for (long long row = threadIdx.y; row < gridDim.y; row += SUMMED_ROWS)
                    sums[k] += parts[row * columns + column + k];
        }
    }
    store_sums<N>(sums, total, column, columns, divisor);
}
