"""What predicts in scripts/nn/examples of SystemDS: exported from its own files, and equal to the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.sources import jar_script, jar_scripts
from tests.exporting.export_harness import Array, ExportCase, assert_close, check_export, engine, run_engine, run_model
from tests.exporting.network_weights import RNG, alexnet, as_text, convolution, dense, filters, numbers, resnet

FOLDER = "scripts/nn/examples/"


def named(arrays: list[Array]) -> dict[str, Array]:
    """Weights and biases by their names W1, b1, W2 ..."""
    return {f"{'Wb'[i % 2]}{i // 2 + 1}": array for i, array in enumerate(arrays)}


def example(name: str, call: str, data: Array, weights: dict[str, Any], **more: Any) -> ExportCase:
    """A call of the functions of one example; a list of weights is written out."""
    arrays = {key: value for key, value in weights.items() if not isinstance(value, list)}
    lists = [f"{key} = {as_text(value, arrays)}" for key, value in weights.items() if isinstance(value, list)]
    return ExportCase(f"{name} {call.split('::')[1].split('(')[0]}", "\n".join([*lists, call]), {"X": data, **arrays},
                      bound=tuple(arrays), symbols={"X": ["N", data.shape[1]]}, sources={"net": f"nn/examples/{name}.dml"},
                      **{"dtypes": ["float32"], "sizes": [{"X": data[:1]}], **more})


LENET = named([*convolution(2, 1, 5), *convolution(3, 2, 5), *dense(3 * 4, 6, 4)])
WORDS = RNG.integers(1, 9, size=(3, 4)).astype(float)
ATTENTION = {"B": [numbers(1, 8), *(numbers(1, n) for n in (5, 1, 4, 8))],
             "W": [numbers(3 + 2, 8), numbers(4, 5), numbers(5, 1), numbers(9, 3), numbers(8, 4), numbers(8, 8)],
             "A": np.zeros((3, 12))}
EFFICIENT = [*convolution(32, 1, 3, True), *(numbers(1, 1) for _ in range(6)), *convolution(32, 1, 3, True),
             *convolution(8, 32, 1), *convolution(32, 8, 1), *convolution(16, 32, 1, True),
             *convolution(1280, 16, 1, True), *dense(1280, 5)]
UNET = [(2, 1, 3), (2, 2, 3), (4, 2, 3), (4, 4, 3), (8, 4, 3), (8, 8, 3), (16, 8, 3), (16, 16, 3), (32, 16, 3), (32, 32, 3),
        (32, 16, 2), (16, 32, 3), (16, 16, 3), (16, 8, 2), (8, 16, 3), (8, 8, 3), (8, 4, 2), (4, 8, 3), (4, 4, 3),
        (4, 2, 2), (2, 4, 3), (2, 2, 3), (3, 2, 1)]


def unet() -> list[Array]:
    """All filters, then all biases; those of transposed convolutions are inputs x outputs."""
    biases = [numbers(outside if size == 2 else count, 1) * 0.1 for count, outside, size in UNET]
    return [*(filters(*shape) for shape in UNET), *biases]


SHERLOCK = named(dense(6, 5, 4, 3))
CASES = [
    example("mnist_softmax", "Y = net::predict(X, W1, b1)", numbers(3, 12), named(dense(12, 4)),
            dtypes=["float64", "float32"], operators=["Gemm", "Softmax"]),
    example("mnist_lenet", "Y = net::predict(X, 1, 8, 8, W1, b1, W2, b2, W3, b3, W4, b4)", numbers(70, 64), LENET),
    example("mnist_lenet_distrib_sgd", "Y = net::predict(X, 1, 8, 8, W1, b1, W2, b2, W3, b3, W4, b4)", numbers(40, 64), LENET),
    example("efficientNet", "Y = net::netPredict(X, M, 1, 12, 12)", numbers(3, 144), {"M": EFFICIENT}),
    example("AttentionExample", "[Y, a, b, c, d, e, f, g, h, i, j, k] = net::predict(X, B, W, 4, 3, 2, A)", WORDS, ATTENTION),
    example("u-net", "Y = net::predict(X, 1, 188, 188, 2, M, 16, 3, 2)", numbers(3, 188 * 188), {"M": unet()}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_predict_of_an_example_agrees_with_the_engine(case: ExportCase) -> None:
    check_export(case)


LARGE = [
    ("mnist_resnet", "Y = net::predict(X, 64, 64, M, E)", 64, lambda: zip("ME", resnet("basic", (2, 2, 2, 2)))),
    ("imagenet_resnet", "Y = net::predict(X, 64, 64, M, E)", 64, lambda: zip("ME", resnet("bottleneck", (3, 4, 6, 3)))),
    ("imagenet_alexnet", "Y = net::predict(X, 3, 67, 67, M)", 67, lambda: [("M", alexnet(False))]),
    ("imagenet_alexnet", "Y = net::predict_with_bn(X, 3, 67, 67, M, list())", 67, lambda: [("M", alexnet(True))]),
]


@pytest.mark.parametrize(("name", "call", "side", "weights"), LARGE, ids=[row[0] + row[1][9:25] for row in LARGE])
def test_predict_of_large_weights_agrees_with_the_engine(
    name: str, call: str, side: int, weights: Callable[[], Iterable[tuple[str, Any]]]
) -> None:
    """The resnets predict in training mode: they normalize by the images themselves, ill-conditioned for one alone."""
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state
    images = numbers(4, 3 * side * side)
    check_export(example(name, call, images, dict(weights()), sizes=[{"X": images[:3]}], tolerance={"float32": 1e-3}))


def test_sherlock_is_exported_though_a_script_that_it_imports_is_missing(tmp_path) -> None:
    """Only its function `eval` needs it: the engine runs a copy without import and function."""
    original = jar_script(f"{FOLDER}sherlockNet.dml")
    assert original is not None
    copy = tmp_path / "sherlock.dml"
    kept = original.text.partition("eval = function")[0].splitlines(True)
    copy.write_text("".join(line for line in kept if "evaluation.dml" not in line))
    rows = numbers(130, 6)
    case = ExportCase("sherlockNet", "Y = net::predict(X, W1, b1, W2, b2, W3, b3)", {"X": rows, **SHERLOCK},
                      sources={"net": str(copy)})
    [expected] = run_engine(case, case.inputs)
    model = export_script(original, "predict", inputs={"test_val": "double[N,6]"}, bindings=SHERLOCK, dtype="float64")
    np.testing.assert_allclose(run_model(model, {"test_val": rows})["probs"], expected["Y"], rtol=1e-9)


@pytest.mark.parametrize(("name", "data", "weights", "arguments"), [
    ("mnist_softmax-predict", numbers(3, 12) * 50, {"W": numbers(12, 4), "b": numbers(1, 4)}, {}),
    ("mnist_lenet-predict", numbers(70, 64) * 50, LENET, {"C": 1, "Hin": 8, "Win": 8}),
])
def test_whole_script_agrees_with_the_engine(
    name: str, data: Array, weights: dict[str, Array], arguments: dict[str, int]
) -> None:
    original = jar_script(f"{FOLDER}{name}.dml")
    assert original is not None
    given = {**arguments, "X": "X", "model_dir": ".", "out_dir": "."}
    prepared = engine().prepare(original.text, ["X", *weights], ["probs"], args={k: str(v) for k, v in given.items()})
    expected = prepared({"X": data, **weights})["probs"]
    model = export_script(original, inputs={"X": f"double[N,{data.shape[1]}]"}, bindings=weights, arguments=given)
    assert_close(run_model(model, {"X": data})["probs"], expected, 1e-5, name)


NOT_IN_THE_JAR = "imports a script that SystemDS.jar does not hold"
TRAINS = "trains and gives no model"
MISSING = {
    "Example-EfficientNet": TRAINS,
    "Example-ImageNet_AlexNet_Optimizers": TRAINS,
    "Example-MNIST_2NN_Leaky_ReLu_Softmax": NOT_IN_THE_JAR,
    "Example-MNIST_Softmax": TRAINS,
    "Example-ResNet": TRAINS,
    "fm-binclass-dummy-data": NOT_IN_THE_JAR,
    "fm-regression-dummy-data": NOT_IN_THE_JAR,
    "load_imagenet_csv": "converts files",
    "mnist_lenet-train": TRAINS,
    "mnist_lenet_distrib_sgd-train": TRAINS,
    "mnist_lenet_distrib_sgd-train-dummy-data": TRAINS,
    "mnist_softmax-train": TRAINS,
    "ncf-dummy-data": NOT_IN_THE_JAR,
    "ncf-real-data": NOT_IN_THE_JAR,
}


def test_every_example_is_exported_or_has_a_reason() -> None:
    examples = {name.removeprefix(FOLDER).removesuffix(".dml") for name in jar_scripts() if name.startswith(FOLDER)}
    tested = {str(case).split()[0] for case in CASES} | {row[0] for row in LARGE}
    tested |= {"sherlockNet", "mnist_softmax-predict", "mnist_lenet-predict"}
    assert examples - tested == set(MISSING)
