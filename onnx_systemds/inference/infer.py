"""Forward inference: dtype and dims of every value, known contents, and expanded definitions.

Each node is inferred by the shape rule of its operator, else by ONNX's inference of that single node with our dims as
named dimensions. A size that neither knows becomes a symbol, which the script defines when it runs.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace

import numpy as np

from onnx_systemds.errors import (
    TYPE_ADVICE,
    ConstantNeeded,
    InvalidModel,
    ShapeUnknown,
    TranspileError,
    UnsupportedCase,
    UnsupportedOperator,
    quoted,
)
from onnx_systemds.inference.assumptions import Assumption
from onnx_systemds.inference.context import Context
from onnx_systemds.inference.dims import Dim, Expression, depends_on_run, substitute, symbol, symbols
from onnx_systemds.inference.facts import NodeFacts, find_any_schema, is_unknown_size
from onnx_systemds.inference.finite_numbers import with_finiteness
from onnx_systemds.inference.inference_facts import InferenceFacts
from onnx_systemds.inference.lists import declared_list
from onnx_systemds.inference.local_functions import call_values
from onnx_systemds.inference.onnx_inference import infer_by_onnx, unsupported
from onnx_systemds.inference.passes import rest_rewritten, rewritten, with_contents
from onnx_systemds.inference.passes.continuations import check_one_rank
from onnx_systemds.inference.passes.differentiation import GRADIENT
from onnx_systemds.inference.registry import find, operator_generators, shape_rules, wrong_result
from onnx_systemds.inference.run_sizes import RunSizes
from onnx_systemds.inference.service import service_of
from onnx_systemds.inference.signatures import check_inputs, refusal_of
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import FAILED, INTEGER_DTYPES, Value, constant_value, weight_value
from onnx_systemds.limits import TooManyNodes, check_results
from onnx_systemds.model import protos
from onnx_systemds.model.contrib_schemas import unknown_parts
from onnx_systemds.model.ir import (
    Array,
    Graph,
    MapType,
    Node,
    OptionalType,
    SequenceType,
    SparseTensor,
    SparseTensorType,
    TensorType,
    ValueInfo,
)
from onnx_systemds.model.tensors import written_out

_REAL = "DML has real numbers only: convert a part without it, by --from and --to"


def infer(graph: Graph, context: Context) -> TypedGraph:
    """Infer the main graph. Reasons against the conversion are collected in ``context.errors``."""
    values: dict[str, Value] = {}
    functions = [function.nodes for function in context.functions.values()]
    if any(node.identity == GRADIENT for nodes in (graph.nodes, *functions) for node in nodes):
        context.simplify = False
    for given in graph.inputs:
        values[given.name] = declared_value(given, context)
        if isinstance(given.type, SparseTensorType):
            message = f"the input {quoted(given.name)} is a sparse tensor, which no operator takes"
            hint = "declare it as a tensor: the engine stores a matrix with few nonzeros as sparse by itself"
            context.errors.add(UnsupportedCase(message, hint=hint))
            values[given.name] = FAILED
        elif given.type is None:
            message = f"the model declares no type for its input {quoted(given.name)}"
            context.errors.add(ShapeUnknown(message, hint=TYPE_ADVICE))
            values[given.name] = FAILED
        elif _is_complex(values[given.name]):
            context.errors.add(UnsupportedCase(f"the input {quoted(given.name)} is complex", hint=_REAL))
            values[given.name] = FAILED
    typed = _infer_nodes(graph, values, values, context)
    for output in graph.outputs:
        _check_declared(output, typed.values[output.name], context)
        if output.name in graph.initializers and _is_complex(typed.values[output.name]):
            context.errors.add(UnsupportedCase(f"the output {quoted(output.name)} is complex", hint=_REAL))
        try:
            check_one_rank(typed, output.name)
        except ShapeUnknown as error:
            context.errors.add(error)
    if not graph.outputs:
        context.errors.add(InvalidModel("the graph has no outputs: there is nothing to convert"))
    return typed


def _is_complex(value: Value) -> bool:
    return value.dtype.startswith("complex") or (value.element is not None and _is_complex(value.element))


def _check_declared(output: ValueInfo, value: Value, context: Context) -> None:
    """Add a reason for each output whose declared type differs from the inferred one; dims are not compared."""
    if output.type is None or value is FAILED or value.keys:
        return
    declared, computed = (
        "a list" if isinstance(type_, (SequenceType, OptionalType)) else dtype
        for type_, dtype in ((output.type, getattr(output.type, "dtype", "")), (value.type, value.dtype))
    )
    if declared and computed and declared != computed:
        context.errors.add(
            InvalidModel(f"the output {quoted(output.name)} is declared as {declared}, its nodes compute {computed}")
        )


def infer_body(graph: Graph, inputs: Sequence[Value], outer: Mapping[str, Value], context: Context) -> TypedGraph:
    """Infer a sub-graph for known inputs; names that it does not define are looked up in ``outer``."""
    # a weight that is given to it is an input as any other; what it is given another time may be infinite
    own: dict[str, Value] = {given.name: replace(value, weight=None, is_finite=False)
                             for given, value in zip(graph.inputs, inputs)}
    return _infer_nodes(graph, own, ChainMap(own, _writable(outer)), context)


def declared_value(given: ValueInfo, context: Context) -> Value:
    """The dtype and dims that the model declares for an input; an unnamed dim gets a symbol of its own."""
    if isinstance(given.type, TensorType):
        return Value(given.type.dtype, context.dims(given.type.dims, given.name))
    if isinstance(given.type, (SequenceType, OptionalType)):
        return declared_list(given.type)
    if isinstance(given.type, MapType) and isinstance(given.type.value, TensorType):
        # two columns, the keys and the values; of text where either is
        dtypes = (given.type.key, given.type.value.dtype)
        dims = context.dims((None, 2), given.name)
        return Value("string" if "string" in dtypes else dtypes[1], dims, type=given.type)
    return Value("", None, type=given.type)


def _infer_nodes(graph: Graph, own: dict[str, Value], values: Mapping[str, Value], context: Context) -> TypedGraph:
    for name, array in graph.initializers.items():
        own[name] = weight_value(array) if name in graph.trainable else constant_value(array)
    nodes: list[Node] = []
    bodies: dict[tuple[int, str], TypedGraph] = {}
    sizes: dict[int, tuple[str, ...]] = {}
    assumptions: dict[int, Sequence[Assumption]] = {}
    run_sizes = RunSizes(nodes, values, context.fresh_symbol)
    waiting, makers = deque(graph.nodes), {}  # type: deque[Node], dict[str, Node]
    remembered: dict[str, object] = {}
    carried: list[Assumption] = []  # of nodes that others replace: the next one has them
    while waiting:
        node = waiting.popleft()
        facts = InferenceFacts(node, values, graph.name, context, infer_body, makers, remembered)
        facts.run_sizes = run_sizes
        try:
            found = _outputs(facts, waiting, graph)
            if found is None:
                carried += facts.assumptions
                continue
            outputs, decided = _new_symbols(found, node, context)
            if any(map(_is_complex, outputs)):
                raise UnsupportedCase("the result is complex", hint=_REAL)
            if carried or facts.assumptions:
                assumptions[len(nodes)] = [*carried, *facts.assumptions]
                carried = []
            if decided:
                sizes[len(nodes)] = decided
        except TooManyNodes as error:
            error.place = error.place or facts.place
            raise
        except TranspileError as error:
            context.errors.add(_placed(error, facts, run_sizes))
            outputs = (FAILED,) * len(node.outputs)
        except Exception as error:
            context.errors.add(refusal_of(error, facts))
            outputs = (FAILED,) * len(node.outputs)
        for name, value in zip(node.outputs, outputs):
            if name:
                own[name] = _with_declared(value, graph.value_info.get(name), context)
        for name, typed in facts.bodies.items():
            bodies[len(nodes), name] = typed
        nodes.append(node if node.index == len(nodes) else replace(node, index=len(nodes)))
        makers.update((name, nodes[-1]) for name in node.outputs if name)
    return TypedGraph(
        name=graph.name,
        doc_string=graph.doc_string,
        inputs=tuple(given.name for given in graph.inputs),
        outputs=tuple(output.name for output in graph.outputs),
        nodes=tuple(nodes),
        own=own,
        values=values,
        bodies=bodies,
        sizes=sizes,
        run_sizes=run_sizes,
        assumptions=assumptions,
        source=graph,
    )


def _outputs(facts: InferenceFacts, waiting: deque[Node], graph: Graph) -> tuple[Value, ...] | None:
    """The outputs of a node; None if other nodes replace it, which are then put into the queue."""
    node, values, context = facts.node, facts.values, facts.context
    context.count_node()
    if any(values.get(name) is FAILED for name in node.inputs):
        return _after_failure(facts)
    if context.function_of(node) is None:
        check_inputs(facts)
        _check_parts(node)
    replacement = rewritten(facts)
    if replacement is not None:
        waiting.extendleft(reversed(replacement))
        return None
    outputs = _infer_node(facts)
    known = (value.size for value in outputs if value.is_known_size)
    check_results((values[name].size for name in node.inputs if name), known)
    rest = rest_rewritten(facts, outputs, waiting, graph)
    if rest is None:
        return outputs
    facts.assumptions.clear()  # the rest makes its own
    waiting.clear()
    waiting.extend(rest)
    return None


def _placed(error: TranspileError, facts: InferenceFacts, run_sizes: RunSizes) -> TranspileError:
    """An error with the place of its node, and with the values whose contents would help."""
    error.place = error.place or facts.place
    if isinstance(error, ConstantNeeded):
        error.sources = _integer_sources(error.value_name, facts)
    elif isinstance(error, (ShapeUnknown, UnsupportedCase)):
        error.sources = run_sizes.sources
    return error


def _check_parts(node: Node) -> None:
    """Raise UnsupportedCase for inputs and attributes that an operator of onnxruntime does not have."""
    if find_any_schema(node.domain, node.op_type, node.version) is not None:
        return  # an operator that ONNX has now
    if unknown := unknown_parts(node.domain, node.op_type, node.inputs, node.attributes):
        raise UnsupportedCase(f"{' and '.join(unknown)}: not known of this operator of onnxruntime")


def _integer_sources(name: str, facts: InferenceFacts) -> tuple[str, ...]:
    """The integer graph inputs from which ``name`` is computed."""
    if not name:
        return ()
    found: dict[str, None] = {}
    seen = {name}
    stack = [name]
    while stack:
        current = stack.pop()
        if current in facts.makers:
            stack += [given for given in facts.makers[current].inputs if given and given not in seen]
            seen.update(facts.makers[current].inputs)
        elif facts.values[current].dtype in INTEGER_DTYPES and facts.values[current].constant is None:
            found.setdefault(current)
    return tuple(found)


def _infer_node(facts: InferenceFacts) -> tuple[Value, ...]:
    node = facts.node
    if node.op_type == "Constant" and node.domain == "":
        return (constant_value(_constant_content(facts)),)
    function = facts.context.function_of(node)
    if function is not None:
        return call_values(facts, function)
    if find(operator_generators, node.identity, node.version) is None:
        raise unsupported(facts)
    rule = find(shape_rules, node.identity, node.version)
    outputs = rule(facts) if rule is not None else infer_by_onnx(facts)
    if not isinstance(outputs, tuple):
        raise wrong_result(shape_rules, facts, "a tuple with a value for each output", outputs)
    for size in (size for output in outputs for size in output.dims or ()):
        if not isinstance(size, (int, np.integer, Expression)):
            raise wrong_result(shape_rules, facts, "dims of integers and expressions", size)
    if len(outputs) < len(node.outputs):
        outputs += tuple(Value("", None) for _ in node.outputs[len(outputs) :])
    outputs = tuple(_without_elements(output) for output in outputs)
    return with_finiteness(facts, with_contents(facts, outputs))


def _without_elements(output: Value) -> Value:
    """Make a tensor that is certainly empty a constant: the engine never computes it."""
    if not output.is_empty or not output.dtype or not output.is_known_size or output.constant is not None:
        return output
    return constant_value(np.zeros([dim for dim in output.dims or () if isinstance(dim, int)],
                                   protos.numpy_dtype(output.dtype)))


def _constant_content(facts: NodeFacts) -> Array:
    for name, content in facts.node.attributes.items():
        if name == "value":
            return np.asarray(content)
        if name in ("value_float", "value_floats"):
            return np.asarray(content, dtype=np.float32)
        if name in ("value_int", "value_ints"):
            return np.asarray(content, dtype=np.int64)
        if name in ("value_string", "value_strings"):
            return np.asarray(content, dtype=object)
        if name == "sparse_value":
            if not isinstance(content, SparseTensor):
                raise UnsupportedOperator("the sparse constant is no sparse tensor")
            return written_out(content)
    raise UnsupportedOperator("the constant has no value")


def _new_symbols(outputs: tuple[Value, ...], node: Node, context: Context) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """The outputs, and the names of their data-dependent sizes, which rules mark by a leading question mark.

    A size that this node names as a node of another sub-graph already did gets a new name.
    """
    renamed: dict[str, Dim] = {}
    new: list[str] = []
    found = symbols([dim for output in outputs for dim in output.dims or ()])
    for name in found:
        if not depends_on_run(symbol(name)):
            continue
        if context.is_new(name):
            new.append(name)
        elif any(own and is_unknown_size(name, own) for own in node.outputs):
            new.append(context.fresh_symbol(name))
            renamed[name] = symbol(new[-1])
    if renamed:
        outputs = tuple(
            value if value.dims is None else replace(value, dims=tuple(substitute(dim, renamed) for dim in value.dims))
            for value in outputs
        )
    return outputs, tuple(new)


def _after_failure(facts: InferenceFacts) -> tuple[Value, ...]:
    """Handle a node after one that failed: its outputs are unknown, but it may be unsupported itself."""
    node = facts.node
    if facts.context.function_of(node) is None and service_of(node.identity, node.version) is None:
        raise unsupported(facts)
    return (FAILED,) * len(node.outputs)


def _with_declared(value: Value, declared: ValueInfo | None, context: Context) -> Value:
    """Complete unknown parts of inferred values by the declared types; if both are known, inference wins."""
    if declared is None or value is FAILED or not isinstance(declared.type, TensorType):
        return value
    if value.constant is not None or value.type is not None or (value.dtype and value.dims is not None):
        return value
    dims = value.dims if value.dims is not None else context.dims(declared.type.dims, declared.name)
    return replace(value, dtype=value.dtype or declared.type.dtype, dims=dims)


def _writable(values: Mapping[str, Value]) -> MutableMapping[str, Value]:
    """Cast for ChainMap, which requires mutable mappings but never writes to the outer ones."""
    return values if isinstance(values, MutableMapping) else dict(values)
