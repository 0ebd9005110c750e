// One step of recurrent layers; see recurrent.py. A thread computes an element of the state, which
// between the steps is as wide as the sums.

__device__ inline A logistic(A x)
{
    A e = exp(x < 0 ? x : -x);  // the exponent is never positive, so nothing overflows
    return (x < 0 ? e : 1) / (1 + e);
}

__device__ inline A value_of(const T* x, long long i) { return x ? load(x + i) : A(0); }

// The part of a gate that comes from the input, which is projected at all times, or from the state.
__device__ inline A part(const T* projected, const T* bias, long long row, long long gates,
                         long long gate, long long width, long long column)
{
    long long i = (row * gates + gate) * width + column;
    return value_of(projected, i) + value_of(bias, gate * width + column);
}

// The element of the state; `at` is its place among those of all times.
#define STEP(rows, at) \
    long long i = thread_number(); \
    if (i >= rows * width) return; \
    long long row = i / width, column = i % width, at = t * rows * width + i; \
    long long all = length * rows * width;

extern "C" __global__ void lstm_cell(const T* projected, const T* recurrent, const T* bias_ih,
                                     const T* bias_hh, A* cell, T* states, T* cells, T* gates,
                                     long long t, long long length, long long rows, long long width)
{
    STEP(rows, at)
    A gate[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        A x = part(projected, bias_ih, t * rows + row, 4, k, width, column) +
              part(recurrent, bias_hh, row, 4, k, width, column);
        gate[k] = k == 2 ? tanh(x) : logistic(x);
        store(gates + k * all + at, gate[k]);
    }
    A c = gate[1] * cell[i] + gate[0] * gate[2];
    cell[i] = c;
    store(cells + at, c);
    store(states + at, gate[3] * tanh(c));
}

// through: the cotangent of the state from later steps. dcell: that of the cell, for this step and
// then for the one before, at the time `before`, or -1. d = the cotangents of what the gates are of.
extern "C" __global__ void lstm_cell_backward(const T* g, const T* through, A* dcell,
                                              const T* gates, const T* cells, const T* c0, T* d,
                                              long long t, long long before, long long length,
                                              long long rows, long long width)
{
    STEP(rows, at)
    A in = load(gates + at), forget = load(gates + all + at), input = load(gates + 2 * all + at);
    A out = load(gates + 3 * all + at), tanh_c = tanh(load(cells + at));
    A c = before < 0 ? value_of(c0, i) : load(cells + before * rows * width + i);
    A dh = value_of(g, at) + value_of(through, i);
    A dc = dcell[i] + dh * out * (1 - tanh_c * tanh_c);
    dcell[i] = dc * forget;
    T* to = d + (t * rows + row) * 4 * width + column;
    store(to, dc * input * in * (1 - in));
    store(to + width, dc * c * forget * (1 - forget));
    store(to + 2 * width, dc * in * (1 - input * input));
    store(to + 3 * width, dh * tanh_c * out * (1 - out));
}

extern "C" __global__ void gru_cell(const T* projected, const T* recurrent, const T* bias_ih,
                                    const T* bias_hh, A* state, T* states, T* gates, long long t,
                                    long long length, long long rows, long long width)
{
    STEP(rows, at)
    A from_x[3], from_h[3];
#pragma unroll
    for (int k = 0; k < 3; k++) {
        from_x[k] = part(projected, bias_ih, t * rows + row, 3, k, width, column);
        from_h[k] = part(recurrent, bias_hh, row, 3, k, width, column);
    }
    A r = logistic(from_x[0] + from_h[0]), z = logistic(from_x[1] + from_h[1]);
    A n = tanh(from_x[2] + r * from_h[2]), h = n + z * (state[i] - n);
    state[i] = h;
    store(states + at, h);
    store(gates + at, n);
    store(gates + all + at, r);
    store(gates + 2 * all + at, z);
    store(gates + 3 * all + at, from_h[2]);
}

// dstate: the part of the state's cotangent from the next step that `through` has not. dx, dh = the
// cotangents of the gates' parts from the input and from the state.
extern "C" __global__ void gru_cell_backward(const T* g, const T* through, A* dstate,
                                             const T* gates, const T* states, const T* h0, T* dx,
                                             T* dh, long long t, long long before,
                                             long long length, long long rows, long long width)
{
    STEP(rows, at)
    A n = load(gates + at), r = load(gates + all + at), z = load(gates + 2 * all + at);
    A q = load(gates + 3 * all + at);
    A h = before < 0 ? value_of(h0, i) : load(states + before * rows * width + i);
    A slope = value_of(g, at) + value_of(through, i) + dstate[i];
    dstate[i] = slope * z;
    A by_n = slope * (1 - z) * (1 - n * n), by_r = by_n * q * r * (1 - r);
    A by_z = slope * (h - n) * z * (1 - z);
    long long to = (t * rows + row) * 3 * width + column;
    store(dx + to, by_r);
    store(dh + to, by_r);
    store(dx + to + width, by_z);
    store(dh + to + width, by_z);
    store(dx + to + 2 * width, by_n);
    store(dh + to + 2 * width, by_n * r);
}
