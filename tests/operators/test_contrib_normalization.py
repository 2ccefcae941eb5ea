"""Layer normalizations of onnxruntime's optimisers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random

X, SKIP = random(2, 3, 4), random(2, 3, 4, seed=1)
GAMMA, BETA, BIAS = random(4, seed=2), random(4, seed=3), random(4, seed=4)
SUMMED = ["out", "", "", "total"]


def skipped(inputs: dict[str, Array | None], **others: Any) -> Case:
    return contrib("SkipLayerNormalization", {"x": X, "skip": SKIP, "gamma": GAMMA, **inputs}, tolerance=2e-5, **others)


def simplified(inputs: dict[str, Array | None], **others: Any) -> Case:
    return contrib("SkipSimplifiedLayerNormalization", {"x": X, "skip": SKIP, "gamma": GAMMA, **inputs}, **others)


def statistics(x: Array, skip: Array, gamma: Array, beta: Array, **_: Any) -> list[Array]:
    """The outputs that the CPU kernel leaves out: by numpy."""
    total = (x + skip).astype(np.float64)
    mean = total.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(total.var(-1, keepdims=True) + 1e-12)
    outputs = ((total - mean) * inverse * gamma + beta, mean, inverse, total)
    return [output.astype(np.float32) for output in outputs]


def simplified_statistics(x: Array, skip: Array, gamma: Array, **_: Any) -> list[Array]:
    total = (x + skip).astype(np.float64)
    inverse = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-12)
    outputs = (total * inverse * gamma, total.mean(-1, keepdims=True), inverse)
    return [output.astype(np.float32) for output in outputs]


IDS = np.array([[1, 3, 0], [7, 2, 2]], dtype=np.int32)
SEGMENTS = np.array([[0, 1, 1], [0, 0, 1]], dtype=np.int32)
MASK = np.array([[1, 1, 0], [1, 0, 0]], dtype=np.int32)
POSITIONS = np.array([[4, 1, 0], [0, 1, 2]], dtype=np.int32)
TABLES = {"word": random(8, 4), "position": random(5, 4, seed=1), "segment": random(2, 4, seed=2)}
SCALES = {"gamma": GAMMA, "beta": BETA}


def embedded(
    segments: Array | None = SEGMENTS, mask: Array | None = None, positions: Array | None = None, **others: Any
) -> Case:
    tables = {**TABLES, "segment": TABLES["segment"] if segments is not None else None}
    inputs = {"ids": IDS, "segments": segments, **tables, **SCALES}
    if mask is not None or positions is not None:
        inputs["mask"] = mask
    if positions is not None:
        inputs["positions"] = positions
    return contrib("EmbedLayerNormalization", inputs, output_dtypes=["float", "int32", "float"], **others)


ROWS = ["batch", "seq", 4]
LONGER = {"x": random(1, 5, 4), "skip": random(1, 5, 4, seed=1)}
IMAGES = {"x": random(2, 4, 5, 6), "gamma": random(6, seed=6), "beta": random(6, seed=7)}
SKIPS: dict[str, dict[str, Array]] = {"": {}, "whole": {"skip": random(2, 4, 5, 6, seed=8)},
                                      "flat": {"skip": random(2, 6, seed=8)},
                                      "one": {"skip": random(2, 1, 1, 6, seed=8)}}


def by_groups(
    x: Array, gamma: Array, beta: Array, skip: Array | None = None, bias: Array | None = None, *, groups: int,
    activation: int, epsilon: float = 1e-5, channels_last: int = 1,
) -> list[Array]:
    """Of images: by numpy, as the CPU package has no kernels."""
    wide = x.astype(np.float64) if channels_last else x.astype(np.float64).transpose(0, 2, 3, 1)
    if skip is not None:
        wide = wide + (skip[:, None, None] if skip.ndim == 2 else skip) + (0 if bias is None else bias)
    parts = wide.reshape(len(x), -1, groups, wide.shape[3] // groups)
    mean, deviation = parts.mean((1, 3), keepdims=True), np.sqrt(parts.var((1, 3), keepdims=True) + epsilon)
    y = ((parts - mean) / deviation).reshape(wide.shape) * gamma + beta
    y = y / (1 + np.exp(-y)) if activation else y
    return [np.asarray(one if channels_last else one.transpose(0, 3, 1, 2), x.dtype) for one in (y, wide)]


def grouped(op_type: str, inputs: dict[str, Array], outputs: int = 1, **attributes: Any) -> Case:
    return contrib(op_type, {**IMAGES, **inputs}, attributes={"groups": 3, **attributes}, outputs=outputs,
                   expected=lambda *given, **named: by_groups(*given, **named)[:outputs])


SIZED = [
    at_sizes(Case("SimplifiedLayerNormalization", 17, {"x": X, "scale": GAMMA}), {"x": ROWS}, {"x": LONGER["x"]}),
    at_sizes(skipped({"beta": BETA}, outputs=SUMMED), {"x": ROWS, "skip": ROWS}, LONGER),
    at_sizes(simplified({}, outputs=SUMMED), {"x": ROWS, "skip": ROWS}, LONGER),
    at_sizes(embedded(mask=MASK, outputs=2), dict.fromkeys(("ids", "segments", "mask"), ROWS[:2]),
             {"ids": np.tile(IDS[:, :2], (2, 1)), "segments": np.tile(SEGMENTS[:, :2], (2, 1)),
              "mask": np.tile(MASK[:, :2], (2, 1))}),
]
CASES = [
    *[Case("LayerNormalization", opset, {"x": X, "scale": GAMMA, "bias": BETA}) for opset in (9, 13)],
    Case("LayerNormalization", 13, {"x": random(2, 3, 4, 5), "scale": random(4, 5)}, {"axis": 2}),
    Case("SimplifiedLayerNormalization", 17, {"x": X, "scale": GAMMA}),
    Case("SimplifiedLayerNormalization", 13, {"x": random(2, 3, 4, 5), "scale": random(5)}, {"epsilon": 0.5}, outputs=2,
         expected=lambda x, scale, **_: [x / np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(0.5)) * scale,
                                         1 / np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(0.5))]),
    skipped({"beta": BETA}),
    skipped({"beta": BETA, "bias": BIAS}, attributes={"epsilon": 0.25}, outputs=SUMMED),
    skipped({}),
    skipped({"beta": None, "bias": BIAS}, outputs=SUMMED),
    skipped({"skip": random(1, 3, 4, seed=5), "beta": BETA}),
    skipped({"skip": random(3, 4, seed=5), "beta": BETA}),
    contrib("SkipLayerNormalization", {"x": random(5, 4), "skip": random(5, 4, seed=1), "gamma": GAMMA, "beta": BETA}),
    skipped({"beta": BETA}, outputs=4, expected=statistics),
    simplified({}),
    simplified({"bias": BIAS}, attributes={"epsilon": 0.25}, outputs=SUMMED),
    simplified({}, outputs=3, expected=simplified_statistics),
    embedded(outputs=2),
    embedded(mask=MASK, outputs=2),
    embedded(mask=MASK, outputs=3, attributes={"epsilon": 0.5}),
    embedded(segments=None, outputs=2),
    embedded(positions=POSITIONS, outputs=3),
    embedded(positions=POSITIONS[:1], mask=MASK, outputs=2),
    *SIZED,
    *[grouped(name, {**SKIPS[skip], **extra}, **last, outputs=outputs)
      for name, skip, extra, last, outputs in (
          ("GroupNorm", "", {}, {"activation": 0}, 1),
          ("GroupNorm", "", {}, {"activation": 1, "epsilon": 0.25}, 1),
          ("SkipGroupNorm", "whole", {}, {"activation": 1}, 2),
          ("SkipGroupNorm", "flat", {"bias": random(6, seed=9)}, {"activation": 0}, 2),
          ("SkipGroupNorm", "one", {"bias": random(6, seed=9)}, {"activation": 1}, 1))],
    grouped("GroupNorm", {"x": random(2, 6, 4, 5)}, activation=1, channels_last=0),
    *[replace(grouped(name, {"x": random(2, 4, 5, 6, dtype="float16"), **skip}, activation=1), output_dtypes=["float16"],
              tolerance=2e-3)
      for name, skip in (("GroupNorm", {}), ("SkipGroupNorm", {"skip": random(2, 6, seed=8, dtype="float16")}))],
    grouped("SkipGroupNorm", {"x": random(2, 6, 4, 5), "skip": random(2, 6, seed=8), "bias": random(6, seed=9)},
            activation=1, channels_last=0, outputs=2),
    *[at_sizes(grouped(name, SKIPS[skip], activation=1),
               {"x": ["batch", "height", 5, 6], "skip": ["batch", "height", 5, 6]} if skip else
               {"x": ["batch", "height", 5, 6]},
               {"x": random(3, 2, 5, 6), **({"skip": random(3, 2, 5, 6, seed=8)} if skip else {})})
      for name, skip in (("GroupNorm", ""), ("SkipGroupNorm", "whole"))],
    contrib("GatedRMSNorm", {"x": random(2, 3, 8), "scale": random(8, seed=1), "gate": random(2, 3, 8, seed=2)}),
    contrib("GatedRMSNorm", {"x": random(2, 3, 8), "scale": GAMMA, "gate": random(2, 3, 8, seed=2)},
            attributes={"activation": "sigmoid", "epsilon": 0.1}),
    at_sizes(contrib("GatedRMSNorm", {"x": random(2, 3, 8), "scale": GAMMA, "gate": random(2, 3, 8, seed=2)}),
             {"x": ["batch", "seq", 8], "gate": ["batch", "seq", 8]},
             {"x": random(3, 5, 8), "gate": random(3, 5, 8, seed=2)}),
    contrib("BranchwiseRMSNorm", {"x": random(2, 3, 4)}),
    *[contrib("BranchwiseRMSNorm", {"x": random(2, 3, 4), "scale": random(*dims, seed=1)})
      for dims in ((12,), (3, 4), (4,))],
    *[contrib("BranchwiseRMSNorm", {"x": random(2, 5, 12), "scale": random(*dims, seed=1)},
              attributes={"num_branches": 3, "epsilon": 0.1}) for dims in ((12,), (3, 4), (4,))],
    at_sizes(contrib("BranchwiseRMSNorm", {"x": random(2, 5, 12), "scale": GAMMA}, attributes={"num_branches": 3}),
             {"x": ["batch", "seq", 12]}, {"x": random(3, 2, 12)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_what_is_skipped_with_channels_last_beside_images_with_channels_first_is_refused() -> None:
    case = grouped("SkipGroupNorm", {"x": random(2, 6, 4, 5), "skip": random(2, 1, 1, 6)}, activation=1, channels_last=0)
    with pytest.raises(TranspileError, match="other dims than images whose channels come first"):
        check_case(case)
