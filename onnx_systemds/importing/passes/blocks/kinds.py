"""What variables of a function hold: a matrix, a frame, a list, or a number of a type."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import left_operands
from onnx_systemds.importing.parameters import INTEGER

MATRIX = tree.DataType("matrix", "double")
NUMBER = tree.DataType("scalar", "double")
_BOOLEAN = tree.DataType("scalar", "boolean")
_OTHERS = {"as.frame": tree.DataType("frame", "string"), "list": tree.DataType("list", "unknown")}
_INTEGERS = frozenset(("nrow", "ncol", "length", "as.integer"))
_NUMBERS = frozenset(("as.scalar", "as.double", "sum", "mean", "prod", "trace", "time"))
_MATRICES = frozenset(("matrix", "table", "seq", "outer", "as.matrix", "rand"))


def kinds_of(function: tree.Function, functions: Mapping[str, tree.Function]) -> dict[str, tree.DataType]:
    """The types of parameters and of variables that are assigned outside of branches and loops, where they are known.

    functions: those that it calls, by name.
    """
    known = {parameter.name: parameter.type for parameter in function.parameters}
    for statement in function.body:
        if isinstance(statement, tree.Assign) and isinstance(statement.target, tree.Name):
            _set(known, statement.target.name, _kind(statement.value, known, functions))
        elif isinstance(statement, tree.MultiAssign):
            called = functions.get(statement.call.function)
            results = [None] * len(statement.targets) if called is None else [it.type for it in called.results]
            for target, kind in zip(statement.targets, results):
                _set(known, target.name, kind)
    return known


def _set(known: dict[str, tree.DataType], name: str, kind: tree.DataType | None) -> None:
    if kind is None:
        known.pop(name, None)
    else:
        known[name] = kind


def _kind(
    value: tree.Expression, known: Mapping[str, tree.DataType], functions: Mapping[str, tree.Function]
) -> tree.DataType | None:
    first, chain = left_operands(value)
    found = _of_operand(first, known, functions)
    for node in chain:
        found = _of_binary(node.operator, found, _kind(node.right, known, functions))
    return found


def _of_binary(operator: str, left: tree.DataType | None, right: tree.DataType | None) -> tree.DataType | None:
    if left is None or right is None or left.kind not in ("matrix", "scalar") or right.kind not in ("matrix", "scalar"):
        return None
    if "matrix" in (left.kind, right.kind):
        return MATRIX
    if operator in ("+", "-", "*", "%/%", "%%"):
        return INTEGER if left == right == INTEGER else NUMBER
    return NUMBER if operator in "/^" else _BOOLEAN


def _of_operand(
    value: tree.Expression, known: Mapping[str, tree.DataType], functions: Mapping[str, tree.Function]
) -> tree.DataType | None:
    if isinstance(value, tree.IntLiteral):
        return INTEGER
    if isinstance(value, (tree.DoubleLiteral, tree.Constant)):
        return NUMBER
    if isinstance(value, tree.BooleanLiteral):
        return _BOOLEAN
    if isinstance(value, (tree.Name, tree.Indexed)):
        return known.get(value.name)
    if isinstance(value, tree.Unary):
        return _kind(value.operand, known, functions)
    return _called(value, known, functions) if isinstance(value, tree.Call) else None


def _called(
    call: tree.Call, known: Mapping[str, tree.DataType], functions: Mapping[str, tree.Function]
) -> tree.DataType | None:
    if call.function in functions:
        return functions[call.function].results[0].type
    if call.function in _OTHERS:
        return _OTHERS[call.function]
    if call.function in _INTEGERS:
        return INTEGER
    if call.function in _NUMBERS:
        return NUMBER
    given = [_kind(argument.value, known, functions) for argument in call.arguments]
    if call.function in _MATRICES:
        return MATRIX
    if None in given or any(kind is not None and kind.kind not in ("matrix", "scalar") for kind in given):
        return None
    if MATRIX in given:
        return NUMBER if call.function in ("min", "max") and len(given) == 1 else MATRIX
    return NUMBER
