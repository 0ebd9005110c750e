// Kernels of gpugrad/ops/neural.py.

extern "C" __global__ void scale(const T* x, T* out, long long n, double factor)
{
    for (long long i = thread_number(); i < n; i += thread_count())
        store(out + i, load(x + i) * (A)factor);
}
