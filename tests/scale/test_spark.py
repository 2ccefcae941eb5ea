"""Programs that score files in hybrid mode, as tasks of Spark's own process and of executors, against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from onnx_systemds.cli.commands import main
from onnx_systemds.verifying.comparing import compare_tensors
from tests.model_zoo import MODELS, needs_models
from tests.scale.spark_places import MASTERS, Place, opened_place, spark_home
from tests.scored_files import converted, expected_rows, numbers, stored_rows, targets, written

pytestmark = [needs_models, pytest.mark.spark, pytest.mark.engine]
ROWS = 200
FAMILIES = {
    "MLP": "mlp_tabular.ts",
    "XGBoost": "xgb_wine",
    "LightGBM": "lgb_dia",
    "random forest": "skl_bc_rf",
    "CNN": "resnet_tiny.ts",
    "transformer": "bert_tiny.ts",
    "LSTM": "lstm_gru_tagger.ts",
    "columns with texts": "skl_mixed_cols",
    "texts": "txt_tfidf_lr",
}
NO_TASKS = {
    "texts": "one call has all rows",  # a tokenizer makes as many columns as the longest text of all has words
}


@pytest.mark.parametrize("family", ["MLP", "XGBoost"])
def test_command_line(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the one that the embedded engine writes."""
    assert MODELS is not None
    path = MODELS / "generated" / f"{FAMILIES[family]}.onnx"
    (rows,) = stored_rows(path, ROWS).values()
    source = tmp_path / "rows.csv"
    np.savetxt(source, rows, delimiter=",", fmt="%.9g")
    monkeypatch.setenv("SPARK_HOME", str(spark_home()))
    command = ["score", str(path), "--input", str(source), "--no-header", "--chunk-rows", "64", "--output"]
    on_spark = ["--engine", "spark", "--master", "local[2]", "--conf", "spark.driver.memory=2g"]
    for name, options in (("local.csv", []), ("spark.csv", on_spark)):
        result = CliRunner().invoke(main, [*command, str(tmp_path / name), *options])
        assert result.exit_code == 0, result.output
    assert (tmp_path / "spark.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()


@pytest.fixture(scope="module", params=MASTERS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened_place(request.param, tmp_path_factory.mktemp("place")) as found:
        yield found


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str, place: Place) -> None:
    assert MODELS is not None
    path, name = MODELS / "generated" / f"{FAMILIES[family]}.onnx", FAMILIES[family].replace(".", "_")
    program = f"score_{name}.dml"
    script, feeds = converted(path, place.folder, name, program), stored_rows(path, ROWS)
    outputs = targets(script, f"{name}_")
    arguments = {**written(script, feeds, place.folder, f"{name}_"), **outputs}
    if place.name != "hybrid" and family in NO_TASKS:
        with pytest.raises(Exception, match=NO_TASKS[family]):
            place.run(program, {**arguments, "place": "spark"})
        return
    if family != "texts":
        arguments |= {"rows": "64", "place": "local" if place.name == "hybrid" else "spark"}
    assert f"scored {ROWS} rows in" in place.run(program, arguments)
    for (output, target), expected in zip(outputs.items(), expected_rows(script, path, feeds)):
        found = numbers(place.folder / target)
        comparison = compare_tensors(output, found.reshape(expected.shape).astype(expected.dtype), expected)
        assert comparison.passed, comparison
