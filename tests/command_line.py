"""The plain SystemDS command line, as a user starts it: one JVM a script, on Java's default stack."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from onnx_systemds.engine.launcher import find_class_path, find_java

LONG_RUN = ["-XX:+UseSerialGC"]
SHORT_RUN = [*LONG_RUN, "-XX:TieredStopAtLevel=1"]
"""A run of a second or two ends before the second compiler and threads that collect pay; numbers and stacks stay."""


def run_dml(
    script: str,
    folder: Path,
    mode: str = "singlenode",
    heap: str = "2g",
    arguments: Mapping[str, str] = MappingProxyType({}),
    options: Sequence[str] = (),
    virtual_machine: Sequence[str] = SHORT_RUN,
) -> str:
    """Run the text of a script in ``folder`` and return its standard output. Raises EngineUnavailable, AssertionError.

    mode: hybrid (the engine's default) writes matrices in the blocks that their metadata names, singlenode does not.
    arguments: those that the script names $NAME. options: further ones of the command line.
    virtual_machine: those of Java.
    """
    (folder / "script.dml").write_text(script, encoding="utf-8")
    command = [find_java(), "--add-modules=jdk.incubator.vector", *virtual_machine, f"-Xmx{heap}", "-Dfile.encoding=UTF-8",
               "-cp", ":".join(find_class_path()), "org.apache.sysds.api.DMLScript",
               "-f", "script.dml", "-exec", mode, *options]  # fmt: skip
    if arguments:
        command += ["-nvargs", *(f"{name}={value}" for name, value in arguments.items())]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    output, errors = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0 and "An Error Occurred" not in output + errors, output + errors
    return output
