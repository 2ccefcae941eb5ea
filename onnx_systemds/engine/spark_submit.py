"""Programs on Spark: the ``spark-submit`` of an installed pyspark or of SPARK_HOME runs SystemDS."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx_systemds.engine.errors import EngineError, EngineUnavailable
from onnx_systemds.engine.launcher import VECTOR_MODULE, default_max_heap, find_class_path, find_home
from onnx_systemds.engine.programs import SETTINGS, scratch_settings
from onnx_systemds.errors import escaped

_INSTALL_SPARK = 'run `pip install "onnx-systemds[spark]"`, or set SPARK_HOME to a Spark 3.5'
_OPENED_PACKAGES = ("java.lang", "java.lang.ref", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util",
                    "java.util.concurrent", "sun.nio.ch")
JAVA_OPTIONS = " ".join(
    [f"--add-modules={VECTOR_MODULE}", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED_PACKAGES)]
)
"""What SystemDS needs of Java in the driver and in executors."""
_JAVA_SETTINGS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
_DRIVER_MEMORY = "spark.driver.memory"
_LAST_LINE = re.compile(r"^scored (\d+) rows in ", re.MULTILINE)
_TELLING = re.compile(r"(?i)\berror|exception|caused by|not found")
_MOST_LINES = 12


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs, and its further settings."""

    master: str = "local[*]"
    settings: Mapping[str, str] = field(default_factory=dict)


def find_spark_submit() -> Path:
    """Return the ``spark-submit`` of SPARK_HOME, else of the installed pyspark. Raises EngineUnavailable."""
    home, named = find_home("SPARK_HOME", "pyspark", _INSTALL_SPARK)
    found = home.absolute() / "bin" / "spark-submit"
    if not found.is_file():
        raise EngineUnavailable(f"{named} has no bin/spark-submit", _INSTALL_SPARK)
    return found


def build_submission(
    submit: Path, jar: str, program: Path, arguments: Mapping[str, str], options: SparkOptions
) -> list[str]:
    """Return the command line. arguments: those of the program, its files by absolute paths."""
    settings = dict(options.settings)
    for name in _JAVA_SETTINGS:
        settings[name] = f"{JAVA_OPTIONS} {settings.get(name, '')}".strip()
    if re.match(r"local(\[|$)", options.master):  # the driver does all the work
        settings.setdefault(_DRIVER_MEMORY, default_max_heap())
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    # with -exec spark the engine refuses to have tasks in a parfor
    return [str(submit), "--master", options.master, *given, jar, "-f", str(program), "-exec", "hybrid",
            "-config", str(program.with_name(SETTINGS)),
            "-nvargs", *(f"{name}={value}" for name, value in arguments.items())]


def submit_program(program: Path, arguments: Mapping[str, str], options: SparkOptions) -> int:
    """Run a program that scores files, in its folder, which has room for what tasks read; return the rows it scored.

    Raises EngineUnavailable, and EngineError where it fails or ends without saying how many rows it scored: SystemDS
    ends with exit code 0 after some errors.
    """
    submit, folder = find_spark_submit(), program.parent
    jar = next(part for part in find_class_path() if part.endswith("SystemDS.jar"))
    # tasks in processes of their own read what the driver writes: a relative scratch folder is no path in theirs
    (folder / SETTINGS).write_text(scratch_settings(folder / "scratch"), encoding="utf-8")
    command = build_submission(submit, jar, program, arguments, options)
    printed = folder / "printed.txt"
    try:
        with printed.open("wb") as stream:
            environment = {**os.environ, "SPARK_HOME": str(submit.parent.parent)}
            ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                                   cwd=folder, env=environment, check=False)
    except OSError as error:
        raise EngineUnavailable(f"'{submit}' cannot be run: {error.strerror}", _INSTALL_SPARK) from None
    text = printed.read_text(encoding="utf-8", errors="replace")
    found = _LAST_LINE.findall(text)
    if ended.returncode == 0 and found:
        return int(found[-1])
    code = ended.returncode
    what = "ended before all rows were scored" if code == 0 else f"ended with exit code {code}"
    what = f"was ended by signal {-code}" if code < 0 else what
    shown = _telling_lines(text)
    raise EngineError(f"spark-submit {what}" + (":\n" + "\n".join(shown) if shown else ""))


def _telling_lines(text: str) -> Sequence[str]:
    """Lines that may say what went wrong, else the last ones."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line) and not line.startswith("at ")] or lines
    return [f"  {escaped(line, 400)}" for line in dict.fromkeys(telling[-_MOST_LINES:])]
