"""Inputs that are columns of one table have the same number of rows, whatever the model calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_systemds import import_model
from onnx_systemds.importing.block_sizes import MOST_ROWS
from onnx_systemds.model.ir import TensorType
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.row_blocks import common_rows, row_blocks, script_for_rows
from onnx_systemds.runtime.row_sources import TableRows
from onnx_systemds.runtime.table_inputs import table_inputs
from onnx_systemds.tables.csv_files import CsvTable
from tests.invoking import invoke
from tests.test_score_command import saved, table

ADDED = "added (float[a, 1] x, float[b, 1] y, int64[c, 1] unread) => (float[n, 1] z) { z = Add(x, y) }"
LOOKED_UP = """looked_up (float[t, 4] rows, int64[a] i, float[b, 2] x) => (float[n, 6] y)
  { g = Gather(rows, i) y = Concat<axis=1>(g, x) }"""


@pytest.mark.parametrize("unnamed", [(), ("x", "y", "unread"), ("y",)])
def test_rows_share_a_size_in_tables_only(tmp_path: Path, unnamed: tuple[str, ...]) -> None:
    """Those of an input that nothing reads, too."""
    path = saved(tmp_path, ADDED, unnamed=unnamed)
    assert import_model(path).batch is None
    script = import_model(path, types=common_rows(load_model(path), {}))
    assert script.batch is not None and script.batch.inputs == (0, 0, 0)
    assert script.batch.symbol == ("rows" if len(unnamed) == 3 else "a")
    opened = CsvTable(table(tmp_path / "x.csv", {"x": [1], "y": [2], "unread": [0]}), has_header=True)
    rows = TableRows(opened, table_inputs(script, opened, None, has_header=True))
    assert row_blocks(script, rows).rows == MOST_ROWS
    opened.close()


def test_sizes_that_are_given_go_before_names(tmp_path: Path) -> None:
    def rows(sizes: dict[str, int], unnamed: tuple[str, ...] = (), text: str = ADDED) -> list[str]:
        types = common_rows(load_model(saved(tmp_path, text, unnamed=unnamed)), sizes, is_table=True)
        return [str(dims[0]) for type_ in types.values() if isinstance(type_, TensorType) and (dims := type_.dims)]

    assert rows({}) == rows({"a": 5}) == ["a", "a", "a"]
    assert rows({"b": 5}) == ["b", "b", "b"]
    assert rows({"a": 5, "c": 5}) == ["a", "a"]
    assert rows({"unread_dim0": 5}, ("unread",)) == ["unread_dim0"] * 3
    assert rows({"rows": 5}, ("x", "y", "unread")) == ["rows"] * 3
    assert rows({}, ("x",), ADDED.replace("float[b, 1]", "float[?, rows]")) == ["c"] * 3
    assert rows({}, ("x", "y", "unread"), ADDED.replace("float[b, 1]", "float[b, rows]")) == ["rows_"] * 3


def test_rows_are_not_common_to_what_is_looked_up(tmp_path: Path) -> None:
    path = saved(tmp_path, LOOKED_UP, unnamed=("rows", "i", "x"))
    types = common_rows(load_model(path), {})
    script = script_for_rows(lambda types: import_model(path, types=types), types)
    assert len(types) == 3 and script.batch is not None and script.batch.inputs == (None, 0, 0)
    assert invoke(path, "--score").exit_code == 0
    assert "if (nrow(x) != i_dim0)" in (text := path.with_suffix(".dml").read_text()) and "!= rows" not in text
    assert "(i_dim0) in 3 blocks of 1,000" in invoke("inspect", path, "--plan", "spark", "--dim", "i_dim0=3000").output
    fixed = script_for_rows(lambda types: import_model(path, types=types, dims={"rows": 5}), types)
    assert [port.dims[0] for port in fixed.inputs] == [5, 5, 5]
