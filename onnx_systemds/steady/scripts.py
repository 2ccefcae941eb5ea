"""The text of a script for sizes that stay, with the constants that it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from onnx_systemds.driver import Shapes, Sizes, driver_text, functions_of
from onnx_systemds.engine.prepared_script import ResultMatrix
from onnx_systemds.importing.script import Script
from onnx_systemds.steady.constants import Constants, find_constants

LARGEST_CONSTANTS = 256 << 20
"""Bytes of the constants that are kept for a script, the matrices of convolutions apart."""


@dataclass(frozen=True)
class SteadyScript:
    """A main program for inputs of known sizes, and the matrices that it takes as further inputs, by their names.

    is_faster: whether it does less at a call than the script as it is.
    """

    text: str
    kept: Mapping[str, ResultMatrix]
    is_faster: bool


def steady_script(
    script: Script,
    shapes: Shapes,
    sizes: Sizes,
    compute: Callable[[Constants], Mapping[str, ResultMatrix]],
    is_long: bool,
) -> SteadyScript:
    """The main program for these sizes; ``compute`` runs the script of the constants.

    shapes: rows and columns of inputs, by their names in the main program. sizes: of symbols. is_long: whether to take
    the forms that are faster for large matrices only.
    """
    functions = functions_of(script)
    if any(port.is_list for port in script.inputs + script.outputs):  # their functions are shared with the script
        return SteadyScript(driver_text(script, functions, shapes, sizes), {}, is_faster=False)
    weights = len(script.weights) if functions.weights_apart else 0
    given = _parameters(script, shapes, sizes)
    constants = find_constants(functions.text, script.function, given, weights, is_long=is_long)
    kept = _that_fit(compute(constants), constants.matrices) if constants.candidates else {}
    functions = replace(functions, text=constants.text([*kept]))
    read = {name: (matrix.rows, matrix.cols) for name, matrix in kept.items()}
    text = driver_text(script, functions, shapes, sizes, read)
    return SteadyScript(text, kept, is_faster=bool(kept) or constants.has_products)


def _parameters(script: Script, shapes: Shapes, sizes: Sizes) -> list[tuple[int, ...] | int | None]:
    """What is known of the main function's parameters: rows and columns of matrices, and numbers."""
    given: list[tuple[int, ...] | int | None] = [
        None if port.dims == () else shapes.get(f"in{position}") for position, port in enumerate(script.inputs)
    ]
    return [*given, *(sizes[symbol] for symbol in script.sizes)]


def _that_fit(matrices: Mapping[str, ResultMatrix], needed: int) -> dict[str, ResultMatrix]:
    """The first ``needed`` ones, and the smallest others until there is no room; those without elements stay."""
    names = [*matrices]
    kept = {name: matrices[name] for name in names[:needed]}
    left = LARGEST_CONSTANTS
    for name in sorted(names[needed:], key=lambda name: matrices[name].size):
        matrix = matrices[name]
        left -= matrix.size
        if left >= 0 and matrix.rows and matrix.cols:
            kept[name] = matrix
    return kept
