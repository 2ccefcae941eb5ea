"""The text of a script for sizes that stay, with the constants that it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_systemds.driver import Shapes, Sizes, driver_text, functions_of
from onnx_systemds.engine.prepared_script import ResultMatrix
from onnx_systemds.importing.script import Script
from onnx_systemds.steady.constants import Constants, find_constants

LARGEST_CONSTANTS = 256 << 20
"""Bytes of the constants that are kept for a script, the matrices of convolutions apart."""


@dataclass(frozen=True)
class SteadyScript:
    """Main programs for inputs of known sizes, and the matrices that they take as further inputs, by their names.

    texts: the forms of which any may be the fastest, the surest first; None is the script as it is.
    """

    texts: Sequence[str | None]
    kept: Mapping[str, ResultMatrix]


def steady_script(
    script: Script,
    shapes: Shapes,
    sizes: Sizes,
    compute: Callable[[Constants], Mapping[str, ResultMatrix]],
    *,
    is_open: bool,
    is_long: bool,
) -> SteadyScript:
    """The main programs for these sizes; ``compute`` runs the script of the constants.

    shapes: rows and columns of inputs, by their names in the main program. sizes: of symbols. is_open: whether these
    are not those of the script anyhow. is_long: whether to try what is faster for large matrices only.
    """
    functions = functions_of(script)
    if any(port.is_list for port in script.inputs + script.outputs):  # their functions are shared with the script
        return SteadyScript([driver_text(script, functions, shapes, sizes) if is_open else None], {})
    weights = len(script.weights) if functions.weights_apart else 0
    constants = find_constants(functions.text, script.function, _parameters(script, shapes, sizes), weights)
    kept = _that_fit(compute(constants), constants.matrices) if constants.candidates else {}
    read = {name: (matrix.rows, matrix.cols) for name, matrix in kept.items()}
    plain, flat = (constants.text([*kept], is_flat=is_flat) for is_flat in (False, True))
    forms = [plain if is_open or kept or constants.has_products else None]
    forms += [flat] if is_long and flat != plain else []
    texts = [form and driver_text(script, replace(functions, text=form), shapes, sizes, read) for form in forms]
    return SteadyScript(texts, kept)


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
