// What a captured program's launches begin and end with: arrays are copied between the caller's memory
// and the program's, and numbers of the host become the program's.

#define CHUNK 16384  // bytes that a block copies
#define WORDS 448    // so that the arguments fit into the 4 KB of a launch

struct Words { unsigned long long items[WORDS]; };

// words: the number of each copy's first block, the sizes in bytes, the addresses of all sources,
// and those of all targets; of each `count`.
struct Copies { long long count, words[WORDS]; };

// Arguments of a launch are copied when it is made, so the host may reuse their memory at once.
extern "C" __global__ void store_words(const Words words, unsigned long long* out, long long n)
{
    for (long long i = thread_number(); i < n; i += thread_count()) out[i] = words.items[i];
}

struct alignas(16) Bytes { unsigned long long items[2]; };

extern "C" __global__ void copy_arrays(const Copies copies)
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
    const char* from = (const char*)copies.words[2 * copies.count + low] + start;
    char* to = (char*)copies.words[3 * copies.count + low] + start;
    bool aligned = ((unsigned long long)from | (unsigned long long)to) % 16 == 0;
    int packed = aligned ? n / 16 * 16 : 0;
    for (int i = threadIdx.x * 16; i < packed; i += blockDim.x * 16)
        *(Bytes*)(to + i) = *(const Bytes*)(from + i);
    for (int i = packed + threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}
