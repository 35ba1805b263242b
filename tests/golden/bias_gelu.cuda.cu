// kernelpress 0.1.0 | group bias_gelu 9677f78b61c9 | template cuda/pointwise | VEC=8 threads=128 rows=2
// Reproduce: kernelpress emit group.toml --backend cuda
// bias_gelu(x: f16[M, N], b: f16[N]) -> y: f16[M, N]. h = x + b; y = gelu(h, approximate='tanh').

template <typename T>
__host__ __device__ __forceinline__ T ceil_div(T a, T b) {
    return a / b + T(a % b != 0);  // a + b - 1 could overflow
}

// The bits of x as a float with EXPONENT and MANTISSA bits, rounded once, to nearest even. Finite values past the code
// `largest` become the code after it.
template <int EXPONENT, int MANTISSA>
__device__ __forceinline__ unsigned int narrow_bits(float x, unsigned int largest) {
    constexpr unsigned int dropped = 23 - MANTISSA, bias = (1 << (EXPONENT - 1)) - 1;
    const unsigned int bits = __float_as_uint(x), magnitude = bits & 0x7fffffff;
    const unsigned int sign = bits >> 31 << (EXPONENT + MANTISSA);
    if (magnitude > 0x7f800000) return sign | ((1u << (EXPONENT + MANTISSA)) - 1);
    if (magnitude < (128 - bias) << 23) {
        // Subnormal: the sum with a float whose last place is the subnormal step is rounded to that step.
        constexpr unsigned int step = (128 - bias + dropped) << 23;
        return sign | (__float_as_uint(__uint_as_float(magnitude) + __uint_as_float(step)) - step);
    }
    const unsigned int rounded = magnitude + (1u << (dropped - 1)) - 1 + (magnitude >> dropped & 1);
    return sign | min((rounded >> dropped) - ((127 - bias) << MANTISSA), largest + 1);
}

// The float that EXPONENT and MANTISSA bits stand for. `past` is the first code that is infinity or NaN.
template <int EXPONENT, int MANTISSA>
__device__ __forceinline__ float widen_bits(unsigned int bits, unsigned int past) {
    constexpr unsigned int bias = (1 << (EXPONENT - 1)) - 1;
    const unsigned int sign = bits >> (EXPONENT + MANTISSA) << 31;
    const unsigned int magnitude = (bits & ((1u << (EXPONENT + MANTISSA)) - 1)) << (23 - MANTISSA);
    if (magnitude >= past << (23 - MANTISSA)) return __uint_as_float(sign | 0x7f800000 | magnitude);
    return __uint_as_float(sign | magnitude) * __uint_as_float((254 - bias) << 23);  // subnormals too
}

// IEEE half precision in memory; values are held as float.
struct f16 {
    unsigned short bits;
    f16() = default;
    f16(double) = delete;  // would round twice
    __device__ __forceinline__ explicit f16(float x) {
#ifdef __CUDA_ARCH__
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
        bits = narrow_bits<5, 10>(x, 0x7bff);
#endif
    }
    __device__ __forceinline__ operator float() const {
#ifdef __CUDA_ARCH__
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
#else
        return widen_bits<5, 10>(bits, 0x7c00);
#endif
    }
};
__device__ __forceinline__ void write_pair(f16* to, float a, float b) {
#if __CUDA_ARCH__ >= 800
    unsigned int both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    to[0].bits = both;
    to[1].bits = both >> 16;
#else
    to[0] = f16(a);
    to[1] = f16(b);
#endif
}

// VEC neighbours in memory, moved in accesses of up to 16 bytes.
template <typename T, int VEC>
struct alignas(sizeof(T) * VEC < 16 ? sizeof(T) * VEC : 16) Chunk {
    T items[VEC];
};

// Reads VEC neighbours, widened to the type of `out`, or the first `count` of them and 0 for the rest. With VEC > 1,
// p is aligned to a chunk.
template <typename T, typename V>
__device__ __forceinline__ void read_pair(const T* from, V& a, V& b) {
    a = from[0];
    b = from[1];
}
template <typename T, typename Index, typename V, int VEC>
__device__ __forceinline__ void load(const T* p, Index count, V (&out)[VEC]) {
    if constexpr (VEC > 1) {
        if (count >= VEC) {
            const Chunk<T, VEC> chunk = *reinterpret_cast<const Chunk<T, VEC>*>(p);
            for (int i = 0; i < VEC; i += 2) read_pair(chunk.items + i, out[i], out[i + 1]);
            return;
        }
    }
    for (int i = 0; i < VEC; ++i) out[i] = i < count ? V(p[i]) : V(0);
}

// Writes VEC neighbours, rounded once to the type of p, or the first `count` of them; with VEC > 1, p is aligned to a
// chunk.
template <typename T, typename V>
__device__ __forceinline__ void write_pair(T* to, V a, V b) {
    to[0] = T(a);
    to[1] = T(b);
}
template <typename T, typename Index, typename V, int VEC>
__device__ __forceinline__ void store(T* p, Index count, const V (&in)[VEC]) {
    if constexpr (VEC > 1) {
        if (count >= VEC) {
            Chunk<T, VEC> chunk;
            for (int i = 0; i < VEC; i += 2) write_pair(chunk.items + i, in[i], in[i + 1]);
            *reinterpret_cast<Chunk<T, VEC>*>(p) = chunk;
            return;
        }
    }
    for (int i = 0; i < VEC; ++i) {
        if (i < count) p[i] = T(in[i]);
    }
}

// 2 to the power x, within 2 ulp; what is below 2**-126 is 0.
__device__ __forceinline__ float fast_exp2(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// a / b for b >= 1, within 2 ulp; past 2**126 b counts as infinite.
__device__ __forceinline__ float fast_divide(float a, float b) {
#ifdef __CUDA_ARCH__
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(b));
    return a * reciprocal;
#else
    return a / b;
#endif
}

// 0.5 * x * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x**3), which is x / (1 + exp(-2 * u)).
// Within 14 ulp for |x| < 3, 160 in the tail, where less than 2**-119 may be 0.
__device__ __forceinline__ float gelu_tanh(float x) {
    const float e = fast_exp2(x * fmaf(x * x, -0.10294324f, -2.3022082f));
    return fast_divide(x, 1.0f + e);
}

template <typename Index, int VEC>
__global__ void __launch_bounds__(128) bias_gelu(
    const f16* __restrict__ x_ptr, const f16* __restrict__ b_ptr, f16* __restrict__ y_ptr, Index M, Index N
) {
    // One block owns a tile of blockDim.x vectors by 2 * blockDim.y rows.
    // One thread owns VEC neighbours in each of 2 rows, which lie blockDim.y apart.
    const Index tiles_in_row = ceil_div<Index>(N, blockDim.x * VEC);
    const Index n = (blockIdx.x % tiles_in_row * blockDim.x + threadIdx.x) * VEC;
    const Index first_row = blockIdx.x / tiles_in_row * blockDim.y * 2 + threadIdx.y;
    if (n >= N) return;
    float b[VEC];
    load(b_ptr + n, N - n, b);

#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const Index m = first_row + r * blockDim.y;
        if (m >= M) return;
        float x[VEC];
        load(x_ptr + m * N + n, N - n, x);
        float y[VEC];
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
            const float h = x[v] + b[v];  // f16[M, N]
            y[v] = gelu_tanh(h);          // gelu(h, approximate='tanh'): f16[M, N]
        }
        store(y_ptr + m * N + n, N - n, y);
    }
}
