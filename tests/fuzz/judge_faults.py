"""Known faults of onnxruntime and of ONNX's reference implementation, and what docs/differences.md says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Feeds = Mapping[str, Any]


@dataclass(frozen=True)
class JudgeFault:
    """A judge that is not asked. applies: of a node and the model's feeds and constants; of_model: of the model."""

    judges: tuple[str, ...]
    op_types: frozenset[str]
    reason: str
    applies: Callable[[NodeProto, Feeds], bool] = lambda node, feeds: True
    of_model: Callable[[ModelProto], bool] = lambda model: True


_ONNXRUNTIME = ("onnxruntime", "optimised", "exact", "wide")
_REFERENCE = ("reference", "double")
_FEW_BITS = ("uint4", "int4", "uint2", "int2")


def _has_nan(node: NodeProto, feeds: Feeds) -> bool:
    return any(np.isnan(value).any() for value in reals(feeds))


def _has_minus_zero(node: NodeProto, feeds: Feeds) -> bool:
    return any((np.signbit(value) & (value == 0)).any() for value in reals(feeds))


def _has_no_number(node: NodeProto, feeds: Feeds) -> bool:
    return any(not np.isfinite(value).all() for value in reals(feeds))


def _has_large_numbers(node: NodeProto, feeds: Feeds) -> bool:
    return any(np.abs(value).max(initial=0) > 1e4 for value in reals(feeds))


def reals(feeds: Feeds) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """The inputs of floating point; numpy does not know bfloat16 and its like as such."""
    arrays = [value for value in feeds.values() if isinstance(value, np.ndarray)]
    return [array.astype(np.float64) for array in arrays if array.dtype.kind in "fV"]


def _has_wide_integers(node: NodeProto, feeds: Feeds) -> bool:
    """Whether there are integers that FP32 has not."""
    arrays = [value for value in feeds.values() if isinstance(value, np.ndarray) and value.dtype.kind in "iu"]
    return any((np.abs(array.astype(np.float64)) > 2**24).any() for array in arrays)


def has_wide_numbers(node: NodeProto, feeds: Feeds) -> bool:
    """Whether there are numbers that sums and products in FP32 lose digits of, or overflow with."""
    return _has_wide_integers(node, feeds) or any(np.abs(value).max(initial=0) > 1e10 for value in reals(feeds))


def _collects_other_than_rows(node: NodeProto, feeds: Feeds) -> bool:
    """Whether a loop collects values that are not of rank 1."""
    (body,) = (attribute.g for attribute in node.attribute if attribute.name == "body")
    types = [output.type.tensor_type for output in body.output[len(node.input) - 1 :]]
    return any(not type_.HasField("shape") or len(type_.shape.dim) != 1 for type_ in types)


def _has_negative_indices(node: NodeProto, feeds: Feeds) -> bool:
    return bool((np.asarray(feeds[node.input[0]]) < 0).any()) if node.input[0] in feeds else False


def _squares_overflow(node: NodeProto, feeds: Feeds) -> bool:
    """Whether the root of the sum of the squares of integers, or a sum of them, may pass their type."""
    numbers = np.asarray(feeds.get(node.input[0], 0))
    return numbers.dtype.kind in "iu" and float((numbers.astype(np.float64) ** 2).sum()) ** 0.5 >= np.iinfo(numbers.dtype).max


def _power_is_none(node: NodeProto, feeds: Feeds) -> bool:
    """Whether integers to the power of numbers with places are none of the integers' type."""
    base, exponent = (np.asarray(feeds.get(name, 0)) for name in node.input[:2])
    if base.dtype.kind not in "iu" or exponent.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        powers = np.trunc(base.astype(np.float64) ** exponent.astype(np.float64))
    limits = np.iinfo(base.dtype)
    return not ((powers >= limits.min) & (powers <= limits.max)).all()


def _crops_alike(node: NodeProto, feeds: Feeds) -> bool:
    """Whether a Resize of a crop may have all scales 1, or keep a size that it is given."""
    names = {attribute.name for attribute in node.attribute}
    scales = np.asarray(feeds.get([*node.input, "", ""][2], 0))
    is_crop = any(attribute.s == b"tf_crop_and_resize" for attribute in node.attribute)
    shape = np.shape(feeds.get(node.input[0], 0))
    sizes = zip(feeds.get([*node.input, "", ""][3], ()), _numbers(node, "axes") or range(len(shape)))
    keeps = any(size == shape[axis] for size, axis in sizes)
    return is_crop and ("keep_aspect_ratio_policy" in names or keeps or bool((scales == 1).all()))


def _scales_to_integer(node: NodeProto, feeds: Feeds) -> bool:
    """Whether a size times a scale is a whole number in FP32 and less than that in FP64, or the other way round."""
    scales = reals({name: feeds.get(name) for name in node.input[1:]})
    shape = np.shape(feeds.get(node.input[0], 0))
    found = [scale for scale in scales if scale.shape == (len(shape),)]
    return any((np.floor(np.float32(scale) * np.float32(shape)) != np.floor(scale * shape)).any() for scale in found)


def _aligns_fractions(node: NodeProto, feeds: Feeds) -> bool:
    """Whether corners are aligned of sizes that are no whole numbers times their scales."""
    aligns = any(attribute.s == b"align_corners" for attribute in node.attribute)
    scales = np.asarray(feeds.get([*node.input, "", ""][2], ()))
    shape = np.shape(feeds.get(node.input[0], 0))
    lengths = scales * [shape[axis] for axis in _numbers(node, "axes") or range(scales.size)]
    return aligns and bool((lengths != np.round(lengths)).any())


def _least_scale(node: NodeProto, feeds: Feeds) -> float:
    scales = reals({"scale": feeds.get(node.input[1])})
    return min((float(np.abs(scale).min(initial=np.inf)) for scale in scales), default=1.0)


def _norm_overflows(node: NodeProto, feeds: Feeds) -> bool:
    """Whether squares or sums of integers that a Normalizer divides by pass their type."""
    powers = [{b"L1": 1, b"L2": 2}.get(attribute.s) for attribute in node.attribute if attribute.name == "norm"]
    numbers = np.asarray(feeds.get(node.input[0], 0))
    if powers in ([], [None]) or numbers.dtype.kind not in "iu":
        return False
    return bool((np.abs(numbers.astype(np.float64)) ** powers[0]).sum() > np.iinfo(numbers.dtype).max)


def _is_to_integer(node: NodeProto) -> bool:
    return any(attribute.name == "to" and helper.tensor_dtype_to_np_dtype(attribute.i).kind in "iu" for attribute in node.attribute)


def _is_to_few_bits(node: NodeProto, feeds: Feeds) -> bool:
    if node.op_type == "CastLike":
        return np.asarray(feeds.get(node.input[1])).dtype.name in _FEW_BITS
    return any(attribute.name == "to" and attribute.i in map(TensorProto.DataType.Value, map(str.upper, _FEW_BITS))
               for attribute in node.attribute)


def _ends_before_start(node: NodeProto, feeds: Feeds) -> bool:
    """Whether a place is counted from the end to before the first axis."""
    rank = np.ndim(feeds.get(node.input[0], 0))
    return any(attribute.name in ("start", "end") and attribute.i < -rank for attribute in node.attribute)


def _leaves_without_weight(node: NodeProto, feeds: Feeds) -> bool:
    """Whether trees of one target have leaves that no weight is given of."""
    modes = [mode for attribute in node.attribute if attribute.name == "nodes_modes" for mode in attribute.strings]
    targets = [attribute.i for attribute in node.attribute if attribute.name == "n_targets"]
    return targets == [1] and modes.count(b"LEAF") > len(_numbers(node, "target_nodeids"))


def _has_infinite_features(node: NodeProto, feeds: Feeds) -> bool:
    """Whether features are infinite, and the kernel is none that makes 0 of them."""
    kernel = next((attribute.s for attribute in node.attribute if attribute.name == "kernel_type"), b"LINEAR")
    return kernel != b"RBF" and any(np.isinf(value).any() for value in reals(feeds))


def _has_infinities(node: NodeProto, feeds: Feeds) -> bool:
    return bool(np.isinf(np.asarray(feeds.get(node.input[0], 0), dtype=np.float64)).any())


def _skips_more_rows(node: NodeProto, feeds: Feeds) -> bool:
    shapes = [np.shape(feeds[name])[:1] for name in node.input[:2] if name in feeds]
    return len(shapes) < 2 or shapes[0] != shapes[1]


def _numbers(node: NodeProto, name: str) -> list[int]:
    return [number for attribute in node.attribute if attribute.name == name for number in attribute.ints]


def _is_same_padded(node: NodeProto) -> bool:
    return any(attribute.name == "auto_pad" and attribute.s.startswith(b"SAME") for attribute in node.attribute)


def _strides_pass_kernel(node: NodeProto, feeds: Feeds) -> bool:
    """Whether windows of SAME leave gaps between them."""
    kernel = _numbers(node, "kernel_shape")
    strides = _numbers(node, "strides") or [1] * len(kernel)
    return _is_same_padded(node) and any(stride > size for stride, size in zip(strides, kernel))


def _strides_pass_weight(node: NodeProto, feeds: Feeds) -> bool:
    """As `_strides_pass_kernel`, of a transposed convolution, whose windows are as large as its weight."""
    kernel = np.shape(feeds.get(node.input[1], 0))[2:] or tuple(_numbers(node, "kernel_shape"))
    steps, strides = (_numbers(node, name) or [1] * len(kernel) for name in ("dilations", "strides"))
    return _is_same_padded(node) and any(
        stride > (size - 1) * step + 1 for stride, size, step in zip(strides, kernel, steps)
    )


def _pads(node: NodeProto, feeds: Feeds) -> bool:
    """Whether windows may reach beyond the image."""
    return any(_numbers(node, "pads")) or _is_same_padded(node) or _rounds_up(node)


def _rounds_up(node: NodeProto) -> bool:
    return any(attribute.name == "ceil_mode" and attribute.i for attribute in node.attribute)


def _has_type(*kinds: str) -> Callable[[NodeProto, Feeds], bool]:
    """Whether the first input of the node has one of these kinds of types, as numpy writes them."""
    return lambda node, feeds: getattr(feeds.get(node.input[0]), "dtype", np.dtype("V")).kind in kinds


def _collects_texts(node: NodeProto, feeds: Feeds) -> bool:
    """Whether a loop collects texts."""
    (body,) = (attribute.g for attribute in node.attribute if attribute.name == "body")
    rows = body.output[len(node.input) - 1 :]
    return any(output.type.tensor_type.elem_type == TensorProto.STRING for output in rows)


FAULTS: tuple[JudgeFault, ...] = (
    JudgeFault(_ONNXRUNTIME, frozenset({"Loop"}), "it empties texts that a loop collects", _collects_texts),
    JudgeFault(_ONNXRUNTIME, frozenset({"StringSplit"}), "of an empty text it gives no piece",
               lambda node, feeds: any(attribute.s or attribute.i >= 0 for attribute in node.attribute)),
    JudgeFault(_REFERENCE, frozenset({"Softmax", "LogSoftmax", "Hardmax"}), "it knows the versions from 13 on alone",
               of_model=lambda model: min(each.version for each in model.opset_import if not each.domain) < 13),
    JudgeFault(_REFERENCE, frozenset({"RNN", "GRU", "LSTM"}),
               "it knows neither lengths of sequences nor directions nor other activations"),
    JudgeFault(_ONNXRUNTIME, frozenset({"RNN", "GRU", "LSTM"}), "its activations make numbers of NaN", _has_no_number),
    JudgeFault(_ONNXRUNTIME, frozenset({"RNN", "GRU", "LSTM"}), "its activations make numbers of what overflows in FP32",
               _has_large_numbers),
    JudgeFault(_ONNXRUNTIME, frozenset({"RNN", "GRU", "LSTM"}), "it ends the process where there are no samples",
               lambda node, feeds: np.size(feeds.get(node.input[0], 1)) == 0),
    JudgeFault(_REFERENCE, frozenset({"GlobalMaxPool"}), "it reduces the channels too where the rank is not 4"),
    JudgeFault(_REFERENCE, frozenset({"LpPool", "MaxPool", "AveragePool"}), "VALID and SAME forget the dilations",
               lambda node, feeds: {"auto_pad", "dilations"} <= {attribute.name for attribute in node.attribute}),
    JudgeFault(_ONNXRUNTIME, frozenset({"LpPool", "MaxPool", "AveragePool"}), "SAME pads for windows without dilations",
               lambda node, feeds: {"auto_pad", "dilations"} <= {attribute.name for attribute in node.attribute}),
    JudgeFault(_REFERENCE, frozenset({"LpPool", "MaxPool", "AveragePool"}),
               "SAME of windows with gaps between them takes a number of elements below 0 for the padding", _strides_pass_kernel),
    JudgeFault(_REFERENCE, frozenset({"MaxPool"}), "with SAME_LOWER it rounds the number of windows down",
               lambda node, feeds: any(attribute.s == b"SAME_LOWER" for attribute in node.attribute)),
    JudgeFault(_REFERENCE, frozenset({"LpPool"}), "it takes a mean without the padding times all elements of a window", _pads),
    JudgeFault(_REFERENCE, frozenset({"LpPool", "MaxPool", "AveragePool"}),
               "half of the padding that ceil_mode adds goes before the image, not after it",
               lambda node, feeds: _rounds_up(node) and max(_numbers(node, "strides"), default=1) > 2),
    JudgeFault(_ONNXRUNTIME, frozenset({"ReduceMin", "ReduceMax"}), "it passes over NaN", _has_nan),
    JudgeFault(_ONNXRUNTIME, frozenset({"ConvTranspose"}), "SAME is no input size times stride for small windows",
               lambda node, feeds: _is_same_padded(node)),
    JudgeFault(_REFERENCE, frozenset({"ConvTranspose"}),
               "SAME of windows with gaps between them takes a number of elements below 0 for the padding", _strides_pass_weight),
    JudgeFault(_REFERENCE, frozenset({"ReduceSumSquare"}), "of uint32 it gives uint64", _has_type("u")),
    JudgeFault(_REFERENCE, frozenset({"Resize"}), "lengths of crops have the fractions that scales give them",
               lambda node, feeds: any(attribute.s == b"tf_crop_and_resize" for attribute in node.attribute)),
    JudgeFault(_REFERENCE, frozenset({"Resize", "Upsample"}), "interpolated integers are rounded, onnxruntime cuts them off",
               _has_type("i", "u")),
    JudgeFault(_ONNXRUNTIME, frozenset({"Resize"}), "it aligns corners of whole lengths, ONNX's cases of scaled ones",
               _aligns_fractions),
    JudgeFault(_ONNXRUNTIME, frozenset({"Resize"}), "where a scale is 1 it copies the whole axis, not the crop", _crops_alike),
    JudgeFault(_ONNXRUNTIME, frozenset({"Resize", "Upsample"}), "it interpolates wide integers in FP32, which has not all of them",
               lambda node, feeds: interpolates(node) and _has_wide_integers(node, feeds)),
    JudgeFault(_REFERENCE, frozenset({"Resize"}), "weights of 0 in a cubic make NaN of infinities, as docs/differences.md says",
               lambda node, feeds: interpolates(node) and _has_infinities(node, feeds)),
    JudgeFault(_REFERENCE, frozenset({"Resize", "Upsample"}), "it multiplies sizes in FP64, onnxruntime in FP32", _scales_to_integer),
    JudgeFault(_REFERENCE, frozenset({"TreeEnsembleClassifier"}), "what two classes are given by is onnxruntime's to say",
               lambda node, feeds: any(each.name.startswith("classlabels") and len(each.ints) + len(each.strings) == 2
                                       for each in node.attribute)),
    JudgeFault(_ONNXRUNTIME, frozenset({"TreeEnsembleRegressor"}), "of a leaf without a weight it takes the cut that it does not have",
               _leaves_without_weight),
    JudgeFault(_ONNXRUNTIME, frozenset({"LRN"}), "its running sums of squares cancel", _has_large_numbers),
    JudgeFault(_REFERENCE, frozenset({"QuantizeLinear"}), "what passes 32 bits is cut to them before it saturates",
               lambda node, feeds: any(np.abs(value[np.isfinite(value)]).max(initial=0) >= 2**31 * _least_scale(node, feeds)
                                       for value in reals({"x": feeds.get(node.input[0])}))),
    JudgeFault(_REFERENCE, frozenset({"QuantizeLinear"}), "of x / 0 it gives 0, the specification saturates",
               lambda node, feeds: any(np.any(np.asarray(value) == 0) for value in feeds.values()
                                       if isinstance(value, np.ndarray) and value.dtype.kind == "f")),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"OneHot"}),
               "before opset 11 they take negative indices from the end", _has_negative_indices),
    JudgeFault(_ONNXRUNTIME, frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}),
               "of a skip with more rows than the input it reads the first ones",
               _skips_more_rows),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"Hardmax", "ArgMax", "ArgMin"}),
               "nothing is said of the largest of NaN", _has_nan),
    JudgeFault(_REFERENCE, frozenset({"OneHot"}), "it adds the difference of the values to one of them", _has_large_numbers),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"MeanVarianceNormalization"}), "in FP32 squares become infinite",
               has_wide_numbers),
    JudgeFault(_REFERENCE, frozenset({"LRN"}), "it takes five channels at the most"),
    JudgeFault(_ONNXRUNTIME, frozenset({"StringSplit"}), "of white space it knows the blank alone",
               lambda node, feeds: any("\t" in text for text in np.ravel(feeds.get(node.input[0], ())))),
    JudgeFault(_REFERENCE, frozenset({"QLinearConv"}), "of images with one axis it gives a further one",
               lambda node, feeds: np.ndim(feeds.get(node.input[0], 0)) == 3),
    JudgeFault(_REFERENCE, frozenset({"StringNormalizer"}), "it takes empty texts and accents away"),
    JudgeFault(_REFERENCE, frozenset({"CenterCropPad"}), "it pads texts with 0", _has_type("O", "U")),
    JudgeFault(_REFERENCE, frozenset({"Pad"}), "it pads texts with 0 where no text is given",
               lambda node, feeds: not [*node.input, "", ""][2],
               lambda model: any(output.type.tensor_type.elem_type == TensorProto.STRING for output in model.graph.output)),
    JudgeFault(_REFERENCE, frozenset({"Hardmax"}), "it reduces one axis where opsets before 13 reduce all from there on",
               of_model=lambda model: any(opset.domain == "" and opset.version < 13 for opset in model.opset_import)),
    JudgeFault(_REFERENCE, frozenset({"LpNormalization"}), "it sums without signs taken off for p = 1"),
    JudgeFault(_REFERENCE, frozenset({"Erf"}), "it rounds to FP32 before it cuts to integers", _has_type("i", "u")),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"ReduceLogSum", "ReduceLogSumExp"}),
               "an integer of the logarithm of 0 is not defined", _has_type("i", "u")),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"ReduceL2"}), "nothing is said of a length beyond the integers' type",
               _squares_overflow),
    JudgeFault(_REFERENCE, frozenset({"Gemm"}), "it adds C in FP64, where integers do not wrap", _has_wide_integers),
    JudgeFault(_REFERENCE, frozenset({"Normalizer"}), "of integers it gives doubles", _has_type("i", "u")),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"Cast"}), "an integer of NaN is not defined",
               lambda node, feeds: _is_to_integer(node) and _has_no_number(node, feeds), lambda model: len(model.graph.node) > 1),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"Cast", "CastLike"}),
               "of halves to 4 and 2 bits they make others than ONNX's page says", _is_to_few_bits),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"Pow"}), "an integer of NaN, or of what passes its type, is not defined",
               _power_is_none),
    JudgeFault(_ONNXRUNTIME, frozenset({"Normalizer"}), "its norms of integers overflow", _norm_overflows),
    JudgeFault(_REFERENCE, frozenset({"ReduceMean"}), "its sums of integers overflow", _has_type("i", "u")),
    JudgeFault(_REFERENCE, frozenset({"Shape"}), "it does not cut places to the axes that there are", _ends_before_start),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"SVMClassifier", "SVMRegressor"}),
               "products with the zeros of other classes make NaN of infinite kernels, as docs/differences.md says", _has_infinite_features),
    JudgeFault(_REFERENCE, frozenset({"ReduceL2"}), "its sums of squares of integers overflow", _has_type("i", "u")),
    JudgeFault(_REFERENCE, frozenset({"Optional"}), "it gives a list of what the optional holds"),
    JudgeFault(_REFERENCE, frozenset({"DictVectorizer"}), "it gives a vector, of a type of its own"),
    JudgeFault(_ONNXRUNTIME, frozenset({"Constant"}), "a sparse one it gives as it is",
               lambda node, feeds: node.attribute[0].name == "sparse_value"),
    JudgeFault(_REFERENCE, frozenset({"Loop"}), "what it collects it joins along the first axis, with no axis for the trips",
               _collects_other_than_rows),
    JudgeFault(_REFERENCE, frozenset({"Loop"}), "without a condition it makes no trip",
               lambda node, feeds: not [*node.input, "", ""][1]),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"Sin", "Cos", "Tan"}),
               "in FP32 sums of wide integers are rounded, in FP64 they are not, as docs/differences.md says: other angles",
               _has_wide_integers, lambda model: len(model.graph.node) > 1),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"Reciprocal", "BitCast", "Pow"}), "zeros have no sign, as docs/differences.md says",
               _has_minus_zero),
    JudgeFault(_REFERENCE, frozenset({"LpPool"}), "its means pass over NaN", _has_nan),
    JudgeFault(_ONNXRUNTIME, frozenset({"Unique"}), "NaN has no place in its order, other numbers are lost in it", _has_nan),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"MaxPool", "GlobalMaxPool"}),
               "both pass over NaN by the place it has", _has_nan),
)

# in graphs infinities become NaN on the way
FAULTS += tuple(
    replace(fault, applies=_has_no_number, of_model=lambda model: len(model.graph.node) > 1)
    for fault in FAULTS
    if fault.applies is _has_nan
)


def is_untrusted(judge: str, model: ModelProto, feeds: Feeds) -> bool:
    """Whether a judge is known to be wrong on a model."""
    feeds = {**constants(model), **feeds}
    return any(
        judge in fault.judges and node.op_type in fault.op_types and fault.of_model(model) and fault.applies(node, feeds)
        for fault in FAULTS
        for node in _nodes(model)
    )


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Yield all nodes of a model, those of bodies and functions too."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            waiting += attribute.g.node


def constants(model: ModelProto) -> dict[str, Any]:
    """The initializers of a model by their names."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def interpolates(node: NodeProto) -> bool:
    """Whether a node is a Resize by weights."""
    modes = [attribute.s for attribute in node.attribute if attribute.name == "mode"]
    return node.op_type in ("Resize", "Upsample") and modes not in ([], [b"nearest"])
