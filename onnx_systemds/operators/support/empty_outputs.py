"""Outputs without elements: of nodes that certainly have none, and of those of which the run decides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from textwrap import indent

from onnx_systemds.inference.dims import (
    Atom,
    Dim,
    Operation,
    depends_on_run,
    from_terms,
    may_be_zero,
    product,
    symbol,
    symbols,
    terms,
)
from onnx_systemds.operators.api import Fragment, NodeView, View


def empty(node: NodeView, output: int = 0) -> Fragment:
    """An output without elements."""
    form = node.wanted_form(output)
    view = View(0, 1) if form is None else form
    return node.result(node.filled(0, view), view, output)


def without_elements(node: NodeView) -> Fragment | None:
    """The fragment of a node of which no wanted output has elements, None where one may have some.

    Nor for lists, and where the node's own statements say how large its outputs are.
    """
    outputs = {output: node.values[name] for output, name in enumerate(node.node.outputs) if name}
    if not any(value.is_empty for value in outputs.values()):
        return None
    wanted = {output: value for output, value in outputs.items() if node.wants(output)}
    if not all(value.is_empty and not value.is_list for value in wanted.values()):
        return None
    own = {name for value in wanted.values() for name in symbols(value.dims or ()) if depends_on_run(symbol(name))}
    if own.intersection(node.own_sizes()):
        return None
    return reduce(Fragment.__add__, (empty(node, output) for output in wanted), Fragment())


def unless_empty(node: NodeView, fragment: Fragment, size: Dim, none: Sequence[Dim] = ()) -> Fragment:
    """A node's fragment, as of `where_elements` if the run may decide ``size`` to be 0."""
    return where_elements(node, fragment, size, none) if may_be_zero(size) else fragment


def where_elements(
    node: NodeView, fragment: Fragment, size: Dim, none: Sequence[Dim] = (), nothing: Fragment | None = None
) -> Fragment:
    """A node's fragment where ``size`` is not 0 when it runs; else ``nothing``, all results being zeros by default.

    none: the sizes that the fragment's own statements decide, which are then 0.
    """
    if nothing is None:
        wanted = [output for output, name in enumerate(node.node.outputs) if name and node.wants(output)]
        nothing = reduce(Fragment.__add__, (empty(node, output) for output in wanted), Fragment())
    zeros = [f"{node.dim(each)} = 0" for each in none]
    blocks = [indent("\n".join(lines), "  ") for lines in (fragment.statements, (*zeros, *nothing.statements))]
    text = "\n".join([f"if ({node.dim(_deciding(size))} > 0) {{", blocks[0], "} else {", blocks[1], "}"])
    return replace(fragment, statements=(text,)) + replace(nothing, statements=())


def _deciding(size: Dim) -> Dim:
    """A shorter size that is positive where this one is: ``n`` for ``144 * n`` and ``min(30, n)``."""
    found = terms(size)
    if len(found) != 1 or found[0][1] < 1:
        return size
    return product(map(_deciding_atom, found[0][0]))


def _deciding_atom(atom: Atom) -> Dim:
    if isinstance(atom, Operation) and atom.operator == "min":
        for bound, other in ((atom.left, atom.right), (atom.right, atom.left)):
            if isinstance(bound, int) and bound > 0:
                return _deciding(other)
    return from_terms({(atom,): 1})
