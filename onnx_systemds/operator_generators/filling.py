"""Tensors made from sizes and constants: Shape, Size, ConstantOfShape, Range, EyeLike, OneHot, Trilu."""

from __future__ import annotations
