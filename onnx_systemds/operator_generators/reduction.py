"""Reductions over axes."""

from __future__ import annotations
