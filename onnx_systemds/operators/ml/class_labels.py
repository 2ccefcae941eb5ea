"""From the number of a class (counted from 0) to its label: the last step of all classifiers of ai.onnx.ml."""

from __future__ import annotations

from typing import Union

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.inference.dims import Dim
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, View
from onnx_systemds.operators.support.selection_products import gather_rows_text

Labels = Union[tuple[int, ...], tuple[str, ...]]


def class_labels(node: NodeFacts, integers: str = "classlabels_ints") -> Labels:
    """The labels in the attributes: texts where there are any, else those of the attribute ``integers``; none is ()."""
    return tuple(node.attribute("classlabels_strings") or ()) or tuple(node.attribute(integers) or ())


def labels_dtype(labels: Labels) -> str:
    """Element type of an output of labels."""
    return "string" if labels and isinstance(labels[0], str) else "int64"


def label_result(node: NodeView, index: str, labels: Labels, rows: Dim) -> Fragment:
    """The first output, labels, for ``index``, the text of a column of class numbers."""
    if not node.wants(0):
        return node.fragment()
    return node.result(_label_text(node, index, labels, rows), View(rows, 1))


def _label_text(node: NodeView, index: str, labels: Labels, rows: Dim) -> str:
    given = node.texts.codes(np.array(labels, dtype=object)) if labels_dtype(labels) == "string" else labels
    numbers = [int(label) for label in given]
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    if numbers == [numbers[0] + step * position for position in range(len(numbers))]:
        scaled = index if step == 1 else f"({index}) * {literal(step)}"
        return scaled if numbers[0] == 0 else f"{scaled if step != 1 else f'({index})'} + {literal(numbers[0])}"
    column = node.constant_matrix(np.asarray(numbers, np.int64).reshape(-1, 1), "labels")
    return gather_rows_text(node, column, f"({index}) + 1", len(numbers), rows, 1, finite=True)
