"""The host half, for both backends: fills `templates/host/launch.py.jinja`, straight-line code for one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .analysis import Analysis
from .group import Dim, ScalarSpec, TensorSpec, type_text
from .host_checks import HostChecks
from .names import Namer
from .plan import Plan
from .prelude import defined
from .schedule import SQUARE, Schedule
from .source import Backend, GridExpr, ParamSpec
from .statements import INDEX_LIMIT
from .text import arguments, strings, wrapped

PRELUDE = "host/arrays.py"
_RESERVED = {"all", "results", "out", "wide", "aligned", "vector", "block_x", "block_y", "index", "arguments", "kernel"}
"""What the template and the lines made here call their own variables."""


@dataclass(frozen=True)
class LaunchContext:
    """The names of the template."""

    signature: str
    summary: str
    argument_docs: tuple[str, ...]
    out_doc: str
    returns_doc: str
    empty_doc: str
    checks: tuple[str, ...]
    several: bool
    out_names: str
    out_labels: str
    outputs: tuple[str, ...]
    one_device: tuple[str, ...]
    apart: tuple[str, ...]
    empty_test: str
    counts: tuple[str, ...]
    all_empty: str
    padding: tuple[str, ...]
    result: str
    sizes: tuple[str, ...]
    wide: str
    aligned: tuple[str, ...]
    tile: tuple[str, ...]
    arguments: str
    anchor: str
    vector: str
    tile_tuple: str
    grid: str
    block: str


class Host:
    """Names of the host code, and the lines of its parts."""

    def __init__(
        self, plan: Plan, params: tuple[ParamSpec, ...], schedule: Schedule, backend: Backend, summary: str
    ) -> None:
        self.plan, self.params, self.schedule, self.backend, self.summary = plan, params, schedule, backend, summary
        self.analysis: Analysis = plan.analysis
        self.group = plan.analysis.verified.group
        self.types = plan.analysis.verified.types
        sizes = {p.name for p in params if p.kind in ("size", "stride")} - set(self.group.dims)
        namer = Namer("python", _RESERVED | sizes | set(defined(PRELUDE)))
        self.names = {i.name: namer.name(i.name) for i in self.group.inputs}
        self.names |= {o: namer.name(o) for o in self.group.outputs}
        self.dims = {d: namer.name(d) for d in self.group.dims}
        self.checks = HostChecks(plan, self.names, self.dims)
        self.blocks = tuple(namer.name(b) for b in self._block_wanted())

    def _block_wanted(self) -> tuple[str, ...]:
        if self.plan.rows is None:
            return ("block",)
        return f"block_{self.plan.rows.index}", f"block_{self.plan.inner.index}"

    @property
    def grid(self) -> GridExpr:
        """One program or block for each tile."""
        inner = (self._extent(self.plan.inner.extent), self.blocks[-1])
        if self.plan.rows is None:
            return GridExpr((inner,))
        return GridExpr(((self._extent(self.plan.rows.extent), self.blocks[0]), inner))

    def context(self) -> LaunchContext:
        """Everything the template needs."""
        group = self.group
        outputs = group.outputs
        names = [self.names[o] for o in outputs]
        results = [f"{n}.array" for n in names]
        views = [self.names[t.name] for t in group.tensors] + names
        anchor = self.names[group.tensors[0].name] if group.tensors else names[0]
        parameters = [self.names[i.name] for i in group.inputs]
        return LaunchContext(
            signature=arguments([*parameters, "*", "out=None"], len("def launch():"), "    "),
            summary=self.summary,
            argument_docs=tuple(self._document(i) for i in group.inputs),
            out_doc=self._out_document(),
            returns_doc=" and ".join(f"{n}: {self.types[o]}" for n, o in zip(names, outputs, strict=True)),
            empty_doc="; an empty result launches nothing" if self.checks.space_sizes() else "",
            checks=tuple(self.checks.inputs()),
            several=len(outputs) > 1,
            out_names=", ".join(names),
            out_labels=strings(outputs),
            outputs=tuple(self.checks.outputs(names)),
            one_device=tuple(wrapped("same_device", views, "", 4)) if len(views) > 1 else (),
            apart=tuple(self.checks.apart(names)),
            empty_test=self.checks.empty_test(),
            counts=tuple(f"{name} = {self.dims[dim]}" for name, dim in self.plan.counts.items()),
            all_empty=f"all(0 in y.shape for y in ({', '.join(names)}))",
            padding=self.checks.padding(names),
            result=", ".join(results),
            sizes=tuple(self._sizes()),
            wide=self._wide(),
            aligned=self._aligned(),
            tile=(*self._tile(), *self._index()),
            arguments=self._arguments(),
            anchor=anchor,
            vector="vector" if self.backend == "cuda" else f"{self.schedule.vector} if aligned else 1",
            tile_tuple=self._tile_tuple(),
            grid=self.grid.python(),
            block=self._block(),
        )

    def _document(self, item: TensorSpec | ScalarSpec) -> str:
        if isinstance(item, ScalarSpec):
            return f"{self.names[item.name]}: a number, passed as {item.dtype.numpy.name}"
        layout = self.checks.layout_in_words(item.name)
        return f"{self.names[item.name]}: array {type_text(item.dtype, item.shape)} ({item.dtype.numpy.name}), {layout}"

    def _out_document(self) -> str:
        if len(self.group.outputs) > 1:
            return f"arrays to write to, a tuple ({', '.join(self.group.outputs)}); None allocates them"
        return "an array to write to; None allocates one"

    def _sizes(self) -> list[str]:
        lines = []
        for name, expression in self.plan.sizes.items():
            text = " * ".join(self.dims.get(f, f) for f in expression.split(" * "))
            if self._extent(name) != text:
                lines.append(f"{self._extent(name)} = {text}")
        return lines

    def _extent(self, name: str) -> str:
        """A size in the host code: a dim's own name, else the parameter's."""
        expression = self.plan.sizes.get(name, name)
        return self.dims.get(expression, name)

    def _wide(self) -> str:
        """Whether some offset or coordinate may reach the limit of 32-bit indices."""
        space = [d for d in self.analysis.verified.space if d != 1]
        spans = {self._product(space): None} if space else {}
        for name in (*(t.name for t in self.group.tensors), *self.group.outputs):
            shape = [d for d in self.types[name].shape if d != 1]
            if shape and not self.checks.layouts[name].contiguous:
                spans[f"span({self.names[name]})"] = None
            elif any(shape.count(d) > space.count(d) for d in shape):  # else it is no larger than the space
                spans[self._product(shape)] = None
        limit = f"2**{INDEX_LIMIT.bit_length() - 1}"
        if not spans:
            return "False"
        texts = list(spans)
        return f"max({', '.join(texts)}) >= {limit}" if len(texts) > 1 else f"{texts[0]} >= {limit}"

    def _product(self, dims: Sequence[Dim]) -> str:
        return " * ".join(self.dims[d] if isinstance(d, str) else str(d) for d in dims)

    def _aligned(self) -> tuple[str, ...]:
        """Whether vectors may be read and written: what must be a multiple of 16 is."""
        terms = []
        pointer_of = {p: t for t, p in self.plan.pointers.items()}
        for param in self.params:
            if not param.divisible:
                continue
            if param.kind == "pointer":
                terms.append(f"{self.names[pointer_of[param.name]]}.pointer")
            elif param.kind == "size":
                terms.append(self._extent(param.name))
            else:
                terms.append(self._stride(param.name))
        literal = self.plan.inner.extent
        if self.plan.in_rows and literal.isdigit() and int(literal) % 16:
            return ("aligned = False  # rows of an odd length",)
        return tuple(wrapped("aligned = ", terms, " % 16 == 0", 4, "|")) if terms else ("aligned = True",)

    def _stride(self, name: str) -> str:
        tensor, axis = self.plan.strides[name]
        return f"{self.names[tensor]}.strides[{axis}]"

    def _tile(self) -> list[str]:
        schedule, inner = self.schedule, self._extent(self.plan.inner.extent)
        if self.backend == "triton":
            if self.plan.rows is None:
                return [f"{self.blocks[0]} = {schedule.tile}"]
            row, column = self.blocks
            widths = schedule.widths()
            return [
                f"{column} = next(width for width in {widths} if width >= min({inner}, {widths[-1]}))",
                f"{row} = {schedule.tile} // {column}",
            ]
        vector = f"vector = {schedule.vector} if aligned else 1"
        if self.plan.rows is None:
            return [vector, f"{self.blocks[0]} = {schedule.threads} * vector"]
        row, column = self.blocks
        if self.plan.transposed:
            return [
                vector,
                f"{row} = {column} = {SQUARE}",
                f"block_x = {column} // vector",
                f"block_y = {max(schedule.threads, SQUARE)} // block_x",
            ]
        return [
            vector,
            f"block_x = min({schedule.threads}, 1 << (-(-{inner} // vector) - 1).bit_length())",
            f"block_y = {schedule.threads} // block_x",
            f"{row}, {column} = block_y * {schedule.rows}, block_x * vector",
        ]

    def _index(self) -> list[str]:
        """The type of sizes and strides, where there are any."""
        sized = any(p.kind in ("size", "stride") for p in self.params)
        return ["index = np.int64 if wide else np.int32"] if sized else []

    def _tile_tuple(self) -> str:
        if self.backend == "cuda":
            return "()"
        return f"({', '.join(self.blocks)}{',' if len(self.blocks) == 1 else ''})"

    def _block(self) -> str:
        if self.backend == "triton":
            return f"({32 * self.schedule.num_warps}, 1, 1)"
        return f"({self.schedule.threads}, 1, 1)" if self.plan.rows is None else "(block_x, block_y, 1)"

    def _arguments(self) -> str:
        pointer_of = {p: t for t, p in self.plan.pointers.items()}
        scalar_of = {self.plan.values[v.key]: v.key[0] for v in self.analysis.values if isinstance(v.item, ScalarSpec)}
        texts = []
        for param in self.params:
            if param.kind == "pointer":
                texts.append(f"{self.names[pointer_of[param.name]]}.pointer")
            elif param.kind == "scalar":
                texts.append(self.names[scalar_of[param.name]])
            elif param.kind == "size":
                texts.append(f"index({self._extent(param.name)})")
            else:
                texts.append(f"index({self._stride(param.name)})")
        text = arguments(texts, len("    arguments = ()"), "        ")
        return text + ("    " if text.startswith("\n") else "," if len(texts) == 1 else "")
