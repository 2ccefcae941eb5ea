"""Cast and CastLike: rounding, saturation, NaN rules of every element type."""

from __future__ import annotations
