"""Runs a script over abstract values: `Evaluator` holds the state and evaluates expressions.

Statements are in `statements`, branches and loops in `control_flow`, calls in `calls`, ranges in `indexing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.excerpts import excerpt
from onnx_systemds.errors import InternalError, Reasons, ScriptError, ScriptPlace, TranspileError, UnsupportedCase
from onnx_systemds.exporting import limits
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.operators import binary, unary
from onnx_systemds.exporting.builtins.registry import BUILTINS
from onnx_systemds.exporting.evaluating import calls, indexing
from onnx_systemds.exporting.evaluating.modules import Module, Modules
from onnx_systemds.exporting.evaluating.poison_values import Poisoned, lost_error
from onnx_systemds.exporting.evaluating.values import ListValue, Lost, Matrix, Scalar, Value, known_scalar
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.interface import Interface

_CONSTANTS = {"Inf": math.inf, "NaN": math.nan, "pi": math.pi}


@dataclass(eq=False)
class Frame:
    """The variables of a script or of one call of a function."""

    module: Module
    variables: dict[str, Value] = field(default_factory=dict)
    caller: ScriptPlace | None = None
    depth: int = 0


class Evaluator:
    """The state of an export: the graph, the variables, and what was refused."""

    def __init__(
        self, graph: Operators, modules: Modules, module: Module, arguments: Mapping[str, Any], interface: Interface,
        keep: bool = False,
    ) -> None:  # fmt: skip
        """`arguments` are the values of ``$name``; `interface` gives what is read and takes what is written.

        keep: whether functions of the script become functions of the model.
        """
        self.graph = graph
        self.modules = modules
        self.arguments = dict(arguments)
        self.reasons = Reasons()
        self.context = Context(graph, interface, call=lambda name, *values: calls.call_by_name(self, name, values))
        self.frame = Frame(module)
        self.target = ""
        self.keep = keep
        self.steps, self.forgiven = 0, limits.MOST_STEPS
        self.keepable: dict[Any, bool] = {}
        self._evaluators: dict[type, Callable[[Any], Value]] = {
            tree.IntLiteral: lambda node: known_scalar(node.value),
            tree.DoubleLiteral: lambda node: known_scalar(node.value),
            tree.StringLiteral: lambda node: known_scalar(node.value),
            tree.BooleanLiteral: lambda node: known_scalar(node.value),
            tree.Constant: lambda node: known_scalar(_CONSTANTS[node.name]),
            tree.Name: self._variable,
            tree.Argument: self._argument,
            tree.Indexed: lambda node: indexing.read(self, node),
            tree.Call: lambda node: calls.call_for_one(self, node),
            tree.Unary: self._unary,
            tree.Binary: self._binary,
            tree.ListExpression: lambda node: ListValue(tuple(map(self.value, node.items))),
            tree.IfDefined: self._if_defined,
        }

    # Expressions

    def value(self, node: tree.Expression) -> Value:
        """Return the value of an expression."""
        return self._evaluators[type(node)](node)

    def variable(self, name: str, node: tree.Node) -> Value:
        """Return a variable that is read at `node`."""
        found = self.frame.variables.get(name)
        with self.at(node):
            if found is None:
                raise UnsupportedCase(f"the variable {name} is not defined here")
            if isinstance(found, Lost):
                raise lost_error(found, f"the variable {name}")
        return found

    def argument(self, node: tree.Expression) -> Value:
        """Return what is passed on to a function or into a list; a lost variable may be, as long as none reads it."""
        if isinstance(node, tree.Name):
            found = self.frame.variables.get(node.name)
            if isinstance(found, Lost):
                return found
        return self.value(node)

    def _variable(self, node: tree.Name) -> Value:
        return self.variable(node.name, node)

    def _argument(self, node: tree.Argument) -> Value:
        if node.name not in self.arguments:
            with self.at(node):
                raise UnsupportedCase(f"the argument ${node.name} is not given",
                                      hint=f"give it: --arg {node.name}=VALUE")  # fmt: skip
        return argument_value(self.arguments[node.name])

    def _if_defined(self, node: tree.IfDefined) -> Value:
        if node.argument.name in self.arguments:
            return self._argument(node.argument)
        return self.value(node.default)

    def _unary(self, node: tree.Unary) -> Value:
        operand = self.value(node.operand)
        with self.at(node):
            return unary(self.context, node.operator, operand)

    def _binary(self, node: tree.Binary) -> Value:
        if _is_never(node):
            return known_scalar(False)
        # not by recursion along the left side: sums of thousands of terms are deep there
        spine = [node]
        while isinstance(spine[-1].left, tree.Binary):
            spine.append(spine[-1].left)
        left = self.value(spine[-1].left)
        for part in reversed(spine):
            right = self.value(part.right)
            with self.at(part):
                left = self._operated(part.operator, left, right)
        return left

    def _operated(self, operator: str, left: Value, right: Value) -> Value:
        if operator == "%*%":
            product: Value = BUILTINS["%*%"](self.context, [left, right], {})
            return product
        return binary(self.context, operator, left, right)

    def known_text(self, value: Value) -> str | None:
        """Return the content of a string scalar, None where it is not known or no string."""
        known = value.known if isinstance(value, Scalar) else None
        return known if isinstance(known, str) else None

    # Places

    def at(self, node: tree.Node) -> _At:
        """Give errors that rise inside the place of `node`, with its line."""
        return _At(self, node)

    def step(self, node: tree.Node, count: int = 1) -> None:
        """Count one more step of the evaluation. Raises BudgetExceeded at the place of `node`."""
        self.steps += count
        if self.steps > limits.MOST_STEPS:
            reason = f"the script takes more than {limits.MOST_STEPS} steps to evaluate, one per statement or call"
            hint = "fewer turns of a loop that is unrolled, or calls that do not call themselves twice"
            raise self.exceeded(node, reason, hint)

    def forget_steps(self, before: int) -> None:
        """Take back the steps since there were `before`, which a loop was tried with in vain; not for ever."""
        granted = min(self.steps - before, self.forgiven)
        self.steps, self.forgiven = self.steps - granted, self.forgiven - granted

    def exceeded(self, node: tree.Node, reason: str, hint: str = "") -> limits.BudgetExceeded:
        """Return the error that ends the evaluation at once, at the place of `node`."""
        placed = self.placed(UnsupportedCase(reason), node.position)
        return limits.BudgetExceeded(placed.message, node.position, placed.excerpt, hint)

    def placed(self, error: TranspileError, place: ScriptPlace) -> ScriptError:
        """Return an error with its place, the line there, and where the function was called from.

        An error that has a place in a script keeps it; `place` is then where it came up.
        """
        message = error.message
        if isinstance(error.place, ScriptPlace):
            message += f" (needed at {place})"
            place = error.place
        elif error.place is not None:
            message = f"{error.place}: {message}"
        shown = self.excerpt(place)
        if self.frame.caller is not None:
            message += f" (called from {self.frame.caller})"
        return ScriptError(message, place, shown, error.hint)

    def excerpt(self, place: ScriptPlace) -> str:
        """Return the line of a place with a caret below it, nothing where its text is not known."""
        text = self.modules.texts.get(place.file, "")
        return excerpt(text, place.line, place.column) if text else ""

    def enter_line(self, node: tree.Node) -> None:
        """Let new nodes of the graph carry the line of `node`."""
        self.graph.place = f"{node.position.file}:{node.position.line}"

    def assign(self, name: str, value: Value) -> None:
        """Set a variable, and name what it holds after it."""
        self.frame.variables[name] = value
        if isinstance(value, (Matrix, Scalar)):
            tensor = value.tensor if isinstance(value, Matrix) else value.content
            hint = getattr(tensor, "hint", None)
            if hint == "":
                tensor.hint = name  # type: ignore[union-attr]


class _At:
    """Gives errors the place of a node; no generator, as it is entered for every expression."""

    __slots__ = ("evaluator", "node")

    def __init__(self, evaluator: Evaluator, node: tree.Node) -> None:
        self.evaluator, self.node = evaluator, node

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TranspileError) and not isinstance(error, (ScriptError, InternalError, Poisoned)):
            raise self.evaluator.placed(error, self.node.position) from error


def _is_never(node: tree.Binary) -> bool:
    """Whether an expression is ``time() < 0``, by which scripts hide from the engine that a branch is never taken."""
    clock, bound = node.left, node.right
    return (node.operator == "<" and isinstance(clock, tree.Call) and clock.function == "time"
            and isinstance(bound, tree.IntLiteral) and bound.value == 0)  # fmt: skip


def argument_value(content: Any) -> Scalar:
    """Return the value of an argument of the command line: text that reads as a number or boolean is one."""
    if not isinstance(content, str):
        return known_scalar(content.item() if hasattr(content, "item") else content)
    if content in ("TRUE", "FALSE"):
        return known_scalar(content == "TRUE")
    for kind in (int, float):
        try:
            return known_scalar(kind(content))
        except ValueError:
            continue
    return known_scalar(content)
