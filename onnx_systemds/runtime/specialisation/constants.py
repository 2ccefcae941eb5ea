"""What a script computes of weights and sizes alone: found, to be computed once and given to all calls.

A statement is constant when all that it reads is, and when it always gives the same. Constants that other statements
need are *kept*: a script of their own computes them, and the main function takes them as further arguments. Weights as
they are, and numbers, are not worth it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml import templates
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_script
from onnx_systemds.dml.scopes import assigned
from onnx_systemds.importing.passes.block_cuts import BLOCK_CUT, NEVER, STATEMENTS_PER_BLOCK
from onnx_systemds.runtime.specialisation.extremes import FLAT, with_flat_extremes
from onnx_systemds.runtime.specialisation.loops import called_with_loops, with_bodies, without_threads
from onnx_systemds.runtime.specialisation.products import (
    FILTERS,
    MATRIX,
    ROW_AGGREGATES,
    with_plain_sums,
    with_sparse_products,
)
from onnx_systemds.runtime.specialisation.sample_columns import with_sample_columns
from onnx_systemds.runtime.specialisation.tap_sums import SHIFTS, SHIFTS_OF_SAMPLES
from onnx_systemds.runtime.specialisation.trees import called_functions, calls, known_sizes, reads, rewritten

# Calls that may give something else each time, that do something, or whose results are no matrix and no number.
_NEVER_CONSTANT = {
    "rand", "sample", "time", "read", "write", "print", "stop", "assert", "eval", "list", "as.list", "as.frame",
    "append", "remove", "paramserv", "transformencode", "transformapply", "transformdecode", "transformcolmap",
    "transformmeta",
}  # fmt: skip

MOST_KEPT = 200
"""Constants that are kept for a script; each costs a call some 10 microseconds."""


@dataclass(frozen=True)
class _Flow:
    """Which statements of a function are constant, and where what they read comes from.

    sources: for each statement, and for the end of the function behind them, the numbers of those that it reads of.
    """

    constant: frozenset[int]
    sources: Sequence[frozenset[int]]

    def needed(self, given: Iterable[int]) -> set[int]:
        """The statements that calls need, when the results of those in ``given`` are there."""
        open_ones = set(range(len(self.sources) - 1)) - self.constant
        return self._with_sources(open_ones | self.sources[-1], set(given))

    def first_needed(self, is_kept: Iterable[int]) -> list[int]:
        """Of the statements that may be kept, those of which all others can be computed."""
        kept = set(is_kept)
        return sorted(self.needed(kept) & kept)

    def behind(self, numbers: Iterable[int]) -> set[int]:
        """The statements with all that they need."""
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
class Constants:
    """The constants of a script's main function.

    candidates: the numbers of their statements, by the names under which they are kept. The first ones are the
    ``matrices`` of convolutions, which have to be kept, since calls would take longer than ever with them.
    weights: the places of those that they are computed of among all weights, by the names of the main function's
    parameters. has_products: whether any statement got another form (see `products`). bounds:
    the names of what maxima of products are taken with before biases are added (see `sample_columns`).
    """

    script: tree.Script
    main: tree.Function
    candidates: Mapping[str, int]
    matrices: int
    weights: Mapping[str, int]
    flow: _Flow
    has_products: bool
    bounds: Sequence[str]

    def once(self, shapes: Sequence[tuple[int, ...]]) -> str:
        """A script that computes all candidates and writes them as ``./<name>``, and reads the weights so.

        shapes: rows and columns of all weights.
        """
        body = self.main.body
        names = {number: name for name, number in self.candidates.items()}
        computed = sorted(self.flow.behind(names))
        called = set[str]().union(*(calls(body[number]) for number in computed))
        statements: list[tree.Statement] = [_reading(name, *shapes[place]) for name, place in self.weights.items()]
        statements += parse_script(NEVER).statements
        statements += [statement for statement in body if _guards(statement, called & self.script.functions.keys())]
        for count, number in enumerate(computed, 1):
            statements.append(body[number])
            if count % STATEMENTS_PER_BLOCK == 0 or calls(body[number]) & {"min", "max", "t"}:  # as in the script
                statements += parse_script(BLOCK_CUT).statements
            if number in names:
                kept = tree.Name(names[number])
                (target,) = assigned((body[number],))
                statements.append(tree.Assign(kept, tree.Name(target)))
                path = tree.CallArgument(None, tree.StringLiteral(f"./{kept.name}"))
                statements.append(tree.CallStatement(tree.Call("write", (tree.CallArgument(None, kept), path))))
        return print_script(_with_functions(self.script, tuple(statements)))

    def with_loops(self) -> frozenset[str]:
        """The functions whose bodies may stand in the place of their calls (see `loops`)."""
        return called_with_loops(self.main, self.script.functions)

    def text(
        self, kept: Sequence[str], *, placed: Collection[str] = (), is_serial: bool = False, is_flat: bool = False
    ) -> str:
        """The functions of the script, the main one with a matrix more for each of the constants that are kept.

        placed: functions whose bodies stand in the place of their calls. is_serial: whether loops start no threads
        (see `loops`). is_flat: whether extremes are taken on one row (see `extremes`).
        """
        names = {self.candidates[name]: name for name in kept}
        body = self.main.body
        statements: list[tree.Statement] = []
        for number in sorted(self.flow.needed(names)):
            statement = body[number]
            if number in names:
                (target,) = assigned((statement,))
                statement = tree.Assign(tree.Name(target), tree.Name(names[number]))
            statements.append(statement)
        matrix = tree.DataType("matrix", "double")
        parameters = (*self.main.parameters, *(tree.Parameter(name, matrix) for name in kept))
        main = replace(self.main, parameters=parameters, body=tuple(statements))
        functions = self.script.functions
        if is_flat:
            main = replace(main, body=with_flat_extremes(main, functions))
        if placed:
            main = with_bodies(main, [functions[name] for name in placed])
        script = _with_functions(self.script, (main,))
        return print_script(without_threads(script) if is_serial else script)


def find_constants(
    text: str,
    function: str,
    shapes: Sequence[tuple[int, ...] | int | None],
    weights: int,
    *,
    joins_biases: bool = True,
) -> Constants:
    """The constants of a script's main function, and the function with the forms that are faster for known sizes.

    text: its functions. shapes: for each parameter of ``function`` in front of the weights its rows and columns, the
    number that it is, or None. weights: how many parameters hold what never changes. joins_biases: whether any are
    joined to weights, which is precise where all ``bounds`` of the result are small.
    """
    script = parse_script(text)
    main = script.functions[function]
    main = replace(main, body=_with_sizes(main, shapes))
    fixed = [parameter.name for parameter in main.parameters[len(main.parameters) - weights :]]
    script = _with_library(script, [MATRIX, SHIFTS_OF_SAMPLES, *ROW_AGGREGATES.values(), *FLAT.values()])
    impure = _impure_functions(script)
    results = [result.name for result in main.results]
    body, products = with_sparse_products(main.body, _flow(main.body, fixed, results, impure).constant)
    columns = with_sample_columns(body, products, known_sizes(body), results, joins_biases)
    body = with_plain_sums(columns.body)
    flow = _flow(body, fixed, results, impure | {FILTERS})  # by a call that is left, no native BLAS is used
    sizes = known_sizes(body)
    numbers = flow.first_needed(number for number in flow.constant if _is_worth_keeping(body[number], sizes))
    numbers = sorted(numbers, key=lambda number: not _makes_sparse(body[number]))[:MOST_KEPT]
    prefix = "kept"
    while prefix in text:
        prefix += "_"
    candidates = {f"{prefix}{place}": number for place, number in enumerate(numbers)}
    read = {name for number in flow.behind(numbers) for name in reads(body[number])}
    places = {name: place for place, name in enumerate(fixed) if name in read}
    matrices = sum(_makes_sparse(body[number]) for number in numbers)
    names = {assigned((body[number],))[0]: name for name, number in candidates.items()}
    bounds = [names.get(variable, variable) for variable in columns.bounds]
    return Constants(script, replace(main, body=body), candidates, matrices, places, flow, body != main.body, bounds)


def _with_library(script: tree.Script, names: Sequence[str]) -> tree.Script:
    """The script with these library functions, too."""
    missing = [name for name in names if name not in script.functions]
    items = [item for name in missing for item in parse_script(templates.library_text(name)).items]
    return replace(script, items=(*items, *script.items))


def _reading(name: str, rows: int, cols: int) -> tree.Assign:
    """The statement that reads a matrix of known sizes."""
    sizes = {"rows": rows, "cols": cols}
    given = [tree.CallArgument(None, tree.StringLiteral(f"./{name}"))]
    given += [tree.CallArgument(key, tree.IntLiteral(size)) for key, size in sizes.items()]
    return tree.Assign(tree.Name(name), tree.Call("read", tuple(given)))


def _guards(statement: tree.Statement, functions: set[str]) -> bool:
    """Whether a statement never runs, and keeps the calls of one of these functions apart (see `call_guards`)."""
    is_never = isinstance(statement, tree.If) and statement.condition == tree.Name("never")
    return is_never and bool(calls(statement) & functions)


def _with_sizes(main: tree.Function, shapes: Sequence[tuple[int, ...] | int | None]) -> tree.Block:
    """The statements of a function with the sizes of its parameters as numbers."""
    changed = assigned(main.body)
    known = {
        parameter.name: shape for parameter, shape in zip(main.parameters, shapes) if parameter.name not in changed
    }

    def change(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Name) and isinstance(number := known.get(node.name), int):
            return tree.IntLiteral(number) if number >= 0 else node
        if isinstance(node, tree.Call) and node.function in ("nrow", "ncol") and len(node.arguments) == 1:
            operand = node.arguments[0].value
            shape = known.get(operand.name) if isinstance(operand, tree.Name) else None
            if isinstance(shape, tuple) and shape:
                return tree.IntLiteral(shape[node.function == "ncol"])
        return node

    body: tree.Block = rewritten(main.body, change)
    return body


def _flow(body: tree.Block, fixed: Sequence[str], results: Sequence[str], impure: frozenset[str]) -> _Flow:
    """Which statements are constant. fixed: parameters that are; impure: functions that may not be called."""
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
    return _Flow(frozenset(constant), sources)


def _impure_functions(script: tree.Script) -> frozenset[str]:
    """The functions, builtins among them, that may not give the same matrix or number for the same arguments."""
    functions = script.functions
    called = {name: calls(function) for name, function in functions.items()}
    impure = {name for name, function in functions.items() if not _gives_one_matrix(function)}
    impure |= _NEVER_CONSTANT - functions.keys()
    while more := {name for name, others in called.items() if name not in impure and others & impure}:
        impure |= more
    return frozenset(impure)


def _gives_one_matrix(function: tree.Function) -> bool:
    return len(function.results) == 1 and function.results[0].type.kind in ("matrix", "scalar")


def _makes_sparse(statement: tree.Statement) -> bool:
    """Whether it makes a sparse matrix for a convolution."""
    return not calls(statement).isdisjoint((MATRIX, SHIFTS, SHIFTS_OF_SAMPLES))


def _is_worth_keeping(statement: tree.Statement, numbers: Mapping[str, int]) -> bool:
    """Whether it takes the engine longer than a further input does.

    Neither is that a number, nor another name, a matrix cut to what are its own sizes, or one of a literal.
    """
    assert isinstance(statement, tree.Assign)
    value = statement.value
    is_cut = isinstance(value, tree.Indexed) and value.name == statement.target.name
    is_filled = isinstance(value, tree.Call) and value.function == "matrix" and not _reads_matrices(value, numbers)
    return not (is_cut or is_filled or isinstance(value, tree.Name)) and _reads_matrices(statement, numbers)


def _reads_matrices(node: tree.Node, numbers: Mapping[str, int]) -> bool:
    """Whether there is a call, an index or a variable that may be a matrix below a part of a script."""
    below = [found for part in tree.children(node) if not (isinstance(node, tree.Assign) and part is node.target)
             for found in tree.walk(part)]  # fmt: skip
    return any(
        isinstance(found, (tree.Call, tree.Indexed)) or (isinstance(found, tree.Name) and found.name not in numbers)
        for found in below
    )


def _with_functions(script: tree.Script, items: tuple[tree.Item, ...]) -> tree.Script:
    """A script with the functions that ``items`` call in front of them."""
    return tree.Script((*called_functions(script, items), *items))
