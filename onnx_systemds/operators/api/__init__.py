"""What an author of an operator needs: the views of a node that rules and generators see, fragments and forms."""

from onnx_systemds.inference.backward import Backward, Run
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.facts import NodeFacts, unknown_size
from onnx_systemds.inference.values import Value
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.layout import SCALAR, View, bind, split_view
from onnx_systemds.operators.api.node_view import NodeView

__all__ = ["SCALAR", "Backward", "Expansion", "Fragment", "NodeFacts", "NodeView", "Run", "Value", "View", "bind",
           "split_view", "unknown_size"]
