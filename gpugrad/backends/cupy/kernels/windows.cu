// Windows that slide over planes: the last axes of an array, up to three, of which those that there
// are not have length 1. Each result is computed by one thread, in the order of the taps.

struct Axes { long long lengths[3], size[3], counts[3], stride[3], before[3], dilation[3]; };

// Calls visit(number, element) for each tap of a window, with the place of its element in the plane,
// or -1 if it is outside.
template <class Visit> __device__ inline void each_tap(const Axes& a, unsigned window, Visit visit)
{
    unsigned across = a.counts[2], down = a.counts[1];
    int start[3] = {(int)(window / across / down), (int)(window / across % down),
                    (int)(window % across)};
#pragma unroll
    for (int axis = 0; axis < 3; axis++)
        start[axis] = start[axis] * (int)a.stride[axis] - (int)a.before[axis];
    int number = 0;
    for (int i = 0, x = start[0]; i < a.size[0]; i++, x += a.dilation[0])
        for (int j = 0, y = start[1]; j < a.size[1]; j++, y += a.dilation[1])
            for (int k = 0, z = start[2]; k < a.size[2]; k++, z += a.dilation[2]) {
                bool inside = x >= 0 && x < a.lengths[0] && y >= 0 && y < a.lengths[1] && z >= 0 &&
                              z < a.lengths[2];
                visit(number++, inside ? (x * a.lengths[1] + y) * a.lengths[2] + z : -1);
            }
}

// The window, along an axis, that has an element at a tap; -1 if there is none.
__device__ inline int window_at(const Axes& a, int axis, int element, int tap)
{
    int distance = element + (int)a.before[axis] - tap * (int)a.dilation[axis];
    int stride = a.stride[axis], window = stride == 1 ? distance : distance / stride;
    bool is_one = distance >= 0 && window * stride == distance && window < a.counts[axis];
    return is_one ? window : -1;
}

// Calls visit(number, window) for each tap at which a window has this element of the plane.
template <class Visit>
__device__ inline void each_window(const Axes& a, unsigned element, Visit visit)
{
    unsigned across = a.lengths[2], down = a.lengths[1];
    int x = element / across / down, y = element / across % down, z = element % across;
    for (int i = 0; i < a.size[0]; i++) {
        int u = window_at(a, 0, x, i);
        for (int j = 0; j < a.size[1] && u >= 0; j++) {
            int v = window_at(a, 1, y, j);
            for (int k = 0; k < a.size[2] && v >= 0; k++) {
                int w = window_at(a, 2, z, k);
                if (w >= 0)
                    visit((i * a.size[1] + j) * a.size[2] + k,
                          (u * a.counts[1] + v) * a.counts[2] + w);
            }
        }
    }
}

__device__ inline long long volume(const long long* sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// out[plane, tap, window] = the elements of the windows, 0 outside. If there are `images`, planes are
// counted (image, channel), and the result is out[channel, tap, image, window].
extern "C" __global__ void window_elements(const T* x, T* out, const Axes a, long long planes,
                                           long long images)
{
    unsigned taps = volume(a.size), tap = blockIdx.x % taps, windows = volume(a.counts);
    long long plane = blockIdx.x / taps, to = blockIdx.x;
    if (images) {
        long long channels = planes / images;
        to = (plane % channels * taps + tap) * images + plane / channels;
    }
    x += plane * volume(a.lengths);
    int i = tap / (unsigned)a.size[2] / (unsigned)a.size[1];
    int j = tap / (unsigned)a.size[2] % (unsigned)a.size[1], k = tap % (unsigned)a.size[2];
    unsigned across = a.counts[2], down = a.counts[1];
    for (unsigned window = threadIdx.x; window < windows; window += blockDim.x) {
        unsigned row = window / across;
        long long u = row / down * a.stride[0] + i * a.dilation[0] - a.before[0];
        long long v = row % down * a.stride[1] + j * a.dilation[1] - a.before[1];
        long long w = window % across * a.stride[2] + k * a.dilation[2] - a.before[2];
        T item = {};
        if (u >= 0 && u < a.lengths[0] && v >= 0 && v < a.lengths[1] && w >= 0 && w < a.lengths[2])
            item = x[(u * a.lengths[1] + v) * a.lengths[2] + w];
        out[to * windows + window] = item;
    }
}

#define EACH_RESULT(plane, place, sizes) \
    unsigned count_ = volume(a.sizes); \
    for (long long at = thread_number(), plane, place; \
         plane = at / count_, place = at % count_, at < planes * count_; at += thread_count())

// out[plane, element] = the sum of values[plane, tap, window] of the windows that have it, or of
// scale * values[plane, window] if those of all taps are the same.
extern "C" __global__ void add_elements(const T* values, T* out, const Axes a, long long planes,
                                        bool same, double scale)
{
    long long windows = volume(a.counts), step = same ? 0 : windows;
    EACH_RESULT(plane, element, lengths) {
        const T* from = values + plane * windows * (same ? 1 : volume(a.size));
        A sum = 0;
        each_window(a, element, [&](long long tap, long long window) {
            sum += load(from + tap * step + window);
        });
        store(out + at, sum * (A)scale);
    }
}

// The sum of each window, times `scale`.
extern "C" __global__ void window_sums(const T* x, T* out, const Axes a, long long planes,
                                       double scale)
{
    EACH_RESULT(plane, window, counts) {
        const T* from = x + plane * volume(a.lengths);
        A sum = 0;
        each_tap(a, window, [&](int, long long i) { sum += i < 0 ? A(0) : load(from + i); });
        store(out + at, sum * (A)scale);
    }
}

extern "C" __global__ void window_maxima(const T* x, T* out, const Axes a, long long planes)
{
    EACH_RESULT(plane, window, counts) {
        const T* from = x + plane * volume(a.lengths);
        A most = -infinity();
        each_tap(a, window, [&](int, long long i) {
            if (i >= 0) most = maximum(most, load(from + i));
        });
        store(out + at, most);
    }
}

// Numbers of taps, of 1, 4 or 8 bytes.
__device__ inline long long tap_of(const void* taps, int bytes, long long at)
{
    return bytes == 1   ? ((const signed char*)taps)[at]
           : bytes == 4 ? ((const int*)taps)[at]
                        : ((const long long*)taps)[at];
}

// The first tap of each window with its value, else 0.
extern "C" __global__ void find_taps(const T* x, const T* values, void* taps, const Axes a,
                                     long long planes, int bytes)
{
    EACH_RESULT(plane, window, counts) {
        const T* from = x + plane * volume(a.lengths);
        A value = load(values + at);
        int found = -1;
        each_tap(a, window, [&](int tap, long long i) {
            if (found >= 0 || i < 0) return;
            A item = load(from + i);
            if (item == value || (item != item && value != value)) found = tap;
        });
        if (found < 0) found = 0;
        if (bytes == 1)
            ((signed char*)taps)[at] = found;
        else
            ((int*)taps)[at] = found;
    }
}

// The element of each window at its tap, else 0.
extern "C" __global__ void take_taps(const T* x, const void* taps, T* out, const Axes a,
                                     long long planes, int bytes)
{
    EACH_RESULT(plane, window, counts) {
        const T* from = x + plane * volume(a.lengths);
        long long wanted = tap_of(taps, bytes, at);
        T item = {};
        each_tap(a, window, [&](int tap, long long i) {
            if (tap == wanted && i >= 0) item = from[i];
        });
        out[at] = item;
    }
}

// The sums of the values of windows whose tap an element is at.
extern "C" __global__ void put_taps(const T* values, const void* taps, T* out, const Axes a,
                                    long long planes, int bytes)
{
    EACH_RESULT(plane, element, lengths) {
        long long first = plane * volume(a.counts);
        A sum = 0;
        each_window(a, element, [&](long long tap, long long window) {
            if (tap_of(taps, bytes, first + window) == tap) sum += load(values + first + window);
        });
        store(out + at, sum);
    }
}
