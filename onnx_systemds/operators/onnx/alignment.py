"""Operands whose dims a generator sees differently: for broadcasts that ONNX writes by an axis."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.facts import Input
from onnx_systemds.operators.api.node_view import NodeView


class Aligned(NodeView):
    """The same node with some inputs seen in other dims of the same row-major elements."""

    def __init__(self, node: NodeView, aligned: Mapping[int, Dims]) -> None:
        self.__dict__.update(node.__dict__)
        self._aligned = aligned

    def dims(self, given: Input) -> Dims:
        """Dims of an input, those it is aligned to where there are such."""
        aligned = self._aligned.get(self.index(given))
        return super().dims(given) if aligned is None else aligned
