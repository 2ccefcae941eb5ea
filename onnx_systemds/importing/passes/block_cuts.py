"""Cuts basic blocks by conditions that are never true.

The engine simplifies expressions across all statements of a block. A cut separates two statements that it would
simplify wrongly (see `engine.faults`), and cuts a block that is too long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TypeGuard

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.line_breaks import INDENT
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.printer import WIDTH
from onnx_systemds.dml.rewrite import left_operands, with_sides
from onnx_systemds.dml.scopes import assigns_variable, is_call, mentioned, statements_in
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.importing.passes.inlined_calls import inlined
from onnx_systemds.importing.passes.joined_operations import JoinedOperations

STATEMENTS_PER_BLOCK = 100
# The engine's compile time is quadratic in the length of a basic block, and long ones overflow Java's default stack.
# A condition that its compiler could decide is folded away; an empty loop would mark the function to be recompiled
# at each call, which in SystemDS 3.4 keeps sizes of the call before (see docs/decisions/0004-block-cuts.md).
NEVER = "never = time() < 0"
GUARDED = "if (never) {  # keeps calls of a function apart, which the engine else may take for equal"
_CUT = 'if (never) { print("never") }  # '
BLOCK_CUT = f"{_CUT}cuts the block: compile time is quadratic in its length"
LOADED_CUT = f"{_CUT}cuts the block: from here on all sizes are known"
LOADS_CUT = f"{_CUT}cuts the block: the next weights come without sizes"
CALLED_CUT = f"{_CUT}cuts the block: the compiler is to find all calls alike"
LISTED_CUT = f"{_CUT}cuts the block: one value by two names in lists ends in an error"
STRING_CUT = f"{_CUT}cuts the block: where it is compiled anew, some strings end in an error"
EXTREMES_CUT = f"{_CUT}cuts the block: max(max(A, B), C) is wrong for sparse matrices"
TRANSPOSED_CUT = f"{_CUT}cuts the block: t(A) %*% t(B) is taken for a product of other sizes"
COMPARED_CUT = f"{_CUT}cuts the block: what is made of comparisons forgets NaN and infinities"
SHIFTED_CUT = f"{_CUT}cuts the block: zeros beside zeros and a number are taken for that number, negated"
JOINED_CUT = f"{_CUT}cuts the block: three joined at once meet where blocks of Spark end"
# Once the engine has inlined the functions called in an if or a loop, it takes a constant number that one of them
# returns for the value after it: a function with control flow is not inlined.
NOT_INLINED = f"{_CUT}not to be inlined: constant results would spread over all branches"

_NEVER = tree.Name("never")
_PASSED = tree.Binary("<", tree.Call("time", ()), tree.IntLiteral(0))
_COMPARISONS = frozenset(("<", ">", "<=", ">="))
# The second operand of what is wrong where both are taken for the same number.
_BESIDE = frozenset(("/", "^", "<", "<=", ">", ">=", "==", "!=", "%%", "%/%"))


@cache
def cut(text: str) -> tree.Statement:
    """A cut as a statement."""
    (statement,) = parse_snippet(text)
    assert isinstance(statement, (tree.If, tree.Assign))
    return statement


def untaken(changes: Sequence[str], reason: str, *, in_one_line: bool | None = None) -> tree.Statement:
    """A branch that is never taken, and after which the compiler does not know what its statements change.

    in_one_line: by default wherever the line is not too long.
    """
    line = f"if (never) {{ {'; '.join(changes)} }}  # {reason}"
    if len(INDENT + line) <= WIDTH if in_one_line is None else in_one_line:
        return cut(line)
    return cut("\n".join((f"if (never) {{  # {reason}", *(INDENT + change for change in changes), "}")))


def is_never(statement: tree.Statement) -> bool:
    """Whether a statement never runs, and exists only for the engine's compiler."""
    return isinstance(statement, tree.If) and statement.condition in (_NEVER, _PASSED)


def is_cut(statement: tree.Statement) -> bool:
    """Whether a statement is a cut that `cut_blocks` makes because of the statements in a block."""
    return is_never(statement) and statement == cut(BLOCK_CUT) and not is_loaded_cut(statement) and any(
        comment.startswith("# cuts the block") for comment in statement.comments.beside
    )


def is_loaded_cut(statement: tree.Statement) -> bool:
    """Whether a statement is the cut after the loads of weights."""
    return is_never(statement) and statement.comments == cut(LOADED_CUT).comments


def with_never(statements: Sequence[tree.Statement]) -> tuple[tree.Statement, ...]:
    """The statements with one definition of ``never`` at the start if it is used, else none."""
    others = tuple(statement for statement in statements if statement != cut(NEVER))
    return (cut(NEVER), *others) if any(map(is_never, statements_in(others))) else others


def cut_blocks(
    statements: Sequence[tree.Statement],
    functions: Mapping[str, tree.Function] = MappingProxyType({}),
    scalars: Iterable[str] = (),
    before: Iterable[tree.Statement] = (),
    open_rows: Iterable[str] = (),
) -> list[tree.Statement]:
    """The statements with cuts in long blocks, and between statements that the engine would join wrongly.

    functions: those that the statements call and that the engine may inline, by name. scalars: variables that are
    numbers before the statements. before: the statements before them, which need no cuts. open_rows:
    parameters that are rows of an open length.
    """
    steps = [_Step(statement, functions) for statement in statements]
    uses = _uses(steps)
    numbers = frozenset(step.statement.target.name for step in steps if _is_scalar(step.statement)).union(scalars)
    found: list[tree.Statement] = []
    count, rows = 0, set(open_rows)
    block = _Block(uses, numbers, rows)
    for statement in before:
        if isinstance(statement, (tree.Assign, tree.MultiAssign)):
            block.add(_Step(statement, functions))
        else:
            block = _Block(uses, numbers, rows)
    for step in steps:
        statement = step.statement
        reason = block.refuses(step)
        if not statement.shares_line:
            reason = reason or (BLOCK_CUT if count == STATEMENTS_PER_BLOCK else None)
        if reason is not None:
            found.append(cut(reason))
            count, block = 0, _Block(uses, numbers, rows)
        found.append(with_sides(statement, lambda block: cut_blocks(block, functions, numbers)))
        count += not statement.shares_line
        block.add(step)
    return found


def _uses(steps: Iterable[_Step]) -> Counter[str]:
    """How often each variable is read; equal slices of it count once, as the engine makes one of them."""
    uses = Counter(name for step in steps for name in step.names)
    slices = Counter(node for step in steps for node in step.operations if isinstance(node, tree.Indexed))
    for node, count in slices.items():
        uses[node.name] -= count - 1
    return uses


def _is_scalar(statement: tree.Statement) -> TypeGuard[tree.Assign]:
    """Whether a statement assigns a scalar that is read from a matrix or from outside."""
    value = statement.value if assigns_variable(statement) else None
    return is_call(value, "as.scalar", "as.double")


class _Step:
    """A statement and its parts.

    names: those of the variables that it reads. operations: its operators, calls and slices. assigned: the assignments
    that it stands for; of a call that the engine inlines, those of the function.
    """

    __slots__ = ("assigned", "is_plain", "names", "operations", "statement")

    def __init__(self, statement: tree.Statement, functions: Mapping[str, tree.Function]) -> None:
        self.statement = statement
        self.is_plain = assigns_variable(statement)
        first, *others = map(mentioned, _reading(statement))
        self.names, self.operations = first.variables, first.operations
        for part in others:
            self.names += part.variables
            self.operations += part.operations
        self.assigned = tuple(inlined(statement, functions))


class _Block:
    """The definitions in a block, and which names are extremes, transposed matrices, comparisons or sums.

    uses, scalars, open_rows: as of `JoinedOperations`.
    """

    def __init__(self, uses: Counter[str], scalars: frozenset[str], open_rows: set[str]) -> None:
        self.kinds: dict[str, str] = {}  # by name: min, max, t, comparison, sign (a comparison with 0), shifted
        self.joined = JoinedOperations(uses, scalars, open_rows)

    def add(self, step: _Step) -> None:
        """Add a statement to the block."""
        for assigned in step.assigned:
            name, value = assigned.target.name, assigned.value
            self.joined.add(name, value)
            kind = self._kind(value)
            if kind:
                self.kinds[name] = kind

    def refuses(self, step: _Step) -> str | None:
        """The cut that a statement needs before it; None if it needs none."""
        reason = self.joined.reason(step.operations) if step.is_plain else None
        if reason is not None:
            return f"{_CUT}cuts the block: {reason}"
        kinds = {self.kinds[name] for name in step.names if name in self.kinds} if self.kinds else None
        reason = self._reason_by_kind(step.operations, kinds) if kinds else None
        return reason or self._inlined_reason(step)

    def _reason_by_kind(self, operations: Iterable[tree.Node], kinds: set[str]) -> str | None:
        """The cut before a statement that reads names of these kinds."""
        binaries = [node for node in operations if isinstance(node, tree.Binary)]
        calls = [node for node in operations if isinstance(node, tree.Call)]
        if any(call.function in ("min", "max") and call.function in kinds for call in calls):
            return EXTREMES_CUT
        zeros = (node.left for node in binaries if node.operator == "==" and number_of(node.right) == 0)
        if any(self._name_kind(operand) in ("comparison", "sign") for operand in zeros):
            return COMPARED_CUT  # (x < y) == 0 becomes x >= y
        if "sign" in kinds and any(node.operator in "*-" for node in binaries):
            return COMPARED_CUT  # x * (x > 0) becomes max(x, 0), (x > 0) - (x < 0) becomes sign(x)
        beside = [left_operands(node.right)[0] for node in binaries if node.operator in _BESIDE]
        beside += [call.arguments[1].value for call in calls
                   if call.function in ("min", "max") and len(call.arguments) == 2]
        if any(self._name_kind(operand) == "shifted" for operand in beside):
            return SHIFTED_CUT  # of rev(x) / (abs(x) + 1), where x holds zeros only, 0 / matrix(1, ..) and then -1
        if "t" in kinds and any(node.operator == "%*%" and self._is_transposed_product(node) for node in binaries):
            return TRANSPOSED_CUT
        return None

    def _inlined_reason(self, step: _Step) -> str | None:
        """The cut before a call whose inlined statements the engine would join with those before it."""
        for assigned in step.assigned:
            if assigned is step.statement:
                return None
            nodes = tuple(tree.walk(assigned.value))
            joined = self.joined.reason(nodes)
            if joined is not None:
                return f"{_CUT}cuts the block: {joined}"
            kinds = {self._name_kind(node) for node in nodes} - {""} if self.kinds else None
            reason = self._reason_by_kind(nodes, kinds) if kinds else None
            if reason is not None:
                return reason
            self.joined.add(assigned.target.name, assigned.value)
        return None

    def _is_transposed_product(self, node: tree.Binary) -> bool:
        left = node.left
        while isinstance(left, (tree.Binary, tree.Unary)):
            left = left.right if isinstance(left, tree.Binary) else left.operand
        return self._kind(left) == self._kind(node.right) == "t"

    def _name_kind(self, value: tree.Node) -> str:
        return self.kinds.get(value.name, "") if isinstance(value, (tree.Name, tree.Indexed)) else ""

    def _kind(self, value: tree.Expression) -> str:
        """The function that computes a value, ignoring reshapes, which the engine may drop."""
        while is_call(value, "matrix"):
            value = value.arguments[0].value
        if isinstance(value, tree.Call):
            return value.function if value.function in ("min", "max", "t") else ""
        if isinstance(value, tree.Binary):
            if value.operator in _COMPARISONS:
                return "sign" if number_of(value.right) == 0 else "comparison"
            return "shifted" if self._is_shifted(value) else ""
        return self._name_kind(value) if isinstance(value, tree.Name) else ""

    def _is_shifted(self, value: tree.Binary) -> bool:
        """Whether a value is a sum of a value and a number, or is computed from such a sum and a number."""
        operator, operand, number = value.operator, value.left, value.right
        if operator in "+*" and number_of(operand) is not None:
            operand, number = number, operand
        if operator not in "+-*/" or number_of(number) is None:
            return False
        if isinstance(operand, tree.Name):
            return operator in "+-" or self._name_kind(operand) == "shifted"
        if not isinstance(operand, tree.Call) or len(operand.arguments) != 1:
            return False
        return operator in "+-" and isinstance(operand.arguments[0].value, tree.Name)


def _reading(statement: tree.Statement) -> Sequence[tree.Node]:
    """The parts of a statement that read variables; an indexed assignment reads the whole variable."""
    if assigns_variable(statement):
        return (statement.value,)
    if isinstance(statement, tree.MultiAssign):
        return (*(target for target in statement.targets if isinstance(target, tree.Indexed)), statement.call)
    return (statement,)
