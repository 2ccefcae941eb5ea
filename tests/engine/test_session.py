"""Sessions and prepared scripts on the real SystemDS; a missing engine is a failure."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds.engine import (
    EngineClosed,
    EngineError,
    EngineTimeout,
    EngineUnavailable,
    ScriptCompileError,
    ScriptRuntimeError,
    Session,
    launcher,
    shared_session,
)

IDENTITY = 'X = read("./X")\nY = X\nwrite(Y, "./Y")'
ADD_ONE = 'X = read("./X")\nY = X + 1\nwrite(Y, "./Y")'
PRODUCT = 'X = read("./X")\nW = read("./W")\nY = X %*% W\nwrite(Y, "./Y")'
ENDLESS = 'X = read("./X")\ni = sum(X)\nwhile (i >= 0) { i = i + 1 }\nY = X + i\nwrite(Y, "./Y")'
ONE = np.ones((1, 1))
PROMPTLY = 30.0  # seconds, on the busiest machine


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(timeout=60.0, max_heap="2g") as opened:
        opened.prepare(IDENTITY, ["X"], ["Y"])  # SystemDS starts with the first operation, and its channel opens
        yield opened


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(process_id: int, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not is_running(process_id):
            return True
        time.sleep(0.05)
    return False


def fake_java(folder: Path, body: str) -> str:
    path = folder / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_start_and_close_leave_nothing() -> None:
    opened = Session(max_heap="500m")
    process, directory = opened._jvm.process, opened._jvm.directory
    assert directory.is_dir() and not opened.closed
    opened.close()
    opened.close()
    assert opened.closed
    assert process.poll() is not None and not is_running(process.pid)
    assert not directory.exists()
    with pytest.raises(EngineClosed):
        opened.prepare(IDENTITY, ["X"], ["Y"])


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_a_collector_that_is_named_is_taken(variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    assert "-XX:+UseParallelGC" in launcher.build_command("java", [], "500m", tmp_path)
    monkeypatch.setenv(variable, "-Xshare:auto -XX:+UseSerialGC")
    assert not any("GC" in option for option in launcher.build_command("java", [], "500m", tmp_path))
    with Session(max_heap="500m") as opened:  # a JVM that is given two does not start
        script = opened.prepare(ADD_ONE, ["X"], ["Y"])
        assert script({"X": ONE})["Y"].item() == 2


def test_several_scripts_live_at_once(session: Session) -> None:
    scripts = [
        session.prepare(f'X = read("./X")\nY = X * {k}\nwrite(Y, "./Y")', ["X"], ["Y"]) for k in range(1, 4)
    ]
    for _ in range(2):
        for k, script in enumerate(scripts, start=1):
            assert script({"X": np.full((2, 2), 5.0)})["Y"].tolist() == [[5.0 * k] * 2] * 2


def test_pinned_weights_survive_calls_and_can_be_replaced(session: Session) -> None:
    script = session.prepare(PRODUCT, ["X", "W"], ["Y"])
    weights = np.arange(12.0).reshape(3, 4)
    script.pin("W", weights)
    for k in range(5):
        x = np.full((2, 3), float(k))
        np.testing.assert_array_equal(script({"X": x})["Y"], x @ weights)
    script.pin("W", weights + 1)
    np.testing.assert_array_equal(script({"X": np.ones((1, 3))})["Y"], np.ones((1, 3)) @ (weights + 1))


def test_results_of_negative_sizes_close_no_session(session: Session) -> None:
    """The engine reshapes to -1 x -3 where the product is right."""
    text = 'X = read("./X")\nn = nrow(X)\nY = matrix(X, rows=n - 2, cols=(n - 2) * 3)\nwrite(Y, "./Y")'
    script = session.prepare(text, ["X"], ["Y"])
    for _ in range(22):  # the last ones take one round trip
        with pytest.raises(ScriptRuntimeError, match="the script gave a matrix of -1 x -3"):
            script({"X": np.ones((1, 3))})
    assert script({"X": np.ones((3, 1))})["Y"].shape == (1, 3)


def test_pinned_weights_are_not_changed_by_the_script(session: Session) -> None:
    loop = "for (i in 1:2) {\n l = i\n W[l, 1] = sum(X)\n}"
    text = f'X = read("./X")\nW = read("./W")\n{loop}\nY = W\nwrite(Y, "./Y")'
    script = session.prepare(text, ["X", "W"], ["Y"])
    script.pin("W", np.zeros((3, 2)))
    for value in (7.0, 8.0):
        assert script({"X": np.full((1, 1), value)})["Y"].tolist() == [[value, 0.0], [value, 0.0], [0.0, 0.0]]
    other = session.prepare(
        'W = read("./W")\nX = read("./X")\nY = W + 0 * X\nwrite(Y, "./Y")', ["X", "W"], ["Y"]
    )
    other.pin("W", np.zeros((1, 1)))
    assert other({"X": ONE})["Y"].tolist() == [[0.0]]


@pytest.mark.parametrize("columns", [6, 3000, 1_200_000])
def test_special_values_survive_by_every_way(session: Session, columns: int) -> None:
    cells = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7976931348623157e308])
    sent = np.resize(cells, (1, columns))
    received = session.prepare(IDENTITY, ["X"], ["Y"])({"X": sent})["Y"]
    assert received.tobytes() == sent.tobytes()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_matrices(session: Session, shape: tuple[int, int]) -> None:
    assert session.prepare(ADD_ONE, ["X"], ["Y"])({"X": np.zeros(shape)})["Y"].shape == shape


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (1, 7), (300, 2), (40, 50)])
def test_shapes_that_are_known_only_save_time(session: Session, shape: tuple[int, int]) -> None:
    script = session.prepare(IDENTITY, ["X"], ["Y"], shapes={"Y": (2, 3)})
    matrix = np.arange(float(shape[0] * shape[1])).reshape(shape)
    result = script({"X": matrix})["Y"]
    assert result.tobytes() == matrix.tobytes()
    assert result.shape == ((2, 3) if matrix.size == 6 else shape)
    result[0, 0] = 5.0  # the caller's own


@pytest.mark.parametrize(
    "dtype",
    ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", ">f8", ">i4"],
)
@pytest.mark.parametrize("columns", [3, 50_000])
def test_every_number_type(session: Session, dtype: str, columns: int) -> None:
    sent = (np.arange(2 * columns) % 120).reshape(2, columns).astype(dtype)
    received = session.prepare(ADD_ONE, ["X"], ["Y"])({"X": sent})["Y"]
    assert received.dtype == np.float64 and received.flags.writeable
    np.testing.assert_array_equal(received, sent.astype(np.float64) + 1)


def test_views_are_sent_in_row_order(session: Session) -> None:
    script = session.prepare(IDENTITY, ["X"], ["Y"])
    for base in (np.arange(12.0).reshape(3, 4), np.random.default_rng(0).random((300, 400))):
        for sent in (base.T, base[::2, ::-1], np.asfortranarray(base)):
            np.testing.assert_array_equal(script({"X": sent})["Y"], sent)


def test_large_matrix(session: Session) -> None:
    sent = np.random.default_rng(0).random((1500, 1001))
    received = session.prepare(ADD_ONE, ["X"], ["Y"])({"X": sent})["Y"]
    np.testing.assert_array_equal(received, sent + 1)


def test_a_full_disk_is_named_and_closes_no_session(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    script = session.prepare(ADD_ONE, ["X"], ["Y"])
    sent = np.random.default_rng(0).random((300, 400))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with monkeypatch.context() as patched:
        patched.setattr(session._channel, "_mapped", [])
        with pytest.raises(EngineError, match="4 MB of memory shared with the engine: No space left on device"):
            script({"X": sent})
    np.testing.assert_array_equal(script({"X": sent})["Y"], sent + 1)


@pytest.mark.parametrize("shape", [(20, 30), (1000, 500)])
def test_sparse_matrices_count_their_cells(session: Session, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    sent = random.random(shape) * (random.random(shape) > 0.99)
    block = session._channel.send_matrix(sent)
    assert block.getNonZeros() == np.count_nonzero(sent)
    right = np.random.default_rng(1).random((shape[1], 200))
    received = session.prepare(
        PRODUCT + '\nZ = W[1:1, ]\nV = X * 2\nwrite(V, "./V")', ["X", "W"], ["Y", "V"]
    )({"X": sent, "W": right})
    np.testing.assert_allclose(received["Y"], sent @ right, rtol=1e-12)
    np.testing.assert_array_equal(received["V"], sent * 2)


def test_frames_of_strings(session: Session) -> None:
    lower = 'L = map(F, "x -> x.toLowerCase()")\nwrite(L, "./L")'
    text = f'F = read("./F", data_type="frame")\n{lower}\nG = F\nwrite(G, "./G")'
    script = session.prepare(text, ["F"], ["L", "G"])
    sent = np.array([["Ab", "CÉ\n\r\\t"], ["", "x\tY,\"z'"], ["漢字 😀", "NA"]], dtype=object)
    for array in (sent, sent.astype(str)):
        received = script({"F": array})
        assert received["G"].tolist() == sent.tolist()
        assert received["L"].tolist() == [[cell.lower() for cell in row] for row in sent.tolist()]
    many = np.array([[f"Word{k}" * 5 for k in range(300)]], dtype=object)
    assert script({"F": many})["L"].tolist() == [[cell.lower() for cell in many[0]]]
    assert script({"F": np.array([[b"Bytes"]], dtype=object)})["G"].tolist() == [["Bytes"]]


def test_hostile_strings_go_and_come(session: Session) -> None:
    # Null is what the engine makes of an empty string in a file, and of a row that it leaves empty.
    cells = ["", "null", "NULL", "a\x00b", "\r\n", "\x1e", "\x1f", "·", "a°b", "¶‡", "\\", '"', "'", "\ufeff", "😀", " ", "NaN"]
    array = np.array([cells, cells[::-1]], dtype=object)
    none = 'N = removeEmpty(target=F, margin="rows", select=matrix(0, rows=nrow(F), cols=1))'
    prepared = session.prepare(f'F = read("./F", data_type="frame")\n{none}\nG = rbind(F, N)\nwrite(G, "./G")', ["F"], ["G"])
    got = prepared({"F": array})["G"]
    np.testing.assert_array_equal(got[:2], array)
    np.testing.assert_array_equal(got[2:], [[""] * len(cells)])


def test_empty_frame_goes_and_comes(session: Session) -> None:
    channel = session._channel
    assert channel.receive_frame(channel.send_frame(np.empty((0, 2), dtype=object))).shape == (0, 2)


def test_scalar_outputs_are_one_by_one(session: Session) -> None:
    writes = "".join(f'write({name}, "./{name}")\n' for name in "stb")
    text = 'X = read("./X")\ns = sum(X)\nt = "n" + nrow(X)\nb = s > 3\n' + writes
    script = session.prepare(text, ["X"], ["s", "t", "b"])
    for rows in (2, 3):
        received = script({"X": np.ones((rows, 2))})
        assert received["s"].tolist() == [[2.0 * rows]]
        assert received["t"].tolist() == [[f"n{rows}"]]
        assert received["b"].tolist() == [[1.0]]


def test_arguments_and_sources(session: Session) -> None:
    library = "twice = function(matrix[double] A) return (matrix[double] B) {\n  B = 2 * A\n}"
    text = 'source("lib.dml") as lib\nX = read("./X")\nY = lib::twice(X) + $n\nwrite(Y, "./Y")'
    for name in ("n", "$n"):
        script = session.prepare(text, ["X"], ["Y"], args={name: "5"}, sources={"lib.dml": library})
        assert script({"X": ONE})["Y"].tolist() == [[7.0]]


@pytest.mark.parametrize(
    ("line", "column", "bad"),
    [
        (2, 4, "A=X+*1"),
        (2, 2, "A=undefinedFunction(X)"),
        (2, 4, "A=X+Q"),
        (2, 5, "A=X+X.y"),
    ],
)
def test_compile_errors_have_their_line(session: Session, line: int, column: int, bad: str) -> None:
    with pytest.raises(ScriptCompileError) as caught:
        session.prepare(f'X = read("./X")\n{bad}\nY = A + 1\nwrite(Y, "./Y")', ["X"], ["Y"])
    assert caught.value.line == line
    assert caught.value.source_line == bad
    assert bad in str(caught.value)
    if "undefinedFunction" not in bad:
        assert caught.value.column == column
    assert session.prepare(ADD_ONE, ["X"], ["Y"])({"X": ONE})["Y"].tolist() == [[2.0]]


def test_undefined_variable_is_named(session: Session) -> None:
    with pytest.raises(ScriptCompileError, match=r"Undefined Variable \(Q\)"):
        session.prepare('X = read("./X")\nY = X + Q\nwrite(Y, "./Y")', ["X"], ["Y"])


def test_stop_gives_its_text(session: Session) -> None:
    text = 'X = read("./X")\nif (sum(X) > 0) { stop("too much") }\nY = X\nwrite(Y, "./Y")'
    script = session.prepare(text, ["X"], ["Y"])
    with pytest.raises(ScriptRuntimeError) as caught:
        script({"X": ONE})
    assert str(caught.value) == "too much"
    assert script({"X": -ONE})["Y"].tolist() == [[-1.0]]


def test_dimension_mismatch_names_the_instruction(session: Session) -> None:
    script = session.prepare(PRODUCT, ["X", "W"], ["Y"])
    with pytest.raises(ScriptRuntimeError, match=r"3!=4") as caught:
        script({"X": np.ones((1, 3)), "W": np.ones((4, 4))})
    assert caught.value.instruction.startswith("CP ba+* X W")
    assert script({"X": ONE, "W": ONE})["Y"].tolist() == [[1.0]]


def test_missing_output_is_an_error(session: Session) -> None:
    script = session.prepare('X = read("./X")\nif (sum(X) > 0) { Y = X\nwrite(Y, "./Y") }', ["X"], ["Y"])
    with pytest.raises(EngineError, match="'Y'"):
        script({"X": -ONE})


def test_misuse_is_refused_before_the_engine(session: Session) -> None:
    script = session.prepare(PRODUCT, ["X", "W"], ["Y"])
    with pytest.raises(ValueError, match="needs the inputs"):
        script({"X": ONE})
    with pytest.raises(ValueError, match="not an input"):
        script.pin("Q", ONE)
    with pytest.raises(ValueError, match="dimensions"):
        script({"X": np.ones(3), "W": ONE})
    with pytest.raises(TypeError, match="complex128"):
        script({"X": ONE * 1j, "W": ONE})
    with pytest.raises(TypeError, match="holds a float"):
        script({"X": np.array([[1.5]], dtype=object), "W": ONE})
    for cell in ("\ud800", b"\xff"):
        with pytest.raises(ValueError, match="utf-8"):
            script({"X": np.array([[cell]], dtype=object), "W": ONE})
    with pytest.raises(TypeError, match="numpy"):
        script.pin("W", [[1.0]])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sequence of names"):
        session.prepare(ADD_ONE, "X", ["Y"])
    for heap in ("4g -version", "0g"):
        with pytest.raises(ValueError, match="max_heap"):
            Session(max_heap=heap)
    script.close()
    script.close()
    with pytest.raises(EngineClosed):
        script({"X": ONE, "W": ONE})


def test_threads_share_a_session(session: Session) -> None:
    scripts = [
        session.prepare(f'X = read("./X")\nY = X + {k}\nwrite(Y, "./Y")', ["X"], ["Y"]) for k in range(4)
    ]
    wrong: list[object] = []

    def work(k: int) -> None:
        try:
            for size in (1, 40, 200, 3, 300):
                x = np.full((size, size), float(k))
                if not (scripts[k]({"X": x})["Y"] == 2 * k).all():
                    wrong.append((k, size))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_timeout_ends_the_session_and_the_shared_one_starts_anew(capfd: pytest.CaptureFixture[str]) -> None:
    first = shared_session()
    assert shared_session() is first
    script = first.prepare(ENDLESS, ["X"], ["Y"])
    process_id = first._jvm.process.pid
    started = time.monotonic()
    with pytest.raises(EngineTimeout, match="0.5 seconds"):
        script({"X": ONE}, timeout=0.5)
    assert time.monotonic() - started < PROMPTLY
    assert first.closed and not is_running(process_id)
    with pytest.raises(EngineClosed):
        script({"X": ONE})
    second = shared_session()
    try:
        assert second is not first
        assert second.prepare(ADD_ONE, ["X"], ["Y"])({"X": ONE})["Y"].tolist() == [[2.0]]
    finally:
        second.close()
    assert capfd.readouterr() == ("", "")


def test_killed_and_closed_sessions_end_a_running_call() -> None:
    for end, expected in (("kill", "exit code -9"), ("close", "closed")):
        opened = Session(max_heap="500m")
        script = opened.prepare(ENDLESS, ["X"], ["Y"])
        action = opened.close if end == "close" else opened._jvm.process.kill
        timer = threading.Timer(0.5, action)
        timer.start()
        started = time.monotonic()
        with pytest.raises(EngineError, match=expected):
            script({"X": ONE})
        assert time.monotonic() - started < PROMPTLY
        timer.join()
        with pytest.raises(EngineClosed):
            script({"X": ONE})


def test_out_of_memory_is_told_with_advice() -> None:
    with Session(max_heap="200m") as opened:
        script = opened.prepare(
            'X = read("./X")\nY = matrix(sum(X), 9000, 9000) + X\nwrite(Y, "./Y")', ["X"], ["Y"]
        )
        with pytest.raises(EngineError) as caught:
            script({"X": np.ones((9000, 1))}, timeout=30.0)
        assert "max_heap" in str(caught.value) and "OutOfMemoryError" in str(caught.value)


@pytest.mark.engine
def test_jvm_ends_when_python_is_killed() -> None:
    code = (
        "import sys, time\nfrom onnx_systemds.engine import Session\ns = Session(max_heap='500m')\n"
        "sys.stdout.write(f'{s._jvm.process.pid} {s._jvm.directory}\\n'); sys.stdout.flush(); time.sleep(60)"
    )
    root = Path(launcher.__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root, text=True)
    assert child.stdout is not None
    process_id, directory = child.stdout.readline().split()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert wait_until_gone(int(process_id))
    shutil.rmtree(directory)


@pytest.mark.engine
def test_session_left_open_ends_at_exit_in_silence() -> None:
    code = (
        "import sys, numpy as np\nfrom onnx_systemds.engine import shared_session\ns = shared_session()\n"
        f"p = s.prepare({ADD_ONE!r}, ['X'], ['Y'])\ny = p({{'X': np.ones((1, 1))}})\n"
        "assert 'systemds' not in sys.modules and 'pandas' not in sys.modules\n"
        "sys.stdout.write(f'{s._jvm.process.pid} {s._jvm.directory}')"
    )
    root = Path(launcher.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=root, text=True, check=True)
    process_id, directory = done.stdout.split()
    assert done.stderr == ""
    assert not is_running(int(process_id)) and not Path(directory).exists()


def test_forked_child_leaves_the_session_alone(session: Session) -> None:
    script = session.prepare(ADD_ONE, ["X"], ["Y"])
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with session._operation(None, "holding the lock while the process forks"):
            held.set()
            forked.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # it fails rather than hang
        refused = False
        try:
            script({"X": ONE})
        except EngineClosed:
            refused = True
        session.close()
        os._exit(0 if refused and session.closed else 1)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert script({"X": ONE})["Y"].tolist() == [[2.0]]


def test_no_java_gives_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="openjdk-17-jre-headless"):
        Session()
    with pytest.raises(EngineUnavailable, match="not an executable"):
        Session(java=str(tmp_path / "java"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(EngineUnavailable, match="JAVA_HOME"):
        Session()


def test_java_home_comes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = fake_java(tmp_path, "exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert launcher.find_java() == java
    monkeypatch.delenv("JAVA_HOME")
    assert launcher.find_java() != java


def test_java_without_vector_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = (
        'case "$1" in\n  -version) echo \'openjdk version "21.0.8"\' >&2;;\n'
        "  --list-modules) echo java.base@21.0.8;;\n"
        "  *) echo 'java.lang.module.FindException: Module jdk.incubator.vector not found'; exit 1;;\nesac"
    )
    fake_java(tmp_path, body)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="no module jdk.incubator.vector") as caught:
        Session()
    assert "apt-get install" in caught.value.hint


@pytest.mark.parametrize("end", ["", "exec >&- 2>&-; sleep 0.2; "], ids=["at once", "a moment after its output"])
def test_java_that_does_not_start_says_why(tmp_path: Path, end: str) -> None:
    java = fake_java(tmp_path, f"echo 'Unrecognized option: -Xno'; {end}exit 1")
    with pytest.raises(EngineUnavailable, match="ended at once:\nUnrecognized option: -Xno"):
        Session(java=java)


def test_old_java(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "echo 'openjdk version \"11.0.2\"' >&2; exit 1")
    with pytest.raises(EngineUnavailable, match="Java 11; SystemDS needs 17"):
        Session(java=java)


def test_java_that_never_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = (
        'case "$1" in\n  -version) echo \'version "17.0.1"\' >&2;;\n'
        "  --list-modules) echo jdk.incubator.vector@17;;\n  *) echo hello; exec sleep 60;;\nesac"
    )
    monkeypatch.setattr(launcher, "_STARTUP_SECONDS", 0.5)
    with pytest.raises(EngineUnavailable, match=r"did not start within 0.5 seconds:\nhello"):
        Session(java=fake_java(tmp_path, body))


def test_no_systemds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYSTEMDS_ROOT", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="no SystemDS.jar"):
        Session()
    monkeypatch.delenv("SYSTEMDS_ROOT")
    monkeypatch.setattr(launcher.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineUnavailable, match=r"onnx-systemds\[engine\]"):
        Session()


def test_systemds_root_names_another_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "target" / "lib").mkdir(parents=True)
    (tmp_path / "target" / "SystemDS.jar").touch()
    monkeypatch.setenv("SYSTEMDS_ROOT", str(tmp_path))
    expected = [str(tmp_path / "target" / "SystemDS.jar"), str(tmp_path / "target" / "lib" / "*")]
    assert launcher.find_class_path() == expected


def test_a_native_blas_finds_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP must not spin and malloc must keep what it has, but what the user has set comes first."""
    monkeypatch.setenv("MALLOC_ARENA_MAX", "3")
    for native_blas, wait_policy in (("none", None), ("openblas", "passive")):
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
        with Session(max_heap="400m", native_blas=native_blas) as session:
            found = session._gateway.jvm.System.getenv
            assert found("OMP_WAIT_POLICY") == wait_policy
            assert found("MALLOC_ARENA_MAX") == "3"
