// CUDA's arithmetic on the CPU: the C library's functions with CUDA's overloads, its intrinsics, bits and conversions.
// Approximate device functions (__expf, __fdividef, ...) are computed exactly rounded or as the C library does.
#pragma once

namespace cuda_cpu {

template <typename To, typename From>
static inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "a reinterpretation keeps the size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

// A rounded float as an integer, as PTX's cvt does it: it saturates; NaN gives 0, or only the top bit set where f64 or a
// 64-bit integer takes part.
template <typename To, typename From>
static inline To saturate(From value) {
    constexpr bool is_signed = To(-1) < To(0);
    constexpr int bits = sizeof(To) * 8;
    constexpr To top = To(1ull << (bits - 1));
    constexpr To low = is_signed ? top : To(0);
    constexpr To high = To(~low);
    if (value != value) return sizeof(To) == 8 || sizeof(From) == 8 ? top : To(0);
    if (value <= From(low)) return low;
    const From past = From(1ull << (bits - 1)) * (is_signed ? 1 : 2);
    return value >= past ? high : To(value);
}

}  // namespace cuda_cpu

// --- The C library's functions: double by the plain name, float with an f, and the plain name overloaded.

#define CUDA_CPU_UNARY(name)                                  \
    extern "C" double name(double) noexcept;                  \
    extern "C" float name##f(float) noexcept;                 \
    static inline float name(float x) { return name##f(x); }
#define CUDA_CPU_BINARY(name)                                 \
    extern "C" double name(double, double) noexcept;          \
    extern "C" float name##f(float, float) noexcept;          \
    static inline float name(float x, float y) { return name##f(x, y); }

CUDA_CPU_UNARY(sqrt) CUDA_CPU_UNARY(cbrt)
CUDA_CPU_UNARY(exp) CUDA_CPU_UNARY(exp2) CUDA_CPU_UNARY(expm1)
CUDA_CPU_UNARY(log) CUDA_CPU_UNARY(log2) CUDA_CPU_UNARY(log10) CUDA_CPU_UNARY(log1p) CUDA_CPU_UNARY(logb)
CUDA_CPU_UNARY(sin) CUDA_CPU_UNARY(cos) CUDA_CPU_UNARY(tan)
CUDA_CPU_UNARY(asin) CUDA_CPU_UNARY(acos) CUDA_CPU_UNARY(atan)
CUDA_CPU_UNARY(sinh) CUDA_CPU_UNARY(cosh) CUDA_CPU_UNARY(tanh)
CUDA_CPU_UNARY(asinh) CUDA_CPU_UNARY(acosh) CUDA_CPU_UNARY(atanh)
CUDA_CPU_UNARY(erf) CUDA_CPU_UNARY(erfc) CUDA_CPU_UNARY(tgamma) CUDA_CPU_UNARY(lgamma)
CUDA_CPU_UNARY(fabs) CUDA_CPU_UNARY(floor) CUDA_CPU_UNARY(ceil) CUDA_CPU_UNARY(trunc)
CUDA_CPU_UNARY(round) CUDA_CPU_UNARY(rint) CUDA_CPU_UNARY(nearbyint)
CUDA_CPU_BINARY(pow) CUDA_CPU_BINARY(atan2) CUDA_CPU_BINARY(hypot) CUDA_CPU_BINARY(fmod) CUDA_CPU_BINARY(remainder)
CUDA_CPU_BINARY(fmin) CUDA_CPU_BINARY(fmax) CUDA_CPU_BINARY(fdim) CUDA_CPU_BINARY(copysign) CUDA_CPU_BINARY(nextafter)
#undef CUDA_CPU_UNARY
#undef CUDA_CPU_BINARY

extern "C" {
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double scalbn(double, int) noexcept;
float scalbnf(float, int) noexcept;
double frexp(double, int*) noexcept;
float frexpf(float, int*) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
int ilogb(double) noexcept;
int ilogbf(float) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
}
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
static inline float ldexp(float x, int e) { return ldexpf(x, e); }
static inline float scalbn(float x, int e) { return scalbnf(x, e); }
static inline float frexp(float x, int* e) { return frexpf(x, e); }
static inline float modf(float x, float* whole) { return modff(x, whole); }
static inline int ilogb(float x) { return ilogbf(x); }
static inline float pow(float x, int y) { return powf(x, float(y)); }
static inline double pow(double x, int y) { return pow(x, double(y)); }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }
static inline long abs(long x) { return labs(x); }
static inline long long abs(long long x) { return llabs(x); }

static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline double rcbrt(double x) { return 1.0 / cbrt(x); }
static inline float rcbrtf(float x) { return float(1.0 / cbrt(double(x))); }
static inline double exp10(double x) { return pow(10.0, x); }
static inline float exp10f(float x) { return float(pow(10.0, double(x))); }
static inline double normcdf(double x) { return 0.5 * erfc(x * -0.70710678118654752440); }
static inline float normcdff(float x) { return float(normcdf(double(x))); }
static inline void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
static inline void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }

#define CUDA_CPU_TEST(name, builtin)                                   \
    static inline bool name(float x) { return builtin(x) != 0; }       \
    static inline bool name(double x) { return builtin(x) != 0; }
CUDA_CPU_TEST(isnan, __builtin_isnan)
CUDA_CPU_TEST(isinf, __builtin_isinf)
CUDA_CPU_TEST(isfinite, __builtin_isfinite)
CUDA_CPU_TEST(signbit, __builtin_signbit)
#undef CUDA_CPU_TEST

// --- min and max: a signed beside an unsigned integer of its width compares as unsigned; of a float and NaN, the float.

#define CUDA_CPU_MINMAX(R, A, B)                                                            \
    static inline R min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; }                       \
    static inline R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }
#define CUDA_CPU_MINMAX_INTEGER(S, U)                                                       \
    CUDA_CPU_MINMAX(S, S, S) CUDA_CPU_MINMAX(U, U, U) CUDA_CPU_MINMAX(U, S, U) CUDA_CPU_MINMAX(U, U, S)
CUDA_CPU_MINMAX_INTEGER(int, unsigned)
CUDA_CPU_MINMAX_INTEGER(long, unsigned long)
CUDA_CPU_MINMAX_INTEGER(long long, unsigned long long)
#undef CUDA_CPU_MINMAX
#undef CUDA_CPU_MINMAX_INTEGER
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(float a, double b) { return fmin(double(a), b); }
static inline double max(float a, double b) { return fmax(double(a), b); }
static inline double min(double a, float b) { return fmin(a, double(b)); }
static inline double max(double a, float b) { return fmax(a, double(b)); }

// --- Arithmetic with its rounding named, and the fast forms.

#define CUDA_CPU_ROUNDED(T, prefix, f_prefix, root, fused)                                  \
    static inline T prefix##add_rn(T x, T y) { return x + y; }                              \
    static inline T prefix##sub_rn(T x, T y) { return x - y; }                              \
    static inline T prefix##mul_rn(T x, T y) { return x * y; }                              \
    static inline T prefix##div_rn(T x, T y) { return x / y; }                              \
    static inline T prefix##rcp_rn(T x) { return T(1) / x; }                                \
    static inline T prefix##sqrt_rn(T x) { return root(x); }                                \
    static inline T f_prefix##_rn(T x, T y, T z) { return fused(x, y, z); }
CUDA_CPU_ROUNDED(float, __f, __fmaf, sqrtf, fmaf)
CUDA_CPU_ROUNDED(double, __d, __fma, sqrt, fma)
#undef CUDA_CPU_ROUNDED
static inline float __frsqrt_rn(float x) { return rsqrtf(x); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __expf(float x) { return expf(x); }
static inline float __exp10f(float x) { return exp10f(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __log10f(float x) { return log10f(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __tanf(float x) { return tanf(x); }
static inline void __sincosf(float x, float* s, float* c) { sincosf(x, s, c); }
static inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }

// --- Reinterpretation.

static inline unsigned __float_as_uint(float x) { return cuda_cpu::bits_as<unsigned>(x); }
static inline int __float_as_int(float x) { return cuda_cpu::bits_as<int>(x); }
static inline float __uint_as_float(unsigned x) { return cuda_cpu::bits_as<float>(x); }
static inline float __int_as_float(int x) { return cuda_cpu::bits_as<float>(x); }
static inline long long __double_as_longlong(double x) { return cuda_cpu::bits_as<long long>(x); }
static inline double __longlong_as_double(long long x) { return cuda_cpu::bits_as<double>(x); }
static inline int __double2hiint(double x) { return int(cuda_cpu::bits_as<unsigned long long>(x) >> 32); }
static inline int __double2loint(double x) { return int(cuda_cpu::bits_as<unsigned long long>(x)); }
static inline double __hiloint2double(int high, int low) {
    return cuda_cpu::bits_as<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

// --- Conversions. Between floats and to floats the CPU rounds to nearest as _rn does.

#define CUDA_CPU_TO_INTEGER(from, From, to, To, f)                                                      \
    static inline To __##from##2##to##_rn(From x) { return cuda_cpu::saturate<To>(rint##f(x)); }        \
    static inline To __##from##2##to##_rz(From x) { return cuda_cpu::saturate<To>(trunc##f(x)); }       \
    static inline To __##from##2##to##_rd(From x) { return cuda_cpu::saturate<To>(floor##f(x)); }       \
    static inline To __##from##2##to##_ru(From x) { return cuda_cpu::saturate<To>(ceil##f(x)); }
#define CUDA_CPU_CONVERSIONS(name, T)                                   \
    CUDA_CPU_TO_INTEGER(float, float, name, T, f)                       \
    CUDA_CPU_TO_INTEGER(double, double, name, T, )                      \
    static inline float __##name##2float_rn(T x) { return float(x); }
CUDA_CPU_CONVERSIONS(int, int)
CUDA_CPU_CONVERSIONS(uint, unsigned)
CUDA_CPU_CONVERSIONS(ll, long long)
CUDA_CPU_CONVERSIONS(ull, unsigned long long)
#undef CUDA_CPU_TO_INTEGER
#undef CUDA_CPU_CONVERSIONS
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }
static inline double __ll2double_rn(long long x) { return double(x); }
static inline double __ull2double_rn(unsigned long long x) { return double(x); }
static inline float __double2float_rn(double x) { return float(x); }

// --- Bits and integer products.

static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = selector >> 4 * i, byte = unsigned(bytes >> 8 * (pick & 7)) & 0xffu;
        result |= (pick & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
    }
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return unsigned(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return unsigned(((unsigned long long)high << 32 | low) >> (by & 31));
}
static inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
static inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
static inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline int __dp4a(int x, int y, int sum) {
    for (int i = 0; i < 32; i += 8) sum += (signed char)(x >> i) * (signed char)(y >> i);
    return sum;
}
static inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 32; i += 8) sum += (unsigned char)(x >> i) * (unsigned char)(y >> i);
    return sum;
}
