"""Scripts that were converted from ONNX, with what their init function makes of weights, become models again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.weight_files import read_value
from tests.exporting.export_harness import run_model
from tests.invoking import invoke

MODEL = """<ir_version: 9, opset_import: ["" : 18]> g (float[n,2,9] x) => (float[n,2,5] y)
    <float[2,2,3] w = {1, -2, 3, 4, 5, -6, 7, 8, 9, 1, 2, 3}> { y = Conv <dilations = [2]> (x, w) }"""
INPUTS = {"x": "double[N,18]"}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script whose filters are in another order, which is made when the weights are loaded."""
    import_model(onnx.parser.parse_model(MODEL), weights="files").save(tmp_path / "g.dml")
    assert 'rbind(weights, list(y_filters=y_filters))' in (tmp_path / "g.dml").read_text()
    return tmp_path / "g.dml"


def test_the_list_of_the_folder_is_what_init_makes_of_it(script: Path) -> None:
    bound = read_value(script.with_suffix(".weights"))
    model = export_script(script, "gen_g", inputs=INPUTS, bindings={"weights": bound})
    assert {entry.key: entry.value for entry in model.metadata_props}["script"] == "g.dml"
    x = np.sin(np.arange(36, dtype=np.float32)).reshape(2, 18)
    original = run_model(onnx.parser.parse_model(MODEL), {"x": x.reshape(2, 2, 9)})
    np.testing.assert_allclose(run_model(model, {"x": x})["y"], original["y"].reshape(2, 10), rtol=1e-5)


def test_a_list_with_all_items_is_taken_as_it_is(script: Path) -> None:
    bound = {"y_filters": np.zeros((6, 2)), "y_shifts": np.zeros((5, 27))}
    model = export_script(script, "gen_g", inputs=INPUTS, bindings={"weights": bound})
    assert not run_model(model, {"x": np.ones((1, 18), np.float32)})["y"].any()


@pytest.mark.parametrize(("bindings", "words"), [
    ({"weights": {"w": np.ones((4, 3)), "more": np.ones((1, 1))}}, "g.weights is of another script"),
    ({}, "hint: bind it: --weight weights={folder}"),
])
def test_refused(bindings: dict[str, object], words: str, script: Path) -> None:
    with pytest.raises(TranspileError) as refused:
        export_script(script, "gen_g", inputs=INPUTS, bindings=bindings)
    assert words.format(folder=script.with_suffix(".weights")) in str(refused.value)


@pytest.mark.engine
def test_both_sides_agree(script: Path) -> None:
    folder = script.with_suffix(".weights")
    of_function = ["--function", "gen_g", "--weight", f"weights={folder}", "--input", f"x={INPUTS['x']}"]
    program = script.with_name("call.dml")
    program.write_text('source("g.dml") as g\nX = read("X", rows=2, cols=18)\nweights = g::gen_g_init()\n'
                       'Y = g::gen_g(X, weights)\nwrite(Y, "Y")\n')
    for arguments in ([script, *of_function], [program, "--weight", f"g.weights/weights={folder}"]):
        result = invoke("verify", *arguments)
        assert result.output.endswith("passed: 1 of 1 outputs agree\n"), result.output
