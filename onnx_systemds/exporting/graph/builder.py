"""Builds an ONNX graph: every value has a kind, dims and, where known, its content.

Equal nodes and equal constants exist once, nodes of known inputs are computed at once, and what nothing needs is
left out in the end (`model_writer`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.exporting.graph.folding import fold
from onnx_systemds.exporting.graph.nodes import (
    BOOL,
    FLOAT,
    INT,
    Array,
    Attribute,
    Node,
    Scope,
    SubGraph,
    Tensor,
    Unit,
    constant_array,
    constant_kind,
)
from onnx_systemds.exporting.limits import MOST_ELEMENTS, check_depth, check_elements
from onnx_systemds.exporting.stored_matrices import StoredMatrix
from onnx_systemds.inference import dims as dims_module
from onnx_systemds.inference.dims import (
    RUN_SIZE_PREFIX,
    SIGNED_PREFIX,
    Dim,
    Dims,
    Expression,
    lone_symbol,
    product,
    symbol,
    symbols,
)
from onnx_systemds.inference.known_dims import as_ints

DEFAULT_OPSET = 21
OLDEST_OPSET = 13
NEWEST_OPSET = 28
NARROW_DTYPES = ("float16", "bfloat16")
DTYPES = ("float32", "float64", *NARROW_DTYPES)
_SMALL = 1 << 10


class GraphBuilder:
    """A graph under construction. `place` is the ``file:line`` that new nodes come from, `notes` what to tell of it.

    Builtins use its subclass `operators.Operators`, which knows the dims of the results.
    """

    def __init__(self, dtype: str = "float32", opset: int | None = None) -> None:
        if dtype not in DTYPES:
            raise TranspileError(f"the dtype {dtype} is not possible", hint=f"one of {', '.join(DTYPES)}")
        self.dtype = "float32" if dtype in NARROW_DTYPES else dtype
        self.narrow = dtype if dtype in NARROW_DTYPES else None
        self.opset = DEFAULT_OPSET if opset is None else opset
        if not OLDEST_OPSET <= self.opset <= NEWEST_OPSET:
            raise TranspileError(f"models of opset {opset} cannot be written",
                                 hint=f"it is one from {OLDEST_OPSET} to {NEWEST_OPSET}")
        self.place = ""
        self.inputs: list[Tensor] = []
        self.outputs: list[tuple[str, Tensor]] = []
        self.stored_weights: dict[tuple[StoredMatrix, Dims], Tensor] = {}
        self.notes: list[str] = []
        self.unit = Unit()
        self.main = self.scope = self.unit.scope
        self._symbol_of: dict[int, tuple[Tensor, Dim]] = {}
        self.sizes: dict[Tensor, Dim] = {}
        self._fresh = 0
        self._calculated = 0

    # Values

    def input(self, name: str, kind: str, dims: Dims) -> Tensor:
        """Add an input of the model; symbols in its dims become known through it."""
        tensor = Tensor(kind, dims, name, graph=self)
        self.inputs.append(tensor)
        self.bind_dims(tensor)
        return tensor

    def output(self, name: str, tensor: Tensor) -> None:
        """Make a tensor an output of the model, in the place of an earlier one of its name."""
        names = [other for other, _ in self.outputs]
        position = names.index(name) if name in names else len(names)
        self.outputs[position : position + 1] = [(name, tensor)]

    def constant(self, content: Any, kind: str | None = None, hint: str = "") -> Tensor:
        """Return the tensor that holds `content`, always the same one for equal contents, whose first `hint` stays."""
        array = np.asarray(content)
        kind = kind or constant_kind(array)
        array = constant_array(array, kind)
        key = (kind, array.shape, _content_key(array))
        constants = self.unit.constants
        if key not in constants:
            constants[key] = Tensor(kind, array.shape, constant=array, graph=self)
        constants[key].hint = constants[key].hint or hint
        return constants[key]

    def reserve(self, elements: int) -> None:
        """Count elements that are about to be calculated. Raises UnsupportedCase where they are too many."""
        if self._calculated + elements > MOST_ELEMENTS:
            raise UnsupportedCase(f"{elements} elements would be calculated here and stored in the model, "
                                  f"and {MOST_ELEMENTS} are possible in all")
        self._calculated += elements

    def stored(self, weight: StoredMatrix, dims: Dims, hint: str) -> Tensor:
        """Return the tensor of a weight that stays in its file; its elements are those of the matrix, in order."""
        if (weight, dims) not in self.stored_weights:
            tensor = self.stored_weights[weight, dims] = Tensor(FLOAT, dims, hint, graph=self)
            tensor.stored = weight
        return self.stored_weights[weight, dims]

    # Nodes

    def nodes(
        self, op: str, inputs: Sequence[Tensor | None], outputs: Sequence[tuple[str, Dims]], **attributes: Any
    ) -> tuple[Tensor, ...]:
        """Return the results of a node, each of a given kind and dims; an equal one made before serves again."""
        key = (op, tuple(inputs), len(outputs), tuple(sorted((n, _key(a)) for n, a in attributes.items())))
        for scope in self.scope.with_parents():
            if key in scope.known:
                return scope.known[key]
        made = self._folded(op, inputs, outputs, attributes)
        if made is None:
            for _, dims in outputs:
                check_elements(dims)
            made = tuple(Tensor(kind, dims, graph=self) for kind, dims in outputs)
            node = Node(op, tuple(inputs), made, attributes, self.place, self.scope)
            for tensor in made:
                tensor.node = node
            self.scope.nodes.append(node)
        self.scope.known[key] = made
        return made

    def node(
        self, op: str, inputs: Sequence[Tensor | None], dims: Dims, kind: str = FLOAT, **attributes: Any
    ) -> Tensor:
        """Return the only result of a node."""
        return self.nodes(op, inputs, [(kind, dims)], **attributes)[0]

    def _folded(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[tuple[str, Dims]],
        attributes: Mapping[str, Attribute],
    ) -> tuple[Tensor, ...] | None:
        if len(outputs) != 1 or any(tensor is not None and tensor.constant is None for tensor in inputs):
            return None
        size = product(outputs[0][1])
        if not isinstance(size, int) or self._calculated + size > MOST_ELEMENTS:
            return None
        try:
            result = fold(op, [None if tensor is None else tensor.constant for tensor in inputs], attributes, size)
        except (ValueError, IndexError, OverflowError) as error:
            reason = "a place outside of it" if isinstance(error, IndexError) else "sizes that do not fit together"
            raise UnsupportedCase(f"the {op} of what is known here has no result: {reason}") from error
        if result is None or result.dtype == object:
            return None
        self._calculated += result.size
        found = self.constant(result, outputs[0][0])
        if not found.hint:
            found.hint = next((t.hint for t in inputs if t is not None and t.hint and t.constant is not None
                               and t.constant.size == result.size), "")
        return (found,)

    # Sizes

    def bind_dims(self, tensor: Tensor) -> None:
        """Let the symbols that are dims of `tensor` by themselves be read from it."""
        for axis, dim in enumerate(tensor.dims):
            name = lone_symbol(dim)
            if name is not None:
                self.bind_size(name, tensor, axis)

    def size_symbol(self, base: str) -> Dim:
        """Return a new size that only the run decides; bind the tensor with it by `bind_dims`."""
        self._fresh += 1
        return symbol(f"{RUN_SIZE_PREFIX}{base}_{self._fresh}")

    def integer_symbol(self, tensor: Tensor, base: str = "n", sort: str = SIGNED_PREFIX) -> Dim:
        """Return the content of an int tensor with one element, for calculations with sizes; `sort` is its prefix."""
        if tensor.constant is not None:
            return int(tensor.constant.ravel()[0])
        if id(tensor) in self._symbol_of:
            return self._symbol_of[id(tensor)][1]
        self._fresh += 1
        name = f"{sort}{base}_{self._fresh}"
        self.bind_size(name, tensor)
        found = symbol(name)
        self._symbol_of[id(tensor)] = (tensor, found)
        return found

    def size_of(self, tensor: Tensor) -> Dim | None:
        """Return the size that an int tensor of one element holds, None where that is not known."""
        known = tensor.only_element
        return self.sizes.get(tensor) if known is None else int(known)

    def size_tensor(self, dim: Dim) -> Tensor:
        """Return a size as an int tensor of one element and rank 1."""
        if isinstance(dim, int):
            return self.constant([dim])
        found = self._computed_size(dim)
        self.sizes.setdefault(found, dim)
        return found

    def _computed_size(self, dim: Expression) -> Tensor:
        if dim in self.unit.wholes:
            return self._read_size(*self.unit.wholes[dim])
        total: Tensor | None = None
        for monomial, coefficient in dim.terms:
            term: Tensor | None = None
            for atom in monomial:
                factor = self._atom_tensor(atom)
                term = factor if term is None else self.node("Mul", [term, factor], (1,), INT)
            if term is None:
                term = self.constant([coefficient])
            elif coefficient != 1:
                term = self.node("Mul", [term, self.constant([coefficient])], (1,), INT)
            total = term if total is None else self.node("Add", [total, term], (1,), INT)
        assert total is not None
        return total

    def sizes_tensor(self, dims: Sequence[Dim]) -> Tensor:
        """Return sizes as an int tensor of rank 1."""
        known = as_ints(dims)
        if known is not None:
            return self.constant(np.array(known, np.int64))
        if len(dims) == 1:
            return self.size_tensor(dims[0])
        return self.node("Concat", [self.size_tensor(dim) for dim in dims], (len(dims),), INT, axis=0)

    def bind_size(self, name: str, tensor: Tensor, axis: int | None = None) -> None:
        """Let a symbol be read from an axis of a tensor, or be the number in it."""
        self.unit.sources.setdefault(name, (tensor, axis))

    def _source(self, name: str) -> tuple[Tensor, int | None] | None:
        """Return what a symbol is read from; a function asks its caller for what it cannot read from its inputs."""
        unit = self.unit
        if name not in unit.sources and unit.caller is not None:
            with self._at(*unit.caller):
                known = self.computable(symbol(name))
            if known:
                with self.subgraph(unit.scope):
                    asked = self.state(INT, (1,), "size")
                unit.asked[name] = asked
                unit.sources[name] = (asked, None)
        return unit.sources.get(name)

    def _atom_tensor(self, atom: dims_module.Atom) -> Tensor:
        if isinstance(atom, dims_module.Operation):
            left, right = self.size_tensor(atom.left), self.size_tensor(atom.right)
            if atom.operator in ("min", "max"):
                return self.node(atom.operator.capitalize(), [left, right], (1,), INT)
            remainder = self.node("Mod", [left, right], (1,), INT)  # of the divisor's sign, as dims.modulo
            if atom.operator == "mod":
                return remainder
            return self.node("Div", [self.node("Sub", [left, remainder], (1,), INT), right], (1,), INT)
        source = self._source(atom.name)
        if source is None:
            hint = "give this size as a number, or have an input with an axis of this size alone"
            raise UnsupportedCase(f"the size {atom.name} is no axis of any input, and cannot be computed", hint=hint)
        return self._read_size(*source)

    def _read_size(self, tensor: Tensor, axis: int | None) -> Tensor:
        if axis is None:
            return tensor if tensor.rank == 1 else self.node("Reshape", [tensor, self.constant([1])], (1,), INT)
        if self.opset >= 15:
            return self.node("Shape", [tensor], (1,), INT, start=axis, end=axis + 1)
        shape = self.node("Shape", [tensor], (tensor.rank,), INT)
        return self.node("Gather", [shape, self.constant([axis])], (1,), INT, axis=0)

    # Functions, branches and bodies

    @contextmanager
    def function(self) -> Iterator[Unit]:
        """Put what is made meanwhile into a new function."""
        unit = Unit(caller=(self.unit, self.scope), certain=self.certain)
        with self._at(unit, unit.scope):
            yield unit

    @contextmanager
    def _at(self, unit: Unit, scope: Scope) -> Iterator[None]:
        before = self.unit, self.scope
        self.unit, self.scope = unit, scope
        try:
            yield
        finally:
            self.unit, self.scope = before

    @property
    def certain(self) -> bool:
        """Whether what is made now runs whenever the model runs."""
        return self.unit.certain and self.scope is self.unit.scope

    @property
    def depth(self) -> int:
        """How many branches and bodies of loops are around what is made now."""
        return sum(1 for _ in self.scope.with_parents()) - 1

    @contextmanager
    def subgraph(self, scope: Scope | None = None) -> Iterator[Scope]:
        """Put the nodes that are made meanwhile into a new scope, or into one that was begun before."""
        outer = self.scope
        if scope is None:
            scope = Scope(outer)
            check_depth(self.depth + 1)
        self.scope = scope
        try:
            yield scope
        finally:
            self.scope = outer

    def branches(
        self, condition: Tensor, ends: Sequence[tuple[Scope, Sequence[Tensor]]], outputs: Sequence[tuple[str, Dims]]
    ) -> tuple[Tensor, ...]:
        """Return what an If gives: the tensors of the first scope where the condition (bool) holds, else the second's.

        outputs: kind and dims of each; sizes in which the scopes differ are new symbols.
        """
        bodies = []
        for scope, tensors in ends:
            with self.subgraph(scope):
                bodies.append(SubGraph(scope, (), tuple(self.own(tensors))))
        then, otherwise = bodies
        made = self.nodes("If", [condition], outputs, then_branch=then, else_branch=otherwise)
        for tensor in made:
            self.bind_dims(tensor)
        return made

    def loop(self, trips: Tensor, start: Sequence[Tensor], step: Callable[..., Sequence[Tensor]]) -> tuple[Tensor, ...]:
        """Return what at most `trips` (int, rank 0) runs of a step make of tensors, by a Loop.

        step: takes the number of the run from 0 on (int), whether there is one (bool), and the tensors; gives whether
        there is another one, and the tensors.
        """
        with self.subgraph() as scope:
            taken = [self.state(INT, (), "k"), self.state(BOOL, (), "going")]
            taken += [self.state(tensor.kind, tensor.dims, tensor.hint) for tensor in start]
            body = SubGraph(scope, tuple(taken), tuple(self.own(step(*taken))))
        kinds = [(tensor.kind, tensor.dims) for tensor in start]
        return self.nodes("Loop", [trips, self.constant(True), *start], kinds, body=body)

    def own(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return tensors that nodes of the current scope make, each one once, copying where needed."""
        found: list[Tensor] = []
        for tensor in tensors:
            node = tensor.node
            if node is None or not node.op or node.scope is not self.scope or tensor in found:
                copy = Tensor(tensor.kind, tensor.dims, tensor.hint, graph=self)
                copy.node = Node("Identity", (tensor,), (copy,), {}, self.place, self.scope)
                self.scope.nodes.append(copy.node)
                tensor = copy
            found.append(tensor)
        return found

    def computable(self, dim: Dim) -> bool:
        """Whether all that a size depends on is visible in the current scope."""
        sources = [self._source(name) for name in symbols(dim)]
        return all(source is not None and self.visible(source[0]) for source in sources)

    def state(self, kind: str, dims: Dims, hint: str = "") -> Tensor:
        """Return a new input of the graph of the current scope, such as what a loop passes on to its next run."""
        tensor = Tensor(kind, dims, hint, graph=self)
        tensor.node = Node("", (), (tensor,), {}, self.place, self.scope)
        self.bind_dims(tensor)
        return tensor

    def visible(self, tensor: Tensor) -> bool:
        """Whether a tensor may be used in the current scope."""
        if tensor.node is None:
            return True
        return any(scope is tensor.node.scope for scope in self.scope.with_parents())


def _content_key(array: Array) -> Any:
    """Return what is equal for equal contents; of big arrays a digest, so that no copy is kept."""
    if array.dtype == object:
        return tuple(array.ravel().tolist())
    if array.nbytes <= _SMALL:
        return array.tobytes()
    return hashlib.blake2b(array.view(np.uint8).data, digest_size=32).digest()


def _key(value: Attribute) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return id(value) if isinstance(value, SubGraph) else value
