// Convolution and its gradient by the weight, with the bits of backends/windows.py, which explains
// the blocks. This text is compiled as rows.c is, after products.h. Threads go through images, and
// keep the columns of one of them in their caches. Arrays are in C order.

#ifndef _WIN32
#ifndef CONVOLUTION
#define CONVOLUTION
// channels, filters: in a group. images_in_block, rows: in a block, the latter of windows.
// blocks_in_sum: of the gradient; 0 for the convolution itself.
typedef struct {
    int64_t images, groups, channels, filters, are_elements, images_in_block, rows, blocks_in_sum;
    Windows windows;
    void *x, *weight, *bias, *out; // of the gradient, g is in the place of the weight
    _Atomic int64_t errors;
} Convolution;

static int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }
#endif

// What a piece has: memory, and the block of rows that it is at.
typedef struct {
    T *columns, *product, *sum;
    Windows windows; // of these rows
    int64_t depth, count, start, all; // of taps; of windows: here, before these rows, in all rows
} NAME(Place);

static void NAME(go_to)(const Convolution *c, NAME(Place) *p, int64_t row) {
    p->windows = c->windows;
    p->windows.counts[0] = LEAST(c->windows.counts[0] - row, c->rows);
    p->windows.before[0] -= row * c->windows.stride[0];
    p->start = row * c->windows.counts[1];
    p->count = p->windows.counts[0] * c->windows.counts[1];
}

// The columns of a group of an image, (depth, count). `plane` is the group's number among all.
static Matrix NAME(columns)(const Convolution *c, const NAME(Place) *p, int64_t plane) {
    T *x = (T *)c->x + plane * c->channels * p->windows.lengths[0] * p->windows.lengths[1];
    if (c->are_elements) return NAME(in_order)(x, p->count);
    NAME(put_windows)(&p->windows, x, c->channels, p->columns);
    return NAME(in_order)(p->columns, p->count);
}

static void NAME(convolve_image)(const Convolution *c, const NAME(Place) *p, int64_t image) {
    for (int64_t group = 0; group < c->groups; group++) {
        const int64_t plane = image * c->groups + group, first = group * c->filters;
        const Matrix weight = NAME(in_order)((T *)c->weight + first * p->depth, p->depth);
        T *out = (T *)c->out + plane * c->filters * p->all + p->start;
        T *rows = p->count == p->all ? out : p->product;
        NAME(multiplied)(c->filters, p->depth, p->count, weight, NAME(columns)(c, p, plane), rows);
        if (rows == out && !c->bias) continue;
        for (int64_t k = 0; k < c->filters; k++) {
            T *to = out + k * p->all, *from = rows + k * p->count;
            const T bias = c->bias ? ((T *)c->bias)[first + k] : (T)-0.0; // which changes nothing
            for (int64_t i = 0; i < p->count; i++) to[i] = from[i] + bias;
        }
    }
}

// Add the gradient of a block of images to `sum`, in the order in which NumPy adds along an axis.
static void NAME(sum_images)(const Convolution *c, const NAME(Place) *p, int64_t image,
                             int64_t end) {
    const int64_t size = p->depth * c->filters, first = image;
    for (; image < end; image++)
        for (int64_t group = 0; group < c->groups; group++) {
            const int64_t plane = image * c->groups + group;
            T *restrict sum = p->sum + group * size, *restrict product = p->product;
            T *g = (T *)c->weight + plane * c->filters * p->all + p->start;
            const Matrix g_ = NAME(transposed)(NAME(in_order)(g, p->all));
            const Matrix columns = NAME(columns)(c, p, plane);
            NAME(multiplied)(p->depth, p->count, c->filters, columns, g_, product);
            for (int64_t i = 0; i < size; i++)
                sum[i] = (image == first ? (T)zero : sum[i]) + product[i];
        }
}

// A piece is a block of rows of an image, or a sum over `blocks_in_sum` blocks.
static void NAME(convolve_piece)(void *context, int64_t piece) {
    Convolution *c = context;
    const int64_t *counts = c->windows.counts, parts = parts_of(counts[0], c->rows);
    NAME(Place) p = {.depth = c->channels * c->windows.size[0] * c->windows.size[1],
                     .all = counts[0] * counts[1]};
    const int64_t most = p.depth * c->rows * counts[1], weights = c->groups * p.depth * c->filters;
    const int64_t of_product = c->filters * (c->blocks_in_sum ? p.depth : c->rows * counts[1]);
    p.columns = malloc(sizeof(T) * (most + of_product + (c->blocks_in_sum ? weights : 0)));
    if (!p.columns) {
        c->errors |= NO_MEMORY;
        return;
    }
    p.product = p.columns + most, p.sum = p.product + of_product;
    feclearexcept(FE_ALL_EXCEPT);
    if (!c->blocks_in_sum) {
        NAME(go_to)(c, &p, piece % parts * c->rows);
        NAME(convolve_image)(c, &p, piece / parts);
    }
    const int64_t first = piece * c->blocks_in_sum;
    const int64_t blocks = parts * parts_of(c->images, c->images_in_block);
    T *restrict out = (T *)c->out + piece * weights;
    for (int64_t i = first; i < first + c->blocks_in_sum && i < blocks; i++) {
        const int64_t image = i / parts * c->images_in_block;
        NAME(go_to)(c, &p, i % parts * c->rows);
        NAME(sum_images)(c, &p, image, LEAST(image + c->images_in_block, c->images));
        for (int64_t k = 0; k < weights; k++) out[k] = i == first ? p.sum[k] : out[k] + p.sum[k];
    }
    c->errors |= float_errors();
    free(p.columns);
}

// Compute some pieces from one on. numbers: a `Convolution` up to its arrays, which are given as
// for gg_rows. Returns the errors of floating-point operations.
int64_t NAME(gg_convolve)(const int64_t *numbers, void *const *x, void *const *weight,
                          void *const *bias, void *const *out, int64_t first, int64_t pieces,
                          int64_t number) {
    Convolution c = {.x = *x, .weight = *weight, .bias = bias ? *bias : NULL, .out = *out};
    memcpy(&c, numbers, offsetof(Convolution, x));
    run_by(number, NAME(convolve_piece), &c, first, pieces);
    return c.errors;
}

#undef Matrix
#undef ELEMENT
#endif
