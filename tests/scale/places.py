"""Where programs run: one JVM of a place scores many models, so that its start is paid once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from onnx_systemds.engine.launcher import connect, disconnect, find_class_path, start_jvm
from onnx_systemds.engine.programs import run_main
from onnx_systemds.engine.spark_submit import JAVA_OPTIONS, find_spark_submit
from tests.running_engine import printed_by

ALONE = ("one machine", "federated")
MASTERS = {"hybrid": "local[2]", "local[2]": "local[2]", "local-cluster": "local-cluster[2,1,1024]"}


def spark_home() -> Path:
    """Of SPARK_HOME, or the installed pyspark. Raises EngineUnavailable."""
    return find_spark_submit().parent.parent


def systemds_jar() -> str:
    (jar,) = (part for part in find_class_path() if part.endswith("SystemDS.jar"))
    return jar


@dataclass(frozen=True)
class Place:
    """Where programs are scored. name: of `ALONE` or `MASTERS`. folder: where the JVM works, and the files are."""

    name: str
    folder: Path
    gateway: Any

    def run(self, program: str, arguments: dict[str, str], *options: str) -> str:
        """Run the program of a file as the command line of SystemDS does; what it prints. Raises Py4JJavaError."""
        printed = printed_by(self.gateway)
        mode = [] if "-exec" in options else ["-exec", "singlenode" if self.name in ALONE else "hybrid"]
        config = [] if self.name in ALONE else ["-config", "scratch.xml"]
        given = [f"{name}={value}" for name, value in arguments.items()]
        words = ["-f", program, *mode, *config, *options, *(["-nvargs", *given] if given else [])]
        run_main(self.gateway, words)
        return printed()


@contextmanager
def opened_place(name: str, folder: Path) -> Iterator[Place]:
    """A place, until its JVM is ended."""
    with _alone(name, folder) if name in ALONE else _on_spark(name, folder) as place:
        yield place


@contextmanager
def _alone(name: str, folder: Path) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        jvm = start_jvm(max_heap="2g")
    try:
        gateway = connect(jvm)
        yield Place(name, folder, gateway)
        disconnect(gateway)
    finally:
        jvm.kill()


@contextmanager
def _on_spark(name: str, folder: Path) -> Iterator[Place]:
    home = spark_home()
    from pyspark.java_gateway import launch_gateway

    # tasks in processes of their own read what the driver writes: its scratch folder is no path in theirs
    (folder / "scratch.xml").write_text(f"<root><sysds.scratch>{folder / 'scratch'}</sysds.scratch></root>")
    jar = systemds_jar()
    submitted = (f'--master {MASTERS[name]} --driver-memory 2g --jars {jar} --driver-class-path {jar} '
                 f'--driver-java-options "{JAVA_OPTIONS}" --conf "spark.executor.extraJavaOptions={JAVA_OPTIONS}" '
                 f"--conf spark.executor.memory=1g --conf spark.ui.enabled=false pyspark-shell")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        patch.setenv("PYSPARK_SUBMIT_ARGS", submitted)
        patch.chdir(folder)
        gateway = launch_gateway(popen_kwargs={"env": dict(os.environ), "cwd": folder})
    try:
        yield Place(name, folder, gateway)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
