"""The rows of ``benchmarks.operators``: operators, inputs, hand-written DML and numpy, by topic."""

from __future__ import annotations

from benchmarks.operator_cases.elementwise import elementwise
from benchmarks.operator_cases.movement import movement
from benchmarks.operator_cases.networks import networks
from benchmarks.operator_cases.reductions import reductions
from benchmarks.operator_cases.signals import signals
from benchmarks.operator_cases.windowed import windowed

CASES = [*elementwise(), *reductions(), *movement(), *windowed(), *networks(), *signals()]
