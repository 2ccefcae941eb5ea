"""Random chains of Transposes, Reshapes and what treats rows alone, of open sizes; onnxruntime judges."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.verifying.verify import verify_model

GROUPS = 12
IN_GROUP = 60


@dataclass
class Chain:
    """A model in the making. sizes: of the last value, in a call; opens: whether each is open."""

    random: np.random.Generator
    sizes: list[int]
    opens: list[bool]
    name: str = "X"
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def constant(self, value: object, dtype: type = np.int64) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *dims: int) -> str:
        return self.constant(self.random.normal(size=dims), np.float32)

    def emit(self, op_type: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def dims(self) -> list[str]:
        """A vector of one element for each dim, computed where it is open."""
        return [self.emit("Gather", self.emit("Shape", self.name), self.constant([axis])) if is_open else self.constant([size])
                for axis, (size, is_open) in enumerate(zip(self.sizes, self.opens))]

    def reshape(self, dims: list[str]) -> None:
        self.name = self.emit("Reshape", self.name, self.emit("Concat", *dims, axis=0))

    def transpose(self) -> None:
        rank = len(self.sizes)
        order = [1, 0, *range(2, rank)] if rank > 2 and self.random.random() < 0.6 else [int(axis) for axis in self.random.permutation(rank)]
        self.name = self.emit("Transpose", self.name, perm=order)
        self.sizes, self.opens = [self.sizes[axis] for axis in order], [self.opens[axis] for axis in order]

    def split(self) -> None:
        axis = int(self.random.integers(len(self.sizes)))
        size = self.sizes[axis]
        factors = [factor for factor in range(2, size) if size % factor == 0]
        if factors and not self.opens[axis] and len(self.sizes) < 5:
            parts = [int(self.random.choice(factors))]
            parts.append(size // parts[0])
            dims = self.dims()
            self.reshape([*dims[:axis], *map(self.constant, ([part] for part in parts)), *dims[axis + 1 :]])
            self.sizes[axis : axis + 1], self.opens[axis : axis + 1] = parts, [False, False]

    def join(self) -> None:
        axis = int(self.random.integers(len(self.sizes)))
        if axis + 1 < len(self.sizes):
            dims = self.dims()
            self.reshape([*dims[:axis], self.emit("Mul", *dims[axis : axis + 2]), *dims[axis + 2 :]])
            self.sizes[axis : axis + 2] = [self.sizes[axis] * self.sizes[axis + 1]]
            self.opens[axis : axis + 2] = [any(self.opens[axis : axis + 2])]

    def product(self) -> None:
        if self.opens[-1] or len(self.sizes) < 2:
            return
        inside, width = self.sizes[-1], int(self.random.integers(1, 9))
        if len(self.sizes) > 2:
            self.name = self.emit("MatMul", self.name, self.weights(inside, width))
        else:
            turned = int(self.random.integers(2))
            bias = [self.weights(*((width,), (1, width), (1,))[self.random.integers(3)])][: self.random.integers(2)]
            weight = self.weights(*((width, inside) if turned else (inside, width)))
            self.name = self.emit("Gemm", self.name, weight, *bias, transB=turned)
        self.sizes[-1] = width

    def elements(self) -> None:
        operands = [self.name, self.weights(1 if self.opens[-1] else self.sizes[-1])]
        op_type = str(self.random.choice(["Add", "Sub", "Mul"]))
        self.name = self.emit(op_type, *(operands[::-1] if self.random.random() < 0.3 else operands))

    def part(self) -> None:
        """A Slice, or a part of a Split, of the last axis, or a Slice of another one."""
        axis = len(self.sizes) - 1 if self.random.random() < 0.8 else int(self.random.integers(len(self.sizes)))
        size, named = self.sizes[axis], axis - int(self.random.integers(2)) * len(self.sizes)
        if self.opens[axis] or size < 2:
            return
        first = int(self.random.integers(1, size))
        if self.random.random() < 0.5:
            bounds = [self.constant([bound]) for bound in (first - 1, size, named)]
            self.name, self.sizes[axis] = self.emit("Slice", self.name, *bounds), size - first + 1
        else:
            names = [f"p{len(self.nodes)}", f"q{len(self.nodes)}"]
            lengths = self.constant([first, size - first])
            self.nodes.append(helper.make_node("Split", [self.name, lengths], names, axis=named))
            chosen = int(self.random.integers(2))
            self.name, self.sizes[axis] = names[chosen], (first, size - first)[chosen]

    def gather(self) -> None:
        if len(self.sizes) > 2:
            axis = int(self.random.integers(len(self.sizes)))
            place = 0 if self.opens[axis] else int(self.random.integers(self.sizes[axis]))
            self.name = self.emit("Gather", self.name, self.constant(place), axis=axis)
            del self.sizes[axis], self.opens[axis]


def drawn(seed: int) -> tuple[ModelProto, list[dict[str, np.ndarray]]]:
    """A model, and inputs of two sizes."""
    random = np.random.default_rng(seed)
    sizes = [int(size) for size in random.integers(2, 5, size=random.integers(2, 5))]
    opens = [bool(is_open) for is_open in random.permutation([True, *(len(sizes) - 1) * [False]])]
    opens[int(random.integers(len(sizes)))] = True
    chain = Chain(random, list(sizes), list(opens))
    steps = (chain.transpose, chain.transpose, chain.split, chain.join, chain.product, chain.elements, chain.gather,
             chain.part)
    for _ in range(14):
        steps[random.integers(len(steps))]()
    names = [f"N{axis}" if is_open else size for axis, (size, is_open) in enumerate(zip(sizes, opens))]
    graph = helper.make_graph(chain.nodes, "g", [helper.make_tensor_value_info("X", TensorProto.FLOAT, names)],
                              [helper.make_tensor_value_info(chain.name, TensorProto.FLOAT, None)], chain.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    further = [size + is_open for size, is_open in zip(sizes, opens)]
    return model, [{"X": random.normal(size=dims).astype(np.float32)} for dims in (sizes, further)]


def fires(model: ModelProto) -> bool:
    return any(note.rule == "samples-first" and note.fired for note in import_model(model).notes)


@pytest.mark.engine
@pytest.mark.parametrize("group", range(GROUPS))
def test_drawn_chains_give_what_onnxruntime_gives(group: int) -> None:
    found = 0
    for seed in range(group * IN_GROUP, (group + 1) * IN_GROUP):
        model, calls = drawn(seed)
        if not model.graph.node or not fires(model):
            continue
        found += 1
        runtime = onnxruntime.InferenceSession(model.SerializeToString())
        for feeds in calls:
            (expected,) = runtime.run(None, feeds)
            report = verify_model(model, feeds, expected={model.graph.output[0].name: expected})
            assert report.passed, f"seed {seed}\n{report}"
    assert found
