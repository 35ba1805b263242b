"""The CUDA C half: fills `templates/cuda/pointwise.cu.jinja`."""

from __future__ import annotations

from dataclasses import dataclass, field

from .analysis import Access, Placed
from .dialects import CUDA, Expr
from .group import FusionGroup, Node, ScalarSpec, TensorSpec
from .plan import LoopNames, Plan, loops_needed
from .source import ParamSpec
from .statements import Speller
from .text import arguments, commented

PRELUDE = "cuda/prelude.cuh"
RESERVED = {"TILE", "tiles_in_row", "first_row", "v", "r", "Index", "VEC"} | CUDA.functions


@dataclass(frozen=True)
class CudaContext:
    """The names of the template."""

    banner: str
    summary: str
    helpers: tuple[str, ...]
    threads: int
    entry: str
    signature: str
    flat: bool
    inner: LoopNames
    rows: LoopNames | None
    rows_per_thread: int
    square: int
    row_origin: str
    inner_origin: str
    coordinates: tuple[str, ...]
    staged: tuple[str, ...]
    hoisted: tuple[str, ...]
    row_statements: tuple[str, ...]
    element_declarations: tuple[str, ...]
    elements: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass
class _Lines:
    staged: list[tuple[str, str]] = field(default_factory=list)
    hoisted: list[tuple[str, str]] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)
    declarations: list[tuple[str, str]] = field(default_factory=list)
    elements: list[tuple[str, str]] = field(default_factory=list)
    stores: list[tuple[str, str]] = field(default_factory=list)


class CudaBody:
    """The statements of the kernel, each in the outermost loop that it needs."""

    def __init__(self, plan: Plan, original: FusionGroup) -> None:
        self.plan = plan
        self.analysis = plan.analysis
        self.inner = len(plan.loops) - 1
        self.indices = {n: names.index for n, names in enumerate(plan.loops)}
        self.per_element = {**self.indices, self.inner: f"{plan.inner.index} + v"}
        self.loops_of = {placed.key: placed.loops for placed in plan.analysis.values}
        self.outputs = {key for _, key, _ in plan.analysis.stores}
        self.speller = Speller(plan, CUDA, original, self._element, self.per_element.__getitem__)
        self.count = f"{plan.inner.extent} - {plan.inner.index}"
        stem = "tile" if plan.transposed else "first"
        self.origins = tuple(plan.namer.name(f"{stem}_{n.index}") for n in (plan.rows or plan.inner, plan.inner))
        self.lines = _Lines()
        self._fill()

    def _vector(self, placed: Placed) -> bool:
        """Whether a value is an array of VEC elements: what is loaded, or stored, along the inner loop."""
        if not self.plan.touches_inner(placed.loops):
            return False
        if placed.key in self.outputs:
            return True
        return placed.access is not None and not self._per_element_gather(placed)

    def _per_element_gather(self, placed: Placed) -> bool:
        """Whether the gathered index varies along the inner loop, so that neighbours are not neighbours."""
        access = placed.access
        if access is None or isinstance(placed.item, TensorSpec):
            return False
        step = next(s for s in access.steps if s.loop is None)
        gathered = step.gathered
        index_loops = self.loops_of[gathered] if isinstance(gathered, tuple) else frozenset()
        return self.plan.touches_inner(index_loops)

    def _element(self, placed: Placed, name: str) -> str:
        return f"{name}[v]" if self._vector(placed) else name

    def _level(self, loops: frozenset[int]) -> list[tuple[str, str]]:
        """Where a statement that is not per element belongs."""
        return self.lines.rows if self.plan.touches_rows(loops) else self.lines.hoisted

    def _fill(self) -> None:
        for placed in self.analysis.values:
            if isinstance(placed.item, ScalarSpec):
                self.speller.loaded(placed)
            elif isinstance(placed.item, TensorSpec):
                self._load(placed)
            elif isinstance(placed.item, Node) and placed.item.op == "take":
                self._gather(placed)
            else:
                self._compute(placed)
        for output, key, access in self.analysis.stores:
            self._store(output, key, access)

    def _type(self, placed: Placed, index: bool = False) -> str:
        return "Index" if index else CUDA.value_type(self.speller.types[placed.key[0]].dtype)

    def _item(self, access: Access, gathered: str = "", per_element: bool = False) -> str:
        """One element in memory."""
        offset = self.plan.offset(access, self.per_element if per_element else self.indices, gathered)
        pointer = self.plan.pointers[access.tensor]
        return f"{pointer}[{offset}]" if offset else f"*{pointer}"

    def _address(self, access: Access, gathered: str = "") -> str:
        offset = self.plan.offset(access, self.indices, gathered)
        pointer = self.plan.pointers[access.tensor]
        return f"{pointer} + {offset}" if offset else pointer

    def _stride(self, access: Access) -> str | None:
        """The run-time stride along the inner loop; None where neighbours are neighbours in memory."""
        step = next((s for s in access.steps if s.loop == self.inner), None)
        if step is None or access.layout.contiguous:
            behind = step is not None and access.steps[-1] is not step
            if not behind:
                return None
            dims = tuple(d for s in access.steps[access.steps.index(step) + 1 :] for d in s.dims)
            size = self.plan.size(dims)
            return f"Index({size})" if size.isdigit() else size
        axis = step.tensor_axes[0]
        if axis == access.layout.unit_axis:
            return None
        return self.plan.stride(access.tensor, axis, self.speller.types[access.tensor].shape)

    def _load(self, placed: Placed) -> None:
        assert placed.access is not None
        name = self.plan.values[placed.key]
        lines = self._level(placed.loops)
        self._read(placed, name, "", self.count, lines, "")
        self.speller.loaded(placed)

    def _read(
        self, placed: Placed, name: str, gathered: str, count: str, lines: list[tuple[str, str]], comment: str
    ) -> None:
        assert placed.access is not None
        if not self._vector(placed):
            lines.append((f"const {self._type(placed)} {name} = {self._item(placed.access, gathered)};", comment))
            return
        lines.append((f"{self._type(placed)} {name}[VEC];", ""))
        if placed.key[0] in self.plan.transposed:
            tile = self._stage(placed, name)
            lines.append((f"load_neighbours({tile}[r] + threadIdx.x * VEC, {name});", comment))
            return
        address = self._address(placed.access, gathered)
        stride = self._stride(placed.access)
        if stride is None:
            lines.append((f"load({address}, {count}, {name});", comment))
        else:
            lines.append((f"load_strided({address}, {stride}, {count}, {name});", comment))

    def _stage(self, placed: Placed, name: str) -> str:
        """A tile in shared memory that holds the tensor's elements row by row, and its name."""
        assert placed.access is not None
        dtype = self.speller.types[placed.key[0]].dtype
        tile = self.plan.namer.name(f"{name}_tile")
        padding = max(1, 4 // dtype.itemsize)  # neighbouring rows start in neighbouring banks
        origin = dict(enumerate(self.origins))
        source = f"{self.plan.pointers[placed.key[0]]} + {self.plan.offset(placed.access, origin)}"
        rows, inner = self.plan.loops
        left = f"{rows.extent} - {origin[0]}, {inner.extent} - {origin[1]}"
        self.lines.staged += [
            (f"__shared__ {CUDA.storage_type(dtype)} {tile}[TILE][TILE + {padding}];", ""),
            (f"stage_transposed<VEC>({source}, {self._stride(placed.access)}, {left}, {tile});", ""),
        ]
        return tile

    def _gather(self, placed: Placed) -> None:
        """The checked index, then the load: whole vectors where the index is the same for all neighbours."""
        assert placed.access is not None and isinstance(placed.item, Node)
        step = next(s for s in placed.access.steps if s.loop is None)
        assert step.gathered is not None
        name = self.plan.values[placed.key]
        at = self.plan.namer.name(f"{name}_at")
        index = self.speller.gather_index(step.gathered)
        size = self.plan.count(step.dims)
        comment = self.speller.comment(placed.item, "")
        declare = (f"const Index {at} = gather_index<Index>({index}, {size});", "-1 where it is out of range")
        per_element = self._per_element_gather(placed)
        dtype = self.speller.types[placed.key[0]].dtype
        zero = CUDA.literal(0, dtype)
        item = CUDA.widen(Expr(self._item(placed.access, at, per_element)), dtype)
        if per_element:
            target = self._element(placed, name)
            if placed.key in self.outputs:
                self.lines.declarations.append((f"{self._type(placed)} {name}[VEC];", ""))
            head = target if placed.key in self.outputs else f"const {self._type(placed)} {name}"
            outside = f"{at} < 0 || v >= {self.count}"
            self.lines.elements += [declare, (f"{head} = {outside} ? {zero} : {item};", comment)]
        else:
            index_loops = self.loops_of[step.gathered] if isinstance(step.gathered, tuple) else frozenset()
            self._level(index_loops).append(declare)
            lines = self._level(placed.loops)
            if self._vector(placed):
                self._read(placed, name, at, f"{at} < 0 ? 0 : {self.count}", lines, comment)
            else:
                lines.append((f"const {self._type(placed)} {name} = {at} < 0 ? {zero} : {item};", comment))
        self.speller.loaded(placed)

    def _compute(self, placed: Placed) -> None:
        statement = self.speller.compute(placed)
        if statement is None:
            return
        inner = self.plan.touches_inner(placed.loops)
        lines = self.lines.elements if inner else self._level(placed.loops)
        kind = "Index" if statement.index else CUDA.value_type(statement.dtype)
        if inner and placed.key in self.outputs:
            self.lines.declarations.append((f"{kind} {self.plan.values[placed.key]}[VEC];", ""))
            lines.append((f"{statement.target} = {statement.text};", statement.comment))
        else:
            lines.append((f"const {kind} {statement.target} = {statement.text};", statement.comment))

    def _store(self, output: str, key: tuple[str, tuple[int | None, ...]], access: Access) -> None:
        loops = frozenset(s.loop for s in access.steps if s.loop is not None)
        missing = sorted(set(range(len(self.analysis.loops))) - loops)
        once = " && ".join(f"{self.plan.loops[n].index} == 0" for n in missing)
        name = self.plan.values[key]
        if self.plan.touches_inner(loops) and self.analysis.loops:
            address = self._address(access)
            stride = self._stride(access)
            if stride is None:
                text = f"store({address}, {self.count}, {name});"
            else:
                text = f"store_strided({address}, {stride}, {self.count}, {name});"
        else:
            value = CUDA.narrow(self.speller.stored(key), self.speller.types[output].dtype)
            text = f"{self._item(access)} = {value};"
        self.lines.stores.append((f"if ({once}) {text}" if once else text, ""))


def coordinates(plan: Plan) -> tuple[str, ...]:
    """How several outer loops' coordinates come from the row."""
    if plan.rows is None or len(plan.outer) < 2:
        return ()
    lines = []
    needed = loops_needed(plan.analysis)
    for position, names in enumerate(plan.outer):
        if position not in needed:
            continue
        later = [n.extent for n in plan.outer[position + 1 :]]
        text = plan.rows.index
        if later:
            text += f" / {later[0]}" if len(later) == 1 else f" / ({' * '.join(later)})"
        if position:
            text += f" % {names.extent}"
        lines.append(f"const Index {names.index} = {text};")
    return tuple(lines)


def signature(plan: Plan, params: tuple[ParamSpec, ...]) -> str:
    """The kernel's parameter list."""
    outputs = {plan.pointers[o] for o in plan.analysis.verified.group.outputs}
    texts = []
    for param in params:
        if param.kind == "pointer":
            assert param.dtype is not None
            constant = "" if param.name in outputs else "const "
            texts.append(f"{constant}{CUDA.storage_type(param.dtype)}* __restrict__ {param.name}")
        elif param.kind == "scalar":
            assert param.dtype is not None
            texts.append(f"{CUDA.value_type(param.dtype)} {param.name}")
        else:
            texts.append(f"Index {param.name}")
    return arguments(texts, len(f"__global__ void __launch_bounds__(256) {plan.entry}() {{"), "    ")


def body_text(lines: list[tuple[str, str]]) -> tuple[str, ...]:
    """Lines with their comments in one column."""
    return tuple(commented(lines, "//"))
