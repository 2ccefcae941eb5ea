"""Runs one DML script twice: in the engine, and exported in onnxruntime; `check_export` compares what it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from onnx_systemds.engine import Session
from onnx_systemds.exporting.export import export_script

Array = np.ndarray[Any, np.dtype[Any]]
_TRUTHS = {"TRUE": "1", "FALSE": "0"}
_DTYPES: dict[str, Any] = {"tensor(double)": np.float64, "tensor(float)": np.float32, "tensor(string)": object,
                           "tensor(float16)": np.float16, "tensor(int64)": np.int64}


@dataclass(frozen=True)
class ExportCase:
    """Statements that use the matrices `inputs` and set `outputs`.

    bound: inputs that become constants of the model. symbols: dims of inputs declared as names. sizes: further runs of
    the same model, by the inputs that differ. sources: imports by namespace. functions: text in front of it all.
    dtypes: beside those of 16 bits, float64 where onnxruntime has the kernels. operators: those the model must consist of, in their order.
    keep: whether functions stay functions. iterative: whether what takes many steps is asked for.
    """

    name: str
    body: str
    inputs: Mapping[str, Array]
    outputs: Sequence[str] = ("Y",)
    bound: Sequence[str] = ()
    symbols: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    sizes: Sequence[Mapping[str, Array]] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    functions: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Sequence[str] = ("float64", "float32")
    opset: int | None = None
    tolerance: Mapping[str, float] = field(default_factory=lambda: {"float64": 1e-9, "float32": 1e-5})
    operators: Sequence[str] | None = None
    keep: bool = False
    iterative: bool = False

    def __str__(self) -> str:
        return self.name


def script(case: ExportCase) -> str:
    """The text of the case, the same for the engine and the exporter."""
    lines = [f'source("{path}") as {name}' for name, path in case.sources.items()]
    lines += [case.functions]
    lines += [f'{name} = read("./{name}"{_kind(array)})' for name, array in case.inputs.items()]
    lines += [case.body]
    lines += [f'write({name}, "./{name}")' for name in case.outputs]
    return "\n".join(lines) + "\n"


def _kind(array: Array) -> str:
    """What read must be told of a frame."""
    return ', data_type="frame"' if array.dtype == object else ""


@cache
def engine() -> Session:
    """One engine for all tests."""
    return Session()


def run_engine(case: ExportCase, *runs: Mapping[str, Array]) -> list[dict[str, Array]]:
    """What the engine writes in each run."""
    prepared = engine().prepare(script(case), list(case.inputs), list(case.outputs),
                                args={name: str(value) for name, value in case.arguments.items()})
    return [prepared({name: np.atleast_2d(array) for name, array in inputs.items()}) for inputs in runs]


def operators(model: onnx.ModelProto) -> list[str]:
    """Those of the main graph, in their order."""
    return [node.op_type for node in model.graph.node]


def model_of(case: ExportCase, dtype: str) -> onnx.ModelProto:
    """The exported model."""
    specs = {}
    for name, array in case.inputs.items():
        if name not in case.bound:
            specs[name] = (f"{'string' if array.dtype == object else 'double'}"
                           f"[{','.join(map(str, case.symbols.get(name, array.shape)))}]")
    bindings = {name: case.inputs[name] for name in case.bound}
    return export_script(script(case), inputs=specs, bindings=bindings, arguments=case.arguments, dtype=dtype,
                         opset=case.opset, functions="keep" if case.keep else "inline",
                         iterative=case.iterative)


def run_model(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What onnxruntime computes, by name; in bfloat16, for which it has no kernels, ONNX's reference implementation."""
    if any(item.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 for item in model.graph.input):
        narrow = {item.name: np.asarray(inputs[item.name], ml_dtypes.bfloat16) for item in model.graph.input}
        outputs = [item.name for item in model.graph.output]
        return dict(zip(outputs, ReferenceEvaluator(model).run(None, narrow)))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = {item.name: _DTYPES[item.type] for item in session.get_inputs()}
    ranks = {item.name: item.shape for item in session.get_inputs()}
    feeds = {name: np.asarray(inputs[name], dtype).reshape(-1, *ranks[name][1:]) if len(ranks[name]) > 2
             else np.asarray(inputs[name], dtype) for name, dtype in wanted.items()}
    return dict(zip([item.name for item in session.get_outputs()], session.run(None, feeds)))


def check_export(case: ExportCase) -> None:
    """Compare at the sizes of the case, in each dtype."""
    runs = [dict(case.inputs), *({**case.inputs, **differing} for differing in case.sizes)]
    expected = run_engine(case, *runs)
    for dtype in case.dtypes:
        model = model_of(case, dtype)
        if case.operators is not None:
            assert operators(model) == list(case.operators)
        for inputs, wanted in zip(runs, expected):
            actual = run_model(model, inputs)
            for name in case.outputs:
                assert_close(actual[name], wanted[name], case.tolerance[dtype], f"{case} {dtype} {name}")


def assert_close(actual: Array, expected: Array, tolerance: float, what: str) -> None:
    """Same dims (a scalar stands for 1 x 1), equal relative to the spread of the expected numbers; or equal texts."""
    if actual.dtype == object:
        assert np.atleast_2d(actual).tolist() == expected.tolist(), what
        return
    if expected.dtype == object:  # a frame of numbers or truths
        expected = np.array([[float(_TRUTHS.get(cell, cell)) for cell in line] for line in expected])
    found = np.atleast_2d(actual).astype(np.float64)
    assert found.shape == expected.shape, f"{what}: dims {found.shape}, expected {expected.shape}"
    finite = np.abs(expected[np.isfinite(expected)])
    spread = max(float(finite.max()) if finite.size else 0.0, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * spread, err_msg=what)
