"""Checks 64-bit integers of inputs and outputs: a call fails for integers that FP64 does not hold.

See `inference.wide_integers` for what a port allows. Arrays are looked at by two passes, and only where the model has
such integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_systemds.errors import TranspileError, quoted
from onnx_systemds.importing.interface import Port
from onnx_systemds.inference.integer_spans import LIMIT
from onnx_systemds.inference.wide_integers import TYPES, is_held
from onnx_systemds.model.protos import numpy_dtype

Tensor = np.ndarray[Any, np.dtype[Any]]


class InexactInteger(TranspileError):
    """A 64-bit integer of an input or output that FP64 does not hold, or that may have been rounded."""


def check_given(port: Port, tensor: Tensor) -> None:
    """Raise InexactInteger if an input holds integers that are too large for the operators of the model."""
    if tensor.dtype.kind not in "iu" or tensor.dtype.itemsize < 8 or tensor.size == 0:
        return
    if max(-int(tensor.min()), int(tensor.max())) <= (LIMIT if port.largest is None else port.largest):
        return
    if port.largest is None:
        if is_held(tensor):
            return
        wrong = np.array([not is_held(element) for element in tensor.reshape(-1, 1)])
        why = "which FP64 does not hold"
    else:
        wrong = (tensor > port.largest) | (tensor < -port.largest)
        why = "and the model computes with it: in FP64 integers are exact up to 2^53"
    place = _place(wrong.reshape(tensor.shape))
    raise InexactInteger(f"input {quoted(port.name)} holds {tensor[place]} at {list(place)}, {why}")


def integers_of(port: Port, numbers: Tensor) -> Tensor:
    """The numbers of a 64-bit output as integers. Raises InexactInteger if they may be rounded."""
    low, high = TYPES[port.dtype]
    limit = LIMIT if port.largest is None else port.largest
    dtype = numpy_dtype(port.dtype)
    with np.errstate(invalid="ignore"):
        if numbers.size == 0 or (numbers.min() >= max(-limit, low) and numbers.max() <= limit):
            return numbers.astype(dtype)
        if port.largest is None:
            wrong = (numbers < low) | (numbers > high + 1)
        else:
            wrong = (numbers < max(-limit, low)) | (numbers > limit)
        if wrong.any():
            place = _place(wrong)
            number = f"{numbers[place]:.0f} at {list(place)}, which is not exact as {port.dtype}"
            raise InexactInteger(
                f"output {quoted(port.name)} gets {number}: DML computes in FP64, where integers are exact up to 2^53"
            )
        integers = numbers.astype(dtype)
    integers[numbers == float(high)] = high  # see `wide_integers`
    return integers


def _place(wrong: Tensor) -> tuple[int, ...]:
    return tuple(int(index) for index in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
