"""Hides zeros from the engine's compiler by conditions that are never true.

The compiler counts non-zeros: of the arguments of each call of a function with a loop, and of matrices that it fills.
It propagates zeros, and misses that three of these counts change (``zeros-of-earlier-sum``,
``zeros-of-two-trips-before`` and ``zeros-known-in-loop`` in `engine.faults`). A matrix with such a count gets a new
value in a branch that is never taken, after which its count is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import left_operands, same_objects, with_blocks
from onnx_systemds.dml.scopes import assigned, is_operation, matrix_parameters
from onnx_systemds.importing.passes.block_cuts import NEVER, cut, is_never, untaken
from onnx_systemds.importing.passes.inlined_calls import has_loop, is_straight

Roots = frozenset[str]
"""The variables whose zeros are those of a matrix for the compiler, among them `_ZEROS` and `_FILLED`."""

_ZEROS, _FILLED = Roots(("0",)), Roots(("1",))  # matrices of a literal number; neither is a name of DML
_ANOTHER = Roots(("2",))  # of a value that is no longer there
_LITERALS = _ZEROS | _FILLED | _ANOTHER
_UNKNOWN: Roots = frozenset()
_MOVED = frozenset(("abs", "as.matrix", "diag", "matrix", "order", "removeEmpty", "replace", "rev", "sqrt", "t"))
_ONE_LINE = 40
"""Characters of statements that share a line with their reason."""


def with_hidden_zeros(function: tree.Function, functions: Mapping[str, tree.Function]) -> tree.Function:
    """The function without matrices that the engine would wrongly take for zeros.

    functions: those that it calls, by name.
    """
    if not has_loop(function):
        return function  # the engine compiles it once, or again at each call
    names = matrix_parameters(function)
    hidden, read = set[str](), _read(function.body, functions)
    results = frozenset(result.name for result in function.results)
    while True:  # what is known of one may be known of others no more once it is hidden
        known = {name: _UNKNOWN if name in hidden else Roots((name,)) for name in names}
        counts = _Counts(functions, known, read, results)
        body = counts.follow(function.body)
        if counts.wanted <= hidden:
            break
        hidden |= counts.wanted
    if not hidden and same_objects(body, function.body):
        return function
    place = body.index(cut(NEVER)) + 1 if cut(NEVER) in body else 0
    first = [] if place else [cut(NEVER)]
    if hidden:
        first.append(_hide([name for name in names if name in hidden], _lasting("in one call", "in the next")))
    return replace(function, body=(*body[:place], *first, *body[place:]))


def _read(body: tree.Block, functions: Mapping[str, tree.Function]) -> set[str]:
    """The variables that a body reads other than to copy them, or to pass them to compiled functions."""
    counts: Counter[str] = Counter()
    for node in tree.walk(*body):
        if isinstance(node, (tree.Name, tree.Indexed)):
            counts[node.name] += 1
        elif isinstance(node, (tree.Assign, tree.MultiAssign)):
            targets = (node.target,) if isinstance(node, tree.Assign) else node.targets
            counts.subtract(target.name for target in targets)
        elif isinstance(node, tree.Call) and _is_apart(node, functions):
            counts.subtract(given.value.name for given in node.arguments if isinstance(given.value, tree.Name))
    return set(+counts)


def _is_apart(call: tree.Call, functions: Mapping[str, tree.Function]) -> bool:
    """Whether an expression is a call of a function that the engine does not inline."""
    return call.function in functions and not is_straight(functions[call.function].body)


def _hide(names: Sequence[str], reason: str) -> tree.Statement:
    changes = [f"{name} = {name} + 1" for name in names]
    return untaken(changes, reason, in_one_line=sum(map(len, changes)) < _ONE_LINE)


def _lasting(here: str, there: str) -> str:
    return f"what is zero {here} is not to be taken for zero {there}"


class _Counts:
    """Forward analysis of the counts that the compiler may know of a function's variables."""

    def __init__(
        self, functions: Mapping[str, tree.Function], known: Mapping[str, Roots], read: set[str],
        results: frozenset[str] = frozenset(),
    ) -> None:
        self.functions = functions
        self.read = read  # variables that the function calculates with
        self.results = results  # those that others may calculate with
        self.known = dict(known)  # all variables that have a value
        self.wanted: set[str] = set()  # those whose zeros are to be hidden

    def follow(self, block: Sequence[tree.Statement]) -> tree.Block:
        """Analyse statements; return them with zeros hidden around and in their loops."""
        return tuple(new for statement in block for new in self._statement(statement))

    def _statement(self, statement: tree.Statement) -> list[tree.Statement]:
        if isinstance(statement, (tree.For, tree.While)):
            return self._loop(statement)
        if isinstance(statement, tree.If):
            return [self._branches(statement)]
        if isinstance(statement, tree.Assign):
            self._assign(statement)
        elif isinstance(statement, tree.MultiAssign):
            results, is_apart = self._results(statement.call), _is_apart(statement.call, self.functions)
            for number, target in enumerate(statement.targets):
                value = results[number] if number < len(results) else _UNKNOWN
                self.known[target.name] = value if value or (results and not is_apart) else self._called(target)
        return [statement]

    def _assign(self, statement: tree.Assign) -> None:
        value, target = self._of(statement.value), statement.target
        if isinstance(statement.value, tree.Call) and _is_apart(statement.value, self.functions):
            value = value or self._called(target)
        before = self.known.get(target.name, _UNKNOWN)
        if statement.accumulate:
            value = self._sum(before, value)
        elif isinstance(target, tree.Indexed):
            value = before | value if before and value and _is_literal(target) else _UNKNOWN
        self.known[target.name] = value

    def _branches(self, statement: tree.If) -> tree.Statement:
        if is_never(statement):
            self.known |= dict.fromkeys(assigned((statement,)), _UNKNOWN)
            return statement
        before = dict(self.known)
        body = self.follow(statement.body)
        inside, self.known = self.known, before
        otherwise = self.follow(statement.otherwise)
        self.known |= {name: value | self.known.get(name, _UNKNOWN) for name, value in inside.items()}
        return with_blocks(statement, (body, otherwise))

    def _loop(self, loop: tree.For | tree.While) -> list[tree.Statement]:
        """A value that a loop carries stands for itself in the body, if its count is known."""
        before, carried = dict(self.known), [name for name in assigned(loop.body) if name in self.known]
        counted, hidden = {name for name in carried if before[name]}, set[str]()
        while True:
            given = before | {name: Roots((name,)) if name in counted - hidden else _UNKNOWN for name in carried}
            inner = _Counts(self.functions, given, self.read, self.results)
            body = inner.follow(loop.body)
            if new := {name for name in carried if inner.known[name]} - counted:
                counted |= new
            elif new := (inner.wanted & counted) - hidden:
                hidden |= new
            else:
                break
        self.wanted |= inner.wanted - set(carried)
        # That a value of its own changes is seen after one iteration; that of others is not, nor that there was no
        # iteration.
        ends = [name for name in carried if inner.known[name] - {name} and (
            name in self.read or (name in self.results and inner.known[name] >= _ZEROS))]
        if isinstance(loop, tree.For) and loop.parallel:  # hands nothing on
            ends = []
        self.known |= {name: value for name, value in inner.known.items() if name not in carried}
        for name in carried:
            self.known[name] = before[name] if inner.known[name] == {name} else _UNKNOWN
        body = _with_hidden_ends(body, ends)
        starts = [name for name in carried if name in hidden]
        first = [_hide(starts, _lasting("before the loop", "in it"))] if starts else []
        return [*first, with_blocks(loop, (body,))]

    def _results(self, call: tree.Call) -> list[Roots]:
        """The counts of the results of a function; of one that the engine does not inline those of literals alone."""
        function = self.functions.get(call.function)
        given = [self._of(argument.value) for argument in call.arguments]
        if function is None:
            return []
        names, is_inlined = [parameter.name for parameter in function.parameters], is_straight(function.body)
        known = dict(zip(names, given)) if is_inlined else dict.fromkeys(names, _UNKNOWN)
        inner = _Counts(self.functions, known, set())
        inner.follow(function.body)
        found = [inner.known.get(result.name, _UNKNOWN) for result in function.results]
        if is_inlined:
            self.wanted |= inner.wanted
            return found
        return [value if value <= _LITERALS else _UNKNOWN for value in found]

    def _called(self, target: tree.Target) -> Roots:
        """The engine does not see that a call gives its target another value (``zeros-of-call-in-loop``)."""
        before = self.known.get(target.name, _UNKNOWN)
        return before | _ANOTHER if before and isinstance(target, tree.Name) else _UNKNOWN

    def _sum(self, left: Roots, right: Roots) -> Roots:
        """A sum loses its count if an operand has none, but the engine keeps one that it had before."""
        if not left or not right:
            return _UNKNOWN
        sides = [side for side in (left, right) if side.isdisjoint(_LITERALS)]
        self.wanted |= min(sides, key=len) if sides else (left | right) - _LITERALS
        return left | right

    def _of(self, value: tree.Expression) -> Roots:
        """The variables whose counts the compiler propagates to a value; none if the count is unknown."""
        first, chain = left_operands(value)
        found = self._of_operand(first)
        for node in chain:
            found = self._of_binary(node, found)
        return found

    def _of_binary(self, node: tree.Binary, left: Roots) -> Roots:
        right = self._of(node.right)
        if node.operator in "+-":
            return self._sum(left, right)
        if node.operator == "%*%":
            return _UNKNOWN.union(*(side for side in (left, right) if side != _FILLED))
        is_left = node.operator == "^" or (node.operator == "!=" and not right)
        return left if is_left or (node.operator == "*" and _is_own_complement(node)) else _UNKNOWN

    def _of_operand(self, value: tree.Expression) -> Roots:
        if isinstance(value, tree.Name):
            return self.known.get(value.name, _UNKNOWN)
        if isinstance(value, tree.Unary):
            self._of(value.operand)
        if not isinstance(value, tree.Call):
            return _UNKNOWN
        if value.function in self.functions:
            return next(iter(self._results(value)), _UNKNOWN)
        given = [self._of(argument.value) for argument in value.arguments]
        first = value.arguments[0].value if given else None
        if value.function in ("cbind", "rbind"):
            return _UNKNOWN.union(*given) if all(given) else _UNKNOWN
        if value.function == "matrix" and isinstance(first, (tree.IntLiteral, tree.DoubleLiteral)):
            return _FILLED if first.value else _ZEROS
        return given[0] if given and value.function in _MOVED else _UNKNOWN


def _with_hidden_ends(body: tree.Block, names: Sequence[str]) -> tree.Block:
    """The body of a loop with zeros hidden at its end, by the cut before its final copies if there are some."""
    cuts = [number for number, statement in enumerate(body) if is_never(statement) and not assigned((statement,))]
    copies: dict[str, str] = {}
    for statement in body[cuts[-1] + 1 :] if cuts else ():
        if not isinstance(statement, tree.Assign) or not isinstance(statement.value, tree.Name):
            copies = {}
            break
        copies[statement.target.name] = statement.value.name
    ends = [name for name in names if name not in copies]
    if fresh := [copies[name] for name in names if name in copies]:
        reason = "cuts the block: what is handed on would be overwritten before, or be zeros for ever"
        body = (*body[: cuts[-1]], _hide(fresh, reason), *body[cuts[-1] + 1 :])
    return (*body, _hide(ends, _lasting("in one trip", "in the next"))) if ends else body


def _is_literal(target: tree.Indexed) -> bool:
    """Whether the compiler knows which part of a matrix is written; else it knows no count afterwards."""
    nodes = [node for span in (target.rows, target.columns) if span is not None for node in tree.walk(span)]
    return all(isinstance(node, (tree.Span, tree.IntLiteral)) for node in nodes)


def _is_own_complement(node: tree.Binary) -> bool:
    """Whether a product is ``X * (1 - X)``, for which the engine has an operator."""
    right = node.right
    return is_operation(right, "-") and right.right == node.left
