"""Convolutions in one, two and three dimensions."""

from __future__ import annotations
