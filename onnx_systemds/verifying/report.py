"""The report of a verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

from onnx_systemds.columns import aligned
from onnx_systemds.errors import escaped, quoted, quoted_list
from onnx_systemds.verifying.comparing import Comparison
from onnx_systemds.verifying.random_inputs import sizes_text

_MOST_NODES_SHOWN = 10
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """An intermediate value, and the node that computes it."""

    node: str
    op_type: str
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Report:
    """The engine against the judge.

    judge: its name. reasons: why other judges were not used. given: the source of the inputs. inputs: their dtypes and
    dims. sizes: chosen sizes of symbols that nothing else determines. required_constants: the inputs whose content had
    to be known at conversion. nodes: in topological order. seconds: the times of the stages. drawing: of results that
    differ, the nodes of the model that draw random numbers.
    """

    judge: str
    reasons: tuple[str, ...]
    given: str
    inputs: Mapping[str, str]
    sizes: Mapping[str, int]
    required_constants: tuple[str, ...]
    outputs: tuple[Comparison, ...]
    nodes: tuple[NodeComparison, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    drawing: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all outputs agree."""
        return all(output.passed for output in self.outputs)

    @property
    def first_apart(self) -> NodeComparison | None:
        """The first node whose results differ from those of the judge; None if there is none."""
        return next((node for node in self.nodes if not node.comparison.passed), None)

    @property
    def drawing_words(self) -> str:
        """What is told of nodes that draw random numbers."""
        return (f"random numbers are drawn by {quoted_list(self.drawing)}: no two runs agree. "
                "Export a network for inference: in PyTorch, call eval() first")

    def worst_nodes(self, most: int = _MOST_NODES_SHOWN) -> list[NodeComparison]:
        """The nodes with the largest differences relative to their tolerance."""
        ranked = sorted(self.nodes, key=lambda node: (node.comparison.passed, -node.comparison.severity))
        return ranked[:most]

    def summary(self) -> dict[str, object]:
        """The report as data for JSON: its fields, the results, and the first node that differs."""
        first = self.first_apart
        return {
            "passed": self.passed,
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "outputs": [_with_verdict(output) for output in self.outputs],
            "nodes": [{"node": node.node, "op_type": node.op_type, **_with_verdict(node.comparison)}
                      for node in self.nodes],
            "first_apart": None if first is None else first.node,
        }

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"judge: {self.judge}"
        for reason in self.reasons:
            yield f"  {reason}"
        yield f"inputs: {self.given}"
        for name, text in self.inputs.items():
            yield f"  {escaped(name)}: {text}"
        if self.sizes:
            yield f"  sizes chosen here, --dim gives others: {sizes_text(self.sizes)}"
        if self.required_constants:
            names = quoted_list(self.required_constants)
            yield f"  known at conversion, because their content decides the script: {names}"
        yield from _table("output", [(output.name, output) for output in self.outputs])
        if self.nodes:
            yield from self._node_lines()
        if self.drawing:
            yield self.drawing_words
        agreeing = sum(output.passed for output in self.outputs)
        yield f"{'passed' if self.passed else 'FAILED'}: {agreeing} of {len(self.outputs)} outputs agree"

    def _node_lines(self) -> Iterator[str]:
        apart = sum(not node.comparison.passed for node in self.nodes)
        yield f"nodes: {len(self.nodes)} values compared, {apart} differ"
        first = self.first_apart
        if first is not None:
            where = "" if first.comparison.where is None else f" at {list(first.comparison.where)}"
            yield f"the first difference is in node {quoted(first.node)} ({first.op_type}){where}"
        rows = [(f"{node.op_type} {node.node}", node.comparison) for node in self.worst_nodes()]
        yield from _table("worst nodes", rows)


def _with_verdict(comparison: Comparison) -> dict[str, object]:
    return {"passed": comparison.passed, **asdict(comparison)}


def type_text(comparison: Comparison) -> str:
    """The type and dims of a tensor, and the type by which it is judged if that differs."""
    through = f" through {comparison.through}" if comparison.through else ""
    return f"{comparison.dtype}{through} {list(comparison.dims)}"


def _table(title: str, rows: Sequence[tuple[str, Comparison]]) -> Iterator[str]:
    """A line for each comparison, in columns."""
    head = (title, "type", "largest difference", "relative", "ULPs", "of tolerance", "where", "verdict")
    cells: list[tuple[str, ...]] = [head]
    for name, found in rows:
        verdict = "pass" if found.passed else f"FAIL ({found.failed} elements)" if not found.problem else "FAIL"
        kind = type_text(found)
        if found.problem:
            cells.append((_short(name), kind, found.problem, "", "", "", "", verdict))
        elif found.where is None:
            cells.append((_short(name), kind, "none", "", "", "", "", verdict))
        else:
            where = f"{list(found.where)}: {found.actual!s} for {found.expected!s}"
            numbers = (found.absolute, found.relative, found.ulps, found.severity)
            cells.append((_short(name), kind, *map(_number, numbers), where, verdict))
    yield from aligned(cells)


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.2g}"


def _short(name: str) -> str:
    """The end of a name, which says most."""
    return escaped(name if len(name) <= _LONGEST_NAME else f"...{name[-_LONGEST_NAME:]}")
