"""Programs of the plain command line that time what they call, each in a JVM of its own.

Timed in DML by ``time()``, after a warm-up; the program's own start, reading and first call are told apart.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_systemds.engine.launcher import NATIVE_ENVIRONMENT, find_class_path, find_java

# What is between two cuts is a block of its own, so that the times are taken before and after the call.
_TIMED = """\
calls = 0
started = time()
while (calls < {fewest} | (time() - started < {nanoseconds} & calls < {most})) {{
  began = time()
  if (never) {{ print("never") }}
  {call}
  if (never) {{ print("never") }}
  print("{mark} " + (time() - began))
  calls = calls + 1
}}
"""
_FEWEST, _MOST = 3, 3000
_TIME = re.compile(r"^(\S+) (\d[\d.]*(?:E\d+)?)$", re.MULTILINE)
_HITTER = re.compile(r"^ *\d+  (\S+) +([\d,]+\.\d+) +\d+$", re.MULTILINE)
_FUNCTION = re.compile(r"^(\w+) = function\(", re.MULTILINE)
_WRAPPED = 30  # the engine breaks longer names; no instruction's is as long
_PRODUCTS = re.compile(r"ba\+\*|tsmm2?|mmchain|conv2d\w*|pmm")


@dataclass(frozen=True)
class Times:
    """Milliseconds of a call in the middle and of the first one; seconds of the process without the calls."""

    call: float
    first: float
    others: float
    products: float | None = None
    """The part of `call` that products of matrices and convolutions take; None: not asked for."""


def product_share(statistics_text: str, script: str, seconds: float) -> float:
    """Which part of ``seconds`` of calls of a script the engine says products of matrices and convolutions took.

    Where instructions ran side by side, which adds up to more than these seconds, it is their part of all instructions.
    """
    functions = {name[:_WRAPPED] for name in _FUNCTION.findall(script)}
    took = [(name, float(time.replace(",", ""))) for name, time in _HITTER.findall(statistics_text)]
    instructions = [(name, time) for name, time in took if name[:_WRAPPED] not in functions]
    products = sum(time for name, time in instructions if _PRODUCTS.fullmatch(name))
    return products / max(seconds, sum(time for _, time in instructions))


def timed(
    program: Sequence[str], call: str, results: Sequence[str], folder: Path,
    *, warm_up: float, seconds: float, heap: str, native_blas: str = "none",
    script: str | None = None,
) -> Times:  # fmt: skip
    """Run the statements of a program in ``folder``, then the call again and again, then ``results``, which use it.

    warm_up, seconds: how long it is called before times count, and then. script: the text of what is called, if the
    time of its products is wanted. Raises RuntimeError with what the engine said.
    """
    lines = ["never = time() < 0", *program]
    for mark, duration in (("warm", warm_up), ("call", seconds)):
        limits = {"fewest": _FEWEST, "most": _MOST, "nanoseconds": f"{duration * 1e9:.0f}"}
        lines.append(_TIMED.format(call=call, mark=mark, **limits))
    (folder / "timed.dml").write_text("\n".join([*lines, *results]) + "\n", encoding="utf-8")
    (folder / "settings.xml").write_text(f"<root><sysds.native.blas>{native_blas}</sysds.native.blas></root>\n")
    command = [find_java(), "--add-modules=jdk.incubator.vector", f"-Xmx{heap}", "-cp", ":".join(find_class_path()),
               "org.apache.sysds.api.DMLScript", "-f", "timed.dml", "-exec", "singlenode",
               "-config", "settings.xml", *(() if script is None else ("-stats", "1000"))]  # fmt: skip
    environment = dict(os.environ) | ({} if native_blas == "none" else NATIVE_ENVIRONMENT)
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, timeout=600, check=False
    )
    elapsed = time.perf_counter() - began
    output = done.stdout + done.stderr
    if done.returncode != 0 or "An Error Occurred" in output:
        raise RuntimeError(output.strip().splitlines()[-1] if output.strip() else f"exit code {done.returncode}")
    taken: dict[str, list[float]] = {"warm": [], "call": []}
    for mark, nanoseconds in _TIME.findall(done.stdout):
        taken[mark].append(float(nanoseconds) / 1e6)
    inside = sum(map(sum, taken.values())) / 1e3
    call_time = statistics.median(taken["call"])
    products = None if script is None else call_time * product_share(done.stdout, script, inside)
    return Times(call_time, taken["warm"][0], elapsed - inside, products)
