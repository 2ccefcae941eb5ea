"""onnx-systemds: the bidirectional transpiler between ONNX and DML, the language of Apache SystemDS."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnx_systemds.version import __version__

if TYPE_CHECKING:
    from onnx_systemds.exporting.export import export_script
    from onnx_systemds.exporting.interface import InputSpec
    from onnx_systemds.exporting.model_files import export_file
    from onnx_systemds.exporting.operation_nodes import export_nodes
    from onnx_systemds.exporting.trained_model import trained_model
    from onnx_systemds.importing.convert import import_model
    from onnx_systemds.importing.script import Script
    from onnx_systemds.runtime.explaining import explain_model
    from onnx_systemds.runtime.scoring import ScoringFunction
    from onnx_systemds.runtime.systemds_module import systemds_module
    from onnx_systemds.runtime.training import train_model

__all__ = ["InputSpec", "ScoringFunction", "Script", "__version__", "explain_model", "export_file", "export_nodes",
           "export_script", "import_model", "systemds_module", "train_model", "trained_model"]

_HOMES = {
    "InputSpec": "exporting.interface",
    "ScoringFunction": "runtime.scoring",
    "Script": "importing.script",
    "explain_model": "runtime.explaining",
    "export_file": "exporting.model_files",
    "export_nodes": "exporting.operation_nodes",
    "export_script": "exporting.export",
    "import_model": "importing.convert",
    "systemds_module": "runtime.systemds_module",
    "train_model": "runtime.training",
    "trained_model": "exporting.trained_model",
}


def __getattr__(name: str) -> Any:
    # Imported at first use: it takes a second, in which the command line must be able to end in words.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
