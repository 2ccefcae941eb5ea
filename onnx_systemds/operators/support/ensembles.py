"""Tree ensembles as their attributes say: of ai.onnx.ml's tree operators, in one form for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.model.ir import Array

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
NEVER, SOMETIMES, ALWAYS = range(3)


@dataclass(frozen=True)
class Ensemble:
    """Trees whose nodes are numbered over all trees, and what their leaves give.

    mode: numbers as in `MODES`. yes, no: the node next when the condition holds or not. missing: whether NaN takes
    the branch ``yes`` in any case. members: sets by node. weights: triples of leaf node, target, value in three arrays.
    """

    mode: Array
    feature: Array
    threshold: Array
    yes: Array
    no: Array
    missing: Array
    members: Mapping[int, Array]
    roots: Array
    weight_nodes: Array
    weight_targets: Array
    weight_values: Array
    targets: int


def _integers(attributes: Mapping[str, Any], name: str) -> Array:
    return np.asarray(attributes.get(name) or (), dtype=np.int64)


def _numbers(attributes: Mapping[str, Any], name: str) -> Array:
    """Floats of a list attribute or of the tensor attribute of the same name with the suffix ``_as_tensor``."""
    found = attributes.get(name)
    if found is None or len(found) == 0:
        found = attributes.get(f"{name}_as_tensor")
    else:
        found = np.asarray(found, dtype=np.float32)
    return np.asarray(() if found is None else found, dtype=np.float64).ravel()


def base_values(attributes: Mapping[str, Any]) -> Array:
    """The base values in either form."""
    return _numbers(attributes, "base_values")


def listed_ensemble(attributes: Mapping[str, Any], prefix: str, targets: int) -> Ensemble:
    """Trees given node by node (versions 1 and 3); prefix: "target" or "class". Raises UnsupportedCase."""
    modes = [_mode(text) for text in attributes.get("nodes_modes") or ()]
    count = len(modes)
    trees, ids = _integers(attributes, "nodes_treeids"), _integers(attributes, "nodes_nodeids")
    yes, no = _integers(attributes, "nodes_truenodeids"), _integers(attributes, "nodes_falsenodeids")
    feature, threshold = _integers(attributes, "nodes_featureids"), _numbers(attributes, "nodes_values")
    if not count or any(len(column) != count for column in (trees, ids, yes, no, feature, threshold)):
        raise UnsupportedCase("the lists of nodes are empty or differ in length")
    number = {place: position for position, place in enumerate(zip(trees.tolist(), ids.tolist()))}
    if len(number) != count:
        raise UnsupportedCase("a node is listed twice")
    mode = np.array(modes)
    inner = mode != LEAF

    def numbered(tree_ids: Array, node_ids: Array) -> Array:
        try:
            places = [number[place] for place in zip(tree_ids.tolist(), node_ids.tolist())]
        except KeyError as missing:
            raise UnsupportedCase(f"tree {missing.args[0][0]} has no node {missing.args[0][1]}") from None
        return np.array(places, dtype=np.int64)

    children = np.zeros((2, count), dtype=np.int64)
    children[0, inner] = numbered(trees[inner], yes[inner])
    children[1, inner] = numbered(trees[inner], no[inner])
    nodes, values = _integers(attributes, f"{prefix}_nodeids"), _numbers(attributes, f"{prefix}_weights")
    ids_of_targets = _integers(attributes, f"{prefix}_ids")
    tree_ids = _integers(attributes, f"{prefix}_treeids")
    if not len(nodes) == len(values) == len(ids_of_targets) == len(tree_ids):
        raise UnsupportedCase("the lists of weights differ in length")
    leaves = numbered(tree_ids, nodes)
    counted = _counted_weights(leaves, targets)
    return _checked(Ensemble(
        mode, feature, threshold, children[0], children[1], _missing(attributes, count), {},
        np.flatnonzero(np.diff(trees, prepend=trees[0] - 1)),  # the first node listed of each tree
        leaves[counted], ids_of_targets[counted], values[counted], targets,
    ))


def _counted_weights(leaves: Array, targets: int) -> Array:
    """The positions of the weights that count, where their ``leaves`` may have several.

    For a single target onnxruntime takes the first one of each leaf, where ONNX's reference adds them up. skl2onnx
    relies on that: it repeats a leaf for each class, also where it asks for nothing but the number of the leaf.
    """
    return np.sort(np.unique(leaves, return_index=True)[1]) if targets == 1 else np.arange(len(leaves))


def split_ensemble(attributes: Mapping[str, Any]) -> Ensemble:
    """Trees with leaves listed apart from the branches (version 5). Raises UnsupportedCase."""
    mode = np.asarray(attributes["nodes_modes"]).astype(np.int64).ravel()
    count = len(mode)
    leaf_targets = _integers(attributes, "leaf_targetids")
    leaves = len(leaf_targets)
    weights = np.asarray(attributes["leaf_weights"], dtype=np.float64).ravel()
    threshold = np.asarray(attributes["nodes_splits"], dtype=np.float64).ravel()
    feature, roots = _integers(attributes, "nodes_featureids"), _integers(attributes, "tree_roots")
    children = []
    for side in ("true", "false"):
        child, leaf = _integers(attributes, f"nodes_{side}nodeids"), _integers(attributes, f"nodes_{side}leafs")
        if not len(child) == len(leaf) == count == len(feature) == len(threshold) or len(weights) != leaves:
            raise UnsupportedCase("the lists of nodes or of leaves differ in length")
        if np.any(child < 0) or np.any(child >= np.where(leaf != 0, leaves, count)):
            raise UnsupportedCase("a branch leads to a node that does not exist")
        children.append(np.concatenate([np.where(leaf != 0, child + count, child), np.zeros(leaves, np.int64)]))
    if np.any(roots < 0) or np.any(roots >= count) or np.any(mode > MEMBER):
        raise UnsupportedCase("a root or the mode of a node does not exist")
    sets = _member_sets(attributes, np.flatnonzero(mode == MEMBER))
    blank = np.zeros(leaves)
    return _checked(Ensemble(
        np.concatenate([mode, np.full(leaves, LEAF)]), np.concatenate([feature, blank.astype(np.int64)]),
        np.concatenate([threshold, blank]), children[0], children[1],
        np.concatenate([_missing(attributes, count), blank.astype(bool)]), sets, roots,
        np.arange(count, count + leaves), leaf_targets, weights, int(attributes["n_targets"]),
    ))


def _mode(text: str) -> int:
    if text not in MODES or text == "BRANCH_MEMBER":
        raise UnsupportedCase(f"the mode {text!r} of a node is unknown")
    return MODES.index(text)


def _missing(attributes: Mapping[str, Any], count: int) -> Array:
    """Whether NaN takes the true branch; the list may be shorter than the nodes."""
    listed = _integers(attributes, "nodes_missing_value_tracks_true")[:count] == 1
    return np.concatenate([listed, np.zeros(count - len(listed), dtype=bool)])


def _member_sets(attributes: Mapping[str, Any], nodes: Array) -> dict[int, Array]:
    """The sets of the nodes that test membership, which are listed one after the other with NaN after each."""
    values = attributes.get("membership_values")
    listed = np.asarray(() if values is None else values, dtype=np.float64).ravel()
    parts = np.split(listed, np.flatnonzero(np.isnan(listed)))
    sets = [part[~np.isnan(part)] for part in parts]
    if len(sets) < len(nodes):
        raise UnsupportedCase("there are fewer sets of members than nodes that test membership")
    return dict(zip(nodes.tolist(), sets))


def _checked(ensemble: Ensemble) -> Ensemble:
    """The ensemble itself. Raises UnsupportedCase for what no walk gives a meaning."""
    inner = ensemble.mode != LEAF
    compared = inner & (ensemble.mode != MEMBER)
    if np.isnan(ensemble.threshold[compared]).any():
        raise UnsupportedCase("a threshold is NaN")
    if not np.isfinite(ensemble.weight_values).all():
        raise UnsupportedCase("a weight is infinite or NaN")
    if (ensemble.feature[inner] < 0).any():
        raise UnsupportedCase("the number of a feature is negative")
    targets = ensemble.weight_targets
    if len(targets) and not (targets.min() >= 0 and targets.max() < ensemble.targets):
        raise UnsupportedCase("a weight is for a target that does not exist")
    return ensemble


def target_presence(ensemble: Ensemble) -> list[int]:
    """For each target whether the leaves that a row reaches give it a weight: `NEVER`, `SOMETIMES` or `ALWAYS`."""
    tree = np.full(len(ensemble.mode), -1)
    tree[ensemble.roots] = np.arange(len(ensemble.roots))
    front = ensemble.roots
    while len(front := front[ensemble.mode[front] != LEAF]):
        children = np.concatenate([ensemble.yes[front], ensemble.no[front]])
        tree[children] = np.tile(tree[front], 2)
        front = np.unique(children)
    leaf = (ensemble.mode == LEAF) & (tree >= 0)
    leaves = np.bincount(tree[leaf], minlength=len(ensemble.roots))
    used = leaf[ensemble.weight_nodes]
    pairs = np.unique(np.stack([ensemble.weight_targets[used], ensemble.weight_nodes[used]]), axis=1)
    found = []
    for target in range(ensemble.targets):
        nodes = pairs[1, pairs[0] == target]
        whole = np.bincount(tree[nodes], minlength=len(leaves)) == leaves
        found.append(ALWAYS if whole.any() and len(nodes) else SOMETIMES if len(nodes) else NEVER)
    return found
