"""Weights that a program trains, as one column: what an optimizer changes is one matrix, whatever the network.

A list would do as well, but for the engine's buffer: a matrix that is replaced in a list, or that was in one which a
function returned, stays there to the end of the program, and soon on disk.
Statistics that batches move are another column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import name_counts, read_first
from onnx_systemds.engine.matrix_files import Weight
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.importing.parameters import MATRIX
from onnx_systemds.operators.api.reserved_names import WEIGHTS
from onnx_systemds.operators.rendering.weight_loads import entry


@dataclass(frozen=True)
class Column:
    """The weights of a column, one below the other, what functions call it, and what it is."""

    weights: tuple[Weight, ...]
    name: str
    kind: str

    def parts(self) -> Iterable[tuple[Weight, int, int]]:
        """Each weight, and its first and its last row."""
        first = 1
        for weight in self.weights:
            yield weight, first, first + weight.array.size - 1
            first += weight.array.size


def column_of(weights: Sequence[Weight], functions: Iterable[tree.Function], kind: str) -> Column:
    """The column of some weights, which is called as what it is, and as no variable of these functions."""
    taken = {name for function in functions for name in name_counts(function.body)}
    taken.update(parameter.name for function in functions for parameter in function.parameters)
    return Column(tuple(weights), Names(taken).fresh(kind), kind)


def with_column(function: tree.Function, column: Column) -> tree.Function:
    """A function that takes the weights out of the column. It takes a list no longer, unless it reads others."""
    parts = {entry(weight.name): (first, last) for weight, first, last in column.parts()}

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Call) or node not in parts:
            return node
        first, last = map(tree.IntLiteral, parts[node])
        return tree.Indexed(column.name, tree.Span(first, last), tree.Span())

    changed = rewritten(function, change)
    others = [parameter for parameter in function.parameters if parameter.name != WEIGHTS]
    read = read_first(changed.body)
    given = [tree.Parameter(column.name, MATRIX)] * (column.name in read)
    listed = [parameter for parameter in function.parameters if parameter.name == WEIGHTS and WEIGHTS in read]
    return replace(changed, parameters=(*others, *given, *listed))


def check_main_alone(functions: Iterable[tree.Function], column: Column) -> None:
    """Raise UnsupportedCase where other functions take these weights out of the list themselves."""
    entries = {entry(weight.name) for weight in column.weights}
    for function in functions:
        if any(node in entries for node in tree.walk(function) if isinstance(node, tree.Call)):
            raise UnsupportedCase(f"the sub-graph that is the function {function.name} reads weights that are trained")


def column_functions(main: str, columns: Sequence[Column]) -> tuple[tree.Function, ...]:
    """The functions that make columns of the list of weights, and a list with the weights of the columns."""
    if not columns:
        return ()
    words = {"parameters": "weights that are trained", "statistics": "statistics that batches move"}
    text, apart = "", []
    for column in columns:
        joined = []
        for weight, first, last in column.parts():
            rows, cols = weight.array.shape
            joined.append(f'matrix(as.matrix({WEIGHTS}["{weight.name}"]), rows={rows * cols}, cols=1)')
            apart.append(f'value = matrix({column.name}[{first}:{last}, ], rows={rows}, cols={cols})')
            apart.append(f'trained["{weight.name}"] = as.matrix(list(value))')  # fault list-entry-as-long-as-list
        whole = joined[0] if len(joined) == 1 else f"rbind({', '.join(joined)})"
        text += f"""\
# The {words[column.kind]}, one below the other.
{main}_{column.kind} = function(list[unknown] {WEIGHTS}) return (matrix[double] {column.name}) {{
  {column.name} = {whole}
}}

"""
    those = "those of a column" if len(columns) == 1 else "those of columns"
    given = ", ".join(f"matrix[double] {column.name}" for column in columns)
    text += f"""\
# The list of weights with {those}; as.matrix(list(..)) hides sizes, which the compiler takes for the list's.
{main}_trained = function({given}, list[unknown] {WEIGHTS}) return (list[unknown] trained) {{
  trained = {WEIGHTS}
  {"; ".join(apart)}
}}
"""
    return tuple(item for item in parse_script(text).items if isinstance(item, tree.Function))
