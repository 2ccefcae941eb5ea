"""A Scan over rows that gives the squared distances of a matrix to each becomes CDist, and a Transpose of that.

So skl2onnx writes nearest neighbours, kernels and kmeans. Condition: the numbers are `float` or `double`, and the body
subtracts the row from the matrix, which it passes on as it is, and sums the squares of each row. Reason: as many steps
as there are features instead of rows.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting, made_by
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Graph
from onnx_systemds.model.walk import handed_on

NEEDS = ("Scan",)
_DIRECTIONS = ("scan_input_directions", "scan_output_directions", "scan_input_axes", "scan_output_axes")


def join_distances(facts: InferenceFacts) -> Rewriting:
    """The nodes in the place of such a Scan; None where it is another one."""
    node, body = facts.node, facts.node.attributes.get("body")
    if not isinstance(body, Graph) or node.version < 9:
        return None
    if len(node.inputs) != 2 or len(body.outputs) != 2 or not _sums_squares(body):
        return None
    if any(any(node.integers(name) or ()) for name in _DIRECTIONS):
        return "it goes along other axes, or backwards"
    if facts.dtype(0) not in ("float", "double"):
        return "its numbers are integers, whose squares wrap, or narrow ones"
    given = [facts.value(place).dims for place in (0, 1)]
    if any(dims is None or len(dims) != 2 for dims in given) or facts.dims(0)[1] != facts.dims(1)[1]:
        return "its inputs are not known to be matrices of as many columns"
    x, rows = node.inputs
    distances = f"{node.outputs[1]}/distances"
    attributes = {"metric": "sqeuclidean"}
    made = [replace(node, op_type="CDist", domain=CONTRIB, version=1, inputs=(x, rows), outputs=(distances,),
                    attributes=attributes),
            replace(node, op_type="Transpose", version=13, inputs=(distances,), outputs=node.outputs[1:],
                    attributes={"perm": (1, 0)})]
    if node.outputs[0]:
        made.append(replace(node, op_type="Identity", version=13, inputs=(x,), outputs=node.outputs[:1], attributes={}))
    return tuple(made), "all distances at once"


def _sums_squares(body: Graph) -> bool:
    """Whether a body passes on its first input and returns the sums of squared differences from the second."""
    x, row = (given.name for given in body.inputs)
    makers = {output: node for node in body.nodes for output in node.outputs}
    handed, summed = (handed_on(body.nodes, output.name) for output in body.outputs)
    total = made_by(makers, summed, "ReduceSumSquare")
    difference = None if total is None else made_by(makers, handed_on(body.nodes, total.inputs[0]), "Sub")
    if handed != x or total is None or difference is None or total.attributes.get("keepdims", 1):
        return False
    operands = {handed_on(body.nodes, name) for name in difference.inputs}
    return operands == {x, row} and total.axes(body.initializers) in ((1,), (-1,))
