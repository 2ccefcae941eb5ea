"""What authors of builtins and patterns need, for plugins; importing this module registers ours before them."""

from onnx_systemds.exporting.builtins import load_builtins
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.builtins.operators import elementwise, mapped
from onnx_systemds.exporting.builtins.registry import Sizes, builtin, refuse
from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, INT, TEXT, Node, Tensor
from onnx_systemds.exporting.passes.plugin_joins import Joining, join, own_domain
from onnx_systemds.exporting.values import ListValue, Matrix, Scalar, Value
from onnx_systemds.inference.dims import Dim

__all__ = ["BOOL", "FLOAT", "INT", "TEXT", "Context", "Dim", "Joining", "ListValue", "Matrix", "Node", "Scalar",
           "Sizes", "Tensor", "Value", "builtin", "elementwise", "join", "mapped", "own_domain", "refuse",
           "template_function"]

load_builtins()
