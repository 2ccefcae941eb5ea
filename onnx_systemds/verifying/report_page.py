"""A report as one self-contained HTML page: ``templates/report.html.jinja`` prints what is prepared here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from platform import python_version

from onnx_systemds.dml.templates import page
from onnx_systemds.errors import escaped, shown_path
from onnx_systemds.verifying.comparing import Comparison
from onnx_systemds.verifying.report import NodeComparison, Report, type_text
from onnx_systemds.version import __version__

_PACKAGES = ("onnx", "onnxruntime", "numpy", "systemds")
_MOST_WORST = 20
_WIDTH, _HEIGHT, _LEFT, _TOP = 960.0, 240.0, 56.0, 8.0
_LEAST, _MOST = -6, 3
"""Powers of ten of the tolerance between which the plot shows differences; others are at its edges."""


@dataclass(frozen=True, slots=True)
class Row:
    """A comparison as texts of a table."""

    name: str
    operator: str
    type: str
    absolute: str
    relative: str
    ulps: str
    severity: str
    where: str
    verdict: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A node in the plot. y: of its top; it stands on the plot's lower edge."""

    x: float
    y: float
    width: float
    height: float
    words: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """Largest differences as shares of what is tolerated, node by node. lines: y and label of powers of ten."""

    width: float
    height: float
    left: float
    marks: Sequence[Mark]
    lines: Sequence[tuple[float, str]]
    limit: float


def report_page(report: Report, title: str) -> str:
    """The page. title: what was verified."""
    return page("report.html.jinja").render(
        title=shown_path(title),
        report=report,
        outputs=[_row(output.name, "", output) for output in report.outputs],
        nodes=[_row(node.node, node.op_type, node.comparison) for node in report.nodes],
        worst=[_row(node.node, node.op_type, node.comparison) for node in report.worst_nodes(_MOST_WORST)],
        plot=_plot(report.nodes) if report.nodes else None,
        versions=[*versions()],
    )


def versions() -> Iterator[tuple[str, str]]:
    """What took part, and in which version."""
    yield "onnx-systemds", __version__
    yield "Python", python_version()
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def _row(name: str, operator: str, found: Comparison) -> Row:
    is_apart = not found.problem and found.where is not None
    where = f"{list(found.where or ())}: {found.actual!s} for {found.expected!s}" if is_apart else found.problem
    failed = f" ({found.failed} elements)" if found.failed else ""
    return Row(
        escaped(name), operator, type_text(found),
        _number(found.absolute, is_apart), _number(found.relative, is_apart), _number(found.ulps, is_apart),
        _number(found.severity, is_apart), escaped(where), "pass" if found.passed else f"FAIL{failed}", found.passed,
    )


def _number(number: float | None, is_shown: bool) -> str:
    return f"{number:.2g}" if is_shown and number is not None else ""


def _plot(nodes: Sequence[NodeComparison]) -> Plot:
    step = (_WIDTH - _LEFT) / len(nodes)
    bottom = _y(_LEAST)
    marks = [
        Mark(_LEFT + step * place, top, max(step * 0.8, 0.6), bottom - top, _words(node), node.comparison.passed)
        for place, node in enumerate(nodes)
        for top in [_y(_power(node.comparison))]
    ]
    lines = [(_y(power), f"1e{power}" if power else "1") for power in range(_LEAST, _MOST + 1)]
    return Plot(_WIDTH, _HEIGHT, _LEFT, marks, lines, _y(0))


def _power(found: Comparison) -> float:
    """The power of ten of a difference, as a share of what is tolerated."""
    if found.problem or found.severity == math.inf:
        return _MOST
    return min(max(math.log10(found.severity), _LEAST + 0.05), _MOST) if found.severity > 0 else _LEAST


def _y(power: float) -> float:
    return _TOP + (_MOST - power) / (_MOST - _LEAST) * (_HEIGHT - 2 * _TOP)


def _words(node: NodeComparison) -> str:
    found = node.comparison
    share = found.problem or ("equal" if found.where is None else f"{found.severity:.2g} of what is tolerated")
    return f"{node.op_type} {escaped(node.node)}: {share}"
