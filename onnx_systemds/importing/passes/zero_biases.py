"""Convolutions of images of few numbers have no bias of zeros.

Generators give convolutions without a bias one of zeros, for images that are nearly empty (see `engine.faults`,
convolution-of-nearly-empty-images). Of few numbers, one that is not 0 is enough.
"""

from __future__ import annotations

import math

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import called_in, is_call
from onnx_systemds.engine.safe_forms import FEWEST_NEARLY_EMPTY
from onnx_systemds.importing.passes.specialisation.images import is_zero
from onnx_systemds.importing.script import Script, with_functions


def without_zero_biases(script: Script) -> Script:
    """The script whose functions add no zeros to convolutions that do not need it."""
    return with_functions(script, map(_without_them, script.functions))


def _without_them(function: tree.Function) -> tree.Function:
    has_any = any("conv2d" in called_in(statement) for statement in function.body)
    return rewritten(function, _without_zero_bias) if has_any else function


def _without_zero_bias(node: tree.Node) -> tree.Node:
    images = node.arguments[0].value if is_call(node, "bias_add") else None
    if not is_call(node, "bias_add") or not is_call(images, "conv2d") or not is_zero(node.arguments[1].value):
        return node
    shapes = [argument.value for argument in images.arguments if argument.name == "input_shape"]
    sizes = [size for shape in shapes if isinstance(shape, tree.ListExpression) for size in shape.items]
    known = [size.value for size in sizes if isinstance(size, tree.IntLiteral)]
    return images if len(known) == len(sizes) == 4 and math.prod(known) < FEWEST_NEARLY_EMPTY else node
