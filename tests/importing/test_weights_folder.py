"""The way from a script to its weights: a folder by the script's own name, or one that an argument of its own names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.engine import shared_session
from onnx_systemds.importing.interface import weights_argument
from onnx_systemds.importing.script import Script
from tests.command_line import run_dml


def product(value: float, count: int = 1) -> Script:
    """y = x W for each of some weights that are filled with ``value``; all models have the graph's name in common."""
    names = [f"w{number}" for number in range(count)]
    held = [onnx.numpy_helper.from_array(np.full((9, 9), value + number, np.float32), name)
            for number, name in enumerate(names)]
    nodes = [helper.make_node("MatMul", ["x" if number == 0 else f"y{number - 1}", name], [f"y{number}"])
             for number, name in enumerate(names)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 9])
    y = helper.make_tensor_value_info(f"y{count - 1}", TensorProto.FLOAT, ["n", 9])
    graph = helper.make_graph(nodes, "product", [x], [y], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return import_model(model, weights="files")


def program(*names: str) -> str:
    """Scores a row of ones with each of the scripts and prints the first cell of each result."""
    lines = [f'source("{name}.dml") as m{place}' for place, name in enumerate(names)]
    lines.append("x = matrix(1, rows=1, cols=9)")
    for place in range(len(names)):
        lines += [f"w{place} = m{place}::gen_product_init()", f"y{place} = m{place}::gen_product(x, w{place})",
                  f"print({place} + ': ' + as.scalar(y{place}[1, 1]))".replace("'", '"')]
    return "\n".join(lines)


def test_two_scripts_in_one_program(tmp_path: Path) -> None:
    product(1.0).save(tmp_path / "a.dml")
    product(2.0).save(tmp_path / "b.dml")
    assert run_dml(program("a", "b"), tmp_path).splitlines()[:2] == ["0: 9.0", "1: 18.0"]
    (tmp_path / "b.weights").rename(tmp_path / "elsewhere")
    (tmp_path / "a.weights").rename(tmp_path / "another place")
    for address in ("elsewhere", "./elsewhere/", str(tmp_path / "elsewhere"), (tmp_path / "elsewhere").as_uri()):
        places = {"b_weights": address, "a_weights": "another place"}
        assert run_dml(program("a", "b"), tmp_path, arguments=places).splitlines()[:2] == ["0: 9.0", "1: 18.0"]
    own = program("b", "b").replace("m1::gen_product_init()", 'read("another place/weights", data_type="list")')
    assert run_dml(own, tmp_path, arguments={"b_weights": "elsewhere"}).splitlines()[:2] == ["0: 18.0", "1: 9.0"]


@pytest.mark.parametrize("mode", ["singlenode", "hybrid"])
def test_script_of_another_folder(mode: str, tmp_path: Path) -> None:
    """The folder is not that of the conversion: a script is moved together with its weights, and started there."""
    (tmp_path / "made").mkdir()
    product(3.0).save(tmp_path / "made" / "a.dml")
    assert "made" not in (tmp_path / "made" / "a.dml").read_text()
    (tmp_path / "made").rename(tmp_path / "moved")
    assert "0: 27.0" in run_dml(program("a"), tmp_path / "moved", mode)
    assert "0: 27.0" in run_dml(program("moved/a"), tmp_path, mode, arguments={"a_weights": "moved/a.weights"})


@pytest.mark.parametrize(("arguments", "missing"), [({}, "a.weights"), ({"a_weights": "no/where"}, "no/where")])
def test_missing_folder_is_told_with_the_script(arguments: dict[str, str], missing: str, tmp_path: Path) -> None:
    product(1.0).save(tmp_path / "a.dml")
    (tmp_path / "a.weights").rename(tmp_path / "b.weights")
    with pytest.raises(AssertionError) as caught:
        run_dml(program("a"), tmp_path, arguments=arguments)
    assert "a.dml [line" in str(caught.value) and f"does not exist on FS (local mode): {missing}/" in str(caught.value)


def test_weights_of_another_script_are_told(tmp_path: Path) -> None:
    product(1.0).save(tmp_path / "a.dml")
    product(1.0, count=3).save(tmp_path / "b.dml")
    (tmp_path / "v2").mkdir()
    product(2.0).save(tmp_path / "v2" / "a.dml")  # trained again: the same names and sizes
    told = "{}.weights is of another script; the right one: -nvargs a_weights=<folder>"
    with pytest.raises(AssertionError, match=told.format("b")):
        run_dml(program("a"), tmp_path, arguments={"a_weights": "b.weights"})
    with pytest.raises(AssertionError, match=told.format("a")):
        run_dml(program("a", "v2/a"), tmp_path, arguments={"a_weights": "a.weights"})


def test_a_list_of_ones_own_has_no_mark(tmp_path: Path) -> None:
    """As a script that trains writes it, and versions before this one did."""
    product(1.0).save(tmp_path / "a.dml")
    text = program("a") + '\nL = list(w0=matrix(3, rows=9, cols=9))\nwrite(L, "own/weights", format="binary")\n'
    run_dml(text, tmp_path)
    assert "0: 27.0" in run_dml(program("a"), tmp_path, arguments={"a_weights": "own"})


def test_names_of_any_characters(tmp_path: Path) -> None:
    names = ["1 model.v2", "matrix", "weights", "ä", "it's", "a-b+c,d=e", "[a]{b}*?", "%20", "c:d"]
    for place, name in enumerate(names):
        product(2.0).save(tmp_path / f"{name}.dml")
        (tmp_path / f"{name}.dml").rename(tmp_path / f"s{place}.dml")
    text = program(*(f"s{place}" for place in range(len(names))))
    expected = [f"{place}: 18.0" for place in range(len(names))]
    assert run_dml(text, tmp_path).splitlines()[: len(names)] == expected
    places = {}
    for place, name in enumerate(names):
        (tmp_path / f"{name}.weights").rename(tmp_path / f"p{place}")
        places[weights_argument(name)] = f"p{place}"
    assert len(places) == len(names)
    assert run_dml(text, tmp_path, arguments=places).splitlines()[: len(names)] == expected


def test_header_stays_a_comment() -> None:
    text = product(1.0).text_for('a\nstop("b")\r c')
    assert "stop" not in "".join(line for line in text.split("gen_product =")[0].splitlines() if line[:1] != "#")


def test_by_the_interface_of_java(tmp_path: Path) -> None:
    """JMLC, which reads metadata only where it is told to."""
    script = product(2.0)
    script.save(tmp_path / "a.dml")
    text = script.text_for("a").replace('"a.weights"', f'"{tmp_path}/a.weights"')
    text += 'x = read("./x", rows=1, cols=9)\nw = gen_product_init()\ny = gen_product(x, w)\nwrite(y, "./y")\n'
    prepared = shared_session().prepare(text, ["x"], ["y"])
    for _ in range(2):
        np.testing.assert_array_equal(prepared({"x": np.ones((1, 9))})["y"], np.full((1, 9), 18.0))
