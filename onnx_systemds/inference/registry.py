"""The registries: how an operator is written in DML, which shapes it gives, or which other nodes stand for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import onnx

from onnx_systemds.errors import quoted

if TYPE_CHECKING:
    from onnx_systemds.inference.expansion import Expansion
    from onnx_systemds.inference.facts import NodeFacts
    from onnx_systemds.inference.values import Value

    # From a NodeView to a Fragment; both are of `operators.api`, of which inference only asks whether there is one.
    Generator = Callable[[Any], Any]
    ShapeRule = Callable[[NodeFacts], tuple[Value, ...]]
    Expander = Callable[[Expansion], None]

Function = TypeVar("Function", bound=Callable[..., object])
Identity = tuple[str, str]  # (domain, op_type); the domain of ai.onnx is ""

operator_generators: dict[Identity, dict[int, Generator]] = {}
shape_rules: dict[Identity, dict[int, ShapeRule]] = {}
expanders: dict[Identity, dict[int, Expander]] = {}
text_operators: set[Identity] = set()
refused_operators: dict[Identity, str] = {("", "ImageDecoder"): "DML has no decoder of compressed images"}
"""Operators that have no form in DML, and why."""


def generator(op_type: str, since: int, domain: str = "") -> Callable[[Function], Function]:
    """Register the function below as the generator of an operator from opset version ``since`` on.

    A generator is needed at each version where signature or meaning changes; a later one replaces it from
    its own version on. Raises ValueError on a second registration.
    """
    return _register(operator_generators, op_type, since, domain)


def shape_rule(op_type: str, since: int = 1, domain: str = "") -> Callable[[Function], Function]:
    """Register the function below as the rule for dtype and dims of an operator's outputs.

    Operators without a rule take ONNX's own inference. Raises ValueError on a second registration.
    """
    return _register(shape_rules, op_type, since, domain)


def expander(op_type: str, since: int = 1, domain: str = "") -> Callable[[Function], Function]:
    """Register the function below, which writes other nodes in the place of the operator.

    It is asked where the operator has no generator; shapes follow from the nodes. Raises ValueError on a second one.
    """
    return _register(expanders, op_type, since, domain)


def takes_text(*op_types: str, domain: str = "") -> None:
    """Say that the generators of these operators are right for text, too: for codes instead of numbers."""
    text_operators.update((domain, op_type) for op_type in op_types)


def find_generator(identity: Identity, version: int) -> Generator | None:
    """The generator with the highest ``since`` not above ``version``; None when there is none."""
    return _newest(operator_generators, identity, version)


def find_shape_rule(identity: Identity, version: int) -> ShapeRule | None:
    """The shape rule with the highest ``since`` not above ``version``; None when there is none."""
    return _newest(shape_rules, identity, version)


def find_expander(identity: Identity, version: int) -> Expander | None:
    """The expander with the highest ``since`` not above ``version``; None when there is none."""
    return _newest(expanders, identity, version)


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


def _register(
    registry: dict[Identity, dict[int, Callable[..., object]]] | dict[Identity, dict[int, Generator]]
    | dict[Identity, dict[int, ShapeRule]] | dict[Identity, dict[int, Expander]],
    op_type: str,
    since: int,
    domain: str,
) -> Callable[[Function], Function]:
    versions: dict[int, Callable[..., object]] = registry.setdefault((domain, op_type), {})  # type: ignore

    def decorate(function: Function) -> Function:
        if since in versions:
            raise ValueError(f"{quoted(op_type)} has two entries for version {since}")
        versions[since] = function
        return function

    return decorate


_Entry = TypeVar("_Entry")


def _newest(registry: Mapping[Identity, Mapping[int, _Entry]], identity: Identity, version: int) -> _Entry | None:
    versions = registry.get(identity, {})
    since = max((known for known in versions if known <= version), default=None)
    return None if since is None else versions[since]
