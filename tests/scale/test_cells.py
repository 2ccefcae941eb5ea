"""Each family of models in each place, against onnxruntime, by the tolerance of ``verify``; or refused with the node."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds.importing.plan import plan_of
from onnx_systemds.importing.score_program import program_name
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.row_blocks import common_rows
from onnx_systemds.verifying.comparing import compare_tensors
from tests.model_zoo import MODELS, needs_models
from tests.scale.cells import FAMILIES, IN_ONE_CALL, PLACES, REFUSED, table
from tests.scale.explained import places_of_calls
from tests.scale.places import MASTERS, Place, opened_place
from tests.scale.sites import ROWS_TOLD, at_sites, times_fetched, two_workers
from tests.scored_files import converted, expected_rows, numbers, stored_rows, targets, written

ROWS, FIRST = 150, 40
EXPLAINED = ("MLP", "XGBoost", "CNN")
"""Families whose plan is compared with what the engine says that it does."""
PLANS = {"local[2]": "spark", "local-cluster": "spark", "federated": "federated"}
SCORING = Path(__file__).parents[2] / "docs" / "scoring.md"


@dataclass(frozen=True)
class Opened:
    """A place, and the ports of the sites if it has some."""

    place: Place
    ports: tuple[int, int] | None


@pytest.fixture(scope="module", params=[pytest.param(name, marks=[pytest.mark.spark] if name in MASTERS else []) for name in PLACES])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    name, folder = request.param, tmp_path_factory.mktemp("place")
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(opened_place(name, folder))
        yield Opened(place, stack.enter_context(two_workers(folder)) if name == "federated" else None)


@needs_models
@pytest.mark.engine
@pytest.mark.parametrize("family", FAMILIES)
def test_cell(family: str, opened: Opened) -> None:
    assert MODELS is not None
    place, name = opened.place, FAMILIES[family].replace(".", "_")
    path, program = MODELS / "generated" / f"{FAMILIES[family]}.onnx", program_name(name)
    script, feeds = converted(path, place.folder, name), stored_rows(path, ROWS)
    outputs, options = targets(script, f"{name}_"), ["-stats", "-explain", "runtime"]
    arguments = {**outputs, **({} if family == IN_ONE_CALL else {"rows": "40"})}
    if place.name in ("local[2]", "local-cluster"):
        arguments["place"] = "spark"
    if opened.ports is None:
        arguments |= written(script, feeds, place.folder, f"{name}_")
    else:
        rows = np.hstack([feeds[port.name].reshape(ROWS, -1).astype(object) for port in script.inputs])
        rows = rows if any(port.dtype == "string" for port in script.inputs) else rows.astype(np.float64)
        text = (place.folder / program).read_text(encoding="utf-8")
        moved = at_sites(text, rows, FIRST, opened.ports, place.folder, f"{name}_")
        (place.folder / program).write_text(moved, encoding="utf-8")
        arguments |= {"format": "federated", "table": "at sites"}
    if (reason := REFUSED.get((family, place.name))) is not None:
        with pytest.raises(Exception, match=re.escape(reason)):
            place.run(program, arguments, *options)
        return
    output = place.run(program, arguments, *options)
    assert f"scored {ROWS} rows in" in output
    assert opened.ports is None or times_fetched(output) == ROWS_TOLD
    if family in EXPLAINED:
        model = load_model(path)
        plan = plan_of(model, {}, common_rows(model, {}), PLANS.get(place.name, "local"))
        assert places_of_calls(output, script.function) == {row.where for row in plan.rows}
    for (result, target), expected in zip(outputs.items(), expected_rows(script, path, feeds)):
        found = numbers(place.folder / target)
        comparison = compare_tensors(result, found.reshape(expected.shape).astype(expected.dtype), expected)
        assert comparison.passed, comparison


def test_the_documentation_has_the_table_of_cells() -> None:
    assert "\n\n" + "\n".join(table()) + "\n\n" in SCORING.read_text(encoding="utf-8")
