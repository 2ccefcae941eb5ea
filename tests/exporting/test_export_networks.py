"""The networks of scripts/nn/networks in inference mode: equal to the engine, and clean graphs."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import Array, ExportCase, check_export, run_model

RNG = np.random.default_rng(5)
BASES, STRIDES = (64, 128, 256, 512), (1, 2, 2, 2)
RESNETS = {
    "resnet18": ("basic", (2, 2, 2, 2), 20),
    "resnet34": ("basic", (3, 4, 6, 3), 36),
    "resnet50": ("bottleneck", (3, 4, 6, 3), 53),
    "resnet101": ("bottleneck", (3, 4, 23, 3), 104),
    "resnet152": ("bottleneck", (3, 8, 36, 3), 155),
}


def filters(count: int, channels: int, size: int) -> Array:
    return RNG.normal(size=(count, channels * size * size)) * np.sqrt(2 / (channels * size * size))


def norm(channels: int) -> tuple[list[Array], list[Array]]:
    """Scale and shift, moving mean and variance."""
    column = (channels, 1)
    return ([RNG.uniform(0.5, 1.5, column), RNG.normal(size=column) * 0.1],
            [RNG.normal(size=column) * 0.1, RNG.uniform(0.5, 1.5, column)])  # fmt: skip


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


def as_text(value: Any, arrays: dict[str, Array]) -> str:
    """The DML text of a nested list; its matrices become inputs."""
    if isinstance(value, list):
        return f"list({', '.join(as_text(item, arrays) for item in value)})"
    name = f"w{len(arrays)}"
    arrays[name] = value
    return name


ONE_BLOCK = 'net::resnet_forward(X, 32, 32, "bottleneck", list(1, 1, 1, 1), M, "test", E)'


@pytest.mark.parametrize(("script", "kind", "sizes", "call"), [
    ("resnet18", "basic", (2, 2, 2, 2), 'net::forward(X, 32, 32, M, "test", E)'),
    ("resnet", "bottleneck", (1, 1, 1, 1), ONE_BLOCK),
])  # fmt: skip
def test_resnet_agrees_with_the_engine(script: str, kind: str, sizes: tuple[int, ...], call: str) -> None:
    arrays: dict[str, Array] = {}
    texts = [as_text(part, arrays) for part in resnet(kind, sizes)]
    image = RNG.normal(size=(2, 3 * 32 * 32))
    check_export(ExportCase(script, f"M = {texts[0]}\nE = {texts[1]}\n[Y, a, b, c] = {call}", {"X": image, **arrays},
                            bound=tuple(arrays), symbols={"X": ["N", 3, 32, 32]}, sizes=[{"X": image[:1]}],
                            sources={"net": f"nn/networks/{script}.dml"}, dtypes=["float32"]))  # fmt: skip


@pytest.mark.parametrize("name", RESNETS)
def test_resnets_are_clean_graphs(name: str) -> None:
    kind, sizes, convolutions = RESNETS[name]
    model, moving = resnet(kind, sizes)
    began = time.process_time()
    found = export_script(
        f"scripts/nn/networks/{name}.dml", "forward", inputs={"X": "double[N,3,32,32]"}, outputs=["out"],
        bindings={"model": model, "ema_means_vars": moving, "Hin": 32, "Win": 32, "mode": "test"},
    )  # fmt: skip
    assert time.process_time() - began < 20
    counts = Counter(node.op_type for node in found.graph.node)
    assert counts.pop("Relu") == sum(sizes) * (2 if kind == "basic" else 3) + 1
    assert counts == {"Conv": convolutions, "Add": sum(sizes), "MaxPool": 1, "AveragePool": 1, "Reshape": 1, "Gemm": 1}
    scores = run_model(found, {"X": RNG.normal(size=(2, 3, 32, 32))})["out"]
    assert scores.shape == (2, 5) and np.isfinite(scores).all()


@pytest.mark.parametrize(("call", "normalized"), [("[Y, c] = net::forward", False), ("[Y, c, e] = net::forward_with_bn", True)])
def test_alexnet_agrees_with_the_engine(call: str, normalized: bool) -> None:
    shapes = [(96, 3, 11), (256, 96, 5), (384, 256, 3), (384, 384, 3), (256, 384, 3)]
    model: list[Any] = []
    for shape in shapes:
        model += [filters(*shape), RNG.normal(size=(shape[0], 1)) * 0.1]
        if normalized:
            weights, averages = norm(shape[0])
            model += weights + averages
    for inside, outside in ((256, 32), (32, 16), (16, 4)):
        model += [RNG.normal(size=(inside, outside)) / np.sqrt(inside), RNG.normal(size=(1, outside)) * 0.1]
    arrays: dict[str, Array] = {}
    body = f'M = {as_text(model, arrays)}\n{call}(X, 3, 67, 67, M, "test", 0.5)'
    check_export(ExportCase("alexnet", body, {"X": RNG.normal(size=(2, 3 * 67 * 67)), **arrays}, bound=tuple(arrays),
                            sources={"net": "nn/networks/alexnet.dml"}, dtypes=["float32"]))  # fmt: skip
