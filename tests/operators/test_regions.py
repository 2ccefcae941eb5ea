"""RoiAlign, MaxRoiPool and DeformConv."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.errors import TranspileError
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, random

REGIONS = np.array(
    [[0, 0, 6, 5], [1.3, 2.1, 7.7, 9.9], [-3, -2, 3, 4], [5, 5, 4, 4], [2.2, 1.1, 2.2, 1.1], [-9, -9, 19, 17],
     [30, 30, 40, 40]], np.float32)
IMAGES = np.array([0, 1, 1, 0, 0, 1, 0])
WHOLE = np.hstack([IMAGES[:, None].astype(np.float32), REGIONS])
X = random(2, 3, 8, 9)
# more regions than a few, whose bins end where FP32 rounds to
MANY = np.random.default_rng(5).integers(-20, 120, (60, 4)).astype(np.float32)
MANY[:, 2:] = MANY[:, :2] + np.abs(MANY[:, 2:])


def with_specials(x: Array, *places: tuple[int, ...]) -> Array:
    """A copy with NaN and infinities at some places."""
    result = x.copy()
    for place, special in zip(places, (np.nan, np.inf, -np.inf)):
        result[place] = special
    return result


def older(opset: int) -> Any:
    """Expected outputs by onnxruntime at an older opset, where the newer one only adds dtypes."""
    def expected(case: Case) -> Any:
        model = case_model(replace(case, opset=opset))
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, {name: array for name, array in case.inputs.items() if array is not None})
    return expected


def align(opset: int, x: Array, regions: Array = REGIONS, images: Array = IMAGES, **attributes: Any) -> Case:
    case = Case("RoiAlign", opset, {"x": x, "regions": regions, "images": images}, attributes)
    return case if opset < 22 else replace(case, expected=lambda *_, **__: older(16)(case))


def pool(opset: int, x: Array, regions: Array = WHOLE, **attributes: Any) -> Case:
    case = Case("MaxRoiPool", opset, {"x": x, "regions": regions}, attributes)
    return case if opset < 22 else replace(case, expected=lambda *_, **__: older(1)(case))


def special_pool(x: Array) -> Case:
    """NaN spreads over its bins, as in the other poolings; onnxruntime keeps it where it is a bin's last pixel."""
    huge = np.float32(1e37)

    def expected(*_: Array, **__: Any) -> Array:
        y: Array = older(1)(pool(1, np.where(np.isnan(x), huge, x), pooled_shape=[3, 2]))[0]
        return np.where(y == huge, np.float32(np.nan), np.where(y == np.finfo(np.float32).min, -np.inf, y))
    return replace(pool(1, x, pooled_shape=[3, 2]), expected=expected)


def deform(
    opset: int, x: Array, w: Array, outputs: Sequence[int], bias: bool = False, mask: bool = False, **attributes: Any
) -> Case:
    taps = attributes.get("offset_group", 1) * int(np.prod(w.shape[2:]))
    inputs = {
        "x": x, "w": w, "offset": 2 * random(len(x), 2 * taps, *outputs, seed=3),
        "bias": random(len(w), seed=4) if bias else None,
        "mask": random(len(x), taps, *outputs, seed=5) if mask else None,
    }
    return Case("DeformConv", opset, inputs, attributes)


def any_align(**attributes: Any) -> Case:
    """A RoiAlign of any images and regions; in opset 16 some of the few regions have no samples."""
    symbols = {"x": ["batch", 3, "height", "width"], "regions": ["count", 4], "images": ["count"]}
    other = {"x": random(1, 3, 5, 6, seed=2), "regions": REGIONS[:2], "images": np.zeros(2, np.int64)}
    few = {"regions": REGIONS[3:5], "images": IMAGES[3:5]}
    none = {"regions": REGIONS[:0], "images": IMAGES[:0]}
    return at_sizes(align(16, X, **GRID, **attributes), symbols, other, few, none)


def any_pool() -> Case:
    """A MaxRoiPool of any images and regions, also of one outside of its image."""
    symbols = {"x": ["batch", 3, "height", "width"], "regions": ["count", 5]}
    other = {"x": random(1, 3, 5, 6, seed=2), "regions": WHOLE[:1]}
    return at_sizes(pool(1, X, pooled_shape=[2, 2]), symbols, other, {"regions": WHOLE[6:]}, {"regions": WHOLE[:0]})


def any_deform() -> Case:
    """A DeformConv of any images."""
    symbols = {"x": ["batch", 4, "height", "width"], "offset": ["batch", 16, "oh", "ow"], "mask": ["batch", 8, "oh", "ow"]}
    groups = {"group": 2, "offset_group": 2}
    other = deform(19, random(3, 4, 4, 5), random(6, 2, 2, 2, seed=2), (3, 4), True, True, **groups)
    case = deform(19, IMAGE, random(6, 2, 2, 2, seed=1), (6, 5), True, True, **groups)
    return at_sizes(case, symbols, {name: array for name, array in other.inputs.items() if array is not None})


def whole_deform(x: Array, w: Array, outputs: Sequence[int]) -> Case:
    """A DeformConv of whole pixels: those beside them have the weight 0."""
    case = deform(19, x, w, outputs)
    return replace(case, inputs={**case.inputs, "offset": np.rint(2 * random(len(x), 18, *outputs, seed=3))})


GRID = {"output_height": 3, "output_width": 2}
IMAGE = random(2, 4, 7, 6)
DERIVATIVES = [
    Derivative("RoiAlign", {"x": near(2, 2, 6, 7), "regions": REGIONS.astype(np.float64), "images": IMAGES}, attributes, fixed=["regions", "images"])
    for attributes in ({"output_height": 2, "output_width": 3, "sampling_ratio": 2},
                       {"output_height": 3, "output_width": 2, "spatial_scale": 0.5, "coordinate_transformation_mode": "output_half_pixel"})
]
CASES = [
    align(10, X, spatial_scale=0.9, sampling_ratio=2, **GRID),
    align(10, X, mode="max", **GRID),
    align(10, random(2, 3, 8, 9, dtype="double"), REGIONS.astype(np.float64)),
    align(16, X, **GRID),
    align(16, X, sampling_ratio=3, coordinate_transformation_mode="output_half_pixel", **GRID),
    align(16, X, mode="max", sampling_ratio=2, **GRID),
    align(16, X, mode="max", spatial_scale=1.7, **GRID),
    align(16, X, MANY, np.arange(60) % 2, spatial_scale=0.0625, output_height=7, output_width=7),
    align(16, with_specials(X, (0, 0, 2, 2), (0, 1, 3, 3), (1, 0, 0, 0)), **GRID),
    align(16, with_specials(X, (0, 0, 2, 2), (0, 1, 3, 3), (1, 0, 0, 0)), sampling_ratio=2, **GRID),
    align(16, with_specials(X, (0, 0, 2, 2), (0, 1, 3, 3), (1, 0, 0, 0)), mode="max", **GRID),
    align(22, X, spatial_scale=0.5, output_height=2),
    pool(1, X, pooled_shape=[3, 2]),
    pool(1, X, pooled_shape=[2, 5], spatial_scale=0.7),
    pool(1, X, np.hstack([np.arange(60)[:, None].astype(np.float32) % 2, MANY]), pooled_shape=[7, 7],
         spatial_scale=0.0625),
    special_pool(with_specials(X, (0, 0, 2, 2), (1, 0, 1, 1), (0, 2, 3, 3))),
    pool(22, X, pooled_shape=[1, 1]),
    deform(19, IMAGE, random(6, 4, 3, 3, seed=1), (5, 4)),
    deform(19, IMAGE, random(6, 4, 3, 2, seed=1), (6, 3), bias=True, mask=True, pads=[1, 0, 2, 1], strides=[1, 2],
           dilations=[2, 1]),
    deform(19, IMAGE, random(6, 2, 2, 2, seed=1), (6, 5), group=2, mask=True),
    deform(19, IMAGE, random(8, 1, 2, 2, seed=1), (6, 5), group=4, offset_group=2),
    deform(19, IMAGE, random(4, 4, 1, 1, seed=1), (7, 6), offset_group=4, bias=True),
    deform(19, random(2, 6, 5, 6), random(3, 2, 3, 2, seed=1), (3, 5), True, True, group=3),
    deform(22, IMAGE[:1], random(3, 4, 2, 2, seed=1), (6, 5), offset_group=2, kernel_shape=[2, 2]),
    deform(22, with_specials(IMAGE, (0, 0, 2, 2), (1, 3, 4, 5)), random(6, 2, 2, 2, seed=1), (6, 5), group=2),
    whole_deform(with_specials(IMAGE, (0, 0, 2, 2)), random(2, 4, 3, 3, seed=1), (5, 4)),
    any_align(),
    any_align(mode="max"),
    any_align(sampling_ratio=2),
    any_pool(),
    any_deform(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_constant_weight() -> None:
    case = deform(19, IMAGE, random(6, 2, 2, 2, seed=1), (6, 5), group=2)
    check_case(replace(case, constants=["w"]))


@pytest.mark.parametrize("case", [
    align(16, X, images=IMAGES + 1), align(16, X, images=-IMAGES),
    *[pool(1, X, WHOLE + np.float32([beyond, 0, 0, 0, 0]), pooled_shape=[1, 1]) for beyond in (1, -1)],
], ids=str)
def test_wrong_batch_index(case: Case) -> None:
    with pytest.raises(ScriptRuntimeError, match="batch index is out of range"):
        check_case(case)


def test_other_ranks_are_refused() -> None:
    with pytest.raises(TranspileError, match="rank"):
        check_case(pool(1, random(1, 3, 8), WHOLE, pooled_shape=[1, 1]))
