"""The facets of each operator in the registry, and the gaps."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx

from onnx_systemds.inference.facts import has_definition
from onnx_systemds.inference.registry import (
    Identity,
    batch_rules,
    folds,
    gradients,
    integer_rules,
    list_rules,
    nn_layers,
    operators_of_models,
    shape_rules,
    size_rules,
    text_operators,
)
from onnx_systemds.model.ir import operator_name
from onnx_systemds.operators import operator_generators  # and so all that is registered

FACETS = {
    "dims": "a rule for dims and dtypes; else ONNX's own inference",
    "samples": "whether samples can be scored in parts; else models with it are scored whole",
    "sizes": "a rule for sizes; else they are known only when the model runs",
    "constants": "computed at conversion if all inputs are known; else by the engine",
    "gradient": "a rule for Gradient nodes; else ONNX's definition is differentiated, or the model is refused",
    "integers": "a rule for 64-bit integers; else inputs must be within 2^53, and results are assumed to be",
    "lists": "resolved at conversion if the items of sequences and optionals are known; else by the script",
    "text": "correct for strings; else strings are refused",
    "layer": "a layer of SystemDS's nn/layers with --style nn, if its signature fits; else plain DML",
}
"""The facets of an operator with a generator, and the meaning of a gap."""
DECORATORS = {
    "dims": "shape_rule", "samples": "batch_rule", "sizes": "size_rule", "constants": "fold", "gradient": "gradient",
    "integers": "integer_rule", "lists": "list_rule", "text": "takes_text", "layer": "nn_layer",
}
"""What registers each facet, in `onnx_systemds.operators`."""
YES, GAP, NONE, ONNX, NODES = "yes", "", "-", "ONNX", "its nodes"
"""A rule; no rule; the facet does not apply; ONNX's rule; the rules of the nodes that replace it."""
_REGISTRIES: Mapping[str, Container[Identity]] = {
    "dims": shape_rules, "samples": batch_rules, "sizes": size_rules, "constants": folds, "gradient": gradients,
    "integers": integer_rules, "lists": list_rules, "text": text_operators,
    "layer": nn_layers,
}
_FLOATS = frozenset(f"tensor({dtype})" for dtype in ("float", "double", "float16", "bfloat16"))


@dataclass(frozen=True, slots=True)
class FacetRow:
    """A registered operator, and for each facet `YES`, `GAP`, `NONE`, `ONNX` or `NODES`."""

    domain: str
    op_type: str
    facets: Mapping[str, str]

    @property
    def name(self) -> str:
        """With the domain, if it is not that of ai.onnx."""
        return operator_name(self.domain, self.op_type)


def facet_rows() -> list[FacetRow]:
    """All operators that have a generator or an expander."""
    known = sorted(operators_of_models())
    return [FacetRow(*identity, {facet: _state(facet, identity) for facet in FACETS}) for identity in known]


def facets_of(identity: Identity) -> tuple[str, ...]:
    """The facets that an operator has."""
    return tuple(facet for facet in FACETS if identity in _REGISTRIES[facet])


def facet_lines() -> Iterator[str]:
    """The table as Markdown: what each facet is, and what each operator has of it."""
    rows = facet_rows()
    yield "| facet | operators | what it is |"
    yield "|---|---|---|"
    for facet, meaning in FACETS.items():
        yield f"| {facet} | {sum(row.facets[facet] == YES for row in rows)} of {len(rows)} | {meaning} |"
    yield ""
    yield f"`{YES}`: a rule of its own; `{ONNX}`: by ONNX; `{NODES}`: by the nodes that stand for it; `{NONE}`: it does"
    yield "not apply; an empty cell is a gap."
    yield ""
    yield f"| operator | {' | '.join(FACETS)} |"
    yield f"|---|{'---|' * len(FACETS)}"
    for row in rows:
        yield f"| {row.name} | {' | '.join(row.facets.values())} |"


def facet_summary() -> dict[str, Any]:
    """The table as data: ``""`` is a gap."""
    operators = [{"domain": row.domain, "operator": row.op_type, "facets": row.facets} for row in facet_rows()]
    return {"facets": FACETS, "operators": operators}


def _state(facet: str, identity: Identity) -> str:
    if identity in _REGISTRIES[facet]:
        return YES
    if identity not in operator_generators:
        return NODES
    schema = _schemas().get(identity)
    if facet == "dims" and schema is not None:
        return ONNX
    if facet == "gradient" and has_definition(schema):
        return ONNX
    return GAP if _applies(facet, schema) else NONE


def _applies(facet: str, schema: Any) -> bool:
    """Whether an operator can have a facet; of text, integers and sizes only ONNX's own are said to."""
    if facet == "layer":
        return False  # SystemDS has no layers for most of them
    if facet == "gradient":
        return schema is None or all(_types(schema, ports) & _FLOATS for ports in (schema.inputs, schema.outputs))
    if facet == "integers":
        return schema is not None and all("tensor(int64)" in _types(schema, ports)
                                          for ports in (schema.inputs, schema.outputs))
    if facet == "lists":
        ports = () if schema is None else (*schema.inputs, *schema.outputs)
        return schema is not None and any(name.startswith(("seq(", "optional(")) for name in _types(schema, ports))
    if facet == "text":
        return schema is not None and any("string" in name for name in _types(schema, schema.inputs))
    if facet == "sizes":
        return schema is not None and "tensor(int64)" in _types(schema, schema.outputs)
    return True


def _types(schema: Any, parameters: Any) -> frozenset[str]:
    allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
    return frozenset(name for one in parameters for name in allowed.get(one.type_str, [one.type_str]))


@cache
def _schemas() -> Mapping[Identity, Any]:
    return {(schema.domain, schema.name): schema for schema in onnx.defs.get_all_schemas()}
