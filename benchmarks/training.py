"""Steps of training by generated functions and by hand on `nn/layers`: ``python -m benchmarks.training [--write]``.

Each network is converted with ``--gradient weights``. A step is a forward pass, the derivative of cross entropy, a
backward pass, and new weights; by hand the same, with the layers that come with SystemDS. Both are programs of the
plain engine, by turns, from the same weights; their losses after some steps are compared first.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.network_models import lenet
from benchmarks.programs import run_program, timed
from benchmarks.report import write_section
from onnx_systemds import import_model

HEADER = """## Training

Written by `python -m benchmarks.training --write`: a step of training with the functions that `--gradient weights`
writes, and by hand with SystemDS's `nn/layers`, as programs of the plain engine (`-exec singlenode`), by turns. Medians
of milliseconds.
"""
_STEPS = 3
_LAYERS = ("affine", "conv2d_builtin", "cross_entropy_loss", "max_pool2d_builtin", "relu", "softmax")
LENET = """
W1 = as.matrix(weights["W1"]); W2 = as.matrix(weights["W2"])
W3 = as.matrix(weights["W3"]); W4 = as.matrix(weights["W4"])
b1 = as.matrix(weights["b1"]); b2 = as.matrix(weights["b2"])
b3 = as.matrix(weights["b3"]); b4 = as.matrix(weights["b4"])
"""
LENET_STEP = """
[o1, h, w] = conv2d_builtin::forward(X, W1, b1, 1, 28, 28, 5, 5, 1, 1, 2, 2)
r1 = relu::forward(o1)
[p1, h, w] = max_pool2d_builtin::forward(r1, 32, 28, 28, 2, 2, 2, 2, 0, 0)
[o2, h, w] = conv2d_builtin::forward(p1, W2, b2, 32, 14, 14, 5, 5, 1, 1, 2, 2)
r2 = relu::forward(o2)
[p2, h, w] = max_pool2d_builtin::forward(r2, 64, 14, 14, 2, 2, 2, 2, 0, 0)
o3 = affine::forward(p2, W3, b3)
r3 = relu::forward(o3)
o4 = affine::forward(r3, W4, b4)
P = softmax::forward(o4)
d4 = softmax::backward(cross_entropy_loss::backward(P, T), o4)
[d3, dW4, db4] = affine::backward(d4, r3, W4, b4)
[d2, dW3, db3] = affine::backward(relu::backward(d3, o3), p2, W3, b3)
d2 = relu::backward(max_pool2d_builtin::backward(d2, 7, 7, r2, 64, 14, 14, 2, 2, 2, 2, 0, 0), o2)
[d1, dW2, db2] = conv2d_builtin::backward(d2, 14, 14, p1, W2, b2, 32, 14, 14, 5, 5, 1, 1, 2, 2)
d1 = relu::backward(max_pool2d_builtin::backward(d1, 14, 14, r1, 32, 28, 28, 2, 2, 2, 2, 0, 0), o1)
[d0, dW1, db1] = conv2d_builtin::backward(d1, 28, 28, X, W1, b1, 1, 28, 28, 5, 5, 1, 1, 2, 2)
W1 = W1 - 0.01 * dW1; b1 = b1 - 0.01 * db1; W2 = W2 - 0.01 * dW2; b2 = b2 - 0.01 * db2
W3 = W3 - 0.01 * dW3; b3 = b3 - 0.01 * db3; W4 = W4 - 0.01 * dW4; b4 = b4 - 0.01 * db4
"""
PERCEPTRON = """
W1 = as.matrix(weights["W1"]); W2 = as.matrix(weights["W2"])
b1 = as.matrix(weights["b1"]); b2 = as.matrix(weights["b2"])
"""
PERCEPTRON_STEP = """
o1 = affine::forward(X, W1, b1)
r1 = relu::forward(o1)
o2 = affine::forward(r1, W2, b2)
P = softmax::forward(o2)
d2 = softmax::backward(cross_entropy_loss::backward(P, T), o2)
[d1, dW2, db2] = affine::backward(d2, r1, W2, b2)
[d0, dW1, db1] = affine::backward(relu::backward(d1, o1), X, W1, b1)
W1 = W1 - 0.01 * dW1; b1 = b1 - 0.01 * db1; W2 = W2 - 0.01 * dW2; b2 = b2 - 0.01 * db2
"""


@dataclass(frozen=True)
class Trained:
    """A network for digits of 28 x 28, and a step of its training by hand. start: takes weights from their list."""

    title: str
    model: onnx.ModelProto
    batch: int
    start: str
    step: str


def perceptron(batch: int) -> onnx.ModelProto:
    """A network with 512 hidden units."""
    draw = np.random.default_rng(1).normal
    weights = {"W1": draw(size=(784, 512)) / 28, "b1": np.zeros(512),
               "W2": draw(size=(512, 10)) / 20, "b2": np.zeros(10)}
    nodes = [helper.make_node("Gemm", ["X", "W1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "W2", "b2"], ["s"]), helper.make_node("Softmax", ["s"], ["Y"])]
    given = [helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, ["batch", 784])]
    results = [helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, ["batch", 10])]
    kept = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "perceptron", given, results, kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def networks() -> list[Trained]:
    """All networks."""
    images, digits = 64, 256
    model = next(lenet(images))[1]
    return [Trained(f"LeNet, batch {images}", model, images, LENET, LENET_STEP),
            Trained(f"perceptron, batch {digits}", perceptron(digits), digits, PERCEPTRON, PERCEPTRON_STEP)]


def compared(network: Trained, seconds: float, turns: int) -> tuple[float, float]:
    """Milliseconds of a step by generated functions and by hand, after a check that they train alike."""
    script = import_model(network.model, function_name="net", gradients=["weights"])
    assert script.derivatives is not None
    forward, backward = script.derivatives.forward, script.derivatives.backward
    head = [
        'source("net.dml") as net', *(f'source("nn/layers/{name}.dml") as {name}' for name in _LAYERS),
        f"X = rand(rows={network.batch}, cols=784, seed=1)",
        f"T = table(seq(1, {network.batch}), 1 + (seq(1, {network.batch}) %% 10), {network.batch}, 10)",
        "weights = net::net_init()",
    ]
    ours = [f"[{', '.join(forward.results)}] = net::net_forward(X, parameters)",
            f"{backward.parameters[0]} = cross_entropy_loss::backward({forward.results[0]}, T)",
            f"gradient = net::net_backward({', '.join(backward.parameters)})",
            "parameters = parameters - 0.01 * gradient"]
    by_hand = network.step.strip().splitlines()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        script.save(folder / "net.dml")
        ours_start = [*head, "parameters = net::net_parameters(weights)"]
        programs = [(ours_start, ours), ([*head, *network.start.strip().splitlines()], by_hand)]
        scores = (forward.results[0], "P")
        losses = [_loss(start, step, name, folder) for (start, step), name in zip(programs, scores)]
        if abs(losses[0] - losses[1]) > 1e-9 * abs(losses[1]):
            raise RuntimeError(f"{network.title}: the losses are {losses[0]} and {losses[1]}")
        times: list[list[float]] = [[], []]
        for _ in range(turns):
            for found, (start, step), name in zip(times, programs, scores):
                call = "\n  ".join(step)
                found.append(timed(start, call, [f"print(sum({name}))"], folder, warm_up=seconds, seconds=seconds,
                                   heap="4g").call)
    return statistics.median(times[0]), statistics.median(times[1])


def _loss(start: Sequence[str], step: Sequence[str], scores: str, folder: Path) -> float:
    """Cross entropy before the last of some steps."""
    lines = [*start, f"for (k in 1:{_STEPS}) {{", *step, "}", f"print(cross_entropy_loss::forward({scores}, T))"]
    output, _ = run_program("\n".join(lines), folder, heap="4g")
    return next(float(line) for line in output.splitlines() if line[:1].isdigit() and " " not in line)


def main() -> None:
    """Print a line for each network, and store the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the table in docs/benchmarks.md")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a program, after as many before they count")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="part of the title")
    arguments = parser.parse_args()
    lines = [HEADER, "| network | generated ms | by hand ms | ratio |", "|---|--:|--:|--:|"]
    for network in networks():
        if arguments.only in network.title:
            ours, theirs = compared(network, arguments.seconds, arguments.turns)
            lines.append(f"| {network.title} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")
            print(lines[-1], flush=True)
    if arguments.write:
        write_section("training", "\n".join(lines))


if __name__ == "__main__":
    main()
