"""What the benchmarks read from the engine's statistics, and of the programs that they run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from benchmarks import exports, programs, scripts
from benchmarks.engine_statistics import engine_statistics
from benchmarks.expert_models import CASES, Case
from benchmarks.large_models import bert_base, bert_feeds
from benchmarks.programs import Counted
from benchmarks.round_trip import measure
from benchmarks.scale import count_jobs, difference, prepared, scored
from onnx_systemds import import_model
from tests.plain_engine import score_plainly

SCRIPT = """\
gelu = function(matrix[double] X) return (matrix[double] Y) {
a_function_with_a_name_of_more_than_30_characters = function(matrix[double] X) return (matrix[double] Y) {
"""
STATISTICS = """\
HOP DAGs recompile time:\t1.250 sec.
Functions recompile time:\t0.200 sec.
Total JVM GC time:\t\t0.266 sec.
Heavy hitter instructions:
  #  Instruction                      Time(s)  Count
  1  a_function_with_a_name_of_more_      8.000     25
     than_30_characters
  2  ba+*                                 1.500    125
  3  gelu                                 1.250     10
  4  +*                                   1.000    125
  5  conv2d_bias_add                      0.500    125
  6  uark+                                0.250     25
"""


@pytest.mark.parametrize(
    ("seconds", "share"),
    [pytest.param(8.0, 0.25, id="of-the-calls"), pytest.param(2.0, 2 / 3.25, id="side-by-side")],
)
def test_products_are_told_from_other_instructions_and_functions(seconds: float, share: float) -> None:
    found = engine_statistics(STATISTICS, SCRIPT)
    assert Counted(found, 25, seconds).share(found.products) == pytest.approx(share)


def test_thousands_are_read() -> None:
    found = engine_statistics("  1  tsmm  1,500.000  3\n  2  +  500.000  3\n", SCRIPT)
    assert (found.products, found.whole(0.0)) == (1500.0, 2000.0)


def test_what_else_the_engine_counts_is_read() -> None:
    found = engine_statistics(STATISTICS, SCRIPT)
    assert (found.recompiling, found.collecting) == (pytest.approx(1.45), 0.266)
    assert found.operations == 125 * 3 + 25  # without those that only name variables


@pytest.mark.engine
def test_a_program_that_scores_rows_is_measured(tmp_path: Path) -> None:
    with prepared("mlp", 2_100, tmp_path) as case:
        done = scored(case, "local", heap="512m")
        failed = scored(case, "local", heap="512m", given={"rows": "none"})
    assert done.seconds is not None and done.jobs == 0
    assert done.difference < 1e-5
    assert 1e7 < done.ended.largest <= done.ended.peak < 2e9
    assert failed.seconds is None and np.isnan(failed.difference)


def test_jobs_are_counted_in_the_events_of_spark(tmp_path: Path) -> None:
    log = tmp_path / "events"
    events = ("ApplicationStart", "JobStart", "JobEnd", "JobStart")
    log.write_text("".join(f'{{"Event": "SparkListener{event}"}}\n' for event in events), encoding="utf-8")
    assert count_jobs(log) == 2


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([[0.5, 3]], 0.25, id="of-small-numbers"),
        pytest.param([[0.25, 5]], 2 / 3, id="in-relation-to-large-ones"),
        pytest.param([[0.25, 3], [1, 1]], np.nan, id="of-other-sizes"),
    ],
)
def test_difference_of_results(found: list[list[float]], expected: float) -> None:
    assert difference(np.array(found), np.array([[0.25, 3]])) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("error", "said"), [(0.0, ""), (0.25, "Y differs by 2.0e-01")])
def test_a_model_that_comes_back_is_measured(error: float, said: str, tmp_path: Path) -> None:
    path, random = tmp_path / "mlp.onnx", np.random.default_rng(0)
    weights = {"W": random.normal(size=(4, 3)).astype(np.float32), "V": np.full((3, 1), 9, np.float32)}
    nodes = [helper.make_node("MatMul", ["X", "W"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Identity", ["r"], ["i"]), helper.make_node("MatMul", ["i", "V"], ["s"]),
             helper.make_node("Clip", ["s", "zero", "one"], ["Y"])]
    weights |= {"zero": np.zeros((), np.float32), "one": np.ones((), np.float32)}
    ends = [helper.make_tensor_value_info(name, 1, ["N", size]) for name, size in (("X", 4), ("Y", 1))]
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    x = random.normal(size=(5, 4)).astype(np.float32)
    y = np.clip(np.maximum(x @ weights["W"], 0) @ weights["V"], 0, 1)
    y[y.argmax()] += error
    np.savez(path.with_suffix(".npz"), in_X=x, out_Y=y)
    trip, differing = measure(path)
    assert (trip.before.total(), trip.after) == (5, {"MatMul": 2, "Relu": 1, "Clip": 1})
    assert (trip.ratio, trip.grown()) == (0.8, "- Identity 1")
    assert differing == said


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_exports_have_the_nodes_of_an_expert(case: Case) -> None:
    """Not twice as many, and with any batch as many as with a known one."""
    (expert, known, opened), _ = exports.measure(case, 0)
    assert known <= 2 * expert and opened == known


@pytest.mark.parametrize("calls", [0, 1])
def test_a_native_library_has_to_be_used(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"Native openblas calls (dense mult/conv/bwdF/bwdD):\t{calls}/0/0/0.\n" if calls else "1000.0\n"
    monkeypatch.setattr(programs, "run_program", lambda *_, **__: (said, 0.0))
    if calls:
        programs.require_native_blas("openblas")
    else:
        with pytest.raises(RuntimeError, match="finds no libopenblas.so"):
            programs.require_native_blas("openblas")


@pytest.mark.engine
def test_a_layer_of_bert_of_usual_size() -> None:
    """More than 64 MB of weights, which the script takes in parts."""
    model, feeds = bert_base(layers=1), bert_feeds(16)
    script = import_model(model)
    assert script.text.count("the next weights come without sizes") == 1
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    np.testing.assert_allclose(score_plainly(script, feeds)["last"], expected, rtol=1e-4, atol=1e-5)


def test_lines_that_were_measured_again_stand_in_place_of_the_old_ones() -> None:
    head, ruler = "| model | rows | ms |", "|---|--:|--:|"
    stored = "\n".join(["## Scripts", "", head, ruler, "| a | 1 | 2.0 |", "| a | 16 | 9.0 |", "| b | 1 | 3.0 |"])
    again = scripts.measured_again(stored, ["## Scripts", head, ruler, "| a | 16 | 8.0 |"])
    assert again == stored.replace("9.0", "8.0")
    with pytest.raises(SystemExit, match="other columns"):
        scripts.measured_again(stored, ["## Scripts", "| model | rows | ms | ratio |", ruler, "| a | 16 | 8.0 | 1 |"])
