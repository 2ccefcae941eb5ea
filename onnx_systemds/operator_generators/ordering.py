"""TopK, Unique, cumulative operators, ArgMax and ArgMin."""

from __future__ import annotations
