"""Tree ensembles against onnxruntime: ``python -m benchmarks.trees [rows ...]``. Prints seconds and the ratio.

Trees are full (every leaf at the depth) with random thresholds, which is the least favourable for the walk: no two rows
go the same way.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.scoring import ScoringFunction

FEATURES = 20
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


def main(arguments: list[str]) -> None:
    """Print a line for each number of rows, of trees, and depth."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    print(f"{'rows':>8} {'trees':>6} {'depth':>6} {'ours s':>9} {'onnxruntime s':>14} {'ratio':>6}")
    for rows in [int(argument) for argument in arguments] or [10_000, 100_000]:
        feeds = {"X": np.random.default_rng(1).normal(size=(rows, FEATURES)).astype(np.float32)}
        for trees, depth in SIZES:
            model = full_trees(trees, depth)
            session = onnxruntime.InferenceSession(model.SerializeToString(), options)
            # the engine's first calls are compiled while they run
            repeats = max(2, min(30, 10_000_000 // (rows * trees)))
            theirs = least_seconds(lambda: session.run(None, feeds), repeats)  # noqa: B023  called at once
            with ScoringFunction(import_model(model)) as function:
                ours = least_seconds(lambda: function(feeds), repeats)  # noqa: B023
            print(f"{rows:>8} {trees:>6} {depth:>6} {ours:>9.3f} {theirs:>14.4f} {ours / theirs:>6.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
