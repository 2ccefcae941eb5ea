"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # how long an example takes depends on what else is running
settings.load_profile("any machine")
