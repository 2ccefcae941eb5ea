"""Attention of any number of samples, which scripts call a function for: its numbers, and when it is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of
from onnx_systemds.importing.passes.attention_heads import join_of, split_of_columns, variables
from onnx_systemds.importing.passes.matrix_sizes import statements_with_symbols
from onnx_systemds.importing.script import Script
from onnx_systemds.operators.support.attention import Heads, Mask, Sizes, attention_function
from tests.plain_engine import calls_plainly, scored_together

Array = np.ndarray[Any, np.dtype[Any]]
MASKS = {"none": None, "all": ["s", "k"], "sample": ["b", 1, "s", "k"], "head": ["b", "H", "s", "k"], "keys": ["b", 1, 1, "k"]}


def model(
    mask: str = "none", *, heads: int = 2, depth: int = 4, own_keys: bool = False, scale: str = "Mul",
    value_depth: int | None = None, scores: bool = False, scaled_last: bool = False, fused: bool = False,
    hides: float | None = None, keeps: bool = False, apart: bool = False, divided: bool = False,
    guard: str = "", turned: Sequence[str] = (), cap: float | None = None, more: str = "none", place: int | None = None,
) -> ModelProto:
    """A layer of attention of samples of any number, with tokens of any number.

    own_keys: keys and values are of another input, with another number of tokens. scores: these are an output, too.
    fused: as PyTorch's exporter writes scaled_dot_product_attention. hides: a number in place of scores that a mask of
    booleans hides. keeps: that mask says which are kept. apart: queries, keys and values are of three matrices.
    divided: queries are, before. guard: what is 0 of the shares, "rows" for rows of the mask that are -inf as a whole.
    turned: of queries, keys and values those that are changed head by head. cap: of the scores, by Tanh. more: a second
    mask, which is added. place: the only token of which the result is read.
    """
    random = np.random.default_rng(7)
    value_depth = value_depth or depth
    keys = "k" if own_keys else "s"
    source = "z" if own_keys else "x"
    inputs = {"x": ["b", "s", 6], **({"z": ["b", "k", 6]} if own_keys else {})}
    for name, kind in (("mask", mask), ("more", more)):
        if MASKS[kind] is not None:
            inputs[name] = [{"H": heads, "k": keys}.get(size, size) for size in MASKS[kind] or ()]
    nodes, initializers = [], []

    def constant(name: str, value: Array) -> str:
        initializers.append(helper.make_tensor(name, TensorProto.INT64 if value.dtype == np.int64 else TensorProto.FLOAT,
                                               value.shape, value.ravel().tolist()))
        return name

    def node(operator: str, given: Sequence[str], result: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, given, [result], name=f"node_{result}", **attributes))
        return result

    key_order = (0, 2, 1, 3) if "k" in turned else (0, 2, 3, 1)
    for name, taken, width, order in (
        ("q", "x", depth, (0, 2, 1, 3)), ("k", source, depth, key_order), ("v", source, value_depth, (0, 2, 1, 3))
    ):
        weight = constant(f"{name}_weight", random.normal(size=(6, heads * width)).astype(np.float32))
        split = constant(f"{name}_shape", np.array([0, 0, heads, width]))
        product = node("MatMul", [taken, weight], f"{name}_product")
        node("Transpose", [node("Reshape", [product, split], f"{name}_heads")], name, perm=order)
    if fused:
        scale = ""
        root = constant("root", np.array(0.6, np.float32))
        plain = node("Transpose", [node("Reshape", ["k_product", "k_shape"], "k_again")], "k_plain", perm=(0, 2, 1, 3))
        size = [node("Shape", [plain], f"k_size{at}", start=at, end=at + 1) for at in range(4)]
        planes = node("Concat", [constant("all", np.array([-1])), *size[2:]], "k_planes_shape", axis=0)
        swapped = node("Transpose", [node("Reshape", [plain, planes], "k_planes")], "k_swapped", perm=(0, 2, 1))
        restored = node("Concat", [*size[:2], size[3], size[2]], "k_final_shape", axis=0)
        node("Mul", [node("Reshape", [swapped, restored], "k_final"), root], "k_scaled")
        node("Mul", ["q", root], "q_scaled")
    for name in turned:
        turns = random.normal(size=(heads, 1, value_depth if name == "v" else depth)).astype(np.float32)
        turned_name = node("Mul", [name, constant(f"{name}_turns", turns)], f"{name}_{'kept' if name == 'k' else 'turned'}")
        if name == "k":
            node("Transpose", [turned_name], "k_turned", perm=(0, 1, 3, 2))
    if divided:
        node("Div", ["q", constant("depth", np.array(1.7, np.float32))], "q_divided")
    q, k, v = (f"{name}_turned" if name in turned else name for name in "qkv")
    value = node("MatMul", ["q_scaled", "k_scaled"] if fused else ["q_divided" if divided else q, k], "scores")
    number = constant("number", np.array(0.3 if scale == "Mul" else 2.5, np.float32))
    if scale and not scaled_last:
        value = node(scale, [value, number], "scaled")
    if cap is not None:
        most = constant("most", np.array(cap, np.float32))
        value = node("Mul", [node("Tanh", [node("Div", [value, most], "of_most")], "flat"), most], "capped")
    if hides is not None:
        flags = node("GreaterOrEqual" if keeps else "Less", ["mask", constant("least", np.array(-9, np.float32))], "flags")
        choices = [constant("hidden", np.array(hides, np.float32)), value]
        value = node("Where", [flags, *(reversed(choices) if keeps else choices)], "masked")
    elif mask != "none":
        value = node("Add", [value, "mask"], "masked")
    if more != "none":
        value = node("Add", [value, "more"], "masked_again")
    if scaled_last:
        value = node(scale, [value, number], "scaled")
    value = node("Softmax", [value], "shares", axis=-1)
    if fused:
        value = node("Where", [node("IsNaN", [value], "gaps"), constant("zero", np.array(0, np.float32)), value], "filled")
    if guard:
        masked = node("Neg", ["mask"], "other_mask") if guard == "rows of another mask" else "mask"
        most = node("ReduceMax", [masked], "most", axes=[-2 if guard == "columns" else -1])
        least = constant("hiding", np.array(-1 if guard == "rows of another number" else -np.inf, np.float32))
        nothing = constant("nothing", np.array(1 if guard == "rows of ones" else 0, np.float32))
        value = node("Where", [node("Equal", [most, least], "nothing_left"), nothing, value], "guarded")
    value = node("Transpose", [node("MatMul", [value, v], "attended")], "together", perm=(0, 2, 1, 3))
    value = node("Reshape", [value, constant("y_shape", np.array([0, 0, heads * value_depth]))], "joined")
    if place is not None:
        value = node("Gather", [value, constant("place", np.array(place))], "placed", axis=1)
    node("MatMul", [value, constant("w", random.normal(size=(heads * value_depth, 3)).astype(np.float32))], "y")
    outputs = ["y", *(["scores"] if scores else []), *(["k_product", "v_product"] if apart else [])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "layer", infos, given, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MASKS_OF_THE_OPERATOR: dict[str, list[str | int]] = {
    "keys": ["b", 1, 1, "s"], "sample": ["b", 1, "s", "s"], "head": ["b", 4, "s", "s"], "heads": [4, "s", "s"],
    "all": ["s", "s"],
}


def operator_model(
    mask: str, *, elements: int = TensorProto.FLOAT, flat: bool = False, causal: bool = False, shared: int = 1
) -> ModelProto:
    """A layer with ONNX's Attention of four heads. elements: the type of the mask. flat: heads are side by side.

    shared: so many queries have keys and values in common.
    """
    random = np.random.default_rng(11)
    nodes, constants, heads = [], [], dict(zip("qkv", (4, 4 // shared, 4 // shared)))
    for name, count in heads.items():
        weight = random.normal(size=(6, 4 * count)).astype(np.float32)
        constants += [numpy_helper.from_array(weight, f"{name}_weight"), numpy_helper.from_array(np.array([0, 0, count, 4]), f"{name}_apart")]
        nodes.append(helper.make_node("MatMul", ["x", f"{name}_weight"], [name]))
        if not flat:
            nodes.append(helper.make_node("Reshape", [name, f"{name}_apart"], [f"{name}_parts"]))
            nodes.append(helper.make_node("Transpose", [f"{name}_parts"], [f"{name}_heads"], perm=[0, 2, 1, 3]))
    given = [*(name if flat else f"{name}_heads" for name in heads), *(["mask"] if mask != "none" else [])]
    counts = {"q_num_heads": heads["q"], "kv_num_heads": heads["k"]} if flat else {}
    nodes.append(helper.make_node("Attention", given, ["y" if flat else "together"], is_causal=int(causal), **counts))
    if not flat:
        constants.append(numpy_helper.from_array(np.array([0, 0, 16]), "beside"))
        nodes.append(helper.make_node("Transpose", ["together"], ["parts"], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", ["parts", "beside"], ["y"]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", 6])]
    if mask != "none":
        inputs.append(helper.make_tensor_value_info("mask", elements, MASKS_OF_THE_OPERATOR[mask]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "s", 16])]
    graph = helper.make_graph(nodes, "operator", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def feeds_of(found: ModelProto, sizes: dict[str, int], seed: int = 3) -> dict[str, Array]:
    """Numbers for the inputs; of masks a third is minus infinity, and one row of scores as a whole."""
    random = np.random.default_rng(seed)
    feeds = {}
    for given in found.graph.input:
        dims = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in given.type.tensor_type.shape.dim]
        value = random.normal(size=dims).astype(np.float32)
        if given.name in ("mask", "more"):
            value = np.where(random.random(value.shape) < 0.3, -np.inf, value)
            value[..., 0] = 0.5
            value.reshape(-1, dims[-1])[0] = -np.inf  # its softmax is NaN
        is_kept = given.type.tensor_type.elem_type == TensorProto.BOOL
        feeds[given.name] = value > -np.inf if is_kept else value.astype(np.float32)
    return feeds


def calls_attention(script: Script) -> bool:
    return "attention" in {function.name for function in script.library}


CASES = {
    "one product": {},
    "no scale": {"scale": ""},
    "divided": {"scale": "Div"},
    "a mask for all": {"mask": "all"},
    "a mask for each sample": {"mask": "sample", "heads": 3},
    "a mask for each head": {"mask": "head"},
    "masked keys": {"mask": "keys"},
    "many heads": {"heads": 12, "depth": 2},
    "many heads, a mask for all": {"heads": 12, "depth": 2, "mask": "all"},
    "many heads, a mask for each sample": {"heads": 12, "depth": 2, "mask": "sample"},
    "many heads, a mask for each head": {"heads": 12, "depth": 2, "mask": "head"},
    "many heads, masked keys": {"heads": 12, "depth": 2, "mask": "keys"},
    "many heads, keys of another input": {"heads": 12, "own_keys": True, "mask": "keys", "value_depth": 16},
    "queries are divided": {"divided": True, "mask": "keys", "scale": ""},
    "queries of many heads are divided": {"divided": True, "scale": "", "heads": 12, "depth": 2},
    "values of another width": {"value_depth": 5, "heads": 3},
    "keys of another input": {"own_keys": True, "value_depth": 16},
    "keys of another input, masked": {"own_keys": True, "mask": "all", "value_depth": 17},
    "keys of another input, masked by head": {"own_keys": True, "mask": "head", "value_depth": 16},
    "hidden for all": {"mask": "all", "hides": -np.inf},
    "hidden for each sample": {"mask": "sample", "hides": -1e4, "heads": 3},
    "hidden for each head": {"mask": "head", "hides": -np.inf},
    "hidden keys": {"mask": "keys", "hides": -3.4e38, "scale": "Div"},
    "hidden keys of many heads": {"mask": "keys", "hides": -np.inf, "heads": 12, "depth": 2},
    "hidden, of three matrices": {"mask": "all", "hides": -np.inf, "apart": True, "heads": 3},
    "kept for all": {"mask": "all", "hides": -1e4, "keeps": True, "scale": ""},
    "kept keys": {"mask": "keys", "hides": -np.inf, "keeps": True},
    "hidden keys of another input": {"own_keys": True, "mask": "keys", "hides": -np.inf, "heads": 12, "value_depth": 16},
    "as PyTorch exports it": {"fused": True},
    "as PyTorch exports it, a mask for all": {"fused": True, "mask": "all"},
    "as PyTorch exports it, masked keys": {"fused": True, "mask": "keys", "heads": 12, "depth": 2},
    "scaled after a mask": {"mask": "all", "scaled_last": True},
    "scaled after a mask for each sample": {"mask": "sample", "scaled_last": True, "scale": "Div"},
    "capped": {"cap": 1.5},
    "capped, masked keys": {"cap": 1.5, "mask": "keys"},
    "two masks": {"mask": "sample", "more": "head"},
    "two masks of many heads": {"mask": "keys", "more": "all", "heads": 12, "depth": 2},
    "hidden, and a mask for each sample": {"mask": "all", "hides": -100, "more": "sample", "scale": ""},
    "hidden keys, and a mask for each head": {"mask": "keys", "hides": -np.inf, "keeps": True, "more": "head"},
    "turned": {"turned": "qk", "heads": 3},
    "turned, of many heads": {"turned": "qk", "heads": 12, "depth": 2, "mask": "keys"},
    "turned values": {"turned": "v", "mask": "sample", "value_depth": 5},
    "turned keys of another input": {"turned": "k", "own_keys": True, "value_depth": 16, "mask": "head"},
    "all are turned": {"turned": "qkv", "mask": "all", "hides": -np.inf, "cap": 2.0},
    "the first token": {"place": 0, "heads": 3},
    "the last token, masked keys": {"place": -1, "mask": "keys"},
    "the second token, turned": {"place": 1, "turned": "k", "scale": "Div"},
    "the first token of many heads": {"place": 0, "heads": 12, "depth": 2},
}


def some(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The names, some at a time: those of a program."""
    every = [*names]
    return [tuple(every[first : first + 8]) for first in range(0, len(every), 8)]


@pytest.mark.engine
@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("cases", some(CASES), ids=lambda cases: cases[0])
def test_numbers(cases: tuple[str, ...], open_sizes: bool) -> None:
    """Of samples and tokens of any number, and the same script for all of them."""
    calls, expected = {}, {}
    for case in cases:
        found = model(**CASES[case])  # type: ignore[arg-type]
        script = import_model(found)
        assert calls_attention(script), case
        assert not any(function.name.startswith("batch_matmul") for function in script.library), case
        least = 2 if CASES[case].get("place") == 1 else 1
        sizes = [{"b": 3, "s": 5, "k": 4}, {"b": 1, "s": least, "k": 2}, {"b": 8, "s": 2, "k": 1}]
        feeds = [feeds_of(found, each) for each in (sizes[:2] if open_sizes else sizes)]
        calls[case], expected[case] = (script, feeds), by_onnxruntime(found, feeds)
    compare(scored_together(calls, open_sizes=open_sizes), expected)


def by_onnxruntime(found: ModelProto, feeds: Sequence[dict[str, Array]]) -> list[Array]:
    oracle = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    return [oracle.run(["y"], given)[0] for given in feeds]


def compare(found: Mapping[str, Sequence[Mapping[str, Any]]], expected: Mapping[str, Sequence[Array]]) -> None:
    for case, results in found.items():
        for result, right in zip(results, expected[case], strict=True):
            np.testing.assert_allclose(result["y"], right, rtol=1e-4, atol=1e-5, err_msg=case)


def by_definition(found: ModelProto, feeds: dict[str, Array], *, causal: bool) -> Array:
    """What the operator gives; `onnx.reference` forgets which keys are later where the mask has one row."""
    weights = {it.name.partition("_")[0]: numpy_helper.to_array(it) for it in found.graph.initializer if "weight" in it.name}
    samples, tokens, _ = feeds["x"].shape
    q, k, v = ((feeds["x"] @ weights[name]).reshape(samples, tokens, -1, 4).swapaxes(1, 2) for name in "qkv")
    k, v = (np.repeat(it, q.shape[1] // it.shape[1], axis=1) for it in (k, v))
    mask = feeds.get("mask", np.float32(0))
    bias = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask
    bias = np.broadcast_to(bias, (samples, q.shape[1], tokens, tokens))
    bias = np.where(np.tri(tokens) > 0, bias, -np.inf) if causal else bias
    hidden = (bias == -np.inf).all(-1, keepdims=True)
    scores = np.where(hidden, 0, q @ k.swapaxes(2, 3) / 2 + bias)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares = np.where(hidden, 0, shares / shares.sum(-1, keepdims=True))
    together: Array = (shares @ v).swapaxes(1, 2).reshape(samples, tokens, -1)
    return together


def check_operator(found: ModelProto, *, causal: bool = False) -> int:
    """Compare the script with the definition; the number of rows that are 0."""
    script = import_model(found)
    assert calls_attention(script)
    assert not any(function.name.startswith("batch_matmul") for function in script.library)
    feeds = [feeds_of(found, sizes) for sizes in ({"b": 3, "s": 5}, {"b": 1, "s": 1})]
    expected = [by_definition(found, given, causal=causal) for given in feeds]
    for results, right in zip(calls_plainly(script, feeds), expected, strict=True):
        np.testing.assert_allclose(results["y"], right, rtol=1e-4, atol=1e-5)
    return sum(int((right == 0).all(-1).sum()) for right in expected)


@pytest.mark.engine
@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("elements", [TensorProto.BOOL, TensorProto.FLOAT], ids=["bool", "float"])
@pytest.mark.parametrize("mask", MASKS_OF_THE_OPERATOR)
def test_the_operator(mask: str, elements: int, causal: bool) -> None:
    """A row that its mask hides as a whole gives zeros, as the definition of the operator says."""
    hidden = check_operator(operator_model(mask, elements=elements, causal=causal, flat=causal), causal=causal)
    assert hidden or mask in ("head", "heads")  # there it is a row of one head of four


@pytest.mark.engine
@pytest.mark.parametrize("mask", ["none", "keys", "sample"])
@pytest.mark.parametrize("shared", [2, 4])
def test_queries_that_share_keys(shared: int, mask: str) -> None:
    check_operator(operator_model(mask, shared=shared))


@pytest.mark.engine
@pytest.mark.parametrize("turned", [0, 1])
def test_grouped_queries(turned: int) -> None:
    """onnxruntime's GroupQueryAttention multiplies the queries that share keys as those of one head."""
    random = np.random.default_rng(5)
    sizes = {"q": (8, 64), "k": (8, 32), "v": (8, 32), "cos": (9, 8), "sin": (9, 8)}
    constants = [numpy_helper.from_array(random.normal(size=size).astype(np.float32), name) for name, size in sizes.items()]
    nodes = [helper.make_node("MatMul", ["x", name], [f"of_{name}"]) for name in "qkv"]
    given = ["of_q", "of_k", "of_v", "", "", "lengths", "length", *(["cos", "sin"] if turned else [])]
    nodes.append(helper.make_node("GroupQueryAttention", given, ["y", "keys", "values"], domain="com.microsoft",
                                  num_heads=4, kv_num_heads=2, do_rotary=turned))
    ports = [("x", TensorProto.FLOAT, ["b", "s", 8]), ("lengths", TensorProto.INT32, ["b"]), ("length", TensorProto.INT32, [])]
    inputs, outputs = ([helper.make_tensor_value_info(*port) for port in each] for each in (ports, [("y", TensorProto.FLOAT, None)]))
    graph = helper.make_graph(nodes, "grouped", inputs, outputs, constants)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    found = helper.make_model(graph, opset_imports=versions, ir_version=8)
    script = import_model(found)
    assert calls_attention(script) and not any(function.name.startswith("batch_matmul") for function in script.library)
    feeds = [{"x": random.normal(size=(b, s, 8)).astype(np.float32), "lengths": np.full(b, s - 1, np.int32),
              "length": np.array(s, np.int32)} for b, s in ((3, 5), (1, 1), (2, 9))]
    oracle = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    for each, results in zip(feeds, calls_plainly(script, feeds), strict=True):
        np.testing.assert_allclose(results["y"], oracle.run(["y"], each)[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("guard", ["rows", "columns", "rows of another mask", "rows of another number", "rows of ones"])
@pytest.mark.parametrize("mask", ["keys", "sample", "head"])
def test_guards(mask: str, guard: str) -> None:
    """What takes the place of shares by something else than rows of the mask that hide all stays as it is."""
    assert calls_attention(import_model(model(mask, guard=guard))) == (guard == "rows")


@pytest.mark.engine
def test_many_are_shared_by_threads() -> None:
    found = model("all", depth=16)
    feeds = feeds_of(found, {"b": 3, "s": 512})
    (results,) = calls_plainly(import_model(found), [feeds])
    oracle = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(results["y"], oracle.run(["y"], feeds)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"scores": True},  # they are read elsewhere
        {"heads": 1},
        {"heads": 33, "depth": 2},  # the function would be long
        {"own_keys": True},  # the engine ends products of such sizes in an error, unless rows are added
    ],
)
def test_what_stays(options: dict[str, Any]) -> None:
    assert not calls_attention(import_model(model(**options)))


@pytest.mark.parametrize("dims", [{"b": 2}, {"b": 1, "s": 5}])
def test_a_known_sample_is_written_out(dims: dict[str, int]) -> None:
    assert not calls_attention(import_model(model(), dims=dims))


def test_many_scores_of_known_samples_are_those_of_all_at_once() -> None:
    assert calls_attention(import_model(model(), dims={"b": 3, "s": 128}))
    assert not calls_attention(import_model(model(), dims={"b": 3, "s": 256}))


KNOWN = ("one product", "a mask for each sample", "a mask for each head", "masked keys", "a mask for all", "hidden keys",
         "many heads, masked keys", "keys of another input, masked", "kept for all", "as PyTorch exports it, masked keys",
         "two masks", "capped, masked keys", "turned", "all are turned", "the first token")


@pytest.mark.engine
@pytest.mark.parametrize("samples", [3, 11])
@pytest.mark.parametrize("cases", some(KNOWN), ids=lambda cases: cases[0])
def test_numbers_of_known_sizes(cases: tuple[str, ...], samples: int) -> None:
    """The function holds all sizes as numbers, and has one loop."""
    sizes, calls, expected = {"b": samples, "s": 5, "k": 4}, {}, {}
    for case in cases:
        found = model(**CASES[case])  # type: ignore[arg-type]
        script = import_model(found, dims={name: sizes[name] for name in open_sizes_of(found)})
        (function,) = [it for it in script.library if it.name == "attention"]
        assert not any(parameter.type.kind == "scalar" for parameter in function.parameters), case
        assert [type(it) for it in function.body].count(tree.For) == 1, case
        assert not any(name.startswith("matrix_products") for name in script.callable_functions), case
        feeds = [feeds_of(found, sizes)]
        calls[case], expected[case] = (script, feeds), by_onnxruntime(found, feeds)
    compare(scored_together(calls), expected)


def open_sizes_of(found: ModelProto) -> set[str]:
    dims = (dim for given in found.graph.input for dim in given.type.tensor_type.shape.dim)
    return {dim.dim_param for dim in dims if dim.dim_param}


def test_equal_layers_call_one_function() -> None:
    first, second = model("all"), model("all")
    names = {name: f"second_{name}" for node in second.graph.node for name in node.output} | {"x": "again"}
    for each in second.graph.node:
        each.input[:] = [names.get(name, name) for name in each.input]
        each.output[:] = [names[name] for name in each.output]
    widened = helper.make_node("Concat", ["y", "y"], ["again"], axis=2)
    nodes = [*first.graph.node, widened, *second.graph.node]
    outputs = [helper.make_tensor_value_info("second_y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "two", first.graph.input, outputs, first.graph.initializer)
    script = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert [function.name for function in script.library if "attention" in function.name] == ["attention"]
    assert script.body_text().count("(attention(") == 2


def test_layers_share_hidden_keys() -> None:
    """The mask is one value, which the script does not repeat for each head."""
    first, second = model("keys", hides=-np.inf), model("keys", hides=-np.inf)
    names = {name: f"second_{name}" for node in second.graph.node for name in node.output} | {"x": "again", "flags": "flags"}
    for each in second.graph.node:
        each.input[:] = [names.get(name, name) for name in each.input]
        each.output[:] = [names[name] for name in each.output]
    widened = helper.make_node("Concat", ["y", "y"], ["again"], axis=2)
    nodes = [*first.graph.node, widened, *(node for node in second.graph.node if node.output[0] != "flags")]
    outputs = [helper.make_tensor_value_info("second_y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "two", first.graph.input, outputs, first.graph.initializer)
    text = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)).body_text()
    assert text.count("(attention(") == 2
    assert "table(" not in text and "gathered" not in text


@pytest.mark.parametrize("samples", [0, 2])
def test_heads_of_no_samples(samples: int) -> None:
    """Sizes that are numbers may be 0."""
    body = """
      A = matrix(cbind(matrix(X[, 1:2], rows=n, cols=2), matrix(X[, 3:4], rows=n, cols=2)), rows=2 * n, cols=2)
      Z = matrix(W, rows=n, cols=4)
      Y = cbind(matrix(Z[, 1:2], rows=n, cols=2), matrix(Z[, 3:4], rows=n, cols=2)) + sum(A)"""
    head = "f = function(matrix[double] X, matrix[double] W, integer n) return (matrix[double] Y)"
    function = function_of(f"{head} {{{body}\n}}")
    known, given = variables(function), {"X": (samples, 4), "W": (samples, 4), "n": samples}
    *_, (last, size_of) = statements_with_symbols(function.body, {}, given)
    assert isinstance(last, tree.Assign) and isinstance(last.value, tree.Binary)
    assert (split_of_columns(tree.Name("A"), known, size_of) is not None) == (samples > 0)
    assert (join_of(last.value.left, known, size_of) is not None) == (samples > 0)


def test_the_function() -> None:
    """Queries and values are columns of one matrix, keys of another."""
    heads = (Heads("F", ((1, 2), (3, 4))), Heads("G", ((3, 4), (5, 6))), Heads("F", ((5, 7), (8, 10))))
    text = attention_function("attend", heads, ["* 0.5", Mask("head")])
    assert "attend = function(matrix[double] QV, matrix[double] K, matrix[double] M, integer count)" in text
    assert "S = rbind(F[, 1:2] %*% t(G[, 3:4]), F[, 3:4] %*% t(G[, 5:6])) * 0.5 + N" in text
    assert "Z = cbind(W[1:m, ] %*% F[, 5:7], W[(m + 1):(2*m), ] %*% F[, 8:10])" in text
    text = attention_function("attend", heads, [Mask("head")], sizes=Sizes(4096, 256, 256, (10, 6)))
    assert "attend = function(matrix[double] QV, matrix[double] K, matrix[double] M) return" in text
    assert "A = matrix(QV, rows=4096, cols=2560)" in text and "B = matrix(K, rows=4096, cols=1536)" in text
    assert "Z = cbind(W[1:256, ] %*% F[, 5:7], W[257:512, ] %*% F[, 8:10])" in text
    assert "parfor (i in 1:4096, check=0)" in text
