"""Checks that inputs have the rows and columns that the model says, where nothing else in the script refuses others.

A table with a column more would be taken for one without it: trees, slices and sums see no difference, nor do products
and convolutions where it is all zeros. A result that has the columns of an input shows it. Of a batch of fixed size a
row more is forgotten as easily. What is computed for each row is right for any number of them, which shows as well: in
all results that come from the input. But of no rows: the engine takes the sum of these and a row vector to be the row
(row-beside-nothing), and fails where they are indexed or convolved, or where it counts from 1 to none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call
from onnx_systemds.dml.scopes import (
    assigned,
    assigns_variable,
    is_call,
    is_operation,
    matrix_parameters,
    mentioned,
    read_in,
    reads_more_than,
    reads_of,
)
from onnx_systemds.importing.body import parsed
from onnx_systemds.importing.passes.result_sizes import Shape, shape_lookup
from onnx_systemds.importing.script import Script, with_main
from onnx_systemds.inference.dims import Dim, product
from onnx_systemds.operators.api.layout import View, split_view
from onnx_systemds.operators.rendering.function_sizes import size_check, under_one_condition

_ONE = tree.IntLiteral(1)
_IMAGES = ("avg_pool", "conv2d", "max_pool")

ShapeOf = Callable[[tree.Expression], Shape | None]


def with_checked_sizes(script: Script) -> Script:
    """The script whose main function stops where an input has other sizes; specialised is the script as it was."""
    views = {parameter.name: split_view(port.dims, 1) for port, parameter in zip(script.inputs, script.main.parameters)
             if parameter.type.kind in ("matrix", "frame") and port.dims and 0 not in port.dims}  # nothing has no rows
    shape_of = shape_lookup(script.main, script.callable_functions)
    checks = [*_of_known_sizes(script.main, views, shape_of), *_of_multiples(script, views, shape_of),
              *_of_some_rows(script, views, shape_of)]
    if not checks:
        return script
    body, first = script.main.body, min(check.place for check in checks)
    written = under_one_condition([check.statement for check in checks], [check.condition for check in checks])
    return with_main(script, replace(script.main, body=(*body[:first], *parsed(written), *body[first:])))


class _Check(NamedTuple):
    """A statement that stops the run under a condition. place: of the first statement that reads the matrix."""

    place: int
    statement: str
    condition: str


def _of_known_sizes(main: tree.Function, views: Mapping[str, View], shape_of: ShapeOf) -> Iterator[_Check]:
    """Checks of the inputs whose rows or columns are known, and nothing else shows others."""
    unknown: list[dict[str, int]] = []  # the rows, then the columns, of the inputs that show no others
    places: dict[str, int] = {}
    for function, axis in (("nrow", 0), ("ncol", 1)):
        known = _known(views, axis)
        readers = _readers(main.body, known)
        certain: set[tree.Expression] = set()
        if readers:
            shown = _shown_columns(main, shape_of) if axis else _shown_rows(main, shape_of, readers)
            certain = shown | _reshaped(main.body, axis, shape_of)
        unknown.append({name: known[name] for name in readers if call(function, tree.Name(name)) not in certain})
        places |= readers
    for name in {**unknown[0], **unknown[1]}:
        yield _Check(places[name], *_known_check(name, *(sizes.get(name) for sizes in unknown)))


def _of_multiples(script: Script, views: Mapping[str, View], shape_of: ShapeOf) -> Iterator[_Check]:
    """Checks of the inputs whose columns are a multiple of a number."""
    main, parts = script.main, _parts(script, views)
    readers = _readers(main.body, parts)
    if not readers:
        return
    certain = _compared(main.body) | _shown_columns(main, shape_of) | _reshaped(main.body, 1, shape_of)
    for name, place in readers.items():
        if call("ncol", tree.Name(name)) not in certain:
            yield _Check(place, *_multiple_check(name, parts[name]))


def _of_some_rows(script: Script, views: Mapping[str, View], shape_of: ShapeOf) -> Iterator[_Check]:
    """Checks of the inputs that must have rows."""
    main, open_rows = script.main, [name for name, view in views.items() if not isinstance(view.rows, int)]
    if not open_rows:
        return
    own = {function.name: function for function in script.functions}
    counting = _beside_rows(main, own, shape_of) | _taken_apart(main, shape_of)
    for name, place in _readers(main.body, [name for name in open_rows if name in counting]).items():
        yield _Check(place, f'if (nrow({name}) == 0) {{ stop("{name} has no rows") }}', f"nrow({name}) == 0")


def _known(views: Mapping[str, View], axis: int) -> dict[str, int]:
    """The inputs whose rows or columns are known, and how many there are."""
    sizes: dict[str, Dim] = {name: (view.rows, view.cols)[axis] for name, view in views.items()}
    return {name: size for name, size in sizes.items() if isinstance(size, int)}


def _parts(script: Script, views: Mapping[str, View]) -> dict[str, int]:
    """The inputs with an open number of columns, and what that is a multiple of."""
    ports = {parameter.name: port for port, parameter in zip(script.inputs, script.main.parameters)}
    known = {name: product(size for size in ports[name].dims[1:] if isinstance(size, int)) for name in views}
    return {name: size for name, size in known.items()
            if isinstance(size, int) and size > 1 and not isinstance(views[name].cols, int)}


def _known_check(name: str, rows: int | None, columns: int | None) -> tuple[str, str]:
    """The statement that stops the run where a matrix has other rows or columns than those known, and its condition."""
    sizes = {"nrow": rows, "ncol": columns}
    broken = {function: f"{function}({name}) != {size}" for function, size in sizes.items() if size is not None}
    if len(broken) == 1:
        ((function, condition),) = broken.items()
        return size_check(function, name, str(sizes[function])), condition
    condition = " | ".join(broken.values())
    message = f'"{name} is " + nrow({name}) + " x " + ncol({name}) + ", not {rows} x {columns}"'
    return f"if ({condition}) {{ stop({message}) }}", condition


def _multiple_check(name: str, size: int) -> tuple[str, str]:
    """The statement that stops the run where a matrix has no multiple of so many columns, and its condition."""
    condition = f"ncol({name}) %% {size} != 0"
    return f'if ({condition}) {{ stop("{name} has " + ncol({name}) + " columns, no multiple of {size}") }}', condition


def _compared(body: tree.Block) -> set[tree.Expression]:
    """What is compared with the number that it has to be."""
    return {node.left for statement in body for node in tree.walk(statement) if is_operation(node, "!=")}


def _beside_rows(function: tree.Function, functions: Mapping[str, tree.Function], shape_of: ShapeOf) -> set[str]:
    """The parameters whose rows decide how many rows a matrix has that a row vector is added to or subtracted from.

    functions: those of the script, called by name. Where the rows of a matrix are not followed the only matrix decides.
    """
    matrices = matrix_parameters(function)
    found: set[str] = set()
    for node in (node for statement in function.body for node in tree.walk(statement)):
        beside: list[tree.Expression] = []
        if is_operation(node, "+", "-") and _is_row(shape_of(node.right)):
            beside.append(node.left)
        elif isinstance(node, tree.Call) and node.function in functions:
            called = functions[node.function]
            given = {parameter.name: it.value for parameter, it in zip(called.parameters, node.arguments)}
            rows = [name for name, value in given.items() if _is_row(shape_of(value))]
            names = _beside_rows(called, functions, shape_lookup(called, functions, rows))
            beside += [value for name, value in given.items() if name in names]
        found |= _row_givers(function, beside, shape_of)
        if found.issuperset(matrices):
            break
    return found


def _taken_apart(function: tree.Function, shape_of: ShapeOf) -> set[str]:
    """The parameters whose rows decide how many rows a matrix has that is indexed or convolved, or end a sequence.

    The engine fails there where these are 0, in statements that always run.
    """
    found: set[str] = set()
    counted = _values(function)
    for statement in filter(assigns_variable, function.body):
        for node in mentioned(statement.value).operations:
            if isinstance(node, tree.Indexed):
                if not _has_rows(counted.get(node.name), shape_of):
                    found |= _row_givers(function, [tree.Name(node.name)], shape_of)
            elif is_call(node, *_IMAGES):
                found |= _row_givers(function, [node.arguments[0].value], shape_of)
            elif is_call(node, "seq"):
                found |= _mentioned(node.arguments[1].value, counted)
    return found.intersection(matrix_parameters(function))


def _has_rows(value: tree.Expression | None, shape_of: ShapeOf) -> bool:
    """Whether a value has at least the rows of a part of it."""
    if not is_call(value, "rbind"):
        return False
    shapes = [shape_of(argument.value) for argument in value.arguments]
    return any(shape is not None and isinstance(shape[0], tree.IntLiteral) and shape[0].value > 0 for shape in shapes)


def _values(function: tree.Function) -> dict[str, tree.Expression]:
    return {statement.target.name: statement.value for statement in function.body if assigns_variable(statement)}


def _row_givers(function: tree.Function, operands: Iterable[tree.Expression], shape_of: ShapeOf) -> set[str]:
    """The parameters that decide how many rows the operands have; the only one where these are not followed."""
    matrices, found = matrix_parameters(function), set[str]()
    for shape in map(shape_of, operands):
        if shape is None:
            found.update(matrices if len(matrices) == 1 else ())
        elif not _is_row(shape):
            found |= _mentioned(shape[0], _values(function))
    return found.intersection(matrices)


def _is_row(shape: Shape | None) -> bool:
    return shape is not None and shape[0] == _ONE and shape[1] != _ONE


def _mentioned(size: tree.Expression, counted: Mapping[str, tree.Expression]) -> set[str]:
    """The matrices whose rows a size is calculated of."""
    names = read_in(size)
    return {*names}.union(*(_mentioned(counted[name], {}) for name in names & counted.keys()))


def _readers(body: tree.Block, names: Collection[str]) -> dict[str, int]:
    """The first statement that reads cells of each input; where none does its shape alone may count, as of zeros."""
    found: dict[str, int] = {}
    wanted = set(names)
    for place, statement in enumerate(body):
        if not wanted:
            break
        for name in wanted & read_in(statement):
            if _reads_cells(statement, name):
                found[name] = place
        wanted -= found.keys()
    return {name: found.get(name, 0) for name in names}


def _reads_cells(statement: tree.Statement, name: str) -> bool:
    """Whether more is read of a matrix than how many rows it has."""
    return reads_more_than(statement, name, lambda call: call.function == "nrow")


def _shown_columns(main: tree.Function, shape_of: ShapeOf) -> set[tree.Expression]:
    """The columns that one of the results has."""
    return {shape[1] for result in main.results if (shape := shape_of(tree.Name(result.name)))}


def _shown_rows(main: tree.Function, shape_of: ShapeOf, names: Iterable[str]) -> set[tree.Expression]:
    """The rows of inputs that all results have which are made of the input."""
    shapes = {result.name: shape_of(tree.Name(result.name)) for result in main.results}
    found: set[tree.Expression] = set()
    for name in names:
        rows = call("nrow", tree.Name(name))
        made = _made_of(name, main.body) & shapes.keys()
        if made and all((shape := shapes[result]) is not None and shape[0] == rows for result in made):
            found.add(rows)
    return found


def _made_of(name: str, body: tree.Block) -> set[str]:
    """The variables that come from a variable."""
    found = {name}
    for statement in body:
        if not found.isdisjoint(reads_of(statement)):
            found.update(assigned((statement,)))
    return found


def _reshaped(body: tree.Block, axis: int, shape_of: ShapeOf) -> set[tree.Expression]:
    """The rows or columns of what gets another shape of as many cells, which the engine refuses of others.

    A product or a convolution it refuses, too, but not where the operand is all zeros, and its result is.
    """
    calls = (node for statement in body if assigns_variable(statement) for node in mentioned(statement.value).operations
             if is_call(node, "matrix") and len(node.arguments) == 3)
    shapes = (shape_of(node.arguments[0].value) for node in calls)
    return {shape[axis] for shape in shapes if shape}
