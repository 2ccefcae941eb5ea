"""Where `source` finds scripts, and what a script is said to offer."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_systemds.dml.listing import list_script, script_arguments
from onnx_systemds.dml.parser import parse_file, parse_script
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.engine.errors import EngineUnavailable
from onnx_systemds.errors import ScriptNotFound, ScriptSyntaxError, TranspileError
from onnx_systemds.exporting import sources
from onnx_systemds.exporting.sources import JAR_PREFIX, SourceFiles, jar_script, jar_scripts


@pytest.fixture
def jar() -> None:
    """Fails where there is no SystemDS.jar."""
    assert jar_scripts()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_below_the_folder_beside_the_importer_and_below_scripts(tmp_path) -> None:
    write(tmp_path, "here.dml", "x = 1")
    write(tmp_path, "scripts/inner.dml", "x = 2")
    write(tmp_path, "models/beside.dml", "x = 3")
    write(tmp_path, "models/here.dml", "x = 4")
    importer = parse_file(write(tmp_path, "models/main.dml", "y = 1"))
    files = SourceFiles(tmp_path)
    assert files.resolve("here.dml", importer) == parse_script("x = 1")
    assert files.resolve("inner.dml", importer) == parse_script("x = 2")
    assert files.resolve("beside.dml", importer) == parse_script("x = 3")
    assert files.resolve("./models/../here.dml") == parse_script("x = 1")
    assert files.resolve(str(tmp_path / "models" / "here.dml")) == parse_script("x = 4")


def test_where_the_path_to_the_importer_began(tmp_path) -> None:
    """A project whose paths begin in its folder, exported from another one."""
    main = parse_file(write(tmp_path, "project/main.dml", "y = 1"))
    write(tmp_path, "project/lib/one.dml", "x = 1")
    write(tmp_path, "project/lib/two.dml", "x = 2")
    files = SourceFiles(tmp_path)
    one = files.resolve("./lib/one.dml", main)
    assert files.resolve("lib/two.dml", one) == parse_script("x = 2")
    with pytest.raises(ScriptNotFound, match="not found"):
        SourceFiles(tmp_path).resolve("lib/two.dml", one)


def test_each_file_is_parsed_once(tmp_path) -> None:
    path = write(tmp_path, "a.dml", "x = 1")
    files = SourceFiles(tmp_path)
    first = files.resolve("a.dml")
    path.unlink()
    assert files.resolve("./a.dml") is first


def test_setwd_holds_for_what_follows_in_the_same_file(tmp_path) -> None:
    write(tmp_path, "a.dml", "x = 1")
    write(tmp_path, "lib/a.dml", "x = 2")
    script = parse_script('source("a.dml") as p\nsetwd("lib")\nsource("a.dml") as q\nsource("lib/a.dml") as r')
    files = SourceFiles(tmp_path)
    p, q, r = (files.namespace(script, name) for name in "pqr")
    assert p == parse_script("x = 1")
    assert q is r
    assert q == parse_script("x = 2")
    assert files.namespace(script, "s") is None


def test_scripts_that_import_each_other(tmp_path) -> None:
    write(tmp_path, "a.dml", 'source("b.dml") as b')
    write(tmp_path, "b.dml", 'source("a.dml") as a')
    files = SourceFiles(tmp_path)
    a = files.resolve("a.dml")
    b = files.namespace(a, "b")
    assert b is not None and files.namespace(b, "a") is a


def test_a_namespace_for_two_files(tmp_path) -> None:
    write(tmp_path, "a.dml", "x = 1")
    write(tmp_path, "b.dml", "x = 1")
    script = parse_script('source("a.dml") as n\nsource("b.dml") as n', "m.dml")
    with pytest.raises(TranspileError, match=r'm.dml:2:1: the namespace n stands for ".*a.dml" already'):
        SourceFiles(tmp_path).namespace(script, "n")


def test_not_found(tmp_path) -> None:
    script = parse_script('x = 1\nsource("none.dml") as n', "m.dml")
    with pytest.raises(ScriptNotFound) as caught:
        SourceFiles(tmp_path).namespace(script, "n")
    text = str(caught.value)
    assert text.startswith('m.dml:2:1: the script "none.dml" is not found\n  hint: looked for ')
    assert str(tmp_path / "none.dml") in text and "SystemDS.jar!scripts/none.dml" in text


def test_what_nothing_needs_may_be_missing(tmp_path) -> None:
    write(tmp_path, "a.dml", "x = 1")
    script = parse_script('source("none.dml") as n\nsource("a.dml") as a', "m.dml")
    assert SourceFiles(tmp_path).namespace(script, "a") == parse_script("x = 1")


def test_an_error_in_an_imported_script_names_that_script(tmp_path) -> None:
    write(tmp_path, "bad.dml", "x = 1 2")
    with pytest.raises(ScriptSyntaxError, match=r"bad.dml:1:7: expected"):
        SourceFiles(tmp_path).resolve("bad.dml")


def test_without_systemds_there_is_only_the_disk(tmp_path, monkeypatch) -> None:
    def none() -> dict[str, str]:
        raise EngineUnavailable("no engine", "")

    monkeypatch.setattr(sources, "_jar_texts", none)
    assert SourceFiles(tmp_path).builtin("lm") is None
    with pytest.raises(ScriptNotFound):
        SourceFiles(tmp_path).resolve("nn/layers/affine.dml")


def test_scripts_of_systemds(jar, tmp_path) -> None:
    assert "scripts/builtin/lm.dml" in jar_scripts()
    files = SourceFiles(tmp_path)
    affine = files.resolve("nn/layers/affine.dml")
    assert affine.file == f"{JAR_PREFIX}scripts/nn/layers/affine.dml"
    assert files.resolve("scripts/nn/layers/affine.dml") is affine
    assert files.resolve("/scripts/nn/layers/affine.dml") is affine
    lm = files.builtin("lm")
    assert lm is not None and "m_lm" in lm.functions
    assert files.builtin("lm") is lm
    assert files.builtin("no_such_builtin") is None
    assert jar_script("scripts/none.dml") is None


def test_imports_of_scripts_of_systemds(jar, tmp_path) -> None:
    files = SourceFiles(tmp_path)
    lenet = files.resolve("nn/examples/mnist_lenet.dml")
    affine = files.namespace(lenet, "affine")
    assert affine is not None and affine.file == f"{JAR_PREFIX}scripts/nn/layers/affine.dml"


def test_the_disk_goes_before_the_jar_but_not_for_scripts_of_the_jar(jar, tmp_path) -> None:
    write(tmp_path, "nn/layers/affine.dml", "x = 1")
    files = SourceFiles(tmp_path)
    assert files.resolve("nn/layers/affine.dml") == parse_script("x = 1")
    inside = files.namespace(files.resolve("nn/examples/mnist_lenet.dml"), "affine")
    assert inside is not None and inside.file == f"{JAR_PREFIX}scripts/nn/layers/affine.dml"


def test_listing() -> None:
    script = parse_script(
        """
        eps = ifdef($eps, 1e-6)
        X = read($X)
        n = ifdef($n, $m)
        f = function(matrix[double] X, Integer k = 3, boolean b = TRUE) return (matrix[double] Y, double s) {
          Y = X
          s = 1
        }
        g = function() { print("g") }
        """
    )
    assert list_script(script) == [
        "f(matrix[double] X, integer k = 3, boolean b = TRUE) -> (matrix[double] Y, double s)",
        "g() -> ()",
        "$eps = 1e-06",
        "$X",
        "$n = $m",
        "$m",
    ]


def test_an_argument_read_without_default_must_be_given() -> None:
    found = script_arguments(parse_script("a = ifdef($a, 1)\nb = $a + ifdefined\nc = ifdef($c, 2)\nd = ifdef($c, 3)"))
    assert {name: default and print_expression(default) for name, default in found.items()} == {"a": None, "c": "2"}
