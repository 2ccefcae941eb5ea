"""Case tables: one row is an operator at an opset, its inputs and attributes; the judge is onnxruntime or numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.importing.script import Script
from onnx_systemds.model.protos import numpy_dtype
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying.comparing import compare_tensors, spread
from tests.all_forms import results_of_all_forms

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """One operator in one form.

    inputs: arrays by name in the order of the operator's inputs; None leaves an input out. constants: names of the
    inputs that are initializers. symbols: dims declared as symbols, by input name. outputs: number of outputs, or
    their names ("" leaves one out). output_dtypes: of those that ONNX does not infer, else the first input's.
    expected: computes the outputs with numpy; None asks onnxruntime. sizes: further runs of the same script, by the
    inputs that differ from ``inputs``.
    """

    op_type: str
    opset: int
    inputs: Mapping[str, Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[str] = ()
    symbols: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    outputs: int | Sequence[str] = 1
    expected: Callable[..., Any] | None = None
    tolerance: float = 1e-5
    domain: str = ""
    note: str = ""
    output_dtypes: Sequence[str] = ()
    sizes: Sequence[Mapping[str, Array]] = ()

    def __str__(self) -> str:
        shapes = ",".join("x".join(map(str, array.shape)) or "scalar" for array in self.inputs.values()
                          if array is not None)
        symbolic = "-symbolic" if self.symbols else ""
        return f"{self.op_type}-{self.opset}-{shapes}-{self.note or ','.join(map(str, self.attributes))}{symbolic}"


def contrib(op_type: str, inputs: Mapping[str, Array | None], **others: Any) -> Case:
    """A row of one of onnxruntime's own operators."""
    return Case(op_type, 1, inputs, domain="com.microsoft", **others)


@dataclass(frozen=True)
class Covered:
    """An operator that a module tests with models of its own instead of rows.

    opsets: the versions that its tests run, and they take them from here. symbolic: whether one script with symbolic
    dims is run at several sizes.
    """

    op_type: str
    opsets: Sequence[int]
    symbolic: bool = False
    domain: str = ""


def at_sizes(case: Case, symbols: Mapping[str, Sequence[Any]], *sizes: Mapping[str, Array]) -> Case:
    """The case with dims that are symbols, run at further sizes; these give the inputs that differ."""
    return replace(case, symbols=symbols, sizes=sizes)


def by_reference(case: Case) -> Case:
    """The case, judged by ONNX's reference implementation."""

    def expected(*arrays: Array | None, **_: Any) -> Any:
        inputs = dict(zip(case.inputs, arrays))
        feeds = {name: array for name, array in inputs.items() if array is not None and name not in case.constants}
        return ReferenceEvaluator(case_model(replace(case, inputs=inputs))).run(None, feeds)

    return replace(case, expected=expected)


def case_model(case: Case) -> onnx.ModelProto:
    """A model of the case's single node."""
    names = [name if array is not None else "" for name, array in case.inputs.items()]
    infos, initializers = [], []
    for name, array in case.inputs.items():
        if array is None:
            continue
        if name in case.constants:
            initializers.append(onnx.numpy_helper.from_array(array, name))
        else:
            dims = case.symbols.get(name, array.shape)
            infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
    outputs = [f"out{i}" for i in range(case.outputs)] if isinstance(case.outputs, int) else list(case.outputs)
    node = helper.make_node(case.op_type, names, outputs, domain=case.domain, **case.attributes)
    graph = helper.make_graph([node], "case", infos, [onnx.ValueInfoProto(name=o) for o in outputs if o], initializers)
    imports = [helper.make_opsetid(case.domain, case.opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10 if case.opset < 25 else 13)
    model = onnx.shape_inference.infer_shapes(model)  # gives the outputs their types
    for position, output in enumerate(model.graph.output):  # the oldest operators have no inference
        if output.type.WhichOneof("value") is None:
            dtype = next(array.dtype for array in case.inputs.values() if array is not None)
            dtype = dtype_named(case.output_dtypes[position]) if case.output_dtypes else dtype
            output.type.CopyFrom(helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), None))
    return model


def check_case(case: Case) -> None:
    """Convert the case once, run it on its inputs and at each of its sizes, and compare dtype, dims and numbers.

    With dynamic dims it runs once more in scripts that are compiled for each of the sizes: the engine then knows all.
    Samples that can be scored apart are divided there. So it does with initializers, of which that script computes
    what is constant beforehand.
    """
    model = case_model(case)
    script = import_model(model)
    _check_script(case, model, script)
    if case.symbols or case.constants:
        _check_script(case, model, script, specialise_after=1, parts=2)


def _check_script(case: Case, model: onnx.ModelProto, script: Script, **options: int) -> None:
    with ScoringFunction(script, **options) as function:
        for differing in [{}, *case.sizes]:
            inputs = {**case.inputs, **differing}
            feeds = {name: array for name, array in inputs.items() if array is not None and name not in case.constants}
            results = results_of_all_forms(function, feeds)
            names = [port.name for port in script.outputs]
            for name, expected in zip(names, _expected(case, model, inputs, feeds), strict=True):
                for actual in results:
                    compare(actual[name], np.asarray(expected), case.tolerance, f"{case} output {name}")


def _expected(case: Case, model: onnx.ModelProto, inputs: Mapping[str, Array | None], feeds: Any) -> Sequence[Any]:
    if case.expected is not None:
        computed = case.expected(*inputs.values(), **case.attributes)
        return computed if isinstance(computed, (tuple, list)) else [computed]
    return run_reference(model, feeds)


def run_reference(model: onnx.ModelProto, feeds: Any) -> list[Any]:
    """The outputs that onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def compare(actual: Array, expected: Array, tolerance: float, what: str) -> None:
    """Same dtype and dims; integers and booleans equal; floats equal relative to the spread of the expected values."""
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    atol = None if expected.dtype.kind in "biuO" else tolerance * spread(expected)
    found = compare_tensors(what, actual, expected, tolerance, atol)
    assert found.passed, str(found)


def dtype_named(name: str) -> np.dtype[Any]:
    """numpy's dtype of an ONNX element type."""
    return numpy_dtype(name)


def random(*dims: int, seed: int = 0, dtype: str = "float") -> Array:
    """Reproducible numbers: normal for floats, small integers around zero (or from zero) else."""
    generator = np.random.default_rng(seed)
    kind = dtype_named(dtype)
    if kind.kind == "b":
        return np.asarray(generator.random(dims) > 0.5)
    if kind.kind in "iu":
        return np.asarray(generator.integers(0 if kind.kind == "u" else -9, 10, dims), kind)
    return np.asarray(generator.standard_normal(dims), kind)


def ints(*items: Any) -> Array:
    """An int64 tensor of these items."""
    return np.array(items, np.int64)


def number(value: float, dtype: str = "float32") -> Array:
    """A tensor of rank 0."""
    return np.array(value, dtype)
