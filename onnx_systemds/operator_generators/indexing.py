"""Slice, Gather and Scatter in all forms, selections of rows."""

from __future__ import annotations
