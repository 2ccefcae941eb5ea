"""What is supported, read from the registry: for the command line and for docs/operators.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx

from onnx_systemds.cli.facet_table import DECORATORS, FACETS, facets_of
from onnx_systemds.inference.onnx_inference import has_dims
from onnx_systemds.inference.registry import expanders, operator_generators, operators_of_models, refused_operators
from onnx_systemds.inference.service import Service, service_of
from onnx_systemds.model.contrib_schemas import CONTRIB, REFUSED
from onnx_systemds.model.ir import ONNX_DOMAINS, operator_name


@dataclass(frozen=True, slots=True)
class Row:
    """One operator. generators: versions with a generator of their own. newest: its newest version in ONNX."""

    domain: str
    op_type: str
    generators: tuple[int, ...]
    newest: int
    deprecated: bool = False

    @property
    def status(self) -> str:
        """How the newest version is served, or why not."""
        identity = (self.domain, self.op_type)
        if identity in refused_operators:
            return f"refused: {refused_operators[identity]}"
        service = service_of(identity, self.newest)
        if service is Service.CONSTANT:
            return "a weight, or part of the script"
        if service is Service.CHAIN_RULE:
            return "replaced by the nodes of the derivative"
        if service is Service.GENERATOR and not has_dims(identity, self.newest):
            return "no: it has no shape rule"
        if self.generators:
            first = self.generators[0]
            return "yes" if first == 1 else f"from opset {first}"
        if service is not None:
            return "by definition"
        return "removed from ONNX" if self.deprecated else "no"


def support_rows() -> list[Row]:
    """Every operator of ONNX, and those of other domains that have a generator."""
    newest: dict[tuple[str, str], Any] = {}  # OpSchema, of which onnx has incomplete stubs
    for schema in onnx.defs.get_all_schemas():
        if schema.domain in ONNX_DOMAINS:
            newest[schema.domain, schema.name] = schema
    rows = [
        Row(domain, name, tuple(sorted(operator_generators.get((domain, name), {}))), schema.since_version,
            schema.deprecated)
        for (domain, name), schema in newest.items()
    ]
    others = {identity: tuple(sorted(registry[identity])) for registry in (expanders, operator_generators)
              for identity in registry if identity in operators_of_models().difference(newest)}
    rows += [Row(*identity, versions, versions[-1]) for identity, versions in others.items()]
    return sorted(rows, key=lambda row: (row.domain, row.op_type))


def support_summary() -> list[dict[str, Any]]:
    """The rows as data for JSON, including refused operators."""
    rows = [
        {"domain": row.domain, "operator": row.op_type, "imported": row.status, "generators": row.generators,
         "newest": row.newest, "facets": facets_of((row.domain, row.op_type))}
        for row in support_rows()
    ]
    refused = [
        {"domain": CONTRIB, "operator": op_type, "imported": f"refused: {reason}", "generators": (), "newest": 1,
         "facets": ()}
        for op_type, reason in sorted(REFUSED.items())
    ]
    return rows + refused


def table_lines() -> Iterator[str]:
    """The table as Markdown, after the counts."""
    everything = support_rows()
    rows = [row for row in everything if row.domain != CONTRIB]
    own = sum(bool(row.generators) for row in rows)
    defined = sum(row.status == "by definition" for row in rows)
    yield f"{own} operators have a generator, {defined} more are expanded by ONNX's own definition of them."
    yield "Facets are further rules of an operator: `onnx-systemds operators --facets` explains them and the gaps."
    yield ""
    yield "| operator | imported | generators since opset | newest version | facets |"
    yield "|---|---|---|---|---|"
    yield from _lines(rows)
    contrib = [row for row in everything if row.domain == CONTRIB]
    yield ""
    yield "## Of onnxruntime"
    yield ""
    yield f"{len(contrib)} operators of domain {CONTRIB}, which onnxruntime's optimizers write into models:"
    yield ""
    yield "| operator | imported | by | facets |"
    yield "|---|---|---|---|"
    for row in contrib:
        ways = {"ONNX operators": expanders, "a generator": operator_generators}
        how = " and ".join(way for way, registry in ways.items() if (row.domain, row.op_type) in registry)
        yield f"| {row.op_type} | {row.status} | {how} | {_facets(row)} |"
    for op_type, reason in sorted(REFUSED.items()):
        yield f"| {op_type} | refused: {reason} | | |"


def _lines(rows: list[Row]) -> Iterator[str]:
    for row in rows:
        name = operator_name(row.domain, row.op_type)
        yield f"| {name} | {row.status} | {', '.join(map(str, row.generators))} | {row.newest} | {_facets(row)} |"


def _facets(row: Row) -> str:
    return ", ".join(facet for facet in facets_of((row.domain, row.op_type)) if facet != "dims")


def document() -> str:
    """The text of docs/operators.md."""
    head = ["# Operators of ONNX that are imported", "",
            "Generated from the registry (`onnx-systemds operators`); do not edit.", ""]
    tail = ["", "## Facets", "", "What else is known of an operator. Rules for dims are not listed above.", "",
            "| facet | registered by | what it is |", "|---|---|---|"]
    facets = [f"| {facet} | `{DECORATORS[facet]}` | {meaning} |" for facet, meaning in FACETS.items()]
    return "\n".join([*head, *table_lines(), *tail, *facets]) + "\n"
