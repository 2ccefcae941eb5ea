"""The scripts of an export, and the functions and namespaces that their calls refer to."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx_systemds.dml import syntax as tree
from onnx_systemds.exporting.sources import SourceFiles


@dataclass(eq=False)
class Module:
    """A script and its functions."""

    script: tree.Script
    functions: dict[str, tree.Function]


@dataclass(eq=False)
class Modules:
    """All modules of one export, each script once."""

    sources: SourceFiles
    texts: dict[str, str] = field(default_factory=dict)
    _modules: dict[int, Module] = field(default_factory=dict)
    _namespaces: dict[tuple[int, str], tree.Script | None] = field(default_factory=dict)

    def of(self, script: tree.Script) -> Module:
        """Return the module of a script."""
        if id(script) not in self._modules:
            self.texts[script.file] = script.text
            self._modules[id(script)] = Module(script, script.functions)
        return self._modules[id(script)]

    def find(self, call: tree.Call, module: Module) -> tuple[tree.Function, Module] | None:
        """Return the function of a script that a call in `module` means, and its module; None for none."""
        if call.namespace:
            imported = self._imported(call.namespace, module)
            if imported is None:
                return None
            module = imported
        function = module.functions.get(call.local_name)
        return None if function is None else (function, module)

    def functions(self, namespace: str, module: Module) -> list[str]:
        """Return the names of the functions of a namespace of `module`."""
        imported = self._imported(namespace, module)
        return [] if imported is None else list(imported.functions)

    def _imported(self, namespace: str, module: Module) -> Module | None:
        key = id(module.script), namespace
        if key not in self._namespaces:
            self._namespaces[key] = self.sources.namespace(module.script, namespace)
        script = self._namespaces[key]
        return None if script is None else self.of(script)

    def builtin(self, name: str) -> tuple[tree.Function, Module] | None:
        """Return the function of SystemDS that defines a builtin in DML, None for none."""
        script = self.sources.builtin(name)
        if script is None:
            return None
        module = self.of(script)
        for key in (f"m_{name}", f"s_{name}", f"f_{name}", name):
            if key in module.functions:
                return module.functions[key], module
        return None
