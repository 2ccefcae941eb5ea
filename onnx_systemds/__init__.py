"""onnx-systemds: the bidirectional transpiler between ONNX and DML, the language of Apache SystemDS."""

from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.interface import InputSpec
from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.script import Script

__version__ = "0.1.0"

__all__ = ["InputSpec", "Script", "__version__", "export_script", "import_model"]
