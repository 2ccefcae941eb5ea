"""What onnxruntime's quantisers and optimisers make of networks: it converts, and gives onnxruntime's numbers.

Weights have 7 bits (``reduce_range``), so that its kernels do not saturate sums on processors without VNNI.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
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
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_failures import all_failures
from tests.models.small_networks import Feeds, Network, convolutional, recurrent, transformer
from tests.plain_engine import scored_together

NETWORKS = {"convolutional": convolutional, "transformer": transformer, "recurrent": recurrent}
U8, S8 = QuantType.QUInt8, QuantType.QInt8
DYNAMIC = [(S8, True), (U8, False)]
FORMS = [
    (QuantFormat.QDQ, U8, S8, True), (QuantFormat.QDQ, S8, S8, False),
    (QuantFormat.QOperator, S8, S8, True), (QuantFormat.QOperator, U8, U8, False),
]
# each writes other operators for convolutions; for the one product after the LSTM two are enough
STATIC = {"convolutional": FORMS, "transformer": FORMS[:3], "recurrent": [FORMS[0], FORMS[2]]}


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Four sets of inputs."""

    def __init__(self, network: Network) -> None:
        self._feeds: Iterator[Feeds] = iter([network.feeds(seed) for seed in range(4)])

    def get_next(self) -> Feeds | None:
        """The next one."""
        return next(self._feeds, None)


@pytest.fixture(scope="module")
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


def check(network: Network, tolerances: Mapping[Path, float]) -> None:
    """Convert models and compare, in a session."""
    feeds = network.feeds(7)
    for path, tolerance in tolerances.items():
        with ScoringFunction(import_model(path)) as function:
            agree(function(feeds), path, feeds, tolerance)


def agree(outputs: Mapping[str, Any], path: Path, feeds: Feeds, tolerance: float) -> None:
    """The output is that of onnxruntime."""
    np.testing.assert_allclose(outputs["y"], expected(path, feeds), rtol=0, atol=tolerance)


def has_blocks(path: Path) -> bool:
    """Whether the model was laid out for this processor."""
    return any(node.domain == "com.microsoft.nchwc" for node in onnx.load(path).graph.node)


def nodes(path: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """What a model computes with, in some order: the operators and their attributes."""
    graph = onnx.load(path).graph
    return sorted((node.domain, node.op_type, tuple(sorted(map(str, node.attribute)))) for node in graph.node)


def levels(path: Path, tolerance: float = 1e-6) -> dict[Path, float]:
    """The model as it is, and optimised where that changes it, as far as that does not bind it to this processor.

    Each with the tolerance of its output.
    """
    better = portable(path)
    return {path: tolerance} if nodes(better) == nodes(path) else {path: tolerance, better: 1e-6}


def portable(path: Path) -> Path:
    """The model at the highest level of optimisation whose layout is that of ONNX."""
    model = optimised(path, "ENABLE_ALL")
    if not has_blocks(model):
        return model
    with pytest.raises(TranspileError, match="lie in blocks for the processor"):
        import_model(model)
    return optimised(path, "ENABLE_EXTENDED")


def dynamic(source: Path, weight: QuantType, per_channel: bool) -> dict[Path, float]:
    """The model whose ranges are found at run time, at its levels."""
    target = source.with_name(f"dynamic-{weight.name}-{per_channel}.onnx")
    quantize_dynamic(source, target, weight_type=weight, per_channel=per_channel, reduce_range=True)
    return levels(target)


def static(made: Network, source: Path, form: QuantFormat, activation: QuantType, weight: QuantType,
           per_channel: bool) -> dict[Path, float]:
    """The model whose ranges are those of the calibration, at its levels."""
    target = source.with_name(f"static-{form.name}-{activation.name}-{weight.name}-{per_channel}.onnx")
    quantize_static(source, target, Calibration(made), quant_format=form, activation_type=activation,
                    weight_type=weight, per_channel=per_channel, reduce_range=True)
    # between quantisers onnxruntime computes in FP32, we in FP64: then a tie may fall to the other side
    return levels(target, 0.03 if form == QuantFormat.QDQ else 1e-6)


@pytest.mark.parametrize("network", NETWORKS, indirect=True)
@pytest.mark.parametrize(("weight", "per_channel"), DYNAMIC)
def test_dynamic(network: tuple[Network, Path], weight: QuantType, per_channel: bool) -> None:
    made, source = network
    check(made, dynamic(source, weight, per_channel))


@pytest.mark.parametrize(
    ("network", "form", "activation", "weight", "per_channel"),
    [(name, *form) for name, forms in STATIC.items() for form in forms],
    indirect=["network"],
)
def test_static(
    network: tuple[Network, Path], form: QuantFormat, activation: QuantType, weight: QuantType, per_channel: bool
) -> None:
    made, source = network
    check(made, static(made, source, form, activation, weight, per_channel))


@pytest.mark.parametrize("network", NETWORKS, indirect=True)
def test_float(network: tuple[Network, Path]) -> None:
    made, source = network
    check(made, {portable(source): 1e-5})


@pytest.mark.parametrize(("network", "forms"), STATIC.items(), indirect=["network"], ids=STATIC)
def test_all_on_the_plain_command_line(network: tuple[Network, Path], forms: list[Any]) -> None:
    made, source = network
    feeds, tolerances = made.feeds(7), {portable(source): 1e-5}
    for parameters in DYNAMIC:
        tolerances |= dynamic(source, *parameters)
    for parameters in forms:
        tolerances |= static(made, source, *parameters)
    results = scored_together({path.name: (import_model(path), [feeds]) for path in tolerances})
    with all_failures() as case:
        for path, tolerance in tolerances.items():
            (outputs,) = results[path.name]
            with case(path.name):
                agree(outputs, path, feeds, tolerance)
