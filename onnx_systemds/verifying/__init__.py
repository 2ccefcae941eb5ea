"""Both sides of a conversion run on the same inputs, and their numbers compared."""

from onnx_systemds.verifying.comparing import Comparison
from onnx_systemds.verifying.report import NodeComparison, Report
from onnx_systemds.verifying.verify import verify_model

__all__ = ["Comparison", "NodeComparison", "Report", "verify_model"]
