"""TfIdfVectorizer: n-grams of integers or strings, counted for all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.registry import generator, looks_up_text, shape_rule, takes_text
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View

takes_text("TfIdfVectorizer")
looks_up_text("TfIdfVectorizer")


@shape_rule("TfIdfVectorizer")
def tf_idf_rule(node: NodeFacts) -> tuple[Value, ...]:
    """One count per n-gram for each row, or for the only one."""
    dims = node.dims("X")
    if len(dims) > 2:
        raise UnsupportedCase(f"the input has rank {len(dims)}, not 1 or 2")
    return (node.tensor((*dims[:-1], _columns(node)), "float"),)


def _columns(node: NodeFacts) -> int:
    return int(max(node.attribute("ngram_indexes"))) + 1


@generator("TfIdfVectorizer", since=9)
def tf_idf_9(node: NodeView) -> Fragment:
    """Prefixes of n-grams are numbered level by level; a row's tokens are looked up along with them."""
    dims = node.dims("X")
    cols, size = _columns(node), dims[-1] if dims else 1
    rows: Dim = dims[0] if len(dims) == 2 else 1
    pool, grams = _grams(node)
    nodes = _prefixes(grams)
    form = View(rows, cols)
    if not len(nodes):
        return node.result(node.filled(0, form), form)
    tokens = node.call("find_keys", node.view("X", View(rows, size)), node.constant_matrix(pool, "pool"))
    counts = node.call(
        "ngram_counts", tokens, node.constant_matrix(nodes, "ngrams"), len(pool) + 1,
        int(node.attribute("max_skip_count")) + 1, int(node.attribute("min_gram_length")), cols,
    )
    return node.result(_weighted(node, counts, cols), form)


def _weighted(node: NodeView, counts: str, cols: int) -> str:
    mode = node.attribute("mode")
    text = f"({counts} > 0)" if mode == "IDF" else counts
    weights = node.attribute("weights")
    if mode == "TF" or not weights:
        return text
    columns = node.attribute("ngram_indexes")
    if len(weights) != len(columns):
        raise UnsupportedCase(f"{len(weights)} weights for {len(columns)} n-grams")
    row = np.zeros((1, cols), dtype=np.float32)
    row[0, list(columns)] = weights
    return f"{text} * {node.constant_matrix(row, 'weights')}"


Gram = tuple[int, ...]


def _grams(node: NodeView) -> tuple[Array, dict[Gram, int]]:
    """The distinct tokens as a column, and the column (from 1) of each n-gram, by the positions of its tokens."""
    strings = node.attribute("pool_strings")
    given = node.texts.codes(np.array(strings, dtype=object)) if strings else np.array(node.attribute("pool_int64s"))
    pool, numbers = np.unique(given, return_inverse=True)
    starts = [*node.attribute("ngram_counts"), len(given)]
    columns = node.attribute("ngram_indexes")
    shortest, longest = int(node.attribute("min_gram_length")), int(node.attribute("max_gram_length"))
    if longest >= len(starts):
        raise UnsupportedCase(
            f"ngram_counts says where n-grams of up to {len(starts) - 1} tokens begin, max_gram_length is {longest}"
        )
    if any(end < start or (end - start) % size for size, (start, end) in enumerate(pairwise(starts), 1)):
        raise UnsupportedCase("the parts of the pool do not hold whole n-grams")
    grams: dict[Gram, int] = {}
    count = 0
    for size, (start, end) in enumerate(pairwise(starts), 1):
        for first in range(start, end - size + 1, size):
            if shortest <= size <= longest:
                grams[tuple(int(number) + 1 for number in numbers[first : first + size])] = columns[count] + 1
            count += 1
    return pool.astype(np.float64).reshape(-1, 1), grams


def _prefixes(grams: dict[Gram, int]) -> Array:
    """All prefixes of n-grams by length: (length, number of the prefix one shorter, last token, column or 0)."""
    levels: list[dict[Gram, int]] = []
    rows: list[Sequence[int]] = []
    for size in range(1, max(map(len, grams), default=0) + 1):
        level: dict[Gram, int] = {}
        for gram in grams:
            if len(gram) >= size and gram[:size] not in level:
                prefix = gram[:size]
                level[prefix] = len(level) + 1
                before = levels[-1][prefix[:-1]] if levels else 0
                rows.append((size, before, prefix[-1], grams.get(prefix, 0)))
        levels.append(level)
    return np.array(rows, dtype=np.float64).reshape(-1, 4)
