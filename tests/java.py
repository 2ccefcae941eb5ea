"""SystemDS's own classes, for tests that ask the engine's parser and tables instead of running a script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onnx_systemds.engine.launcher import connect, disconnect, start_jvm


@contextmanager
def engine_java() -> Iterator[Any]:
    """The packages of a JVM that has SystemDS on its class path, as py4j shows them; it ends with the context."""
    jvm = start_jvm(max_heap="500m")
    try:
        gateway = connect(jvm)
        yield gateway.jvm
        disconnect(gateway)
    finally:
        jvm.kill()
