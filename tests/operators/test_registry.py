"""The registry: dispatch by version, and the guard against signatures that changed unnoticed."""

from __future__ import annotations

from inspect import signature

import pytest

from onnx_systemds.cli import support_table
from onnx_systemds.dml import templates
from onnx_systemds.dml.words import BUILTIN_FUNCTIONS
from onnx_systemds.inference.registry import find, generator, operator_generators
from tests.operators.signatures import signature_changes


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml"])
def test_every_changed_signature_has_a_generator(domain: str) -> None:
    """From the first version that a generator serves on, each change of inputs, outputs or attributes needs its own."""
    missing = []
    for op_type, changes in signature_changes(domain).items():
        own = operator_generators.get((domain, op_type), {})
        if own:
            missing += [(op_type, since) for since in changes if since not in own and since > min(own)]
    assert not missing


def test_highest_version_below_serves() -> None:
    known = operator_generators["", "Clip"]
    assert find(operator_generators, ("", "Clip"), 10) is known[6]
    assert find(operator_generators, ("", "Clip"), 11) is known[11]
    assert find(operator_generators, ("", "Clip"), 27) is known[11]
    assert find(operator_generators, ("", "Where"), 8) is None
    assert find(operator_generators, ("", "NoSuchOperator"), 17) is None


def test_second_registration_is_an_error() -> None:
    with pytest.raises(ValueError, match=r'a generator of "Clip" from version 11 on is registered at onnx_systemds/operators/onnx/elementwise.py:'):
        generator("Clip", since=11)(lambda node: None)


def test_library_functions_are_named_like_their_files_and_replace_no_builtin() -> None:
    for path in sorted((templates.templates_folder() / "library").glob("*.dml")):
        assert path.stem not in BUILTIN_FUNCTIONS
        assert f"{path.stem} = function(" in path.read_text()


def test_support_table_is_complete() -> None:
    rows = support_table.support_rows()
    assert len([row for row in rows if row.domain == ""]) >= 200
    assert all(row.status for row in rows)


def test_generators_take_a_node_alone() -> None:
    """A rule of another kind below the decorators of a generator would be called as one."""
    for identity, versions in operator_generators.items():
        for since, generate in versions.items():
            needed = [given for given in signature(generate).parameters.values() if given.default is given.empty]
            assert len(needed) == 1, (identity, since, generate)
