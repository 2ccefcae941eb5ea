"""The attribute post_transform of ai.onnx.ml: from raw scores (a row each) to what the operator gives.

ONNX names the transforms only; what they compute, above all for a single column of scores, is onnxruntime's:
* two columns and more: each transform does what its name says;
* one column: only PROBIT changes it, the others leave it as it is;
* one column that stands for two classes becomes two, and only then LOGISTIC has a meaning.
"""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.onnx.softmax import softmax

NO_SECOND_CLASS = "none"
"""One column of scores stays one column (add_second_class -1 in onnxruntime)."""
COMPLEMENT = "complement"
"""One column of scores p becomes 1 - p, p (add_second_class 0 and 1); LOGISTIC: the logistic of -p, p."""
MIRRORED = "mirrored"
"""One column of scores s becomes -s, s (add_second_class 2 and 3); LOGISTIC: the logistic of both."""

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""In the order in which TreeEnsemble numbers them."""


def transformed_scores(
    node: NodeView, scores: str, columns: int, transform: str, second_class: str = NO_SECOND_CLASS
) -> str:
    """The transformed scores of the matrix called ``scores``.

    columns: of ``scores``. transform: the attribute's text. second_class: what becomes of a single column.
    Raises UnsupportedCase for a transform that leaves scores undefined.
    """
    if transform not in TRANSFORMS:
        raise UnsupportedCase(f"the post_transform {quoted(transform)} is unknown")
    if columns == 1:
        return _single_column(node, scores, transform, second_class)
    if transform == "LOGISTIC":
        return _logistic(scores)
    if transform == "SOFTMAX":
        return softmax(node, scores, columns=False)
    if transform == "SOFTMAX_ZERO":
        return node.call("softmax_of_nonzeros", scores)
    return node.call("probit", scores) if transform == "PROBIT" else scores


def _single_column(node: NodeView, scores: str, transform: str, second_class: str) -> str:
    if transform == "PROBIT":
        if second_class != NO_SECOND_CLASS:
            raise UnsupportedCase("PROBIT of one column of scores for two classes: the other column is undefined")
        return node.call("probit", scores)
    if second_class == NO_SECOND_CLASS:
        return scores
    if transform == "LOGISTIC":
        return f"cbind(1 / (1 + exp({scores})), {_logistic(scores)})"
    other = f"1 - {scores}" if second_class == COMPLEMENT else f"-{scores}"
    return f"cbind({other}, {scores})"


def _logistic(scores: str) -> str:
    return f"1 / (1 + exp(-{scores}))"
