"""Ops about types and places: their shapes, and index and take as a whole, belong to analysis."""

from __future__ import annotations

import numpy as np

from ..numerics import take
from .opdef import Attribute, OpDef
from .rules import CAST, COPY, INDEX, TAKE

STRUCTURAL = (
    OpDef("copy", ("x",), COPY, np.asarray, "x itself, under another name."),
    OpDef(
        "cast",
        ("x",),
        CAST,
        None,
        "x in another dtype: rounded; to an integer saturating, NaN 0; an integer wraps; to bool x != 0.",
        attributes=(Attribute("dtype", "dtype"),),
        continuous=False,
    ),
    OpDef(
        "index",
        (),
        INDEX,
        None,
        "The coordinate along an axis, as i64.",
        attributes=(Attribute("axis", "int"),),
        continuous=False,
    ),
    OpDef(
        "take",
        ("x", "indices"),
        TAKE,
        take,
        "Elements of x along an axis; a negative index counts from the end, one out of range gives 0.",
        attributes=(Attribute("axis", "int"),),
        continuous=False,
    ),
)
