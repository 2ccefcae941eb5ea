"""The text of a script for sizes that stay, with the constants that it is given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from onnx_systemds.engine.prepared_script import ResultMatrix
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.driver import Shapes, Sizes, driver_text, functions_of
from onnx_systemds.runtime.specialisation.constants import Constants, find_constants

LARGEST_BOUND = 1e6
"""Of numbers that biases are taken from, to be added behind a product (see `sample_columns`): with larger ones that
would not give what it gives in front of it."""
LARGEST_CONSTANTS = 256 << 20
"""Bytes of the constants that are kept for a script, the matrices of convolutions apart."""


@dataclass(frozen=True)
class SteadyScript:
    """Main programs for inputs of known sizes, and the matrices that they take as further inputs, by their names.

    texts: the forms of which any may be the fastest, the surest first; None is the script as it is.
    """

    texts: Sequence[str | None]
    kept: Mapping[str, ResultMatrix]


@dataclass(frozen=True)
class Engine:
    """What the engine is asked for.

    computed: the constants. values: the cells of one. recompiled: the functions of a main program, which takes these
    further inputs, that it compiles anew at each of their calls.
    """

    computed: Callable[[Constants], Mapping[str, ResultMatrix]]
    values: Callable[[ResultMatrix], NDArray[np.float64]]
    recompiled: Callable[[str, Sequence[str]], Collection[str]]


def steady_script(
    script: Script, shapes: Shapes, sizes: Sizes, engine: Engine, *, is_open: bool, is_long: bool, is_part: bool
) -> SteadyScript:
    """The main programs for these sizes.

    shapes: rows and columns of inputs, by their names in the main program. sizes: of symbols. is_open: whether these
    are not those of the script anyhow. is_long: whether to try what is faster for large matrices only. is_part:
    whether other parts of the samples are scored at the same time, so that no form starts threads.
    """
    functions = functions_of(script)
    if any(port.is_list for port in script.inputs + script.outputs):  # their functions are shared with the script
        return SteadyScript([driver_text(script, functions, shapes, sizes) if is_open else None], {})
    weights = len(script.weights) if functions.weights_apart else 0
    found = partial(find_constants, functions.text, script.function, _parameters(script, shapes, sizes), weights)
    constants = found()
    kept = _kept(constants, engine)
    if not all(name in kept and np.abs(engine.values(kept[name])).max() <= LARGEST_BOUND for name in constants.bounds):
        constants = found(joins_biases=False)
        kept = _kept(constants, engine)
    read = {name: (matrix.rows, matrix.cols) for name, matrix in kept.items()}

    def program(text: str) -> str:
        return driver_text(script, replace(functions, text=text), shapes, sizes, read)

    def recompiled(placed: Collection[str]) -> Collection[str]:
        return engine.recompiled(program(constants.text([*kept], placed=placed)), [*kept])

    possible = constants.with_loops()
    placed = possible.intersection(recompiled(())) if possible else possible
    if placed and script.function in recompiled(placed):  # it would be each time, as a whole
        placed = frozenset()
    text = partial(constants.text, [*kept], placed=placed)
    plain, serial = text(), text(is_serial=True)
    forms = [serial] if is_part else [plain, serial]
    forms += [text(is_serial=True, is_flat=True)] if is_long else []
    is_changed = is_open or kept or placed or constants.has_products
    texts = dict.fromkeys(program(form) if is_changed or form != plain else None for form in forms)
    return SteadyScript([*texts], kept)


def _parameters(script: Script, shapes: Shapes, sizes: Sizes) -> list[tuple[int, ...] | int | None]:
    """What is known of the main function's parameters: rows and columns of matrices, and numbers."""
    given: list[tuple[int, ...] | int | None] = [
        None if port.dims == () else shapes.get(f"in{position}") for position, port in enumerate(script.inputs)
    ]
    return [*given, *(sizes[symbol] for symbol in script.sizes)]


def _kept(constants: Constants, engine: Engine) -> dict[str, ResultMatrix]:
    """The constants that calls are given."""
    return _that_fit(engine.computed(constants), constants.matrices) if constants.candidates else {}


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
