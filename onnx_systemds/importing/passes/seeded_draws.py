"""What the forward pass draws, as the masks of Dropouts, by a seed that it takes: programs draw the same once more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import is_call, name_counts
from onnx_systemds.importing.parameters import INTEGER
from onnx_systemds.operators.api.reserved_names import WEIGHTS

_DRAWS = "rand"
_SEED = "seed"


def with_seed(function: tree.Function, others: Iterable[tree.Function]) -> tuple[tree.Function, str]:
    """The function with a last parameter, ahead of the list of weights, by which all is drawn, and what it is called.

    What has a seed of its own keeps it. The seeds of calls of ``rand`` follow from the parameter, so that none of s is
    one of s + 1. others: functions whose variables are not called so. The function itself, and "", if it draws nothing.
    """
    count = sum(map(_is_unseeded, tree.walk(function)))
    if not count:
        return function, ""
    taken = {name for each in (function, *others) for name in name_counts(each.body)}
    taken.update(parameter.name for each in (function, *others) for parameter in each.parameters)
    name, drawn = Names(taken).fresh(_SEED), iter(range(count))

    def change(node: tree.Node) -> tree.Node:
        if not _is_unseeded(node):
            return node
        assert isinstance(node, tree.Call)
        seed: tree.Expression = tree.Name(name)
        if count > 1:
            seed = tree.Binary("*", seed, tree.IntLiteral(count))
        if number := next(drawn):
            seed = tree.Binary("+", seed, tree.IntLiteral(number))
        return replace(node, arguments=(*node.arguments, tree.CallArgument(_SEED, seed)))

    changed = rewritten(function, change)
    values = (parameter for parameter in function.parameters if parameter.name != WEIGHTS)
    listed = (parameter for parameter in function.parameters if parameter.name == WEIGHTS)
    return replace(changed, parameters=(*values, tree.Parameter(name, INTEGER), *listed)), name


def _is_unseeded(node: tree.Node) -> bool:
    """Whether a node draws by a seed of the engine's choice."""
    return is_call(node, _DRAWS) and all(argument.name != _SEED for argument in node.arguments)
