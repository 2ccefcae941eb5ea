"""The derivatives of what a program explains by all columns of the inputs, which integrated gradients are made of."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_systemds.dml.names import Names
from onnx_systemds.errors import quoted_list
from onnx_systemds.importing.interface import assigned_call, zeros_of
from onnx_systemds.importing.score_sites import FEATURES, columns_of, sizes_at_sites
from onnx_systemds.importing.score_variables import Program, Variable
from onnx_systemds.inference.values import FLOAT_DTYPES
from onnx_systemds.operators.api.reserved_names import WEIGHTS

CHOSEN, SLOPES = "chosen", "slopes"
"""The derivatives by the result, 1 where the answer of a row is, and what the function gives."""
DERIVED_BY = ("inputs",)
"""What the script is derived by, see `import_model`."""


def obstacle_to_slopes(program: Program) -> str:
    """Why results have no derivatives by all columns of the inputs, "" where they have."""
    others = [variable.port.name for variable in program.inputs if variable.port.dtype not in FLOAT_DTYPES]
    if others:
        return f"{quoted_list(others)} is not of floating-point numbers"
    derivatives = program.script.derivatives
    assert derivatives is not None
    if derivatives.seed or derivatives.statistics or derivatives.compares_rows:
        return "the model drops numbers, or normalizes by batches, as it trains: export it as one that infers"
    return ""


def slope_statements(program: Program, output: Variable) -> Iterator[str]:
    """The statements that derive the chosen columns of an output by the columns of the inputs side by side."""
    derivatives = program.script.derivatives
    assert derivatives is not None
    forward, backward = derivatives.forward, derivatives.backward
    inputs = [variable.name for variable in program.inputs]
    names = Names((FEATURES, CHOSEN, SLOPES, WEIGHTS, *inputs))
    known = dict(zip(forward.parameters, inputs)) | {WEIGHTS: WEIGHTS}
    results = {name: names.fresh(name) for name in forward.results}
    seeds = {
        seed: (names.fresh(seed), CHOSEN if port.name == output.port.name else zeros_of(results[result], port))
        for seed, result, port in zip(backward.parameters, forward.results, forward.outputs) if not port.is_of_passes
    }
    yield from columns_of(FEATURES, program, sizes_at_sites(program))
    arguments = [known[name] for name in forward.parameters]
    yield assigned_call(f"model::{forward.function}", arguments, [*results.values()])
    yield from (f"{name} = {value}" for name, value in seeds.values())
    known |= results | {seed: name for seed, (name, _) in seeds.items()}
    derived = [names.fresh(name) for name in backward.results]
    arguments = [known[name] for name in backward.parameters]
    yield assigned_call(f"model::{backward.function}", arguments, derived)
    joined = ", ".join(derived)
    yield f"{SLOPES} = cbind({joined})" if len(derived) > 1 else f"{SLOPES} = {joined}"
