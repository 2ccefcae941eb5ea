"""Operator families on the engine: ``python -m benchmarks.operators [--write] [--only TEXT] [--seconds 0.5]``.

Each row of the table is one operator: the engine's time for the generated script, for the best hand-written DML
("idiom") and for numpy in float64. The idiom gets the same matrices as the generated script (weights included) and both
are compared with each other and with numpy before anything is measured.

What is timed is the execution inside the engine, of two prepared scripts of one session: inputs and weights are pinned
beforehand and the results stay in the engine, so neither side transfers anything. The two scripts run alternately,
after a warm-up that lets the JIT settle; times are medians, and the ratio is the median of the ratios of neighbouring
runs, which a changing load of the machine moves least. The inputs are large enough to make the call from Python
(``call`` in the header, the median of a script that does nothing) small, and it is subtracted from both.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from benchmarks.operator_cases import CASES
from benchmarks.operator_cases.bench import Bench
from benchmarks.report import write_section
from benchmarks.timing import alternate
from onnx_systemds import import_model
from onnx_systemds.engine import PreparedScript, Session
from onnx_systemds.runtime.boundary_tensors import boundary_matrix, restored
from onnx_systemds.runtime.driver import program_of

SLOW = 1.5
EMPTY = 'X = read("./X", rows=1, cols=1)\nwrite(X, "./X0")'
HEADER = """## Operator families

Written by `python -m benchmarks.operators --write`, which explains what is measured. Times are medians. *idiom* is
the best hand-written DML for the operator, *ratio* the median of ours / idiom in neighbouring runs: it differs
from the ratio of the medians where the load of the machine changed. Absolute times hold for one machine only
({cores} cores, engine in float64); ratios carry over, within some 20 % on an idle machine. Rows above {slow} were
measured a second time, which is what the table shows. numpy computes in float64 too; * marks ONNX's reference
implementation, where numpy has no short form.

Engine call without work: {call:.2f} ms (subtracted).
"""


@dataclass(frozen=True)
class Row:
    """Milliseconds of one operator; nan where a side is missing."""

    bench: Bench
    ours: float
    idiom: float
    ratio: float
    numpy: float
    reference: bool

    def cells(self) -> list[str]:
        """The row of the table."""
        numbers = [f"{self.ours:.2f}", f"{self.idiom:.2f}", f"{self.ratio:.2f}", f"{self.numpy:.2f}"]
        numbers = ["-" if number == "nan" else number for number in numbers]
        numbers[-1] += "*" if self.reference else ""
        operator = f"{self.bench.op_type} {self.bench.note}".strip()
        return [self.bench.family, operator, self.bench.shapes(), *numbers]


def bench_model(bench: Bench) -> onnx.ModelProto:
    """A model of the single node."""
    infos, initializers = [], []
    for name, array in bench.inputs.items():
        if name in bench.constants:
            initializers.append(onnx.numpy_helper.from_array(array, name))
        else:
            infos.append(
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            )
    names = [name if not name.startswith("absent") else "" for name in bench.arguments or bench.inputs]
    node = helper.make_node(bench.op_type, names, bench.outputs, domain=bench.domain, **bench.attributes)
    results = [onnx.ValueInfoProto(name=name) for name in bench.outputs]
    graph = helper.make_graph([node], "case", infos, results, initializers)
    imports = [helper.make_opsetid(bench.domain, bench.opset)]
    if bench.domain:
        imports.append(helper.make_opsetid("", 20))
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports, ir_version=10))
    for output in model.graph.output:  # where ONNX infers nothing
        if output.type.WhichOneof("value") is None:
            output.type.CopyFrom(helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
    return model


def resident(session: Session, text: str, matrices: Mapping[str, np.ndarray], outputs: Iterable[str]) -> PreparedScript:
    """A prepared script with all inputs in the engine."""
    prepared = session.prepare(text, list(matrices), list(outputs))
    for name, matrix in matrices.items():
        prepared.pin(name, matrix)
    return prepared


def run_in_engine(prepared: PreparedScript) -> Callable[[], object]:
    """The execution alone: the results are not fetched."""
    return prepared._prepared.executeScript


def ours(session: Session, model: onnx.ModelProto, bench: Bench) -> tuple[PreparedScript, list[np.ndarray]]:
    """The generated script and its results."""
    script = import_model(model)
    matrices = {f"in{i}": boundary_matrix(bench.inputs[port.name]) for i, port in enumerate(script.inputs)}
    matrices |= {f"weight{i}": np.asarray(weight.array, np.float64) for i, weight in enumerate(script.weights)}
    prepared = resident(session, program_of(script).text, matrices, [f"out{i}" for i in range(len(script.outputs))])
    computed = prepared({})
    return prepared, [restored(port, computed[f"out{i}"], {}) for i, port in enumerate(script.outputs)]


def idiom(session: Session, bench: Bench) -> tuple[PreparedScript, list[np.ndarray]]:
    """The hand-written script and its results."""
    matrices = {name: np.asarray(boundary_matrix(array), np.float64) for name, array in bench.inputs.items()}
    matrices |= {name: np.asarray(array, np.float64) for name, array in bench.given.items()}
    matrices = {name: matrix for name, matrix in matrices.items() if f"{name}" in bench.words()}
    reads = [f'{name} = read("./{name}", rows={m.shape[0]}, cols={m.shape[1]})' for name, m in matrices.items()]
    writes = [f'write({name}, "./{name}")' for name in bench.outputs]
    prepared = resident(session, "\n".join([*reads, bench.idiom, *writes]), matrices, bench.outputs)
    computed = prepared({})
    return prepared, [computed[name] for name in bench.outputs]


def agree(bench: Bench, side: str, actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Raise AssertionError where results differ."""
    for one, other in zip(actual, expected, strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        one = one.reshape(other.shape)
        spread = float(np.abs(other[np.isfinite(other)]).max(initial=1e-6))
        np.testing.assert_allclose(
            one, other, rtol=bench.tolerance, atol=bench.tolerance * spread, err_msg=f"{bench}: {side}"
        )


def numpy_side(bench: Bench, model: onnx.ModelProto) -> Callable[[], list[np.ndarray]]:
    """The computation in numpy."""
    computed = bench.numpy
    if computed is None:
        evaluator = ReferenceEvaluator(model)
        feeds = {name: array for name, array in bench.inputs.items() if name not in bench.constants}
        return lambda: list(evaluator.run(None, feeds))
    arrays = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in bench.inputs.items()
    }

    def run() -> list[np.ndarray]:
        result = computed(**arrays)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    return run


def once(action: Callable[[], Any], seconds: float) -> float:
    """Median milliseconds of an action within a time, at least one run."""
    taken: list[float] = []
    start = time.perf_counter()
    while not taken or (time.perf_counter() - start < seconds and len(taken) < 50):
        begin = time.perf_counter()
        action()
        taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken)


def measure(session: Session, bench: Bench, seconds: float, call: float) -> Row:
    """One row of the table."""
    model = bench_model(bench)
    generated, results = ours(session, model, bench)
    by_numpy = numpy_side(bench, model)
    agree(bench, "numpy", results, by_numpy())
    sides = [generated]
    if bench.idiom:
        written, expected = idiom(session, bench)
        agree(bench, "idiom", expected, results)
        sides.append(written)
    runs = [[max(one - call, 0.001) for one in taken] for taken in alternate(map(run_in_engine, sides), seconds)]
    for side in sides:
        side.close()
    taken = once(by_numpy, seconds / 4)
    middle = [statistics.median(one) for one in runs] + [math.nan]
    # neighbouring runs see the same load of the machine, so the median of their ratios is steadier than that of medians
    ratio = statistics.median(a / b for a, b in zip(*runs)) if bench.idiom else math.nan
    return Row(bench, middle[0], middle[1], ratio, taken, bench.numpy is None)


def table(rows: list[Row], call: float) -> str:
    """The section of the report."""
    lines = [HEADER.format(cores=os.cpu_count(), call=call, slow=SLOW)]
    lines.append("| family | operator | inputs | ours ms | idiom ms | ratio | numpy ms |")
    lines.append("|---|---|---|--:|--:|--:|--:|")
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    ratios = [row.ratio for row in rows if row.ratio == row.ratio]
    lines.append("")
    lines.append(
        f"{len(ratios)} operators with an idiom: median ratio {statistics.median(ratios):.2f}, "
        f"largest {max(ratios):.2f}, above {SLOW}: {sum(ratio > SLOW for ratio in ratios)}."
    )
    return "\n".join(lines)


def main() -> None:
    """Print the table, and store it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the table in docs/benchmarks.md")
    parser.add_argument("--only", default="", help="part of the family or the operator")
    parser.add_argument("--seconds", type=float, default=0.5, help="measured time of each operator")
    arguments = parser.parse_args()
    rows, failures = [], []
    with Session() as session:
        empty = resident(session, EMPTY, {"X": np.ones((1, 1))}, ["X"])
        call = statistics.median(alternate([run_in_engine(empty)], 2 * arguments.seconds)[0])
        print(f"call without work {call:.2f} ms")
        for bench in CASES:
            if arguments.only.lower() not in str(bench).lower():
                continue
            try:
                row = measure(session, bench, arguments.seconds, call)
                if row.ratio > SLOW:  # once more, before a busy moment of the machine is taken for ours
                    row = measure(session, bench, 3 * arguments.seconds, call)
            except Exception as error:  # one broken row must not hide the others
                failures.append(f"{bench}: {type(error).__name__}: {str(error)[:600]}")
                print("FAILED", failures[-1], flush=True)
                continue
            rows.append(row)
            flag = "  <-- slow" if row.ratio > SLOW else ""
            print("{:14} {:30} {:34} {:>9} {:>9} {:>6} {:>9}".format(*row.cells()) + flag, flush=True)
    if arguments.write and not failures:
        write_section("operators", table(rows, call))
    if failures:
        raise SystemExit(f"{len(failures)} rows failed")


if __name__ == "__main__":
    main()
