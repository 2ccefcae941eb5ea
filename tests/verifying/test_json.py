"""What commands print with ``--json``."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from onnx_systemds.cli.builtin_table import builtin_lines
from onnx_systemds.cli.json_text import json_text
from onnx_systemds.cli.options import print_report
from onnx_systemds.cli.support_table import table_lines
from onnx_systemds.inference.dims import symbol
from onnx_systemds.verifying.comparing import Comparison
from onnx_systemds.verifying.report import NodeComparison, Report
from tests.invoking import invoke


@dataclass(frozen=True, slots=True)
class _Pair:
    left: object
    right: object


def test_what_json_has_no_word_for_is_text() -> None:
    value = {"a": _Pair(np.float32(0.5), np.int64(3)), 2: (float("nan"), float("-inf"), None, True), "d": symbol("n") * 2}
    assert json.loads(json_text(value)) == {"a": {"left": 0.5, "right": 3}, "2": ["nan", "-inf", None, True], "d": "2 * n"}


def test_a_report_has_its_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    apart = Comparison("h", "float32", (2,), 1.0, float("inf"), 9.0, (1,), np.float32(2), np.float32("nan"), 1)
    same = Comparison("Y", "float32", (2,))
    report = Report("onnxruntime", ("why",), "random", {"X": "float32 [2]"}, {"n": 2}, (), (same,),
                    (NodeComparison("#0", "Abs", apart),))
    print_report(report, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is True and found["first_apart"] == "#0" and found["sizes"] == {"n": 2}
    assert found["outputs"] == [
        {"passed": True, "name": "Y", "dtype": "float32", "dims": [2], "absolute": 0.0, "relative": 0.0, "severity": 0.0,
         "where": None, "actual": None, "expected": None, "failed": 0, "problem": "", "ulps": None,
         "through": ""}
    ]
    assert found["nodes"][0]["passed"] is False and found["nodes"][0]["relative"] == "inf"
    assert found["nodes"][0]["actual"] == 2.0 and found["nodes"][0]["expected"] == "nan"


def test_operators_and_builtins_are_those_of_the_tables() -> None:
    operators = json.loads(invoke("operators", "--json").stdout)
    rows = [line for line in table_lines() if line.startswith("| ") and not line.startswith("| operator")]
    assert len(operators) == len(rows)
    assert {"domain": "", "operator": "Abs", "imported": "yes"}.items() <= operators[0].items()
    builtins = json.loads(invoke("builtins", "--json").stdout)
    rows = [line for line in builtin_lines() if line.startswith("| `")]
    assert sum(map(len, builtins.values())) == len(rows)
    assert {"function": "erf", "of": "converted models", "computes": "Erf of each element, in float32."} in builtins["functions"]


def test_facets_tell_the_gaps() -> None:
    found = json.loads(invoke("operators", "--facets", "--json").stdout)
    assert found["facets"].keys() == found["operators"][0]["facets"].keys()
    of_abs = next(row["facets"] for row in found["operators"] if row["operator"] == "Abs")
    assert of_abs["gradient"] == "yes" and of_abs["sizes"] == "" and of_abs["text"] == "-"
