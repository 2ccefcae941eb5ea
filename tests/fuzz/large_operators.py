"""Single operators on tensors of up to some hundred thousand elements, judged by onnxruntime.

The engine takes other ways there than for the small tensors of `operators`: several threads, blocks of rows, other sparse
formats. The reference, which takes a second for some of them, is asked where onnxruntime differs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from onnx_systemds.engine import Session
from tests.fuzz import operators
from tests.fuzz.drawing import Array, Draw
from tests.fuzz.finding import Finding
from tests.fuzz.judging import TALLY, ModelCase, Verdict, check_model

_CELLS = 400_000
"""What the large sizes of a case multiply to, at the most."""
_MOST_CELLS = 3_000_000
_STEPS = 1e9


class LargeDraw(Draw):
    """Draws some sizes large, together not above `_CELLS`."""

    largest = _CELLS
    left = float(_CELLS)

    def size(self, smallest: int = 0) -> int:
        """As of `Draw`, or any up to what is left of the elements, all magnitudes alike."""
        if self.left < 20 or self.chance(0.5):
            return super().size(smallest)
        found = max(int(self.left ** self.rng.uniform(0.2, 1.0)), smallest)
        self.left /= found
        return found

    def other_size(self, smallest: int = 0) -> int:
        """Up to some thousands, all magnitudes alike."""
        return max(int(10 ** self.rng.uniform(0.5, 3.7)), smallest)


def case(seed: int) -> ModelCase:
    """The case of an operator, called at most once with each number of elements."""
    made = operators.case(seed, kind=LargeDraw)
    by_size = {tuple(map(np.size, _arrays(feeds))): feeds for feeds in made.calls}
    return replace(made, calls=tuple(by_size.values()), specialise_after=20)


def read(path: Path) -> ModelCase:
    """The case of a file that `wide_matrices.written` wrote."""
    return case(json.loads(path.read_text(encoding="utf-8"))["seed"])


def check(case: ModelCase, session: Session) -> Finding | None:
    """As `check_model`, of the calls that onnxruntime runs on tensors that are not too large."""
    calls = tuple(feeds for feeds in case.calls if _fits(case.model, feeds))
    results = Verdict(case.model, calls[0]).of("onnxruntime") if calls else None
    if results is None or sum(map(np.size, _arrays(results))) > _MOST_CELLS:
        TALLY.add("too large" if results is not None or not calls else "no judge")
        return None
    return check_model(replace(case, calls=calls), session, judges=("onnxruntime",))


def _arrays(feeds: Mapping[str, Any]) -> list[Array]:
    return [value for value in feeds.values() if isinstance(value, np.ndarray)]


def _fits(model: ModelProto, feeds: Mapping[str, Any]) -> bool:
    """Whether inputs and results have no more elements than `_MOST_CELLS`, and no Einsum takes too many steps."""
    if sum(array.size for array in _arrays(feeds)) > _MOST_CELLS:
        return False
    sized = ModelProto()
    sized.CopyFrom(model)
    for info in sized.graph.input:
        if isinstance(value := feeds[info.name], np.ndarray):
            for dim, size in zip(info.type.tensor_type.shape.dim, value.shape):
                dim.Clear()
                dim.dim_value = size
    inferred = onnx.shape_inference.infer_shapes(sized, data_prop=True)
    results = [math.prod(dim.dim_value for dim in info.type.tensor_type.shape.dim) for info in inferred.graph.output]
    is_product = model.graph.node[0].op_type == "Einsum"
    steps = math.prod({size for array in _arrays(feeds) for size in array.shape if size}) if is_product else 0
    return sum(results) <= _MOST_CELLS and steps <= _STEPS
