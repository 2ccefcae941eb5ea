"""Hoists what depends on weights and sizes alone into the init function, which computes it once.

A statement is constant if all that it reads is constant, and if it always gives the same result. Constants that other
statements read are *hoisted*: the init function computes them and adds them to the list of weights, from which the main
function takes them. Unchanged weights and numbers are not hoisted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callers, calls
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import assigned, blocks_in, is_call, once, reads
from onnx_systemds.importing.passes.block_cuts import NEVER, cut, is_never
from onnx_systemds.importing.passes.convolution_sizes import IntegerOf
from onnx_systemds.importing.passes.matrix_sizes import Shape, integer_lookup, sizes_in
from onnx_systemds.importing.passes.specialisation.products import MATRIX
from onnx_systemds.importing.passes.specialisation.tap_sums import SHIFTS, SHIFTS_OF_SAMPLES
from onnx_systemds.operators.rendering.weight_loads import entry, is_entry, is_load, load

# Calls that may give something else each time, that do something, or whose results are no matrix and no number.
_NEVER_CONSTANT = {
    "rand", "sample", "time", "read", "write", "print", "stop", "assert", "eval", "list", "as.list", "as.frame",
    "append", "remove", "paramserv", "transformencode", "transformapply", "transformdecode", "transformcolmap",
    "transformmeta",
}

_NO_CUT = cut("never = FALSE")

MOST_HOISTED = 200
"""Constants that are hoisted; each costs a call some 10 microseconds."""


@dataclass(frozen=True)
class Flow:
    """Which statements of a function are constant, and the definitions that each statement reads.

    sources: for each statement, and for the end of the function, the numbers of the statements whose results it reads.
    """

    constant: frozenset[int]
    sources: Sequence[frozenset[int]]

    def needed(self, given: Iterable[int]) -> set[int]:
        """The statements that calls need if the results of those in ``given`` are available."""
        open_ones = set(range(len(self.sources) - 1)) - self.constant
        return self._with_sources(open_ones | self.sources[-1], set(given))

    def first_needed(self, candidates: Iterable[int]) -> list[int]:
        """The statements to hoist, from which all other constants can be computed."""
        given = set(candidates)
        return sorted(self.needed(given) & given)

    def computing(self, numbers: Iterable[int]) -> set[int]:
        """The statements and all that they depend on."""
        return self._with_sources(set(numbers), set())

    def _with_sources(self, numbers: set[int], given: set[int]) -> set[int]:
        found: set[int] = set()
        stack = list(numbers)
        while stack:
            number = stack.pop()
            if number not in found:
                found.add(number)
                stack += [] if number in given else self.sources[number]
        return found


@dataclass(frozen=True)
class Hoisted:
    """The remaining statements of the main function, and those that compute the constants.

    names: of the constants in the list; the first ``matrices`` are the sparse matrices of products, which have to be
    hoisted, since calls would take longer than ever with them. variables: the names by those of the variables.
    """

    body: tree.Block
    names: tuple[str, ...] = ()
    statements: tree.Block = ()
    matrices: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)


def flow_of(body: tree.Block, fixed: Iterable[str], results: Iterable[str], impure: frozenset[str]) -> Flow:
    """Find the constant statements. fixed: constant parameters. impure: functions that are never constant."""
    defined: dict[str, int] = {}  # the last statement that may have defined a name; it reads those before, if any
    constant: set[int] = set()
    sources: list[frozenset[int]] = []
    given = set(fixed)
    for number, statement in enumerate(body):
        read = reads(statement)
        sources.append(frozenset(defined[name] for name in read if name in defined))
        is_fixed = sources[number] <= constant and all(name in given for name in read if name not in defined)
        if isinstance(statement, tree.Assign) and is_fixed and impure.isdisjoint(calls(statement)):
            constant.add(number)
        defined |= dict.fromkeys(assigned((statement,)), number)
    sources.append(frozenset(defined[name] for name in results if name in defined))
    return Flow(frozenset(constant), sources)


def impure_functions(functions: Mapping[str, tree.Function]) -> frozenset[str]:
    """The functions, including builtins, whose results may differ for equal arguments."""
    impure = {name for name, function in functions.items() if not _gives_one_matrix(function)}
    return callers(functions.values(), impure | (_NEVER_CONSTANT - functions.keys()), _calls_without_cuts)


def hoisted(
    body: tree.Block,
    flow: Flow,
    taken: Iterable[str],
    functions: Mapping[str, tree.Function],
    wanted: Callable[[str, Shape | None], bool],
) -> Hoisted:
    """The statements of a function that takes its constants out of the list of weights.

    taken: the names of the weights in the list. functions: of the script. wanted: whether a constant of that name and
    of these rows and columns, where they are known, is hoisted.
    """
    integer_of = integer_lookup(body)
    found = flow.first_needed(number for number in flow.constant if _is_worth_hoisting(body[number], integer_of))
    found = sorted(found, key=lambda number: not _makes_sparse(body[number]))[:MOST_HOISTED]
    computed = sorted(flow.computing(found))
    places = sizes_in(tuple(body[number] for number in computed), functions, {})
    shapes = {computed[place]: shape for place, shape in places.items()}
    names = _list_names(body, found, computed, taken)
    chosen = [number for number in found if wanted(names[number], shapes.get(number))]
    if not chosen:
        return Hoisted(body)
    left: list[tree.Statement] = []
    for number in sorted(flow.needed(chosen)):
        statement = body[number]
        left.append(_taken(statement, names[number], shapes.get(number)) if number in chosen else statement)
    return Hoisted(
        tuple(left),
        tuple(names[number] for number in chosen),
        _computing(body, sorted(flow.computing(chosen)), {number: names[number] for number in chosen}, functions),
        sum(_makes_sparse(body[number]) for number in chosen),
        {_target(body[number]): names[number] for number in chosen},
    )


def _list_names(
    body: tree.Block, found: Sequence[int], computed: Sequence[int], taken: Iterable[str]
) -> dict[int, str]:
    """The names of constants in the list: those of variables that still hold them at the end."""
    last = {_target(body[number]): number for number in computed}
    weights = set(taken)
    fresh = Names(weights.union(assigned(body)))
    names: dict[int, str] = {}
    for number in sorted(found):
        target = _target(body[number])
        is_free = last[target] == number and target not in weights
        names[number] = target if is_free else fresh.fresh(target)
    return names


def _target(statement: tree.Statement) -> str:
    (target,) = assigned((statement,))
    return target


def _taken(statement: tree.Statement, key: str, shape: Shape | None) -> tree.Statement:
    """The expression that takes a constant out of the list."""
    assert isinstance(statement, tree.Assign)
    value = entry(key) if shape is None else load(key, *shape)
    return tree.Assign(tree.Name(statement.target.name), value, comments=statement.comments, origin=statement.origin)


def _computing(
    body: tree.Block, numbers: Sequence[int], keys: Mapping[int, str], functions: Mapping[str, tree.Function]
) -> tree.Block:
    """The statements that compute the constants as variables with their names in the list."""
    called = set[str]().union(*(calls(body[number]) for number in numbers))
    computing = [statement for statement in body if _guards(statement, called & functions.keys())]
    for number in numbers:
        computing.append(body[number])
        if number in keys and keys[number] != (target := _target(body[number])):
            computing.append(tree.Assign(tree.Name(keys[number]), tree.Name(target), origin=body[number].origin))
    return tuple(computing)


def _guards(statement: tree.Statement, functions: set[str]) -> bool:
    """Whether a statement is a guard of calls of one of these functions (see `call_guards`)."""
    return is_never(statement) and bool(calls(statement) & functions)


def _calls_without_cuts(function: tree.Function) -> frozenset[str]:
    """What a function calls apart from its cuts, which ask the time and seem to print, but only for the compiler."""
    return frozenset().union(*map(_statement_calls, function.body))


@once
def _statement_calls(statement: tree.Statement) -> frozenset[str]:
    if blocks_in(statement):
        statement = rewritten(statement, lambda node: _NO_CUT if _is_cut(node) else node)
    return frozenset(() if _is_cut(statement) else calls(statement))


def _is_cut(statement: tree.Statement) -> bool:
    return is_never(statement) or statement == cut(NEVER)


def _gives_one_matrix(function: tree.Function) -> bool:
    return len(function.results) == 1 and function.results[0].type.kind in ("matrix", "scalar")


def _makes_sparse(statement: tree.Statement) -> bool:
    """Whether a statement makes the sparse matrix of a convolution."""
    return not calls(statement).isdisjoint((MATRIX, SHIFTS, SHIFTS_OF_SAMPLES))


def _is_worth_hoisting(statement: tree.Statement, integer_of: IntegerOf) -> bool:
    """Whether an expression takes longer to compute than to take its result out of a list.

    It does not for a number, a variable, a weight, or a matrix of a literal.
    """
    assert isinstance(statement, tree.Assign)
    value = statement.value
    is_filled = is_call(value, "matrix") and not _reads_matrices(value, integer_of)
    is_left = is_filled or isinstance(value, tree.Name) or is_entry(value) or is_load(value)
    return not is_left and _reads_matrices(statement, integer_of)


def _reads_matrices(node: tree.Node, integer_of: IntegerOf) -> bool:
    """Whether a part of a script has a call, an index or a variable that may be a matrix."""
    below = [found for part in tree.children(node) if not (isinstance(node, tree.Assign) and part is node.target)
             for found in tree.walk(part)]
    return any(
        isinstance(found, (tree.Call, tree.Indexed)) or (isinstance(found, tree.Name) and integer_of(found) is None)
        for found in below
    )
