"""The standard ONNX backend interface (`onnx.backend.base.Backend`) over the embedded engine.

``onnx_systemds.backend.prepare(model).run(inputs)``: ONNX's own test suite and the ONNX scoreboard drive it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from onnx_systemds.errors import ConstantNeeded, MultipleErrors, TranspileError
from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.script import Script
from onnx_systemds.model.given_inputs import given_values
from onnx_systemds.model.ir import MapType, Model, OptionalType, SequenceType, TensorType, Type
from onnx_systemds.model.load import load_model
from onnx_systemds.model.protos import dtype_of
from onnx_systemds.runtime.scoring import ScoringFunction


class SystemDSBackendRep(BackendRep):
    """A model that is prepared in the shared engine session.

    Where the content of a graph input decides what the script looks like (axes, a shape, a repeat count), one script
    is made for each content that is met. Where an input's declared type leaves its rank open, or says little of the
    items of a list, one is made for each type that is met.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        """Convert and compile where nothing is open. options: of `import_model`."""
        self.model = model
        self.options = options
        self.types = {given.name: given.type for given in model.graph.inputs}
        self.names = list(self.types)
        self.open = [name for name, type_ in self.types.items() if _is_open(type_)]
        self.required_constants: tuple[str, ...] = ()
        self.functions: dict[str, ScoringFunction] = {}
        try:
            if not self.open:
                self.functions[""] = self._prepared(import_model(model, **options))
        except TranspileError as error:
            self._defer(error)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Score tensors given in the order of the graph's inputs, or by name; a named tuple of the outputs.

        Raises TranspileError.
        """
        if isinstance(inputs, dict):
            given = dict(inputs)
        else:
            listed = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(listed) != len(self.names):
                raise TranspileError(f"the model has {len(self.names)} inputs, got {len(listed)}")
            given = dict(zip(self.names, listed))
        given = given_values(given, self.types)
        function = self._function_for(given)
        outputs = function({name: content for name, content in given.items() if name not in self.required_constants})
        order = [port.name for port in function.script.outputs]
        result: tuple[Any, ...] = namedtupledict("Outputs", order)(*[outputs[name] for name in order])
        return result

    def close(self) -> None:
        """Give the prepared scripts back to the engine."""
        for function in self.functions.values():
            function.close()
        self.functions.clear()

    def _function_for(self, given: dict[str, Any]) -> ScoringFunction:
        while True:
            types = {name: actual_type(self.types[name], given[name]) for name in self.open}
            contents = {name: known_content(self.types[name], given[name]) for name in self.required_constants}
            key = _key(types, contents)
            if key in self.functions:
                return self.functions[key]
            try:
                script = import_model(self.model, constants=contents, types=types, **self.options)
                self.functions[key] = self._prepared(script)
            except TranspileError as error:
                self._defer(error)

    def _prepared(self, script: Script) -> ScoringFunction:
        return ScoringFunction(script)

    def _defer(self, error: TranspileError) -> None:
        """Note the inputs whose content is needed; raises the error itself when that cannot help."""
        reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
        needed = [
            name
            for reason in reasons
            for name in ((reason.value_name,) if isinstance(reason, ConstantNeeded) else ()) + reason.sources
        ]
        needed += [name for name in self.open if not isinstance(self.types[name], TensorType)]
        new = [name for name in dict.fromkeys(needed) if name in self.names and name not in self.required_constants]
        if not new and (self.open or any(isinstance(reason, ConstantNeeded) for reason in reasons)):
            # what is missing is made inside a loop, or a loop over lists is written out: its inputs may help
            new = [name for name in self.names if name not in self.required_constants and _counts(self.types[name])]
        if not new:
            raise error
        self.required_constants += tuple(new)


def _is_open(type_: Type | None) -> bool:
    """Whether a declared type does not say enough: a list, or a tensor of any rank."""
    return not isinstance(type_, MapType) and (not isinstance(type_, TensorType) or type_.dims is None)


def _counts(type_: Type | None) -> bool:
    """Whether an input may be a trip count or a condition."""
    return isinstance(type_, TensorType) and type_.dtype in ("int64", "bool") and type_.dims in ((), (1,))


def actual_type(declared: Type | None, content: Any) -> Type:
    """The declared type with the dims of a content: those in which the items of a list agree, None for the others."""
    if isinstance(declared, OptionalType):
        return declared if content is None else OptionalType(actual_type(declared.element, content))
    if isinstance(declared, SequenceType):
        items = [actual_type(declared.element, item) for item in content]
        dims = [item.dims for item in items if isinstance(item, TensorType) and item.dims is not None]
        if not dims or len({len(item) for item in dims}) != 1:
            return declared
        common = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*dims))
        return SequenceType(TensorType(_dtype(declared.element, content[0]), common))
    return TensorType(_dtype(declared, content), tuple(np.shape(content)))


def _dtype(declared: Type | None, content: Any) -> str:
    return declared.dtype if isinstance(declared, TensorType) else dtype_of(np.asarray(content))


def known_content(declared: Type | None, given: Any) -> Any:
    """A known content: an array, or the items of a list."""
    if isinstance(declared, OptionalType):
        if given is None:
            return []
        return [np.asarray(given)] if isinstance(declared.element, TensorType) else list(given)
    return list(given) if isinstance(declared, SequenceType) else np.asarray(given)


def _key(types: dict[str, Type], contents: dict[str, Any]) -> str:
    """What distinguish two contents of the required constants."""
    parts = [repr(type_) for type_ in types.values()]
    for content in contents.values():
        for array in content if isinstance(content, list) else [content]:
            shown = repr(array.tolist()) if array.dtype == object else array.tobytes().hex()
            parts.append(f"{array.dtype}{array.shape}{shown}")
        parts.append(";")
    return "".join(parts)


class SystemDSBackend(Backend):
    """Converts models to DML and runs them on SystemDS; one JVM per process."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be converted."""
        try:
            import_model(model)
        except TranspileError:
            return False
        return bool(cls.supports_device(device))

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> SystemDSBackendRep:
        """Convert and compile a model. Raises TranspileError or EngineError."""
        return SystemDSBackendRep(load_model(model))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Convert, compile and run a model once."""
        prepared = cls.prepare(model, device, **kwargs)
        try:
            return prepared.run(inputs)
        finally:
            prepared.close()

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run a single node on numpy inputs, at the newest opset unless ``opset_version`` says another."""
        arrays = [np.asarray(array) for array in inputs]
        given = [name for name in node.input if name]
        infos = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(given, arrays)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", infos, outputs)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)])
        return cls.run_model(onnx.shape_inference.infer_shapes(model), arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The engine runs on the CPU."""
        return device.split(":")[0] == "CPU"


prepare = SystemDSBackend.prepare
run_model = SystemDSBackend.run_model
run_node = SystemDSBackend.run_node
supports_device = SystemDSBackend.supports_device
is_compatible = SystemDSBackend.is_compatible
