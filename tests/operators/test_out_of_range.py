"""What reaches beyond an axis whose size only the run knows is refused there; the engine makes zeros of some of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.scoring import ScoringFunction

HEAD = '<ir_version: 10, opset_import: ["" : 18, "ai.onnx.ml" : 3]>\n'
NEWER = HEAD.replace("18", "24")
ROWS = np.arange(9, dtype=np.float32).reshape(3, 3)
NONE, ZEROS = ROWS[:0], 0 * ROWS

BOUNDS = "s = Constant <value_ints = [{}]> () e = Constant <value_ints = [{}]> ()"
TEXTS = {
    "slice of the first": f"g (float[n,3] x) => (float[k,3] y) {{ {BOUNDS.format(0, 1)} y = Slice(x, s, e) }}",
    "slice of the last": f"g (float[n,3] x) => (float[k,3] y) {{ {BOUNDS.format(-1, 2**63 - 1)} y = Slice(x, s, e) }}",
    "gather of the first": "g (float[n,3] x) => (float[3] y) { i = Constant <value_int = 0> () y = Gather(x, i) }",
    "gather of the last": "g (float[n,3] x) => (float[1,3] y) { i = Constant <value_ints = [-1]> () y = Gather(x, i) }",
}


def _refused(text: str, feeds: dict[str, Any], words: str, *, head: str = HEAD) -> None:
    script = import_model(onnx.parser.parse_model(head + text))
    with ScoringFunction(script) as function, pytest.raises((EngineError, InvalidInput), match=words):
        function(feeds)


@pytest.mark.parametrize("name", TEXTS)
def test_of_an_axis_without_elements(name: str) -> None:
    _refused(TEXTS[name], {"x": NONE}, "it to be larger")


def test_an_index_beyond_an_axis_of_zeros() -> None:
    text = "g (float[n,3] x) => (float[3] y) { i = Constant <value_int = 5> () y = Gather(x, i) }"
    _refused(text, {"x": ZEROS}, 'axis 0 of "x" is 3; the script takes it to be larger')


@pytest.mark.parametrize("axis", [0, 1])
def test_more_of_the_largest_than_there_are(axis: int) -> None:
    text = f"g (float[n,m] x) => (float[a,b] y) {{ k = Constant <value_ints = [5]> () y, z = TopK <axis = {axis}> (x, k) }}"
    _refused(text, {"x": ROWS}, f'k is 5, axis {axis} of "x" is 3; the script takes it to be within')
    run = f"g (float[n,m] x, int64[1] k) => (float[a,b] y) {{ y, z = TopK <axis = {axis}> (x, k) }}"
    _refused(run, {"x": ROWS, "k": np.array([4])}, f'k is 4, axis {axis} of "x" is 3')


def test_a_slice_backwards_whose_end_lies_behind_its_start() -> None:
    text = """g (float[n,3] x) => (float[k,3] y) <int64[1] s = {9}, int64[1] e = {-1}, int64[1] a = {0}, int64[1] t = {-2}>
              { y = Slice(x, s, e, a, t) }"""
    _refused(text, {"x": np.ones((11, 3), np.float32)}, "the length of the slice .* is 0; the script takes it to be larger")


def test_a_slice_backwards_from_behind_the_last_place() -> None:
    text = """g (float[4,1] x, bool[7] b) => (float[k,1] y) <int64[1] s = {0}, int64[1] a = {0}, int64[1] t = {-1}, int64[1] e = {1}>
              { places = NonZero(b) turned = Transpose(places) sizes = Shape(turned) n = Slice(sizes, s, e) y = Slice(x, n, s, a, t) }"""
    _refused(text, {"x": np.ones((4, 1), np.float32), "b": np.ones(7, bool)},
             "the first place of the slice .* is 7, that of the axis is 3; the script takes it to be within")


def test_scales_of_another_number_than_columns() -> None:
    text = """g (uint8[n,4] a, uint8[4,3] b, float[k] s) => (uint8[n,3] y) <float t = {0.5}, uint8 z = {3}> {
              y = QLinearMatMul(a, t, z, b, s, z, t, z) }"""
    _refused(text, {"a": np.ones((2, 4), np.uint8), "b": np.ones((4, 3), np.uint8), "s": np.ones(1, np.float32)},
             'the length of "s" is 1, the number of columns is 3; the script takes them to be equal .a 1')


def test_a_pad_that_leaves_nothing() -> None:
    text = "g (float[n,3] x) => (float[k,3] y) <int64[4] p = {3, 0, -1, 0}> { y = Pad(x, p) }"
    _refused(text, {"x": ROWS[:1]}, 'what is left of axis 0 of "x" is 0; the script takes it to be larger')


def test_slopes_larger_than_what_they_are_of() -> None:
    _refused("g (float[2,1] x, float[n] s) => (float[2,n] y) { y = PRelu(x, s) }", {"x": ROWS[:2, :1], "s": ROWS[0]},
             "axis 0 of the slope is 3, its axis of the input is 1; the script takes them to be equal")
    with pytest.raises(UnsupportedCase, match="axis 0 of the slope is 3"):
        import_model(onnx.parser.parse_model(HEAD + "g (float[2,1] x, float[3] s) => (float[2,3] y) { y = PRelu(x, s) }"))


def test_indices_of_another_number_of_batches() -> None:
    text = "g (float[n,3] x) => (float[2] y) <int64[2,1] i = {0, 2}> { y = GatherND <batch_dims = 1> (x, i) }"
    _refused(text, {"x": ROWS}, 'axis 0 of "x" is 3, axis 0 of "i" is 2; the script takes them to be equal')


def test_more_indices_than_rows() -> None:
    text = "g (float[n,3] x, int64[m,3] i) => (float[m,3] y) { y = GatherElements <axis = 1> (x, i) }"
    words = 'axis 0 of "i" is 3, axis 0 of "x" is 2; the script takes it to be within'
    _refused(text, {"x": ROWS[:2], "i": np.zeros((3, 3), np.int64)}, words)


def test_updates_of_another_shape() -> None:
    text = "g (float[n,3] x, int64[m,1] i, float[p,q] u) => (float[n,3] y) { y = ScatterND (x, i, u) }"
    _refused(text, {"x": ROWS, "i": np.zeros((2, 1), np.int64), "u": ROWS[:, :2]},
             r'"u" has to be \[m, q\], where m is 2, got \[3, 2\]')
    with pytest.raises(InvalidModel, match="updates of rank 1, not 2"):
        import_model(onnx.parser.parse_model(HEAD + text.replace("p,q", "6")))


def test_initial_states_of_another_shape() -> None:
    text = """g (float[t,n,1] x, float[1,8,1] w, float[1,8,2] r, float[1,k,m] h) => (float[t,1,n,2] y)
              { y = LSTM <hidden_size = 2> (x, w, r, , , h) }"""
    feeds = {"x": ROWS[:, :, None], "w": np.ones((1, 8, 1), np.float32), "r": np.ones((1, 8, 2), np.float32)}
    _refused(text, {**feeds, "h": np.ones((1, 2, 3), np.float32)},
             r'"h" has to be \[1, n, m\], where n is 3, got \[1, 2, 3\]')
    with pytest.raises(InvalidModel, match='"h" of rank 2, not 3'):
        import_model(onnx.parser.parse_model(HEAD + text.replace("1,k,m", "k,m")))


CONTRIB = HEAD.replace('"ai.onnx.ml" : 3', '"com.microsoft" : 1')
EMBED = """g (int32[n,s] x, int32[a,b] m) => (float[n,s,2] y, int32[n] o) <float[1,2] w = {1, 2}, float[2] g = {1, 1}>
           { y, o = com.microsoft.EmbedLayerNormalization (x, , w, w, , g, g, m) }"""
CACHED = """g (float[1,1,8] q, float[n,1,p,8] k, float[m,1,r,8] v, int32[1] s, int32 t) => (float[1,1,8] y, float[1,1,a,8] z, float[1,1,b,8] w)
             { y, z, w = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1> (q, q, q, k, v, s, t) }"""


def test_a_mask_of_other_words() -> None:
    ones = np.ones((1, 2), np.int32)
    _refused(EMBED, {"x": 0 * ones[:, :1], "m": ones}, r'"m" has to be \[n, s\], where s is 1, got \[1, 2\]', head=CONTRIB)


def test_a_cache_of_other_samples() -> None:
    counts = {"s": np.ones(1, np.int32), "t": np.int32(2)}
    feeds = {"q": np.ones((1, 1, 8), np.float32), "k": np.ones((1, 1, 2, 8), np.float32), **counts}
    for dims, words in (((2, 1, 1, 8), "p is 2, got"), ((1, 1, 1, 8), "p is 2, got")):
        _refused(CACHED, {**feeds, "v": np.ones(dims, np.float32)}, rf'"v" has to be \[m, 1, p, 8\], where {words}', head=CONTRIB)


@pytest.mark.parametrize("name", ["ConvInteger", "QLinearConv"])
def test_channels_of_integers_that_the_filters_have_not(name: str) -> None:
    """Less their zero point they are all zeros, which the engine gives any shape."""
    others = ", s, z, w, s, z, s, z" if name == "QLinearConv" else ", w, z"
    text = f"g (uint8[n,c,h,v] x, uint8[2,3,1,1] w, float s, uint8 z) => ({{}}[n,2,p,q] y) {{{{ y = {name}(x{others}) }}}}"
    _refused(text.format("uint8" if name == "QLinearConv" else "int32"),
             {"x": np.ones((1, 6, 1, 1), np.uint8), "w": np.ones((2, 3, 1, 1), np.uint8), "s": np.float32(1), "z": np.uint8(1)},
             'the number of elements of "x" is 6, that of those which it takes is 3')


@pytest.mark.parametrize(("text", "words"), [
    ("g (float[2,2] x, int64[2,3] i) => (float[2,3] y) { y = GatherElements <axis = 0> (x, i) }",
     'axis 1 of "i" is 3, axis 1 of "x" is 2'),
    ("g (float[2,2] x, int64[2,3] i, float[2,3] u) => (float[2,2] y) { y = ScatterElements <axis = 0> (x, i, u) }",
     'axis 1 of "i" is 3, axis 1 of "x" is 2'),
    ("g (float[4,2,3] x, int64[2,1] i, float[2,3,2] u) => (float[4,2,3] y) { y = ScatterND (x, i, u) }",
     'axis 1 of "u" is 3, axis 1 of "x" is 2'),
    ("g (float[2,2] x) => (float[2,3] y) { k = Constant <value_ints = [3]> () y, z = TopK (x, k) }",
     'k is 3, axis 1 of "x" is 2'),
    ("g (float[2,2] x, bool[3] c) => (float[n,2] y) { y = Compress <axis = 0> (x, c) }",
     "the number of conditions is 3, that of elements is 2"),
])
def test_more_than_there_is(text: str, words: str) -> None:
    with pytest.raises(UnsupportedCase, match=words):
        import_model(onnx.parser.parse_model(HEAD + text))


def test_a_column_and_a_row_by_sizes_of_two_reshapes() -> None:
    text = "g (float[3,3] x, int64[2] s, int64[2] t) => (float[a,b] y) { p = Reshape(x, s) q = Reshape(x, t) y = Add(p, q) }"
    _refused(text, {"x": ROWS, "s": np.array([9, 1]), "t": np.array([1, 9])},
             'axis 0 of "p" is 9, axis 0 of "q" is 1; the script takes them to be equal')


def test_an_expansion_to_fewer_elements() -> None:
    text = "g (float[n,3] x, int64[2] s) => (float[a,b] y) { y = Expand(x, s) }"
    _refused(text, {"x": ROWS, "s": np.array([2, 3])}, "an axis is 3, the shape has 2; the script takes them to be equal")


def test_an_expansion_of_known_sizes() -> None:
    text = "g (float[3,3] x, int64[2] s) => (float[a,b] y) { y = Expand(x, s) }"
    _refused(text, {"x": ROWS, "s": np.array([2, 3])}, "an axis is 3, the shape has 2")


NO_ZEROS = "the script takes them to be equal"
SHAPES = {
    "of the conversion": ("float[n,3] x", "s = Constant <value_ints = [-1, 2]> ()", {}),
    "without an open one": ("float[n,3] x", "s = Constant <value_ints = [5, 2]> ()", {}),
    "of the run": ("float[n,3] x, int64[2] s", "", {"s": np.array([-1, 2])}),
    "of the run, without an open one": ("float[n,3] x, int64[2] s", "", {"s": np.array([4, 2])}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_zeros_that_do_not_fill_a_shape(name: str) -> None:
    inputs, first, feeds = SHAPES[name]
    text = f"g ({inputs}) => (float[a,b] y) {{ {first} y = Reshape(x, s) }}"
    _refused(text, {"x": ZEROS, **feeds}, f"the number of elements is 9, that of the shape is .*; {NO_ZEROS}")


def test_an_axis_that_goes() -> None:
    text = "g (float[n,3] x) => (float[3] y) { a = Constant <value_ints = [0]> () y = Squeeze(x, a) }"
    _refused(text, {"x": ZEROS}, f'axis 0 of "x" is 3, an axis that goes is 1; {NO_ZEROS}')


CACHE = "g (float[n,1,3,1] x, float[m,1,k,1] u, int64[b] w) => (float[n,1,3,1] y) {{ y = TensorScatter <mode = {}> (x, u, w) }}"
OLD = np.ones((2, 1, 3, 1), np.float32)


def test_updates_of_another_number_of_caches() -> None:
    for new, starts, words in (
        (OLD[:1], [0, 0], r'"u" has to be \[n, 1, k, 1\], where n is 2, got'),
        (OLD, [0, 0, 0], r'"w" has to be \[n\], where n is 2, got \[3\]'),
        (np.ones((2, 1, 4, 1), np.float32), [0, 0], 'axis 2 of "u" is 4, axis 2 of "x" is 3; .* to be within'),
    ):
        _refused(CACHE.format('"circular"'), {"x": OLD, "u": new, "w": np.array(starts)}, words, head=NEWER)
    _refused(CACHE.format('"linear"'), {"x": OLD, "u": OLD[:, :, :1], "w": np.array([0, -1])}, "<= zero", head=NEWER)


POOLED = "g (float[n,1,2,2] x, int64[m,1,2,2] i) => (float[n,1,4,4] y) { y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i) }"


def test_places_that_an_image_has_not() -> None:
    x, places = np.ones((1, 1, 2, 2), np.float32), np.array([0, 3, 12, 15]).reshape(1, 1, 2, 2)
    _refused(POOLED, {"x": np.repeat(x, 2, axis=0), "i": places}, r'"i" has to be \[n, 1, 2, 2\], where n is 2, got')
    _refused(POOLED, {"x": x, "i": places + 1}, "<= zero")


def test_features_that_there_are_not() -> None:
    text = "g (float[3,3] x, int64[2] i) => (float[3,2] y) { y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }"
    for head in (text, text.replace("[3,3]", "[n,m]")):
        for index in (3, -4):
            _refused(head, {"x": ROWS, "i": np.array([1, index])}, "(?s)(<= zero|zeros).*hint: an index is out of range")


def test_known_features_that_there_are_not() -> None:
    text = "g (float[n,m] x) => (float[n,2] y) <int64[2] i = {%s}> { y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }"
    for indices in ("3, 0", "-4, 0"):
        _refused(text % indices, {"x": ROWS}, 'axis 1 of "x" is 3; the script takes it to be larger')
    with pytest.raises(UnsupportedCase, match="an index is out of range for an axis of 3"):
        import_model(onnx.parser.parse_model(HEAD + text.replace("m]", "3]") % "-4, 0"))


@pytest.mark.parametrize("lengths", [[2, 4], [-1, 2]])
def test_lengths_of_sequences(lengths: list[int]) -> None:
    text = """g (float[3,2,1] x, int32[2] n) => (float[3,1,2,1] y) <float[1,1,1] w = {1}> { y = RNN <hidden_size = 1> (x, w, w, , n) }"""
    words = f"the lengths of sequences are {min(lengths)}.* to {max(lengths)}.*, the axis is 3"
    _refused(text, {"x": ROWS[:2].reshape(3, 2, 1), "n": np.array(lengths, np.int32)}, words)


@pytest.mark.parametrize("dtype", ["float", "int64"])
def test_a_range_without_steps(dtype: str) -> None:
    text = f"g ({dtype}[1] a, {dtype}[1] d) => ({dtype}[n] y) {{ b = Squeeze(a) e = Squeeze(d) y = Range(b, b, e) }}"
    zero = np.zeros(1, np.float32 if dtype == "float" else np.int64)
    _refused(text, {"a": zero, "d": zero}, "a range with steps of 0")


@pytest.mark.parametrize("depth", [0, -1])
def test_vectors_without_depth(depth: int) -> None:
    text = "g (int64[2] i, int64[1] d) => (float[2,n] y) <float[2] v = {0, 1}> { y = OneHot(i, d, v) }"
    _refused(text, {"i": np.array([0, 1]), "d": np.array([depth])}, f"the depth is {depth}; the script takes it to be larger")


GROUPED = "g (float[1,c,2] x, float[k] s) => (float[1,c,2] y) {{ y = GroupNormalization <num_groups = {}> (x, s, s) }}"


def test_channels_that_are_no_whole_groups() -> None:
    x, two = ROWS[:1].repeat(2, axis=0).T[None], np.ones(2, np.float32)
    _refused(GROUPED.format(2), {"x": x, "s": two}, f'axis 1 of "x" is 3, that of whole groups is 2; {NO_ZEROS}')
    _refused(GROUPED.format(1), {"x": x, "s": two}, f"the size of the scale is 2, the number of groups is 1; {NO_ZEROS}")
    _refused(GROUPED.format(1), {"x": x, "s": two}, r'"s" has to be \[c\], where c is 3, got \[2\]', head=NEWER)


TREE = """g (float[n,m] x) => (float[n,1] y) { y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
    nodes_nodeids = [0, 1, 2], nodes_featureids = [3, 9, 9], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
    nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0],
    target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (x) }"""


def test_features_that_nodes_test() -> None:
    _refused(TREE, {"x": ROWS}, "the number of features is 3; the script takes it to be larger")


KERNEL = """g (float[n,m] x) => (float[n,1] y) { y = ai.onnx.ml.SVMRegressor <coefficients = [1.0, 2.0], n_supports = 2, rho = [0.1],
    support_vectors = [1.0, 2.0, 3.0, 4.0], kernel_type = "RBF", kernel_params = [0.5, 0.0, 3.0]> (x) }"""
OF_OTHER_SIZES = {
    "features": (KERNEL, {"x": ZEROS}),
    "updates": ("g (float[4] x, int64[2,1] i, float[k] u) => (float[4] y) { y = ScatterND(x, i, u) }",
                {"x": np.zeros(4, np.float32), "i": np.array([[0], [1]]),
                 "u": np.zeros(3, np.float32)}),
    "scales": ("g (float[2,m] x, float[k] s) => (float[2,m] y) { y = LayerNormalization(x, s) }",
               {"x": np.zeros((2, 4), np.float32), "s": np.zeros(2, np.float32)}),
    "states": ("""g (float[3,n,1] x, float[1,m,1] h) => (float[3,1,n,1] y) <float[1,1,1] w = {1}>
                  { y = RNN <hidden_size = 1> (x, w, w, , , h) }""",
               {"x": np.zeros((3, 2, 1), np.float32), "h": np.zeros((1, 4, 1), np.float32)}),
    "boxes": ("""g (float[1,k,4] b, float[1,1,m] s) => (int64[q,3] y)
                 { o = Constant <value_int = 3> () y = NonMaxSuppression(b, s, o) }""",
              {"b": np.zeros((1, 3, 4), np.float32), "s": np.zeros((1, 1, 2), np.float32)}),
}


@pytest.mark.parametrize("name", OF_OTHER_SIZES)
def test_zeros_of_other_sizes(name: str) -> None:
    text, feeds = OF_OTHER_SIZES[name]
    _refused(text, feeds, r'"h" has to be \[1, n, 1\], where n is 2' if name == "states" else NO_ZEROS)
