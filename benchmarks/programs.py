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


@dataclass(frozen=True)
class Times:
    """Milliseconds of a call in the middle and of the first one; seconds of the process without the calls."""

    call: float
    first: float
    others: float


def timed(
    program: Sequence[str], call: str, results: Sequence[str], folder: Path,
    *, warm_up: float, seconds: float, heap: str, native_blas: str = "none",
) -> Times:  # fmt: skip
    """Run the statements of a program in ``folder``, then the call again and again, then ``results``, which use it.

    warm_up, seconds: how long it is called before times count, and then. Raises RuntimeError with what the engine said.
    """
    lines = ["never = time() < 0", *program]
    for mark, duration in (("warm", warm_up), ("call", seconds)):
        limits = {"fewest": _FEWEST, "most": _MOST, "nanoseconds": f"{duration * 1e9:.0f}"}
        lines.append(_TIMED.format(call=call, mark=mark, **limits))
    (folder / "timed.dml").write_text("\n".join([*lines, *results]) + "\n", encoding="utf-8")
    (folder / "settings.xml").write_text(f"<root><sysds.native.blas>{native_blas}</sysds.native.blas></root>\n")
    command = [find_java(), "--add-modules=jdk.incubator.vector", f"-Xmx{heap}", "-cp", ":".join(find_class_path()),
               "org.apache.sysds.api.DMLScript", "-f", "timed.dml", "-exec", "singlenode",
               "-config", "settings.xml"]  # fmt: skip
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
    return Times(statistics.median(taken["call"]), taken["warm"][0], elapsed - inside)
