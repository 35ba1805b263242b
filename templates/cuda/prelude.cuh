// Helpers of the CUDA C kernels. A kernel's text gets only the blocks it uses: a block starts at a line
// `// --- name[, name ...]` and may use other blocks by their names.
//
// Nothing here needs a header: NVRTC compiles it with no include path, a C++17 compiler once CUDA's own names are
// supplied. What one PTX instruction does has a portable twin beside it.

// --- infinity
constexpr float infinity = __builtin_bit_cast(float, 0x7f800000);

// --- quiet_nan
constexpr float quiet_nan = __builtin_bit_cast(float, 0x7fc00000);

// --- ceil_div
template <typename T>
__host__ __device__ __forceinline__ T ceil_div(T a, T b) {
    return a / b + T(a % b != 0);  // a + b - 1 could overflow
}

// --- narrow_bits
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

// --- widen_bits
// The float that EXPONENT and MANTISSA bits stand for. `past` is the first code that is infinity or NaN.
template <int EXPONENT, int MANTISSA>
__device__ __forceinline__ float widen_bits(unsigned int bits, unsigned int past) {
    constexpr unsigned int bias = (1 << (EXPONENT - 1)) - 1;
    const unsigned int sign = bits >> (EXPONENT + MANTISSA) << 31;
    const unsigned int magnitude = (bits & ((1u << (EXPONENT + MANTISSA)) - 1)) << (23 - MANTISSA);
    if (magnitude >= past << (23 - MANTISSA)) return __uint_as_float(sign | 0x7f800000 | magnitude);
    return __uint_as_float(sign | magnitude) * __uint_as_float((254 - bias) << 23);  // subnormals too
}

// --- f16
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

// --- bf16
// The upper half of a float in memory; values are held as float.
struct bf16 {
    unsigned short bits;
    bf16() = default;
    bf16(double) = delete;  // would round twice
    __device__ __forceinline__ explicit bf16(float x) {
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
        const unsigned int wide = __float_as_uint(x);
        bits = x != x ? 0x7fff : (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
#endif
    }
    __device__ __forceinline__ operator float() const {
#ifdef __CUDA_ARCH__
        float x;  // one PRMT, where a shift of the upper of two takes two instructions
        asm("mov.b32 %0, {%1, %2};" : "=f"(x) : "h"((unsigned short)0), "h"(bits));
        return x;
#else
        return __uint_as_float((unsigned int)bits << 16);
#endif
    }
};
__device__ __forceinline__ void write_pair(bf16* to, float a, float b) {
#if __CUDA_ARCH__ >= 800
    unsigned int both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    to[0].bits = both;
    to[1].bits = both >> 16;
#else
    to[0] = bf16(a);
    to[1] = bf16(b);
#endif
}

// --- f8e4m3
// 4 exponent and 3 mantissa bits, no infinity: what rounds past 448 is NaN. Values are held as float.
struct f8e4m3 {
    unsigned char bits;
    f8e4m3() = default;
    f8e4m3(double) = delete;  // would round twice
    __device__ __forceinline__ explicit f8e4m3(float x);
    __device__ __forceinline__ operator float() const;
};
__device__ __forceinline__ void write_pair(f8e4m3* to, float a, float b) {
#if __CUDA_ARCH__ >= 890
    unsigned short both;  // saturated, and 0x7f for NaN
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(b), "f"(a));
    if (fabsf(a) > 464.0f) both |= 0x7f;
    if (fabsf(b) > 464.0f) both |= 0x7f00;
    memcpy(to, &both, 2);
#else
    to[0].bits = narrow_bits<4, 3>(a, 0x7e);
    to[1].bits = narrow_bits<4, 3>(b, 0x7e);
#endif
}
__device__ __forceinline__ void read_pair(const f8e4m3* from, float& a, float& b) {
#if __CUDA_ARCH__ >= 890
    unsigned short both;
    memcpy(&both, from, 2);
    asm("{\n.reg .b32 h;\n.reg .b16 h0, h1;\n"
        "cvt.rn.f16x2.e4m3x2 h, %2;\nmov.b32 {h0, h1}, h;\ncvt.f32.f16 %0, h0;\ncvt.f32.f16 %1, h1;\n}"
        : "=f"(a), "=f"(b) : "h"(both));
#else
    a = widen_bits<4, 3>(from[0].bits, 0x7f);
    b = widen_bits<4, 3>(from[1].bits, 0x7f);
#endif
}
__device__ __forceinline__ f8e4m3::f8e4m3(float x) {
    f8e4m3 pair[2];
    write_pair(pair, x, x);
    bits = pair[0].bits;
}
__device__ __forceinline__ f8e4m3::operator float() const {
    const f8e4m3 pair[2] = {*this, *this};
    float a, b;
    read_pair(pair, a, b);
    return a;
}

// --- f8e5m2
// The upper half of f16 in memory: 5 exponent and 2 mantissa bits, with infinity. Values are held as float.
struct f8e5m2 {
    unsigned char bits;
    f8e5m2() = default;
    f8e5m2(double) = delete;  // would round twice
    __device__ __forceinline__ explicit f8e5m2(float x);
    __device__ __forceinline__ operator float() const;
};
__device__ __forceinline__ void write_pair(f8e5m2* to, float a, float b) {
#if __CUDA_ARCH__ >= 890
    unsigned short both;  // saturated, and 0x7f for NaN
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(b), "f"(a));
    if (fabsf(a) >= 61440.0f) both = (both & 0xff80) | 0x7c;
    if (fabsf(b) >= 61440.0f) both = (both & 0x80ff) | 0x7c00;
    memcpy(to, &both, 2);
#else
    to[0].bits = narrow_bits<5, 2>(a, 0x7b);
    to[1].bits = narrow_bits<5, 2>(b, 0x7b);
#endif
}
__device__ __forceinline__ void read_pair(const f8e5m2* from, float& a, float& b) {
#if __CUDA_ARCH__ >= 890
    unsigned short both;
    memcpy(&both, from, 2);
    asm("{\n.reg .b32 h;\n.reg .b16 h0, h1;\n"
        "cvt.rn.f16x2.e5m2x2 h, %2;\nmov.b32 {h0, h1}, h;\ncvt.f32.f16 %0, h0;\ncvt.f32.f16 %1, h1;\n}"
        : "=f"(a), "=f"(b) : "h"(both));
#else
    a = widen_bits<5, 2>(from[0].bits, 0x7c);
    b = widen_bits<5, 2>(from[1].bits, 0x7c);
#endif
}
__device__ __forceinline__ f8e5m2::f8e5m2(float x) {
    f8e5m2 pair[2];
    write_pair(pair, x, x);
    bits = pair[0].bits;
}
__device__ __forceinline__ f8e5m2::operator float() const {
    const f8e5m2 pair[2] = {*this, *this};
    float a, b;
    read_pair(pair, a, b);
    return a;
}

// --- round_to_odd
// x as float; an inexact result is the neighbour with an odd last bit. Rounding that to a narrower type gives what
// rounding x itself gives.
__device__ __forceinline__ float round_to_odd(double x) {
    const float near = (float)x;
    const double back = near;
    return __uint_as_float((__float_as_uint(near) - (fabs(back) > fabs(x))) | (back != x));
}

// --- Chunk
// VEC neighbours in memory, moved in accesses of up to 16 bytes.
template <typename T, int VEC>
struct alignas(sizeof(T) * VEC < 16 ? sizeof(T) * VEC : 16) Chunk {
    T items[VEC];
};

// --- load
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

// --- store
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

// --- load_strided
// Reads VEC elements `stride` apart, widened to the type of `out`, or the first `count` of them and 0 for the rest.
template <typename T, typename Index, typename V, int VEC>
__device__ __forceinline__ void load_strided(const T* p, Index stride, Index count, V (&out)[VEC]) {
    for (int i = 0; i < VEC; ++i) out[i] = i < count ? V(p[i * stride]) : V(0);
}

// --- store_strided
// Writes VEC elements `stride` apart, rounded once to the type of p, or the first `count` of them.
template <typename T, typename Index, typename V, int VEC>
__device__ __forceinline__ void store_strided(T* p, Index stride, Index count, const V (&in)[VEC]) {
    for (int i = 0; i < VEC; ++i) {
        if (i < count) p[i * stride] = T(in[i]);
    }
}

// --- saturate
// Float to integer: toward zero, clamped to the limits of To, NaN to 0.
template <typename To, typename From>
__device__ __forceinline__ To saturate(From x) {
    constexpr int digits = sizeof(To) * 8 - (To(-1) < To(0));
    constexpr To low = To(-1) < To(0) ? To(1ull << digits) : To(0), high = To(~low);
    constexpr From past = From(1ull << (digits - 1)) * 2;  // high + 1, which high itself may not be
    return x >= past ? high : x > From(low) ? To(x) : x <= From(low) ? low : To(0);
}

// --- wrapping_add
template <typename T>
__device__ __forceinline__ T wrapping_add(T a, T b) {
    return T((unsigned long long)a + (unsigned long long)b);
}

// --- wrapping_sub
template <typename T>
__device__ __forceinline__ T wrapping_sub(T a, T b) {
    return T((unsigned long long)a - (unsigned long long)b);
}

// --- wrapping_mul
template <typename T>
__device__ __forceinline__ T wrapping_mul(T a, T b) {
    return T((unsigned long long)a * (unsigned long long)b);
}

// --- wrapping_neg
template <typename T>
__device__ __forceinline__ T wrapping_neg(T x) {
    return T(0 - (unsigned long long)x);
}

// --- absolute
// |x|; of the least value of its type that value.
template <typename T>
__device__ __forceinline__ T absolute(T x) {
    return x < 0 ? wrapping_neg(x) : x;
}

// --- sign
// -1, 0 or 1; NaN of NaN.
template <typename T>
__device__ __forceinline__ T sign(T x) {
    return x != x ? x : T((x > T(0)) - (x < T(0)));
}

// --- maximum
// The greater of two; NaN if either is NaN.
template <typename T>
__device__ __forceinline__ T maximum(T a, T b) {
    return a > b || a != a ? a : b;
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float maximum(float a, float b) {
    float x;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
}
#endif

// --- minimum
// The lesser of two; NaN if either is NaN.
template <typename T>
__device__ __forceinline__ T minimum(T a, T b) {
    return a < b || a != a ? a : b;
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float minimum(float a, float b) {
    float x;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
}
#endif

// --- is_nan
template <typename T>
__device__ __forceinline__ bool is_nan(T x) {
    return x != x;
}

// --- is_inf
template <typename T>
__device__ __forceinline__ bool is_inf(T x) {
    return x == infinity || x == -infinity;
}

// --- is_finite
template <typename T>
__device__ __forceinline__ bool is_finite(T x) {
    return x > -infinity && x < infinity;
}

// --- compare_mixed
// -1, 0 or 1 as a is less than, equal to or greater than b; exact, where C++ would convert a to unsigned.
__device__ __forceinline__ int compare_mixed(long long a, unsigned long long b) {
    if (a < 0) return -1;
    return ((unsigned long long)a > b) - ((unsigned long long)a < b);
}

// --- floor_div
// a / b toward minus infinity; by 0 it is 0, and MIN / -1 is MIN.
template <typename T>
__device__ __forceinline__ T floor_div(T a, T b) {
    if (b == 0) return 0;
    if (T(-1) < T(0) && b == T(-1)) return wrapping_neg(a);
    return a / b - (a % b != 0 && (a < T(0)) != (b < T(0)));
}

// --- floor_mod
// a - b * floor_div(a, b): it has the sign of b; by 0 it is 0.
template <typename T>
__device__ __forceinline__ T floor_mod(T a, T b) {
    if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
    const T remainder = a % b;
    return remainder != 0 && (remainder < T(0)) != (b < T(0)) ? remainder + b : remainder;
}

// --- floor_div_float
// NumPy's a // b: from the exact remainder, so that it goes with floor_mod_float.
template <typename T>
__device__ __forceinline__ T floor_div_float(T a, T b) {
    if (b == 0) return a / b;
    const T remainder = fmod(a, b);
    T quotient = (a - remainder) / b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return copysign(T(0), a / b);
    const T whole = floor(quotient);
    return quotient - whole > T(0.5) ? whole + 1 : whole;
}

// --- floor_mod_float
// NumPy's a % b: exact, with the sign of b; by 0 it is NaN.
template <typename T>
__device__ __forceinline__ T floor_mod_float(T a, T b) {
    const T remainder = fmod(a, b);
    if (remainder == 0) return copysign(T(0), b);
    return remainder == remainder && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// --- shift_left
// A count that is negative or past the width shifts everything out.
template <typename T>
__device__ __forceinline__ T shift_left(T x, T count) {
    return (unsigned long long)count < sizeof(T) * 8 ? T((unsigned long long)x << count) : T(0);
}

// --- shift_right
// Keeps the sign; a count that is negative or past the width shifts everything else out.
template <typename T>
__device__ __forceinline__ T shift_right(T x, T count) {
    return (unsigned long long)count < sizeof(T) * 8 ? T(x >> count) : x < T(0) ? T(-1) : T(0);
}

// --- int_pow
// base to the power exponent, wrapping; to a negative power 0, but 1 or -1 for the bases 1 and -1.
template <typename T>
__device__ __forceinline__ T int_pow(T base, T exponent) {
    if (exponent < T(0)) {
        const bool unit = base == T(1) || base == T(-1);
        return unit ? exponent % 2 ? base : T(1) : T(0);
    }
    T result = 1;
    for (T square = base; exponent != 0; exponent >>= 1, square = wrapping_mul(square, square)) {
        if (exponent & 1) result = wrapping_mul(result, square);
    }
    return result;
}

// --- fast_exp2
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

// --- fast_divide
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

// --- sigmoid
// 1 / (1 + exp(-x)).
// Within 8 ulp for |x| < 3, 72 in the tail, where less than 2**-119 may be 0.
__device__ __forceinline__ float sigmoid(float x) {
    return fast_divide(1.0f, 1.0f + fast_exp2(x * -1.442695f));
}

// --- silu
// x * sigmoid(x).
// Within 8 ulp for |x| < 3, 72 in the tail, where less than 2**-119 may be 0.
__device__ __forceinline__ float silu(float x) {
    return fast_divide(x, 1.0f + fast_exp2(x * -1.442695f));
}

// --- gelu_tanh
// 0.5 * x * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x**3), which is x / (1 + exp(-2 * u)).
// Within 14 ulp for |x| < 3, 160 in the tail, where less than 2**-119 may be 0.
__device__ __forceinline__ float gelu_tanh(float x) {
    const float e = fast_exp2(x * fmaf(x * x, -0.10294324f, -2.3022082f));
    return fast_divide(x, 1.0f + e);
}

// --- gelu
// x * Phi(x), Phi the normal distribution function. Phi(-t) = exp(-t * t / 2) * p(t) / q(t) for t >= 0.
// Within 13 ulp for |x| < 3, 144 in the tail, where less than 2**-119 may be 0.
__device__ __forceinline__ float gelu(float x) {
    const float t = fminf(fabsf(x), 15.0f);  // past that Phi(-t) is 0
    const float e = fast_exp2(t * (t * -0.72134752f));
    float p = fmaf(t, 0.0041532055f, 0.040880967f);
    p = fmaf(t, p, 0.18396868f);
    p = fmaf(t, p, 0.4392828f);
    p = fmaf(t, p, 0.5f);
    float q = fmaf(t, 0.010410431f, 0.10247951f);
    q = fmaf(t, q, 0.47140747f);
    q = fmaf(t, q, 1.2055464f);
    q = fmaf(t, q, 1.6764506f);
    q = fmaf(t, q, 1.0f);
    const float tail = fast_divide(e * p, q);
    return x * (x < 0.0f ? tail : 1.0f - tail);
}

// --- softplus
// log(1 + exp(x)) = maximum(x, 0) + log1p(e) with e = exp(-|x|); log1p by a polynomial on 0..1.
// Within 8 ulp for |x| < 3, 72 in the tail.
__device__ __forceinline__ float softplus(float x) {
    const float e = exp2f(fabsf(x) * -1.442695f);
    float p = fmaf(e, -0.0032440003f, 0.01985135f);
    p = fmaf(e, p, -0.056959324f);
    p = fmaf(e, p, 0.106036335f);
    p = fmaf(e, p, -0.1530558f);
    p = fmaf(e, p, 0.19675934f);
    p = fmaf(e, p, -0.24954133f);
    p = fmaf(e, p, 0.33329964f);
    p = fmaf(e, p, -0.49999902f);
    return fmaxf(x, 0.0f) + fmaf(e * e, p, e);
}

// --- mish
// x * tanh(softplus(x)) = x * n / (n + 2) with n = e * (e + 2), e = exp(x).
// Within 10 ulp for |x| < 3, 72 in the tail, where less than 2**-119 may be 0.
__device__ __forceinline__ float mish(float x) {
    const float e = fast_exp2(fminf(x, 20.0f) * 1.442695f);  // past 20 the factor is 1
    const float n = e * (e + 2.0f);
    return x * fast_divide(n, n + 2.0f);
}

// --- sigmoid_f64
// 1 / (1 + exp(-x)), with full relative precision on both sides.
// Within 4 ulp.
__device__ __forceinline__ double sigmoid_f64(double x) {
    const double e = exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// --- silu_f64
// x * sigmoid(x).
// Within 5 ulp.
__device__ __forceinline__ double silu_f64(double x) {
    return x * sigmoid_f64(x);
}

// --- gelu_tanh_f64
// 0.5 * x * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x**3), which is x * sigmoid(2 * u).
// Within 16 ulp for |x| < 3, 2048 in the tail.
__device__ __forceinline__ double gelu_tanh_f64(double x) {
    return x * sigmoid_f64(1.5957691216057308 * (x + 0.044715 * (x * x * x)));
}

// --- gelu_f64
// x * Phi(x), Phi the normal distribution function.
// Within 16 ulp for |x| < 3, 2048 in the tail.
__device__ __forceinline__ double gelu_f64(double x) {
    return 0.5 * x * erfc(-x / 1.4142135623730951);
}

// --- softplus_f64
// log(1 + exp(x)).
// Within 4 ulp.
__device__ __forceinline__ double softplus_f64(double x) {
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

// --- mish_f64
// x * tanh(softplus(x)) = x * n / (n + 2) with n = e * (e + 2), e = exp(x).
// Within 6 ulp.
__device__ __forceinline__ double mish_f64(double x) {
    const double e = exp(fmin(x, 40.0));  // past 40 the factor is 1
    const double n = e * (e + 2.0);
    return x * (n / (n + 2.0));
}

// --- gather_index
// The position that an index means in an axis of `size`: a negative one counts from the end; -1 when out of range.
template <typename Index, typename T>
__device__ __forceinline__ Index gather_index(T index, Index size) {
    const bool negative = index < T(0);
    if (!negative && static_cast<unsigned long long>(index) >= static_cast<unsigned long long>(size)) return -1;
    const long long position = negative ? static_cast<long long>(index) + size : static_cast<long long>(index);
    return position < 0 ? -1 : static_cast<Index>(position);
}

// --- stage_transposed
// Copies a tile that runs along m in memory into shared memory row by row: tile[m][n] = p[m + n * stride]. With VEC > 1
// p is aligned to a chunk, and so is every n * stride.
template <int VEC, int TILE, int PITCH, typename T, typename Index>
__device__ __forceinline__ void stage_transposed(const T* p, Index stride, Index rows, Index columns,
                                                 T (&tile)[TILE][PITCH]) {
    const int threads = blockDim.x * blockDim.y;
#pragma unroll 4
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < TILE * TILE / VEC; i += threads) {
        const int m = i % (TILE / VEC) * VEC, n = i / (TILE / VEC);
        if (n >= columns) break;
        if (VEC > 1 && m + VEC <= rows) {
            const Chunk<T, VEC> chunk = *reinterpret_cast<const Chunk<T, VEC>*>(p + m + n * stride);
            for (int k = 0; k < VEC; ++k) tile[m + k][n] = chunk.items[k];
        } else {
            for (int k = 0; k < VEC && m + k < rows; ++k) tile[m + k][n] = p[m + k + n * stride];
        }
    }
}

// --- load_neighbours
// VEC neighbours of shared memory, widened to the type of `out`.
template <typename T, typename V, int VEC>
__device__ __forceinline__ void load_neighbours(const T* p, V (&out)[VEC]) {
    for (int v = 0; v < VEC; ++v) out[v] = V(p[v]);
}
