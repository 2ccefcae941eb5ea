"""Single operators: every one of the registry, at a random opset, with random attributes, types, shapes and numbers."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, ValueInfoProto, helper, numpy_helper
from onnxruntime import InferenceSession, SessionOptions

from onnx_systemds.inference.registry import Identity, operators_of_models
from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz import (
    operators_accelerated,
    operators_contrib,
    operators_core,
    operators_functions,
    operators_layers,
    operators_ml,
    operators_other,
    operators_quantized,
    operators_shapes,
)
from tests.fuzz.drawing import Array, Draw, Maker, Node
from tests.fuzz.judging import ModelCase
from tests.fuzz.scattering import scattered

Case = ModelCase

_NEWEST = onnx.defs.onnx_opset_version()
_OLDEST = 7
_MOST_ELEMENTS = 5_000_000
_CONTRIB = "com.microsoft"
_OF_ML = "ai.onnx.ml"
_OF_FUNCTIONS = ("Attention", "CastLike", "CausalConvWithState", "LinearAttention", "NegativeLogLikelihoodLoss",
                 "RotaryEmbedding", "SoftmaxCrossEntropyLoss", "SwiGLU")
"""Operators without a generator: ONNX defines them by others."""
_KINDS = (operators_accelerated, operators_core, operators_functions, operators_layers, operators_ml, operators_other,
          operators_quantized, operators_shapes)
# importing them registers what they make


def identities() -> list[Identity]:
    """The operators that cases are made of."""
    known = {*operators_of_models(), *(("", op_type) for op_type in (*_OF_FUNCTIONS, "Constant"))}
    return sorted(identity for identity in known if _maker(identity) or _is_unary(identity))


def _maker(identity: Identity) -> Maker | None:
    domain, op_type = identity
    if domain != _CONTRIB:
        return operators_core.MAKERS.get(op_type)
    rows = operators_contrib.rows().get(op_type)
    return operators_contrib.MAKERS.get(op_type, operators_contrib.of_a_row if rows else None)


@functools.cache
def _versions(identity: Identity) -> tuple[int, ...]:
    """The versions of an operator that are not deprecated."""
    schemas = [schema for schema in _history() if (schema.domain, schema.name) == identity]
    return tuple(sorted(schema.since_version for schema in schemas if not schema.deprecated))


@functools.cache
def _last_opset(identity: Identity) -> int:
    """The last opset in which an operator is not deprecated."""
    newest = _versions(identity)[-1]
    return min((schema.since_version - 1 for schema in _history() if schema.deprecated
                and (schema.domain, schema.name) == identity and schema.since_version > newest), default=_NEWEST)


@functools.cache
def _history() -> tuple[Any, ...]:
    return tuple(onnx.defs.get_all_schemas_with_history())


@functools.cache
def _is_unary(identity: Identity) -> bool:
    """Whether an operator takes one tensor and gives one, and its attributes are plain numbers with defaults."""
    if not _versions(identity) or identity[0] or identity[1] in operators_core.MAKERS:
        return False
    schema = onnx.defs.get_schema(identity[1], _last_opset(identity), identity[0])
    if len(schema.inputs) != 1 or len(schema.outputs) != 1 or any("tensor" not in name for name in schema.inputs[0].types):
        return False
    one = onnx.defs.OpSchema.FormalParameterOption.Single
    return schema.inputs[0].option == one and all(
        attribute.type.name == "FLOAT" and not attribute.required for attribute in schema.attributes.values()
    )


def _unary(draw: Draw, schema: Any) -> Node:
    attributes = {name: draw.real(-1.5, 2.0) for name in schema.attributes if draw.chance(0.6)}
    dtype = draw.type(schema.inputs[0].type_str)
    return Node({"X": draw.array(dtype, draw.shape())}, attributes, is_exact=True)


def case(seed: int, only: Sequence[str] = (), kind: type[Draw] = Draw) -> Case:
    """The case of a seed. only: of one of these operators. kind: what draws it."""
    rng = np.random.default_rng(seed)
    known = [identity for identity in identities() if not only or identity[1] in only]
    identity = known[int(rng.integers(len(known)))]
    draw = _draw(identity, seed, rng, kind)
    maker = _maker(identity)
    node = maker(draw) if maker else _unary(draw, _schema(identity, draw.opset))
    return _model_case(seed, identity, node, draw)


def _draw(identity: Identity, seed: int, rng: np.random.Generator, kind: type[Draw]) -> Draw:
    versions = _versions(identity)
    if identity[0] or not versions:  # onnxruntime's own ones have version 1, in ONNX's domain whichever it knows
        unknown = 1 if identity[0] else 17 if identity[1] == "SimplifiedLayerNormalization" else 9
        return kind(seed, identity[1], int(rng.choice(versions)) if versions else unknown)
    since = int(rng.choice([v for v in versions if v >= _OLDEST] or [0])) if versions else 0
    opset = max(since, _OLDEST, versions[0])
    newest = 22 if rng.random() < 0.8 else _NEWEST  # onnxruntime has kernels of the older ones
    opset = max(opset, int(rng.integers(opset, max(newest, opset) + 1)) if rng.random() < 0.7 else opset)
    opset = min(opset, _last_opset(identity))
    types: dict[str, Sequence[str]] = {}
    if versions:
        schema = _schema(identity, opset)
        types = {
            constraint.type_param_str: [_plain(name) for name in constraint.allowed_type_strs]
            for constraint in schema.type_constraints
        }
    return kind(seed, identity[1], opset, types)


def _schema(identity: Identity, opset: int) -> Any:
    return onnx.defs.get_schema(identity[1], opset, identity[0])


def _plain(name: str) -> str:
    return name[len("tensor(") : -1] if name.startswith("tensor(") else name


def _model_case(seed: int, identity: Identity, node: Node, draw: Draw) -> Case:
    """A model of the node: inputs as initializers or not, dims fixed or symbols; called at one size or at several."""
    given = {name: value for name, value in node.inputs.items() if value is not None}
    constants = {name for name in given if name in node.constants or draw.chance(0.25)}
    for name in sorted(node.kept):  # shapes, axes and parameters: mostly known
        if name in given and draw.chance(0.7):
            constants.add(name)
    constants = {name for name in constants if isinstance(given[name], np.ndarray)}
    if constants == set(given) and given:
        constants.discard(next(iter(given)))
    feeds = {name: value for name, value in given.items() if name not in constants}
    symbols = _symbols({name: value for name, value in feeds.items() if name not in node.kept}, draw)
    model = make_model(identity, node, draw.opset, constants, symbols)
    calls, specialise_after = _calls(feeds, symbols, node, draw)
    calls += _with_other_zeros(feeds, node, draw)
    if identity[0] != _CONTRIB and draw.chance(0.2):
        calls += _with_other_integers(feeds, draw)
    return ModelCase(seed, model, calls, specialise_after, node.is_exact)


def _symbols(feeds: Mapping[str, Any], draw: Draw) -> dict[str, tuple[int | str, ...]]:
    """Dims of the inputs: fixed, the first one a symbol, or each a symbol: of its own or one per size."""
    dims: dict[str, tuple[int | str, ...]] = {}
    style = draw.one("fixed", "fixed", "first", "by size", "own")
    for name, value in feeds.items():
        if not isinstance(value, np.ndarray):
            continue
        shape: list[int | str] = list(value.shape)
        for place, size in enumerate(value.shape):
            if (style == "first" and place == 0 and size > 1) or (style == "by size" and (size > 1 or draw.chance(0.1))):
                shape[place] = f"d{size}"
            elif style == "own" and draw.chance(0.8):
                shape[place] = f"{name}_{place}"
        dims[name] = tuple(shape)
    return dims


def make_model(
    identity: Identity, node: Node, opset: int, constants: set[str], dims: Mapping[str, Sequence[int | str]]
) -> ModelProto:
    """The model of one node."""
    names = [name if value is not None else "" for name, value in node.inputs.items()]
    while names and not names[-1]:
        names.pop()
    infos, initializers = [], []
    for name, value in node.inputs.items():
        if value is None:
            continue
        if name in constants:
            initializers.append(numpy_helper.from_array(np.asarray(value), name))
        elif not isinstance(value, np.ndarray):
            infos.append(helper.make_value_info(name, _collection_type(value)))
        else:
            infos.append(helper.make_tensor_value_info(name, element_type(value), dims.get(name, value.shape)))
    outputs = [f"out{place}" for place in range(node.outputs)]
    made = helper.make_node(identity[1], names, outputs, domain=identity[0], **node.attributes)
    graph = helper.make_graph([made], "case", infos, [ValueInfoProto(name=name) for name in outputs], initializers)
    imports = {"": 21, identity[0]: opset}
    model = helper.make_model(graph, ir_version=10 if imports[""] < 25 else 13,
                              opset_imports=[helper.make_opsetid(*pair) for pair in imports.items()])
    inferred = onnx.shape_inference.infer_shapes(model)
    for output, info in zip(model.graph.output, inferred.graph.output):  # types, without the dims that it guesses
        if info.type.WhichOneof("value") is not None:
            output.type.CopyFrom(_without_dims(info.type))
    if any(output.type.WhichOneof("value") is None for output in model.graph.output):
        with contextlib.suppress(Exception):  # onnxruntime does not know it, or does not take it
            _give_types(model)
    return model


def _collection_type(value: list[Array] | Mapping[Any, Any]) -> TypeProto:
    """The type of a sequence of tensors, or of a map. Where all items have one rank, it is declared.

    So are, from rank 3 on, the sizes that all items have: a matrix does not tell several.
    """
    if isinstance(value, list):
        rank = value[0].ndim
        sizes = [{*each} for each in zip(*(item.shape for item in value))]
        fixed = [size.copy().pop() if rank > 2 and len(size) == 1 else None for size in sizes]
        dims = fixed if all(item.ndim == rank for item in value) else None
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element_type(value[0]), dims))
    key, item = (np.asarray(next(iter(items))) for items in (value.keys(), value.values()))
    return helper.make_map_type_proto(element_type(key), helper.make_tensor_type_proto(element_type(item), []))


def _give_types(model: ModelProto) -> None:
    """The types of the outputs that ONNX does not infer, by onnxruntime."""
    session = InferenceSession(model.SerializeToString(), _quiet(), providers=["CPUExecutionProvider"])
    for output, info in zip(model.graph.output, session.get_outputs()):
        name = info.type[len("tensor(") : -1]
        output.type.tensor_type.elem_type = int(helper.np_dtype_to_tensor_dtype(numpy_dtype(name)))


@functools.cache
def _quiet() -> SessionOptions:
    options = SessionOptions()
    options.log_severity_level = 4
    return options


def _without_dims(kind: TypeProto) -> TypeProto:
    """A type; of a tensor the element type alone, with a shape of as many unknown dims where there is a rank."""
    copy = TypeProto()
    copy.CopyFrom(kind)
    if copy.HasField("tensor_type"):
        for dim in copy.tensor_type.shape.dim:
            dim.Clear()
    return copy


def element_type(array: Array) -> int:
    """ONNX's element type of an array; an array of objects is text."""
    return 8 if array.dtype.kind in "OU" else int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _calls(
    feeds: dict[str, Any], symbols: Mapping[str, Sequence[int | str]], node: Node, draw: Draw
) -> tuple[tuple[dict[str, Any], ...], int]:
    """The inputs of the calls: A alone, A three times, or A, B, A, C, each three times, where there are symbols."""
    if draw.chance(0.5):
        return (feeds,), 20
    names = sorted({size for dims in symbols.values() for size in dims if isinstance(size, str)})
    if not names:
        return (feeds, feeds, feeds), 2
    sizes = []
    for _ in range(2):
        changed = {name: draw.other_size(0 if draw.chance(0.1) else 1) for name in names if draw.chance(0.6)}
        if any(_elements(dims, feeds[name].shape, changed) > _MOST_ELEMENTS for name, dims in symbols.items()):
            changed = {}
        sizes.append({name: _resized(name, value, symbols, changed, node) for name, value in feeds.items()})
    return tuple(call for call in (feeds, sizes[0], feeds, sizes[1]) for _ in range(3)), 2


def _elements(dims: Sequence[int | str], shape: Sequence[int], sizes: Mapping[str, int]) -> int:
    """How many a tensor of this shape has where its symbols have these sizes."""
    return math.prod(sizes.get(symbol, size) if isinstance(symbol, str) else size for symbol, size in zip(dims, shape))


def _with_other_integers(feeds: Mapping[str, Any], draw: Draw) -> tuple[dict[str, Any], ...]:
    """The inputs with one integer larger or smaller, which may be an index or a size that there is not."""
    names = [name for name, value in feeds.items() if isinstance(value, np.ndarray) and value.size
             and value.dtype in (np.int32, np.int64)]
    if not names:
        return ()
    name = draw.one(*names)
    changed = feeds[name].copy()
    changed.reshape(-1)[draw.int(0, changed.size - 1)] += draw.one(-9, -3, -1, 1, 3, 9)
    return ({**feeds, name: changed},)


def _with_other_zeros(feeds: Mapping[str, Any], node: Node, draw: Draw) -> tuple[dict[str, Any], ...]:
    """The inputs with other zeros in those that have many, now and then with none: the engine remembers some of before."""
    free = [name for name, value in feeds.items() if name not in node.kept and any(value is each for each in draw.scattered)]
    calls = []
    for _ in range(draw.int(1, 4) if free else 0):
        others = {}
        for name in (name for name in free if draw.chance(0.7)):
            value = feeds[name]
            is_full = value.dtype.kind == "f" and draw.chance(0.15)
            others[name] = (draw.parameters(*value.shape).astype(value.dtype) if is_full
                            else scattered(draw.rng, value.shape, value.dtype))
        calls.append({**feeds, **others})
    return tuple(calls)


def _resized(
    name: str, value: Any, symbols: Mapping[str, Sequence[int | str]], sizes: Mapping[str, int], node: Node
) -> Any:
    """A tensor with its elements repeated or left out, so that its dims are these."""
    if not isinstance(value, np.ndarray) or name in node.kept:
        return value
    for axis, symbol in enumerate(symbols.get(name, ())):
        if isinstance(symbol, str) and symbol in sizes and value.shape[axis]:
            value = np.take(value, np.arange(sizes[symbol]) % value.shape[axis], axis)
    return value
