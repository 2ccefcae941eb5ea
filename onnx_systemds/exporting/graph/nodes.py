"""The parts of a graph under construction: tensors, nodes, and the scopes (graph, branches, bodies) they are in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar, Union

import numpy as np

from onnx_systemds.exporting.stored_matrices import StoredMatrix
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.model.ir import ML

DOMAINS = {ML: 2}
"""Versions of the operators that are not ONNX's own."""

Array = np.ndarray[Any, Any]

FLOAT, WIDE, NARROW, INT, BOOL, TEXT = "float", "wide", "narrow", "int", "bool", "text"
_CONSTANT_DTYPES: dict[str, Any] = {FLOAT: np.float64, WIDE: np.float64, INT: np.int64, BOOL: np.bool_, TEXT: object}


Operand = Union["Tensor", float]
Found = TypeVar("Found")


def _unary(op: str) -> Callable[[Tensor], Tensor]:
    return lambda x: x.apply(op)


def _binary(op: str) -> Callable[[Tensor, Operand], Tensor]:
    return lambda x, other: x.binary(op, other)


class Tensor:
    """A value of the graph. Its name is settled when the model is written; until then there is a `hint`.

    In formulas Python's operators make nodes, and its numbers become constants of the kind of the tensor beside them.
    graph: the `Operators` that make them, None for what passes insert.

    kind: float (float32 or float64, as the model is exported), wide (float64 whatever the model is), narrow (16 bits,
    from `passes.narrowing` on), int (int64), bool or text. constant: the content if it is known, floats always as
    float64. node: what computes it, None for inputs and constants. stored: the file of a weight whose content is read
    only when the model is written. counts: whether it is 1, 2, 3 ... row_choice: for a matrix with a single 1 in each
    row and 0 elsewhere, the positions of the 1 from 0 on. column_choice: the same by columns. entries: of a sparse
    matrix. replaced: what it is another matrix with.
    """

    __slots__ = ("column_choice", "constant", "counts", "dims", "entries", "graph", "hint", "kind", "node", "replaced",
                 "row_choice", "stored")

    def __init__(self, kind: str, dims: Dims, hint: str = "", constant: Array | None = None, graph: Any = None) -> None:
        self.kind = kind
        self.dims = dims
        self.hint = hint
        self.constant = constant
        self.graph = graph
        self.node: Node | None = None
        self.stored: StoredMatrix | None = None
        self.counts = False
        self.row_choice: Tensor | None = None
        self.column_choice: Tensor | None = None
        self.entries: Entries | None = None
        self.replaced: Replacement | None = None

    def __repr__(self) -> str:
        return f"Tensor({self.hint!r}, {self.kind}, {list(map(str, self.dims))})"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    def dims_with(self, axis: int, size: Dim) -> Dims:
        """Return the dims with another size along an axis, counted from 0."""
        return tuple(size if i == axis else dim for i, dim in enumerate(self.dims))

    @property
    def is_constant(self) -> bool:
        """Whether its content is known, or in a file."""
        return self.constant is not None or self.stored is not None

    @property
    def only_element(self) -> Any:
        """Its only element as Python has it (a text, too), where that is known; None for any other tensor."""
        return self.constant.item() if self.constant is not None and self.constant.size == 1 else None

    @property
    def is_single(self) -> bool:
        """Whether it has one element."""
        return all(dim == 1 for dim in self.dims)

    # formulas

    def of(self, value: Operand) -> Tensor:
        """Return a number of Python as a constant of the same kind (a float beside ints is one), any other as it is."""
        if isinstance(value, Tensor):
            return value
        kind = FLOAT if isinstance(value, float) and self.kind in (INT, BOOL) else self.kind
        found: Tensor = self.graph.constant(np.float64(value), kind)
        return found

    def apply(self, op: str) -> Tensor:
        """Return what an operator of one input gives."""
        found: Tensor = self.graph.unary(op, self)
        return found

    def binary(self, op: str, other: Operand) -> Tensor:
        """Return what an elementwise operator of two inputs gives."""
        found: Tensor = self.graph.binary(op, self, self.of(other))
        return found

    __add__ = _binary("Add")
    __sub__ = _binary("Sub")
    __mul__ = _binary("Mul")
    __truediv__ = _binary("Div")
    __mod__ = _binary("Mod")
    __pow__ = _binary("Pow")
    __and__ = _binary("And")
    __or__ = _binary("Or")
    __lt__ = _binary("Less")
    __le__ = _binary("LessOrEqual")
    __gt__ = _binary("Greater")
    __ge__ = _binary("GreaterOrEqual")
    __neg__ = _unary("Neg")
    __abs__ = _unary("Abs")
    __invert__ = _unary("Not")

    def __radd__(self, other: float) -> Tensor:
        return self.of(other) + self

    def __rsub__(self, other: float) -> Tensor:
        return self.of(other) - self

    def __rmul__(self, other: float) -> Tensor:
        return self.of(other) * self

    def __rtruediv__(self, other: float) -> Tensor:
        return self.of(other) / self

    def equals(self, other: Operand) -> Tensor:
        """Return whether elements are equal to others; `==` says whether it is the same tensor."""
        return self.binary("Equal", other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            raise TypeError("a tensor is compared with a number by equals")
        return self is other

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise TypeError("whether a tensor holds is known by the run alone: ctx.g.where(tensor, a, b) chooses")

    def at_least(self, other: Operand) -> Tensor:
        """Return the larger of both."""
        return self.binary("Max", other)

    def at_most(self, other: Operand) -> Tensor:
        """Return the smaller of both."""
        return self.binary("Min", other)

    def exp(self) -> Tensor:
        """Return the power of e."""
        return self.apply("Exp")

    def log(self) -> Tensor:
        """Return the natural logarithm."""
        return self.apply("Log")

    def root(self) -> Tensor:
        """Return the square root."""
        return self.apply("Sqrt")

    def sign(self) -> Tensor:
        """Return -1, 0 or 1."""
        return self.apply("Sign")


@dataclass(frozen=True)
class Range:
    """Places of one axis, from `start` (counted from 0) on, `size` many."""

    start: Dim
    size: Dim

    @property
    def stop(self) -> Dim:
        """The place after the last one."""
        return self.start + self.size


@dataclass(frozen=True, eq=False)
class Convolution:
    """A Conv of images, each in a column, that the product with a matrix is.

    kernels: its filters. image: channels, height and width. result: height and width. attributes: those of the Conv.
    """

    kernels: Tensor
    image: Dims
    result: Dims
    attributes: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Entries:
    """The numbers of a matrix that is 0 elsewhere, those at one place added up: `weights`, 1 for None.

    rows, cols: their positions (int, rank 1, from 0 on); None: one after the other. Places outside count nowhere.
    convolution: what the product with the matrix is, None for others.
    """

    rows: Tensor | None
    cols: Tensor | None
    weights: Tensor | None
    convolution: Convolution | None = None

    @property
    def transposed(self) -> Entries:
        """Those of the transposed matrix."""
        return Entries(self.cols, self.rows, self.weights)


@dataclass(frozen=True, eq=False)
class Replacement:
    """A matrix `old` in which a range of `rows` and `cols` holds `part`."""

    old: Tensor
    part: Tensor
    rows: Range
    cols: Range


@dataclass(eq=False)
class Node:
    """An operator, its inputs (None: left out), outputs and attributes; `place` is the ``file:line`` of the script."""

    op: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Attribute]
    place: str = ""
    scope: Scope | None = None

    def operand(self, position: int = 0) -> Tensor:
        """Return an input that the operator is never without."""
        found = self.inputs[position]
        assert found is not None
        return found

    def further_contents(self) -> list[Array | None]:
        """Return what is known of the inputs behind the first, None for one that is left out or computed."""
        return [None if tensor is None else tensor.constant for tensor in self.inputs[1:]]

    def given(self) -> list[Tensor]:
        """Return the inputs that are not left out."""
        return [tensor for tensor in self.inputs if tensor is not None]

    def integer(self, name: str) -> int:
        """Return an attribute that is an integer."""
        found = self.attributes[name]
        assert isinstance(found, int)
        return found

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a list of integers."""
        found = self.attributes[name]
        assert isinstance(found, tuple)
        return tuple(map(int, found))

    def subgraphs(self) -> list[SubGraph]:
        """Return the attributes that are graphs."""
        return [value for value in self.attributes.values() if isinstance(value, SubGraph)]


@dataclass(eq=False)
class Scope:
    """The nodes of one graph in the order of their making, and those known for reuse."""

    parent: Scope | None = None
    nodes: list[Node] = field(default_factory=list)
    known: dict[Any, tuple[Tensor, ...]] = field(default_factory=dict)

    def with_parents(self) -> Iterator[Scope]:
        """Yield this scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


@dataclass(eq=False)
class SubGraph:
    """A branch of an If or the body of a Loop."""

    scope: Scope
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(eq=False)
class FunctionBody(SubGraph):
    """The body of a function of the model, which sees nothing but its inputs; `place` is where it is defined."""

    domain: str
    name: str
    place: str


@dataclass(eq=False)
class Unit:
    """What is built at one time: the model, or a function of it, which is called in a scope of another unit.

    sources: what each size symbol is read from: an axis of a tensor, or (None) the number in it. wholes: the same for
    sizes of inputs that are no symbol by themselves. asked: the inputs of a function that are sizes of its caller.
    certain: whether it runs whenever the model runs.
    """

    scope: Scope = field(default_factory=Scope)
    caller: tuple[Unit, Scope] | None = None
    certain: bool = True
    constants: dict[Any, Tensor] = field(default_factory=dict)
    sources: dict[str, tuple[Tensor, int | None]] = field(default_factory=dict)
    wholes: dict[Dim, tuple[Tensor, int | None]] = field(default_factory=dict)
    asked: dict[str, Tensor] = field(default_factory=dict)


CONVOLUTIONS = ("Conv", "ConvTranspose")
Attribute = Union[int, float, str, tuple[int, ...], tuple[float, ...], Array, SubGraph]


def pairs(node: Node | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Return the two inputs of a node in both orders; none of no node."""
    if node is not None:
        yield node.operand(0), node.operand(1)
        yield node.operand(1), node.operand(0)


def first_found(tried: Iterable[Found | None]) -> Found | None:
    """Return the first that is no None; those after it are not asked for."""
    return next((found for found in tried if found is not None), None)


def made_by(tensor: Tensor | None, *ops: str) -> Node | None:
    """Return the node that makes a tensor if it is one of these operators, None for any other, or no tensor."""
    node = None if tensor is None else tensor.node
    return node if node is not None and node.op in ops else None


def source_of(tensor: Tensor | None, *ops: str) -> Tensor | None:
    """Return what one of these operators made a tensor of, its first input; None for any other."""
    node = made_by(tensor, *ops)
    return None if node is None else node.inputs[0]


def repeated_number(tensor: Tensor) -> float | None:
    """Return the known number that a float tensor holds everywhere, which may be NaN; None for others."""
    source = source_of(tensor, "Expand")
    known = tensor.constant if source is None else source.constant
    if tensor.kind != FLOAT or known is None or not known.size:
        return None
    first = float(known.flat[0])
    return first if (np.isnan(known) if math.isnan(first) else known == first).all() else None


def cut_of(node: Node) -> tuple[int, int, int] | None:
    """Return start, stop and axis of a Slice along one axis in steps of 1, None where they are not known."""
    contents = node.further_contents()
    known = [int(content.item()) for content in contents if content is not None and content.size == 1]
    return (known[0], known[1], known[2]) if len(known) == len(contents) == 3 else None


def constant_kind(array: Array) -> str:
    """Return the kind of tensor that holds an array."""
    kinds = {"f": FLOAT, "i": INT, "u": INT, "b": BOOL}
    return kinds.get(array.dtype.kind, TEXT)


def constant_array(array: Array, kind: str) -> Array:
    """Return the array in the dtype in which constants of a kind are held."""
    return np.ascontiguousarray(array, dtype=_CONSTANT_DTYPES[kind]).reshape(array.shape)
