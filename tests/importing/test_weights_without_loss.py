"""What no loss depends on stays as it is, whatever the optimizer does to weights with derivatives of zero."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_systemds import import_model, train_model
from onnx_systemds.errors import InvalidModel
from onnx_systemds.importing.train_program import train_text, training_of
from tests.invoking import invoke

RNG = np.random.default_rng(0)
X, TARGET = RNG.normal(size=(40, 3)).astype(np.float32), RNG.integers(0, 2, 40)
WEIGHTS = {"A": (3, 4), "B": (4, 2), "C": (4, 2), "a": (4,), "c": (2,)}


def _two_heads() -> onnx.ModelProto:
    """Two results of one layer, of which each has a weight of its own."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
    heads (float[n, 3] X) => (float[n, 2] first, float[n, 2] second) {
      product = MatMul(X, A) sums = Add(product, a) hidden = Tanh(sums)
      first = MatMul(hidden, B) other = MatMul(hidden, C) second = Add(other, c)
    }""")
    for name, shape in WEIGHTS.items():
        model.graph.initializer.append(numpy_helper.from_array(RNG.normal(size=shape).astype(np.float32), name))
    return model


@pytest.mark.engine
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd_momentum"])
def test_the_weights_of_another_result_stay(optimizer: str) -> None:
    model = _two_heads()
    trained = train_model(model, {"X": X}, TARGET, loss="first=softmax_cross_entropy_loss", optimizer=optimizer,
                          epochs=3, batch=8, rate=0.1, weight_decay=0.1)
    before, after = ({each.name: numpy_helper.to_array(each) for each in it.graph.initializer} for it in (model, trained))
    assert [name for name in before if np.array_equal(before[name], after[name])] == ["C", "c"]


@pytest.mark.parametrize(("losses", "count"), [(["first=l2_loss"], 2), (["first=l2_loss", "second=l2_loss"], 0)])
def test_rows_are_put_back_where_no_loss_reaches_them(losses: list[str], count: int) -> None:
    script = import_model(_two_heads(), gradients=["weights"])
    for optimizer in ("adam", "adamw"):  # weight decay may be asked for
        assert train_text(script, "model", training_of(losses, optimizer)).count("= before[") == count


def test_a_loss_that_depends_on_no_weight_that_is_trained() -> None:
    script = import_model(_two_heads(), gradients=["inputs", "C"])
    with pytest.raises(InvalidModel, match='"first" does not depend on "C"'):
        train_text(script, "model", training_of(["first=l2_loss"], "adam"))


@pytest.mark.engine
def test_the_command_says_what_it_trains(tmp_path: Path) -> None:
    onnx.save(_two_heads(), tmp_path / "model.onnx")
    np.savez(tmp_path / "rows.npz", X=X, y=TARGET)
    result = invoke("train", tmp_path / "model.onnx", "--input", tmp_path / "rows.npz", "--target", "y", "--epochs", "1",
                    "--loss", "first=softmax_cross_entropy_loss", "-o", tmp_path / "new.onnx")
    assert result.exit_code == 0 and 'trains 3 weights: "A", "B", "a"\n' in result.output, result.output
