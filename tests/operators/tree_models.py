"""Random tree ensembles as the attributes of the tree operators, and data that meets their thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES = 5

Array = np.ndarray[Any, np.dtype[Any]]


def data(rows: int, seed: int = 0, dtype: str = "float32", special: bool = True) -> Array:
    """Rows of small numbers, many of which are thresholds; with NaN and infinities."""
    generator = np.random.default_rng(seed)
    found = generator.integers(-3, 4, (rows, FEATURES)) + generator.choice([0.0, 0.0, 0.25], (rows, FEATURES))
    if special and rows > 1 and np.dtype(dtype).kind == "f":
        found = np.where(generator.random(found.shape) < 0.1, np.nan, found)
        found[0], found[1] = np.inf, -np.inf
    return found.astype(dtype)


def listed(
    prefix: str, trees: int, depth: int, ids: int, *, seed: int = 0, modes: Any = MODES, double: bool = False,
    missing: bool = True, only: Any = None, positive: bool = False, complete: bool = True,
) -> dict[str, Any]:
    """Attributes of versions 1 and 3 without the transform and the labels.

    ids: number of targets or classes; only: those that get weights. complete: each leaf has a weight for each of them.
    """
    generator = np.random.default_rng(seed)
    nodes: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                              "missing_value_tracks_true")
    }
    weights: list[tuple[int, int, int, float]] = []
    used = list(range(ids)) if only is None else list(only)

    def grow(tree: int, level: int) -> int:
        number = nodes["treeids"].count(tree)
        place = len(nodes["treeids"])
        leaf = level == depth or (level > 0 and generator.random() < 0.2)
        values = (tree, number, int(generator.integers(FEATURES)), str(generator.choice(modes)),
                  float(generator.integers(-3, 4)) + 0.5 * float(generator.random() < 0.3), 0, 0,
                  int(missing and generator.random() < 0.5))
        for column, value in zip(nodes.values(), values):
            column.append(value)
        if leaf:
            nodes["modes"][place] = "LEAF"
            kept = used if complete else [use for use in used if generator.random() < 0.6]
            for target in kept:
                value = float(np.float32(generator.normal()))
                weights.append((tree, number, target, abs(value) / trees if positive else value))
        else:
            nodes["truenodeids"][place] = grow(tree, level + 1)
            nodes["falsenodeids"][place] = grow(tree, level + 1)
        return number

    for tree in range(trees):
        grow(tree, 0)
    if not missing:
        del nodes["missing_value_tracks_true"]
    found: dict[str, Any] = {f"nodes_{name}": column for name, column in nodes.items()}
    for name, column in zip(("treeids", "nodeids", "ids", "weights"), zip(*weights)):
        found[f"{prefix}_{name}"] = list(column)
    if double:
        for name in ("nodes_values", f"{prefix}_weights"):
            numbers = found.pop(name)
            found[f"{name}_as_tensor"] = helper.make_tensor(name, TensorProto.DOUBLE, [len(numbers)], numbers)
    return found


def split(trees: int, depth: int, targets: int, *, seed: int = 0, dtype: int = TensorProto.FLOAT,
          members: bool = True, missing: bool = True) -> dict[str, Any]:
    """Attributes of version 5 without function and transform; some nodes test membership."""
    generator = np.random.default_rng(seed)
    nodes: list[list[Any]] = []
    leaves: list[tuple[int, float]] = []
    sets: dict[int, list[float]] = {}

    def child(level: int) -> tuple[int, int]:
        if level == depth or generator.random() < 0.2:
            leaves.append((int(generator.integers(targets)), float(np.float32(generator.normal()))))
            return len(leaves) - 1, 1
        return grow(level), 0

    def grow(level: int) -> int:
        place = len(nodes)
        mode = int(generator.integers(7 if members else 6))
        nodes.append([])
        if mode == 6:
            choice = generator.permutation(np.arange(0, 4))[: int(generator.integers(1, 4))]
            sets[place] = [float(member) for member in choice]
        true, false = child(level + 1), child(level + 1)
        nodes[place] = [mode, int(generator.integers(FEATURES)), float(generator.integers(-3, 4)), *true, *false,
                        int(missing and generator.random() < 0.5)]
        return place

    roots = [grow(0) for _ in range(trees)]
    columns = list(zip(*nodes))
    listed_sets = [value for place in sorted(sets) for value in [*sets[place], float("nan")]]
    found: dict[str, Any] = {
        "n_targets": targets,
        "tree_roots": roots,
        "nodes_modes": helper.make_tensor("modes", TensorProto.UINT8, [len(nodes)], columns[0]),
        "nodes_featureids": columns[1],
        "nodes_splits": helper.make_tensor("splits", dtype, [len(nodes)], columns[2]),
        "nodes_truenodeids": columns[3], "nodes_trueleafs": columns[4],
        "nodes_falsenodeids": columns[5], "nodes_falseleafs": columns[6],
        "nodes_missing_value_tracks_true": columns[7],
        "leaf_targetids": [leaf[0] for leaf in leaves],
        "leaf_weights": helper.make_tensor("weights", dtype, [len(leaves)], [leaf[1] for leaf in leaves]),
    }
    if sets:
        found["membership_values"] = helper.make_tensor("members", dtype, [len(listed_sets)], listed_sets)
    return found
