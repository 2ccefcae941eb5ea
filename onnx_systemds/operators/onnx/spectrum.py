"""Spectra: DFT, STFT, the windows Hann, Hamming and Blackman, MelWeightMatrix.

A Fourier transform is a product with a matrix of cosines and sines that the script calculates from the length.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import is_name
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim, Dims, may_be_zero, minimum, product
from onnx_systemds.inference.registry import generator, gradient, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.limits import LOOP_STEPS, check_table
from onnx_systemds.model.ir import Array
from onnx_systemds.model.protos import element_name
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, bind, unknown_size
from onnx_systemds.operators.onnx.casting import FLOAT_FORMATS
from onnx_systemds.operators.support.empty_outputs import unless_empty
from onnx_systemds.operators.support.movement import Moved, gathered, input_source, permuted

# --- DFT ---------------------------------------------------------------------------------------------------------


def _dft_axis(node: NodeFacts) -> int:
    """The transformed axis: by attribute, since opset 20 by input (the last signal axis without)."""
    if node.version < 20:
        axis = int(node.attribute("axis"))
    else:
        axis = int(node.require_constant(2, "the axis").ravel()[0]) if node.has(2) else -2
    axis = node.normalize_axis(axis, node.rank("input"))
    if axis == node.rank("input") - 1:
        raise UnsupportedCase("the axis of a DFT is that of the real and imaginary parts")
    return axis


def _is_real_inverse(node: NodeFacts) -> bool:
    """Whether one side of a spectrum becomes a real signal."""
    return bool(node.attribute("onesided")) and bool(node.attribute("inverse"))


def _dft_length(node: NodeFacts) -> Dim:
    """The number of points of the transform."""
    if node.has("dft_length"):
        return node.require_integers("dft_length", "the length of the DFT")[0]
    given = node.dims("input")[_dft_axis(node)]
    return 2 * (given - 1) if _is_real_inverse(node) else given


def _one_side(length: Dim) -> Dim:
    return length // 2 + 1


@shape_rule("DFT")
def dft_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The axis has the length of the transform or one side of it; the last axis two parts or, if real, one."""
    dims, axis, length = node.dims("input"), _dft_axis(node), _dft_length(node)
    if _is_real_inverse(node):
        return (node.tensor((*dims[:axis], length, *dims[axis + 1 : -1], 1)),)
    wanted = _one_side(length) if node.attribute("onesided") else length
    return (node.tensor((*dims[:axis], wanted, *dims[axis + 1 : -1], 2)),)


def _parts(node: NodeFacts) -> int:
    parts = node.dims(0)[-1]
    if not isinstance(parts, int) or parts not in (1, 2):
        raise UnsupportedCase(f"a DFT of {parts} parts, not one (real) or two (real and imaginary)")
    return parts


MOST_STEPS = 16  # in a frame, whose parts are taken as slices
LARGEST_TRANSFORM = 1 << 21  # elements of a transform's matrix that is stored with the weights


def _transform(
    node: NodeView, used: Dim, length: Dim, wanted: Dim, parts: int, window: Array | None = None, *, inverse: bool,
) -> str:
    """The transform's matrix: an identifier where it is stored like a weight, a known window in it; else a call.

    It is calculated at run time where it is large, or its size only known then.
    """
    if (
        isinstance(used, int) and isinstance(length, int) and isinstance(wanted, int)
        and used * parts * wanted * 2 <= LARGEST_TRANSFORM
    ):
        matrix = dft_matrix(used, length, wanted, parts, inverse=inverse)
        if window is not None:
            matrix = matrix * np.repeat(window.astype(np.float64).ravel(), parts).reshape(-1, 1)
        return node.constant_matrix(matrix, "transform")
    return node.call("dft_matrix", node.dim(used), node.dim(length), node.dim(wanted), parts, int(inverse))


def dft_matrix(used: int, length: int, wanted: int, parts: int, *, inverse: bool) -> Array:
    """Real and imaginary parts alternate in the columns, with two ``parts`` in the rows, too."""
    turns = np.outer(np.arange(used), np.arange(wanted)) % length
    angles = np.arange(length) * (2 * np.pi / length)
    cosines, sines = np.cos(angles)[turns], np.sin(angles)[turns]
    if inverse:
        cosines, sines = cosines / length, -sines / length
    matrix = np.stack([cosines, -sines], 2).reshape(used, 2 * wanted)
    if parts == 2:
        matrix = np.stack([matrix, np.stack([sines, cosines], 2).reshape(used, 2 * wanted)], 1)
    return matrix.reshape(used * parts, 2 * wanted)


@generator("DFT", since=(17, 20))
def dft(node: NodeView) -> Fragment:
    """Signals in the rows, times the transform's matrix; opset 20 made the axis an input."""
    dims, axis, parts, length = node.dims("input"), _dft_axis(node), _parts(node), _dft_length(node)
    outer, size, inner = product(dims[:axis]), dims[axis], product(dims[axis + 1 : -1])
    back = _is_real_inverse(node)
    if back and parts != 2:
        raise UnsupportedCase("a one-sided inverse DFT of real numbers")
    if inner == 1:
        signals = node.view("input", View(outer, size * parts))
    else:
        moved = permuted(node, input_source(node, 0), (outer, size, inner, parts), (0, 2, 1, 3), finite=False)
        signals = moved.seen(node, View(outer * inner, size * parts))
    used = minimum(size, _one_side(length) if back else length)
    if used != size:
        signals = f"{node.named('signals', signals)}[, 1:{node.dim(used * parts)}]"
    wanted, out_parts = node.output_dims()[axis], 1 if back else 2
    if back:
        matrix = node.call("real_dft_matrix", node.dim(used), node.dim(length))
    else:
        matrix = _transform(node, used, length, wanted, parts, inverse=bool(node.attribute("inverse")))
    spectra = Moved(f"{signals} %*% {matrix}", View(outer * inner, wanted * out_parts))
    if inner == 1:
        return node.result(spectra.text, spectra.view)
    spectra = spectra.bound(node, "spectra")
    moved = permuted(node, spectra.source(node), (outer, inner, wanted, out_parts), (0, 2, 1, 3), finite=False)
    return node.result(moved.text, moved.view)


# --- STFT --------------------------------------------------------------------------------------------------------


@gradient("DFT")
def _dft_gradient(n: Backward) -> Sequence[str]:
    """The transform the other way, without its factor: that of the conjugate matrix, which is symmetric."""
    axis, size, inverse = _dft_axis(n), n.dims(0)[_dft_axis(n)], bool(n.attribute("inverse"))
    if _is_real_inverse(n) or _dft_length(n) != size:
        raise UnsupportedCase("the derivative of a DFT of another length than its input, or from one side back")
    found, count = n.grad, n.emit("Shape", n.x, start=axis, end=axis + 1)
    if n.attribute("onesided"):  # the other side has no influence
        none = n.known([0] * n.rank(0))
        after = n.emit("Sub", count, n.emit("Shape", found, start=axis, end=axis + 1))
        ends = [n.known([0]) if place != axis else after for place in range(n.rank(0))]
        found = n.emit("Pad", found, n.emit("Concat", none, *ends, axis=0))
    turned = n.emit("DFT", found, axis=axis, inverse=int(not inverse))
    turned = n.emit("Div" if inverse else "Mul", turned, n.retyped(count, n.dtype(0)))
    is_real = n.dims(0)[-1] == 1
    return [n.emit("Slice", turned, n.known([0]), n.known([1]), n.known([n.rank(0) - 1])) if is_real else turned]



def _frame_sizes(node: NodeFacts) -> tuple[Dim, Dim, Dim]:
    """Length of a frame, step between frames, number of frames."""
    step = node.require_integers("frame_step", "the step between frames")[0]
    if node.has("frame_length"):
        length = node.require_integers("frame_length", "the length of a frame")[0]
    elif node.has("window"):
        length = node.dims("window")[0]
    else:
        length = node.dims("signal")[1]
    return length, step, (node.dims("signal")[1] - length) // step + 1


@shape_rule("STFT")
def stft_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Batch, frames, frequencies, two parts."""
    length, _, frames = _frame_sizes(node)
    wanted = _one_side(length) if node.attribute("onesided") else length
    points = node.dims("signal")[1]
    if may_be_zero(points):
        node.assume(points, Relation.AT_LEAST, length, node.axis_words("signal", 1), "the length of a frame")
    return (node.tensor((node.dims("signal")[0], frames, wanted, 2)),)


@generator("STFT", since=17)
def stft(node: NodeView) -> Fragment:
    """Frames of the signals in the rows, times the transform's matrix, whose rows the window weighs."""
    dims = (*node.dims("signal"), 1)[:3]
    parts = _parts(node) if node.rank("signal") == 3 else 1
    length, step, frames = _frame_sizes(node)
    signals = _frames(node, dims, (length, step, frames))
    wanted = node.output_dims()[2]
    known_window = node.constant("window") if node.has("window") else None
    matrix = _transform(node, length, length, wanted, parts, known_window, inverse=False)
    if node.has("window") and not (known_window is not None and is_name(matrix)):
        window = node.view("window", View(length, 1))
        if parts == 2:
            window = f"matrix(cbind({window}, {window}), rows={node.dim(2 * length)}, cols=1)"
        matrix = f"({matrix} * {window})"
    view = View(dims[0] * frames, 2 * wanted)
    return node.result(f"{signals} %*% {matrix}", view)


@gradient("STFT")
def _stft_gradient(n: Backward) -> Sequence[str]:
    """Frames back by the transform's matrix, each weighed by the window and added to where it came from."""
    length, step, _ = _frame_sizes(n)
    if not isinstance(length, int):
        raise UnsupportedCase("the derivative of an STFT needs a known length of frames", hint="fix it by --dim")
    parts = _parts(n) if n.rank(0) == 3 else 1
    wanted = length // 2 + 1 if n.attribute("onesided") else length
    matrix = n.known(dft_matrix(length, length, wanted, parts, inverse=False).T, n.dtype(0))
    each = n.known([0, 0, length, parts])
    back = n.emit("MatMul", n.emit("Reshape", n.grad, n.known([0, 0, 2 * wanted])), matrix)
    back = n.emit("Reshape", back, each)
    count = n.emit("Squeeze", n.emit("Shape", n.grad, start=1, end=2))
    starts = n.emit("Mul", n.emit("Range", n.known(0), count, n.known(1)), n.known(step))
    places = n.emit("Add", n.unsqueeze(starts, 1), n.known([range(length)]))

    def by_signal() -> str:
        frames = n.times(back, n.unsqueeze(n.node.inputs[2], 1)) if n.has(2) else back
        frames = n.emit("Transpose", frames, perm=(1, 2, 0, 3))
        points_first = (1, 0, 2)[: n.rank(0)]
        if len(points_first) < 3:
            frames = n.emit("Squeeze", frames, n.known([3]))
        zeros = n.emit("Transpose", n.filled_like(n.x, n.dtype(0), 0.0), perm=points_first)
        found = n.emit("ScatterND", zeros, n.unsqueeze(places, 2), frames, reduction="add")
        return n.emit("Transpose", found, perm=points_first)

    def by_window() -> str:
        frames = n.emit("Reshape", n.emit("Gather", n.x, places, axis=1), each)
        return n.total(n.times(back, frames), [0, 1, 3], keepdims=0)

    return n.needed([by_signal, lambda: "", by_window, lambda: ""])


def _frames(node: NodeView, dims: Dims, sizes: tuple[Dim, Dim, Dim]) -> str:
    """The frames of all signals below each other; sizes: length of a frame, step, number of frames."""
    length, step, frames = sizes
    batch, points, parts = dims
    if isinstance(length, int) and isinstance(step, int) and length % step == 0 and length // step <= MOST_STEPS:
        # side by side: the steps in which frames begin, those in which their second part lies, and so on
        x = node.view("signal", View(batch, points * parts))
        pieces = []
        for first in range(0, length, step):
            span = f"{node.factor(first * parts + 1)}:{node.factor((frames * step + first) * parts)}"
            pieces.append(node.reshape(f"{x}[, {span}]", View(batch * frames, step * parts)))
        return bind("cbind", pieces)
    starts = f"seq(0, {node.dim(frames - 1)}) * {node.factor(step)}"
    offsets = f"t(seq(0, {node.dim(length - 1)}))"
    count = frames * length
    index = node.named("positions", f'matrix(outer({starts}, {offsets}, "+"), rows={node.dim(count)}, cols=1)')
    moved = gathered(node, input_source(node, 0), dims, 1, index, count, finite=False)
    return moved.seen(node, View(batch * frames, length * parts))


# --- windows -----------------------------------------------------------------------------------------------------

# by operator: weights of the cosines of no, one and two turns
_WINDOWS = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


def _output_datatype(node: NodeFacts) -> str:
    return element_name(int(node.attribute("output_datatype")))


def window_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As many numbers as the input says."""
    known = node.integers(0)
    size = unknown_size(node, 0, 0, or_none=True) if known is None else known[0]
    return (node.tensor((size,), _output_datatype(node)),)


def _window(node: NodeView, weights: Sequence[float]) -> Fragment:
    size = node.output_dims()[0]
    counted = () if node.integers(0) is not None else (f"{node.dim(size)} = as.integer({node.scalar(0)})",)
    turn = size if node.attribute("periodic") else size - 1
    angle = node.named("angle", f"seq(0, {node.dim(size - 1)}) * (2 * pi) / {node.factor(turn)}")
    terms = [literal(weights[0])]
    for turns, weight in enumerate(weights[1:], 1):
        argument = angle if turns == 1 else f"{turns} * {angle}"
        terms.append(f"{'-' if weight < 0 else '+'} {literal(abs(weight))} * cos({argument})")
    text = " ".join(terms)
    if node.output_dtype() in INTEGER_DTYPES:
        text = f"sign({text}) * floor(abs({text}))"
    elif node.output_dtype() not in FLOAT_FORMATS:
        raise UnsupportedCase(f"a window of type {node.output_dtype()}")
    return Fragment(counted) + unless_empty(node, node.result(text, View(size, 1)), size)


for _name, _weights in _WINDOWS.items():
    generator(_name, 17)(partial(_window, weights=_weights))
    shape_rule(_name)(window_rule)


# --- MelWeightMatrix ---------------------------------------------------------------------------------------------


@shape_rule("MelWeightMatrix")
def mel_weight_rule(node: NodeFacts) -> tuple[Value, ...]:
    """One side of a spectrum by the number of bands."""
    bands = node.require_integers("num_mel_bins", "the number of mel bands")[0]
    length = node.require_integers("dft_length", "the length of the DFT")[0]
    return (node.tensor((_one_side(length), bands), _output_datatype(node)),)


@generator("MelWeightMatrix", since=17)
def mel_weight_matrix(node: NodeView) -> Fragment:
    """Triangular bands, evenly spaced on the mel scale; calculated at conversion."""
    names = ("the number of mel bands", "the length of the DFT", "the sample rate", "the lower edge", "the upper edge")
    bands, length, rate, low, high = (
        node.require_constant(position, name).ravel()[0] for position, name in enumerate(names)
    )
    weights = mel_weights(int(bands), int(length), int(rate), float(low), float(high))
    return node.result(node.constant_matrix(weights, "weights"), View(*weights.shape))


def mel_weights(bands: int, length: int, rate: int, low: float, high: float) -> Array:
    """Weight of each frequency in each band: rises to the band's middle and falls after it. Raises UnsupportedCase."""
    mel_low, mel_high = (2595 * np.log1p(hertz / 700) / np.log(10) for hertz in (low, high))
    check_table(max(length // 2 + 1, LOOP_STEPS) * (bands + 2), "the weights of the bands")
    points = np.arange(bands + 2) * ((mel_high - mel_low) / (bands + 2)) + mel_low
    hertz = 700 * np.expm1(points / 2595 * np.log(10))
    bins = ((length + 1) * hertz // rate).astype(np.int64)
    weights = np.zeros((length // 2 + 1, bands))
    if bins.min() < 0 or bins.max() >= len(weights):
        raise UnsupportedCase(f"mel bands from {low} to {high} Hz at {rate} samples per second")
    for band in range(bands):
        start, middle, end = bins[band : band + 3]
        if start == middle:
            weights[middle, band] = 1
        else:
            rising = np.arange(start, middle + 1)
            weights[rising, band] = (rising - start) / (middle - start)
        if middle < end:
            falling = np.arange(middle, end)
            weights[falling, band] = (end - falling) / (end - middle)
    return weights
