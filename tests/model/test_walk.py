"""The reverse walk on random graphs, skip connections and captured names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onnx_systemds.model.ir import Graph, Node, ValueInfo
from onnx_systemds.model.walk import names_captured, reverse_order


def _node(index: int, inputs: list[str], outputs: list[str], **attributes: Graph) -> Node:
    return Node("Op", "", tuple(inputs), tuple(outputs), attributes, "", "", index, 17)


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(1, 25))
    nodes = []
    for index in range(count):
        known = [f"v{i}_{k}" for i in range(index) for k in (0, 1)] + ["input", ""]
        inputs = draw(st.lists(st.sampled_from(known), min_size=0, max_size=4))
        nodes.append(_node(index, inputs, [f"v{index}_0", f"v{index}_1"]))
    return nodes


@given(graphs(), st.randoms())
def test_consumers_come_first(nodes: list[Node], random: object) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    order = list(reverse_order(shuffled))
    assert sorted(order) == list(range(len(nodes)))
    rank = {position: place for place, position in enumerate(order)}
    producer = {name: position for position, node in enumerate(shuffled) for name in node.outputs}
    for position, node in enumerate(shuffled):
        for name in node.inputs:
            if name in producer:
                assert rank[position] < rank[producer[name]]


def test_a_given_topological_order_is_kept() -> None:
    nodes = [_node(0, ["x"], ["a"]), _node(1, ["x"], ["b"]), _node(2, ["a"], ["c"]), _node(3, ["b", "a", "c"], ["y"])]
    assert list(reverse_order(nodes)) == [3, 2, 1, 0]


def test_skip_connection() -> None:
    """a feeds both b and y: it must come out before b although y names it last."""
    nodes = [_node(0, ["x"], ["a"]), _node(1, ["a"], ["b"]), _node(2, ["a", "b"], ["y"])]
    assert list(reverse_order(nodes)) == [2, 1, 0]


def test_captured_names_count_as_inputs() -> None:
    inner = Graph("g", "", (ValueInfo("own", None),), (ValueInfo("z", None),), {}, (_node(0, ["outer", "own"], ["z"]),), {})
    nodes = [_node(0, ["condition"], ["y"], body=inner), _node(1, ["x"], ["outer"])]
    assert names_captured(inner) == {"outer"}
    assert list(reverse_order(nodes)) == [0, 1]
