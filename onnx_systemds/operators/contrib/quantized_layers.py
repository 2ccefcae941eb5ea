"""Layers with quantised weights: LSTM, attention, embeddings."""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.registry import expander, generator, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Expansion, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.onnx.recurrent import Layer, Shape, directions_of
from onnx_systemds.operators.onnx.recurrent_steps import Variant

# --- DynamicQuantizeLSTM -----------------------------------------------------------------------------------------

_X, _W, _R = range(3)
_SCALES = {_W: 8, _R: 10}  # the zero points stand after the scales
_RANGED = "quantized_by_range"


def _lstm_shape(node: NodeFacts) -> Shape:
    """The sizes; the weights are transposed against those of LSTM."""
    steps, batch, inputs = node.dims(_X)
    hidden = node.dims(_R)[1]
    if not isinstance(hidden, int):
        raise UnsupportedCase("the hidden size is unknown")
    return Shape(steps, batch, inputs, hidden, directions_of(node), batch_first=False, joined=False)


@shape_rule("DynamicQuantizeLSTM", domain=CONTRIB)
def dynamic_quantize_lstm_rule(node: NodeFacts) -> tuple[Value, ...]:
    """All hidden states, the last one, and the last cell state."""
    shape = _lstm_shape(node)
    node.assume_elements(_X, 0)  # nothing has no range
    every: Dims = (shape.steps, shape.directions, shape.batch, shape.hidden)
    last = node.tensor((shape.directions, shape.batch, shape.hidden))
    return node.tensor(every), last, last


@generator("DynamicQuantizeLSTM", since=1, domain=CONTRIB)
def dynamic_quantize_lstm(node: NodeView) -> Fragment:
    """An LSTM that quantises its input, and in each step its hidden state, by their ranges."""
    return _QuantizedLayer(node, "LSTM", _lstm_shape(node)).fragment()


class _QuantizedVariant(Variant):
    """A direction of LSTM in which the hidden states are quantised before they are multiplied."""

    def _of_state(self, weights: str) -> str:
        """What the state adds to gates, quantised."""
        # the states of sequences that have ended do not widen the range
        state = "h * (lens >= (at - 1) * (1 + stride) / 2)" if self.has_lens else "h"
        return f"{self.node.call(_RANGED, state)} %*% {weights}"


class _QuantizedLayer(Layer):
    """The statements of an LSTM with quantised weights."""

    @property
    def variant(self) -> type[Variant]:
        """What writes the function of one direction."""
        return _QuantizedVariant

    def input(self) -> str:
        """X as it is after quantisation."""
        return self.node.call(_RANGED, super().input())

    def weights(self, direction: int, is_doubled: bool) -> list[str]:
        """W and R dequantised, and the bias as a row."""
        node = self.node
        names = [
            node.constant_matrix(_dequantized(node, position)[direction], f"{hint}{direction}")
            for position, hint in ((_W, "input_weight"), (_R, "weight"))
        ]
        return [*names, *self.bias(direction, 4 * self.shape.hidden, is_doubled)]


def _dequantized(node: NodeFacts, position: int) -> Array:
    """Weights of all directions, which have one scale and zero point each, or one for each column."""
    weight = node.require_constant(position, "the quantised weight").astype(np.float64)
    scale, zero = (
        node.require_constant(_SCALES[position] + offset, what).astype(np.float64)
        for offset, what in enumerate(("the scales of the weight", "the zero points of the weight"))
    )
    scale, zero = (item.reshape(weight.shape[0], 1, -1) for item in (scale, zero))
    return np.asarray((weight - zero) * scale)


# --- QAttention --------------------------------------------------------------------------------------------------


@expander("QAttention", domain=CONTRIB)
def qattention(node: Expansion) -> None:
    """Attention of the dequantised input by the dequantised weight."""
    x = node.emit("DequantizeLinear", node.input("input"), node.input("input_scale"), node.input("input_zero_point"))
    quantized = [node.input(name) for name in ("weight", "weight_scale", "weight_zero_point")]
    weight = node.emit("DequantizeLinear", *quantized, axis=1)
    inputs = (x, weight, node.input("bias"), node.input("mask_index"), node.input("past"))
    outputs = [node.output(0), node.output(1)]
    attributes = {name: item for name, item in node.node.attributes.items() if item is not None}
    node.emit_several("Attention", outputs[: 2 if outputs[1] else 1], *inputs, domain=CONTRIB, **attributes)


# --- QEmbedLayerNormalization ------------------------------------------------------------------------------------

_IDS, _SEGMENTS, _WORDS, _POSITIONS, _SEGMENT_ROWS, _GAMMA, _BETA, _MASK = range(8)
_QUANTIZED = (_WORDS, _POSITIONS, _SEGMENT_ROWS, _GAMMA, _BETA)  # scales from input 8, zero points from input 13 on


@expander("QEmbedLayerNormalization", domain=CONTRIB)
def qembed_layer_normalization(node: Expansion) -> None:
    """The sum of dequantised rows for words, positions and segments, normalised; and the lengths of the sequences."""

    def dequantized(position: int, rows: str = "") -> str:
        order = _QUANTIZED.index(position)
        given = rows or node.input(position)
        return node.emit("DequantizeLinear", given, node.input(8 + order), node.input(13 + order))

    ids = node.input(_IDS)
    words = dequantized(_WORDS, node.emit("Gather", node.input(_WORDS), ids))
    length = node.emit("Shape", ids, start=1, end=2)
    zero = node.known([0])
    rows = node.emit("Slice", node.input(_POSITIONS), zero, length, zero)
    total = node.emit("Add", words, dequantized(_POSITIONS, rows))
    if node.has(_SEGMENTS):
        segments = node.emit("Gather", node.input(_SEGMENT_ROWS), node.input(_SEGMENTS))
        total = node.emit("Add", total, dequantized(_SEGMENT_ROWS, segments))
    scale, shift = dequantized(_GAMMA), dequantized(_BETA)
    epsilon = float(node.attribute("epsilon"))
    node.emit("LayerNormalization", total, scale, shift, to=node.output(), axis=-1, epsilon=epsilon)
    if not node.output(1):
        return
    if not node.has(_MASK):
        batch = node.emit("Shape", ids, start=0, end=1)
        node.emit("ConstantOfShape", batch, to=node.output(1), value=np.zeros(1, np.int32))
        return
    ones = node.emit("CastLike", node.emit("Equal", node.input(_MASK), node.known(1, "int32")), ids)
    node.emit("ReduceSum", ones, node.known([1]), to=node.output(1), keepdims=0)
