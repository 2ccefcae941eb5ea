"""Loading: real models, every element type, external data, order, versions, time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.errors import MultipleErrors, TranspileError
from onnx_systemds.model import ir
from onnx_systemds.model.load import load_model
from tests.cpu_time import check_linear
from tests.model_zoo import MODELS, model_cases, model_paths, needs_models

Kind = TensorProto.DataType


def graph_model(
    nodes: list[onnx.NodeProto],
    inputs: str = "x",
    outputs: str = "y",
    initializers: list[TensorProto] | None = None,
    opset: int = 18,
    **model: Any,
) -> onnx.ModelProto:
    def infos(names: str) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in names.split()]

    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **model)


def constants_model(*tensors: TensorProto) -> onnx.ModelProto:
    """A model with initializers that nobody uses."""
    return graph_model([helper.make_node("Identity", ["x"], ["y"])], initializers=list(tensors))


def same(found: ir.Array, expected: np.ndarray[Any, Any]) -> bool:
    if expected.dtype == object:
        expected_list = [s.decode() if isinstance(s, bytes) else s for s in expected.reshape(-1).tolist()]
        return found.dtype == object and found.shape == expected.shape and found.reshape(-1).tolist() == expected_list
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


# ---- real models


@pytest.mark.parametrize("path", model_cases("real", "generated"))
def test_shared_models_load_with_the_values_onnx_reads(path: Path) -> None:
    model, plain = load_model(path), onnx.load(path)
    _compare_graph(model.graph, plain.graph)
    assert model.opset_imports == {e.domain.replace("ai.onnx", "", e.domain == "ai.onnx"): e.version
                                   for e in plain.opset_import}
    assert len(model.functions) == len(plain.functions)


def _compare_graph(graph: ir.Graph, plain: onnx.GraphProto) -> None:
    assert [node.op_type for node in graph.nodes] == [node.op_type for node in plain.node]  # all are sorted already
    assert set(graph.initializers) == {tensor.name for tensor in plain.initializer}
    for tensor in plain.initializer:
        assert same(graph.initializers[tensor.name], numpy_helper.to_array(tensor)), tensor.name
        assert not graph.initializers[tensor.name].flags.writeable
    names = [info.name for info in plain.input if info.name not in graph.initializers]
    assert [info.name for info in graph.inputs] == names
    for node, proto in zip(graph.nodes, plain.node, strict=True):
        assert (node.inputs, node.outputs, node.name) == (tuple(proto.input), tuple(proto.output), proto.name)
        assert set(node.attributes) == {attribute.name for attribute in proto.attribute}
        for attribute in proto.attribute:
            value: Any = node.attributes[attribute.name]
            expected = helper.get_attribute_value(attribute)
            if isinstance(expected, onnx.GraphProto):
                _compare_graph(value, expected)
            elif isinstance(expected, TensorProto):
                assert same(value, numpy_helper.to_array(expected))
            elif isinstance(expected, bytes):
                assert value == expected.decode()
            elif isinstance(expected, list) and expected and isinstance(expected[0], bytes):
                assert list(value) == [part.decode() for part in expected]
            else:
                assert value == (tuple(expected) if isinstance(expected, list) else expected)


@needs_models
def test_all_shared_models_are_there() -> None:
    assert len(model_paths("real", "generated")) == 72


@needs_models
def test_operators_are_not_judged() -> None:
    assert MODELS is not None
    for name in ("removed_ops__candy", "unknown_domain__noisy_relu", "unknown_domain__qonnx_fp8"):
        assert load_model(MODELS / "reject" / f"{name}.onnx").graph.nodes


@needs_models
def test_every_missing_file_is_named_at_once() -> None:
    assert MODELS is not None
    with pytest.raises(MultipleErrors) as caught:
        load_model(MODELS / "reject" / "missing_external_data__layernorm.onnx")
    assert len(caught.value.reasons) == 25
    assert all("does not exist" in str(reason) for reason in caught.value.reasons)
    assert str(caught.value).count("hint: the model was saved in several files") == 1


# ---- arrays


ALL_TYPES = sorted(set(Kind.values()) - {TensorProto.UNDEFINED, TensorProto.STRING})


@pytest.mark.parametrize("number", ALL_TYPES, ids=lambda number: Kind.Name(number))
@pytest.mark.parametrize("count", [7, 20_000])
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
def test_every_element_type(number: int, count: int, raw: bool) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(number)
    values = (np.arange(count) % 2).astype(dtype).reshape(1, count)
    if raw:
        tensor = numpy_helper.from_array(values, "w")
    else:
        tensor = helper.make_tensor("w", number, values.shape, values.reshape(-1).tolist())
    assert tensor.data_type == number
    found = load_model(constants_model(tensor).SerializeToString()).graph.initializers["w"]
    assert same(found, numpy_helper.to_array(tensor))
    assert not found.flags.writeable


def test_empty_and_scalar_tensors() -> None:
    arrays = {"e": np.zeros((0, 3), np.float32), "s": np.float64(3.5).reshape(()), "i": np.zeros((2, 0), np.int64)}
    model = load_model(constants_model(*(numpy_helper.from_array(v, k) for k, v in arrays.items())))
    for name, value in arrays.items():
        assert same(model.graph.initializers[name], value)


def test_strings() -> None:
    values = np.array([["a", "ü"], ["", "\n"]], dtype=object)
    found = load_model(constants_model(numpy_helper.from_array(values, "w"))).graph.initializers["w"]
    assert found.dtype == object
    assert found.tolist() == [["a", "ü"], ["", "\n"]]


def test_booleans_are_zero_or_one() -> None:
    found = load_model(constants_model(TensorProto(name="w", data_type=9, dims=[3], raw_data=b"\0\2\1")))
    assert found.graph.initializers["w"].view(np.uint8).tolist() == [0, 1, 1]


def test_sparse_initializers_are_written_out() -> None:
    big = np.arange(2000, dtype=np.float32)
    model = constants_model()
    for name, indices in (("lin", np.arange(2000) * 2), ("coo", np.stack([np.arange(2000) // 4, np.arange(2000) % 4], 1))):
        values = numpy_helper.from_array(big, name)
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices, name + "_i"), [500, 8])
        model.graph.sparse_initializer.append(sparse)
    found = load_model(model).graph.initializers
    assert np.array_equal(found["lin"].reshape(-1)[::2], big)
    assert np.array_equal(found["coo"][:, :4].reshape(-1), big)
    assert found["coo"][:, 4:].sum() == 0


# ---- external data


def external(name: str, location: str, dims: list[int], dtype: int = 1, **entries: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_external_data_in_several_files(tmp_path: Path) -> None:
    values = np.arange(100, dtype=np.float32)
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.bin").write_bytes(b"skip" + values.tobytes() + b"rest")
    (tmp_path / "sub" / "b.bin").write_bytes(values.astype(ml_dtypes.bfloat16).tobytes() + b"\x21\x03")
    model = constants_model(
        external("a", "a.bin", [10, 10], offset=4, length=400),
        external("no_length", "a.bin", [50], offset=204),
        external("b", "sub/b.bin", [100], TensorProto.BFLOAT16),
        external("packed", "sub/b.bin", [3], TensorProto.INT4, offset=200, length=2),
        external("nothing", "a.bin", [0, 4], length=0),
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = load_model(tmp_path / "m.onnx").graph.initializers
    assert np.array_equal(found["a"], values.reshape(10, 10))
    assert np.array_equal(found["no_length"], values[50:])
    assert same(found["b"], values.astype(ml_dtypes.bfloat16))
    assert found["packed"].astype(int).tolist() == [1, 2, 3]
    assert found["nothing"].shape == (0, 4)


def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real.bin").write_bytes(bytes(8))
    (tmp_path / "link.bin").symlink_to("real.bin")
    (tmp_path / "m.onnx").write_bytes(constants_model(external("w", "link.bin", [2])).SerializeToString())
    assert load_model(str(tmp_path / "m.onnx")).graph.initializers["w"].tolist() == [0, 0]


# ---- graphs


def test_inputs_that_an_initializer_defines_are_dropped_and_the_order_kept() -> None:
    node = helper.make_node("Sum", ["a", "w", "b"], ["y"])
    weight = numpy_helper.from_array(np.zeros(2, np.float32), "w")
    model = load_model(graph_model([node], "a w b", initializers=[weight], ir_version=3))
    assert [info.name for info in model.graph.inputs] == ["a", "b"]
    assert model.graph.inputs[0].type == ir.TensorType("float", ("N",))


def test_unsorted_nodes_are_sorted_and_sorted_ones_kept() -> None:
    nodes = [helper.make_node("Relu", [a], [b], name=b) for a, b in ("cy", "bc", "ab", "xa")]
    nodes.append(helper.make_node("Tanh", ["x"], ["unused"], name="last"))
    model = load_model(graph_model(nodes))
    assert [node.name for node in model.graph.nodes] == ["a", "b", "c", "y", "last"]
    assert [node.index for node in model.graph.nodes] == [0, 1, 2, 3, 4]
    kept = [helper.make_node("Relu", [a], [b], name=b) for a, b in (("x", "q"), ("x", "a"), ("q", "y"))]
    assert [node.name for node in load_model(graph_model(kept)).graph.nodes] == ["q", "a", "y"]


def test_names_that_subgraphs_capture_count_as_inputs() -> None:
    inner = helper.make_graph(
        [helper.make_node("Neg", ["t"], ["r"], name="neg"), helper.make_node("Add", ["late", "x"], ["t"], name="add")],
        "branch", [], [helper.make_tensor_value_info("r", 1, ["N"])],
    )
    branch = helper.make_node("If", ["cond"], ["y"], name="if", then_branch=inner, else_branch=inner)
    late = helper.make_node("Relu", ["x"], ["late"], name="late")
    model = graph_model([branch, late])
    model.graph.input.append(helper.make_tensor_value_info("cond", TensorProto.BOOL, []))
    loaded = load_model(model).graph
    assert [node.name for node in loaded.nodes] == ["late", "if"]
    then = loaded.nodes[1].attributes["then_branch"]
    assert isinstance(then, ir.Graph)
    assert [node.name for node in then.nodes] == ["add", "neg"]


def test_versions_and_domains() -> None:
    body = [helper.make_node("Softmax", ["a"], ["b"], axis=1), helper.make_node("Relu", ["b"], ["c"])]
    body[0].attribute[0].ClearField("i")
    body[0].attribute[0].ref_attr_name = "along"
    function = helper.make_function("own", "F", ["a"], ["c"], body, [helper.make_opsetid("", 13)], ["along"])
    call = helper.make_node("F", ["x"], ["t"], domain="own", along=1)
    model = graph_model([call, helper.make_node("Relu", ["t"], ["y"], domain="ai.onnx")], functions=[function])
    model.opset_import.add(domain="own", version=3)
    loaded = load_model(model)
    assert [(node.identity, node.version) for node in loaded.graph.nodes] == [(("own", "F"), 3), (("", "Relu"), 18)]
    found = loaded.functions["own", "F", ""]
    assert [node.version for node in found.nodes] == [13, 13]
    assert found.nodes[0].attributes["axis"] == ir.AttributeReference("along")
    assert found.attributes == {"along": None}


def test_attribute_values() -> None:
    node = helper.make_node(
        "Any", [""], ["y", ""], domain="own", i=3, f=0.1, s="ü", b=b"\xff", ints=[1, 2], floats=[0.5], strings=["a", "b"],
        t=numpy_helper.from_array(np.ones(2, np.float16)), tp=helper.make_sequence_type_proto(
            helper.make_tensor_type_proto(TensorProto.INT64, ["a", None, 3, " "])),
        sp=helper.make_sparse_tensor(numpy_helper.from_array(np.ones(2, np.float32), "v"),
                                     numpy_helper.from_array(np.array([0, 2]), "i"), [4]),
        g=helper.make_graph([], "inner", [], []),
    )
    model = graph_model([node])
    model.opset_import.add(domain="own", version=1)
    found: Any = load_model(model).graph.nodes[0]
    values = found.attributes
    assert (found.inputs, found.outputs) == (("",), ("y", ""))
    assert (values["i"], values["f"], values["s"], values["b"]) == (3, float(np.float32(0.1)), "ü", b"\xff")
    assert (values["ints"], values["floats"], values["strings"]) == ((1, 2), (0.5,), ("a", "b"))
    assert same(values["t"], np.ones(2, np.float16))
    assert values["tp"] == ir.SequenceType(ir.TensorType("int64", ("a", None, 3, None)))
    assert (values["sp"].dims, values["sp"].indices.tolist()) == ((4,), [0, 2])
    assert values["g"].name == "inner"


def test_a_newer_ir_version_is_no_reason_to_refuse() -> None:
    assert load_model(graph_model([helper.make_node("Relu", ["x"], ["y"])], ir_version=99)).ir_version == 99


def test_the_callers_protobuf_is_left_alone() -> None:
    model = constants_model(numpy_helper.from_array(np.zeros(5000, np.float32), "w"))
    before = model.SerializeToString(deterministic=True)
    load_model(model)
    assert model.SerializeToString(deterministic=True) == before


# ---- time and memory


def chain(count: int, shuffled: bool = False) -> bytes:
    order = range(count - 1, -1, -1) if shuffled else range(count)
    nodes = [helper.make_node("Softmax", [f"v{i}"], [f"v{i + 1}"], name=f"n{i}", axis=0) for i in order]
    return bytes(graph_model(nodes, "v0", f"v{count}").SerializeToString())


@pytest.mark.slow("linear time shows in large models only")
@pytest.mark.parametrize("shuffled", [False, True])
def test_twenty_thousand_nodes_load_in_linear_time(shuffled: bool) -> None:
    models = {count: chain(count, shuffled) for count in (2_000, 20_000)}
    assert len(load_model(models[20_000]).graph.nodes) == 20_000
    check_linear(lambda count: load_model(models[count]), 2_000)


MEASURE = """
import sys
import numpy as np
from onnx_systemds.model.load import load_model
import onnx.checker

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

load_model(sys.argv[1])  # a small one first: imports and caches belong to the baseline
base = resident()
model = load_model(sys.argv[2])
loaded = resident()
array = model.graph.initializers["w"]
total = float(array[:, 0].sum())
touched = resident()
model.release(array)
print(loaded - base, touched - base, resident() - base, total)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
@pytest.mark.slow("writes and reads 200 MB")
@pytest.mark.parametrize("place", ["embedded", "external"])
def test_two_hundred_megabytes_stay_in_the_file(tmp_path: Path, place: str) -> None:
    rows = 50
    values = np.zeros((rows, 2**20), np.float32)  # 200 MiB
    values[:, 0] = 1
    small, big = tmp_path / "small.onnx", tmp_path / "big.onnx"
    small.write_bytes(constants_model().SerializeToString())
    if place == "embedded":
        big.write_bytes(constants_model(numpy_helper.from_array(values, "w")).SerializeToString())
    else:
        values.tofile(tmp_path / "w.bin")
        big.write_bytes(constants_model(external("w", "w.bin", [rows, 2**20])).SerializeToString())
    del values
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(small), str(big)], cwd=root, capture_output=True, text=True, check=True
    )
    loaded, touched, released, total = map(float, done.stdout.split())
    assert total == rows
    assert loaded < 60
    assert released <= touched
    assert released < 60


def test_release_drops_pages_and_keeps_values(tmp_path: Path) -> None:
    values = np.arange(8 * 2**20, dtype=np.float32).reshape(8, -1)  # 32 MiB: mapped
    (tmp_path / "m.onnx").write_bytes(constants_model(numpy_helper.from_array(values, "w")).SerializeToString())
    model = load_model(tmp_path / "m.onnx")
    for array in (model.graph.initializers["w"], model.graph.initializers["w"][2:5, ::3], np.ones(3)):
        expected = array.copy()
        model.release(array)
        assert np.array_equal(array, expected)


# ---- what the errors look like


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda m: m.graph.node[0].input.__setitem__(0, "q"), ['graph "g" node "#0" (ai.onnx.Relu, opset 18): ', '"q"']),
        (lambda m: m.graph.output[0].__setattr__("name", "z"), ['graph "g": nothing produces the output "z"']),
    ],
)
def test_messages_carry_their_place(change: Callable[[onnx.ModelProto], None], parts: list[str]) -> None:
    model = graph_model([helper.make_node("Relu", ["x"], ["y"])])
    change(model)
    with pytest.raises(TranspileError) as caught:
        load_model(model)
    for part in parts:
        assert part in str(caught.value)


def test_an_initializer_of_ir_version_3_that_is_no_input() -> None:
    weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", info[:1], info[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=3)
    assert [given.name for given in load_model(model).graph.inputs] == ["x"]
