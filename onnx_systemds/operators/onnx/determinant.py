"""Det: the determinants of square matrices."""

from __future__ import annotations

from onnx_systemds.errors import InvalidModel
from onnx_systemds.inference.dims import product
from onnx_systemds.inference.known_dims import differ
from onnx_systemds.inference.registry import generator, shape_rule
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value, View


@shape_rule("Det")
def det_rule(node: NodeFacts) -> tuple[Value, ...]:
    """One number for each matrix."""
    rows, cols = node.dims("X")[-2:] if node.rank("X") > 1 else (0, 1)
    if differ(rows, cols):
        raise InvalidModel(f"Det of {'x'.join(map(str, node.dims('X')))}: only square matrices have a determinant")
    if node.rank("X") > 1:
        node.assume_same_size((0, -2), (0, -1))
        node.assume_elements("X", -2)
    return (node.tensor(node.dims("X")[:-2]),)


@generator("Det", since=11)
def det(node: NodeView) -> Fragment:
    """Determinants of square matrices one below the other."""
    dims = node.dims("X")
    count, size = product(dims[:-2]), dims[-1]
    if size == 0:  # the empty product
        if not dims[:-2]:
            return node.result("1", SCALAR)
        return node.result(node.filled(1, View(count, 1)), View(count, 1))
    x = node.view("X", View(count * dims[-2], size))
    text = node.call("determinants", x)
    if not dims[:-2]:
        return node.result(f"as.scalar({text})", SCALAR)
    return node.result(text, View(count, 1))
