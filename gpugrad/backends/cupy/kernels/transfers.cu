// How numbers and arrays of the caller's get into a captured program, and its results out of it.

#define CHUNK 16384  // bytes that a block copies
#define WORDS 448    // so that the arguments fit into the 4 KB of a launch

struct Words { unsigned long long items[WORDS]; };

// words: the number of each copy's first block, the sizes in bytes, the addresses of the program's
// arrays, and where in `addresses` those of the caller's are; of each `count`.
struct Copies { long long count, words[WORDS]; };

// Arguments of a launch are copied when it is made, so the host may reuse their memory at once.
extern "C" __global__ void store_words(const Words words, unsigned long long* out, long long n)
{
    for (long long i = thread_number(); i < n; i += thread_count()) out[i] = words.items[i];
}

struct alignas(16) Bytes { unsigned long long items[2]; };

// An address of 0 means that there is nothing to copy.
extern "C" __global__ void copy_arrays(
    const Copies copies, const unsigned long long* addresses, bool outward)
{
    int low = 0, high = (int)copies.count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (copies.words[middle] <= blockIdx.x) low = middle;
        else high = middle - 1;
    }
    long long start = (blockIdx.x - copies.words[low]) * CHUNK;
    long long rest = copies.words[copies.count + low] - start;
    int n = (int)(rest < CHUNK ? rest : CHUNK);
    char* own = (char*)copies.words[2 * copies.count + low] + start;
    unsigned long long address = addresses[copies.words[3 * copies.count + low]];
    if (!address) return;
    char* other = (char*)address + start;
    const char* from = outward ? own : other;
    char* to = outward ? other : own;
    bool aligned = ((unsigned long long)from | (unsigned long long)to) % 16 == 0;
    int packed = aligned ? n / 16 * 16 : 0;
    for (int i = threadIdx.x * 16; i < packed; i += blockDim.x * 16)
        *(Bytes*)(to + i) = *(const Bytes*)(from + i);
    for (int i = packed + threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}
