"""The fuzzer for some minutes: fixed seeds, as many cases of each kind as the gate has time for."""

from __future__ import annotations

import pytest
from onnx import parser

from onnx_systemds.engine.session import shared_session
from tests.fuzz.command_line import check_plainly
from tests.fuzz.judge_faults import is_untrusted
from tests.fuzz.sources import SOURCES

_PARTS = 4  # of each kind, so that both processors have something to do
_COUNTS = {"operators": 200, "graphs": 24, "derivatives": 24, "onnx_files": 24, "large_operators": 16, "wide_matrices": 12,
           "sizes": 16, "lists": 12, "texts": 8, "functions": 16, "programs": 4, "narrow_types": 40, "varied_layers": 12,
           "wide_integers": 16}
_PLAIN = {"operators": 20, "graphs": 8, "varied_layers": 8, "wide_matrices": 3}
_SEED = 1_000_000


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("kind", SOURCES)
def test_random_cases(kind: str, part: int) -> None:
    count = _COUNTS.get(kind, 40) // _PARTS
    source = SOURCES[kind]
    found = [finding for case in source.cases(_SEED + part * count, count)
             if (finding := source.check(case, shared_session())) is not None]
    assert not found, "\n\n".join(f"{each.kind} (seed {each.seed}): {each.detail}\n{each.text}" for each in found)


@pytest.mark.parametrize("kind", _PLAIN)
def test_random_cases_by_the_command_line(kind: str) -> None:
    found = check_plainly(list(SOURCES[kind].cases(_SEED, _PLAIN[kind])))
    assert not found, "\n\n".join(f"{each.kind} (seed {each.seed}): {each.detail}\n{each.text}" for each in found)


@pytest.mark.parametrize(("inner", "untrusted"), [("x", False), ("nothing", True)])
def test_faults_of_judges_are_known_within_bodies(inner: str, untrusted: bool) -> None:
    """The reference gives [None] for an optional without a tensor."""
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]> g (bool c, optional(float) x) => (optional(float) y) {{
        y = If(c) <then_branch = a () => (optional(float) u) {{ u = Identity(x) }},
                   else_branch = b () => (optional(float) v) {{
                     {"nothing = Optional<type: type_proto = float>()" if untrusted else ""} v = Identity({inner}) }}> }}""")
    assert is_untrusted("reference", model, {}) == untrusted
