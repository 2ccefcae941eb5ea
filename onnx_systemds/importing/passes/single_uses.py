"""Values that are read once are written where they are read, if that takes fewer lines.

The engine calculates the statements between two cuts as one graph, so that it runs the same instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.line_breaks import INDENT
from onnx_systemds.dml.printer import WIDTH, print_block
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import assigned, assigns_variable, is_call, mentioned, once, results
from onnx_systemds.importing.origins import JoinedOrigin, split_joined
from onnx_systemds.importing.parameters import MATRIX
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.importing.passes.inlined_calls import is_straight
from onnx_systemds.importing.passes.scope_comments import module_of
from onnx_systemds.importing.passes.specialisation.hoisting import impure_functions
from onnx_systemds.importing.script import Script, with_functions
from onnx_systemds.operators.rendering.weight_loads import is_entry, is_load

_MOST_LINES, _MOST_OPERATIONS = 2, 12
"""Of a statement that others are part of: it is to be read at one glance."""
_OF_VARIABLES = ("nrow", "ncol", "length")
"""What the engine asks of variables alone."""


def with_single_uses(script: Script) -> Script:
    """The script whose functions have no name for what is read once; specialised is the script as it was."""
    others = {function.name: function for function in (*script.library, *script.functions)}
    impure = impure_functions(others)
    apart = frozenset(name for name, function in others.items() if not is_straight(function.body))
    return with_functions(script, tuple(_Joining(it, others, impure, apart).joined() for it in script.functions))


class _Joining:
    """The statements of a function while values that are read once are put in place.

    impure: functions that may not give the same twice. apart: those that the engine does not inline.
    """

    def __init__(
        self, function: tree.Function, others: Mapping[str, tree.Function], impure: frozenset[str],
        apart: frozenset[str],
    ) -> None:
        self.function, self.others, self.impure, self.apart = function, others, impure, apart
        self.reads = Counter(name for statement in function.body for name in _read(statement))
        self.changes = Counter(name for statement in function.body for name in assigned((statement,)))
        self.changes.update(parameter.name for parameter in function.parameters)
        self.kept = results(function)

    def joined(self) -> tree.Function:
        """The function, the same object where there is nothing to join."""
        self.kinds = kinds_of(self.function, self.others)
        made: list[tree.Statement | None] = []
        waiting: dict[str, int] = {}
        for statement in self.function.body:
            if not isinstance(statement, (tree.Assign, tree.MultiAssign)):
                waiting.clear()
            elif assigns_variable(statement) and not statement.shares_line:
                for name in mentioned(statement.value).variables:
                    if name not in waiting:
                        continue
                    value = made[waiting[name]]
                    together = _joined(value, statement, self.apart)
                    if together is not None:
                        made[waiting.pop(name)] = None
                        statement = together
                if self._may_move(statement):
                    waiting[statement.target.name] = len(made)
            made.append(statement)
        body = tuple(statement for statement in made if statement is not None)
        return self.function if len(body) == len(made) else replace(self.function, body=body)

    def _may_move(self, statement: tree.Assign) -> bool:
        """Whether what a statement assigns is a matrix that is read once, and the same wherever it is calculated."""
        name, value = statement.target.name, statement.value
        if self.reads[name] != 1 or name in self.kept or statement.comments is not tree.NO_COMMENTS:
            return False
        if statement.accumulate or self.kinds.get(name) != MATRIX or is_load(value) or is_entry(value):
            return False
        found = mentioned(value)
        if not found.names or found.has_text:
            return False  # a constant is called what it is
        if not self.impure.isdisjoint(found.functions) or not self.apart.isdisjoint(found.functions):
            return False
        return self.changes[name] == 1 and all(self.changes[read] <= 1 for read in found.names)


def _read(statement: tree.Statement) -> tuple[str, ...]:
    """The variables that a statement reads, or changes in part."""
    return mentioned(statement.value if assigns_variable(statement) else statement).variables


def _joined(first: tree.Statement | None, second: tree.Assign, apart: frozenset[str]) -> tree.Assign | None:
    """The statement that does what two do; None where that takes as many lines, or cannot be."""
    assert isinstance(first, tree.Assign)
    name = first.target.name
    if len({module_of(statement.origin) for statement in (first, second)} - {""}) > 1:
        return None  # each part of the model stands for itself, below its comment
    operations = mentioned(second.value).operations
    if sum(map(_counts, (*mentioned(first.value).operations, *operations))) > _MOST_OPERATIONS:
        return None
    for node in operations:
        if is_call(node, *_OF_VARIABLES, *apart) and name in mentioned(node).names:
            return None
        if isinstance(node, tree.Indexed) and node.name == name:
            return None
    value = rewritten(second.value, lambda node: first.value if type(node) is tree.Name and node.name == name else node)
    together = replace(second, value=value, origin=JoinedOrigin(tuple(split_joined((first, second)))))
    one, other, both = map(_lines, (first, second, together))
    return together if both < one + other and both <= max(one, other, _MOST_LINES) else None


def _counts(operation: tree.Node) -> bool:
    """Whether an operation is of matrices, as most are; those of sizes need no second look."""
    return not isinstance(operation, tree.Binary) or any(
        not isinstance(operand, tree.IntLiteral) for operand in (operation.left, operation.right)
    )


@once
def _lines(statement: tree.Statement) -> int:
    spelling = statement.spelling
    is_short = 0 < len(spelling) <= WIDTH - len(INDENT) and "\n" not in spelling
    return 1 if is_short else print_block((statement,), INDENT).count("\n")
