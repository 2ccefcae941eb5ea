"""Random draws of shapes, numbers and choices, all from one seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.scattering import scattered

Array = np.ndarray[Any, np.dtype[Any]]
Choice = TypeVar("Choice")

FLOATS = ("float", "double", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
PLAIN = (*FLOATS, *INTEGERS, "bool", "string")

_WORDS = ("", "a", "b", "abc", "Ab", "x y", "été", "1", "-2.5", "nan", "a\tb", "日本")


@dataclass(frozen=True)
class Node:
    """One node with the arrays it is fed: a case of an operator before it is a model.

    inputs: by name in the operator's order, None leaves one out, a list is a sequence, a dict a map. attributes: as make_node takes
    them. outputs: how many. constants: inputs that must be initializers.
    kept: inputs whose dims stay as they are in further calls, since they are indices, shapes or parameters.
    """

    inputs: Mapping[str, Array | list[Array] | Mapping[Any, Any] | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    constants: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    is_exact: bool = False


class Draw:
    """A source of random choices for one case of an operator at an opset.

    types: the element types that each type variable of the operator may have. is_sparse: whether most elements of most
    tensors are zeros; those tensors are ``scattered``.
    """

    largest = 2000
    """Elements of a tensor."""

    def __init__(
        self, seed: int, op_type: str = "", opset: int = 0, types: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.op_type, self.opset = op_type, opset
        self.types = types or {}
        self.is_plain = self.chance(0.5)  # no special values at all in half of the cases
        self.is_sparse = not self.is_plain and self.chance(0.4)
        self.scattered: list[Array] = []

    def int(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def one(self, *options: Choice) -> Choice:
        """One of the options."""
        return options[self.int(0, len(options) - 1)]

    def chance(self, share: float) -> bool:
        """True in this share of the draws."""
        return bool(self.rng.random() < share)

    def real(self, low: float, high: float) -> float:
        """A number that FP32 holds exactly."""
        return float(np.float32(self.rng.uniform(low, high)))

    def flag(self) -> int:
        """0 or 1."""
        return self.int(0, 1)

    def size(self, smallest: int = 0) -> int:
        """The size of an axis: mostly a few, now and then 0 or 1, seldom many."""
        if self.is_sparse and self.chance(0.4):  # of a few columns none is stored as a sparse matrix
            return max(self.int(8, 40), smallest)
        drawn = self.rng.random()
        if drawn < 0.03:
            return max(0, smallest)
        if drawn < 0.18:
            return max(1, smallest)
        return max(self.int(2, 5) if drawn < 0.93 else self.int(6, 40), smallest)

    def other_size(self, smallest: int = 0) -> int:
        """The size of an axis in another call."""
        return self.size(smallest)

    def shape(self, low: int = 0, high: int = 5, smallest: int = 0) -> tuple[int, ...]:
        """Dims of a tensor of rank ``low`` to ``high``."""
        dims = [self.size(smallest) for _ in range(self.int(low, high))]
        while math.prod(dims) > self.largest:
            place = int(np.argmax(dims))
            dims[place] //= 2
        return tuple(dims)

    def axis(self, rank: int) -> int:
        """An axis, counted from either end; 0 of a scalar."""
        return self.int(-rank, rank - 1) if rank else 0

    def axes(self, rank: int, least: int = 0) -> list[int]:
        """Some different axes in any order, counted from either end."""
        count = self.int(min(least, rank), rank)
        chosen = self.rng.permutation(rank)[:count]
        return [int(axis) - rank * self.flag() for axis in chosen]

    def type(self, variable: str, among: Sequence[str] = PLAIN) -> str:
        """An element type of a type variable: float32 half of the times."""
        allowed = [name for name in self.types.get(variable, ("float",)) if name in among]
        if not allowed:
            return "float"
        return "float" if "float" in allowed and self.chance(0.5) else self.one(*allowed)

    def broadcast(self, dims: Sequence[int]) -> tuple[int, ...]:
        """Dims that broadcast to ``dims``: leading ones left out, some of them 1."""
        kept = list(dims[self.int(0, len(dims)) if self.chance(0.4) else 0 :])
        return tuple(1 if self.chance(0.25) else size for size in kept)

    def parameters(self, *dims: int, dtype: str = "float") -> Array:
        """Ordinary numbers."""
        return np.asarray(self.rng.standard_normal(dims), numpy_dtype(dtype))

    def positive(self, *dims: int, dtype: str = "float", low: float = 0.1, high: float = 2.0) -> Array:
        """Numbers above zero."""
        return np.asarray(self.rng.uniform(low, high, dims), numpy_dtype(dtype))

    def indices(self, dims: Sequence[int], size: int, dtype: str = "int64", *, negative: bool = True) -> Array:
        """Indices into an axis of ``size`` elements, counted from either end."""
        low = -size if negative and self.chance(0.5) else 0
        return np.asarray(self.rng.integers(low, max(size, low + 1), tuple(dims)), numpy_dtype(dtype))

    def array(self, dtype: str, dims: Sequence[int]) -> Array:
        """Elements of a flavour: ordinary, mostly zero, constant, with NaN and infinities, large, small, ..."""
        dims = tuple(dims)
        kind = numpy_dtype(dtype)
        if dtype == "string":
            return np.array(self.rng.choice(np.array(_WORDS, object), dims), object).reshape(dims)
        if self.is_sparse and not self.is_plain and dtype != "bool" and self.chance(0.8):
            self.scattered.append(scattered(self.rng, dims, kind))
            return self.scattered[-1]
        if dtype == "bool":
            return np.asarray(self.rng.random(dims) < self.one(0.5, 0.5, 0.1, 0.0, 1.0))
        if dtype in INTEGERS:
            return self._integers(kind, dims)
        with np.errstate(over="ignore"):
            return np.asarray(self._reals(dims, kind), kind)

    def _reals(self, dims: tuple[int, ...], kind: np.dtype[Any]) -> Array:
        numbers = np.asarray(self.rng.standard_normal(dims))
        drawn = 0.0 if self.is_plain else self.rng.random()
        if drawn < 0.35:
            return numbers
        if drawn < 0.45:
            return np.asarray(np.round(numbers * 3) * self.one(1.0, 0.5))
        if drawn < 0.55:
            return np.where(self.rng.random(dims) < 0.85, 0.0, numbers)
        if drawn < 0.62:
            return np.full(dims, self.one(0.0, 1.0, -1.0, float(self.rng.standard_normal())))
        if drawn < 0.66:
            return np.zeros(dims)
        limits = ml_dtypes.finfo(kind)
        if drawn < 0.86:
            special = self.rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], dims)
            only = self.one(None, np.nan, np.inf, -np.inf, -0.0)
            special = special if only is None else np.full(dims, only)
            return np.where(self.rng.random(dims) < self.one(0.1, 0.3, 0.9), special, numbers)
        if drawn < 0.93:
            return numbers * 10.0 ** self.int(1, max(1, int(math.log10(float(limits.max)) * 0.4)))
        return numbers * 10.0 ** -self.int(1, max(1, int(-math.log10(float(limits.smallest_normal)) * 0.4)))

    def _integers(self, kind: np.dtype[Any], dims: tuple[int, ...]) -> Array:
        limits = np.iinfo(kind)
        low, high = max(limits.min, -2**53), min(limits.max, 2**53)
        drawn = 0.0 if self.is_plain else self.rng.random()
        numbers = self.rng.integers(0 if limits.min == 0 else -9, 10, dims)
        if drawn < 0.5:
            return np.asarray(numbers, kind)
        if drawn < 0.6:
            return np.asarray(np.where(self.rng.random(dims) < 0.85, 0, numbers), kind)
        if drawn < 0.7:
            return np.full(dims, self.one(0, 1, 5), kind)
        edges = np.asarray([low, high, 0, 1, high - 1, low + 1], np.int64)
        if drawn < 0.85:
            return np.asarray(edges[self.rng.integers(0, 6, dims)]).astype(kind)
        return np.asarray(self.rng.integers(low, high, dims)).astype(kind)


Maker = Callable[[Draw], Node]


def registering(makers: dict[str, Maker]) -> Callable[..., Callable[[Maker], Maker]]:
    """A decorator of what draws the inputs of operators, by their names, which registers it."""

    def makes(*op_types: str) -> Callable[[Maker], Maker]:
        def decorate(maker: Maker) -> Maker:
            makers.update(dict.fromkeys(op_types, maker))
            return maker

        return decorate

    return makes
