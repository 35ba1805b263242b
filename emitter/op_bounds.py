"""One op of bounded operands: the value, and how far a kernel's result may be from it.

A kernel rounds each op in its compute type (f32, or f64); values here are exact, in float64. Where all operands are
known and the op is IEEE, the kernel's own bits are known and the bound is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .dtypes import F32, F64, DType
from .group import Attributes
from .numerics import Array
from .ops import Number, OpDef, Signature
from .ops.evaluate import cast, convert, evaluate_op, literal, load

# Results that are one of the operands, or exact by nature: nothing is rounded.
PICKS_A_ZERO = {"maximum", "minimum", "clip", "relu"}
_NOT_ROUNDED = {"neg", "abs", "sign", "floor", "ceil", "round", "trunc"} | PICKS_A_ZERO
_PERIODIC = {"sin", "cos", "tan"}


@dataclass(frozen=True, eq=False)
class Bounded:
    """Values and a bound on a kernel's distance from them, of one shape.

    value: float64 for floats, else the node's own type. err: float64; 0 is exactly known (NaN and inf
    included), inf is unknown. A bool with an err may be either; an integer with one is unknown to later ops.
    same_bits: of an output, that it must be this very value, also in the sign of a zero.
    """

    value: Array
    err: Array
    same_bits: bool = False


def known(array: Array, dtype: DType) -> Bounded:
    """An input array in its storage type."""
    value = load(array, dtype, "exact")
    return Bounded(value, np.zeros(value.shape))


def constant(value: Number, dtype: DType) -> Bounded:
    """A Python constant as an operand of `dtype`."""
    return Bounded(literal(value, dtype, "exact"), np.zeros(()))


def converted(operand: Bounded, source: DType, target: DType) -> Bounded:
    """An operand of `source` as the operand type `target` of a signature."""
    if source is target:
        return operand
    value = convert(operand.value, source, target, "exact")
    if source.is_float and target.is_float:
        return Bounded(value, operand.err)
    if target.kind == "bool":
        open_ = operand.err > 0 if source.is_integer else (operand.err > 0) & ~(abs(operand.value) > operand.err)
        return Bounded(value, open_.astype(np.float64))
    return Bounded(value, np.where(operand.err > 0, np.inf, 0.0))


def bounded_op(opdef: OpDef, args: Sequence[Bounded], signature: Signature, attributes: Attributes = ()) -> Bounded:
    """One op of bounded operands, which are of the signature's operand types (`converted`, `constant`)."""
    with np.errstate(all="ignore"):
        if opdef.name == "where":
            return _where(*args)
        if opdef.name == "take":
            return _take(opdef, args, signature, attributes)
        if opdef.name == "cast":
            return _cast(args[0], signature)
        if signature.result.is_float:
            return _float_op(opdef, args, signature, attributes)
        return _discrete_op(opdef, args, signature, attributes)


def _float_op(opdef: OpDef, args: Sequence[Bounded], signature: Signature, attributes: Attributes) -> Bounded:
    value, outcomes = _outcomes(opdef, args, signature, attributes)
    spread = np.zeros(value.shape)
    for outcome in outcomes:
        spread = np.maximum(spread, _distance(outcome, value))
    spread = _beyond_corners(opdef.name, args, value, spread)
    compute = signature.result.compute.numpy
    last = np.nextafter(np.finfo(compute).max, compute.type(0))  # the greatest whose spacing is finite
    unit = np.spacing(np.minimum(abs(value) + spread, float(last)).astype(compute)).astype(np.float64)
    slack = 4.0 if compute == np.float64 else 2.0**-20
    err = spread * (1 + 2**-20) + unit * (_rounding(opdef, signature) + slack)
    if signature.result.compute is F32:
        err += opdef.floor
    if opdef.name in _NOT_ROUNDED:
        err = np.where(spread > 0, spread * (1 + 2**-20) + unit * slack, 0.0)
    err = np.where(np.isfinite(value), err, spread)
    err = np.where(np.isnan(err) & ~np.isnan(value), np.inf, err)
    value, err = _overflow(value, err, compute)

    certain = np.broadcast_to(_none_open(args, value.shape), value.shape)
    if opdef.ulp is None:
        typed = [a.value.astype(compute) if a.value.dtype.kind == "f" else a.value for a in args]
        exact = evaluate_op(opdef, typed, signature, attributes, "compute").astype(np.float64)
        value, err = np.where(certain, exact, value), np.where(certain, 0.0, err)
    if opdef.name in PICKS_A_ZERO:
        negative_zero = np.logical_or.reduce(
            [np.broadcast_to((a.value == 0) & np.signbit(a.value), value.shape) for a in args]
        )
        err = np.maximum(err, np.where((value == 0) & negative_zero, np.finfo(compute).smallest_subnormal, 0.0))
    return Bounded(value, np.where(_unknown(args, value.shape), np.inf, err))


def _discrete_op(opdef: OpDef, args: Sequence[Bounded], signature: Signature, attributes: Attributes) -> Bounded:
    value, outcomes = _outcomes(opdef, args, signature, attributes)
    open_ = np.broadcast_to(_unknown(args, value.shape), value.shape)
    for outcome in outcomes:
        open_ = open_ | (outcome != value)
    if opdef.name in ("eq", "ne") and signature.operands[0].is_float:
        x, y = args
        reach = x.err + y.err
        open_ = open_ | ((reach > 0) & (abs(x.value - y.value) <= reach * (1 + 2**-20)))
    return Bounded(value, np.where(open_, 1.0 if signature.result.kind == "bool" else np.inf, 0.0))


def _cast(x: Bounded, signature: Signature) -> Bounded:
    source, target = signature.operands[0], signature.result
    if target.kind == "bool":
        return converted(x, source, target)
    value = cast(x.value, source, target, "exact")
    if not source.is_float:
        return Bounded(value, np.where(x.err > 0, np.inf, 0.0))
    err = np.zeros(value.shape)
    for point in _points(x, 1):
        err = np.maximum(err, _distance(cast(point, source, target, "exact"), value))
    return Bounded(value, np.where(np.isinf(x.err), np.inf, err))


def _where(cond: Bounded, a: Bounded, b: Bounded) -> Bounded:
    value = np.where(cond.value, a.value, b.value)
    err = np.where(cond.value, a.err, b.err)
    either = _distance(a.value, b.value) + np.maximum(a.err, b.err)
    return Bounded(value, np.where(cond.err > 0, either, err))


def _take(opdef: OpDef, args: Sequence[Bounded], signature: Signature, attributes: Attributes) -> Bounded:
    x, indices = args
    err = np.broadcast_to(x.err, x.value.shape)
    axis = int(dict(attributes)["axis"]) % x.value.ndim
    value = evaluate_op(opdef, (x.value, indices.value), signature, attributes, "exact")
    err = evaluate_op(opdef, (err, indices.value), Signature(signature.operands, F64), attributes, "exact")
    open_ = indices.err > 0
    shape = (1,) * axis + open_.shape + (1,) * (x.value.ndim - axis - 1)
    return Bounded(value, np.where(open_.reshape(shape), np.inf, err))


def _points(x: Bounded, density: int) -> list[Array]:
    """The value, the ends of its interval, and `density - 1` points between on each side."""
    if x.value.dtype.kind == "b":
        return [x.value, x.value ^ (x.err > 0)] if np.any(x.err > 0) else [x.value]
    if x.value.dtype.kind != "f" or not np.any(x.err > 0):
        return [x.value]
    err = np.where(np.isinf(x.err), 0.0, x.err)
    steps = [i / density for i in range(1, density + 1)]
    return [x.value, *(x.value + side * step * err for step in steps for side in (-1.0, 1.0))]


def _outcomes(
    opdef: OpDef, args: Sequence[Bounded], signature: Signature, attributes: Attributes
) -> tuple[Array, list[Array]]:
    """The value, and the op's results over the corners of the operands' intervals."""
    grids = [_points(a, 2 if len(args) == 1 else 1) for a in args]
    results = [evaluate_op(opdef, corner, signature, attributes, "exact") for corner in product(*grids)]
    return results[0], results[1:]


def _distance(a: Array, b: Array) -> Array:
    """|a - b|; 0 between equal infinities and between NaNs, inf from NaN to a number."""
    if a.dtype.kind == "b":
        return np.asarray(a != b, np.float64)
    same = (a == b) | ((a != a) & (b != b))
    gap = abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def _rounding(opdef: OpDef, signature: Signature) -> float:
    """Ulps that the kernel's own arithmetic adds."""
    ulp = opdef.bound(signature.result)
    if ulp is not None:
        return ulp
    # The quotient is rounded twice before it is floored.
    return 2.0 if opdef.name == "floor_div" else 0.5


def _beyond_corners(name: str, args: Sequence[Bounded], value: Array, spread: Array) -> Array:
    """Widen the spread where corners miss part of the range: poles, periods, the origin of atan2."""
    if name in ("div", "floor_div", "mod"):
        x, y = args
        pole = (y.err > 0) & (abs(y.value) <= y.err)
        if name == "mod":
            quotients = [np.floor_divide(a, b) for a, b in product(_points(x, 1), _points(y, 1))]
            jumps = np.logical_or.reduce([q != quotients[0] for q in quotients]) & (x.err + y.err > 0)
            spread = np.where(jumps, abs(y.value) + y.err, spread)
        return np.where(pole, np.inf, spread)
    if name in _PERIODIC:
        (x,) = args
        wide = x.err > 0.1
        if name != "tan":
            return np.where(wide, 2.0, spread)
        sides = [np.cos(p) < 0 for p in _points(x, 1)]
        return np.where(wide | np.logical_or.reduce([s != sides[0] for s in sides]), np.inf, spread)
    if name == "atan2":
        y, x = args
        origin = (x.err + y.err > 0) & (abs(x.value) <= x.err) & (abs(y.value) <= y.err)
        return np.where(origin, 2 * np.pi, spread)
    if name == "pow":
        x, y = args
        pole = (x.err > 0) & (abs(x.value) <= x.err) & (y.value - y.err < 0)
        # Of a negative base, a power is a number at integers only, which corners miss.
        return np.where(pole | ((x.value - x.err < 0) & (y.err > 0)), np.inf, spread)
    return spread


def _overflow(value: Array, err: Array, compute: np.dtype) -> tuple[Array, Array]:
    """Past the compute type's range a kernel has inf; where only part of the interval is, it is unknown."""
    limit = np.inf if compute == np.float64 else 2.0**128 - 2.0**103
    surely = np.isfinite(value) & (abs(value) - err >= limit)
    perhaps = np.isfinite(value) & ~surely & (abs(value) + err >= limit)
    value = np.where(surely, np.copysign(np.inf, value), value)
    return value, np.where(surely, 0.0, np.where(perhaps, np.inf, err))


def _none_open(args: Sequence[Bounded], shape: tuple[int, ...]) -> Array:
    return np.asarray(np.logical_and.reduce([np.broadcast_to(a.err == 0, shape) for a in args]))


def _unknown(args: Sequence[Bounded], shape: tuple[int, ...]) -> Array:
    """Where an operand is unknown, or an integer that is not exact."""
    unknown = np.zeros(shape, bool)
    for a in args:
        unknown |= (a.err > 0) if a.value.dtype.kind in "iu" else np.isinf(a.err)
    return unknown
