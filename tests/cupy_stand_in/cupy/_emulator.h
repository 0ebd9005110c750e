// CUDA C++ on a CPU, for the tests. A kernel's source follows, and then lines that _raw.py adds.
//
// Blocks run one after another. The threads of a block are fibers that yield at barriers and warp
// exchanges. Shared memory starts as garbage. Deadlocks and undefined behaviour are errors, and so
// are accesses outside the given arrays, for which the compiler's sanitizers call functions here.

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <type_traits>
#include <utility>

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
constexpr int warpSize = 32;

#define __global__
#define __device__
#define __grid_constant__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __constant__ static
#define __shared__ static __attribute__((section("emulated_shared")))
#define __align__(n) alignas(n)

// Bounds of that memory and of the whole library, from the linker.
extern "C" char __start_emulated_shared[] __attribute__((weak));
extern "C" char __stop_emulated_shared[] __attribute__((weak));
#pragma GCC visibility push(hidden)
extern "C" char __ehdr_start[], _end[];
#pragma GCC visibility pop

namespace emulator {

// Fibers, one for each thread of the largest block so far; each runs one thread after another.

enum State { READY, AT_BARRIER, IN_WARP, DONE };

struct Fiber {
    jmp_buf here;
    State state;
    int line;  // the source line of the barrier or exchange it waits at
    // What it gives to, and gets from, an exchange of its warp:
    unsigned mask;  // the lanes that take part
    int from;       // the lane whose value it gets
    bool vote;
    unsigned votes;
    unsigned char offered[16], received[16];
};

constexpr int MOST = 1024;
constexpr size_t STACK = 1 << 17;
Fiber fibers[MOST];
int started, current, count;
jmp_buf scheduler;
void (*body)(void*);
void* body_argument;
unsigned launches;
char error[400];

template <class... Values> void fail(const char* text, Values... values)
{
    if (!*error) snprintf(error, sizeof error, text, values...);
}

[[noreturn]] inline void leave() { _longjmp(scheduler, 1); }

// Memory

struct Array {
    char *start, *stop;
    unsigned char* touched;  // if not null: for each byte 1 if it was read, 2 if it was written
};

char* stacks;
const Array* arrays;  // the arguments, null if not all are known
int array_count;
unsigned long long accesses;  // of one launch, to memory that is not its own

#define UNCHECKED __attribute__((no_sanitize_address))

#define WITHIN(start, stop) (p >= (start) && p + size <= (stop))

UNCHECKED __attribute__((noinline)) void check_arrays(char* p, size_t size, int how)
{
    accesses++;
    if (!arrays) return;
    for (int i = 0; i < array_count; i++) {
        if (!WITHIN(arrays[i].start, arrays[i].stop)) continue;
        if (arrays[i].touched)
            for (size_t k = 0; k < size; k++) arrays[i].touched[p - arrays[i].start + k] |= how;
        return;
    }
    const Array* nearest = nullptr;
    size_t distance = -1;
    for (int i = 0; i < array_count; i++) {
        size_t d = p < arrays[i].start ? arrays[i].start - p : p - arrays[i].stop;
        if (d < distance) nearest = &arrays[i], distance = d;
    }
    arrays = nullptr;
    fail("thread %d of block %d accesses %d bytes outside the arrays, %lld bytes from the start of "
         "one of %lld bytes", threadIdx.x, blockIdx.x, (int)size, (long long)(p - nearest->start),
         (long long)(nearest->stop - nearest->start));
    leave();
}

// This is called at each access, and so is a part of the functions that the compiler calls.
UNCHECKED inline void check(void* at, size_t size, int how)
{
    char* p = (char*)at;
    if (WITHIN(stacks, stacks + MOST * STACK) || WITHIN(__ehdr_start, _end)) return;
    check_arrays(p, size, how);
}

struct Place { const char* file; unsigned line, column; };  // in UBSan's layout

[[noreturn]] inline void undefined(const char* what, void* place)
{
    fail("%s in line %d", what, ((Place*)place)->line);
    leave();
}

inline void run_threads()
{
    for (;;) {
        if (!_setjmp(fibers[current].here)) leave();
        body(body_argument);
        fibers[current].state = DONE;
    }
}

inline void start_fibers()
{
    if (!stacks)
        stacks = (char*)mmap(nullptr, MOST * STACK, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (; started < count; started++) {
        ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = stacks + started * STACK;
        context.uc_stack.ss_size = STACK;
        context.uc_link = nullptr;
        makecontext(&context, run_threads, 0);
        current = started;
        if (!_setjmp(scheduler)) setcontext(&context);
    }
}

// Return to the scheduler until the other threads have come to the same point.
__attribute__((noinline)) void wait(State state, int line)
{
    Fiber& fiber = fibers[current];
    fiber.state = state;
    fiber.line = line;
    if (!_setjmp(fiber.here)) leave();
}

__attribute__((noinline)) void enter(int number)
{
    current = number;
    unsigned n = number;
    threadIdx = {n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
    if (!_setjmp(scheduler)) _longjmp(fibers[number].here, 1);
}

// Resume the threads of a warp whose partners have all arrived; return whether there were any.
inline bool release_warp(int first)
{
    bool any = false;
    for (int i = first; i < first + 32 && i < count; i++) {
        if (fibers[i].state != IN_WARP) continue;
        unsigned mask = fibers[i].mask;
        bool all = true;
        for (int lane = 0; lane < 32; lane++) {
            if (!(mask >> lane & 1)) continue;
            Fiber& other = fibers[first + lane];
            if (first + lane >= count || other.state == DONE) {
                fail("a warp exchange in line %d waits for a thread that is not there",
                     fibers[i].line);
                return false;
            }
            if (other.state != IN_WARP) { all = false; continue; }
            if (other.mask != mask || other.line != fibers[i].line) {
                fail("threads of a warp exchange in different ways, in lines %d and %d",
                     fibers[i].line, other.line);
                return false;
            }
        }
        if (!all) continue;
        unsigned votes = 0;
        for (int lane = 0; lane < 32; lane++)
            if (mask >> lane & 1) votes |= (unsigned)fibers[first + lane].vote << lane;
        for (int lane = 0; lane < 32; lane++) {
            Fiber& fiber = fibers[first + lane];
            if (!(mask >> lane & 1)) continue;
            if (!(mask >> fiber.from & 1)) {
                fail("in line %d a thread asks a lane that takes no part, %d", fiber.line,
                     fiber.from);
                return false;
            }
            fiber.votes = votes;
            memcpy(fiber.received, fibers[first + fiber.from].offered, sizeof fiber.received);
            fiber.state = READY;
        }
        any = true;
    }
    return any;
}

// Resume a block whose threads all wait at the same barrier.
inline bool release_block()
{
    for (int i = 0; i < count; i++) {
        if (fibers[i].state == IN_WARP) {
            fail("part of a warp waits for the rest of it in line %d", fibers[i].line);
            return false;
        }
        if (fibers[i].state == DONE || fibers[i].line != fibers[0].line) {
            int waiting = 0, line = 0;
            for (int k = 0; k < count; k++)
                if (fibers[k].state == AT_BARRIER) waiting++, line = fibers[k].line;
            fail("not all threads of a block come to the barrier in line %d, or to one: "
                 "%d of %d wait", line, waiting, count);
            return false;
        }
    }
    for (int i = 0; i < count; i++) fibers[i].state = READY;
    return true;
}

inline void run_block(unsigned number)
{
    char* shared = __start_emulated_shared;
    if (shared) memset(shared, 0xff, __stop_emulated_shared - shared);
    for (int i = 0; i < count; i++) fibers[i].state = READY;
    // Each warp runs as far as it can before the next, in some blocks in reverse order, since code
    // that depends on the order is wrong.
    bool backwards = (launches + number) & 1;
    int warps = (count + 31) / 32;
    for (;;) {
        for (int w = 0; w < warps; w++) {
            int first = 32 * (backwards ? warps - 1 - w : w);
            int size = count - first < 32 ? count - first : 32;
            do {
                for (int k = 0; k < size; k++) {
                    int i = first + (backwards ? size - 1 - k : k);
                    if (fibers[i].state == READY) enter(i);
                    if (*error) return;
                }
            } while (release_warp(first));
            if (*error) return;
        }
        bool all_done = true;
        for (int i = 0; i < count; i++) all_done = all_done && fibers[i].state == DONE;
        if (all_done || !release_block()) return;
    }
}

// Threads that an error left waiting start again.
inline const char* finish()
{
    arrays = nullptr;
    if (!*error) return nullptr;
    started = 0;
    return error;
}

template <class... P, size_t... I>
const char* run(void (*kernel)(P...), const unsigned* grid, const unsigned* block, void** args,
                const Array* given, int given_count, std::index_sequence<I...>)
{
    struct Call { void (*kernel)(P...); void** args; } call{kernel, args};
    body = [](void* given) UNCHECKED {
        Call* call = (Call*)given;
        call->kernel(*(std::remove_const_t<P>*)call->args[I]...);
    };
    body_argument = &call;
    *error = 0;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    count = blockDim.x * blockDim.y * blockDim.z;
    launches++;
    accesses = 0;
    arrays = nullptr;
    start_fibers();
    arrays = given;
    array_count = given_count;
    unsigned number = 0;
    for (unsigned z = 0; z < gridDim.z; z++)
        for (unsigned y = 0; y < gridDim.y; y++)
            for (unsigned x = 0; x < gridDim.x && !*error; x++) {
                blockIdx = {x, y, z};
                run_block(number++);
            }
    return finish();
}

template <class... P>
const char* launch(void (*kernel)(P...), const unsigned* grid, const unsigned* block, void** args,
                   const Array* arrays, int count)
{
    return run(kernel, grid, block, args, arrays, count, std::index_sequence_for<P...>{});
}

// Parameters as text: kind, size, name and a newline; for pointers "p" and their target.

template <class V> const char* name_of()
{
    static char name[200];
    const char* text = strstr(__PRETTY_FUNCTION__, "V = ") + 4;
    size_t n = strcspn(text, ";]");
    memcpy(name, text, n);
    return name;
}

template <class V> void describe_one(char* out)
{
    using U = std::remove_cv_t<V>;
    if constexpr (std::is_pointer_v<U>) {
        strcat(out, "p ");
        describe_one<std::remove_pointer_t<U>>(out);
    } else if constexpr (std::is_void_v<U>) {
        strcat(out, "void 0 void\n");
    } else {
        const char* kind = std::is_same_v<U, bool>       ? "bool"
                           : std::is_floating_point_v<U> ? "float"
                           : std::is_integral_v<U>       ? "int"
                                                         : "struct";
        sprintf(out + strlen(out), "%s %zu %s\n", kind, sizeof(U), name_of<U>());
    }
}

template <class... P> void describe(void (*)(P...), char* out)
{
    *out = 0;
    (describe_one<P>(out), ...);
}

// Exchanges between the threads of a warp, at a line of the source.
struct Line {
    int line;

    Fiber& meet(unsigned mask, int from, bool vote = false)
    {
        Fiber& fiber = fibers[current];
        if (!(mask >> current % 32 & 1)) fail("in line %d a thread is not in its own mask", line);
        fiber.mask = mask;
        fiber.from = from;
        fiber.vote = vote;
        wait(IN_WARP, line);
        return fiber;
    }

    template <class V> V get(unsigned mask, V value, int from)
    {
        static_assert(sizeof(V) == 4 || sizeof(V) == 8, "CUDA exchanges 4 or 8 bytes");
        memcpy(fibers[current].offered, &value, sizeof value);
        memcpy(&value, meet(mask, from).received, sizeof value);
        return value;
    }

    int lane() { return current % 32; }
    void block() { wait(AT_BARRIER, line); }
    void warp(unsigned mask = ~0u) { meet(mask, lane()); }
    bool any(unsigned mask, bool vote) { return meet(mask, lane(), vote).votes; }
    bool all(unsigned mask, bool vote) { return meet(mask, lane(), vote).votes == mask; }
    unsigned ballot(unsigned mask, bool vote) { return meet(mask, lane(), vote).votes; }
    template <class V> V at(unsigned mask, V value, int lane_, int width = 32)
    {
        return get(mask, value, lane() / width * width + lane_ % width);
    }
    template <class V> V exclusive_or(unsigned mask, V value, int bits, int width = 32)
    {
        int from = lane() ^ bits;
        return get(mask, value, from < (lane() / width + 1) * width ? from : lane());
    }
    template <class V> V down(unsigned mask, V value, unsigned step, int width = 32)
    {
        int from = lane() + step;
        return get(mask, value, from < (lane() / width + 1) * width ? from : lane());
    }
    template <class V> V up(unsigned mask, V value, unsigned step, int width = 32)
    {
        int from = lane() - step;
        return get(mask, value, from >= lane() / width * width ? from : lane());
    }
};

}  // namespace emulator

extern "C" {
#define CHECK(n) \
    UNCHECKED void __asan_load##n##_noabort(void* p) { emulator::check(p, n, 1); } \
    UNCHECKED void __asan_store##n##_noabort(void* p) { emulator::check(p, n, 2); }
CHECK(1) CHECK(2) CHECK(4) CHECK(8) CHECK(16)
UNCHECKED void __asan_loadN_noabort(void* p, long n) { emulator::check(p, n, 1); }
UNCHECKED void __asan_storeN_noabort(void* p, long n) { emulator::check(p, n, 2); }
void __asan_handle_no_return() {}
void __ubsan_handle_out_of_bounds(void* at, void*)
{
    emulator::undefined("an index out of bounds", at);
}
void __ubsan_handle_type_mismatch_v1(void* at, void*)
{
    emulator::undefined("a misaligned access", at);
}
void __ubsan_handle_divrem_overflow(void* at, void*, void*)
{
    emulator::undefined("a division by zero", at);
}
}

#define __syncthreads emulator::Line{__LINE__}.block
#define __syncwarp emulator::Line{__LINE__}.warp
#define __shfl_sync emulator::Line{__LINE__}.at
#define __shfl_xor_sync emulator::Line{__LINE__}.exclusive_or
#define __shfl_down_sync emulator::Line{__LINE__}.down
#define __shfl_up_sync emulator::Line{__LINE__}.up
#define __any_sync emulator::Line{__LINE__}.any
#define __all_sync emulator::Line{__LINE__}.all
#define __ballot_sync emulator::Line{__LINE__}.ballot

inline void __threadfence() {}
inline void __threadfence_block() {}

// Atomic functions; no other thread runs at the same time.

#define ATOMIC(name, V, result) \
    inline V name(V* p, V x) { V old = *p; *p = result; return old; }
#define ATOMICS(V) \
    ATOMIC(atomicAdd, V, old + x) ATOMIC(atomicExch, V, x) \
    ATOMIC(atomicMax, V, old > x ? old : x) ATOMIC(atomicMin, V, old < x ? old : x)
ATOMICS(int) ATOMICS(unsigned) ATOMICS(unsigned long long)
ATOMIC(atomicAdd, float, old + x) ATOMIC(atomicAdd, double, old + x) ATOMIC(atomicExch, float, x)
ATOMIC(atomicOr, unsigned, old | x) ATOMIC(atomicAnd, unsigned, old & x)
#define ATOMIC_CAS(V) \
    inline V atomicCAS(V* p, V expected, V x) \
    { \
        V old = *p; \
        if (old == expected) *p = x; \
        return old; \
    }
ATOMIC_CAS(int) ATOMIC_CAS(unsigned) ATOMIC_CAS(unsigned long long)

// Mathematical functions, without <cmath>, whose templates differ from CUDA's overloads.

#define ONE(name) \
    extern "C" double name(double); extern "C" float name##f(float); \
    inline float name(float x) { return name##f(x); }
#define TWO(name) \
    extern "C" double name(double, double); extern "C" float name##f(float, float); \
    inline float name(float x, float y) { return name##f(x, y); }
ONE(exp) ONE(exp2) ONE(expm1) ONE(log) ONE(log2) ONE(log10) ONE(log1p) ONE(sqrt) ONE(cbrt)
ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh)
ONE(asinh) ONE(acosh) ONE(atanh)
ONE(erf) ONE(erfc) ONE(lgamma) ONE(tgamma) ONE(fabs) ONE(floor) ONE(ceil) ONE(trunc) ONE(rint)
ONE(round) TWO(pow) TWO(fmod) TWO(fmax) TWO(fmin) TWO(atan2) TWO(hypot) TWO(copysign)
TWO(nextafter)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
inline float ldexp(float x, int n) { return ldexpf(x, n); }

#define TEST(name) \
    inline bool name(float x) { return __builtin_##name(x); } \
    inline bool name(double x) { return __builtin_##name(x); }
TEST(isnan) TEST(isinf) TEST(isfinite) TEST(signbit)

inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }
inline long long abs(long long x) { return x < 0 ? -x : x; }
template <class V, class W> std::common_type_t<V, W> max(V x, W y) { return x > y ? x : y; }
template <class V, class W> std::common_type_t<V, W> min(V x, W y) { return x < y ? x : y; }

constexpr double PI = 3.14159265358979323846;
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
inline void sincospif(float x, float* s, float* c) { *s = sin(PI * x), *c = cos(PI * x); }
inline void sincospi(double x, double* s, double* c) { *s = sin(PI * x), *c = cos(PI * x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline void __sincosf(float x, float* s, float* c) { sincosf(x, s, c); }

// Bits and integers

template <class To, class From> To same_bits(From x)
{
    static_assert(sizeof(To) == sizeof(From), "");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
inline int __float_as_int(float x) { return same_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
inline float __int_as_float(int x) { return same_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned long long)x * y >> 32; }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned __int128)x * y >> 64;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }

// Memory

template <class V> V __ldg(const V* p) { return *p; }
template <class V> V __ldcs(const V* p) { return *p; }
template <class V> V __ldcg(const V* p) { return *p; }
template <class V> void __stcs(V* p, V x) { *p = x; }
template <class V> void __stcg(V* p, V x) { *p = x; }

#define VECTORS(V, name, size) \
    struct alignas(2 * size) name##2 { V x, y; }; \
    struct alignas(4 * size < 16 ? 4 * size : 16) name##4 { V x, y, z, w; }; \
    inline name##2 make_##name##2(V x, V y) { return {x, y}; } \
    inline name##4 make_##name##4(V x, V y, V z, V w) { return {x, y, z, w}; }
VECTORS(float, float, 4) VECTORS(double, double, 8) VECTORS(int, int, 4)
VECTORS(unsigned, uint, 4) VECTORS(unsigned short, ushort, 2) VECTORS(unsigned char, uchar, 1)
VECTORS(long long, longlong, 8) VECTORS(unsigned long long, ulonglong, 8)
