"""``onnx-systemds score``: rows of files through models, block by block; onnxruntime judges."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import Result
from onnx import helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.block_sizes import MOST_ROWS
from onnx_systemds.runtime.row_blocks import row_blocks
from onnx_systemds.runtime.row_sources import ArrayRows
from onnx_systemds.runtime.table_inputs import table_inputs
from onnx_systemds.tables.csv_files import CsvTable
from onnx_systemds.tables.opening import open_table
from onnx_systemds.tables.reading import FLOAT, Column
from onnx_systemds.tables.writing import CsvWriter
from tests.invoking import invoke

RANDOM = np.random.default_rng(0)
HEAD = '<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3]> '
WEIGHTS = {"w": RANDOM.normal(size=(4, 3)).astype(np.float32), "f": RANDOM.normal(size=(2, 1, 3, 3)).astype(np.float32)}
MLP = "mlp (float[n, 4] X) => (float[n, 3] Y) { h = MatMul(X, w)  Y = Softmax(h) }"
MIXED = """mixed (float[a, 1] age, int64[b, 1] steps, string[c, 1] city) => (string[n, 1] label, float[n, 3] y) {
  code = ai.onnx.ml.LabelEncoder<keys_strings=["Graz", "Linz, AT", ""], values_floats=[1.0, 2.0, 3.0]>(city)
  count = Cast<to=1>(steps)
  y = Concat<axis=1>(age, count, code)
  best = ArgMax<axis=1>(y)
  label = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1, 2], values_strings=["a", "b, c", "d"]>(best)
}"""
ZIPMAP = """zipped (float[n, 4] X) => (int64[n] label, map[float] scores) {
  label, p = ai.onnx.ml.LinearClassifier<coefficients=[0.5, -1.0, 0.25, 2.0, -0.5, 1.0, -0.25, -2.0],
    intercepts=[0.1, -0.1], classlabels_ints=[3, 7], post_transform="SOFTMAX">(X)
  scores = ai.onnx.ml.ZipMap<classlabels_int64s=[3, 7]>(p)
}"""
TREES = """trees (float[n, 4] X) => (float[n, 1] y) {
  y = ai.onnx.ml.TreeEnsembleRegressor<n_targets=1, nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2],
    nodes_featureids=[2, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.1, 0.0, 0.0],
    nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], nodes_missing_value_tracks_true=[1, 0, 0],
    target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[-1.5, 2.5]>(X)
}"""
CNN = "cnn (float[n, 1, 5, 5] X) => (float[n, 2, 3, 3] Y) { c = Conv(X, f)  Y = Relu(c) }"
SUMS = "sums (float[n, 4] X) => (float[n, 4] Y) { Y = CumSum(X, axis) }"
SINGLE = "single (float[1, 4] X) => (float[1, 3] Y) { Y = MatMul(X, w) }"


def saved(folder: Path, text: str, unnamed: tuple[str, ...] = ()) -> Path:
    text = text.replace("map[float] scores", "float scores")
    model = onnx.parser.parse_model(HEAD + text)
    read = {name for node in model.graph.node for name in node.input}
    known = {**WEIGHTS, "axis": np.array(0, np.int64)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in known.items() if name in read)
    for output in model.graph.output:
        if output.name == "scores":
            output.type.CopyFrom(helper.make_sequence_type_proto(helper.make_map_type_proto(
                onnx.TensorProto.INT64, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, []))))
    for given in model.graph.input:
        if given.name in unnamed:
            given.type.tensor_type.shape.dim[0].Clear()
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def judged(model: Path, inputs: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    results: list[Any] = session.run(None, inputs)
    return results


def score(*arguments: object) -> Result:
    return invoke("score", *arguments)


def scored(model: Path, source: Path, target: Path, *options: object) -> str:
    result = score(model, "--input", source, "--output", target, *options)
    assert result.exit_code == 0, result.output
    return result.output


def table(path: Path, columns: dict[str, Any]) -> Path:
    lines = [",".join(columns), *(",".join(f'"{cell}"' if isinstance(cell, str) else str(cell) for cell in row)
                                  for row in zip(*columns.values()))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def four(rows: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)


def four_columns(path: Path, x: np.ndarray[Any, Any]) -> Path:
    return table(path, {f"c{place}": column.tolist() for place, column in enumerate(x.T)})


# --- on the engine -------------------------------------------------------------------------------------------------


@pytest.mark.engine
@pytest.mark.parametrize("text", [MLP, TREES])
def test_columns_in_blocks_of_uneven_size(tmp_path: Path, text: str) -> None:
    model, x = saved(tmp_path, text), four(20)
    source, whole, cut = four_columns(tmp_path / "x.csv", x), tmp_path / "whole.csv", tmp_path / "cut.csv"
    printed = scored(model, source, whole)
    assert re.fullmatch(rf"{re.escape(str(whole))}: 20 rows, [\d,]+ rows/s\n", printed)
    scored(model, source, cut, "--chunk-rows", 7)
    assert cut.read_bytes() == whole.read_bytes()
    (expected,) = judged(model, {"X": x})
    names = ",".join(f"Y_{number}" for number in range(3)) if text == MLP else "y"
    assert whole.read_text().splitlines()[0] == names
    found = np.loadtxt(whole, delimiter=",", skiprows=1, ndmin=2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.engine
def test_maps_become_columns_by_key(tmp_path: Path) -> None:
    model, x = saved(tmp_path, ZIPMAP), four(11)
    scored(model, four_columns(tmp_path / "x.csv", x), tmp_path / "out.csv", "--chunk-rows", 4)
    labels, maps = judged(model, {"X": x})
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "label,scores_3,scores_7"
    found = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(found, [[label, row[3], row[7]] for label, row in zip(labels, maps)], rtol=1e-4, atol=1e-6)
    np.save(tmp_path / "x.npy", x)
    scored(model, tmp_path / "x.npy", tmp_path / "out.npz", "--chunk-rows", 4)
    arrays = np.load(tmp_path / "out.npz")
    assert arrays["label"].tolist() == labels.tolist()
    np.testing.assert_allclose(arrays["scores/7"], [row[7] for row in maps], rtol=1e-4, atol=1e-6)


@pytest.mark.engine
def test_columns_with_text_by_the_names_of_inputs(tmp_path: Path) -> None:
    """The inputs name their rows otherwise or not at all: in a table they are the same."""
    model = saved(tmp_path, MIXED, unnamed=("age", "steps", "city"))
    people = {"city": ["Graz", "Linz, AT", "", "Wien", "Graz"], "id": ["x"] * 5, "steps": [2, 3, 1, -1, 0],
              "age": [1.5, 0.25, 2, 7, 1]}
    scored(model, table(tmp_path / "people.csv", people), tmp_path / "out.csv", "--chunk-rows", 2)
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "label,y_0,y_1,y_2", '"b, c",1.5,2.0,1.0', '"b, c",0.25,3.0,2.0', "d,2.0,1.0,3.0", "a,7.0,-1.0,0.0", "a,1.0,0.0,1.0"
    ]


@pytest.mark.engine
def test_images_from_arrays(tmp_path: Path) -> None:
    model, x = saved(tmp_path, CNN), np.random.default_rng(7).normal(size=(7, 1, 5, 5)).astype(np.float32)
    np.savez(tmp_path / "x.npz", X=x)
    scored(model, tmp_path / "x.npz", tmp_path / "y.npz", "--chunk-rows", 3)
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["Y"], judged(model, {"X": x})[0], rtol=1e-4, atol=1e-6)


@pytest.mark.engine
def test_rows_that_depend_on_each_other_go_in_one_call(tmp_path: Path) -> None:
    model, x = saved(tmp_path, SUMS), four(9)
    reason = 'they may depend on each other: node "#0" (CumSum)'
    np.save(tmp_path / "x.npy", x)
    assert f"all rows are scored at once, {reason}" in scored(model, tmp_path / "x.npy", tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.cumsum(x, 0), rtol=1e-4, atol=1e-6)
    result = score(model, "--input", tmp_path / "x.npy", "--output", tmp_path / "z.npy", "--chunk-rows", 3)
    assert result.exit_code == 1 and f"--chunk-rows would cut rows that {reason.removeprefix('they ')}" in result.output


@pytest.mark.engine
def test_a_model_of_one_row(tmp_path: Path) -> None:
    model, x = saved(tmp_path, SINGLE), four(5)
    scored(model, four_columns(tmp_path / "x.csv", x), tmp_path / "y.csv")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "y.csv", delimiter=",", skiprows=1), x @ WEIGHTS["w"], rtol=1e-4, atol=1e-6)


@pytest.mark.engine
def test_parquet_on_both_sides(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    model, x = saved(tmp_path, MLP), four(9)
    content = {"no": ["x"] * 9} | {f"c{place}": x[:, place] for place in range(4)}
    parquet.write_table(arrow.table(content), tmp_path / "x.parquet")
    scored(model, tmp_path / "x.parquet", tmp_path / "y.parquet", "--columns", "c0,c1,c2,c3", "--chunk-rows", 4)
    found = parquet.read_table(tmp_path / "y.parquet")
    assert found.column_names == ["Y_0", "Y_1", "Y_2"]
    expected = judged(model, {"X": x})[0]
    np.testing.assert_allclose(np.column_stack([column.to_numpy() for column in found.columns]), expected, rtol=1e-4, atol=1e-6)


def test_parquet_with_equal_names_is_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table([arrow.array([1.0]), arrow.array([2.0])], names=["a", "a"])
    parquet.write_table(table, tmp_path / "x.parquet")
    opened = open_table(tmp_path / "x.parquet", has_header=True)
    with pytest.raises(TranspileError, match='there are several columns "a"'):
        next(opened.blocks([Column(place, "a", FLOAT) for place in range(2)], 5))
    opened.close()


@pytest.mark.engine
def test_names_with_commas(tmp_path: Path) -> None:
    model, x = saved(tmp_path, MLP), four(3)
    (tmp_path / "x.csv").write_text('n,"a,1",b,"""c""",d\n' + "".join(f"0,{','.join(map(str, row))}\n" for row in x.tolist()))
    scored(model, tmp_path / "x.csv", tmp_path / "y.csv", "--columns", '"a,1", b, """c""", d')
    np.testing.assert_allclose(np.loadtxt(tmp_path / "y.csv", delimiter=",", skiprows=1), judged(model, {"X": x})[0], rtol=1e-4, atol=1e-6)


@pytest.mark.engine
@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_a_table_without_columns(tmp_path: Path, suffix: str) -> None:
    model = saved(tmp_path, "g (float[n, 4] X) => (float[n, 0] Y) <int64[1] a = {0}, int64[1] b = {1}> { Y = Slice(X, a, a, b) }")
    four_columns(tmp_path / "x.csv", four(3))
    result = score(model, "--input", tmp_path / "x.csv", "--output", tmp_path / f"y.{suffix}")
    if suffix == "npy":
        assert result.exit_code == 0 and np.load(tmp_path / "y.npy").shape == (3, 0)
    else:
        assert result.exit_code == 1 and "the results have no columns" in result.output
        assert not (tmp_path / "y.csv").exists()


@pytest.mark.big
@pytest.mark.engine
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is asked of Linux")
def test_memory_is_bounded(tmp_path: Path) -> None:
    """300,000 rows of 4 columns and 400 results each, which are 2 GB as the engine's doubles."""
    weights = np.ones((4, 400), np.float32)
    graph = "wide (float[n, 4] X) => (float[n, 1] Y) { h = MatMul(X, w)  r = Tanh(h)  Y = ReduceSum(r, one) }"
    model = onnx.parser.parse_model(HEAD + graph)
    model.graph.initializer.extend([numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([1]), "one")])
    onnx.save(model, tmp_path / "wide.onnx")
    np.savetxt(tmp_path / "x.csv", four(300_000), delimiter=",", header="a,b,c,d", comments="", fmt="%.6g")
    command = [sys.executable, "-m", "onnx_systemds", "score", tmp_path / "wide.onnx", "--input", tmp_path / "x.csv",
               "--output", tmp_path / "y.csv"]
    process, largest = subprocess.Popen(command), 0
    while process.poll() is None:
        largest = max(largest, memory_of(process.pid))
        time.sleep(0.05)
    assert process.returncode == 0 and len((tmp_path / "y.csv").read_text().splitlines()) == 300_001
    assert 100 << 20 < largest < 1536 << 20


def memory_of(process: int) -> int:
    """Bytes that a process and those that it started hold in memory."""
    try:
        shown = Path(f"/proc/{process}/smaps_rollup").read_text()
        tasks = [task.read_text().split() for task in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has ended
        return 0
    own = int(re.findall(r"^Pss:\s+(\d+) kB", shown, re.MULTILINE)[0]) * 1024
    return own + sum(memory_of(int(child)) for children in tasks for child in children)


@pytest.mark.engine
def test_a_wrong_cell_in_a_later_block_leaves_what_was_there(tmp_path: Path) -> None:
    model, source = saved(tmp_path, MLP), four_columns(tmp_path / "x.csv", four(9))
    (tmp_path / "y.csv").write_text("before")
    source.write_text(source.read_text() + "1,2,x,4\n")
    result = score(model, "--input", source, "--output", tmp_path / "y.csv", "--chunk-rows", 4)
    assert result.exit_code == 1 and f'{source}: line 11, column "c2": "x" is no number' in result.output
    assert (tmp_path / "y.csv").read_text() == "before" and "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "x.csv", "y.csv"]


@pytest.mark.engine
def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CsvWriter, "write", interrupt)
    model, source = saved(tmp_path, MLP), four_columns(tmp_path / "x.csv", four(9))
    result = score(model, "--input", source, "--output", tmp_path / "y.csv", "--chunk-rows", 4)
    assert result.exit_code == 130 and "interrupted" in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "x.csv"]


@pytest.mark.engine
def test_numbers_as_names_and_what_the_engine_said_of_an_older_file(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2,3,4\n5,6,7,8\n")
    (tmp_path / "y.csv.mtd").write_text('{"data_type": "frame", "format": "csv", "header": false}')
    note = "x.csv: its first line, 1,2,3,4, is taken for names; if it is a row, add --no-header"
    printed = scored(saved(tmp_path, MLP), tmp_path / "x.csv", tmp_path / "y.csv")
    assert f"note: {tmp_path}/{note}" in printed and "1 row," in printed
    assert not (tmp_path / "y.csv.mtd").exists()


@pytest.mark.engine
def test_a_file_of_no_rows(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b,c,d\n")
    result = score(saved(tmp_path, MLP), "--input", tmp_path / "x.csv", "--output", tmp_path / "y.csv")
    assert result.exit_code == 1 and "there are no rows" in result.output
    assert not (tmp_path / "y.csv").exists()


# --- before the engine starts --------------------------------------------------------------------------------------


def columns_for(folder: Path, text: str, header: str, chosen: str = "", has_header: bool = True) -> list[list[str]]:
    """The columns of each input."""
    (folder / "x.csv").write_text(header + "\n")
    opened = CsvTable(folder / "x.csv", has_header=has_header)
    script = import_model(saved(folder, text))
    found = table_inputs(script, opened, chosen.split(",") if chosen else None, has_header=has_header)
    opened.close()
    names, dealt = [column.name for column in found.columns], []
    for count in found.counts:
        dealt.append(names[:count])
        names = names[count:]
    return dealt


TWO = "two (float[n, 2] a, float[n, 1] b) => (float[n, 2] y) { y = Mul(a, b) }"
ONE = "one (float[n, 1] a) => (float[n, 1] y) { y = Neg(a) }"
ANY = "any (float[n, k] a) => (float[n, k] y) { y = Neg(a) }"


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        (MLP, ("p,q,r,s",), [["p", "q", "r", "s"]]),
        (MLP, ("p,q,r,s,t", "t,s,p,q"), [["t", "s", "p", "q"]]),
        (MLP, ("5,6,7,8", "", False), [["1", "2", "3", "4"]]),
        (MLP, ("5,6,7,8", "8,7,6,5"), [["8", "7", "6", "5"]]),
        (MLP, ("0,1,2,3",), [["0", "1", "2", "3"]]),
        (MLP, ("1,2,3,4",), [["1", "2", "3", "4"]]),
        (MLP, ("X_3,X_1,y,X_0,X_2",), [["X_0", "X_1", "X_2", "X_3"]]),
        (MLP, ("X_1,X_2,X_3,X_4",), [["X_1", "X_2", "X_3", "X_4"]]),
        (ANY, ("p,q,r",), [["p", "q", "r"]]),
        (ANY, ("a_1,a_0",), [["a_0", "a_1"]]),
        (ANY, ("a_1,a_0,p",), [["a_0", "a_1"]]),
        (ANY, ("a_1,a_2,a_3",), [["a_1", "a_2", "a_3"]]),
        (ONE, ("p",), [["p"]]),
        (ONE, ("p,a",), [["a"]]),
        (TWO, ("b,x,a_1,a_0",), [["a_0", "a_1"], ["b"]]),
        (TWO, ("p,q,r",  "r,p,q"), [["r", "p"], ["q"]]),
        (TWO, ("p,q,r", "", False), [["1", "2"], ["3"]]),
    ],
)
def test_columns_find_their_inputs(tmp_path: Path, text: str, given: Any, expected: list[list[str]]) -> None:
    assert columns_for(tmp_path, text, *given) == expected


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        (MLP, ("p,q,r",), 'the inputs "X" take 4 columns, here are 3: "p", "q", "r"'),
        (MLP, ("p;q;r;s",), "(?s)here are 1: \"p;q;r;s\".*read_csv\\(\"x.csv\", sep=';', decimal="),
        (TWO, ("a_0\ta_1\tb",), "(?s)no column.*sep='.t'"),
        (MLP, ("p,q,r,s,t",), "--columns"),
        (MLP, ("p,q,r,s", "p,q,r,z"), 'there is no column "z"; its columns: "p", "q", "r", "s"'),
        (MLP, ("p,p,r,s", "p,r,s,s"), 'there are several columns "p"'),
        (MLP, ("5.1,-3,1.4e-1, .2",), "(?s)are numbers: .*add --no-header"),
        (ANY, ("0,2",), "are numbers"),
        (TWO, ("a_0,b,c",), '(?s)there is no column "a_1".*by --columns$'),
        (MLP, ("X_1,q,r,s",), '(?s)there is no column "X_0", "X_2", "X_3"; its columns: "X_1", "q"'),
        (ANY, ("a_0,a_2,p",), '(?s)there is no column "a_1"'),
        (MLP, ("X_1,X_0,X_2,X_4",), '(?s)there is no column "X_3"'),
        (TWO, ("1.5,Graz,3",), '(?s)there is no column "a_0", "a_1", "b".*add --no-header'),
        (TWO, ("p,q,r,s", "", False), "take 2 \\+ 1 columns, here are 4"),
        ("lists (seq(float[n]) a) => (float[k] y) { y = ConcatFromSequence<axis=0>(a) }", ("p",), "no column of a table"),
    ],
)
def test_columns_that_fit_no_input(tmp_path: Path, text: str, given: Any, message: str) -> None:
    with pytest.raises(TranspileError, match=message):
        columns_for(tmp_path, text, *given)


def test_blocks_are_cut_by_the_sizes_of_the_model(tmp_path: Path) -> None:
    def rows(text: str, **shape: tuple[int, ...]) -> int | None:
        script = import_model(saved(tmp_path, text))
        arrays = {name: np.zeros(dims, np.float32) for name, dims in shape.items()}
        return row_blocks(script, ArrayRows(script, arrays, tmp_path)).rows

    assert rows(MLP, X=(9, 4)) == MOST_ROWS
    assert rows(CNN, X=(9, 1, 5, 5)) == MOST_ROWS
    assert rows(ANY, a=(9, 2**20)) == 2
    assert rows(ANY, a=(9, 2**23)) == 1
    assert rows(SUMS, X=(9, 4)) is None
    assert rows(SINGLE, X=(9, 4)) == 1


def _nothing(folder: Path) -> None:
    """The files are as they are."""


def _no_source(folder: Path) -> None:
    (folder / "x.csv").unlink()


@pytest.mark.parametrize(
    ("arguments", "change", "message"),
    [
        (("x.csv", "y.csv"), _no_source, "x.csv: No such file"),
        (("x.csv", "x.csv"), _nothing, "would replace a file that is read"),
        (("x.csv", "model.onnx"), _nothing, "would replace a file that is read"),
        (("x.csv", "no/y.csv"), _nothing, "no folder"),
        (("x.csv", "y.txt"), _nothing, "y.txt: the file must be named *.csv"),
        (("x.txt", "y.csv"), _nothing, "x.txt: the file must be named *.csv"),
        (("x.npy", "y.csv", "--no-header"), _nothing, "for tables"),
        (("x.csv", "y.csv", "--columns", "c0"), _nothing, "take 4 columns, here are 1"),
        (("x.csv", "y.csv", "--columns", '"c0,c1'), _nothing, 'hint: names with commas are quoted: a,"b,c"'),
        (("x.csv", "y.csv", "--dim", "n=4", "--dim", "m=1"), _nothing, '"m"'),
    ],
)
def test_what_cannot_be_scored(
    tmp_path: Path, arguments: tuple[str, ...], change: Callable[[Path], None], message: str
) -> None:
    model = saved(tmp_path, MLP)
    four_columns(tmp_path / "x.csv", four(3))
    (tmp_path / "x.txt").write_text("")
    np.save(tmp_path / "x.npy", four(3))
    change(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    result = score(model, "--input", tmp_path / arguments[0], "--output", tmp_path / arguments[1], *arguments[2:])
    assert isinstance(result.exception, SystemExit) and result.exit_code == 1 and message in result.output, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == before
