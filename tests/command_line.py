"""The plain SystemDS command line, as a user starts it, on Java's default stack."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from onnx_systemds.engine.launcher import find_class_path, find_java
from tests.quick_java import archive_of_classes
from tests.running_engine import running_engine

MAIN_CLASS = "org.apache.sysds.api.DMLScript"

FEW_OPTIMISED = ["-XX:TieredStopAtLevel=4", "-XX:+UnlockDiagnosticVMOptions", "-XX:CompileCommand=quiet",
                 "-XX:+DisplayVMOutputToStderr",
                 f"-XX:CompilerDirectivesFile={Path(__file__).with_name('compiled_twice.json')}"]
"""Java's second compiler takes kernels of matrices only, instead of all that has been called 5000 times. Numbers stay."""

LONG_RUN = ["-XX:+UseSerialGC", *FEW_OPTIMISED]
SHORT_RUN = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=5"]
"""A run of seconds ends before much compiling and threads that collect pay; numbers and stacks stay."""

_HEAP = "2g"


def run_dml(
    script: str,
    folder: Path,
    mode: str = "singlenode",
    heap: str = _HEAP,
    arguments: Mapping[str, str] = MappingProxyType({}),
    options: Sequence[str] = (),
    virtual_machine: Sequence[str] = SHORT_RUN,
) -> str:
    """Run the text of a script in ``folder`` and return its standard output. Raises EngineUnavailable, AssertionError.

    Scripts with a heap or options of their own have a JVM of their own, others run one after the other in one.

    mode: hybrid (the engine's default) writes matrices in the blocks that their metadata names, singlenode does not.
    arguments: those that the script names $NAME. options: further ones of the command line.
    virtual_machine: those of Java.
    """
    (folder / "script.dml").write_text(script, encoding="utf-8")
    command = engine_command([*virtual_machine, f"-Xmx{heap}"])
    engine_options = ["-f", "script.dml", "-exec", mode, *options]
    if arguments:
        engine_options += ["-nvargs", *(f"{name}={value}" for name, value in arguments.items())]
    if not options and heap == _HEAP:
        succeeded, output = running_engine(command).run(folder, engine_options)
        assert succeeded, output
        return output
    command += [MAIN_CLASS, *engine_options]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    output, errors = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0 and "An Error Occurred" not in output + errors, output + errors
    return output


def engine_command(virtual_machine: Sequence[str]) -> list[str]:
    """The command line of Java up to the main class, with classes that are loaded already."""
    java, class_path = find_java(), ":".join(find_class_path())
    return [*_command(java, class_path), f"-XX:SharedArchiveFile={_loaded_classes(java, class_path)}", *virtual_machine]


def _command(java: str, class_path: str) -> list[str]:
    return [java, "--add-modules=jdk.incubator.vector", "-Dfile.encoding=UTF-8", "-cp", class_path]


_WARMING_UP = """
f = function(matrix[double] A, list[unknown] L) return (double s, matrix[double] B) {
  s = 0
  B = t(A) %*% A + as.matrix(L["b"])
  for (i in 1:nrow(B)) { if (sum(B[i,]) > 1) { s = s + sum(abs(B[i,])) } }
  parfor (i in 1:nrow(B)) { B[i,] = exp(B[i,]) / rowSums(B[i,]) }
}
write(rand(rows=4, cols=3, seed=1), "./in", format="binary")
X = read("in")
if (time() < 0) { X = matrix(0, rows=nrow(X) + 1, cols=3) }
while (max(X) < 10) { X = cbind(X[,2:3], X[,1]) * 2 }
[s, B] = f(X, list(b=matrix("1 2 3", rows=1, cols=3)))
print(toString(B) + as.integer(s) + ifelse(s > 0, " a", " b"))
write(order(target=rbind(B, X), by=1), "./out", format="binary")
write(as.frame(B), "./frame", format="csv")
"""


@cache
def _loaded_classes(java: str, class_path: str) -> Path:
    """An archive of the engine's classes, which Java writes at the end of a run: a start takes two thirds of the time."""

    def make(archive: Path) -> None:
        folder = archive.parent
        (folder / "script.dml").write_text(_WARMING_UP, encoding="utf-8")
        command = [*_command(java, class_path), *SHORT_RUN, f"-XX:ArchiveClassesAtExit={archive}",
                   MAIN_CLASS, "-f", "script.dml", "-exec", "singlenode"]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    return archive_of_classes(make)
