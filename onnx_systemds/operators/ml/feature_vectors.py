"""FeatureVectorizer, ArrayFeatureExtractor and OneHotEncoder of ai.onnx.ml: features put together, taken, spread."""

from __future__ import annotations

import numpy as np

from onnx_systemds.engine.safe_forms import equal_pairs
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import product
from onnx_systemds.inference.registry import batch_rule, generator, looks_up_text, shape_rule, takes_text
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.model.ir import ML
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View, bind
from onnx_systemds.operators.ml.feature_scaling import sample_count
from onnx_systemds.operators.onnx.combining import truncated
from onnx_systemds.operators.onnx.indexing import gather_index
from onnx_systemds.operators.onnx.selecting import Steps
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first

batch_rule("OneHotEncoder", domain=ML)(mixes_all_but_first)

# --- FeatureVectorizer -----------------------------------------------------------------------------------------


def _widths(node: NodeFacts) -> list[tuple[int, int]]:
    """For each input the number of its columns, and of those that it gets in the result."""
    given = []
    for position in range(node.input_count):
        dims = node.dims(position)
        own = product(dims[min(1, len(dims) - 1) :])
        if not isinstance(own, int):
            raise UnsupportedCase("FeatureVectorizer needs known numbers of features", hint="fix them by --dim")
        given.append(own)
    wanted = node.attribute("inputdimensions") or given
    if len(wanted) != len(given):
        raise UnsupportedCase(f"inputdimensions of {len(wanted)} for {len(given)} inputs")
    return [(own, int(width)) for own, width in zip(given, wanted)]


@shape_rule("FeatureVectorizer", domain=ML)
def feature_vectorizer_rule(node: NodeFacts) -> tuple[Value, ...]:
    """All columns side by side, as floats."""
    for position in range(1, node.input_count):
        if node.rank(0) > 1 and node.rank(position) > 1:
            node.assume_same_size((0, 0), (position, 0))
    return (node.tensor((sample_count(node.dims(0)), sum(width for _, width in _widths(node))), "float"),)


@batch_rule("FeatureVectorizer", domain=ML)
def feature_vectorizer_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """The rows of all inputs are samples."""
    return axis != 0 or node.rank(position) < 2 or node.dims(position)[0] != sample_count(node.dims(0))


@generator("FeatureVectorizer", since=1, domain=ML)
def feature_vectorizer(node: NodeView) -> Fragment:
    """Inputs side by side; one that is too wide is cut, one too narrow filled by 0."""
    rows = sample_count(node.dims(0))
    pieces = []
    for position, (own, width) in enumerate(_widths(node)):
        x = node.view(position, View(sample_count(node.dims(position)), own))
        if min(own, width) > 0:
            pieces.append(x if width >= own else f"{x}[, 1:{width}]")
        if width > own:
            pieces.append(node.filled(0, View(rows, width - own)))
    return node.matrix_result(bind("cbind", pieces), 1)


# --- ArrayFeatureExtractor -------------------------------------------------------------------------------------


@shape_rule("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The last axis has as many elements as there are indices; rank 1 gives one row."""
    dims, known = node.dims("X"), node.constant("Y")
    if known is not None and known.size and not isinstance(dims[-1], int):
        least = max(int(known.max()) + 1, -int(known.min()))
        node.assume(dims[-1], Relation.AT_LEAST, least, node.axis_words("X", len(dims) - 1))
    return (node.tensor((*(dims[:-1] or (1,)), node.size("Y"))),)


@batch_rule("ArrayFeatureExtractor", domain=ML, grows=True)
def array_feature_extractor_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Of the data only along the last axis, of which elements are taken; indices go in their order, line by line."""
    return axis == node.rank("X") - 1 if position == 0 else product(node.dims("Y")[:axis]) != 1


@generator("ArrayFeatureExtractor", since=1, domain=ML)
def array_feature_extractor(node: NodeView) -> Fragment:
    """Elements of the last axis by index; negative ones count from the end, as in ONNX's reference.

    sklearn-onnx writes -1 for neighbours beyond the radius, and multiplies what it takes there by 0.
    """
    axis = node.rank("X") - 1
    size, count = node.dims("X")[axis], node.size("Y")
    steps = Steps(node)
    known, made = node.constant("Y"), node.upstream("Y")
    if known is not None and isinstance(size, int):
        indices = [int(index) for index in known.ravel()]
        if not all(-size <= index < size for index in indices):
            raise UnsupportedCase(f"an index is out of range for an axis of {size}")
        steps.pick(axis, [index % size for index in indices])
    elif known is not None and known.size and known.min() >= 0:
        steps.pick(axis, [int(index) for index in known.ravel()])
    elif made is None or made.node.op_type not in ("ArgMax", "ArgMin") or made.dims(0)[made.axis()] != size:
        steps.take(axis, gather_index(node, 1, size, count), count)
    else:
        steps.take(axis, f"{node.view('Y', View(count, 1))} + 1", count)
    return steps.fragment()


# --- OneHotEncoder ---------------------------------------------------------------------------------------------


takes_text("ArrayFeatureExtractor", "OneHotEncoder", domain=ML)
looks_up_text("OneHotEncoder", domain=ML)


def _categories(node: NodeView) -> list[int]:
    """The categories, of texts their codes. Raises UnsupportedCase where there are none of the input's type."""
    if node.dtype("X") == "string":
        texts = node.attribute("cats_strings") or ()
        found = [int(code) for code in node.texts.codes(np.array(texts, dtype=object))]
    else:
        found = [int(category) for category in node.attribute("cats_int64s") or ()]
    if not found:
        raise UnsupportedCase("OneHotEncoder without categories of the input's type")
    return found


@shape_rule("OneHotEncoder", domain=ML)
def one_hot_encoder_rule(node: NodeFacts) -> tuple[Value, ...]:
    """One more axis, of the categories."""
    count = len(node.attribute("cats_strings") or node.attribute("cats_int64s") or ())
    return (node.tensor((*node.dims("X"), count), "float"),)


@generator("OneHotEncoder", since=1, domain=ML)
def one_hot_encoder(node: NodeView) -> Fragment:
    """1 in the column of the category; an unknown one is a row of 0, or with zeros=0 an error of the run."""
    categories = _categories(node)
    # of equal categories the last one counts: the others get what no integer equals
    last = {category: position for position, category in enumerate(categories)}
    row = [category if last[category] == position else np.nan for position, category in enumerate(categories)]
    view = View(node.size("X"), len(categories))
    x = node.view("X", View(node.size("X"), 1)) if node.dims("X") else f"as.matrix({node.scalar('X')})"
    if node.dtype("X") not in INTEGER_DTYPES and node.dtype("X") != "string":
        x = truncated(x)
    known = node.constant_matrix(np.asarray(row, np.float64).reshape(1, -1), "categories")
    text = equal_pairs(x, known, len(row))
    return node.result(text if node.attribute("zeros") else node.call("known_categories", text), view)
