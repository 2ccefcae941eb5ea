"""The axis whose parts can be scored apart: what is found, and that no node which mixes samples is trusted."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_systemds import ScoringFunction, import_model
from onnx_systemds.importing.batching import Batch

WEIGHTS = {
    "w": np.ones((4, 4), np.float32),
    "row": np.ones(4, np.float32),
    "filters": np.ones((2, 2, 3, 3), np.float32),
    "two4": np.array([-1, 4], np.int64),
    "by_two": np.array([-1, 8], np.int64),
    "zero": np.array([0], np.int64),
    "one": np.array([1], np.int64),
    "minus": np.array([-1], np.int64),
    "least": np.array([-(2**62)], np.int64),
    "all": np.array([10**9], np.int64),
    "few": np.array([3], np.int64),
    "no_pads": np.array([0, 1, 0, 1], np.int64),
    "pads": np.array([1, 0, 0, 0], np.int64),
    "shifting": np.array([1, 0, -1, 0], np.int64),
    "gate": np.ones((1, 8, 4), np.float32),
    "state_": np.ones((1, 8, 8), np.float32),
    "ch": np.ones(2, np.float32),
    "axis0": np.array(0, np.int64),
    "axis1": np.array(1, np.int64),
}
FLAT = "float[n, 4] x"
IMAGES = "float[n, 2, 6, 6] x"
STEPS = "float[t, n, 4] x"
TEXTS = "string[n, 2] x"
FOUND = {
    "elementwise": (FLAT, "y = Relu(x)", (0,), (0,)),
    "a row for all": (FLAT, "y = Add(x, row)", (0,), (0,)),
    "an input for all": ("float[n, 4] x, float[1, 4] b", "y = Mul(x, b)", (0, None), (0,)),
    "two inputs": ("float[n, 4] x, float[n, 1] b", "y = Mul(x, b)", (0, 0), (0,)),
    "product": (FLAT, "y = MatMul(x, w)", (0,), (0,)),
    "product with a vector": (FLAT, "y = MatMul(x, row)", (0,), (0,)),
    "products with a vector": ("float[2, n, 4] x", "y = MatMul(x, row)", (1,), (1,)),
    "product with an open vector": ("float[n, m] x, float[m] b", "y = MatMul(x, b)", (0, None), (0,)),
    "product with a vector from the left": ("float[4, n] x", "y = MatMul(row, x)", (1,), (0,)),
    "products with a vector from the left": ("float[n, 4, 2] x", "y = MatMul(row, x)", (0,), (0,)),
    "product from the left": ("float[4, n] x", "y = MatMul(w, x)", (1,), (1,)),
    "gemm of the transposed": ("float[4, n] x", "y = Gemm<transA=1>(x, w, row)", (1,), (0,)),
    "products aligned": ("float[n, 2, 3] x, float[n, 3, 5] b", "y = MatMul(x, b)", (0, 0), (0,)),
    "dequantised": ("int8[n, 4] x", "y = DequantizeLinear<axis=1>(x, row)", (0,), (0,)),
    "softmax by rows": (FLAT, "y = Softmax(x)", (0,), (0,)),
    "softmax by columns": ("float[4, n] x", "y = Softmax<axis=0>(x)", (1,), (1,)),
    "normalization": (FLAT, "y = LayerNormalization(x, row)", (0,), (0,)),
    "transposed": (FLAT, "y = Transpose(x)", (0,), (1,)),
    "mean of rows": (FLAT, "y = ReduceMean<keepdims=0>(x, one)", (0,), (0,)),
    "best class": (FLAT, "y = ArgMax<axis=1, keepdims=0>(x)", (0,), (0,)),
    "convolution": (IMAGES, "y = Conv(x, filters)", (0,), (0,)),
    "pooling": (IMAGES, "y = MaxPool<kernel_shape=[2, 2]>(x)", (0,), (0,)),
    "flattened": (IMAGES, "y = Flatten(x)", (0,), (0,)),
    "rows of each sample": ("float[n, 8] x", "y = Reshape(x, two4)", (0,), (0,)),
    "back from rows": ("float[n, 8] x", "a = Reshape(x, two4)  y = Reshape(a, by_two)", (0,), (0,)),
    "side by side": (FLAT, "y = Concat<axis=1>(x, x)", (0,), (0,)),
    "columns": (FLAT, "y = Slice(x, zero, few, one)", (0,), (0,)),
    "a slice that is none": (FLAT, "y = Slice(x, zero, all, zero)", (0,), (0,)),
    "padded columns": (FLAT, "y = Pad(x, no_pads)", (0,), (0,)),
    "sum along rows": (FLAT, "y = CumSum(x, axis1)", (0,), (0,)),
    "embedding": ("int64[n, 3] x", "y = Gather(w, x)", (0,), (0,)),
    "elements of each": ("float[n, 4] x, int64[n, 3] i", "y = GatherElements<axis=1>(x, i)", (0, 0), (0,)),
    "elements put into each": (
        "float[n, 4] x, int64[n, 3] i, float[n, 3] u", "y = ScatterElements<axis=-1>(x, i, u)", (0, 0, 0), (0,)
    ),
    "tuples for each": ("int64[n, 3, 2] i", "y = GatherND(w, i)", (0,), (0,)),
    "tuples into each": ("float[n, 4] x, int64[n, 3, 1] i", "y = GatherND<batch_dims=1>(x, i)", (0, 0), (0,)),
    "tuples into what is before": ("float[4, n] x", "i = Unsqueeze(zero, zero)  y = GatherND(x, i)", (1,), (1,)),
    "a row tiled": ("float[n, 4] x, float[1, 4] b", "s = Shape<end=1>(x)  t = Concat<axis=0>(s, one)"
                    "  r = Tile(b, t)  y = Mul(x, r)", (0, None), (0,)),
    "columns tiled": (FLAT, "t = Concat<axis=0>(one, few)  y = Tile(x, t)", (0,), (0,)),
    "einsum": ("float[n, 4] x, float[n, 4, 3] b", 'y = Einsum<equation="bi,bij->bj">(x, b)', (0, 0), (0,)),
    "einsum of open axes": ("float[n, 2, 4] x", 'y = Einsum<equation="...i,ij">(x, w)', (0,), (0,)),
    "zeros for each sample": (FLAT, "s = Shape(x)  z = ConstantOfShape(s)  y = Add(x, z)", (0,), (0,)),
    "recurrent": (STEPS, "all, y = RNN<hidden_size=8>(x, gate, state_)", (1,), (1,)),
    "texts looked up": (TEXTS, 'y = ai.onnx.ml.LabelEncoder<keys_strings=["a", "b"], values_floats=[1.0, 2.0]>(x)', (0,), (0,)),
    "texts spread": (TEXTS, 'a = ai.onnx.ml.OneHotEncoder<cats_strings=["a", "b"]>(x)  y = Flatten(a)', (0,), (0,)),
    "texts moved": (TEXTS, "y = Transpose(x)", (0,), (1,)),
    "texts of numbers": (FLAT, "y = Cast<to=8>(x)", (0,), (0,)),
    "texts compared": ("string[n, 2] x, string[1, 2] b", "y = Equal(x, b)", (0, None), (0,)),
    "texts joined": ("string[n, 2] x, string[n, 1] b", "y = StringConcat(x, b)", (0, 0), (0,)),
    "texts matched": (TEXTS, 'y = RegexFullMatch<pattern="a+">(x)', (0,), (0,)),
    "maps": (FLAT, 'y = ai.onnx.ml.ZipMap<classlabels_strings=["a", "b", "c", "d"]>(x)', (0,), (0,)),
    "taken columns": (FLAT, "y = ai.onnx.ml.ArrayFeatureExtractor(x, few)", (0,), (0,)),
    "a class for each": (FLAT, "i = ArgMax<axis=1, keepdims=0>(x)  y = ai.onnx.ml.ArrayFeatureExtractor(row, i)", (0,), (1,)),
    "classes of neighbours": (
        "int64[n, 3] x", "y = ai.onnx.ml.ArrayFeatureExtractor(row, x)", (0,), (1,)
    ),
    "numbers of each category": ("int64[n, 1] x", "y = ai.onnx.ml.ArrayFeatureExtractor(w, x)", (0,), (1,)),
    "numbers of each of several": ("int64[n, 3] x", "y = ai.onnx.ml.ArrayFeatureExtractor(w, x)", (0,), (1,)),
    "features side by side": (FLAT, "y = ai.onnx.ml.FeatureVectorizer<inputdimensions=[4, 4]>(x, x)", (0,), (0,)),
    "indices spread": ("int64[n] x", "y = OneHot(x, few, two4)", (0,), (0,)),
    "another name for their number": ("float[n, 4] x, float[m, 4] b", "y = Concat<axis=1>(x, b)", (0, 0), (0,)),
    "another name for that of states": (
        "float[t, n, 4] x, float[1, m, 8] h", "all, y = RNN<hidden_size=8>(x, gate, state_, , , h)", (1, 1), (1,)
    ),
    "another name for that of texts": ("string[n, 2] x, string[m, 2] b", "y = Concat<axis=1>(x, b)", (0, 0), (0,)),
    "behind inputs that nothing reads": (
        ", ".join(f"float[{name}, 1] {name}1" for name in "abcde") + ", float[n, 4] x", "y = Relu(x)", (*[None] * 5, 0), (0,)
    ),
    "an output for all": ("float[n, 4] x, float[1, 4] b", "y = Relu(x)  z = Relu(b)", (0, None), (0, None)),
}
REFUSED = {
    "softmax over samples": (FLAT, "y = Softmax<axis=0>(x)"),
    "cumulative": (FLAT, "y = CumSum(x, axis0)"),
    "mean of samples": (FLAT, "m = ReduceMean<keepdims=1>(x, zero)  y = Sub(x, m)"),
    "number of samples": (FLAT, "s = Shape(x)  n = Gather(s, axis0)  f = Cast<to=1>(n)  y = Div(x, f)"),
    "positions of samples": (
        FLAT,
        "s = Shape(x)  n = Gather(s, axis0)  r = Range(axis0, n, axis1)  f = Cast<to=1>(r) "
        " c = Unsqueeze(f, one)  y = Mul(x, c)",
    ),
    "reversed": (FLAT, "y = Slice(x, minus, least, zero, minus)"),
    "some samples": (FLAT, "y = Slice(x, zero, few, zero)"),
    "padded samples": (FLAT, "y = Pad(x, pads)"),
    "shifted samples": (FLAT, "y = Pad(x, shifting)"),
    "twice as many": (FLAT, "y = Concat<axis=0>(x, x)"),
    "between samples": (FLAT, "t = Transpose(x)  y = MatMul(x, t)"),
    "samples inside": ("float[n, 4] x", "t = Transpose(x)  y = Reshape(t, minus)"),
    "quantised by its range": (FLAT, "q, s, z = DynamicQuantizeLinear(x)  y = DequantizeLinear(q, s, z)"),
    "random": (FLAT, "y = RandomNormalLike(x)"),
    "rows at random": (FLAT, "r = RandomNormal<shape=[1, 4]>()  y = Add(x, r)"),
    "indices into all": (IMAGES, "m, y = MaxPool<kernel_shape=[2, 2]>(x)"),
    "gathered from samples": ("float[n, 4] x, int64[n] i", "y = Gather(x, i)"),
    "elements of others": ("float[n, 4] x, int64[n, 4] i", "y = GatherElements<axis=0>(x, i)"),
    "elements of a part": ("float[9, 4] x, int64[n, 4] i", "y = GatherElements<axis=1>(x, i)"),
    "elements put into others": (
        "float[n, 4] x, int64[n, 3] i, float[n, 3] u", "y = ScatterElements<axis=0>(x, i, u)"
    ),
    "tuples into all": ("float[n, 4] x, int64[n, 1] i", "y = GatherND(x, i)"),
    "tiled": (FLAT, "t = Concat<axis=0>(few, one)  y = Tile(x, t)"),
    "einsum over samples": ("float[n, 4] x, float[n, 3] b", 'y = Einsum<equation="bi,bj->ij">(x, b)'),
    "einsum of pairs": ("float[n, 4] x, float[n, 4] b", 'y = Einsum<equation="ai,bi->ab">(x, b)'),
    "einsum of the diagonal": ("float[n, n] x", 'y = Einsum<equation="ii->i">(x)'),
    "convolved along": ("float[1, 2, n, 6] x", "y = Conv<pads=[1, 1, 1, 1]>(x, filters)"),
    "a condition": (
        "float[n, 4] x, bool c",
        "y = If(c) <then_branch = g () => (float[n, 4] a) { a = Relu(x) },"
        " else_branch = h () => (float[n, 4] b) { b = Neg(x) }>",
    ),
    "trained statistics": (IMAGES, "y, m, v = BatchNormalization<training_mode=1>(x, ch, ch, ch, ch)"),
    "their number as a result": (FLAT, "y = Relu(x)  z = Shape(x)"),
    "columns as many as samples": ("float[n, 4] x, float[n] b", "y = Add(x, b)"),
    "another size": ("float[n, 4] x, float[m, 4] b", "y = Add(x, b)"),
    "products not aligned": ("float[n, 4, 2, 3] x, float[n, 3, 5] b", "y = MatMul(x, b)"),
    "as many rows as a constant": (FLAT, "y = Gemm(x, w, w)"),
    "scales of samples": ("int8[n, 4] x", "y = DequantizeLinear<axis=0>(x, row)"),
    "texts split": (TEXTS, "y, z = StringSplit(x)"),
    "classes of neighbours in turn": ("int64[3, n] x", "y = ai.onnx.ml.ArrayFeatureExtractor(row, x)"),
    "samples and their classes": ("float[n, 4] x, int64[n] b", "y = ai.onnx.ml.ArrayFeatureExtractor(x, b)"),
    "vectors of samples": ("float[n] x, float[n, 4] b", "y = MatMul(x, b)"),
    "samples as features": ("float[4, n] x", "y = ai.onnx.ml.ArrayFeatureExtractor(x, few)"),
    "a depth of samples": ("float[n, 4] x, int64[n] b", "s = Shape(x)  d = Gather(s, axis0)  y = OneHot(b, d, two4)"),
    "known sizes": ("float[3, 4] x", "y = Relu(x)"),
}


def model(inputs: str, nodes: str) -> onnx.ModelProto:
    outputs = "y, z" if any(text in nodes for text in ("z = Relu", "z = Shape", "z = StringSplit")) else "y"
    text = f"agraph ({inputs}) => ({', '.join('float ' + name for name in outputs.split(', '))}) {{ {nodes} }}"
    graph = onnx.parser.parse_graph(text)
    read = {name for node in graph.node for name in node.input}
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in WEIGHTS.items() if name in read)
    for output in graph.output:
        output.ClearField("type")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    inputs, nodes, before, after = FOUND[name]
    assert import_model(model(inputs, nodes)).batch == Batch("n", before, after)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    assert import_model(model(*REFUSED[name])).batch is None


@pytest.mark.parametrize(("inputs", "nodes", "refuses"), [
    ("float[n, 1, 4] x", "y = Squeeze(x)", False),
    ("float[n, 1, m] x", "y = Squeeze(x)", True),  # other sizes than that of samples
    ("float[n, 4] x", "a = Softmax<axis = 0>(x)  y = Squeeze(a)", True),  # samples that depend on each other
])
def test_a_single_sample(inputs: str, nodes: str, refuses: bool) -> None:
    """A Squeeze without axes takes it, as a block of rows may have one: the last one of a file, or at a site."""
    text = import_model(model(inputs, nodes), gradients="inputs").text
    assert text.count("the script takes it to be another size") == (2 if refuses else 0)


@pytest.mark.engine
def test_a_single_sample_is_scored() -> None:
    with ScoringFunction(import_model(model("float[n, 1, 4] x", "y = Squeeze(x)"))) as function:
        found = function({"x": np.full((1, 1, 4), 2, np.float32)})["y"]
    assert found.shape == (1, 4) and (found == 2).all()
