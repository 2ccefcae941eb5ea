"""Loops as they are faster for known sizes: without threads, and in the place of calls or in a function for each call.

A `parfor` takes 2 to 5 ms to start its threads and to copy its body, at every call. A function with a loop that is
called at several places is compiled anew at each of its calls; in the place of a call its loop is compiled once, for
the sizes there. So is a copy of the function for each place, which is for scripts that take weights out of a list: with
such a loop in it, their main function is compiled anew at each call, as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import assigned

LONGEST_BODY = 200
"""Statements of a function that take the place of its calls."""
MOST_COPIES = 50
"""Copies of a function; with more the script gets long."""
_OF_ONE_CALL = "# A copy for one call: called at several places, it would be compiled anew each time."


def without_threads(script: tree.Script) -> tree.Script:
    """The script with `for` instead of `parfor`."""

    def change(node: tree.Node) -> tree.Node:
        return replace(node, parallel=False, options=()) if isinstance(node, tree.For) and node.parallel else node

    changed: tree.Script = rewritten(script, change)
    return changed


def called_with_loops(main: tree.Function, functions: Mapping[str, tree.Function]) -> frozenset[str]:
    """The functions with loops that are called at several places of ``main``, short enough to stand there."""
    places = Counter(
        node.function for node in tree.walk(main) if isinstance(node, tree.Call) and node.function in functions
    )
    return frozenset(name for name, count in places.items() if count > 1 and _is_short_with_loop(functions[name]))


def with_bodies(main: tree.Function, functions: Collection[tree.Function]) -> tree.Function:
    """The function with the bodies of others in the place of their calls.

    Calls stay in conditions and in the heads of loops, and where arguments are not given one by one.
    """
    return _Bodies(main, functions).placed()


def with_copies(
    main: tree.Function, functions: Mapping[str, tree.Function]
) -> tuple[tree.Function, dict[str, tree.Function]]:
    """``main`` with a function of its own for each call of those that `called_with_loops` tells; all the others."""
    return _Copies(main, functions).made()


class _Copies:
    """The copies of functions, while calls are given theirs."""

    def __init__(self, main: tree.Function, functions: Mapping[str, tree.Function]) -> None:
        self._main = main
        self._functions = dict(functions)
        places = Counter(node.function for node in tree.walk(main) if isinstance(node, tree.Call))
        self._copied = {name for name in called_with_loops(main, functions) if places[name] <= MOST_COPIES}
        self._counts: Counter[str] = Counter()

    def made(self) -> tuple[tree.Function, dict[str, tree.Function]]:
        body = tuple(map(self._statement, self._main.body)) if self._copied else self._main.body
        return replace(self._main, body=body), self._functions

    def _statement(self, statement: tree.Statement) -> tree.Statement:
        if isinstance(statement, tree.If) and statement.condition == tree.Name("never"):  # never runs
            return statement
        changed: tree.Statement = rewritten(statement, self._change)
        return changed

    def _change(self, node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Call) or node.function not in self._copied:
            return node
        function = self._functions[node.function]
        name = self._name(function.name)
        comments = replace(function.comments, before=(*function.comments.before, _OF_ONE_CALL))
        self._functions[name] = replace(function, name=name, comments=comments)
        return replace(node, function=name)

    def _name(self, function: str) -> str:
        """The next name of a copy."""
        while True:
            self._counts[function] += 1
            name = f"{function}_{self._counts[function]}"
            if name not in self._functions and name != self._main.name:
                return name


class _Bodies:
    """The names that are taken, while bodies are placed."""

    def __init__(self, main: tree.Function, functions: Collection[tree.Function]) -> None:
        self._main = main
        self._functions = {function.name: function for function in functions}
        self._taken = {parameter.name for parameter in main.parameters} | set(assigned(main.body))
        self._count = 0

    def placed(self) -> tree.Function:
        return replace(self._main, body=self._block(self._main.body))

    def _block(self, block: tree.Block) -> tree.Block:
        return tuple(statement for before in block for statement in self._statements(before))

    def _statements(self, statement: tree.Statement) -> list[tree.Statement]:
        """What takes the place of a statement."""
        if isinstance(statement, tree.If):
            if statement.condition == tree.Name("never"):  # holds calls apart, see `call_guards`
                return [statement]
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
        """The statements of the function called, with names of their own, and the variables of its results."""
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
        """What makes the names of a body differ from all others."""
        self._count += 1
        prefix = f"{function}{self._count}_"
        while any(prefix + name in self._taken for name in names):
            prefix += "_"
        self._taken.update(prefix + name for name in names)
        return prefix


def _is_short_with_loop(function: tree.Function) -> bool:
    nodes = [node for node in tree.walk(function) if isinstance(node, tree.StatementNode)]
    return len(nodes) <= LONGEST_BODY and any(isinstance(node, (tree.For, tree.While)) for node in nodes)
