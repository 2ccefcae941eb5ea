"""Inputs for ONNX's operators of networks: products, windows, normalizations, recurrence, images, quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import Draw, Node
from tests.fuzz.operators_core import longs, makes

_PRODUCT = ("float", "double", "float16", "int32", "int64", "uint32", "uint64", "bfloat16")


@makes("MatMul")
def matmul(draw: Draw) -> Node:
    m, k, n = draw.size(), draw.size(), draw.size()
    batch = draw.shape(0, 2)
    dtype = draw.type("T", _PRODUCT)
    left, right = (*draw.broadcast(batch), m, k), (*draw.broadcast(batch), k, n)
    if draw.chance(0.1):
        left = (k,)
    if draw.chance(0.1):
        right = (k,)
    return Node({"A": draw.array(dtype, left), "B": draw.array(dtype, right)})


@makes("Gemm")
def gemm(draw: Draw) -> Node:
    m, k, n = draw.size(1), draw.size(1), draw.size(1)
    attributes = {"transA": draw.flag(), "transB": draw.flag()}
    if draw.chance(0.6):
        attributes |= {"alpha": draw.real(-2, 2), "beta": draw.one(0.0, 1.0, draw.real(-2, 2))}
    dtype = draw.type("T", _PRODUCT)
    left, right = (k, m) if attributes["transA"] else (m, k), (n, k) if attributes["transB"] else (k, n)
    c = draw.array(dtype, draw.broadcast((m, n))) if draw.opset < 11 or draw.chance(0.75) else None
    return Node({"A": draw.array(dtype, left), "B": draw.array(dtype, right), "C": c}, attributes)


@makes("Einsum")
def einsum(draw: Draw) -> Node:
    letters = "ijkl"
    sizes = {letter: draw.size(1) for letter in letters}
    terms = ["".join(draw.rng.permutation(list(letters))[: draw.int(1, 3)]) for _ in range(draw.int(1, 3))]
    used = sorted(set("".join(terms)))
    output = "".join(draw.rng.permutation(used)[: draw.int(0, len(used))])
    batch = draw.chance(0.2)
    equation = ",".join(("..." if batch else "") + term for term in terms)
    equation += "" if draw.chance(0.15) else f"->{'...' if batch else ''}{output}"
    dtype = draw.type("T", ("float", "double", "int32", "int64"))
    extra = (draw.int(1, 3),) if batch else ()
    inputs = {f"x{i}": draw.array(dtype, (*extra, *(sizes[letter] for letter in term))) for i, term in enumerate(terms)}
    return Node(inputs, {"equation": equation})


@makes("Det")
def det(draw: Draw) -> Node:
    size = draw.int(1, 5)
    x = draw.parameters(*draw.shape(0, 2), size, size, dtype=draw.type("T", ("float", "double")))
    return Node({"X": np.round(x) if draw.chance(0.3) else x})


def windows(draw: Draw, rank: int, *, is_pool: bool = False) -> tuple[dict[str, Any], list[int], list[int]]:
    """Attributes of a window, its kernel and the spatial sizes of the input."""
    kernel = [draw.int(1, 4) for _ in range(rank)]
    dilations = [draw.one(1, 1, 2, 3) for _ in range(rank)] if draw.chance(0.3) else [1] * rank
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations)]
    sizes = [max(span + draw.int(-1, 5), 1) for span in spans]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if draw.chance(0.5):
        attributes["strides"] = [draw.int(1, 3) for _ in range(rank)]
    if any(step > 1 for step in dilations):
        attributes["dilations"] = dilations
    if draw.chance(0.6):
        limit = [size - 1 for size in kernel] if is_pool else [3] * rank
        attributes["pads"] = [draw.int(0, most) for most in limit * 2]
    elif draw.chance(0.5):
        attributes["auto_pad"] = draw.one("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    pads = attributes.get("pads", [0] * 2 * rank)
    sizes = [max(size, span - before - after) for size, span, before, after in
             zip(sizes, spans, pads[:rank], pads[rank:])]
    return attributes, kernel, sizes


@makes("Conv", "ConvInteger", "ConvTranspose", "DeformConv")
def convolution(draw: Draw) -> Node:
    rank = draw.one(1, 2, 2, 2, 3) if draw.op_type != "DeformConv" else 2
    attributes, kernel, sizes = windows(draw, rank)
    group = draw.one(1, 1, 1, 2, 3)
    inside, outside = draw.int(1, 3), draw.int(1, 3)
    n = draw.int(1, 3)
    if group > 1:
        attributes["group"] = group
    if draw.chance(0.3) and draw.op_type != "DeformConv":
        del attributes["kernel_shape"]
    if draw.op_type == "ConvInteger":
        one, other = draw.one("uint8", "int8"), draw.one("uint8", "int8")
        inputs: dict[str, Any] = {
            "x": draw.array(one, (n, inside * group, *sizes)), "w": draw.array(other, (outside * group, inside, *kernel)),
        }
        if draw.chance(0.6):
            inputs["xz"] = np.asarray(draw.int(0, 20), numpy_dtype(one))
            inputs["wz"] = np.asarray(draw.int(0, 20), numpy_dtype(other)) if draw.chance(0.5) else None
        return Node(inputs, attributes, kept=frozenset({"w"}))
    dtype = draw.type("T", ("float", "float16", "double"))
    x = draw.array(dtype, (n, inside * group, *sizes))
    bias = draw.array(dtype, (outside * group,)) if draw.chance(0.6) else None
    if draw.op_type == "ConvTranspose":
        weights = (inside * group, outside, *kernel)
        strides = attributes.get("strides", [1] * rank)
        if draw.chance(0.3):
            attributes["output_padding"] = [draw.int(0, max(0, step - 1)) for step in strides]
        return Node({"X": x, "W": draw.array(dtype, weights), "B": bias}, attributes, kept=frozenset({"W", "B"}))
    weights = (outside * group, inside, *kernel)
    if draw.op_type == "Conv":
        return Node({"X": x, "W": draw.array(dtype, weights), "B": bias}, attributes, kept=frozenset({"W", "B"}))
    attributes.pop("auto_pad", None)
    steps, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.setdefault("pads", [0, 0, 0, 0])
    out = [(sizes[i] + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // steps[i] + 1 for i in range(2)]
    offset = draw.parameters(n, 2 * kernel[0] * kernel[1], *out, dtype=dtype)
    mask = draw.positive(n, kernel[0] * kernel[1], *out, dtype=dtype) if draw.chance(0.6) else None
    return Node({"X": x, "W": draw.array(dtype, weights), "offset": offset, "B": bias, "mask": mask}, attributes)


@makes("MaxPool", "AveragePool", "LpPool")
def pooling(draw: Draw) -> Node:
    rank = draw.one(1, 2, 2, 2, 3)
    attributes, _, sizes = windows(draw, rank, is_pool=True)
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[draw.op_type]
    if draw.opset < since:
        attributes.pop("dilations", None)
    if draw.opset >= (10 if draw.op_type != "LpPool" else 18) and draw.chance(0.4):
        attributes["ceil_mode"] = 1
    if draw.op_type == "AveragePool" and draw.chance(0.5):
        attributes["count_include_pad"] = draw.flag()
    if draw.op_type == "LpPool":
        attributes["p"] = draw.int(1, 3)
    outputs = 2 if draw.op_type == "MaxPool" and draw.opset >= 8 and draw.chance(0.3) else 1
    if outputs == 2 and draw.chance(0.4):
        attributes["storage_order"] = 1
    dtype = draw.type("T", ("float", "double", "float16", "int8", "uint8"))
    return Node({"X": draw.array(dtype, (draw.int(1, 3), draw.int(1, 4), *sizes))}, attributes, outputs)


@makes("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pooling(draw: Draw) -> Node:
    attributes = {"p": draw.int(1, 3)} if draw.op_type == "GlobalLpPool" else {}
    return Node({"X": draw.array(draw.type("T"), draw.shape(3, 5, 1))}, attributes)


@makes("MaxUnpool")
def max_unpool(draw: Draw) -> Node:
    n, c, h, w = draw.int(1, 2), draw.int(1, 3), draw.int(1, 3), draw.int(1, 3)
    cells = [2 * i + draw.flag() for i in range(h)]
    index = np.zeros((n, c, h, w), np.int64)
    for place in np.ndindex(n, c, h, w):
        row, column = cells[place[2]], 2 * place[3] + draw.flag()
        index[place] = ((place[0] * c + place[1]) * 2 * h + row) * 2 * w + column
    inputs: dict[str, Any] = {"X": draw.array("float", (n, c, h, w)), "I": index}
    if draw.chance(0.3):  # a larger one, in whose elements the indices count from the first on
        inputs["shape"] = longs([n, c, 2 * h + draw.int(0, 1), 2 * w + draw.int(0, 1)])
    return Node(inputs, {"kernel_shape": [2, 2], "strides": [2, 2]}, kept=frozenset({"shape"}))


@makes("MaxRoiPool")
def max_roi_pool(draw: Draw) -> Node:
    n, c, h, w = draw.int(1, 3), draw.int(1, 3), draw.int(3, 8), draw.int(3, 8)
    count = draw.int(1, 4)
    rois = np.zeros((count, 5), np.float32)
    for row in rois:
        x, y = draw.int(0, w - 1), draw.int(0, h - 1)
        row[:] = [draw.int(0, n - 1), x, y, draw.int(x, w - 1), draw.int(y, h - 1)]
    return Node({"X": draw.array("float", (n, c, h, w)), "rois": rois},
                {"pooled_shape": [draw.int(1, 3), draw.int(1, 3)], "spatial_scale": draw.one(1.0, 0.5)})


@makes("RoiAlign")
def roi_align(draw: Draw) -> Node:
    n, c, h, w = draw.int(1, 3), draw.int(1, 3), draw.int(3, 8), draw.int(3, 8)
    count = draw.int(1, 4)
    corners = draw.rng.uniform(0, [w, h], (count, 2))
    rois = np.asarray(np.concatenate([corners, corners + draw.rng.uniform(0.5, 4, (count, 2))], 1), np.float32)
    attributes: dict[str, Any] = {
        "mode": draw.one("avg", "max"), "output_height": draw.int(1, 3), "output_width": draw.int(1, 3),
        "sampling_ratio": draw.int(0, 3), "spatial_scale": draw.one(1.0, 0.5, 0.25),
    }
    if draw.opset >= 16:
        attributes["coordinate_transformation_mode"] = draw.one("half_pixel", "output_half_pixel")
    return Node({"X": draw.array("float", (n, c, h, w)), "rois": rois, "b": draw.indices((count,), n, negative=False)},
                attributes)


@makes("GridSample")
def grid_sample(draw: Draw) -> Node:
    rank = draw.one(2, 2, 3) if draw.opset >= 20 else 2
    n, c = draw.int(1, 2), draw.int(1, 3)
    sizes, out = [draw.int(1, 5) for _ in range(rank)], [draw.int(1, 4) for _ in range(rank)]
    names = ("linear", "nearest", "cubic") if draw.opset >= 20 else ("bilinear", "nearest", "bicubic")
    attributes = {"mode": draw.one(*names[: 2 if rank == 3 else 3]), "align_corners": draw.flag(),
                  "padding_mode": draw.one("zeros", "border", "reflection")}
    grid = np.asarray(draw.rng.uniform(-1.4, 1.4, (n, *out, rank)), np.float32)
    return Node({"X": draw.array("float", (n, c, *sizes)), "grid": grid}, attributes)


@makes("AffineGrid")
def affine_grid(draw: Draw) -> Node:
    rank, n = draw.int(2, 3), draw.int(1, 3)
    size = longs([n, draw.int(1, 3), *(draw.int(1, 5) for _ in range(rank))])
    return Node({"theta": draw.parameters(n, rank, rank + 1), "size": size}, {"align_corners": draw.flag()},
                kept=frozenset({"size"}))


@makes("Col2Im")
def col_to_image(draw: Draw) -> Node:
    attributes, kernel, sizes = windows(draw, 2)
    attributes.pop("kernel_shape")
    attributes.pop("auto_pad", None)
    steps, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0, 0, 0, 0])
    blocks = [(sizes[i] + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // steps[i] + 1 for i in range(2)]
    x = draw.array("float", (draw.int(1, 2), draw.int(1, 3) * kernel[0] * kernel[1], blocks[0] * blocks[1]))
    return Node({"x": x, "image": longs(sizes), "block": longs(kernel)}, attributes, kept=frozenset({"image", "block"}))


@makes("Resize")
def resize(draw: Draw) -> Node:
    rank = draw.int(1, 4)
    dims = [draw.int(1, 3) if place < rank - 2 else draw.int(1, 6) for place in range(rank)]
    mode = draw.one("nearest", "nearest", "linear", "linear", "cubic")
    changed = list(range(max(0, rank - (2 if mode != "nearest" else rank)), rank))
    scales = np.ones(rank, np.float32)
    for place in changed:
        scales[place] = draw.one(0.5, 1.0, 2.0, 3.0, 0.6, 1.4, 1.25)
    x = draw.array(draw.type("T1", ("float", "uint8", "int8", "int32", "float16")), dims)
    if draw.opset == 10:
        return Node({"X": x, "scales": scales}, {"mode": "nearest" if mode == "cubic" else mode},
                    kept=frozenset({"scales"}))
    modes = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_crop_and_resize"]
    modes += ["half_pixel_symmetric"] if draw.opset >= 19 else []
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": draw.one(*modes)}
    if mode == "nearest":
        attributes["nearest_mode"] = draw.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": draw.one(-0.75, -0.5), "exclude_outside": draw.flag()}
    if draw.opset >= 18 and mode != "nearest" and draw.chance(0.3):
        attributes["antialias"] = 1
    axes = list(range(rank))
    if draw.opset >= 18 and draw.chance(0.3):
        axes = [int(axis) for axis in draw.rng.permutation(changed)]
        attributes["axes"] = [axis - rank * draw.flag() for axis in axes]
    roi = None
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        attributes["extrapolation_value"] = draw.real(-2, 2)
        low = np.asarray(draw.rng.uniform(-0.2, 0.4, rank), np.float32)
        roi = np.concatenate([low, low + np.asarray(draw.rng.uniform(0.3, 1.0, rank), np.float32)])
        roi = np.asarray(np.where(np.tile(scales, 2) == 1, [*[0] * rank, *[1] * rank], roi), np.float32)
        roi = np.concatenate([roi[:rank][axes], roi[rank:][axes]])
    elif draw.opset < 13:
        roi = np.zeros(0, np.float32)
    inputs: dict[str, Any] = {"X": x, "roi": roi, "scales": scales[axes]}
    if draw.chance(0.4):
        sizes = longs(np.maximum(1, np.floor(np.asarray(dims) * scales)))[axes]
        inputs |= {"scales": None if draw.opset >= 13 else np.zeros(0, np.float32), "sizes": sizes}
        if draw.opset >= 18 and draw.chance(0.4):
            attributes["keep_aspect_ratio_policy"] = draw.one("stretch", "not_larger", "not_smaller")
    return Node(inputs, attributes, constants=frozenset({"roi"}), kept=frozenset({"roi", "scales", "sizes"}))


@makes("Upsample")
def upsample(draw: Draw) -> Node:
    dims = (draw.int(1, 2), draw.int(1, 3), draw.int(1, 5), draw.int(1, 5))
    scales = [1.0, 1.0, draw.one(1.0, 2.0, 3.0, 1.5), draw.one(1.0, 2.0, 3.0, 1.5)]
    mode = {"mode": draw.one("nearest", "linear")}
    if draw.opset < 9:
        return Node({"X": draw.array("float", dims)}, {**mode, "scales": scales})
    return Node({"X": draw.array("float", dims), "scales": np.asarray(scales, np.float32)}, mode,
                kept=frozenset({"scales"}))


@makes("BatchNormalization")
def batch_normalization(draw: Draw) -> Node:
    dims = draw.shape(2, 4, 1)
    c = dims[1]
    dtype = draw.type("T", ("float", "double"))
    inputs = {"X": draw.array(dtype, dims), "scale": draw.array(dtype, (c,)), "B": draw.array(dtype, (c,)),
              "mean": draw.array(dtype, (c,)), "var": draw.positive(c, dtype=dtype)}
    attributes = {"epsilon": draw.one(1e-5, 1e-3)}
    if draw.opset >= 15 and draw.chance(0.3):
        return Node(inputs, {**attributes, "training_mode": 1, "momentum": 0.75}, 3, kept=frozenset(inputs) - {"X"})
    return Node(inputs, attributes, kept=frozenset(inputs) - {"X"})


@makes("InstanceNormalization", "GroupNormalization")
def instance_normalization(draw: Draw) -> Node:
    groups = draw.int(1, 3) if draw.op_type == "GroupNormalization" else 1
    dims = list(draw.shape(3, 5, 1))
    dims[1] = groups * draw.int(1, 3)
    per = dims[1] if draw.opset >= 21 or (groups == 1 and draw.op_type == "InstanceNormalization") else groups
    attributes: dict[str, Any] = {"num_groups": groups} if draw.op_type == "GroupNormalization" else {}
    if draw.chance(0.4):
        attributes["epsilon"] = draw.one(1e-3, 0.5)
    dtype = draw.type("T", ("float", "double"))
    inputs = {"X": draw.array(dtype, dims), "scale": draw.array(dtype, (per,)), "B": draw.array(dtype, (per,))}
    return Node(inputs, attributes, kept=frozenset({"scale", "B"}))


@makes("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_normalization(draw: Draw) -> Node:
    dims = draw.shape(1, 4, 1)
    axis = draw.axis(len(dims))
    dtype = draw.type("T", ("float", "double", "float16"))
    normalized = dims[axis:] if axis >= 0 else dims[axis % len(dims) :]
    scale = draw.array(dtype, normalized)
    attributes = {"axis": axis, "epsilon": draw.one(1e-5, 1e-3)}
    inputs: dict[str, Any] = {"X": draw.array(dtype, dims), "scale": scale}
    if draw.op_type != "LayerNormalization":
        return Node(inputs, attributes, kept=frozenset({"scale"}))
    inputs["B"] = draw.array(dtype, normalized) if draw.chance(0.6) else None
    return Node(inputs, attributes, draw.one(1, 1, 3), kept=frozenset({"scale", "B"}))


@makes("ImageScaler")
def image_scaler(draw: Draw) -> Node:
    dims = draw.shape(4, 4, 1)
    attributes: dict[str, Any] = {"bias": draw.parameters(dims[1]).tolist()}
    return Node({"X": draw.array("float", dims)}, {**attributes, "scale": draw.real(-2, 2)} if draw.chance(0.8) else attributes)


@makes("Affine", "ScaledTanh", "ParametricSoftplus", "Scale")
def scaled(draw: Draw) -> Node:
    names = ("scale",) if draw.op_type == "Scale" else ("alpha", "beta")
    attributes = {name: draw.real(-1.5, 2) for name in names}
    return Node({"X": draw.array("float", draw.shape())}, attributes)


@makes("Crop")
def crop(draw: Draw) -> Node:
    batch, channels, height, width = draw.shape(4, 4, 1)
    border = [draw.int(0, 2) for _ in range(4)]
    dims = (batch, channels, height + border[1] + border[3], width + border[0] + border[2])
    attributes: dict[str, Any] = {"border": border} | ({"scale": [height, width]} if draw.chance(0.4) else {})
    return Node({"X": draw.array("float", dims)}, attributes)


@makes("DynamicSlice")
def dynamic_slice(draw: Draw) -> Node:
    dims = draw.shape(1, 4, 1)
    axis = draw.axis(len(dims))
    length = dims[axis]
    start = draw.int(0, length - 1)
    inputs = {"data": draw.array("float", dims), "starts": np.array([start]), "ends": np.array([draw.int(start + 1, length)]),
              "axes": np.array([axis])}
    return Node(inputs, kept=frozenset({"starts", "ends", "axes"}))


@makes("LRN")
def lrn(draw: Draw) -> Node:
    attributes = {"size": draw.one(1, 3, 5), "alpha": draw.real(0.0001, 0.5), "beta": draw.real(0.2, 1),
                  "bias": draw.real(0.5, 2)}
    return Node({"X": draw.array(draw.type("T"), draw.shape(3, 4, 1))}, attributes)


@makes("MeanVarianceNormalization")
def mean_variance(draw: Draw) -> Node:
    attributes = {"axes": sorted({axis % 4 for axis in draw.axes(4, 1)})} if draw.chance(0.6) else {}
    return Node({"X": draw.array("float", draw.shape(4, 4, 1))}, attributes)


_WITH_BETA = ("HardSigmoid", "Affine", "ScaledTanh")
_WITH_ALPHA = (*_WITH_BETA, "LeakyRelu", "Elu", "ThresholdedRelu")


@makes("RNN", "GRU", "LSTM")
def recurrent(draw: Draw) -> Node:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[draw.op_type]
    functions = {"RNN": 1, "GRU": 2, "LSTM": 3}[draw.op_type]
    s, b, i, h = draw.int(1, 4), draw.int(1, 3), draw.int(1, 4), draw.int(1, 4)
    direction = draw.one("forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    attributes: dict[str, Any] = {"hidden_size": h, "direction": direction}
    layout = draw.chance(0.2) and draw.opset >= 14
    if layout:
        attributes["layout"] = 1
    if draw.chance(0.4):
        names = ["Sigmoid", "Tanh", "Relu", "Softsign", "HardSigmoid", "LeakyRelu", "Elu", "Affine", "ThresholdedRelu",
                 "ScaledTanh", "Softplus"]
        attributes["activations"] = [draw.one(*names[: 3 if draw.chance(0.5) else None]) for _ in range(functions * d)]
        for letter, takers in (("alpha", _WITH_ALPHA), ("beta", _WITH_BETA)):  # what else they are is not agreed upon
            count = sum(name in takers for name in attributes["activations"])
            if count:
                attributes[f"activation_{letter}"] = [draw.real(0.1, 1) for _ in range(count)]
    if draw.chance(0.2):
        attributes["clip"] = draw.real(0.3, 2)
    if draw.op_type == "GRU" and draw.chance(0.5):
        attributes["linear_before_reset"] = draw.flag()
    if draw.op_type == "LSTM" and draw.chance(0.2):
        attributes["input_forget"] = 1
    states = (b, d, h) if layout else (d, b, h)
    x = draw.array("float", (b, s, i) if layout else (s, b, i))
    inputs: dict[str, Any] = {
        "X": x, "W": draw.parameters(d, gates * h, i), "R": draw.parameters(d, gates * h, h),
        "B": draw.parameters(d, 2 * gates * h) if draw.chance(0.6) else None,
        "n": np.asarray([draw.int(1, s) for _ in range(b)], np.int32) if draw.chance(0.4) else None,
        "h0": draw.parameters(*states) if draw.chance(0.5) else None,
    }
    if draw.op_type == "LSTM":
        inputs["c0"] = draw.parameters(*states) if draw.chance(0.5) else None
        inputs["P"] = draw.parameters(d, 3 * h) if draw.chance(0.3) else None
    return Node(inputs, attributes, 3 if draw.op_type == "LSTM" else 2, kept=frozenset({"W", "R", "B", "P"}))
