"""What commands print with ``--json``: JSON as the standard has it, whatever the numbers are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from onnx_systemds.inference.dims import Expression


def json_text(value: object) -> str:
    """Dataclasses, sizes, mappings, sequences, numbers and texts as JSON; NaN and infinities are texts."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Expression):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int) else str(value)
