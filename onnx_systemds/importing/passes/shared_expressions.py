"""What several statements of a function join, repeat or gather alike gets a name: it is made once, for all of them.

Twelve layers that add one mask for each of their heads repeat it twelve times. With a name it is a parameter of the
function of the layers (docs/decisions/0028-repeated-blocks.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import rewritten, unchanged, with_origin
from onnx_systemds.dml.scopes import assigned, assignment_counts, assigns_variable, is_call, is_operation, mentioned
from onnx_systemds.importing.passes.specialisation.hoisting import impure_functions
from onnx_systemds.importing.script import Script, with_functions

_JOINS = ("cbind", "rbind")
_FACTORS = ("table", "abs")  # of products that gather and repeat, see `named_products`
_MOVING = frozenset((*_JOINS, *_FACTORS))


def with_shared_expressions(script: Script) -> Script:
    """The script whose functions have names for what they move alike; specialised is the script as it was."""
    impure = impure_functions(script.callees)
    return with_functions(script, (_in_function(function, impure) for function in script.functions))


def _in_function(function: tree.Function, impure: Collection[str]) -> tree.Function:
    body = with_shared_expressions_in(function.body, [it.name for it in function.parameters], impure)
    return function if body is function.body else replace(function, body=body)


def with_shared_expressions_in(body: tree.Block, given: Collection[str], impure: Collection[str]) -> tree.Block:
    """The statements, with names for what they move alike; the same object if there is nothing.

    given: the variables that have a value before the statements. impure: functions that may not give the same twice.
    """
    moving = [place for place, statement in enumerate(body) if _moves(statement)]
    counts = Counter(node for place in moving for node in _moved_in(body[place]))
    changes = assignment_counts(body) + Counter(given)
    wanted = {node for node, count in counts.items()
              if count > 1 and all(changes[name] == 1 for name in mentioned(node).names)
              and not any(function in impure for function in mentioned(node).functions)}
    if not wanted:
        return body
    made_at = {name: place for place, statement in enumerate(body) for name in assigned((statement,))}
    names = Names({*changes, *(node.name for node in tree.walk(*body) if isinstance(node, tree.Name))})
    known: dict[tree.Node, tree.Name] = {}
    first: list[list[tree.Statement]] = [[] for _ in body]  # what stands before each statement
    found = [*body]
    barrier = 0  # no further ahead than checks, branches, loops and cuts
    for place, statement in enumerate(body):
        if not isinstance(statement, (tree.Assign, tree.MultiAssign)):
            barrier = place + 1
        if place not in moving:
            continue

        def named(node: tree.Node, start: int = barrier, statement: tree.Statement = statement) -> tree.Name | None:
            if not isinstance(node, (tree.Call, tree.Binary)) or not _is_moved(node) or node not in wanted:
                return None
            if node not in known:
                known[node] = tree.Name(names.fresh(_hint(node)))
                after = max((made_at.get(name, -1) + 1 for name in mentioned(node).names), default=0)
                definition = tree.Assign(known[node], node)
                first[max(start, after)].append(with_origin(definition, statement.origin))
            return known[node]

        found[place] = rewritten(statement, unchanged, named)
    return tuple(it for place, statement in enumerate(found) for it in (*first[place], statement))


def _moves(statement: tree.Statement) -> bool:
    """Whether there is anything to look for in a statement, as in most of them there is not."""
    return assigns_variable(statement) and not _MOVING.isdisjoint(mentioned(statement.value).functions)


def _moved_in(statement: tree.Statement) -> list[tree.Call | tree.Binary]:
    assert isinstance(statement, tree.Assign)
    return [node for node in mentioned(statement.value).operations
            if not isinstance(node, tree.Indexed) and _is_moved(node)]


def _is_moved(node: tree.Call | tree.Binary) -> bool:
    """Whether elements are joined, repeated or gathered, and maybe get another shape; a shape alone costs nothing."""
    inner = node.arguments[0].value if is_call(node, "matrix") else node
    if is_operation(inner, "%*%"):
        return is_call(inner.left, *_FACTORS) or is_call(inner.right, *_FACTORS)
    return is_call(inner, *_JOINS) and bool(mentioned(inner).variables)


def _hint(node: tree.Call | tree.Binary) -> str:
    """The variable that is repeated, and that it is; what is made of several is called after the first of them."""
    inner = node.arguments[0].value if is_call(node, "matrix") else node
    assert isinstance(inner, (tree.Call, tree.Binary))
    parts = [it.value for it in inner.arguments] if isinstance(inner, tree.Call) else [inner.left, inner.right]
    moved = next((it for it in parts if not is_call(it, *_FACTORS)), parts[0])
    ending = "repeated" if is_operation(inner, "%*%") or len({*parts}) == 1 else "joined"
    return f"{next(iter(mentioned(moved).variables), 'rows').rstrip('_')}_{ending}"
