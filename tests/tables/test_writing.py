"""Results in files: columns, their names and texts, arrays of several blocks."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.tables.parquet_files import ParquetTable
from onnx_systemds.tables.reading import BOOLEAN, FLOAT, INTEGER, TEXT, Column
from onnx_systemds.tables.writing import WRITERS, shortest

Blocks = list[dict[str, np.ndarray[Any, Any]]]

TEXTS = np.array(["a", 'b, "c"', "", "two\nlines"], object)
BLOCKS: Blocks = [
    {"y": np.array([[0.1, 2], [np.nan, -np.inf]], np.float32), "n": np.array([1, -2]), "t": TEXTS[:2, None]},
    {"y": np.array([[1e-7, 3e8]], np.float32), "n": np.array([2**53]), "t": TEXTS[2:3, None]},
    {"y": np.array([[0, 16777217]], np.float32), "n": np.array([0]), "t": TEXTS[3:, None]},
]


def written(path: Path, blocks: Blocks, axes: Mapping[str, int | None] | None = None) -> Path:
    with path.open("wb") as stream:
        writer = WRITERS[path.suffix](stream, path, axes or {})
        for block in blocks:
            writer.write(block)
        writer.finish()
    return path


def test_csv(tmp_path: Path) -> None:
    text = written(tmp_path / "a.csv", BLOCKS).read_text(encoding="utf-8")
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["y_0", "y_1", "n", "t"],
        ["0.1", "2.0", "1", "a"],
        ["nan", "-inf", "-2", 'b, "c"'],
        ["1e-07", "300000000.0", "9007199254740992", ""],
        ["0.0", "16777216.0", "0", "two\nlines"],
    ]


def test_csv_of_numbers_only(tmp_path: Path) -> None:
    blocks: Blocks = [
        {"y": np.array([0.1, 1 / 3]), "b": np.array([True, False]), "h": np.array([0.5, 2], np.float16), "i": np.int32([16777217, -1]),
         "bf": np.array([0.5, 3], ml_dtypes.bfloat16), "deep": np.arange(4.0).reshape(2, 1, 2)}]
    assert written(tmp_path / "a.csv", blocks).read_text().splitlines() == [
        "y,b,h,i,bf,deep_0,deep_1", "0.1,true,0.5,16777217,0.5,0.0,1.0", "0.3333333333333333,false,2.0,-1,3.0,2.0,3.0"]


def test_numbers_read_back_the_same() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32)
    numbers = np.concatenate([bits.view(np.float32), np.float32([0, -0.0, 0.1, 1e10, 1.17549435e-38, 1e-45, 3.4028235e38])])
    texts = list(map(repr, shortest(numbers).tolist()))
    np.testing.assert_array_equal(np.array(texts, np.float64).astype(np.float32), numbers)
    usual = np.float32([0.1, 0.7, 1234.5678, 1e-5, 123456.7, 0.33333334])
    assert shortest(usual).tolist() == [float(str(number)) for number in usual]


def test_arrays(tmp_path: Path) -> None:
    found = np.load(written(tmp_path / "a.npz", BLOCKS))
    assert {name: found[name].dtype.kind for name in found.files} == {"y": "f", "n": "i", "t": "U"}
    np.testing.assert_array_equal(found["y"], np.concatenate([block["y"] for block in BLOCKS]))
    np.testing.assert_array_equal(found["n"], [1, -2, 2**53, 0])
    np.testing.assert_array_equal(found["t"][:, 0], TEXTS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_arrays_along_other_axes(tmp_path: Path) -> None:
    blocks: Blocks = [{"a": np.ones((3, 2)), "all": np.array([7]), "file": np.array(1.5)},
                      {"a": np.zeros((3, 1)), "all": np.array([7]), "file": np.array(1.5)}]
    found = np.load(written(tmp_path / "a.npz", blocks, {"a": 1, "all": None, "file": None}))
    np.testing.assert_array_equal(found["a"], [[1, 1, 0]] * 3)
    assert found["all"].tolist() == [7] and found["file"].shape == ()


def test_one_array(tmp_path: Path) -> None:
    found = np.load(written(tmp_path / "a.npy", [{"y": block["y"]} for block in BLOCKS]))
    np.testing.assert_array_equal(found, np.concatenate([block["y"] for block in BLOCKS]))
    with pytest.raises(TranspileError, match='one array, the results are "y", "n", "t"'):
        written(tmp_path / "a.npy", BLOCKS)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"y": np.ones((2, 2)), "z": np.ones(3)}, r'no columns of one table: "y" \[2, 2\], "z" \[3\]'),
        ({"y": np.array(1.0)}, "no columns of one table"),
        ({"y": np.ones((2, 2)), "y_1": np.ones(2)}, 'two columns would be called "y_1"'),
    ],
)
def test_what_is_no_table(tmp_path: Path, block: dict[str, Any], message: str) -> None:
    with pytest.raises(TranspileError, match=message):
        written(tmp_path / "a.csv", [block])


@pytest.mark.parametrize("name", ["a.csv", "a.npz"])
def test_sizes_that_differ_between_blocks(tmp_path: Path, name: str) -> None:
    with pytest.raises(TranspileError, match="between blocks of rows"):
        written(tmp_path / name, [{"y": np.ones((2, 2))}, {"y": np.ones((2, 3))}])


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = ParquetTable(written(tmp_path / "a.parquet", BLOCKS))
    assert (table.names, table.size) == (["y_0", "y_1", "n", "t"], 4)
    kinds = (FLOAT, FLOAT, INTEGER, TEXT)
    columns = [Column(place, name, kind) for place, (name, kind) in enumerate(zip(table.names, kinds))]
    blocks = list(table.blocks(columns, 3))
    assert max(len(block[0]) for block in blocks) <= 3
    y0, y1, n, t = (np.concatenate(column) for column in zip(*blocks))
    whole = np.concatenate([block["y"] for block in BLOCKS])
    np.testing.assert_array_equal(np.column_stack([y0, y1]), whole)
    assert n.tolist() == [1, -2, 2**53, 0] and t.tolist() == TEXTS.tolist() and table.done == 4
    table.close()


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (["a"], FLOAT, 'column "x" holds string, number is needed'),
        ([1.5], TEXT, 'column "x" holds double, text is needed'),
        ([[1.0]], FLOAT, "number is needed"),
        ([1, None, 3], INTEGER, 'row 2, column "x" is empty, an integer is needed'),
        ([1.0, 2.5], INTEGER, 'row 2, column "x": "2.5" is no integer'),
        ([1, 2], BOOLEAN, 'row 2, column "x": "2" is no boolean'),
        (np.array([1, 2**63], np.uint64), INTEGER, 'row 2, column "x": "9223372036854775808" is no integer'),
        ([2.0**53], INTEGER, 'row 1, column "x": "9007199254740992.0" is no integer'),
        ([None], INTEGER, 'row 1, column "x" is empty, an integer is needed'),
    ],
)
def test_parquet_of_other_types(tmp_path: Path, values: list[Any], kind: str, message: str) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": values}), tmp_path / "a.parquet")
    with pytest.raises(TranspileError, match=message):
        list(ParquetTable(tmp_path / "a.parquet").blocks([Column(0, "x", kind)], 10))


def test_parquet_with_gaps_and_other_forms_of_text(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = arrow.array(["a", None, "b"]).dictionary_encode()
    parquet.write_table(arrow.table({"f": [1, None, 3], "t": texts}), tmp_path / "a.parquet")
    ((f, t),) = ParquetTable(tmp_path / "a.parquet").blocks([Column(0, "f", FLOAT), Column(1, "t", TEXT)], 10)
    np.testing.assert_array_equal(f, [1, np.nan, 3])
    assert t.tolist() == ["a", "", "b"]


def test_parquet_with_large_integers_and_columns_of_nothing(tmp_path: Path) -> None:
    """The times of pandas in nanoseconds are beyond 2^53; a column without values has no type."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    content = {"x": [2**60 + 1, None], "u": np.array([2**64 - 1, 0], np.uint64), "none": [None, None]}
    parquet.write_table(arrow.table(content), tmp_path / "a.parquet")
    columns = [Column(0, "x", FLOAT), Column(1, "u", FLOAT), Column(2, "none", FLOAT), Column(2, "none", TEXT)]
    ((x, u, none, text),) = ParquetTable(tmp_path / "a.parquet").blocks(columns, 10)
    np.testing.assert_array_equal([x, u, none], [[2.0**60, np.nan], [2.0**64, 0], [np.nan, np.nan]])
    assert text.tolist() == ["", ""]


def test_parquet_with_decimals(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    prices = ["0.1", None, "-12345678901234567890.12"]
    parquet.write_table(arrow.table({"x": [each and Decimal(each) for each in prices]}), tmp_path / "a.parquet")
    ((x,),) = ParquetTable(tmp_path / "a.parquet").blocks([Column(0, "x", FLOAT)], 10)
    np.testing.assert_array_equal(x, [0.1, np.nan, -12345678901234567890.12])
    with pytest.raises(TranspileError, match=r'column "x" holds decimal128\(22, 2\), integer is needed'):
        list(ParquetTable(tmp_path / "a.parquet").blocks([Column(0, "x", INTEGER)], 10))


def test_what_is_no_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(TranspileError, match="cannot be read as parquet"):
        ParquetTable(tmp_path / "a.parquet")


@pytest.mark.parametrize("place", ["first page", "footer"])
def test_damaged_parquet(tmp_path: Path, place: str) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": range(100)}), tmp_path / "a.parquet", use_dictionary=False)
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    start = 4 if place == "first page" else len(content) - 60
    content[start : start + 36] = b"\xff" * 36
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(TranspileError, match=r"a\.parquet: it cannot be read as parquet: \S"):
        list(ParquetTable(tmp_path / "a.parquet").blocks([Column(0, "x", FLOAT)], 10))


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(TranspileError, match=r"needs the Python package pyarrow[^$]*onnx-systemds\[files\]"):
        ParquetTable(tmp_path / "a.parquet")
