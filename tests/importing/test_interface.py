"""What the head of a script and the message of success say of its functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import InvalidModel
from onnx_systemds.importing.interface import Port, call_lines, described, interface_lines, signature, success_lines
from onnx_systemds.importing.script import Script
from onnx_systemds.model.ir import TensorType

_SIZED = """<ir_version: 10, opset_import: ["" : 17]>
scaled (float[batch, 3, h, w] x_1, string[batch, 2] names) => (float[batch, 3, h, w] y, float[h] z) {
   factor = Constant <value_float: float = 2.0> ()
   y = Mul (x_1, factor)
   z = ReduceMax <keepdims: int = 0, axes: ints = [0, 1, 3]> (y)
}"""


@pytest.fixture(name="sized")
def sized_script() -> Script:
    model = onnx.parser.parse_model(_SIZED)
    model.graph.input[0].name = model.graph.node[1].input[0] = "x.1"
    return import_model(model)


def test_calls(sized: Script) -> None:
    assert call_lines(sized.interface, "my-model") == [
        'source("my-model.dml") as my_model',
        "[y, z] = my_model::gen_scaled(x_1, names, h, w)",
    ]


def test_a_script_is_shown_by_its_signature(sized: Script) -> None:
    shown = "Script(gen_scaled(x.1 [batch, 3, h, w], names [batch, 2], h, w) -> y [batch, 3, h, w], z [h])"
    assert repr(sized) == str(sized) == shown


@pytest.mark.parametrize("size", ["3", 3.0, -1, None, True])
def test_sizes_are_integers(size: Any) -> None:
    with pytest.raises(InvalidModel, match=f'the size of "batch" is {size!r}, no integer from 0 on'):
        import_model(onnx.parser.parse_model(_SIZED), dims={"batch": size})


@pytest.mark.parametrize(("given", "said"), [
    ({"dims": [3]}, "dims are a mapping"), ({"dims": {1: 3}}, "dims are a mapping"), ({"dims": "batch=3"}, "dims are a mapping"),
    ({"constants": [1]}, "constants are a mapping"), ({"types": ["X"]}, "types are a mapping"),
    ({"types": {"names": "string[2]"}}, r"the type of \"names\" is 'string\[2\]', no TensorType"),
    ({"types": {"Z": TensorType("float", (2, 3))}}, '"Z" is no input'), ({"constants": {"Z": np.ones(2)}}, '"Z" is no input'),
])
def test_what_is_no_option_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidModel, match=said):
        import_model(onnx.parser.parse_model(_SIZED), **given)


def test_sizes_are_integers_of_numpy_too(sized: Script) -> None:
    script = import_model(onnx.parser.parse_model(_SIZED), dims={"batch": np.int64(3)})
    assert script.outputs[0].dims[0] == 3 and sized.outputs[0].dims[0] != 3


def test_interface(sized: Script) -> None:
    assert interface_lines(sized.interface, "read from a.weights") == [
        "takes x_1    (x.1) float [batch, 3, h, w], batch rows, 3 * h * w columns (the last axis fastest)",
        "      names  string [batch, 2], a frame",
        "      h      the size of axis 2 of x_1, an integer",
        "      w      the size of axis 3 of x_1, an integer",
        "gives y      float [batch, 3, h, w], batch rows, 3 * h * w columns (the last axis fastest)",
        "      z      float [h], a matrix of one column",
    ]


def test_sizes_of_the_run_and_of_items_have_plain_names() -> None:
    script = import_model(onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
        places (float[n, 4] X, seq(float[m, 4]) L) => (int64[3, 2, k] Y, seq(float[m, 4]) M) {
            Z = NonZero (X)
            shape = Constant <value = int64[3] {3, 1, 1}> ()
            Y = Expand (Z, shape)
            M = Identity (L)
        }"""))
    assert interface_lines(script.interface, "read from a.weights") == [
        "takes X  float [n, 4]", "      L  a list (sequence) of float [item0, 4]",
        "gives Y  int64 [3, 2, Z_dim1], 3 rows, 2 * Z_dim1 columns (the last axis fastest)",
        "      M  a list (sequence) of float [item0, 4]",
    ]
    assert signature(script.interface) == "gen_places(X [n, 4], L list of [item0, 4]) -> Y [3, 2, Z_dim1], M list of [item0, 4]"


def test_a_returned_size_of_the_run_has_a_plain_name() -> None:
    script = import_model(onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
        cut (float[n, m] X, bool[k] c) => (float[n, j] Y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
            Z = NonZero (c)
            shape = Shape (Z)
            end = Slice (shape, one, two)
            Y = Slice (X, zero, end, one)
        }"""))
    assert interface_lines(script.interface, "read from a.weights")[-1].split(None, 1)[1] == "the size Z_dim1, an integer"


def test_weights_are_loaded_first(tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.arange(60000, dtype=np.float32).reshape(200, 300), "W")
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17]> linear (float[n, 200] X) => (float[n, 300] Y) { Y = MatMul (X, W) }'
    )
    model.graph.initializer.append(weight)
    script = import_model(model)
    lines = ['source("a.dml") as a', "weights = a::gen_linear_init()", "Y = a::gen_linear(X, weights)"]
    assert call_lines(script.interface, "a") == lines
    assert interface_lines(script.interface, "read from a.weights")[1].split() == ["weights", "read", "from", "a.weights"]
    signed = "gen_linear(X [n, 200]) -> Y [n, 300], 1 weight in a.weights"
    assert success_lines(script.interface, Path("m.onnx"), Path("a.dml")) == [
        f"m.onnx -> a.dml: {signed}", *(f"  {line}" for line in lines),
    ]
    assert success_lines(script.interface, Path("m.onnx"), tmp_path / "a.dml") == [
        f"m.onnx -> {tmp_path}/a.dml: {signed}",
        *(f"  {line}" for line in [f'source("{tmp_path}/a.dml") as a', *lines[1:]]),
        f"  on the engine's command line: -nvargs a_weights={tmp_path}/a.weights",
    ]
    script.save(tmp_path / "a.dml")
    assert "".join(f"# {line}\n" for line in lines) in (tmp_path / "a.dml").read_text()
    inline = import_model(model, weights="inline")
    *_, last = success_lines(inline.interface, Path("m.onnx"), tmp_path / "a.dml")
    assert last == "  a.weights is of an earlier conversion: this script does not read it"


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (Port("x", "float", ()), "float, a number"),
        (Port("x", "string", ()), "string, a string"),
        (Port("x", "int64", (5,)), "int64 [5], a matrix of one column"),
        (Port("x", "string", (5,)), "string [5], a frame of one column"),
        (Port("x", "float", (2, 3)), "float [2, 3]"),
        (Port("x", "string", (2, 3)), "string [2, 3], a frame"),
        (Port("x", "float", (2, 3, 4)), "float [2, 3, 4], 2 rows, 12 columns (the last axis fastest)"),
        (Port("x", "float", (2, 3), keys=(4, 5, 6), kind="maps"), "float [2, 3], columns 4, 5, 6"),
        (Port("x", "float", (3,), kind="sequence"), "a list (sequence) of float [3]"),
    ],
)
def test_layouts(port: Port, expected: str) -> None:
    assert described(port) == expected


def test_versions_and_metadata_stand_at_the_head() -> None:
    model = onnx.parser.parse_model(_SIZED)
    model.model_version = 7
    onnx.helper.set_model_props(model, {"author": "A\nB", "license": "Apache-2.0"})
    text = import_model(model).text
    assert ", version 7)\n# author: A\\nB\n# license: Apache-2.0\n" in text
