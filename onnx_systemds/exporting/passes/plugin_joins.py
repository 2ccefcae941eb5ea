"""The patterns of plugins in a finished graph: nodes that a plugin joins to one, often an operator of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from onnx_systemds.errors import quoted
from onnx_systemds.exporting.graph.nodes import DOMAINS, Node, Tensor
from onnx_systemds.registration import Places, failure


class Joining(Protocol):
    """What a pattern can ask and do; `fusing.Fusing` has it."""

    def single(self, tensor: Tensor | None, op: str) -> Node | None:
        """Return the node `op` that makes a tensor that only one node uses."""

    def become(self, node: Node, op: str, inputs: Iterable[Tensor | None], **attributes: object) -> bool:
        """Make `node` another one with the same result, and return True."""


@dataclass(frozen=True, slots=True)
class Join:
    """A pattern that ends in a node of these operators."""

    name: str
    ops: frozenset[str]
    function: Callable[[Joining, Node], bool]


JOINS: dict[str, Join] = {}
_PLACES = Places(__file__)


def join(name: str, *ops: str) -> Callable[[Callable[[Joining, Node], bool]], Callable[[Joining, Node], bool]]:
    """Register a function as a pattern. It takes each node of the operators, the last node of the pattern.

    It returns whether it replaced the node by `Joining.become`. Patterns of plugins come before ours.
    """

    def register(function: Callable[[Joining, Node], bool]) -> Callable[[Joining, Node], bool]:
        if name in JOINS:
            _PLACES.check(name, f"a join {quoted(name)}", override=False)
        _PLACES.made[name] = _PLACES.caller()
        JOINS[name] = Join(name, frozenset(ops), function)
        return function

    return register


def own_domain(domain: str, version: int) -> None:
    """Set the version of a plugin's domain, which nodes name by their attribute ``_domain``.

    Raises ValueError if the domain has another version.
    """
    if DOMAINS.setdefault(domain, version) != version:
        raise ValueError(f"the operators of {quoted(domain)} have version {DOMAINS[domain]} already, not {version}")


def joined(joining: Joining, node: Node) -> bool:
    """Let the patterns of plugins look at a node; returns whether one of them joined it with others."""
    for each in JOINS.values():
        if node.op in each.ops:
            try:
                if each.function(joining, node):
                    return True
            except Exception as error:
                raise failure(error, f"join {quoted(each.name)} at {node.place}") from error
    return False
