// Kernels of the twins in normalization.py, which launches them.

// Layer normalization, and that by the root mean square (`centered` is 0) or of groups of channels.
// Either one warp of a block of 32 by ROWS threads or, if a row is long, a whole block normalizes a
// row. A thread keeps up to ITEMS elements of the row in registers, in groups of N that it reads at
// a time.
//
// In a row of channels, `inner` elements in turn have the same weight and bias, and successive rows
// have those of `groups` groups in turn. Otherwise both numbers are 1.

#define ITEMS 16
#define ROWS 8
#define MOST_THREADS (sizeof(A) == 8 ? 256 : 512)  // in a block; each needs many registers

template <int N> struct alignas(N * sizeof(T)) Items { T items[N]; };

// Goes over this thread's groups: `column` is where a group starts in the row, `value` the index of
// its first element in the thread's registers.
#define EACH_GROUP(column, value) \
    _Pragma("unroll") for (int value = 0; value < ITEMS; value += N) \
        if (int column = (value / N * blockDim.x + threadIdx.x) * N; column < columns)

template <int N>
__device__ inline void read_row(const T* row, int columns, A* values)
{
#pragma unroll
    for (int i = 0; i < ITEMS; i++) values[i] = 0;
    EACH_GROUP(column, first) {
        Items<N> group = *(const Items<N>*)(row + column);
#pragma unroll
        for (int i = 0; i < N; i++) values[first + i] = load(group.items + i);
    }
}

// Subtracts a row's mean, which is 0 unless `centered`, from it; returns the reciprocal of its
// standard deviation.
template <int N>
__device__ inline A center(A* values, int columns, A eps, bool centered, A& mean)
{
    A sum = 0, squares = 0;
    mean = 0;
    if (centered) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) sum += values[i];
        mean = block_sum(sum) / columns;
    }
    EACH_GROUP(column, first) {
#pragma unroll
        for (int i = first; i < first + N; i++) {
            values[i] -= mean;
            squares += values[i] * values[i];
        }
    }
    return 1 / sqrt(block_sum(squares) / columns + eps);
}

// The place of the weight of a row's first element, and that of another element.
__device__ inline long long first_channel(long long row, int columns, int groups, int inner)
{
    return groups == 1 ? 0 : row % groups * (columns / inner);
}
__device__ inline long long channel(long long first, int column, int inner)
{
    return first + (inner == 1 ? column : column / inner);
}

// Without an array, the weight is 1 and the bias 0.
template <class S> __device__ inline A one_of(const S* weight, long long i)
{
    return weight ? load(weight + i) : A(1);
}
template <class S> __device__ inline A zero_of(const S* bias, long long i)
{
    return bias ? load(bias + i) : A(0);
}

template <int N>
__device__ void normalize_rows(const T* __restrict__ x, const T* __restrict__ weight,
                               const T* __restrict__ bias, T* __restrict__ out, long long rows,
                               int columns, A eps, bool centered, int groups, int inner)
{
    long long step = (long long)gridDim.x * blockDim.y;
    for (long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y; row < rows; row += step) {
        A values[ITEMS];
        read_row<N>(x + row * columns, columns, values);
        A mean, scale = center<N>(values, columns, eps, centered, mean);
        long long start = first_channel(row, columns, groups, inner);
        EACH_GROUP(column, first) {
            Items<N> group;
#pragma unroll
            for (int i = 0; i < N; i++) {
                long long place = channel(start, column + i, inner);
                A y = values[first + i] * scale * one_of(weight, place);
                store(group.items + i, y + zero_of(bias, place));
            }
            *(Items<N>*)(out + row * columns + column) = group;
        }
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 2)
layer_norm(const T* x, const T* weight, const T* bias, T* out, long long rows, long long columns,
           double eps, long long centered, long long groups, long long inner)
{
    if (columns % PACK == 0 && is_aligned(x) && is_aligned(out))
        normalize_rows<PACK>(x, weight, bias, out, rows, columns, eps, centered, groups, inner);
    else
        normalize_rows<1>(x, weight, bias, out, rows, columns, eps, centered, groups, inner);
}

// Sums each thread's `values` over the block's rows of threads and stores the sums of all columns.
template <int N>
__device__ inline void store_columns(const A* values, A* out, int columns)
{
    __shared__ A strip[ROWS][32];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int start = i / N * blockDim.x * N;
        if (start >= columns) break;
        A sum = values[i];
        if (blockDim.y > 1) {
            __syncthreads();  // until the previous columns have been read
            strip[threadIdx.y][threadIdx.x] = sum;
            __syncthreads();
            sum = 0;
            for (int y = 0; y < ROWS; y++) sum += strip[y][threadIdx.x];
        }
        int column = start + threadIdx.x * N + i % N;
        if (threadIdx.y == 0 && column < columns) out[column] = sum;
    }
}

template <int N>
__device__ void row_cotangents(const T* __restrict__ g, const T* __restrict__ x,
                               const T* __restrict__ weight, T* __restrict__ out,
                               A* __restrict__ parts, A* __restrict__ statistics, long long rows,
                               int columns, A eps, bool centered, int groups, int inner)
{
    A dweight[ITEMS] = {}, dbias[ITEMS] = {};
    long long step = (long long)gridDim.x * blockDim.y;
    for (long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y; row < rows; row += step) {
        A values[ITEMS], slopes[ITEMS], total = 0, along = 0;
        read_row<N>(x + row * columns, columns, values);
        read_row<N>(g + row * columns, columns, slopes);
        A mean, scale = center<N>(values, columns, eps, centered, mean);
        if (statistics && threadIdx.x == 0) {
            statistics[2 * row] = mean;
            statistics[2 * row + 1] = scale;
        }
        long long start = first_channel(row, columns, groups, inner);
        EACH_GROUP(column, first) {
#pragma unroll
            for (int i = first; i < first + N; i++) {
                values[i] *= scale;
                dweight[i] += slopes[i] * values[i];
                dbias[i] += slopes[i];
                slopes[i] *= one_of(weight, channel(start, column + i - first, inner));
                total += slopes[i];
                along += slopes[i] * values[i];
            }
        }
        if (!out) continue;
        total = centered ? block_sum(total) / columns : 0;
        along = block_sum(along) / columns;
        EACH_GROUP(column, first) {
            Items<N> group;
#pragma unroll
            for (int i = 0; i < N; i++) {
                A c = slopes[first + i] - total - values[first + i] * along;
                store(group.items + i, c * scale);
            }
            *(Items<N>*)(out + row * columns + column) = group;
        }
    }
    if (!parts) return;
    A* part = parts + (long long)blockIdx.x * 2 * columns;
    store_columns<N>(dweight, part, columns);
    store_columns<N>(dbias, part + columns, columns);
}

// out = the cotangent of x; parts = each block's share of the cotangents of weight and bias, in
// turn; statistics = each row's mean and the reciprocal of its standard deviation. Each may be null.
extern "C" __global__ void __launch_bounds__(MOST_THREADS)
layer_norm_backward(const T* g, const T* x, const T* weight, T* out, A* parts, A* statistics,
                    long long rows, long long columns, double eps, long long centered,
                    long long groups, long long inner)
{
    if (columns % PACK == 0 && is_aligned(g) && is_aligned(x) && is_aligned(out))
        row_cotangents<PACK>(g, x, weight, out, parts, statistics, rows, columns, eps, centered,
                             groups, inner);
    else
        row_cotangents<1>(g, x, weight, out, parts, statistics, rows, columns, eps, centered,
                          groups, inner);
}

// A block of 32 by STRIP threads processes a strip of 32 columns or a chunk of the strip's rows.
// Sums are always added up in the same order.

#define STRIP 32

extern "C" __global__ void __launch_bounds__(32 * STRIP, 1)
layer_norm_sums(const A* parts, T* weight, T* bias, long long rows, long long columns)
{
    __shared__ A sums[STRIP][33];
    long long column = (long long)blockIdx.x * 32 + threadIdx.x;
    A sum = 0;
    if (column < 2 * columns) {
#pragma unroll 4
        for (long long row = threadIdx.y; row < rows; row += STRIP)
            sum += parts[row * 2 * columns + column];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = warp_sum(sums[threadIdx.x][threadIdx.y]);  // the sum of this warp's column
    column = (long long)blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x || column >= 2 * columns) return;
    T* out = column < columns ? weight : bias;
    if (out) store(out + column % columns, sum);
}

// The cotangents of the weight and bias of group normalization, of which either may be null. A block
// of 32 by ROWS threads goes over a channel of n examples.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
group_norm_sums(const T* g, const T* x, const A* statistics, T* weight, T* bias, long long n,
                long long channels, long long groups, long long inner)
{
    __shared__ A sums[2][ROWS];
    long long channel = blockIdx.x, group = channel / (channels / groups);
    A along = 0, total = 0;
    for (long long k = threadIdx.y * 32 + threadIdx.x; k < n * inner; k += 32 * ROWS) {
        long long example = k / inner;
        long long i = (example * channels + channel) * inner + k % inner;
        const A* of_row = statistics + 2 * (example * groups + group);
        A slope = load(g + i);
        along += slope * (load(x + i) - of_row[0]) * of_row[1];
        total += slope;
    }
    along = warp_sum(along);
    total = warp_sum(total);
    if (threadIdx.x == 0) {
        sums[0][threadIdx.y] = along;
        sums[1][threadIdx.y] = total;
    }
    __syncthreads();
    if (threadIdx.x || threadIdx.y > 1) return;
    A sum = 0;
    for (int y = 0; y < ROWS; y++) sum += sums[threadIdx.y][y];
    T* out = threadIdx.y ? bias : weight;
    if (out) store(out + channel, sum);
}

// Batch normalization. x and its cotangent are of T, all other arrays of O.

#define OTHERS ((int)(16 / sizeof(O)))  // which are read or written at a time
template <int N> struct alignas(N * sizeof(O)) Others { O items[N]; };

// Statistics of some elements of a column and their cotangents: their number, their means, and the
// sums of products of their deviations from the means. Updating these avoids cancellation (Chan,
// Golub and LeVeque 1983, "Algorithms for computing the sample variance").
struct Moments {
    A count, x, g, xx, xg;

    __device__ void add(A value, A slope)
    {
        count += 1;
        A before = value - x;
        x += before / count;
        g += (slope - g) / count;
        xx += before * (value - x);
        xg += before * (slope - g);
    }

    __device__ void add(const Moments& other)
    {
        if (other.count == 0) return;
        A sum = count + other.count, share = other.count / sum;
        A dx = other.x - x, dg = other.g - g;
        xx += other.xx + dx * dx * count * share;
        xg += other.xg + dx * dg * count * share;
        x += dx * share;
        g += dg * share;
        count = sum;
    }
};

// The part of the work that a launch does: all of it, if a block has all rows of its strip; else
// the moments of each chunk of rows and, in a second launch, the rest. If the statistics are GIVEN,
// nothing is summed.
enum Stage { WHOLE, MOMENTS, REST, GIVEN };

// The elements of channels, in an array (n, channels, inner), as `rows` of each. If `inner` is 1, a
// block of 32 by STRIP threads processes 32 channels, else a single one; of each a chunk of its rows.
struct Channels {
    long long rows, count, inner, channel, start, stop;

    __device__ Channels(long long rows, long long count, long long inner)
        : rows(rows), count(count), inner(inner), channel(blockIdx.x)
    {
        if (inner == 1) channel = channel * 32 + threadIdx.x;
        long long chunk = (rows + gridDim.y - 1) / gridDim.y;
        chunk = (chunk + PACK - 1) / PACK * PACK;
        start = blockIdx.y * chunk;
        stop = start + chunk < rows ? start + chunk : rows;
    }

    __device__ bool is_valid() const { return channel < count; }

    // Calls visit(i) for this thread's elements: N from i on, which are one if `inner` is 1.
    template <int N, class Visit> __device__ void each(Visit visit) const
    {
        if (inner == 1) {
#pragma unroll 4
            for (long long row = start + threadIdx.y; row < stop; row += STRIP)
                visit(row * count + channel);
            return;
        }
        unsigned plane = inner;
        for (unsigned k = start + (threadIdx.y * 32 + threadIdx.x) * N; k < stop;
             k += 32 * STRIP * N) {
            unsigned example = k / plane;
            visit((example * count + channel) * inner + (k - example * plane));
        }
    }
};

// Not in a template, each of whose instances would have memory of its own.
__device__ inline Moments* moments_of_block()
{
    __shared__ Moments strip[STRIP * 32];
    return strip;
}

// Adds up what the threads of a channel have, for all of them; the stage MOMENTS stores what a
// chunk has, and REST adds up that.
template <class S>
__device__ S total_of(S own, S* parts, const Channels& of, long long stage)
{
    S(*strip)[32] = (S(*)[32])moments_of_block();
    bool is_plane = of.inner != 1;
    if (of.is_valid() && stage == REST) {
        int first = is_plane ? threadIdx.y * 32 + threadIdx.x : threadIdx.y;
        for (int chunk = first; chunk < gridDim.y; chunk += is_plane ? 32 * STRIP : STRIP)
            own.add(parts[chunk * of.count + of.channel]);
    }
    strip[threadIdx.y][threadIdx.x] = own;
    for (int half = STRIP / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half)
            strip[threadIdx.y][threadIdx.x].add(strip[threadIdx.y + half][threadIdx.x]);
    }
    for (int half = 16; half && is_plane; half /= 2) {
        __syncthreads();
        if (threadIdx.y == 0 && threadIdx.x < half)
            strip[0][threadIdx.x].add(strip[0][threadIdx.x + half]);
    }
    __syncthreads();
    own = strip[0][is_plane ? 0 : threadIdx.x];
    if (stage == MOMENTS && threadIdx.y == 0 && of.is_valid() && !(is_plane && threadIdx.x))
        parts[blockIdx.y * of.count + of.channel] = own;
    return own;
}

// The moments of a channel; see total_of. Without g, the cotangents are 0.
template <int N>
__device__ Moments moments_of(const O* __restrict__ g, const T* __restrict__ x, Moments* parts,
                              const Channels& of, long long stage)
{
    Moments own = {};
    if (of.is_valid() && stage != REST)
        of.each<N>([&](long long i) {
            Items<N> xs = *(const Items<N>*)(x + i);
            Others<N> gs = {};
            if (g) gs = *(const Others<N>*)(g + i);
#pragma unroll
            for (int k = 0; k < N; k++) own.add(load(xs.items + k), g ? load(gs.items + k) : A(0));
        });
    return total_of(own, parts, of, stage);
}

// Whether this thread stores what there is once of each channel.
__device__ inline bool stores_channel(const Channels& of)
{
    return blockIdx.y == 0 && threadIdx.y == 0 && (of.inner == 1 || threadIdx.x == 0);
}

template <int N>
__device__ void normalize_channels(const T* x, const O* weight, const O* bias, O* out, O* mean,
                                   O* var, Moments* parts, const Channels& of, A eps,
                                   long long stage)
{
    A center, variance;
    if (stage == GIVEN) {
        if (!of.is_valid()) return;
        center = load(mean + of.channel), variance = load(var + of.channel);
    } else {
        Moments m = moments_of<N>(nullptr, x, parts, of, stage);
        if (stage == MOMENTS || !of.is_valid()) return;
        center = m.x, variance = m.xx / m.count;
        if (stores_channel(of)) {
            store(mean + of.channel, center);
            store(var + of.channel, variance);
        }
    }
    A scale = one_of(weight, of.channel) / sqrt(variance + eps), shift = zero_of(bias, of.channel);
    of.each<N>([&](long long i) {
        Items<N> group = *(const Items<N>*)(x + i);
        Others<N> results;
#pragma unroll
        for (int k = 0; k < N; k++)
            store(results.items + k, (load(group.items + k) - center) * scale + shift);
        *(Others<N>*)(out + i) = results;
    });
}

extern "C" __global__ void __launch_bounds__(32 * STRIP, 1)
batch_norm(const T* x, const O* weight, const O* bias, O* out, O* mean, O* var, Moments* parts,
           long long rows, long long channels, long long inner, double eps, long long stage)
{
    Channels of(rows, channels, inner);
    if (inner % OTHERS == 0 && is_aligned(x) && is_aligned(out))
        normalize_channels<OTHERS>(x, weight, bias, out, mean, var, parts, of, eps, stage);
    else
        normalize_channels<1>(x, weight, bias, out, mean, var, parts, of, eps, stage);
}

// dmean and dvar, which may be null, are the cotangents of the statistics.
template <int N>
__device__ void channel_cotangents(const O* g, const T* x, const O* weight, const O* dmean,
                                   const O* dvar, T* out, O* dweight, O* dbias, Moments* parts,
                                   const Channels& of, A eps, long long stage)
{
    Moments m = moments_of<N>(g, x, parts, of, stage);
    if (stage == MOMENTS || !of.is_valid()) return;
    A scale = 1 / sqrt(m.xx / m.count + eps), factor = scale * one_of(weight, of.channel);
    if (stores_channel(of)) {
        if (dweight) store(dweight + of.channel, m.xg * scale);
        if (dbias) store(dbias + of.channel, m.g * m.count);
    }
    if (!out) return;
    A along = m.xg / m.count * scale * scale * factor, shift = 0;
    if (dvar) along -= load(dvar + of.channel) * 2 / m.count;
    if (dmean) shift = load(dmean + of.channel) / m.count;
    of.each<N>([&](long long i) {
        Items<N> xs = *(const Items<N>*)(x + i);
        Others<N> gs = {};
        if (g) gs = *(const Others<N>*)(g + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A slope = g ? (load(gs.items + k) - m.g) * factor : A(0);
            store(xs.items + k, slope - (load(xs.items + k) - m.x) * along + shift);
        }
        *(Items<N>*)(out + i) = xs;
    });
}

extern "C" __global__ void __launch_bounds__(32 * STRIP, 1)
batch_norm_backward(const O* g, const T* x, const O* weight, const O* dmean, const O* dvar, T* out,
                    O* dweight, O* dbias, Moments* parts, long long rows, long long channels,
                    long long inner, double eps, long long stage)
{
    Channels of(rows, channels, inner);
    if (inner % OTHERS == 0 && is_aligned(x) && is_aligned(g) && is_aligned(out))
        channel_cotangents<OTHERS>(g, x, weight, dmean, dvar, out, dweight, dbias, parts, of, eps,
                                 stage);
    else
        channel_cotangents<1>(g, x, weight, dmean, dvar, out, dweight, dbias, parts, of, eps,
                              stage);
}

// The sums of cotangents, and of those times deviations.
struct Sums {
    A g, along;

    __device__ void add(const Sums& other)
    {
        g += other.g;
        along += other.along;
    }
};

template <int N>
__device__ void given_cotangents(const O* __restrict__ g, const T* __restrict__ x, const O* mean,
                                 const O* var, const O* weight, T* __restrict__ out, O* dweight,
                                 O* dbias, Sums* parts, const Channels& of, A eps, long long stage)
{
    Sums own = {};
    A center = 0, scale = 0;
    if (of.is_valid())
        center = load(mean + of.channel), scale = 1 / sqrt(load(var + of.channel) + eps);
    if (of.is_valid() && stage != REST) {
        A factor = scale * one_of(weight, of.channel);
        of.each<N>([&](long long i) {
            Others<N> gs = *(const Others<N>*)(g + i);
            Items<N> xs = {};
            if (dweight) xs = *(const Items<N>*)(x + i);
#pragma unroll
            for (int k = 0; k < N; k++) {
                A slope = load(gs.items + k);
                own.g += slope;
                if (dweight) own.along += slope * (load(xs.items + k) - center);
                store(xs.items + k, slope * factor);
            }
            if (out) *(Items<N>*)(out + i) = xs;
        });
    }
    if (!dweight && !dbias) return;
    own = total_of(own, parts, of, stage);
    if (stage == MOMENTS || !of.is_valid() || !stores_channel(of)) return;
    if (dweight) store(dweight + of.channel, own.along * scale);
    if (dbias) store(dbias + of.channel, own.g);
}

// The cotangents if the statistics are given; the results may be null.
extern "C" __global__ void __launch_bounds__(32 * STRIP, 1)
batch_norm_given_backward(const O* g, const T* x, const O* mean, const O* var, const O* weight,
                          T* out, O* dweight, O* dbias, Sums* parts, long long rows,
                          long long channels, long long inner, double eps, long long stage)
{
    Channels of(rows, channels, inner);
    if (inner % OTHERS == 0 && is_aligned(x) && is_aligned(g) && is_aligned(out))
        given_cotangents<OTHERS>(g, x, mean, var, weight, out, dweight, dbias, parts, of, eps, stage);
    else
        given_cotangents<1>(g, x, mean, var, weight, out, dweight, dbias, parts, of, eps, stage);
}
