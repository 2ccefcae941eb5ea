"""Activations of onnxruntime's optimisers: GELU in its forms, alone and after a bias; SiLU, gates, dropout."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.dml.literals import literal
from onnx_systemds.inference.registry import batch_rule, expander, generator, gradient, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Backward, Expansion, Fragment, NodeView
from onnx_systemds.operators.onnx.elementwise import same_dims, unary
from onnx_systemds.operators.support.batch_rules import mixes_unless_aligned

shape_rule("QuickGelu", domain=CONTRIB)(same_dims)
batch_rule("QuickGelu", domain=CONTRIB)(mixes_unless_aligned)


@expander("BiasGelu", domain=CONTRIB)
def bias_gelu(node: Expansion) -> None:
    """Gelu of a sum."""
    node.emit("Gelu", node.emit("Add", node.input("A"), node.input("B")), to=node.output())


@expander("FastGelu", domain=CONTRIB)
def fast_gelu(node: Expansion) -> None:
    """Gelu by tanh, of a sum where a bias is given."""
    x = node.emit("Add", node.input("X"), node.input("bias")) if node.has("bias") else node.input("X")
    node.emit("Gelu", x, to=node.output(), approximate="tanh")


@generator("QuickGelu", since=1, domain=CONTRIB)
def quick_gelu(node: NodeView) -> Fragment:
    """x times the sigmoid of alpha * x."""
    alpha = literal(-float(node.attribute("alpha")))
    return unary(node, lambda x: f"{x} / (1 + exp({x} * ({alpha})))")


@gradient("QuickGelu", domain=CONTRIB)
def _quick_gelu_gradient(n: Backward) -> Sequence[str]:
    scaled = n.times(n.x, float(n.attribute("alpha")))
    share = n.emit("Sigmoid", scaled)
    rest = n.times(scaled, n.one_minus(share))
    return n.chain(n.times(share, n.one_plus(rest)))


@expander("BiasSplitGelu", domain=CONTRIB)
def bias_split_gelu(node: Expansion) -> None:
    """Of the sum with the bias the first half of the channels times the Gelu of the second one."""
    total = node.emit("Add", node.input("X"), node.input("bias"))
    left, right = node.split(total, ("left", "right"))
    node.emit("Mul", left, node.emit("Gelu", right), to=node.output())


@expander("BiasAdd", domain=CONTRIB)
def bias_add(node: Expansion) -> None:
    """The sum of a value, a bias per channel and a skipped value."""
    node.emit("Add", node.emit("Add", node.input("X"), node.input("bias")), node.input("skip"), to=node.output())


@expander("BiasDropout", domain=CONTRIB)
def bias_dropout(node: Expansion) -> None:
    """Dropout of a sum, plus what is skipped."""
    total = node.emit("Add", node.input("data"), node.input("bias"))
    rest = (node.input("ratio"), node.input("training_mode"))
    dropped = "" if node.has("residual") else node.output()
    kept = node.emit_several("Dropout", [dropped or node.fresh("dropped"), node.output(1)], total, *rest)[0]
    if node.has("residual"):
        node.emit("Add", kept, node.input("residual"), to=node.output())


@expander("GatedAdd", domain=CONTRIB)
def gated_add(node: Expansion) -> None:
    """X plus Y times a gate for each row."""
    node.emit("Add", node.input("X"), node.emit("Mul", node.input("Y"), node.input("gate")), to=node.output())


@expander("ScaledSiLU", domain=CONTRIB)
def scaled_silu(node: Expansion) -> None:
    """The scaled input times its sigmoid."""
    node.silu(node.emit("Mul", node.input("X"), node.input("scale") or node.numeric("alpha")), to=node.output())
