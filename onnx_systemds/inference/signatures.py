"""Whether a node has the inputs that its operator asks for, and what ONNX itself has against it.

Of element types the kind is judged, and whether inputs that share a type do: what the simplification moves about may be
of types that ONNX does not list.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import onnx

from onnx_systemds.errors import InvalidModel, TranspileError, escaped
from onnx_systemds.inference.facts import NodeFacts, find_any_schema, find_schema
from onnx_systemds.inference.onnx_inference import infer_by_onnx
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.limits import exhausted
from onnx_systemds.model.contrib_schemas import find_contrib_schema
from onnx_systemds.registration import failure


class Formal(NamedTuple):
    """A formal input. kinds: of tensors it admits, none where all are. group: of inputs that share a type, or ""."""

    name: str
    is_required: bool
    kinds: frozenset[str] = frozenset()
    group: str = ""


Signature = tuple[tuple[Formal, ...], bool]
"""The formal inputs, and whether the last one stands for all further ones."""


def check_inputs(facts: NodeFacts) -> None:
    """Raise InvalidModel where a required input is missing, of a kind that the operator does not take, or of a type
    other than that of an input that it shares its type with.

    Inputs too many are the checker's, or refused as unknown.
    """
    node = facts.node
    signature = _signature(node.domain, node.op_type, node.version)
    if signature is None:
        return
    formals, repeats = signature
    shared: dict[str, str] = {}
    for position in range(max(len(node.inputs) if repeats else 0, len(formals) - repeats)):
        formal = formals[min(position, len(formals) - 1)]
        called = f"its input {position} ({escaped(formal.name)})"
        if not facts.has(position):
            if formal.is_required:
                raise InvalidModel(f"{called} is required")
            continue
        value = facts.value(position)
        if not formal.kinds or not value.dtype or value.type is not None or _is_held_as_float(facts, position):
            continue
        if _kind(value.dtype) not in formal.kinds:
            raise InvalidModel(f"{called} is {value.dtype}, the operator takes {' or '.join(sorted(formal.kinds))}")
        other = shared.setdefault(formal.group, value.dtype) if formal.group else value.dtype
        if value.dtype != other:
            raise InvalidModel(f"{called} is {value.dtype}, an input that it shares its type with is {other}")


def _kind(dtype: str) -> str:
    if dtype in INTEGER_DTYPES:
        return "integers"
    return {"bool": "booleans", "string": "texts"}.get(dtype, "floats")


def _is_held_as_float(facts: NodeFacts, position: int) -> bool:
    """Whether an input is one of integers that passes over the graph hold as floats."""
    return position == 0 and facts.node.op_type == "DequantizeLinear" and _kind(facts.value(0).dtype) == "floats"


def refusal_of(error: Exception, facts: NodeFacts) -> TranspileError:
    """What ONNX's own inference has against a node that we could not make sense of, which ended in an error.

    Raises what stands for the error where ONNX has nothing against the node.
    """
    if isinstance(error, (MemoryError, RecursionError)):
        raise exhausted(error, facts.place) from error
    refusal = _refusal_by_onnx(facts)
    if refusal is None:
        raise failure(error, facts.place) from error
    return refusal


def _refusal_by_onnx(facts: NodeFacts) -> TranspileError | None:
    if find_schema(facts.node.domain, facts.node.op_type, facts.node.version) is None:
        return None
    try:
        infer_by_onnx(facts)
    except TranspileError as error:
        error.place = facts.place
        return error
    except Exception:  # what cannot even be asked
        return None
    return None


@lru_cache(maxsize=8192)
def _signature(domain: str, op_type: str, version: int) -> Signature | None:
    contrib = find_contrib_schema(domain, op_type)
    if contrib is not None:
        inputs = tuple(Formal(name.rstrip("?*"), name[-1] not in "?*") for name in contrib.inputs)
        return inputs, contrib.inputs[-1:] != () and contrib.inputs[-1].endswith("*")
    schema = find_any_schema(domain, op_type, version)  # of removed operators too, which are still converted
    if schema is None:
        return None
    option = onnx.defs.OpSchema.FormalParameterOption
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    formals = tuple(
        Formal(formal.name, formal.option != option.Optional, _kinds(formal),
               formal.type_str if formal.is_homogeneous and formal.type_str in variables else "")
        for formal in schema.inputs
    )
    return formals, bool(schema.inputs) and schema.inputs[-1].option == option.Variadic


def _kinds(formal: Any) -> frozenset[str]:
    """The kinds of tensors that a formal parameter admits, none where it admits lists, too."""
    types = formal.types
    if not all(type_.startswith("tensor(") for type_ in types):
        return frozenset()
    return frozenset(_kind(type_.removeprefix("tensor(").rstrip(")")) for type_ in types)
