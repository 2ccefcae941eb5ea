"""Forward data-flow analysis: what a pass knows of variables, statement by statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import ClassVar, Generic, TypeVar

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import left_operands

Known = TypeVar("Known")


class ForwardAnalysis(ABC, Generic[Known]):
    """The facts about variables at a point of a function; None stands for no fact."""

    deepest: ClassVar[int] = 8
    """The maximum depth of nested calls that are analysed."""

    def __init__(self, functions: Mapping[str, tree.Function], known: dict[str, Known], depth: int = 0) -> None:
        """known: the facts at the start. functions: the callees, by name."""
        self.functions, self.known, self.depth = functions, known, depth
        self.called: dict[Hashable, Known | None] = {}  # what calls with known facts give

    @abstractmethod
    def run(self, block: tree.Block) -> None:
        """Update the facts by the statements of a block."""

    @abstractmethod
    def of_operand(self, node: tree.Expression) -> Known | None:
        """The fact about an expression that is no binary operation."""

    @abstractmethod
    def of_binary(self, node: tree.Binary, left: Known | None, right: Known | None) -> Known | None:
        """The fact about a binary operation, from those about its operands."""

    def of(self, node: tree.Expression) -> Known | None:
        """The fact about an expression."""
        first, chain = left_operands(node)
        value = self.of_operand(first)
        for binary in chain:
            value = self.of_binary(binary, value, self.of(binary.right))
        return value

    def of_function(self, node: tree.Call) -> Known | None:
        """The fact about the result of a call, by analysing the body of the function."""
        function = self.functions[node.function]
        if self.depth == self.deepest or len(function.results) != 1 or len(node.arguments) != len(function.parameters):
            return None
        if any(argument.name is not None for argument in node.arguments):
            return None
        given = {parameter.name: value for parameter, argument in zip(function.parameters, node.arguments)
                 if (value := self.of(argument.value)) is not None}
        key = (node.function, self.depth, *given.items())
        if key not in self.called:
            inner = type(self)(self.functions, given, self.depth + 1)
            inner.called = self.called
            inner.run(function.body)
            self.called[key] = inner.known.get(function.results[0].name)
        return self.called[key]

    def set(self, name: str, value: Known | None) -> None:
        """Set the fact about a variable from here on."""
        if value is None:
            self.known.pop(name, None)
        else:
            self.known[name] = value
