"""Inputs for ONNX's operators on signals, texts and sequences, and for those of training."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import FLOATS, SIGNED, Array, Draw, Node
from tests.fuzz.operators_core import longs, makes

NUMBERS = ("float", "double", "int32", "int64")
_WORDS = ("a", "b", "c", "dd", "É", "")


def words(draw: Draw, *dims: int) -> Array:
    """A tensor of a few different words."""
    return np.array([draw.one(*_WORDS) for _ in range(int(np.prod(dims)))], object).reshape(dims)


# --- signals -----------------------------------------------------------------------------------------------------


@makes("DFT")
def dft(draw: Draw) -> Node:
    dims = [*draw.shape(1, 3, 1), draw.int(1, 2)]
    dims = [draw.int(1, 3), *dims]
    axis = draw.int(1, len(dims) - 2)
    counted = axis - len(dims) * draw.flag()
    attributes: dict[str, Any] = {"inverse": draw.flag()}
    if dims[-1] == 1 and not attributes["inverse"]:
        attributes["onesided"] = draw.flag()
    inputs: dict[str, Any] = {"x": draw.array(draw.type("T1", ("float", "double")), dims)}
    inputs["n"] = longs(draw.int(1, dims[axis] + 2)) if draw.chance(0.4) else None
    if draw.opset >= 20:
        inputs["axis"] = longs(counted)
    else:
        attributes["axis"] = counted
    return Node(inputs, attributes, kept=frozenset({"n", "axis"}))


@makes("STFT")
def stft(draw: Draw) -> Node:
    length = draw.int(8, 20)
    frame = draw.int(2, 8)
    parts = draw.one(1, 1, 1, 2)
    x = draw.parameters(draw.int(1, 3), length, parts)
    window = draw.positive(frame) if draw.chance(0.6) else None
    size = None if window is not None and draw.chance(0.3) else longs(frame)
    return Node({"x": x, "step": longs(draw.int(1, 5)), "w": window, "n": size}, {"onesided": draw.flag() if parts == 1 else 0},
                kept=frozenset({"step", "w", "n"}))


@makes("HannWindow", "HammingWindow", "BlackmanWindow")
def window(draw: Draw) -> Node:
    size = np.asarray(draw.int(1, 12), draw.one(np.int32, np.int64))
    return Node({"size": size}, {"periodic": draw.flag()} if draw.chance(0.7) else {})


@makes("MelWeightMatrix")
def mel(draw: Draw) -> Node:
    numbers = [np.asarray(value, np.int64) for value in (draw.int(2, 6), draw.one(16, 32, 64), draw.one(8192, 16000))]
    edges = [np.asarray(value, np.float32) for value in (draw.one(0.0, 100.0), draw.one(4000.0, 2000.0))]
    return Node(dict(zip(("n", "length", "rate", "low", "high"), [*numbers, *edges])))


@makes("Gelu")
def gelu(draw: Draw) -> Node:
    attributes = {"approximate": draw.one("none", "tanh")} if draw.chance(0.7) else {}
    return Node({"x": draw.array(draw.type("T"), draw.shape())}, attributes, is_exact=True)


@makes("NonMaxSuppression")
def non_max_suppression(draw: Draw) -> Node:
    batch, classes, count = draw.int(1, 2), draw.int(1, 2), draw.int(1, 8)
    center = draw.flag()
    low = draw.rng.uniform(0, 4, (batch, count, 2))
    second = draw.rng.uniform(0.5, 3, (batch, count, 2))
    boxes = np.asarray(np.concatenate([low, second if center else low + second], -1), np.float32)
    if not center and draw.chance(0.4):  # any two corners of a box that lie opposite
        boxes = np.where(
            draw.rng.random((batch, count, 1)) < 0.5, boxes, boxes[..., draw.one([2, 3, 0, 1], [2, 1, 0, 3])]
        )
    scores = np.asarray(draw.rng.random((batch, classes, count)), np.float32)
    most = longs(draw.int(0, 4)) if draw.chance(0.9) else None
    limits = [np.asarray(draw.real(0, 1), np.float32) if draw.chance(0.6) else None for _ in range(2)]
    return Node({"boxes": boxes, "scores": scores, "most": most, "iou": limits[0], "least": limits[1]},
                {"center_point_box": center})


# --- texts and sequences -----------------------------------------------------------------------------------------


@makes("StringSplit")
def string_split(draw: Draw) -> Node:
    dims = (draw.int(1, 5),) if draw.chance(0.7) else draw.one((), (2, 2), (1, 3))
    texts = np.array(
        [draw.one("a b c", " a  b ", "", "x,y", "a,,b", "abc", "a\tb\n c") for _ in range(int(np.prod(dims)))], object
    )
    texts = texts.reshape(dims)
    attributes: dict[str, Any] = {"delimiter": draw.one(" ", ",", "")} if draw.chance(0.6) else {}
    if draw.chance(0.3):
        attributes["maxsplit"] = draw.int(1, 2)
    return Node({"x": texts}, attributes, 2)


@makes("StringNormalizer")
def string_normalizer(draw: Draw) -> Node:
    attributes: dict[str, Any] = {"case_change_action": draw.one("NONE", "LOWER", "UPPER"),
                                  "is_case_sensitive": draw.flag()}
    if draw.chance(0.6):
        attributes["stopwords"] = ["a", "dd"]
    return Node({"x": words(draw, *([1] if draw.chance(0.3) else []), draw.int(1, 6))}, attributes)


_PATTERNS = ("a", "[a-c]", "d+", ".*", "(a|dd)?", "[^a]", "a|b", "(?i)A", r"\w+", r"\d*", "^a$", "", "a{1,2}", "[[:alpha:]]+",
             "É", r"\p{L}+", ".", "a*?", "(?:a|b)c?", r"\bdd\b", r"[\s]", r"\S+")


@makes("RegexFullMatch")
def regex(draw: Draw) -> Node:
    return Node({"x": words(draw, *draw.shape(0, 3))}, {"pattern": draw.one(*_PATTERNS)})


@makes("TfIdfVectorizer")
def tf_idf(draw: Draw) -> Node:
    shortest = draw.int(1, 2)
    longest = draw.int(shortest, 2)
    single, pairs = [1, 2, 3, 5], [1, 2, 2, 3, 5, 1]
    attributes: dict[str, Any] = {
        "mode": draw.one("TF", "IDF", "TFIDF"), "min_gram_length": shortest, "max_gram_length": longest,
        "max_skip_count": draw.int(0, 2), "ngram_counts": [0, 4], "pool_int64s": single + pairs,
        "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    }
    if attributes["mode"] != "TF" or draw.chance(0.3):
        attributes["weights"] = [draw.real(0.5, 2) for _ in range(7)]
    dims = (draw.int(1, 8),) if draw.chance(0.5) else (draw.int(1, 3), draw.int(1, 8))
    numbers = draw.rng.integers(0, 7, dims)
    if draw.chance(0.3):
        pool = np.array(["a", "b", "c", "dd", "É", "", "x y"], object)
        attributes["pool_strings"] = pool[attributes.pop("pool_int64s")].tolist()
        return Node({"x": pool[numbers]}, attributes)
    return Node({"x": np.asarray(numbers, draw.one(np.int32, np.int64))}, attributes)


def sequence(draw: Draw, dims: tuple[int, ...] | None = None, dtype: str = "") -> list[Array]:
    """One to four tensors of a type, mostly of one rank, of rank 3 with one size of their own."""
    dtype, count = dtype or draw.one(*NUMBERS), draw.int(1, 4)
    if dims is not None or draw.chance(0.2):
        return [draw.array(dtype, draw.shape(0, 3, 1) if dims is None else dims) for _ in range(count)]
    shared = draw.shape(0, 3, 1)
    own = draw.axis(len(shared)) % max(len(shared), 1)
    shapes = [[draw.size(1) if axis == own or len(shared) < 3 else size for axis, size in enumerate(shared)]
              for _ in range(count)]
    return [draw.array(dtype, shape) for shape in shapes]


@makes("SequenceEmpty")
def sequence_empty(draw: Draw) -> Node:
    return Node({}, {"dtype": draw.one(1, 6, 7, 8, 9, 11)} if draw.chance(0.8) else {})


_ITEMWISE = {"Neg": 1, "Abs": 1, "Identity": 1, "Add": 2, "Mul": 2, "Max": 2, "Shape": 1}


@makes("SequenceMap")
def sequence_map(draw: Draw) -> Node:
    """One or two sequences, a tensor for all items, and a body of a few nodes that gives one or two of its values."""
    dtype = draw.one("float", "float", *NUMBERS)
    items = sequence(draw, dtype=dtype)
    inputs: dict[str, Any] = {"s": [item for item in items if item.ndim == items[0].ndim]}
    if draw.chance(0.4):
        inputs["t"] = [draw.array(dtype, item.shape) for item in inputs["s"]]
    if draw.chance(0.5):
        inputs["x"] = draw.array(dtype, draw.one((), (1,)))
    kind = int(helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype)))
    given = [helper.make_tensor_value_info(f"item_{name}", kind, None if isinstance(value, list) else [None] * value.ndim)
             for name, value in inputs.items()]
    names, nodes = [info.name for info in given], []
    for place in range(draw.int(1, 3)):
        op_type = draw.one(*[*_ITEMWISE][:-1])
        nodes.append(helper.make_node(op_type, [draw.one(*names) for _ in range(_ITEMWISE[op_type])], [f"y{place}"]))
        names.append(f"y{place}")
    results = [helper.make_tensor_value_info(nodes[-1].output[0], kind, None)]
    if draw.chance(0.4):
        nodes.append(helper.make_node("Shape", [names[0]], ["dims"]))
        results.append(helper.make_tensor_value_info("dims", TensorProto.INT64, [None]))
    return Node(inputs, {"body": helper.make_graph(nodes, "body", given, results)}, len(results))


@makes("SequenceConstruct")
def sequence_construct(draw: Draw) -> Node:
    return Node({f"x{place}": item for place, item in enumerate(sequence(draw))}, is_exact=True)


@makes("SequenceAt", "SequenceErase")
def sequence_at(draw: Draw) -> Node:
    items = sequence(draw)
    place = np.asarray(draw.int(-len(items), len(items) - 1), draw.one(np.int32, np.int64))
    without = draw.op_type == "SequenceErase" and draw.chance(0.3)
    return Node({"s": items, "i": None if without else place}, is_exact=True)


@makes("SequenceInsert")
def sequence_insert(draw: Draw) -> Node:
    dtype = draw.one(*NUMBERS)
    items = sequence(draw, dtype=dtype)
    place = longs(draw.int(-len(items), len(items)))
    item = draw.array(dtype, draw.one(*(each.shape for each in items)) if draw.chance(0.8) else draw.shape(0, 3, 1))
    return Node({"s": items, "x": item, "i": place if draw.chance(0.7) else None}, is_exact=True)


@makes("SequenceLength")
def sequence_length(draw: Draw) -> Node:
    return Node({"s": sequence(draw)})


@makes("ConcatFromSequence")
def concat_from_sequence(draw: Draw) -> Node:
    dims = draw.shape(1, 3, 1)
    new = draw.flag()
    return Node({"s": sequence(draw, dims)}, {"axis": draw.axis(len(dims) + new), "new_axis": new}, is_exact=True)


@makes("SplitToSequence")
def split_to_sequence(draw: Draw) -> Node:
    dims = draw.shape(1, 3, 1)
    axis = draw.axis(len(dims))
    split: Array | None = None
    if draw.chance(0.7):
        cut = draw.int(0, dims[axis])
        split = longs(draw.int(1, 3)) if draw.chance(0.5) else longs([cut, dims[axis] - cut])
    attributes = {"axis": axis, **({"keepdims": draw.flag()} if split is None else {})}
    return Node({"x": draw.array(draw.type("T"), dims), "split": split}, attributes, is_exact=True)


# --- training ----------------------------------------------------------------------------------------------------


@makes("Adagrad", "Adam", "Momentum")
def optimizer(draw: Draw) -> Node:
    states = {"Adagrad": 1, "Adam": 2, "Momentum": 1}[draw.op_type]
    count = draw.int(1, 2)
    shapes = [draw.shape(0, 2, 1) for _ in range(count)]
    inputs: dict[str, Any] = {"R": np.asarray(draw.real(0.01, 0.5), np.float32), "T": longs(draw.int(0, 5))}
    for part in range(2 + states):
        for place, dims in enumerate(shapes):
            inputs[f"x{part}_{place}"] = draw.positive(*dims) if part >= 2 else draw.parameters(*dims)
    attributes: dict[str, Any] = {"norm_coefficient": draw.real(0, 0.1)}
    if draw.op_type == "Momentum":
        attributes |= {"alpha": draw.real(0.5, 1), "beta": draw.real(0.5, 1), "mode": draw.one("standard", "nesterov")}
    return Node(inputs, attributes, count * (1 + states))


@makes("OptionalHasElement", "OptionalGetElement")
def optional(draw: Draw) -> Node:
    x: Any = draw.array(draw.one(*FLOATS[:2], *SIGNED), draw.shape(0, 3, 1))
    return Node({"x": x}, is_exact=True)


@makes("Optional")
def made_optional(draw: Draw) -> Node:
    """Of a tensor, of a sequence, or of nothing, whose type an attribute says."""
    if draw.chance(0.7):
        return Node({"x": sequence(draw) if draw.chance(0.3) else optional(draw).inputs["x"]}, is_exact=True)
    kind = helper.make_tensor_type_proto(draw.one(1, 6, 7, 9, 11), draw.one(None, [2, 3]))
    return Node({}, {"type": helper.make_sequence_type_proto(kind) if draw.chance(0.3) else kind})


@makes("RandomNormal", "RandomUniform")
def of_a_shape(draw: Draw) -> Node:
    """As `nothing_to_compare`, of no input."""
    place = {"mean": draw.real(-2, 2), "scale": 0.0} if draw.op_type == "RandomNormal" else {"low": 0.5, "high": 0.5}
    attributes: dict[str, Any] = {**place, "shape": draw.shape(1, 4)}
    if draw.chance(0.6):
        attributes["dtype"] = draw.one(1, 10, 11)
    if draw.chance(0.4):
        attributes["seed"] = draw.real(-5, 5)
    return Node({}, attributes)


@makes("Multinomial")
def multinomial(draw: Draw) -> Node:
    """Of one class that is possible, which all samples have."""
    dims, dtype = (draw.size(1), draw.size(1)), draw.one("float", "float", "double")
    chosen = draw.rng.integers(0, dims[1], (dims[0], 1)) == np.arange(dims[1])
    x = np.where(chosen, draw.parameters(*dims, dtype=dtype), -np.inf).astype(numpy_dtype(dtype))
    attributes: dict[str, Any] = {"sample_size": draw.int(1, 5)} if draw.chance(0.8) else {}
    if draw.chance(0.6):
        attributes["dtype"] = draw.one(6, 7)
    return Node({"x": x}, attributes, kept=frozenset({"x"}))


@makes("RandomNormalLike", "RandomUniformLike", "Bernoulli")
def nothing_to_compare(draw: Draw) -> Node:
    """Random numbers have no judge: only that they are drawn, of the right type and dims, by a scale of 0."""
    x = draw.array(draw.one("float", "double"), draw.shape(1, 3, 1))
    if draw.op_type == "Bernoulli":
        return Node({"x": np.asarray(np.round(np.clip(np.nan_to_num(x), 0, 1)), x.dtype)})
    place = {"mean": 0.5, "scale": 0.0} if draw.op_type == "RandomNormalLike" else {"low": 0.5, "high": 0.5}
    return Node({"x": x}, {**place, "dtype": draw.one(1, 11)})


# --- the rest ---------------------------------------------------------------------------------------------------------


@makes("TensorScatter")
def tensor_scatter(draw: Draw) -> Node:
    b, h, s, d = draw.int(1, 3), draw.int(1, 3), draw.int(3, 6), draw.int(1, 4)
    length = draw.int(1, 3)
    mode = draw.one("linear", "circular")
    starts = longs([draw.int(0, s - length if mode == "linear" else s - 1) for _ in range(b)])
    dtype = draw.type("T")
    return Node({"x": draw.array(dtype, (b, h, s, d)), "u": draw.array(dtype, (b, h, length, d)),
                 "w": starts if draw.chance(0.8) else None}, {"mode": mode}, is_exact=True)


@makes("Dropout")
def dropout(draw: Draw) -> Node:
    x = draw.array(draw.type("T"), draw.shape())
    if draw.opset < 12:
        return Node({"x": x}, {"ratio": draw.real(0, 0.9)}, 1)
    ratio = np.asarray(draw.real(0, 0.9), np.float32) if draw.chance(0.6) else None
    return Node({"x": x, "ratio": ratio}, {}, draw.int(1, 2))


@makes("IsInf")
def is_inf(draw: Draw) -> Node:
    attributes = {"detect_negative": draw.flag(), "detect_positive": draw.flag()} if draw.chance(0.7) else {}
    return Node({"x": draw.array(draw.type("T1"), draw.shape())}, attributes, is_exact=True)
