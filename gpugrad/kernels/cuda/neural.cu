// Kernels of the twins in neural.py, which launches them.

// Activations, and their cotangents given only an activation's output

enum Activation { NONE, RELU, SIGMOID, TANH };

__device__ inline A activated(A x, int activation)
{
    if (activation == RELU) return maximum(x, 0);
    if (activation == TANH) return tanh(x);
    if (activation == SIGMOID) {
        A e = exp(x < 0 ? x : -x);  // the exponent is never positive, so nothing overflows
        return (x < 0 ? e : 1) / (1 + e);
    }
    return x;
}

__device__ inline A cotangent(A g, A out, int activation)
{
    if (activation == RELU) return out > 0 ? g : 0;
    if (activation == TANH) return g * (1 - out * out);
    if (activation == SIGMOID) return g * out * (1 - out);
    return g;
}

// out = activation(x + bias); out may be x. Without a bias, columns is n.
extern "C" __global__ void activate(const T* x, const T* bias, T* out, long long n,
                                    long long columns, int activation)
{
    bool packed = n % PACK == 0 && columns % PACK == 0 && is_aligned(x) && is_aligned(out);
    long long first = thread_number(), stride = thread_count();
    if (packed) first *= PACK, stride *= PACK;
    long long column = bias ? first % columns : 0, step = bias ? stride % columns : 0;
    for (long long i = first; i < n; i += stride) {
        if (packed) {
            Pack pack = *(const Pack*)(x + i);
#pragma unroll
            for (int k = 0; k < PACK; k++) {
                A b = bias ? load(bias + column + k) : 0;
                store(pack.items + k, activated(load(pack.items + k) + b, activation));
            }
            *(Pack*)(out + i) = pack;
        } else {
            A b = bias ? load(bias + column) : 0;
            store(out + i, activated(load(x + i) + b, activation));
        }
        column += step;
        if (column >= columns) column -= columns;
    }
}

// out = the cotangent of the input of the activation whose output is y, elementwise.
extern "C" __global__ void activate_backward(const T* g, const T* y, T* out, long long n,
                                             int activation)
{
    bool packed = n % PACK == 0 && is_aligned(g) && is_aligned(y) && is_aligned(out);
    long long first = thread_number(), stride = thread_count();
    if (packed) first *= PACK, stride *= PACK;
    for (long long i = first; i < n; i += stride) {
        if (packed) {
            Pack a = *(const Pack*)(g + i), b = *(const Pack*)(y + i);
#pragma unroll
            for (int k = 0; k < PACK; k++)
                store(a.items + k, cotangent(load(a.items + k), load(b.items + k), activation));
            *(Pack*)(out + i) = a;
        } else {
            store(out + i, cotangent(load(g + i), load(y + i), activation));
        }
    }
}

// Sums of columns

template <int N>
__device__ void sum_cotangents(const T* __restrict__ g, const T* __restrict__ y,
                               T* __restrict__ out, T* total, A* parts, unsigned* arrived,
                               long long rows, long long columns, int activation)
{
    struct alignas(N * sizeof(T)) Items { T items[N]; };
    auto cotangents = [=](long long i, long long column, A* c) {
        Items a = *(const Items*)(g + i), b = *(const Items*)(y + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            c[k] = cotangent(load(a.items + k), load(b.items + k), activation);
            store(a.items + k, c[k]);
        }
        *(Items*)(out + i) = a;
    };
    sum_columns<N>(cotangents, total, parts, arrived, rows, columns, 1);
}

// out = the cotangent of the input of the activation whose output is y. The sums of its columns go
// to total, see sum_columns.
extern "C" __global__ void __launch_bounds__(32 * SUMMED_ROWS)
activate_backward_and_sum(const T* g, const T* y, T* out, T* total, A* parts, unsigned* arrived,
                          long long rows, long long columns, int activation, bool packed)
{
    if (packed)
        sum_cotangents<PACK>(g, y, out, total, parts, arrived, rows, columns, activation);
    else
        sum_cotangents<1>(g, y, out, total, parts, arrived, rows, columns, activation);
}

// Rows, each processed by a group of `width` threads: a power of 2 up to 32, or the whole block.
// Each thread keeps its share of the first ITEMS * width elements of a row in registers, and reads
// N elements at a time.

#define ITEMS ((int)(128 / sizeof(A)))
#define MOST_THREADS 256  // in a block; each needs many registers

__device__ inline A group_sum(A x, int width)
{
    if (width > 32) return block_sum(x);
    for (int step = width / 2; step; step /= 2) x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

__device__ inline A group_max(A x, int width)
{
    if (width > 32) return block_max(x);
    for (int step = width / 2; step; step /= 2)
        x = maximum(x, __shfl_xor_sync(0xffffffff, x, step));
    return x;
}

template <int N> struct alignas(N * sizeof(T)) Items { T items[N]; };

// Calls visit(column, values) for this thread's groups of N elements of a row.
template <int N, class Visit>
__device__ inline void each_in_registers(A* values, long long columns, int lane, int width,
                                         Visit visit)
{
#pragma unroll
    for (int k = 0; k < ITEMS; k += N) {
        long long column = ((long long)(k / N) * width + lane) * N;
        if (column < columns) visit(column, values + k);
    }
}

// The same for those beyond, with values that are loaded from x.
template <int N, class Visit>
__device__ inline void each_beyond(const T* x, long long columns, int lane, int width, Visit visit)
{
    for (long long column = (long long)ITEMS * width + lane * N; column < columns;
         column += width * N) {
        A values[N];
        Items<N> group = *(const Items<N>*)(x + column);
#pragma unroll
        for (int i = 0; i < N; i++) values[i] = load(group.items + i);
        visit(column, values);
    }
}

// Loads this thread's first elements; in place of those that there are not, `other`.
template <int N>
__device__ inline void load_row(const T* x, long long columns, int lane, int width, A other,
                                A* values)
{
#pragma unroll
    for (int i = 0; i < ITEMS; i++) values[i] = other;
    each_in_registers<N>(values, columns, lane, width, [&](long long column, A* at) {
        Items<N> group = *(const Items<N>*)(x + column);
#pragma unroll
        for (int i = 0; i < N; i++) at[i] = load(group.items + i);
    });
}

// Stores value(x, column) for each element x of a row: the first, which it also puts in their place,
// from registers, the others loaded.
template <int N, class Value>
__device__ inline void store_row(T* to, const T* from, A* values, long long columns, int lane,
                                 int width, Value value)
{
    auto visit = [&](long long column, A* at) {
        Items<N> group;
#pragma unroll
        for (int i = 0; i < N; i++) {
            at[i] = value(at[i], column + i);
            store(group.items + i, at[i]);
        }
        *(Items<N>*)(to + column) = group;
    };
    each_in_registers<N>(values, columns, lane, width, visit);
    each_beyond<N>(from, columns, lane, width, visit);
}

// What softmax needs to know about a row: its greatest element and the sum of exp(x - greatest).
struct Scale { A most, sum; };

// Computes a row's Scale and loads the thread's first elements into `values`, with `bias` added to
// them, if there is one. Every thread of the block must take part.

template <int N>
__device__ inline Scale scale_of(const T* x, bool valid, long long columns, int lane, int width,
                                 A* values, const T* bias = nullptr)
{
    if (!valid) columns = 0;
    A most = -infinity(), sum = 0;
    load_row<N>(x, columns, lane, width, -infinity(), values);
    if (bias)
        each_in_registers<N>(values, columns, lane, width, [&](long long column, A* at) {
#pragma unroll
            for (int i = 0; i < N; i++) at[i] = stored(at[i] + load(bias + column + i));
        });
#pragma unroll
    for (int i = 0; i < ITEMS; i++) most = maximum(most, values[i]);
    each_beyond<N>(x, columns, lane, width, [&](long long, A* at) {
#pragma unroll
        for (int i = 0; i < N; i++) most = maximum(most, at[i]);
    });
    most = group_max(most, width);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) sum += exp(values[i] - most);
    each_beyond<N>(x, columns, lane, width, [&](long long, A* at) {
#pragma unroll
        for (int i = 0; i < N; i++) sum += exp(at[i] - most);
    });
    return {most, group_sum(sum, width)};
}

// The rows of this thread's group. All threads of a block take the same number of steps.
#define EACH_ROW(row) \
    int lane = threadIdx.x % width, groups = blockDim.x / width; \
    for (long long first_ = (long long)blockIdx.x * groups, row; \
         row = first_ + threadIdx.x / width, first_ < rows; first_ += (long long)gridDim.x * groups)

template <int N>
__device__ void softmax_of(const T* x, T* out, long long rows, long long columns, int width,
                           bool is_log)
{
    EACH_ROW(row) {
        bool valid = row < rows;
        const T* from = x + row * columns;
        A values[ITEMS];
        Scale s = scale_of<N>(from, valid, columns, lane, width, values);
        if (!valid) continue;
        A less = is_log ? log(s.sum) : 0;
        store_row<N>(out + row * columns, from, values, columns, lane, width,
                     [=](A x, long long) {
                         return is_log ? x - s.most - less : exp(x - s.most) / s.sum;
                     });
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
softmax(const T* x, T* out, long long rows, long long columns, int width, bool is_log)
{
    if (columns % PACK == 0 && is_aligned(x) && is_aligned(out))
        softmax_of<PACK>(x, out, rows, columns, width, is_log);
    else
        softmax_of<1>(x, out, rows, columns, width, is_log);
}

template <int N>
__device__ void softmax_cotangent(const T* g, const T* out, T* dx, long long rows,
                                  long long columns, int width, bool is_log)
{
    EACH_ROW(row) {
        bool valid = row < rows;
        const T *from = g + row * columns, *at = out + row * columns;
        A gs[ITEMS], outs[ITEMS], sum = 0;
        long long length = valid ? columns : 0;
        load_row<N>(from, length, lane, width, 0, gs);
        load_row<N>(at, length, lane, width, 0, outs);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) sum += is_log ? gs[i] : gs[i] * outs[i];
        each_beyond<N>(from, length, lane, width, [&](long long column, A* values) {
#pragma unroll
            for (int i = 0; i < N; i++) sum += is_log ? values[i] : values[i] * load(at + column + i);
        });
        sum = group_sum(sum, width);
        if (!valid) continue;
        auto cotangent = [=](A g, A out) { return is_log ? g - exp(out) * sum : (g - sum) * out; };
#pragma unroll
        for (int i = 0; i < ITEMS; i++) gs[i] = cotangent(gs[i], outs[i]);
        T* to = dx + row * columns;
        auto visit = [&](long long column, A* values) {
            Items<N> group;
#pragma unroll
            for (int i = 0; i < N; i++) store(group.items + i, values[i]);
            *(Items<N>*)(to + column) = group;
        };
        each_in_registers<N>(gs, columns, lane, width, visit);
        each_beyond<N>(from, columns, lane, width, [&](long long column, A* values) {
#pragma unroll
            for (int i = 0; i < N; i++) values[i] = cotangent(values[i], load(at + column + i));
            visit(column, values);
        });
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
softmax_backward(const T* g, const T* out, T* dx, long long rows, long long columns, int width,
                 bool is_log)
{
    if (columns % PACK == 0 && is_aligned(g) && is_aligned(out) && is_aligned(dx))
        softmax_cotangent<PACK>(g, out, dx, rows, columns, width, is_log);
    else
        softmax_cotangent<1>(g, out, dx, rows, columns, width, is_log);
}

// Softmax along another axis than the last: of columns whose elements are `inner` places apart. A
// thread processes N neighbouring columns, whose elements it reads at a time.

template <int N, class Visit>
__device__ inline void each_column(long long columns, long long length, long long inner,
                                   Visit visit)
{
    for (long long i = thread_number() * N; i < columns; i += thread_count() * N)
        visit(i / inner * length * inner + i % inner);
}

template <int N>
__device__ void softmax_of_columns(const T* x, T* out, long long columns, long long length,
                                   long long inner, bool is_log)
{
    each_column<N>(columns, length, inner, [=](long long start) {
        A most[N], sum[N];
#pragma unroll
        for (int k = 0; k < N; k++) most[k] = -infinity(), sum[k] = 0;
        for (long long i = 0; i < length; i++) {
            Items<N> group = *(const Items<N>*)(x + start + i * inner);
#pragma unroll
            for (int k = 0; k < N; k++) {
                A value = load(group.items + k), before = most[k];
                most[k] = maximum(before, value);
                A base = most[k] == -infinity() ? A(0) : most[k];
                sum[k] = sum[k] * exp(before - base) + exp(value - base);
            }
        }
        for (long long i = 0; i < length; i++) {
            Items<N> group = *(const Items<N>*)(x + start + i * inner);
#pragma unroll
            for (int k = 0; k < N; k++) {
                A shifted = load(group.items + k) - most[k];
                store(group.items + k, is_log ? shifted - log(sum[k]) : exp(shifted) / sum[k]);
            }
            *(Items<N>*)(out + start + i * inner) = group;
        }
    });
}

extern "C" __global__ void softmax_columns(const T* x, T* out, long long columns, long long length,
                                           long long inner, bool packed, bool is_log)
{
    if (packed)
        softmax_of_columns<PACK>(x, out, columns, length, inner, is_log);
    else
        softmax_of_columns<1>(x, out, columns, length, inner, is_log);
}

template <int N>
__device__ void softmax_cotangent_of_columns(const T* g, const T* out, T* dx, long long columns,
                                             long long length, long long inner, bool is_log)
{
    each_column<N>(columns, length, inner, [=](long long start) {
        A sum[N] = {};
        for (long long i = start; i < start + length * inner; i += inner) {
            Items<N> a = *(const Items<N>*)(g + i), b = *(const Items<N>*)(out + i);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] += is_log ? load(a.items + k) : load(a.items + k) * load(b.items + k);
        }
        for (long long i = start; i < start + length * inner; i += inner) {
            Items<N> a = *(const Items<N>*)(g + i), b = *(const Items<N>*)(out + i);
#pragma unroll
            for (int k = 0; k < N; k++) {
                A slope = load(a.items + k), y = load(b.items + k);
                store(a.items + k, is_log ? slope - exp(y) * sum[k] : (slope - sum[k]) * y);
            }
            *(Items<N>*)(dx + i) = a;
        }
    });
}

extern "C" __global__ void softmax_columns_backward(const T* g, const T* out, T* dx,
                                                    long long columns, long long length,
                                                    long long inner, bool packed, bool is_log)
{
    if (packed)
        softmax_cotangent_of_columns<PACK>(g, out, dx, columns, length, inner, is_log);
    else
        softmax_cotangent_of_columns<1>(g, out, dx, columns, length, inner, is_log);
}

// A row's label; -1 if there is no such column.
__device__ inline long long label(const void* target, bool is_long, long long row,
                                  long long columns)
{
    long long t = is_long ? ((const long long*)target)[row] : ((const int*)target)[row];
    return t < 0 || t >= columns ? -1 : t;
}

__device__ inline bool counts(const void* target, bool is_long, long long row, long long ignored)
{
    return (is_long ? ((const long long*)target)[row] : ((const int*)target)[row]) != ignored;
}

// Stores the sum of `total` over all threads, times `factor` and, if `is_mean`, divided by that of
// `count`. If there are several blocks, the last one to arrive adds up the parts of all; returns
// whether it is this one.
__device__ inline bool store_total(A total, A count, bool is_mean, A factor, T* out, A* parts,
                                   unsigned* arrived)
{
    total = block_sum(total);
    count = block_sum(count);
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) parts[blockIdx.x] = total, parts[gridDim.x + blockIdx.x] = count;
        if (!is_last(arrived, gridDim.x)) return false;
        total = count = 0;
        for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x)
            total += parts[i], count += parts[gridDim.x + i];
        total = block_sum(total);
        count = block_sum(count);
    }
    if (threadIdx.x == 0 && out) store(out, is_mean ? total / count : total * factor);
    return true;
}

// counted = how many labels are not `ignored`, by block.
extern "C" __global__ void __launch_bounds__(1024)
count_labels(const void* target, A* counted, long long rows, bool is_long, long long ignored)
{
    A count = 0;
    for (long long row = thread_number(); row < rows; row += thread_count())
        count += counts(target, is_long, row, ignored);
    count = block_sum(count);
    if (threadIdx.x == 0) counted[blockIdx.x] = count;
}

// What the kernels of cross-entropy read and write. bias, losses and sums may be null.
//
// g: the cotangent, of each row or of the sum. counted: see divisor_of. parts: for the sums of each
// block, see store_total, and after those for its sums of columns.
struct Entropy {
    const T *x, *bias, *g;
    const void* target;
    const A* counted;
    T *losses, *out, *dx, *sums;
    A* parts;
    unsigned* arrived;
    long long rows, columns, ignored, counting;
    int width;
    bool is_long, is_mean, per_row;
};

// What the cotangent is divided by: the sum of the first `counting` of `counted`, up to 32, if there
// are any, or what each block counts if `counted` is null; at least 1.
__device__ inline A divisor_of(const Entropy& e)
{
    int place = threadIdx.x % 32;
    A count = 1;
    if (e.counting && e.counted) {
        count = warp_sum(place < e.counting ? e.counted[place] : A(0));
    } else if (e.counting) {
        count = 0;
        for (long long row = threadIdx.x; row < e.rows; row += blockDim.x)
            count += counts(e.target, e.is_long, row, e.ignored);
        count = block_sum(count);
    }
    return count < 1 ? A(1) : count;
}

// Adds up what the threads of a block have of each column, and stores it.
template <int N>
__device__ inline void store_columns(const A* sums, A* out, long long columns, int lane, int width)
{
    __shared__ A strip[MOST_THREADS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        long long start = (long long)(i / N) * width * N;
        if (start >= columns) break;
        __syncthreads();  // until the previous columns have been read
        strip[threadIdx.x] = sums[i];
        __syncthreads();
        long long column = start + lane * N + i % N;
        if (threadIdx.x >= width || column >= columns) continue;
        A sum = 0;
        for (int k = lane; k < blockDim.x; k += width) sum += strip[k];
        out[column] = sum;
    }
}

// The losses of all rows, 0 where the label is `ignored`; or, if losses is null, their sum, if
// `is_mean` divided by the number of other labels. Also, or only, the cotangents of the rows and, if
// asked for, the sums of their columns, of which there must not be more than are in registers.
template <int N, bool HAS_LOSS, bool HAS_SLOPE>
__device__ void cross_entropy_of(const Entropy& e)
{
    constexpr bool HAS_BOTH = HAS_LOSS && HAS_SLOPE;
    long long rows = e.rows, columns = e.columns;
    int width = e.width;
    A total = 0, count = 0, divisor = HAS_SLOPE ? divisor_of(e) : A(1);
    A sums[HAS_BOTH ? ITEMS : 1] = {};
    EACH_ROW(row) {
        bool valid = row < rows;
        const T* from = e.x + row * columns;
        A values[ITEMS];
        Scale s = scale_of<N>(from, valid, columns, lane, width, values,
                              HAS_BOTH ? e.bias : nullptr);
        if (!valid) continue;
        bool counted = counts(e.target, e.is_long, row, e.ignored);
        long long t = label(e.target, e.is_long, row, columns);
        if (HAS_LOSS && lane == 0) {
            A at = t < 0 ? A(0) : load(from + t);
            if (HAS_BOTH && e.bias && t >= 0) at = stored(at + load(e.bias + t));
            A loss = counted ? log(s.sum) - (t < 0 ? A(0) : at - s.most) : A(0);
            if (e.losses) store(e.losses + row, loss);
            total += loss;
            count += counted;
        }
        if constexpr (HAS_SLOPE) {
            A slope = load(e.g + (e.per_row ? row : 0)) / divisor;
            store_row<N>(e.dx + row * columns, from, values, columns, lane, width,
                         [=](A x, long long column) {
                             A c = slope * (exp(x - s.most) / s.sum - (column == t));
                             return counted ? stored(c) : A(0);
                         });
            if constexpr (HAS_BOTH)
#pragma unroll
                for (int i = 0; i < ITEMS; i++) sums[i] += values[i];
        }
    }
    if (!HAS_LOSS || (e.losses && !e.sums)) return;
    A* parts = e.parts + 2 * gridDim.x;
    if constexpr (HAS_BOTH)
        if (e.sums)
            store_columns<N>(sums, parts + blockIdx.x * columns, columns, threadIdx.x % width,
                             width);
    bool last = store_total(total, count, e.is_mean, 1, e.out, e.parts, e.arrived);
    if (!HAS_BOTH || !e.sums || !last) return;
    __syncthreads();
    for (long long column = threadIdx.x / 32; column < columns; column += blockDim.x / 32) {
        A sum = 0;
        for (unsigned i = threadIdx.x % 32; i < gridDim.x; i += 32)
            sum += parts[i * columns + column];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) store(e.sums + column, sum);
    }
}

template <bool HAS_LOSS, bool HAS_SLOPE> __device__ inline void cross_entropy_by(const Entropy& e)
{
    if (e.columns % PACK == 0 && is_aligned(e.x) && is_aligned(e.dx))
        cross_entropy_of<PACK, HAS_LOSS, HAS_SLOPE>(e);
    else
        cross_entropy_of<1, HAS_LOSS, HAS_SLOPE>(e);
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
cross_entropy(
    const T* x, const T* bias, const void* target, const T* g, const A* counted, T* losses,
    T* out, T* dx, T* sums, A* parts, unsigned* arrived, long long rows, long long columns,
    long long ignored, long long counting, int width, bool is_long, bool is_mean, bool per_row)
{
    cross_entropy_by<true, false>({x, bias, g, target, counted, losses, out, dx, sums, parts, arrived,
                                  rows, columns, ignored, counting, width, is_long, is_mean,
                                  per_row});
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
cross_entropy_backward(
    const T* x, const T* bias, const void* target, const T* g, const A* counted, T* losses,
    T* out, T* dx, T* sums, A* parts, unsigned* arrived, long long rows, long long columns,
    long long ignored, long long counting, int width, bool is_long, bool is_mean, bool per_row)
{
    cross_entropy_by<false, true>({x, bias, g, target, counted, losses, out, dx, sums, parts, arrived,
                                  rows, columns, ignored, counting, width, is_long, is_mean,
                                  per_row});
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
cross_entropy_and_backward(
    const T* x, const T* bias, const void* target, const T* g, const A* counted, T* losses,
    T* out, T* dx, T* sums, A* parts, unsigned* arrived, long long rows, long long columns,
    long long ignored, long long counting, int width, bool is_long, bool is_mean, bool per_row)
{
    cross_entropy_by<true, true>({x, bias, g, target, counted, losses, out, dx, sums, parts, arrived,
                                  rows, columns, ignored, counting, width, is_long, is_mean,
                                  per_row});
}

// Stores squared errors or, if losses is null, their sum times `factor`, see store_total; if there is
// a cotangent g, also or only the cotangents of x, of which `slope` is a factor. g has one element per
// element of x or, unless per_element, a single one.
extern "C" __global__ void __launch_bounds__(1024)
mse(const T* x, const T* target, const T* g, T* losses, T* out, T* dx, A* parts, unsigned* arrived,
    long long n, double factor, double slope, bool per_element)
{
    A total = 0;
#pragma unroll 4
    for (long long i = thread_number(); i < n; i += thread_count()) {
        A difference = load(x + i) - load(target + i);
        A loss = difference * difference;
        if (losses) store(losses + i, loss);
        if (dx) store(dx + i, difference * (load(g + (per_element ? i : 0)) * (A)slope));
        total += loss;
    }
    if (out && !losses) store_total(total, 0, false, (A)factor, out, parts, arrived);
}
