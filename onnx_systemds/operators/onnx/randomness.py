"""Random numbers: RandomUniform, RandomNormal and their Like forms, Bernoulli, Multinomial.

ONNX leaves the numbers themselves open: a seed only makes runs of the same script give the same ones.
"""

from __future__ import annotations

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.backward import flat
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.inference.values import FINITE_DTYPES
from onnx_systemds.model.protos import element_name
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.api.layout import in_form
from onnx_systemds.operators.support.batch_rules import mixes_all

batch_rule("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
           draws=True)(mixes_all)
gradient("RandomNormalLike", "RandomUniformLike")(flat)

_NO_SEED = -1  # the engine's word for a seed of its own choice


def _dtype(node: NodeFacts, default: str) -> str:
    number = node.attribute("dtype")
    return element_name(int(number)) if number else default


def seed_text(node: NodeView) -> str:
    """The seed as a last argument of rand, nothing where none is given; fractions go by their bits."""
    seed = node.attribute("seed")
    if seed is None:
        return ""
    whole = float(seed).is_integer() and abs(seed) < 2**53 and int(seed) != _NO_SEED
    return f", seed={int(seed) if whole else int(np.float32(seed).view(np.uint32))}"


def uniform(node: NodeView, view: View, low: float = 0.0, high: float = 1.0) -> str:
    """Uniform random numbers from ``low`` to below ``high``."""
    sizes = f"rows={node.dim(view.rows)}, cols={node.dim(view.cols)}"
    return f'rand({sizes}, min={literal(low)}, max={literal(high)}, pdf="uniform"{seed_text(node)})'


def normal(node: NodeView, view: View, mean: float, scale: float) -> str:
    """Normally distributed random numbers."""
    sizes = f"rows={node.dim(view.rows)}, cols={node.dim(view.cols)}"
    text = f'rand({sizes}, pdf="normal"{seed_text(node)})'
    text = text if scale == 1 else f"{text} * {literal(scale)}"
    return text if mean == 0 else f"{text} + {literal(mean)}"


# --- numbers of a given shape ------------------------------------------------------------------------------------


def _shape(node: NodeFacts) -> Dims:
    return tuple(int(size) for size in node.attribute("shape") or ())


def shaped_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims and type by attribute."""
    return (node.tensor(_shape(node), _dtype(node, "float")),)


def like_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of the input; its type, too, unless an attribute says another."""
    default = node.dtype("input") if node.dtype("input") not in FINITE_DTYPES else "float"
    return (node.tensor(node.dims("input"), _dtype(node, default)),)


def _drawn(node: NodeView, is_normal: bool) -> Fragment:
    form = node.wanted_form()
    view = View(1, 1) if form is SCALAR else form
    if is_normal:
        text = normal(node, view, float(node.attribute("mean")), float(node.attribute("scale")))
    else:
        text = uniform(node, view, float(node.attribute("low")), float(node.attribute("high")))
    return node.result(in_form(text, form), form)


@generator("RandomUniform", since=1)
@generator("RandomUniformLike", since=1)
def random_uniform(node: NodeView) -> Fragment:
    """Uniform numbers from low to high."""
    return _drawn(node, is_normal=False)


@generator("RandomNormal", since=1)
@generator("RandomNormalLike", since=1)
def random_normal(node: NodeView) -> Fragment:
    """Normally distributed numbers by mean and standard deviation."""
    return _drawn(node, is_normal=True)


for _name in ("RandomUniform", "RandomNormal"):
    shape_rule(_name)(shaped_rule)
    shape_rule(f"{_name}Like")(like_rule)


# --- choices -----------------------------------------------------------------------------------------------------


@shape_rule("Bernoulli")
def bernoulli_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of the input; its type, too, unless an attribute says another."""
    return (node.tensor(node.dims("input"), _dtype(node, node.dtype("input"))),)


@generator("Bernoulli", since=15)
def bernoulli(node: NodeView) -> Fragment:
    """1 with the probability that the input says, else 0."""
    form = node.wanted_form()
    if form is SCALAR:
        return node.result(f"as.double(as.scalar({uniform(node, View(1, 1))}) < {node.scalar('input')})", SCALAR)
    return node.result(f"{uniform(node, form)} < {node.view('input', form)}", form)


@shape_rule("Multinomial")
def multinomial_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As many samples for each row as the attribute says."""
    return (node.tensor((node.dims("input")[0], int(node.attribute("sample_size"))), _dtype(node, "int32")),)


@generator("Multinomial", since=7)
def multinomial(node: NodeView) -> Fragment:
    """Classes drawn by unnormalised logarithms of probabilities, independently."""
    if node.rank("input") != 2 or node.dims("input")[1] == 0:
        raise UnsupportedCase(f"classes drawn from an input of dims {list(map(str, node.dims('input')))}")
    batch, samples = node.output_dims()
    view = View(batch, samples)
    text = node.call("sampled_classes", node.matrix("input", 1), uniform(node, view))
    return node.result(text, view)
