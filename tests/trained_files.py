"""What a program that trains wrote, and the steps of SystemDS's optimizers in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.engine.matrix_files import read_matrix

Array = np.ndarray[Any, np.dtype[Any]]


def trained_weights(folder: Path, names: Sequence[str]) -> dict[str, Array]:
    """The matrices of a list of weights, which are in the order of their names."""
    return {name: read_matrix(folder / "weights" / f"{place}_{name}") for place, name in enumerate(names)}


def after_steps(
    optimizer: str, weights: Mapping[str, Array], gradients: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    rate: float | Array, steps: int, decay: float = 0.01,
) -> dict[str, Array]:
    """The weights after some steps. gradients: by name, for the weights before a step. decay: of adamw."""
    rates = np.broadcast_to(rate, steps)
    found = {name: np.asarray(array, dtype=float) for name, array in weights.items()}
    states = {name: (np.zeros_like(array), np.zeros_like(array)) for name, array in found.items()}
    for step in range(steps):
        for name, gradient in gradients(dict(found)).items():
            found[name], *both = _one(optimizer, found[name], gradient, rates[step], step + 1, *states[name], decay)
            states[name] = both[0], both[1]
    return found


def _one(
    optimizer: str, x: Array, g: Array, rate: float, t: int, first: Array, second: Array, decay: float
) -> tuple[Array, Array, Array]:
    if optimizer == "sgd":
        return x - rate * g, first, second
    if optimizer == "sgd_momentum":
        first = 0.9 * first - rate * g
        return x + first, first, second
    if optimizer == "sgd_nesterov":
        velocity = 0.9 * first - rate * g
        return x - 0.9 * first + 1.9 * velocity, velocity, second
    if optimizer == "rmsprop":
        second = 0.99 * second + 0.01 * g**2
        return x - rate * g / (np.sqrt(second) + 1e-8), first, second
    if optimizer == "adagrad":
        second = second + g**2
        return x - rate * g / (np.sqrt(second) + 1e-6), first, second
    first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
    if optimizer == "adam":
        return x - rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * first / (np.sqrt(second) + 1e-8), first, second
    change = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    return x - rate * (change + decay * x), first, second
