// How numbers and arrays of the caller's get into a captured program, and its results out of it; and
// arrays that are joined along an axis.

#define CHUNK 16384  // bytes that a block copies into or out of a program
#define UNITS 2048   // and units of an array that is joined to others

struct Words { unsigned long long items[WORDS]; };

// Arguments of a launch are copied when it is made, so the host may reuse their memory at once.
extern "C" __global__ void store_words(const Words words, unsigned long long* out, long long n)
{
    for (long long i = thread_number(); i < n; i += thread_count()) out[i] = words.items[i];
}

struct alignas(16) Bytes { unsigned long long items[2]; };

template <class Unit> __device__ inline void copy_units(char* to, const char* from, int n)
{
    int whole = n / sizeof(Unit);
    for (int i = threadIdx.x; i < whole; i += blockDim.x) ((Unit*)to)[i] = ((const Unit*)from)[i];
    for (int i = whole * sizeof(Unit) + threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

// The table has the sizes in bytes, the addresses of the program's arrays, and where in `addresses`
// those of the caller's are. An address of 0 means that there is nothing to copy.
extern "C" __global__ void copy_arrays(
    const Table copies, const unsigned long long* addresses, bool outward)
{
    int which = find(copies);
    long long start = (blockIdx.x - copies.words[which]) * CHUNK;
    long long rest = copies.words[copies.count + which] - start;
    int n = (int)(rest < CHUNK ? rest : CHUNK);
    char* own = (char*)copies.words[2 * copies.count + which] + start;
    unsigned long long address = addresses[copies.words[3 * copies.count + which]];
    if (!address) return;
    char* other = (char*)address + start;
    const char* from = outward ? own : other;
    char* to = outward ? other : own;
    unsigned long long bits = (unsigned long long)from | (unsigned long long)to;
    if (bits % 16 == 0) copy_units<Bytes>(to, from, n);
    else if (bits % 4 == 0) copy_units<unsigned>(to, from, n);
    else if (bits % 2 == 0) copy_units<unsigned short>(to, from, n);
    else copy_units<char>(to, from, n);
}

template <class Unit>
__device__ inline void join_rows(const Table& parts, Unit* out, long long rows, long long width)
{
    int which = find(parts);
    long long count = parts.count, start = (blockIdx.x - parts.words[which]) * UNITS;
    long long columns = parts.words[count + which], rest = rows * columns - start;
    unsigned stop = (unsigned)(start + (rest < UNITS ? rest : UNITS));
    out += parts.words[2 * count + which];
    const Unit* x = (const Unit*)parts.words[3 * count + which];
    for (unsigned i = (unsigned)start + threadIdx.x; i < stop; i += blockDim.x) {
        unsigned row = i / (unsigned)columns;
        out[row * width + i % (unsigned)columns] = x[i];
    }
}

// Joins contiguous arrays, each of fewer than 2**31 units, along an axis. The product of the lengths
// of the axes before it is `rows`; `width` is how many units the result's rows have. The table has how
// many units an array's rows have, where these begin in those of the result, and its address.
extern "C" __global__ void join(const Table parts, char* out, long long rows, long long width,
                                int unit)
{
    if (unit == 16) join_rows(parts, (Bytes*)out, rows, width);
    else if (unit == 8) join_rows(parts, (unsigned long long*)out, rows, width);
    else if (unit == 4) join_rows(parts, (unsigned*)out, rows, width);
    else if (unit == 2) join_rows(parts, (unsigned short*)out, rows, width);
    else join_rows(parts, (unsigned char*)out, rows, width);
}
