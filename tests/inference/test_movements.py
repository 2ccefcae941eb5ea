"""What Transposes and Reshapes in a row make of a value; numpy judges."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from onnx_systemds.inference.dims import Dim, multiply, symbol
from onnx_systemds.inference.movements import Movement, unmoved
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.model.ir import Node

N, L = symbol("n"), symbol("l")
STAND_IN = Node("Identity", "", ("x",), ("y",), {}, "", "", 0, 17)


def written(movement: Movement) -> list[onnx.NodeProto]:
    """The nodes that a movement is written as."""
    writer = NodeWriter(STAND_IN, "y", 17)
    assert movement.write(writer, "y")
    return [
        helper.make_node(node.op_type, node.inputs, node.outputs, **{
            name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            for name, value in node.attributes.items()
        })
        for node in writer.nodes
    ]


def computed(movement: Movement, given: np.ndarray) -> np.ndarray:
    """The value, by ONNX's reference."""
    graph = helper.make_graph(written(movement), "g", [helper.make_tensor_value_info("x", TensorProto.INT64, given.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, None)])
    (found,) = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).run(None, {"x": given})
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_chain_is_one_movement(seed: int) -> None:
    random = np.random.default_rng(seed)
    dims = tuple(int(size) for size in random.choice([1, 2, 3, 4, 6], size=random.integers(1, 5)))
    given = np.arange(np.prod(dims)).reshape(dims)
    value, movement = given, unmoved("x", dims)
    for _ in range(random.integers(1, 6)):
        if random.random() < 0.5:
            order = [int(axis) for axis in random.permutation(value.ndim)]
            value, movement = value.transpose(order), movement.transposed(order)
        else:
            size, target = value.size, []  # type: int, list[int]
            while size > 1 and len(target) < 4:
                target.append(int(random.choice([part for part in range(1, size + 1) if size % part == 0])))
                size //= target[-1]
            reshaped = movement.reshaped((*target, size))
            if reshaped is not None:
                value, movement = value.reshape(*target, size), reshaped
        assert movement.sizes == value.shape
    np.testing.assert_array_equal(computed(movement, given), value)
    assert sum(node.op_type == "Transpose" for node in written(movement)) <= 1


HEADS = unmoved("x", (N, L, 16)).transposed((1, 0, 2)).reshaped((L, multiply(2, N), 8))


def test_samples_come_back_to_the_front() -> None:
    """Tokens first, heads beside the samples, and back: what is left of it is the split of heads."""
    assert HEADS is not None and not HEADS.keeps_first and HEADS.mixes
    heads = HEADS.transposed((1, 0, 2))
    assert heads.keeps_first and heads.mixes
    apart = heads.reshaped((N, 2, L, 8))
    assert apart is not None and not apart.mixes
    nodes = written(apart)
    assert [node.op_type for node in nodes] == ["Constant", "Reshape", "Transpose"]
    assert onnx.numpy_helper.to_array(nodes[0].attribute[0].t).tolist() == [0, 0, 2, 8]
    assert list(nodes[-1].attribute[0].ints) == [0, 2, 1, 3]


def test_what_is_in_order_again_is_the_source() -> None:
    assert HEADS is not None
    back = HEADS.reshaped((L, N, 16))
    assert back is not None
    assert [node.op_type for node in written(back.transposed((1, 0, 2)))] == ["Identity"]


@pytest.mark.parametrize("dims", [(N, multiply(L, 3)), (N, L, 15), (L, N, 16), (N, L), (N, L, 16, 2), (N, L, 0)])
def test_dims_that_do_not_divide_so_are_refused(dims: tuple[Dim, ...]) -> None:
    assert unmoved("x", (N, L, 16)).reshaped(dims) is None


def test_dims_that_a_reshape_cannot_say_are_computed() -> None:
    """Two sizes that are open and stand elsewhere than before."""
    assert HEADS is not None
    writer = NodeWriter(STAND_IN, "y", 17)
    assert HEADS.transposed((1, 0, 2)).write(writer, "y")
    assert [node.op_type for node in writer.nodes if node.op_type not in ("Constant", "Gather", "Mul", "Div")] == [
        "Reshape", "Transpose", "Shape", "Concat", "Reshape",
    ]


def test_an_axis_of_two_open_sizes_cannot_be_divided() -> None:
    apart = unmoved("x", (multiply(N, L), 4)).reshaped((N, L, 4))
    assert apart is not None
    assert not apart.transposed((1, 0, 2)).write(NodeWriter(STAND_IN, "y", 17), "y")
