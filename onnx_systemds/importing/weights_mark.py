"""A number that distinguishes the weights of a script from others with the same names and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from onnx_systemds.engine.matrix_files import Weight

_CELLS = 4096  # of each weight that are looked at: training changes all of them
_HEX_DIGITS = 6  # 24 bits, which FP32 holds, as a model that this becomes again may


def weights_mark(weights: Sequence[Weight]) -> int:
    """A number made of names, types, sizes and cells of the weights."""
    digest = sha256()
    for weight in weights:
        array = weight.array
        cells = array.flat[:: max(1, array.size // _CELLS)]
        digest.update(f"{weight.name} {array.dtype} {array.shape}\n".encode())
        digest.update(repr(cells.tolist()).encode() if weight.is_text else cells.tobytes())
        if weight.release is not None:  # cells all over a mapped file have made it resident
            weight.release()
    return int(digest.hexdigest()[:_HEX_DIGITS], 16)


def with_mark(weights: Sequence[Weight]) -> list[Weight]:
    """The weights as they are written: with their mark as the last one."""
    name, names = "mark", {weight.name for weight in weights}
    while name in names:
        name += "_"
    return [*weights, Weight(name, np.array([[float(weights_mark(weights))]]))]
