"""Findings in scripts as files: the script with its inputs in JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.dml_files import Case as FileCase
from tests.fuzz.dml_functions import Case as FunctionCase
from tests.fuzz.finding import Finding


def written(kind: str, case: FunctionCase | FileCase, finding: Finding, folder: Path) -> Path:
    """Write a case as a file that `read` understands."""
    content = {"kind": kind, "finding": finding.kind, "detail": finding.detail[:1000]}
    content |= {item.name: _plain(getattr(case, item.name)) for item in fields(case)}
    content["script"] = case.script.splitlines()
    folder.mkdir(exist_ok=True)
    path = folder / f"{kind}_{finding.seed}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def read(path: Path) -> FunctionCase | FileCase:
    """The case of a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    script = "\n".join(content["script"]) + "\n"
    if "number" in content:
        return FileCase(content["seed"], content["name"], script, content["number"])
    runs = tuple({name: np.array(value, np.float64) for name, value in inputs.items()} for inputs in content["runs"])
    return FunctionCase(content["seed"], script, content["dims"], runs, tuple(content["results"]))
