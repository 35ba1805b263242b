"""One exception class per mistake a user can make.

Every message names the group and the node or argument, what was expected, what came, and the way out.
All of them are `KernelpressError`; where Python has a built-in class for the mistake, they are that too.
"""

from __future__ import annotations


class KernelpressError(Exception):
    """Base of everything kernelpress raises on purpose."""


class DescriptionError(KernelpressError, ValueError):
    """The description cannot be read: TOML syntax, a missing table, an expression outside the language."""


class UnsafeName(DescriptionError):
    """A name that cannot stand in generated source: not ASCII, not an identifier, a keyword, too long."""


class DuplicateName(DescriptionError):
    """Two things in one group share a name."""


class UnknownName(DescriptionError):
    """An expression uses a name that is no input, node or dim."""


class UnknownOp(DescriptionError):
    """An expression calls an op that is not in the table."""


class BadAttribute(DescriptionError):
    """An op's attribute is unknown, missing, or has a value the op does not take."""


class UnknownDType(DescriptionError):
    """A dtype name that is neither HLO-style nor NumPy's."""


class UnknownDim(DescriptionError):
    """A shape or an axis names a dim that does not exist."""


class ShapeMismatch(DescriptionError):
    """Shapes that do not broadcast against each other."""


class DTypeMismatch(DescriptionError, TypeError):
    """An op is not defined for its operands' dtypes, or they have no common dtype."""


class LiteralOverflow(DescriptionError, OverflowError):
    """A Python integer that does not fit the dtype it is combined with."""


class UnusedInput(DescriptionError):
    """An input that no output depends on."""


class UndefinedOutput(DescriptionError):
    """An output that no node or input defines."""


class CyclicGroup(DescriptionError):
    """A node that depends on itself."""


class UnsupportedOp(KernelpressError, NotImplementedError):
    """A dialect can neither spell the op for these dtypes nor decompose it."""


class TooManyParameters(KernelpressError, ValueError):
    """The kernel's parameters would pass the limit of one launch."""


class TemplateError(KernelpressError, RuntimeError):
    """A template failed to render; shows the template, the line and its surroundings."""


class BadSchedule(KernelpressError, ValueError):
    """A schedule whose values do not fit the pattern or the device."""
