"""Runs scripts in a source tree of SystemDS: on the engine, then as models."""

from __future__ import annotations

import multiprocessing
import random
import re
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import chdir
from pathlib import Path
from typing import Any

from benchmarks.whole_scripts.attempts import Attempt, attempts
from benchmarks.whole_scripts.engine import Engine, written_files
from benchmarks.whole_scripts.java import JavaTests, Value
from benchmarks.whole_scripts.models import Found, compared
from benchmarks.whole_scripts.outputs import Parting, partings, unread
from benchmarks.whole_scripts.texts import arguments_of, dml_value, reads, without_dml_comments, writes
from onnx_systemds.exporting.builtins.files import output_name

SCRIPTS = Path("src", "test", "scripts")
COPIED = (Path("scripts"), SCRIPTS, Path("src", "test", "resources"))
"""What scripts read, and write beside themselves."""
SEED = 20261126
SECONDS = 130.0
"""What attempts to run a script may take; of wall clock."""
SHAKEN = 1e-14
Given = Mapping[str, Mapping[str, Any]]
"""Arguments and inputs by hand, by script."""


@dataclass(frozen=True)
class Trials:
    """A copy of a source tree, which is the working folder, with an engine and what the Java tests say."""

    tests: JavaTests
    engine: Engine
    given: Given

    def found(self, script: str) -> Found:
        """What becomes of a script."""
        begin = time.monotonic()
        try:
            found = self._found(script, begin)
        except Exception:  # the others go on, whatever happens
            found = Found("not judged", f"the benchmark fails: {traceback.format_exc()[-800:]}")
        return replace(found, script=script, seconds=round(time.monotonic() - begin, 1))

    def _found(self, script: str, begin: float) -> Found:
        text = _text(script)
        if re.search(r"\bfederated\s*\(", text):
            return Found("not judged", "federated sites")
        messages = []
        for attempt in attempts(self.tests, script, text, self.given.get(script, {})):
            if time.monotonic() - begin > SECONDS:
                break
            with _placed(script, attempt) as (path, placed, folder):
                try:
                    message = self.engine.run(str(path), placed.arguments)
                except TimeoutError:
                    return Found("not judged", "the engine takes more than 60 seconds")
                if message is not None:
                    messages.append(message)
                    continue
                written = written_files(folder / "out", _targets(placed))
                unreadable = unread(written)
                if unreadable:
                    return Found("not judged", f"files of the engine that are not read: {'; '.join(unreadable)}")
                found = compared(path, placed.arguments, placed.inputs, written, folder)
                sizes = {name: given.spec for name, given in attempt.inputs.items()}
                return replace(found, test=attempt.test, arguments=attempt.arguments, inputs=sizes)
        free = bool(reads(text) or arguments_of(text)[0] or "$$" in text)
        why = "no inputs that the engine takes" if free else "the engine refuses the script"
        return Found("not judged", f"{why}: {' ; '.join(dict.fromkeys(messages)) or 'none can be made'}")

    def shaken(self, script: str) -> list[Parting]:
        """How the engine's own outputs part where inputs are a little other."""
        for attempt in attempts(self.tests, script, _text(script), self.given.get(script, {})):
            written = []
            for share in (0.0, SHAKEN):
                inputs = {path: given.shaken(share) for path, given in attempt.inputs.items()}
                with _placed(script, replace(attempt, inputs=inputs)) as (path, placed, folder):
                    if self.engine.run(str(path), placed.arguments) is None:
                        files = written_files(folder / "out", _targets(placed))
                        written.append({output_name(name): value for name, value in files.items()})
            if len(written) == 2:
                return partings(written[1], written[0])
        return [Parting("the script", problem="not run by the engine")]


def scripts_of(checkout: Path, half: str) -> list[str]:
    """The test scripts of a source tree, or a half of them that is drawn, always the same."""
    paths = sorted(path.relative_to(checkout).as_posix() for path in checkout.joinpath(SCRIPTS).rglob("*.dml"))
    random.Random(SEED).shuffle(paths)
    middle = len(paths) // 2
    chosen = {"1": paths[:middle], "2": paths[middle:], "all": paths}[half]
    return [path.removeprefix(f"{SCRIPTS.as_posix()}/").removesuffix(".dml") for path in chosen]


def run(checkout: Path, scripts: Sequence[str], given: Given, processes: int) -> Iterator[Found]:
    """Yield what becomes of scripts, in the order in which they end; each process has a copy of the tree and a JVM."""
    spawn = multiprocessing.get_context("spawn")
    with (tempfile.TemporaryDirectory(prefix="whole-scripts-", ignore_cleanup_errors=True) as folder,
          ProcessPoolExecutor(processes, spawn, _open, (checkout.absolute(), given, folder)) as pool):
        for each in as_completed([pool.submit(_found, script) for script in scripts]):
            yield each.result()


_opened: list[Trials] = []
"""That of a process of the pool."""


def _open(checkout: Path, given: Given, folder: str) -> None:
    tempfile.tempdir = folder  # for the JVM too
    _opened.append(opened(checkout, given, Path(tempfile.mkdtemp())))


def _found(script: str) -> Found:
    return _opened[0].found(script)


def opened(checkout: Path, given: Given, folder: Path) -> Trials:
    """Copy a source tree into a folder, and make it the working folder of this process."""
    for each in COPIED:
        if checkout.joinpath(each).is_dir():
            shutil.copytree(checkout / each, folder / each)
    chdir(folder)
    return Trials(JavaTests(checkout), Engine(), given)


def _text(script: str) -> str:
    return without_dml_comments(SCRIPTS.joinpath(f"{script}.dml").read_text(errors="replace"))


@contextmanager
def _placed(script: str, attempt: Attempt) -> Iterator[tuple[Path, Attempt, Path]]:
    """Give the script with arguments and inputs in a folder of their own, and what is left beside it is removed."""
    folder = Path("runs", re.sub(r"\W", "_", script)).absolute()
    for name in ("in", "out"):
        folder.joinpath(name).mkdir(parents=True)

    def there(text: str) -> str:
        return text.replace("IN/", f"{folder}/in/").replace("OUT/", f"{folder}/out/")

    arguments: dict[str, Value] = {name: there(value) if isinstance(value, str) else value
                                   for name, value in attempt.arguments.items()}
    inputs = {there(path): given for path, given in attempt.inputs.items()}
    path = SCRIPTS / f"{script}.dml"
    if "$$" in _text(script):
        path = folder / "script.dml"
        path.write_text(there(attempt.text))
    try:
        for name, given in inputs.items():
            given.write(Path(name))
        yield path, replace(attempt, arguments=arguments, inputs=inputs), folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        own = [Path(name) for name, given in inputs.items() if not given.stored]
        for file in (*own, *_targets(replace(attempt, arguments=arguments))):
            shutil.rmtree(file, ignore_errors=True)
            for each in (file, file.with_name(f"{file.name}.mtd")):
                if not each.is_dir():
                    each.unlink(missing_ok=True)


def _targets(attempt: Attempt) -> list[Path]:
    """The paths below the working folder that a script writes to, as far as its text tells."""
    values = (dml_value(path, attempt.arguments) for path in writes(attempt.text))
    paths = [Path(value) for value in values if isinstance(value, str)]
    return [path for path in paths if Path.cwd() in path.absolute().parents and ".." not in path.parts]
