"""Csv files as arrays: what fields say, block by block, and the place of each that says nothing."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.tables import csv_files
from onnx_systemds.tables.csv_files import CsvTable
from onnx_systemds.tables.reading import BOOLEAN, FLOAT, INTEGER, TEXT, Column


def read(path: Path, content: str | bytes, kinds: str, rows: int = 2, has_header: bool = True) -> list[list[object]]:
    """The columns, one for each letter of ``kinds``; a "-" is one that is not wanted."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    table = CsvTable(path, has_header=has_header)
    names = {"f": FLOAT, "i": INTEGER, "b": BOOLEAN, "t": TEXT}
    columns = [Column(place, table.names[place], names[kind]) for place, kind in enumerate(kinds) if kind != "-"]
    blocks = list(table.blocks(columns, rows))
    table.close()
    assert all(0 < len(block[0]) <= rows for block in blocks)
    return [np.concatenate(column).tolist() for column in zip(*blocks)]


@pytest.fixture(params=["pyarrow", "numpy", "python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the parsers is the first."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(csv_files, "_by_arrow", lambda *_: None)
    if request.param == "python":
        monkeypatch.setattr(csv_files, "_plain_numbers", lambda *_: None)
    return str(request.param)


NUMBERS = "1,-2.5\n1e3, 4 \n+0.1,.5\nnan,-inf\n,7\n8,\n-0.0,1e-320\n"
EXPECTED = [[1, 1000, 0.1, math.nan, math.nan, 8, -0.0], [-2.5, 4, 0.5, -math.inf, 7, math.nan, 1e-320]]


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.usefixtures("parser")
def test_numbers(tmp_path: Path, rows: int, end: str) -> None:
    found = read(tmp_path / "a.csv", "x,y\n".replace("\n", end) + NUMBERS.replace("\n", end), "ff", rows)
    np.testing.assert_array_equal(found, EXPECTED)


@pytest.mark.parametrize("parser", ["pyarrow", "numpy"], indirect=True)
@pytest.mark.usefixtures("parser")
def test_plain_numbers_need_no_other_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CsvTable, "_exact", None)
    np.testing.assert_array_equal(read(tmp_path / "a.csv", "x,y\n" + NUMBERS, "ff"), EXPECTED)
    assert read(tmp_path / "a.csv", "x,n,y\n1,2,3\n4,5,6\n", "-if") == [[2, 5], [3, 6]]
    np.testing.assert_array_equal(read(tmp_path / "a.csv", "x,y,z\n1,,3\n4,5,6\n", "fff"), [[1, 4], [math.nan, 5], [3, 6]])


@pytest.mark.usefixtures("parser")
def test_large_integers(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", "x\n9007199254740993\n-9007199254740993\n", "i") == [[2**53 + 1, -(2**53) - 1]]


@pytest.mark.usefixtures("parser")
def test_all_kinds(tmp_path: Path) -> None:
    content = 'f,t,i,b,no\n1,"a ""b"", c",2,true,x\n2,"two\nlines",9007199254740993,0,\n,,-3.0,FALSE,z\n\n4,end, 5 ,1,"\n"\n'
    f, t, i, b = read(tmp_path / "a.csv", content, "ftib-")
    np.testing.assert_array_equal(f, [1, 2, math.nan, 4])
    assert t == ['a "b", c', "two\nlines", "", "end"]
    assert i == [2, 9007199254740993, -3, 5]
    assert b == [True, False, False, True]


@pytest.mark.usefixtures("parser")
def test_all_kinds_without_quotes(tmp_path: Path) -> None:
    content = "f,t,i,b,no\r\n 1 ,é NA,2,TRUE,x\r\n\r\n,,9223372036854775807,0,\r\n-1e308,nan,-5,false,z"
    f, t, i, b = read(tmp_path / "a.csv", content, "ftib-", 10)
    np.testing.assert_array_equal(f, [1, math.nan, -1e308])
    assert (t, i, b) == (["é NA", "", "nan"], [2, 2**63 - 1, -5], [True, False, False])


def test_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("5,6\n3,4\n")
    assert CsvTable(tmp_path / "a.csv", has_header=False).names == ["1", "2"]
    assert read(tmp_path / "a.csv", "1,2\n3,4\n5,6", "ff", has_header=False) == [[1, 3, 5], [2, 4, 6]]
    assert read(tmp_path / "a.csv", '"1\n",2\n3,4\n', "tt", has_header=False) == [["1\n", "3"], ["2", "4"]]


def test_a_mark_of_utf8_is_no_part_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("\ufeffStraße,b\n1,2\n".encode())
    assert CsvTable(tmp_path / "a.csv", has_header=True).names == ["Straße", "b"]


@pytest.mark.usefixtures("parser")
def test_long_fields(tmp_path: Path) -> None:
    """Longer than the csv module takes by itself, quoted and in the header as well."""
    long = "long, " * 30000
    (tmp_path / "a.csv").write_text(f'"{long}",b\n"{long}",2\n')
    table = CsvTable(tmp_path / "a.csv", has_header=True)
    assert table.names == [long, "b"]
    assert [column.tolist() for block in table.blocks([Column(0, long, TEXT)], 10) for column in block] == [[long]]


def test_a_quote_that_is_left_open_does_not_take_the_file(tmp_path: Path) -> None:
    with pytest.raises(TranspileError, match=r"line \d+: field larger than field limit [^\n]*\n  hint: is a double quote"):
        read(tmp_path / "a.csv", 'x\n"' + ("1" * 4096 + "\n") * 4096, "t")


def test_header_only(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", "x,y\n", "ff") == []


@pytest.mark.parametrize(
    ("content", "kinds", "message"),
    [
        ("", "f", "it is empty"),
        ("x,y\n1,2\n3,a\n", "ff", 'line 3, column "y": "a" is no number'),
        ("x,y\n1,2\n3,1_0\n", "ff", 'line 3, column "y": "1_0" is no number'),
        ("x,y\n1,2\n\n3,4\n5,0x10\n", "ff", 'line 5, column "y": "0x10" is no number'),
        ('x,y\n"1\n",2\n"3",NA\n', "tf", 'line 4, column "y": "NA" is no number\n  hint: a missing value is an empty field'),
        ("x,y\n1,2\n3,\n", "fi", 'line 3, column "y" is empty, an integer is needed'),
        ("x\n1\n2.5\n", "i", 'line 3, column "x": "2.5" is no integer'),
        ("x\n1\n0xFFFFFFFFFFFFFFFF\n", "i", 'line 3, column "x": "0xFFFFFFFFFFFFFFFF" is no integer'),
        ("x\n1\n0XFF\n", "i", 'line 3, column "x": "0XFF" is no integer'),
        ("x\n1\n1_0\n", "i", 'line 3, column "x": "1_0" is no integer'),
        ("x\n1\ninf\n", "i", 'line 3, column "x": "inf" is no integer'),
        ("x\n1\n1e17\n", "i", 'line 3, column "x": "1e17" is no integer'),
        ("x\n9223372036854775808\n", "i", '"9223372036854775808" is no integer'),
        ("x\n0\n2\n", "b", 'line 3, column "x": "2" is no boolean'),
        ("x,y\n0,\n", "fb", 'line 2, column "y" is empty, a boolean is needed'),
        ("x,y\n1,2\n3,4\n5\n", "ff", "line 4 has 1 field, the first line has 2"),
        ("x,y\n1,2\n3,4,5\n", "f-", "line 3 has 3 fields, the first line has 2"),
        ('x,y\n1,2\n3,"4\n', "ff", "line 3: unexpected end of data"),
        ('x,y\n1,"2,5"\n', "ff", '"2,5" is no number\n  hint: the decimal sign is a point'),
        (b"x,y\n1,\xff\n", "ft", "a.csv: it is not UTF-8: invalid start byte\n  hint: save it as text in UTF-8"),
        (b"x\n" + b"1\n" * 10000 + b"\xff\n", "f", "it is not UTF-8: invalid start byte"),  # not in what is read first
        ("x,y\n1,2\n".encode("utf-16"), "ff", "a.csv: it is not UTF-8"),
        (gzip.compress(b"x,y\n1,2\n", mtime=0), "ff", "a.csv: it is compressed\n  hint: unpack it first"),
    ],
)
@pytest.mark.usefixtures("parser")
def test_what_is_wrong_has_a_place(tmp_path: Path, content: str | bytes, kinds: str, message: str) -> None:
    with pytest.raises(TranspileError) as caught:
        read(tmp_path / "a.csv", content, kinds)
    assert message in str(caught.value) and str(caught.value).startswith(str(tmp_path / "a.csv"))
