"""One row of ``benchmarks.operators``, and the numbers that go into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Bench:
    """One operator: the idiom reads the inputs under their names (as the boundary matrices) and assigns the outputs.

    given: further matrices for the idiom that a conversion would have prepared. numpy: called with the inputs by name;
    None takes ONNX's reference implementation. arguments: the node's inputs where they are not simply all inputs;
    names that begin with "absent" are left out.
    """

    family: str
    op_type: str
    note: str
    inputs: Mapping[str, Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    idiom: str = ""
    numpy: Callable[..., Any] | None = None
    constants: Sequence[str] = ()
    opset: int = 18
    given: Mapping[str, Array] = field(default_factory=dict)
    outputs: Sequence[str] = ("Y",)
    arguments: Sequence[str] = ()
    domain: str = ""
    tolerance: float = 1e-4

    def __str__(self) -> str:
        return f"{self.family}: {self.op_type} {self.note}"

    def words(self) -> set[str]:
        """The identifiers in the idiom."""
        return set(re.findall(r"[A-Za-z]\w*", self.idiom))

    def shapes(self) -> str:
        """The dims of the first inputs."""
        shown = [name for name in self.inputs if name not in self.constants or self.inputs[name].size > 64]
        return " ".join("x".join(map(str, self.inputs[name].shape)) or "scalar" for name in shown[:3])


def normal(*dims: int, seed: int = 0) -> Array:
    """Reproducible float32 numbers."""
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def positive(*dims: int, seed: int = 0) -> Array:
    """Reproducible float32 numbers from 0.5 to 1.5."""
    return (np.random.default_rng(seed).random(dims) + 0.5).astype(np.float32)


def indices(count: int | tuple[int, ...], below: int, seed: int = 1) -> Array:
    """Reproducible int64 numbers from 0."""
    return np.random.default_rng(seed).integers(0, below, count)


def permutation(count: int) -> Array:
    """The numbers below count in a reproducible order."""
    return np.random.default_rng(3).permutation(count)


def integers(*values: int) -> Array:
    """An int64 vector."""
    return np.array(values, np.int64)


def make_boxes(n: int) -> Array:
    """Boxes of a fifth of a unit square."""
    corner = np.random.default_rng(5).random((1, n, 2))
    return np.concatenate([corner, corner + 0.2], 2).astype(np.float32)


N, C, H, L = 8, 64, 56, 3136
IMAGE = normal(N, C, H, H)
ROWS = normal(64, 128, 256)
FLAT = "matrix(X, rows=512, cols=3136)"
BACK = "rows=8, cols=200704"
