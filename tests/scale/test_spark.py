"""Programs that score files in hybrid mode, as tasks of Spark's own process and of executors, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.invoking import invoke
from tests.model_zoo import MODELS, needs_models
from tests.scale.places import spark_home
from tests.scored_files import stored_rows

pytestmark = [needs_models, pytest.mark.spark, pytest.mark.engine]
ROWS = 200


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
