// CUDA C as C++17 on the CPU: force-included ahead of an unmodified kernel text.
//
// Like NVRTC it gives the text no system header at all, so the text cannot come to rely on one, and compiling stays
// quick. The threads of a block run one after another in one CPU thread, as fibers where the text has barriers or warp
// operations (CUDA_CPU_FIBERS), else in a loop. What runs them follows the text: cuda_cpu_launch.h.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
// One copy for each CPU thread: launches from several Python threads do not meet.
#define __shared__ thread_local
#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif

using size_t = decltype(sizeof 0);
using ptrdiff_t = decltype((char*)nullptr - (char*)nullptr);

extern "C" {
void* memcpy(void*, const void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
int printf(const char*, ...);
}

// --- Vector types: two and four elements are aligned to their size, at most to 16 bytes.

#define CUDA_CPU_VECTOR(T, name)                                                        \
    struct name##1 { T x; };                                                            \
    struct alignas(sizeof(T) * 2) name##2 { T x, y; };                                  \
    struct name##3 { T x, y, z; };                                                      \
    struct alignas(sizeof(T) < 4 ? sizeof(T) * 4 : 16) name##4 { T x, y, z, w; };       \
    static inline name##1 make_##name##1(T x) { return {x}; }                           \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                   \
    static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }           \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

CUDA_CPU_VECTOR(signed char, char)
CUDA_CPU_VECTOR(unsigned char, uchar)
CUDA_CPU_VECTOR(short, short)
CUDA_CPU_VECTOR(unsigned short, ushort)
CUDA_CPU_VECTOR(int, int)
CUDA_CPU_VECTOR(unsigned, uint)
CUDA_CPU_VECTOR(long, long)
CUDA_CPU_VECTOR(unsigned long, ulong)
CUDA_CPU_VECTOR(long long, longlong)
CUDA_CPU_VECTOR(unsigned long long, ulonglong)
CUDA_CPU_VECTOR(float, float)
CUDA_CPU_VECTOR(double, double)
#undef CUDA_CPU_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// --- Built-in variables.

static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
constexpr int warpSize = 32;

#ifdef CUDA_CPU_DYNAMIC_SHARED
namespace cuda_cpu {
constexpr unsigned dynamic_limit = 227 * 1024;  // what one block can have on sm_90
constexpr unsigned overrun_zone = 1024;         // kept behind the bytes asked for, and looked at after each block
}  // namespace cuda_cpu
// What `extern __shared__ unsigned char shared_memory[]` in the text refers to.
alignas(128) static thread_local unsigned char shared_memory[cuda_cpu::dynamic_limit + cuda_cpu::overrun_zone];
#endif

// --- Barriers and warp operations. `line` is the caller's: it tells one barrier from another.

#ifdef CUDA_CPU_FIBERS
namespace cuda_cpu {

enum class Operation : unsigned char { none, syncthreads, syncwarp, shuffle, ballot };

static int barrier(int predicate, int line);  // how many threads of the block came with a true predicate
static int block_threads();
static unsigned lane();
static unsigned long long exchange(Operation operation, unsigned mask, unsigned long long value, unsigned source, int line);

template <typename T>
static inline T shuffle(unsigned mask, T value, unsigned source, int line) {
    static_assert(sizeof(T) <= sizeof(unsigned long long), "a shuffle moves at most 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = exchange(Operation::shuffle, mask, bits, source, line);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace cuda_cpu

static inline void __syncthreads(int line = __builtin_LINE()) { cuda_cpu::barrier(0, line); }
static inline int __syncthreads_count(int p, int line = __builtin_LINE()) { return cuda_cpu::barrier(p, line); }
static inline int __syncthreads_or(int p, int line = __builtin_LINE()) { return cuda_cpu::barrier(p, line) > 0; }
static inline int __syncthreads_and(int p, int line = __builtin_LINE()) {
    return cuda_cpu::barrier(p, line) == cuda_cpu::block_threads();
}
static inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
    cuda_cpu::exchange(cuda_cpu::Operation::syncwarp, mask, 0, 0, line);
}
static inline unsigned __ballot_sync(unsigned mask, int p, int line = __builtin_LINE()) {
    return unsigned(cuda_cpu::exchange(cuda_cpu::Operation::ballot, mask, p != 0, 0, line));
}
static inline int __any_sync(unsigned mask, int p, int line = __builtin_LINE()) {
    return __ballot_sync(mask, p, line) != 0;
}
static inline int __all_sync(unsigned mask, int p, int line = __builtin_LINE()) {
    return __ballot_sync(mask, !p, line) == 0;
}

// A source past its segment of `width` lanes gives the lane its own value back.
#define CUDA_CPU_SHUFFLES(T)                                                                                        \
    static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32, int line = __builtin_LINE()) {        \
        const unsigned first = cuda_cpu::lane() & ~unsigned(width - 1);                                             \
        return cuda_cpu::shuffle(mask, v, first + (unsigned(from) & unsigned(width - 1)), line);                    \
    }                                                                                                               \
    static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, int line = __builtin_LINE()) {  \
        const unsigned lane = cuda_cpu::lane();                                                                     \
        return cuda_cpu::shuffle(mask, v, by > (lane & unsigned(width - 1)) ? lane : lane - by, line);              \
    }                                                                                                               \
    static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, int line = __builtin_LINE()) {\
        const unsigned lane = cuda_cpu::lane(), left = unsigned(width - 1) - (lane & unsigned(width - 1));          \
        return cuda_cpu::shuffle(mask, v, by > left ? lane : lane + by, line);                                      \
    }                                                                                                               \
    static inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, int line = __builtin_LINE()) {    \
        const unsigned lane = cuda_cpu::lane(), from = lane ^ unsigned(with);                                       \
        return cuda_cpu::shuffle(mask, v, from > (lane | unsigned(width - 1)) ? lane : from, line);                 \
    }

CUDA_CPU_SHUFFLES(int)
CUDA_CPU_SHUFFLES(unsigned)
CUDA_CPU_SHUFFLES(long)
CUDA_CPU_SHUFFLES(unsigned long)
CUDA_CPU_SHUFFLES(long long)
CUDA_CPU_SHUFFLES(unsigned long long)
CUDA_CPU_SHUFFLES(float)
CUDA_CPU_SHUFFLES(double)
#undef CUDA_CPU_SHUFFLES
#endif

// --- Memory.

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] static inline void __trap() { __builtin_trap(); }

#define CUDA_CPU_CACHED(load) \
    template <typename T> static inline T load(const T* p) { return *p; }
CUDA_CPU_CACHED(__ldg)
CUDA_CPU_CACHED(__ldca)
CUDA_CPU_CACHED(__ldcg)
CUDA_CPU_CACHED(__ldcs)
CUDA_CPU_CACHED(__ldcv)
CUDA_CPU_CACHED(__ldlu)
#undef CUDA_CPU_CACHED
#define CUDA_CPU_CACHED(store) \
    template <typename T> static inline void store(T* p, T value) { *p = value; }
CUDA_CPU_CACHED(__stwb)
CUDA_CPU_CACHED(__stcg)
CUDA_CPU_CACHED(__stcs)
CUDA_CPU_CACHED(__stwt)
#undef CUDA_CPU_CACHED

#include "cuda_cpu_math.h"
#include "cuda_cpu_atomics.h"
