"""Products of one input that make heads are one product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.inference.test_convolution_folding import check, node

NUMBERS = np.random.default_rng(1)
CONSTANTS = {
    "A": NUMBERS.normal(size=(5, 4)), "B": NUMBERS.normal(size=(5, 4)), "C": NUMBERS.normal(size=(5, 2)),
    "a": NUMBERS.normal(size=4), "b": NUMBERS.normal(size=4), "row": NUMBERS.normal(size=(1, 4)), "third": np.array(1 / 3),
    "factors": NUMBERS.normal(size=4), "gamma": NUMBERS.normal(size=5), "beta": NUMBERS.normal(size=5),
}
FLAT = node("Reshape", "X", "shape flat", to="x")
SHAPES = {"shape flat": np.array([-1, 24, 5]), "shape of two": np.array([0, 24, 2, -1]), "shape of one": np.array([0, 24, 1, -1]),
          "shape of no axes": np.array(1)}
HEADS = (0, 2, 1, 3)


def heads(product: str, to: str, shape: str = "shape of two", perm: tuple[int, ...] = HEADS) -> list[Any]:
    reshaped = f"{product} reshaped"
    return [node("Reshape", product, shape, to=reshaped), node("Transpose", reshaped, to=to, perm=perm)]


def product(weights: str, to: str, operand: str = "x") -> Any:
    return node("MatMul", operand, weights, to=to)


def text_of(nodes: list[Any], outputs: tuple[str, ...] = ("y", "z")) -> str:
    return check([FLAT, *nodes], outputs, opset=17, contents=CONSTANTS | SHAPES)


@pytest.mark.parametrize("nodes", [
    [product("A", "m"), *heads("m", "y"), product("B", "o"), *heads("o", "z", perm=(0, 2, 3, 1))],
    [product("A", "m"), node("Add", "m", "a", to="n"), *heads("n", "y"), product("B", "o"),
     node("Add", "b", "o", to="p"), *heads("p", "z")],
    [product("A", "m"), node("Add", "m", "a", to="n"), node("Mul", "third", "n", to="q"), *heads("q", "y"),
     product("C", "o"), *heads("o", "z", "shape of one")],
    [product("A", "m"), node("Mul", "m", "third", to="q"), *heads("q", "y"), product("B", "o"), *heads("o", "z")],
    # what reads the first one stands before the second one
    [product("A", "m"), *heads("m", "h"), node("Abs", "h", to="y"), product("C", "o"), *heads("o", "z")],
])
def test_one_product(nodes: list[Any]) -> None:
    text = text_of(nodes)
    assert text.count("%*%") == 1 and "fused" in text


def test_a_normalization_goes_into_it() -> None:
    """The second product has no constant of its own to which its bias could be added."""
    layer = node("LayerNormalization", "x", "gamma", "beta", to="n")
    nodes = [layer, product("A", "m", "n"), node("Add", "m", "a", to="k"), *heads("k", "y"), product("B", "o", "n"),
             *heads("o", "z")]
    assert "gamma" not in text_of(nodes) and "beta" not in text_of(nodes)


@pytest.mark.parametrize(("nodes", "outputs"), [
    ([product("A", "m"), *heads("m", "y"), product("B", "z")], ("y", "z")),
    ([product("A", "m"), *heads("m", "y"), product("B", "o"), *heads("o", "z")], ("y", "z", "m")),
    ([product("A", "m"), *heads("m", "y"), product("A", "o"), *heads("o", "z")], ("y", "z")),
    ([product("A", "m"), *heads("m", "y"), product("B", "o"), *heads("o", "z", perm=(0, 1, 2, 3))], ("y", "z")),
    ([product("A", "m"), *heads("m", "y"), product("B", "o"), node("Add", "o", "row", to="p"), *heads("p", "z")], ("y", "z")),
    ([product("A", "m"), *heads("m", "y"), product("B", "o"), node("Mul", "o", "factors", to="p"), *heads("p", "z")],
     ("y", "z")),
    ([product("A", "m"), *heads("m", "y"), product("B", "o"), node("Add", "o", "o", to="p"), *heads("p", "z")], ("y", "z")),
    ([product("A", "m"), *heads("m", "y"), product("B", "o", "t"), *heads("o", "z")], ("y", "z")),
])
def test_what_stays(nodes: list[Any], outputs: tuple[str, ...]) -> None:
    nodes = [node("Abs", "x", to="t"), *nodes] if any("t" in it.input for it in nodes) else nodes
    assert "fused" not in text_of(nodes, outputs)


@pytest.mark.parametrize("is_single", [True, False])
def test_queries_stay_apart_of_which_one_place_is_read(is_single: bool) -> None:
    nodes = [product("A", "m"), *heads("m", "q"), product("B", "o"), *heads("o", "k", perm=(0, 2, 3, 1)),
             product("C", "p"), *heads("p", "v"), node("MatMul", "q", "k", to="s"), node("Tanh", "s", to="t"),
             node("MatMul", "t", "v", to="y all"), node("Gather", "y all", "shape of no axes", to="y", axis=2)]
    text = text_of(nodes, ("y",)) if is_single else text_of([*nodes, node("Abs", "y all", to="z")])
    assert ("%*% A_fused" in text, "%*% B_fused" in text) == (not is_single, is_single)


@pytest.mark.parametrize("other", [np.ones((6, 4), np.float32), np.ones((5, 4))])
def test_products_that_cannot_be_are_reported_by_their_node(other: Any) -> None:
    model = parse_model("""<ir_version: 9, opset_import: ["" : 17]>
        agraph (float[n, 24, 5] x) => (float[n, 2, 24, 2] y, float[n, 2, 24, 2] z) {
            m = MatMul(x, A) k = Reshape(m, to) y = Transpose<perm = [0, 2, 1, 3]>(k)
            o = MatMul(x, B) p = Reshape(o, to) z = Transpose<perm = [0, 2, 1, 3]>(p) }""")
    contents = {"A": np.ones((5, 4), np.float32), "B": other, "to": np.array([0, 24, 2, 2])}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in contents.items())
    with pytest.raises(TranspileError, match='"#3"'):
        import_model(model)
