"""onnx-systemds: the bidirectional transpiler between ONNX and DML, the language of Apache SystemDS."""

from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.script import Script

__version__ = "0.1.0"

__all__ = ["Script", "__version__", "import_model"]
