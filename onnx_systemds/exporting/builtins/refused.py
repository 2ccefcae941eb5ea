"""Builtins that cannot be part of a model: on frames, for data from outside, or for control of the engine."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import Context, Value, builtin, refuse


@builtin("compress", "decompress")
def compressed(ctx: Context, target: Value, bins: Value | None = None) -> Value:
    """The matrix itself; compression concerns the engine only."""
    if bins is not None:
        raise UnsupportedCase("compress into bins, which it learns from the data of each run",
                              hint="encode before, and bind its meta frame")
    return target


_ENCODE = "encode the table before, and give the model its numbers"
refuse("transformcolmap", "transformmeta", "tokenize", "dropInvalidType", "dropInvalidLength", "valueSwap",
       "freplicate", "getCategoricalMask", "colnames", reason="it works on a frame", hint=_ENCODE)
refuse("typeof", reason="it gives a string")
refuse("quantize_compress", "lineage", "local", "autoDiff", reason="it controls the engine")
refuse("readMM", "read.csv", "sql", "federated", reason="it reads data from outside", hint="read(...) becomes an input")
refuse("tensor", reason="DML keeps it apart from matrices", hint="use a matrix of rows and columns")
refuse("rowClassMeet", "rcm", reason="ONNX has no such operator", hint="use table and order")
refuse("interQuantile", "range", reason="the engine does not run it either")
