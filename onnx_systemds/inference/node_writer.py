"""`NodeWriter`: writes the nodes that replace another node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnx_systemds.model import protos
from onnx_systemds.model.ir import Attribute, Node


class NodeWriter:
    """The nodes written so far. opset: the version of ONNX's operators."""

    def __init__(self, replaced: Node, prefix: str, opset: int) -> None:
        self.replaced = replaced
        self.prefix = prefix
        self.opset = opset
        self.nodes: list[Node] = []

    def fresh(self, hint: str) -> str:
        """An unused name for a value."""
        return f"{self.prefix}/{hint}{len(self.nodes)}"

    def emit(self, op_type: str, *inputs: str, to: str = "", domain: str = "", **attributes: Attribute) -> str:
        """Write a node with one output; return its name, ``to`` or a new one."""
        return self.emit_several(op_type, [to or self.fresh(op_type)], *inputs, domain=domain, **attributes)[0]

    def emit_several(
        self, op_type: str, outputs: Sequence[str], *inputs: str, domain: str = "", **attributes: Attribute
    ) -> tuple[str, ...]:
        """Write a node with several outputs ("": unused); return their names."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        made = self.replaced.inner(op_type, inputs, tuple(outputs), attributes, 1 if domain else self.opset)
        self.nodes.append(replace(made, domain=domain) if domain else made)
        return made.outputs

    def known(self, content: Any, dtype: str = "int64", to: str = "") -> str:
        """Write a constant; return its name, ``to`` or a new one."""
        return self.emit("Constant", to=to, value=np.array(content, protos.numpy_dtype(dtype)))

    def filled_like(self, name: str, dtype: str, value: float) -> str:
        """Write a tensor filled with a number, with the dims of another one; return its name."""
        fill = np.array([value], protos.numpy_dtype(dtype))
        return self.emit("ConstantOfShape", self.emit("Shape", name), value=fill)

    def unsqueeze(self, name: str, *axes: int) -> str:
        """Write an Unsqueeze; return its name."""
        return self.emit("Unsqueeze", name, self.known(axes))

    def cast(self, name: str, dtype: str, to: str = "") -> str:
        """Write a Cast; return its name."""
        return self.emit_several("Cast", [to or self.fresh("Cast")], name, to=protos.element_type(dtype))[0]
