"""Depthwise convolutions that scripts compute as products with a sparse matrix."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.dml.templates import library_text
from tests.exporting.export_harness import ExportCase, check_export, model_of

RNG = np.random.default_rng(5)
FUNCTIONS = library_text("depthwise_matrix")
IMAGES = RNG.normal(size=(3, 40))
FILTERS = RNG.normal(size=(4, 6))
CONV = ["Reshape", "Conv", "Reshape"]


def convolved(name: str, result: str, numbers: str = "3, 2, 2, 1, 1, 0", **more) -> ExportCase:
    """Images of 2 x 5 x 4; numbers: of the kernel, of the strides, of the padding."""
    body = f"M = depthwise_matrix(W, 2, 5, 4, {numbers})\nY = {result}"
    return ExportCase(name, body, {"X": IMAGES, "W": FILTERS}, functions=FUNCTIONS, symbols={"X": ["N", 40]},
                      sizes=[{"X": IMAGES[:1]}], dtypes=["float32"], **more)


@pytest.mark.parametrize("case", [
    convolved("a product", "t(M %*% t(X))", bound=["W"], operators=CONV),
    convolved("a product without padding", "t(M %*% t(X))", "2, 3, 1, 1, 0, 0", bound=["W"], operators=CONV),
    convolved("filters that are computed", "t(M %*% t(X))", operators=["Reshape", *CONV]),
    convolved("the other product", "X %*% t(M)", bound=["W"]),
    convolved("the matrix itself", "M * sum(X)", bound=["W"]),
    convolved("a product with it turned", "t(M) %*% (M %*% t(X))", bound=["W"]),
], ids=str)
def test_depthwise_matrix(case: ExportCase) -> None:
    check_export(case)


STRIPS = library_text("image_strips") + library_text("joined_strips")
SHAPES = "filter_shape=[4, 2, 3, 3], stride=[1, 1], padding=[1, 1]"


def in_strips(name: str, size: int, start: int, numbers: str, **more) -> ExportCase:
    """An image of 2 x 9 x 5 in strips of that many numbers; numbers: of the results of each."""
    given = f"conv2d(image_strips(X, {size}, {start}), W, input_shape=[2, 2, {size // 5}, 5], {SHAPES})"
    image, filters, bias = RNG.normal(size=(2, 45)), RNG.normal(size=(4, 18)), RNG.normal(size=(4, 1))
    return ExportCase(name, f"Y = joined_strips(bias_add({given}, b), 4, {numbers})", {"X": image, "W": filters, "b": bias},
                      functions=STRIPS, bound=["W", "b"], dtypes=["float32"], **more)


@pytest.mark.parametrize("case", [
    in_strips("an image in strips", 30, 16, "30, 25, 11", operators=CONV),
    in_strips("more results of the lower strip", 30, 16, "30, 20, 6", operators=CONV),
    in_strips("a result that reads the border", 30, 16, "30, 30, 16"),
    in_strips("a result that comes twice", 30, 16, "30, 25, 6"),
    in_strips("parts of lines", 30, 16, "30, 23, 9"),
], ids=str)
def test_strips(case: ExportCase) -> None:
    check_export(case)


DEPTHWISE = library_text("grouped_filters")
BLOCKS = np.kron(np.eye(4), RNG.normal(size=(2, 2 * 9)))  # 4 groups of 2 filters of 2 channels
ALONE = np.vstack([np.hstack([np.zeros((1, 9 * c)), RNG.normal(size=(1, 9)), np.zeros((1, 9 * (7 - c)))]) for c in range(8)])


def by_channels(name: str, made: str, filters: np.ndarray, count: int, **more) -> ExportCase:
    """Images of 8 x 5 x 4 by filters of 3 x 3."""
    body = (f"F = {made}\nY = conv2d(X, F, input_shape=[nrow(X), 8, 5, 4], filter_shape=[{count}, 8, 3, 3], "
            "stride=[1, 1], padding=[1, 1])")
    images = RNG.normal(size=(3, 160))
    return ExportCase(name, body, {"X": images, "W": filters}, functions=DEPTHWISE, symbols={"X": ["N", 160]},
                      sizes=[{"X": images[:1]}], dtypes=["float32"], **more)


@pytest.mark.parametrize(("case", "groups"), [
    (by_channels("depthwise", "grouped_filters(W, 8)", RNG.normal(size=(8, 9)), 8, bound=["W"]), 8),
    (by_channels("two filters a channel", "grouped_filters(W, 8)", RNG.normal(size=(16, 9)), 16, bound=["W"]), 8),
    (by_channels("filters that are computed", "grouped_filters(W, 8)", RNG.normal(size=(8, 9)), 8), None),
    (by_channels("known zeros", "W", ALONE, 8, bound=["W"]), 8),
    (by_channels("blocks", "W", BLOCKS, 8, bound=["W"]), 4),
    (by_channels("channels in another order", "W", ALONE[::-1].copy(), 8, bound=["W"]), None),
    (by_channels("one number beside the blocks", "W", BLOCKS + np.eye(8, 72, 70), 8, bound=["W"]), None),
], ids=str)
def test_filters_of_few_channels(case: ExportCase, groups: int | None) -> None:
    check_export(case)
    nodes = [node for node in model_of(case, "float32").graph.node if node.op_type == "Conv"]
    given = {attribute.name: attribute.i for attribute in nodes[0].attribute}
    assert given.get("group") == groups
