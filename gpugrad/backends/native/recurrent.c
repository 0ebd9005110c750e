// The steps of recurrent layers, with the bits of the definitions in ops/recurrent.py. This text is
// compiled as rows.c is, after it. A step is a product by NumPy's own loop (`gg_matmul`), and what
// the elements need besides, in blocks of rows that stay in the cache.

#ifndef _WIN32 // where there is no gg_matmul
#ifndef RNN
#define RNN(x) ((x) < LSTM)
enum { TANH_RNN, RELU_RNN, LSTM, GRU };

// All arrays are in C order. `kept` are the gates that the definition returns; the LSTM's lie in
// the order i, f, g, o, the GRU's n, r, z, q, and d has r, z, q, n then.
enum {
    GATES,    // (kept, length, batch, width); at first what the inputs add to the arguments
    STATES,   // (length, batch, width), after each step
    CELLS,    // so too, of an LSTM
    STATE,    // (batch, width), before the first step; may be absent, but not for a GRU
    CELL,     // so too, of an LSTM; never absent
    WEIGHT,   // (gates, width, width), the right operand of a step's product
    BIAS,     // (gates, width); may be absent
    BIAS_HH,  // so too, of a GRU
    PRODUCTS, // (gates, batch, width), of one step
    G,        // (length, batch, width), the cotangents of the states; may be absent
    D,        // (kept, length, batch, width), those of the arguments, which are computed
    DH,       // (batch, width), of the state after the last step, and what is carried from it
    DC,       // so too, of an LSTM's cells
    LAYER_ARRAYS
};

// first, last: which steps are to be done, counted in the order in which they are done.
// is_large: whether a step's product may be divided.
typedef struct {
    int64_t kind, is_back, is_reverse, is_large, gates, length, batch, width, first, last;
} Layer;

enum { STEP_PIECE = 1024 }; // elements about which a thread computes at a time
#endif

typedef struct {
    const Layer *layer;
    T *a[LAYER_ARRAYS];
    int64_t step, time, in_piece; // rows in a piece
    T *state, *cell;              // those before the step
    _Atomic int64_t errors;
} NAME(Step);

// A block of rows: for each kind of array, how far into the part of one time it begins.
typedef struct {
    int64_t start, rows, n;
} NAME(Block);

static T *NAME(at)(const NAME(Step) *s, int array, int64_t gate, NAME(Block) b) {
    const Layer *l = s->layer;
    if (array == PRODUCTS)
        return s->a[array] + gate * l->batch * l->width + b.start;
    return s->a[array] + (gate * l->length + s->time) * l->batch * l->width + b.start;
}

static void NAME(add_bias)(const NAME(Step) *s, int which, int64_t gate, T *x, NAME(Block) b) {
    const int64_t n = s->layer->width;
    if (!s->a[which])
        return;
    const T *restrict bias = s->a[which] + gate * n;
    for (int64_t row = 0; row < b.rows; row++) {
        T *restrict y = x + row * n;
        EACH y[i] += bias[i];
    }
}

// The argument of a gate, in the place of what the inputs add to it.
static T *NAME(argument)(const NAME(Step) *s, int64_t gate, NAME(Block) b) {
    T *restrict x = NAME(at)(s, GATES, gate, b);
    const T *restrict product = NAME(at)(s, PRODUCTS, gate, b);
    const int64_t n = b.n;
    NAME(add_bias)(s, BIAS, gate, x, b);
    if (s->state)
        EACH x[i] += product[i];
    return x;
}

static void NAME(logistic)(T *restrict x, int64_t n) {
    EACH x[i] = (T)0.5 * x[i];
    APPLY(TANH, x);
    EACH x[i] = (T)0.5 * x[i] + (T)0.5;
}

#define STEP(name) static void NAME(name)(const NAME(Step) *s, NAME(Block) b, int64_t n)
#define ARRAY(name, array, gate) T *restrict name = NAME(at)(s, array, gate, b)

STEP(rnn) {
    T *restrict x = NAME(argument)(s, 0, b);
    if (s->layer->kind == TANH_RNN) {
        APPLY(TANH, x);
        return;
    }
    T none = 0; // NumPy's loop decides which of two zeros is larger
    char *arrays[] = {(char *)x, (char *)&none, (char *)x};
    intptr_t length = n, steps[] = {sizeof(T), 0, sizeof(T)};
    NAME(loops)[MAXIMUM].function(arrays, &length, steps, NAME(loops)[MAXIMUM].data);
}

STEP(lstm) {
    T *restrict i_ = NAME(argument)(s, 0, b), *restrict f = NAME(argument)(s, 1, b);
    T *restrict g = NAME(argument)(s, 2, b), *restrict o = NAME(argument)(s, 3, b);
    ARRAY(c, CELLS, 0);
    ARRAY(h, STATES, 0);
    const T *restrict before = s->cell + b.start;
    NAME(logistic)(i_, n);
    NAME(logistic)(f, n);
    NAME(logistic)(o, n);
    APPLY(TANH, g);
    EACH h[i] = c[i] = f[i] * before[i] + i_[i] * g[i];
    APPLY(TANH, h);
    EACH h[i] = o[i] * h[i];
}

STEP(gru) {
    for (int k = 0; k < 3; k++)
        NAME(add_bias)(s, BIAS_HH, k, NAME(at)(s, PRODUCTS, k, b), b);
    for (int k = 0; k < 3; k++)
        NAME(add_bias)(s, BIAS, k, NAME(at)(s, GATES, k, b), b);
    ARRAY(n_, GATES, 0);
    ARRAY(r, GATES, 1);
    ARRAY(z, GATES, 2);
    ARRAY(q, GATES, 3);
    ARRAY(h, STATES, 0);
    ARRAY(p0, PRODUCTS, 0);
    ARRAY(p1, PRODUCTS, 1);
    ARRAY(p2, PRODUCTS, 2);
    const T *restrict before = s->state + b.start;
    EACH { // the inputs' parts are in the order r, z, n
        T to_r = n_[i] + p0[i], to_z = r[i] + p1[i];
        n_[i] = z[i];
        r[i] = to_r;
        z[i] = to_z;
        q[i] = p2[i];
    }
    NAME(logistic)(r, n);
    NAME(logistic)(z, n);
    EACH n_[i] += r[i] * q[i];
    APPLY(TANH, n_);
    EACH h[i] = n_[i] + z[i] * (before[i] - n_[i]);
}

// The cotangent of the states after a step: what the step after it has carried, and its own.
static T *NAME(to_states)(const NAME(Step) *s, NAME(Block) b) {
    const Layer *l = s->layer;
    const int64_t n = b.n;
    T *restrict dh = s->a[DH] + b.start;
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
        ARRAY(g, G, 0);
        EACH dh[i] += g[i];
    }
    return dh;
}

STEP(rnn_back) {
    T *restrict dh = NAME(to_states)(s, b);
    ARRAY(h, STATES, 0);
    ARRAY(d, D, 0);
    if (s->layer->kind == TANH_RNN)
        EACH d[i] = dh[i] * (1 - h[i] * h[i]);
    else
        EACH d[i] = h[i] > 0 ? dh[i] : 0;
}

STEP(lstm_back) {
    T *restrict dh = NAME(to_states)(s, b), *restrict dc = s->a[DC] + b.start;
    ARRAY(i_, GATES, 0);
    ARRAY(f, GATES, 1);
    ARRAY(g, GATES, 2);
    ARRAY(o, GATES, 3);
    ARRAY(to_i, D, 0);
    ARRAY(to_f, D, 1);
    ARRAY(to_g, D, 2);
    ARRAY(to_o, D, 3); // at first, tanh of the cells
    ARRAY(c, CELLS, 0);
    const T *restrict before = s->cell + b.start;
    memcpy(to_o, c, n * sizeof(T));
    APPLY(TANH, to_o);
    EACH {
        T tanh = to_o[i], carried = dc[i] + dh[i] * (o[i] * (1 - tanh * tanh));
        to_i[i] = carried * (g[i] * (i_[i] * (1 - i_[i])));
        to_f[i] = carried * (before[i] * (f[i] * (1 - f[i])));
        to_g[i] = carried * (i_[i] * (1 - g[i] * g[i]));
        to_o[i] = dh[i] * (tanh * (o[i] * (1 - o[i])));
        dc[i] = carried * f[i];
    }
}

STEP(gru_back) {
    T *restrict dh = NAME(to_states)(s, b);
    ARRAY(n_, GATES, 0);
    ARRAY(r, GATES, 1);
    ARRAY(z, GATES, 2);
    ARRAY(q, GATES, 3);
    ARRAY(to_r, D, 0);
    ARRAY(to_z, D, 1);
    ARRAY(to_q, D, 2);
    ARRAY(to_n, D, 3);
    const T *restrict before = s->state + b.start;
    EACH {
        T by_n = (1 - z[i]) * (1 - n_[i] * n_[i]);
        to_r[i] = dh[i] * (by_n * q[i] * (r[i] * (1 - r[i])));
        to_z[i] = dh[i] * ((before[i] - n_[i]) * (z[i] * (1 - z[i])));
        to_q[i] = dh[i] * (by_n * r[i]);
        to_n[i] = dh[i] * by_n;
        dh[i] *= z[i];
    }
}

static void NAME(compute_rows)(void *context, int64_t piece) {
    NAME(Step) *s = context;
    const Layer *l = s->layer;
    const int64_t first = piece * s->in_piece, left = l->batch - first;
    const int64_t rows = left < s->in_piece ? left : s->in_piece;
    const NAME(Block) b = {first * l->width, rows, rows * l->width};
    feclearexcept(FE_ALL_EXCEPT);
    if (l->is_back)
        (RNN(l->kind) ? NAME(rnn_back) : l->kind == LSTM ? NAME(lstm_back) : NAME(gru_back))(s, b, b.n);
    else
        (RNN(l->kind) ? NAME(rnn) : l->kind == LSTM ? NAME(lstm) : NAME(gru))(s, b, b.n);
    s->errors |= float_errors();
}

// Do some steps with this number of threads. Arrays are given as for gg_rows. Returns the errors of
// floating-point operations.
int64_t NAME(gg_recurrent)(const Layer *l, void *const *const *given, int64_t number) {
    const int64_t size = l->batch * l->width, bytes = sizeof(T), row = bytes * l->width;
    NAME(Step) s = {.layer = l, .in_piece = STEP_PIECE / l->width};
    for (int i = 0; i < LAYER_ARRAYS; i++)
        s.a[i] = given[i] ? *given[i] : NULL;
    if (!s.in_piece)
        s.in_piece = 1;
    const int64_t pieces = (l->batch + s.in_piece - 1) / s.in_piece;
    const int64_t by_gate = l->is_back ? l->length * size * bytes : 0;
    const int64_t d[] = {sizeof(T) == 8, l->gates > 1, l->batch, l->width, l->width,
                         row, bytes, row, bytes, row, bytes,
                         l->gates, by_gate, l->width * row, size * bytes};
    for (s.step = l->first; s.step < l->last; s.step++) {
        s.time = l->is_back != l->is_reverse ? l->length - 1 - s.step : s.step;
        const int64_t before = l->is_reverse ? s.time + 1 : s.time - 1;
        const int is_initial = before < 0 || before == l->length;
        s.state = is_initial ? s.a[STATE] : s.a[STATES] + before * size;
        s.cell = is_initial || !s.a[CELLS] ? s.a[CELL] : s.a[CELLS] + before * size;
        for (int part = 0; part < 2; part++) {
            const T *x = l->is_back ? s.a[D] + s.time * size : s.state;
            if (part != l->is_back) {
                if (number > 1)
                    gg_run(NAME(compute_rows), &s, pieces);
                else
                    for (int64_t i = 0; i < pieces; i++)
                        NAME(compute_rows)(&s, i);
            } else if (x)
                s.errors |= gg_matmul(l->is_large ? number : 0, d, x, s.a[WEIGHT], s.a[PRODUCTS]);
        }
    }
    return s.errors;
}

#undef STEP
#undef ARRAY
#endif
