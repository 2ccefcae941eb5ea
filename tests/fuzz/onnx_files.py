"""Mutated ONNX files: each is converted or refused in words, within 20 seconds and 2 GB.

The models are those of ONNX's own backend tests, the graphs of this fuzzer, and the small ones of ../shared/models.
"""

from __future__ import annotations

import base64
import json
import random
import traceback
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from tests.fuzz import bounded_worker
from tests.fuzz.bounded_worker import BoundedWorker, Crashed, Exceeded
from tests.fuzz.finding import Finding
from tests.fuzz.proto_mutations import mutated, mutated_bytes
from tests.model_zoo import model_paths

SECONDS = 20.0
MEMORY = 2 << 30
_LARGEST = 200_000  # bytes of a model that is mutated
_LONGEST_MESSAGE = 100_000
_SHARE_OF_GRAPHS = 0.15


@dataclass(frozen=True)
class Case:
    """The bytes of a mutated model; text: the model it was, and what was done to it."""

    seed: int
    data: bytes
    text: str


def case(seed: int) -> Case:
    """The case of a seed."""
    draw = random.Random(f"onnx files {seed}")
    name, model = _graph(seed) if draw.random() < _SHARE_OF_GRAPHS else _drawn(draw)
    done = [name]
    for _ in range(draw.choice([0, 1, 1, 1, 2, 2, 3, 5])):
        try:
            done.append(mutated(model, draw))
        except (ValueError, TypeError) as error:  # protobuf does not take the value
            done.append(f"not done: {error}")
    data = model.SerializePartialToString()
    if len(done) == 1 or draw.random() < 0.15:
        for _ in range(draw.choice([1, 1, 2, 4])):
            data, what = mutated_bytes(data, draw)
            done.append(what)
    return Case(seed, data, "; ".join(done))


def _graph(seed: int) -> tuple[str, onnx.ModelProto]:
    from tests.fuzz import graphs

    return f"graph {seed}", graphs.case(seed).model


def _drawn(draw: random.Random) -> tuple[str, onnx.ModelProto]:
    names = sorted(_models())
    name = draw.choice(names)
    model = onnx.ModelProto()
    model.ParseFromString(_models()[name])
    return name, model


@cache
def _models() -> dict[str, bytes]:
    """The serialised models to start from, by name."""
    from onnx.backend.test.loader import load_model_tests

    found: dict[str, bytes] = {}
    for kind in ("node", "simple"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy, about the expected numbers
            tests = load_model_tests(kind=kind)
        for test in tests:
            if test.model is not None:
                found[test.name] = test.model.SerializeToString()
            elif test.model_dir:
                found[test.name] = (Path(test.model_dir) / "model.onnx").read_bytes()
    for path in model_paths("real", "generated"):
        found[path.stem] = path.read_bytes() if path.stat().st_size <= _LARGEST else b""
    return {name: data for name, data in found.items() if 0 < len(data) <= _LARGEST}


_worker = BoundedWorker("tests.fuzz.onnx_files", SECONDS, MEMORY)


def check(case: Case, *_: object) -> Finding | None:
    """Load, inspect and convert the model in a worker; None where it is converted or refused in words."""
    try:
        answer = json.loads(_worker(case.data))
    except Exceeded as error:
        return Finding("slow", case.seed, case.text, str(error))
    except Crashed as error:
        return Finding("error", case.seed, case.text, str(error))
    return Finding(answer["kind"], case.seed, case.text, answer["detail"]) if answer["kind"] else None


def written(kind: str, case: Case, finding: Finding, folder: Path) -> Path:
    """Write a case as a file that `read` understands."""
    content = {"kind": kind, "seed": case.seed, "finding": finding.kind, "detail": finding.detail[:1000],
               "text": case.text, "data": base64.b64encode(case.data).decode()}
    folder.mkdir(exist_ok=True)
    path = folder / f"onnx_file_{case.seed}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> Case:
    """The case of a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Case(content["seed"], base64.b64decode(content["data"]), content["text"])


def answered(data: bytes) -> bytes:
    """What comes of a model, in the worker."""
    bounded_worker.reset_peak()
    kind, detail = _judged(data)
    if not kind and bounded_worker.peak_memory() > MEMORY:
        kind, detail = "slow", f"it takes {bounded_worker.peak_memory() >> 20} MiB"
    return json.dumps({"kind": kind, "detail": detail}).encode()


def _judged(data: bytes) -> tuple[str, str]:
    """The kind of a finding, "" for none, and its detail."""
    from onnx_systemds.cli.inspecting import inspect_model
    from onnx_systemds.dml.parser import parse_script
    from onnx_systemds.errors import TranspileError
    from onnx_systemds.importing.convert import import_model

    text = ""
    try:
        if data:  # inspecting fails where the model cannot be loaded only
            "\n".join(inspect_model(data).lines())
        text = import_model(data).text
        parse_script(text, "script.dml")
    except TranspileError as error:
        return ("error", _place(error)) if text else _of_refusal(error)
    except RecursionError as error:
        return "error", f"RecursionError {_place(error)}"
    except Exception as error:
        return "error", _place(error)
    return "", ""


def _of_refusal(error: Any) -> tuple[str, str]:
    """An error of this project is right unless it wraps another, or its message is none."""
    from onnx_systemds.errors import InternalError

    for reason in getattr(error, "reasons", (error,)):
        if isinstance(reason, InternalError):
            return "error", f"InternalError: {_place(reason.__cause__ or reason)} {str(reason)[:300]}"
    message = str(error)
    if len(message) > _LONGEST_MESSAGE:
        return "error", f"a message of {len(message)} characters: {message[:200]}"
    if not all(character.isprintable() or character == "\n" for character in message):
        return "error", f"a message that cannot be printed: {message[:200]!r}"
    return "", ""


def _place(error: BaseException) -> str:
    """An exception with the last lines of ours that it passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "onnx_systemds/" in frame.filename]
    shown = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames[-4:]))
    return f"{type(error).__name__}: {str(error)[:300]} at {shown}"


if __name__ == "__main__":
    bounded_worker.serve(answered)
