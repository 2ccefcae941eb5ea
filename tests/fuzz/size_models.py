"""Random arithmetic of sizes: of the input's dims, from which slices, ranges, pads and shapes are made, called at several sizes.

What a conversion knows of sizes it knows by rules, of which one is wrong where a size is 1, or a position is negative or 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from tests.fuzz.drawing import Draw
from tests.fuzz.graph_builder import Parts
from tests.fuzz.judging import ModelCase

_OPSET = 17
_CALLS = 4
_LARGEST = 6


@dataclass
class _Sizes(Parts):
    """A graph in the making. sizes: single integers; lists: columns of them with their lengths; tensors: with their ranks.

    dims: the sizes of the input, by which there is always a quotient.
    """

    draw: Draw
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    dims: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    lists: list[tuple[str, int]] = field(default_factory=list)
    tensors: list[tuple[str, int]] = field(default_factory=list)

    def size(self) -> str:
        """A single integer: one that is computed, or a small one."""
        return self.draw.one(*self.sizes) if self.draw.chance(0.6) else self.constant(self.draw.int(-3, 5))

    def place(self) -> str:
        """A column of one integer."""
        if self.draw.chance(0.6):
            return self.add("Unsqueeze", self.draw.one(*self.sizes), self.constant([0]))
        return self.constant([self.draw.int(-3, 5)])


def _arithmetic(made: _Sizes) -> None:
    op_type = made.draw.one("Add", "Sub", "Sub", "Mul", "Min", "Max")
    made.sizes.append(made.add(op_type, made.size(), made.size()))


def _quotient(made: _Sizes) -> None:
    """By a size or a number that is not 0."""
    divisor = made.draw.one(*made.dims) if made.draw.chance(0.4) else made.constant(made.draw.one(2, 2, 3, 4, -1, -2))
    made.sizes.append(made.add(made.draw.one("Div", "Div", "Mod"), made.size(), divisor))


def _sign(made: _Sizes) -> None:
    made.sizes.append(made.add(made.draw.one("Neg", "Abs", "Sign"), made.draw.one(*made.sizes)))


def _choice(made: _Sizes) -> None:
    op_type = made.draw.one("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    condition = made.add(op_type, made.size(), made.size())
    made.sizes.append(made.add("Where", condition, made.size(), made.size()) if made.draw.chance(0.7)
                      else made.add("Cast", condition, to=TensorProto.INT64))


def _scaled(made: _Sizes) -> None:
    """As exporters compute the sizes of a Resize."""
    number = made.add("Cast", made.draw.one(*made.sizes), to=TensorProto.FLOAT)
    factor = made.constant(made.draw.one(0.5, 2.0, 0.25, 1.5, -1.0), np.float32)
    scaled = made.add(made.draw.one("Mul", "Div"), number, factor)
    made.sizes.append(made.add("Cast", made.add(made.draw.one("Floor", "Ceil"), scaled), to=TensorProto.INT64))


def _list(made: _Sizes) -> None:
    count = made.draw.int(1, 4)
    made.lists.append((made.add("Concat", *(made.place() for _ in range(count)), axis=0), count))


def _of_list(made: _Sizes) -> None:
    name, count = made.draw.one(*made.lists)
    if made.draw.chance(0.5):
        made.sizes.append(made.add("Gather", name, made.constant(made.draw.int(-count, count - 1))))
    elif made.draw.chance(0.5):
        made.sizes.append(made.add(made.draw.one("ReduceProd", "ReduceMax", "ReduceMin"), name, keepdims=0))
    else:
        made.lists.append((made.add("CumSum", name, made.constant(0), reverse=made.draw.flag()), count))


def _range(made: _Sizes) -> None:
    start = made.size() if made.draw.chance(0.5) else made.constant(0)
    name = made.add("Range", start, made.draw.one(*made.sizes), made.constant(made.draw.one(1, 1, 2, 3, -1, -2)))
    if made.draw.chance(0.5):
        made.sizes.append(made.add("Size", name))
    else:
        made.tensors.append((name, 1))


def _slice(made: _Sizes) -> None:
    """Backwards no end lies beyond the first element: onnxruntime takes it for that one, against the definition."""
    name, rank = made.draw.one(*made.tensors)
    step = made.draw.one(1, 1, 1, 2, 3, -1, -2)
    end = made.constant([2**63 - 1]) if step > 0 and made.draw.chance(0.3) else made.place()
    where = [made.place(), end, made.constant([made.draw.int(-rank, rank - 1)])]
    made.tensors.append((made.add("Slice", name, *where, made.constant([step])), rank))


def _pad(made: _Sizes) -> None:
    name, rank = made.draw.one(*made.tensors)
    amounts = [made.constant([made.draw.int(-1, 2)]) if made.draw.chance(0.6) else made.place() for _ in range(2 * rank)]
    made.tensors.append((made.add("Pad", name, made.add("Concat", *amounts, axis=0)), rank))


def _reshaped(made: _Sizes) -> None:
    name, rank = made.draw.one(*made.tensors)
    way = made.draw.int(0, 4)
    if way == 0:
        made.tensors.append((made.add("Reshape", name, made.constant([-1])), 1))
    elif way == 1:
        shape = made.add("Concat", made.place(), made.constant([-1]), axis=0)
        made.tensors.append((made.add("Reshape", name, shape), 2))
    elif way == 2:
        made.tensors.append((made.add("Concat", name, name, axis=made.draw.int(0, rank - 1)), rank))
    elif way == 3:
        made.tensors.append((made.add("Tile", name, made.constant([made.draw.int(1, 3) for _ in range(rank)])), rank))
    else:
        perm = [int(axis) for axis in made.draw.rng.permutation(rank)]
        made.tensors.append((made.add("Transpose", name, perm=perm), rank))


def _filled(made: _Sizes) -> None:
    size = made.add("Max", made.draw.one(*made.sizes), made.constant(0))
    made.tensors.append((made.add("ConstantOfShape", made.add("Unsqueeze", size, made.constant([0]))), 1))


def _windows(made: _Sizes) -> None:
    images = [name for name, rank in made.tensors if rank == 3]
    kernel = made.draw.int(1, 3)
    attributes: dict[str, Any] = {"kernel_shape": [kernel], "strides": [made.draw.int(1, 3)]}
    attributes |= made.draw.one({}, {"pads": [made.draw.int(0, kernel - 1), made.draw.int(0, kernel - 1)]},
                                {"auto_pad": made.draw.one("SAME_UPPER", "SAME_LOWER")})
    made.tensors.append((made.add("MaxPool", made.draw.one(*images), **attributes), 3))


def _shape(made: _Sizes) -> None:
    name, rank = made.draw.one(*made.tensors)
    if made.draw.chance(0.5):
        made.lists.append((made.add("Shape", name), rank))
    else:
        made.sizes.append(made.add("Size", name))


_STEPS: tuple[Callable[[_Sizes], None], ...] = (
    _arithmetic, _arithmetic, _arithmetic, _quotient, _quotient, _sign, _choice, _scaled, _list, _of_list, _range, _range,
    _slice, _slice, _slice, _pad, _reshaped, _filled, _windows, _shape, _shape,
)


def case(seed: int) -> ModelCase:
    """A model of a seed, at some sizes of its input, of which the last one may be known."""
    draw = Draw(seed)
    made = _Sizes(draw, tensors=[("x", 3)])
    made.lists.append((made.add("Shape", "x"), 3))
    made.dims += [made.add("Gather", "v0", made.constant(axis)) for axis in range(3)]
    made.sizes += made.dims
    for _ in range(draw.int(3, 9)):
        draw.one(*_STEPS)(made)
    last: int | str = 4 if draw.chance(0.5) else "k"
    model = _model(made, ["n", "m", last])
    shapes = [(draw.int(1, _LARGEST), draw.int(1, _LARGEST), 4 if last == 4 else draw.int(1, _LARGEST)) for _ in range(_CALLS)]
    return ModelCase(seed, model, tuple({"x": draw.parameters(*shape)} for shape in shapes), 1 if seed % 2 else 20)


def _model(made: _Sizes, dims: list[int | str]) -> onnx.ModelProto:
    """The model of the nodes; what none of them takes is a result, of open dims."""
    taken = {name for node in made.nodes for name in node.input}
    results = [node.output[0] for node in made.nodes if node.output[0] not in taken]
    graph = helper.make_graph(
        made.nodes, "sizes", [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [onnx.ValueInfoProto(name=name) for name in results], made.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    for output, inferred in zip(model.graph.output, onnx.shape_inference.infer_shapes(model).graph.output):
        output.type.CopyFrom(inferred.type)
        for dim in output.type.tensor_type.shape.dim:
            dim.Clear()
    return model
