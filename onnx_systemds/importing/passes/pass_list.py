"""The passes over a script, in their order."""

from __future__ import annotations

from collections.abc import Callable

from onnx_systemds.errors import counted
from onnx_systemds.importing.passes.aliases import without_aliases
from onnx_systemds.importing.passes.attention_calls import with_attention
from onnx_systemds.importing.passes.blocks.block_functions import with_blocks
from onnx_systemds.importing.passes.call_cuts import with_call_cuts
from onnx_systemds.importing.passes.checked_sizes import with_checked_sizes
from onnx_systemds.importing.passes.constant_arguments import with_constant_arguments
from onnx_systemds.importing.passes.declared_sizes import with_declared_sizes
from onnx_systemds.importing.passes.equal_counts import with_equal_counts
from onnx_systemds.importing.passes.lone_cuts import with_lone_cuts
from onnx_systemds.importing.passes.loop_functions import with_loop_functions
from onnx_systemds.importing.passes.loop_sizes import with_kept_sizes
from onnx_systemds.importing.passes.merged_slices import with_merged_slices
from onnx_systemds.importing.passes.named_products import with_named_products
from onnx_systemds.importing.passes.named_sizes import with_named_sizes
from onnx_systemds.importing.passes.plain_expressions import with_plain_expressions
from onnx_systemds.importing.passes.probed_sizes import without_probed_sizes
from onnx_systemds.importing.passes.products_of_sizes import with_binary_products
from onnx_systemds.importing.passes.scope_comments import with_scope_comments
from onnx_systemds.importing.passes.shared_expressions import with_shared_expressions
from onnx_systemds.importing.passes.single_shapes import with_single_shapes
from onnx_systemds.importing.passes.single_uses import with_single_uses
from onnx_systemds.importing.passes.specialisation.specialise import (
    for_callers_of_known_sizes,
    specialise,
    with_hoisted_constants,
    with_split_loads,
)
from onnx_systemds.importing.passes.split_joins import with_split_joins
from onnx_systemds.importing.passes.zero_biases import without_zero_biases
from onnx_systemds.importing.script import Script
from onnx_systemds.stages import Stages

ScriptPass = Callable[[Script], Script]

FOR_OPEN_SIZES: tuple[ScriptPass, ...] = (with_attention, with_hoisted_constants, for_callers_of_known_sizes)
"""What is done with a script that cannot be specialised, as its sizes are open."""

SCRIPT_PASSES: tuple[ScriptPass, ...] = (
    with_split_loads,
    with_loop_functions,
    with_shared_expressions,
    without_aliases,
    with_single_shapes,
    with_merged_slices,
    with_named_products,
    with_named_sizes,
    with_binary_products,
    with_call_cuts,
    with_checked_sizes,
    without_zero_biases,
    with_single_uses,
    with_plain_expressions,
    with_declared_sizes,
    without_probed_sizes,
    with_kept_sizes,
    with_equal_counts,
    with_split_joins,
    with_lone_cuts,
    with_scope_comments,
)
"""After blocks were found; each changes the statements that those before it left."""

_SPECIALISING: frozenset[ScriptPass] = frozenset((
    with_split_loads, with_loop_functions, with_merged_slices, without_zero_biases, with_single_uses,
    with_plain_expressions,
))
"""Those that only a script gets which may be specialised."""


def with_passes(
    script: Script, stages: Stages, functions: str | None, *, specialised: bool, trained: bool = False
) -> Script:
    """The script after all passes.

    functions: those of repeated blocks, see `import_model`. specialised: whether the script may be specialised.
    trained: whether a program may train its weights, of which nothing is computed once, then.
    """
    script = with_constant_arguments(script)
    if specialised:
        with stages.stage("specialise"):
            script = script if trained else specialise(script, {})
            for apply in FOR_OPEN_SIZES if script.general is None else ():
                script = script if trained and apply is with_hoisted_constants else apply(script)
    if functions not in ("flat", "keep"):
        with stages.stage("find blocks") as words:
            script = with_blocks(script, always=functions == "blocks")
            words.append(counted(len(script.functions), "function"))
    for apply in SCRIPT_PASSES:
        script = apply(script) if specialised or apply not in _SPECIALISING else script
    return script
