"""`NodeFacts`: dtypes, dims and contents of a node's inputs, and its attributes with their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import onnx

from onnx_systemds.errors import TYPE_ADVICE, ConstantNeeded, InvalidModel, NodePlace, ShapeUnknown, UnsupportedCase
from onnx_systemds.inference.assumptions import Assumption, Relation, axis_words, certainly_differ, node_words
from onnx_systemds.inference.dims import (
    RUN_PREFIX,
    RUN_SIZE_PREFIX,
    Dim,
    Dims,
    is_non_negative,
    is_non_negative_from_one,
    may_be_zero,
    product,
    symbol,
)
from onnx_systemds.inference.known_dims import as_ints
from onnx_systemds.inference.values import Elements, Value
from onnx_systemds.model.contrib_schemas import contrib_default, find_contrib_schema
from onnx_systemds.model.ir import Array, Graph, Node
from onnx_systemds.model.wiring import place_of


class SizeSource(Protocol):
    """The source of sizes that only the run decides: `RunSizes`."""

    def elements_of(self, name: str, *, signed: bool, count: int | None = None) -> Elements | None:
        """Return the elements of an integer tensor as sizes, None if they cannot be sizes."""

    def call(self, function: str, arguments: tuple[Dim, ...], hint: str, *, signed: bool = False) -> Dim:
        """Return the size that a library function computes."""


Input = int | str
"""An input: its position, or its name in the operator's schema."""


class NodeFacts:
    """Read-only view of a node for shape rules; generators get the larger `NodeView`.

    An input is referred to by its name in the operator's schema or by its position (from 0), an output by its position.
    A negative or missing position is an omitted input.
    """

    run_sizes: SizeSource | None = None  # of the graph around the node, where sizes may be left to the run

    def __init__(self, node: Node, values: Mapping[str, Value], graph_name: str = "") -> None:
        self.node = node
        self.values = values
        self.graph_name = graph_name
        self.assumptions: list[Assumption] = []

    @property
    def place(self) -> NodePlace:
        """The place of the node, for messages."""
        return place_of(self.node, self.graph_name)

    @property
    def version(self) -> int:
        """Opset version in force for the node's domain."""
        return self.node.version

    @property
    def input_count(self) -> int:
        """The number of inputs of the node, including omitted ones before the last."""
        return len(self.node.inputs)

    @property
    def _base_name(self) -> str:
        """The base of names that belong to the node: its first output."""
        return next((name for name in self.node.outputs if name), self.node.op_type)

    def index(self, given: Input) -> int:
        """The position of an input.

        Raises KeyError for a name that is not in the schema of this version.
        """
        if isinstance(given, int):
            return given
        places = input_places(self.node.domain, self.node.op_type, self.node.version)
        if given not in places:
            known = f"only {', '.join(places)}" if places else "no schema names its inputs: give their places"
            raise KeyError(f"{self.node.op_type} has no input {given!r}: {known}")
        return places[given]

    def name(self, given: Input) -> str:
        """The name of the value that is an input."""
        return self.node.inputs[self.index(given)]

    def _words(self, given: Input) -> str:
        """An input in messages."""
        return f"input {self.index(given)}"

    def has(self, given: Input) -> bool:
        """Whether the input is present."""
        position = given if isinstance(given, int) else self.index(given)
        return 0 <= position < len(self.node.inputs) and self.node.inputs[position] != ""

    def has_output(self, position: int) -> bool:
        """Whether the node names the output (it may still be unused)."""
        return position < len(self.node.outputs) and self.node.outputs[position] != ""

    def value(self, given: Input) -> Value:
        """The inferred value of an input."""
        return self.values[self.node.inputs[given if isinstance(given, int) else self.index(given)]]

    def dtype(self, given: Input) -> str:
        """Element type of an input."""
        return self.value(given).dtype

    def dims(self, given: Input) -> Dims:
        """Dims of an input. Raises ShapeUnknown when the rank is unknown."""
        dims = self.value(given).dims
        if dims is None:
            raise ShapeUnknown(f"the rank of input {self.name(given)!r} is unknown", hint=TYPE_ADVICE)
        return dims

    def rank(self, given: Input) -> int:
        """Rank of an input. Raises ShapeUnknown."""
        return len(self.dims(given))

    def known_dims(self, given: Input, why: str) -> tuple[int, ...]:
        """Dims of an input as integers. Raises UnsupportedCase naming the reason ``why`` they must be known."""
        dims = self.dims(given)
        known = as_ints(dims)
        if known is None:
            shown = ", ".join(map(str, dims))
            message = f"{why} needs known dims, {self._words(given)} has [{shown}]"
            raise UnsupportedCase(message, hint="fix them by --dim")
        return known

    def size(self, given: Input) -> Dim:
        """Number of elements of an input. Raises ShapeUnknown."""
        return product(self.dims(given))

    def constant(self, given: Input) -> Array | None:
        """The content of an input; None if it is unknown at conversion."""
        return self.value(given).constant if self.has(given) else None

    def require_constant(self, given: Input, what: str) -> Array:
        """The content of an input. Raises ConstantNeeded if it is unknown at conversion."""
        content = self.constant(given)
        if content is None:
            raise ConstantNeeded(f"{what} ({self._words(given)}) must be a constant", self.name(given))
        return content

    def integers(self, given: Input) -> tuple[Dim, ...] | None:
        """The elements of an integer input as sizes, which may be expressions; None if they are unknown."""
        if not self.has(given):
            return None
        value = self.value(given)
        if value.constant is not None:
            return tuple(int(element) for element in value.constant.ravel())
        if value.elements is not None:
            return tuple(value.elements.ravel())
        return None

    def require_integers(self, given: Input, what: str) -> tuple[Dim, ...]:
        """As `integers`; raises ConstantNeeded if they are unknown."""
        found = self.integers(given)
        if found is None:
            raise ConstantNeeded(f"{what} ({self._words(given)}) is only known when the model runs", self.name(given))
        return found

    def sizes(self, given: Input, what: str, *, signed: bool = False, count: int | None = None) -> tuple[Dim, ...]:
        """As `integers`; elements that only the run knows are symbols, which the script defines.

        ``signed``: whether they may be negative. ``count``: the assumed number of elements if only the run knows it;
        the script checks it. Raises ConstantNeeded if the number of elements is unknown.
        """
        found = self.integers(given)
        if found is None and self.run_sizes is not None and self.has(given):
            dims = self.value(given).dims
            if dims is None or len(dims) != 1 or isinstance(dims[0], int):
                count = None
            elif count is not None:
                self.assume_equal(dims[0], count, f"the number of {what.removeprefix('the ')}", "that of the axes")
            elements = self.run_sizes.elements_of(self.name(given), signed=signed, count=count)
            found = None if elements is None else tuple(elements.ravel())
        return self.require_integers(given, what) if found is None else found

    def computed(self, function: str, *arguments: Dim, hint: str, signed: bool = False) -> Dim:
        """A size that a library function computes from others at run time, named after the first output.

        With an empty ``function`` the argument gets a name, so that a sum of several terms is computed once.
        ``signed``: whether it may be negative.
        """
        assert self.run_sizes is not None
        return self.run_sizes.call(function, arguments, f"{self._base_name}_{hint}", signed=signed)

    def assume_equal(
        self, left: Dim, right: Dim, left_words: str, right_words: str, relation: Relation = Relation.EQUAL
    ) -> None:
        """Assume that two sizes are equal; the script checks it if only the run knows.

        relation: BROADCAST where one may be a 1 that is repeated. Raises UnsupportedCase if they cannot be equal.
        """
        if certainly_differ(left, right):
            raise UnsupportedCase(f"{left_words} is {left}, {right_words} is {right}")
        if left != right:
            self.assume(left, relation, right, left_words, right_words)

    def assume_at_most(self, left: Dim, right: Dim, left_words: str, right_words: str) -> None:
        """Assume that a size is at most another one, as `assume_equal`. Raises UnsupportedCase."""
        if is_non_negative(left - right - 1):
            raise UnsupportedCase(f"{left_words} is {left}, {right_words} is {right}")
        if not is_non_negative_from_one(right - left):
            self.assume(left, Relation.AT_MOST, right, left_words, right_words)

    def assume_same_size(self, left: tuple[int, int], right: tuple[int, int]) -> None:
        """As `assume_equal`, for the sizes of two axes: (position of the input, axis) each.

        Raises InvalidModel if an input has no such axis.
        """
        for position, axis in (left, right):
            if not -self.rank(position) <= axis < self.rank(position):
                raise InvalidModel(f"{self._words(position)} of rank {self.rank(position)} has no axis {axis}")
        sizes = [self.dims(position)[axis] for position, axis in (left, right)]
        self.assume_equal(sizes[0], sizes[1], self.axis_words(*left), self.axis_words(*right))

    def assume_elements(self, given: Input, axis: int) -> None:
        """Assume that an axis of an input is not empty; the script checks it if only the run knows."""
        size = self.dims(given)[axis]
        if may_be_zero(size):
            self.assume(size, Relation.AT_LEAST, 1, self.axis_words(given, axis))

    def assume(self, left: Dim, relation: Relation, right: Dim, left_words: str, right_words: str = "") -> None:
        """Assume a relation of two sizes, one of which only the run knows; the script checks it."""
        self.assumptions.append(Assumption(left, right, relation, left_words, right_words, node_words(self.node)))

    def axis_words(self, given: Input, axis: int) -> str:
        """An axis of an input in messages."""
        return axis_words(self.name(given), axis % max(self.rank(given), 1))

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute: that of the node, else the default of the schema, else ``default``.

        Only operators without a schema, those of your own domain, need a ``default``.
        """
        if name in self.node.attributes:
            return self.node.attributes[name]
        found = default_attribute(self.node.domain, self.node.op_type, self.node.version, name)
        return default if found is None else found

    def positive(self, name: str) -> int:
        """A positive integer attribute. Raises UnsupportedCase for other values."""
        value = self.attribute(name)
        if not isinstance(value, int) or value < 1:
            raise UnsupportedCase(f"attribute {name!r} is {'missing' if value is None else value}, it must be positive")
        return value

    def graph_attribute(self, name: str) -> Graph:
        """A sub-graph attribute. Raises UnsupportedCase if it is missing."""
        graph = self.node.attributes.get(name)
        if not isinstance(graph, Graph):
            raise UnsupportedCase(f"attribute {name!r} is missing")
        return graph

    def axis(self, name: str = "axis", *, default: int | None = None, rank: int | None = None) -> int:
        """An axis attribute counted from the front, ``0 <= axis < rank``; rank: by default that of the first input.

        Raises UnsupportedCase if it is out of range, or missing without a default.
        """
        axis = self.attribute(name, default)
        if axis is None:
            raise UnsupportedCase(f"attribute {name!r} is missing")
        return self.normalize_axis(int(axis), self.rank(0) if rank is None else rank)

    @staticmethod
    def normalize_axis(axis: int, rank: int) -> int:
        """``axis`` counted from the front. Raises UnsupportedCase if it is not in [-rank, rank)."""
        if not -rank <= axis < max(rank, 1):
            raise UnsupportedCase(f"axis {axis} is out of range for rank {rank}")
        return axis % rank if rank else 0

    def tensor(self, dims: Sequence[Dim] | None, dtype: str | None = None) -> Value:
        """An output for a shape rule; dtype: by default that of the first input."""
        return Value(self.dtype(0) if dtype is None else dtype, None if dims is None else tuple(dims))


def unknown_size(facts: NodeFacts, output: int, axis: int, *, or_none: bool = False) -> Dim:
    """A new symbol for a size that only the run decides; the script defines it after the node. or_none: it may be 0."""
    return symbol(f"{RUN_SIZE_PREFIX if or_none else RUN_PREFIX}{facts.node.outputs[output]}_dim{axis}")


def is_unknown_size(name: str, value: str) -> bool:
    """Whether a symbol is an `unknown_size` of this value."""
    return name.startswith((f"{RUN_PREFIX}{value}_dim", f"{RUN_SIZE_PREFIX}{value}_dim"))


@lru_cache(maxsize=2048)
def input_places(domain: str, op_type: str, version: int) -> Mapping[str, int]:
    """The positions of an operator's inputs by their names in the schema of ONNX or onnxruntime."""
    schema = find_any_schema(domain, op_type, version)
    if schema is None:
        contrib = find_contrib_schema(domain, op_type)
        names = [] if contrib is None else [name.rstrip("?*") for name in contrib.inputs]
    else:
        names = [parameter.name for parameter in schema.inputs]
    return {name: place for place, name in enumerate(names)}


@lru_cache(maxsize=8192)
def default_attribute(domain: str, op_type: str, version: int, name: str) -> Any:
    """The default of an attribute in the schema of ONNX or onnxruntime; None if there is none."""
    schema = find_any_schema(domain, op_type, version)
    if schema is None:
        return contrib_default(domain, op_type, name)
    if name not in schema.attributes:
        return None
    default = schema.attributes[name].default_value
    if default.type == onnx.AttributeProto.UNDEFINED:
        return None
    content = onnx.helper.get_attribute_value(default)
    if isinstance(content, bytes):
        return content.decode("utf-8")
    if isinstance(content, list):
        return tuple(item.decode("utf-8") if isinstance(item, bytes) else item for item in content)
    return content


@lru_cache(maxsize=8192)
def find_schema(domain: str, op_type: str, version: int) -> Any:
    """The OpSchema in force at an opset version, None where ONNX knows none or has removed it.

    The type is Any because onnx's stubs leave out half of OpSchema.
    """
    schema = find_any_schema(domain, op_type, version)
    return None if schema is None or schema.deprecated else schema


def has_definition(schema: Any) -> bool:
    """Whether ONNX defines the operator of a schema by other operators; None is the schema of none."""
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def find_any_schema(domain: str, op_type: str, version: int) -> Any:
    """As `find_schema`, with those of operators that ONNX has removed, which it keeps."""
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
