"""A function for each size that it is called with: the engine's compiler compiles it once, not again at each call.

It does so for a function whose calls all get the same sizes and the same numbers, and which it does not inline. Which
sizes they are need not be known: calls are compared by those of some inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from onnx_systemds.correspondence import RECOGNISED, name_without_number
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callers
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.rewrite import calling, rewritten
from onnx_systemds.dml.scopes import called_in, is_call, statements_in
from onnx_systemds.importing.passes.block_cuts import is_never
from onnx_systemds.importing.passes.call_guards import with_guards
from onnx_systemds.importing.passes.inlined_calls import has_loop, not_inlined
from onnx_systemds.importing.passes.matrix_sizes import Symbolic, statements_with_symbols
from onnx_systemds.importing.passes.specialisation.constant_sizes import with_constant_sizes

LONGEST = 150
"""Statements of all copies of a function; with more a script gets long that has not four times as many of its own."""
MOST_SIZES = 10
"""Copies of a function: one of many is a short one, which is soon compiled."""
_OF_ONE_SIZE = "# For calls of one size: a function for all of them would be compiled anew at each call."
_OF_ONE_CALLER = "# A copy for one of its callers: called by several, it would be compiled anew each time."
Signature: TypeAlias = tuple[Hashable, ...]
SizeOf: TypeAlias = Callable[[tree.Expression], Symbolic | None]
_Sizes: TypeAlias = Mapping[str, Symbolic]


def with_copy_per_size(
    main: tree.Function,
    functions: Mapping[str, tree.Function],
    given: Mapping[str, Symbolic],
    names: Collection[str],
) -> tuple[tree.Function, dict[str, tree.Function]]:
    """``main`` with another function for each further size that it calls one of ``names`` with; all the others.

    given: sizes of the parameters. Calls whose sizes are not followed stay as they are, as do those in branches and
    loops. A function for one size has it in numbers.
    """
    if not names:
        return main, dict(functions)
    signatures = [_signatures(statement, size_of, functions, names)
                  for statement, size_of in statements_with_symbols(main.body, functions, given)]
    found: dict[str, dict[Signature, _Sizes]] = {}
    for each in signatures:
        for call, (signature, sizes) in each.items():
            found.setdefault(call.function, {})[signature] = sizes
    copies, longest = _Copies(dict(functions), main.name), _longest(main)
    known = Counter(call.function for each in signatures for call in each)
    calls = _calls(main, functions, known)
    named: dict[tuple[str, Signature], str] = {}
    for name, by_size in found.items():
        if not 1 < len(by_size) <= MOST_SIZES or len(by_size) * _length(functions[name]) > longest:
            continue
        for number, (signature, sizes) in enumerate(by_size.items()):
            named[name, signature] = name if number == 0 else copies.copy(name, sizes)
        if known[name] == calls[name]:
            copies.specialise(name, next(iter(by_size.values())))
    body = [_renamed(statement, {call: named.get((call.function, size), call.function)
                                 for call, (size, _) in each.items()})
            for statement, each in zip(main.body, signatures)]
    main = replace(main, body=tuple(body))
    # a function that several copies call has more calls than it had
    return main if len(copies.functions) == len(functions) else with_guards(main, copies.functions), copies.functions


def with_own_copies(
    blocks: Mapping[str, tree.Function], functions: Mapping[str, tree.Function], body: Iterable[tree.Statement],
    main: str,
) -> tuple[dict[str, tree.Function], dict[str, tree.Function]]:
    """Functions that call copies of the functions with loops that others call, too; and the copies, by name.

    body: the statements that call them all, of the function ``main``. Two calls in different functions are never alike
    for the engine (see `call_guards`).
    """
    taken = {name for statement in body for name in called_in(statement)}
    copies = _Copies({**functions, **blocks}, main)
    found: dict[str, tree.Function] = {}
    for name, function in blocks.items():
        inner = [it for it in dict.fromkeys(called_in(function)) if it in functions and has_loop(functions[it])]
        names = {it: copies.copy(it) for it in inner if it in taken}
        found[name] = replace(function, body=calling(names, function.body)) if names else function
        taken.update(inner)
    return found, {name: it for name, it in copies.functions.items() if name not in functions and name not in blocks}


def compared_by_size(
    main: tree.Function, functions: Mapping[str, tree.Function], given: Mapping[str, Symbolic]
) -> frozenset[str]:
    """The functions with loops that get matrices alone, and those of known sizes in each of their calls.

    The engine compiles those that are called with the same sizes once. Where a call is of unknown sizes, or in a branch
    or a loop, it would compile a function of several calls anew at each of them.
    """
    names = {name for name, function in functions.items() if has_loop(function)
             and all(parameter.type.kind == "matrix" for parameter in function.parameters)}
    known: Counter[str] = Counter()
    sizes: dict[str, set[Signature]] = {}
    for statement, size_of in statements_with_symbols(main.body, functions, given) if names else ():
        for call, (signature, _) in _signatures(statement, size_of, functions, names).items():
            known[call.function] += 1
            sizes.setdefault(call.function, set()).add(signature)
    longest = _longest(main)
    return frozenset(name for name, count in _calls(main, functions, known).items() if count == known[name]
                     and len(sizes[name]) <= MOST_SIZES and len(sizes[name]) * _length(functions[name]) <= longest)


def separately_compiled(functions: Mapping[str, tree.Function], *, loops: bool) -> frozenset[str]:
    """The functions that the engine does not inline. loops: also those with a loop, in them or in what they call."""
    apart = not_inlined(functions)
    looping = callers(functions.values(), [name for name in apart if has_loop(functions[name])])
    return looping.union(apart) if loops else frozenset(apart - looping)


def _calls(
    main: tree.Function, functions: Mapping[str, tree.Function], names: Collection[str]
) -> Counter[str]:
    """How often each of these is called, in all functions."""
    return Counter(name for function in (main, *functions.values()) for name in called_in(function) if name in names)


def _signatures(
    statement: tree.Statement, size_of: SizeOf, functions: Mapping[str, tree.Function], names: Collection[str]
) -> dict[tree.Call, tuple[Signature, _Sizes]]:
    """What calls in a statement differ by, where it is known, and the sizes of their arguments by parameter."""
    if is_never(statement) or not isinstance(statement, (tree.Assign, tree.MultiAssign)):
        return {}
    found: dict[tree.Call, tuple[Signature, _Sizes]] = {}
    for call in tree.walk(statement):
        if isinstance(call, tree.Call) and call.function in names:
            signature = _signature(call, functions[call.function], size_of)
            if signature is not None:
                found[call] = signature
    return found


def _signature(call: tree.Call, function: tree.Function, size_of: SizeOf) -> tuple[Signature, _Sizes] | None:
    found: list[Hashable] = []
    sizes: dict[str, Symbolic] = {}
    for argument, parameter in zip(call.arguments, function.parameters):
        size = size_of(argument.value)
        if argument.name is not None or (size is None and parameter.type.kind != "scalar"):
            return None
        if size is None or isinstance(size, float):
            found.append(argument.value)
        else:
            found.append(size)
            sizes[parameter.name] = size
        if is_call(argument.value, "matrix") and number_of(argument.value.arguments[0].value) is not None:
            found.append(argument.value.arguments[0].value)  # the compiler counts its zeros
    return tuple(found), sizes


def _renamed(statement: tree.Statement, names: Mapping[tree.Call, str]) -> tree.Statement:
    """The statement with other functions in some of its calls."""
    before = {name: call.function for call, name in names.items()}
    if all(name == function for name, function in before.items()):
        return statement

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Call):
            return node
        name = names.get(calling(before, node), node.function)  # calls in its arguments have their names already
        return node if name == node.function else replace(node, function=name)

    return rewritten(statement, change)


def _longest(main: tree.Function) -> int:
    """How many statements all copies of a function may have that ``main`` calls."""
    return max(LONGEST, _length(main) // 4)


def _length(function: tree.Function) -> int:
    return sum(1 for _ in statements_in(function.body))


@dataclass
class _Copies:
    """All functions, and how many copies there are of each."""

    functions: dict[str, tree.Function]
    main: str
    counts: Counter[str] = field(default_factory=Counter)

    def copy(self, name: str, sizes: _Sizes | None = None) -> str:
        """The name of a new copy, for sizes of its parameters; it calls copies of the functions with a loop that the
        function calls."""
        function = self.functions[name]
        new = self._name(name)
        self.functions[new] = function  # the name is taken
        self.functions[new] = function = self._commented(function, new, sizes)
        inner = [called for called in dict.fromkeys(called_in(function))
                 if called in self.functions and called != name and has_loop(self.functions[called])]
        names = {called: self.copy(called) for called in inner}
        self.functions[new] = replace(function, body=calling(names, function.body))
        return new

    def specialise(self, name: str, sizes: _Sizes) -> None:
        """The function itself for the sizes of its parameters in all calls."""
        self.functions[name] = self._commented(self.functions[name], name, sizes)

    def _commented(self, function: tree.Function, name: str, sizes: _Sizes | None) -> tree.Function:
        """A function by this name, with a comment that says what it is for."""
        words = _OF_ONE_CALLER if sizes is None else _OF_ONE_SIZE
        before = tuple(line for line in function.comments.before if line not in (_OF_ONE_CALLER, _OF_ONE_SIZE))
        if sizes is not None and name_without_number(function.name) not in RECOGNISED:
            function = with_constant_sizes(function, self.functions, sizes)
        return replace(function, name=name, comments=replace(function.comments, before=(*before, words)))

    def _name(self, name: str) -> str:
        self.counts[name] += 1
        new = f"{name}_{self.counts[name] + 1}"
        return new if new not in self.functions and new != self.main else self._name(name)
