"""The boundary of a DML function: typed parameters and results, and their conversion inside."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.dml import syntax as tree
from onnx_systemds.importing.passes.block_cuts import STRING_CUT
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.values import DML_INTEGERS, Value, is_parameter
from onnx_systemds.operators.api.layout import LIST, SCALAR, Form
from onnx_systemds.operators.api.reserved_names import NEW_TEXTS
from onnx_systemds.operators.rendering.scope import Scope

MATRIX = tree.DataType("matrix", "double")
UNKNOWN_LIST = tree.DataType("list", "unknown")
TEXT_FRAME = tree.DataType("frame", "string")
INTEGER = tree.DataType("scalar", "int")


def input_parameters(scope: Scope) -> list[tuple[str, str]]:
    """The graph's own inputs as (value name, identifier); their boundary form exists from the start."""
    parameters: list[tuple[str, str]] = []
    for name in scope.graph.inputs:
        if not is_parameter(scope.value(name)):
            continue
        identifier = scope.names.of(name)
        form = scope.boundary(name)
        if scope.value(name).is_text and scope.is_main:
            scope.forms.give(name, form, scope.names.fresh(f"{name}_codes"))
        elif form is SCALAR:
            # a boolean cannot be calculated with, and a parameter may be any kind of number
            scope.forms.give(name, form, scope.names.fresh(f"{name}_number"))
        else:
            scope.forms.give(name, form, identifier)
        parameters.append((name, identifier))
    return parameters


def input_statements(scope: Scope, parameters: Sequence[tuple[str, str]]) -> list[str]:
    """The statements that convert inputs to the requested forms: reshapes, scalars, codes of text."""
    statements: list[str] = []
    for name, identifier in parameters:
        form = scope.boundary(name)
        is_text = scope.value(name).is_text and scope.is_main
        is_captured = name not in scope.graph.inputs  # then something asks for it
        if (is_text or form is SCALAR) and not is_captured and name not in scope.forms.used_inputs:
            continue
        if is_text:
            statements += _text_input(scope, name, identifier, form)
            continue
        statements += scope.forms.define(name, f"as.double({identifier})" if form is SCALAR else identifier, form)
    return statements


def _text_input(scope: Scope, name: str, identifier: str, form: Form) -> list[str]:
    """The statements that encode an input: a frame, a string or a list of frames."""
    codes = scope.forms.of(name)[form]
    function = "text_codes"
    if form == LIST:
        function = "nested_codes" if is_nested(scope.value(name)) else "list_codes"
    scope.parts.imports[function] = None
    if form is not SCALAR:
        return [f"[{codes}, {NEW_TEXTS}] = {function}({identifier}, {scope.texts()})",
                *scope.forms.define(name, codes, form)]
    matrix, frame = scope.names.fresh(f"{name}_code"), scope.names.fresh(f"{name}_frame")
    return [STRING_CUT, f"{frame} = as.frame({identifier})", STRING_CUT,  # engine/faults: delimiters-in-string
            f"[{matrix}, {NEW_TEXTS}] = text_codes({frame}, {scope.texts()})",
            *scope.forms.define(name, f"as.scalar({matrix})", form)]


def is_nested(value: Value) -> bool:
    """Whether a value is a list of lists."""
    return value.element is not None and value.element.is_list


def captured_parameter(scope: Scope, name: str) -> str:
    """The parameter of a captured value; for a matrix the identifier that the function already uses."""
    form = scope.boundary(name)
    forms = scope.forms.of(name)
    return forms[form] if form is not SCALAR and form in forms else scope.names.fresh(name)


def sized(scope: Scope, parameters: Sequence[tuple[str, str]]) -> list[tuple[str, Dims]]:
    """The identifiers and dims of the parameters that are tensors."""
    return [(identifier, scope.dims(value)) for value, identifier in parameters if not scope.value(value).is_list]


def demand_element_sources(scope: Scope, parameters: Sequence[tuple[str, str]]) -> None:
    """Request from the enclosing graph the captured values whose elements are used as sizes."""
    run_sizes = scope.graph.run_sizes
    if run_sizes.elements:
        input_statements(scope, parameters)  # reshapes of inputs ask for sizes, too
    for symbol, (name, _) in run_sizes.elements.items():
        if symbol in scope.sizes.used and name not in scope.own:
            scope.demand(name, scope.boundary(name))


def element_statements(scope: Scope, parameters: Sequence[tuple[str, str]]) -> list[str]:
    """The statements that define sizes which are elements of parameters."""
    identifiers = dict(parameters)
    return [
        f"{scope.sizes.name(symbol)} = {element_text(identifiers[name], scope.dims(name), element)}"
        for symbol, (name, element) in scope.graph.run_sizes.elements.items()
        if symbol in scope.sizes.used and name in identifiers
    ]


def element_text(identifier: str, dims: Dims, element: int) -> str:
    """DML of an element of an integer tensor in boundary form, as an integer."""
    if not dims:
        return f"as.integer({identifier})"
    cols = dim.product(dims[1:])
    assert isinstance(cols, int)
    if dim.product(dims) == 1:
        # on the plain command line the engine finds no place in what it has yet to read from a file of unknown size
        return f"as.integer(as.scalar({identifier}))"
    return f"as.integer(as.scalar({identifier}[{element // cols + 1}, {element % cols + 1}]))"


def declaration(value: Value, identifier: str, *, is_inner: bool = False) -> tree.Parameter:
    """A typed parameter; scalars between our own functions are doubles."""
    if value.is_list:
        return tree.Parameter(identifier, UNKNOWN_LIST)
    if value.dtype == "string" and not is_inner:
        return tree.Parameter(identifier, TEXT_FRAME if value.dims else tree.DataType("scalar", "string"))
    if value.dims != ():
        return tree.Parameter(identifier, MATRIX)
    return tree.Parameter(identifier, tree.DataType("scalar", "double" if is_inner else _scalar_type(value)))


def _scalar_type(value: Value) -> str:
    if value.dtype == "bool":
        return "boolean"
    return "int" if value.dtype in DML_INTEGERS else "double"


def scalar_argument(dtype: str, number: str) -> str:
    """DML of a number as an argument for a scalar parameter of an ONNX element type."""
    if dtype == "bool":
        return f"({number} != 0)"
    return f"as.integer({number})" if dtype in DML_INTEGERS else number


def as_declared(value: Value, text: str, *, is_inner: bool) -> str:
    """DML that converts a scalar to its declared type; a matrix stays as it is."""
    if value.dims != ():
        return text
    if value.dtype == "bool" and not is_inner:
        return f"({text} != 0)"
    return f"as.integer({text})" if value.dtype in DML_INTEGERS and not is_inner else f"as.double({text})"
