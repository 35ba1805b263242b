"""The plan of a kernel: every name, size, stride and parameter, and offsets as text both languages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .analysis import Access, Analysis, Key, Loop, Step
from .errors import TooManyParameters
from .group import Dim, TensorSpec
from .names import Language, Namer
from .source import Backend, ParamSpec

PARAMETER_BYTES = 4096
"""What every CUDA and HIP driver takes as one launch's parameters."""


@dataclass(frozen=True)
class LoopNames:
    """One loop in text: its coordinate, and its extent (a parameter's name, or a literal)."""

    index: str
    extent: str


@dataclass
class Plan:
    """Names shared by device and host code.

    loops: names a loop, the inner one last. rows: names of the flattened outer loops (None where there is at
    most one loop); the same as the outer loop where there is one. sizes: size parameters with the host's
    expression for each, over the dims. counts: parameters that are a dim as a number, where that may differ from
    the extent the loops run over. strides: stride parameters by tensor and axis. tiles: Triton's block size
    constants, outermost first.
    """

    analysis: Analysis
    entry: str
    namer: Namer
    loops: list[LoopNames] = field(default_factory=list)
    rows: LoopNames | None = None
    tiles: tuple[str, ...] = ()
    pointers: dict[str, str] = field(default_factory=dict)
    values: dict[Key, str] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    counts: dict[str, str] = field(default_factory=dict)
    strides: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def transposed(self) -> frozenset[str]:
        """Tensors whose memory runs along the rows' loop, across the others': a kernel reads them in square tiles."""
        if len(self.analysis.loops) != 2:
            return frozenset()
        accesses = [v.access for v in self.analysis.values if isinstance(v.item, TensorSpec) and v.access]
        return frozenset(a.tensor for a in accesses if _runs_along_rows(a))

    @property
    def smaller(self) -> list[str]:
        """Outputs that do not span the whole space, so that they may have elements where the space has none."""
        verified = self.analysis.verified
        space = sum(dim != 1 for dim in verified.space)
        return [o for o in verified.group.outputs if sum(dim != 1 for dim in verified.types[o].shape) < space]

    @property
    def accesses(self) -> list[Access]:
        """Every load and store."""
        analysis = self.analysis
        return [*(v.access for v in analysis.values if v.access), *(a for _, _, a in analysis.stores)]

    @property
    def inner(self) -> LoopNames:
        return self.loops[-1]

    @property
    def outer(self) -> Sequence[LoopNames]:
        return self.loops[:-1]

    @property
    def in_rows(self) -> bool:
        """Whether accesses start at multiples of the inner extent: of a tile's rows, or of what a gather picks from."""
        last = len(self.loops) - 1
        return self.rows is not None or any(
            len(a.steps) > 1 and a.layout.contiguous and a.steps[-1].loop == last for a in self.accesses
        )

    def touches_inner(self, loops: frozenset[int]) -> bool:
        return len(self.loops) - 1 in loops

    def touches_rows(self, loops: frozenset[int]) -> bool:
        return any(loop < len(self.loops) - 1 for loop in loops)

    def size(self, dims: tuple[Dim, ...]) -> str:
        """The product of dims: a literal, or the name of a size parameter (made when first asked for)."""
        literal = 1
        symbols = [d for d in dims if isinstance(d, str)]
        for dim in dims:
            literal *= 1 if isinstance(dim, str) else dim
        if not symbols:
            return str(literal)
        factors = [*symbols, *([str(literal)] if literal != 1 else [])]
        expression = " * ".join(factors)
        for name, existing in self.sizes.items():
            if existing == expression:
                return name
        wanted = "".join(factors) if all(len(f) == 1 for f in symbols) else "_".join(factors)
        name = self.namer.name(wanted)
        self.sizes[name] = expression
        return name

    def count(self, dims: tuple[Dim, ...]) -> str:
        """A dim as a number: the bound of a gather, or a value. A loop over an empty axis may run once; this is 0."""
        (dim,) = dims
        if not isinstance(dim, str) or not self.smaller or dim not in self.analysis.verified.space:
            return self.size(dims)
        for name, existing in self.counts.items():
            if existing == dim:
                return name
        name = self.namer.name(f"{dim}_size")
        self.counts[name] = dim
        return name

    def stride(self, tensor: str, axis: int, shape: tuple[Dim, ...]) -> str:
        """The name of a tensor's run-time stride along `axis`, in elements."""
        for name, place in self.strides.items():
            if place == (tensor, axis):
                return name
        dim = shape[axis]
        suffix = dim.lower() if isinstance(dim, str) and shape.count(dim) == 1 else str(axis)
        name = self.namer.name(f"{tensor}_stride_{suffix}")
        self.strides[name] = (tensor, axis)
        return name

    def offset(self, access: Access, indices: Mapping[int, str], gathered: str = "") -> str:
        """The offset of an access in elements; "" for the first element. `indices` gives each loop's coordinate."""

        def coordinate(step: Step) -> str:
            return gathered if step.loop is None else indices[step.loop]

        steps = access.steps
        shape = self.analysis.verified.types[access.tensor].shape
        if not access.layout.contiguous:
            terms = []
            for step in steps:
                axis = step.tensor_axes[0]
                unit = axis == access.layout.unit_axis
                factor = "" if unit else f" * {self.stride(access.tensor, axis, shape)}"
                terms.append(f"{coordinate(step)}{factor}")
            return " + ".join(terms)
        if self.rows is not None and len(self.outer) > 1 and [s.loop for s in steps] == list(range(len(self.loops))):
            last = len(self.loops) - 1
            return f"{self.rows.index} * {self.loops[last].extent} + {indices[last]}"
        text = ""
        for step in steps:
            if text:
                text = f"({text})" if "+" in text else text
                text = f"{text} * {self.size(step.dims)} + "
            text += coordinate(step) if "+" not in coordinate(step) or not text else f"({coordinate(step)})"
        return text


def _runs_along_rows(access: Access) -> bool:
    steps = {step.loop: step.tensor_axes[0] for step in access.steps}
    unit = access.layout.unit_axis
    return unit is not None and len(access.steps) == 2 and steps.get(0) == unit and 1 in steps


def make_plan(analysis: Analysis, language: Language, reserved: set[str], beside: set[str]) -> Plan:
    """Name everything, in the order in which a reader cares: the description's names first.

    reserved: what no name in the kernel may be. beside: what the kernel itself may not be called either.
    """
    group = analysis.verified.group
    namer = Namer(language, reserved)
    plan = Plan(analysis, Namer(language, reserved).kernel(group.name, beside), namer)
    for item in group.inputs:
        if isinstance(item, TensorSpec):
            plan.pointers[item.name] = namer.name(f"{item.name}_ptr")
    for output in group.outputs:
        plan.pointers[output] = namer.name(f"{output}_ptr")
    for placed in analysis.values:
        plan.values[placed.key] = namer.name(placed.key[0])
    _name_loops(plan)
    if plan.rows is None:
        plan.tiles = ("BLOCK",)
    else:
        plan.tiles = tuple(namer.name(f"BLOCK_{index.upper()}") for index in (plan.rows.index, plan.inner.index))
    return plan


def _name_loops(plan: Plan) -> None:
    loops = plan.analysis.loops
    for loop in loops:
        plan.loops.append(LoopNames(plan.namer.name(_index_name(loop)), ""))
    used = _extents_used(plan)
    for position, loop in enumerate(loops):
        extent = plan.size(loop.dims) if position in used else ""
        plan.loops[position] = LoopNames(plan.loops[position].index, extent)
    if not loops:
        plan.loops.append(LoopNames(plan.namer.name("i"), "1"))
    if len(loops) == 2:
        plan.rows = plan.loops[0]
    elif len(loops) > 2:
        row_dims = tuple(d for loop in loops[:-1] for d in loop.dims)
        literal = all(isinstance(d, int) for d in row_dims)
        name = plan.namer.name("row")
        if literal:
            plan.rows = LoopNames(name, plan.size(row_dims))
        else:
            extent = plan.namer.name("rows")
            plan.sizes[extent] = " * ".join(map(str, row_dims))
            plan.rows = LoopNames(name, extent)


def _extents_used(plan: Plan) -> set[int]:
    """Loops whose extent the text needs: the inner one's, a single outer one's, and those that split a row."""
    count = len(plan.analysis.loops)
    if count <= 2:
        return set(range(count))
    return {*row_splits(plan), count - 1}


def row_splits(plan: Plan) -> set[int]:
    """Of several outer loops, those whose extent is divided by to find coordinates from the row."""
    needed = loops_needed(plan.analysis)
    count = len(plan.analysis.loops)
    first = min((loop for loop in needed if loop < count - 1), default=count)
    return {loop for loop in range(count - 1) if loop > first or (loop == first and first > 0)}


def loops_needed(analysis: Analysis) -> set[int]:
    """Loops whose own coordinate some access or value uses (a tensor over all loops uses only the row)."""
    count = len(analysis.loops)
    needed: set[int] = set()
    for access in (*(v.access for v in analysis.values if v.access), *(a for _, _, a in analysis.stores)):
        steps = [s.loop for s in access.steps]
        if count > 2 and access.layout.contiguous and steps == list(range(count)):
            continue
        needed |= {s for s in steps if s is not None}
    for value in analysis.values:
        if value.access is None and not value.operands:
            needed |= value.loops
    for _, _, access in analysis.stores:
        missing = set(range(count)) - {s.loop for s in access.steps}
        needed |= missing
    return needed


def _index_name(loop: Loop) -> str:
    parts = [d.lower() if isinstance(d, str) else f"i{a}" for d, a in zip(loop.dims, loop.axes, strict=True)]
    parts = [f"{p}_index" if p in loop.dims else p for p in parts]
    if len(parts) == 1:
        return parts[0]
    return "".join(parts) if all(len(p) == 1 for p in parts) else "_".join(parts)


def parameters(plan: Plan, backend: Backend) -> tuple[ParamSpec, ...]:
    """The kernel's parameters in launch order: inputs, outputs, sizes, strides. Raises TooManyParameters."""
    analysis = plan.analysis
    group, types = analysis.verified.group, analysis.verified.types
    params: list[ParamSpec] = []
    vectors = read_in_vectors(plan)
    for item in group.inputs:
        if isinstance(item, TensorSpec):
            params.append(ParamSpec(plan.pointers[item.name], "pointer", item.dtype, item.name in vectors))
        else:
            params.append(ParamSpec(plan.values[item.name, ()], "scalar", item.dtype))
    for output in group.outputs:
        params.append(ParamSpec(plan.pointers[output], "pointer", types[output].dtype, output in vectors))
    whole = _whole_vectors(plan, backend)
    for name in plan.sizes:
        params.append(ParamSpec(name, "size", divisible=name in whole))
    params += [ParamSpec(name, "size") for name in plan.counts]
    for name, (tensor, _) in plan.strides.items():
        params.append(ParamSpec(name, "stride", divisible=tensor in vectors))
    used = sum(8 if p.dtype is None or p.kind == "pointer" else max(4, p.dtype.itemsize) for p in params)
    used += 16 if backend == "triton" else 0  # Triton appends two scratch pointers
    if used > PARAMETER_BYTES:
        raise TooManyParameters(
            f"group {group.name}: {len(params)} kernel parameters take {used} bytes, one launch passes at most "
            f"{PARAMETER_BYTES}; split the group into several (at most about {PARAMETER_BYTES // 8 - 8} tensors each)"
        )
    return tuple(params)


def _whole_vectors(plan: Plan, backend: Backend) -> set[str]:
    """Sizes that must be a multiple of the vector's length for every access to be a whole vector."""
    if backend == "cuda":
        # A flat kernel reads its last, partial vector element by element.
        return {plan.inner.extent} if plan.in_rows else set()
    transposed = {plan.rows.extent} if plan.rows is not None and plan.transposed else set()
    return {plan.inner.extent} | transposed


def walked_along_inner(plan: Plan) -> set[str]:
    """Tensors that are read or written along the inner loop."""
    last = len(plan.analysis.loops) - 1
    return {a.tensor for a in plan.accesses if any(s.loop == last for s in a.steps)}


def read_in_vectors(plan: Plan) -> set[str]:
    """Of these, tensors whose neighbours along the inner loop, or along a tile's rows, are neighbours in memory."""
    last = len(plan.analysis.loops) - 1
    strided = {a.tensor for a in plan.accesses if _steps_over(a, last)}
    return walked_along_inner(plan) - strided | plan.transposed


def _steps_over(access: Access, inner: int) -> bool:
    """Whether neighbours along the inner loop lie a run-time stride apart."""
    axes = [s.tensor_axes[-1] for s in access.steps if s.loop == inner]
    return not access.layout.contiguous and bool(axes) and axes[0] != access.layout.unit_axis
