"""Rows and columns of the variables of a function, as expressions over its scalars and the sizes of its matrices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TypeAlias

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.operands import expression_of
from onnx_systemds.dml.scopes import definition_counts
from onnx_systemds.importing.passes.matrix_sizes import SizeAnalysis, Symbolic, parameter_sizes, text
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim

Shape: TypeAlias = tuple[tree.Expression, tree.Expression]


def shapes_in(function: tree.Function, functions: Mapping[str, tree.Function]) -> dict[str, Shape]:
    """Rows and columns of the variables of a function, where they are known.

    functions: those that it calls, by name.
    """
    sizes = _sizes_in(function, functions)
    return {name: shape for name, size in sizes.known.items() if (shape := _shape(size)) is not None}


def shape_lookup(
    function: tree.Function, functions: Mapping[str, tree.Function], rows: Collection[str] = ()
) -> Callable[[tree.Expression], Shape | None]:
    """A function from an expression over the variables to its rows and columns, or None.

    rows: parameters that are row vectors.
    """
    sizes = _sizes_in(function, functions, rows)
    return lambda expression: _shape(sizes.of(expression))


def _sizes_in(
    function: tree.Function, functions: Mapping[str, tree.Function], rows: Collection[str] = ()
) -> _NamedSizes:
    scalars = [parameter.name for parameter in function.parameters if parameter.type.kind == "scalar"]
    sizes = _NamedSizes(functions, parameter_sizes(function, rows) | {name: dim.symbol(name) for name in scalars})
    sizes.named = {name for name, count in definition_counts(function).items() if count == 1}
    sizes.run(function.body)
    return sizes


class _NamedSizes(SizeAnalysis):
    """Sizes over the numbers of the function itself by their names, which say more than what they are computed of."""

    named: Collection[str] = ()

    def set(self, name: str, value: Symbolic | None) -> None:
        """Set what is known of a variable from here on."""
        is_number = value is not None and not isinstance(value, tuple)
        super().set(name, dim.symbol(name) if is_number and name in self.named else value)


def _shape(size: Symbolic | None) -> Shape | None:
    """The rows and columns of a matrix as expressions."""
    return (_expression(size[0]), _expression(size[1])) if isinstance(size, tuple) else None


@lru_cache(maxsize=4096)
def _expression(size: Dim) -> tree.Expression:
    return expression_of(text(size))
