"""Writes the main program around a generated script for the embedded engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.printer import print_block, print_statement
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import read_in
from onnx_systemds.importing.interface import Port, assigned_call
from onnx_systemds.importing.parameters import MATRIX, scalar_argument
from onnx_systemds.importing.passes.block_cuts import NEVER, STRING_CUT
from onnx_systemds.importing.passes.specialisation.products import FILTERS
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.operators.api.reserved_names import WEIGHTS
from onnx_systemds.operators.rendering.weight_loads import is_entry
from onnx_systemds.runtime import list_transfer

Sizes = Mapping[str, int]
Shapes = Mapping[str, tuple[int, ...]]
"""Rows and columns."""


@dataclass(frozen=True)
class Program:
    """The text of a main program with the functions that it needs.

    native_blas: whether the native BLAS of a session may be used. Not with sparse filters: the engine would make them
    dense, which is slower, and NaN in one channel would reach all others. functions, statements: the trees of the parts
    that compute nodes of the model.
    """

    text: str
    native_blas: bool = True
    functions: tuple[tree.Function, ...] = field(default=(), compare=False, repr=False)
    statements: tree.Block = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Functions:
    """The functions of a script. weights_apart: the main function takes each weight as an argument, not the list."""

    functions: tuple[tree.Function, ...]
    weights_apart: bool


def input_variables(script: Script) -> list[str]:
    """The variables of a main program that hold inputs of the script and its weights."""
    inputs = [name for place, port in enumerate(script.inputs) for name in _variables(port, f"in{place}")]
    return inputs + weight_variables(script)


def weight_variables(script: Script) -> list[str]:
    """The variables of a main program that hold the weights, in their order."""
    return [f"weight{place}" for place, _ in enumerate(script.weights)]


def output_variables(script: Script) -> list[str]:
    """The variables of a main program that hold the outputs of the script, and then its `Script.returned`."""
    outputs = [name for place, port in enumerate(script.outputs) for name in _variables(port, f"out{place}")]
    return outputs + [f"out{place}" for place, _ in enumerate(script.returned, len(script.outputs))]


def _variables(port: Port, name: str) -> list[str]:
    return list_transfer.variables(port, name) if port.is_list else [name]


def result_shapes(script: Script, sizes: Sizes) -> dict[str, tuple[int, int]]:
    """Rows and columns of the outputs, where the sizes of inputs tell them."""
    shapes: dict[str, tuple[int, int]] = {}
    for position, port in enumerate(script.outputs):
        if port.kind != "tensor" or port.dtype == "string":
            continue
        rows, cols = (dim.substitute(dim.product(dims), sizes) for dims in (port.dims[:1], port.dims[1:]))
        if isinstance(rows, int) and isinstance(cols, int):
            shapes[f"out{position}"] = (rows, cols)
    return shapes


def functions_of(script: Script) -> Functions:
    """The functions of a script; the main function takes weights and constants as single arguments if possible.

    A matrix from a list has no known size, so the engine would recompile the function at each call. Functions that pass
    the list on to others, or take strings from it, keep it.
    """
    functions, names = tuple(script.callable_functions.values()), listed(script)
    takers = [function for function in functions if any(given.name == WEIGHTS for given in function.parameters)]
    main = script.main
    apart = {name: f"pinned_{name}_" for name in names}
    body = with_entries(main.body, apart)
    if not names or body is main.body or takers != [main] or mentions(body, WEIGHTS):
        return Functions(functions, weights_apart=False)
    others = [parameter for parameter in main.parameters if parameter.name != WEIGHTS]
    parameters = (*others, *(tree.Parameter(name, MATRIX) for name in apart.values()))
    changed = replace(main, parameters=parameters, body=body)
    return Functions(tuple(changed if function is main else function for function in functions), weights_apart=True)


def with_entries(block: tree.Block, variables: Mapping[str, str]) -> tree.Block:
    """The statements with variables in the place of matrices that are taken from the list of weights."""

    def change(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Call) and is_entry(node):
            entry = node.arguments[0].value
            assert isinstance(entry, tree.Indexed)
            key = entry.rows.lower
            return tree.Name(variables[key.value]) if isinstance(key, tree.StringLiteral) else node
        return node

    return rewritten(block, change)


def mentions(block: tree.Block, name: str) -> bool:
    """Whether statements mention a variable."""
    return any(name in read_in(statement) for statement in block)


def listed(script: Script) -> list[str]:
    """The names in the list of weights and constants."""
    constants = script.constants.names if script.constants is not None else ()
    return [*(weight.name for weight in script.weights), *constants]


def constants_program(script: Script) -> tuple[Program, dict[str, int], list[str]]:
    """A program that computes the constants of a script; positions of weights by inputs, and its outputs."""
    assert script.constants is not None
    statements = script.constants.statements
    prefix = "hoisted"
    used = frozenset[str]().union(*map(read_in, statements))
    while any(name.startswith(prefix) for name in used):  # its variables are those of the main function
        prefix += "_"
    variables = {weight.name: f"{prefix}_weight{place}" for place, weight in enumerate(script.weights)}
    statements = with_entries(statements, variables)
    is_whole = mentions(statements, WEIGHTS)
    inputs = {name: place for place, name in enumerate(variables.values()) if is_whole or mentions(statements, name)}
    functions = (*script.library, *script.constants.library, *script.functions)
    lines = [*map(print_statement, script.sources), *map(print_statement, functions)]
    lines += [_weight_reading(script, place, name) for name, place in inputs.items()]
    lines += [_weight_list(script, prefix=f"{prefix}_weight")] if is_whole else []
    lines.append(print_block(statements))
    outputs = [f"{prefix}{place}" for place, _ in enumerate(script.constants.names)]
    for variable, name in zip(outputs, script.constants.names):
        lines += [f"{variable} = {name}", f'write({variable}, "./{variable}")']
    program = Program("\n".join(lines) + "\n", functions=functions, statements=statements)
    return program, inputs, outputs


def _weight_reading(script: Script, place: int, name: str) -> str:
    array = script.weights[place].array
    rows, cols = array.shape
    kind = 'data_type="frame"' if array.dtype == object else f"rows={rows}, cols={cols}"
    return f'{name} = read("./{name}", {kind})'


def _weight_list(script: Script, constants: Collection[str] = (), prefix: str = "weight") -> str:
    pairs = [f"{weight.name}={prefix}{place}" for place, weight in enumerate(script.weights)]
    pairs += [f"{name}=constant{place}" for place, name in enumerate(constants)]
    return f"{WEIGHTS} = list({', '.join(pairs)})"


def program_of(
    script: Script, shapes: Shapes | None = None, sizes: Sizes | None = None, constants: Shapes | None = None
) -> Program:
    """The script with a main program, in which every input, size, weight and output is a matrix.

    shapes: rows and columns of inputs, by their names in the main program; else those that the declared dims tell.
    sizes: of symbols, where they are known: then no input is read for them. constants: rows and columns of what was
    computed with the weights, by name; these are further inputs, ``constant0`` and so on.
    """
    functions = functions_of(script)
    lines = [*map(print_statement, script.sources), *map(print_statement, functions.functions)]
    lines += list_transfer.functions(script)
    arguments: list[str] = []
    for position, port in enumerate(script.inputs):
        reading, text = _reading(port, f"in{position}", shapes or {})
        lines += reading
        arguments.append(text)
    for position, symbol in enumerate(script.sizes):
        if sizes is not None:
            arguments.append(str(sizes[symbol]))
            continue
        name = f"size{position}"
        lines.append(f'{name} = read("./{name}", rows=1, cols=1)')
        arguments.append(f"as.integer(as.scalar({name}))")
    given = weight_variables(script)
    lines += [_weight_reading(script, place, name) for place, name in enumerate(given)]
    for place, (rows, cols) in enumerate((constants or {}).values()):
        lines.append(f'constant{place} = read("./constant{place}", rows={rows}, cols={cols})')
        given.append(f"constant{place}")
    if functions.weights_apart:
        arguments += given
    elif given:
        lines.append(_weight_list(script, constants or ()))
        arguments.append(WEIGHTS)
    ports = [*script.outputs, *(Port(symbol, "int64", ()) for symbol in script.returned)]
    results = [f"result{position}" for position in range(len(ports))]
    lines.append(assigned_call(script.function, arguments, results))
    lines += [NEVER] if any(port.dims == () and port.dtype == "string" for port in ports) else []
    for position, (port, result) in enumerate(zip(ports, results)):
        lines += _writing(port, result, f"out{position}")
    once = script.constants.library if script.constants is not None else ()  # filters that are computed once, too
    native_blas = all(function.name != FILTERS for function in (*functions.functions, *once))
    return Program("\n".join(lines) + "\n", native_blas, functions.functions)


def _reading(port: Port, name: str, shapes: Shapes) -> tuple[list[str], str]:
    """The statements that read an input, and the argument of the function."""
    if port.is_list:
        return list_transfer.reading(port, name)
    size = shapes.get(name) or _declared_size(port)
    kind = ', data_type="frame"' if port.dtype == "string" else f", rows={size[0]}, cols={size[1]}" if size else ""
    text = name if port.dims else scalar_argument(port.dtype, f"as.scalar({name})")
    return [f'{name} = read("./{name}"{kind})'], text


def _writing(port: Port, result: str, name: str) -> list[str]:
    """The statements that write a result."""
    if port.is_list:
        return list_transfer.writing(port, result, name)
    if port.dims == () and port.dtype == "string":
        return [STRING_CUT, f"{name} = as.frame({result})", STRING_CUT, f'write({name}, "./{name}")']
    if port.dims == ():
        result = f"as.matrix(as.double({result}))"
    return [f"{name} = {result}", f'write({name}, "./{name}")']


def _declared_size(port: Port) -> tuple[int, ...]:
    """Rows and columns where they are known: then the engine compiles with all sizes."""
    rows = port.dims[0] if port.dims else 1
    cols = dim.product(port.dims[1:])
    return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else ()
