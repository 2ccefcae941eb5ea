"""Files that --weight binds, as the engine writes them: matrices, frames, scalars, lists; and a trained pipeline of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine.frame_files import write_frame
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.weight_files import read_value
from tests.exporting.export_harness import assert_close, engine, run_model
from tests.invoking import invoke
from tests.test_docs import EXPORTING, example

MATRIX = np.array([[1.0, 0.0], [2.5, -3.0]])
FRAME = np.array([["a b", "1"], ["", "2.5"], ["ü \"x\"", "𝄞"]], object)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the engine writes."""
    folder = tmp_path_factory.mktemp("written")
    lines = [f'write({name}, "{folder}/{name}_{form}", format="{form}")' for name, forms in
             (("X", ("csv", "text", "mm", "binary")), ("Z", ("csv", "text", "mm", "binary")), ("F", ("csv", "text", "binary"))) for form in forms]
    lines += [f'write({name}, "{folder}/{name}_sparse", format="csv", sparse=TRUE)' for name in "XZC"]
    lines += [f'write(E, "{folder}/E_{form}", format="{form}")' for form in ("csv", "text", "binary")]
    script = "\n".join(['X = read("./X")', "Z = X * 0", "C = X[, 2]", 'F = read("./F", data_type="frame")', "E = F[, 1]", *lines,
                        'L = list(X=X, F=F, n=3, half=0.5, yes=TRUE, name="two words")', f'write(L, "{folder}/named")',
                        'inner = list(X, X * 2)', f'write(inner, "{folder}/unnamed")', 'Y = X + 1', 'write(Y, "./Y")'])
    engine().prepare(script + "\n", ["X", "F"], ["Y"])({"X": MATRIX, "F": FRAME})
    return folder


@pytest.mark.parametrize("form", ["csv", "sparse", "text", "mm", "binary"])
def test_matrices(form: str, written: Path) -> None:
    np.testing.assert_array_equal(read_value(written / f"X_{form}"), MATRIX)
    np.testing.assert_array_equal(read_value(written / f"Z_{form}"), 0 * MATRIX)


def test_a_column_whose_zeros_are_lines_without_text(written: Path) -> None:
    np.testing.assert_array_equal(read_value(written / "C_sparse"), MATRIX[:, 1:])


@pytest.mark.parametrize("form", ["csv", "text", "binary"])
def test_frames(form: str, written: Path) -> None:
    assert read_value(written / f"F_{form}").tolist() == FRAME.tolist()
    assert read_value(written / f"E_{form}").tolist() == FRAME[:, :1].tolist()


@pytest.mark.parametrize(("text", "message"), [
    ("a;b\n1;2\n", 'line 1 has a cell "a;b", which is no number\n  hint: w.csv.mtd may say that it has a header or another separator'),
    ("1,2\n\n3,x\n", 'line 3 has a cell "x", which is no number'),
    ("1,2\n3\n", "line 2 has 1 cells, and line 1 has 2"),
    ("\n", "it has no numbers"),
])
def test_csv_files_that_are_no_matrix(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "w.csv").write_text(text)
    with pytest.raises(TranspileError) as error:
        read_value(tmp_path / "w.csv")
    assert message in str(error.value)


def test_an_array_of_no_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.empty((0, 3)))
    assert np.shape(read_value(tmp_path / "w.npy")) == (0, 3)


def test_lists(written: Path) -> None:
    """The engine says of a double in a list that it is a string."""
    found = read_value(written / "named")
    np.testing.assert_array_equal(found.pop("X"), MATRIX)
    assert found.pop("F").tolist() == FRAME.tolist()
    assert {name: (type(value), value) for name, value in found.items()} == {
        "n": (int, 3), "half": (str, "0.5"), "yes": (bool, True), "name": (str, "two words")}
    first, second = read_value(written / "unnamed")
    np.testing.assert_array_equal(second, 2 * first)


def test_frames_of_several_blocks(tmp_path: Path) -> None:
    texts = [f"text {number} \0 é" for number in range(2500)]
    write_frame(tmp_path / "f", texts)
    assert read_value(tmp_path / "f").ravel().tolist() == texts
    write_frame(tmp_path / "g", texts, ["stadt"])
    found = read_value(tmp_path / "g")
    assert (found.cells.ravel().tolist(), found.names) == (texts, ("stadt",))


def test_parts_in_a_folder(tmp_path: Path) -> None:
    for name, text in (("x/0-m-00000", "1 1 1.0\n2 1 2.5\n"), ("x/0-m-00001", "2 2 -3.0\n"), ("x/_SUCCESS", "")):
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "x.mtd").write_text('{"data_type": "matrix", "rows": 2, "cols": 2, "format": "text"}')
    np.testing.assert_array_equal(read_value(tmp_path / "x"), MATRIX)


def reason(path: Path) -> str:
    with pytest.raises(TranspileError) as error:
        read_value(path)
    return str(error.value)


def test_refused(tmp_path: Path) -> None:
    write_frame(tmp_path / "f", ["a", "b"])
    content = (tmp_path / "f").read_bytes()
    for what, changed, words in (
        ("short", content[:-1], "it ends within a record"),
        ("other", b"SEQ\x06" + content[10:], "no blocks of a frame"),
        ("empty", content[:-15] + b"\x05" + content[-14:], "a column is compressed"),
    ):
        (tmp_path / "f").write_bytes(changed)
        assert words in reason(tmp_path / "f"), what
    run = engine().prepare(f'F = as.frame(matrix(1, 2, 2))\nwrite(F, "{tmp_path}/n", format="binary")\ns = matrix(1, 1, 1)\nwrite(s, "./s")', [], ["s"])
    run({})
    assert "a column holds other than strings\n  hint: let the script write the frame with format=" in reason(tmp_path / "n")
    (tmp_path / "s.mtx").write_text("%%MatrixMarket matrix coordinate real symmetric\n1 1 1\n1 1 2\n")
    assert "only coordinates of real numbers in general order" in reason(tmp_path / "s.mtx")
    (tmp_path / "l").mkdir()
    (tmp_path / "l.mtd").write_text('{"data_type": "list"}')
    for name in ("0_a", "1_a"):
        (tmp_path / "l" / name).write_text("1")
        (tmp_path / "l" / f"{name}.mtd").write_text('{"data_type": "scalar", "value_type": "int"}')
    assert reason(tmp_path / "l") == f"{tmp_path}/l: two items of this list have one name"


def test_the_folder_beside_a_converted_script_is_its_list(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[n,2] x) => (float[n,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> { y = MatMul (x, w) }""")
    import_model(model, weights="files").save(tmp_path / "g.dml")
    found, *_ = read_value(tmp_path / "g.weights").values()  # the last one is the mark of its script
    np.testing.assert_array_equal(found, [[1, 2, 3], [4, 5, 6]])


def test_pipeline_is_one_model(tmp_path: Path) -> None:
    """The example of the documentation: codes and weights learned by the engine, the model from texts to probabilities."""
    rows = ["23,30.5,Graz,1", "47,72,Wien,2", "35,41,Graz,1", "61,55.5,Linz,2", "52,90,Wien,1", "19,12,Linz,2"]
    (tmp_path / "people.csv").write_text("age,income,city,plan\n" + "\n".join(rows) + "\n")
    placed = {f'"{name}"': f'"{tmp_path}/{name}"' for name in ("people.csv", "model")}

    def run(text: str, outputs: list[str]) -> dict[str, np.ndarray]:
        for name, path in placed.items():
            text = text.replace(name, path)
        return engine().prepare(text, [], outputs)({})

    run(example("train", EXPORTING) + 'write(y, "./y")\n', ["y"])
    score = example("score", EXPORTING)
    expected = run(score.replace('"probabilities"', '"./probabilities"').replace("target=people", "target=people[, 1:3]"),
                   ["probabilities"])["probabilities"]
    (tmp_path / "score.dml").write_text(score)
    done = invoke(tmp_path / "score.dml", "--input", "people=string[N,3]", "--weight", f"model={tmp_path / 'model'}")
    assert done.exit_code == 0, done.output
    people = np.array([row.split(",")[:3] for row in rows], object)
    found = run_model(onnx.load(tmp_path / "score.onnx"), {"people": people})["probabilities"]
    assert_close(found, expected, 1e-5, "probabilities")
    np.savez(tmp_path / "in.npz", people=people.astype(str))
    verified = invoke("verify", tmp_path / "score.dml", "--input", "people=string[N,3]",
                      "--weight", f"model={tmp_path / 'model'}", "--inputs", tmp_path / "in.npz")
    assert verified.exit_code == 0, verified.output  # the counts of codes, which only the engine reads, are there


@pytest.mark.parametrize("spec", [
    '{"ids": true, "recode": [1], "bin": [{"id": 2, "method": "equi-width", "numbins": 2}]}',
    "{ids:true,recode:[1],bin:[{id:2,method:equi-width,numbins:2}]}",
    "{'ids': true, 'recode': [1], 'bin': [{'id': 2, 'method': 'equi-width', 'numbins': 2}]}",
])
def test_specs_with_and_without_quotes(spec: str) -> None:
    """A spec as a bound scalar, such as the content of a .json file."""
    text = 'F = read("F", data_type="frame")\nM = read("M", data_type="frame")\ns = read("s", data_type="scalar", value_type="string")\n' \
           'Y = transformapply(target=F, spec=s, meta=M)\nwrite(Y, "Y")\n'
    meta = np.array([["a·2", "0·1"], ["b·1", "1·2"]], object)
    model = export_script(text, inputs={"F": "string[N,2]"}, bindings={"M": meta, "s": spec})
    found = run_model(model, {"F": np.array([["b", "0.5"], ["a", "1.5"], ["c", "9"]], object)})["Y"]
    np.testing.assert_array_equal(found, [[1, 1], [2, 2], [np.nan, 2]])


def test_json_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({"ids": True}))
    assert read_value(tmp_path / "spec.json") == '{"ids": true}'
