"""What the values of a model are called in its script, where the model names them by paths or by numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from onnx_systemds.dml.module_paths import NUMBERED, beginning_in, is_path, short_names, shortened
from onnx_systemds.inference.passes.differentiation import words_of
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import has_known_elements
from onnx_systemds.model.ir import Model, Node
from onnx_systemds.model.walk import nodes_of_model

_ROLES = ("", "weight", "bias")  # of an input, by its place: of Conv, Gemm, MatMul and the norms


def short_value_names(model: Model, main: TypedGraph) -> dict[str, str]:
    """What to call values that the model names so, but for inputs and outputs of its graph.

    Constants are apart from what is computed: they tell of no module that makes more than one value.
    """
    nodes = [*nodes_of_model(model.graph, model.functions)]
    written = {name for name in chain(model.graph.initializers, *(node.outputs for node in nodes)) if is_path(name)}
    known: list[str] = []
    computed: list[str] = []
    for graph in _with_bodies(main) if written else ():
        for name, value in graph.own.items():
            (known if value.content is not None or has_known_elements(value) else computed).append(name)
    found: dict[str, str] = {}
    for names in (known, computed):
        found |= short_names(dict.fromkeys(beginning_in(name, written) for name in names))
    found |= _of_their_readers(found, reversed(nodes))
    for name in chain.from_iterable(graph.own for graph in _with_bodies(main)):
        before, of = words_of(name)
        if of:
            found[name] = before + shortened(of, found)
    return {name: short for name, short in found.items() if name not in main.inputs and name not in main.outputs}


def _with_bodies(main: TypedGraph) -> list[TypedGraph]:
    """A graph, and all graphs in it."""
    found = [main]
    for graph in found:
        found += graph.bodies.values()
    return found


def _of_their_readers(named: Mapping[str, str], nodes: Iterable[Node]) -> dict[str, str]:
    """Constants that have numbers for names, after a node that reads them: its weight or its bias."""
    found: dict[str, str] = {}
    for node in nodes:
        for place, name in enumerate(node.inputs):
            if name.startswith(NUMBERED) and name in named and 0 < place < len(_ROLES) and name not in found:
                made = node.outputs[0]
                found[name] = f"{named.get(made) or next(iter(short_names([made]).values()), made)}_{_ROLES[place]}"
    return found
