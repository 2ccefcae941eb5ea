"""What statements of the main function repeat as functions of their own: of twelve layers, one called twelve times.

A function takes its weights out of the list that it is given, in a block of their own, so that what is computed of them
has known sizes: then the engine compiles it once (docs/decisions/0028-repeated-blocks.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.module_paths import ModulePath
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.printer import print_expression, print_statement
from onnx_systemds.dml.rewrite import call, renamed, reshaped
from onnx_systemds.dml.scopes import assigned, binaries_in, read_in, reads, results
from onnx_systemds.importing.origins import CallOrigin, Origin, SharedOrigin
from onnx_systemds.importing.parameters import MATRIX, UNKNOWN_LIST
from onnx_systemds.importing.passes.block_cuts import cut, cut_blocks, is_cut, is_loaded_cut, with_never
from onnx_systemds.importing.passes.blocks.block_names import (
    block_name,
    common_ending,
    common_name,
    common_scope,
    local_name,
)
from onnx_systemds.importing.passes.blocks.block_weights import Given, weight_parameters
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.importing.passes.blocks.repeats import Repeat, find_repeats, with_separate_reshapes
from onnx_systemds.importing.passes.call_guards import guard_statements, guarding_calls, is_guard
from onnx_systemds.importing.passes.matrix_sizes import sizes_in
from onnx_systemds.importing.passes.result_sizes import Shape, shapes_in
from onnx_systemds.importing.passes.shared_expressions import with_shared_expressions_in
from onnx_systemds.importing.passes.specialisation.hoisting import impure_functions
from onnx_systemds.importing.passes.specialisation.loading import LARGEST_EARLY, with_loads_first
from onnx_systemds.importing.passes.specialisation.size_copies import with_own_copies
from onnx_systemds.importing.passes.specialisation.specialise import symbolic_sizes
from onnx_systemds.importing.script import Script
from onnx_systemds.operators.api.reserved_names import OWN_WEIGHTS, WEIGHTS
from onnx_systemds.operators.rendering.weight_loads import entry, key_of, own_load, sizes_of

APART = 'if (never) { print("never") }  # one function for all calls: not to be written into its callers'
MOST_WRITTEN_OUT = 3
"""Calls whose own weights are arguments as they come out of the list; more calls give a list of them, which is shorter
and takes longer: the engine compiles at each call where a list is made, and where it is taken apart."""
_BIAS = "_bias"
MOST_LINES = 4 / 5
"""Of the functions that nodes became, with blocks, for blocks to be worth it."""


def with_blocks(script: Script, *, always: bool) -> Script:
    """The script whose repeated blocks are functions; as it is, if that is not a fifth shorter (and not ``always``)."""
    found = _with_blocks(script, always=always)
    if found is None or not (always or _is_a_fifth_shorter(found, script)):
        return script
    return replace(found, general=script.unspecialised)


def _is_a_fifth_shorter(found: Script, script: Script) -> bool:
    """Whether that much is saved; where statements alone tell it, how many lines they have is not looked at."""
    lines = _lines(found)
    least = sum(not statement.shares_line for function in script.functions for statement in function.body)
    return lines <= MOST_LINES * least or lines <= MOST_LINES * _lines(script)


def _lines(script: Script) -> int:
    """Lines of the functions that nodes became; a constant is one line, however many its numbers take."""
    count = 0
    for function in script.functions:
        others = tuple(statement for statement in function.body if not _is_constant(statement))
        constants = len(function.body) - len(others)
        count += constants + print_statement(replace(function, body=others) if constants else function).count("\n")
    return count


def _is_constant(statement: tree.Statement) -> bool:
    """Whether it is a matrix of numbers that stand in the script."""
    value = statement.value if isinstance(statement, tree.Assign) else None
    return isinstance(value, tree.Call) and bool(value.arguments) and (
        isinstance(value.arguments[0].value, tree.StringLiteral)
    )


def _with_blocks(script: Script, *, always: bool) -> Script | None:
    main, others = script.main, {it.name: it for it in script.functions if it.name != script.function}
    functions = others | {function.name: function for function in script.library}
    body = tuple(statement for statement in main.body if not is_cut(statement) and not is_guard(statement))
    given = [it.name for it in main.parameters]
    body = with_shared_expressions_in(with_separate_reshapes(body), given, impure_functions(functions))
    main = replace(main, body=body)
    found = find_repeats(body, given, (it.name for it in main.results))
    kinds = kinds_of(main, functions) if found else {}
    repeats = [repeat for repeat in found if _is_callable(repeat, kinds)]
    if not repeats:
        return None
    is_open = bool(script.symbols)
    shapes = _outer_shapes(main, functions, repeats)
    if not is_open:  # such a script is to be as fast as it can be: all weights are taken out in one block
        shapes |= _known_shapes(script, functions, body)
    names = Names([*functions, script.function, f"{script.function}_init"])
    made: dict[str, tree.Function] = {}
    blocks: list[_Block] = []
    owned = weight_parameters(body, repeats) if is_open else [()] * len(repeats)
    passed = frozenset(name for repeat in repeats for names in repeat.parameters for name in names)
    for repeat, own in zip(repeats, owned):
        block = _Block(body, repeat, names, kinds, own, listed=len(repeat.instances) > MOST_WRITTEN_OUT)
        function = block.function(others)
        if _is_shorter(block, function, shapes) and (always or block.is_sized(shapes, passed)):
            blocks.append(block)
            made[block.name] = function
    if not blocks:
        return None
    last = {names[-1] for repeat in repeats for names in repeat.results}
    called = _with_calls(body, blocks, {name: shapes[name] for name in shapes if name in passed or name not in last})
    called = _with_names_of_results(called, blocks, Names([*kinds, *assigned(body)]), results(main))
    made, copies = with_own_copies(made, functions, called, main.name)
    start = next((place + 1 for place, statement in enumerate(called) if is_loaded_cut(statement)), 0)
    guards = guarding_calls([*functions.values(), *copies.values(), *made.values()], called)
    scalars = [parameter.name for parameter in main.parameters if parameter.type.kind == "scalar"]
    called = [*called[:start], *guard_statements(guards), *cut_blocks(called[start:], others, scalars)]
    new = replace(main, body=with_never(called))
    library = sorted((*script.library, *copies.values()), key=lambda function: function.name)
    return replace(script, library=tuple(library), functions=(*others.values(), *made.values(), new))


def _outer_shapes(
    main: tree.Function, functions: Mapping[str, tree.Function], repeats: Sequence[Repeat]
) -> dict[str, Shape]:
    """Rows and columns of variables of the main function, but for those that follow from what becomes a block."""
    inner = {*assigned(main.body[place] for repeat in repeats for instance in repeat.instances for place in instance)}
    return {name: shape for name, shape in shapes_in(main, functions).items()
            if all(inner.isdisjoint(read_in(size)) for size in shape)}


def _with_names_of_results(
    called: list[tree.Statement], blocks: Sequence[_Block], taken: Names, kept: Collection[str]
) -> list[tree.Statement]:
    """The statements with calls whose results are called like those of their function, but for what is ``kept``."""
    names = {name: taken.fresh(hint) for block in blocks for name, hint in block.names_of_results() if name not in kept}
    return [renamed(statement, names) for statement in called] if names else called


def _known_shapes(script: Script, functions: Mapping[str, tree.Function], body: tree.Block) -> dict[str, Shape]:
    """Rows and columns of what the statements of a script for known sizes assign, where they are followed."""
    sizes = sizes_in(body, functions, symbolic_sizes(script))
    return {name: (tree.IntLiteral(rows), tree.IntLiteral(cols))
            for place, (rows, cols) in sizes.items() for name in assigned((body[place],))}


def _is_callable(repeat: Repeat, kinds: Mapping[str, tree.DataType]) -> bool:
    """Whether all variables that go in and out have known types, and numbers are the same in all calls.

    With other numbers in each call the engine would compile the function again at each (docs/decisions/0011). And the
    function is written by the names of the first call: one that stands there for two parameters does not tell which.
    """
    if len({names[0] for names in repeat.parameters}) < len(repeat.parameters):
        return False
    for names in (*repeat.parameters, *repeat.results):
        types = {kinds.get(name) for name in names}
        if len(types) > 1 or None in types:
            return False
    return all(
        kinds[names[0]].kind in ("matrix", "frame") or len(set(names)) == 1 for names in repeat.parameters
    ) and all(kinds[names[0]] == MATRIX for names in repeat.results)


def _is_shorter(block: _Block, function: tree.Function, shapes: Mapping[str, Shape]) -> bool:
    """Whether a function and its calls have fewer lines than the statements that they stand for."""
    instances = (*block.repeat.instances, sorted(block.loads))
    calls = [block.call(number, shapes) for number in range(len(block.repeat.instances))]
    after = sum(print_statement(it).count("\n") for it in (function, *calls))
    if after < sum(map(len, instances)):
        return True  # without a look at how many lines these have: one at least
    return after < sum(print_statement(block.body[place]).count("\n") for instance in instances for place in instance)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """What goes into a function: its name there, and those of the variables in the calls."""

    name: str
    given: tuple[str, ...]


class _Block:
    """A repeated sequence, its function and its calls."""

    def __init__(
        self, body: tree.Block, repeat: Repeat, names: Names, kinds: Mapping[str, tree.DataType],
        own: tuple[Given, ...], *, listed: bool,
    ) -> None:
        self.body, self.repeat, self.kinds, self.own, self.listed = body, repeat, kinds, own, listed
        self.origins = [[body[place].origin for place in instance] for instance in repeat.instances]
        self.scopes: list[ModulePath] = [common_scope(origins) for origins in self.origins]
        self.ends = {instance[-1]: number for number, instance in enumerate(repeat.instances)}
        self._made_of = {name: place for place, statement in enumerate(body) for name in assigned((statement,))}
        self.loads = {self._made_of[name] for given in own for name in given}
        weights = [given for given in repeat.parameters if self._rank(given) == 2]
        self.name = names.fresh(block_name(self.scopes, weights))
        self._names = Names(["never", OWN_WEIGHTS])
        self._inner = self._inner_names()
        self.parameters = self._parameters()

    def function(self, others: Mapping[str, tree.Function]) -> tree.Function:
        """The function; its statements are those of the first instance, and of the nodes of all."""
        names = self._inner | {it.given[0]: it.name for it in self.parameters}
        statements: list[tree.Statement] = self._own_loads(names) if self.listed else []
        for number, place in enumerate(self.repeat.instances[0]):
            statement = copy(renamed(self.body[place], names))
            if not number:
                tree.keep_spelling(statement, statement.spelling)
            tree.keep_origin(statement, SharedOrigin(self.name, tuple(origins[number] for origins in self.origins)))
            statements.append(statement)
        inputs = [tree.Parameter(it.name, self.kinds[it.given[0]]) for it in self._arguments]
        scalars = [parameter.name for parameter in inputs if parameter.type.kind == "scalar"]
        if self.own and self.listed:
            inputs.append(tree.Parameter(OWN_WEIGHTS, UNKNOWN_LIST))
            statements = list(with_loads_first(tuple(statements), LARGEST_EARLY))
        body = with_never([cut(APART), *cut_blocks(statements, others, scalars)])
        results = tuple(tree.Parameter(self._inner[given[0]], MATRIX) for given in self.repeat.results)
        return tree.Function(self.name, tuple(inputs), results, body, comments=tree.Comments(before=self._comment()))

    def call(self, number: int, shapes: Mapping[str, Shape]) -> tree.Statement:
        """A call. Its result gets its size from ``shapes``, if it is there: the engine knows none before."""
        arguments = [self._argument(it.given, number) for it in self._arguments]
        if self.own and self.listed:
            keys = (key_of(self.body[self._made_of[given[number]]]) for given in self.own)
            arguments.append(call("list", *(entry(key) for key in keys if key is not None)))
        called = call(self.name, *arguments)
        targets = [given[number] for given in self.repeat.results]
        origin = CallOrigin(self.name, number)
        if len(targets) > 1:
            statement: tree.Statement = tree.MultiAssign(tuple(map(tree.Name, targets)), called, origin=origin)
            tree.keep_spelling(statement, f"[{', '.join(targets)}] = {print_expression(called)}")
            return statement
        value: tree.Expression = called
        if targets[0] in shapes:
            value = reshaped(called, *shapes[targets[0]])
        statement = tree.Assign(tree.Name(targets[0]), value, origin=origin)
        tree.keep_spelling(statement, f"{targets[0]} = {print_expression(value)}")
        return statement

    def is_sized(self, shapes: Mapping[str, Shape], passed: Collection[str]) -> bool:
        """Whether the engine knows the sizes of results that are ``passed`` to calls: else it compiles these anew.

        Of one of several results of a call it knows none.
        """
        given = {name for names in self.repeat.results for name in names if name in passed}
        return len(self.repeat.results) == 1 and shapes.keys() >= given

    @property
    def _arguments(self) -> list[_Parameter]:
        """The parameters but for the weights that the function takes out of their list."""
        return [it for it in self.parameters if not self.listed or it.given not in self.own]

    def _argument(self, given: Given, number: int) -> tree.Expression:
        """What a call gives: a variable, or a weight of its own as it comes out of the list."""
        load = self.body[self._made_of[given[number]]] if given in self.own else None
        return load.value if isinstance(load, tree.Assign) else tree.Name(given[number])

    def _own_loads(self, names: Mapping[str, str]) -> list[tree.Statement]:
        """The statements that take the weights of a call out of their list."""
        found: list[tree.Statement] = []
        for number, given in enumerate(self.own, 1):
            loads = [self.body[self._made_of[name]] for name in given]
            rows, cols = sizes_of(loads[0])
            statement = tree.Assign(tree.Name(names[given[0]]), own_load(number, rows, cols))
            tree.keep_origin(statement, SharedOrigin(self.name, tuple(load.origin for load in loads)))
            found.append(statement)
        return found

    def _comment(self) -> tuple[str, ...]:
        first, last = (".".join(scope) for scope in (self.scopes[0], self.scopes[-1]))
        of = f"of {first} to {last}" if first and first != last else "that are alike"
        return (f"# The nodes {of}, called {len(self.repeat.instances)} times.",)

    def names_of_results(self) -> Iterator[tuple[str, str]]:
        """The only result of each call, where it has no name of its own, and its name after the function."""
        given, *others = self.repeat.results
        if not others and not self._result_name(given):
            for number, (name, scope) in enumerate(zip(given, self.scopes)):
                yield name, f"{self.name}_{next(filter(str.isdigit, reversed(scope)), number)}"

    def _result_name(self, given: Given) -> str:
        """What a result is called in all instances but for the last, whose name says what becomes of it; or ""."""
        local = {self._local(name, number) for number, name in enumerate(given[:-1])}
        name = local.pop()
        is_own = not local and (len(given) > 2 or not any(map(str.isdigit, name.split("_"))))
        return name if is_own or (not local and name == self._local(given[-1], len(given) - 1)) else ""

    def _inner_names(self) -> dict[str, str]:
        """The names within the function of what the first instance assigns; of a result that has no name of its own, Y.

        Results are named first, so that no other value takes their names.
        """
        found: dict[str, str] = {}
        for given in self.repeat.results:
            found[given[0]] = self._names.fresh(self._result_name(given) or "Y")
        for places in zip(*self.repeat.instances):
            origin = self.body[places[0]].origin
            op_type = origin.place.op if isinstance(origin, Origin) else ""
            for given in zip(*(assigned((self.body[place],)) for place in places)):
                if given[0] not in found:
                    local_names = [self._local(name, number) for number, name in enumerate(given)]
                    found[given[0]] = self._names.fresh(common_name(local_names, op_type))
        return found

    def _local(self, name: str, number: int) -> str:
        return local_name(name, self.scopes[number])

    def _parameters(self) -> list[_Parameter]:
        """Those with other values in each call first, then what all share, then weights and other constants."""
        ranked = sorted(self.repeat.parameters, key=self._rank)
        return [_Parameter(self._names.fresh(self._parameter_name(given)), given) for given in ranked]

    def _rank(self, given: tuple[str, ...]) -> int:
        if len(set(given)) == 1:
            return 1
        return 2 if all(map(self._is_constant, given)) else 0

    def _is_constant(self, name: str) -> bool:
        place = self._made_of.get(name)
        return place is not None and reads(self.body[place]) <= {WEIGHTS, name}

    def _parameter_name(self, given: Given) -> str:
        rank = self._rank(given)
        if rank == 1:
            return given[0]
        local = {self._local(name, number) for number, name in enumerate(given)}
        if rank == 0:
            return local.pop() if len(local) == 1 else "X"
        if name := self._own_name(given):
            return name
        user = self._user(given[0])
        return self._by_bias(user) or f"{self._inner[assigned((self.body[user],))[0]]}_weight"

    def _own_name(self, given: Given) -> str:
        """What a value is called in all instances, or how all of its names end; "" if they have nothing in common."""
        local = {self._local(name, number) for number, name in enumerate(given)}
        return local.pop() if len(local) == 1 else common_ending(local)

    def _user(self, name: str) -> int:
        return next(place for place in self.repeat.instances[0] if name in reads(self.body[place]))

    def _by_bias(self, user: int) -> str:
        """The name of a weight by the bias added to its product, there or where this is read; "" without one."""
        (product, *_) = assigned((self.body[user],))
        readers = [place for place in self.repeat.instances[0] if product in reads(self.body[place])]
        for place in (user, *readers[:1]):
            added = {side.name for it in binaries_in(self.body[place]) if it.operator == "+"
                     for side in (it.left, it.right) if isinstance(side, tree.Name)}
            biases = (self._own_name(given) for given in self.repeat.parameters if given[0] in added)
            if bias := next((it for it in biases if it.endswith(_BIAS)), ""):
                return bias.removesuffix(_BIAS) + "_weight"
        return ""


def _with_calls(body: tree.Block, blocks: Sequence[_Block], shapes: Mapping[str, Shape]) -> list[tree.Statement]:
    """The statements, with calls in the positions of the last ones of the instances."""
    outlined = {place for block in blocks for instance in (*block.repeat.instances, block.loads) for place in instance}
    ends = {place: (block, number) for block in blocks for place, number in block.ends.items()}
    found: list[tree.Statement] = []
    for place, statement in enumerate(body):
        if place in ends:
            block, number = ends[place]
            found.append(block.call(number, shapes))
        elif place not in outlined:
            found.append(statement)
    return found
