"""Resize, Upsample, GridSample, AffineGrid and NonMaxSuppression in every version."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import (
    Array,
    Case,
    Covered,
    at_sizes,
    by_reference,
    case_model,
    check_case,
    compare,
    random,
)

X = random(1, 2, 6, 5)


def scales(*factors: float) -> Array:
    return np.array(factors, np.float32)


def resize(opset: int, x: Array, factors: Array | None, sizes: Array | None = None, roi: Array | None = None,
           **attributes: object) -> Case:
    if opset == 11:  # roi and scales may be empty there, but not left out
        factors = scales() if factors is None else factors
        roi = scales() if roi is None else roi
    inputs = {"x": x, "roi": roi, "scales": factors, "sizes": sizes}
    return Case("Resize", opset, inputs, attributes, constants=["roi", "scales", "sizes"],
                note=f"{factors} {sizes} {attributes}")


def with_specials(x: Array, *specials: float) -> Array:
    """A copy with special numbers in the middle of its planes."""
    result = x.copy()
    for column, special in enumerate(specials):
        result[0, column % x.shape[1], 2 + column % 2, 2 + column % 3] = special
    return result


NAN, INF = float("nan"), float("inf")
UP, DOWN, FRACTIONS = scales(1, 1, 2, 3), scales(1, 1, 0.5, 0.6), scales(1, 1, 1.7, 0.6)
CASES = [
    # 212.99999999999997 in FP64, whose fraction is cut off
    resize(13, np.array([[218, 203]], np.uint8), None, np.array([1, 4]), mode="linear",
           coordinate_transformation_mode="align_corners"),
    *[Case("Upsample", 7, {"x": X}, {"mode": mode, "scales": [1.0, 1.0, 2.0, 3.0]}) for mode in ("nearest", "linear")],
    Case("Upsample", 1, {"x": X}, {"mode": "nearest", "height_scale": 2.0, "width_scale": 3.0},
         expected=lambda x, **_: x.repeat(2, 2).repeat(3, 3)),
    *[Case("Upsample", 9, {"x": X, "s": UP}, {"mode": mode}, constants=["s"], note=mode)
      for mode in ("nearest", "linear")],
    *[Case("Resize", 10, {"x": X, "s": s}, {"mode": mode}, constants=["s"], note=f"{mode} {s}")
      for mode in ("nearest", "linear") for s in (UP, scales(1, 1, 0.5, 0.5))],
    *[resize(11, X, UP, coordinate_transformation_mode=mode, mode="linear")
      for mode in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")],
    *[resize(13, X, s, mode="nearest", nearest_mode=mode, coordinate_transformation_mode=coordinates)
      for s in (UP, DOWN) for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
      for coordinates in ("half_pixel", "asymmetric")],
    resize(11, X, UP, mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn"),
    *[resize(13, X, s, mode="cubic", cubic_coeff_a=a, exclude_outside=outside)
      for s in (UP, DOWN) for a, outside in [(-0.75, 0), (-0.5, 1)]],
    resize(13, X, None, np.array([1, 2, 9, 3]), mode="linear"),
    resize(13, X, None, np.array([1, 2, 4, 8]), scales(0, 0, 0.2, -0.3, 1, 1, 0.9, 1.4), mode="linear",
           coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.5),
    # beyond the input there are no weights, and numbers next to it that are none stay there
    *[resize(13, np.where(np.arange(5) == 4, NAN, X).astype(np.float32) if mode == "linear" else X[:, :1],
             None, np.array([1, count, 4, 9]), scales(0, 0, 0.2, 0.1, 1, 1, 0.9, 3), mode=mode, exclude_outside=int(mode == "cubic"),
             coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=value)
      for mode, count, value in [("linear", 2, 7.5), ("cubic", 1, -INF)]],
    resize(18, X, None, np.array([3, 7]), mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    resize(18, X, None, np.array([3, 7]), mode="nearest", axes=[2, 3], keep_aspect_ratio_policy="not_smaller"),
    # with a policy onnxruntime 1.31 leaves negative axes as they are, against its own inferred dims
    resize(18, X, None, np.array([3, 7]), mode="nearest", axes=[-2, -1]),
    resize(19, X, scales(0.7, 0.7), mode="linear", axes=[2, 3], coordinate_transformation_mode="half_pixel_symmetric"),
    resize(19, random(3, 4, 5), scales(1, 2, 1), mode="nearest"),
    resize(13, random(2, 3, 4, 5, 6), scales(1, 1, 2, 2, 2), mode="linear"),
    # an axis of a known size, and the new one an input: of the weights the engine knows no columns
    by_reference(Case("Resize", 18, {"x": random(3), "roi": None, "scales": None, "sizes": np.array([5])},
                      {"mode": "cubic", "antialias": 1}, ["x"], note="cubic to an input")),
    resize(13, with_specials(X, NAN, INF, -INF), None, np.array([1, 2, 13, 8]), mode="linear"),
    resize(13, with_specials(X, NAN), None, np.array([1, 2, 13, 8]), mode="cubic"),
    resize(13, with_specials(X, NAN, INF)[0, 0], None, np.array([13, 8]), mode="linear"),
]


def affine(theta: Array, size: Array, align_corners: int) -> Array:
    """An axis of one place begins at -1, as in ONNX's definition; onnxruntime 1.31 has it at 1, its reference fails."""
    ticks = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in size[2:]]
    places = np.stack([*np.meshgrid(*ticks, indexing="ij")[::-1], np.ones(size[2:])], axis=-1)
    return np.einsum("nij,...j->n...i", theta, places).astype(np.float32)


DERIVATIVES = [
    *[Derivative("Resize", {"x": near(1, 2, 3, 4), "roi": np.zeros(0, np.float32), "s": scales(1, 1, *factors)}, attributes, fixed=["roi", "s"])
      for factors, attributes in [
          ((2, 3), {"mode": "nearest"}), ((2, 2), {"mode": "linear"}), ((0.5, 0.5), {"mode": "linear", "antialias": 1}),
          ((2, 1.5), {"mode": "cubic", "coordinate_transformation_mode": "align_corners"})]],
    Derivative("Resize", {"x": near(1, 2, 3, 4), "roi": np.zeros(0, np.float32), "s": scales(), "n": np.array([1, 2, 5, 2])},
               {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, fixed=["roi", "s", "n"]),
    *[Derivative("Resize", {"x": near(1, 2, 3, 4), "roi": np.array([0, 0, *low, 1, 1, *high], np.float32), "s": scales(), "n": np.array([1, 2, 4, 3])},
                 {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 5.0}, fixed=["roi", "s", "n"])
      for mode, low, high in [("linear", (0.25, -0.25), (0.75, 1)), ("nearest", (0, 0.5), (1.5, 0.75)), ("cubic", (0.5, 0), (1, 0.5))]],
    Derivative("Upsample", {"x": near(1, 2, 3, 4), "s": scales(1, 1, 2, 2)}, {"mode": "nearest"}, 9, fixed=["s"]),
    # ONNX's reference computes places in FP32, and does not know the modes of opset 16: test_gradient_rules.py has these
    *[Derivative("GridSample", {"x": near(2, 2, 3, 4), "g": near(2, 2, 3, 2, low=-1.7, high=1.7)},
                 {"mode": mode, "padding_mode": padding, "align_corners": align}, opset=20, step=3e-3)
      for mode, padding, align in [("linear", "zeros", 0), ("linear", "border", 1), ("linear", "reflection", 0), ("cubic", "zeros", 1),
                                   ("cubic", "reflection", 0), ("nearest", "zeros", 1)]],
    Derivative("GridSample", {"x": near(1, 2, 2, 3, 3), "g": near(1, 1, 2, 2, 3, low=-1.7, high=1.7)}, {"mode": "linear"}, 20, step=1e-3),
]


@pytest.mark.parametrize("symbols", [{}, {"x": [1, 2, "h", "w"]}], ids=["known", "symbolic"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": mode, "coordinate_transformation_mode": coordinates}
        for mode in ("nearest", "linear")
        for coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    ] + [  # whose weights the script computes
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
        {"mode": "cubic", "antialias": 1, "coordinate_transformation_mode": "pytorch_half_pixel"},
        {"mode": "linear", "antialias": 1},
    ],
    ids=lambda attributes: "-".join(map(str, attributes.values())),
)
def test_sizes_that_only_the_run_knows(attributes: dict[str, object], symbols: dict[str, list[object]]) -> None:
    """One script serves every size."""
    contents = [
        {"x": X, "roi": None, "scales": None, "sizes": np.array([1, 2, *sizes])}
        for sizes in [(7, 9), (3, 4), (6, 5), (12, 1)]
    ]
    check_case(Case("Resize", 19, contents[0], attributes, symbols=symbols, sizes=contents[1:]))


def test_factors_of_symbolic_sizes() -> None:
    """Interpolation along an axis whose size is a symbol."""
    for factors in (UP, scales(1, 1, 2, 0.5)):
        inputs = {"x": random(1, 2, 6, 4), "roi": None, "scales": factors}
        case = Case("Resize", 13, inputs, {"mode": "linear"}, ["scales"])
        check_case(at_sizes(case, {"x": [1, 2, "h", "w"]}, {"x": random(1, 2, 5, 8)}))


GRID = (random(2, 3, 4, 2, seed=4) * 0.8).astype(np.float32)
NOWHERE = np.resize(np.array([NAN, INF, -INF], np.float32), GRID.shape)
BOXES = np.abs(random(1, 6, 4, seed=5))
HALVES = np.where(np.arange(3)[:, None] == 1, -1, np.round(2 * random(2, 3, 6, seed=6)) / 2).astype(np.float32)
OVERLAPPING = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 0, 0.5, 1], [2, 2, 1, 1], [1, 1, 0, 0]]], np.float32)
CASES += [
    *[Case("GridSample", opset, {"x": random(2, 3, 5, 6), "g": GRID},
           {"mode": mode, "padding_mode": padding, "align_corners": align}, note=f"{mode} {padding} {align}")
      for opset, modes in [(16, ("bilinear", "nearest", "bicubic")), (20, ("linear", "cubic"))] for mode in modes
      for padding in ("zeros", "border", "reflection") for align in (0, 1)],
    *[Case("GridSample", 16, {"x": with_specials(random(2, 3, 5, 6), *specials), "g": GRID}, {"mode": mode},
           note=f"{mode} {specials}") for mode, specials in [("bilinear", (NAN, INF, -INF)), ("bicubic", (NAN,))]],
    *[Case("GridSample", 16, {"x": random(2, 3, size, 6), "g": 5 * GRID},
           {"mode": mode, "padding_mode": "reflection", "align_corners": align}, note=f"reflected often {mode} {align}")
      for mode in ("bilinear", "bicubic") for size, align in ((5, 0), (1, 1))],
    Case("AffineGrid", 20, {"theta": random(2, 2, 3) * np.array([[[1]], [[NAN]]], np.float32), "size": np.array([2, 1, 2, 2])},
         constants=["size"], note="NaN"),
    *[Case("GridSample", 20, {"x": random(2, 3, 1, 6), "g": np.where(np.abs(GRID) > 0.7, NOWHERE, GRID)}, {"padding_mode": padding},
           note=f"{padding} at nowhere") for padding in ("zeros", "border")],
    Case("GridSample", 16, {"x": random(1, 2, 2, 2), "g": np.array([[[[2, -2], [1, 0], [-3, 1], [3, 4]]]], np.float32)},
         {"mode": "nearest", "padding_mode": "reflection"}, note="halves are rounded, then reflected"),
    *[Case("AffineGrid", 20, {"theta": random(2, 2, 3), "size": np.array([2, 1, 3, 4])}, {"align_corners": align},
           constants=["size"], note=f"align {align}") for align in (0, 1)],
    *[Case("AffineGrid", 20, {"theta": random(len(size) - 3, len(size) - 2, len(size) - 1), "size": np.array(size)},
           {"align_corners": align}, constants=["size"], note=f"{size} {align}", expected=affine)
      for size in ([1, 2, 1, 4], [2, 1, 2, 3, 1]) for align in (0, 1)],
    *[Case("NonMaxSuppression", opset, {"boxes": BOXES, "scores": random(1, 2, 6, seed=6), "n": np.array([3]),
                                       "iou": np.array([0.3], np.float32)}, {"center_point_box": centre},
           note=f"centre {centre}") for opset, centre in [(10, 0), (11, 1)]],
    # scores are equal, also to their threshold, and one class has none above it
    *[Case("NonMaxSuppression", 11, {"boxes": np.abs(random(2, 6, 4, seed=5)), "scores": HALVES, "n": np.array([3]),
                                     "iou": np.array([0.3], np.float32), **threshold}, note=f"batch of 2 {[*threshold]}")
      for threshold in ({}, {"score": np.array([0.5], np.float32)})],
    Case("NonMaxSuppression", 11, {"boxes": OVERLAPPING, "scores": np.array([[[0.9, 0.8, 0.7, 0.6, 0.9]]], np.float32),
                                   "n": np.array([9]), "iou": np.array([0.5], np.float32)}, note="overlaps are the threshold"),
    # more boxes than are compared at once
    *[Case("NonMaxSuppression", 11, {"boxes": np.abs(random(1, 600, 4, seed=10)), "scores": random(1, 2, 600, seed=11),
                                     "n": np.array([most]), "iou": np.array([0.5], np.float32)}, note=f"600 boxes, {most}")
      for most in (20, 600)],
]

NMS = {"boxes": BOXES, "scores": random(1, 2, 6, seed=6), "n": np.array([3]), "iou": np.array([0.3], np.float32)}
CASES += [
    at_sizes(resize(13, X, UP, mode="nearest"), {"x": [1, 2, "h", "w"]}, {"x": random(1, 2, 9, 4)}),
    *[at_sizes(case, {"x": [1, 2, "h", "w"]}, {"x": random(1, 2, 7, 9)}) for case in [
        *[resize(opset, X, FRACTIONS, mode="nearest", coordinate_transformation_mode=coordinates)
          for opset, coordinates in [(19, "half_pixel_symmetric"), (11, "tf_half_pixel_for_nn")]],
        *[resize(13, X, scales(1, 1, 2.5, 0.5), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode=mode)
          for mode in ("round_prefer_floor", "round_prefer_ceil", "ceil")],
        Case("Resize", 10, {"x": X, "s": FRACTIONS}, constants=["s"]),
        by_reference(resize(13, X, FRACTIONS, mode="linear", coordinate_transformation_mode="align_corners")),
    ]],
    # the axes have functions of their own, which call the same one with other numbers
    *[at_sizes(resize(13, X, None, np.array([1, 2, 5, 7]), mode=mode), {"x": [1, 2, "h", "w"]}, {"x": random(1, 2, 9, 4)})
      for mode in ("nearest", "linear")],
    at_sizes(resize(13, X, UP, mode="linear"), {"x": ["batch", 2, 6, 5]}, {"x": random(3, 2, 6, 5)}),
    at_sizes(Case("Upsample", 9, {"x": X, "s": UP}, constants=["s"]), {"x": ["n", 2, "h", "w"]},
             {"x": random(2, 2, 4, 3)}),
    *[at_sizes(Case("GridSample", opset, {"x": random(2, 3, 5, 6), "g": GRID}, {"mode": mode}),
               {"x": ["n", 3, "h", "w"], "g": ["n", "rows", "columns", 2]}, {"x": random(1, 3, 4, 7), "g": GRID[1:, :2, :3]})
      for opset, mode in [(16, "bilinear"), (16, "nearest"), (20, "cubic")]],
    *[at_sizes(Case("NonMaxSuppression", 11, NMS, constants=constants), {"boxes": [1, "boxes", 4], "scores": [1, 2, "boxes"]},
               {"boxes": np.abs(random(1, 9, 4, seed=8)), "scores": random(1, 2, 9, seed=9)})
      for constants in ((), ("n", "iou"))],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


AFFINE = Covered("AffineGrid", (20,), symbolic=True)
COVERED = (AFFINE,)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("spatial", ["h, w", "4, w", "d, h, w"])
@pytest.mark.parametrize("opset", AFFINE.opsets)
def test_affine_grid_of_symbolic_sizes(opset: int, spatial: str, align: int) -> None:
    """The size is that of an image."""
    rank = spatial.count(",") + 1
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": {opset}]>
        g (float[n, c, {spatial}] x, float[n, {rank}, {rank + 1}] theta) => (float[n, {spatial}, {rank}] grid) {{
          size = Shape(x)
          grid = AffineGrid<align_corners = {align}>(theta, size)
        }}""")
    with ScoringFunction(import_model(onnx.shape_inference.infer_shapes(model))) as function:
        for dims in [(2, 1, 2, 4, 3), (1, 2, 5, 4, 1), (3, 1, 1, 4, 6)]:
            feeds = {"x": random(*dims[:2], *dims[5 - rank :]), "theta": random(dims[0], rank, rank + 1, seed=3)}
            expected = affine(feeds["theta"], np.array(feeds["x"].shape), align)
            compare(function(feeds)["grid"], expected, 1e-5, str(dims))


@pytest.mark.parametrize("mode, factors", [("nearest", (1.41, 0.7)), ("linear", (1.3, 0.7)), ("cubic", (1.3, 0.61))])
def test_fractions_of_symbolic_sizes(mode: str, factors: tuple[float, float]) -> None:
    """The new size is the product in FP32, rounded down: 1.3 times 90 is 116, and 0.7 times 10 is 7."""
    inputs = {"x": random(1, 2, 90, 10), "roi": None, "scales": scales(1, 1, *factors)}
    case = Case("Resize", 13, inputs, {"mode": mode}, ["scales"])
    check_case(at_sizes(case, {"x": [1, 2, "h", "w"]}, {"x": random(1, 2, 7, 20)}, {"x": random(1, 2, 80, 13)}))


@pytest.mark.parametrize("factors", [UP, DOWN], ids=str)
def test_cubic_weights_of_symbolic_sizes(factors: Array) -> None:
    case = resize(13, X, factors, mode="cubic")
    check_case(at_sizes(case, {"x": [1, 2, "h", "w"]}, {"x": random(1, 2, 9, 4)}))


CROP = "tf_crop_and_resize"
REGIONS = [scales(0, 0, 0.23, 0.3, 1, 1, 0.86, 0.79), scales(0, 0, -0.41, 0.12, 1, 1, 0.73, 1.63), scales(0, 0, 0.87, 0.97, 1, 1, 0.11, 0.97)]


@pytest.mark.parametrize(("mode", "x"), [
    ("cubic", X),
    *[(mode, x) for mode in ("linear", "nearest") for x in (X, with_specials(X, NAN, INF), (9 * X).astype(np.int32))],
])
@pytest.mark.parametrize("is_open", [False, True], ids=["known sizes", "open sizes"])
def test_regions_of_the_run(is_open: bool, mode: str, x: Array) -> None:
    """Also regions that are partly outside, turned round, and of one place."""
    for region in REGIONS:
        case = Case("Resize", 13, {"x": x, "roi": region, "scales": None, "sizes": np.array([1, 2, 4, 1 if region is REGIONS[0] else 7])},
                    {"mode": mode, "coordinate_transformation_mode": CROP, "extrapolation_value": -2.5}, ["sizes"])
        check_case(at_sizes(case, {"x": [1, 2, "h", "w"]}, {"x": x[:, :, 1:, :4]}) if is_open else case)


def test_a_region_of_a_symbolic_axis() -> None:
    case = resize(13, X, UP, roi=REGIONS[1], mode="linear", coordinate_transformation_mode=CROP, extrapolation_value=3.5)
    check_case(at_sizes(case, {"x": [1, 2, "h", "w"]}, {"x": random(1, 2, 3, 7)}))


def test_a_region_of_known_and_other_numbers() -> None:
    """As tf2onnx writes it: the axes of images and channels stay, without a product."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 13]>
        g (float[1, 2, 6, 5] x, float[4] box) => (float[1, 2, 3, 4] y)
          <float[2] zero = {0, 0}, float[2] one = {1, 1}, int64[4] sizes = {1, 2, 3, 4}, int64[1] a = {0}, int64[1] b = {2}, int64[1] c = {4}> {
          start = Slice(box, a, b)
          end = Slice(box, b, c)
          roi = Concat<axis = 0>(zero, start, one, end)
          y = Resize<coordinate_transformation_mode = "tf_crop_and_resize", mode = "linear">(x, roi, , sizes)
        }""")
    script = import_model(model)
    assert "places2" in script.text and "places1" not in script.text
    with ScoringFunction(script) as function:
        for box in (scales(0.1, 0.2, 0.8, 1), scales(-0.2, 0, 1.5, 0.4)):
            feeds = {"x": X, "box": box}
            (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
            np.testing.assert_allclose(function(feeds)["y"], expected, atol=1e-5)


def test_a_region_of_too_few_numbers_is_refused() -> None:
    case = Case("Resize", 13, {"x": X, "roi": scales(0, 1), "scales": UP, "sizes": None},
                {"mode": "linear", "coordinate_transformation_mode": CROP}, ["scales"])
    with pytest.raises(UnsupportedCase, match="the region is 2, two numbers for each axis is 8"):
        import_model(case_model(case))


def test_what_lies_outside_of_integers_is_an_integer() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 13]>
        g (int32[1, 4] x) => (int32[1, 4] y) <float[4] roi = {0, -3, 1, 1}, float[2] scales = {1, 1}, int32 two = {2}> {
          z = Resize<coordinate_transformation_mode = "tf_crop_and_resize", mode = "linear", extrapolation_value = -1.75>(x, roi, scales)
          y = Mul(z, two)
        }""")
    with ScoringFunction(import_model(onnx.shape_inference.infer_shapes(model))) as function:
        result = function({"x": np.array([[1, 2, 3, 4]], np.int32)})["y"]
    np.testing.assert_array_equal(result, [[-2, -2, -2, 8]])
