"""Models that SystemDS's users would export, each as DML and as an expert writes it by hand in ONNX: `CASES`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

Array = np.ndarray[Any, Any]
ROWS = 16
_RNG = np.random.default_rng(5)
_HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>'


@dataclass(frozen=True)
class Case:
    """Statements that make Y of X (`rows` x columns), bound matrices, and the expert's nodes with their constants.

    constants: of the expert, beside the bound matrices. tolerance: of numbers, relative to the largest.
    """

    name: str
    body: str
    x: Array
    bound: Mapping[str, Array]
    nodes: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 1e-5

    def script(self) -> str:
        """The whole script in DML."""
        sources = [f'source("{path}") as {name}' for name, path in self.sources.items()]
        reads = [f'{name} = read("{name}")' for name in ("X", *self.bound)]
        return "\n".join([*sources, *reads, self.body, 'write(Y, "Y")']) + "\n"

    def expert(self) -> onnx.ModelProto:
        """The model that is written by hand."""
        text = f"{_HEADER} {self.name} (float[N,{self.x.shape[1]}] X) => (float[N,M] Y) {{ {self.nodes} }}"
        model = parser.parse_model(text)
        for name, content in {**self.bound, **self.constants}.items():
            array = np.asarray(content)
            array = array.astype(np.float32) if array.dtype.kind == "f" else array.astype(np.int64)
            if any(name in node.input for node in model.graph.node):
                model.graph.initializer.append(numpy_helper.from_array(array, name))
        onnx.checker.check_model(model, full_check=True)
        return model


def numbers(*shape: int) -> Array:
    """Normal numbers, small enough for products of many."""
    return _RNG.normal(size=shape) / max(np.sqrt(shape[0]), 1) if len(shape) > 1 else _RNG.normal(size=shape)


def positive(*shape: int) -> Array:
    """Numbers above 0.5."""
    return np.abs(_RNG.normal(size=shape)) + 0.5


def layer(name: str, call: str, x: Array, bound: Mapping[str, Array], nodes: str, results: str = "Y",
          constants: Mapping[str, Any] | None = None) -> Case:  # fmt: skip
    """A call of a layer of SystemDS."""
    target = f"[{results}]" if "," in results else results
    return Case(name, f"{target} = layer::{call}", x, bound, nodes, constants or {},
                {"layer": f"nn/layers/{name}.dml"})  # fmt: skip


TABLE = _RNG.normal(size=(ROWS, 32))
IMAGES = _RNG.normal(size=(ROWS, 3 * 16 * 16))
WINDOW = "C=3, Hin=16, Win=16, Hf=3, Wf=3, strideh=1, stridew=1, padh=1, padw=1"
POOLING = "C=3, Hin=16, Win=16, Hf=2, Wf=2, strideh=2, stridew=2, padh=0, padw=0"
FILTERS = {"W": numbers(8, 27), "b": numbers(8, 1)}
CONVOLUTION = """
image = Reshape(X, image_dims)
maps = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (image, filters, bias)
Y = Reshape(maps, rows)
"""
CONVOLVED = {"image_dims": [0, 3, 16, 16], "filters": FILTERS["W"].reshape(8, 3, 3, 3), "bias": FILTERS["b"].ravel(),
             "rows": [0, -1]}  # fmt: skip
NORM = {"G": positive(1, 32), "B": numbers(1, 32), "E": numbers(1, 32), "V": positive(1, 32)}
LINEAR = {"B": numbers(33, 1)}
CLASSES = {"W": numbers(33, 4)}
CENTERS = {"C": _RNG.normal(size=(5, 32))}

LAYERS = [
    layer("affine", "forward(X, W, b)", TABLE, {"W": numbers(32, 16), "b": numbers(1, 16)}, "Y = Gemm(X, W, b)"),
    layer("relu", "forward(X)", TABLE, {}, "Y = Relu(X)"),
    layer("sigmoid", "forward(X)", TABLE, {}, "Y = Sigmoid(X)"),
    layer("softmax", "forward(X)", TABLE, {}, "Y = Softmax(X)"),
    layer("gelu", "forward(X)", TABLE, {}, 'Y = Gelu <approximate = "tanh"> (X)'),
    layer("batch_norm1d", 'forward(X, G, B, "test", E, V, 0.9, 0.001)', TABLE, NORM,
          "Y = BatchNormalization <epsilon = 0.001> (X, g, b, e, v)", "Y, m, n, o, p, q",
          {"g": NORM["G"].ravel(), "b": NORM["B"].ravel(), "e": NORM["E"].ravel(), "v": NORM["V"].ravel()}),
    layer("conv2d", f"forward(X=X, W=W, b=b, {WINDOW})", IMAGES, FILTERS, CONVOLUTION, "Y, H, V", CONVOLVED),
    layer("conv2d_builtin", f"forward(X=X, W=W, b=b, {WINDOW})", IMAGES, FILTERS, CONVOLUTION, "Y, H, V", CONVOLVED),
    layer("max_pool2d", f"forward(X=X, {POOLING})", IMAGES, {}, """
        image = Reshape(X, image_dims)
        maps = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (image)
        Y = Reshape(maps, rows)
    """, "Y, H, V", {"image_dims": [0, 3, 16, 16], "rows": [0, -1]}),
    layer("lrn", "forward(X, 8, 8, 12, 4, 0.1, 0.75, 2.0)", IMAGES, {}, """
        image = Reshape(X, image_dims)
        normalized = LRN <size = 5, alpha = 0.5, beta = 0.75, bias = 2.0> (image)
        Y = Reshape(normalized, rows)
    """, constants={"image_dims": [0, 8, 8, 12], "rows": [0, -1]}),
]  # fmt: skip

TRAINED = [
    Case("lm", "Y = lmPredict(X=X, B=B, icpt=1)", TABLE, LINEAR, "Y = Gemm(X, slopes, offset)",
         {"slopes": LINEAR["B"][:32], "offset": LINEAR["B"][32:]}),
    Case("msvm", "[S, Y] = msvmPredict(X=X, W=W)", TABLE, CLASSES, """
        gap = IsNaN(X)
        known = Where(gap, zero, X)
        scores = Gemm(known, slopes, offset)
        best = ArgMax <axis = 1, select_last_index = 1> (scores)
        counted = Add(best, one)
        Y = Cast <to = 1> (counted)
    """, {"slopes": CLASSES["W"][:32], "offset": CLASSES["W"][32:], "zero": np.float32(0), "one": 1}),
    Case("kmeans", "Y = kmeansPredict(X=X, C=C)", TABLE, CENTERS, """
        distances = Gemm(X, turned, squares)
        best = ArgMin <axis = 1, select_last_index = 1> (distances)
        counted = Add(best, one)
        Y = Cast <to = 1> (counted)
    """, {"turned": -2 * CENTERS["C"].T, "squares": (CENTERS["C"] ** 2).sum(1)[None], "one": 1}),
]  # fmt: skip

CASES = LAYERS + TRAINED
