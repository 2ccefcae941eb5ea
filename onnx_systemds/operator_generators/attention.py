"""Attention, RotaryEmbedding, Einsum."""

from __future__ import annotations
