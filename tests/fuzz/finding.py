"""What the fuzzer reports: a case whose result is wrong, whose error is not ours, or which takes too long."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One case that failed: ``text`` is the case itself (a model as ONNX text, a script), ``detail`` what came of it.

    ``kind`` is ``wrong`` (numbers, shapes or types that the judges agree against), ``error`` (an exception that is no
    placed error of this project, or a refusal of what it should do) or ``slow`` (over the bounds of time or memory).
    ``seed`` is the one that makes the case again.
    """

    kind: Literal["wrong", "error", "slow"]
    seed: int
    text: str
    detail: str
