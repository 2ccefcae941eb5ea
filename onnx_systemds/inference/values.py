"""`Value`: the dtype, dims and, if known, content of a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from onnx_systemds.errors import escaped
from onnx_systemds.inference.dim_text import text
from onnx_systemds.inference.dims import Dims, depends_on_run, product
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.model import protos
from onnx_systemds.model.ir import Array, OptionalType, SequenceType, Type

Elements = np.ndarray[Any, np.dtype[np.object_]]

# dtypes of which DML (FP64) holds every value that a NaN or an infinity cannot be one of
FINITE_DTYPES = frozenset(
    ["bool", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
INTEGER_DTYPES = FINITE_DTYPES - {"bool"}
FLOAT_DTYPES = frozenset(["float", "double", "float16", "bfloat16"])
DML_INTEGERS = INTEGER_DTYPES - {"uint64"}
"""Those that an integer of DML holds, which has 64 bits and a sign."""


class Ramp(NamedTuple):
    """Integers or booleans that follow evenly from their places: ``start``, and for each axis what a place adds to it.

    low, high: bounds of all elements, where they are known.
    """

    start: int
    steps: Dims
    low: int | None = None
    high: int | None = None

    @property
    def is_even(self) -> bool:
        """Whether all elements are the same."""
        return all(step == 0 for step in self.steps)


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One value of a graph.

    dtype: element type, "" for values that are no tensors. dims: None when the rank is unknown.
    constant: the content, where it is known at conversion.
    weight: the content of a weight that a program may train: nothing is computed of it at conversion.
    elements: object array of dims; the content of an integer tensor that carries sizes.
    type: the type of a value that is no dense tensor.
    element: what is known of each item of a sequence or optional (see `lists`); None when nothing is.
    items: the names of the items, where they are known at conversion.
    is_count: whether an integer is certainly not negative.
    is_finite: whether it certainly holds no NaN and no infinity, though its type has them (see `finite_numbers`).
    keys: a sequence of maps with the same keys is the matrix of their values; these are the keys of its columns.
    ramp: how the elements follow from their places, where they do so evenly (see `ramps`).
    """

    dtype: str
    dims: Dims | None
    constant: Array | None = None
    weight: Array | None = None
    elements: Elements | None = None
    type: Type | None = None
    element: Value | None = None
    items: tuple[str, ...] | None = None
    is_count: bool = False
    is_finite: bool = False
    keys: tuple[int, ...] | tuple[str, ...] = ()
    ramp: Ramp | None = None

    @property
    def content(self) -> Array | None:
        """What a script holds of the value, as a constant or as a weight."""
        return self.weight if self.constant is None else self.constant

    @property
    def number(self) -> float | None:
        """The number that is all that the value holds, None where it is not known."""
        return None if self.constant is None or self.constant.size != 1 else float(self.constant.item())

    @property
    def is_list(self) -> bool:
        """Whether the value is a DML list: a sequence, or an optional, which is a list of at most one item."""
        return isinstance(self.type, (SequenceType, OptionalType))

    @property
    def is_text(self) -> bool:
        """Whether the value is a text tensor, or a list of such."""
        return self.dtype == "string" or (self.element is not None and self.element.is_text)

    @property
    def size(self) -> object:
        """Number of elements: an integer or an expression; None when the rank is unknown."""
        return None if self.dims is None else product(self.dims)

    @property
    def is_known(self) -> bool:
        """Whether the elements are known, as numbers or as sizes."""
        return self.constant is not None or self.elements is not None

    @property
    def is_empty(self) -> bool:
        """Whether the value is certainly empty."""
        return self.dims is not None and 0 in self.dims

    @property
    def is_known_size(self) -> bool:
        """Whether every dim is an integer."""
        return self.dims is not None and all_known(self.dims)


def constant_value(array: Array) -> Value:
    """The value for a known content."""
    return Value(protos.dtype_of(array), tuple(array.shape), constant=array)


def weight_value(array: Array) -> Value:
    """The value for a weight that a program may train."""
    return Value(protos.dtype_of(array), tuple(array.shape), weight=array)


def dims_words(dims: Dims | None) -> str:
    """Dims in a message or a comment: ``[n, 3]``."""
    return "of any rank" if dims is None else f"[{', '.join(text(size, symbol_words) for size in dims)}]"


def symbol_words(name: str) -> str:
    """A symbol in a message or a comment: without the mark of those that the run decides, or each item of a list."""
    return escaped(re.sub(r"^(?:\?[=-]?|\*)(?=\w)", "", name))


def has_known_elements(value: Value) -> bool:
    """Whether a value is a small tensor of sizes that are known at the start of a function."""
    return value.elements is not None and not depends_on_run(value.elements.ravel().tolist())


def is_parameter(value: Value) -> bool:
    """Whether an input of a graph is a parameter of the function: one whose content is known is none."""
    return value.constant is None and not has_known_elements(value)


FAILED = Value("", None)
"""The outputs of a node that cannot be converted, so that only this node is reported and not its consumers."""
