// Windows of images and volumes, their elements and their maxima. This text comes after rows.c,
// for float and for double. The first array of each job is a Windows.

// A `Geometry` of backends/windows.py with two axes and, behind them, the axis before them.
typedef struct {
    int64_t lengths[3], size[3], counts[3], stride[3], before[3], dilation[3];
} Windows;

// Of all axes
#define PRODUCT(x) ((x)[0] * (x)[1] * (x)[2])

// Maxima of tiles: windows of 1 to 3 lines and 2 or 3 columns that lie side by side, in planes of
// `lines` lines of `line` elements.

// Go through the rows of tiles: of the values of tiles, and of the elements, one begins at `at` and
// `from`. The loops go on to a multiple of 8 tiles, which is faster. What they write too much, the
// next row overwrites; where there is none, they do not.
#define EACH_ROW_OF_TILES(...)                                                                     \
    const Windows *w = piece->job->a[0];                                                           \
    const int64_t rows = w->counts[0], columns = w->counts[1], height = w->size[0];                \
    const int64_t lines = w->lengths[0], line = w->lengths[1], width = w->size[1];                 \
    const int64_t many = (columns + 7) & ~(int64_t)7;                                              \
    for (int64_t row = first * rows; row < last * rows; row++) {                                   \
        const int64_t at = row * columns;                                                          \
        const int64_t from = (row / rows * lines + row % rows * height) * line;                    \
        const int64_t end = from + (height - 1) * line + many * width;                             \
        const int has_room = at + many <= last * rows * columns && end <= last * lines * line;     \
        const int64_t n = has_room ? many : columns;                                               \
        if (width == 2)                                                                            \
            BY_HEIGHT(2, __VA_ARGS__)                                                              \
        else                                                                                       \
            BY_HEIGHT(3, __VA_ARGS__)                                                              \
    }
// With the size of tiles as constants, so that there are vectors of tiles.
#define BY_HEIGHT(width_, ...)                                                                     \
    if (height == 1)                                                                               \
        WITH_SIZE(1, width_, __VA_ARGS__)                                                          \
    else if (height == 2)                                                                          \
        WITH_SIZE(2, width_, __VA_ARGS__)                                                          \
    else                                                                                           \
        WITH_SIZE(3, width_, __VA_ARGS__)
#define WITH_SIZE(height_, width_, ...)                                                            \
    {                                                                                              \
        enum { H = height_, W = width_ };                                                          \
        __VA_ARGS__                                                                                \
    }
#define IN_TILE                                                                                    \
    _Pragma("GCC unroll 3") for (int64_t k = 0; k < H; k++)                                        \
        _Pragma("GCC unroll 3") for (int64_t j = 0; j < W; j++)
#define GIVEN(type, k) ((type *)piece->job->a[k])
// A nan is the same as another one.
#define IS_SAME(x, value) (((x) == (value)) | (((x) != (x)) & ((value) != (value))))

typedef __typeof__(_Generic((T)0, float: (int32_t)0, double: (int64_t)0)) Integer;
typedef Integer Integers __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T))));
typedef int8_t Bytes __attribute__((vector_size(8), aligned(1)));

// NumPy decides where there is a nan or -0. a: Windows, x, out
KERNEL(tile_maxima) {
    Integer is_open = 0;
    EACH_ROW_OF_TILES({
        const T *restrict x = GIVEN(T, 1) + from;
        T *restrict out = GIVEN(T, 2) + at;
        EACH {
            T best = x[W * i];
            IN_TILE best = MOST(best, x[k * line + W * i + j]);
            out[i] = best;
        }
    })
    const T *restrict x = GIVEN(T, 1);
    for (int64_t i = first * lines * line; i < last * lines * line; i++) {
        Integer bits;
        memcpy(&bits, x + i, sizeof bits);
        is_open |= -(Integer)(x[i] != x[i]) | -(Integer)(bits == (Integer)1 << (8 * sizeof(T) - 1));
    }
    feclearexcept(FE_INVALID); // by comparing with nan
    piece->errors |= is_open ? NAN_AS_SUM : 0;
}

// Where the values of tiles are in them: the number of the first element that is the same, or 0.
// a: Windows, x, values, out
KERNEL(tile_places) {
    Integer *restrict found = piece->scratch;
    EACH_ROW_OF_TILES({
        const T *restrict x = GIVEN(T, 1) + from, *restrict values = GIVEN(T, 2) + at;
        int8_t *restrict out = GIVEN(int8_t, 3) + at;
        EACH {
            Integer place = 0, is_before = 0;
            IN_TILE {
                const Integer is_here = -(Integer)IS_SAME(x[k * line + W * i + j], values[i]);
                place |= is_here & ~is_before & (k * W + j);
                is_before |= is_here;
            }
            found[i] = place;
        }
        for (int64_t i = 0; has_room && i < n; i += 8)
            *(Bytes *)(out + i) = __builtin_convertvector(*(Integers *)(found + i), Bytes);
        for (int64_t i = 0; !has_room && i < n; i++) out[i] = found[i];
    })
    feclearexcept(FE_INVALID);
}

// Zeros, and the values of tiles at places in them. a: Windows, values, places, out
KERNEL(put_in_tiles) {
    Integer *restrict place = piece->scratch;
    EACH_ROW_OF_TILES({
        const Integer *restrict values = GIVEN(Integer, 1) + at; // their bits
        const int8_t *restrict places = GIVEN(int8_t, 2) + at;
        Integer *restrict out = GIVEN(Integer, 3) + from;
        for (int64_t i = 0; has_room && i < n; i += 8)
            *(Integers *)(place + i) = __builtin_convertvector(*(Bytes *)(places + i), Integers);
        for (int64_t i = 0; !has_room && i < n; i++) place[i] = places[i];
        for (int64_t k = 0; k < H; k++) {
            EACH for (int64_t j = 0; j < W; j++) out[k * line + W * i + j] =
                -(Integer)(place[i] == k * W + j) & values[i];
            if (line > columns * W)
                memset(out + k * line + columns * W, 0, (line - columns * W) * sizeof(T));
        }
        const int64_t left = row % rows == rows - 1 ? lines - rows * H : 0;
        if (left) memset(out + H * line, 0, left * line * sizeof(T));
    })
}

// The first and the last column of windows whose tap is in the plane.
static inline void columns_inside(const Windows *w, int64_t left, int64_t *start, int64_t *stop) {
    const int64_t step = w->stride[1], room = w->lengths[1] - left; // to the end of the row
    *start = left < 0 ? (step - 1 - left) / step : 0;
    *stop = room > 0 ? (room - 1) / step + 1 : 0;
    *stop = *stop < w->counts[1] ? *stop : w->counts[1];
}

#define FIND(step)                                                                                 \
    for (int64_t i = start; i < stop; i++)                                                         \
    found[i] = IS_SAME(x[(step) * i], values[i]) ? tap : found[i]

// The same of any windows, which may overlap and reach beyond their plane.
// a: Windows, x, values, out
KERNEL(window_places) {
    const Windows *w = piece->job->a[0];
    const int64_t n = w->counts[1], step = w->stride[1];
    Integer *restrict found = piece->scratch;
    for (int64_t row = first * w->counts[0]; row < last * w->counts[0]; row++) {
        const T *restrict values = GIVEN(T, 2) + row * n;
        int8_t *restrict out = GIVEN(int8_t, 3) + row * n;
        for (int64_t i = 0; i < n; i++) found[i] = 0;
        for (int64_t tap = w->size[0] * w->size[1] - 1; tap >= 0; tap--) {
            const int64_t left = tap % w->size[1] * w->dilation[1] - w->before[1];
            const int64_t y = row % w->counts[0] * w->stride[0] +
                              tap / w->size[1] * w->dilation[0] - w->before[0];
            if (y < 0 || y >= w->lengths[0]) continue;
            int64_t start, stop;
            columns_inside(w, left, &start, &stop);
            const int64_t line = row / w->counts[0] * w->lengths[0] + y;
            const T *restrict x = GIVEN(T, 1) + line * w->lengths[1] + left;
            switch (step) { // so that there are vectors for the usual ones
            case 1: FIND(1); break;
            case 2: FIND(2); break;
            default: FIND(step);
            }
        }
        for (int64_t i = 0; i < n; i++) out[i] = found[i];
    }
    feclearexcept(FE_INVALID);
}

// In the order of taps: from the last window to the first one. m: whether no two windows overlap.
// a: Windows, values, places, out
KERNEL(put_in_windows) {
    const Windows *w = piece->job->a[0];
    const int64_t n = w->counts[1], size = w->lengths[0] * w->lengths[1];
    const int64_t taps = w->size[0] * w->size[1];
    int64_t down[128], right[128];
    for (int64_t tap = 0; tap < taps; tap++) {
        down[tap] = tap / w->size[1] * w->dilation[0] - w->before[0];
        right[tap] = tap % w->size[1] * w->dilation[1] - w->before[1];
    }
    memset(GIVEN(T, 3) + first * size, 0, (last - first) * size * sizeof(T));
    for (int64_t row = last * w->counts[0] - 1; row >= first * w->counts[0]; row--) {
        const T *restrict values = GIVEN(T, 1) + row * n;
        const int8_t *restrict places = GIVEN(int8_t, 2) + row * n;
        T *restrict out = GIVEN(T, 3) + row / w->counts[0] * size;
        const int64_t top = row % w->counts[0] * w->stride[0];
        for (int64_t i = n - 1; i >= 0; i--) {
            if (places[i] < 0 || places[i] >= taps) continue;
            const int64_t y = top + down[places[i]], x = i * w->stride[1] + right[places[i]];
            if (y < 0 || y >= w->lengths[0] || x < 0 || x >= w->lengths[1]) continue;
            T *const to = out + y * w->lengths[1] + x;
            *to = piece->job->m ? values[i] : *to + values[i];
        }
    }
}

// The elements of windows in volumes: at each tap, those of all windows, or 0 outside.
static void put_windows(const Windows *w, const T *volumes, int64_t number, T *out) {
    const int64_t n = w->counts[1], step = w->stride[1], taps = PRODUCT(w->size);
    const int64_t in_plane = w->size[0] * w->size[1], rows = w->counts[2] * w->counts[0];
    for (int64_t item = 0; item < number * taps; item++) {
        const int64_t volume = item / taps, deep = item % taps / in_plane, tap = item % in_plane;
        const int64_t left = tap % w->size[1] * w->dilation[1] - w->before[1];
        const int64_t top = tap / w->size[1] * w->dilation[0] - w->before[0];
        int64_t start, stop;
        columns_inside(w, left, &start, &stop);
        for (int64_t row = 0; row < rows; row++, out += n) {
            const int64_t y = row % w->counts[0] * w->stride[0] + top;
            const int64_t z =
                row / w->counts[0] * w->stride[2] + deep * w->dilation[2] - w->before[2];
            const int is_inside = y >= 0 && y < w->lengths[0] && z >= 0 && z < w->lengths[2];
            if (!is_inside || start >= stop) {
                memset(out, 0, n * sizeof(T));
                continue;
            }
            const int64_t line = (volume * w->lengths[2] + z) * w->lengths[0] + y;
            const T *x = volumes + line * w->lengths[1] + left;
            for (int64_t i = 0; i < start; i++) out[i] = 0;
            if (step > 1 || stop - start < 8)
                for (int64_t i = start; i < stop; i++) out[i] = x[i * step];
            else { // the last vector may overlap the one before it
                for (int64_t i = start; i < stop - 8; i += 8) *(V *)(out + i) = *(V *)(x + i);
                *(V *)(out + stop - 8) = *(V *)(x + stop - 8);
            }
            for (int64_t i = stop; i < n; i++) out[i] = 0;
        }
    }
}

// a: Windows, x, out
KERNEL(copy_windows) {
    const Windows *w = piece->job->a[0];
    const int64_t of_out = PRODUCT(w->size) * PRODUCT(w->counts);
    const T *x = GIVEN(T, 1) + first * PRODUCT(w->lengths);
    put_windows(w, x, last - first, GIVEN(T, 2) + first * of_out);
}

#undef KERNELS // of rows.c
#define KERNELS(X)                                                                                 \
    X(tile_maxima, 0) X(tile_places, 1) X(put_in_tiles, 1) X(window_places, 1)                     \
    X(put_in_windows, 0) X(copy_windows, 0)
