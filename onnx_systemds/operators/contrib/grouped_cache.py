"""The cache of keys and values of GroupQueryAttention: whole, of the last tokens alone, in floats or in codes.

Names as in `grouped_attention`. A cache that holds a sliding window has its last tokens in front, in their order; what
lies behind them, as behind the last token of any cache, is undefined and here 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.expansion import Expansion

_KEYS, _VALUES = 3, 4  # positions of the given cache

LARGEST = {8: 127, 4: 7}  # of a code, by its bits; the smallest one is one below its negative


@dataclass(frozen=True)
class Sizes:
    """The known sizes, and what the run knows: names of int64 values.

    length: S. before: number of tokens before the new ones, resident: how many of them the cache holds, whole: the
    number of all, end: that of what the cache holds and the new ones; each [B, 1].
    is_first: whether the new tokens are all there are.
    """

    heads: int
    shared: int
    head_size: int
    length: str
    before: str
    resident: str
    whole: str
    end: str
    is_first: bool | str


@dataclass(frozen=True)
class Codes:
    """How keys or values are kept as integers: times ``scale``, a value's name."""

    scale: str
    bits: int


def total_value(node: Expansion) -> str:
    """The longest number of tokens of a sample."""
    total = node.input("total_sequence_length")
    if node.rank("total_sequence_length"):
        total = node.emit("Gather", total, node.known(0), axis=0)
    return node.cast(total, "int64")


def resident(node: Expansion, tokens: str) -> str:
    """How many of so many last tokens a cache holds. One of a window lets go of several at once, if it has room."""
    if not node.attribute("sliding_window_cache"):
        return tokens
    window = int(node.attribute("local_window_size"))
    if window < 1 or not node.has("past_key"):
        raise InvalidModel("a cache that holds a sliding window needs local_window_size and a cache that is given")
    node.assume_at_most(window, node.dims("past_key")[2], "local_window_size", node.axis_words("past_key", 2))
    places = node.length(node.input("past_key"), 2)
    step = node.emit("Sub", places, node.known(window - 1))  # so many are let go of at once
    beyond = node.emit("Max", node.emit("Sub", tokens, places), node.known(0))
    steps = node.emit("Div", node.emit("Add", beyond, node.emit("Sub", step, node.known(1))), step)
    return node.emit("Sub", tokens, node.emit("Mul", step, steps))


def with_cache(node: Expansion, sizes: Sizes, key: str, value: str) -> tuple[str, str]:
    """The keys and values that are looked at, [B, M, T, size]; gives the returned cache."""
    kinds = [_codes(node, sizes, which) for which in ("k", "v")]
    new = [_encoded(node, x, codes) for x, codes in zip((key, value), kinds)]
    if node.has("past_key"):
        for cache in (_KEYS, _VALUES):
            node.assume_same_size((cache, 0), (0, 0))
        node.assume_same_size((_VALUES, 2), (_KEYS, 2))
        given = [_unpacked(node, sizes, f"past_{name}", codes) for name, codes in zip(("key", "value"), kinds)]
        new = _merged(node, sizes, given, new, kinds)
    else:
        for place, x in enumerate(new, 1):
            node.give(x, place)
    key, value = (node.emit("Mul", x, codes.scale) if codes else x for x, codes in zip(new, kinds))
    return key, value


def held_places(node: Expansion, sizes: Sizes) -> str:
    """The positions of the tokens whose keys are looked at, counted from the first token of all: [B, T]."""
    places = node.count_up(_row_count(node, sizes))
    return node.emit("Add", node.emit("Sub", sizes.before, sizes.resident), places)


def _row_count(node: Expansion, sizes: Sizes) -> str:
    """The number of rows of the given cache and the new ones, or of the returned cache where that has room for them."""
    old = node.length(node.input("past_key"), 2)
    if node.attribute("sliding_window_cache"):
        return node.emit("Add", old, sizes.length)
    return node.emit("Max", old, total_value(node))


def _merged(
    node: Expansion, sizes: Sizes, given: list[str], new: list[str], kinds: list[Codes | None]
) -> list[str]:
    """The rows of the given cache and the new ones after each sample's last; gives the returned cache."""
    index = _row_index(node, sizes, node.count_up(_row_count(node, sizes)))
    rows = [_all_rows(node, sizes, *parts) for parts in zip(given, new, kinds)]
    merged = [node.emit("Gather", x, index, axis=0) for x in rows]
    returned = merged
    if node.attribute("sliding_window_cache"):
        left = node.emit("Sub", sizes.end, resident(node, sizes.whole))
        places = node.emit("Add", node.unsqueeze(left, 1), node.count_up(node.length(node.input("past_key"), 2)))
        index = _row_index(node, sizes, places)
        returned = [node.emit("Gather", x, index, axis=0) for x in rows]
    elif node.has("attention_bias") or node.output(3):  # these are of all tokens, the cache may be longer
        bounds = node.known([0]), node.reshape(total_value(node), 1), node.known([2])
        merged = [node.emit("Slice", x, *bounds) for x in merged]
    for place, (x, codes) in enumerate(zip(returned, kinds), 1):
        if node.output(place):
            _packed(node, x, codes, node.output(place))
    return merged


def _row_index(node: Expansion, sizes: Sizes, places: str) -> str:
    """For each sample, head and place its row: of the given cache, of the new tokens, or the last one, zeros."""
    old, new = node.length(node.input("past_key"), 2), sizes.length
    rows = node.emit("Mul", node.length(node.input("query"), 0), node.known(sizes.shared))
    row = node.reshape(node.count_up(rows), -1, sizes.shared, 1)
    before, end = (node.unsqueeze(x, 1) for x in (sizes.resident, sizes.end))
    given = node.emit("Add", node.emit("Mul", row, old), places)
    after = node.emit("Add", node.emit("Mul", rows, old), node.emit("Mul", row, new))
    added = node.emit("Add", after, node.emit("Sub", places, before))
    zeros = node.emit("Mul", rows, node.emit("Add", old, new))
    further = node.emit("Where", node.emit("Less", places, end), added, zeros)
    return node.emit("Where", node.emit("Less", places, before), given, further)


def _all_rows(node: Expansion, sizes: Sizes, given: str, new: str, codes: Codes | None) -> str:
    """The rows of the given cache, the new ones and one of nothing."""
    nothing = -LARGEST[4] - 1.0 if codes and codes.bits == 4 else 0.0  # of which onnxruntime makes bytes of 0
    empty = node.known([[nothing] * sizes.head_size], node.dtype("query"))
    return node.emit("Concat", *(node.reshape(x, -1, sizes.head_size) for x in (given, new)), empty, axis=0)


# --- integers ----------------------------------------------------------------------------------------------------


def _codes(node: Expansion, sizes: Sizes, which: str) -> Codes | None:
    """How the keys ("k") or values are kept, None where as they are."""
    kind, scale = str(node.attribute(f"{which}_quant_type")), f"{which}_scale"
    if kind == "NONE" and not node.has(scale):
        return None
    if kind not in ("PER_TENSOR", "PER_CHANNEL") or not node.has(scale) or not node.has("past_key"):
        raise InvalidModel(f"a cache of integers needs past_key, {scale} and {which}_quant_type")
    dtype = node.dtype("past_key")
    bits = {"int8": 8, "uint8": 4}.get(dtype)
    if bits is None or int(node.attribute("kv_cache_bit_width") or 8) != bits:
        raise UnsupportedCase(f"a cache of {dtype}: it may be of int8, or of uint8 with two integers of 4 bits in each")
    dims = (1, sizes.shared, 1, sizes.head_size) if kind == "PER_CHANNEL" else (1,)
    scales, own = node.reshape(node.input(scale), *dims), node.dtype("query")
    return Codes(scales if node.dtype(scale) == own else node.cast(scales, own), bits)


def _encoded(node: Expansion, x: str, codes: Codes | None) -> str:
    """The integers of new keys or values, as floats."""
    if codes is None:
        return x
    largest, dtype = LARGEST[codes.bits], node.dtype("query")
    whole = node.emit("Round", node.emit("Div", x, codes.scale))
    return node.emit("Clip", whole, node.known(float(-largest - 1), dtype), node.known(float(largest), dtype))


def _unpacked(node: Expansion, sizes: Sizes, name: str, codes: Codes | None) -> str:
    """The given cache, integers as floats. Of two in a byte the first one is its lower half, each is larger by 8."""
    if codes is None:
        return node.input(name)
    dtype = node.dtype("query")
    x = node.cast(node.input(name), dtype)
    if codes.bits == 8:
        return x
    upper = node.emit("Floor", node.emit("Mul", x, node.known(1 / 16, dtype)))
    lower = node.emit("Sub", x, node.emit("Mul", upper, node.known(16.0, dtype)))
    halves = node.emit("Concat", node.unsqueeze(lower, 4), node.unsqueeze(upper, 4), axis=4)
    return node.emit("Sub", node.reshape(halves, 0, 0, -1, sizes.head_size), node.known(8.0, dtype))


def _packed(node: Expansion, x: str, codes: Codes | None, to: str) -> None:
    """Give a cache as an output."""
    if codes is None:
        node.emit("Identity", x, to=to)
    elif codes.bits == 8:
        node.cast(x, "int8", to)
    else:
        dtype = node.dtype("query")
        lower, upper = (node.slice(x, 3, start, step=2) for start in (0, 1))
        both = node.emit("Add", lower, node.emit("Mul", upper, node.known(16.0, dtype)))
        node.cast(node.emit("Add", both, node.known(8.0 * 17, dtype)), "uint8", to)
