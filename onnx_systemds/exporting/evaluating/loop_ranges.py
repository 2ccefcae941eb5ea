"""The numbers that a loop runs over: `Trips`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.scalar_operators import compared_sizes, direction, distance
from onnx_systemds.exporting.evaluating.evaluator import Evaluator
from onnx_systemds.exporting.values import Matrix
from onnx_systemds.inference.dims import Dim


class Trips(NamedTuple):
    """The numbers that a loop runs over; those of a while count its iterations, of which there is no known number.

    surely: the engine stops where there are fewer iterations than one.
    """

    start: Dim = 0
    step: Dim = 1
    times: Dim | None = None
    surely: bool = False


def loop_range(evaluator: Evaluator, statement: tree.For) -> Trips:
    """Return the numbers of a for loop. Raises UnsupportedCase for a step of 0."""
    bounds, context = statement.range, evaluator.context
    start, stop = (context.integer(end) for end in [evaluator.value(end) for end in (bounds.start, bounds.stop)])
    if bounds.step is not None:
        step = context.integer(evaluator.value(bounds.step))
        if step == 0:
            raise UnsupportedCase("a loop whose step is 0", hint="the engine cuts a step off after the point")
        if not isinstance(step, int):
            return Trips(start, step, _computed_times(context, stop - start, step))
        return Trips(start, step, (stop - start + step) // step)
    surely = _cannot_fall(evaluator, statement, start, stop)
    towards = 1 if surely else direction(context, start, stop)
    return Trips(start, towards, distance(start, stop, towards), surely)


def _computed_times(context: Context, distance: Dim, step: Dim) -> Dim:
    """Return how many iterations there are in steps that only the run knows; none where they lead away, or are 0."""
    g = context.g
    there, way = g.size_tensor(distance), g.size_tensor(step)
    stands = way.equals(0)
    whole = g.binary("Div", there, g.where(stands, g.constant([1]), way))
    return g.integer_symbol(g.where(((there * way) >= 0) & ~stands, whole + 1, g.constant([0])), "times")


def _cannot_fall(evaluator: Evaluator, statement: tree.For, start: Dim, stop: Dim) -> bool:
    """Whether a range of unknown direction that goes down stops the engine in its first iteration.

    `start` is beyond `stop` then, where an axis of a matrix ends in which the body reads or writes that place.
    """
    place, body = tree.Name(statement.variable), statement.body
    if compared_sizes("<=", start, stop) is not None or place.name in scopes.assigned(body):
        return False
    for node in _certain(body):
        whole = evaluator.frame.variables.get(node.name) if isinstance(node, tree.Indexed) else None
        if isinstance(node, tree.Indexed) and isinstance(whole, Matrix) and not is_replaced(node.name, body):
            spans = zip((node.rows, node.columns or tree.Span()), whole.dims)
            if any(place in (span.lower, span.upper) and size == stop for span, size in spans):
                return True
    return False


def _certain(body: tree.Block) -> Iterator[tree.Node]:
    """Yield the nodes that each iteration evaluates, whatever its conditions say."""
    for statement in body:
        if isinstance(statement, tree.If | tree.While):
            yield from tree.walk(statement.condition)
        else:
            yield from tree.walk(statement.range if isinstance(statement, tree.For) else statement)


def is_replaced(name: str, body: tree.Block) -> bool:
    """Whether a body assigns a variable as a whole, and not only parts of it."""
    return any(tree.Name(name) in ((node.target,) if isinstance(node, tree.Assign) else getattr(node, "targets", ()))
               for node in tree.walk(*body))
