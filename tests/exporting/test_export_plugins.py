"""Builtins of a user's own: the example of the documentation, and what a plugin cannot do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result

from tests.exporting.export_harness import operators, run_model
from tests.invoking import invoke
from tests.test_docs import ADDING_BUILTIN, example

pytestmark = pytest.mark.usefixtures("registries_restored")

SCRIPT = 'X = read("X")\nY = relu6(X) + relu6(X=X, top=1)\nwrite(Y, "Y")\n'


def exported(folder: Path, plugin: str) -> Result:
    (folder / "m.dml").write_text(SCRIPT)
    (folder / "my_builtins.py").write_text(plugin)
    return invoke(folder / "m.dml", "--input", "X=double[N,3]", "--plugin", folder / "my_builtins.py")


def test_builtin_of_a_plugin(tmp_path: Path) -> None:
    for _ in range(2):  # again in the same process
        result = exported(tmp_path, example("export plugin", ADDING_BUILTIN))
        assert result.exit_code == 0, result.output
    model = onnx.load(tmp_path / "m.onnx")
    assert operators(model) == ["Relu", "Min", "Min", "Add"]
    np.testing.assert_array_equal(run_model(model, {"X": np.array([[-1, 0.5, 9]])})["Y"], [[0, 1, 7]])


def test_builtin_of_the_house_as_the_documentation_adds_it(tmp_path: Path) -> None:
    (tmp_path / "labels.py").write_text(example("export builtin", ADDING_BUILTIN))
    (tmp_path / "m.dml").write_text('X = read("X")\nwrite(toOneHot(X, 3), "Y")\n')
    result = invoke(tmp_path / "m.dml", "--input", "X=double[N,1]", "--plugin", tmp_path / "labels.py")
    assert result.exit_code == 0, result.output
    model = onnx.load(tmp_path / "m.onnx")
    assert operators(model) == ["Equal", "Cast"]
    np.testing.assert_array_equal(run_model(model, {"X": np.array([[3], [1]])})["Y"], [[0, 0, 1], [1, 0, 0]])


def test_without_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "m.dml").write_text(SCRIPT)
    result = invoke(tmp_path / "m.dml")
    assert result.exit_code == 1
    assert "relu6 is no function of the script, and no builtin that can be exported" in result.output
    assert "hint: --plugin registers builtins of your own" in result.output


def test_a_builtin_stays_what_it_is(tmp_path: Path) -> None:
    result = exported(tmp_path, example("export plugin", ADDING_BUILTIN).replace('"relu6"', '"sum"'))
    assert result.exit_code == 1
    assert f'error: {tmp_path}/my_builtins.py: the plugin fails on line 4: ValueError: an exporter of "sum" is registered at onnx_systemds/' in result.output
    assert "to take its place say override=True" in result.output
    assert not (tmp_path / "m.onnx").exists()


def test_a_builtin_that_is_overridden(tmp_path: Path) -> None:
    (tmp_path / "m.dml").write_text('X = read("X")\nwrite(abs(X), "Y")\n')
    plugin = example("export plugin", ADDING_BUILTIN).replace('"relu6"', '"abs", override=True')
    (tmp_path / "p.py").write_text(plugin)
    for _ in range(2):
        result = invoke(tmp_path / "m.dml", "--input", "X=double[N,3]", "--plugin", tmp_path / "p.py")
        assert result.exit_code == 0, result.output
    assert operators(onnx.load(tmp_path / "m.onnx")) == ["Clip"]


def test_what_a_plugin_refuses_has_its_line(tmp_path: Path) -> None:
    plugin = example("export plugin", ADDING_BUILTIN).replace("    return ", "    from onnx_systemds.errors import UnsupportedCase\n    raise UnsupportedCase('not today')\n    return ")
    result = exported(tmp_path, plugin)
    assert result.exit_code == 1
    assert f"{tmp_path}/m.dml:2:5: not today" in result.output


def test_what_a_plugin_gives_is_a_value(tmp_path: Path) -> None:
    plugin = example("export plugin", ADDING_BUILTIN).replace("    return ", "    return 3\n    return ")
    result = exported(tmp_path, plugin)
    assert result.exit_code == 1
    assert f"{tmp_path}/m.dml:2:5: the exporter of relu6 gives 3, which is no value of DML" in result.output


def test_what_is_refused_can_be_exported(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(example("export plugin", ADDING_BUILTIN).replace('"relu6"', '"transformmeta"'))
    shown = [invoke("builtins", *words).output for words in ([], ["--plugin", str(tmp_path / "p.py")])]
    assert ["`transformmeta(" in text for text in shown] == [False, True]
    assert ["`transformmeta`" in text for text in shown] == [True, False]


def test_a_builtin_that_fails_has_its_line(tmp_path: Path) -> None:
    plugin = example("export plugin", ADDING_BUILTIN).replace("    return ", "    {}['nothing']\n    return ")
    line = plugin.splitlines().index("    {}['nothing']") + 1
    result = exported(tmp_path, plugin)
    assert result.exit_code == 1 and not (tmp_path / "m.onnx").exists()
    assert f"{tmp_path}/m.dml:2:1: the plugin fails at {tmp_path}/my_builtins.py:{line}: KeyError: 'nothing'" in result.output


def test_a_join_that_fails_has_its_name_and_line(tmp_path: Path) -> None:
    plugin = example("export plugin", ADDING_BUILTIN).replace("import Context", "import join, Context") + '\n\n@join("mine", "Min")\ndef mine(graph, node):\n    return node.nothing\n'
    result = exported(tmp_path, plugin)
    assert result.exit_code == 1 and not (tmp_path / "m.onnx").exists()
    assert 'error: join "mine" at ' in result.output and f"the plugin fails at {tmp_path}/my_builtins.py:{len(plugin.splitlines())}: AttributeError" in result.output


@pytest.mark.parametrize("formula, message", [
    (" * (1 - (ctx.flat(X) == 0))", "a tensor is compared with a number by equals"),  # a number, and nobody told
    (" if ctx.flat(X) > 0 else ctx.flat(X)", "whether a tensor holds is known by the run alone: ctx.g.where(tensor, a, b) chooses"),
    (" * (0 < ctx.flat(X) < 6)", "whether a tensor holds is known by the run alone"),
], ids=["equal", "branch", "chain"])
def test_formulas_take_no_tensor_for_a_truth(tmp_path: Path, formula: str, message: str) -> None:
    result = exported(tmp_path, example("export plugin", ADDING_BUILTIN).replace(".at_most(top)", formula))
    assert result.exit_code == 1
    assert f"TypeError: {message}" in result.output
