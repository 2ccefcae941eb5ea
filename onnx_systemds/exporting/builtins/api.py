"""What the author of a builtin needs: how it is registered, what it is given, and what it makes."""

from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import builtin, refuse
from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, INT, Tensor
from onnx_systemds.exporting.values import Matrix, Scalar, Value

__all__ = ["BOOL", "FLOAT", "INT", "Context", "Matrix", "Scalar", "Tensor", "Value", "builtin", "refuse"]
