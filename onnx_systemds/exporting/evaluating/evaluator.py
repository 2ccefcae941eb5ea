"""The state of an export: `Evaluator` runs a script over abstract values.

What is done with each kind of expression and statement is given to it as a table (`Rules`, filled in `rules`), so
that the modules of the kinds evaluate their parts through it, whatever these are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.excerpts import excerpt
from onnx_systemds.dml.rewrite import left_operands
from onnx_systemds.dml.scopes import is_call, is_operation
from onnx_systemds.errors import InternalError, Reasons, ScriptError, ScriptPlace, TranspileError, UnsupportedCase
from onnx_systemds.exporting import limits
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.evaluating.modules import Module, Modules
from onnx_systemds.exporting.graph.nodes import Tensor
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.interface import Interface
from onnx_systemds.exporting.poison_values import Poisoned, identity, poison_error, unique
from onnx_systemds.exporting.values import Matrix, Poison, Scalar, Value

_MOST_TRIALS = 3
"""A loop that cannot be run for all iterations at once is not tried more often; it may work with other arguments."""
Live = Callable[[], scopes.Names]
"""Returns the variables that are read after a statement."""


@dataclass(eq=False)
class Frame:
    """The variables of a script or of one call of a function."""

    module: Module
    variables: dict[str, Value] = field(default_factory=dict)
    caller: ScriptPlace | None = None
    depth: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A state of the evaluation: the variables, what was refused and omitted, and the number of steps."""

    variables: Mapping[str, Value]
    reasons: Sequence[TranspileError]
    dropped: Sequence[str]
    steps: int


@dataclass(frozen=True)
class Rules:
    """The functions that evaluate each kind of expression and run each kind of statement."""

    expressions: Mapping[type, Callable[[Evaluator, Any], Value]]
    statements: Mapping[type, Callable[[Evaluator, Any, Live], None]]


class Evaluator:
    """The state of an export: the graph, the variables, and what was refused."""

    def __init__(
        self, rules: Rules, graph: Operators, modules: Modules, module: Module, arguments: Mapping[str, Any],
        interface: Interface, outline: bool = False,
    ) -> None:
        """`arguments` are the values of ``$name``; `interface` gives what is read and takes what is written.

        outline: whether functions of the script become functions of the model.
        """
        self.rules = rules
        self.graph = graph
        self.modules = modules
        self.arguments = dict(arguments)
        self.reasons = Reasons()
        self.context = Context(graph, interface)
        self.main, self.frame = module, Frame(module)
        self.target = ""
        self.outline = outline
        self.steps, self.forgiven = 0, limits.MOST_STEPS
        self.outlinable: dict[Any, bool] = {}
        self._against: dict[str, list[TranspileError]] = {}
        self._unbatched: Counter[int] = Counter()

    # What is tried

    def snapshot(self) -> Snapshot:
        """Return the state of the evaluation."""
        reasons, dropped = tuple(self.reasons.errors), tuple(self.context.dropped)
        return Snapshot(dict(self.frame.variables), reasons, dropped, self.steps)

    def go_back(self, before: Snapshot) -> None:
        """Restore a state; its steps are not counted again, up to a limit."""
        self.frame.variables = dict(before.variables)
        self.reasons.errors[:], self.context.dropped[:] = before.reasons, before.dropped
        granted = min(self.steps - before.steps, self.forgiven)
        self.steps, self.forgiven = self.steps - granted, self.forgiven - granted

    # Expressions and statements

    def value(self, node: tree.Expression) -> Value:
        """Return the value of an expression."""
        return self.rules.expressions[type(node)](self, node)

    def run(self, statement: tree.Statement, live: Live) -> None:
        """Run one statement; `live`: returns the variables that are read after it."""
        self.rules.statements[type(statement)](self, statement, live)

    def variable(self, name: str, node: tree.Node) -> Value:
        """Return a variable that is read at `node`. Raises TranspileError, UnsupportedCase."""
        found = self.frame.variables.get(name)
        with self.at(node):
            if found is None:
                raise UnsupportedCase(f"the variable {name} is not defined here")
            if isinstance(found, Poison):
                raise poison_error(found, f"the variable {name}")
        return found

    def argument(self, node: tree.Expression) -> Value:
        """Return an argument of a function or item of a list, which may be a poison value until it is read.

        So may a text that cannot be exported: it is often only printed there.
        """
        if isinstance(node, tree.Name):
            found = self.frame.variables.get(node.name)
            if isinstance(found, Poison):
                return found
        if not _makes_text(node):
            return self.value(node)
        try:
            return self.value(node)
        except (InternalError, limits.BudgetExceeded):
            raise
        except Poisoned as poisoned:
            return Poison(errors=poisoned.errors)
        except ScriptError as error:
            return Poison(errors=(error,))

    def possible(self, node: tree.Expression) -> Value | None:
        """Return the value of an expression, None for one that cannot be exported."""
        try:
            return self.value(node)
        except (InternalError, limits.BudgetExceeded):
            raise
        except TranspileError:
            return None

    def refuse(self, errors: Iterable[TranspileError], output: str = "") -> None:
        """Note reasons against the export, without duplicates. output: the only one that they affect."""
        errors = tuple(errors)
        if output:
            self._against.setdefault(output, []).extend(errors)
        self.reasons.errors[:] = unique((*self.reasons.errors, *errors))

    def refused_results(self) -> dict[str, set[tuple[str, str]]]:
        """Return the reasons that affect single outputs, by output."""
        known = set(map(identity, self.reasons.errors))
        found = {name: known.intersection(map(identity, errors)) for name, errors in self._against.items()}
        return {name: errors for name, errors in found.items() if errors}

    # Places

    def at(self, node: tree.Node) -> _At:
        """Give errors that are raised inside the place of `node`, with its line."""
        return _At(self, node)

    def step(self, node: tree.Node, count: int = 1) -> None:
        """Count one more step of the evaluation. Raises BudgetExceeded at the place of `node`."""
        self.steps += count
        if self.steps > limits.MOST_STEPS:
            reason = f"the script takes more than {limits.MOST_STEPS} steps to evaluate, one per statement or call"
            hint = "fewer turns of a loop that is unrolled, or calls that do not call themselves twice"
            raise self.exceeded(node, reason, hint)

    def may_batch(self, loop: tree.For) -> bool:
        """Whether it is worth trying to run all iterations of a loop at once."""
        return self._unbatched[id(loop)] < _MOST_TRIALS

    def unbatched(self, loop: tree.For) -> None:
        """Note that a loop could not be run for all iterations at once."""
        self._unbatched[id(loop)] += 1

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

    def poisoned(self, error: TranspileError, node: tree.Node) -> Poison:
        """Return the poison value for an expression that could not be evaluated."""
        return Poison(errors=(self.placed(error, node.position),))

    def excerpt(self, place: ScriptPlace) -> str:
        """Return the line of a place with a caret below it; "" if its text is unknown."""
        text = self.modules.texts.get(place.file, "")
        return excerpt(text, place.line, place.column) if text else ""

    def enter_line(self, node: tree.Node) -> None:
        """Attach the line of `node` to new nodes of the graph."""
        self.graph.place = f"{node.position.file}:{node.position.line}"

    def assign(self, name: str, value: Value) -> None:
        """Set a variable, and name its value after it."""
        self.frame.variables[name] = value
        tensor = value.tensor if isinstance(value, Matrix) else value.content if isinstance(value, Scalar) else None
        if isinstance(tensor, Tensor) and not tensor.hint:
            tensor.hint = name


def _makes_text(node: tree.Expression) -> bool:
    """Whether an expression is certainly a string: a literal, toString, or a sum with one."""
    if is_operation(node, "+"):
        first, chain = left_operands(node)
        return any(isinstance(part, tree.StringLiteral) or is_call(part, "toString")
                   for part in (first, *(each.right for each in chain)))
    return is_call(node, "toString")


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
