// Convolution and its gradient by the weight, with the bits of backends/windows.py, which explains
// the blocks. This text comes after windows.c and products.h. Threads go through images, and keep
// the columns of one of them in their caches. Arrays are in C order.

#ifndef _WIN32
// channels, filters: in a group. images_in_block, rows: in a block, the latter of `in_row` windows,
// along the first axis, which is `axis` in `windows`. blocks_in_sum: of the gradient; else 0.
typedef struct {
    int64_t images, groups, channels, filters, are_elements, images_in_block, rows, blocks_in_sum,
        axis, in_row;
    Windows windows;
    void *x, *weight, *bias, *out; // of the gradient, g is in the place of the weight
    _Atomic int64_t errors;
} Convolution;

#define IS_BY_CHANNEL(c) ((c)->channels == 1 && (c)->filters == 1)

static int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }

// The elements that all windows reach along an axis.
static int64_t extent(const Windows *w, int axis) {
    return (w->counts[axis] - 1) * w->stride[axis] + (w->size[axis] - 1) * w->dilation[axis] + 1;
}

// What a piece has: memory, and the block of rows that it is at.
typedef struct {
    T *columns, *product, *sum;
    Windows windows;                  // of these rows
    int64_t depth, count, start, all; // of taps; of windows: here, before these rows, in all rows
} Place;

static void go_to(const Convolution *c, Place *p, int64_t row) {
    p->windows = c->windows;
    p->windows.counts[c->axis] = LEAST(c->windows.counts[c->axis] - row, c->rows);
    p->windows.before[c->axis] -= row * c->windows.stride[c->axis];
    p->start = row * c->in_row;
    p->count = PRODUCT(p->windows.counts);
}

// The columns of a group of an image, (depth, count). `plane` is the group's number among all.
static Matrix columns_of(const Convolution *c, const Place *p, int64_t plane) {
    T *x = (T *)c->x + plane * c->channels * PRODUCT(p->windows.lengths);
    if (c->are_elements) return in_order(x, p->count);
    put_windows(&p->windows, x, c->channels, p->columns);
    return in_order(p->columns, p->count);
}

enum { AT_ONCE = 4 }; // vectors of windows that are computed together

// Where each channel has a filter of its own: a plane with the zeros around it, in which a window
// begins at each stride.
typedef struct {
    T *x, *terms;
    int64_t width, step; // step: from a window to the next one in its row
} Padded;

static Padded padded(const Convolution *c, const Place *p, int64_t plane) {
    const Windows *w = &p->windows;
    const int64_t size[] = {extent(w, 0), extent(w, 1)};
    T *terms = p->columns + size[0] * size[1] + 8 * AT_ONCE;
    Padded out = {p->columns, terms, size[1], w->stride[1]};
    const int64_t start = MOST(w->before[1], 0),
                  stop = LEAST(size[1], w->lengths[1] + w->before[1]);
    const T *x = (T *)c->x + plane * w->lengths[0] * w->lengths[1];
    memset(out.x, 0, (terms - out.x) * sizeof(T)); // no number behind it makes an error
    for (int64_t y = 0; y < size[0] && start < stop; y++) {
        const int64_t row = y - w->before[0];
        if (row >= 0 && row < w->lengths[0])
            memcpy(out.x + y * size[1] + start, x + row * w->lengths[1] + start - w->before[1],
                   (stop - start) * sizeof(T));
    }
    return out;
}

// The elements at a tap of the windows in a row; one after the other if `step` is 1.
static const T *at_tap(const Padded *x, const Windows *w, int64_t row, int64_t tap) {
    const int64_t y = row * w->stride[0] + tap / w->size[1] * w->dilation[0];
    return x->x + y * x->width + tap % w->size[1] * w->dilation[1];
}

// Add up the taps of windows that begin at each element, as if they went on into the next row.
static void add_taps(const Padded *x, const Windows *w, const T *weight) {
    const int64_t n = (w->counts[0] - 1) * x->width + w->counts[1], step = 8 * AT_ONCE;
    for (int64_t i = 0; i < n; i += step) {
        V sums[AT_ONCE];
        for (int m = 0; m < AT_ONCE; m++) sums[m] = (T)zero - (V){0};
        for (int64_t k = 0; k < w->size[0]; k++)
            for (int64_t l = 0; l < w->size[1]; l++) {
                const T by = weight[k * w->size[1] + l];
                const T *from = x->x + i + k * w->dilation[0] * x->width + l * w->dilation[1];
                for (int m = 0; m < AT_ONCE; m++) sums[m] += by * *(V *)(from + 8 * m);
            }
        for (int m = 0; m < AT_ONCE; m++) *(V *)(x->terms + i + 8 * m) = sums[m];
    }
}

static void convolve_plane(const Convolution *c, const Place *p, int64_t plane) {
    const Windows *w = &p->windows;
    const Padded x = padded(c, p, plane);
    const int64_t group = plane % c->groups, n = w->counts[1];
    const T *weight = (T *)c->weight + group * p->depth;
    const T bias = c->bias ? ((T *)c->bias)[group] : (T)-0.0;
    const int is_whole = w->stride[0] == 1 && w->stride[1] == 1 && p->count > 1;
    T *restrict out = (T *)c->out + plane * p->all + p->start;
    if (is_whole) add_taps(&x, w, weight);
    for (int64_t row = 0; row < w->counts[0]; row++, out += n) {
        const T *restrict sums = x.terms + row * x.width;
        for (int64_t i = 0; is_whole && i < n; i++) out[i] = sums[i] + bias;
        for (int64_t i = 0; !is_whole && i < n; i++) {
            T sum = (T)zero;
            for (int64_t tap = 0; tap < p->depth; tap++) {
                x.terms[tap] = weight[tap] * at_tap(&x, w, row, tap)[i * x.step];
                sum += x.terms[tap];
            }
            if (p->count == 1) sum = sum_of(x.terms, p->depth); // as NumPy adds along memory
            out[i] = sum + bias;
        }
    }
}

// The products of each tap's elements with g, added up: those of a column of windows first.
static void sum_plane(const Convolution *c, const Place *p, int64_t plane) {
    const Windows *w = &p->windows;
    const Padded x = padded(c, p, plane);
    const int64_t n = w->counts[1], rows = w->counts[0], step = 8 * AT_ONCE;
    const T *g = (T *)c->weight + plane * p->all + p->start;
    for (int64_t tap = 0; tap < p->depth; tap++) {
        int64_t i = 0;
        for (; x.step == 1 && i + step <= n; i += step) {
            V sums[AT_ONCE];
            for (int m = 0; m < AT_ONCE; m++) sums[m] = (T)zero - (V){0};
            for (int64_t row = 0; row < rows; row++) {
                const T *from = at_tap(&x, w, row, tap) + i, *by = g + row * n + i;
                for (int m = 0; m < AT_ONCE; m++)
                    sums[m] += *(V *)(from + 8 * m) * *(V *)(by + 8 * m);
            }
            memcpy(x.terms + i, sums, sizeof(sums));
        }
        for (int64_t column = i; column < n; column++) x.terms[column] = (T)zero;
        for (int64_t row = 0; row < rows; row++) {
            const T *from = at_tap(&x, w, row, tap), *by = g + row * n;
            if (n == 1)
                x.terms[row] = *from * *by;
            else
                for (int64_t k = i; k < n; k++) x.terms[k] += from[k * x.step] * by[k];
        }
        // NumPy adds one column along memory.
        p->product[tap] = sum_of(x.terms, n == 1 ? rows : n);
        if (n == 1) p->product[tap] += (T)zero;
    }
}

static void convolve_image(const Convolution *c, const Place *p, int64_t image) {
    for (int64_t group = 0; group < c->groups; group++) {
        const int64_t plane = image * c->groups + group, first = group * c->filters;
        if (IS_BY_CHANNEL(c)) {
            convolve_plane(c, p, plane);
            continue;
        }
        const Matrix weight = in_order((T *)c->weight + first * p->depth, p->depth);
        T *out = (T *)c->out + plane * c->filters * p->all + p->start;
        T *rows = p->count == p->all ? out : p->product;
        multiplied(c->filters, p->depth, p->count, weight, columns_of(c, p, plane), rows);
        if (rows == out && !c->bias) continue;
        for (int64_t k = 0; k < c->filters; k++) {
            T *to = out + k * p->all, *from = rows + k * p->count;
            const T bias = c->bias ? ((T *)c->bias)[first + k] : (T)-0.0; // which changes nothing
            for (int64_t i = 0; i < p->count; i++) to[i] = from[i] + bias;
        }
    }
}

// Add the gradient of a block of images to `sum`, in the order in which NumPy adds along an axis.
static void sum_images(const Convolution *c, const Place *p, int64_t image, int64_t end) {
    const int64_t size = p->depth * c->filters, first = image;
    for (; image < end; image++)
        for (int64_t group = 0; group < c->groups; group++) {
            const int64_t plane = image * c->groups + group;
            T *restrict sum = p->sum + group * size, *restrict product = p->product;
            T *g = (T *)c->weight + plane * c->filters * p->all + p->start;
            if (IS_BY_CHANNEL(c))
                sum_plane(c, p, plane);
            else {
                const Matrix g_ = transposed(in_order(g, p->all));
                const Matrix columns = columns_of(c, p, plane);
                multiplied(p->depth, p->count, c->filters, columns, g_, product);
            }
            for (int64_t i = 0; i < size; i++)
                sum[i] = (image == first ? (T)zero : sum[i]) + product[i];
        }
}

// A piece is a block of rows of an image, or a sum over `blocks_in_sum` blocks.
static void convolve_piece(void *context, int64_t piece) {
    Convolution *c = context;
    const int64_t *counts = c->windows.counts, parts = parts_of(counts[c->axis], c->rows);
    Place p = {.depth = c->channels * PRODUCT(c->windows.size), .all = PRODUCT(counts)};
    const int64_t in_block = c->rows * c->in_row;
    int64_t most = p.depth * in_block;
    const int64_t weights = c->groups * p.depth * c->filters;
    if (IS_BY_CHANNEL(c)) { // memory for the plane and for terms
        go_to(c, &p, 0);
        most = extent(&p.windows, 0) * extent(&p.windows, 1) + 8 * AT_ONCE;
        most = 2 * most + p.depth;
    }
    const int64_t of_product = c->filters * (c->blocks_in_sum ? p.depth : in_block);
    p.columns = malloc(sizeof(T) * (most + of_product + (c->blocks_in_sum ? weights : 0)));
    if (!p.columns) {
        c->errors |= NO_MEMORY;
        return;
    }
    p.product = p.columns + most, p.sum = p.product + of_product;
    feclearexcept(FE_ALL_EXCEPT);
    if (!c->blocks_in_sum) {
        go_to(c, &p, piece % parts * c->rows);
        convolve_image(c, &p, piece / parts);
    }
    const int64_t first = piece * c->blocks_in_sum;
    const int64_t blocks = parts * parts_of(c->images, c->images_in_block);
    T *restrict out = (T *)c->out + piece * weights;
    for (int64_t i = first; i < first + c->blocks_in_sum && i < blocks; i++) {
        const int64_t image = i / parts * c->images_in_block;
        go_to(c, &p, i % parts * c->rows);
        sum_images(c, &p, image, LEAST(image + c->images_in_block, c->images));
        for (int64_t k = 0; k < weights; k++) out[k] = i == first ? p.sum[k] : out[k] + p.sum[k];
    }
    c->errors |= float_errors();
    free(p.columns);
}

// Compute some pieces from one on. numbers: a `Convolution` up to its arrays, which are given as
// for gg_rows. Returns the errors of floating-point operations.
int64_t gg_convolve(const int64_t *numbers, void *const *x, void *const *weight, void *const *bias,
                    void *const *out, int64_t first, int64_t pieces, int64_t number) {
    Convolution c = {.x = *x, .weight = *weight, .bias = bias ? *bias : NULL, .out = *out};
    memcpy(&c, numbers, offsetof(Convolution, x));
    pool.run_by(number, convolve_piece, &c, first, pieces);
    return c.errors;
}
#endif
