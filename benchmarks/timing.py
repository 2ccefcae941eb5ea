"""Actions timed turn by turn, so that what else the machine does falls on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

WARM_UP, FEWEST = 8, 9  # rounds


def alternate(actions: Iterable[Callable[[], object]], seconds: float) -> list[list[float]]:
    """Milliseconds of actions that take turns, in alternating order, after a warm-up of half the time."""
    actions = list(actions)
    times: list[list[float]] = [[] for _ in actions]
    order = list(range(len(actions)))
    start = time.perf_counter()
    rounds = 0
    while rounds < WARM_UP or time.perf_counter() - start < seconds / 2:
        rounds += 1
        for action in actions:
            action()
    start = time.perf_counter()
    while len(times[0]) < FEWEST or time.perf_counter() - start < seconds:
        for index in order:
            begin = time.perf_counter()
            actions[index]()
            times[index].append(1e3 * (time.perf_counter() - begin))
        order.reverse()
    return times
