"""Hybrid mode, against onnxruntime: programs that score files, and scripts whose data the driver holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from onnx_systemds import explain_model, import_model
from onnx_systemds.importing.script import Script
from onnx_systemds.verifying.comparing import compare_tensors
from tests.invoking import invoke
from tests.model_zoo import MODELS, needs_models
from tests.plain_engine import PlainCall, sourced
from tests.runtime.test_products import depthwise
from tests.scale.places import Place, opened_place, spark_home
from tests.scored_files import stored_rows

pytestmark = [pytest.mark.spark, pytest.mark.engine]
ROWS = 200


@needs_models
@pytest.mark.parametrize("model", ["mlp_tabular.ts", "xgb_wine"])
def test_command_line(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the one that the embedded engine writes."""
    assert MODELS is not None
    path = MODELS / "generated" / f"{model}.onnx"
    (rows,) = stored_rows(path, ROWS).values()
    source = tmp_path / "rows.csv"
    np.savetxt(source, rows, delimiter=",", fmt="%.9g")
    monkeypatch.setenv("SPARK_HOME", str(spark_home()))
    command = ["score", str(path), "--input", str(source), "--no-header", "--chunk-rows", "64", "--output"]
    on_spark = ["--engine", "spark", "--master", "local[2]", "--conf", "spark.driver.memory=2g"]
    for name, options in (("local.csv", []), ("spark.csv", on_spark)):
        result = invoke(*command, tmp_path / name, *options)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "spark.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()


@pytest.fixture(scope="module", name="place")
def hybrid_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened_place("hybrid", tmp_path_factory.mktemp("place")) as place:
        yield place


def without_spark(script: Script, feeds: dict[str, Any], place: Place, name: str, open_sizes: bool = False) -> dict[str, Any]:
    """The outputs of a program that sources the script, of whose instructions none ran on Spark.

    open_sizes: the compiler does not know the sizes of the inputs.
    """
    call = PlainCall(script, feeds, place.folder, f"{name}_", name, open_sizes)
    lines = [*sourced(script, place.folder, name), "never = time() < 0", *call.statements()]
    (place.folder / "program.dml").write_text("\n".join(lines) + "\n")
    printed = place.run("program.dml", {}, "-stats")
    executed = re.findall(r"^Number of executed Spark inst:\s+(\d+)", printed, re.MULTILINE)
    assert executed == ["0"], re.findall(r"\bsp_.*", printed)
    return call.results()


@needs_models
@pytest.mark.parametrize("model", [
    "bert_tiny.ts", "gpt2_tiny.dynamo", "lgb_dia", "lstm_gru_tagger.ts", "resnet_tiny.qdq", "skl_mixed_cols", "txt_tfidf_lr",
])
@pytest.mark.parametrize("open_sizes", [False, True])
def test_what_the_driver_holds_needs_no_spark(model: str, open_sizes: bool, place: Place) -> None:
    """In hybrid mode, which is the engine's default, jobs of a few rows would take a hundred times as long."""
    assert MODELS is not None
    path = MODELS / "generated" / f"{model}.onnx"
    feeds = stored_rows(path, 6)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = dict(zip([output.name for output in runtime.get_outputs()], runtime.run(None, feeds), strict=True))
    results = without_spark(import_model(path), feeds, place, f"{model.replace('.', '_')}_{open_sizes}", open_sizes)
    assert all(compare_tensors(name, results[name], value).passed for name, value in expected.items())


def test_depthwise_convolutions_need_no_spark(place: Place) -> None:
    """Their sparse matrices have more cells than the driver could hold if they were dense."""
    model = depthwise(32, 1, (3, 3), [2, 32, 57, 60], pads=[1, 1, 1, 1], strides=[2, 1])
    feeds = {"x": np.random.default_rng(1).normal(size=(2, 32, 57, 60)).astype(np.float32)}
    script = import_model(model)
    assert "depthwise_matrix(" in script.text
    results = without_spark(script, feeds, place, "depthwise")
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(results["y"], runtime.run(None, feeds)[0], rtol=1e-5, atol=1e-5)


@needs_models
def test_explaining_needs_no_spark(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MODELS is not None
    path = MODELS / "generated" / "xgb_wine.onnx"
    (rows,) = stored_rows(path, 6).items()
    monkeypatch.chdir(place.folder)
    assert invoke(path, "-o", "wine.dml", "--explain").exit_code == 0
    np.savetxt("rows.csv", rows[1], delimiter=",", fmt="%.9g")
    arguments = {rows[0]: "rows.csv", "contributions": "contributions.csv", "permutations": "6"}
    printed = place.run("wine_explain.dml", arguments, "-stats")
    assert re.findall(r"^Number of executed Spark inst:\s+(\d+)", printed, re.MULTILINE) == ["0"]
    found = explain_model(path, dict([rows]), permutations=6)
    written = np.loadtxt("contributions.csv", delimiter=",")
    np.testing.assert_allclose(written, np.column_stack([found.contributions, found.base]), rtol=1e-12, atol=1e-12)
