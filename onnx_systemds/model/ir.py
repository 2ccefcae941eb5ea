"""The model as the importer sees it: frozen dataclasses and numpy arrays, no protobuf.

Element types are the names of ``onnx.TensorProto.DataType`` in lower case ("float", "int64", "float8e4m3fn" ...).
Nodes, graphs, functions and models compare and hash by identity: they hold arrays, whose ``==`` is no boolean value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ML = "ai.onnx.ml"
"""The domain of operators of classical machine learning."""
TRAINING = "ai.onnx.preview.training"
"""The domain of gradients and of steps of optimizers."""
DERIVATIVES = "org.apache.sysds"
"""The domain of operators that only derivatives have, most of them builtins of SystemDS."""
ONNX_DOMAINS = frozenset({"", ML, TRAINING, "ai.onnx.preview", "ai.onnx.training"})
"""The domains of ONNX's own operators."""

Dtype = str
Array = np.ndarray[Any, np.dtype[Any]]
FunctionKey = tuple[str, str, str]  # of a model's own function: domain, op_type, overload
Dims = tuple[int | str | None, ...]  # int: known; str: symbol; None: unknown and unnamed


def keep_pages(array: Array) -> None:
    """Release nothing: the `Model.release` of models that are not memory-mapped."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dense tensor; `dims` is None when the rank is unknown."""

    dtype: Dtype
    dims: Dims | None


@dataclass(frozen=True, slots=True)
class SparseTensorType:
    """A sparse tensor; `dims` is None when the rank is unknown."""

    dtype: Dtype
    dims: Dims | None


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence of values of one type."""

    element: Type


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value that may be absent."""

    element: Type


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from an integer or string element type to values of one type."""

    key: Dtype
    value: Type


Type = TensorType | SparseTensorType | SequenceType | OptionalType | MapType


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """The declared type of a value; None when the model declares no type or an undefined element type."""

    name: str
    type: Type | None
    doc_string: str = ""


@dataclass(frozen=True, slots=True)
class AttributeReference:
    """The value of an attribute inside a model function: taken from the caller's attribute of this name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensor:
    """A constant in coordinate form.

    values: [nnz]; indices: int64, [nnz] (linear) or [nnz, rank]; dims: of the dense tensor.
    """

    values: Array
    indices: Array
    dims: tuple[int, ...]


def operator_name(domain: str, op_type: str) -> str:
    """An operator as tables name it: with its domain, if that is not ONNX's own."""
    return f"{domain}.{op_type}" if domain else op_type


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operator call. An input or output named "" is left out.

    domain: "" for ai.onnx. index: position in its graph after sorting.
    version: opset version in force for the domain where the node stands (functions import their own).
    scope: the words of the module that PyTorch says it is of, outermost first, or those before its name.
    """

    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    name: str
    doc_string: str
    index: int
    version: int
    overload: str = ""
    scope: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What messages call it: its name, or its index where it has none."""
        return self.name or f"#{self.index}"

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer; `default` where it is absent or of another type."""
        found = self.attributes.get(name)
        return found if isinstance(found, int) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers; None where it is absent or of another type."""
        found = self.attributes.get(name)
        items = [int(item) for item in found if isinstance(item, (int, np.integer))] if isinstance(found, tuple) else []
        return tuple(items) if isinstance(found, tuple) and len(items) == len(found) else None

    def axes(self, constants: Mapping[str, Array]) -> tuple[int, ...] | None:
        """The axes of a reduction, by attribute or (from opset 18 on) one of the constants; None where they are not."""
        if len(self.inputs) < 2:
            return self.integers("axes")
        content = constants.get(self.inputs[1])
        return None if content is None else tuple(content.ravel().tolist())

    def inner(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Attribute],
        version: int = 0,
    ) -> Node:
        """A node of ONNX's own domain that stands in the place of this one or of a part of it, and is named after it.

        version: of its opset; 0: that of this node, or 13 where it is of another domain.
        """
        version = version or (self.version if self.domain == "" else 13)
        name = f"{self.name or self.op_type}/{op_type}"
        return Node(op_type, "", tuple(inputs), tuple(outputs), attributes, name, "", self.index, version)

    @property
    def function_key(self) -> FunctionKey:
        """Of the model's own function that the node calls, if there is one."""
        return (self.domain, self.op_type, self.overload)

    @property
    def identity(self) -> tuple[str, str]:
        """The key of the operator in `operator_generators`: (domain, op_type)."""
        return (self.domain, self.op_type)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A graph or sub-graph.

    inputs: without those that an initializer defines. nodes: sorted topologically.
    initializers: read-only arrays (strings: dtype object holding str; bfloat16, float8, int4 ...: ml_dtypes).
    trainable: the names of those that a program may train, so that nothing is computed of them at conversion.
    value_info: declared types of inner values, by name.
    """

    name: str
    doc_string: str
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    initializers: Mapping[str, Array]
    nodes: tuple[Node, ...]
    value_info: Mapping[str, ValueInfo]
    trainable: frozenset[str] = frozenset()


# An absent TYPE_PROTO is no attribute at all, so None never stands here.
Attribute = (
    int
    | float
    | str
    | bytes  # a STRING that is not UTF-8
    | Array
    | Graph
    | SparseTensor
    | TensorType
    | SparseTensorType
    | SequenceType
    | OptionalType
    | MapType
    | AttributeReference
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[str | bytes, ...]
    | tuple[Array, ...]
    | tuple[Graph, ...]
    | tuple[SparseTensor, ...]
    | tuple[Type, ...]
)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A model-local function. An attribute whose value is None has no default: the caller must give it."""

    domain: str
    name: str
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute | None]
    nodes: tuple[Node, ...]
    doc_string: str
    opset_imports: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A whole model.

    functions: by (domain, name, overload). path: the file it came from, None for bytes and protobufs. data_files: those
    of its external data. metadata: the pairs of its metadata_props.
    release: drops the memory-mapped pages of an initializer (they come back when read), if there are any.
    """

    graph: Graph
    opset_imports: Mapping[str, int]
    functions: Mapping[FunctionKey, Function]
    ir_version: int
    producer_name: str = ""
    producer_version: str = ""
    model_version: int = 0
    metadata: tuple[tuple[str, str], ...] = ()
    doc_string: str = ""
    path: Path | None = None
    data_files: tuple[Path, ...] = ()
    release: Callable[[Array], None] = keep_pages

    @property
    def producer(self) -> str:
        """What made it, and its version; "" where the model does not say so."""
        return " ".join(part for part in (self.producer_name, self.producer_version) if part)
