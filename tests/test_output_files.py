"""What a command writes is whole or not there: full disks, folders, links, devices, pipes, interruptions."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.cli import commands as cli
from onnx_systemds.engine import matrix_files as weights_module
from onnx_systemds.files import replacing
from onnx_systemds.importing import script as script_module
from onnx_systemds.tables.writing import ArrayWriter
from tests.invoking import invoke

SIDE = 60


# a process that a shell starts in the background ignores interruptions, and so do its own
LISTENING = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def model_with_weights(folder: Path, external: str = "") -> Path:
    """Y = X W; W is a file of its own when ``external`` names one."""
    weight = numpy_helper.from_array(np.random.default_rng(0).random((SIDE, SIDE)), "W")
    infos = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["N", SIDE]) for name in "XY"]
    graph = helper.make_graph([helper.make_node("MatMul", ["X", "W"], ["Y"])], "tiny", infos[:1], infos[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "m.onnx"
    onnx.save(model, path, save_as_external_data=bool(external), location=external or None, size_threshold=0)
    return path


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file may grow beyond this many bytes: what a full disk is to a writer."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(result: Result, *words: str) -> None:
    assert isinstance(result.exception, SystemExit) and result.exit_code == 1, result.output
    for word in words:
        assert word in result.output
    assert ".writing-" not in result.output and "Errno" not in result.output and "Traceback" not in result.output


@pytest.mark.parametrize("mode", ["files", "inline"])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, mode: str, earlier: bool) -> None:
    model, target = model_with_weights(tmp_path), tmp_path / "out.dml"
    if earlier:
        assert invoke(model, "-o", target, "--weights", mode).exit_code == 0
    before, names = contents(tmp_path), sorted(tmp_path.rglob("*"))
    with file_size_limit(4096):
        refused(invoke(model, "-o", target, "--weights", mode), "File too large", "out.")
    assert contents(tmp_path) == before and sorted(tmp_path.rglob("*")) == names


@pytest.mark.parametrize("words", [("m.onnx", "-o", "x.dml", "--weights", "files"), ("m.onnx", "-o", "x.dml", "--score"),
                                   ("s.dml", "-o", "x.onnx"), ("s.dml", "-o", "x.onnx", "--external-data", "0")], ids=" ".join)
def test_a_map_that_cannot_be_written_leaves_no_script_without_it(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model_with_weights(tmp_path)
    (tmp_path / "s.dml").write_text('X = read("X", rows=2, cols=2)\nwrite(X + matrix("1 2 3 4", rows=2, cols=2), "Y")\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("onnx_systemds.cli.node_map.json_text", lambda _: "x" * 1_000_000)
    before = contents(tmp_path)
    with file_size_limit(500_000):
        refused(invoke(*words, "--map", "x.json"), "x.json: File too large")
    assert contents(tmp_path) == before and not (tmp_path / "x.weights").exists()


@pytest.mark.engine
def test_a_full_disk_while_results_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = cli._write_tensors

    def limited(path: Path, tensors: dict[str, Any]) -> None:
        with file_size_limit(4096):  # only here: the engine writes files, too
            write(path, tensors)

    monkeypatch.setattr(cli, "_write_tensors", limited)
    model = model_with_weights(tmp_path)
    np.savez(tmp_path / "in.npz", X=np.ones((50, SIDE)))
    before = contents(tmp_path)
    result = invoke("run", model, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    refused(result, "out.npz: File too large")
    assert contents(tmp_path) == before


def test_a_full_disk_while_an_array_is_written(tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    with pytest.raises(OSError, match="File too large: .*out.npy"), file_size_limit(4096), replacing(target) as stream:
        writer = ArrayWriter(stream, target, {})
        writer.write({"y": np.ones(10_000)})
        writer.finish()
    assert not list(tmp_path.iterdir())


def test_a_folder_as_output_leaves_no_weights(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    (tmp_path / "out.dml").mkdir()
    refused(invoke(model, "-o", tmp_path / "out.dml", "--weights", "files"), "out.dml: it is a folder; give the name of a file")
    with pytest.raises(IsADirectoryError):
        import_model(model, weights="files").save(tmp_path / "out.dml")
    assert not (tmp_path / "out.weights").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o500)
    refused(invoke(model, "-o", tmp_path / "closed" / "out.dml"), "out.dml: Permission denied")


@pytest.mark.parametrize(
    "words",
    [("m.onnx", "-o"), ("m.onnx", "-o", "fine.dml", "--map"), ("run", "m.onnx", "--outputs"), ("verify", "m.onnx", "--report"),
     ("score", "m.onnx", "--input", "rows.npy", "--output"), ("inspect", "m.onnx", "--graph")],
)
def test_a_closed_folder_is_told_before_anything_is_done(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model_with_weights(tmp_path)
    (tmp_path / "closed").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "closed")  # as it is for others than root
    before = contents(tmp_path)
    ending = {"--map": "x.json", "--graph": "x.svg", "--output": "x.npy"}.get(words[-1], "x")
    refused(invoke(*words, f"closed/{ending}"), f"error: closed/{ending}: Permission denied")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("external", ["", "m.data"])
@pytest.mark.parametrize("name", ["m.onnx", "./sub/../m.onnx", "link.onnx", "hard.onnx", "m.data", "plugin.py"])
def test_what_is_read_is_not_overwritten(
    tmp_path: Path, name: str, external: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "m.data" and not external:
        name = "m.onnx"
    model = model_with_weights(tmp_path, external)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    os.link(model, tmp_path / "hard.onnx")
    (tmp_path / "plugin.py").write_text("")
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    refused(invoke("m.onnx", "-o", name, "--plugin", "plugin.py"), "a file that is read")
    refused(invoke("run", "m.onnx", "--outputs", name, "--plugin", "plugin.py"), "a file that is read")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("words", [
    ("m.onnx", "-o", "x.dml", "--map", "./x.dml"), ("m.onnx", "-o", "m.dml", "--score", "--map", "./m_score.dml"),
    ("m.onnx", "-o", "x.dml", "--score", "--map", "x_score.dml"), ("m.onnx", "-o", "link.dml", "--map", "x.dml"),
    ("s.dml", "-o", "x.onnx", "--map", "x.onnx"), ("s.dml", "-o", "x.onnx", "--map", "x.onnx.data"),
])
def test_two_outputs_are_two_files(tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where neither is there yet: the second one would be all that is left."""
    model_with_weights(tmp_path)
    (tmp_path / "s.dml").write_text('X = read("X")\nwrite(X + 1, "Y")\n')
    (tmp_path / "link.dml").symlink_to("x.dml")
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    refused(invoke(*words), "two outputs are written into this file")
    assert contents(tmp_path) == before


def test_a_report_spares_the_weights_of_the_model(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path, "m.data")
    before = contents(tmp_path)
    refused(invoke("verify", model, "--report", tmp_path / "m.data"), "m.data", "a file that is read")
    assert contents(tmp_path) == before


def test_a_program_that_scores_has_no_place_beside_a_device(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    for target in ("-", "/dev/null"):
        refused(invoke(model, "-o", target, "--weights", "inline", "--score"), "--score writes no program beside a stream", "name a file by -o")
    assert not Path("/dev/null_score.dml").exists()


def test_a_link_keeps_leading_where_it_does(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    (tmp_path / "real.dml").write_text("old")
    (tmp_path / "link.dml").symlink_to("real.dml")
    (tmp_path / "new.dml").symlink_to("not_yet.dml")
    for link, real in (("link.dml", "real.dml"), ("new.dml", "not_yet.dml")):
        assert invoke(model, "-o", tmp_path / link, "--weights", "inline").exit_code == 0
        assert (tmp_path / link).is_symlink() and "gen_tiny" in (tmp_path / real).read_text()


def command_line(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "onnx_systemds", *map(str, arguments)]
    return subprocess.run(command, check=False, timeout=120, **options)


def test_standard_output_is_written_to(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    before = os.stat("/dev/stdout", follow_symlinks=False)
    arguments = (model, "-o", "/dev/stdout", "--weights", "inline")
    done = command_line(*arguments, capture_output=True)
    assert done.returncode == 0 and b"gen_tiny = function" in done.stdout
    with (tmp_path / "log").open("ab") as log:
        log.write(b"# kept\n")
        log.flush()
        assert command_line(*arguments, stdout=log).returncode == 0
    assert (tmp_path / "log").read_bytes() == b"# kept\n" + done.stdout
    assert os.stat("/dev/stdout", follow_symlinks=False).st_ino == before.st_ino


def test_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    assert invoke(model, "-o", "/dev/null", "--weights", "inline").exit_code == 0
    assert not Path("/dev/null").is_file()
    refused(invoke(model, "-o", "/dev/full", "--weights", "inline"), "/dev/full: No space left on device")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    assert invoke(model, "-o", pipe, "--weights", "inline").exit_code == 0
    reader.join(60)
    assert b"gen_tiny = function" in found[0] and pipe.is_fifo()


@pytest.mark.parametrize("name", ["out.weights", "out.txt", "out", "out.DML"])
def test_scripts_are_called_dml(tmp_path: Path, name: str) -> None:
    """As the script says itself how it is sourced, and as the commands take it again."""
    refused(invoke(model_with_weights(tmp_path), "-o", tmp_path / name), name, "a script is called *.dml")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("words", [("s.dml",), ("train", "m.onnx", "--input", "rows.npz", "--target", "y", "--loss", "l2_loss"),
                                   ("trained", "m.onnx", "m.weights")], ids=lambda words: words[0])
def test_models_are_not_called_dml(tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    model_with_weights(tmp_path)
    (tmp_path / "s.dml").write_text('X = read("X", rows=2, cols=2)\nwrite(X, "Y")\n')
    (tmp_path / "own.dml").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    refused(invoke(*words, "-o", "own.dml"), "own.dml: a script is called *.dml, not a model")
    assert (tmp_path / "own.dml").read_text() == "x = 1\n"


def test_results_are_called_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", X=np.ones((2, SIDE)))
    model = model_with_weights(tmp_path)
    result = invoke("run", model, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.csv")
    refused(result, "out.csv", "results are an .npz file")


def test_arrays_are_not_read_from_tables(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    result = invoke("run", model_with_weights(tmp_path), "--inputs", tmp_path / "in.csv", "--outputs", tmp_path / "out.npz")
    refused(result, "in.csv", "scored by onnx-systemds score")


def test_a_map_goes_to_standard_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model_with_weights(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert invoke("m.onnx", "--map", "-", "-q").exit_code == 0
    assert '"MatMul"' in capfd.readouterr().out and not Path("-").exists()


@pytest.mark.parametrize("name", ["-", "report", "report.json"])
def test_reports_are_called_html(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model_with_weights(tmp_path)
    monkeypatch.chdir(tmp_path)
    refused(invoke("verify", "m.onnx", "--report", name), f"{name}: a report is an HTML page: name it *.html")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_the_call_of_a_script_on_standard_output_is_that_of_its_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result, call = invoke(model_with_weights(tmp_path), "-o", "-", "--weights", "inline"), 'source("gen_tiny.dml") as gen_tiny\n'
    assert call in result.output and call in capfd.readouterr().out


def test_weights_have_no_place_beside_a_device(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    for target in ("/dev/stdout", "/dev/null"):
        refused(invoke(model, "-o", target, "--weights", "files"), "weights cannot be written beside a stream", "--weights inline")
    assert not Path("/dev/stdout.weights").exists() and not Path("/dev/null.weights").exists()


@pytest.mark.engine
def test_results_on_standard_output_are_not_mixed_with_words(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    np.savez(tmp_path / "in.npz", X=np.ones((2, SIDE)))
    with (tmp_path / "out.npz").open("wb") as stream:
        done = command_line("run", model, "--inputs", tmp_path / "in.npz", "--outputs", "/dev/stdout",
                            stdout=stream, stderr=subprocess.PIPE)
    assert done.returncode == 0 and b"Y: float64 [2, 60]" in done.stderr
    assert (tmp_path / "out.npz").read_bytes()[:2] == b"PK"
    assert np.load(tmp_path / "out.npz")["Y"].shape == (2, SIDE)


def test_an_interruption_while_weights_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_with_weights(tmp_path)
    before = contents(tmp_path)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(weights_module, "write_metadata", interrupt)
    result = invoke(model, "--weights", "files")
    assert result.exit_code == 130 and result.output == "interrupted\n"
    monkeypatch.setattr(script_module, "write_list", interrupt)
    assert invoke(model, "--weights", "files").exit_code == 130
    assert contents(tmp_path) == before and sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx"]


def test_an_interruption_of_the_process(tmp_path: Path) -> None:
    model = model_with_weights(tmp_path)
    (tmp_path / "plugin.py").write_text(f"{LISTENING}os.kill(os.getpid(), signal.SIGINT)\n")
    done = command_line(model, "--plugin", tmp_path / "plugin.py", capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")


def test_a_process_that_is_asked_to_end_leaves_nothing(tmp_path: Path) -> None:
    """As a scheduler asks it; here while the weights are written."""
    model = model_with_weights(tmp_path)
    (tmp_path / "plugin.py").write_text("""import os, signal
from onnx_systemds.engine import matrix_files
matrix_files.write_metadata = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
""")
    before = contents(tmp_path)
    done = command_line(model, "--weights", "files", "--plugin", tmp_path / "plugin.py", capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, b"", b"")
    assert contents(tmp_path) == before and sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "plugin.py"]


def test_a_full_standard_output_is_told(tmp_path: Path) -> None:
    model_with_weights(tmp_path)
    with open("/dev/full", "wb") as full:
        done = command_line("inspect", "m.onnx", stdout=full, stderr=subprocess.PIPE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, b"error: standard output: No space left on device\n")


@pytest.mark.parametrize("is_buffered", [False, True])
def test_a_standard_error_that_is_full_or_closed_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_buffered: bool
) -> None:
    """What is buffered is written at the end once more."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if is_buffered else "1")
    model_with_weights(tmp_path)
    for number, target in enumerate(("/dev/full", "&-")):
        words = f"{sys.executable} -m onnx_systemds m.onnx -o {number}.dml 2>{target}"
        assert subprocess.run(["bash", "-c", words], cwd=tmp_path, check=False, timeout=120).returncode == 0
        assert (tmp_path / f"{number}.dml").exists()


def test_an_interruption_while_modules_are_imported() -> None:
    program = f"""{LISTENING}
import sys
class Finder:
    def find_spec(self, name, *_):
        if name == "jinja2":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from onnx_systemds.__main__ import run
assert "numpy" not in sys.modules
sys.argv = ["onnx-systemds", "operators"]
run()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")
