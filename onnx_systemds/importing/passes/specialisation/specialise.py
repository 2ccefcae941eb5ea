"""Specialises scripts for known sizes: `specialise` runs the passes in the order of `PASSES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callees
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.rewrite import rewritten, without_threads
from onnx_systemds.dml.scopes import assigned, assigns_variable, is_call
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.parameters import UNKNOWN_LIST
from onnx_systemds.importing.passes.attention import attention_called
from onnx_systemds.importing.passes.block_cuts import LISTED_CUT, cut, cut_blocks, is_loaded_cut, is_never, with_never
from onnx_systemds.importing.passes.hidden_zeros import with_hidden_zeros
from onnx_systemds.importing.passes.matrix_sizes import Shape, Symbolic, integer_lookup
from onnx_systemds.importing.passes.specialisation import plain_sums
from onnx_systemds.importing.passes.specialisation.division_sinking import with_sunk_divisions
from onnx_systemds.importing.passes.specialisation.extremes import (
    FLAT,
    has_elements,
    is_large,
    is_long,
    takes_both,
    with_flat_extremes,
)
from onnx_systemds.importing.passes.specialisation.hoisting import Hoisted, hoisted
from onnx_systemds.importing.passes.specialisation.joined_parts import with_parts_apart
from onnx_systemds.importing.passes.specialisation.loading import LARGEST_EARLY, with_loads_first
from onnx_systemds.importing.passes.specialisation.loops import (
    called_with_loops,
    with_copies,
    with_inlined_calls,
    with_unrolled_loops,
)
from onnx_systemds.importing.passes.specialisation.merged_reshapes import with_merged_reshapes
from onnx_systemds.importing.passes.specialisation.products import FILTERS, MATRIX, with_sparse_products
from onnx_systemds.importing.passes.specialisation.sample_columns import with_sample_columns
from onnx_systemds.importing.passes.specialisation.size_copies import (
    compared_by_size,
    separately_compiled,
    with_copy_per_size,
)
from onnx_systemds.importing.passes.specialisation.static_checks import without_static_checks
from onnx_systemds.importing.passes.specialisation.strips import JOINED, STRIPS, with_strips
from onnx_systemds.importing.passes.specialisation.tap_sums import SHIFTS_OF_SAMPLES
from onnx_systemds.importing.passes.specialisation.work import Form, Work
from onnx_systemds.importing.script import Constants, Script, with_main
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.notes import Note
from onnx_systemds.operators.api.reserved_names import WEIGHTS

_LIBRARY = (MATRIX, SHIFTS_OF_SAMPLES, STRIPS, JOINED, *plain_sums.FUNCTIONS.values(), *FLAT.values())
PLAIN = Form()


def specialise(script: Script, sizes: Mapping[str, int], form: Form = PLAIN) -> Script:
    """The script for inputs of known sizes; unchanged, with the reason in its notes, if it cannot be specialised.

    sizes: of all symbols in the dims of its inputs. The result keeps the original script as `Script.general`, and a
    specialised script is specialised from there.
    """
    script = script.unspecialised
    inputs, outputs = (tuple(_sized(port, sizes) for port in ports) for ports in (script.inputs, script.outputs))
    reason = _refusal(script, inputs)
    if reason is not None:
        note = Note("specialise", "function", script.function, reason, fired=False)
        return replace(script, notes=(*script.notes, note))
    work = _work(script, inputs, sizes, form)
    for apply in PASSES:
        work = apply(work)
    notes = [Note(rule, "function", script.function, words, fired=False) for rule, words in work.reasons.items()]
    result = _with_work(script, work)
    return replace(result, inputs=inputs, outputs=outputs, general=script, notes=(*script.notes, *notes))


def with_hoisted_constants(script: Script) -> Script:
    """A script for open sizes whose init function computes what depends on its weights alone, if it has one."""
    work = Work(script.main, script.callees, PLAIN, {}, tuple(weight.name for weight in script.weights))
    work = _hoisted(work)
    return script if work.hoisted is None else replace(_with_work(script, work), general=script.unspecialised)


def for_callers_of_known_sizes(script: Script) -> Script:
    """A script for open sizes of which the engine compiles as much as it can once, for matrices that a caller knows.

    It takes its weights out of the list first, if they are not large (see `loading`), and has functions for each size
    that they are called with: recurrent layers, or those of them for each call whose sizes are not followed, and
    functions of the library. Of large ones see `with_split_loads`.
    """
    is_small = sum(8 * weight.array.size for weight in script.weights) <= LARGEST_EARLY
    body, others = with_loads_first(script.main.body) if is_small else script.main.body, script.callees
    shared = [function.name for function in script.library]
    main, sizes = replace(script.main, body=body), symbolic_sizes(script)
    alike = compared_by_size(main, others, sizes)
    main, functions = with_copies(main, others, alike.union(shared))
    apart = separately_compiled(functions, loops=True).intersection(shared).union(alike)
    main, functions = with_copy_per_size(main, functions, sizes, apart)
    if body is script.main.body and len(functions) == len(others):
        return script
    result = _with_functions(script, main, callees(functions, [main]))
    return replace(result, general=script.unspecialised)


def symbolic_sizes(script: Script) -> dict[str, Symbolic]:
    """The sizes of the parameters, with the symbols in the dims of the inputs."""
    given = [*map(_rows_and_columns, script.inputs), *map(dim.symbol, script.sizes)]
    return {parameter.name: size for parameter, size in zip(script.main.parameters, given) if size is not None}


def with_split_loads(script: Script) -> Script:
    """A script for open sizes that takes large weights out of their list in parts, each before what reads them.

    All at once they would not fit into the engine's buffer of what was written last.
    """
    if any(is_loaded_cut(statement) for statement in script.main.body):
        return script
    body = with_loads_first(script.main.body, LARGEST_EARLY)
    main = script.main if body is script.main.body else replace(script.main, body=body)
    return with_main(script, main)


def inlinable(script: Script) -> frozenset[str]:
    """The functions with loops that may be inlined into the main function."""
    return called_with_loops(script.main, script.callees)


def _refusal(script: Script, inputs: tuple[Port, ...]) -> str | None:
    if any(port.is_list for port in script.inputs + script.outputs):
        return "lists go in or out, whose functions are shared with the program around"
    if any(not isinstance(size, int) for port in inputs for size in port.dims):
        return "not all sizes of the inputs are known"
    return None


def _sized(port: Port, sizes: Mapping[str, int]) -> Port:
    return port if port.is_list else replace(port, dims=tuple(dim.substitute(size, sizes) for size in port.dims))


def _work(script: Script, inputs: tuple[Port, ...], sizes: Mapping[str, int], form: Form) -> Work:
    main, given = script.main, [*map(_shape, inputs), *(sizes[symbol] for symbol in script.sizes)]
    known = {parameter.name: size for parameter, size in zip(main.parameters, given) if size is not None}
    library = {function.name: function for function in library_functions(_LIBRARY)}
    names = tuple(weight.name for weight in script.weights)
    return Work(main, library | script.callees, form, known, names)


def _with_work(script: Script, work: Work) -> Script:
    """The script with the functions of a `Work` that are called."""
    main, constants = with_hidden_zeros(work.main, work.functions), None  # it may have got loops
    if work.hoisted is not None and not any(parameter.name == WEIGHTS for parameter in main.parameters):
        main = replace(main, parameters=(*main.parameters, tree.Parameter(WEIGHTS, UNKNOWN_LIST)))
    called = callees(work.functions, [main])
    if work.hoisted is not None:
        statements = with_never([*cut_blocks(work.hoisted.statements), *_before_lists(work.hoisted)])
        bounds = tuple(work.hoisted.variables.get(name, name) for name in work.bounds)
        further = callees(work.functions, statements)
        library = tuple(function for name, function in sorted(further.items()) if name not in called)
        constants = Constants(work.hoisted.names, statements, library, work.hoisted.matrices, bounds)
    return replace(_with_functions(script, main, called), constants=constants)


def _with_functions(script: Script, main: tree.Function, called: Mapping[str, tree.Function]) -> Script:
    """The script with another main function, and the functions that it calls."""
    own = [function.name for function in script.functions if function.name in called]
    library = tuple(called[name] for name in sorted(called.keys() - set(own)))
    return replace(script, library=library, functions=(*(called[name] for name in own), main))


def _before_lists(hoisted: Hoisted) -> list[tree.Statement]:
    """A cut between constants and the list that takes them, if two of them are equal.

    The engine computes equal expressions once, whatever the names of their operands.
    """
    values: dict[str, str] = {}  # names of values, by variables
    known: dict[tree.Node, str] = {}  # names of values, by what they are computed of

    def named(node: tree.Node) -> tree.Node:
        if isinstance(node, (tree.Name, tree.Indexed)):
            return replace(node, name=values.get(node.name, node.name))
        if isinstance(node, (tree.Binary, tree.Unary, tree.Call)):
            return tree.Name(known.setdefault(node, f"value {len(known)}"))
        return node

    for statement in hoisted.statements:
        if assigns_variable(statement):
            value = rewritten(statement.value, named)
            values[statement.target.name] = (
                value.name if isinstance(value, tree.Name) else known.setdefault(value, f"value {len(known)}"))
    listed = [values.get(name, name) for name in hoisted.names]
    return [cut(LISTED_CUT)] if len(set(listed)) < len(listed) else []


def _shape(port: Port) -> Shape | None:
    """Rows and columns of the matrix of an input, where they are known."""
    rows, cols = _rows_and_columns(port) or (None, None)
    return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else None


def _rows_and_columns(port: Port) -> tuple[Dim, Dim] | None:
    if port.kind != "tensor" or port.dtype == "string" or not port.dims:
        return None
    return port.dims[0], dim.product(port.dims[1:])


def _with_numbers(work: Work) -> Work:
    """The sizes of parameters as numbers."""
    changed = assigned(statement for statement in work.main.body if not is_never(statement))
    known = {name: size for name, size in work.sizes.items() if name not in changed}

    def change(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Name) and isinstance(number := known.get(node.name), int):
            return tree.IntLiteral(number) if number >= 0 else node
        if is_call(node, "nrow", "ncol") and len(node.arguments) == 1:
            operand = node.arguments[0].value
            shape = known.get(operand.name) if isinstance(operand, tree.Name) else None
            if isinstance(shape, tuple):
                return tree.IntLiteral(shape[node.function == "ncol"])
        return node

    return _with_body(work, rewritten(work.main.body, change))


def _without_static_checks(work: Work) -> Work:
    return _with_body(work, without_static_checks(work.main.body))


def _with_attention(work: Work) -> Work:
    """Attention of several samples as calls of functions with a loop over them."""
    main, functions = attention_called(work.main, work.functions, work.sizes, is_sized=True)
    return replace(work, main=main, functions={**work.functions, **functions})


def _with_products(work: Work) -> Work:
    """Depthwise convolutions as products, and images in columns if that helps them."""
    if not work.hoists:
        return work
    body, products = with_sparse_products(work.main.body, work.flow().constant)
    joins, integer_of = work.form.joins_biases, integer_lookup(body)
    columns = with_sample_columns(body, products, integer_of, work.results, joins_biases=joins)
    return replace(_with_body(work, with_merged_reshapes(columns.body)), bounds=tuple(columns.bounds))


def _with_strips(work: Work) -> Work:
    return _with_body(work, with_strips(work.main.body)) if work.form.cuts_images else work


def _with_products_of_rows(work: Work) -> Work:
    return _with_body(work, plain_sums.with_plain_sums(work.main.body, work.functions, work.sizes))


def _with_sunk_divisions(work: Work) -> Work:
    return replace(work, main=with_sunk_divisions(work.main, work.functions, work.sizes))


def _with_parts_apart(work: Work) -> Work:
    return replace(work, main=with_parts_apart(work.main, work.functions, work.sizes))


def _hoisted(work: Work) -> Work:
    """Constants hoisted into the init function."""
    form = work.form
    if not work.hoists:
        words = "its weights are written into the script, which has no function that runs once"
        return replace(work, reasons={**work.reasons, "hoist constants": words})

    def wanted(name: str, shape: Shape | None) -> bool:
        is_sized = form.is_prepared or (shape is not None and 0 not in shape)
        return is_sized and (form.hoisted is None or name in form.hoisted)

    flow = work.flow(*([FILTERS] if form.is_prepared else []))  # by a call that is left, no native BLAS is used
    found = hoisted(work.main.body, flow, work.weights, work.functions, wanted)
    return replace(_with_body(work, found.body), hoisted=found if found.names else None)


def _with_loads_first(work: Work) -> Work:
    """Without matrices of unknown sizes among the statements; the caller of prepared scripts gives them apart."""
    return work if work.form.is_prepared else _with_body(work, with_loads_first(work.main.body))


def _with_flat_extremes(work: Work) -> Work:
    if work.form.flattens == "none":
        return work
    is_wanted = is_long if takes_both(work.main.body) else is_large
    is_wanted = is_wanted if work.form.flattens == "large" else has_elements
    return _with_body(work, with_flat_extremes(work.main.body, work.functions, work.sizes, is_wanted))


def _with_inlined_loops(work: Work) -> Work:
    functions = [work.functions[name] for name in sorted(work.form.inlined) if name in work.functions]
    return replace(work, main=with_inlined_calls(work.main, functions)) if functions else work


def _with_copies(work: Work) -> Work:
    """A function for each call, where the script takes its weights out of a list; of others the bodies are placed,
    and only what these call has copies."""
    form = work.form
    apart = separately_compiled(work.functions, loops=False)
    main, functions = with_copy_per_size(work.main, work.functions, work.sizes, apart)
    work = replace(work, main=main, functions=functions)
    if form.is_prepared and not form.inlined:
        return work
    main = with_unrolled_loops(work.main) if form.is_serial and not form.is_prepared else work.main
    alike = compared_by_size(main, work.functions, work.sizes)
    main, functions = with_copies(main, work.functions, alike)
    main, functions = with_copy_per_size(main, functions, work.sizes, alike)
    return replace(work, main=main, functions=functions)


def _without_threads(work: Work) -> Work:
    if not work.form.is_serial:
        return work
    changed = without_threads(tree.Script((work.main, *work.functions.values()))).functions
    return replace(work, main=changed.pop(work.main.name), functions=changed)


def _with_body(work: Work, body: tree.Block) -> Work:
    return replace(work, main=replace(work.main, body=body))


PASSES: tuple[Callable[[Work], Work], ...] = (
    _with_numbers,
    _without_static_checks,
    _with_attention,
    _with_products,
    _with_strips,
    _with_sunk_divisions,
    _with_products_of_rows,
    _with_parts_apart,
    _hoisted,
    _with_loads_first,
    _with_flat_extremes,
    _with_inlined_loops,
    _with_copies,
    _without_threads,
)
"""In their order: products want sizes as numbers, and what they make of weights is hoisted; bodies that take the place
of calls have loops, too."""
