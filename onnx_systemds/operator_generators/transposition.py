"""Transpose and other permutations of axes."""

from __future__ import annotations
