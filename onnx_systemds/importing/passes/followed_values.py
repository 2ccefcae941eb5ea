"""What passes know of the values of expressions while they follow the statements of a function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import left_operands

Known = TypeVar("Known")


class FollowedValues(ABC, Generic[Known]):
    """What is known of the variables of a function, while its statements are followed; None is nothing."""

    deepest: ClassVar[int] = 8
    """Calls within calls that are followed."""

    def __init__(self, functions: Mapping[str, tree.Function], known: dict[str, Known], depth: int = 0) -> None:
        """Start where variables are known; functions: those that are called, by name."""
        self.functions, self.known, self.depth = functions, known, depth

    @abstractmethod
    def run(self, block: tree.Block) -> None:
        """Follow statements."""

    @abstractmethod
    def of_operand(self, node: tree.Expression) -> Known | None:
        """What an expression gives that is no operation of two operands."""

    @abstractmethod
    def of_binary(self, node: tree.Binary, left: Known | None, right: Known | None) -> Known | None:
        """What an operation of two operands gives."""

    def of(self, node: tree.Expression) -> Known | None:
        """What an expression gives."""
        first, chain = left_operands(node)
        value = self.of_operand(first)
        for binary in chain:
            value = self.of_binary(binary, value, self.of(binary.right))
        return value

    def of_function(self, node: tree.Call) -> Known | None:
        """What a call of one of the functions gives, by following its body."""
        function = self.functions[node.function]
        if self.depth == self.deepest or len(function.results) != 1 or len(node.arguments) != len(function.parameters):
            return None
        if any(argument.name is not None for argument in node.arguments):
            return None
        given = {parameter.name: value for parameter, argument in zip(function.parameters, node.arguments)
                 if (value := self.of(argument.value)) is not None}
        inner = type(self)(self.functions, given, self.depth + 1)
        inner.run(function.body)
        return inner.known.get(function.results[0].name)

    def set(self, name: str, value: Known | None) -> None:
        """Note what is known of a variable from here on."""
        if value is None:
            self.known.pop(name, None)
        else:
            self.known[name] = value
