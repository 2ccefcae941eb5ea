"""What of an operator's schema a generator depends on, and the versions at which that changes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import onnx


def signature(schema: Any) -> tuple[object, ...]:
    """What a generator reads of a schema: inputs, outputs, attributes and their defaults; not the dtypes."""
    formal = [
        tuple((parameter.name, parameter.option.name) for parameter in parameters)
        for parameters in (schema.inputs, schema.outputs)
    ]
    attributes = sorted(
        (name, attribute.type.name, attribute.required, attribute.default_value.SerializeToString())
        for name, attribute in schema.attributes.items()
    )
    return (*formal, tuple(attributes))


def signature_changes(domain: str = "") -> Mapping[str, tuple[int, ...]]:
    """For each operator of a domain the versions at which its signature differs from the one before."""
    schemas: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == domain:
            schemas.setdefault(schema.name, []).append(schema)
    changes: dict[str, tuple[int, ...]] = {}
    for name, versions in sorted(schemas.items()):
        versions.sort(key=lambda schema: schema.since_version)
        found = [versions[0].since_version]
        found += [
            after.since_version
            for before, after in pairwise(versions)
            if not after.deprecated and signature(before) != signature(after)
        ]
        changes[name] = tuple(found)
    return changes
