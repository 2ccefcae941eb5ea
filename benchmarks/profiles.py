"""Where the time of generated scripts goes: ``python -m benchmarks.profiles [--write] [--only PART]``.

The engine's own statistics of programs that call a script again and again, and what the engine takes at least.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.models import reported, runtime_of
from benchmarks.programs import Counted, Times, run_program
from benchmarks.report import write_section
from benchmarks.scripts import Feeds, feeds_of, program_times, variants
from onnx_systemds import import_model
from onnx_systemds.runtime.boundary_tensors import bind_sizes, tensor_of
from tests.model_zoo import model_paths

HEADER = """## Where the time goes

Written by `python -m benchmarks.profiles --write`: scripts converted for these sizes (`--dim`), called again and again
by plain SystemDS as above, under `-stats`, the whole program taken together (its init shows where calls were few).
Where other work takes the processors, which *busy* shows, milliseconds are longer than above; shares and ratios tell
more. *most of it*: instructions by their share of the time (`ba+*` is a product of matrices, `r'` transposes,
`rightIndex` takes rows or columns, `append` puts matrices together, `relu_backward` is `(X > 0) * Y`, `ctable` is
`table`); *compiled again*: recompilation while it runs; *collected*: the garbage collector's share; *busy*: processors,
of two. *floor*: what this engine takes at least: the products alone, its instructions at the least that one takes, and
one pass over inputs and outputs.
"""
UNITS = """Units of the engine here: an instruction {instruction:.1f} µs (2 x 2 numbers); a pass over memory
{cell:.2f} ns a number (`X * 2`, {cells:,} numbers); a product of {edge} x {edge} matrices {product:.0f} ms, which is
{flops:.1f} GFLOP/s in float64.
"""
MODELS = {
    "bert_tiny.ts": 256, "gpt2_tiny.dynamo": 256, "sample-apps__transformer": 256, "lstm_gru_tagger.ts": 256,
    "resnet_tiny.ts": 256, "lightrand_squeezenet": 1, "mlp_tabular.ts": 100_000, "lgb_dia": 100_000,
    "skl_bc_rf": 100_000, "xgb_wine": 100_000, "skl_digits_pca_lr": 100_000,
}
"""Shared models, and rows."""
SHOWN = 5
"""Instructions of a model."""
EDGE, CELLS, REPEATS = 1024, 10_000_000, 1000
# What is measured is the least of some rounds, each in a block of its own; the sums are read, so that all is computed.
_UNITS = """\
never = time() < 0
A = rand(rows={edge}, cols={edge}, seed=1)
X = rand(rows={rows}, cols=100, seed=2)
a = matrix(3, rows=2, cols=2)
b = rand(rows=2, cols=2, seed=3)
read = 0
for (round in 1:30) {{
  began = time()
  if (never) {{ print("never") }}
  B = A %*% A
  if (never) {{ print("never") }}
  print("product " + (time() - began))
  began = time()
  if (never) {{ print("never") }}
  Y = X * 2
  if (never) {{ print("never") }}
  print("pass " + (time() - began))
  began = time()
  for (i in 1:{repeats}) {{
    {chain}
  }}
  print("chain " + (time() - began))
  began = time()
  for (i in 1:{repeats}) {{
    a = a + b
  }}
  print("short " + (time() - began))
  read = read + as.scalar(B[1, 1]) + as.scalar(Y[1, 1]) + as.scalar(a[1, 1])
}}
print("read " + read)
"""
CHAIN = 21


@dataclass(frozen=True)
class Units:
    """Milliseconds: of one instruction, of a pass for each number, and of the product of `EDGE`."""

    instruction: float
    cell: float
    product: float


def units() -> Units:
    """The least that the plain engine takes here."""
    chain = "\n    ".join(f"a = a {'*' if i % 2 else '+'} b" for i in range(CHAIN))
    text = _UNITS.format(edge=EDGE, rows=CELLS // 100, repeats=REPEATS, chain=chain)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        output, _ = run_program(text, Path(name), heap="2g")
    found = {
        unit: min(float(time) / 1e6 for time in re.findall(rf"^{unit} (\S+)$", output, re.MULTILINE))
        for unit in ("product", "pass", "chain", "short")
    }
    instruction = (found["chain"] - found["short"]) / (CHAIN - 1) / REPEATS
    return Units(instruction, found["pass"] / CELLS, found["product"])


def floor(times: Times, counted: Counted, cells: int, unit: Units) -> tuple[float, float]:
    """Milliseconds of a call: of its products, and what it takes at least."""
    products = times.call * counted.share(counted.statistics.products)
    least = products + counted.statistics.operations / counted.calls * unit.instruction + cells * unit.cell
    return products, least


def line(name: str, rows: int, times: Times, cells: int, unit: Units) -> str:
    """The line of the table."""
    counted = times.counted
    assert counted is not None
    found = counted.statistics
    first = sorted(found.instructions.items(), key=lambda item: -item[1].seconds)[:SHOWN]
    most = ", ".join(f"`{name}` {100 * counted.share(taken.seconds):.0f} %" for name, taken in first)
    products, least = floor(times, counted, cells, unit)
    shares = [f"{100 * counted.share(seconds):.1f} %" for seconds in (found.recompiling, found.collecting)]
    cells_ = [name, f"{rows:,}", f"{times.call:.1f}", most, *shares, f"{times.busy:.1f}",
              f"{found.operations / counted.calls:,.0f}", f"{products:.1f}", f"{least:.1f}",
              f"{times.call / least:.1f}"]
    return f"| {' | '.join(cells_)} |"


def profiled(path: Path, rows: int, seconds: float) -> tuple[Times, int]:
    """The times of a shared model, sizes known, and how many numbers go in and out."""
    model, stored, _ = variants(path)
    runtime = runtime_of(model)
    feeds: Feeds | None = feeds_of(stored, rows, runtime)
    assert feeds is not None
    outputs = runtime.run(None, dict(feeds))
    opened = import_model(model)
    tensors = {port.name: tensor_of(port, feeds) for port in opened.inputs if not port.is_list}
    script = import_model(model, dims=bind_sizes(opened.inputs, tensors))
    cells = sum(int(np.size(tensor)) for tensor in (*feeds.values(), *outputs))
    return program_times(script, feeds, seconds, "none", counted=True), cells


def main() -> None:
    """Print a line for each model, and store the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the table in docs/benchmarks.md")
    parser.add_argument("--only", nargs="+", default=("",), help="parts of names")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each measurement")
    arguments = parser.parse_args()
    unit = units()
    flops = 2 * EDGE**3 / unit.product / 1e6
    figures = UNITS.format(instruction=1e3 * unit.instruction, cell=1e6 * unit.cell, cells=CELLS, edge=EDGE,
                           product=unit.product, flops=flops)
    columns = ["model", "rows", "call ms", "most of it", "compiled again", "collected", "busy", "instructions",
               "products ms", "floor ms", "call / floor"]
    lines = [HEADER, figures, f"| {' | '.join(columns)} |", "|---|--:|--:|---|" + "--:|" * 7]
    print(figures)
    paths = {path.stem: path for path in model_paths("real", "generated")}
    for name, rows in MODELS.items():
        if any(part in name for part in arguments.only):
            with reported(name):
                times, cells = profiled(paths[name], rows, arguments.seconds)
                lines.append(line(name, rows, times, cells, unit))
                print(lines[-1], flush=True)
    if arguments.write:
        write_section("profiles", "\n".join(lines))


if __name__ == "__main__":
    main()
