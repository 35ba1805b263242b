"""Emission: a group, a backend and a few choices to a `KernelSource`, in one pass."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from . import cuda_source, host_source, triton_source
from .about import banner, manifest, summary
from .analysis import analyse
from .dtypes import DType
from .errors import BadSchedule, UnknownDim, UnknownName
from .group import Dim, DimSize, FusionGroup, TensorSpec
from .host_source import Host
from .layout import CONTIGUOUS, Layout
from .lower import lower
from .plan import Plan, make_plan, parameters, walked_along_inner
from .prelude import defined, needed
from .read import to_toml
from .schedule import SQUARE, Schedule, choose
from .source import Backend, GridExpr, IndexType, Instance, KernelSource, ParamSpec, write_files
from .templates import render
from .text import arguments, strings
from .verify import Verified, verify

BACKENDS: tuple[Backend, ...] = ("triton", "cuda")
CUDA_OPTIONS = ("--std=c++17", "--fmad=false")


@dataclass(frozen=True)
class _Job:
    """One emission: the group as given, its lowered form, the plan and everything chosen."""

    group: FusionGroup
    plan: Plan
    schedule: Schedule
    backend: Backend
    banner: tuple[str, str]
    summary: str

    @property
    def flat(self) -> bool:
        return self.plan.rows is None

    @property
    def threads(self) -> int:
        """Threads of a CUDA block: at least one row of a square tile."""
        return max(self.schedule.threads, SQUARE) if self.plan.transposed else self.schedule.threads


def emit(
    group: FusionGroup,
    backend: Backend = "triton",
    *,
    schedule: Schedule | None = None,
    layouts: Mapping[str, Layout | str] | None = None,
    static: Mapping[str, int] | None = None,
) -> KernelSource:
    """Source of `group` for one backend: device and host text, a pure function of its arguments.

    schedule: tile sizes and the like; chosen by dtype and structure when None. layouts: by tensor, where not
    C-contiguous: a `Layout`, or `strided`, or `unit:AXIS`. static: sizes of dims fixed in the source.
    Raises the errors of `emitter.errors`.
    """
    if backend not in BACKENDS:
        raise BadSchedule(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    original = pin(group, static or {})
    verified = verify(original)
    chosen = _layouts(verified, layouts or {})
    lowered = lower(verified)
    analysis = analyse(lowered, chosen)
    prelude = triton_source.PRELUDE if backend == "triton" else cuda_source.PRELUDE
    if backend == "triton":
        beside = triton_source.BESIDE | set(defined(host_source.PRELUDE))
        plan = make_plan(analysis, "python", triton_source.RESERVED | set(defined(prelude)), beside)
    else:
        plan = make_plan(analysis, "cpp", cuda_source.RESERVED | set(defined(prelude)), set())
    default = choose(_vector_dtypes(plan), plan.rows is None, bool(plan.transposed))
    job = _Job(
        original,
        plan,
        schedule or default,
        backend,
        banner(group, backend, schedule or default, default, plan, chosen, static or {}),
        summary(original, verified),
    )
    return _triton(job) if backend == "triton" else _cuda(job)


def write(
    group: FusionGroup, folder: str | Path, backends: Iterable[Backend] = BACKENDS, **choices: object
) -> list[Path]:
    """Emit `group` for each backend into `folder`/<group name>/, with group.toml and manifest.json; the paths."""
    sources = [emit(group, backend, **choices) for backend in backends]  # type: ignore[arg-type]
    files = [file for source in sources for file in source.files]
    files += [("group.toml", to_toml(group)), ("manifest.json", manifest(group, sources))]
    return write_files(Path(folder) / group.name, files)


def pin(group: FusionGroup, static: Mapping[str, int]) -> FusionGroup:
    """The group with some dims replaced by sizes."""
    for dim, size in static.items():
        if dim not in group.dims:
            known = ", ".join(group.dims) or "none"
            raise UnknownDim(f"group {group.name}: static names {dim!r}; its dims are {known}")
        if not isinstance(size, int) or size < 0:
            raise UnknownDim(f"group {group.name}: static size of {dim} must be a non-negative integer, got {size!r}")
    if not static:
        return group

    def pinned(dim: Dim) -> Dim:
        return static.get(dim, dim) if isinstance(dim, str) else dim

    inputs = tuple(
        replace(i, shape=tuple(map(pinned, i.shape))) if isinstance(i, TensorSpec) else i for i in group.inputs
    )
    nodes = tuple(
        replace(n, operands=tuple(DimSize(pinned(o.dim)) if isinstance(o, DimSize) else o for o in n.operands))
        for n in group.nodes
    )
    return FusionGroup(group.name, inputs, nodes, group.outputs)


def _layouts(verified: Verified, given: Mapping[str, Layout | str]) -> dict[str, Layout]:
    group = verified.group
    tensors = [t.name for t in group.tensors] + list(group.outputs)
    chosen = {}
    for name, layout in given.items():
        if name not in tensors:
            raise UnknownName(f"group {group.name}: layouts names {name!r}; its tensors are {', '.join(tensors)}")
        rank = len(verified.types[name].shape)
        parsed = Layout.parse(layout, rank) if isinstance(layout, str) else layout
        if rank and parsed != CONTIGUOUS:
            chosen[name] = parsed
    return chosen


def _vector_dtypes(plan: Plan) -> list[DType]:
    """dtypes of what the kernel reads and writes along its inner loop."""
    types = plan.analysis.verified.types
    return [types[tensor].dtype for tensor in sorted(walked_along_inner(plan))]


def _template(job: _Job) -> str:
    """The CUDA C loop structure."""
    return "pointwise_tiled" if job.plan.transposed else "pointwise"


def _triton(job: _Job) -> KernelSource:
    plan = job.plan
    body = triton_source.TritonBody(plan, job.schedule, job.group)
    params = parameters(plan, "triton")
    tiles = plan.tiles
    inside = body.inside if body.uses_inside else ""
    coordinates = triton_source.coordinates(plan)
    texts = [*body.lines, *coordinates]
    helpers = needed(triton_source.PRELUDE, texts)
    context = triton_source.TritonContext(
        banner="\n".join(f"# {line}" for line in job.banner),
        summary=job.summary,
        libdevice=any("libdevice." in t for t in [*texts, *helpers]),
        helpers=tuple(helpers),
        entry=plan.entry,
        signature=triton_source.signature(plan, params),
        flat=job.flat,
        inner=plan.inner,
        rows=plan.rows,
        row_block=tiles[0],
        column_block=tiles[-1],
        coordinates=coordinates,
        inside=inside,
        body=body.lines,
    )
    device = render("triton/pointwise.py.jinja", context)
    build = _BuildTriton.of(plan, params, tiles, job.schedule)
    host, grid = _host(job, params, render("triton/build.py.jinja", build))
    return KernelSource(
        "triton",
        job.group.name,
        plan.entry,
        device,
        host,
        params,
        tiles,
        grid,
        _instances(job.schedule, "triton", job.flat),
        job.schedule,
        (),
        (("triton_kernel.py", f"{device}\n\n{host}"),),
    )


def _cuda(job: _Job) -> KernelSource:
    plan = job.plan
    body = cuda_source.CudaBody(plan, job.group)
    params = parameters(plan, "cuda")
    lines = body.lines
    parts = {
        "hoisted": cuda_source.body_text(lines.hoisted),
        "row_statements": cuda_source.body_text(lines.rows),
        "element_declarations": cuda_source.body_text(lines.declarations),
        "staged": cuda_source.body_text(lines.staged),
        "elements": cuda_source.body_text(lines.elements),
        "stores": cuda_source.body_text(lines.stores),
    }
    used = [text for part in parts.values() for text in part]
    signature = cuda_source.signature(plan, params)
    helpers = needed(cuda_source.PRELUDE, [*used, signature, "" if job.flat else "ceil_div"])
    context = cuda_source.CudaContext(
        banner="\n".join(f"// {line}" for line in job.banner),
        summary=job.summary,
        helpers=tuple(helpers),
        threads=job.threads,
        entry=plan.entry,
        signature=signature,
        flat=job.flat,
        inner=plan.inner,
        rows=plan.rows,
        rows_per_thread=job.schedule.rows,
        square=SQUARE,
        row_origin=body.origins[0],
        inner_origin=body.origins[1],
        coordinates=cuda_source.coordinates(plan),
        **parts,
    )
    device = render(f"cuda/{_template(job)}.cu.jinja", context)
    build = _BuildCuda(plan.entry, ", ".join(f'"{o}"' for o in CUDA_OPTIONS))
    host, grid = _host(job, params, render("cuda/build.py.jinja", build))
    banner = "\n".join(f"# {line}" for line in job.banner)
    host = render("cuda/launch.py.jinja", _HostFile(banner, job.summary)) + "\n\n" + host
    return KernelSource(
        "cuda",
        job.group.name,
        plan.entry,
        device,
        host,
        params,
        (),
        grid,
        _instances(job.schedule, "cuda", job.flat),
        job.schedule,
        (),
        (("cuda_kernel.cu", device), ("cuda_launch.py", host)),
    )


@dataclass(frozen=True)
class _BuildCuda:
    entry: str
    options: str


@dataclass(frozen=True)
class _HostFile:
    banner: str
    summary: str


@dataclass(frozen=True)
class _BuildTriton:
    entry: str
    signature_dict: str
    constants: str
    divisible: str
    options: str
    parameter_count: int

    @classmethod
    def of(cls, plan: Plan, params: tuple[ParamSpec, ...], tiles: tuple[str, ...], schedule: Schedule) -> _BuildTriton:
        types = arguments([f'"{p.name}": {_triton_type(p)}' for p in params], len("    signature = {}"), "        ")
        types += "    " if types.endswith("\n") else ""
        constants = ['"INDEX": tl.int64 if index == "i64" else tl.int32']
        constants += [f'"{t}": tile[{n}]' for n, t in enumerate(tiles)]
        options = {"num_warps": schedule.num_warps, "num_stages": schedule.num_stages}
        shown = {**options, "enable_fp_fusion": False, "enable_reflect_ftz": False}
        return cls(
            plan.entry,
            f"{{{types}}}",
            f"{{{', '.join(constants)}}}",
            strings([p.name for p in params if p.divisible]),
            json.dumps(shown).replace("false", "False"),
            len(params),
        )


_TRITON_TYPES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "f8e4m3": "u8", "f8e5m2": "u8"}


def _triton_type(param: ParamSpec) -> str:
    """A parameter's type in Triton's notation, as Python source."""
    if param.dtype is None:
        return "index"
    name = param.dtype.name if param.kind == "pointer" else param.dtype.compute.name
    if name == "bool":
        return '"*i1"' if param.kind == "pointer" else '"u1"'
    return f'"{"*" if param.kind == "pointer" else ""}{_TRITON_TYPES.get(name, name)}"'


def _host(job: _Job, params: tuple[ParamSpec, ...], build: str) -> tuple[str, GridExpr]:
    host = Host(job.plan, params, job.schedule, job.backend, job.summary)
    launch = render("host/launch.py.jinja", host.context())
    helpers = needed(host_source.PRELUDE, [launch, build, "use_arrays"])
    return "\n\n\n".join([*helpers, build.rstrip("\n"), launch]), host.grid


def _instances(schedule: Schedule, backend: Backend, flat: bool) -> tuple[Instance, ...]:
    """Every compilation the host code can ask for, the usual one first."""
    if backend == "cuda":
        tiles: list[tuple[int, ...]] = [()]
    elif flat:
        tiles = [(schedule.tile,)]
    else:
        tiles = [(schedule.tile // w, w) for w in reversed(schedule.widths())]
    indices: tuple[IndexType, ...] = ("i32", "i64")
    vectors = dict.fromkeys((schedule.vector, 1))
    return tuple(Instance(i, v, t) for i in indices for v in vectors for t in tiles)
