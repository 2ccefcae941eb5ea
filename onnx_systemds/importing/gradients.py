"""Derivatives of a model by its weights and inputs, as further functions of its script.

``<main>_forward`` gives the results, and what ``<main>_backward`` needs. This takes derivatives of a loss by the
results before all else, as SystemDS's ``nn/layers`` do, and gives those by inputs, and a column of those by weights, in
the order of their keys. Weights that are derived by are trained: nothing is computed of them at conversion. Both passes
take them as such a column, which ``<main>_parameters`` makes of their list; ``<main>_trained`` makes the list of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callers
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.dml.rewrite import calling
from onnx_systemds.engine.matrix_files import Weight
from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted, quoted_list
from onnx_systemds.importing.batch_statistics import fresh, statistics_of
from onnx_systemds.importing.interface import KEPT, PARAMETERS, SEED, STATISTICS, Derivatives, Interface, Port
from onnx_systemds.importing.passes.kept_values import in_two
from onnx_systemds.importing.passes.lone_cuts import with_lone_cuts
from onnx_systemds.importing.passes.own_copies import with_own_copies
from onnx_systemds.importing.passes.seeded_draws import with_seed
from onnx_systemds.importing.passes.trained_column import (
    Column,
    check_main_alone,
    column_functions,
    column_of,
    with_column,
)
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.passes.differentiation import gradient_node, with_definitions
from onnx_systemds.inference.registry import untrained_inputs
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import FLOAT_DTYPES, Value
from onnx_systemds.model import protos
from onnx_systemds.model.ir import Array, Graph, Model, TensorType, ValueInfo
from onnx_systemds.model.walk import all_nodes, names_read
from onnx_systemds.operators.api.reserved_names import WEIGHTS

ALL = ("weights", "inputs")
"""What is derived by, in a word; other words are names of weights and inputs."""

_SCALING = (("", "Mul"), ("", "Div"))
_NORMALIZING = (("", "Sub"), ("", "Div"))
_SAME = (("", "Cast"), ("", "Flatten"), ("", "Identity"), ("", "Reshape"), ("", "Squeeze"), ("", "Transpose"),
         ("", "Unsqueeze"))
"""What gives the same numbers."""
_HIDING = -9999.0
"""As masks have it, or less, beside zeros."""


@dataclass(frozen=True, slots=True)
class Derived:
    """What a model is derived by, and which of its outputs are derived.

    statistics: those that BatchNormalizations move as they train.
    """

    weights: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    statistics: tuple[str, ...] = ()

    @property
    def moved(self) -> tuple[str, ...]:
        """The statistics that a program keeps: those beside weights that it trains."""
        return self.statistics if self.weights else ()

    @property
    def sources(self) -> tuple[str, ...]:
        """All that is derived by."""
        return self.inputs + self.weights


def candidates(graph: Graph, words: Sequence[str], fixed: Sequence[str] = ()) -> Derived:
    """What may be derived by, of ``weights`` but those that are ``fixed``, ``inputs``, and names of either.

    Raises InvalidModel.
    """
    inputs = {given.name for given in graph.inputs
              if isinstance(given.type, TensorType) and given.type.dtype in FLOAT_DTYPES}
    weights = {name for name, array in graph.initializers.items() if protos.dtype_of(array) in FLOAT_DTYPES}
    named, statistics = [word for word in words if word not in ALL], statistics_of(graph)
    if unknown := [name for name in fixed if name not in weights]:
        raise InvalidModel(f"{quoted_list(unknown)} is no weight of floating-point numbers")
    for name in named:
        if name not in inputs and name not in weights:
            near = get_close_matches(name, [*ALL, *inputs, *weights], 3)
            hint = f"there is {quoted_list(near)}" if near else f"give {quoted_list(ALL)}, or a name of either"
            raise InvalidModel(f"{quoted(name)} is no input and no weight of floating-point numbers", hint=hint)
    if still := [name for name in statistics if name in (*named, *fixed)]:
        raise InvalidModel(f"{quoted_list(still)} follows the batches, as its BatchNormalization trains",
                           hint="export the model as one that infers, in PyTorch with this layer in eval()")
    wanted = {*named, *(inputs if "inputs" in words else ())}
    if "weights" in words:
        left = {*_left(graph), *_normalizing(graph), *fixed}
        wanted.update(name for name in weights - left if _is_weight(graph.initializers[name]))
    of_inputs = tuple(given.name for given in graph.inputs if given.name in wanted)
    of_weights = tuple(name for name in graph.initializers if name in wanted)
    if not wanted:
        hint = f"others are derived by where --gradient names them: {quoted_list(sorted(weights))}" if weights else (
            "coefficients that are attributes of a node are no weights" if "weights" in words and graph.nodes else "")
        raise InvalidModel(f"the model has no {' and no '.join(words)} of floating-point numbers", hint=hint)
    return Derived(of_weights, of_inputs, _depending(graph, wanted), statistics)


def _left(graph: Graph) -> set[str]:
    """What nodes read that training leaves as it is: statistics, exponents, and single numbers as factors."""
    single = {name for name, array in graph.initializers.items() if array.size == 1}
    return {name for node in all_nodes(graph.nodes) for place, name in enumerate(node.inputs)
            if place in untrained_inputs.get(node.identity, ()) or (name in single and node.identity in _SCALING)}


def _normalizing(graph: Graph) -> set[str]:
    """What is subtracted from features of inputs, or divides them: means and deviations of what was trained on."""
    inputs, found = {given.name for given in graph.inputs}, set[str]()
    of_features = {name for name, array in graph.initializers.items() if sum(size > 1 for size in array.shape) <= 1}
    for node in graph.nodes:
        is_same = node.identity in _SAME
        if node.inputs and node.inputs[0] in inputs and (
                is_same or (node.identity in _NORMALIZING and node.inputs[1] in of_features)):
            inputs.update(node.outputs)
            found.update(() if is_same else node.inputs[1:])
    return found


def _is_weight(array: Array) -> bool:
    """Whether an initializer has more than one number, and is no mask, which has zeros and what hides others."""
    if array.ndim == 0:
        return False
    if not array.size or float(array.min()) > _HIDING:
        return True
    hides = array.astype(np.float64) <= _HIDING
    return bool((array[~hides] != 0).any()) or bool(hides.all())


def _depending(graph: Graph, sources: Collection[str]) -> tuple[str, ...]:
    """The outputs that nodes compute of some values."""
    reached = {*sources}
    for node in graph.nodes:
        if not reached.isdisjoint(names_read(node)):
            reached.update(node.outputs)
    return tuple(output.name for output in graph.outputs if output.name in reached.difference(sources))


def with_gradients(model: Model, typed: TypedGraph, derived: Derived, moved: str = "") -> Model:
    """The model whose outputs are its own and the derivatives by `Derived.sources`.

    Its last inputs are derivatives by its own outputs. typed: the graph of the model. moved: the output with statistics
    of batches, "" if there is none. Raises UnsupportedCase where no output is of floating-point numbers.
    """
    graph, taken = model.graph, {*typed.own}
    outputs = [name for name in derived.outputs if typed.values[name].dtype in FLOAT_DTYPES]
    if not outputs:
        raise UnsupportedCase(f"no output of floating-point numbers depends on {quoted_list(derived.sources)}")
    seeds = {name: fresh(f"d_{name}", taken) for name in outputs}
    results = [fresh(f"d_{name}", taken) for name in derived.sources]
    seeded = (*seeds, *([moved] if derived.moved else []))
    of_inputs = {symbol for name in typed.inputs for symbol in dim.symbols(typed.values[name].dims or ())}
    types = {name: _declared(typed.values[name], of_inputs) for name in seeds}
    given = tuple(ValueInfo(seed, types[name]) for name, seed in seeds.items())
    node = gradient_node(derived.sources, results, seeds)
    writer = NodeWriter(node, "d", 18)
    for name, seed in seeds.items():
        seeds[name] = _as_output(writer, seed, types[name], name, typed.values[name].dims or ())
    node = gradient_node(derived.sources, results, seeds)
    defined = with_definitions(graph.nodes, typed.values, derived.sources, outputs)
    return replace(model, graph=replace(
        graph, inputs=(*graph.inputs, *given), outputs=tuple(ValueInfo(name, None) for name in (*seeded, *results)),
        nodes=(*defined, *writer.nodes, node),
    ))


def _as_output(writer: NodeWriter, seed: str, declared: TensorType, name: str, dims: Dims) -> str:
    """A derivative by an output with the dims of that; the only one that the run decides it has already."""
    own = declared.dims or ()
    left = [size for size, mine in zip(dims, own) if mine is None]
    if not left or (len(own) == len(dims) and len(left) == 1 and dim.depends_on_run(left)):
        return seed
    return writer.emit("Reshape", seed, writer.emit("Shape", name), allowzero=1)


def _is_declared(size: Dim, symbols: Collection[str]) -> bool:
    """Whether a size is a number or a symbol of inputs."""
    return isinstance(size, int) or dim.lone_symbol(size) in symbols


def _declared(value: Value, symbols: Collection[str]) -> TensorType:
    """The type of the derivative of a value. One whose sizes do not follow from rows and columns is a matrix."""
    if value.dims is None:
        return TensorType(value.dtype, None)
    dims = tuple(None if not _is_declared(size, symbols) else size if isinstance(size, int) else dim.lone_symbol(size)
                 for size in value.dims)
    others = [size for size in dims[1:] if not isinstance(size, int)]
    return TensorType(value.dtype, dims if None not in others or others == [None] else (dims[0], None))


def with_influence(derived: Derived, typed: TypedGraph) -> Derived:
    """Without the weights whose derivatives are known to be zero, as those that only decide sizes.

    typed: the graph of `with_gradients` for known weights. Raises InvalidModel if nothing is left.
    """
    by_source = dict(zip(derived.sources, typed.outputs[-len(derived.sources) :]))

    def has_influence(name: str) -> bool:
        constant = typed.values[by_source[name]].constant
        return constant is None or bool(constant.any())

    found = replace(derived, weights=tuple(filter(has_influence, derived.weights)))
    if not found.sources:
        raise InvalidModel(f"the derivatives by {quoted_list(derived.weights)} are zero")
    return found


def with_trainable(model: Model, weights: Collection[str]) -> Model:
    """The model of whose weights some may be trained."""
    return replace(model, graph=replace(model.graph, trainable=frozenset(weights)))


def weights_behind(graph: Graph, derived: Derived) -> dict[str, frozenset[str]]:
    """The weights that each output depends on, of those that are derived by."""
    found = {}
    for output in derived.outputs:
        reached = {output}
        for node in reversed(graph.nodes):
            if not reached.isdisjoint(node.outputs):
                reached.update(names_read(node))
        found[output] = frozenset(reached.intersection(derived.weights))
    return found


def with_derivatives(
    script: Script, both: Script, trained: Mapping[str, str], moved: Mapping[str, str],
    behind: Mapping[str, frozenset[str]], *, compares_rows: bool = False,
) -> Script:
    """The script of a model with the functions of its derivatives.

    both: the script of `with_gradients`, of forward and backward pass. trained: ONNX names of weights, by key; moved:
    of statistics, in their order. behind: `weights_behind`. compares_rows: `Derivatives.compares_rows`.
    """
    weights = {weight.name: weight for weight in (*script.weights, *both.weights)}
    names = {key: trained[key] for key in sorted(trained)}
    passes, derivatives, columns = _in_two(both, script, weights, names, moved)
    derivatives = replace(derivatives, behind=behind, compares_rows=compares_rows)
    functions = {function.name: function for function in (*script.library, *script.functions)}
    renamed = _renamed(functions, (*passes.library, *passes.functions))
    library, own = _apart(
        script.function, derivatives, (*script.library, *_own(passes.library, functions, renamed)),
        (*script.functions, *_own(passes.functions, functions, renamed)),
    )
    of_column = column_functions(script.function, columns)
    sources = {source.path: source for source in (*script.sources, *both.sources)}
    return replace(
        script, library=library, functions=(*own, *of_column), weights=tuple(weights[key] for key in sorted(weights)),
        sources=tuple(sources[path] for path in sorted(sources)), derivatives=derivatives,
    )


def _apart(
    main: str, derivatives: Derivatives, library: tuple[tree.Function, ...], functions: tuple[tree.Function, ...]
) -> tuple[tuple[tree.Function, ...], tuple[tree.Function, ...]]:
    """The functions of the library, and others; those that programs call share none with numbers."""
    names = (main, derivatives.forward.function, derivatives.backward.function)
    known = {function.name: function for function in functions}
    callees = {function.name: function for function in (*library, *functions) if function.name not in names}
    entries, copies = with_own_copies([known[name] for name in names], callees)
    changed = {entry.name: entry for entry in entries}

    def with_copies(every: tuple[tree.Function, ...]) -> tuple[tree.Function, ...]:
        return tuple(it for function in every
                     for it in (changed.get(function.name, function), *copies.get(function.name, ())))

    return with_copies(library), with_copies(functions)


def _in_two(
    both: Script, script: Script, weights: Mapping[str, Weight], trained: Mapping[str, str], moved: Mapping[str, str]
) -> tuple[Script, Derivatives, tuple[Column, ...]]:
    """The script with a function for each pass, their signatures, and the columns of weights and of statistics."""
    count = len(script.inputs)
    seeds = both.inputs[count:]
    names = [parameter.name for parameter in both.main.parameters[count : len(both.inputs)]]
    given = len(seeds) + bool(moved)
    *passes, kept = in_two(both.main, both.callees, names, script.main, given, len(both.returned))
    kinds = {PARAMETERS: trained, STATISTICS: moved}
    columns = {kind: column_of([weights[key] for key in keys], passes, kind) for kind, keys in kinds.items()}
    ports = [Port(column.name, "float", (), kind, keys=tuple(kinds[kind])) for kind, column in columns.items()]
    others = [function for function in both.functions if function is not both.main]
    for column in columns.values():
        check_main_alone((*others, *both.library), column)
        passes = [with_column(function, column) for function in passes]
    forward, seed = with_seed(passes[0], passes)
    backward = passes[1]
    ports += [Port(seed, "int64", (), SEED)] if seed else []
    values = tuple(Port(parameter.name, "float", (), KEPT) for parameter in kept)
    own = {result.name for result in both.main.results[:given]}
    returned = tuple(port for port in values if port.name not in own)
    results = [replace(port, kind=STATISTICS) if place == len(seeds) else port
               for place, port in enumerate(both.outputs[:given])]
    derivatives = Derivatives(
        _signature(both, forward, both.inputs[:count], (*results, *returned), ports),
        _signature(both, backward, (*seeds, *values, *both.inputs[:count]), both.outputs[given:], ports),
        columns[PARAMETERS].name if trained else "", trained, {}, moved,
        (columns[STATISTICS].name, forward.results[len(seeds)].name) if moved else ("", ""), seed,
    )
    changed = replace(both, functions=(*others, forward, backward))
    return with_lone_cuts(changed), derivatives, tuple(column for column in columns.values() if column.weights)


def _signature(
    both: Script, function: tree.Function, inputs: Sequence[Port], outputs: Sequence[Port], columns: Sequence[Port]
) -> Interface:
    """The signature of one pass."""
    names, results = ([it.name for it in given] for given in (function.parameters, function.results))
    ports = [*inputs, *(column for column in columns if column.name in names)]
    returned = both.returned if len(results) > len(outputs) else ()
    return Interface(function.name, tuple(names), tuple(results), tuple(ports), tuple(outputs), both.sizes, returned,
                     both.interface.weights if WEIGHTS in names else 0)


def _renamed(known: Mapping[str, tree.Function], others: Sequence[tree.Function]) -> dict[str, str]:
    """New names for functions that are not those of the same name, nor call what these call."""
    shared = {function.name for function in others if function.name in known
              and print_statement(function) == print_statement(known[function.name])}
    every = {function.name for function in others}
    own = callers(others, every - shared)
    names = Names([*known, *every])
    return {function.name: names.fresh(function.name) for function in others
            if function.name in own and function.name in known}


def _own(
    functions: Iterable[tree.Function], known: Mapping[str, tree.Function], names: Mapping[str, str]
) -> Iterator[tree.Function]:
    """The functions that are not known, by names that are not."""
    for function in functions:
        if function.name in names:
            yield replace(calling(names, function), name=names[function.name])
        elif function.name not in known:
            yield calling(names, function)
