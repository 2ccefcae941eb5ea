"""One function per operator, in topical modules by domain; importing this package fills the registries.

What authors of operators need has its name here: decorators, what a generator sees and gives, forms of matrices.
"""

from importlib import import_module
from pkgutil import iter_modules

from onnx_systemds.dml.templates import add_templates
from onnx_systemds.inference.registry import (
    batch_rule,
    expander,
    fold,
    generator,
    gradient,
    integer_rule,
    list_rule,
    nn_layer,
    operator_generators,
    rewrite,
    shape_rule,
    size_rule,
    takes_text,
)
from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import Node
from onnx_systemds.operators import contrib, ml, onnx
from onnx_systemds.operators.api import (
    SCALAR,
    Backward,
    Expansion,
    Fragment,
    NodeFacts,
    NodeView,
    Value,
    View,
    unknown_size,
)

__all__ = ["SCALAR", "Backward", "Expansion", "Fragment", "GraphEditor", "Node", "NodeFacts", "NodeView", "Value",
           "View", "add_templates", "batch_rule", "expander", "fold", "generator", "gradient", "integer_rule",
           "list_rule", "nn_layer", "operator_generators", "rewrite", "shape_rule", "size_rule", "takes_text",
           "unknown_size"]

for _package in (onnx, ml, contrib):
    for _module in sorted(module.name for module in iter_modules(_package.__path__)):
        import_module(f"{_package.__name__}.{_module}")
