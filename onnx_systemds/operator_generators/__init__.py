"""One function per operator, in topical modules; importing this package fills the registries."""

from importlib import import_module
from pkgutil import iter_modules

from onnx_systemds.operator_generators.registry import generator, operator_generators, shape_rule

__all__ = ["generator", "operator_generators", "shape_rule"]

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
