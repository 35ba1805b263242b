"""The Triton half: fills `templates/triton/pointwise.py.jinja`."""

from __future__ import annotations

from dataclasses import dataclass

from .analysis import Access, Placed
from .dialects import TRITON, Expr
from .group import FusionGroup, Node, ScalarSpec, TensorSpec
from .plan import LoopNames, Plan, loops_needed
from .schedule import Schedule
from .source import ParamSpec
from .statements import Speller
from .text import arguments, commented

PRELUDE = "triton/prelude.py"
RESERVED = {"tile", "tiles_in_row", "inside", "INDEX", "BLOCK"}
BESIDE = {
    *("contextlib", "sys", "types", "cupy", "launch", "build", "GPUTarget", "ASTSource"),
    # The variables of `build`, which would hide a kernel called like one of them.
    *("index", "vector", "tile", "options", "signature", "constants", "names", "divisible", "attributes", "target"),
    *("source", "compiled", "entry", "scratch"),
}


@dataclass(frozen=True)
class TritonContext:
    """The names of the template."""

    banner: str
    summary: str
    libdevice: bool
    helpers: tuple[str, ...]
    entry: str
    signature: str
    flat: bool
    inner: LoopNames
    rows: LoopNames | None
    row_block: str
    column_block: str
    coordinates: tuple[str, ...]
    inside: str
    body: tuple[str, ...]


class TritonBody:
    """The statements of the kernel and the masks they need."""

    def __init__(self, plan: Plan, schedule: Schedule, original: FusionGroup) -> None:
        self.plan = plan
        self.analysis = plan.analysis
        self.indices = {n: names.index for n, names in enumerate(plan.loops)}
        self.speller = Speller(plan, TRITON, original, lambda _, name: name, self.indices.__getitem__)
        self.uses_inside = False
        last = self.analysis.loops[-1] if self.analysis.loops else None
        widest = schedule.tile if plan.rows is None else schedule.columns
        self.even = last is not None and last.size is not None and last.size % widest == 0
        self.lines = self._lines()

    @property
    def inside(self) -> str:
        """The mask of a full tile, where both of its parts are needed."""
        assert self.plan.rows is not None
        return f"({self._row_mask()}) & ({self._column_mask()})"

    def _column_mask(self) -> str:
        return "" if self.even else f"{self.plan.inner.index} < {self.plan.inner.extent}"

    def _row_mask(self) -> str:
        return f"{self.plan.rows.index} < {self.plan.rows.extent}" if self.plan.rows else ""

    def mask(self, loops: frozenset[int], *more: str) -> str:
        """`, mask=...` for an access that depends on `loops`, with further conditions; "" where none is needed."""
        columns = self._column_mask() if self.plan.touches_inner(loops) and self.analysis.loops else ""
        rows = self._row_mask() if self.plan.touches_rows(loops) else ""
        if columns and rows:
            self.uses_inside = True
            parts = ["inside"]
        else:
            parts = [p for p in (rows, columns) if p]
        parts += more
        if not parts:
            return ""
        if len(parts) == 1:
            return f", mask={parts[0]}"
        return f", mask={' & '.join(p if p.isidentifier() else f'({p})' for p in parts)}"

    def _lines(self) -> tuple[str, ...]:
        lines: list[tuple[str, str]] = []
        for placed in self.analysis.values:
            if isinstance(placed.item, ScalarSpec):
                self.speller.loaded(placed)
            elif isinstance(placed.item, TensorSpec):
                lines.append((self._load(placed), ""))
            elif isinstance(placed.item, Node) and placed.item.op == "take":
                lines += self._gather(placed)
            else:
                statement = self.speller.compute(placed)
                if statement is not None:
                    lines.append((f"{statement.target} = {statement.text}", statement.comment))
        lines += [(self._store(name, access), "") for name, _, access in self.analysis.stores]
        return tuple(commented(lines, "#"))

    def _pointer(self, access: Access, gathered: str = "") -> str:
        offset = self.plan.offset(access, self.indices, gathered)
        pointer = self.plan.pointers[access.tensor]
        return f"{pointer} + {offset}" if offset else pointer

    def _load(self, placed: Placed) -> str:
        assert placed.access is not None and isinstance(placed.item, TensorSpec)
        read = f"tl.load({self._pointer(placed.access)}{self.mask(placed.loops)})"
        self.speller.loaded(placed)
        return f"{self.plan.values[placed.key]} = {TRITON.widen(Expr(read), placed.item.dtype)}"

    def _gather(self, placed: Placed) -> list[tuple[str, str]]:
        """Two lines: the checked index, and the load that it masks."""
        assert placed.access is not None and isinstance(placed.item, Node)
        step = next(s for s in placed.access.steps if s.loop is None)
        assert step.gathered is not None
        name = self.plan.values[placed.key]
        at = self.plan.namer.name(f"{name}_at")
        index = self.speller.gather_index(step.gathered)
        size = self.plan.count(step.dims)
        dtype = self.speller.types[placed.key[0]].dtype
        mask = self.mask(placed.loops, f"{at} >= 0")
        read = f"tl.load({self._pointer(placed.access, at)}{mask}, other=0)"
        self.speller.loaded(placed)
        comment = self.speller.comment(placed.item, read)
        return [
            (f"{at} = gather_index({index}, {size}).to(INDEX)", "-1 where it is out of range"),
            (f"{name} = {TRITON.widen(Expr(read), dtype)}", comment),
        ]

    def _store(self, output: str, access: Access) -> str:
        key = next(k for name, k, _ in self.analysis.stores if name == output)
        dtype = self.speller.types[output].dtype
        loops = frozenset(s.loop for s in access.steps if s.loop is not None)
        once = self._once(loops)
        value = TRITON.narrow(TRITON.bound(self.speller.stored(key)), dtype)
        return f"tl.store({self._pointer(access)}, {value}{self.mask(loops, *once)})"

    def _once(self, loops: frozenset[int]) -> list[str]:
        """Conditions under which an output that does not span every loop is written by one program only."""
        missing = sorted(set(range(len(self.analysis.loops))) - loops)
        if self.plan.rows is None:
            return ["tl.program_id(0) == 0"] if missing else []
        conditions = []
        if not self.plan.touches_rows(loops):
            conditions.append("tile < tiles_in_row")
        else:
            outer = [n for n in missing if n < len(self.analysis.loops) - 1]
            conditions += [f"{self.plan.loops[n].index} == 0" for n in outer]
        if not self.plan.touches_inner(loops):
            conditions.append("tile % tiles_in_row == 0")
        return conditions


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
            text += f" // {later[0]}" if len(later) == 1 else f" // ({' * '.join(later)})"
        if position:
            text += f" % {names.extent}"
        lines.append(f"{names.index} = {text}")
    return tuple(lines)


def signature(plan: Plan, params: tuple[ParamSpec, ...]) -> str:
    """The kernel's parameter list."""
    names = [p.name for p in params] + ["INDEX: tl.constexpr", *(f"{t}: tl.constexpr" for t in plan.tiles)]
    return arguments(names, len(f"def {plan.entry}():"), "    ")
