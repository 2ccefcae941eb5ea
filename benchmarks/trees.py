"""Tree ensembles against onnxruntime: ``python -m benchmarks.trees [--write] [rows ...]``. Seconds and ratio.

Trees are full (every leaf at the depth) with random thresholds, which is the least favourable for the walk: no two rows
go the same way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from benchmarks.report import write_section
from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction

FEATURES = 20
HEADER = """## Tree ensembles

Written by `python -m benchmarks.trees --write`: full trees on 20 features, least seconds of several calls from Python.
onnxruntime computes in float32 with 2 threads.
"""
SIZES = [(trees, depth) for trees in (10, 100, 500) for depth in (4, 8)]


def full_trees(trees: int, depth: int) -> onnx.ModelProto:
    """A TreeEnsembleRegressor of full trees over normal data."""
    generator = np.random.default_rng(0)
    branches, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    node = np.tile(np.arange(nodes), trees)
    tree = np.repeat(np.arange(trees), nodes)
    leaf = node >= branches
    attributes = {
        "nodes_treeids": tree,
        "nodes_nodeids": node,
        "nodes_featureids": np.where(leaf, 0, generator.integers(FEATURES, size=node.size)),
        "nodes_truenodeids": np.where(leaf, 0, 2 * node + 1),
        "nodes_falsenodeids": np.where(leaf, 0, 2 * node + 2),
        "nodes_values": generator.normal(size=node.size),
        "target_treeids": tree[leaf],
        "target_nodeids": node[leaf],
        "target_ids": np.zeros(int(leaf.sum()), dtype=np.int64),
        "target_weights": generator.normal(size=int(leaf.sum())),
    }
    lists = {name: column.tolist() for name, column in attributes.items()}
    made = helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["Y"], domain="ai.onnx.ml", n_targets=1,
        nodes_modes=["LEAF" if is_leaf else "BRANCH_LEQ" for is_leaf in leaf], **lists,
    )
    data = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", FEATURES])
    result = helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["rows", 1])
    imports = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    graph = helper.make_graph([made], "trees", [data], [result])
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def least_seconds(action: Callable[[], object], repeats: int) -> float:
    """Least seconds of an action, which is run once before."""
    action()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(rows: int, trees: int, depth: int) -> tuple[float, float]:
    """Least seconds of ours, the transfer included, and of onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    feeds = {"X": np.random.default_rng(1).normal(size=(rows, FEATURES)).astype(np.float32)}
    model = full_trees(trees, depth)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    # the engine's first calls are compiled while they run
    repeats = max(2, min(150, 15_000_000 // (rows * trees)))
    theirs = least_seconds(lambda: session.run(None, feeds), repeats)
    with ScoringFunction(import_model(model)) as function:
        return least_seconds(lambda: function(feeds), repeats), theirs


def main() -> None:
    """Print a line for each number of rows, of trees, and depth, and store the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=[10_000, 100_000], help="numbers of rows")
    parser.add_argument("--write", action="store_true", help="store the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    lines = [HEADER, "| rows | trees | depth | ours s | onnxruntime s | ratio |", "|--:|--:|--:|--:|--:|--:|"]
    for rows in arguments.rows:
        for trees, depth in SIZES:
            ours, theirs = measure(rows, trees, depth)
            lines.append(f"| {rows:,} | {trees} | {depth} | {ours:.3f} | {theirs:.4f} | {ours / theirs:.1f} |")
            print(lines[-1], flush=True)
    if arguments.write:
        write_section("trees", "\n".join(lines))


if __name__ == "__main__":
    main()
