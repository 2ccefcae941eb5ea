"""The engine session: ``python -m benchmarks.session``. Prints start, prepare and call times, and transfer rates."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from onnx_systemds.engine import Session

SMALL = 'A = read("./A", rows=1, cols=10)\nB = read("./B", rows=1, cols=10)\nY = A * B + 1\nwrite(Y, "./Y")'
LARGE = 'X = read("./X")\nY = as.matrix(sum(X))\nwrite(Y, "./Y")'
MADE = 'n = read("./n", rows=1, cols=1)\nY = matrix(as.scalar(n), rows=2560, cols=2560)\nwrite(Y, "./Y")'


def median_seconds(action: Callable[[], object], repeats: int) -> float:
    """Median seconds of an action."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    """Print all figures."""
    start = time.perf_counter()
    with Session() as session:
        print(f"session start {time.perf_counter() - start:.2f} s")
        start = time.perf_counter()
        small = session.prepare(SMALL, ["A", "B"], ["Y"])
        print(f"first prepare {time.perf_counter() - start:.2f} s")
        print(f"prepare {1e3 * median_seconds(lambda: session.prepare(SMALL, ['A', 'B'], ['Y']), 30):.1f} ms")
        inputs = {"A": np.ones((1, 10)), "B": np.ones((1, 10))}
        median_seconds(lambda: small(inputs), 1000)  # warm-up
        print(f"call of a small prepared script {1e3 * median_seconds(lambda: small(inputs), 1000):.2f} ms")
        matrix = np.random.default_rng(0).random((2560, 2560))
        large, made = session.prepare(LARGE, ["X"], ["Y"]), session.prepare(MADE, ["n"], ["Y"])
        seconds_in = median_seconds(lambda: large({"X": matrix}), 15)
        seconds_out = median_seconds(lambda: made({"n": np.ones((1, 1))}), 15)
        megabytes = matrix.nbytes / 1e6
        print(f"{megabytes:.0f} MB in {megabytes / seconds_in:.0f} MB/s, out {megabytes / seconds_out:.0f} MB/s")


if __name__ == "__main__":
    main()
