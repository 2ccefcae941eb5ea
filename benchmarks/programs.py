"""Programs of the plain command line that time what they call, each in a JVM of its own.

Timed in DML by ``time()``, after a warm-up; the program's own start, reading and first call are told apart.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine_statistics import EngineStatistics, engine_statistics
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
_LONGEST = 600.0
"""Seconds after which a program is ended."""
_TIME = re.compile(r"^(\S+) (\d[\d.]*(?:E\d+)?)$", re.MULTILINE)


@dataclass(frozen=True)
class Times:
    """Median milliseconds of a call, and those of the first one; seconds of the process without the calls.

    busy: processors that the process kept busy while calls were timed.
    """

    call: float
    first: float
    others: float
    busy: float
    counted: Counted | None = None


@dataclass(frozen=True)
class Counted:
    """What the engine counted in a program. calls, seconds: of all of its calls, warm-up too."""

    statistics: EngineStatistics
    calls: int
    seconds: float

    def share(self, seconds: float) -> float:
        """Which part of the time of all calls these seconds of instructions are."""
        return seconds / self.statistics.whole(self.seconds)


def timed(
    program: Sequence[str], call: str, results: Sequence[str], folder: Path,
    *, warm_up: float, seconds: float, heap: str, native_blas: str = "none",
    script: str | None = None, java_options: Sequence[str] = (),
) -> Times:
    """Run the statements of a program in ``folder``, then the call again and again, then ``results``, which use it.

    warm_up, seconds: how long it is called before times count, and then. script: the text of what is called, if what
    the engine counts is wanted. java_options: further ones of the JVM. Raises RuntimeError with what the engine said.
    """
    lines = ["never = time() < 0", *program]
    for mark, duration in (("warm", warm_up), ("call", seconds)):
        limits = {"fewest": _FEWEST, "most": _MOST, "nanoseconds": f"{duration * 1e9:.0f}"}
        lines.append(_TIMED.format(call=call, mark=mark, **limits))
    began = time.perf_counter()
    output, busy = run_program("\n".join([*lines, *results]) + "\n", folder, heap=heap, native_blas=native_blas,
                               counted=script is not None, java_options=java_options)
    elapsed = time.perf_counter() - began
    taken: dict[str, list[float]] = {"warm": [], "call": []}
    for mark, nanoseconds in _TIME.findall(output):
        taken[mark].append(float(nanoseconds) / 1e6)
    inside = sum(map(sum, taken.values())) / 1e3
    counted = None
    if script is not None:
        counted = Counted(engine_statistics(output, script), sum(map(len, taken.values())), inside)
    return Times(statistics.median(taken["call"]), taken["warm"][0], elapsed - inside, busy, counted)


def require_native_blas(library: str) -> None:
    """Raise RuntimeError where the engine does not find the library: it says nothing and multiplies without it."""
    product = "A = rand(rows=200, cols=200)\nprint(sum(A %*% A))\n"
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        output, _ = run_program(product, Path(folder), heap="1g", native_blas=library, counted=True)
    if not re.search(rf"Native {library} calls \(dense mult.*\):\s+[1-9]", output):
        raise RuntimeError(f"the engine finds no lib{'mkl_rt' if library == 'mkl' else library}.so by LD_LIBRARY_PATH")


def run_program(
    text: str, folder: Path, *, heap: str, native_blas: str = "none", counted: bool = False,
    java_options: Sequence[str] = (),
) -> tuple[str, float]:
    """What a program prints, and the processors it kept busy between the first and the last call that counts.

    Raises RuntimeError with what the engine said.
    """
    (folder / "timed.dml").write_text(text, encoding="utf-8")
    (folder / "settings.xml").write_text(f"<root><sysds.native.blas>{native_blas}</sysds.native.blas></root>\n")
    command = [find_java(), "--add-modules=jdk.incubator.vector", f"-Xmx{heap}", *java_options,
               "-cp", ":".join(find_class_path()), "org.apache.sysds.api.DMLScript", "-f", "timed.dml",
               "-exec", "singlenode", "-config", "settings.xml", *(("-stats", "1000") if counted else ())]
    environment = dict(os.environ) | ({} if native_blas == "none" else NATIVE_ENVIRONMENT)
    lines: list[str] = []
    marks: list[tuple[float, float]] = []  # time and processor time after a call
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment) as process:
        guard = threading.Timer(_LONGEST, process.kill)
        guard.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if line.startswith("call "):
                    marks = [*marks[:1], (time.perf_counter(), _processor_seconds(process.pid))]
        finally:
            guard.cancel()
    output = "".join(lines)
    if process.returncode != 0 or "An Error Occurred" in output:
        raise RuntimeError(output.strip().splitlines()[-1] if output.strip() else f"exit code {process.returncode}")
    if len(marks) < 2:
        return output, 0.0
    (start, before), (end, after) = marks
    return output, (after - before) / (end - start)


def _processor_seconds(process: int) -> float:
    """Processor time of a process so far, by all of its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
