"""Models of float16 and bfloat16: their numbers against the script in doubles, and what stays in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_systemds import InputSpec, export_file, export_script
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.stored_matrices import stored_array
from onnx_systemds.verifying.scripts import verify_script
from tests.exporting.export_harness import Array, ExportCase, check_export, model_of, run_model

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 8))
W = RANDOM.normal(size=(8, 5)) / 3
B = RANDOM.normal(size=(1, 5))
IMAGES = RANDOM.normal(size=(2, 2 * 5 * 5))
FILTERS = RANDOM.normal(size=(3, 2 * 9)) / 4
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2}
"""Of the largest number of an output: 4 and 8 times the distance of two numbers of the type."""


def case(name: str, body: str, inputs: dict[str, Array], outputs: tuple[str, ...] = ("Y",), **options: object) -> ExportCase:
    bound = [each for each in inputs if each not in ("X", "I")]
    return ExportCase(name, body, inputs, outputs, bound, dtypes=("float16", "bfloat16"), tolerance=TOLERANCE, **options)  # type: ignore[arg-type]


LAYERS = {name: f"nn/layers/{name}.dml" for name in ("affine", "relu", "softmax", "lstm", "conv2d_builtin", "batch_norm1d")}
CASES = [
    case("two layers", "H = relu::forward(affine::forward(X, W, b))\nY = softmax::forward(H)", {"X": X, "W": W, "b": B},
         sources={name: LAYERS[name] for name in ("affine", "relu", "softmax")}, operators=["Gemm", "Relu", "Softmax"]),
    case("a convolution, its scale in its filters",
         "[out, h, w] = conv::forward(X, W, b, 2, 5, 5, 3, 3, 1, 1, 1, 1)\nY = bias_multiply(out, g)",
         {"X": IMAGES, "W": FILTERS, "b": B[:, :3].T, "g": np.array([[1.5], [0.5], [2.0]])},
         sources={"conv": LAYERS["conv2d_builtin"]}),
    case("functions that are kept", "Y = relu::forward(affine::forward(X, W, b)) + nrow(X)", {"X": X, "W": W, "b": B},
         sources={name: LAYERS[name] for name in ("affine", "relu")}, keep=True),
    case("operators without the type", "Y = sin(X) + cos(X) * tan(X / 4)", {"X": X}),
    case("constants beyond the type", "Y = exp(X - 1e-9 + (X - X) * 3e38)\nZ = (X * 1e6) / 1e6\nV = X * 10000 * 2e-7",
         {"X": X}, ("Y", "Z", "V")),
    case("a state that begins beyond the type",
         "m = -1e30\nk = 0\nfor (i in 1:nrow(X)) {\n  v = sum(X[i, ])\n  if (v * 2 > m) {\n    m = v\n    k = i\n  }\n}", {"X": X}, ("m", "k"), symbols={"X": ["N", 8]}),
    case("a count beside numbers", "Y = X / nrow(X) + seq(1, nrow(X))", {"X": X}, symbols={"X": ["N", 8]}),
    case("a loop", "s = X\nn = 0\nwhile (sum(abs(s)) < 1000) {\n  s = s * 1.5 + W\n  n = n + 1\n}", {"X": X, "W": X * 0.1}, ("s", "n")),
    case("a loop of an opset that hands on no bfloat16", "s = X\nwhile (sum(abs(s)) < 1000) {\n  s = s * 1.5\n}\nif (sum(s) > 0) { s = s + 1 }",
         {"X": X}, ("s",), opset=13),
    case("a loop that may not run, of truths", "Y = X * 1.5\nfor (i in seq(3, nrow(X), 1)) { Y = Y > seq(1, nrow(X)) }", {"X": X},
         symbols={"X": ["N", 8]}, sizes=[{"X": X[:2]}]),
    case("sums of groups", 'Y = aggregate(target=X[, 1], groups=I, fn="sum", ngroups=2)', {"X": X, "I": np.array([[1.0], [2], [1]])}),
    case("branches", "if (sum(X) > 100) { Y = X * 2 } else { Y = sin(X) }", {"X": X}),
    case("sums along a scan", "Y = cumsum(X)\nZ = cumprod(X * 0 + 1.01)", {"X": X}, ("Y", "Z")),
    case("doubles in between", "Y = (X * 7 + 6755399441055744) - 6755399441055744", {"X": X}),
]


@pytest.mark.filterwarnings("error:overflow")
@pytest.mark.parametrize("row", CASES, ids=str)
def test_numbers(row: ExportCase) -> None:
    check_export(row)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_counts_stay_exact(dtype: str) -> None:
    """The place of a maximum among 5,000 and a count of rows: 16 bits would round them."""
    text = 'X = read("X")\nY = rowIndexMax(X)\nn = sum(X > -1) + nrow(X)\nwrite(Y, "Y")\nwrite(n, "n")\n'
    model = export_script(text, inputs={"X": "[N,5000]"}, dtype=dtype)
    x = np.zeros((1, 5000))
    x[0, 4098] = 1
    found = run_model(model, {"X": x})
    assert (found["Y"].dtype, found["Y"].item()) == (np.float32, 4099)
    assert (found["n"].dtype, found["n"].item()) == (np.float32, 5001)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_weights_are_of_the_type(dtype: str) -> None:
    model = model_of(CASES[0], dtype)
    types = {onnx.TensorProto.DataType.Name(tensor.data_type).lower() for tensor in model.graph.initializer}
    assert types == {dtype}
    assert len(model.graph.initializer[0].raw_data) == 2 * W.size


def test_stored_weights_of_the_type(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", W)
    stored = stored_array(tmp_path / "w.npy")
    export_file('X = read("X")\nW = read("W")\nY = X %*% W\nwrite(Y, "Y")\n', tmp_path / "m.onnx", inputs={"X": "[N,8]"},
                bindings={"W": stored}, dtype="float16", external_data=0)
    assert (tmp_path / "m.onnx.data").read_bytes() == W.astype("<f2").tobytes()


@pytest.mark.parametrize("external_data", [None, 0])
def test_stored_weights_beyond_the_type(tmp_path: Path, external_data: int | None) -> None:
    np.save(tmp_path / "w.npy", W * 1e6)
    text = 'X = read("X")\nW = read("W")\nY = X %*% W\nwrite(Y, "Y")\n'
    bindings = {"W": stored_array(tmp_path / "w.npy")}
    with pytest.raises(TranspileError) as error:
        export_file(text, tmp_path / "m.onnx", inputs={"X": "[N,8]"}, bindings=bindings, dtype="float16", external_data=external_data)
    first = (W * 1e6)[np.abs(W * 1e6) > 65520][0]
    assert str(error.value) == f"{tmp_path}/w.npy: the number {first:g} is beyond float16\n  hint: use another --dtype"
    assert [path.name for path in tmp_path.iterdir()] == ["w.npy"]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_verified(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "f.dml"
    path.write_text("f = function(matrix[double] X, matrix[double] W) return (matrix[double] Y) {\n  Y = max(X %*% W, 0)\n}\n")
    report = verify_script(path, "f", specs={"X": InputSpec("double", [3, 8])}, bindings={"W": W}, dtype=dtype)
    assert report.passed
    assert [(each.dtype, each.dims) for each in report.outputs] == [(dtype, (3, 5))]
