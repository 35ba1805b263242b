"""The checks of the host half: what must hold of a launch's arguments before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .analysis import Access
from .errors import ShapeMismatch
from .group import Dim, ScalarSpec
from .layout import Layout
from .plan import Plan
from .text import wrapped


def _listed(items: Sequence[str]) -> list[str]:
    """The items with the brackets of a list on the first and the last."""
    if not items:
        return ["[]"]
    opened = [f"[{items[0]}", *items[1:]]
    return [*opened[:-1], f"{opened[-1]}]"]


def _is_gather(access: Access) -> bool:
    return any(step.loop is None for step in access.steps)


class HostChecks:
    """Lines of host code that check arguments and outputs.

    names and dims: what the host code calls the group's tensors, scalars and dims. layouts: by tensor.
    """

    def __init__(self, plan: Plan, names: Mapping[str, str], dims: Mapping[str, str]) -> None:
        self.plan, self.names, self.dims = plan, names, dims
        self.analysis = plan.analysis
        self.group = plan.analysis.verified.group
        self.types = plan.analysis.verified.types
        self.stores = {output: access for output, _, access in self.analysis.stores}
        self.loads: dict[str, list[Access]] = {}
        for value in self.analysis.values:
            if value.access:
                self.loads.setdefault(value.access.tensor, []).append(value.access)
        self.layouts: dict[str, Layout] = {a.tensor: a.layout for a in plan.accesses}

    def _shape(self, shape: Sequence[Dim]) -> str:
        texts = [self.dims[d] if isinstance(d, str) else str(d) for d in shape]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def layout_in_words(self, tensor: str) -> str:
        """What the kernel asks of a tensor's strides, in words."""
        layout = self.layouts[tensor]
        if layout.contiguous:
            return "C-contiguous"
        return "any strides" if layout.unit_axis is None else f"stride 1 along axis {layout.unit_axis}"

    def inputs(self) -> list[str]:
        """Every input becomes a view, or a number, of the right dtype and shape; dims get their sizes."""
        lines: list[str] = []
        known: set[str] = set()
        for item in self.group.inputs:
            name, numpy_name = self.names[item.name], item.dtype.numpy.name
            if isinstance(item, ScalarSpec):
                check = "half_scalar" if item.dtype.is_float and item.dtype.bits == 16 else "scalar"
                lines.append(f'{name} = {check}("{item.name}", {name}, "{numpy_name}")')
                continue
            lines.append(f'{name} = view("{item.name}", {name}, "{numpy_name}", {len(item.shape)})')
            new = [d for d in item.shape if isinstance(d, str) and d not in known]
            if new and len(new) == len(item.shape) == len(set(new)):
                unpacked = ", ".join(self.dims[d] for d in new)
                lines.append(f"{unpacked}{',' if len(new) == 1 else ''} = {name}.shape")
            else:
                for dim in dict.fromkeys(new):
                    lines.append(f"{self.dims[dim]} = {name}.shape[{item.shape.index(dim)}]")
                if item.shape:
                    shown = f"[{', '.join(map(str, item.shape))}]"
                    lines.append(f'expect_shape({name}, {self._shape(item.shape)}, "{shown}")')
            known |= set(new)
        lines += self._layout_checks([t.name for t in self.group.tensors if t.shape])
        return lines

    def _layout_checks(self, tensors: Sequence[str]) -> list[str]:
        contiguous = [self.names[t] for t in tensors if self.layouts[t].contiguous]
        lines = wrapped("expect_contiguous", contiguous, "", 4) if contiguous else []
        for tensor in tensors:
            layout = self.layouts[tensor]
            if layout.unit_axis is not None:
                lines.append(f"expect_unit({self.names[tensor]}, {layout.unit_axis})")
        return lines

    def outputs(self, names: Sequence[str]) -> list[str]:
        """Every output becomes a view, of the array given or of a new one."""
        like = self.names[self.group.tensors[0].name] if self.group.tensors else "None"
        lines = []
        for name, output in zip(names, self.group.outputs, strict=True):
            kind = self.types[output]
            given = name if len(names) > 1 else "out"
            shown = f"[{', '.join(map(str, kind.shape))}]"
            wanted = f'"{kind.dtype.numpy.name}", {self._shape(kind.shape)}'
            lines.append(f'{name} = output("{output}", {given}, {wanted}, {like}, "{shown}")')
        return lines + self._layout_checks([o for o in self.group.outputs if self.types[o].shape])

    def apart(self, names: Sequence[str]) -> list[str]:
        """Overlap checks; an input may be an output's exact view where each element is read where it is written."""
        inputs = [self.names[t.name] for t in self.group.tensors]
        like: dict[tuple[str, ...], list[str]] = {}
        for name, output in zip(names, self.group.outputs, strict=True):
            like.setdefault(tuple(self._overwritable(output)), []).append(name)
        lines = wrapped("expect_disjoint", names, "", 8) if len(names) > 1 else []
        for safe, outputs in like.items() if inputs else ():
            items = [*_listed(outputs), *_listed(inputs), *_listed([f'"{name}"' for name in safe])]
            lines += wrapped("expect_apart", items, "", 8)
        return lines

    def _overwritable(self, output: str) -> list[str]:
        """Inputs whose exact view the output may be."""
        stored = self.stores[output]
        if {s.loop for s in stored.steps} != set(range(len(self.analysis.loops))):
            return []
        return [t.name for t in self.group.tensors if self._read_in_place(t.name, stored)]

    def _read_in_place(self, tensor: str, stored: Access) -> bool:
        return all([s.loop for s in a.steps] == [s.loop for s in stored.steps] for a in self.loads.get(tensor, ()))

    def empty_test(self) -> str:
        """Whether the outputs have no elements."""
        sizes = self.space_sizes()
        if not sizes:
            return ""
        return f"{sizes[0]} == 0" if len(sizes) == 1 else f"0 in ({', '.join(sizes)})"

    def padding(self, names: Sequence[str]) -> tuple[str, ...]:
        """What lets outputs without the empty axis be computed: the least space that holds them, in scratch memory."""
        if not (self.plan.smaller and self.space_sizes()):
            return ()
        if 0 in self.analysis.verified.space:
            empty = next(o for o in self.group.outputs if 0 in self.types[o].shape)
            raise ShapeMismatch(
                f"group {self.group.name}: output {self.plan.smaller[0]} has elements and {empty} never has any; "
                "describe them as two groups"
            )
        space = [d for d in dict.fromkeys(self.analysis.verified.space) if isinstance(d, str)]
        # What a smaller output reads has its axes; but a gather also steps over axes that it picks from.
        gathered = [tensor for tensor, reads in self.loads.items() if any(_is_gather(a) for a in reads)]
        kept = {d for name in (*self.plan.smaller, *gathered) for d in self.types[name].shape}
        sizes = [f"{self.dims[d]} or 1" if d in kept else "1" for d in space]
        lines = [f"{', '.join(self.dims[d] for d in space)} = {', '.join(sizes)}"]
        tensors = [(self.names[t.name], t.shape) for t in self.group.tensors]
        tensors += [(name, self.types[o].shape) for name, o in zip(names, self.group.outputs, strict=True)]
        spanned = [(name, shape) for name, shape in tensors if set(shape) & set(self.analysis.verified.space)]
        return (*lines, *(f"{name} = padded({name}, {self._shape(shape)})" for name, shape in spanned))

    def space_sizes(self) -> list[str]:
        """Sizes of the iteration space that may be 0."""
        space = self.analysis.verified.space
        return [self.dims[d] if isinstance(d, str) else str(d) for d in space if isinstance(d, str) or d == 0]
