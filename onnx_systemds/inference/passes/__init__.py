"""All passes over a graph, by stage and in their order.

Each is a function in a file of its own, which says what it rewrites to what, under which condition, and why. A pass is
called as its file is. It says what it did, and why it did not where one would expect it to; `Context.notes` keeps that.
At other operators than those of its ``NEEDS``, if it has such, it is not called, nor for a graph that has none of them;
a name alone is of an operator of ONNX.

Dead nodes, identities, inference-mode Dropout and reshapes need no pass: the reverse walk writes only what is demanded
(see `operators.rendering.scope`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from onnx_systemds.errors import quoted_list
from onnx_systemds.inference.inference_facts import Finding, InferenceFacts, Rewriting
from onnx_systemds.inference.notes import Notes, PassNotes
from onnx_systemds.inference.passes.cast_elimination import eliminate_casts
from onnx_systemds.inference.passes.common_subexpressions import eliminate_common_subexpressions
from onnx_systemds.inference.passes.constant_folding import fold_constants
from onnx_systemds.inference.passes.constants_to_initializers import constants_to_initializers
from onnx_systemds.inference.passes.continuations import continue_in_branches
from onnx_systemds.inference.passes.convolution_folding import fold_into_convolutions
from onnx_systemds.inference.passes.counted_ranges import count_range
from onnx_systemds.inference.passes.definitions import expand_definition
from onnx_systemds.inference.passes.differentiation import GRADIENT, differentiate
from onnx_systemds.inference.passes.direction_joining import join_directions
from onnx_systemds.inference.passes.elementwise_sinking import sink_elementwise
from onnx_systemds.inference.passes.function_inlining import inline_function
from onnx_systemds.inference.passes.gather_hoisting import hoist_gather
from onnx_systemds.inference.passes.gelu import join_gelu
from onnx_systemds.inference.passes.hard_swish import join_hard_swish
from onnx_systemds.inference.passes.horizontal_fusion import fuse_products
from onnx_systemds.inference.passes.identity_gathers import replace_identity_gather
from onnx_systemds.inference.passes.known_branches import choose_known_branch
from onnx_systemds.inference.passes.known_lists import resolve_known_lists
from onnx_systemds.inference.passes.layer_normalization import join_layer_normalization
from onnx_systemds.inference.passes.loop_states import drop_loop_states
from onnx_systemds.inference.passes.own_samples import take_from_own_samples
from onnx_systemds.inference.passes.padded_slices import pad_before_slice
from onnx_systemds.inference.passes.product_folding import fold_into_products
from onnx_systemds.inference.passes.ramp_uses import use_ramps
from onnx_systemds.inference.passes.ramps import follow_ramps
from onnx_systemds.inference.passes.requantization import drop_requantization
from onnx_systemds.inference.passes.row_normalization import drop_row_normalization
from onnx_systemds.inference.passes.samples_first import put_samples_first
from onnx_systemds.inference.passes.scanned_distances import join_distances
from onnx_systemds.inference.passes.shape_arithmetic import follow_sizes
from onnx_systemds.inference.passes.signed_shifts import shift_signed
from onnx_systemds.inference.passes.single_comparisons import compare_unrounded
from onnx_systemds.inference.passes.transpose_sinking import sink_transposes
from onnx_systemds.inference.passes.transposed_products import transpose_in_product
from onnx_systemds.inference.passes.unit_splits import split_into_single_places
from onnx_systemds.inference.passes.zero_states import drop_zero_states
from onnx_systemds.inference.plugin_rewrites import rewritten_by_plugins
from onnx_systemds.inference.registry import Identity, rewrites
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Node
from onnx_systemds.model.trainable import with_weights_as_inputs, with_weights_of
from onnx_systemds.model.walk import all_nodes

Found = TypeVar("Found")
GraphPass = Callable[[Graph, PassNotes], Graph]
NodePass = Callable[[InferenceFacts], Rewriting]
ContentPass = Callable[[InferenceFacts, tuple[Value, ...]], Finding]
RestPass = Callable[[InferenceFacts, Sequence[Value], Sequence[Node], Graph], Rewriting]

GRAPH_PASSES: tuple[GraphPass, ...] = (
    constants_to_initializers,
    drop_loop_states,
    eliminate_casts,
    sink_transposes,
    join_hard_swish,
    join_gelu,
    drop_row_normalization,
    join_layer_normalization,
    fold_into_convolutions,
    fuse_products,
    fold_into_products,
    join_directions,
    eliminate_common_subexpressions,
)
"""Before types are known: simplifications of a whole graph (not with ``--no-simplify``, nor with a Gradient in it)."""

CALL_PASSES: tuple[NodePass, ...] = (inline_function,)
"""At each node that calls a function of the model, of which the inputs' types are known."""

NODE_PASSES: tuple[NodePass, ...] = (
    choose_known_branch,
    differentiate,
    split_into_single_places,
    resolve_known_lists,
    pad_before_slice,
    shift_signed,
    compare_unrounded,
    expand_definition,
)
"""At each other node, given the types of its inputs and the nodes before it: what needs another form in a script."""

SIMPLIFYING_NODE_PASSES: tuple[NodePass, ...] = (
    join_distances,
    transpose_in_product,
    drop_requantization,
    sink_elementwise,
    replace_identity_gather,
    count_range,
    use_ramps,
    take_from_own_samples,
    drop_zero_states,
)
"""As `NODE_PASSES`, after them: what is less work so (not with ``--no-simplify``, nor in models with a Gradient)."""

CONTENT_PASSES: tuple[ContentPass, ...] = (fold_constants, follow_sizes, follow_ramps)
"""At each node whose outputs' types are known: what these hold, where that is known."""

REST_PASSES: tuple[RestPass, ...] = (continue_in_branches,)
"""At each node whose outputs' types are known, given the nodes after it."""

SIMPLIFYING_REST_PASSES: tuple[RestPass, ...] = (put_samples_first, hoist_gather)
"""As `REST_PASSES`: what is less work so (not with ``--no-simplify``, nor in models with a Gradient)."""


def name_of(apply: Callable[..., Any]) -> str:
    """The name of a pass, as notes say it and ``--no-pass`` takes it."""
    return apply.__module__.rpartition(".")[2].replace("_", "-")


def _is_needed(apply: Callable[..., Any], operators: Collection[Identity]) -> bool:
    """Whether a pass may have something to do at nodes of these operators."""
    needs: tuple[str | Identity, ...] | None = sys.modules[apply.__module__].__dict__.get("NEEDS")
    return needs is None or any((("", need) if isinstance(need, str) else need) in operators for need in needs)


OPTIONAL_PASSES = (
    *map(name_of, GRAPH_PASSES), *map(name_of, SIMPLIFYING_NODE_PASSES), *map(name_of, SIMPLIFYING_REST_PASSES)
)
"""The names of passes that a conversion can do without: those that simplify."""


LAYER_CHANGING_PASSES = frozenset(
    name_of(apply) for apply in (fold_into_convolutions, fold_into_products, fuse_products, sink_elementwise)
)
"""Those after which layers, or their weights, are others than those that were trained."""


def check_omitted(omitted: Collection[str]) -> None:
    """Raise ValueError for names of passes that a conversion cannot do without, or does not have."""
    optional = (*OPTIONAL_PASSES, *rewrites)
    if unknown := sorted({*omitted}.difference(optional)):
        raise ValueError(f"there is no pass {quoted_list(unknown)} to omit; there are {', '.join(optional)}")


def simplify(graph: Graph, notes: Notes, omitted: Collection[str] = ()) -> Graph:
    """Apply the passes of the first stage, but for those of these names; the results of the graph stay equal.

    Those of plugins come first: they see the nodes that the model has. A Gradient has to find all values as they are:
    a weight that went into another one has no derivative.
    """
    if any(node.identity == GRADIENT for node in all_nodes(graph.nodes)):
        return graph
    if graph.trainable:
        return with_weights_of(simplify(with_weights_as_inputs(graph), notes, omitted), graph)
    graph = rewritten_by_plugins(graph, notes, omitted)
    operators = {node.identity for node in graph.nodes}
    for apply in GRAPH_PASSES:
        if name_of(apply) in omitted or not _is_needed(apply, operators):
            continue
        changed = apply(graph, notes.of(name_of(apply)))
        if changed is not graph:
            graph, operators = changed, {node.identity for node in changed.nodes}
    return graph


def rewritten(facts: InferenceFacts) -> tuple[Node, ...] | None:
    """The nodes that stand for a node and for those before it on which it depends, None where it stays.

    Raises TranspileError for a node that certainly cannot be converted.
    """
    if facts.context.function_of(facts.node) is not None:
        passes = CALL_PASSES
    else:
        passes = _passes_at(facts.node.identity, facts.context.simplify)
    omitted = facts.context.omitted
    return _first(facts, ((apply, apply(facts)) for apply in passes if not omitted or name_of(apply) not in omitted))


def _first(
    facts: InferenceFacts, found: Iterable[tuple[Callable[..., Any], tuple[Found, str] | str | None]]
) -> Found | None:
    """What the first pass that does something makes of a node; notes what it did, and why those before it did not."""
    for apply, made in found:
        if isinstance(made, str):
            facts.context.notes.of(name_of(apply)).left(facts.node, made)
        elif made is not None:
            facts.context.notes.of(name_of(apply)).fired(facts.node, made[1])
            return made[0]
    return None


@lru_cache(maxsize=1024)
def _passes_at(operator: Identity, simplify: bool) -> tuple[NodePass, ...]:
    passes = (*NODE_PASSES, *SIMPLIFYING_NODE_PASSES) if simplify else NODE_PASSES
    return tuple(apply for apply in passes if _is_needed(apply, (operator,)))


def with_contents(facts: InferenceFacts, outputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """The outputs of a node with what is known of their contents."""
    if not outputs:
        return outputs
    return _first(facts, ((apply, apply(facts, outputs)) for apply in CONTENT_PASSES)) or outputs


def rest_rewritten(
    facts: InferenceFacts, outputs: Sequence[Value], rest: Sequence[Node], graph: Graph
) -> tuple[Node, ...] | None:
    """The nodes that stand for a node with these outputs and for the rest of its graph, None where they stay."""
    context = facts.context
    passes = (*REST_PASSES, *SIMPLIFYING_REST_PASSES) if context.simplify else REST_PASSES
    wanted = (apply for apply in passes if not context.omitted or name_of(apply) not in context.omitted)
    return _first(facts, ((apply, apply(facts, outputs, rest, graph)) for apply in wanted))
