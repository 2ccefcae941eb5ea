"""Transpose and other permutations of axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dims, divide_exactly
from onnx_systemds.inference.registry import (
    batch_rule,
    fold,
    generator,
    gradient,
    integer_rule,
    shape_rule,
    size_rule,
    takes_text,
)
from onnx_systemds.inference.values import Elements
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first, mixes_nothing
from onnx_systemds.operators.support.integer_rules import moved
from onnx_systemds.operators.support.movement import input_source, merged, permuted
from onnx_systemds.operators.support.selection_products import is_finite

takes_text("DepthToSpace", "SpaceToDepth", "Transpose")
batch_rule("Transpose")(mixes_nothing)
batch_rule("DepthToSpace", "SpaceToDepth")(mixes_all_but_first)
integer_rule("DepthToSpace", "SpaceToDepth", "Transpose")(moved)


@shape_rule("Transpose")
def transpose_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The dims in the order of ``perm``."""
    dims = node.dims("data")
    return (node.tensor([dims[axis] for axis in _perm(node)]),)


@generator("Transpose", since=1)
def transpose(node: NodeView) -> Fragment:
    """Axes in another order; without ``perm`` the reverse one."""
    return permutation(node, node.dims("data"), _perm(node))


@fold("Transpose")
def _transposed_contents(node: NodeFacts, outputs: Sequence[Value]) -> Sequence[Array | None]:
    """A view, whatever the size."""
    return (np.transpose(node.require_constant("data", "the tensor"), node.attribute("perm")),)


@size_rule("Transpose", moves=True)
def _transposed_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements:
    """As PyTorch's older exporter turns pairs of pads."""
    return np.transpose(inputs[0], _perm(node))


@gradient("Transpose")
def _transpose_gradient(n: Backward) -> Sequence[str]:
    perm = n.attribute("perm") or tuple(reversed(range(n.rank(0))))
    return [n.emit("Transpose", n.grad, perm=tuple(int(axis) for axis in np.argsort(perm)))]


def permutation(node: NodeView, dims: Dims, perm: tuple[int, ...]) -> Fragment:
    """The first input, seen with axes ``dims``, with these axes in another order."""
    if len(merged(dims, perm)[0]) < 2:
        return node.same_elements()
    moved = permuted(node, input_source(node, 0), dims, perm, finite=is_finite(node, 0))
    return node.result(moved.text, moved.view)


def _perm(node: NodeFacts) -> tuple[int, ...]:
    rank = node.rank("data")
    given = node.attribute("perm")
    if given is None:
        return tuple(reversed(range(rank)))
    perm = tuple(node.normalize_axis(int(axis), rank) for axis in given)
    if sorted(perm) != list(range(rank)):
        raise UnsupportedCase(f"perm {list(given)} is no order of {rank} axes")
    return perm


# --- blocks of images --------------------------------------------------------------------------------------------


@shape_rule("DepthToSpace")
def depth_to_space_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Channels become blocks of b x b pixels."""
    block = _block(node)
    batch, channels, height, width = _image(node)
    depth = divide_exactly(channels, block * block)
    if depth is None:
        raise UnsupportedCase(f"{channels} channels do not make blocks of {block} x {block}")
    return (node.tensor((batch, depth, height * block, width * block)),)


@generator("DepthToSpace", since=(1, 11))
def depth_to_space(node: NodeView) -> Fragment:
    """The channel axis holds (block row, block column, depth), or in mode CRD (since opset 11) depth first."""
    block = _block(node)
    batch, _, height, width = _image(node)
    depth = node.output_dims()[1]
    if node.attribute("mode") == "CRD":
        return permutation(node, (batch, depth, block, block, height, width), (0, 1, 4, 2, 5, 3))
    return permutation(node, (batch, block, block, depth, height, width), (0, 3, 4, 1, 5, 2))


@shape_rule("SpaceToDepth")
def space_to_depth_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Blocks of b x b pixels become channels."""
    block = _block(node)
    batch, channels, height, width = _image(node)
    for size in (height, width):
        if isinstance(size, int) and size % block:
            raise UnsupportedCase(f"a size of {size} pixels does not divide into blocks of {block}")
    return (node.tensor((batch, channels * (block * block), height // block, width // block)),)


@generator("SpaceToDepth", since=(1, 28))
def space_to_depth(node: NodeView) -> Fragment:
    """Channels become (block row, block column, depth), or in mode CRD (since opset 28) depth first."""
    block = _block(node)
    batch, _, rows, cols = node.output_dims()
    dims = (batch, node.dims("input")[1], rows, block, cols, block)
    return permutation(node, dims, (0, 1, 3, 5, 2, 4) if node.attribute("mode") == "CRD" else (0, 3, 5, 1, 2, 4))


def _block(node: NodeFacts) -> int:
    block = int(node.attribute("blocksize") or 0)
    if block < 1:
        raise UnsupportedCase(f"a block size of {block}")
    return block


def _image(node: NodeFacts) -> Dims:
    dims = node.dims("input")
    if len(dims) != 4:
        raise UnsupportedCase(f"blocks of an input of rank {len(dims)}, rank 4 is needed")
    return dims


@gradient("DepthToSpace", "SpaceToDepth")
def _blocks_gradient(n: Backward) -> Sequence[str]:
    """The other way, in the same mode."""
    n.opset = 28  # since when both have modes
    back = "SpaceToDepth" if n.node.op_type == "DepthToSpace" else "DepthToSpace"
    return [n.emit(back, n.grad, blocksize=n.positive("blocksize"), mode=n.attribute("mode") or "DCR")]
