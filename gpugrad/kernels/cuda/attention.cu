// Attention, in tiles: no weight is ever stored. attention.py launches the kernels, which it defines
// after this source for a number of features, and says what each kind computes.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#undef __grid_constant__
#define __grid_constant__  // which these devices do not have
#endif

// Products of small matrices by a warp. Thread `lane` has of the result, 16 by 8, the rows g and
// g + 8, g = lane / 4, and the columns 2 t and 2 t + 1, t = lane % 4. It gives the same rows of the
// left factor, and the column g of the right one; of both, of every 8 inner places, 2 t and 2 t + 1.
// Since the order in which products are added is free, these are the places that the hardware
// takes, in some order, for each type, and a result can be the left factor of the next product.

#define WARPS 4  // of a block
#define INNER (sizeof(T) == 2 ? 16 : 8)
struct alignas(2 * sizeof(T)) Pair { T items[2]; };
struct Left { Pair pairs[INNER / 8][2]; };  // row g and row g + 8
struct Right { Pair pairs[INNER / 8]; };

#if __CUDA_ARCH__ >= 750
__device__ inline unsigned word_of(const Pair& pair) { return *(const unsigned*)&pair; }
#endif

#if __CUDA_ARCH__ >= 800

#define MULTIPLY_16_BITS(type, name) \
    __device__ inline void multiply(float* c, const Left& a, const Right& b, const type*) \
    { \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0, %1, %2, %3}, " \
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
            : "r"(word_of(a.pairs[0][0])), "r"(word_of(a.pairs[0][1])), \
              "r"(word_of(a.pairs[INNER / 8 - 1][0])), "r"(word_of(a.pairs[INNER / 8 - 1][1])), \
              "r"(word_of(b.pairs[0])), "r"(word_of(b.pairs[INNER / 8 - 1]))); \
    }
MULTIPLY_16_BITS(half, "f16")
MULTIPLY_16_BITS(bf16, "bf16")

// float32 as the sum of two numbers of 11 bits each. An infinite one has no rest.
__device__ inline void split(float x, unsigned& most, unsigned& rest)
{
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(most) : "f"(x));
    float difference = x - __uint_as_float(most);
    if (!(fabsf(x) < infinity())) difference = 0;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rest) : "f"(difference));
}

__device__ inline void multiply_tf32(float* c, const unsigned* a, const unsigned* b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void multiply(float* c, const Left& a, const Right& b, const float*)
{
    unsigned a_most[4], a_rest[4], b_most[2], b_rest[2];
#pragma unroll
    for (int i = 0; i < 4; i++)
        split(load(a.pairs[0][i % 2].items + i / 2), a_most[i], a_rest[i]);
#pragma unroll
    for (int i = 0; i < 2; i++) split(load(b.pairs[0].items + i), b_most[i], b_rest[i]);
    multiply_tf32(c, a_rest, b_most);
    multiply_tf32(c, a_most, b_rest);
    multiply_tf32(c, a_most, b_most);
}

__device__ inline void multiply(double* c, const Left& a, const Right& b, const double*)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(c[i / 2 * 2]), "+d"(c[i / 2 * 2 + 1])
            : "d"((double)load(a.pairs[0][i / 2].items + i % 2)),
              "d"((double)load(b.pairs[0].items + i % 2)));
}

#else

#if __CUDA_ARCH__ >= 750
__device__ inline void multiply(float* c, const Left& a, const Right& b, const half*)
{
#pragma unroll
    for (int i = 0; i < INNER / 8; i++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, "
            "{%6}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(word_of(a.pairs[i][0])), "r"(word_of(a.pairs[i][1])), "r"(word_of(b.pairs[i])));
}
#endif

// Without tensor cores for the type, the threads exchange what they give; on a CPU, too.
template <class Factor>
__device__ inline void multiply(A* c, const Left& a, const Right& b, const Factor*)
{
    __shared__ struct { Left left[32]; Right right[32]; } given[WARPS];
    auto& own = given[threadIdx.x / 32];
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    own.left[lane] = a;
    own.right[lane] = b;
    __syncwarp();
#pragma unroll 2
    for (int k = 0; k < INNER; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const Pair& x = own.left[g * 4 + k % 8 / 2].pairs[k / 8][i / 2];
            const Pair& y = own.right[(2 * t + i % 2) * 4 + k % 8 / 2].pairs[k / 8];
            c[i] += load(x.items + k % 2) * load(y.items + k % 2);
        }
    __syncwarp();
}

#endif

// Tiles in shared memory: rows of FEATURES elements, with a gap between them so that the threads of
// a warp read from different banks.

#define STEP (FEATURES + 8)

// Reads rows from `first` on; those from `count` on, and features from `columns` on, are 0.
template <int FEATURES, int ROWS>
__device__ void load_tile(T* tile, const T* x, long long step, int first, int count, int columns)
{
    bool packed = is_aligned(x) && step % PACK == 0 && columns % PACK == 0;
    constexpr int PACKS = FEATURES / PACK;
    for (int i = threadIdx.x; i < ROWS * PACKS; i += blockDim.x) {
        int row = i / PACKS, column = i % PACKS * PACK;
        const T* from = x + (first + row) * step + column;
        Pack pack = {};
        if (first + row < count) {
            if (packed && column < columns) pack = *(const Pack*)from;
            if (!packed)
#pragma unroll
                for (int k = 0; k < PACK; k++)
                    if (column + k < columns) pack.items[k] = from[k];
        }
        *(Pack*)(tile + row * STEP + column) = pack;
    }
}

// Sixteen rows of a tile, INNER features from `inner` on.
template <int FEATURES>
__device__ inline Left left_of(const T* tile, int inner, int g, int t)
{
    Left a;
#pragma unroll
    for (int i = 0; i < INNER / 4; i++)
        a.pairs[i / 2][i % 2] =
            *(const Pair*)(tile + (g + i % 2 * 8) * STEP + inner + i / 2 * 8 + 2 * t);
    return a;
}

// out[16][8 * COLUMNS] += rows @ other.T
template <int FEATURES, int COLUMNS>
__device__ inline void multiply_rows(A (*out)[4], const T* rows, const T* other, int g, int t)
{
#pragma unroll 2
    for (int inner = 0; inner < FEATURES; inner += INNER) {
        Left a = left_of<FEATURES>(rows, inner, g, t);
#pragma unroll
        for (int column = 0; column < COLUMNS; column++) {
            Right b;
#pragma unroll
            for (int i = 0; i < INNER / 8; i++)
                b.pairs[i] =
                    *(const Pair*)(other + (column * 8 + g) * STEP + inner + i * 8 + 2 * t);
            multiply(out[column], a, b, (const T*)0);
        }
    }
}

// INNER rows of a tile, 8 features.
template <int FEATURES>
__device__ inline Right right_of(const T* tile, int g, int t)
{
    Right b;
#if __CUDA_ARCH__ >= 750
    if constexpr (sizeof(T) == 2) {
        unsigned* words = (unsigned*)b.pairs;
        unsigned row = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x % 16 * STEP);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(words[0]), "=r"(words[INNER / 8 - 1])
                     : "r"(row)
                     : "memory");
    } else
#endif
    {
#pragma unroll
        for (int i = 0; i < INNER / 4; i++)
            b.pairs[i / 2].items[i % 2] = tile[(i / 2 * 8 + 2 * t + i % 2) * STEP + g];
    }
    return b;
}

// sums[16][FEATURES] += weights[16][8 * COLUMNS] @ tile
template <int FEATURES, int COLUMNS>
__device__ inline void add_products(A (*sums)[4], A (*weights)[4], const T* tile, int g, int t)
{
#pragma unroll
    for (int row = 0; row < COLUMNS * 8; row += INNER) {
        Left a;
#pragma unroll
        for (int i = 0; i < INNER / 2; i++)
            store(a.pairs[i / 4][i / 2 % 2].items + i % 2, weights[row / 8 + i / 4][i % 4]);
#pragma unroll
        for (int column = 0; column < FEATURES / 8; column++)
            multiply(sums[column], a, right_of<FEATURES>(tile + row * STEP + column * 8, g, t),
                     (const T*)0);
    }
}

#define AXES 30  // leading axes; as in attention.py

// Numbers of elements between the rows of an array, and along the leading axes.
struct Steps { long long row, lead[AXES]; };

// n queries and m keys with d features, and values with e; `shared` successive stacks have the same
// keys and values. lead: the lengths of the leading axes. slices: of the features, see `attend`.
struct Sizes {
    long long lead[AXES], axes, n, m, d, e, slices, shared, is_causal, mask_kind, mask_column;
    Steps query, key, value, g, mask, out, out_key, out_value;
};

__device__ inline long long place(const Sizes& sizes, const Steps& steps, long long stack)
{
    long long at = 0;
    for (int axis = sizes.axes; axis--;) {
        at += stack % sizes.lead[axis] * steps.lead[axis];
        stack /= sizes.lead[axis];
    }
    return at;
}

enum MaskKind { NONE, BOOLS, STORED_NUMBERS, WIDE_NUMBERS };

// What is added to a score.
__device__ inline A bias(const void* mask, long long kind, long long at)
{
    if (kind == BOOLS) return ((const bool*)mask)[at] ? A(0) : -infinity();
    if (kind == STORED_NUMBERS) return load((const T*)mask + at);
    return kind == WIDE_NUMBERS ? ((const A*)mask)[at] : A(0);
}

__device__ inline A quad_sum(A x)
{
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

__device__ inline A quad_max(A x)
{
    x = maximum(x, __shfl_xor_sync(0xffffffff, x, 1));
    return maximum(x, __shfl_xor_sync(0xffffffff, x, 2));
}

// What dropout keeps of a warp's weights: a bit for each of the thread's. Sixteen weights in a row
// have their bits from one block of random numbers. A thread computes some blocks for all others.
template <int COLUMNS, bool BY_KEY>
__device__ inline unsigned kept_weights(Key key, unsigned least, long long stack,
                                        const Sizes& sizes, int row, int column, int g, int t)
{
    // Blocks of 16 keys: by key one of each query, by query those of the rows g and g + 8.
    constexpr int ACROSS = COLUMNS > 1 ? COLUMNS / 2 : 1;
    constexpr int TURNS = BY_KEY ? (COLUMNS + 3) / 4 : (ACROSS * 2 + 3) / 4;
    long long in_row = (sizes.m + 15) / 16;
    unsigned own[TURNS], bits = 0;
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        int which = BY_KEY ? i * 32 + threadIdx.x % 32 : i * 4 + t;
        long long query = BY_KEY ? column + which : row + g + which % 2 * 8;
        long long first = BY_KEY ? row : column + which / 2 * 16;
        own[i] = kept(key, (stack * sizes.n + query) * in_row + first / 16, least);
    }
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) {
        int tile = i / 4, half = i % 4 / 2, at = tile * 8 + 2 * t + i % 2;
        int which = BY_KEY ? at : tile / 2 * 2 + half;
        int turn = BY_KEY ? tile / 4 : which / 4;
        int lane = BY_KEY ? which % 32 : g * 4 + which % 4;
        unsigned block = __shfl_sync(0xffffffff, own[turn], lane);
        bits |= (block >> (BY_KEY ? g + half * 8 : (column + at) % 16) & 1) << i;
    }
    return bits;
}

// FORWARD: out = the result. STATISTICS: of each query the logarithm of the sum of exp(scores), and
// the sum of the weights' cotangents times the weights. QUERIES, KEYS, VALUES: out = their
// cotangents. MASK: out = that of the mask.
enum Kind { FORWARD, STATISTICS, QUERIES, KEYS, VALUES, MASK };

// How many columns of 8 a block goes over at a time, so that its tiles have room on every device with
// these tensor cores, and its threads have registers enough; as in attention.py.
constexpr int columns(int features, bool has_few)
{
    return features * sizeof(T) > 256 ? 2 : has_few ? 4 : 8;
}

// How many blocks a multiprocessor has: no more would have room for their tiles or have registers
// enough.
constexpr int blocks_at_a_time(int features)
{
    return features <= 32 || features * sizeof(T) > 256 ? 2 : 3;
}

#ifdef __CUDA_ARCH__
extern __shared__ Pack tiles[];
#else
__shared__ Pack tiles[6400];
#endif

// A block processes rows: keys for the cotangents of keys and values, else queries. It goes over all
// others, COLUMNS * 8 at a time. The cotangent of a mask is different: it goes over all stacks, and
// perhaps rows, for which the mask is the same.
//
// If the features are in slices, a block computes one slice of its results, the `block % slices`-th,
// and loads the tiles of each slice for its weights, those of its own slice at last.
template <int KIND, int FEATURES, bool IS_SLICED>
__device__ void attend(const T* query, const T* key, const T* value, const T* g_out,
                       const void* mask, A* statistics, void* out, const Sizes& sizes, A scale,
                       A rate, Key random, long long chance, unsigned block)
{
    constexpr bool BY_KEY = KIND == KEYS || KIND == VALUES;
    constexpr bool IS_ONLINE = KIND == FORWARD || KIND == STATISTICS;
    constexpr bool HAS_SLOPES = KIND != FORWARD && KIND != VALUES;
    constexpr int COLUMNS = columns(FEATURES, HAS_SLOPES || (KIND == VALUES && FEATURES > 64));
    constexpr int ROWS = 16 * WARPS, ACROSS = 8 * COLUMNS;
    constexpr int SUMS = KIND == STATISTICS || KIND == MASK ? 1 : FEATURES / 8;
    T *own1 = (T*)tiles, *own2 = own1 + ROWS * STEP;
    T *other1 = own2 + HAS_SLOPES * ROWS * STEP, *other2 = other1 + ACROSS * STEP;
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    int n = sizes.n, m = sizes.m, d = sizes.d, e = sizes.e;
    int row_count = BY_KEY ? m : n, column_count = BY_KEY ? n : m;
    unsigned least = chance ? limit(random, chance) : 0;
    int slices = IS_SLICED ? (int)sizes.slices : 1, slice = 0;
    if (IS_SLICED && KIND != STATISTICS && KIND != MASK) {
        slice = block % slices;
        block /= slices;
    }

    // What this block computes: rows from `start` on, and for a mask, one tile of columns.
    int tiles_down = KIND == MASK && !sizes.mask.row ? 1 : (row_count + ROWS - 1) / ROWS;
    int tiles_across = KIND == MASK ? (m + ACROSS - 1) / ACROSS : 1;
    long long which = block / (tiles_down * tiles_across), stacks = 1;
    int start = block / tiles_across % tiles_down * ROWS;
    int first = 0, stop = column_count, last_start = start;
    if (KIND == MASK) {
        first = block % tiles_across * ACROSS;
        stop = first + 1;
        if (!sizes.mask.row) last_start = n - 1;
        for (int axis = 0; axis < sizes.axes; axis++)
            if (!sizes.mask.lead[axis]) stacks *= sizes.lead[axis];
    } else if (BY_KEY) {
        stacks = sizes.shared;
        if (sizes.is_causal) first = start / ACROSS * ACROSS;
    } else if (sizes.is_causal && stop > start + ROWS) {
        stop = start + ROWS;
    }

    A sums[SUMS][4] = {}, mask_sums[KIND == MASK ? COLUMNS : 1][4] = {};
    A most[2] = {-infinity(), -infinity()}, total[2] = {}, along[2] = {};
    for (long long other = 0; other < stacks; other++) {
        long long stack = BY_KEY ? which * stacks + other : which;
        if (KIND == MASK) {  // the mask's stack, and that of those which share it
            long long own = which, rest = other, step = 1;
            stack = 0;
            for (int axis = sizes.axes; axis--;) {
                long long length = sizes.lead[axis];
                bool is_own = sizes.mask.lead[axis];
                stack += (is_own ? own : rest) % length * step;
                (is_own ? own : rest) /= length;
                step *= length;
            }
        }
        const T* q = query + place(sizes, sizes.query, stack);
        const T* k = key + place(sizes, sizes.key, stack);
        const T* v = value + place(sizes, sizes.value, stack);
        const T* c = g_out ? g_out + place(sizes, sizes.g, stack) : nullptr;
        long long in_mask = place(sizes, sizes.mask, stack);
        for (int from = start; from <= last_start; from += ROWS) {
            if (KIND == MASK && sizes.is_causal && from + ROWS <= first) continue;
            auto load_own = [&](int part) {
                if (BY_KEY) {
                    load_tile<FEATURES, ROWS>(own1, k + part, sizes.key.row, from, m, d - part);
                    if (HAS_SLOPES)
                        load_tile<FEATURES, ROWS>(own2, v + part, sizes.value.row, from, m, e - part);
                } else {
                    load_tile<FEATURES, ROWS>(own1, q + part, sizes.query.row, from, n, d - part);
                    if (HAS_SLOPES)
                        load_tile<FEATURES, ROWS>(own2, c + part, sizes.g.row, from, n, e - part);
                }
            };
            __syncthreads();
            if (!IS_SLICED) load_own(0);
            int row = from + warp * 16;
            for (int column = first; column < stop; column += ACROSS) {
                A weights[COLUMNS][4] = {}, slopes[HAS_SLOPES ? COLUMNS : 1][4] = {};
                for (int turn = 1; turn <= slices; turn++) {
                    int part = IS_SLICED ? (slice + turn) % slices * FEATURES : 0;
                    const T *x1 = BY_KEY ? q : k, *x2 = BY_KEY ? c : v;
                    long long step1 = BY_KEY ? sizes.query.row : sizes.key.row;
                    long long step2 = BY_KEY ? sizes.g.row : sizes.value.row;
                    __syncthreads();
                    if (IS_SLICED) load_own(part);
                    load_tile<FEATURES, ACROSS>(other1, x1 + part, step1, column, column_count,
                                                d - part);
                    if (HAS_SLOPES || turn == slices)
                        load_tile<FEATURES, ACROSS>(other2, x2 + part, step2, column, column_count,
                                                    e - part);
                    __syncthreads();
                    multiply_rows<FEATURES, COLUMNS>(weights, own1 + warp * 16 * STEP, other1, g,
                                                     t);
                    if constexpr (HAS_SLOPES)
                        multiply_rows<FEATURES, COLUMNS>(slopes, own2 + warp * 16 * STEP, other2, g,
                                                         t);
                }
                unsigned bits = ~0u;
                if (least)
                    bits = kept_weights<COLUMNS, BY_KEY>(random, least, stack, sizes, row, column,
                                                         g, t);
#pragma unroll
                for (int i = 0; i < COLUMNS * 4; i++) {
                    int own = row + g + i % 4 / 2 * 8, at = column + i / 4 * 8 + 2 * t + i % 2;
                    int of_query = BY_KEY ? at : own, of_key = BY_KEY ? own : at;
                    A& weight = weights[i / 4][i % 4];
                    bool valid = of_query < n && of_key < m;
                    if (valid && !(sizes.is_causal && of_key > of_query)) {
                        weight *= scale;
                        if (mask)
                            weight += bias(mask, sizes.mask_kind,
                                           in_mask + of_query * sizes.mask.row +
                                               of_key * sizes.mask_column);
                    } else {
                        weight = -infinity();
                    }
                    if (HAS_SLOPES) {
                        A& slope = slopes[i / 4][i % 4];
                        slope = bits >> i & 1 ? slope * rate : 0;
                    }
                    if (!IS_ONLINE) {
                        const A* of = statistics + 2 * (stack * n + of_query);
                        weight = valid ? exp(weight - of[0]) : 0;
                        if (HAS_SLOPES) {
                            A& slope = slopes[i / 4][i % 4];
                            slope = valid ? weight * (slope - of[1]) : 0;
                        }
                    }
                }
                if (IS_ONLINE) {
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        A greatest = most[half];
#pragma unroll
                        for (int i = 0; i < COLUMNS * 2; i++)
                            greatest = maximum(greatest, weights[i / 2][half * 2 + i % 2]);
                        greatest = quad_max(greatest);
                        A base = greatest == -infinity() ? A(0) : greatest;
                        A factor = exp(most[half] - base);
                        most[half] = greatest;
                        total[half] *= factor;
                        along[half] *= factor;
#pragma unroll
                        for (int i = 0; i < SUMS * 2; i++) sums[i / 2][half * 2 + i % 2] *= factor;
#pragma unroll
                        for (int i = 0; i < COLUMNS * 2; i++) {
                            A& weight = weights[i / 2][half * 2 + i % 2];
                            weight = exp(weight - base);
                            total[half] += weight;
                            if (HAS_SLOPES) along[half] += weight * slopes[i / 2][half * 2 + i % 2];
                        }
                    }
                }
                if constexpr (KIND == MASK) {
#pragma unroll
                    for (int i = 0; i < COLUMNS * 4; i++)
                        mask_sums[i / 4][i % 4] += slopes[i / 4][i % 4];
                } else if constexpr (KIND == QUERIES || KIND == KEYS) {
                    add_products<FEATURES, COLUMNS>(sums, slopes, other1, g, t);
                } else if constexpr (KIND != STATISTICS) {
                    if (least)
#pragma unroll
                        for (int i = 0; i < COLUMNS * 4; i++)
                            if (!(bits >> i & 1)) weights[i / 4][i % 4] = 0;
                    add_products<FEATURES, COLUMNS>(sums, weights, other2, g, t);
                }
            }
        }
    }

    // The results
    int row = start + warp * 16 + g;
    if constexpr (KIND == STATISTICS) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            A sum = quad_sum(total[half]), mean = quad_sum(along[half]) / (sum == 0 ? A(1) : sum);
            if (t || row + half * 8 >= n) continue;
            A* of = statistics + 2 * (which * n + row + half * 8);
            of[0] = sum == 0 ? infinity() : most[half] + log(sum);
            of[1] = mean;
        }
    } else if constexpr (KIND == MASK) {
        A* to = (A*)out + which * (sizes.mask.row ? (long long)n * m : m);
#pragma unroll
        for (int i = 0; i < COLUMNS * 4; i++) {
            int own = row + i % 4 / 2 * 8, at = first + i / 4 * 8 + 2 * t + i % 2;
            A sum = mask_sums[i / 4][i % 4];
            if (sizes.mask.row) {
                if (own < n && at < m) to[(long long)own * m + at] = sum;
                continue;
            }
            if (i % 4 > 1) continue;  // one row: the sum over those of all warps
            sum += mask_sums[i / 4][i % 4 + 2];
            for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
            A* parts = (A*)tiles;
            __syncthreads();
            if (g == 0) parts[warp * 4 + t] = sum;
            __syncthreads();
            if (warp || g || at >= m) continue;
            for (int other = 1; other < WARPS; other++) sum += parts[other * 4 + t];
            to[at] = sum;
        }
    } else {
        const Steps& steps = KIND == KEYS     ? sizes.out_key
                             : KIND == VALUES ? sizes.out_value
                                              : sizes.out;
        T* to = (T*)out + place(sizes, steps, BY_KEY ? which * stacks : which);
        int columns = KIND == FORWARD || KIND == VALUES ? e : d;
        A factor[2] = {scale, scale};
        if (KIND == VALUES) factor[0] = factor[1] = rate;
        if (KIND == FORWARD)
            for (int half = 0; half < 2; half++) {
                A sum = quad_sum(total[half]);
                factor[half] = rate / (sum == 0 ? A(1) : sum);
            }
#pragma unroll
        for (int i = 0; i < SUMS * 4; i++) {
            int own = row + i % 4 / 2 * 8, at = slice * FEATURES + i / 4 * 8 + 2 * t + i % 2;
            if (own < row_count && at < columns)
                store(to + own * steps.row + at, sums[i / 4][i % 4] * factor[i % 4 / 2]);
        }
    }
}

// What a block of attend_backward computes: rows of queries or keys of a group, which is a stack of
// keys and the stacks of queries that share it.
struct Job { unsigned group, number; int kind; };

// The jobs of each group are, first, the statistics of queries, `lead` groups ahead of the others.
__device__ inline Job job_of(unsigned number, unsigned groups, unsigned lead, unsigned down,
                             unsigned across, unsigned slices, bool queries, bool keys,
                             bool values)
{
    unsigned of_queries = queries * down * slices, of_keys = keys * across * slices;
    unsigned others = of_queries + of_keys + values * across * slices, both = down + others;
    if (number < lead * down) return {number / down, number, STATISTICS};
    number -= lead * down;
    unsigned group = number / both;
    if (group < groups - lead) {
        number %= both;
        if (number < down) return {group + lead, (group + lead) * down + number, STATISTICS};
        number -= down;
    } else {
        number -= (groups - lead) * both;
        group = groups - lead + number / others;
        number %= others;
    }
    if (number < of_queries) return {group, group * down * slices + number, QUERIES};
    number -= of_queries;
    if (number < of_keys) return {group, group * across * slices + number, KEYS};
    return {group, group * across * slices + number - of_keys, VALUES};
}

// In a function of its own, which has all registers for itself.
template <int KIND, int FEATURES, bool IS_SLICED>
__device__ __noinline__ void attend_apart(const T* query, const T* key, const T* value,
                                          const T* g_out, const void* mask, A* statistics,
                                          void* out, const Sizes& sizes, A scale, A rate,
                                          Key random, long long chance, unsigned block)
{
    attend<KIND, FEATURES, IS_SLICED>(query, key, value, g_out, mask, statistics, out, sizes, scale,
                                      rate, random, chance, block);
}

// The cotangents of queries, keys and values, of those that are not null, in one launch: what they
// read is then still in the cache. A block takes the first job that none has taken. If it has to
// wait for statistics, it waits only for blocks that run or are done. counts: the jobs taken, and
// of each group how many statistics are done; 0 at first.
template <int FEATURES, bool IS_SLICED>
__device__ void attend_backward(const T* query, const T* key, const T* value, const T* g_out,
                                const void* mask, A* statistics, T* out, T* out_key, T* out_value,
                                unsigned* counts, const Sizes& sizes, A scale, A rate, Key random,
                                long long chance, long long groups, long long lead)
{
    __shared__ Job job;
    if (threadIdx.x == 0) {
        constexpr int ROWS = 16 * WARPS;
        unsigned down = (sizes.n + ROWS - 1) / ROWS * sizes.shared;
        job = job_of(atomicAdd(counts, 1u), groups, lead, down, (sizes.m + ROWS - 1) / ROWS,
                     IS_SLICED ? sizes.slices : 1, out, out_key, out_value);
        if (job.kind != STATISTICS)
            while (*(volatile unsigned*)(counts + 1 + job.group) < down) {
#if __CUDA_ARCH__ >= 700
                __nanosleep(100);
#endif
            }
    }
    __syncthreads();
    __threadfence();
#define ATTEND(kind, out) \
    attend_apart<kind, FEATURES, IS_SLICED>(query, key, value, g_out, mask, statistics, out, sizes, \
                                            scale, rate, random, chance, job.number)
    if (job.kind == QUERIES) {
        ATTEND(QUERIES, out);
    } else if (job.kind == KEYS) {
        ATTEND(KEYS, out_key);
    } else if (job.kind == VALUES) {
        ATTEND(VALUES, out_value);
    } else {
        ATTEND(STATISTICS, nullptr);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) atomicAdd(counts + 1 + job.group, 1u);
    }
}
