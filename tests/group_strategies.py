"""Hypothesis strategies for whole groups: random DAGs over the op table, of any dtypes and shapes.

A group is legal by construction: each op is drawn first, then operands that it takes, cast where they must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from emitter.builder import Builder
from emitter.dtypes import BOOL, DTYPES, F32, I32, I64, DType
from emitter.errors import DTypeMismatch, LiteralOverflow
from emitter.group import Dim, DimSize, FusionGroup, Literal, Node, Operand, Ref, ScalarSpec, TensorSpec
from emitter.names import is_name
from emitter.ops import OPS, OpDef, OperandType
from emitter.verify import Shape, broadcast, verify

Draw = st.DrawFn

DIMS = ("M", "N", "K", "m", "L")
NAMES = tuple(
    name
    for name in """x y z w a b c float int tl row rows tile inside i v r out index exp load store VEC Index INDEX BLOCK
    threadIdx np launch kernel wide aligned vector shape x_ptr add_2 first_row tiles_in_row i0 f16 maximum take_at
    range min max next sum print std main double""".split()
    if is_name(name) and name not in DIMS
)
"""Names of inputs, values and groups: ordinary ones, and ones that generated code uses itself."""

LITERALS = (0, 1, 2, 3, -1, 7, 0.5, 1.0, -0.0, 1.5, -2.25, 3.0e-5, float("inf"), float("nan"), True, 127, 300, 2**40)
MAX_RANK = 6
COUNTS = (1, 2, 3, 4, 5, 6, 8, 12)
"""How many ops are drawn."""
OFTEN = ("index", "take", "take", "cast", "where", "where")
"""Ops drawn more often than others: those of structure."""

SIGN_OPEN = {"maximum", "minimum", "clip", "relu"}
"""Ops of floats whose result may be a zero of either sign."""


@st.composite
def groups(draw: Draw, exact: bool = False) -> FusionGroup:
    """A legal group: 1 to 4 tensors, up to 2 scalars, up to 12 drawn ops and the casts they need."""
    return _Drawing(draw, exact).group()


@dataclass
class _Drawing:
    """One group being drawn. types: dtype and shape of each value; scalars have shape ()."""

    draw: Draw
    exact: bool
    types: dict[str, tuple[DType, Shape]] = field(default_factory=dict)
    inputs: list[TensorSpec | ScalarSpec] = field(default_factory=list)

    def group(self) -> FusionGroup:
        start = self.draw(st.integers(0, len(NAMES) - 1))
        self.names = [*reversed(NAMES[start:] + NAMES[:start])]
        name = self.names.pop()
        self.space = self._space()
        self._draw_inputs()
        self.builder = Builder("drawn", [*NAMES, *DIMS])
        for _ in range(self.draw(st.sampled_from(COUNTS))):
            self._draw_node()
        outputs = self._outputs()
        group = FusionGroup(name, tuple(self.inputs), tuple(self.builder.nodes), outputs)
        needed = tuple(group.needed())
        used = {o.name for n in needed for o in n.operands if isinstance(o, Ref)}
        kept = tuple(i for i in self.inputs if i.name in used)
        ordered = tuple(n for n in self.builder.nodes if n in needed)
        group = FusionGroup(name, kept, ordered, outputs)
        verify(group)
        return group

    def _space(self) -> Shape:
        dims: list[Dim] = []
        unused = list(DIMS)
        for _ in range(self.draw(st.sampled_from((2, 1, 3, 0, 4, 5, 6)))):
            kind = self.draw(st.sampled_from(("new", "new", "new", "old", "literal")))
            if kind == "old" and any(isinstance(d, str) for d in dims):
                dims.append(self.draw(st.sampled_from([d for d in dims if isinstance(d, str)])))
            elif kind == "literal" or not unused:
                dims.append(self.draw(st.sampled_from((4, 1, 2, 3, 8))))
            else:
                dims.append(unused.pop(0))
        return tuple(dims)

    def _draw_inputs(self) -> None:
        dtypes = st.sampled_from((F32, *DTYPES))
        for position in range(self.draw(st.integers(1, 4))):
            whole = position == 0 or self.draw(st.booleans())
            self._tensor(self.draw(dtypes), self.space if whole else self._part(self.space))
        for _ in range(self.draw(st.sampled_from((0, 1, 2)))):
            dtype = self.draw(dtypes.filter(lambda d: not (d.is_float and d.bits == 8)))
            self._add(ScalarSpec(self.names.pop(), dtype), ())

    def _add(self, spec: TensorSpec | ScalarSpec, shape: Shape) -> str:
        self.inputs.append(spec)
        self.types[spec.name] = (spec.dtype, shape)
        return spec.name

    def _tensor(self, dtype: DType, shape: Shape) -> str:
        return self._add(TensorSpec(self.names.pop(), dtype, shape), shape)

    def _part(self, shape: Shape) -> Shape:
        """A shape that broadcasts to `shape`: fewer dims, some of them 1."""
        first = self.draw(st.integers(0, len(shape)))
        return tuple(1 if self.draw(st.sampled_from((False, False, True))) else d for d in shape[first:])

    def _draw_node(self) -> None:
        name = self.draw(st.sampled_from((EXACT_OPS if self.exact else tuple(OPS)) + OFTEN))
        if name == "index" and self.space:
            axis = self.draw(st.integers(-len(self.space), len(self.space) - 1))
            place = axis % len(self.space)
            self._node("index", [], {"axis": axis}, (self.space[place], *(1 for _ in self.space[place + 1 :])))
        elif name == "take":
            self._draw_take()
        elif name == "cast":
            operand = self.draw(st.sampled_from(self._values()))
            self._node("cast", [Ref(operand)], {"dtype": self.draw(st.sampled_from(DTYPES)).name})
        elif name != "index":
            self._draw_op(OPS[name])

    def _values(self) -> list[str]:
        """Operands to draw from, the latest first: all whose shape broadcasts to the space."""
        return [name for name, (_, shape) in reversed(self.types.items()) if self._fits(shape)]

    def _fits(self, shape: Shape) -> bool:
        last = self.space[len(self.space) - len(shape) :]
        return len(shape) <= len(self.space) and all(d in (1, s) for d, s in zip(shape, last, strict=True))

    def _draw_take(self) -> None:
        """A gather whose result has the shape of some last axes of the space: table and indices split it."""
        first = self.draw(st.integers(0, len(self.space)))
        result = self.space[first:]
        low = self.draw(st.integers(0, len(result)))
        high = self.draw(st.integers(low, len(result)))
        before, taken, after = result[:low], result[low:high], result[high:]
        if len(before) + 1 + len(after) > MAX_RANK:
            return
        size: Dim = self.draw(st.sampled_from(("V", 3, *[d for d in self.space if isinstance(d, str)])))
        table = self._tensor(self.draw(st.sampled_from(DTYPES)), (*before, size, *after))
        integers = [d for d in DTYPES if d.is_integer]
        computed = [n for n, (dtype, shape) in self.types.items() if dtype.is_integer and shape == taken]
        indices: Operand
        if not taken and self.draw(st.booleans()):
            indices = self.draw(st.sampled_from([Literal.of(0), Literal.of(-1), Literal.of(5), DimSize(size)]))
        elif computed and self.draw(st.booleans()):
            indices = Ref(self.draw(st.sampled_from(computed)))
        else:
            indices = Ref(self._tensor(self.draw(st.sampled_from(integers)), taken))
        axis = low if self.draw(st.booleans()) else low - (len(before) + 1 + len(after))
        self._node("take", [Ref(table), indices], {"axis": axis}, result)

    def _draw_op(self, definition: OpDef) -> None:
        count = len(definition.parameters)
        latest = self._values()
        tensors = [Ref(self.draw(st.sampled_from((latest[0], *latest)))) for _ in range(count)]
        operands: list[Operand] = list(tensors)
        if count > 1:
            for position in self.draw(st.sets(st.integers(0, count - 1), max_size=count - 1)):
                operands[position] = self._constant()
        if definition.name == "where":
            operands[0] = self._condition(tensors[0])
        attributes = {}
        if definition.name == "gelu":
            attributes["approximate"] = self.draw(st.sampled_from(("none", "tanh")))
        operands = self._legal(definition, operands)
        self._node(definition.name, operands, attributes)
        last = self.builder.nodes[-1]
        if self.exact and self._sign_open(last):
            self._node("add", [Ref(last.name), Literal.of(0.0)], {}, self.types[last.name][1])

    def _constant(self) -> Operand:
        dims = [DimSize(d) for d in self.space if isinstance(d, str)]
        if dims and self.draw(st.sampled_from((False, False, True))):
            return self.draw(st.sampled_from(dims))
        return Literal.of(self.draw(st.sampled_from(LITERALS)))

    def _condition(self, operand: Ref) -> Operand:
        conditions = [n for n in self._values() if self.types[n][0] is BOOL]
        if conditions:
            return Ref(self.draw(st.sampled_from(conditions)))
        return self._node("ne", [operand, Literal.of(0)], {})

    def _legal(self, definition: OpDef, operands: list[Operand]) -> list[Operand]:
        """The operands, cast or replaced where the op does not take them."""
        dtype = None
        while (problem := self._problem(definition, operands)) is not None:
            if problem is LiteralOverflow:
                operands = [Literal.of(1) if isinstance(o, Literal) else o for o in operands]
            else:
                integers = [d for d in DTYPES if d.is_integer]
                dtype = I32 if dtype else self.draw(st.sampled_from(integers))
                operands = [self._as(o, dtype) for o in operands]
        return operands

    def _as(self, operand: Operand, dtype: DType) -> Operand:
        if not isinstance(operand, Ref):
            return Literal.of(1)
        if self.types[operand.name][0] is dtype:
            return operand
        return self._node("cast", [operand], {"dtype": dtype.name})

    def _problem(self, definition: OpDef, operands: Sequence[Operand]) -> type[Exception] | None:
        try:
            signature = definition.signature(self._seen(operands), definition.bind_attributes({}, "drawn"))
        except (DTypeMismatch, LiteralOverflow) as error:
            return type(error)
        if self.exact and definition.ulp is not None and signature.result.is_float:
            return DTypeMismatch
        return None

    def _seen(self, operands: Sequence[Operand]) -> list[OperandType]:
        """What the dtype rules see of operands."""
        strong = [self.types[o.name][0] for o in operands if isinstance(o, Ref)]
        size: OperandType = 1 if any(d.is_float for d in strong) else I64
        return [
            self.types[o.name][0] if isinstance(o, Ref) else o.value if isinstance(o, Literal) else size
            for o in operands
        ]

    def _node(
        self, op_name: str, operands: Sequence[Operand], attributes: dict[str, object], shape: Shape | None = None
    ) -> Ref:
        if shape is None:
            shape = broadcast("drawn", {o.name: self.types[o.name][1] for o in operands if isinstance(o, Ref)})
        ref = self.builder.node(op_name, operands, attributes)
        assert isinstance(ref, Ref)
        node = self.builder.nodes[-1]
        if self.names and self.draw(st.booleans()):
            node = self.builder.nodes[-1] = replace(node, name=self.names.pop(), named=True)
        signature = OPS[node.op].signature(self._seen(node.operands), node.attributes)
        self.types[node.name] = (signature.result, shape)
        return Ref(node.name)

    def _sign_open(self, node: Node) -> bool:
        """Whether kernels may give a zero of either sign."""
        return node.op in SIGN_OPEN and self.types[node.name][0].is_float

    def _outputs(self) -> tuple[str, ...]:
        """Up to 4 nodes: most of those that no other node uses, and some that are used."""
        nodes = [n.name for n in self.builder.nodes if not (self.exact and self._sign_open(n))]
        if not nodes:
            return (self._node("copy", [Ref(self.inputs[0].name)], {}).name,)
        used = {o.name for n in self.builder.nodes for o in n.operands if isinstance(o, Ref)}
        last = [n for n in nodes[::-1] if n not in used][: self.draw(st.integers(1, 4))]
        more = self.draw(st.lists(st.sampled_from(nodes), max_size=2)) if len(last) < 4 else []
        drawn = [*dict.fromkeys([*last, *more])][:4]
        outputs = tuple(drawn)
        group = FusionGroup("g", tuple(self.inputs), tuple(self.builder.nodes), outputs)
        needed = list(group.needed())
        named = {o.name for n in needed for o in n.operands if isinstance(o, Ref)}
        dims = {d for t in self.inputs if isinstance(t, TensorSpec) and t.name in named for d in t.shape}
        wanted = {o.dim for n in needed for o in n.operands if isinstance(o, DimSize)}
        spaced = any(n.op == "index" for n in needed)
        whole = broadcast("drawn", {o: self.types[o][1] for o in outputs}) == self.space
        if not wanted <= dims or (spaced and not (whole and set(self.space) <= dims | {1})):
            return (*outputs, self._node("copy", [Ref(self.inputs[0].name)], {}).name)
        return outputs


EXACT_OPS = tuple(name for name, definition in OPS.items() if definition.ulp is None or name == "pow")
"""Ops that kernels compute bit for bit; of integers also pow."""
