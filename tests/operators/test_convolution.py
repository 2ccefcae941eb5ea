"""Convolutions and transposed convolutions in every version, padding, group and number of axes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.operators.support.windows import Windows
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, random

X2 = random(2, 4, 7, 6)
ONE = random(1, 4, 7, 6)
B6 = random(6, seed=5)


def _conv(x: Array, w: Array, b: Array | None = None, opset: int = 11, weight_known: bool = True, op: str = "Conv",
          **attributes: object) -> Case:
    inputs = {"x": x, "w": w} | ({} if b is None else {"b": b})
    return Case(op, opset, inputs, attributes, constants=("w", "b") if weight_known else ())


def _weight(*dims: int) -> Array:
    return random(*dims, seed=3)


CASES = [
    *[_conv(X2, _weight(6, 4, 3, 2), B6, opset) for opset in (1, 11, 22)],
    *[_conv(X2, _weight(6, 4, 3, 2), auto_pad=mode, strides=[2, 1]) for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")],
    *[_conv(x, _weight(6, 4, 3, 3), B6, weight_known=known, pads=[0, 1, 2, 1], strides=[2, 2], dilations=[2, 1])
      for x in (ONE, X2) for known in (True, False)],
    *[_conv(X2, _weight(6, 4, 3, 2), bias, weight_known=known, pads=[1, 0, 2, 1], dilations=dilations)
      for known, bias, dilations in [(True, B6, [1, 2]), (True, None, [2, 2]), (False, B6, [2, 1])]],
    _conv(np.where(X2 > 2, np.inf, X2).astype(np.float32), np.abs(_weight(6, 4, 2, 2)), dilations=[1, 2]),
    _conv(random(2, 4, 9), _weight(6, 4, 3), B6, pads=[2, 1], dilations=[2]),
    *[_conv(x, _weight(6, 4, 1, 1), B6, strides=strides) for x in (ONE, X2) for strides in ([1, 1], [2, 3])],
    *[_conv(x, _weight(4 * copies, 1, 3, 2), weight_known=known, group=4, pads=[1, 0, 1, 2], strides=strides,
            dilations=dilations)
      for x, copies, known, strides, dilations in [
          (ONE, 1, True, [1, 1], [1, 1]), (X2, 1, False, [2, 1], [1, 2]), (X2, 2, True, [2, 3], [2, 1]),
          (ONE, 3, False, [1, 2], [1, 1])]],
    *[_conv(x, _weight(4, 1, 3, 2), B6[:4], group=4) for x in (ONE, X2)],
    _conv(X2, _weight(6, 2, 3, 3), B6, group=2, pads=[1, 1, 0, 1]),
    _conv(random(2, 18, 5, 4), _weight(9, 2, 3, 3), group=9, pads=[1, 1, 1, 1], strides=[2, 1]),
    _conv(random(2, 20, 5, 4), _weight(30, 2, 3, 2), weight_known=False, group=10, dilations=[2, 1]),
    _conv(random(2, 10, 3, 2), _weight(20, 1, 1, 1), group=10),  # too few zeros to be a sparse matrix
    _conv(random(2, 4, 9), _weight(6, 4, 3), B6, pads=[2, 1], strides=[2], dilations=[2]),
    _conv(random(1, 4, 9), _weight(6, 4, 1), B6),
    *[_conv(random(n, 3000, *sizes), _weight(6, 3000, 1, 1), B6) for n, sizes in ((1, (2, 2)), (7, (1, 1)))],  # few long rows
    _conv(random(2, 4, 9), _weight(4, 1, 3), group=4, pads=[1, 1]),
    *[_conv(random(n, 4, 4, 5, 6), _weight(6, 4 // group, 2, 3, 2), B6, weight_known=known, group=group,
            pads=[1, 0, 1, 0, 1, 1], strides=[2, 1, 2], dilations=[2, 1, 2])
      for n, group, known in [(1, 1, True), (2, 2, True), (2, 1, False)]],
    *[_conv(random(2, 4, 3, 4, 3, 5), _weight(6, 4 // group, 2, 1, 2, 3), B6, weight_known=known, group=group,
            pads=[1, 0, 1, 0, 0, 1, 0, 2], strides=[2, 1, 1, 2], dilations=[1, 2, 2, 1])
      for group, known in [(1, True), (2, False)]],
    _conv(random(1, 2, 2, 3, 2, 3, 4), _weight(3, 2, 2, 2, 1, 2, 3), pads=[1, 0, 0, 0, 1] * 2),
    _conv(np.where(X2 > 2, np.inf, X2).astype(np.float32), np.abs(_weight(6, 4, 2, 2))),
    *[Case("ConvInteger", 10, {"x": random(2, 2, 5, 5, dtype="uint8"), "w": random(4, 2, 3, 3, seed=2, dtype="uint8"),
                               "xz": xz, "wz": wz}, {"pads": [1, 0, 1, 1]}, constants=constants)
      for xz, wz, constants in [
          (None, None, ("w",)), (np.array(3, np.uint8), None, ("w", "xz")),
          (np.array(3, np.uint8), np.array(2, np.uint8), ("w", "xz", "wz")),
          (np.array(3, np.uint8), np.array(2, np.uint8), ())]],
    # a zero point for each filter, which onnxruntime 1.31 does not take
    *[Case("ConvInteger", 10, {"x": random(2, 2, 3, 3, dtype="uint8"), "w": random(4, 2, 3, 3, seed=2, dtype="uint8"), "xz": np.array(3, np.uint8),
                               "wz": np.array([0, 2, 9, 255], np.uint8)}, constants=constants, note=f"{constants}",
           expected=lambda x, w, xz, wz: np.einsum("nchw,fchw->nf", x - 3.0, w - wz[:, None, None, None] * 1.0).astype(np.int32)[:, :, None, None])
      for constants in (("w", "wz"), ())],
    *[Case("ConvInteger", 10, {"x": np.full((2, terms // 9, 3, 3), 255, np.uint8),
                               "w": np.full((1, terms // 9, 3, 3), 255, np.uint8)}, note=f"sums of {terms} numbers",
           expected=lambda x, w: np.einsum("nchw,fchw->nf", x.astype(np.int64), w).astype(np.int32)[:, :, None, None])
      for terms in (33_021, 33_030)],  # the longer ones wrap around
]

CASES += [
    *[_conv(X2, _weight(4, 3, 3, 2), random(3, seed=6), opset, op="ConvTranspose", strides=[2, 3])
      for opset in (1, 11, 22)],
    _conv(X2, _weight(4, 3, 3, 3), op="ConvTranspose", pads=[1, 1, 1, 1], strides=[2, 2], output_padding=[1, 1]),
    _conv(X2, _weight(4, 3, 3, 3), op="ConvTranspose", pads=[0, 1, 2, 0], strides=[3, 2], dilations=[2, 1]),
    _conv(X2, _weight(4, 3, 3, 3), weight_known=False, op="ConvTranspose", dilations=[2, 3], group=2),
    _conv(X2, _weight(4, 3, 3, 3), op="ConvTranspose", output_shape=[15, 12], strides=[2, 2]),
    *[_conv(X2, _weight(4, 3, 3, 3), op="ConvTranspose", auto_pad=mode, strides=[2, 2])
      for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")],
    # windows smaller than their strides: a padding is never below 0, the first element stays the first
    *[_conv(X2, _weight(4, 3, 1, 2), op="ConvTranspose", auto_pad=mode, strides=[4, 3], output_shape=[28, 18])
      for mode in ("NOTSET", "SAME_UPPER", "SAME_LOWER")],
    _conv(random(2, 4, 5), _weight(4, 3, 3), op="ConvTranspose", strides=[2], pads=[0, 1]),
    *[_conv(random(n, 4, 3, 4, 5), _weight(4, 2, 2, 3, 2), random(2 * group, seed=6), op="ConvTranspose",
            group=group, strides=[2, 1, 2], pads=[1, 0, 0, 0, 1, 1], dilations=dilations)
      for n, group, dilations in [(1, 1, [1, 1, 1]), (2, 2, [2, 1, 2])]],
    *[_conv(random(2, 4, 2, 3, 2, 3), _weight(4, 2, 2, 1, 3, 2), random(2 * group, seed=6), weight_known=known, op="ConvTranspose",
            group=group, strides=[2, 1, 1, 2], pads=[1, 0, 1, 0, 0, 0, 1, 1], dilations=[1, 1, 2, 2], output_padding=[1, 0, 0, 1])
      for group, known in [(1, True), (2, False)]],
]

CASES += [
    *[at_sizes(_conv(X2, weight, op=op, **attributes), {"x": ["batch", 4, "height", "width"]},
               {"x": random(1, 4, 8, 5)}, {"x": random(3, 4, 6, 9)})
      for op, weight, attributes in [
          ("Conv", _weight(6, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
          ("Conv", _weight(6, 4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
          ("Conv", _weight(6, 4, 1, 1), {"strides": [2, 1]}),
          ("Conv", _weight(4, 1, 3, 3), {"group": 4, "strides": [2, 1], "pads": [1, 0, 0, 1]}),
          ("Conv", _weight(6, 2, 3, 3), {"group": 2, "dilations": [2, 1], "pads": [1, 0, 1, 1]}),
          ("ConvTranspose", _weight(4, 3, 3, 3), {"strides": [2, 2], "pads": [1, 0, 1, 1]})]],
    at_sizes(_conv(random(2, 2, 4, 5, 5), _weight(3, 2, 2, 2, 2), pads=[1] * 6), {"x": ["n", 2, "d", 5, 5]},
             {"x": random(3, 2, 3, 5, 5)}),
    *[at_sizes(_conv(random(2, 2, 3, 4, 3, 2), _weight(2, 2, 2, 2, 2, 2), op=op, pads=[1, 0] * 4), {"x": ["n", 2, "t", 4, "h", "w"]},
               {"x": random(3, 2, 2, 4, 4, 3)}) for op in ("Conv", "ConvTranspose")],
    at_sizes(_conv(random(2, 4, 7), _weight(4, 3, 3), op="ConvTranspose", strides=[2]), {"x": ["n", 4, "w"]},
             {"x": random(1, 4, 9)}),
    at_sizes(_conv(random(2, 4, 7), _weight(3, 4, 3), strides=[2]), {"x": ["n", 4, "w"]}, {"x": random(1, 4, 9)}),
    at_sizes(Case("ConvInteger", 10, {"x": random(2, 2, 5, 5, dtype="uint8"),
                                      "w": random(4, 2, 3, 3, seed=2, dtype="uint8"), "xz": np.array(3, np.uint8)},
                  {"pads": [1, 0, 1, 1]}, constants=["w", "xz"]),
             {"x": ["n", 2, "h", "w"]}, {"x": random(1, 2, 4, 7, dtype="uint8")}),
]


def _unusual(x: Array) -> Array:
    """NaN and infinities in the second channel alone."""
    return np.where((x > 1) & (np.arange(x.shape[1]) == 1).reshape(-1, *[1] * (x.ndim - 2)), np.where(x > 1.5, np.nan, np.inf), x)


def _rare(x: Array) -> Array:
    """A tenth of the numbers, the others 0: the engine stores a sparse matrix."""
    return np.where(np.random.default_rng(4).random(x.shape) < 0.1, x, 0)


# depthwise: the filters of all channels are one sparse matrix, except for those that would be stored densely
CASES += [
    _conv(change(random(n, channels, 9, 8)).astype(np.float32), _weight(channels * copies, 1, *kernel), bias,
          group=channels, pads=[kernel[0] // 2, kernel[1] // 2] * 2, strides=strides)
    for change in (_unusual, _rare)
    for n, channels, copies, kernel, strides in [
        (1, 2, 1, (3, 3), [1, 1]), (2, 3, 1, (3, 3), [2, 1]), (2, 3, 2, (5, 5), [1, 1]), (1, 3, 1, (1, 1), [1, 1]),
        (2, 18, 1, (1, 1), [1, 1]), (2, 19, 1, (1, 1), [1, 1]), (1, 7, 1, (1, 3), [1, 1]), (16, 24, 1, (3, 3), [1, 2])]
    for bias in (None, random(channels * copies, seed=5))
]

# each window meets all of an image: one product for all images
WHOLE = [
    (random(3, 4, 1, 1), (6, 4, 1, 1), {}), (random(3, 4, 1, 1), (6, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
    (random(3, 4, 2, 2), (6, 4, 3, 3), {"pads": [1, 1, 1, 1]}), (random(1, 4, 2, 2), (6, 4, 3, 3), {"pads": [1] * 4}),
    (random(3, 4, 5, 2), (6, 4, 5, 2), {}), (random(3, 4, 5, 1), (6, 4, 5, 3), {"pads": [0, 2, 0, 1]}),
    (random(3, 4, 3, 2), (6, 4, 3, 2), {"dilations": [1, 2], "strides": [1, 2], "pads": [0, 2, 0, 2]}),
    (random(3, 4, 2), (6, 4, 3), {"pads": [1, 1]}), (random(3, 4, 1), (6, 4, 5), {"pads": [4, 4], "strides": [2]}),
]
CASES += [_conv(change(x).astype(np.float32), _weight(*filters), bias, **attributes)
          for x, filters, attributes in WHOLE for change, bias in ((np.array, None), (_unusual, B6))]
CASES += [at_sizes(_conv(x, _weight(*filters), B6, **attributes), {"x": ["batch", *x.shape[1:]]},
                   {"x": random(2, *x.shape[1:])}, {"x": random(5, *x.shape[1:])})
          for x, filters, attributes in WHOLE]

# NaN and Inf stay in their groups
CASES += [
    _conv(_unusual(random(2, 18, 5, 4)).astype(np.float32), _weight(18, 18 // group, 3, 3), random(18, seed=5), weight_known=known, group=group,
          pads=[1] * 4)
    for group in (9, 18) for known in (True, False)
]

# nearly empty images, of which the engine makes a wrong sparse result
NEARLY_EMPTY = np.zeros((1, 18, 60, 60), np.float32)
NEARLY_EMPTY[0, ::9, 30, 31] = [2, 3]
CASES += [
    _conv(NEARLY_EMPTY, _weight(36, 18 // group, 3, 3), bias, group=group, pads=[1] * 4)
    for group in (1, 2, 9, 18) for bias in (None, random(36, seed=5))
]
CASES += [_conv(NEARLY_EMPTY, _weight(18, 4, 3, 3), op="ConvTranspose", group=group, strides=[2, 2]) for group in (1, 2)]

# shifted planes above each other: dilated, or one image of many channels
CASES += [
    _conv(x, _weight(5, 4, 3, 2), bias, weight_known=known, pads=pads, dilations=dilations)
    for x in (ONE, X2) for bias, known in ((None, True), (B6[:5], False))
    for pads, dilations in (([0] * 4, [2, 1]), ([2, 3, 2, 1], [2, 3]), ([1, 0, 1, 0], [3, 5]))
]
for height, width in ((1, 2), (2, 2), (3, 3), (4, 5)):  # from some size on, the shifts of taps are a sparse matrix
    images = random(3, 2, height, width)
    images[0, 1, 0, 1], images[1, 0, -1, 0], images[2, 1, 0, 0] = np.nan, np.inf, -np.inf
    CASES += [_conv(images, _weight(3, 2, *kernel), B6[:3], pads=[2] * 4, dilations=[2, 3])
              for kernel in ((1, 2), (2, 2), (3, 2))]
CASES += [
    _conv(random(1, 32, 90, 94), _weight(16, 32, 3, 3), bias, pads=pads) for bias in (None, random(16, seed=5))
    for pads in ([1] * 4, [0, 1, 2, 0])
]
CASES += [
    _conv(random(n, 4, 11), _weight(3, 4, 3), B6[:3], pads=[2, 3], dilations=[3]) for n in (1, 2)
]
CASES += [
    at_sizes(_conv(x, _weight(16, 32, 3, 3), B6.repeat(3)[:16], pads=[2] * 4, dilations=[2, 2]),
             {"x": [batch, 32, "height", "width"]}, {"x": random(1, 32, 5, 8)})
    for x, batch in ((random(1, 32, 6, 5), 1), (random(2, 32, 6, 5), "batch"))
]


DERIVATIVES = [
    *[Derivative("Conv", {"x": near(*x), "w": near(*w, seed=1), "b": near(w[0], seed=2)}, attributes)
      for x, w, attributes in [
          ((2, 2, 5, 4), (3, 2, 3, 2), {}), ((2, 2, 6, 5), (3, 2, 3, 3), {"strides": [2, 3], "pads": [1, 0, 1, 2]}),
          ((1, 2, 7, 6), (2, 2, 2, 3), {"dilations": [2, 1], "strides": [3, 2]}),
          ((2, 4, 5, 5), (4, 2, 2, 2), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
          ((2, 3, 5, 5), (3, 1, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}), ((2, 2, 7), (3, 2, 3), {"strides": [2]}),
          ((1, 2, 3, 2, 2, 3), (2, 2, 2, 1, 2, 2), {"pads": [1, 0] * 4, "strides": [1, 1, 2, 1]})]],
    *[Derivative("ConvTranspose", {"x": near(*x), "w": near(*w, seed=1), "b": near(2, seed=2)}, attributes)
      for x, w, attributes in [((2, 3, 3, 4), (3, 2, 2, 3), {}),
                               ((1, 3, 3, 2), (3, 2, 3, 3), {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}),
                               ((1, 2, 2, 2, 2, 3), (2, 2, 2, 1, 2, 2), {"strides": [2, 1, 1, 1], "pads": [1, 0] * 4})]],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(("dims", "filters", "is_product"), [
    ((2, 4, 2, 2), (6, 4, 3, 3), True), ((2, 4, 1, 1), (6, 4, 3, 3), True),
    ((2, 4, 3, 3), (6, 4, 3, 3), False),  # zeros for what a window misses would carry NaN to it
])
def test_whole_images_are_a_product(dims: tuple[int, ...], filters: tuple[int, ...], is_product: bool) -> None:
    text = import_model(case_model(_conv(random(*dims), _weight(*filters), pads=[1] * 4))).text
    assert ("conv2d(" not in text) == is_product


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize(("dilation", "filters", "is_summed"), [
    (2, 3, True), (1, 3, False), (2, 4000, False),  # the results of all taps find no room
])
def test_few_results_of_dilated_taps_are_summed_by_one_product(
    images: int, dilation: int, filters: int, is_summed: bool
) -> None:
    case = _conv(random(images, 2, 6, 6), _weight(filters, 2, 3, 3), pads=[dilation] * 4, dilations=[dilation] * 2)
    assert ("tap_shifts(" in import_model(case_model(case)).text) == is_summed


def test_integers_are_convolved_once() -> None:
    case = Case("ConvInteger", 10, {"x": random(2, 2, 5, 5, dtype="uint8"), "w": random(4, 2, 3, 3, dtype="uint8")})
    text = import_model(case_model(case)).text
    assert text.count("conv2d(") == 1
    assert "floor" not in text


def test_no_table_of_all_windows_of_a_long_signal() -> None:
    """Of 30 s of sound it would have 11 GB."""
    window = Windows((480400,), (400,), (160,), (1,), (0,), (0,), (0,), (3001,))
    tracemalloc.start()
    assert window.taps_of_whole_images() is None
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
