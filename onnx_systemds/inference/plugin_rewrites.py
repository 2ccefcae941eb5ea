"""The passes of plugins over a graph: nodes that a plugin joins to one, often an operator of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from onnx_systemds.errors import PluginError, TranspileError, quoted, quoted_list
from onnx_systemds.inference.notes import Notes
from onnx_systemds.inference.registry import Rewrite, rewrites
from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import Graph
from onnx_systemds.model.walk import names_read
from onnx_systemds.registration import failure


def rewritten_by_plugins(graph: Graph, notes: Notes, omitted: Collection[str]) -> Graph:
    """The graph after the passes of plugins, in the order in which they were loaded. Raises PluginError."""
    for rewrite in rewrites.values():
        if rewrite.name not in omitted:
            graph = _rewritten(graph, rewrite, notes)
    return graph


def _rewritten(graph: Graph, rewrite: Rewrite, notes: Notes) -> Graph:
    editor, noted = GraphEditor(graph), notes.of(rewrite.name)
    for position, node in enumerate(graph.nodes):
        if node.identity not in rewrite.operators or editor.nodes[position] is None:
            continue
        try:
            found = rewrite.join(editor, node)
            if isinstance(found, str):
                noted.left(node, found)
            elif found is not None:
                joined, values = found
                removed = [_position(editor, value) for value in values]
                editor.put(position, joined, removed)
                noted.fired(node, f"with {len(removed)} nodes before it")
        except Exception as error:
            place = f"rewrite {quoted(rewrite.name)}, node {quoted(node.name or f'#{position}')}"
            if isinstance(error, TranspileError):
                error.place = error.place or place
                raise
            raise failure(error, place) from error
    changed = editor.graph()
    _check(changed, rewrite)
    return changed


def _position(editor: GraphEditor, value: str) -> int:
    made = editor.made_for(value)
    if made is None:
        raise PluginError(f"the value {quoted(value)} cannot go: other nodes read it, or no node makes it")
    return made.position


def _check(graph: Graph, rewrite: Rewrite) -> None:
    """Raise PluginError where a node reads what is not there before it, or an output of the graph is gone."""
    known = {*graph.initializers, *(given.name for given in graph.inputs)}
    for node in graph.nodes:
        _check_names(names_read(node), known, f"node {quoted(node.name or node.op_type)}", rewrite)
        known.update(node.outputs)
    _check_names([output.name for output in graph.outputs], known, "the graph", rewrite)


def _check_names(read: Iterable[str], known: Collection[str], where: str, rewrite: Rewrite) -> None:
    missing = sorted({*read}.difference(known))
    if missing:
        raise PluginError(f"after the rewrite {quoted(rewrite.name)} {where} reads what no node makes before it: "
                          f"{quoted_list(missing)}")
