"""Whole scripts as the command line of SystemDS runs them, in a JVM of their own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from onnx_systemds.engine.errors import EngineError, JavaFailure, compile_error, runtime_error, token_error
from onnx_systemds.engine.jvm import Jvm
from onnx_systemds.engine.launcher import connect, disconnect, start_jvm
from onnx_systemds.engine.prepared_script import failure_chain

SETTINGS = "systemds.xml"
"""The name of a file with settings of the engine."""
_REFUSALS = ("ParseException", "LanguageException", "HopsException")


def run_program(
    program: Path, arguments: Mapping[str, Any], printed: Callable[[str], None] | None = None
) -> None:
    """Run the script in a file on one node. arguments: values of ``$name``, or ``$1``.

    printed: takes each line that it prints, from another thread; they are lost without it. Raises EngineError.
    """
    jvm = start_jvm()
    try:
        gateway = connect(jvm)
        try:
            with jvm.telling(printed):
                _run(jvm, gateway, program, arguments)
        finally:
            disconnect(gateway)
    finally:
        jvm.kill()


def scratch_settings(folder: Path) -> str:
    """Settings by which the engine keeps its own files in a folder, instead of below the working directory."""
    return f"<root><sysds.scratch>{escape(str(folder))}</sysds.scratch></root>"


def execute(gateway: Any, program: Path, arguments: Mapping[str, Any], folder: Path) -> bool:
    """Run a script by the engine's entry point, in the JVM of a gateway; return whether it came to its end.

    folder: for what the engine writes meanwhile. Raises Py4JJavaError, or whatever py4j says of a JVM that has ended.
    """
    settings = folder / SETTINGS
    settings.write_text(scratch_settings(folder / "scratch"), encoding="utf-8")
    words = ["-f", str(program), "-exec", "singlenode", "-config", str(settings), *_argument_options(arguments)]
    return run_main(gateway, words)


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


def _run(jvm: Jvm, gateway: Any, program: Path, arguments: Mapping[str, Any]) -> None:
    java_error: type[Exception] = importlib.import_module("py4j.protocol").Py4JJavaError
    text = program.read_text(encoding="utf-8")
    try:
        finished = execute(gateway, program, arguments, jvm.directory)
    except java_error as error:
        failure = _failure(failure_chain(error), text)
        jvm.read_to_the_end(gateway.jvm.java.lang.System.out)
        raise failure from None
    except Exception as error:
        code = jvm.wait_for_end(5.0)
        raise EngineError(f"the JVM ended (exit code {code}); it printed:\n{jvm.tail()}") from error
    jvm.read_to_the_end(gateway.jvm.java.lang.System.out)
    dropped = token_error(jvm.lines_since(0), text)
    if dropped is not None:
        raise dropped
    if not finished:
        raise EngineError(f"the script ended early; it printed:\n{jvm.tail()}")


def _failure(chain: Sequence[JavaFailure], text: str) -> EngineError:
    if any(failure.kind.endswith(_REFUSALS) for failure in chain):
        return compile_error(chain, text)
    return runtime_error(chain)
