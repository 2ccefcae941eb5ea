"""Every command and option with values that make no sense: a message, exit code 1 or 2, no traceback, no file."""

from __future__ import annotations

import io
import os
import socket
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model, plugins
from onnx_systemds.cli.commands import main
from tests.invoking import invoke

SCRIPT = """
f = function(matrix[double] X, double a = 1) return (matrix[double] Y) {
  Y = X * a
}
X = read($X, rows=2, cols=2)
write(f(X, 2), $Y)
"""
X = np.ones((2, 3), np.float32)


def array_archive(folder: Path, name: str, **arrays: np.ndarray) -> None:
    with (folder / name).open("wb") as stream:
        np.savez(stream, **arrays)


def deflated(data: bytes) -> bytes:
    """An archive with an entry that is compressed, and damaged inside."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", data)
    spoilt = bytearray(buffer.getvalue())
    spoilt[40:60] = b"\xff" * 20
    return bytes(spoilt)


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, a script, and files of which most are damaged; the tests run in it."""
    folder = tmp_path_factory.mktemp("files")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "XY"]
    graph = helper.make_graph([helper.make_node("Relu", ["X"], ["Y"])], "tiny", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    text = helper.make_graph(
        [helper.make_node("Identity", ["X"], ["Y"])], "words",
        *([helper.make_tensor_value_info(name, TensorProto.STRING, [2])] for name in "XY"),
    )
    onnx.save(helper.make_model(text, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "words.onnx")
    product = helper.make_graph([helper.make_node("MatMul", ["X", "W"], ["Y"])], "product", infos[:1], infos[1:],
                                [numpy_helper.from_array(np.eye(3, dtype=np.float32), "W")])
    onnx.save(helper.make_model(product, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "w.onnx")
    import_model(folder / "w.onnx", gradients=["weights"]).save(folder / "w.dml")
    (folder / "s.dml").write_text(SCRIPT)
    array_archive(folder, "good.npz", X=X)
    array_archive(folder, "keys.npz", x=X)
    array_archive(folder, "rows.npz", X=X, T=X)
    array_archive(folder, "more.npz", X=X, Z=X)
    array_archive(folder, "none.npz")
    array_archive(folder, "rank.npz", X=X[0])
    array_archive(folder, "sizes.npz", X=X[:, :2])
    array_archive(folder, "complex.npz", X=X * 1j)
    array_archive(folder, "texts.npz", X=np.array([["a", "b", "c"]]))
    array_archive(folder, "dates.npz", X=np.zeros((2, 3), "datetime64[s]"))
    array_archive(folder, "pickled.npz", X=np.array([["a", None, 1.5]], object))
    array_archive(folder, "numbers.npz", X=np.array([1.5, 2.5]))
    np.save(folder / "a.npy", X)
    np.save(folder / "pickled.npy", np.array([None, {}], object))
    contents = {
        "empty.npz": b"", "text.npz": b"1,2,3\n", "cut.npz": (folder / "good.npz").read_bytes()[:150],
        "start.npz": b"PK\x03\x04 no", "flipped.npz": (folder / "good.npz").read_bytes().replace(b"descr", b"decsr"),
        "deflated.npz": deflated(bytes(500)), "huge.npy": header("{'descr': '<f8', 'fortran_order': False, 'shape': (2**60,)}"),
        "huge2.npy": header("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,), }\n"),
        "shape.npy": header("{'descr': '<f8', 'fortran_order': False, 'shape': (-5,), }\n"),
        "code.npy": header("__import__('os').abort()\n"), "nested.npy": header("(" * 9000 + "\n"),
        "void.npy": header("{'descr': '|V0', 'fortran_order': False, 'shape': (2,), }\n"),
        "bad.onnx": b"no model", "bad.py": b"def", "exits.py": b"raise SystemExit('a plugin that ends')",
        "latin.dml": b"x = \xff", "half.dml": b"x = (1", "a.csv": b"1,2\n3,x\n", "empty.csv": b"", "rows.csv": b"a,b,c\n1,2,3\n",
        "file_b.mtd": b"{}", "file_b": b"", "file_c.mtd": b"[", "file_c": b"", "file_d.mtd": b'{"data_type": "list"}', "file_d": b"",
        "file_e.mtd": b'{"data_type": "matrix", "format": "binary", "rows": 2, "cols": 2}', "file_e": b"SEQ\x06",
        "file_g.mtd": b'{"data_type": "scalar"}', "file_g": b"", "file_h.mtd": b'{"format": "text", "rows": 1, "cols": 1}', "file_h": b"9 9 1",
        "file_i.mtd": b'{"format": "text", "rows": 1e99, "cols": 1}', "file_i": b"1 1 1", "file_j.mtd": b"\xff", "file_j": b"",
        "file_k.mtd": b'{"format": "csv", "sep": 5}', "file_k": b"1",
    }
    for name, content in contents.items():  # of names that no test reads: a JVM that starts here stays here
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "folder.npz").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "link.onnx").symlink_to("m.onnx")
    os.link(folder / "m.onnx", folder / "hard.onnx")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(folder / "socket"))
    return folder


ARRAY_FILES = ["none.npz", "keys.npz", "more.npz", "rank.npz", "sizes.npz", "complex.npz",
               "texts.npz", "dates.npz", "pickled.npz", "pickled.npy", "empty.npz", "text.npz", "cut.npz", "start.npz", "flipped.npz", "deflated.npz",
               "huge.npy", "huge2.npy", "shape.npy", "code.npy", "nested.npy", "void.npy", "folder", "folder.npz", "loop", "nowhere.npz", "m.onnx", "socket"]
TARGETS = ["folder", ".", "..", "/", "nowhere/y", "m.onnx/y", "m.onnx", "./folder/../m.onnx", "link.onnx", "hard.onnx",
           "loop", "n" * 300]
SCRIPT_TARGETS = ["folder", "nowhere/y", "s.dml", "./s.dml", "loop"]
DIMS = ["batch", "batch=", "=3", "=", "batch=x", "batch=-1", "batch=1.5", "batch=²", "batch=٣", "batch=1e3",
        "batch=2147483648", "batch=" + "9" * 5000, "bach=4", "\n=4", "batch=inf"]
WEIGHTS = ["a", "a=", "=1", "a=x", "a=nowhere.csv", "a=folder", "a=a.csv", "a=empty.csv", "a=empty.npz", "a=start.npz",
           "a=nested.npy", "a=dates.npz", "a=pickled.npy", *(f"a=file_{name}" for name in "bcdeghijk"), "ghost=1",
           "a=" + "9" * 5000, "a=loop"]
TYPES = ["X", "X=", "=float[2,3]", "X=float", "X=float[", "X=real[2,3]", "X=undefined[2,3]", "X=int64[2,3]", "X=float[2]", "X=float[2,4]",
         "X=float[-1,3]", "X=float[1.5,3]", "X=float[9999999999,3]", "X=float[a b,3]", "ghost=float[2,3]", "\n=float[2,3]"]
CONSTANTS = ["X", "X=", "=1", "X=x", "X=[1,", "X={}", "X=null", "X=[[1,2],[3]]", "X=[1,2]", "X=" + "[" * 9000, "X=1e999", "ghost=1",
             "X=nowhere.npy", "X=pickled.npy", "X=huge2.npy", "X=folder.npy", "X=good.npz"]
CONVERSION: dict[str, list[str]] = {
    "dims": DIMS,
    "starts": ["", "nosuch", "\n", "Y"],
    "ends": ["", "nosuch", "\n"],
    "types": TYPES,
    "constants": CONSTANTS,
    "function_name": ["", "sum", "a b", "if", "1st", "a\nb", "é"],
    "weights": ["", "none", "Inline"],
    "omitted": ["", "nosuch", "definitions", "constant-folding"],
    "functions": ["", "block", "Flat"], "style": ["", "NN", "tf"],
    "plugins": ["nowhere.py", "folder", "bad.py", "m.onnx", "exits.py"],
    "model": ["nowhere.onnx", "bad.onnx", "folder", ".", "..", "/", "loop", "good.npz", "n" * 300, "socket"],
}
TOLERANCES = ["x", "-1", "nan", "inf", ""]
VERIFICATION = {"contents": ARRAY_FILES, "seed": ["x", "-1", "1.5", ""], "rtol": TOLERANCES,
                "atol": TOLERANCES}
EXPORT: dict[str, list[str]] = {
    "script": ["nowhere.dml", "latin.dml", "half.dml", "folder", "loop"],
    "function": ["", "g", "F", "f(", "\n"],
    "inputs": ["X", "X=", "=double[2,2]", "X=double", "X=double[", "X=double[2,2", "X=matrix[2,2]", "X=double[-1,2]", "X=double[2.5,2]",
               "X=double[0,99999999999999999999]", "ghost=double[2,2]", "X=double[a b,2]",
               "X=string[2,2]", "X=double[,]"],
    "weights": WEIGHTS,
    "arguments": ["a", "=1", ""],
    "results": ["", "nosuch", "x"],
    "dtype": ["", "half", "double"],
    "opset": ["x", "0", "-1", "6", "999", "1.5", "9" * 30],
    "functions": ["", "both"],
    "plugins": ["nowhere.py", "folder", "bad.py", "m.onnx", "exits.py"],
}
BAD: dict[str, dict[str, list[str]]] = {
    "convert": {"output": [*TARGETS, "m.weights/y", ""], "map_file": TARGETS, "gradients": ["", "no_such", "input"],
                "fixed": ["", "no_such", "input"],
                "losses": ["", "loss", "l2_loss", "Y=", "=l2_loss", "nosuch=l2_loss"], "optimizer": ["", "Adam", "adam"], "result": ["", "nosuch"],
                "method": ["", "lime", "gradients"], **CONVERSION},
    "run": {"inputs": [*ARRAY_FILES, ""], "outputs": [*TARGETS, "good.npz", ""], **CONVERSION},
    "score": {"source": [*ARRAY_FILES, ""], "target": [*TARGETS, "good.npz", "out.txt", ""],
              "columns": ["", "X", ",", "a,b"], "chunk_rows": ["0", "-1", "x", "1.5", "", "9" * 30], "engine": ["", "cloud", "Spark"],
              "master": ["", "local[2]"], "settings": ["", "a=b", "spark.ui.enabled=false"], **CONVERSION},
    "verify": {**VERIFICATION, "page": TARGETS, **CONVERSION},
    "inspect": {"plan": ["", "cloud", "Spark"], "picture": [*TARGETS, "g.png", "nowhere/g.svg", ""], **{key: CONVERSION[key] for key in ("starts", "ends", "types", "constants", "plugins", "model")}},
    "export": {"output": [*SCRIPT_TARGETS, ""], "map_file": SCRIPT_TARGETS,
               "external_data": ["", "x", "-1", "1.5", "many"], **EXPORT},
    "verify-script": {"dims": DIMS, "page": SCRIPT_TARGETS, **VERIFICATION, **EXPORT},
    "run-script": {"program": ["nowhere.dml", "m.onnx", "folder", "latin.dml", ""], "heap": ["", "4x", "0", "-1g", "4 g"],
                   "native_blas": ["", "blas"], "words": ["-nvargs"]},
    "train": {"source": [*ARRAY_FILES, "a.npy", "a.csv", "empty.csv", ""], "targets": ["", "Z", ",", "X", "0"],
              "losses": ["", "loss", "Z=l2_loss", "softmax"], "output": [*SCRIPT_TARGETS[:2], "w.onnx", "rows.npz", "loop", ""],
              "optimizer": ["", "Adam"], "epochs": ["", "0", "-1", "x", "1.5"], "batch": ["", "0", "x", "9" * 30],
              "rate": ["", "0", "-1", "x", "nan"], "seed": ["", "-1", "x"], "columns": ["", "X", ",", "a,b"], "holdout": ["", "-1", "1", "nan", "x"],
              "patience": ["", "0", "x", "3"], "schedule": ["", "step"], "weight_decay": ["", "-1", "nan", "x"], "clip": ["", "0", "nan", "x"],
              "gradients": ["", "no_such", "X", "inputs"], "fixed": ["", "no_such", "X"], **CONVERSION},
    "explain": {"source": [*ARRAY_FILES, "a.csv", "empty.csv", ""], "target": [*TARGETS, "out.txt", "rows.csv", ""],
                "background": [*ARRAY_FILES, "a.csv", "empty.csv", ""], "result": ["nosuch"], "column": ["", "-1", "x", "9" * 30],
                "permutations": ["", "0", "-1", "x", "1.5"], "method": ["", "lime"], "steps": ["", "0", "x", "3"], "seed": ["", "-1", "x"], "columns": ["", "X", ",", "a,b"], "groups": ["", "a", "a=", "a=nosuch"], **CONVERSION},
    "trained": {"folder": ["m.onnx", "folder", "nowhere", "loop", ""], "output": [*SCRIPT_TARGETS[:2], "w.onnx", "m.onnx/y", "loop", ""],
                "gradients": ["", "no_such", "X", "inputs"], "fixed": ["", "no_such", "X"], **CONVERSION},
    "operators": {"plugins": CONVERSION["plugins"]},
    "builtins": {"plugins": CONVERSION["plugins"]},
}
GIVEN: dict[str, dict[str, str]] = {  # what a command needs beside the bad value
    "convert": {"model": "m.onnx", "output": "out.dml"},
    "run": {"model": "m.onnx", "inputs": "good.npz", "outputs": "out.npz"},
    "score": {"model": "m.onnx", "source": "good.npz", "target": "out.npz"},
    "verify": {"model": "m.onnx"},
    "inspect": {"model": "m.onnx"},
    "export": {"script": "s.dml", "function": "f", "inputs": "X=double[2,2]", "output": "out.onnx"},
    "verify-script": {"script": "s.dml", "function": "f", "inputs": "X=double[2,2]"},
    "run-script": {"program": "s.dml"},
    "train": {"model": "w.onnx", "source": "rows.npz", "targets": "T", "losses": "l2_loss", "output": "out.onnx"},
    "explain": {"model": "w.onnx", "source": "rows.csv", "target": "out.csv"},
    "trained": {"model": "w.onnx", "folder": "w.weights", "output": "out.onnx"},
    "operators": {},
    "builtins": {},
}
FLAGS = {"quiet", "iterative", "random", "no_plugins", "as_json", "verbose", "scored", "explains", "no_header", "facets", "traceback", "no_simplify", "no_specialise", "per_node", "listing", "help"}
READ_BESIDE_THE_ENGINE = [("run", "inputs"), ("score", "source"), ("verify", "contents"), ("verify-script", "contents"), ("verify-script", "dims"), ("run-script", "program"), ("run-script", "words")]
CASES = [(command, name, value) for command, table in BAD.items() for name, values in table.items() for value in values]


def arguments(command: click.Command, given: dict[str, str]) -> list[str]:
    """The words of a command line."""
    words: list[str] = []
    for parameter in command.params:
        if parameter.name in given:
            value = given[parameter.name]
            words += [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]
    return words


@pytest.fixture(scope="module", autouse=True)
def _installed_plugins_are_looked_for_once() -> Iterator[None]:
    """Among all packages of the environment, by reading a file of each: three quarters of what most of these tests take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", cache(plugins.entry_points))
        yield


def invoked(command: str, given: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.chdir(folder)
    return invoke(command, *arguments(main.commands[command], given))


def entries(folder: Path) -> dict[str, int]:
    """When each file below a folder was written."""
    return {path: os.lstat(path).st_mtime_ns
            for parent, folders, names in os.walk(folder) if not parent.endswith("__pycache__")
            for name in (*folders, *names) if name != "__pycache__" and (path := os.path.join(parent, name))}


@pytest.mark.parametrize(("command", "name", "value"), [
    pytest.param(*case, id=f"{case[0]}-{case[1]}-{ascii(case[2])[:30]}",
                 marks=[pytest.mark.engine] if case[:2] in READ_BESIDE_THE_ENGINE else [])
    for case in CASES
])
def test_bad_value(command: str, name: str, value: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = entries(files)
    result = invoked(command, {**GIVEN[command], name: value}, files, monkeypatch)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (1, 2)
    assert "rror:" in result.output and "Traceback" not in result.output and "Errno" not in result.output
    assert ".writing-" not in result.output and len(result.output) < 3000
    assert all(character.isprintable() or character == "\n" for character in result.output)
    assert entries(files) == before


TWICE = {
    "s.dml --function f --input X=double[2,2] --function f": "--function': it takes one value, and is given 2",
    "s.dml --list --opset 15 --opset 17": "--opset': it takes",
    "m.onnx -o a.dml --output b.dml": "'-o' / '--output': it takes",
    "m.onnx -o a.dml --weights inline --weights=files": "--weights': it takes",
    "verify m.onnx --seed 1 --seed 2": "--seed': it takes",
    "run-script --heap 1g --heap 2g s.dml": "--heap': it takes",
    "verify-script s.dml --rtol 1 --rtol 2": "--rtol': it takes",
    "run m.onnx --inputs good.npz --outputs a.npz --outputs b.npz": "--outputs': it takes",
    "inspect m.onnx --plan local --plan spark": "--plan': it takes",
    "score m.onnx --input good.npz --input a.npy --output out.npz": "--input': it takes",
    "score m.onnx --input good.npz --output out.npz --engine spark --conf spark.a=1 --conf spark.a=2": "--conf gives 'spark.a' two values",
    "s.dml --function f --input X=double[2,2] --input X=double[3,2]": "'X' is given twice",
    "trained w.onnx w.weights -o a.onnx --output b.onnx": "'-o' / '--output': it takes",
    "m.onnx --dim batch=2 --dim batch=3": "'batch' is given two sizes",
}


def test_what_is_given_beside_bad_values_is_right(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoked("trained", GIVEN["trained"], files, monkeypatch)
    assert result.exit_code == 0, result.output
    (files / "out.onnx").unlink()


@pytest.mark.parametrize("words", TWICE)
def test_given_twice(words: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is said is ignored."""
    monkeypatch.chdir(files)
    before = entries(files)
    result = invoke(*words.split())
    assert result.exit_code in (1, 2) and TWICE[words] in result.output.replace('"', "'"), result.output
    assert entries(files) == before


def test_every_option_has_bad_values() -> None:
    for name, command in main.commands.items():
        expected = {parameter.name for parameter in command.params if parameter.name is not None} - FLAGS
        assert expected == set(BAD[name]) | ({"dims"} if name == "inspect" else set()), name


@pytest.mark.parametrize("arguments", [["--nosuch"], ["nosuch"], [""], ["m.onnx", "more"], ["run"], ["verify"], ["inspect"],
                                       ["export"], ["operators", "x"], ["m.onnx", "-o"], ["s.dml", "--function"]])
def test_bad_words(arguments: list[str], files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    before = entries(files)
    result = invoke(*arguments)
    assert isinstance(result.exception, SystemExit) and result.exit_code in (1, 2), result.output
    assert "rror:" in result.output
    assert entries(files) == before
