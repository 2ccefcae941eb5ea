"""The specialised forms of a script, any of which may be the fastest, and their constants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onnx_systemds.engine.prepared_script import ResultMatrix
from onnx_systemds.importing.passes.specialisation.specialise import inlinable, specialise
from onnx_systemds.importing.passes.specialisation.work import Form
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.driver import Program, Shapes, Sizes, program_of

LARGEST_BOUND = 1e6
"""Of numbers that biases are taken from, to be added after a product (see `sample_columns`): with larger ones that
would not give what it gives before it."""
LARGEST_CONSTANTS = 256 << 20
"""Bytes of the constants that are hoisted of a script, the matrices of convolutions apart."""


@dataclass(frozen=True)
class SpecialisedScript:
    """Main programs for inputs of known sizes, and their constants as further inputs, by name.

    programs: the forms of which any may be the fastest, the surest first; None is the script as it is.
    """

    programs: Sequence[Program | None]
    constants: Mapping[str, ResultMatrix]


@dataclass(frozen=True)
class Engine:
    """The callbacks to the engine.

    computed: the constants of a script. values: the cells of one. recompiled: the functions of a main program, which
    takes these further inputs, that it recompiles at each of their calls.
    """

    computed: Callable[[Script], Mapping[str, ResultMatrix]]
    values: Callable[[ResultMatrix], NDArray[np.float64]]
    recompiled: Callable[[Program, Sequence[str]], Collection[str]]


def specialised_script(
    script: Script, shapes: Shapes, sizes: Sizes, engine: Engine, *, is_open: bool, is_long: bool, is_part: bool
) -> SpecialisedScript:
    """The main programs for known sizes.

    shapes: rows and columns of inputs, by their names in the main program. sizes: of symbols. is_open: whether these
    are not those of the script anyhow. is_long: whether to try what is faster for large matrices only. is_part:
    whether other parts of the samples are scored at the same time, so that no form starts threads.
    """
    form = Form(is_prepared=True, is_serial=False, flattens="none", joins_biases=True, cuts_images=not is_part)
    first = specialise(script, sizes, form)
    if first.general is None:  # it cannot be specialised
        return SpecialisedScript([program_of(script, shapes, sizes) if is_open else None], {})
    computed = _computed(first, engine)
    bounds = first.constants.bounds if first.constants is not None else ()
    if not all(name in computed and np.abs(engine.values(computed[name])).max() <= LARGEST_BOUND for name in bounds):
        form = replace(form, joins_biases=False)
        first = specialise(script, sizes, form)
        computed = _computed(first, engine)
    form = replace(form, hoisted=frozenset(computed))
    inputs = [f"constant{place}" for place, _ in enumerate(computed)]

    def program(form: Form) -> Program:
        made = specialise(script, sizes, form)
        names = made.constants.names if made.constants is not None else ()
        read = {name: (computed[name].rows, computed[name].cols) for name in names}
        return program_of(made, shapes, sizes, read)

    def recompiled(inlined: Collection[str]) -> Collection[str]:
        return engine.recompiled(program(replace(form, inlined=frozenset(inlined))), inputs)

    possible = inlinable(specialise(script, sizes, form))
    inlined = possible.intersection(recompiled(())) if possible else possible
    if inlined and script.function in recompiled(inlined):  # it would be each time, as a whole
        inlined = frozenset()
    form = replace(form, inlined=inlined)
    serial = replace(form, is_serial=True)
    wanted = [serial] if is_part else [form, serial]
    wanted += [replace(serial, flattens="all")] if is_long else []
    programs = dict.fromkeys(map(program, wanted))
    as_it_is = program_of(script, shapes, sizes)
    shown = [None if found == as_it_is and not is_open else found for found in programs]
    return SpecialisedScript(shown, computed)


def _computed(script: Script, engine: Engine) -> dict[str, ResultMatrix]:
    """The constants as inputs of calls, in the order of the script."""
    if script.constants is None:
        return {}
    matrices = engine.computed(script)
    fitting = _that_fit(matrices, script.constants.needed)
    return {name: fitting[name] for name in script.constants.names if name in fitting}


def _that_fit(matrices: Mapping[str, ResultMatrix], needed: int) -> dict[str, ResultMatrix]:
    """The first ``needed`` ones, and the smallest others until there is no room; those without elements stay."""
    names = [*matrices]
    fitting = {name: matrices[name] for name in names[:needed]}
    left = LARGEST_CONSTANTS
    for name in sorted(names[needed:], key=lambda name: matrices[name].size):
        matrix = matrices[name]
        left -= matrix.size
        if left >= 0 and matrix.rows and matrix.cols:
            fitting[name] = matrix
    return fitting
