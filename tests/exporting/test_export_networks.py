"""The networks of scripts/nn/networks in inference mode: equal to the engine, and clean graphs."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest

from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import Array, ExportCase, check_export, run_model
from tests.exporting.network_weights import alexnet, as_text, numbers, resnet

RESNETS = {
    "resnet18": ("basic", (2, 2, 2, 2), 20),
    "resnet34": ("basic", (3, 4, 6, 3), 36),
    "resnet50": ("bottleneck", (3, 4, 6, 3), 53),
    "resnet101": ("bottleneck", (3, 4, 23, 3), 104),
    "resnet152": ("bottleneck", (3, 8, 36, 3), 155),
}


ONE_BLOCK = 'net::resnet_forward(X, 32, 32, "bottleneck", list(1, 1, 1, 1), M, "test", E)'


@pytest.mark.parametrize(("script", "kind", "sizes", "call"), [
    ("resnet18", "basic", (2, 2, 2, 2), 'net::forward(X, 32, 32, M, "test", E)'),
    ("resnet", "bottleneck", (1, 1, 1, 1), ONE_BLOCK),
])
def test_resnet_agrees_with_the_engine(script: str, kind: str, sizes: tuple[int, ...], call: str) -> None:
    arrays: dict[str, Array] = {}
    texts = [as_text(part, arrays) for part in resnet(kind, sizes)]
    image = numbers(2, 3 * 32 * 32)
    check_export(ExportCase(script, f"M = {texts[0]}\nE = {texts[1]}\n[Y, a, b, c] = {call}", {"X": image, **arrays},
                            bound=tuple(arrays), symbols={"X": ["N", 3, 32, 32]}, sizes=[{"X": image[:1]}],
                            sources={"net": f"nn/networks/{script}.dml"}, dtypes=["float32"]))


@pytest.mark.slow("up to 152 layers")
@pytest.mark.parametrize("name", RESNETS)
def test_resnets_are_clean_graphs(name: str) -> None:
    kind, sizes, convolutions = RESNETS[name]
    model, moving = resnet(kind, sizes)
    began = time.process_time()
    found = export_script(
        f"scripts/nn/networks/{name}.dml", "forward", inputs={"X": "double[N,3,32,32]"}, outputs=["out"],
        bindings={"model": model, "ema_means_vars": moving, "Hin": 32, "Win": 32, "mode": "test"},
    )
    assert time.process_time() - began < 20
    counts = Counter(node.op_type for node in found.graph.node)
    assert counts.pop("Relu") == sum(sizes) * (2 if kind == "basic" else 3) + 1
    assert counts == {"Conv": convolutions, "Add": sum(sizes), "MaxPool": 1, "AveragePool": 1, "Reshape": 1, "Gemm": 1}
    scores = run_model(found, {"X": numbers(2, 3, 32, 32)})["out"]
    assert scores.shape == (2, 5) and np.isfinite(scores).all()


@pytest.mark.parametrize(("call", "normalized"), [("[Y, c] = net::forward", False), ("[Y, c, e] = net::forward_with_bn", True)])
def test_alexnet_agrees_with_the_engine(call: str, normalized: bool) -> None:
    arrays: dict[str, Array] = {}
    body = f'M = {as_text(alexnet(normalized), arrays)}\n{call}(X, 3, 67, 67, M, "test", 0.5)'
    check_export(ExportCase("alexnet", body, {"X": numbers(2, 3 * 67 * 67), **arrays}, bound=tuple(arrays),
                            sources={"net": "nn/networks/alexnet.dml"}, dtypes=["float32"]))
