"""Times that hold on a busy machine: CPU time, and always in comparison with other work of the same process."""

from __future__ import annotations

import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object], runs: int = 2) -> float:
    """The CPU time of the fastest of some runs."""
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def check_linear(work: Callable[[int], object], size: int) -> None:
    """What takes t at a size takes about 10 t at its tenfold: 40 t is less than half of what quadratic work takes."""
    small, large = cpu_seconds(lambda: work(size), runs=5), cpu_seconds(lambda: work(10 * size))
    assert large < 40 * small, f"{small} s at {size}, {large} s at {10 * size}"
