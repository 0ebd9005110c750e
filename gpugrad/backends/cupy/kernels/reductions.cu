// Reductions over the leading axes of arrays, whose other axes are taken as one.

template <int N>
__device__ void sum_rows_of(const T* __restrict__ x, const T* __restrict__ mean, T* total, A* parts,
                            unsigned* arrived, long long rows, long long columns, A divisor)
{
    struct alignas(N * sizeof(T)) Items { T items[N]; };
    auto values = [=](long long i, long long column, A* v) {
        Items a = *(const Items*)(x + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            v[k] = load(a.items + k);
            if (mean) {
                v[k] -= load(mean + column + k);
                v[k] *= v[k];
            }
        }
    };
    sum_columns<N>(values, total, parts, arrived, rows, columns, divisor);
}

// The sums of the columns of x or, with their mean, of the squares of deviations from it, divided.
extern "C" __global__ void __launch_bounds__(32 * SUMMED_ROWS)
sum_rows(const T* x, const T* mean, T* total, A* parts, unsigned* arrived, long long rows,
         long long columns, double divisor, bool packed)
{
    if (packed)
        sum_rows_of<PACK>(x, mean, total, parts, arrived, rows, columns, (A)divisor);
    else
        sum_rows_of<1>(x, mean, total, parts, arrived, rows, columns, (A)divisor);
}

// out[row] = the sum of values[order[k]] for k from starts[row] until starts[row + 1]. All threads of
// a row add up in this order, each a column.
extern "C" __global__ void sum_segments(const T* values, const long long* order,
                                        const long long* starts, T* out, long long rows,
                                        long long columns)
{
    for (long long i = thread_number(); i < rows * columns; i += thread_count()) {
        long long row = i / columns, column = i - row * columns, stop = starts[row + 1];
        A sum = 0;
#pragma unroll 4
        for (long long k = starts[row]; k < stop; k++)
            sum += load(values + order[k] * columns + column);
        store(out + i, sum);
    }
}

// out[row] = the sum of values[i] for all i at which indices[i], which wraps, is row, in their order.
extern "C" __global__ void sum_matches(const T* values, const long long* indices, T* out,
                                       long long count, long long rows, long long columns)
{
    long long row = blockIdx.x, column = (long long)blockIdx.y * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32;
    A sum = 0;
#pragma unroll 4
    for (long long first = 0; first < count; first += 32) {
        long long index = first + lane < count ? indices[first + lane] : -1;
        if (index < 0) index += rows;
        if (index < 0 || index >= rows) index = (index % rows + rows) % rows;
        unsigned found = __ballot_sync(0xffffffff, first + lane < count && index == row);
        for (; found; found &= found - 1) {
            long long i = first + __ffs(found) - 1;
            if (column < columns) sum += load(values + i * columns + column);
        }
    }
    if (column < columns) store(out + row * columns + column, sum);
}
