// The steps of recurrent layers, with the bits of the definitions in ops/recurrent.py. This text
// comes after rows.c, for float and for double. A step is a product by NumPy's own loop
// (`pool.matmul`), and what the elements need besides, in blocks of rows that stay in the cache. No
// row needs another one, so threads go through all steps with some rows each, and wait for each
// other once.

#ifndef _WIN32 // where there is no pool.matmul
#define RNN(x) ((x) < LSTM)
enum { TANH_RNN, RELU_RNN, LSTM, GRU };

// All arrays but G are in C order. `kept` are the gates that the definition returns; the LSTM's lie
// in the order i, f, g, o, the GRU's n, r, z, q. Those in d lie side by side, so that the gradient
// of a weight is one product for all gates; the GRU has r, z, q, and after these of all times r, z,
// n.
enum {
    GATES,    // (kept, length, batch, width); at first what the inputs add to the arguments
    STATES,   // (length, batch, width), after each step
    CELLS,    // so too, of an LSTM
    STATE,    // (batch, width), before the first step; may be absent, but not for a GRU
    CELL,     // so too, of an LSTM; never absent
    GIVEN,    // (gates, width, width), the right operand of a step's product; may be transposed
    WEIGHT,   // (gates, width / panel, width, panel), a copy for the products; may be absent
    BIAS,     // (gates, width), added to what comes from the inputs; -0 where there is none
    BIAS_HH,  // so too, to the product
    PRODUCTS, // (gates, batch, width), of one step
    G,        // (length, batch, width), the cotangents of the states; may be absent
    D,        // (1 or 2, length, batch, gates, width), the arguments', which are computed
    DH,       // (batch, width), of the state after the last step, and what is carried from it
    DC,       // so too, of an LSTM's cells
    LAYER_ARRAYS
};

// is_large: whether a step's product may be divided. is_transposed: whether the matrices of the
// weight lie in memory transposed, as given. panel: how many of their columns lie together.
// in_part: how many rows a thread goes with. g_time, g_row: how many elements of G lie between the
// beginnings of two times, and of two rows.
typedef struct {
    int64_t kind, is_back, is_reverse, is_large, is_transposed, gates, length, batch, width;
    int64_t panel, in_part, g_time, g_row;
} Layer;

enum { BLOCK_SIZE = 1024 }; // elements about in a block of rows

typedef struct {
    const Layer *layer;
    T *a[LAYER_ARRAYS];
    int64_t number, first, last; // of threads; the rows
    int64_t step, end, time;     // the steps, counted in the order in which they are done
    T *state, *cell;             // those before the step
    int64_t start, rows, n;      // a block of rows: its first element, rows and elements
    _Atomic int64_t *errors;
} Step;

// The block in an array.
static T *at(const Step *s, int array, int64_t gate) {
    const Layer *l = s->layer;
    const int64_t size = l->batch * l->width, part = array == D ? gate / l->gates : gate;
    const int64_t start = (array == PRODUCTS ? part : part * l->length + s->time) * size + s->start;
    return s->a[array] + (array == D ? start * l->gates + gate % l->gates * l->width : start);
}

// Arrays do not overlap; an element of one is written at the place where it was read.
#undef EACH
#if defined(__clang__)
#define LOOP _Pragma("clang loop vectorize(assume_safety)") for
#else
#define LOOP _Pragma("GCC ivdep") for
#endif
#define EACH LOOP(int64_t i = 0; i < n; i++)
#define STEP(name) static void name(const Step *s, const int64_t n)
#define APPLY(which, x) apply(which, x, n)
#define ARRAY(name, array, gate) T *restrict name = at(s, array, gate)
#define EACH_ROW                                                                                   \
    for (int64_t row = 0, width = s->layer->width, each = s->layer->gates; row < s->rows; row++)   \
    LOOP(int64_t k = 0, i = row * width, j = i * each; k < width; k++, i++, j++)

// The argument of a gate times a factor, in the place of what the inputs add to it.
static T *argument(const Step *s, int64_t gate, T factor) {
    ARRAY(x, GATES, gate);
    ARRAY(product, PRODUCTS, gate);
    const T *restrict bias = s->a[BIAS] + gate * s->layer->width;
    EACH_ROW x[i] = factor * (x[i] + bias[k] + product[i]);
    return x;
}

// A logistic function is tanh(x / 2) / 2 + 1 / 2.
#define FROM_TANH(x) ((T)0.5 * (x) + (T)0.5)

STEP(rnn) {
    T *restrict x = argument(s, 0, 1);
    if (s->layer->kind == TANH_RNN) {
        APPLY(TANH, x);
        return;
    }
    T none = 0; // NumPy's loop decides which of two zeros is larger
    char *arrays[] = {(char *)x, (char *)&none, (char *)x};
    intptr_t length = n, steps[] = {sizeof(T), 0, sizeof(T)};
    loops[MAXIMUM].function(arrays, &length, steps, loops[MAXIMUM].data);
}

STEP(lstm) {
    T *restrict i_ = argument(s, 0, 0.5), *restrict f = argument(s, 1, 0.5);
    T *restrict g = argument(s, 2, 1), *restrict o = argument(s, 3, 0.5);
    ARRAY(c, CELLS, 0);
    ARRAY(h, STATES, 0);
    const T *restrict before = s->cell + s->start;
    APPLY(TANH, i_);
    APPLY(TANH, f);
    APPLY(TANH, g);
    APPLY(TANH, o);
    EACH {
        i_[i] = FROM_TANH(i_[i]);
        f[i] = FROM_TANH(f[i]);
        o[i] = FROM_TANH(o[i]);
        h[i] = c[i] = f[i] * before[i] + i_[i] * g[i];
    }
    APPLY(TANH, h);
    EACH h[i] = o[i] * h[i];
}

STEP(gru) {
    ARRAY(n_, GATES, 0);
    ARRAY(r, GATES, 1);
    ARRAY(z, GATES, 2);
    ARRAY(q, GATES, 3);
    ARRAY(h, STATES, 0);
    ARRAY(to_r, PRODUCTS, 0);
    ARRAY(to_z, PRODUCTS, 1);
    ARRAY(to_q, PRODUCTS, 2);
    const T *restrict before = s->state + s->start;
    const T *restrict b = s->a[BIAS], *restrict b_hh = s->a[BIAS_HH];
    EACH_ROW { // the inputs' parts are in the order r, z, n
        T by_r = n_[i] + b[k], by_z = r[i] + b[width + k], by_n = z[i] + b[2 * width + k];
        r[i] = (T)0.5 * (by_r + (to_r[i] + b_hh[k]));
        z[i] = (T)0.5 * (by_z + (to_z[i] + b_hh[width + k]));
        q[i] = to_q[i] + b_hh[2 * width + k];
        n_[i] = by_n;
    }
    APPLY(TANH, r);
    APPLY(TANH, z);
    EACH {
        r[i] = FROM_TANH(r[i]);
        z[i] = FROM_TANH(z[i]);
        n_[i] += r[i] * q[i];
    }
    APPLY(TANH, n_);
    EACH h[i] = n_[i] + z[i] * (before[i] - n_[i]);
}

// The cotangent of the states after a step: what the step after it has carried, and its own.
static T *to_states(const Step *s) {
    const Layer *l = s->layer;
    const int64_t n = s->n;
    T *restrict dh = s->a[DH] + s->start;
    ARRAY(p, PRODUCTS, 0);
    ARRAY(p1, PRODUCTS, 1);
    ARRAY(p2, PRODUCTS, 2);
    ARRAY(p3, PRODUCTS, 3);
    if (s->step && RNN(l->kind))
        EACH dh[i] = p[i];
    else if (s->step && l->kind == LSTM)
        EACH dh[i] = (((T)zero + p[i]) + p1[i] + p2[i]) + p3[i];
    else if (s->step)
        EACH dh[i] += ((T)zero + p[i]) + p1[i] + p2[i];
    if (s->a[G]) {
        const int64_t first = s->start / l->width, by_row = l->g_row; // which no store may change
        const T *restrict g = s->a[G] + s->time * l->g_time + first * by_row;
        EACH_ROW dh[i] += g[row * by_row + k];
    }
    return dh;
}

STEP(rnn_back) {
    T *restrict dh = to_states(s);
    ARRAY(h, STATES, 0);
    ARRAY(d, D, 0);
    if (s->layer->kind == TANH_RNN)
        EACH d[i] = dh[i] * (1 - h[i] * h[i]);
    else
        EACH d[i] = h[i] > 0 ? dh[i] : 0;
}

STEP(lstm_back) {
    T *restrict dh = to_states(s), *restrict dc = s->a[DC] + s->start;
    ARRAY(i_, GATES, 0);
    ARRAY(f, GATES, 1);
    ARRAY(g, GATES, 2);
    ARRAY(o, GATES, 3);
    ARRAY(to_i, D, 0);
    ARRAY(to_f, D, 1);
    ARRAY(to_g, D, 2);
    ARRAY(to_o, D, 3);
    ARRAY(c, CELLS, 0);
    ARRAY(tanh, PRODUCTS, 3); // of the cells; the products are not needed any more
    const T *restrict before = s->cell + s->start;
    memcpy(tanh, c, n * sizeof(T));
    APPLY(TANH, tanh);
    EACH_ROW {
        T carried = dc[i] + dh[i] * (o[i] * (1 - tanh[i] * tanh[i]));
        to_i[j] = carried * (g[i] * (i_[i] * (1 - i_[i])));
        to_f[j] = carried * (before[i] * (f[i] * (1 - f[i])));
        to_g[j] = carried * (i_[i] * (1 - g[i] * g[i]));
        to_o[j] = dh[i] * (tanh[i] * (o[i] * (1 - o[i])));
        dc[i] = carried * f[i];
    }
}

STEP(gru_back) {
    T *restrict dh = to_states(s);
    ARRAY(n_, GATES, 0);
    ARRAY(r, GATES, 1);
    ARRAY(z, GATES, 2);
    ARRAY(q, GATES, 3);
    ARRAY(to_r, D, 0);
    ARRAY(to_z, D, 1);
    ARRAY(to_q, D, 2);
    ARRAY(by_r, D, 3);
    ARRAY(by_z, D, 4);
    ARRAY(to_n, D, 5);
    const T *restrict before = s->state + s->start;
    EACH_ROW {
        T by_n = (1 - z[i]) * (1 - n_[i] * n_[i]);
        to_r[j] = by_r[j] = dh[i] * (by_n * q[i] * (r[i] * (1 - r[i])));
        to_z[j] = by_z[j] = dh[i] * ((before[i] - n_[i]) * (z[i] * (1 - z[i])));
        to_q[j] = dh[i] * (by_n * r[i]);
        to_n[j] = dh[i] * by_n;
        dh[i] *= z[i];
    }
}

static int64_t rows_in_block(const Layer *l) {
    return l->width < BLOCK_SIZE ? BLOCK_SIZE / l->width : 1;
}

// What the elements need in the blocks from k to end. Returns the errors since some were cleared.
static int64_t compute(const Step *whole, int64_t k, int64_t end) {
    Step s = *whole;
    const Layer *l = s.layer;
    const int64_t in_block = rows_in_block(l);
    for (; k < end; k++) {
        const int64_t first = s.first + k * in_block, left = s.last - first;
        s.rows = left < in_block ? left : in_block;
        s.start = first * l->width, s.n = s.rows * l->width;
        if (RNN(l->kind))
            (l->is_back ? rnn_back : rnn)(&s, s.n);
        else if (l->kind == LSTM)
            (l->is_back ? lstm_back : lstm)(&s, s.n);
        else
            (l->is_back ? gru_back : gru)(&s, s.n);
    }
    return float_errors();
}

static void compute_block(void *context, int64_t k) {
    feclearexcept(FE_ALL_EXCEPT);
    *((Step *)context)->errors |= compute(context, k, k + 1);
}

// The products of a step. Returns the errors.
static int64_t multiply(const Step *s) {
    const Layer *l = s->layer;
    const int64_t width = l->width, size = l->batch * width, bytes = sizeof(T), row = bytes * width;
    const int64_t each = l->is_back ? l->gates : 1, rows = s->last - s->first; // in a row of x
    const int64_t panel = l->panel, in_panel = bytes * panel;
    const T *weight = s->a[WEIGHT] ? s->a[WEIGHT] : s->a[GIVEN];
    const int64_t by_row = l->is_transposed && !s->a[WEIGHT] ? bytes : in_panel;
    const int64_t d[] = {sizeof(T) == 8,
                         panel < width ? 2 : l->gates > 1,
                         rows,
                         width,
                         panel,
                         each * row,
                         bytes,
                         by_row,
                         in_panel + bytes - by_row,
                         row,
                         bytes,
                         l->gates,
                         l->is_back ? row : 0,
                         width * row,
                         size * bytes,
                         width / panel,
                         0,
                         width * in_panel,
                         in_panel};
    const T *x = l->is_back ? s->a[D] + s->time * each * size : s->state;
    T *products = s->a[PRODUCTS] + s->first * width;
    if (x)
        return pool.matmul(l->is_large ? s->number : 0, d, x + s->first * each * width, weight,
                           products);
    for (int64_t gate = 0; gate < l->gates; gate++)
        for (int64_t i = 0; i < rows * width; i++)
            products[gate * size + i] = (T)-0.0; // which changes no number
    return 0;
}

// Go through the steps with some rows; with all of them, other threads help in each step.
static void go(void *context, int64_t piece) {
    Step s = *(Step *)context;
    const Layer *l = s.layer;
    const int64_t in_block = rows_in_block(l), size = l->batch * l->width;
    s.first = piece * l->in_part, s.last = s.first + l->in_part;
    s.last = s.last < l->batch ? s.last : l->batch;
    const int64_t blocks = (s.last - s.first + in_block - 1) / in_block;
    int64_t errors = 0; // of this thread; they lie in no line of the cache that others write
    feclearexcept(FE_ALL_EXCEPT);
    for (; s.step < s.end; s.step++) {
        s.time = l->is_back != l->is_reverse ? l->length - 1 - s.step : s.step;
        const int64_t before = l->is_reverse ? s.time + 1 : s.time - 1;
        const int is_initial = before < 0 || before == l->length;
        s.state = is_initial ? s.a[STATE] : s.a[STATES] + before * size;
        s.cell = is_initial || !s.a[CELLS] ? s.a[CELL] : s.a[CELLS] + before * size;
        if (!l->is_back) errors |= multiply(&s);
        if (s.number > 1)
            pool.run(compute_block, &s, blocks);
        else
            errors |= compute(&s, 0, blocks);
        if (l->is_back) errors |= multiply(&s);
    }
    *s.errors |= errors;
}

// Copy a panel of a gate's weight; if that is transposed, in strips that fill lines of the cache.
static void copy_panel(void *context, int64_t k) {
    enum { STRIP_ROWS = 64 / sizeof(T) };
    const Step *s = context;
    const int64_t width = s->layer->width, panel = s->layer->panel, before = k * panel;
    const T *from = s->a[GIVEN] + before / width * width * width, *x = from + before % width;
    T *to = s->a[WEIGHT] + before * width;
    if (!s->layer->is_transposed) {
        for (int64_t i = 0; i < width; i++)
            memcpy(to + i * panel, x + i * width, panel * sizeof(T));
        return;
    }
    x = from + before % width * width;
    for (int64_t row = 0; row < width; row += STRIP_ROWS)
        for (int64_t j = 0; j < panel; j++)
            for (int64_t i = row; i < row + STRIP_ROWS && i < width; i++)
                to[i * panel + j] = x[j * width + i];
}

// Do some steps from one on. Arrays are given as for gg_rows. Returns the errors of floating-point
// operations.
int64_t gg_recurrent(const Layer *l, void *const *const *given, int64_t first, int64_t steps,
                     int64_t number) {
    const int64_t parts = (l->batch + l->in_part - 1) / l->in_part;
    _Atomic int64_t errors = 0;
    Step s = {.layer = l, .number = parts > 1 ? 1 : number, .errors = &errors};
    s.step = first, s.end = first + steps;
    for (int i = 0; i < LAYER_ARRAYS; i++) {
        s.a[i] = given[i] ? *given[i] : NULL;
        if (!IS_ALIGNED(s.a[i], sizeof(T))) return NOT_ALIGNED;
    }
    if (s.a[WEIGHT] && !first) pool.run(copy_panel, &s, l->gates * (l->width / l->panel));
    pool.run(go, &s, parts);
    return errors;
}
#endif
