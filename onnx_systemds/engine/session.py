"""Sessions: one JVM each, in which DML scripts are prepared and run."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from onnx_systemds.engine.errors import EngineClosed, EngineError, EngineTimeout, compile_error, token_error
from onnx_systemds.engine.jvm import Jvm
from onnx_systemds.engine.launcher import connect, disconnect, load_native_blas, start_jvm
from onnx_systemds.engine.prepared_script import PreparedScript, ResultMatrix, failure_chain
from onnx_systemds.engine.transfer import Channel, Matrix
from onnx_systemds.engine.watchdog import Watchdog

_WARM_UP = 'X = read("./X")\nY = X + 1\nwrite(Y, "./Y")'
_shared: Session | None = None
_shared_lock = threading.Lock()


def shared_session() -> Session:
    """Return the session of this process, started at first use and again after it ended.

    It is closed when the process exits. Raises EngineUnavailable when it cannot be started.
    """
    global _shared
    with _shared_lock:
        if _shared is None or _shared.closed:
            if _shared is not None:
                _shared.close()
            _shared = Session()
        return _shared


def _release(jvm: Jvm, gateway: Any, watchdog: Watchdog, threads: concurrent.futures.Executor) -> None:
    """End a JVM and what belongs to it. Not a method: it must outlive its session, at exit too."""
    threads.shutdown(wait=False)
    watchdog.stop()
    disconnect(gateway)
    jvm.kill()


def _after_fork_in_child() -> None:
    """Leave the parent's JVMs alone: a forked child must neither talk to them nor keep them alive."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()
    for session in list(_sessions):
        session._abandon()


class Session:
    """A JVM that runs SystemDS. Several threads can use it; operations run one after the other.

    A script that fails leaves the session usable. A timeout, an interrupt, or the end of the JVM closes it.
    """

    def __init__(
        self, *, max_heap: str | None = None, timeout: float = 600.0, java: str | None = None, native_blas: str = "none"
    ) -> None:
        """Start the JVM; SystemDS itself warms up in the background.

        `max_heap` is Java's -Xmx (default: 60 % of the memory, at most 8g), `timeout` the seconds one
        operation may take, `java` the executable to run (default: of JAVA_HOME, else on PATH).
        `native_blas` "openblas" or "mkl" has matrices multiplied by that library, found by LD_LIBRARY_PATH; where it
        is not found, the first operation raises EngineError.
        Raises EngineUnavailable.
        """
        self._timeout = timeout
        self._native_blas = native_blas
        self._lock = threading.RLock()
        self._process_id = os.getpid()
        self._jvm = start_jvm(max_heap=max_heap, java=java, native_blas=native_blas)
        try:
            self._gateway = connect(self._jvm)
        except BaseException:
            self._jvm.kill()
            raise
        self._watchdog = Watchdog(self._jvm.process.kill)
        self._threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count(), "onnx-systemds-script")
        self._finalizer = weakref.finalize(self, _release, self._jvm, self._gateway, self._watchdog, self._threads)
        protocol: Any = importlib.import_module("py4j.protocol")
        self._java_error: type[Exception] = protocol.Py4JJavaError
        _sessions.add(self)
        self.processors = 1  # of the JVM, known when SystemDS has started
        self._connection: Any = None
        self._single_threaded: Any = None
        threading.Thread(target=self._warm_up, name="onnx-systemds-warm-up", daemon=True).start()

    @property
    def closed(self) -> bool:
        """Whether the session has ended: closed, timed out, without its JVM, or of another process."""
        return not self._finalizer.alive or not self._jvm.alive or os.getpid() != self._process_id

    def prepare(  # noqa: PLR0913 - a public entry point: all but the first three go by name
        self,
        script: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        args: Mapping[str, str] | None = None,
        sources: Mapping[str, str] | None = None,
        shapes: Mapping[str, tuple[int, int]] | None = None,
        native_blas: bool = True,
        single_threaded: bool = False,
        timeout: float | None = None,
    ) -> PreparedScript:
        """Compile a DML script that has `X = read("./X")` per input and `write(Y, "./Y")` per output.

        A string input is read by `read("./X", data_type="frame")`. `args` are the values of $-arguments,
        their names with or without the dollar; `sources` maps the file names of `source("...")` statements
        to texts. `shapes` gives rows and columns of outputs if known: small ones are then fetched faster.
        With `native_blas=False` this script runs without the native BLAS of the session. With `single_threaded`
        each operation uses one thread, for scripts that run in parallel (`run_together`).
        Raises ScriptCompileError, EngineTimeout, EngineClosed, EngineError.
        """
        _check_names("inputs", inputs)
        _check_names("outputs", outputs)
        with self._operation(timeout, "preparing a script") as connection:
            if single_threaded:
                connection = self._single_threaded
            mark = self._jvm.line_count()
            try:
                prepared = connection.prepareScript(
                    script,
                    self._java_map(sources or {}),
                    self._java_map({f"${name.lstrip('$')}": value for name, value in (args or {}).items()}),
                    self._channel.strings(inputs),
                    self._channel.strings(outputs),
                )
            except self._java_error as error:
                raise compile_error(failure_chain(error), script, sources) from None
            self._jvm.read_to_the_end(self._standard_error)
            dropped = token_error(self._jvm.lines_since(mark), script)
        if dropped is not None:
            raise dropped
        return PreparedScript(self, prepared, inputs, outputs, native_blas, shapes or {})

    def copies(self, matrices: Mapping[str, ResultMatrix]) -> dict[str, ResultMatrix]:
        """The matrices, sparse ones copied: the engine may make them dense in place while another script reads them."""
        with self._operation(None, "copying"):
            return {
                name: replace(matrix, block=self._channel.copied(matrix.block))
                if matrix.block.isInSparseFormat()
                else matrix
                for name, matrix in matrices.items()
            }

    def values(self, matrix: ResultMatrix) -> Matrix:
        """The elements of a matrix in the engine, as a 2-D float64 array."""
        with self._operation(None, "receiving a matrix"):
            return self._channel.receive_matrix(matrix.block)

    def run_together(
        self, scripts: Sequence[PreparedScript], inputs: Sequence[Mapping[str, Matrix]], timeout: float | None = None
    ) -> list[dict[str, Matrix]]:
        """Run different scripts of this session in parallel, each in its own thread.

        Returns the outputs in the order of the scripts. Raises what single calls would raise, the first of several
        errors. The first script decides whether the native BLAS is used.
        """
        arrays = [script._checked(given) for script, given in zip(scripts, inputs, strict=True)]
        if len(set(map(id, scripts))) != len(scripts):
            raise ValueError("a script cannot run beside itself")
        with self._operation(timeout, "running scripts"):
            self._use_native_blas(scripts[0]._native_blas)
            running = [self._threads.submit(script._run, given) for script, given in zip(scripts, arrays)]
            concurrent.futures.wait(running)
            return [script.result() for script in running]

    def close(self) -> None:
        """End the JVM, even during an operation; idempotent."""
        if os.getpid() == self._process_id:
            self._finalizer()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _operation(self, timeout: float | None, what: str) -> Iterator[Any]:
        """Hold the lock and the deadline around calls into the JVM, and turn their failures into ours.

        Yields the JMLC connection. The time starts when the session is free. EngineErrors pass; after
        anything else the state of the JVM is unknown, and the session is closed.
        """
        seconds = self._timeout if timeout is None else timeout
        with self._lock:
            self._check_open()
            self._watchdog.arm(seconds)
            try:
                if self._connection is None:
                    self._connect_systemds()
                yield self._connection
            except EngineError:
                if self._finalizer.alive and self._jvm.alive:
                    raise
                raise self._explain_end(seconds, what) from None
            except Exception as error:
                if self._jvm.wait_for_end(1.0) is None and self._finalizer.alive:
                    # The JVM lives, so it was not its end that broke the call.
                    self.close()
                    raise EngineError(f"{what} failed: {_describe(error)}") from None
                raise self._explain_end(seconds, what) from None
            except BaseException:  # an interrupt: the script would run on, and the pipes be out of step
                self.close()
                raise
            finally:
                self._watchdog.disarm()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise EngineClosed("the session is closed")
        if os.getpid() != self._process_id:
            raise EngineClosed("the session belongs to the parent of this process")
        if not self._jvm.alive:
            raise self._explain_end(0.0, "waiting for work")

    def _explain_end(self, seconds: float, what: str) -> EngineError:
        """Close the session whose JVM has ended, and return the error that says why."""
        closed_by_caller = not self._finalizer.alive
        code = self._jvm.wait_for_end(5.0)
        tail = self._jvm.tail()
        fired = self._watchdog.fired
        self.close()
        if fired:
            return EngineTimeout(f"{what} took longer than {seconds:g} seconds; the JVM was ended")
        if closed_by_caller:
            return EngineClosed(f"the session was closed while {what}")
        hint = "start the session with a larger max_heap" if "OutOfMemoryError" in tail else ""
        said = f"; it printed:\n{tail}" if tail else ""
        return EngineError(f"the JVM ended (exit code {code}) while {what}{said}", hint)

    def _connect_systemds(self) -> None:
        """Start SystemDS in the JVM and open the channel to it."""
        jvm = self._gateway.jvm
        self._channel = Channel(self._gateway, self._jvm.directory)
        self._hash_map = jvm.java.util.HashMap
        self._standard_error = jvm.java.lang.System.err
        connection = self._connect({})
        self._single_threaded = self._connect({"sysds.cp.parallel.ops": "false"})
        self.processors = jvm.java.lang.Runtime.getRuntime().availableProcessors()
        if self._native_blas != "none":
            self._native = load_native_blas(self._gateway, self._native_blas)
        self._uses_native_blas = self._native_blas != "none"
        self._connection = connection
        self._jvm.forget_settings()

    def _connect(self, settings: Mapping[str, str]) -> Any:
        """A connection of JMLC, which prepares scripts with these settings of the engine."""
        jvm = self._gateway.jvm
        configuration = jvm.org.apache.sysds.conf.DMLConfig()
        # Else spilled matrices would stay in /tmp/systemds when the JVM is killed.
        configuration.setTextValue("sysds.localtmpdir", str(self._jvm.directory / "cache"))
        configuration.setTextValue("sysds.native.blas", self._native_blas)
        for name, value in settings.items():
            configuration.setTextValue(name, value)
        return jvm.org.apache.sysds.api.jmlc.Connection(configuration)

    def _use_native_blas(self, wanted: bool) -> None:
        """Switch the native BLAS of the JVM, if there is one, on or off for the scripts that run from now on."""
        if self._native_blas != "none" and wanted != self._uses_native_blas:
            self._native.initialize("none", self._native_blas if wanted else "none")
            self._uses_native_blas = wanted

    def _warm_up(self) -> None:
        """Load the classes of SystemDS while the caller is busy with the script; failures show later."""
        with contextlib.suppress(EngineError):
            warm = self.prepare(_WARM_UP, ["X"], ["Y"])
            warm({"X": np.ones((1, 1))})

    def _java_map(self, values: Mapping[str, str]) -> Any:
        result = self._hash_map()
        for key, value in values.items():
            result.put(key, value)
        return result

    def _abandon(self) -> None:
        """Let go of the JVM in a forked child, without touching it."""
        self._lock = threading.RLock()  # a thread that held it is not there any more
        self._finalizer.detach()
        disconnect(self._gateway)
        if self._jvm.process.stdin is not None:
            self._jvm.process.stdin.close()


def _check_names(what: str, names: Sequence[str]) -> None:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be a sequence of names, not {names!r}")
    if len(set(names)) != len(names):
        raise ValueError(f"{what} name a variable twice: {', '.join(names)}")


def _describe(error: Exception) -> str:
    """Return a short text for an exception that must not leak (str of one by py4j may call the JVM)."""
    text = str(error.args[0]) if error.args else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
