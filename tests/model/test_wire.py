"""The walk over the wire format: what is cut, what is left, what is refused."""

from __future__ import annotations

import mmap
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.errors import InvalidModel
from onnx_systemds.model.wire import CUT_KEY, THRESHOLD, Cut, cut_model, cut_of

BIG = np.arange(3000, dtype=np.float32)


def model_of(*initializers: TensorProto, nodes: tuple[onnx.NodeProto, ...] = ()) -> onnx.ModelProto:
    return helper.make_model(helper.make_graph(list(nodes), "g", [], [], list(initializers)))


def parsed(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.ParseFromString(data)
    return model


def restored(data: bytes) -> onnx.ModelProto:
    """Cut `data`, parse the skeleton and put every cut of the initializers back from its noted place."""
    skeleton = cut_model(data)
    model = parsed(skeleton.data)
    for tensor in model.graph.initializer:
        cut = cut_of(tensor, skeleton.cuts)
        if cut is not None:
            del tensor.external_data[:]
            piece = data[cut.offset : cut.offset + cut.length]
            if cut.field == "raw_data":
                tensor.raw_data = piece
            else:
                getattr(tensor, cut.field).extend(np.frombuffer(piece, "<f4" if cut.field == "float_data" else "<f8"))
    return model


def test_small_models_stay_as_they_are() -> None:
    data = model_of(numpy_helper.from_array(BIG[:10], "w")).SerializeToString()
    assert cut_model(data).data == data
    assert not cut_model(data).cuts


def test_cuts_raw_and_packed_data_and_nothing_else() -> None:
    doubles = helper.make_tensor("d", TensorProto.DOUBLE, [3000], BIG.astype(np.float64).tolist())
    floats = helper.make_tensor("f", TensorProto.FLOAT, [3000], BIG.tolist())
    model = model_of(numpy_helper.from_array(BIG, "w"), doubles, floats, numpy_helper.from_array(BIG[:3], "small"))
    model.doc_string = "a long text " * THRESHOLD
    data = model.SerializeToString()
    skeleton = cut_model(data)
    assert [cut.field for cut in skeleton.cuts] == ["raw_data", "double_data", "float_data"]
    assert [cut.length for cut in skeleton.cuts] == [12000, 24000, 12000]
    assert len(skeleton.data) < len(model.doc_string) + 1000
    assert restored(data) == model


def test_cuts_in_attributes_subgraphs_sparse_tensors_and_functions() -> None:
    tensor = numpy_helper.from_array(BIG, "t")
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    sparse = helper.make_sparse_tensor(tensor, numpy_helper.from_array(np.arange(3000), "i"), [5000])
    inner = helper.make_graph([constant], "inner", [], [], [tensor])
    branch = helper.make_node("If", ["p"], ["y"], then_branch=inner, else_branch=inner)
    model = model_of(nodes=(constant, branch, helper.make_node("Constant", [], ["s"], sparse_value=sparse)))
    model.functions.append(helper.make_function("d", "f", [], ["c"], [constant], [helper.make_opsetid("", 18)]))
    data = model.SerializeToString()
    skeleton = cut_model(data)
    assert len(skeleton.cuts) == 1 + 4 + 2 + 1
    assert len(skeleton.data) < 1500
    for cut in skeleton.cuts:
        assert cut.length in (12000, 24000)
        assert np.frombuffer(data, "<f4" if cut.length == 12000 else "<i8", 3000, cut.offset)[2999] == 2999


def test_a_mapped_file_is_cut_like_bytes(tmp_path: Path) -> None:
    data = model_of(numpy_helper.from_array(BIG, "w")).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    with (tmp_path / "m.onnx").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert cut_model(mapped) == cut_model(data)


def test_data_in_two_fields_of_one_kind_is_left_to_protobuf() -> None:
    """Protobuf takes the last raw_data; a cut would have to choose."""
    one = TensorProto(name="w", data_type=1, dims=[3000], raw_data=bytes(12000)).SerializeToString()
    both = one + TensorProto(raw_data=BIG.tobytes()).SerializeToString()
    graph = b"\x2a" + _varint(len(both)) + both
    data = b"\x3a" + _varint(len(graph)) + graph
    assert cut_model(data).data == data
    assert parsed(data).graph.initializer[0].raw_data == BIG.tobytes()


def test_many_repeated_fields_are_not_walked() -> None:
    """A tree ensemble has millions of unpacked attribute elements: the walk must not look at each."""
    node = helper.make_node("T", [], ["y"], domain="d", values=[1.5] * 400_000)
    data = model_of(nodes=(node,)).SerializeToString()

    class Counting(bytes):
        reads = 0

        def __getitem__(self, key):  # type: ignore[no-untyped-def]
            Counting.reads += 1
            return super().__getitem__(key)

    assert cut_model(Counting(data)).data == data
    assert Counting.reads < 500


def test_forged_entries_are_refused() -> None:
    cuts = (Cut("raw_data", 0, 4),)
    for value in ("1", "-1", "x", "", "9" * 5000, "²"):
        forged = TensorProto()
        forged.external_data.add(key=CUT_KEY, value=value)
        with pytest.raises(InvalidModel):
            cut_of(forged, cuts)
    assert cut_of(TensorProto(), cuts) is None


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"\x3a", "inside a field"),
        (b"\x3a\xff\xff\xff\xff\x7f", "bytes where"),
        (b"\x3a\x05abc", "bytes where"),
        (b"\xff" * 20, "ten bytes"),
        (b"\x08" + b"\xff" * 20, "ten bytes"),
        (b"\x0b\x0c", "wire type 3"),
        (b"\x0f", "wire type 7"),
        (b"\x02\x01a", "field number 0"),
        (b"\x0d\x01\x02", "inside a field"),
        (b"\x09\x01\x02", "inside a field"),
    ],
)
def test_garbage_is_refused(data: bytes, word: str) -> None:
    with pytest.raises(InvalidModel, match=word):
        cut_model(data)


def test_a_field_of_an_inner_message_must_not_reach_beyond_it() -> None:
    tensor = TensorProto(name="w", raw_data=BIG.tobytes()).SerializeToString() + b"\x0d\x01"  # wants 4 bytes, has 1
    graph = b"\x2a" + _varint(len(tensor)) + tensor
    data = b"\x3a" + _varint(len(graph)) + graph + bytes(100)
    with pytest.raises(InvalidModel, match="inside a field"):
        cut_model(data)


def test_random_damage_ends_in_an_error_or_a_parse() -> None:
    data = model_of(numpy_helper.from_array(BIG[:200], "w"), numpy_helper.from_array(BIG, "v")).SerializeToString()
    pick = random.Random(7)
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(pick.randrange(1, 5)):
            damaged[pick.choice([pick.randrange(120), pick.randrange(len(data))])] = pick.randrange(256)
        try:
            skeleton = cut_model(bytes(damaged), threshold=64)
        except InvalidModel:
            continue
        assert len(skeleton.data) <= len(damaged) + 50 * len(skeleton.cuts)


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])
