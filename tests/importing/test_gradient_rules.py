"""Rules of the chain rule that ONNX's reference does not judge: against differences of the script itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.errors import UnsupportedCase
from tests.derivative_programs import derivatives
from tests.importing.test_gradients import Array, model, near, node


def check(
    network: onnx.ModelProto, sizes: Mapping[str, int], folder: Path, count: int, words: Sequence[str] = (), **options: Any
) -> None:
    """The derivatives by inputs and weights, or by ``words``, are differences. count: how many there are."""
    words = words or ["inputs", *(["weights"] if network.graph.initializer else [])]
    found = derivatives(import_model(network, gradients=words, **options), sizes, folder)
    assert len(found) == count
    for name, derivative, difference in found:
        assert derivative == pytest.approx(difference, rel=1e-5, abs=1e-6), name


def spread(x: list[Any], w: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    """A transposed convolution."""
    return model([node("ConvTranspose", "x,w", "y", **attributes)], {"x": x}, {"w": near(*w)}, ["y"])


SPREAD: Mapping[str, onnx.ModelProto] = {
    "as large as the strides say": spread(["n", 2, "s"], (2, 3, 3), auto_pad="SAME_UPPER", strides=[2]),
    "of two axes": spread([2, 2, 4, 3], (2, 3, 2, 3), auto_pad="SAME_LOWER", strides=[3, 2]),
    "cut to a size": spread([2, 2, 4], (2, 3, 3), output_shape=[7], strides=[2]),
    "of a size beyond all windows": spread([2, 2, 4], (2, 3, 3), output_shape=[14], strides=[2]),
    "padded by more than a stride": spread(["n", 2, 4, "s"], (2, 3, 3, 2), output_padding=[1, 3], strides=[1, 3], dilations=[2, 2]),
}


@pytest.mark.engine
@pytest.mark.parametrize("network", SPREAD.values(), ids=SPREAD)
def test_transposed_convolutions(network: onnx.ModelProto, tmp_path: Path) -> None:
    check(network, {"n": 2, "s": 5}, tmp_path, 2)


EMPTY: Mapping[str, onnx.ModelProto] = {
    "a result": spread([2, 2, 1], (2, 3, 2), pads=[1, 1]),
    "an input": spread([2, 2, 0], (2, 3, 1)),
    "a part of a result": model(
        [node("ConvTranspose", "x,w", "c", pads=[1, 1]), node("Concat", "c,x", "y", axis=2)],
        {"x": ["n", 2, 1]}, {"w": near(2, 2, 2)}, ["y"]),
}


@pytest.mark.engine
@pytest.mark.parametrize("network", EMPTY.values(), ids=EMPTY)
def test_no_derivative_passes_what_has_no_elements(network: onnx.ModelProto, tmp_path: Path) -> None:
    check(network, {"n": 2}, tmp_path, 1)


def narrow(op_type: str, dims: list[Any], kind: int = TensorProto.FLOAT16, **attributes: Any) -> onnx.ModelProto:
    """An operator of float16, or of another type."""
    return model([node(op_type, "x", "y", **attributes)], {"x": (kind, dims)}, {}, ["y"], opset=24)


# What float16 makes of 300,300 is infinite, of 3,003 it is 3,004.
NARROW: Mapping[str, tuple[onnx.ModelProto, int]] = {
    "a mean of many": (narrow("ReduceMean", [300, 1001]), 1),
    "a mean of an open number": (narrow("ReduceMean", ["n", 1001]), 1),
    "Erf": (narrow("Erf", ["n", 4]), 1),
    "Gelu": (narrow("Gelu", ["n", 4], TensorProto.BFLOAT16, approximate="tanh"), 1),
    "HardSigmoid": (narrow("HardSigmoid", ["n", 4], alpha=0.3), 1),
    "HardSwish": (narrow("HardSwish", ["n", 4]), 1),
    "Selu": (narrow("Selu", ["n", 4], TensorProto.BFLOAT16), 1),
    "Swish": (narrow("Swish", ["n", 4], alpha=0.7), 1),
    "a cast to a wider type": (
        model([node("Cast", "w", "c", to=TensorProto.FLOAT), node("MatMul", "x,c", "y")], {"x": ["n", 4]},
              {"w": near(4, 3).astype(np.float16)}, ["y"]), 2),
    "an exponent of a wider type": (
        model([node("Abs", "x", "a"), node("Pow", "a,e", "y")], {"x": (TensorProto.FLOAT16, ["n", 4])},
              {"e": np.array(0.3, np.float32)}, ["y"]), 1),
    "by an exponent of a wider type": (
        model([node("Exp", "x", "a"), node("Pow", "a,w", "y"), node("MatMul", "z,w", "u")],
              {"x": (TensorProto.FLOAT16, ["n", 4]), "z": ["n", 4]}, {"w": near(4).astype(np.float32)}, ["y", "u"]), 2),
    "a scale of a wider type": (
        model([node("RMSNormalization", "x,w", "y")], {"x": (TensorProto.FLOAT16, ["n", 4])},
              {"w": near(4).astype(np.float32)}, ["y"], opset=24), 2),
    "statistics of a wider type": (
        model([node("BatchNormalization", "x,s,b,m,v", "y")], {"x": (TensorProto.FLOAT16, ["n", 4])},
              {"s": near(4).astype(np.float16), "b": near(4).astype(np.float16), "m": near(4).astype(np.float32),
               "v": np.full(4, 1e5, np.float32)}, ["y"]), 1),
    "an interpolation": (
        model([node("Resize", "x,,s", "y", mode="linear")], {"x": (TensorProto.FLOAT16, ["n", 1, 5])},
              {"s": np.array([1, 1, 1.7], np.float32)}, ["y"]), 1),
}


@pytest.mark.engine
@pytest.mark.parametrize(("network", "count"), NARROW.values(), ids=NARROW)
def test_derivatives_are_not_rounded_to_narrow_types(network: onnx.ModelProto, count: int, tmp_path: Path) -> None:
    found = derivatives(import_model(network, gradients=["x", "w"][:count]), {"n": 300}, tmp_path)
    assert len(found) == count
    for name, derivative, difference in found:
        assert derivative == pytest.approx(difference, rel=1e-5, abs=1e-9), name


def parsed(text: str, weights: Mapping[str, Array] | None = None) -> onnx.ModelProto:
    """A model in ONNX's words."""
    found = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]>\n{text}')
    found.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (weights or {}).items())
    return found


W = {"w": near(3, 4), "v": near(3, 4, seed=1)}
TRUE = {"yes": np.array(True)}
CONTROL: Mapping[str, tuple[onnx.ModelProto, int]] = {
    "a condition of the run": (parsed("""g (float[n,3] x, float[n,3] z) => (float[n,3] y) {
        s = ReduceSum <keepdims = 0> (x)
        zero = Constant <value_float = 0.0> ()
        c = Greater (s, zero)
        h = If (c) <then_branch = t () => (float[n,3] a) { u = Mul (x, z) a = Sin (u) },
                    else_branch = e () => (float[n,3] b) { b = Exp (x) }>
        y = Mul (h, x) }"""), 2),
    "branches with weights": (parsed("""g (float[n,3] x, bool c) => (float[n,4] y) {
        h = If (c) <then_branch = t () => (float[n,4] a) { u = MatMul (x, w) a = Sin (u) },
                    else_branch = e () => (float[n,4] b) { u = MatMul (x, v) b = Tanh (u) }>
        y = Mul (h, h) }""", W), 3),
    "what a branch hands on": (parsed("""g (float[n,3] x, float[n,3] z, bool c) => (float[n,3] y) {
        y, k = If (c) <then_branch = t () => (float[n,3] a, int64 i) { a = Identity (x) i = Constant <value_int = 1> () },
                       else_branch = e () => (float[n,3] b, int64 j) { b = Mul (z, z) j = Constant <value_int = 2> () }> }"""), 2),
    "a recurrent layer": (parsed("""g (float[t,n,3] x, float[n,2] h0) => (float[n,2] h, float[t,n,2] y) {
        h, y = Scan <num_scan_inputs = 1, body = b (float[n,2] hi, float[n,3] xi) => (float[n,2] ho, float[n,2] yo) {
            p = MatMul (xi, w) q = MatMul (hi, r) s = Add (p, q) ho = Tanh (s) yo = Mul (ho, ho) }> (h0, x) }""",
        {"w": near(3, 2), "r": near(2, 2)}), 4),
    "other axes, backwards, and a number that counts": (parsed("""g (float[n,t,3] x, float[n,2] h0, float[n,2] k) => (float[n,2] h, float[n,2,t] y) {
        h, c, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [2],
            scan_output_directions = [1], body = b (float[n,2] hi, int64 i, float[n,3] xi) => (float[n,2] ho, int64 j, float[n,2] yo) {
            p = MatMul (xi, w) q = Mul (hi, k) s = Add (p, q) ho = Tanh (s) yo = Mul (ho, k) one = Constant <value_int = 1> ()
            j = Add (i, one) }> (h0, start, x) }""", {"w": near(3, 2), "start": np.array(0)}), 4),
    "no state": (parsed("""g (float[t,n,3] x, float[n,3] k) => (float[t,n,3] y) {
        y = Scan <num_scan_inputs = 1, body = b (float[n,3] xi) => (float[n,3] yo) { p = Mul (xi, k) yo = Sin (p) }> (x) }"""), 2),
    "a number of steps that is given": (parsed("""g (float[n,3] x, float[n,3] k, int64 c) => (float[n,3] y, float[t,n,3] all) {
        y, all = Loop (c, yes, x) <body = b (int64 i, bool go, float[n,3] xi) => (bool goes, float[n,3] xo, float[n,3] yo) {
            goes = Identity (go) p = Mul (xi, k) xo = Sin (p) f = Cast <to = 1> (i) yo = Mul (xo, f) }> }""", TRUE), 2),
    "steps while something holds": (parsed("""g (float[n,3] x, float[n,3] k) => (float[n,3] y) {
        y = Loop ("", yes, x) <body = b (int64 i, bool go, float[n,3] xi) => (bool goes, float[n,3] xo) {
            p = Mul (xi, k) xo = Sin (p) s = ReduceSum <keepdims = 0> (xo) a = Abs (s) low = Constant <value_float = 0.1> ()
            goes = Greater (a, low) }> }""", TRUE), 2),
    "a condition in a loop": (parsed("""g (float[n,3] x, float[n,3] k, int64 c) => (float[n,3] y) {
        y = Loop (c, yes, x) <body = b (int64 i, bool go, float[n,3] xi) => (bool goes, float[n,3] xo) {
            goes = Identity (go) zero = Constant <value_int = 0> () q = Equal (i, zero)
            xo = If (q) <then_branch = t () => (float[n,3] a) { a = Mul (xi, k) },
                         else_branch = e () => (float[n,3] b) { b = Exp (xi) }> }> }""", TRUE), 2),
}


@pytest.mark.engine
@pytest.mark.parametrize(("network", "count"), CONTROL.values(), ids=CONTROL)
def test_sub_graphs(network: onnx.ModelProto, count: int, tmp_path: Path) -> None:
    words = ["inputs", *({name for name in ("w", "v", "r") if name in {it.name for it in network.graph.initializer}})]
    found = derivatives(import_model(network, gradients=words), {"n": 3, "t": 4}, tmp_path)
    assert len(found) == count
    for name, derivative, difference in found:
        assert derivative == pytest.approx(difference, rel=1e-6, abs=1e-7), name


def test_a_sub_graph_that_draws_is_not_computed_twice() -> None:
    network = parsed("""g (float[n,3] x, bool c) => (float[n,3] y) {
        y = If (c) <then_branch = t () => (float[n,3] a) { r = RandomNormalLike (x) a = Mul (x, r) },
                    else_branch = e () => (float[n,3] b) { b = Exp (x) }> }""")
    with pytest.raises(UnsupportedCase, match="the derivative of If whose sub-graph draws random numbers"):
        import_model(network, gradients=["x"])


def coded(scale: Array, zero: Array | None = None, **attributes: Any) -> onnx.ModelProto:
    """A product with a weight of integers."""
    codes = np.random.default_rng(0).integers(-9, 9, (4, 3)).astype(np.int8)
    weights = {"codes": codes, "scale": scale, **({} if zero is None else {"zero": zero})}
    layer = node("DequantizeLinear", "codes,scale" if zero is None else "codes,scale,zero", "c", **attributes)
    return model([layer, node("Cast", "c", "w", to=1), node("MatMul", "x,w", "h"), node("Sin", "h", "y")], {"x": ["n", 4]}, weights, ["y"], opset=21)


CODED: Mapping[str, onnx.ModelProto] = {
    "one scale": coded(near(1)),
    "one for each column": coded(near(3), np.array([1, -2, 3], np.int8), axis=1),
    "one for each row": coded(near(4), axis=0),
    "of float16": coded(near(3).astype(np.float16), np.array([1, -2, 3], np.int8), axis=-1),
}


@pytest.mark.engine
@pytest.mark.parametrize("network", CODED.values(), ids=CODED)
def test_scales_of_integers(network: onnx.ModelProto, tmp_path: Path) -> None:
    found = derivatives(import_model(network, gradients=["scale"]), {"n": 3}, tmp_path)
    assert len(found) == 1
    for name, derivative, difference in found:
        assert derivative == pytest.approx(difference, rel=1e-6, abs=1e-7), name


def recurrent(
    op_type: str, gates: int, given: str = "", directions: int = 2, layout: int = 0, **attributes: Any
) -> onnx.ModelProto:
    """A layer of five units on sequences of three numbers; given: which of lens, h, c and p it takes."""
    outputs = ["all", "last", "cell"][: 3 if op_type == "LSTM" else 2]
    weights = {"w": near(directions, gates * 5, 3), "r": near(directions, gates * 5, 5, seed=1),
               "b": near(directions, gates * 10, seed=2), **({"p": near(directions, 15, seed=3)} if "p" in given else {})}
    inputs: dict[str, Any] = {"x": ["n", "t", 3] if layout else ["t", "n", 3]}
    if "lens" in given:
        inputs["lens"] = (TensorProto.INT32, ["n"])
    inputs |= {name: ["n", directions, 5] if layout else [directions, "n", 5] for name in "hc" if name in given.split(",")}
    known = {*inputs, *weights}
    names = ",".join(name if name in known else "" for name in ("x", "w", "r", "b", "lens", "h", "c", "p"))
    way = {2: "bidirectional", 1: "reverse"}[directions]
    layer = node(op_type, names.rstrip(","), ",".join(outputs), hidden_size=5, direction=way, layout=layout, **attributes)
    return model([layer, *[node("Sin", name, f"y_{name}") for name in outputs]], inputs, weights,
                 [f"y_{name}" for name in outputs])


RECURRENT: Mapping[str, tuple[onnx.ModelProto, int]] = {
    "sequences in front": (recurrent("LSTM", 4, "h,c", layout=1), 6),
    "arguments that are clipped": (recurrent("LSTM", 4, "h,c", clip=0.4), 6),
    "lengths": (recurrent("LSTM", 4, "lens,h,c"), 6),
    "lengths, backwards": (recurrent("GRU", 3, "lens,h", directions=1), 5),
    "peepholes and coupled gates": (recurrent("LSTM", 4, "h,c,p", clip=0.5, input_forget=1), 7),
    "other activations": (recurrent(
        "LSTM", 4, activations=["HardSigmoid", "Affine", "Relu", "Sigmoid", "ScaledTanh", "Elu"],
        activation_alpha=[0.3, 0.7, 1.2, 0.6], activation_beta=[0.45, 0.1, 0.8]), 4),
    "a GRU that multiplies first": (recurrent(
        "GRU", 3, "h", linear_before_reset=1, activations=["Softsign", "Softplus", "HardSigmoid", "LeakyRelu"]), 5),
    "Relu, lengths and sequences in front": (recurrent(
        "RNN", 1, "lens,h", layout=1, activations=["Relu", "ThresholdedRelu"], activation_alpha=[0.2]), 5),
}


@pytest.mark.engine
@pytest.mark.parametrize(("network", "count"), RECURRENT.values(), ids=RECURRENT)
def test_recurrent_layers(network: onnx.ModelProto, count: int, tmp_path: Path) -> None:
    check(network, {"n": 3, "t": 4}, tmp_path, count)


@pytest.mark.engine
def test_images_that_a_network_turns(tmp_path: Path) -> None:
    """Of open sizes: what they are turned by follows from them."""
    network = parsed("""g (float[n,2,h,w] x) => (float[n,2,3,4] y) {
        m = GlobalAveragePool (x) f = Flatten (m) t = MatMul (f, v) theta = Reshape (t, dims)
        ends = Constant <value_ints = [0, 1]> () own = Shape (x) both = Gather (own, ends) size = Concat <axis = 0> (both, places)
        grid = AffineGrid (theta, size)
        y = GridSample <padding_mode = "border"> (x, grid) }""", {
            "v": near(2, 6), "dims": np.array([-1, 2, 3]), "places": np.array([3, 4])})
    check(network, {"n": 2, "h": 3, "w": 5}, tmp_path, 2)


@pytest.mark.engine
def test_places_in_images_by_the_modes_of_opset_16(tmp_path: Path) -> None:
    modes = [("bilinear", "zeros", 0), ("bilinear", "border", 1), ("bilinear", "reflection", 0), ("bicubic", "zeros", 1),
             ("bicubic", "border", 0), ("bicubic", "reflection", 0), ("bicubic", "reflection", 1)]
    nodes = [helper.make_node("GridSample", ["x", "g"], [f"y{place}"], mode=mode, padding_mode=padding, align_corners=align)
             for place, (mode, padding, align) in enumerate(modes)]
    given = {"x": ["n", 2, 3, 4], "g": ["n", 3, 2, 2]}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in given.items()],
                              [helper.make_tensor_value_info(f"y{place}", TensorProto.FLOAT, None) for place in range(len(modes))])
    check(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=9), {"n": 2}, tmp_path, 2)


@pytest.mark.engine
def test_pads_that_the_run_computes(tmp_path: Path) -> None:
    check(parsed("""g (float[n,3] x) => (float[k,3] y) {
        s = Shape <start = 0, end = 1> (x) zero = Constant <value_ints = [0]> ()
        p = Concat <axis = 0> (zero, zero, s, zero) y = Pad (x, p, w) }""", {"w": np.array(0.5, np.float32)}),
          {"n": 2}, tmp_path, 2, words=["x", "w"])


@pytest.mark.engine
def test_indices_of_an_open_number_of_samples(tmp_path: Path) -> None:
    given = {"x": ["n", 4, "s"], "i": (TensorProto.INT64, ["n", 3, 1])}
    check(model([node("GatherND", "x,i", "y", batch_dims=1)], given, {}, ["y"]), {"n": 3, "s": 2}, tmp_path, 1, words=["x"])


REFUSED: Mapping[str, tuple[onnx.ModelProto, str]] = {
    "regions": (
        model([node("RoiAlign", "x,regions,images", "y", output_height=2, output_width=3)],
              {"x": ["n", 2, "h", "w"], "regions": ["r", 4]}, {"images": np.array([0, 1, 0])}, ["y"]),
        "the derivative of a RoiAlign by its regions, or of maxima"),
    "a state that grows": (parsed("""g (float[s,3] x, float[2,3] k, bool c) => (float[t,3] y) {
        y = Loop ("", c, x) <body = b (int64 i, bool go, float[s,3] xi) => (bool goes, float[t,3] xo) {
            xo = Concat <axis = 0> (xi, k) goes = Identity (go) }> }"""),
        "the derivative of Loop of which states change their sizes"),
    "a normalization of elements": (
        model([node("BatchNormalization", "x,s,s,s,s", "y", spatial=0)], {"x": ["n", 1, 4]}, {"s": np.abs(near(1, 4))}, ["y"], opset=7),
        "the derivative of a BatchNormalization of elements"),
    "a diagonal of an open size": (
        model([node("Einsum", "x,x", "y", equation="bii,bii->b")], {"x": ["n", "h", "h"]}, {}, ["y"]),
        "the derivative of an Einsum that takes a diagonal of an open size"),
    "scales of blocks": (coded(near(2, 3), axis=0, block_size=2), "the derivative of a DequantizeLinear of blocks"),
}


@pytest.mark.parametrize(("network", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(network: onnx.ModelProto, message: str) -> None:
    words = ["scale"] if network.graph.node[0].op_type == "DequantizeLinear" else ["inputs"]
    with pytest.raises(UnsupportedCase, match=message):
        import_model(network, gradients=words)
