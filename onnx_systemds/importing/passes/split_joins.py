"""Joins of three matrices and more where Spark would put one into the block before its own.

It does so where those in front fill whole blocks (``third-at-a-block-on-spark`` in `engine.faults`). Such matrices, and
those of which nobody knows whether they do, are joined two at a time, each pair in a basic block of its own: the engine
else joins them at once again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import call, rewritten, same_objects, unchanged, with_blocks
from onnx_systemds.dml.scopes import assigned, assigns_variable, blocks_in, is_call, name_counts
from onnx_systemds.engine.safe_forms import BLOCK
from onnx_systemds.importing.passes.block_cuts import JOINED_CUT, cut, with_never
from onnx_systemds.importing.passes.matrix_sizes import SizeAnalysis, Symbolic, parameter_sizes
from onnx_systemds.importing.passes.specialisation.specialise import symbolic_sizes
from onnx_systemds.importing.script import Script, with_functions
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim, Expression

_AXES = {"rbind": 0, "cbind": 1}
_ASSIGNED_AND_READ = 2  # how often the name of a variable stands that the engine puts into what reads it


def with_split_joins(script: Script) -> Script:
    """The script whose functions join such matrices two at a time; specialised is the script as it was."""
    callees = script.callable_functions
    given = {script.function: symbolic_sizes(script)}
    return with_functions(script, (with_split_joins_in(it, callees, given.get(it.name, {})) for it in script.functions))


def with_split_joins_in(
    function: tree.Function, functions: Mapping[str, tree.Function], given: Mapping[str, Symbolic]
) -> tree.Function:
    """The function that joins such matrices two at a time; the same object where there are none.

    functions: those that it calls, by name. given: what is known of its parameters.
    """
    if not any(is_call(node, *_AXES) for node in tree.walk(*function.body)):
        return function
    sizes = SizeAnalysis(functions, parameter_sizes(function) | dict(given))
    body = _Joins(function, sizes).block(function.body)
    return function if body is function.body else replace(function, body=with_never(body))


class _Joins:
    """Splits the joins of a function."""

    def __init__(self, function: tree.Function, sizes: SizeAnalysis) -> None:
        self._sizes = sizes
        self._reads = name_counts(function.body)
        self._names = Names((*self._reads, *assigned(function.body), *(it.name for it in function.parameters)))
        self._made: dict[str, tree.Call] = {}
        """The joins that variables of the basic block are, which the engine joins with what is beside them."""

    def block(self, block: tree.Block) -> tree.Block:
        """The statements of a block; the same object where nothing changes."""
        self._made = {}
        found: list[tree.Statement] = []
        for statement in block:
            if blocks_in(statement):
                found.append(self._with_inner(statement))
                self._made = {}
            else:
                found += self._split(statement)
                self._sizes.run((statement,))
        return block if same_objects(found, block) else tuple(found)

    def _with_inner(self, statement: tree.Statement) -> tree.Statement:
        """A branch or a loop, in which nothing is known of what it changes."""
        before, changing = self._sizes.known, assigned((statement,))
        bodies = []
        for body in blocks_in(statement):
            self._sizes.known = {name: size for name, size in before.items() if name not in changing}
            bodies.append(self.block(body))
        self._sizes.known = before
        self._sizes.run((statement,))
        return with_blocks(statement, bodies)

    def _split(self, statement: tree.Statement) -> list[tree.Statement]:
        """The statement, behind those that make parts of its joins."""
        found: list[tree.Statement] = []

        def split(node: tree.Node) -> tree.Node | None:
            """An outermost join, of what is split in its operands before it."""
            if not is_call(node, *_AXES):
                return None
            operands = tuple(self._operands(node, {}))
            inner = tuple(rewritten(operand, unchanged, split) for operand in operands)
            joined = node if same_objects(inner, operands) else call(node.function, *inner)
            if len(inner) == 2 or not self._may_meet(joined):
                return joined
            return call(node.function, *(self._pair(node.function, half, found) for half in _halves(inner)))

        self._add(rewritten(statement, unchanged, split), found)
        return found

    def _pair(
        self, function: str, operands: Sequence[tree.Expression], found: list[tree.Statement]
    ) -> tree.Expression:
        """A variable of what some operands are joined to, by statements that are added to those found."""
        if len(operands) == 1:
            return operands[0]
        value = call(function, *operands)
        if self._may_meet(value):
            value = call(function, *(self._pair(function, half, found) for half in _halves(operands)))
        name = self._names.fresh("joined")
        self._reads[name] = _ASSIGNED_AND_READ
        self._sizes.set(name, self._sizes.of(value))
        self._add(tree.Assign(tree.Name(name), value), found)
        return tree.Name(name)

    def _add(self, statement: tree.Statement, found: list[tree.Statement]) -> None:
        """Add a statement, in a basic block of its own where the engine would join too many matrices at once."""
        if any(self._may_meet(node) for node in tree.walk(statement) if is_call(node, *_AXES)):
            found.append(cut(JOINED_CUT))
            self._made = {}
        found.append(statement)
        if not assigns_variable(statement) or self._reads[statement.target.name] != _ASSIGNED_AND_READ:
            return
        if is_call(statement.value, *_AXES):
            self._made[statement.target.name] = statement.value

    def _may_meet(self, node: tree.Call) -> bool:
        """Whether a join has three or more, of which those in front of one may fill whole blocks."""
        operands = list(self._operands(node, self._made))
        if len(operands) < 3 or any(is_call(it, "as.frame") for operand in operands for it in tree.walk(operand)):
            return False
        axis = _AXES[node.function]
        front: Dim = 0
        for operand in operands[:-1]:
            size = self._sizes.of(operand)
            count = size[axis] if isinstance(size, tuple) else 1 if isinstance(size, (int, float, Expression)) else None
            if count is None or _may_fill_blocks(front := dim.add(front, count)):
                return True
        return False

    def _operands(self, node: tree.Call, made: Mapping[str, tree.Call]) -> Iterator[tree.Expression]:
        """What is joined at once: the operands, and those of joins among them; made: of variables."""
        for argument in node.arguments:
            value = argument.value
            joined = made.get(value.name, value) if isinstance(value, tree.Name) else value
            if is_call(joined, node.function):
                yield from self._operands(joined, made)
            else:
                yield value


def _halves(operands: Sequence[tree.Expression]) -> tuple[Sequence[tree.Expression], Sequence[tree.Expression]]:
    middle = (len(operands) + 1) // 2
    return operands[:middle], operands[middle:]


def _may_fill_blocks(count: Dim) -> bool:
    """Whether so many rows or columns may be 1000, 2000, ..."""
    terms = dict(dim.terms(count))
    constant = terms.pop((), 0)
    return constant % math.gcd(BLOCK, *terms.values()) == 0
