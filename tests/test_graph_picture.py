"""``inspect --graph``: the typed graph as text, as a picture, and on a page."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import onnx
import pytest

from onnx_systemds.cli.layered_layout import Layout, layered
from onnx_systemds.importing import convert
from onnx_systemds.inference.infer import infer
from onnx_systemds.model.ir import Graph
from tests.test_cli import invoke

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
GRAPH = """g (float[batch, 2] X, bool c) => (float[batch, 3] Y, float[M] Z)
    <float[2, 3] w = {1, 2, 3, 4, 5, 6}, int64[1] all = {-1}, float one = {1}, float two = {2}>
    { three = Add(one, two) s = Shape(X) a = Mul(X, three) Y = Gemm <alpha = 0.5> (a, w)
      r = Reshape(X, s) b = If (c) <then_branch = t () => (float[batch, 2] u) { u = Neg(r) },
                                     else_branch = e () => (float[batch, 2] v) { v = Abs(a) }>
      Z = Reshape(b, all) }"""
TEXT = """\
input X: float [batch, 2]
input c: bool []
a: float [batch, 2] = Mul(X, three)
Y: float [batch, 3] = Gemm <alpha=0.5>(a, w)
r: float [batch, 2] = Reshape(X, s)
b: float [batch, 2] = If <else_branch=graph, then_branch=graph>(c)
  then_branch:
    u: float [batch, 2] = Neg(r)
    output u: float [batch, 2]
  else_branch:
    v: float [batch, 2] = Abs(a)
    output v: float [batch, 2]
Z: float [2 * batch] = Reshape(b, all)
output Y: float [batch, 3]
output Z: float [2 * batch]
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(HEADER + GRAPH), tmp_path / "small<&>.onnx")
    return tmp_path / "small<&>.onnx"


def test_text(saved: Path) -> None:
    target = saved.with_name("g.txt")
    result = invoke("inspect", saved, "--graph", target)
    assert result.exit_code == 0 and "can be converted" in result.output
    assert target.read_text() == TEXT


def test_types_are_inferred_once(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed: list[Graph] = []
    monkeypatch.setattr(convert, "infer", lambda graph, context: typed.append(graph) or infer(graph, context))
    assert "can be converted" in invoke("inspect", saved, "--graph", saved.with_name("g.txt"), "--dim", "batch=4").output
    assert len(typed) == 1


def test_picture(saved: Path) -> None:
    target = saved.with_name("g.svg")
    assert invoke("inspect", saved, "--graph", target).exit_code == 0
    root = ET.parse(target).getroot()
    boxes = [(group.get("class"), *(part.text for part in group if part.tag.endswith("text")))
             for group in root if group.tag.endswith("}g")]
    assert boxes == [
        ("box input", "X", "float [batch, 2]"), ("box input", "c", "bool []"), ("box node", "Mul", "float [batch, 2]"),
        ("box node", "Gemm", "float [batch, 3]"), ("box node", "Reshape", "float [batch, 2]"),
        ("box node", "If", "float [batch, 2]"), ("box node", "Reshape", "float [2 * batch]"),
        ("box output", "Y", "float [batch, 3]"), ("box output", "Z", "float [2 * batch]"),
    ]
    words = [next(iter(path)).text for path in root if path.tag.endswith("path")]
    assert sorted(words) == sorted(["X: float [batch, 2]", "X: float [batch, 2]", "c: bool []", "a: float [batch, 2]",
                                    "a: float [batch, 2]", "r: float [batch, 2]", "b: float [batch, 2]", "Y", "Z"])


def test_page(saved: Path) -> None:
    """Of a model whose name is no UTF-8, too."""
    saved, target = saved.rename(saved.with_stem("small<&>\udcff")), saved.with_name("g.html")
    assert invoke("inspect", saved, "--graph", target).exit_code == 0
    content = target.read_text()
    assert "<h1>small&lt;&amp;&gt;\\udcff.onnx</h1>" in content and "Z: float [2 * batch] = Reshape(b, all)" in content
    assert content.count("<svg") == 1 and not re.search(r"(?:src|href)=", content)


def test_other_names_are_refused(saved: Path) -> None:
    target = saved.with_name("g.png")
    result = invoke("inspect", saved, "--graph", target)
    assert result.exit_code == 1 and "*.txt, *.svg, *.html" in result.output and not target.exists()


def drawn(seed: int) -> tuple[list[float], list[tuple[int, int]], Layout]:
    source = random.Random(seed)
    count = source.randrange(1, 60)
    widths = [source.uniform(20, 150) for _ in range(count)]
    edges = [(source.randrange(end), end) for end in range(1, count) for _ in range(source.randrange(3))]
    return widths, edges, layered(widths, 30, edges)


@pytest.mark.parametrize("seed", range(20))
def test_boxes_lie_apart_and_lines_go_down(seed: int) -> None:
    widths, edges, layout = drawn(seed)
    assert set(layout.lines) == set(edges)
    for (start, end), points in layout.lines.items():
        for box, point, edge in ((start, points[0], 30), (end, points[-1], 0)):
            x, y = layout.corners[box]
            assert point == pytest.approx((x + widths[box] / 2, y + edge))
        assert all(below >= above for (_, above), (_, below) in pairwise(points))
    for row in {y for _, y in layout.corners}:
        boxes = sorted((x, x + width) for (x, y), width in zip(layout.corners, widths) if y == row)
        assert all(right < left for (_, right), (left, _) in pairwise(boxes))
    assert max(x + width for (x, _), width in zip(layout.corners, widths)) <= layout.width + 1e-6
    assert min(x for x, _ in layout.corners) >= 0


def residual_chain(layers: int) -> Layout:
    """Layers of two branches that join, around each of which a line leads."""
    widths, edges = [60.0], []
    for _ in range(layers):
        start = len(widths) - 1
        widths += [77.0, 60.0, 62.0, 70.0, 66.0]
        edges += [(start, start + 1), (start + 1, start + 2), (start + 1, start + 3), (start + 2, start + 4),
                  (start + 3, start + 4), (start + 4, start + 5), (start, start + 5)]
    return layered(widths, 30, edges)


def test_a_long_chain_of_residuals_stays_upright() -> None:
    short, long = residual_chain(5), residual_chain(150)
    assert long.width < short.width + 40
    assert max(abs(x - long.corners[0][0]) for x, _ in long.corners) < 100


def test_nothing_to_lay_out() -> None:
    assert layered([], 30, []) == Layout([], {}, 0.0, 0.0)
