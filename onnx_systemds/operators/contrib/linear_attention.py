"""What layers of linear attention and state spaces are made of, as onnxruntime has it."""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.inference.expansion import TO_END
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Expansion
from onnx_systemds.operators.contrib.attention import known_size

_SINCE = 27  # the opset from which on ONNX has LinearAttention


@expander("CausalConvWithState", domain=CONTRIB)
def causal_conv_with_state(node: Expansion) -> None:
    """A depthwise convolution along time, of what lies before each place; the last positions are the state."""
    if node.attribute("ndim") != 1 or node.attribute("state_window"):
        raise UnsupportedCase("CausalConvWithState of several axes or states, which onnxruntime computes on no CPU")
    channels, _, taps = node.known_dims("weight", "a convolution's weight")
    step, is_last = int(node.attribute("dilation")), bool(node.attribute("channels_last"))
    history = (taps - 1) * step
    x = _channels_first(node, "input", channels, is_last)
    if node.has("past_state"):
        whole = node.emit("Concat", _channels_first(node, "past_state", channels, is_last), x, axis=2)
    else:
        whole = node.emit("Pad", x, node.known([0, 0, history, 0, 0, 0]))
    y = node.emit("Conv", whole, node.input("weight"), node.input("bias"), group=channels, dilations=(step,))
    activation = str(node.attribute("activation"))
    if activation in ("silu", "swish"):
        y = node.silu(y)
    elif activation != "none":
        raise InvalidModel(f"the activation {quoted(activation)} of CausalConvWithState is unknown")
    state = node.slice(whole, 2, -history if history else TO_END)
    for output, found in enumerate((y, state)):
        if not node.output(output):
            continue
        if not is_last:
            node.give(found, output)
            continue
        turned = node.emit("Transpose", found, perm=(0, 2, 1))
        tail = node.emit("Slice", node.emit("Shape", node.input("input")), node.known([2]), node.known([TO_END]))
        shape = node.emit("Concat", node.known([0, 0]), tail, axis=0)
        node.emit("Reshape", turned, shape, to=node.output(output))


def _channels_first(node: Expansion, name: str, channels: int, is_last: bool) -> str:
    """An input as [batch, channels, time]."""
    if not is_last:
        return node.input(name)
    return node.emit("Transpose", node.reshape(node.input(name), 0, 0, channels), perm=(0, 2, 1))


@expander("LinearAttentionGate", domain=CONTRIB)
def linear_attention_gate(node: Expansion) -> None:
    """How fast the state of linear attention decays, by Softplus, and how much it is moved, by Sigmoid."""
    if node.output(0):
        total = node.emit("Add", node.cast(node.input("a"), "float"), node.input("dt_bias"))
        decay = node.emit("Mul", node.input("decay_scale"), node.emit("Softplus", total))
        node.cast(decay, node.dtype("a"), to=node.output(0))
    if node.output(1):
        node.emit("Sigmoid", node.input("b"), to=node.output(1))


@expander("EngramGate", domain=CONTRIB)
def engram_gate(node: Expansion) -> None:
    """A value for each of several streams, by how much its query resembles its key."""
    size = node.known_dims("key_norm_scale", "its scales")[1]
    epsilon = node.numeric("epsilon")

    def normalized(x: str, weight: str) -> str:
        return node.emit("Mul", node.over_root_mean_square(x, epsilon), node.input(weight))

    key = normalized(node.input("key"), "key_norm_scale")
    query = normalized(node.input("query"), "query_norm_scale")
    dot = node.emit("ReduceSum", node.emit("Mul", key, query), node.known([-1]), keepdims=1)
    dot = node.emit("Mul", dot, node.number(size**-0.5))
    root = node.emit("Sqrt", node.emit("Max", node.emit("Abs", dot), node.number(1e-6)))
    gate = node.emit("Sigmoid", node.emit("Mul", node.emit("Sign", dot), root))
    y = node.emit("Mul", gate, node.unsqueeze(node.input("value"), 2), to=node.output())
    if node.output(1):
        node.give(normalized(y, "conv_norm_scale"), 1)


@expander("SwiGLU", domain=CONTRIB)
def swiglu(node: Expansion) -> None:
    """x * sigmoid(alpha * x) of one half, times the other one plus a number, both clipped where there is a limit."""
    if node.attribute("round_activation"):
        raise UnsupportedCase("SwiGLU that rounds in between")
    limit = float(node.attribute("limit"))
    gate, up = node.input("gate"), node.input("up")
    if not up:
        gate, up = node.split(gate, ("gate", "up"))
    if limit > 0:
        gate = node.emit("Clip", gate, "", node.number(limit))
        up = node.emit("Clip", up, node.number(-limit), node.number(limit))
    active = node.emit("Mul", gate, node.emit("Sigmoid", node.emit("Mul", node.numeric("activation_alpha"), gate)))
    node.emit("Mul", active, node.emit("Add", up, node.numeric("activation_beta")), to=node.output())


@expander("LinearAttention", domain=CONTRIB)
def linear_attention(node: Expansion) -> None:
    """ONNX's LinearAttention; heads of queries and keys that serve several ones of values are repeated."""
    if node.attribute("state_window"):
        raise UnsupportedCase("LinearAttention of several states, which onnxruntime computes on no CPU")
    heads, shared = node.positive("q_num_heads"), node.positive("kv_num_heads")
    size = known_size(node, "query", 2) // heads
    key_heads = known_size(node, "key", 2) // size
    query = node.input("query") if heads >= shared else _repeated(node, "query", heads, shared, size)
    key = node.input("key") if key_heads == shared else _repeated(node, "key", key_heads, shared, size)
    attributes = node.attributes("chunk_size", "update_rule") | {
        "q_num_heads": max(heads, shared), "kv_num_heads": shared,
        "scale": float(node.attribute("scale")) or size**-0.5,
    }
    inputs = (query, key, *(node.input(name) for name in ("value", "past_state", "decay", "beta")))
    node.opset = _SINCE
    outputs = [node.output(0) or node.fresh("output"), node.output(1) or node.fresh("state")]
    node.emit_several("LinearAttention", outputs, *inputs, **attributes)


def _repeated(node: Expansion, name: str, count: int, wanted: int, size: int) -> str:
    """An input [batch, time, heads * size], of whose heads each one stands for several."""
    if wanted % count:
        raise UnsupportedCase(f"{count} heads for {wanted}")
    places = node.known(np.repeat(np.arange(count), wanted // count))
    by_head = node.emit("Gather", node.reshape(node.input(name), 0, 0, count, size), places, axis=2)
    return node.reshape(by_head, 0, 0, wanted * size)
