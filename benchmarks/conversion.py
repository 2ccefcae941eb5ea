"""Conversion speed and memory: ``python -m benchmarks.conversion [--megabytes 1024] [--folder DIR]``.

Prints nodes per second on long graphs and the ratio of times, compile time of a long chain on the engine with Java's
default stack, and for a model with large weights the peak memory against the file size and the rate of writing
against a plain copy of the same bytes on the same disk.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.graphs import chain, write_embedded
from onnx_systemds import import_model
from onnx_systemds.engine.launcher import find_class_path, find_java

CHILD = """
import re, sys, time
from pathlib import Path
from onnx_systemds import import_model
start = time.perf_counter()
script = import_model(sys.argv[1])
converted = time.perf_counter()
script.save(sys.argv[2])
written = time.perf_counter()
# not what getrusage says: that is at least what the parent had
peak = re.search(r"VmHWM:\\s*([0-9]+) kB", Path("/proc/self/status").read_text())[1]
print(converted - start, written - converted, int(peak) * 1024)
"""


def conversion_seconds(nodes: int, repeats: int) -> float:
    """Median seconds of converting a chain from the bytes of its file to the script's text."""
    content = chain(nodes).SerializeToString()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        _ = import_model(content).text
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def chain_on_engine(nodes: int, folder: Path) -> float:
    """Seconds of a whole engine run of a chain with the plain command line and Java's default stack."""
    import_model(chain(nodes), weights="inline").save(folder / "chain.dml")
    call = f'source("chain.dml") as m\nY = m::gen_chain{nodes}(matrix(0.5, rows=2, cols=8))\nprint(sum(Y))\n'
    (folder / "call.dml").write_text(call)
    command = [find_java(), "--add-modules=jdk.incubator.vector", "-Xmx4g", "-cp", ":".join(find_class_path()),
               "org.apache.sysds.api.DMLScript", "-f", "call.dml"]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    if "An Error Occurred" in done.stdout + done.stderr:
        raise RuntimeError(done.stdout + done.stderr)
    return time.perf_counter() - start


def report_weights(megabytes: int, folder: Path) -> None:
    """Print memory and rate for one model with embedded weights."""
    model = folder / "embedded.onnx"
    write_embedded(model, megabytes)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(model), str(folder / "embedded.dml")],
        capture_output=True, text=True, check=True,
    )
    convert, write, peak = map(float, done.stdout.split())
    output = sum(path.stat().st_size for path in (folder / "embedded.weights").rglob("*") if path.is_file())
    start = time.perf_counter()
    shutil.copytree(folder / "embedded.weights", folder / "copy")
    copy = time.perf_counter() - start
    size = model.stat().st_size
    print(f"model of {size / 1e6:.0f} MB: converted in {convert:.2f} s, peak memory {peak / size:.2f} x file size")
    print(f"  weights written at {output / write / 1e6:.0f} MB/s, a plain copy of them {output / copy / 1e6:.0f} MB/s")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    conversion_seconds(200, 1)
    small, large = conversion_seconds(2_000, 3), conversion_seconds(20_000, 3)
    print(f"2,000 nodes at {2_000 / small:.0f} nodes/s, 20,000 nodes at {20_000 / large:.0f} nodes/s")
    print(f"time at 20,000 nodes / time at 2,000 nodes {large / small:.1f}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        empty, full = chain_on_engine(4, folder), chain_on_engine(5_000, folder)
        print(f"chain of 5,000 nodes on the engine, default stack: {full:.1f} s, without start-up {full - empty:.1f} s")
        report_weights(arguments.megabytes, folder)
    print(f"peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
