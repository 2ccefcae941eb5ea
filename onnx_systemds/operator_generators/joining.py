"""Concat, Split, Tile, Expand, Pad."""

from __future__ import annotations
