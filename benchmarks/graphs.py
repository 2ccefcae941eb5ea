"""Models that benchmarks and tests make for themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def chain(nodes: int) -> onnx.ModelProto:
    """A chain of ``nodes`` elementwise nodes of four kinds with small constants, on [batch, 8]."""
    made, constants, last = [], [], "X"
    for position in range(nodes):
        out = "Y" if position == nodes - 1 else f"/block{position // 8}/node{position}_output"
        kind = position % 4
        if kind == 0:
            made.append(helper.make_node("Relu", [last], [out], name=f"relu{position}"))
        elif kind == 1:
            constants.append(numpy_helper.from_array(np.full((8,), 0.5, np.float32), f"scale{position}"))
            made.append(helper.make_node("Mul", [last, f"scale{position}"], [out], name=f"mul{position}"))
        elif kind == 2:
            constants.append(numpy_helper.from_array(np.linspace(0, 1, 8).astype(np.float32), f"shift{position}"))
            made.append(helper.make_node("Add", [last, f"shift{position}"], [out], name=f"add{position}"))
        else:
            made.append(helper.make_node("Tanh", [last], [out], name=f"tanh{position}"))
        last = out
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in "XY"]
    graph = helper.make_graph(made, f"chain{nodes}", info[:1], info[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_external(path: Path, megabytes: int, files: int = 4, width: int = 4096) -> None:
    """A model whose float32 weights lie beside it in several files; each matrix begins with its number."""
    matrices = max(1, megabytes * (1 << 20) // (width * width * 4))
    nodes = [helper.make_node("MatMul", [f"h{i}" if i else "X", f"W{i}"], [f"h{i + 1}"]) for i in range(matrices)]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in ("X", f"h{matrices}")]
    noise = (np.random.default_rng(0).standard_normal((width, width)) * 0.01).astype(np.float32)
    tensors = []
    for position in range(matrices):
        location = f"{path.stem}.{position % files}.data"
        with (path.parent / location).open("ab") as stream:
            entries = {"location": location, "offset": str(stream.tell()), "length": str(noise.nbytes)}
            noise[0, 0] = position
            stream.write(noise.tobytes())
        tensor = TensorProto(name=f"W{position}", dims=[width, width], data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
    graph = helper.make_graph(nodes, "external", infos[:1], infos[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_embedded(path: Path, megabytes: int, width: int = 4096) -> None:
    """A model file with ``megabytes`` of float32 weights embedded, written without holding it in memory."""
    row_bytes = width * 4
    rows_total = megabytes * (1 << 20) // row_bytes
    matrices = max(1, rows_total // width)
    nodes = [helper.make_node("MatMul", [f"h{i}" if i else "X", f"W{i}"], [f"h{i + 1}"]) for i in range(matrices)]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in ("X", f"h{matrices}")]
    graph = helper.make_graph(nodes, "embedded", infos[:1], infos[1:])
    head = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    graph_bytes = head.graph.SerializeToString()
    head.ClearField("graph")
    bare = onnx.TensorProto(dims=[width, width], data_type=TensorProto.FLOAT)
    tensors = []
    size = width * row_bytes
    for position in range(matrices):
        bare.name = f"W{position}"
        prefix = bare.SerializeToString() + b"\x4a" + _varint(size)  # field 9: raw_data
        tensors.append(b"\x2a" + _varint(len(prefix) + size) + prefix)  # field 5: initializer
    total = len(graph_bytes) + sum(len(prefix) + size for prefix in tensors)
    generator = np.random.default_rng(0)
    block = (generator.standard_normal((width, width)) * 0.01).astype(np.float32)
    with path.open("wb") as stream:
        stream.write(head.SerializeToString() + b"\x3a" + _varint(total) + graph_bytes)  # field 7: graph
        for prefix in tensors:
            stream.write(prefix)
            stream.write(block.tobytes())


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
