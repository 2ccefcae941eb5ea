"""Checks that inputs have the columns that the model says, where nothing else in the script refuses others.

A table with a column more would be taken for one without it: trees, slices and sums see no difference. A result that
has the columns of an input shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call
from onnx_systemds.dml.scopes import assigns_variable, read_in
from onnx_systemds.importing.body import parsed
from onnx_systemds.importing.passes.blocks.result_sizes import shapes_in
from onnx_systemds.importing.script import Script, with_main
from onnx_systemds.operators.api.layout import split_view
from onnx_systemds.operators.rendering.function_sizes import size_check, under_one_condition

_OF_KNOWN_COLUMNS = ("affine::forward", "avg_pool", "conv2d", "max_pool")


def with_checked_columns(script: Script) -> Script:
    """The script whose main function stops where an input has other columns; specialised is the script as it was."""
    columns = {parameter.name: split_view(port.dims, 1).cols
               for port, parameter in zip(script.inputs, script.main.parameters)
               if parameter.type.kind == "matrix" and port.dims}  # fmt: skip
    known = {name: count for name, count in columns.items() if isinstance(count, int)}
    body = script.main.body
    readers: dict[str, list[int]] = {name: [] for name in known}
    for place, statement in enumerate(body):
        for name in read_in(statement) & known.keys():
            if _reads_cells(statement, name):
                readers[name].append(place)
    shown = _shown(script)
    unchecked = [name for name, places in readers.items()
                 if places and name not in shown and not any(name in _refused(body[place]) for place in places)]
    if not unchecked:
        return script
    first = min(readers[name][0] for name in unchecked)
    checks = under_one_condition([size_check("ncol", name, str(known[name])) for name in unchecked],
                                 [f"ncol({name}) != {known[name]}" for name in unchecked])  # fmt: skip
    return with_main(script, replace(script.main, body=(*body[:first], *parsed(checks), *body[first:])))


def _shown(script: Script) -> set[str]:
    """The inputs of which a result has the columns."""
    functions = {it.name: it for it in (*script.library, *script.functions)}
    shapes = shapes_in(script.main, functions)
    columns = [shapes[result.name][1] for result in script.main.results if result.name in shapes]
    return {it.name for it in script.main.parameters if call("ncol", tree.Name(it.name)) in columns}


def _reads_cells(statement: tree.Statement, name: str) -> bool:
    """Whether more is read of a matrix than how many rows it has."""
    rows = call("nrow", tree.Name(name))
    read = [node for node in tree.walk(statement) if isinstance(node, (tree.Name, tree.Indexed)) and node.name == name]
    return len(read) > sum(node == rows for node in tree.walk(statement))


def _refused(statement: tree.Statement) -> frozenset[str]:
    """The variables of which the engine refuses another number of columns in a statement that always runs."""
    return frozenset(_operands(statement.value)) if assigns_variable(statement) else frozenset()


def _operands(value: tree.Expression) -> Iterator[str]:
    """The left factors of products, what gets another shape of as many cells, and what is read as images."""
    for node in tree.walk(value):
        if isinstance(node, tree.Binary):
            given = node.left if node.operator == "%*%" else None
        elif isinstance(node, tree.Call) and node.arguments:
            is_reshape = node.function == "matrix" and len(node.arguments) == 3
            given = node.arguments[0].value if is_reshape or node.function in _OF_KNOWN_COLUMNS else None
        else:
            continue
        if isinstance(given, tree.Name):
            yield given.name
