"""Frames of texts and numbers: in and out, indexed, joined, compared, replaced and transformed, as the engine does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_systemds.engine.frame_files import NotedFrame
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.weight_files import read_value
from tests.exporting.export_harness import Array, ExportCase, assert_close, check_export, engine, model_of, run_model
from tests.invoking import invoke


def texts(*rows: str) -> Array:
    return np.array([row.split() for row in rows], object)


F = texts("a 1 2.5", "b 2 -3", "a 10 0", "c 3 1e3")
SMALLER = texts("c 7 NaN", "b 1 Infinity")
SAME = 'S = as.matrix(F[, 1] == replace(target=F[, 1], pattern="b", replacement="a"))'


def row(name: str, body: str, **more) -> ExportCase:
    return ExportCase(name, body, {"F": F}, symbols={"F": ["N", 3]}, sizes=[{"F": SMALLER}], **more)


CASES = [
    row("as it is", "Y = F"),
    row("a column", "Y = F[, 2]"),
    row("a row", "Y = F[2, ]"),
    row("a cell", "Y = F[2, 1]"),
    row("a computed range", "n = nrow(F)\nY = F[2:n, 1:2]"),
    row("a row at a computed place", "X = as.matrix(F[, 2])\nk = 2 - as.integer(as.scalar(X[1, 1]) / 7)\nG = F\nG[k, ] = F[2, ]\nY = rbind(G, F[k, ], F[k:(k + 1), ])"),
    row("rows in another order", "G = F\nfor (i in 1:nrow(F)) { k = nrow(F) + 1 - i\nG[i, ] = F[k, ] }\nY = G"),
    row("rows of each trip's texts", "X = as.matrix(F[, 2])\nk = 2 - as.integer(as.scalar(X[1, 1]) / 7)\nY = F\n"
        "for (i in 1:nrow(F)) { p = nrow(F) + 1 - i\nG = rbind(F[i, ], F[p, ])\nY[i, ] = G[k, ] }"),
    row("rows and columns that are selected", 'I = as.matrix(F[, 2]) > 1\nY = removeEmpty(target=F, margin="rows", select=I)\n'
        'Z = removeEmpty(target=F, margin="cols", select=matrix("1 0 1", 1, 3))', outputs=("Y", "Z")),
    ExportCase("rows and columns that are not empty", 'F = as.frame(X)\nY = as.matrix(removeEmpty(target=F, margin="rows"))\n'
               'Z = as.matrix(removeEmpty(target=F, margin="cols"))', {"X": np.array([[1, 0, np.inf], [0, 0, 0], [-0.5, 0, 2]])}, ("Y", "Z"),
               sizes=[{"X": np.zeros((3, 3))}]),
    row("sizes", "Y = matrix(nrow(F) * 10 + ncol(F) + length(F) * 100, 1, 1)"),
    row("beside each other", "Y = cbind(F, F[, 1])"),
    row("below each other", "Y = rbind(F, F[1, ])"),
    row("numbers of texts", "Y = as.matrix(F[, 2:3])"),
    ExportCase("empty texts", "Y = as.matrix(F)", {"F": np.array([["", "NaN"], ["1", " 2 "], ["Infinity", "-Inf"]], object)}),
    row("branches", "if (sum(as.matrix(F[, 2])) > 9) { Y = F[1:2, ] } else { Y = rbind(F, F) }"),
    row("a growing loop", 'Y = as.frame("x")\nfor (i in 1:nrow(F)) { Y = rbind(Y, F[i, 1]) }'),
    row("a frame of numbers", "X = as.matrix(F[, 2])\nY = as.frame(X * 2)"),
    row("numbers of frames of numbers", "X = as.matrix(F[, 2])\nG = as.frame(X)\nG = rbind(G, G)\nY = as.matrix(cbind(G, G))"),
    row("numbers of texts and numbers", "X = as.matrix(F[, 2])\nG = cbind(F[, 2:3], as.frame(X))\nY = as.matrix(G[, 2:3])"),
    row("texts replaced", 'Y = replace(target=F, pattern="a", replacement="z")'),
    row("texts of numbers replaced", 'G = replace(target=F, pattern=2, replacement=7)\nG = replace(target=G, pattern=1e-5, replacement=2.5e8)\n'
        'G = cbind(G, frame(data=["1.0E-5", "2.0", "TRUE", "true"], rows=nrow(F), cols=4))\nG = replace(target=G, pattern=0.00001, replacement=0.0005)\n'
        "Y = replace(target=G, pattern=TRUE, replacement=FALSE)"),
    row("texts replaced beside numbers", 'X = as.matrix(F[, 2])\nG = replace(target=cbind(F[, 2], as.frame(X)), pattern="a", replacement="b")\nY = as.matrix(G)'),
    row("numbers replaced by what they look like", 'G = frame(data=["1", "500", "a", "2.5", "TRUE", "-1", "0"], rows=nrow(F), cols=7, '
        'schema=["INT32", "INT64", "STRING", "FP64", "BOOLEAN", "INT64", "FP64"])\nG = cbind(G, frame("NaN", rows=nrow(F), cols=1, schema=["FP64"]))\n'
        "G = replace(target=G, pattern=1, replacement=3)\nG = replace(target=G, pattern=-1, replacement=-5)\n"
        "G = replace(target=G, pattern=2.5, replacement=0.5)\nG = replace(target=G, pattern=TRUE, replacement=FALSE)\n"
        "G = replace(target=G, pattern=0.0, replacement=9.0)\nG = replace(target=G, pattern=NaN, replacement=7.5)\n"
        "Y = as.matrix(cbind(G[, 1:2], G[, 4:8]))\nH = replace(target=G, pattern=0.5, replacement=1.5)\n"
        "Z = as.matrix(G == H) + as.matrix(G[, 1] != H[, 2])", outputs=("Y", "Z")),
    row("texts replaced that the run knows", 's = as.scalar(F[nrow(F), 1])\nG = replace(target=F, pattern=as.scalar(F[1, 1]), replacement="z")\n'
        'Y = replace(target=G, pattern=s, replacement=s + "2")'),
    row("texts compared", "Y = F[, 1] == F[, 2]"),
    row("texts that differ", 'G = replace(target=F[, 1], pattern="b", replacement="a")\nY = as.matrix(F[, 1] != G)'),
    row("a cell compared", 's = as.scalar(F[2, 1])\nY = matrix(0, 1, 1)\nif (s != "c" & s == "b") { Y = Y + 1 }'),
    row("an integer in a cell", "n = as.integer(as.scalar(F[2, 2]))\nY = matrix(n, 1, 1)"),
    row("a number in a cell", "n = as.double(as.scalar(F[nrow(F), 2]))\nY = matrix(n, 1, 1)"),
    row("booleans in cells", 'F = cbind(F, frame("true", rows=nrow(F), cols=1), frame(data=["TRUE", "True"], rows=nrow(F), cols=2))\n'
        "Y = matrix(0, 1, ncol(F))\nfor (j in 1:ncol(F)) {\n  if (as.logical(as.scalar(F[1, j]))) { Y[1, j] = 1 }\n}"),
    row("cells in a loop", 'Y = matrix(0, nrow(F), 1)\nfor (i in 1:nrow(F)) {\n  s = as.scalar(F[i, 1])\n'
        '  if (s == "a") { Y[i, 1] = i }\n}'),
    row("cells assigned", 'Y = F\nY[1, 1] = "q"\nY[2, ] = F[1, ]\nY[, 3] = F[, 1]'),
    row("filled", 'Y = cbind(F[1:2, ], frame("x", rows=2, cols=1))'),
    row("filled column by column", 'Y = rbind(F, frame(data=["q", "5", "x y"], rows=2, cols=3, schema=["STRING"]))'),
    row("filled row by row", 'Y = rbind(F, frame(data=["q", "5", "0.5", "r", "6", "-1"], rows=2, cols=3))'),
    row("filled with types", 'G = frame(data=["1", "2.5", "q", "TRUE"], rows=2, cols=4, schema=["INT64", "FP64", "STRING", "BOOLEAN"])\n'
        "H = cbind(G[, 1:2], G[, 4])\nY = as.matrix(H)\nY = Y + nrow(F)"),
    row("filled with one number", 'Y = as.matrix(frame(3, rows=2, cols=2, schema=["FP64", "INT32"])) + nrow(F)'),
    row("text as a frame", 'G = as.frame("a")\nY = rbind(F[, 1], G)'),
    row("texts joined", 's = as.scalar(F[1, 1]) + toString(nrow(F)) + toString(2.50) + (sum(as.matrix(F[, 2])) > 9) + 1e-5\n'
        's = append(s, "" + 12345678.0 + 1e15 + 0.001)\nfor (i in 1:nrow(F)) { s = s + i }\nY = as.frame(s)'),
    row("a text that the run chooses", 's = "low"\nk = 0\nif (sum(as.matrix(F[, 2])) > 9) { s = "high"\nk = nrow(F) }\n'
        'while (k < 6) { s = s + k\nk = k + 1 }\nY = as.frame(s)\nif (s == "high45") Y = F[1, 1]'),
    row("functions", "Y = f(F, 2)", keep=True,
        functions="f = function(frame[string] G, int k) return (frame[string] H) { H = cbind(G[, k], G[, 1]) }"),
    row("numbers by a function", "Y = f(F)", keep=True,
        functions="f = function(frame[string] G) return (matrix[double] H) { H = as.matrix(G[, 2]) * nrow(G) }"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_exported_frames_agree_with_the_engine(case: ExportCase) -> None:
    check_export(case)


LEARNED = texts("a 1 2.5", "b 2 -3", "a 10 0", "c 3 1e3")
HELD = texts("b 1 331.3333333333333", "z 3 -7", "c 10 2000", "a 7 NaN", "b 4 700", "c 5.5 999")
WIDTH = {"method": "equi-width", "numbins": 3}
SPECS = [
    {"ids": True},
    {"ids": True, "recode": [1]},
    {"ids": True, "recode": [1, 2]},
    {"recode": ["C1"], "dummycode": ["C2"]},
    {"ids": True, "dummycode": [1]},
    {"ids": True, "recode": [1], "dummycode": [1, 2]},
    {"ids": True, "recode": [1], "bin": [{"id": 3, **WIDTH}]},
    {"ids": True, "recode": [1], "bin": [{"id": 3, **WIDTH}, {"id": 2, "method": "equi-height", "numbins": 2}], "dummycode": [3]},
]


def quoted(spec: object) -> str:
    return json.dumps(json.dumps(spec))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("spec", SPECS, ids=json.dumps)
def test_transformapply_agrees_with_the_engine(spec: dict[str, object], keep: bool) -> None:
    learned, held = LEARNED, HELD
    if not spec.keys() - {"ids"}:
        learned, held = LEARNED[:, 1:], HELD[:, 1:]
    apply = f"s = {quoted(spec)}\nY = transformapply(target=G, spec=s, meta=M)"
    run = engine().prepare(
        f'F = read("./F", data_type="frame")\nG = read("./G", data_type="frame")\n'
        f'[X, M] = transformencode(target=F, spec={quoted(spec)})\n{apply}\nwrite(Y, "./Y")\nwrite(M, "./M")\n',
        ["F", "G"], ["Y", "M"],
    )
    expected = run({"F": learned, "G": held})
    meta = expected["M"] if expected["M"].size else np.full(learned.shape, "", object)
    function = "f = function(frame[string] G, frame[string] M) return (matrix[double] Y) {\n" + apply + "\n}\n"
    body = apply if not keep else "Y = f(G, M)"
    case = ExportCase("transformapply", body, {"G": held, "M": meta}, bound=["M"], symbols={"G": ["N", held.shape[1]]},
                      functions=function if keep else "", keep=keep)
    for dtype in case.dtypes:
        actual = run_model(model_of(case, dtype), {"G": held})
        assert_close(actual["Y"], expected["Y"], case.tolerance[dtype], f"{spec} {dtype}")


@pytest.mark.parametrize("method", ["recode", "dummycode"])
def test_numbers_are_recoded_by_what_texts_stand_for(method: str) -> None:
    """The engine's texts of numbers follow from their column: 1, 1.0 beside fractions or NaN, true beside 0 and 1 alone."""
    spec = f'"{{ids: true, {method}: [1, 3, 4]}}"'
    learned = np.array([[1, 5, 0.5, 1], [2, 6, np.nan, 0], [3, 7, 2, 1], [2, 8, 0, 1]])
    held = np.array([[3, 1, 2, 0], [4, np.nan, np.nan, 1], [1, 0.5, 0.5, 1], [2, 0, 0, 0]])
    apply = f"Y = transformapply(target=as.frame(G), spec={spec}, meta=M)\n"
    run = engine().prepare(f'X = read("./X")\nG = read("./G")\n[E, M] = transformencode(target=as.frame(X), spec={spec})\n'
                           f'{apply}write(Y, "./Y")\nwrite(M, "./M")\n', ["X", "G"], ["Y", "M"])
    expected = run({"X": learned, "G": held})
    for dtype in ("float64", "float32"):
        model = model_of(ExportCase("numbers", apply, {"G": held, "M": expected["M"]}, bound=["M"], symbols={"G": ["N", 4]}), dtype)
        np.testing.assert_array_equal(run_model(model, {"G": held})["Y"], expected["Y"], dtype)
        alone = run_model(model, {"G": np.array([[1.0, 0, 2, 1]])})["Y"][0]  # a column of truths and whole numbers: the codes stay
        assert alone.tolist() == [1, 0, 3, 1] if method == "recode" else alone.sum() == 3


@pytest.mark.parametrize("texts", [("1", "01"), ("true", "1.0"), ("-0", "0"), ("NaN", "-NaN")])
def test_numbers_are_not_recoded_by_two_texts_of_one(texts: tuple[str, str]) -> None:
    body = 'Y = transformapply(target=as.frame(G), spec="{ids: true, recode: [1]}", meta=M)\n'
    meta = np.array([[f"{text}·{code}"] for code, text in enumerate(("other", *texts), 1)], object)
    with pytest.raises(TranspileError, match="are one number"):
        model_of(ExportCase("alike", body, {"G": np.ones((2, 1)), "M": meta}, bound=["M"]), "float32")


CODES = np.array([[1.0, 2], [2, 4], [3, 1], [0, 5], [4, 2.9375], [np.nan, -1], [1.5, np.inf], [-np.inf, 1e10]])


@pytest.mark.parametrize(("spec", "cols"), [('{"ids": true, "recode": [1]}', 1), ("{recode: [C1, C2]}", 2)])
@pytest.mark.parametrize("form", ["csv", "text", "binary"])
def test_transformdecode_agrees_with_the_engine(spec: str, cols: int, form: str, tmp_path: Path) -> None:
    """Codes that no text has become cells without text."""
    s = json.dumps(spec)
    decode = f"Y = transformdecode(target=C, spec={s}, meta=M)\nZ = transformdecode(target=1 + (C > 1), spec={s}, meta=M)\n"
    run = engine().prepare(
        f'F = read("./F", data_type="frame")\nC = read("./C")\n[X, M] = transformencode(target=F, spec={s})\n'
        f'write(M, "{tmp_path}/M", format="{form}")\n{decode}write(Y, "./Y")\nwrite(Z, "./Z")\n', ["F", "C"], ["Y", "Z"])
    given = CODES[:, :cols]
    expected = run({"F": LEARNED[:, :cols], "C": given})
    model = export_script(f'C = read("C")\nM = read("M", data_type="frame")\n{decode}write(Y, "Y")\nwrite(Z, "Z")\n',
                          inputs={"C": f"double[N,{cols}]"}, bindings={"M": read_value(tmp_path / "M")})
    actual = run_model(model, {"C": given})
    for name in ("Y", "Z"):
        assert actual[name].tolist() == expected[name].tolist()


@pytest.mark.parametrize(("spec", "reason"), [
    ("recode: [1]", "transformdecode of column 2, which its spec does not recode"),
    ("recode: [1, 2], dummycode: [2]", 'transformdecode with "dummycode" in its spec'),
    ("recode: [1, 2, 3]", "the spec names 3, which is no column of 2"),
])
def test_columns_that_are_no_codes_are_not_decoded(spec: str, reason: str) -> None:
    script = f'C = read("C")\nM = read("M", data_type="frame")\nY = transformdecode(target=C, spec="{{ids: true, {spec}}}", meta=M)\nwrite(Y, "Y")\n'
    with pytest.raises(TranspileError, match=reason):
        export_script(script, inputs={"C": "double[N,2]"}, bindings={"M": texts("a·1 2·1", "b·2 7·2")})


PARTLY = np.array([line.split(",") for line in ("a,1,2.5,x", "b,2,-3,y", "a,10,,x", "NaN,,0,y", "c,3,1e3,", "a,2,4,z")], object)
GAPS = np.array([line.split(",") for line in ("b,1,,y", "NaN,,-7,", "c,10,2000,q", "a,7,NaN,x", ",4,,z", "zz,,9,y")], object)
MEAN, FIXED = {"id": 2, "method": "global_mean"}, {"id": 3, "method": "constant", "value": "7.5"}
MODE, MODE_OF_LAST = {"id": 1, "method": "global_mode"}, {"id": 4, "method": "global_mode"}
IMPUTED = [
    {"ids": True, "impute": [MEAN], "recode": [1, 4]},
    {"ids": True, "impute": [MODE, MEAN, FIXED, MODE_OF_LAST], "recode": [1, 4]},
    {"ids": True, "impute": [{"id": 1, "method": "constant", "value": "c"}, {"id": 2, "method": "global_mode"}], "recode": [1, 4]},
    {"impute": [{"name": "C2", "method": "global_mean"}], "recode": ["C1", "C4"]},
    {"ids": True, "impute": [MEAN], "recode": [1, 4], "bin": [{"id": 3, **WIDTH}]},
    {"ids": True, "impute": [MODE, MEAN], "recode": [1, 4], "dummycode": [4]},
    {"ids": True, "impute": [{"id": 1, "method": "global_mean"}, {"id": 2, "method": "constant", "value": "7.5"}]},
]


@pytest.mark.parametrize("spec", IMPUTED, ids=json.dumps)
def test_missing_cells_are_imputed_as_by_the_engine(spec: dict[str, object], tmp_path: Path) -> None:
    """The numbers for missing cells are notes of the meta frame, in each format of its file, also of one without rows."""
    learned, held = (PARTLY, GAPS) if "recode" in spec else (PARTLY[:, 1:3], GAPS[:, 1:3])
    written = "".join(f'write(M, "{tmp_path}/{form}", format="{form}")\n' for form in ("csv", "text", "binary"))
    apply = f"Y = transformapply(target=G, spec={quoted(spec)}, meta=M)\n"
    run = engine().prepare(
        f'F = read("./F", data_type="frame")\nG = read("./G", data_type="frame")\n'
        f'[X, M] = transformencode(target=F, spec={quoted(spec)})\n{written}{apply}write(Y, "./Y")\n', ["F", "G"], ["Y"],
    )
    expected = run({"F": learned, "G": held})["Y"]
    script = f'G = read("G", data_type="frame")\nM = read("M", data_type="frame")\n{apply}write(Y, "Y")\n'
    for form in ("csv", "text", "binary"):
        for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-6)):
            model = export_script(script, inputs={"G": f"string[N,{held.shape[1]}]"},
                                  bindings={"M": read_value(tmp_path / form)}, dtype=dtype)
            assert_close(run_model(model, {"G": held})["Y"], expected, tolerance, f"{spec} {form} {dtype}")


@pytest.mark.parametrize(
    ("impute", "more", "reason"),
    [
        ([MEAN], {"recode": [1], "dummycode": [1]}, "the engine then fills another column"),
        ([MODE], {"recode": [1], "dummycode": [1]}, "the engine then fills another column"),
        ([FIXED], {"bin": [{"id": 3, **WIDTH}]}, "the number itself for a missing one"),
        ([FIXED, MEAN], {}, "in another order than that of the frame"),
        ([{"id": 2, "method": "median"}], {}, 'column 2 is imputed by "median"'),
        ([MEAN], {}, "the meta frame does not say what missing cells of column 2 become"),
        ([FIXED], {"recode": [3]}, 'missing cells of column 3 become "7.5", which the column does not know'),
    ],
)
def test_what_the_engine_imputes_wrongly_is_refused(impute: list[object], more: dict[str, object], reason: str) -> None:
    spec = {"ids": True, "impute": impute, **more}
    meta = NotedFrame(texts("a·1 -1·2 -1·2 x·1", "b·2 2·3 2·3 y·2"), ("a", "", "7.5", "x"))
    with pytest.raises(TranspileError) as error:
        export_script('G = read("G", data_type="frame")\nM = read("M", data_type="frame")\n'
                      f'Y = transformapply(target=G, spec={quoted(spec)}, meta=M)\nwrite(Y, "Y")\n',
                      inputs={"G": "string[N,4]"}, bindings={"M": meta})
    assert reason in str(error.value)


def test_numbers_at_the_ends_of_bins_agree_with_the_engine() -> None:
    """Ends that are hardly decimals, those at which the engine's calculation of a bin rounds, and several that are one."""
    places = np.arange(1, 51)
    learned = np.stack([np.minimum(places, 36) / 10, np.minimum(places, 49) / 100, np.minimum(places, 19) / 10,
                        np.maximum(places - 30, 0), np.full(50, 7)], 1).astype(str).astype(object)
    held = np.stack([places / 10, places / 100, places / 10, places - 2, places], 1).astype(str).astype(object)
    wide = [f"{{id: {column}, method: EQUI-WIDTH, numbins: {count}}}" for column, count in ((1, 10), (2, 4), (3, 4), (5, 3))]
    spec = f'"{{ids: true, bin: [{", ".join(wide)}, {{id: 4, method: equi-height, numbins: 12}}]}}"'
    apply = f"Y = transformapply(target=G, spec={spec}, meta=M)"
    run = engine().prepare(f'F = read("./F", data_type="frame")\nG = read("./G", data_type="frame")\n[X, M] = transformencode(target=F, '
                           f'spec={spec})\n{apply}\nwrite(Y, "./Y")\nwrite(M, "./M")\n', ["F", "G"], ["Y", "M"])
    expected = run({"F": learned, "G": held})
    for dtype in ("float64", "float32"):
        case = ExportCase("bins", apply, {"G": held, "M": expected["M"]}, bound=["M"])
        np.testing.assert_array_equal(run_model(model_of(case, dtype), {"G": held})["Y"], expected["Y"], dtype)
    numbers = f'F = as.frame(X)\nY = transformapply(target=F, spec={spec}, meta=M)'
    case = ExportCase("bins of numbers", numbers, {"X": held.astype(float), "M": expected["M"]}, bound=["M"])
    np.testing.assert_array_equal(run_model(model_of(case, "float32"), {"X": held.astype(float)})["Y"], expected["Y"])


@pytest.mark.parametrize(
    ("cell", "reason"),
    [(None, ""), (np.nan, ""), ("", ""), ("b", 'the meta frame has a cell "b" without a code'), (b"b", "a cell of the frame M is no text")],
    ids=["none", "nan", "empty", "no-code", "bytes"],
)
def test_cells_of_a_meta_frame_may_be_missing(cell: object, reason: str) -> None:
    script = ('F = read("F", data_type="frame")\nM = read("M", data_type="frame")\n'
              'Y = transformapply(target=F, spec="{ids: true, recode: [1]}", meta=M)\nwrite(Y, "Y")\n')
    bindings = {"M": np.array([["a·1"], [cell]], object)}
    if reason:
        with pytest.raises(TranspileError, match=reason):
            export_script(script, inputs={"F": "string[N,1]"}, bindings=bindings)
    else:
        model = export_script(script, inputs={"F": "string[N,1]"}, bindings=bindings)
        np.testing.assert_equal(run_model(model, {"F": texts("a", "b")})["Y"], [[1], [np.nan]])


NAMED = ("town", "size", "C1")


@pytest.mark.parametrize(("spec", "names", "reason"), [
    ("recode: [town, C1], dummycode: [C1], bin: [{name: size, method: equi-width, numbins: 2}]", NAMED, ""),
    ("recode: [C1, C3], dummycode: [C3], bin: [{name: C2, method: equi-width, numbins: 2}]", (), ""),
    ("recode: [tawn]", NAMED, "hint: its columns: town, size, C1"),
    ("recode: [town]", (), "hint: write the meta frame as binary, or as csv with header=TRUE"),
    ("ids: true, bin: [{id: 2, method: best}]", NAMED, 'bins by "best"'),
], ids=["names", "numbers", "unknown", "none", "bins"])
def test_columns_of_a_spec_by_their_names(spec: str, names: tuple[str, ...], reason: str) -> None:
    """What columns are called is known of the meta frame alone."""
    script = ('G = read("G", data_type="frame")\nM = read("M", data_type="frame")\n'
              'Y = transformapply(target=G, spec="{SPEC}", meta=M)\nwrite(Y, "Y")\n')
    bindings = {"M": NotedFrame(texts("a·1 1·2 x·2", "b·2 2·3 y·1"), (), names)}
    if reason:
        with pytest.raises(TranspileError) as error:
            export_script(script.replace("SPEC", spec), inputs={"G": "string[N,3]"}, bindings=bindings)
        assert reason in str(error.value)
        return
    by_number = "ids: true, recode: [1, 3], dummycode: [3], bin: [{id: 2, method: equi-width, numbins: 2}]"
    found, expected = (run_model(export_script(script.replace("SPEC", each), inputs={"G": "string[N,3]"}, bindings=bindings),
                                 {"G": texts("b 1.5 x", "a 9 y")})["Y"].tolist() for each in (spec, by_number))
    assert found == expected == [[2, 1, 0, 1], [1, 2, 1, 0]]


def test_embeddings_of_words_agree_with_the_engine() -> None:
    """Their product would be zeros in the engine; so are the numbers of a text that has no code."""
    words, meta = texts("cat", "dog", "fish", "bird", "cat"), texts("dog·2", "cat·1", "bird·3")
    data = {"F": words, "M": meta, "E": np.arange(1.0, 7).reshape(3, 2)}
    body = 's = "{ids: true, word_embedding: [1]}"\nY = transformapply(target=F, spec=s, meta=M, embedding=E)\nY = Y + 1'
    check_export(ExportCase("embedding", body, data, bound=["M"], symbols={"F": ["N", 1]}, sizes=[{"F": words[:2]}]))


def test_meta_frame_that_the_engine_wrote_is_bound(tmp_path: Path) -> None:
    encode = f'[X, M] = transformencode(target=F, spec={quoted(SPECS[2])})\nwrite(M, "{tmp_path}/M", format="csv")\nwrite(X, "./X")'
    expected = engine().prepare(f'F = read("./F", data_type="frame")\n{encode}\n', ["F"], ["X"])({"F": LEARNED})["X"]
    script = tmp_path / "apply.dml"
    script.write_text(f'F = read("F", data_type="frame")\nM = read("M", data_type="frame")\n'
                      f'Y = transformapply(target=F, spec={quoted(SPECS[2])}, meta=M)\nwrite(Y, "Y")\n')
    done = invoke(script, "--input", "F=string[N,3]", "--weight", f"M={tmp_path}/M")
    assert done.exit_code == 0, done.output
    actual = run_model(onnx.load(tmp_path / "apply.onnx"), {"F": LEARNED})["Y"]
    assert_close(actual, expected, 1e-6, "apply")


def test_frames_are_parameters_of_a_function() -> None:
    model = export_script("f = function(frame[string] F) return (frame[string] G, matrix[double] X) {\n"
                          "  G = F[, 1]\n  X = as.matrix(F[, 2])\n}\n", "f")
    assert [item.type.tensor_type.elem_type for item in model.graph.input] == [8]
    found = run_model(model, {"F": F})
    assert found["G"].tolist() == F[:, :1].tolist() and found["X"].ravel().tolist() == [1, 2, 10, 3]


def test_columns_of_texts_and_numbers_that_are_written_as_one_are_outputs_side_by_side() -> None:
    frame = "X = as.matrix(F[, 2:3])\nY = cbind(F[, 1:2], F[, 3], as.frame(X), as.frame(X[, 1] > 2), F[, 1])\n"
    text = f'F = read("F", data_type="frame")\n{frame}write(Y, "o/Y.csv", format="csv")\n'
    function = f"f = function(frame[string] F) return (frame[string] Y) {{ {frame} }}\n"
    x = F[:, 1:].astype(np.float64)
    for source, name in ((text, None), (function, "f")):
        found = run_model(export_script(source, name, inputs={"F": "string[N,3]"}), {"F": F})
        assert list(found) == ["Y_1", "Y_2", "Y_3"]
        assert (found["Y_1"].tolist(), found["Y_3"].tolist()) == (F.tolist(), F[:, :1].tolist())
        np.testing.assert_allclose(found["Y_2"], np.c_[x, x[:, :1] > 2])
    assert [item.name for item in export_script(text, inputs={"F": "string[N,3]"}, outputs=["Y_2"]).graph.output] == ["Y_2"]


def test_a_schema_of_numbers_makes_an_input_of_numbers() -> None:
    read = 'F = read("F", data_type="frame", schema="{}")\nX = as.matrix(F)\nY = X * 2\nwrite(Y, "Y")\n'
    for schema, kind in (("double, int", 1), ("FP64", 1), ("string,double", 8)):
        assert [item.type.tensor_type.elem_type for item in export_script(read.format(schema)).graph.input] == [kind]


@pytest.mark.parametrize(("how", "filling"), [("", np.nan), (", default=-1.5", -1.5), (", fill=FALSE, default=-1.5", np.nan)])
def test_texts_that_are_missing_are_missing_numbers(how: str, filling: float) -> None:
    text = f'F = read("F", data_type="frame", format="csv", naStrings=["19", "?"]{how})\nY = as.matrix(F)\nwrite(Y, "Y")\n'
    cells = np.concatenate([texts("19 1", "? 190", "19.0 NaN"), [["", "2"]]])
    found = run_model(export_script(text, inputs={"F": "string[N,2]"}), {"F": cells})["Y"]
    np.testing.assert_array_equal(found, [[filling, 1], [filling, 190], [19, np.nan], [filling, 2]])


def test_columns_of_joined_frames_of_open_width() -> None:
    text = 'F = read("F", data_type="frame")\nG = cbind(F, F[, 1])\nY = G[, 2:ncol(G)]\nwrite(Y, "Y")\n'
    assert run_model(export_script(text, inputs={"F": "string[N,M]"}), {"F": F})["Y"].tolist() == F[:, [1, 2, 0]].tolist()


REFUSED = [
    ('Y = F[, 1] == "a"', "'==' of a frame of N x 1 and a string"),
    ("Y = as.matrix(F[, 1] < F[, 2])", "'<' of frames"),
    ('Y = removeEmpty(target=F, margin="rows")', "hint: say by select what stays"),
    ('[X, M] = transformencode(target=F, spec="{}")\nY = X', "it learns codes from the data of each run"),
    ('Y = frame(data=["a", "1"], rows=2, cols=2, schema=["FP64", "FP64"])', "a column of FP64 is filled with texts"),
    ('Y = frame(data=["a", "1"], rows=2, cols=3)', "filled with 2 texts"),
    ('Y = map(F, "x -> x")', "map has no counterpart in ONNX: it runs Java on each element"),
    ('Y = transformapply(target=F, spec="{\\"ids\\": true, \\"recode\\": [1]}", meta=F)', "the meta frame must be known"),
    ('Y = transformapply(target=F, spec="{ids: true, word_embedding: [1]}", meta=F)', "needs the argument embedding"),
    ('Y = transformapply(target=F, spec="{\\"ids\\": true, \\"hash\\": [1]}", meta=F)', '"hash"'),
    ("Y = replace(target=as.frame(as.matrix(F)), pattern=0, replacement=1)", "replace of 0 in columns of numbers: their types are"),
    ('Y = replace(target=frame(0, rows=2, cols=2, schema=["INT64"]), pattern=0, replacement=0.5)', "replace of 0 in columns of numbers: their types are"),
    ('Y = replace(target=F, pattern=sum(as.matrix(F)), replacement="a")', "replace in a frame of what is no text, and only the run knows"),
    ('Y = replace(target=as.frame(as.matrix(F)), pattern=as.scalar(F[1, 1]), replacement="a")', "of a text that only the run knows"),
    ("G = as.frame(matrix(1, nrow(F), 1))\nY = cbind(F, G) == cbind(G, F)", "a frame of texts and numbers, which no tensor can hold"),
    ("Y = cbind(F, matrix(1, nrow(F), 1))", "frames can only be joined with frames"),
    ("Y = sum(F)", "a frame"),
    ("b = as.scalar(F[1, 1])\nY = matrix(0, 1, 1)\nif (b) { Y = Y + 1 }", "a string where a boolean is needed"),
    ("n = as.scalar(F[1, 2])\nY = matrix(0, n, 1)", "a string where an integer is needed"),
    ("s = as.scalar(F[1, 2])\nY = exp(s)", "a string"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_what_no_model_can_do_with_frames_is_refused(body: str, reason: str) -> None:
    with pytest.raises(TranspileError) as error:
        export_script(f'F = read("F", data_type="frame")\n{body}\nwrite(Y, "Y")', inputs={"F": "string[N,3]"})
    assert reason in str(error.value)


@pytest.mark.parametrize(("body", "since"), [("Y = F[, 1] == F[, 2]", 19), ('Y = as.frame("n" + nrow(F))', 20)])
def test_texts_are_not_compared_or_joined_in_old_opsets(body: str, since: int) -> None:
    with pytest.raises(TranspileError, match=f"from opset {since} on"):
        model_of(replace(row("old", body), opset=since - 1), "float32")


def test_numbers_of_texts_in_old_opsets() -> None:
    check_export(replace(row("numbers", "Y = as.matrix(F[, 2])"), opset=18))
