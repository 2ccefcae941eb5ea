"""Programs that score files in hybrid mode, as tasks of Spark's own process and of executors, against onnxruntime."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from onnx_systemds import import_model
from tests.invoking import invoke
from tests.model_zoo import MODELS, needs_models
from tests.plain_engine import PlainCall, sourced
from tests.runtime.test_products import depthwise
from tests.scale.places import opened_place, spark_home
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


def test_depthwise_convolutions_compute_nothing_on_spark(tmp_path: Path) -> None:
    """Their sparse matrices have more cells than the driver could hold if they were dense."""
    model = depthwise(32, 1, (3, 3), [2, 32, 57, 60], pads=[1, 1, 1, 1], strides=[2, 1])
    feeds = {"x": np.random.default_rng(1).normal(size=(2, 32, 57, 60)).astype(np.float32)}
    script = import_model(model)
    assert "depthwise_matrix(" in script.text
    call = PlainCall(script, feeds, tmp_path, "call_", "model")
    (tmp_path / "program.dml").write_text("\n".join([*sourced(script, tmp_path, "model"), *call.statements()]) + "\n")
    with opened_place("hybrid", tmp_path) as place:
        printed = place.run("program.dml", {}, "-stats")
    executed = re.findall(r"^Number of executed Spark inst:\s+(\d+)", printed, re.MULTILINE)
    assert executed in ([], ["0"]) and "SystemDS Statistics" in printed
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(call.results()["y"], runtime.run(None, feeds)[0], rtol=1e-5, atol=1e-5)
