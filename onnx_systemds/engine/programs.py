"""Whole scripts as the command line of SystemDS runs them, in a JVM of their own."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from onnx_systemds.engine.errors import EngineError, JavaFailure, compile_error, runtime_error, token_error
from onnx_systemds.engine.jvm import Jvm
from onnx_systemds.engine.launcher import connect, disconnect, load_native_blas, start_jvm
from onnx_systemds.engine.prepared_script import failure_chain

SETTINGS = "systemds.xml"
"""The name of a file with settings of the engine."""
_FILE = re.compile(r"^(?:\w[\w ]* : )?ERROR: (\S[^\[\n]*) \[line [1-9]", re.MULTILINE)
"""How the compiler names the file of a fault: that of the program, or one that it sources."""
_COMPLAINT = "token recognition error"
_REFUSALS = ("ParseException", "LanguageException", "HopsException")


def run_program(
    program: Path, arguments: Mapping[str, Any], printed: Callable[[str], None] | None = None
) -> None:
    """Run the script in a file on one node. arguments: values of ``$name``, or ``$1``.

    printed: takes each line that it prints, from another thread; they are lost without it. Raises EngineError.
    """
    run_as_told(program, on_one_node(arguments), printed)


def run_as_told(
    program: Path, words: Sequence[str], printed: Callable[[str], None] | None = None, *,
    max_heap: str | None = None, native_blas: str = "none",
) -> None:
    """Run the script in a file as SystemDS's own command would run it with these words after the file's name.

    printed: as of `run_program`. max_heap: Java's -Xmx [default: 60 % of the memory, at most 8g]. native_blas:
    "openblas" or "mkl" has matrices multiplied by that library, found by LD_LIBRARY_PATH. Where the words name a
    ``-config`` of their own, its settings alone hold. Raises OSError, ValueError for a max_heap that is no size, and
    EngineError.
    """
    text = program.read_text(encoding="utf-8", errors="replace")
    jvm = start_jvm(max_heap=max_heap, native_blas=native_blas)
    complaints: list[str] = []  # of the lexer; it has read all before the program prints
    try:
        gateway = connect(jvm)
        try:
            with jvm.telling(partial(_heard, complaints, printed)):
                _run(jvm, gateway, program, text, words, native_blas)
            dropped = token_error(complaints, text)
            if dropped is not None:
                raise dropped
        finally:
            disconnect(gateway)
    finally:
        jvm.kill()


def scratch_settings(folder: Path, native_blas: str = "none") -> str:
    """Settings by which the engine keeps its own files in a folder, instead of below the working directory."""
    library = "" if native_blas == "none" else f"<sysds.native.blas>{native_blas}</sysds.native.blas>"
    return f"<root><sysds.scratch>{escape(str(folder))}</sysds.scratch>{library}</root>"


def execute(
    gateway: Any, program: Path, words: Sequence[str], folder: Path, native_blas: str = "none"
) -> bool:
    """Run a script as `run_as_told` does, in the JVM of a gateway; return whether it came to its end.

    folder: for what the engine writes meanwhile. Raises Py4JJavaError, or whatever py4j says of a JVM that has ended.
    """
    settings: Sequence[str] = ()
    if "-config" not in words:
        path = folder / SETTINGS
        path.write_text(scratch_settings(folder / "scratch", native_blas), encoding="utf-8")
        settings = ("-config", str(path))
    return run_main(gateway, ["-f", str(program), *settings, *words])


def on_one_node(arguments: Mapping[str, Any]) -> list[str]:
    """The words of a command that runs a script on one node. arguments: values of ``$name``, or ``$1``."""
    return ["-exec", "singlenode", *_argument_options(arguments)]


def run_main(gateway: Any, words: Sequence[str]) -> bool:
    """Run the engine's entry point, with words of a command line, in a gateway's JVM; whether it came to its end.

    Raises Py4JJavaError, or whatever py4j says of a JVM that has ended.
    """
    given = gateway.new_array(gateway.jvm.java.lang.String, len(words))
    for place, word in enumerate(words):
        given[place] = word
    return bool(gateway.jvm.org.apache.sysds.api.DMLScript.executeScript(given))


def _argument_options(arguments: Mapping[str, Any]) -> Sequence[str]:
    """Return what the command line takes for the values of ``$name``, or of ``$1``, ``$2`` and so on."""
    if not arguments:
        return []
    if all(name.isdigit() for name in arguments):
        last = max(map(int, arguments))
        return ["-args", *(str(arguments.get(str(number), 0)) for number in range(1, last + 1))]
    return ["-nvargs", *(f"{name}={value}" for name, value in arguments.items())]


def _run(jvm: Jvm, gateway: Any, program: Path, text: str, words: Sequence[str], native_blas: str) -> None:
    java_error: type[Exception] = importlib.import_module("py4j.protocol").Py4JJavaError
    if native_blas != "none":
        load_native_blas(gateway, native_blas)
    try:
        finished = execute(gateway, program, words, jvm.directory, native_blas)
    except java_error as error:
        failure = _failure(failure_chain(error), program, text)
        jvm.read_to_the_end(gateway.jvm.java.lang.System.out)
        raise failure from None
    except Exception as error:
        code = jvm.wait_for_end(5.0)
        raise EngineError(f"the JVM ended (exit code {code}); it printed:\n{jvm.tail()}") from error
    jvm.read_to_the_end(gateway.jvm.java.lang.System.out)
    if not finished:
        raise EngineError(f"the script ended early; it printed:\n{jvm.tail()}")


def _heard(complaints: list[str], printed: Callable[[str], None] | None, line: str) -> None:
    """Keep a line that may be a complaint of the lexer, whatever is printed after it, and hand it on."""
    if _COMPLAINT in line:
        complaints.append(line)
    if printed is not None:
        printed(line)


def _failure(chain: Sequence[JavaFailure], program: Path, text: str) -> EngineError:
    if not any(failure.kind.endswith(_REFUSALS) for failure in chain):
        return runtime_error(chain)
    places = [found for failure in chain if (found := _FILE.search(failure.message))]
    file = places[-1].group(1) if places else str(program)
    if file == str(program):
        return compile_error(chain, text)
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # a builtin's is in a jar
        text = ""
    error = compile_error(chain, text)
    error.file = file
    return error
