"""One function per operator, in topical modules by domain; importing this package fills the registries."""

from importlib import import_module
from pkgutil import iter_modules

from onnx_systemds.inference.registry import generator, operator_generators, shape_rule
from onnx_systemds.operators import contrib, ml, onnx

__all__ = ["generator", "operator_generators", "shape_rule"]

for _package in (onnx, ml, contrib):
    for _module in sorted(module.name for module in iter_modules(_package.__path__)):
        import_module(f"{_package.__name__}.{_module}")
