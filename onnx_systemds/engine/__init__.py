"""The engine: SystemDS in one JVM, with prepared DML scripts that take and give numpy arrays."""

from __future__ import annotations

from onnx_systemds.engine.errors import (
    EngineClosed,
    EngineError,
    EngineTimeout,
    EngineUnavailable,
    ScriptCompileError,
    ScriptRuntimeError,
)
from onnx_systemds.engine.prepared_script import PreparedScript
from onnx_systemds.engine.session import Session, shared_session

__all__ = [
    "EngineClosed",
    "EngineError",
    "EngineTimeout",
    "EngineUnavailable",
    "PreparedScript",
    "ScriptCompileError",
    "ScriptRuntimeError",
    "Session",
    "shared_session",
]
