"""What onnxruntime's quantisers and optimisers make of networks: it converts, and gives onnxruntime's numbers.

Weights have 7 bits (``reduce_range``), so that its kernels do not saturate sums on processors without VNNI.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_dynamic,
    quantize_static,
)

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.scoring import ScoringFunction
from tests.models.small_networks import Feeds, Network, convolutional, recurrent, transformer

NETWORKS = {"convolutional": convolutional, "transformer": transformer, "recurrent": recurrent}
U8, S8 = QuantType.QUInt8, QuantType.QInt8
DYNAMIC = [(weight, per_channel) for weight in (S8, U8) for per_channel in (False, True)]
STATIC = [(form, *types, per_channel) for form in (QuantFormat.QDQ, QuantFormat.QOperator)
          for types, per_channel in [((U8, S8), True), ((U8, U8), False), ((S8, S8), False), ((S8, S8), True)]]  # fmt: skip
LEVELS = ["DISABLE_ALL", "ENABLE_EXTENDED", "ENABLE_ALL"]


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Four sets of inputs."""

    def __init__(self, network: Network) -> None:
        self._feeds: Iterator[Feeds] = iter([network.feeds(seed) for seed in range(4)])

    def get_next(self) -> Feeds | None:
        """The next one."""
        return next(self._feeds, None)


@pytest.fixture(scope="module", params=list(NETWORKS))
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Network, Path]:
    """A network, and the file of it that is ready to be quantised."""
    logging.disable(logging.WARNING)
    made = NETWORKS[request.param]()
    folder = tmp_path_factory.mktemp(request.param)
    onnx.save(made.model, folder / "float.onnx")
    quant_pre_process(str(folder / "float.onnx"), str(folder / "ready.onnx"), skip_symbolic_shape=True)
    return made, folder / "ready.onnx"


def optimised(source: Path, level: str) -> Path:
    """The file that onnxruntime writes after its optimisations."""
    target = source.with_name(f"{source.stem}-{level}.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return target


def expected(path: Path, feeds: Feeds) -> np.ndarray[Any, Any]:
    """The output of onnxruntime, which runs the model as it is, on one thread."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def check(network: Network, path: Path, tolerance: float) -> None:
    """Convert and compare."""
    with ScoringFunction(import_model(path)) as function:
        feeds = network.feeds(7)
        np.testing.assert_allclose(function(feeds)["y"], expected(path, feeds), rtol=0, atol=tolerance)


def has_blocks(path: Path) -> bool:
    """Whether the model was laid out for this processor."""
    return any(node.domain == "com.microsoft.nchwc" for node in onnx.load(path).graph.node)


def check_levels(network: Network, path: Path, tolerances: dict[str, float]) -> None:
    """At all levels of optimisation."""
    for level in LEVELS:
        model = path if level == "DISABLE_ALL" else optimised(path, level)
        if has_blocks(model):
            with pytest.raises(TranspileError, match="lie in blocks for the processor"):
                import_model(model)
            continue
        check(network, model, tolerances.get(level, 1e-6))


@pytest.mark.parametrize(("weight", "per_channel"), DYNAMIC)
def test_dynamic(network: tuple[Network, Path], weight: QuantType, per_channel: bool) -> None:
    made, source = network
    target = source.with_name(f"dynamic-{weight.name}-{per_channel}.onnx")
    quantize_dynamic(source, target, weight_type=weight, per_channel=per_channel, reduce_range=True)
    check_levels(made, target, {})


@pytest.mark.parametrize(("form", "activation", "weight", "per_channel"), STATIC)
def test_static(
    network: tuple[Network, Path], form: QuantFormat, activation: QuantType, weight: QuantType, per_channel: bool
) -> None:
    made, source = network
    target = source.with_name(f"static-{form.name}-{activation.name}-{weight.name}-{per_channel}.onnx")
    quantize_static(source, target, Calibration(made), quant_format=form, activation_type=activation,
                    weight_type=weight, per_channel=per_channel, reduce_range=True)  # fmt: skip
    # between quantisers onnxruntime computes in FP32, we in FP64: then a tie may fall to the other side
    check_levels(made, target, {"DISABLE_ALL": 0.03} if form == QuantFormat.QDQ else {})


@pytest.mark.parametrize("level", ["ENABLE_EXTENDED", "ENABLE_ALL"])
def test_float(network: tuple[Network, Path], level: str) -> None:
    made, source = network
    path = optimised(source, level)
    if not has_blocks(path):
        check(made, path, 1e-5)
