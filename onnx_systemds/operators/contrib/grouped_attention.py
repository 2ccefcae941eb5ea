"""GroupQueryAttention of onnxruntime: causal attention whose keys and values serve several heads of queries.

B: batch, N: heads of queries, M: heads of keys and values, S: new tokens, T: tokens whose keys are looked at. Each
sample has its own number of tokens, so new keys stand after its own last one; rows of queries after it (padding) are
undefined, as they are in onnxruntime.
"""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.contrib.attention import LOWEST, join_heads, known_size, scale_of, split_heads
from onnx_systemds.operators.contrib.grouped_cache import Sizes, held_places, resident, total_value, with_cache
from onnx_systemds.operators.contrib.rotary import rotated


@expander("GroupQueryAttention", domain=CONTRIB)
def group_query_attention(node: Expansion) -> None:
    """Projected queries, keys and values, alone or packed, turned by their positions where that is asked for."""
    _refuse(node)
    sizes = _sizes(node)
    query, key, value = _by_head(node, sizes)
    query, key = _normalized(node, query, "q"), _normalized(node, key, "k")
    if node.attribute("do_rotary"):
        query, key = _turned(node, sizes, query, key)
    key, value = with_cache(node, sizes, key, value)
    scores = _scores(node, sizes, query, key)
    allowed = _allowed(node, sizes, key)
    probabilities = _probabilities(node, node.emit("Where", allowed, scores, node.number(LOWEST)))
    if node.output(3):
        before = int(node.attribute("qk_output")) == 1
        found = node.emit("Where", allowed, scores, node.number(0.0)) if before else probabilities
        node.give(found, 3)
    if sizes.heads != sizes.shared:
        probabilities = node.reshape(probabilities, 0, sizes.shared, -1, 0)
    y = node.emit("MatMul", probabilities, value)
    if sizes.heads != sizes.shared:
        y = node.reshape(y, 0, sizes.heads, -1, sizes.head_size)
    join_heads(node, y, sizes.heads * sizes.head_size)


def _refuse(node: Expansion) -> None:
    if node.output(3) and node.attribute("qk_output") not in (1, 2):
        raise UnsupportedCase("the products of queries and keys as an output, neither before nor after the softmax")
    if node.output(3) and node.attribute("sliding_window_cache"):
        raise UnsupportedCase("the products of queries and keys as an output, beside a cache of a sliding window")


def _sizes(node: Expansion) -> Sizes:
    heads, shared = node.positive("num_heads"), node.positive("kv_num_heads")
    head_size = known_size(node, "query", 2) // (heads if node.has("key") else heads + 2 * shared)
    length = node.length(node.input("query"), 1)
    lengths = node.cast(node.reshape(node.input("seqlens_k"), -1, 1), "int64")
    whole = node.emit("Add", lengths, node.known(1))
    if node.has("query_seqlens"):
        added = node.cast(node.reshape(node.input("query_seqlens"), -1, 1), "int64")
        is_first: bool | str = False
        before = node.emit("Sub", whole, added)
    else:
        added = length
        is_first = _is_first(node, length)
        none = node.emit("Mul", whole, node.known(0))
        before = _chosen(node, is_first, none, node.emit("Sub", whole, length))
    held = resident(node, before)
    # padding is kept, too, but not in a window
    end = node.emit("Add", held, node.emit("Sub", whole, before) if node.attribute("sliding_window_cache") else added)
    return Sizes(heads, shared, head_size, length, before, held, whole, end, is_first)


def _is_first(node: Expansion, length: str) -> bool | str:
    """Whether the new tokens are all there are: known, or the name of a boolean."""
    if not node.has("past_key"):
        return True
    found = node.integers("total_sequence_length")
    total, new = None if found is None else found[0], node.dims("query")[1]
    if total == new:
        return True
    if isinstance(total, int) and isinstance(new, int):
        return False
    return node.emit("Equal", total_value(node), length)


def _chosen(node: Expansion, is_first: bool | str, first: str, later: str) -> str:
    """One of two values, by whether the new tokens are all there are."""
    if isinstance(is_first, bool):
        return first if is_first else later
    return node.emit("Where", is_first, first, later)


def _by_head(node: Expansion, sizes: Sizes) -> tuple[str, str, str]:
    counts = (sizes.heads, sizes.shared, sizes.shared)
    parts = node.first_inputs(3)
    if not node.has("key"):
        widths = [count * sizes.head_size for count in counts]
        parts = node.split(node.input("query"), ("query", "key", "value"), widths)
    query, key, value = (split_heads(node, part, count, sizes.head_size) for part, count in zip(parts, counts))
    return query, key, value


def _normalized(node: Expansion, x: str, which: str) -> str:
    """Heads of queries or keys over the root of their mean square, where a weight for it is given."""
    weight = f"{which}_norm_weight"
    if not node.has(weight):
        return x
    own = node.attribute(f"{which}_norm_epsilon")
    epsilon = node.attribute("qk_norm_epsilon") if own is None else own
    return node.emit("SimplifiedLayerNormalization", x, node.input(weight), axis=-1, epsilon=epsilon)


def _turned(node: Expansion, sizes: Sizes, query: str, key: str) -> tuple[str, str]:
    """Queries and keys after the rotary embedding."""
    if node.has("position_ids"):
        positions = _given_positions(node, sizes)
    else:
        positions = node.emit("Add", sizes.before, node.count_up(sizes.length))
        # what is padding is turned by position 1
        inside = node.emit("Less", positions, sizes.whole)
        positions = node.emit("Where", inside, positions, node.known(1))
    width = node.dims("cos_cache")[1]
    if not isinstance(width, int):
        raise UnsupportedCase("the width of the cache of cosines must be known")
    cosines, sines = (node.unsqueeze(node.emit("Gather", node.input(cache), positions, axis=0), 1) for cache in (7, 8))
    interleaved = bool(node.attribute("rotary_interleaved"))
    query, key = (
        rotated(node, x, sizes.head_size, 2 * width, (cosines, sines), interleaved=interleaved) for x in (query, key)
    )
    return query, key


def _given_positions(node: Expansion, sizes: Sizes) -> str:
    """The positions as given; where the new tokens are all there are, only the first one is read, the others follow."""
    given = node.input("position_ids")
    counted = node.unsqueeze(node.count_up(sizes.length), 0)
    first = node.emit("Add", node.slice(node.slice(given, 0, 0, 1), 1, 0, 1), counted)
    return _chosen(node, sizes.is_first, first, given)


# --- scores ------------------------------------------------------------------------------------------------------


def _scores(node: Expansion, sizes: Sizes, query: str, key: str) -> str:
    """Scaled products, capped, plus a bias: [B, N, S, T]. The queries that share a key are rows of one product."""
    if sizes.heads != sizes.shared:
        query = node.reshape(query, 0, sizes.shared, -1, sizes.head_size)
    scale = scale_of(node, sizes.head_size)
    scores = node.emit("FusedMatMul", query, key, domain=CONTRIB, transB=1, alpha=scale)
    if sizes.heads != sizes.shared:
        scores = node.reshape(scores, 0, sizes.heads, -1, 0)
    cap = float(node.attribute("softcap"))
    if cap > 0:
        limit = node.number(cap)
        scores = node.emit("Mul", limit, node.emit("Tanh", node.emit("Div", scores, limit)))
    return node.emit("Add", scores, _bias(node, sizes)) if node.has("attention_bias") else scores


def _bias(node: Expansion, sizes: Sizes) -> str:
    """What is added to scores; it is given for all tokens, of which a window holds the last ones."""
    bias = node.input("attention_bias")
    if not node.attribute("sliding_window_cache"):
        return bias
    last = node.emit("Sub", node.length(bias, 3), node.known(1))
    places = node.unsqueeze(node.emit("Min", held_places(node, sizes), last), 1, 2)
    batch = node.emit("Shape", node.unsqueeze(sizes.before, 1, 2))
    places = node.emit("Add", places, node.filled_like(node.slice(bias, 3, 0, 1), "int64", 0))
    return node.emit("GatherElements", node.emit("Expand", bias, batch), places, axis=3)


def _allowed(node: Expansion, sizes: Sizes, key: str) -> str:
    """Whether a query may look at a key: [B, 1, S, T]."""
    places = node.count_up(node.length(key, 2))
    if not node.attribute("causal"):
        return node.emit("Less", places, node.unsqueeze(sizes.whole, 1, 2))
    own = node.unsqueeze(node.emit("Add", sizes.resident, node.count_up(sizes.length)), 1, 3)
    allowed = node.emit("LessOrEqual", places, own)
    window = int(node.attribute("local_window_size"))
    if window > 0:
        near = node.emit("Greater", places, node.emit("Sub", own, node.known(window)))
        allowed = node.emit("And", allowed, near)
    return allowed


def _probabilities(node: Expansion, scores: str) -> str:
    """The softmax over the keys, where asked for with a further key that has no value: the sink."""
    if not node.has("head_sink") and int(node.attribute("smooth_softmax")) <= 0:
        return node.emit("Softmax", scores, axis=-1)
    sink = node.unsqueeze(node.input("head_sink"), 1, 2) if node.has("head_sink") else node.number(0.0)
    column = node.emit("Expand", sink, node.emit("Shape", node.slice(scores, 3, 0, 1)))
    widened = node.emit("Softmax", node.emit("Concat", scores, column, axis=-1), axis=-1)
    return node.slice(widened, 3, 0, -1)
