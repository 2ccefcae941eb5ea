"""Weights: bit-exact through our own reader and through the real engine, complete or not there at all."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from onnx_systemds.engine.matrix_files import Weight, list_key, read_matrix, write_list, write_matrix
from onnx_systemds.errors import InvalidModel
from tests.command_line import run_dml
from tests.part_files import divide_file

Array = np.ndarray[Any, Any]

_RNG = np.random.default_rng(7)
_SPECIAL = np.array([[math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e-45, 0.1, 1.7976931348623157e308, 1.0]])


def _normal(rows: int, cols: int, dtype: Any = np.float64) -> Array:
    return _RNG.normal(size=(rows, cols)).astype(dtype)


CASES: dict[str, Array] = {
    "special": _SPECIAL,
    "one": np.array([[-2.5]]),
    "row": _normal(1, 2500),
    "column": _normal(2500, 1),
    "corner": _normal(1001, 1001),
    "wide": _normal(3, 1000),
    "grid": _normal(1500, 2300, np.float32),
    "zeros": np.zeros((1200, 1100)),
    "half_zeros": np.vstack([np.zeros((1000, 20)), _normal(30, 20)]),
    "float32": _normal(30, 40, np.float32),
    "float16": _normal(30, 40, np.float16),
    "bfloat16": _normal(30, 40, ml_dtypes.bfloat16),
    "float8": _normal(30, 40, ml_dtypes.float8_e4m3fn),
    "int64": _RNG.integers(-(2**53), 2**53, (30, 40)),
    "int8": _RNG.integers(-128, 127, (30, 40), dtype=np.int8),
    "uint64": np.array([[0, 2**53, 2**63]], np.uint64),
    "int4": np.arange(-8, 8).reshape(4, 4).astype(ml_dtypes.int4),
    "bool": _RNG.integers(0, 2, (30, 40)).astype(bool),
    "transposed": _normal(1100, 30, np.float32).T,
    "transposed_grid": _normal(1300, 1200).T,
    "strided": _normal(60, 80)[::2, ::-3],
    "big_endian": _normal(5, 6).astype(">f4"),
}


def bits(array: Array) -> bytes:
    """Return the doubles of `array` as bytes, every NaN alike."""
    values = np.ascontiguousarray(array.astype(np.float64))
    values[np.isnan(values)] = math.nan
    return values.tobytes()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block_size", [1000, 400])
def test_written_and_read_back(name: str, block_size: int, tmp_path: Path) -> None:
    array = CASES[name]
    steps: list[int] = []
    write_matrix(tmp_path / "W", array, block_size=block_size, progress=steps.append)
    assert bits(read_matrix(tmp_path / "W")) == bits(array)
    assert sum(steps) == 8 * array.size
    description = json.loads((tmp_path / "W.mtd").read_text())
    assert (description["rows"], description["cols"]) == array.shape
    assert description["nnz"] == np.count_nonzero(array.astype(np.float64))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["W", "W.mtd"]


@pytest.mark.parametrize("block_size", [1, 7, 64])
@pytest.mark.parametrize("threads", [1, 3])
def test_small_blocks(block_size: int, threads: int, tmp_path: Path) -> None:
    array = _normal(20, 33)
    write_matrix(tmp_path / "W", array, block_size=block_size, threads=threads)
    assert (tmp_path / "W").is_file()
    assert bits(read_matrix(tmp_path / "W")) == bits(array)


def test_same_weights_same_bytes(tmp_path: Path) -> None:
    array = _normal(50, 50)
    for name in "ab":
        write_matrix(tmp_path / name, array, block_size=10)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_blocks_of_zeros_take_no_space_but_keep_negative_zeros(tmp_path: Path) -> None:
    write_matrix(tmp_path / "Z", np.zeros((3000, 2500)))
    assert (tmp_path / "Z").stat().st_size < 1000
    write_matrix(tmp_path / "N", np.full((2, 2), -0.0))
    assert np.signbit(read_matrix(tmp_path / "N")).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (1, 2, 3), ()])
def test_what_is_no_matrix_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a matrix"):
        write_matrix(tmp_path / "W", np.zeros(shape))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", [np.complex64, object, "U3", "M8[s]"])
def test_what_is_not_real_is_refused(dtype: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_matrix(tmp_path / "W", np.zeros((2, 2), dtype))


def test_a_failure_leaves_the_old_file_alone(tmp_path: Path) -> None:
    old = _normal(40, 40)
    write_matrix(tmp_path / "W", old)

    def fail(size: int) -> None:
        raise RuntimeError("interrupted")

    for block_size in (1000, 10):
        with pytest.raises(RuntimeError):
            write_matrix(tmp_path / "W", _normal(90, 90), block_size=block_size, progress=fail)
        assert bits(read_matrix(tmp_path / "W")) == bits(old)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["W", "W.mtd"]


def test_replaces_what_stood_there(tmp_path: Path) -> None:
    (tmp_path / ".W.crc").write_bytes(b"stale")
    (tmp_path / "W").mkdir()
    (tmp_path / "W" / "part-00000").write_bytes(b"old")
    for _ in range(2):
        array = _normal(30, 30)
        write_matrix(tmp_path / "W", array)
        assert bits(read_matrix(tmp_path / "W")) == bits(array)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["W", "W.mtd"]


def test_list_layout_order_and_release(tmp_path: Path) -> None:
    events: list[object] = []
    weights = [
        Weight("conv1", CASES["float32"], lambda: events.append("conv1")),
        Weight("fc_1_mtd", CASES["bool"], lambda: events.append("fc")),
    ]
    for _ in range(2):
        events.clear()
        write_list(tmp_path / "deep" / "er", "W", weights, lambda size: events.append(size))
        assert events == [9600, "conv1", 9600, "fc"]
    directory = tmp_path / "deep" / "er"
    assert sorted(file.name for file in directory.iterdir()) == ["W", "W.mtd"]
    files = sorted(file.name for file in (directory / "W").iterdir())
    assert files == ["0_conv1", "0_conv1.mtd", "1_fc-1-mtd", "1_fc-1-mtd.mtd"]
    assert bits(read_matrix(directory / "W" / "1_fc-1-mtd")) == bits(CASES["bool"])


@pytest.mark.parametrize("names", [["a", "a"], ["../a"], [""], ["a b"], ["ä"]])
def test_bad_keys_are_refused(names: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="key of a weight|same name"):
        write_list(tmp_path, "W", [Weight(name, np.ones((1, 1))) for name in names])
    assert list(tmp_path.iterdir()) == []


def test_memory_stays_at_a_few_blocks(tmp_path: Path) -> None:
    array = np.broadcast_to(np.float32(0.5), (3000, 9000))
    tracemalloc.start()
    try:
        write_matrix(tmp_path / "W", array)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40e6, peak  # three blocks of 8 MB each; the matrix has 216 MB


def test_damaged_files_end_in_an_error(tmp_path: Path) -> None:
    write_matrix(tmp_path / "W", _normal(6, 6), block_size=3)
    whole = (tmp_path / "W").read_bytes()
    for size in [*range(0, 200, 7), len(whole) - 1]:
        (tmp_path / "W").write_bytes(whole[:size])
        with pytest.raises(InvalidModel):
            read_matrix(tmp_path / "W")
    for position in range(0, 220, 3):
        (tmp_path / "W").write_bytes(
            whole[:position] + bytes([whole[position] ^ 0x7F]) + whole[position + 1 :]
        )
        try:
            read_matrix(tmp_path / "W")
        except InvalidModel:
            continue
    for text in ("", "[]", "{}", '{"rows": 0, "cols": 1}', '{"rows": "x", "cols": 1}'):
        (tmp_path / "W.mtd").write_text(text)
        with pytest.raises(InvalidModel):
            read_matrix(tmp_path / "W")


def test_on_the_engine(tmp_path: Path) -> None:
    """One run reads every case as file, as parts and from a list, and writes it back for our reader."""
    weights = []
    lines = ['L = read("L", data_type="list")']
    for name, array in CASES.items():
        write_matrix(tmp_path / f"file_{name}", array)
        write_matrix(tmp_path / f"parts_{name}", array, block_size=1000 if name == "grid" else 400)
        divide_file(tmp_path / f"parts_{name}")
        weights.append(Weight(f"k_{name}", array))
        for kind in ("file", "parts"):
            lines.append(f'{kind}_{name} = read("{kind}_{name}")')
            lines.append(f'write({kind}_{name}, "out_{kind}_{name}", format="binary")')
        lines.append(f'list_{name} = as.matrix(L["{list_key("k_" + name)}"])')
        lines.append(f'write(list_{name}, "out_list_{name}", format="binary")')
    lines.append('print("length " + length(L) + " sum " + sum(parts_corner))')
    # Kinds of blocks that only the engine writes.
    lines.append("U = table(seq(1, 10), seq(1, 10), 1100, 1200) * 0.5")
    lines.append('write(U, "out_ultra", format="binary")')
    lines.append(
        "UC = table(matrix(10, 1, 1), matrix(1, 1, 1), 1100000, 1)\n"
        'write(UC, "out_ultra_column", format="binary")'
    )
    lines.append(
        'S = matrix(seq(1, 20000), 100, 200)\nS = S * (S %% 7 == 0)\nwrite(S, "out_sparse", format="binary")'
    )
    write_list(tmp_path, "L", weights)
    output = run_dml("\n".join(lines), tmp_path, "hybrid")
    assert f"length {len(CASES)} " in output
    for name, array in CASES.items():
        expected = array.astype(np.float64)
        if np.count_nonzero(expected) < 0.4 * expected.size:
            expected = expected + 0.0  # stored sparse, without the sign of zeros
        for kind in ("file", "parts", "list"):
            assert bits(read_matrix(tmp_path / f"out_{kind}_{name}")) == bits(expected), (kind, name)
    ultra = np.zeros((1100, 1200))
    ultra[range(10), range(10)] = 0.5
    assert bits(read_matrix(tmp_path / "out_ultra")) == bits(ultra)
    column = np.zeros((1_100_000, 1))
    column[9] = 1
    assert bits(read_matrix(tmp_path / "out_ultra_column")) == bits(column)
    sparse = np.arange(1.0, 20001).reshape(100, 200)
    assert bits(read_matrix(tmp_path / "out_sparse")) == bits(sparse * (sparse % 7 == 0))


def test_a_count_of_values_that_spark_has_written_may_be_another(tmp_path: Path) -> None:
    array = _normal(20, 33)
    write_matrix(tmp_path / "W", array, block_size=10)
    description = json.loads((tmp_path / "W.mtd").read_text())
    (tmp_path / "W.mtd").write_text(json.dumps({**description, "nnz": description["nnz"] + 7}))
    assert bits(read_matrix(tmp_path / "W")) == bits(array)


def test_a_missing_part_is_told(tmp_path: Path) -> None:
    write_matrix(tmp_path / "whole", _normal(20, 33), block_size=10)
    (tmp_path / "W").mkdir()
    write_matrix(tmp_path / "W" / "part-00000", _normal(10, 33), block_size=10)
    (tmp_path / "W" / "part-00000.mtd").unlink()
    (tmp_path / "whole.mtd").rename(tmp_path / "W.mtd")
    with pytest.raises(InvalidModel, match=r"does not hold all values that its \.mtd file counts"):
        read_matrix(tmp_path / "W")
