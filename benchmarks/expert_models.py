"""Models that SystemDS's users would export, each as DML and as an expert writes it by hand in ONNX: `CASES`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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

    constants: of the expert, beside the bound matrices. tolerance: of numbers, relative to the largest. rowwise:
    whether it scores single rows.
    """

    name: str
    body: str
    x: Array
    bound: Mapping[str, Array]
    nodes: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 1e-5
    rowwise: bool = False

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
          constants: Mapping[str, Any] | None = None) -> Case:
    """A call of a layer of SystemDS."""
    target = f"[{results}]" if "," in results else results
    return Case(name, f"{target} = layer::{call}", x, bound, nodes, constants or {},
                {"layer": f"nn/layers/{name}.dml"})


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
             "rows": [0, -1]}
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
]

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
]


SEQUENCES = _RNG.normal(size=(ROWS, 4 * 16))  # 4 tokens, of 2 heads of 8 numbers
BERT = {
    **{f"W{k}": numbers(16, 16) for k in "qkvc"}, **{f"b{k}": numbers(1, 16) for k in "qkvc"},
    "Wi": numbers(16, 32), "bi": numbers(1, 32), "Wo": numbers(32, 16), "bo": numbers(1, 16),
    "g1": positive(1, 16), "e1": numbers(1, 16), "g2": positive(1, 16), "e2": numbers(1, 16),
}
RECURRENT = {"W": numbers(16 + 8, 32), "b": numbers(1, 32)}


def onnx_gates(columns: Array) -> Array:
    """The gates input, forget, output, cell of DML's columns as ONNX has them: input, output, forget, cell."""
    units = columns.shape[1] // 4
    return np.concatenate([columns[:, k * units : (k + 1) * units] for k in (0, 2, 1, 3)], 1).T[None]


SMALL = {"token_dims": [0, 4, 16], "head_dims": [0, 4, 2, 8], "flat": [0, -1], "tokens": [-1, 16]}
ATTENTION = [
    layer("attention", "forward(X, X, X, 16, A)", SEQUENCES, {"A": numbers(1, 1)}, """
        parts = Reshape(X, token_dims)
        scaled = Mul(parts, quarter)
        turned = Transpose <perm = [0, 2, 1]> (scaled)
        scores = MatMul(parts, turned)
        weights = Softmax <axis = 1> (scores)
        found = MatMul(weights, parts)
        Y = Reshape(found, flat)
    """, constants={**SMALL, "quarter": np.float32(0.25)}),
    layer("multi_attention", "forward(X, X, X, 2, 4, 8, 0)", SEQUENCES, {}, """
        parts = Reshape(X, head_dims)
        heads = Transpose <perm = [0, 2, 1, 3]> (parts)
        scaled = Div(heads, root)
        turned = Transpose <perm = [0, 1, 3, 2]> (scaled)
        scores = MatMul(heads, turned)
        weights = Softmax <axis = -1> (scores)
        found = MatMul(weights, heads)
        back = Transpose <perm = [0, 2, 1, 3]> (found)
        Y = Reshape(back, flat)
    """, "Y, A, M", {**SMALL, "root": np.float32(np.sqrt(8))}),
    layer("bert_layer", "forward(X, 2, 4, 8, 32, Wq, bq, Wk, bk, Wv, bv, Wc, bc, Wi, bi, Wo, bo, 0, 0, 0.001, "
          'g1, e1, g2, e2, "gelu")', SEQUENCES, BERT, """
        words = Reshape(X, tokens)
        q1 = Gemm(words, Wq, bq)
        q2 = Reshape(q1, head_dims)
        q = Transpose <perm = [0, 2, 1, 3]> (q2)
        k1 = Gemm(words, Wk, bk)
        k2 = Reshape(k1, head_dims)
        k = Transpose <perm = [0, 2, 3, 1]> (k2)
        v1 = Gemm(words, Wv, bv)
        v2 = Reshape(v1, head_dims)
        v = Transpose <perm = [0, 2, 1, 3]> (v2)
        product = MatMul(q, k)
        scores = Div(product, root)
        weights = Softmax <axis = -1> (scores)
        found = MatMul(weights, v)
        back = Transpose <perm = [0, 2, 1, 3]> (found)
        context = Reshape(back, tokens)
        projected = Gemm(context, Wc, bc)
        summed = Add(projected, words)
        inner = LayerNormalization <epsilon = 0.001> (summed, scale1, shift1)
        wide = Gemm(inner, Wi, bi)
        active = Gelu <approximate = "tanh"> (wide)
        narrow = Gemm(active, Wo, bo)
        added = Add(narrow, inner)
        outer = LayerNormalization <epsilon = 0.001> (added, scale2, shift2)
        Y = Reshape(outer, rows)
    """, "Y, A, o, d1, d2, d3, m1, v1, n1, m2, v2, n2",
          {**SMALL, "head_dims": [-1, 4, 2, 8], "rows": [-1, 64], "root": np.float32(np.sqrt(8)),
           **{f"scale{k}": BERT[f"g{k}"].ravel() for k in (1, 2)},
           **{f"shift{k}": BERT[f"e{k}"].ravel() for k in (1, 2)}}),
    layer("lstm", "forward(X, W, b, 4, 16, TRUE, matrix(0, nrow(X), 8), matrix(0, nrow(X), 8))", SEQUENCES,
          RECURRENT, """
        batch = Reshape(X, token_dims)
        steps = Transpose <perm = [1, 0, 2]> (batch)
        outputs, last, cell = LSTM <hidden_size = 8> (steps, inputs, recurrent, offsets)
        turned = Transpose <perm = [2, 0, 1, 3]> (outputs)
        Y = Reshape(turned, flat)
    """, "Y, c, d, e, f",
          {**SMALL, "inputs": onnx_gates(RECURRENT["W"][:16]), "recurrent": onnx_gates(RECURRENT["W"][16:]),
           "offsets": np.concatenate([onnx_gates(RECURRENT["b"])[:, :, 0], np.zeros((1, 32))], 1)}),
    layer("embedding", "forward(X, D)", _RNG.integers(1, 30, size=(ROWS, 1)).astype(float), {"D": numbers(30, 8)}, """
        numbers = Cast <to = 7> (X)
        places = Sub(numbers, one)
        found = Gather(D, places)
        Y = Reshape(found, flat)
    """, constants={"one": 1, "flat": [0, -1]}),
]

DIGITS = _RNG.normal(size=(ROWS, 16 * 16))
LENET = {
    "W1": numbers(4, 25), "b1": numbers(4, 1), "W2": numbers(6, 4 * 25), "b2": numbers(6, 1),
    "W3": numbers(6 * 16, 12), "b3": numbers(1, 12), "W4": numbers(12, 10), "b4": numbers(1, 10),
}
LENET_NODES = """
    image = Reshape(X, image_dims)
    c1 = Conv <pads = [2, 2, 2, 2]> (image, filters1, bias1)
    r1 = Relu(c1)
    p1 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r1)
    c2 = Conv <pads = [2, 2, 2, 2]> (p1, filters2, bias2)
    r2 = Relu(c2)
    p2 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r2)
    flat = Reshape(p2, rows)
    d3 = Gemm(flat, W3, b3)
    r3 = Relu(d3)
    d4 = Gemm(r3, W4, b4)
    Y = Softmax(d4)
"""
LENET_CONSTANTS = {
    "image_dims": [0, 1, 16, 16], "rows": [0, -1],
    "filters1": LENET["W1"].reshape(4, 1, 5, 5), "bias1": LENET["b1"].ravel(),
    "filters2": LENET["W2"].reshape(6, 4, 5, 5), "bias2": LENET["b2"].ravel(),
}
MODEL = f"m = list({', '.join(f'{name}={name}' for name in LENET)})\n"
BLOCK = {f"{name}{k}": numbers(3, 27) if name == "W" else positive(3, 1) for k in (1, 2) for name in "WGBEV"}


def folded(k: int) -> dict[str, Array]:
    """Filters and bias of a convolution with the batch normalization after it."""
    weights, gamma, beta, mean, variance = (BLOCK[f"{name}{k}"] for name in "WGBEV")
    factor = gamma / np.sqrt(variance + 1e-5)
    return {f"filters{k}": (weights * factor).reshape(3, 3, 3, 3), f"bias{k}": (beta - mean * factor).ravel()}


NETWORKS = [
    Case("lenet", f'{MODEL}cache = net::lenetForward(X, 1, 16, 16, m, TRUE)\nY = as.matrix(cache["probs"])', DIGITS,
         LENET, LENET_NODES, LENET_CONSTANTS, {"net": "nn/layers/lenetForwardPass.dml"}),
    Case("lenet_predict", f"{MODEL}Y = lenetPredict(model=m, X=X, C=1, Hin=16, Win=16, batch_size=8)", DIGITS, LENET,
         LENET_NODES, LENET_CONSTANTS),
    Case("resnet_block", "[Y, h, w, u, o, v] = net::basic_block_forward(X, list(W1, G1, B1, W2, G2, B2), "
         '3, 3, 16, 16, 1, 1, "test", list(E1, V1, E2, V2))', IMAGES, BLOCK, """
             image = Reshape(X, image_dims)
             c1 = Conv <pads = [1, 1, 1, 1]> (image, filters1, bias1)
             r1 = Relu(c1)
             c2 = Conv <pads = [1, 1, 1, 1]> (r1, filters2, bias2)
             added = Add(c2, image)
             active = Relu(added)
             Y = Reshape(active, rows)
         """, {"image_dims": [0, 3, 16, 16], "rows": [0, -1], **folded(1), **folded(2)},
         {"net": "nn/networks/resnet.dml"}),
]

SCALED = {"C": numbers(1, 32), "S": positive(1, 32)}
PROBABILITIES = {"P": positive(4, 32) / 20, "K": positive(4, 1) / 5}
LIKELIHOODS = np.hstack([PROBABILITIES["K"], PROBABILITIES["P"]])  # the script takes them in this order
FIRST_TREE = np.array([[1.0, 0.2, 3.0, 0.1, 7.0, -0.3, 0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 1.0]])
OTHER_TREE = np.array([[5.0, 0.0, 2.0, 0.5, 9.0, 0.3, 0.0, 2.0, 0.0, 1.0, 0.0, 1.0, 0.0, 3.0]])
TREES = np.hstack([np.ones((2, 32)), np.vstack([FIRST_TREE, OTHER_TREE])])
KINDS = np.hstack([np.ones((1, 32)), [[2.0]]])
MORE_TRAINED = [
    Case("l2svm", "[S, Y] = l2svmPredict(X=X, W=W)", TABLE, CLASSES, """
        scores = Gemm(X, slopes, offset)
        best = ArgMax <axis = 1, select_last_index = 1> (scores)
        counted = Add(best, one)
        Y = Cast <to = 1> (counted)
    """, {"slopes": CLASSES["W"][:32], "offset": CLASSES["W"][32:], "one": 1}),
    Case("multi_log_reg", "[Y, c, a] = multiLogRegPredict(X=X, B=W)", TABLE, CLASSES, """
        gap = IsNaN(X)
        known = Where(gap, zero, X)
        scores = Gemm(known, slopes, offset)
        every = Pad(scores, widths)
        Y = Softmax(every)
    """, {"slopes": CLASSES["W"][:32], "offset": CLASSES["W"][32:], "zero": np.float32(0), "widths": [0, 0, 0, 1]}),
    Case("glm", "Y = glmPredict(X=X, B=B, dfam=1, vpow=1.0, link=1, lpow=0.0)", TABLE, LINEAR, """
        scores = Gemm(X, slopes, offset)
        Y = Exp(scores)
    """, {"slopes": LINEAR["B"][:32], "offset": LINEAR["B"][32:]}),
    Case("glm_logit", "Y = glmPredict(X=X, B=B, dfam=2, link=2)", TABLE, LINEAR, """
        scores = Gemm(X, slopes, offset)
        likely = Sigmoid(scores)
        unlikely = Sub(one, likely)
        Y = Concat <axis = 1> (likely, unlikely)
    """, {"slopes": LINEAR["B"][:32], "offset": LINEAR["B"][32:], "one": np.float32(1)}),
    Case("naive_bayes", "[Y, c] = naiveBayesPredict(X=X, P=P, C=K)", TABLE, PROBABILITIES, "Y = Gemm(X, logs, offset)",
         {"logs": np.log(LIKELIHOODS[:, :32]).T, "offset": np.log(LIKELIHOODS[:, 32:]).T}),
    Case("scale", "Y = scaleApply(X, C, S)", TABLE, SCALED, "centered = Sub(X, C)\nY = Div(centered, S)"),
    Case("pca", "Y = pcaTransform(X=X, Clusters=W, Centering=C, ScaleFactor=S)", TABLE, {**SCALED, "W": numbers(32, 3)},
         "centered = Sub(X, C)\nscaled = Div(centered, S)\nY = MatMul(scaled, W)"),
    Case("decision_tree", "Y = decisionTreePredict(X=X, ctypes=K, M=M)", TABLE, {"M": FIRST_TREE, "K": KINDS}, """
        Y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0, 0, 0, 0, 0],
            nodes_nodeids = [0, 1, 2, 3, 4, 5, 6], nodes_featureids = [0, 2, 6, 0, 0, 0, 0],
            nodes_values = [0.2, 0.1, -0.3, 0.0, 0.0, 0.0, 0.0], nodes_truenodeids = [1, 3, 5, 0, 0, 0, 0],
            nodes_falsenodeids = [2, 4, 6, 0, 0, 0, 0],
            nodes_modes = ["BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"],
            target_treeids = [0, 0, 0, 0], target_nodeids = [3, 4, 5, 6], target_ids = [0, 0, 0, 0],
            target_weights = [1.0, 2.0, 3.0, 1.0]> (X)
    """),
    Case("random_forest", "Y = randomForestPredict(X=X, ctypes=K, M=M)", TABLE, {"M": TREES, "K": KINDS}, """
        votes = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 3,
            nodes_treeids = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1],
            nodes_nodeids = [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6],
            nodes_featureids = [0, 2, 6, 0, 0, 0, 0, 4, 1, 8, 0, 0, 0, 0],
            nodes_values = [0.2, 0.1, -0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.3, 0.0, 0.0, 0.0, 0.0],
            nodes_truenodeids = [1, 3, 5, 0, 0, 0, 0, 1, 3, 5, 0, 0, 0, 0],
            nodes_falsenodeids = [2, 4, 6, 0, 0, 0, 0, 2, 4, 6, 0, 0, 0, 0],
            nodes_modes = ["BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF",
                           "BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"],
            target_treeids = [0, 0, 0, 0, 1, 1, 1, 1], target_nodeids = [3, 4, 5, 6, 3, 4, 5, 6],
            target_ids = [0, 1, 2, 0, 1, 0, 0, 2], target_weights = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]> (X)
        best = ArgMax <axis = 1, select_last_index = 1> (votes)
        counted = Add(best, one)
        Y = Cast <to = 1> (counted)
    """, {"one": 1}),
]

CASES = [*LAYERS, *ATTENTION, *NETWORKS, *(replace(case, rowwise=True) for case in (*TRAINED, *MORE_TRAINED))]
