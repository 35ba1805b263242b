// CUDA's atomics, on the types CUDA has them for. All return the old value. They are atomic between CPU threads too.
#pragma once

namespace cuda_cpu {

// Replaces *p by change(*p), for what has no instruction of its own.
template <typename T, typename Change>
static inline T atomic_update(T* p, Change change) {
    T old, next;
    __atomic_load(p, &old, __ATOMIC_SEQ_CST);
    do {
        next = change(old);
    } while (!__atomic_compare_exchange(p, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return old;
}

}  // namespace cuda_cpu

#define CUDA_CPU_ATOMIC(T, name, next)                               \
    static inline T name(T* p, T value) {                            \
        return cuda_cpu::atomic_update(p, [value](T old) -> T { return next; }); \
    }
#define CUDA_CPU_INTEGER_ATOMICS(T)                                  \
    CUDA_CPU_ATOMIC(T, atomicMin, value < old ? value : old)         \
    CUDA_CPU_ATOMIC(T, atomicMax, value > old ? value : old)         \
    CUDA_CPU_ATOMIC(T, atomicAnd, old & value)                       \
    CUDA_CPU_ATOMIC(T, atomicOr, old | value)                        \
    CUDA_CPU_ATOMIC(T, atomicXor, old ^ value)
#define CUDA_CPU_CAS(T)                                                                                          \
    static inline T atomicCAS(T* p, T compare, T value) {                                                        \
        __atomic_compare_exchange_n(p, &compare, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
        return compare;                                                                                          \
    }

CUDA_CPU_INTEGER_ATOMICS(int)
CUDA_CPU_INTEGER_ATOMICS(unsigned)
CUDA_CPU_INTEGER_ATOMICS(unsigned long long)
CUDA_CPU_ATOMIC(long long, atomicMin, value < old ? value : old)
CUDA_CPU_ATOMIC(long long, atomicMax, value > old ? value : old)

CUDA_CPU_ATOMIC(int, atomicAdd, int(unsigned(old) + unsigned(value)))
CUDA_CPU_ATOMIC(unsigned, atomicAdd, old + value)
CUDA_CPU_ATOMIC(unsigned long long, atomicAdd, old + value)
CUDA_CPU_ATOMIC(float, atomicAdd, old + value)
CUDA_CPU_ATOMIC(double, atomicAdd, old + value)
CUDA_CPU_ATOMIC(int, atomicSub, int(unsigned(old) - unsigned(value)))
CUDA_CPU_ATOMIC(unsigned, atomicSub, old - value)
CUDA_CPU_ATOMIC(unsigned, atomicInc, old >= value ? 0 : old + 1)
CUDA_CPU_ATOMIC(unsigned, atomicDec, old == 0 || old > value ? value : old - 1)

CUDA_CPU_ATOMIC(int, atomicExch, (void(old), value))
CUDA_CPU_ATOMIC(unsigned, atomicExch, (void(old), value))
CUDA_CPU_ATOMIC(unsigned long long, atomicExch, (void(old), value))
CUDA_CPU_ATOMIC(float, atomicExch, (void(old), value))

CUDA_CPU_CAS(int)
CUDA_CPU_CAS(unsigned)
CUDA_CPU_CAS(unsigned long long)
CUDA_CPU_CAS(unsigned short)

#undef CUDA_CPU_ATOMIC
#undef CUDA_CPU_INTEGER_ATOMICS
#undef CUDA_CPU_CAS
