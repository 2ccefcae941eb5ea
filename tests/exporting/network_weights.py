"""Random weights for the networks of SystemDS, in the lists that their scripts expect."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.exporting.export_harness import Array

RNG = np.random.default_rng(5)
BASES, STRIDES = (64, 128, 256, 512), (1, 2, 2, 2)


def numbers(*shape: int) -> Array:
    return RNG.normal(size=shape)


def filters(count: int, channels: int, size: int) -> Array:
    return numbers(count, channels * size * size) * np.sqrt(2 / (channels * size * size))


def norm(channels: int) -> tuple[list[Array], list[Array]]:
    """Scale and shift, moving mean and variance."""
    column = (channels, 1)
    return ([RNG.uniform(0.5, 1.5, column), RNG.normal(size=column) * 0.1],
            [RNG.normal(size=column) * 0.1, RNG.uniform(0.5, 1.5, column)])


def resnet(kind: str, sizes: tuple[int, ...], classes: int = 5) -> tuple[list[Any], list[Any]]:
    """Weights and moving averages as nested lists, like those of resnet.dml."""
    weights, averages = norm(64)
    model: list[Any] = [filters(64, 3, 7), *weights]
    moving: list[Any] = [*averages]
    channels = 64
    for base, stride, blocks in zip(BASES, STRIDES, sizes):
        layer, layer_moving = [], []
        for block in range(blocks):
            wide = base if kind == "basic" else 4 * base
            shapes = [(base, channels, 3), (base, base, 3)]
            if kind != "basic":
                shapes = [(base, channels, 1), (base, base, 3), (wide, base, 1)]
            if block == 0 and (kind != "basic" or stride > 1):
                shapes.append((wide, channels, 1))
            own, own_moving = [], []
            for shape in shapes:
                weights, averages = norm(shape[0])
                own += [filters(*shape), *weights]
                own_moving += averages
            channels = wide
            layer.append(own)
            layer_moving.append(own_moving)
        model.append(layer)
        moving.append(layer_moving)
    model += [RNG.normal(size=(channels, classes)) * 0.05, RNG.normal(size=(1, classes))]
    return model, moving


def dense(*sizes: int) -> list[Array]:
    """Weights and bias of the layers between `sizes`."""
    return [array for inside, outside in itertools.pairwise(sizes)
            for array in (numbers(inside, outside) / np.sqrt(inside), numbers(1, outside) * 0.1)]


def convolution(count: int, channels: int, size: int, normalized: bool = False) -> list[Array]:
    """Filters and bias, and what a normalization after it needs."""
    scales, averages = norm(count)
    return [filters(count, channels, size), numbers(count, 1) * 0.1, *(scales + averages if normalized else [])]


def alexnet(normalized: bool) -> list[Array]:
    """The weights of alexnet.dml for images of 67 x 67 and four classes."""
    shapes = [(96, 3, 11), (256, 96, 5), (384, 256, 3), (384, 384, 3), (256, 384, 3)]
    return [*itertools.chain(*(convolution(*shape, normalized) for shape in shapes)), *dense(256, 32, 16, 4)]


def as_text(value: Any, arrays: dict[str, Array]) -> str:
    """The DML text of a nested list; its matrices become inputs."""
    if isinstance(value, list):
        return f"list({', '.join(as_text(item, arrays) for item in value)})"
    name = f"w{len(arrays)}"
    arrays[name] = value
    return name
