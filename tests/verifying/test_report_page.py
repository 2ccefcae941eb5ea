"""``verify --report``: one page that needs nothing else, and shows what was found."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds.verifying.comparing import Comparison, compare_tensors
from onnx_systemds.verifying.report import NodeComparison, Report
from onnx_systemds.verifying.report_page import report_page
from tests.verifying.test_planted_errors import NAMES, NUMBERS, OPERATORS, network, plant
from tests.verifying.test_verify import invoke

VOID = {"meta", "br"}


class Page(HTMLParser):
    """A page, read strictly: every element is closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.links: list[str] = []
        self.rows: list[list[str]] = []
        self.titles: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "title":
            self.titles.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if not self._open or self._open[-1] != "style" else ""
        if self._open and self._open[-1] == "title":
            self.titles[-1] += data
        elif {"td", "th"} & {*self._open}:
            self.rows[-1][-1] += data


def is_whole(text: str) -> bool:
    """Whether a page asks nothing of others, and does nothing."""
    return not re.search(r"https?://(?!www\.w3\.org/)|<script|@import|url\(|<link|<img|<iframe", text)


def node(name: str, actual: float, expected: float) -> NodeComparison:
    return NodeComparison(name, "Abs", compare_tensors("v", np.array([actual, 1], np.float32), np.array([expected, 1], np.float32)))


REPORT = Report(
    "onnxruntime 1", ("why not <others>",), "random, seed 0", {"X": "float32 [2]"}, {"batch": 2}, ("k",),
    (compare_tensors("Y", np.array([1, 2], np.float32), np.array([1, 3], np.float32)),),
    (node("same", 2, 2), node("near", 2.00001, 2), node("<b>apart</b>", 9, 2), node("never", np.nan, 2)),
    {"the judge": 0.25},
)


def test_a_page_has_all_of_a_report() -> None:
    text = report_page(REPORT, "net\udcff.onnx")
    page = Page(text)
    assert is_whole(text) and page.links == []
    assert page.titles[0] == "net\\udcff.onnx: FAILED"
    assert ["Y", "float32 [2]", "1", "0.33", "4.2e+06", "3.3e+02", "[1]: 2.0 for 3.0", "FAIL (1 elements)"] in page.rows
    assert ["Abs <b>apart</b>", "float32 [2]", "7", "3.5", "2.9e+07", "3.5e+03", "[0]: 9.0 for 2.0", "FAIL (1 elements)"] in page.rows
    assert "The first difference is in node <b>apart</b> (Abs)." in page.text
    assert "4 values compared, 2 differ." in page.text
    assert "why not <others>" in page.text
    assert "known at conversion, because their content decides the script: k" in page.text
    assert "Sizes chosen: batch=2" in page.text
    assert ["the judge", "0.250"] in page.rows
    assert {"onnx-systemds", "Python", "onnx", "numpy"} <= {row[0] for row in page.rows}
    assert str(Path.cwd()) not in text


def test_a_page_names_what_draws_random_numbers() -> None:
    page = Page(report_page(replace(REPORT, drawing=("<drop>", "noise")), "net.onnx"))
    assert 'random numbers are drawn by "<drop>", "noise": no two runs agree.' in page.text
    assert "random numbers" not in Page(report_page(REPORT, "net.onnx")).text


def test_each_node_has_a_bar() -> None:
    text = report_page(REPORT, "net.onnx")
    assert Page(text).titles[1:] == [
        "Abs same: equal",
        "Abs near: 0.005 of what is tolerated",
        "Abs <b>apart</b>: 3.5e+03 of what is tolerated",
        "Abs never: inf of what is tolerated",
    ]
    bars = re.findall(r'<rect class="(bar[ a-z]*)" x="[0-9.]+" y="([0-9.]+)" width="[0-9.]+" height="([0-9.]+)">', text)
    assert [kind for kind, _, _ in bars] == ["bar", "bar", "bar apart", "bar apart"]
    heights = [float(height) for _, _, height in bars]
    limit = float(re.findall(r'class="limit".* y1="([0-9.]+)"', text)[0])
    assert heights[0] == 0
    assert 0 < heights[1] < heights[2] <= heights[3]
    assert float(bars[1][1]) > limit > float(bars[2][1]) >= float(bars[3][1])


def test_a_page_without_nodes() -> None:
    problem = Comparison("Y", "float32", (2,), problem="it is missing")
    text = report_page(replace(REPORT, nodes=(), outputs=(problem,), sizes={}, seconds={}), "net.dml")
    page = Page(text)
    assert page.tags["svg"] == 0
    assert ["Y", "float32 [2]", "", "", "", "", "it is missing", "FAIL"] in page.rows


def test_thousands_of_nodes() -> None:
    nodes = tuple(node(f"/block.{place // 8}/node.{place}", 2 + place / 1e6, 2) for place in range(3000))
    text = report_page(replace(REPORT, nodes=nodes), "big.onnx")
    assert Page(text).tags["rect"] == 3000
    assert len(text) < 3_000_000


@pytest.mark.engine
@pytest.mark.parametrize("op_type", OPERATORS)
def test_a_planted_error_is_in_the_page(op_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").write_bytes(network("batch").SerializeToString())
    plant(monkeypatch, op_type, NUMBERS)
    invoke("verify", tmp_path / "net.onnx", "--per-node", "--report", tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text())
    assert f"The first difference is in node {NAMES[op_type]} ({op_type})." in page.text
    assert str(tmp_path) not in page.text


def test_a_page_replaces_no_file_that_is_read(tmp_path: Path) -> None:
    model = network("batch").SerializeToString()
    (tmp_path / "net.onnx").write_bytes(model)
    result = invoke("verify", tmp_path / "net.onnx", "--report", tmp_path / "net.onnx")
    assert result.exit_code == 1
    assert "would replace a file that is read" in result.output
    assert (tmp_path / "net.onnx").read_bytes() == model
