"""Every op in every dtype, end to end: described, emitted, run on the device, and held to the op table's bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from device_arrays import Arrays
from group_calls import assert_same_bits, assert_within
from group_calls import run as run_call
from launches import Runner, described
from memory_layouts import of_kind, special

import emitter
from emitter.bounds import evaluate
from emitter.dtypes import BOOL, DTYPES, DType, dtype
from emitter.errors import DTypeMismatch
from emitter.group import FusionGroup
from emitter.ops import OPS, OpDef
from emitter.schedule import Backend, Schedule
from emitter.verify import verify
from launch import Cache, Target
from launch.build import build_artifact

SIGN_OPEN = ("maximum", "minimum", "clip", "relu")
COUNT = 400
LETTERS = "xyz"


@pytest.fixture(params=emitter.BACKENDS)
def run(request: pytest.FixtureRequest, device: str, arrays: Arrays, cache: Cache) -> Runner:
    return Runner(request.param, device, arrays, cache)


def forms(definition: OpDef, element: DType) -> Iterator[str]:
    """Expressions of one op over tensors of one dtype: `c` is bool, `k` holds indices."""
    names = list(LETTERS[: len(definition.parameters)])
    if definition.name == "index":
        yield f"index(0) + cast(x, '{element}')" if element.is_integer else "index(0) + cast(x > x, 'i32')"
    elif definition.name == "take":
        yield "take(x, k, 0)"
    elif definition.name == "where":
        yield "where(c, x, y)"
    elif definition.name == "cast":
        yield from (f"cast(x, '{target}')" for target in DTYPES)
    elif definition.name == "gelu":
        yield from ("gelu(x)", "gelu(x, approximate='tanh')")
    else:
        yield f"{definition.name}({', '.join(names)})"


def accepts(definition: OpDef, element: DType) -> bool:
    """Whether the op's dtype rule takes operands of this dtype alone."""
    if definition.name in ("index", "take", "cast"):
        return True
    operands = [element] * len(definition.parameters)
    if definition.name == "where":
        operands[0] = BOOL
    try:
        definition.signature(operands, definition.bind_attributes({}, "matrix"))
    except DTypeMismatch:
        return False
    return True


def described_in(element: DType, expressions: dict[str, str]) -> FusionGroup:
    """A group of these outputs with the inputs that they use."""
    text = " ".join(expressions.values())
    kinds = {"x": element, "y": element, "z": element, "c": "bool", "k": "i16"}
    used = [name for name in kinds if re.search(rf"\b{name}\b", text)]
    return described("; ".join(f"{n}: {kinds[n]}[N]" for n in used), expressions)


def matrix(element: DType) -> dict[str, str]:
    """Name of an output and its expression, for everything that the dtype can do."""
    found = {}
    for name, definition in OPS.items():
        if accepts(definition, element):
            found |= {f"{name}_{n}": form for n, form in enumerate(forms(definition, element))}
    return found


def test_the_matrix_is_complete() -> None:
    """Each op takes some dtype, each dtype some ops."""
    whole = {d: matrix(d) for d in DTYPES}
    assert {o.rpartition("_")[0] for ops in whole.values() for o in ops} == set(OPS)
    assert all(len(ops) > 30 for ops in whole.values()), {d.name: len(o) for d, o in whole.items()}


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_each_op_alone_is_emitted(backend: Backend, element: DType) -> None:
    for name, expression in matrix(element).items():
        source = emitter.emit(described_in(element, {name: expression}), backend)
        assert source.entry in source.device and source.device.isascii()


def operands(element: DType, names: str, seed: int) -> dict[str, np.ndarray]:
    """Special values crossed with each other, then small ones and any bits."""
    rng = np.random.default_rng([seed, *element.name.encode()])
    values = special(element)
    arrays = {}
    for name in names:
        chosen = [rng.choice(values, COUNT // 2), of_kind("small", rng, element, (COUNT // 4,))]
        chosen.append(of_kind("any bits", rng, element, (COUNT - COUNT // 2 - COUNT // 4,)))
        arrays[name] = np.concatenate([np.asarray(c, element.numpy) for c in chosen])[rng.permutation(COUNT)]
    return arrays


def inputs(group: FusionGroup, element: DType, seed: int) -> list[np.ndarray]:
    """Arguments of one group of the matrix."""
    arrays = operands(element, LETTERS, seed)
    rng = np.random.default_rng(seed)
    arrays["c"] = rng.integers(0, 2, COUNT).astype(bool)
    arrays["k"] = rng.integers(-COUNT - 3, COUNT + 3, COUNT).astype(np.int16)
    return [arrays[i.name] for i in group.inputs]


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_each_op_computes_what_the_table_says(run: Runner, element: DType) -> None:
    """All ops of a dtype as outputs of one kernel, so that it is compiled once: exact ones bit for bit."""
    group = described_in(element, matrix(element))
    arguments = inputs(group, element, 1)
    call = replace(run.call(group, *arguments), schedule=Schedule(vector=2, tile=512, columns=512, rows=1))
    got = run_call(call, run.backend, run.arrays, run.device, run.cache)
    with np.errstate(all="ignore"):
        want = emitter.reference(group, *arguments, mode="compute")
        limits = evaluate(group, *arguments)
    types = verify(group).types
    failures = []
    for name, result, expected, limit in zip(group.outputs, got, want, limits, strict=True):
        op_name = name.rpartition("_")[0]
        exact = OPS[op_name].ulp is None or not types[name].dtype.is_float
        try:
            if exact and not (op_name in SIGN_OPEN and types[name].dtype.is_float):
                assert_same_bits(result, expected, name)
            else:
                assert_within(result, limit, name, call)
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)


def with_constants(element: DType) -> tuple[dict[str, str], dict[str, str]]:
    """Two-operand ops of x and a constant on either side; and of x and t, a tensor, instead."""
    constant = "True" if element is BOOL else "3"
    body, full = {}, {}
    for name, definition in OPS.items():
        if len(definition.parameters) == 2 and name != "take" and accepts(definition, element):
            body |= {f"{name}_left": f"{name}({constant}, x)", f"{name}_right": f"{name}(x, {constant})"}
            full |= {f"{name}_left": f"{name}(t, x)", f"{name}_right": f"{name}(x, t)"}
    return body, full


@pytest.mark.parametrize("kind", ["f32", "f16", "i8", "u32", "bool"])
def test_constants_stand_for_each_operand(run: Runner, kind: str) -> None:
    """They give what the reference says, and of integers what a tensor full of the constant gives."""
    element = dtype(kind)
    body, full = with_constants(element)
    x = operands(element, "x", 2)["x"]
    t = np.full(COUNT, True if element is BOOL else 3, element.numpy)
    by_constant = described(f"x: {kind}[N]", body)
    limits = evaluate(by_constant, x)
    got = run(by_constant, x)
    with np.errstate(all="ignore"):
        want = emitter.reference(by_constant, x, mode="compute")
        same = emitter.reference(described(f"x: {kind}[N]; t: {kind}[N]", full), x, t, mode="compute")
    for name, result, expected, by_tensor, limit in zip(body, got, want, same, limits, strict=True):
        op_name = name.rpartition("_")[0]
        if OPS[op_name].ulp is None and not (op_name in SIGN_OPEN and element.is_float):
            assert_same_bits(result, expected, name)
        else:
            assert_within(result, limit, name, run.call(by_constant, x))
        if element.is_integer and result.dtype.kind in "iu":
            assert_same_bits(result, by_tensor, name)


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@pytest.mark.parametrize("kind", ["i8"])
def test_constants_compile_for_a_gpu(backend: Backend, kind: str, cache: Cache) -> None:
    """What Triton's interpreter lets pass: a value whose type changes in a loop."""
    source = emitter.emit(described(f"x: {kind}[N]", with_constants(dtype(kind))[0]), backend)
    assert build_artifact(cache, source, source.instances[-1], Target("cuda", "90")).binary
