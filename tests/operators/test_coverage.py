"""The gap guard: every version of every operator has a case, and every operator one at several sizes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from onnx_systemds.inference.registry import Identity, expanders, operator_generators, operators_of_models
from tests.operators.harness import Case, Covered
from tests.operators.signatures import signature_changes

cached_changes = cache(signature_changes)
HISTORY = onnx.defs.get_all_schemas_with_history()
MODULES = [importlib.import_module(f"tests.operators.{path.stem}")
           for path in sorted(Path(__file__).parent.glob("test_*.py")) if path != Path(__file__)]

REGISTERED = {identity: {*operator_generators.get(identity, ()), *expanders.get(identity, ())}
              for identity in operators_of_models()}
"""The operators with a generator or an expander, and the versions from which on each of these serves."""

DOMAINS = ("", "ai.onnx.preview.training")
"""Domains of which every operator is served or listed below; of others those that are registered."""

NOT_SUPPORTED = {"ImageDecoder": "compressed images"}
"""Operators of the served domains that are not registered: what they need and the project has not."""

NO_CASE = {
    "Constant": "folded before any generator is asked; tests/inference",
    "Gradient": "replaced by the nodes of the derivative; tests/inference/test_differentiation.py",
}
"""Operators that need no generator."""

FIXED_DIMS = {
    "Range": "its inputs are single elements",
    "HannWindow": "its input is a single element",
    "HammingWindow": "its input is a single element",
    "BlackmanWindow": "its input is a single element",
    "MelWeightMatrix": "its inputs are single elements",
    "SequenceConstruct": "a list is written where it is used, whatever the dims",
    "SequenceEmpty": "it has no items",
    "ConstantOfShape": "its input is the shape: as many elements as the output has axes",
}
"""Operators whose inputs have no dims that a symbol could stand for, although they take tensors."""


def listed(module: ModuleType) -> list[Case]:
    """The rows of a test module."""
    return list(getattr(module, "CASES", ()))


ROWS = [case for module in MODULES for case in listed(module)]
COVERED: list[Covered] = [one for module in MODULES for one in getattr(module, "COVERED", ())]


def opsets_run() -> dict[Identity, set[int]]:
    """The opsets at which each operator is run."""
    found: dict[Identity, set[int]] = {}
    for case in ROWS:
        found.setdefault((case.domain, case.op_type), set()).add(case.opset)
    for one in COVERED:
        found.setdefault((one.domain, one.op_type), set()).update(one.opsets)
    return found


def sized() -> set[Identity]:
    """The operators that are run at several sizes by one script."""
    found = {(one.domain, one.op_type) for one in COVERED if one.symbolic}
    return found | {(case.domain, case.op_type) for case in ROWS if case.symbols and case.sizes}


def identities() -> Iterator[Identity]:
    """Every operator of the served domains, and every one that is registered."""
    current = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas() if not schema.deprecated}
    yield from sorted({identity for identity in current if identity[0] in DOMAINS} | set(REGISTERED))


def has_definition(identity: Identity) -> bool:
    """Whether ONNX defines the operator by others."""
    domain, op_type = identity
    try:
        schema = onnx.defs.get_schema(op_type, domain=domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def takes_tensors(identity: Identity) -> bool:
    """Whether the operator has inputs at all."""
    schemas = [schema for schema in HISTORY if (schema.domain, schema.name) == identity]
    return not schemas or any(schema.max_input for schema in schemas)


def ranges(identity: Identity) -> Iterator[tuple[int, float]]:
    """The ranges of opsets, end excluded, in which signature and meaning of an operator stay the same."""
    changes = cached_changes(identity[0]).get(identity[1], ())
    starts = sorted({*changes, *REGISTERED.get(identity, ())})
    yield from zip(starts, [*starts[1:], float("inf")])


def test_every_version_of_every_operator_has_a_case() -> None:
    """At each version of its signature and of what writes it."""
    run = opsets_run()
    missing = [(*identity, start) for identity in REGISTERED for start, end in ranges(identity)
               if not any(start <= opset < end for opset in run.get(identity, ()))]
    assert not missing


def test_every_operator_by_definition_has_a_case() -> None:
    """At each version of its signature, too: the definition differs."""
    run = opsets_run()
    defined = [identity for identity in identities()
               if identity not in REGISTERED and has_definition(identity) and identity[1] not in NOT_SUPPORTED]
    missing = [(*identity, start) for identity in defined for start, end in ranges(identity)
               if not any(start <= opset < end for opset in run.get(identity, ()))]
    assert not missing


def test_every_operator_runs_at_several_sizes() -> None:
    missing = [identity for identity in REGISTERED
               if takes_tensors(identity) and identity not in sized() and identity[1] not in FIXED_DIMS]
    assert not missing


def test_what_is_not_supported_is_listed() -> None:
    """Exactly: an operator that is supported now must leave the table."""
    without = {identity[1] for identity in identities() if identity not in REGISTERED
               and (not has_definition(identity) or identity[1] in NOT_SUPPORTED)}
    assert without == {*NOT_SUPPORTED, *NO_CASE}


def test_exceptions_are_needed() -> None:
    """An operator with a row of symbolic dims is no exception."""
    known = {op_type for _, op_type in REGISTERED}
    assert set(FIXED_DIMS) <= known
    assert not {op_type for _, op_type in sized()} & set(FIXED_DIMS)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_all_rows_are_run(module: ModuleType) -> None:
    """Rows in any list of a module are in its CASES, and its test_case runs these."""
    rows = listed(module)
    known = set(map(id, rows))
    for name, value in vars(module).items():
        if isinstance(value, list | tuple):
            assert all(id(row) in known for row in value if isinstance(row, Case)), f"{name} has rows outside of CASES"
    if rows:
        marks = [mark for mark in module.test_case.pytestmark if mark.name == "parametrize"]
        assert [mark.args[1] for mark in marks] == [rows]


def test_symbolic_rows_have_symbols_and_several_sizes() -> None:
    """A row with symbols runs at a further size, at which the inputs with symbols have other dims."""
    for case in ROWS:
        symbolic = {name for name, dims in case.symbols.items() if any(isinstance(dim, str) for dim in dims)}
        assert bool(symbolic) == bool(case.sizes), case
        for size in case.sizes:
            shapes = {name: array.shape for name, array in case.inputs.items() if array is not None}
            assert {name for name, array in size.items() if array.shape != shapes[name]} <= symbolic, case
            assert any(array.shape != shapes[name] for name, array in size.items()), case
