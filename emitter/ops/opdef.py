"""`OpDef`: what one op means, which dtypes it takes, and how exact a kernel must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..dtypes import F64, DType, dtype
from ..errors import BadAttribute, DTypeMismatch, LiteralOverflow, UnknownDType
from ..group import Attributes

Array = NDArray[Any]
Number = bool | int | float
OperandType = DType | Number
"""What a dtype rule knows of an operand: its dtype, or the value of a Python constant, whose type is weak."""


@dataclass(frozen=True)
class Signature:
    """The types operands are converted to before the op, and the type of its result."""

    operands: tuple[DType, ...]
    result: DType


class NoSignature(Exception):
    """Raised by a dtype rule that does not cover the operands; `OpDef.signature` says what it would take."""


@dataclass(frozen=True)
class Rule:
    """A dtype rule.

    resolve: the signature for given operands, or NoSignature. accepts and way_out: for the error message.
    literals: which Python integers outside the operand type's range are legal: none ("fit"), all
    ("any": a comparison is decided by them), or those that leave a bound open ("bounds": clip).
    """

    accepts: str
    resolve: Callable[[Sequence[OperandType], Attributes], Signature]
    way_out: str
    literals: Literal["fit", "any", "bounds"] = "fit"

    def allows(self, value: int, position: int, operand: DType) -> bool:
        """Whether a Python integer may stand at `position`, where the op takes integers of type `operand`."""
        low, high = operand.limits
        if self.literals == "any":
            return True
        no_low, no_high = (
            self.literals == "bounds" and position == 1,
            self.literals == "bounds" and position == 2,
        )
        return (value >= low or no_low) and (value <= high or no_high)


@dataclass(frozen=True)
class Attribute:
    """One keyword of an op, fixed when the group is described. It is required when it has no default."""

    name: str
    kind: Literal["choice", "int", "dtype"]
    default: str | int | None = None
    choices: tuple[str, ...] = ()

    def check(self, value: object, call: str) -> str | int:
        """`value` in canonical form (a dtype as its HLO-style name), or BadAttribute."""
        if self.kind == "int" and isinstance(value, int | np.integer) and not isinstance(value, bool):
            return int(value)
        if self.kind == "choice" and isinstance(value, str) and value in self.choices:
            return value
        if self.kind == "dtype" and isinstance(value, str | type | np.dtype | DType):
            try:
                return dtype(np.dtype(value) if isinstance(value, type) else value).name
            except UnknownDType as error:
                raise UnknownDType(f"{call}: {error}") from None
        expected = {"int": "an integer", "dtype": "a dtype such as 'f16'"}.get(
            self.kind, " or ".join(map(repr, self.choices))
        )
        raise BadAttribute(f"{call}: {self.name} must be {expected}, got {value!r}")


@dataclass(frozen=True)
class Interval:
    """Where a test draws finite values of one operand. Outside, the op is defined as NaN, inf or a limit."""

    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class OpDef:
    """One op.

    parameters: operand names, for messages. numpy: the definition, on arrays of the operand types (floats as
    float64 or as their compute type), attributes as keywords; None for `index`, which needs the shape
    (`numerics.index`), and `cast`, which needs the types (`evaluate.cast`).
    ulp: the greatest distance of a kernel's result from the exact one, in units in the last place of the
    compute type (f32 or f64; ulp_f64 where f64 differs); None where kernels give NumPy's result bit for bit (the
    sign of a zero that maximum, minimum, clip or relu pick from +0 and -0 is open). symbol: Python's operator.
    floor: how far an f32 result near zero may be off besides, from fast division and exp2 of extreme operands.
    continuous: inside `domain` (one interval an operand), small changes of float operands change the result
    little.
    """

    name: str
    parameters: tuple[str, ...]
    rule: Rule
    numpy: Callable[..., Array] | None
    doc: str
    ulp: float | None = None
    ulp_f64: float | None = None
    floor: float = 0.0
    symbol: str | None = None
    attributes: tuple[Attribute, ...] = ()
    continuous: bool = True
    domain: tuple[Interval, ...] = ()

    def bound(self, dtype: DType) -> float | None:
        """`ulp` for results of this dtype."""
        return self.ulp_f64 if dtype is F64 and self.ulp_f64 is not None else self.ulp

    @property
    def call(self) -> str:
        """`clip(x, low, high)`."""
        return f"{self.name}({', '.join((*self.parameters, *(a.name for a in self.attributes)))})"

    def interval(self, position: int) -> Interval:
        """Where a test draws the operand at `position`."""
        return self.domain[position] if self.domain else Interval()

    def bind_attributes(self, given: Mapping[str, object], where: str) -> Attributes:
        """Every attribute, in declared order, in canonical form. Raises BadAttribute."""
        call = f"{where}: {self.call}"
        for name in given:
            if name not in {a.name for a in self.attributes}:
                raise BadAttribute(f"{call} has no attribute {name!r}")
        bound = []
        for attribute in self.attributes:
            value = given.get(attribute.name, attribute.default)
            if value is None:
                raise BadAttribute(f"{call} needs {attribute.name}")
            bound.append((attribute.name, attribute.check(value, call)))
        return tuple(bound)

    def signature(self, operands: Sequence[OperandType], attributes: Attributes = ()) -> Signature:
        """Operand and result types under NumPy 2's rules. Raises DTypeMismatch or LiteralOverflow."""
        got = ", ".join(map(str, operands))
        if len(operands) != len(self.parameters):
            raise DTypeMismatch(f"{self.call}: expected {len(self.parameters)} operands, got {len(operands)} ({got})")
        try:
            signature = self.rule.resolve(operands, attributes)
        except NoSignature:
            raise DTypeMismatch(f"{self.call}: expected {self.rule.accepts}, got {got}; {self.rule.way_out}") from None
        for position, (value, operand) in enumerate(zip(operands, signature.operands, strict=True)):
            if isinstance(value, int) and operand.is_integer and not self.rule.allows(value, position, operand):
                low, high = operand.limits
                raise LiteralOverflow(
                    f"{self.call}: expected {self.parameters[position]} to fit {operand} ({low} to {high}), "
                    f"got {value}; cast the other operand to a wider type"
                )
        return signature

    def text(self, operands: Sequence[str], attributes: Attributes = ()) -> str:
        """The op as a description writes it: `x + b`, `gelu(h, approximate='tanh')`, `index(-1)`."""
        if self.symbol and len(operands) == 1:
            return f"{self.symbol}{operands[0]}"
        if self.symbol:
            left, right = operands
            left = f"({left})" if self.name == "pow" and left.startswith("-") else left
            return f"{left} {self.symbol} {right}"
        values = dict(attributes)
        required = [repr(values[a.name]) for a in self.attributes if a.default is None]
        chosen = [
            f"{a.name}={values[a.name]!r}"
            for a in self.attributes
            if a.default is not None and values.get(a.name, a.default) != a.default
        ]
        return f"{self.name}({', '.join((*operands, *required, *chosen))})"
