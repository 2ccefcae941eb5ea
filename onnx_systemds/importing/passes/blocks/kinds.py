"""The types of variables of a function: matrix, frame, list, or a type of scalars."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigned, assigns_variable, blocks_in
from onnx_systemds.dml.words import SIZE_FUNCTIONS
from onnx_systemds.importing.parameters import INTEGER, MATRIX, TEXT_FRAME, UNKNOWN_LIST
from onnx_systemds.importing.passes.forward_analysis import ForwardAnalysis

NUMBER = tree.DataType("scalar", "double")
_BOOLEAN = tree.DataType("scalar", "boolean")
_OTHERS = {"as.frame": TEXT_FRAME, "list": UNKNOWN_LIST}
_INTEGERS = SIZE_FUNCTIONS | {"as.integer"}
_NUMBERS = frozenset(("as.scalar", "as.double", "sum", "mean", "prod", "trace", "time"))
_EXTREMES = ("min", "max")
_MATRICES = frozenset(
    ("matrix", "table", "seq", "outer", "as.matrix", "rand", "conv2d", "max_pool", "avg_pool")  # some take lists
)


def kinds_of(function: tree.Function, functions: Mapping[str, tree.Function]) -> dict[str, tree.DataType]:
    """The types of parameters and of variables that are assigned outside of loops, where they are known.

    functions: those that it calls, by name.
    """
    kinds = _Kinds(functions, {parameter.name: parameter.type for parameter in function.parameters})
    kinds.run(function.body)
    return kinds.known


class _Kinds(ForwardAnalysis[tree.DataType]):
    """Types of variables."""

    def run(self, block: tree.Block) -> None:
        for statement in block:
            if assigns_variable(statement):
                self.set(statement.target.name, self.of(statement.value))
            elif isinstance(statement, tree.MultiAssign):
                called = self.functions.get(statement.call.function)
                results = [None] * len(statement.targets) if called is None else [it.type for it in called.results]
                for target, kind in zip(statement.targets, results):
                    self.set(target.name, kind)
            elif isinstance(statement, tree.If):
                self._run_sides(statement)

    def _run_sides(self, branch: tree.If) -> None:
        """Update the types by both sides of a branch; what is assigned on one of them has that type."""
        before = self.known
        sides: list[dict[str, tree.DataType]] = []
        lost: set[str] = set()  # whose types a side leaves open
        for block in blocks_in(branch):
            self.known = dict(before)
            self.run(block)
            sides.append(self.known)
            lost.update(name for name in assigned(block) if name not in self.known)
        taken, other = sides
        self.known = {**taken, **other}
        for name in [*self.known]:
            if name in lost or taken.get(name, other.get(name)) != other.get(name, taken.get(name)):
                self.set(name, None)

    def of_binary(
        self, node: tree.Binary, left: tree.DataType | None, right: tree.DataType | None
    ) -> tree.DataType | None:
        if node.operator == "%*%" or MATRIX in (left, right):
            return MATRIX
        if left is None or right is None or left.kind != "scalar" or right.kind != "scalar":
            return None
        if node.operator in ("+", "-", "*", "%/%", "%%"):
            return INTEGER if left == right == INTEGER else NUMBER
        return NUMBER if node.operator in "/^" else _BOOLEAN

    def of_operand(self, node: tree.Expression) -> tree.DataType | None:
        if isinstance(node, tree.IntLiteral):
            return INTEGER
        if isinstance(node, (tree.DoubleLiteral, tree.Constant)):
            return NUMBER
        if isinstance(node, tree.BooleanLiteral):
            return _BOOLEAN
        if isinstance(node, (tree.Name, tree.Indexed)):
            return self.known.get(node.name)
        if isinstance(node, tree.Unary):
            return self.of(node.operand)
        return self._called(node) if isinstance(node, tree.Call) else None

    def _called(self, call: tree.Call) -> tree.DataType | None:
        if call.function in self.functions:
            return self.functions[call.function].results[0].type
        if call.function in _OTHERS:
            return _OTHERS[call.function]
        if call.function in _INTEGERS:
            return INTEGER
        if call.function in _NUMBERS:
            return NUMBER
        if call.function in _MATRICES:
            return MATRIX
        if call.function in _EXTREMES and len(call.arguments) == 1:
            return NUMBER
        given = [self.of(argument.value) for argument in call.arguments]
        if None in given or any(kind is not None and kind.kind not in ("matrix", "scalar") for kind in given):
            return None
        return MATRIX if MATRIX in given else NUMBER
