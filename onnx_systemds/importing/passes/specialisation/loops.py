"""Optimises loops for known sizes: `for` instead of `parfor`, and functions with loops inlined or cloned per call.

A `parfor` takes 2 to 5 ms at every call to start its threads and to copy its body. A function with a loop that is
called several times is recompiled at each call. Inlined, its loop is compiled once, for the sizes there. So is a clone
of the function per call, which is for scripts that take weights out of a list: with an inlined loop their main function
would be recompiled at each call, as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callees
from onnx_systemds.dml.rewrite import rewritten, with_origin
from onnx_systemds.dml.scopes import assigned, called_in, read_in
from onnx_systemds.importing.passes.block_cuts import is_never
from onnx_systemds.importing.passes.inlined_calls import has_loop

LONGEST_BODY = 200
"""Statements of a function that take the place of its calls."""
MOST_COPIES = 50
"""Copies of a function; with more the script gets long."""
MOST_TURNS = 2
"""Turns of a loop that are written out: the directions of a layer."""
_OF_ONE_CALL = "# A copy for one call: called at several places, it would be compiled anew each time."


def called_with_loops(main: tree.Function, functions: Mapping[str, tree.Function]) -> frozenset[str]:
    """The functions with loops that ``main`` calls several times, and that are short enough to be inlined."""
    places = Counter(
        node.function for node in tree.walk(main) if isinstance(node, tree.Call) and node.function in functions
    )
    return frozenset(name for name, count in places.items() if count > 1 and _is_short(functions[name])
                     and has_loop(functions[name]))


def with_inlined_calls(main: tree.Function, functions: Collection[tree.Function]) -> tree.Function:
    """The function with calls of others inlined.

    Calls stay in conditions and in heads of loops, and if their arguments are not given one by one.
    """
    return _Inliner(main, functions).placed()


def with_unrolled_loops(main: tree.Function) -> tree.Function:
    """``main`` with each `parfor` of few iterations unrolled.

    A main function with a loop is recompiled at each call, as a whole, as its weights come out of a list.
    """
    body: list[tree.Statement] = []
    for statement in main.body:
        numbers = _iterations(statement)
        if isinstance(statement, tree.For) and numbers and not _is_read_elsewhere(statement, main.body):
            body += _unrolled(statement, numbers)
        else:
            body.append(statement)
    return replace(main, body=tuple(body))


def _is_read_elsewhere(loop: tree.For, body: tree.Block) -> bool:
    """Whether other statements than those of the loop read the loop variable."""
    return any(loop.variable in read_in(statement) for statement in body if statement is not loop)


def with_copies(
    main: tree.Function, functions: Mapping[str, tree.Function], shared: Collection[str] = ()
) -> tuple[tree.Function, dict[str, tree.Function]]:
    """``main`` with a clone per call of each function that has a loop, in it or in its callees; and all functions.

    Only functions that are called more than once are cloned, counting each path from ``main``. shared: functions that
    are not cloned, and whose loops do not count.
    """
    return _Copies(main, functions, shared).made()


class _Copies:
    """The clones of functions."""

    def __init__(self, main: tree.Function, functions: Mapping[str, tree.Function], shared: Collection[str]) -> None:
        self._main = main
        self._functions = dict(functions)
        self._calls = {name: _calls(function.body, functions) for name, function in functions.items()}
        self._loops = dict.fromkeys(shared, False)
        ways = Counter[str]()
        self._count_ways(_calls(main.body, functions), 1, ways, ())
        self._copied = {
            name for name, count in ways.items()
            if 1 < count <= MOST_COPIES and self._has_loop(name) and name not in callees(functions, [functions[name]])
        }
        self._counts: Counter[str] = Counter()

    def made(self) -> tuple[tree.Function, dict[str, tree.Function]]:
        return replace(self._main, body=self._block(self._main.body)), self._functions

    def _count_ways(self, calls: Counter[str], times: int, ways: Counter[str], inside: tuple[str, ...]) -> None:
        """Add the number of calls of each function, through callers with their own numbers of calls."""
        for name, count in calls.items():
            ways[name] += times * count
            if name not in inside and ways[name] <= MOST_COPIES:
                self._count_ways(self._calls[name], times * count, ways, (*inside, name))

    def _has_loop(self, name: str) -> bool:
        """Whether a short function has a loop, in it or in its callees."""
        if name not in self._loops:
            self._loops[name] = False  # of one that calls itself
            function, called = self._functions[name], self._calls[name]
            self._loops[name] = _is_short(function) and (has_loop(function) or any(map(self._has_loop, called)))
        return self._loops[name]

    def _block(self, block: tree.Block) -> tree.Block:
        return tuple(map(self._statement, block)) if self._copied else block

    def _statement(self, statement: tree.Statement) -> tree.Statement:
        return statement if is_never(statement) else rewritten(statement, self._change)

    def _change(self, node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Call) or node.function not in self._copied:
            return node
        function = self._functions[node.function]
        name = self._name(function.name)
        self._functions[name] = function  # the name is taken
        comments = replace(function.comments, before=(*function.comments.before, _OF_ONE_CALL))
        copy = replace(function, name=name, comments=comments, body=self._block(function.body))
        self._functions[name] = copy
        return replace(node, function=name)

    def _name(self, function: str) -> str:
        """The name of the next clone."""
        while True:
            self._counts[function] += 1
            name = f"{function}_{self._counts[function]}"
            if name not in self._functions and name != self._main.name:
                return name


class _Inliner:
    """Inlines calls with unused names for variables."""

    def __init__(self, main: tree.Function, functions: Collection[tree.Function]) -> None:
        self._main = main
        self._functions = {function.name: function for function in functions}
        self._taken = {parameter.name for parameter in main.parameters} | set(assigned(main.body))
        self._count = 0

    def placed(self) -> tree.Function:
        return replace(self._main, body=self._block(self._main.body))

    def _block(self, block: tree.Block) -> tree.Block:
        """The statements with calls inlined; inlined ones get the origin of the call."""
        placed = ((before.origin, statement) for before in block for statement in self._statements(before))
        return tuple(with_origin(statement, origin) for origin, statement in placed)

    def _statements(self, statement: tree.Statement) -> list[tree.Statement]:
        """The statements that replace a statement."""
        if is_never(statement):  # holds calls apart, see `call_guards`
            return [statement]
        if isinstance(statement, tree.If):
            return [replace(statement, body=self._block(statement.body), otherwise=self._block(statement.otherwise))]
        if isinstance(statement, (tree.For, tree.While)):
            return [replace(statement, body=self._block(statement.body))]
        if not isinstance(statement, (tree.Assign, tree.MultiAssign)):
            return [statement]
        before: list[tree.Statement] = []

        def change(node: tree.Node) -> tree.Node:
            if not isinstance(node, tree.Call) or not self._can_place(node):
                return node
            body, (result, *_) = self._body(node)
            before.extend(body)
            return result

        if isinstance(statement, tree.Assign):
            changed = rewritten(statement, change)
            return [*before, changed]
        call = replace(statement.call, arguments=rewritten(statement.call.arguments, change))
        if not self._can_place(call):
            return [*before, replace(statement, call=call)]
        body, results = self._body(call)
        return [*before, *body, *(tree.Assign(target, result) for target, result in zip(statement.targets, results))]

    def _can_place(self, call: tree.Call) -> bool:
        function = self._functions.get(call.function)
        is_placed = function is not None and len(call.arguments) == len(function.parameters)
        return is_placed and all(argument.name is None for argument in call.arguments)

    def _body(self, call: tree.Call) -> tuple[list[tree.Statement], list[tree.Name]]:
        """The renamed statements of a callee, and the variables of its results."""
        function = self._functions[call.function]
        own = [*(parameter.name for parameter in function.parameters), *assigned(function.body)]
        prefix = self._prefix(function.name, own)

        def change(node: tree.Node) -> tree.Node:
            if isinstance(node, (tree.Name, tree.Indexed)) and node.name in own:
                return replace(node, name=prefix + node.name)
            if isinstance(node, tree.For):
                return replace(node, variable=prefix + node.variable)
            return node

        given = zip(function.parameters, call.arguments)
        statements: list[tree.Statement] = [
            tree.Assign(tree.Name(prefix + parameter.name), argument.value) for parameter, argument in given
        ]
        statements += rewritten(function.body, change)
        return statements, [tree.Name(prefix + result.name) for result in function.results]

    def _prefix(self, function: str, names: Collection[str]) -> str:
        """A prefix that makes the names of an inlined body unique."""
        self._count += 1
        prefix = f"{function}{self._count}_"
        while any(prefix + name in self._taken for name in names):
            prefix += "_"
        self._taken.update(prefix + name for name in names)
        return prefix


def _is_short(function: tree.Function) -> bool:
    return sum(isinstance(node, tree.StatementNode) for node in tree.walk(function)) <= LONGEST_BODY


def _calls(block: tree.Block, functions: Mapping[str, tree.Function]) -> Counter[str]:
    """The number of calls of each function in statements, without those that never run."""
    running = [statement for statement in block if not is_never(statement)]
    return Counter(name for statement in running for name in called_in(statement) if name in functions)


def _iterations(statement: tree.Statement) -> list[int]:
    """The values of the loop variable of a `parfor` with few iterations and literal bounds, if it is not assigned."""
    if not isinstance(statement, tree.For) or not statement.parallel or statement.range.step is not None:
        return []
    start, stop = statement.range.start, statement.range.stop
    if not isinstance(start, tree.IntLiteral) or not isinstance(stop, tree.IntLiteral):
        return []
    numbers = list(range(start.value, stop.value + 1))
    return numbers if len(numbers) <= MOST_TURNS and statement.variable not in assigned(statement.body) else []


def _unrolled(loop: tree.For, numbers: Collection[int]) -> list[tree.Statement]:
    """The statements of all iterations, with the loop variable as a number and its branches decided."""
    statements: list[tree.Statement] = []
    for number in numbers:

        def change(node: tree.Node, number: int = number) -> tree.Node:
            return tree.IntLiteral(number) if isinstance(node, tree.Name) and node.name == loop.variable else node

        for changed in rewritten(loop.body, change):
            statement = with_origin(changed, loop.origin)
            branch = _branch(statement)
            statements += [statement] if branch is None else branch
    return statements


def _branch(statement: tree.Statement) -> tree.Block | None:
    """The branch that an `if` with a comparison of two numbers takes."""
    if not isinstance(statement, tree.If) or not isinstance(statement.condition, tree.Binary):
        return None
    condition = statement.condition
    sides = condition.left, condition.right
    if condition.operator != "==" or not all(isinstance(side, tree.IntLiteral) for side in sides):
        return None
    return statement.body if condition.left == condition.right else statement.otherwise
