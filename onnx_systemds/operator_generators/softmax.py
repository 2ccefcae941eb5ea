"""The softmax family, in its old and its new meaning."""

from __future__ import annotations
