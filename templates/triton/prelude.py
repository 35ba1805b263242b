"""Helpers of the Triton kernels. A kernel's text gets only the blocks it uses: a block starts at a line
`# --- name[, name ...]` and may use other blocks by their names."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


# --- negate
@triton.jit
def negate(x):
    # Not -x, which is 0 - x in Triton 3.6 and loses the sign of zero.
    return x * -1.0


# --- sign
@triton.jit
def sign(x):
    """-1, 0 or 1; NaN of NaN."""
    return tl.where(x != x, x, (x > 0).to(x.dtype) - (x < 0).to(x.dtype))


# --- maximum
@triton.jit
def maximum(a, b):
    """The greater of two; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# --- minimum
@triton.jit
def minimum(a, b):
    """The lesser of two; NaN if either is NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


# --- is_nan
@triton.jit
def is_nan(x):
    return x != x


# --- is_inf
@triton.jit
def is_inf(x):
    return tl.abs(x) == float("inf")


# --- is_finite
@triton.jit
def is_finite(x):
    return tl.abs(x) < float("inf")


# --- saturate
@triton.jit
def saturate(x, dtype: tl.constexpr):
    """Float to integer: toward zero, clamped to the limits of dtype, NaN to 0."""
    signed: tl.constexpr = dtype.is_int_signed()
    past: tl.constexpr = 2 ** (dtype.primitive_bitwidth - 1) if signed else 2**dtype.primitive_bitwidth
    low: tl.constexpr = -past if signed else 0
    inside = tl.where((x > low * 1.0) & (x < past * 1.0), x, 0.0).to(dtype)
    return tl.where(x >= past * 1.0, past - 1, tl.where(x <= low * 1.0, low, inside))


# --- round_to_odd
@triton.jit
def round_to_odd(x):
    """f64 to f32; an inexact result is the neighbour with an odd last bit. Rounding that to a narrower type
    gives what rounding x itself gives."""
    near = x.to(tl.float32)
    back = near.to(tl.float64)
    bits = near.to(tl.int32, bitcast=True) - (tl.abs(back) > tl.abs(x)).to(tl.int32)
    return (bits | (back != x).to(tl.int32)).to(tl.float32, bitcast=True)


# --- decode_f8e4m3
@triton.jit
def decode_f8e4m3(code):
    """A byte with 4 exponent and 3 mantissa bits (no infinity) as f32."""
    word = code.to(tl.int32)
    value = (((word & 0x80) << 24) | ((word & 0x7F) << 20)).to(tl.float32, bitcast=True) * 2.0**120
    return tl.where((word & 0x7F) == 0x7F, float("nan"), value)


# --- encode_f8e4m3
@triton.jit
def encode_f8e4m3(x):
    """f32 rounded once, to nearest even, to a byte with 4 exponent and 3 mantissa bits; past 448 it is NaN."""
    word = x.to(tl.int32, bitcast=True)
    magnitude = tl.minimum(word & 0x7FFFFFFF, 0x7F800000)
    normal = ((magnitude + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20) - (120 << 3)
    # Below 2**-6 the sum with 2**14, whose last place is the subnormal step, rounds to that step.
    subnormal = (magnitude.to(tl.float32, bitcast=True) + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
    code = tl.minimum(tl.where(magnitude < 0x3C800000, subnormal, normal), 0x7F)
    return (code | ((word >> 24) & 0x80)).to(tl.uint8)


# --- decode_f8e5m2
@triton.jit
def decode_f8e5m2(code):
    """A byte with 5 exponent and 2 mantissa bits, the upper half of f16, as f32."""
    return (code.to(tl.uint16) << 8).to(tl.float16, bitcast=True).to(tl.float32)


# --- encode_f8e5m2
@triton.jit
def encode_f8e5m2(x):
    """f32 rounded once, to nearest even, to a byte with 5 exponent and 2 mantissa bits; past 57344 it is infinite."""
    word = x.to(tl.int32, bitcast=True)
    magnitude = tl.minimum(word & 0x7FFFFFFF, 0x7F800000)
    normal = ((magnitude + 0xFFFFF + ((magnitude >> 21) & 1)) >> 21) - (112 << 2)
    # Below 2**-14 the sum with 2**7, whose last place is the subnormal step, rounds to that step.
    subnormal = (magnitude.to(tl.float32, bitcast=True) + 128.0).to(tl.int32, bitcast=True) - 0x43000000
    code = tl.minimum(tl.where(magnitude < 0x38800000, subnormal, normal), 0x7C)
    code = tl.where(x != x, 0x7F, code)
    return (code | ((word >> 24) & 0x80)).to(tl.uint8)


# --- gather_index
@triton.jit
def gather_index(index, size):
    """The position that an index means in an axis of `size`: a negative one counts from the end; -1 when out of
    range."""
    position = index.to(tl.int64)
    if index.dtype.is_int_signed():
        position = tl.where(position < 0, position + size, position)
    return tl.where((position >= 0) & (position < size), position, -1)


# --- compare_mixed
@triton.jit
def compare_mixed(a, b):
    """-1, 0 or 1 as the i64 a is less than, equal to or greater than the u64 b; exact."""
    unsigned = a.to(tl.uint64)
    order = (unsigned > b).to(tl.int32) - (unsigned < b).to(tl.int32)
    return tl.where(a < 0, -1, order)


# --- floor_div
@triton.jit
def floor_div(a, b):
    """a / b toward minus infinity; by 0 it is 0, and MIN / -1 is MIN."""
    b = tl.cast(b, a.dtype)
    if a.dtype.is_int_signed():
        safe = tl.where((b == 0) | (b == -1), 1, b)
        quotient = a // safe
        quotient -= ((a - quotient * safe != 0) & ((a < 0) != (b < 0))).to(a.dtype)
        quotient = tl.where(b == -1, -a, quotient)
    else:
        quotient = a // tl.where(b == 0, 1, b)
    return tl.where(b == 0, 0, quotient)


# --- floor_mod
@triton.jit
def floor_mod(a, b):
    """a - b * floor_div(a, b): it has the sign of b; by 0 it is 0."""
    b = tl.cast(b, a.dtype)
    if a.dtype.is_int_signed():
        remainder = a % tl.where((b == 0) | (b == -1), 1, b)
        remainder = tl.where((remainder != 0) & ((remainder < 0) != (b < 0)), remainder + b, remainder)
    else:
        remainder = a % tl.where(b == 0, 1, b)
    return tl.where(b == 0, 0, remainder)


# --- divide
@triton.jit
def divide(a, b):
    """Rounded to nearest, as `/` is in f64 only."""
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


# --- floor_div_float
@triton.jit
def floor_div_float(a, b):
    """NumPy's a // b: from the exact remainder, so that it goes with floor_mod_float."""
    ratio = divide(a, b)
    remainder = libdevice.fmod(a, b)
    quotient = divide(a - remainder, b)
    quotient = tl.where((remainder != 0) & ((remainder < 0) != (b < 0)), quotient - 1.0, quotient)
    whole = tl.floor(quotient)
    whole = tl.where(quotient - whole > 0.5, whole + 1.0, whole)
    whole = tl.where(quotient == 0, libdevice.copysign(quotient, ratio), whole)
    return tl.where(b == 0, ratio, whole)


# --- floor_mod_float
@triton.jit
def floor_mod_float(a, b):
    """NumPy's a % b: exact, with the sign of b; by 0 it is NaN."""
    remainder = libdevice.fmod(a, b)
    signed = tl.where((remainder < 0) != (b < 0), remainder + b, remainder)
    return tl.where(remainder == 0, libdevice.copysign(remainder, b), signed)


# --- shift_left
@triton.jit
def shift_left(x, count):
    """A count that is negative or past the width shifts everything out."""
    return tl.where((count >= 0) & (count < x.dtype.primitive_bitwidth), x << count, 0)


# --- shift_right
@triton.jit
def shift_right(x, count):
    """Keeps the sign; a count that is negative or past the width shifts everything else out."""
    inside = (count >= 0) & (count < x.dtype.primitive_bitwidth)
    if x.dtype.is_int_signed():
        return tl.where(inside, x >> count, tl.where(x < 0, x | -1, 0))
    else:
        return tl.where(inside, x >> count, 0)


# --- int_pow
@triton.jit
def int_pow(base, exponent):
    """base to the power exponent, wrapping; to a negative power 0, but 1 or -1 for the bases 1 and -1."""
    exponent = tl.cast(exponent, base.dtype)
    base += exponent * 0  # of the shape of both, as the loop needs it
    result = base * 0 + 1
    square = base
    rest = exponent
    for _ in range(base.dtype.primitive_bitwidth):
        result = tl.where((rest & 1) != 0, result * square, result)
        square = square * square
        rest = rest >> 1
    if base.dtype.is_int_signed():
        odd = (exponent & 1) != 0
        inverse = tl.where(base == 1, base, tl.where(base == -1, tl.where(odd, base, -base), 0))
        result = tl.where(exponent < 0, inverse, result)
    return result


# --- sigmoid
@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x)).

    Within 8 ulp for |x| < 3, 72 in the tail, where less than 2**-119 may be 0.
    """
    return libdevice.fast_dividef(1.0, 1.0 + tl.exp2(x * -1.442695))


# --- silu
@triton.jit
def silu(x):
    """x * sigmoid(x).

    Within 8 ulp for |x| < 3, 72 in the tail, where less than 2**-119 may be 0.
    """
    return libdevice.fast_dividef(x, 1.0 + tl.exp2(x * -1.442695))


# --- gelu_tanh
@triton.jit
def gelu_tanh(x):
    """0.5 * x * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x**3), which is x / (1 + exp(-2 * u)).

    Within 14 ulp for |x| < 3, 160 in the tail, where less than 2**-119 may be 0.
    """
    e = tl.exp2(x * tl.fma(x * x, -0.10294324, -2.3022082))
    return libdevice.fast_dividef(x, 1.0 + e)


# --- gelu
@triton.jit
def gelu(x):
    """x * Phi(x), Phi the normal distribution function. Phi(-t) = exp(-t * t / 2) * p(t) / q(t) for t >= 0.

    Within 13 ulp for |x| < 3, 144 in the tail, where less than 2**-119 may be 0.
    """
    t = tl.minimum(tl.abs(x), 15.0)  # past that Phi(-t) is 0
    e = tl.exp2(t * (t * -0.7213475))
    p = tl.fma(t, 0.0041532055, 0.040880967)
    p = tl.fma(t, p, 0.18396868)
    p = tl.fma(t, p, 0.4392828)
    p = tl.fma(t, p, 0.5)
    q = tl.fma(t, 0.010410431, 0.10247951)
    q = tl.fma(t, q, 0.47140747)
    q = tl.fma(t, q, 1.2055464)
    q = tl.fma(t, q, 1.6764506)
    q = tl.fma(t, q, 1.0)
    tail = libdevice.fast_dividef(e * p, q)
    return x * tl.where(x < 0, tail, 1.0 - tail)


# --- softplus
@triton.jit
def softplus(x):
    """log(1 + exp(x)) = maximum(x, 0) + log1p(e) with e = exp(-|x|); log1p by a polynomial on 0..1.

    Within 8 ulp for |x| < 3, 72 in the tail.
    """
    e = tl.exp2(tl.abs(x) * -1.442695)
    p = tl.fma(e, -0.0032440003, 0.01985135)
    p = tl.fma(e, p, -0.056959324)
    p = tl.fma(e, p, 0.106036335)
    p = tl.fma(e, p, -0.1530558)
    p = tl.fma(e, p, 0.19675934)
    p = tl.fma(e, p, -0.24954133)
    p = tl.fma(e, p, 0.33329964)
    p = tl.fma(e, p, -0.49999902)
    return tl.maximum(x, 0.0) + tl.fma(e * e, p, e)


# --- mish
@triton.jit
def mish(x):
    """x * tanh(softplus(x)) = x * n / (n + 2) with n = e * (e + 2), e = exp(x).

    Within 10 ulp for |x| < 3, 72 in the tail, where less than 2**-119 may be 0.
    """
    e = tl.exp2(tl.minimum(x, 20.0) * 1.442695)  # past 20 the factor is 1
    n = e * (e + 2.0)
    return x * libdevice.fast_dividef(n, n + 2.0)


# --- sigmoid_f64
@triton.jit
def sigmoid_f64(x):
    """1 / (1 + exp(-x)), with full relative precision on both sides.

    Within 4 ulp.
    """
    e = libdevice.exp(-tl.abs(x))
    return tl.where(x < 0, e, 1.0) / (1.0 + e)


# --- silu_f64
@triton.jit
def silu_f64(x):
    """x * sigmoid(x).

    Within 5 ulp.
    """
    return x * sigmoid_f64(x)


# --- gelu_tanh_f64
@triton.jit
def gelu_tanh_f64(x):
    """0.5 * x * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x**3), which is x * sigmoid(2 * u).

    Within 16 ulp for |x| < 3, 2048 in the tail.
    """
    return x * sigmoid_f64(1.5957691216057308 * (x + 0.044715 * (x * x * x)))


# --- gelu_f64
@triton.jit
def gelu_f64(x):
    """x * Phi(x), Phi the normal distribution function.

    Within 16 ulp for |x| < 3, 2048 in the tail.
    """
    return 0.5 * x * libdevice.erfc(x / -1.4142135623730951)


# --- softplus_f64
@triton.jit
def softplus_f64(x):
    """log(1 + exp(x)).

    Within 4 ulp.
    """
    return tl.maximum(x, 0.0) + libdevice.log1p(libdevice.exp(-tl.abs(x)))


# --- mish_f64
@triton.jit
def mish_f64(x):
    """x * tanh(softplus(x)) = x * n / (n + 2) with n = e * (e + 2), e = exp(x).

    Within 6 ulp.
    """
    e = libdevice.exp(tl.minimum(x, 40.0))  # past 40 the factor is 1
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))
