"""Resize, Upsample, GridSample, AffineGrid and other resampling."""

from __future__ import annotations
