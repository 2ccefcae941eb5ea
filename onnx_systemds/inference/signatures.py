"""Whether a node has the inputs that its operator asks for, and what ONNX itself has against it.

Of element types only the kind is judged: what the simplification moves about may be of types that ONNX does not list.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx

from onnx_systemds.errors import InvalidModel, TranspileError, escaped
from onnx_systemds.inference.facts import NodeFacts, find_any_schema, find_schema
from onnx_systemds.inference.onnx_inference import infer_by_onnx
from onnx_systemds.model.contrib_schemas import find_contrib_schema

Signature = tuple[tuple[tuple[str, bool, frozenset[str]], ...], bool]
"""Each formal input: name, whether it is required, kinds; and whether the last one stands for all further ones."""


def check_inputs(facts: NodeFacts) -> None:
    """Raise InvalidModel where a required input is missing, or of a kind that means nothing to the operator.

    Floats mean nothing as indices or conditions, texts as numbers; integers do no harm. Inputs too many are the
    checker's, or refused as unknown.
    """
    node = facts.node
    signature = _signature(node.domain, node.op_type, node.version)
    if signature is None:
        return
    formals, repeats = signature
    for position in range(max(len(node.inputs) if repeats else 0, len(formals) - repeats)):
        name, is_required, kinds = formals[min(position, len(formals) - 1)]
        if not facts.has(position):
            if is_required:
                raise InvalidModel(f"its input {position} ({escaped(name)}) is required")
            continue
        value = facts.value(position)
        if kinds and value.dtype and value.type is None and not _takes(kinds, _kind(value.dtype), position):
            taken = " or ".join(sorted(kinds))
            raise InvalidModel(f"its input {position} ({escaped(name)}) is {value.dtype}, the operator takes {taken}")


def _kind(dtype: str) -> str:
    if dtype.startswith(("int", "uint")):
        return "integers"
    return {"bool": "booleans", "string": "texts"}.get(dtype, "floats")


def _takes(kinds: frozenset[str], kind: str, position: int) -> bool:
    """Whether values of a kind mean something as an input that takes ``kinds``.

    Integers that passes over the graph hold as floats, before a DequantizeLinear, stand first.
    """
    if kind == "texts" or kinds == {"texts"}:
        return kind in kinds
    return kind != "floats" or (kinds != {"booleans"} and (kinds != {"integers"} or position == 0))


def refusal_by_onnx(facts: NodeFacts) -> TranspileError | None:
    """What ONNX's own inference has against a node that we could not make sense of; None where it has nothing."""
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
        inputs = tuple((name.rstrip("?*"), name[-1] not in "?*", frozenset[str]()) for name in contrib.inputs)
        return inputs, contrib.inputs[-1:] != () and contrib.inputs[-1].endswith("*")
    schema = find_any_schema(domain, op_type, version)  # of removed operators too, which are still converted
    if schema is None:
        return None
    option = onnx.defs.OpSchema.FormalParameterOption
    formals = tuple((formal.name, formal.option != option.Optional, _kinds(formal)) for formal in schema.inputs)
    return formals, bool(schema.inputs) and schema.inputs[-1].option == option.Variadic


def _kinds(formal: Any) -> frozenset[str]:
    """The kinds of tensors that a formal parameter admits, none where it admits lists, too."""
    types = formal.types
    if not all(type_.startswith("tensor(") for type_ in types):
        return frozenset()
    return frozenset(_kind(type_.removeprefix("tensor(").rstrip(")")) for type_ in types)
