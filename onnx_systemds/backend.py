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
from onnx_systemds.importing.ir import Model
from onnx_systemds.importing.model import load_model
from onnx_systemds.scoring import ScoringFunction


class SystemDSBackendRep(BackendRep):
    """A model that is prepared in the shared engine session.

    Where the content of a graph input decides what the script looks like (axes, a shape, a repeat count), one script
    is made for each content that is met.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.names = [given.name for given in model.graph.inputs]
        self.deciding: tuple[str, ...] = ()
        self.functions: dict[tuple[bytes, ...], ScoringFunction] = {}
        try:
            self.functions[()] = ScoringFunction(import_model(model))
        except TranspileError as error:
            self._defer(error)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Score tensors given in the order of the graph's inputs, or by name; a named tuple of the outputs."""
        if isinstance(inputs, dict):
            given = dict(inputs)
        else:
            listed = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(listed) != len(self.names):
                raise TranspileError(f"the model has {len(self.names)} inputs, got {len(listed)}")
            given = dict(zip(self.names, listed))
        function = self._function_for(given)
        outputs = function({name: content for name, content in given.items() if name not in self.deciding})
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
            contents = {name: np.asarray(given[name]) for name in self.deciding}
            key = tuple(content.tobytes() for content in contents.values())
            if key in self.functions:
                return self.functions[key]
            try:
                self.functions[key] = ScoringFunction(import_model(self.model, constants=contents))
            except TranspileError as error:
                self._defer(error)

    def _defer(self, error: TranspileError) -> None:
        """Note the inputs whose content is needed; raises the error itself when it says anything else."""
        reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
        needed = [
            name
            for reason in reasons
            for name in ((reason.value_name,) if isinstance(reason, ConstantNeeded) else ()) + reason.sources
        ]
        new = [name for name in dict.fromkeys(needed) if name in self.names and name not in self.deciding]
        if not new:
            raise error
        self.deciding += tuple(new)


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
    ) -> tuple[Any, ...]:  # fmt: skip
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
