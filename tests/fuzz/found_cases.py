"""Findings as files: a model with its calls in JSON, or the seed of a case that is made again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.json_format import MessageToDict, ParseDict
from onnx import ModelProto, TensorProto, helper, numpy_helper, printer

from tests.fuzz.finding import Finding
from tests.fuzz.judging import ModelCase

FOLDER = Path(__file__).parent / "found"


def written(kind: str, case: ModelCase, finding: Finding, folder: Path = FOLDER) -> Path:
    """Write a case of a model as a file that `read` understands; its name tells the operator."""
    nodes = case.model.graph.node
    stem = "_".join(dict.fromkeys(node.op_type for node in nodes[:3])).lower() if len(nodes) < 4 else "graph"
    content = {
        "kind": kind,
        "seed": finding.seed,
        "finding": finding.kind,
        "detail": finding.detail[:1000],
        "text": printer.to_text(case.model).splitlines(),
        "specialise_after": case.specialise_after,
        "is_exact": case.is_exact,
        "functions": case.functions,
        "style": case.style,
        "dims": dict(case.dims),
        "parts": case.parts,
        "model": MessageToDict(_plain(case.model)),
        "calls": [{name: _as_dict(value) for name, value in feeds.items()} for feeds in case.calls],
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{stem}_{finding.seed}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> ModelCase:
    """The case of a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    model = ParseDict(content["model"], ModelProto())
    calls = tuple({name: _as_value(value) for name, value in feeds.items()} for feeds in content["calls"])
    return ModelCase(content["seed"], model, calls, content["specialise_after"], content["is_exact"], content.get("functions"),
                     content.get("style", "plain"), content.get("dims", {}), content.get("parts"))


def _plain(model: ModelProto) -> ModelProto:
    """The model without raw bytes in its initializers, so that the file shows numbers."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        tensor.CopyFrom(_tensor(numpy_helper.to_array(tensor), tensor.name))
    return copy


def _tensor(array: Any, name: str = "") -> TensorProto:
    kind = 8 if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(array.dtype)
    if array.dtype.kind in "fiub" and array.dtype != np.float16:
        return helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())
    return numpy_helper.from_array(array, name)


def _as_dict(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_dict(item) for item in value]
    if isinstance(value, dict):  # a map
        return {"keys": _as_dict(np.array([*value])), "values": _as_dict(np.array([*value.values()]))}
    return MessageToDict(_tensor(np.asarray(value)))


def _as_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_value(item) for item in value]
    if "keys" in value:
        return dict(zip(_as_value(value["keys"]).tolist(), _as_value(value["values"])))
    array = numpy_helper.to_array(ParseDict(value, TensorProto()))
    return array.astype(object) if array.dtype.kind in "OU" else array
