"""What ``--map`` writes: which statements of a script a node of the model is, and the other way round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx

from onnx_systemds.cli.json_text import json_text
from onnx_systemds.errors import NodePlace
from onnx_systemds.importing.origins import Origin, placed_statements, read_back
from onnx_systemds.importing.script import Script


@dataclass(frozen=True, slots=True)
class MappedStatement:
    """Where a statement begins in the script."""

    function: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class MappedNode:
    """A node, what it takes with types and dims, the values that it gives, and its statements."""

    node: NodePlace
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    statements: tuple[MappedStatement, ...]


def script_map(script: Script, name: str) -> list[MappedNode]:
    """The nodes of a script that is saved as ``<name>.dml``, by their first statements.

    Statements in a loop or a branch are part of it; one of a function that is called several times is of several nodes.
    Nodes that need no statement are missing.
    """
    block = () if script.constants is None else script.constants.statements
    read = read_back(script.text_for(name), script.functions, block)
    found: dict[Origin, list[MappedStatement]] = {}
    for place in placed_statements(read):
        for origin in place.origins if place.is_whole else ():
            statement = MappedStatement(place.function, place.line, place.column)
            found.setdefault(origin, []).append(statement)
    return [MappedNode(origin.place, tuple(taken.text({}) for taken in origin.takes), origin.gives, tuple(statements))
            for origin, statements in found.items()]


def model_map(model: onnx.ModelProto) -> list[dict[str, object]]:
    """The nodes of an exported model, those of its functions included, and where in its script each comes from."""
    groups = [("", model.graph.node), *((function.name, function.node) for function in model.functions)]
    return [{"function": function, "node": node.name or f"#{index}", "op": node.op_type, "outputs": [*node.output],
             "from": node.doc_string}
            for function, nodes in groups for index, node in _all(nodes)]


def _all(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[int, onnx.NodeProto]]:
    for index, node in enumerate(nodes):
        yield index, node
        for attribute in node.attribute:
            yield from _all(attribute.g.node)


def map_text(content: object) -> str:
    """A map as the JSON of its file."""
    return f"{json_text(content)}\n"
