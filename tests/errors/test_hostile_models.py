"""Hostile files end in one TranspileError that names the culprit, quickly and in bounded memory."""

from __future__ import annotations

import errno
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.errors import InvalidModel, MultipleErrors, TranspileError
from onnx_systemds.model.load import load_model
from tests.invoking import invoke

SECONDS = 2.0
MOST_MEMORY = 64 * 2**20  # bytes that Python and numpy may hold at once; protobuf's own are bounded by the file


def info(name: str, dims: list[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"] if dims is None else dims)


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), name=name, **attributes)


def model_of(*nodes: onnx.NodeProto, initializers: tuple[TensorProto, ...] = (), opset: int = 18) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes) or [node("Relu", "x", "y")], "g", [info("x")], [info("y")], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def tensor(name: str = "bad_tensor", dtype: int = 1, dims: tuple[int, ...] = (4,), **fields: Any) -> TensorProto:
    return TensorProto(name=name, data_type=dtype, dims=dims, **fields)


def external(location: str, dims: tuple[int, ...] = (4,), **entries: object) -> TensorProto:
    out = tensor(dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        out.external_data.add(key=key, value=str(value))
    return out


def refusal(source: Any) -> str:
    """Load `source`, which must be refused within bounds; return the message."""
    start = time.process_time()
    with pytest.raises(TranspileError) as caught:
        load_model(source)
    seconds = time.process_time() - start
    tracemalloc.start()  # apart: it makes everything several times slower
    try:
        with pytest.raises(TranspileError):
            load_model(source)
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(caught.value, InvalidModel | MultipleErrors)
    message = str(caught.value)
    assert seconds < SECONDS
    assert memory < MOST_MEMORY
    assert len(message) < 50_000
    assert all(character.isprintable() or character == "\n" for character in message)
    if isinstance(source, Path):
        refused_on_the_command_line(source, message)
    return message


def refused_on_the_command_line(path: Path, message: str) -> None:
    """Exit code 1, the same message, no output file."""
    target = path.parent / "hostile-output.dml"
    result = invoke("convert", path, "-o", target)
    assert result.exit_code == 1
    assert message in result.output and "Traceback" not in result.output
    assert not target.exists() and not target.with_suffix(".weights").exists()


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


# ---- no model at all


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["is empty"]),
        (b"this is a text file, not a model\n", ["not an ONNX model", "text file"]),
        (b'{"irVersion": "8"}', ["not an ONNX model", "text file", "onnx.load(..., format=...)"]),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 10\n", ["not an ONNX model", "Git LFS"]),
        (b"PK\x03\x04\x00\x00\x08\x08\x00\x00archive/data.pkl", ["not an ONNX model", "zip archive", "export it to ONNX"]),
        (b"\x89HDF\r\n\x1a\n\x00\x00", ["not an ONNX model", "HDF5"]),
        (b"\x80\x04\x95\x1f\x00\x00", ["not an ONNX model", "a pickle"]),
        ("# für alle: ein Skript, kein Modell\nprint(1)\n".encode(), ["not an ONNX model", "text file"]),
        (b"\x30\x00\x00\x00ORTM\x00\x00", ["not an ONNX model", "onnxruntime's own format"]),
        (b'\x58\x00\x00\x00\x00\x00\x00\x00{"a.weight":{"dtype":"F32"', ["not an ONNX model", "safetensors"]),
        (b"GGUF\x03\x00\x00\x00", ["not an ONNX model", "llama.cpp"]),
        (b"\x1c\x00\x00\x00TFL3\x00\x00", ["not an ONNX model", "TensorFlow Lite"]),
        (b"\x1f\x8b\x08\x00\x00\x00", ["not an ONNX model", "compressed"]),
        (b"\x80" * 5000, ["not an ONNX model"]),
        (b"\x00" * 5000, ["not an ONNX model"]),
        (b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 5000, ["not an ONNX model"]),
        (bytes(range(256)) * 20, ["not an ONNX model"]),
        (b"\x08\x07\x3a\xff\x01" + b"x" * 100, ["not an ONNX model", "hint: the file seems to be cut off"]),
        (b"\x08\x07\x12\x01p", ["it holds no graph"]),
        (b"\x08\x07\x3a\x00", ["ONNX"]),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, content: bytes, words: list[str]) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    message = refusal(tmp_path / "model.onnx")
    for word in ["model.onnx", *words]:
        assert word in message


@pytest.mark.parametrize(("name", "hint"), [("s.dml", "this is a script"), ("rows.csv", "this is a table")])
def test_other_files_where_a_model_is_meant(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / name).write_text("a,b\n")
    with pytest.raises(InvalidModel, match=f"{name}: not an ONNX model: .*\n  hint: {hint}"):
        import_model(tmp_path / name)


def test_things_that_are_no_files(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "nowhere.onnx")
    assert "is a directory" in refusal(tmp_path)
    assert "cannot be opened" in refusal("a\0b")
    assert "cannot be opened" in refusal("n" * 5000)
    assert "not int" in refusal(7)
    assert "no bytes" in refusal(b"")
    assert "empty" in refusal(onnx.ModelProto())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.onnx")
    assert "not a regular file" in refusal(tmp_path / "model.onnx")
    os.mkfifo(tmp_path / "pipe.bin")
    (tmp_path / "model.onnx").unlink()
    assert "not a regular file" in refusal(saved(tmp_path, model_of(initializers=(external("pipe.bin"),))))


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, flags: int) -> int:  # the mode of the file would not keep root out
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = saved(tmp_path, model_of())
    monkeypatch.setattr(os, "open", refuse)
    assert "cannot be opened: Permission denied" in refusal(path)


def test_truncated_files(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones(3000, np.float32), "w")
    data = model_of(node("Add", "x w", "y"), initializers=(weight,)).SerializeToString()
    load_model(data)
    path = tmp_path / "model.onnx"
    for size in sorted({*range(1, 80), *range(80, len(data), 509), *range(len(data) - 80, len(data))}):
        path.write_bytes(data[:size])
        refusal(path)


# ---- wiring


def cond_model(inner: onnx.GraphProto) -> onnx.ModelProto:
    model = model_of(helper.make_node("If", ["c"], ["y"], name="branch", then_branch=inner, else_branch=inner))
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return model


def through_itself() -> onnx.ModelProto:
    return cond_model(helper.make_graph([node("Neg", "y", "r")], "inner", [], [info("r")]))


def duplicate_input() -> onnx.ModelProto:
    model = model_of()
    model.graph.input.append(info("x"))
    return model


def no_imports() -> onnx.ModelProto:
    model = model_of(node("Relu", "x", "y", "culprit"))
    del model.opset_import[:]
    model.opset_import.add(domain="other", version=1)
    return model


def circular_functions() -> onnx.ModelProto:
    model = model_of(helper.make_node("f", ["x"], ["y"], domain="own"))
    imports = [helper.make_opsetid("own", 1)]
    for name, called in (("f", "h"), ("h", "f")):
        call = helper.make_node(called, ["a"], ["b"], domain="own")
        model.functions.append(helper.make_function("own", name, ["a"], ["b"], [call], imports))
    model.opset_import.add(domain="own", version=1)
    return model


def exponential_functions() -> onnx.ModelProto:
    model = model_of(helper.make_node("f60", ["x"], ["y"], domain="own"))
    imports = [helper.make_opsetid("own", 1), helper.make_opsetid("", 18)]
    model.functions.append(helper.make_function("own", "f0", ["a"], ["c"], [node("Relu", "a", "c")], imports))
    for level in range(1, 61):
        calls = [helper.make_node(f"f{level - 1}", [a], [b], domain="own") for a, b in ("ab", "bc")]
        model.functions.append(helper.make_function("own", f"f{level}", ["a"], ["c"], calls, imports))
    model.opset_import.add(domain="own", version=1)
    return model


CYCLE = (node("Relu", "c", "a", "one"), node("Relu", "a", "b", "two"), node("Add", "b x", "c", "three"))
SECOND = numpy_helper.from_array(np.ones(2, np.float32), "w")

WIRING: list[tuple[str, Callable[[], onnx.ModelProto], list[str]]] = [
    ("cycle", lambda: model_of(*CYCLE, node("Relu", "x", "y")), ["cycle", '"one"', '"two"', '"three"']),
    ("self loop", lambda: model_of(node("Add", "x y", "y", "own_tail")), ["cycle", '"own_tail"']),
    ("cycle through a sub-graph", through_itself, ["cycle", '"branch"']),
    ("undefined input", lambda: model_of(node("Add", "x ghost", "y", "adder")), ['"ghost"', '"adder"']),
    ("undefined output", lambda: model_of(node("Relu", "x", "z")), ['graph "g"', 'output "y"']),
    ("two producers", lambda: model_of(node("Relu", "x", "y", "p"), node("Tanh", "x", "y", "q")), ['"p"', '"q"', '"y"']),
    ("one node, one name twice", lambda: model_of(node("Dropout", "x", "y y", "drop")), ['"drop"', '"y"']),
    ("producer of an input", lambda: model_of(node("Relu", "x", "x", "p"), node("Relu", "x", "y")), ['"p"', '"x"']),
    ("two inputs of a name", duplicate_input, ['"x"', "twice"]),
    ("two initializers of a name", lambda: model_of(initializers=(SECOND, SECOND)), ["two initializers", '"w"']),
    (
        "undefined capture",
        lambda: cond_model(helper.make_graph([node("Neg", "ghost", "r", "neg")], "inner", [], [info("r")])),
        ['"ghost"', '"neg"', '"inner"'],
    ),
    (
        "undefined output of a sub-graph",
        lambda: cond_model(helper.make_graph([], "inner", [], [info("ghost")])),
        ['"ghost"', '"branch"'],
    ),
    ("newline in a name", lambda: model_of(node("Add", "x ghost", "y", "n\n\x1b[31mstop()")), ["n\\n\\x1b[31mstop()"]),
    ("endless name", lambda: model_of(node("Add", "x " + "g" * 10**6, "y", "n" * 10**6)), ["characters"]),
    ("opset 999", lambda: model_of(opset=999), ["opset 999", '"ai.onnx"']),
    ("opset 0", lambda: model_of(opset=0), ["opset version 0"]),
    ("no import", no_imports, ["no opset import", '"ai.onnx"', '"culprit"']),
    ("circular functions", circular_functions, ["circle", '"f"', '"h"']),
    ("exponential functions", exponential_functions, ["expand"]),
]


@pytest.mark.parametrize(("build", "words"), [case[1:] for case in WIRING], ids=[case[0] for case in WIRING])
def test_wiring(build: Callable[[], onnx.ModelProto], words: list[str], tmp_path: Path) -> None:
    message = refusal(saved(tmp_path, build()))
    for word in words:
        assert word in message


def test_a_long_cycle_is_found_quickly() -> None:
    count = 5_000
    nodes = [node("Relu", f"v{i}", f"v{(i + 1) % count}", f"n{i}") for i in range(count)]
    model = model_of(*nodes, node("Relu", "x", "y"))
    assert "4990 more" in refusal(model.SerializeToString())


# ---- tensors


def unknown_in_type() -> onnx.ModelProto:
    model = model_of()
    model.graph.input[0].type.tensor_type.elem_type = 77
    return model


TENSORS: list[tuple[str, TensorProto, str]] = [
    ("raw data too short", tensor(raw_data=b"123"), "needs 16 bytes, the model gives 3"),
    ("raw data too long", tensor(raw_data=bytes(8000)), "needs 16 bytes, the model gives 8000"),
    ("typed data too short", tensor(float_data=[1.0]), "needs 4 elements, the model gives 1"),
    ("typed data too long", tensor(float_data=[1.0] * 3000), "needs 16 bytes, the model gives 12000"),
    ("wrong field", tensor(int64_data=[1, 2, 3, 4]), "int64_data"),
    ("wrong large field", tensor(dtype=TensorProto.INT64, dims=(3000,), double_data=[1.0] * 3000), "double_data"),
    ("no data", tensor(dims=(2**31, 2**29)), "gives 0"),
    ("huge dims", tensor(dims=(2**62, 2**62, 2**62), raw_data=b""), "gives 0"),
    ("huge dims of a packed type", tensor(dtype=TensorProto.INT4, dims=(2**60,), raw_data=b"12"), "gives 2"),
    ("huge dims that make nothing", tensor(dims=(2**62, 0, 2**62), raw_data=b""), "dimensions"),
    ("too many dims", tensor(dims=(1,) * 5000, raw_data=bytes(4)), "dimensions"),
    ("negative dim", tensor(dims=(-4,), raw_data=bytes(16)), "negative dimension"),
    ("two negative dims", tensor(dims=(-2, -2), raw_data=bytes(16)), "negative dimension"),
    ("unknown type", tensor(dtype=99, raw_data=bytes(16)), "unknown element type 99"),
    ("undefined type", tensor(dtype=0, raw_data=bytes(16)), "unknown element type 0"),
    ("data twice", tensor(raw_data=bytes(16), float_data=[1.0] * 4), "several times"),
    ("large data twice", tensor(dims=(3000,), raw_data=bytes(12000), float_data=[1.0] * 3000), "several times"),
    ("raw strings", tensor(dtype=TensorProto.STRING, raw_data=bytes(4)), "string_data"),
    ("too few strings", tensor(dtype=TensorProto.STRING, string_data=[b"a"]), "gives 1"),
    ("no UTF-8", tensor(dtype=TensorProto.STRING, string_data=[b"\xff"] * 4), "UTF-8"),
    ("segment", tensor(raw_data=bytes(16), segment=TensorProto.Segment(begin=0, end=2)), "segment"),
]


@pytest.mark.parametrize(("bad", "words"), [case[1:] for case in TENSORS], ids=[case[0] for case in TENSORS])
@pytest.mark.parametrize("where", ["initializer", "attribute"])
def test_tensors(bad: TensorProto, words: str, where: str, tmp_path: Path) -> None:
    if where == "initializer":
        message = refusal(saved(tmp_path, model_of(initializers=(bad,))))
        assert 'initializer "bad_tensor"' in message
    else:
        holder = helper.make_node("Constant", [], ["c"], name="holder", value=bad)
        message = refusal(saved(tmp_path, model_of(node("Relu", "x", "y"), holder)))
        assert '"holder"' in message
    assert words in message


def test_types_of_values() -> None:
    assert "unknown element type 77" in refusal(unknown_in_type())
    for dims, words in (([-3], "negative dimension -3"), ([2**40, 2**40], "2^63")):
        model = model_of()
        model.graph.input[0].CopyFrom(info("wide", dims))
        message = refusal(model)
        assert words in message
        assert '"wide"' in message


def test_a_sparse_tensor_is_not_written_out_at_any_size() -> None:
    for dims, indices, words in (
        ([2**31, 2**31], [0, 5], "too large"),
        ([4], [0, 5], "outside"),
        ([4], [-1, 2], "outside"),
        ([4], [1], "do not fit"),
    ):
        model = model_of()
        values = numpy_helper.from_array(np.ones(2, np.float32), "bad_tensor")
        where = numpy_helper.from_array(np.array(indices), "i")
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, where, dims))
        message = refusal(model)
        assert words in message
        assert '"bad_tensor"' in message


# ---- external data


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (external("../secret.bin"), "leaves the model's folder"),
        (external("sub/../../secret.bin"), "leaves the model's folder"),
        (external("..\\secret.bin"), "leaves the model's folder"),
        (external("/etc/hostname"), "is absolute"),
        (external("C:\\secret.bin"), "is absolute"),
        (external("link.bin"), "link that leaves"),
        (external("linked/secret.bin"), "link that leaves"),
        (external("loop.bin"), "loop.bin"),
        (external("nowhere.bin"), "does not exist"),
        (external("n" * 5000), "cannot be opened"),
        (external(""), "names no file"),
        (external("."), "names no file"),
        (external("a\0b"), "names no file"),
        (external("sub"), "is a directory"),
        (external("short.bin"), "the file has 8"),
        (external("empty.bin"), "is empty"),
        (external("good.bin", offset=4), "bytes 4 to 20"),
        (external("good.bin", offset=10**15), "the file has 16"),
        (external("good.bin", offset=-4), 'offset "-4"'),
        (external("good.bin", offset="9" * 5000), "offset"),
        (external("good.bin", length="1_6"), 'length "1_6"'),
        (external("good.bin", length=8), "needs 16 bytes, the model gives 8"),
        (external("good.bin", length=10**15), "the file has 16"),
        (external("good.bin", dims=(2**60,)), "the file has 16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_external_data(bad: TensorProto, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (folder / "good.bin").write_bytes(bytes(16))
    (folder / "short.bin").write_bytes(bytes(8))
    (folder / "empty.bin").write_bytes(b"")
    (folder / "link.bin").symlink_to("../secret.bin")
    (folder / "linked").symlink_to("..")
    (folder / "loop.bin").symlink_to("loop.bin")
    good = external("good.bin")
    good.name = "good_tensor"
    load_model(saved(folder, model_of(initializers=(good,))))
    message = refusal(saved(folder, model_of(initializers=(good, bad))))
    assert words in message
    assert '"bad_tensor"' in message
    assert "good_tensor" not in message


def test_external_data_without_a_folder() -> None:
    assert "no folder" in refusal(model_of(initializers=(external("good.bin"),)))


# ---- bombs


def nested(levels: int, padding: int) -> bytes:
    """A model whose sub-graphs are nested; built from the inside, since protobuf refuses to write it."""

    def field(number: int, content: bytes) -> bytes:
        size, out = len(content), bytearray([number << 3 | 2])
        while size > 127:
            out.append(size & 127 | 128)
            size >>= 7
        return bytes([*out, size]) + content

    graph = field(10, b"p" * padding)
    for _ in range(levels):
        graph = field(1, field(5, field(6, graph)))
    return b"\x08\x08" + field(7, graph) + field(8, b"\x10\x12")


@pytest.mark.parametrize(("levels", "padding"), [(40, 0), (101, 0), (101, 5000), (3000, 0), (3000, 5000)])
def test_nested_subgraphs(levels: int, padding: int) -> None:
    assert "nested too deeply" in refusal(nested(levels, padding))


def test_nested_types() -> None:
    model = model_of()
    kind = model.graph.input[0].type
    for _ in range(150):
        kind = kind.sequence_type.elem_type
    kind.tensor_type.elem_type = 1
    message = refusal(model)  # which of the two depends on the protobuf runtime
    assert "cannot be serialised" in message or "nested too deeply" in message


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """Every string of a model in turn: protobuf hands out bytes for it, which must crash nothing."""
    inner = helper.make_graph([node("Neg", "x", "NAM1")], "NAM2", [], [info("NAM1")])
    model = model_of(
        helper.make_node("If", ["NAM3"], ["NAM4"], name="NAM5", then_branch=inner, else_branch=inner, doc_string="DOC1"),
        node("NAM6", "x", "y", domain="NAM7", NAM8=1),
        initializers=(tensor("NAM9", raw_data=bytes(16)), external("NAM0")),
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "NAMA"
    model.graph.input.append(helper.make_tensor_value_info("NAM3", TensorProto.BOOL, []))
    model.opset_import.add(domain="NAM7", version=1)
    model.functions.append(
        helper.make_function("NAM7", "NAMB", ["NAMC"], ["NAMD"], [node("Relu", "NAMC", "NAMD")], model.opset_import[:1])
    )
    model.producer_name = "DOC2"
    data = model.SerializeToString()
    for end in "1234567890ABCD":
        for spoilt in (b"\xff\xfe\xfd\xfc", b"\xff\n\x00\xfc"):
            (tmp_path / "model.onnx").write_bytes(data.replace(f"NAM{end}".encode(), spoilt))
            assert "UTF-8" in refusal(tmp_path / "model.onnx")
    model.graph.initializer.pop()
    loaded = load_model(model.SerializeToString().replace(b"DOC", b"\xff\xff\n"))
    assert loaded.graph.nodes[0].doc_string == "\ufffd\ufffd\n1"
    assert loaded.producer_name == "\ufffd\ufffd\n2"


def test_every_reason_is_reported_at_once() -> None:
    bad = tensor("first", raw_data=b"1"), tensor("second", dims=(-1,))
    with pytest.raises(MultipleErrors) as caught:
        load_model(model_of(node("Add", "x ghost", "y", "adder"), initializers=bad, opset=999))
    assert len(caught.value.reasons) == 4
    for word in ("first", "second", "ghost", "999"):
        assert word in str(caught.value)


def test_the_checker_has_the_last_word() -> None:
    assert "checker" in refusal(model_of(node("Relu", "x x", "y", "relu")))
