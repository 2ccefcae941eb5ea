"""Products with a table of places are gathers and scatters where the table is large, whatever its places are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.exporting.export_harness import Array, ExportCase, assert_close, check_export, model_of, operators, run_model

RNG = np.random.default_rng(23)
SIZE, COUNT = 90, 70
ROWS, COLS = (RNG.integers(1, SIZE + 1, size=(COUNT, 1)).astype(float) for _ in range(2))
ROWS[3:6] = ROWS[2]  # several numbers at one place
COLS[3:5] = COLS[2]
GIVEN: dict[str, Array] = {"I": ROWS, "J": COLS, "W": RNG.normal(size=(COUNT, 1)), "X": RNG.normal(size=(SIZE, 4))}
TALL, WIDE = f"table(I, J, W, {SIZE}, {SIZE})", f"table(I, J, {SIZE}, {SIZE})"


def case(name: str, body: str, names: str, **more: object) -> ExportCase:
    inputs = {key: GIVEN[key] for key in names.split()}
    return ExportCase(name, body, inputs, **more)  # type: ignore[arg-type]


CASES = [
    case("rows added up", f"Y = {WIDE} %*% X", "I J X", symbols={"X": [SIZE, "M"]}, sizes=[{"X": GIVEN["X"][:, :2]}]),
    case("weighted rows added up", f"Y = {TALL} %*% X", "I J W X"),
    case("columns added up", f"Y = t(X) %*% {TALL}", "I J W X", symbols={"I": ["N", 1], "J": ["N", 1], "W": ["N", 1]},
         sizes=[{"I": ROWS[:9], "J": COLS[:9], "W": GIVEN["W"][:9]}]),
    case("weighted rows added up, turned", f"Y = t({TALL}) %*% X", "I J W X"),
    case("chosen columns", f"Y = t(X) %*% table(I, seq(1, {COUNT}), {SIZE}, {COUNT})", "I X"),
    case("chosen weighted rows", f"Y = table(seq(1, {COUNT}), J, W, {COUNT}, {SIZE}) %*% X", "J W X"),
    case("a table of other rows and columns", f"Y = matrix({TALL}, rows={SIZE // 2}, cols={2 * SIZE}) %*% rbind(X, X ^ 2)", "I J W X"),
    case("rows in halves", f"Y = matrix(table(2 * seq(1, {COUNT}) - (J > {SIZE // 2}), J, W, {2 * COUNT}, {SIZE}), rows={COUNT}, cols={2 * SIZE})"
         " %*% rbind(X, X ^ 2)", "J W X"),
    case("places outside, of other rows and columns", f"Y = matrix(table(I, J, W, 76, {SIZE}), rows=38, cols={2 * SIZE}) %*% rbind(X, X ^ 2)",
         "I J W X"),
    case("places outside", f"Y = table(I, J, W, 75, {SIZE}) %*% X", "I J W X"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_product_agrees_with_the_engine(case: ExportCase) -> None:
    check_export(case)


@pytest.mark.parametrize("case", CASES[:8], ids=str)
def test_no_table_is_made(case: ExportCase) -> None:
    assert {"MatMul", "Equal"}.isdisjoint(operators(model_of(case, "float32")))


def test_a_number_that_is_none_stays_in_its_row() -> None:
    data = {**GIVEN, "X": np.where(np.arange(SIZE)[:, None] == int(COLS[0, 0]) - 1, np.nan, 1.0) * np.ones((1, 4))}
    found = run_model(model_of(CASES[0], "float32"), data)["Y"]
    hit = {int(row) - 1 for row, column in zip(ROWS.ravel(), COLS.ravel()) if column == COLS[0, 0]}
    assert {int(row) for row in np.flatnonzero(np.isnan(found).any(1))} == hit


@pytest.mark.parametrize("case", CASES[1:4], ids=str)
def test_a_weight_that_is_none_counts_nowhere(case: ExportCase) -> None:
    weights = np.where(np.arange(COUNT)[:, None] == 7, np.nan, GIVEN["W"])
    check_export(replace(case, inputs={**case.inputs, "W": weights}, sizes=()))


def test_a_table_of_opset_15_is_multiplied() -> None:
    older, newer = (model_of(replace(CASES[1], opset=opset), "float32") for opset in (15, 21))
    assert "MatMul" in operators(older)
    assert_close(run_model(newer, GIVEN)["Y"], run_model(older, GIVEN)["Y"].astype(np.float64), 1e-5, "opset 15")


READ = "Y = table(seq(1, nrow(X)), {}, nrow(X), 3) %*% W"


@pytest.mark.parametrize(("body", "is_guarded"), [
    (READ.format("X[, 1]"), True), (READ.format("rowIndexMax(X) - 1"), True), ("Y = embedding::forward(X[, 1], W)", True),
    ('Y = aggregate(target=X, groups=X[, 1], fn="sum")', True), (READ.format("rowIndexMax(X)"), False),
    (READ.format("order(target=X, index.return=TRUE)"), False)])
def test_indices_below_1_are_not_read_from_the_end(body: str, is_guarded: bool) -> None:
    """The engine stops, and so does Gather at positions after the last."""
    given = {"X": np.array([[1.0, 0, 0], [0, -1, -1], [2, 0, 0]]), "W": np.arange(6.0).reshape(3, 2)}
    case = ExportCase("places", body, given, bound=["W"] if "W" in body else (), sources={"embedding": "nn/layers/embedding.dml"})
    model = model_of(replace(case, inputs=given if "W" in body else {"X": given["X"]}), "float32")
    assert ("Mod" in operators(model)) == is_guarded
    if is_guarded:
        with pytest.raises(Exception, match="out of data bounds|invalid indice"):
            run_model(model, given)
    else:
        run_model(model, given)
