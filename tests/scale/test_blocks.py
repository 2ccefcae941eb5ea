"""Operators on Spark, on matrices of many blocks: by ``-exec spark``, and by hybrid mode with next to no memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import onnxruntime
import pytest
from onnx import helper, parser
from py4j.protocol import Py4JJavaError

from onnx_systemds import import_model
from onnx_systemds.engine.faults import SPARK, Fault
from onnx_systemds.engine.matrix_files import read_matrix, write_matrix
from onnx_systemds.verifying.comparing import compare_tensors
from tests import plain_engine
from tests.plain_engine import PlainCall, sourced
from tests.scale.places import Place, opened_place

pytestmark = [pytest.mark.spark, pytest.mark.engine]
ROWS, COLS, BLOCK = 23, 27, 10
MODES = ("spark", "hybrid")
_RANDOM = np.random.default_rng(3)
_LENGTHS = _RANDOM.integers(1, 6, ROWS).astype(np.int32)
_HALVES = _RANDOM.integers(-3, 4, (ROWS, COLS)).astype(np.float32) / 2
GIVEN = {
    "x": _RANDOM.normal(size=(ROWS, COLS)).astype(np.float32),
    "z": np.zeros((ROWS, COLS), np.float32),
    "c": _RANDOM.random((ROWS, COLS)) < 0.4,
    "h": _HALVES,
    "o": np.zeros((ROWS, 4), np.float32),
    "s": _RANDOM.normal(size=(5, ROWS, 4)).astype(np.float32),
    "lengths": _LENGTHS,
    "k": np.array([1001]),
    "t": np.array([2002]),
    "q": _RANDOM.normal(size=(1, 4)).astype(np.float32),
    "f": np.array([[-9, -8, -7, -6, -5, -9, -8, -7, -6, -4, -8, -1, -9, -7, -3, -9, -8, -7, -9, -8, -2, -9]], np.float32),
    "e": _RANDOM.random((ROWS, 1)).astype(np.float32),
    "r": _RANDOM.normal(size=(ROWS, 1, 6)).astype(np.float32),
    "p": _RANDOM.normal(size=(1, 1, 5, 6)).astype(np.float32),
    "b": _RANDOM.normal(size=(10, COLS)).astype(np.float32),
    "d": _RANDOM.normal(size=(ROWS, 20)).astype(np.float32),
    "g": _RANDOM.uniform(-1, 1, (1, 3, 4, 2)).astype(np.float32),
}
_WEIGHTS = [str((place % 7 - 3) / 4) for place in range(36)]
CASES = {
    "Where": ("y = Where(c, x, z)", "bool[n,m] c, float[n,m] x, float[n,m] z", ""),
    "Where-zero": ("y = Where(c, x, k)", "bool[n,m] c, float[n,m] x", "float k = {0.0}"),
    "Where-first": ("y = Where(c, k, z)", "bool[n,m] c, float[n,m] z", "float k = {2.0}"),
    "Where-numbers": ("y = Where(c, k, l)", "bool[n,m] c", "float k = {2.0}, float l = {0.0}"),
    "ThresholdedRelu": ("y = ThresholdedRelu<alpha = 0.5>(x)", "float[n,m] x", ""),
    "Shrink": ("y = Shrink<lambd = 0.5>(x)", "float[n,m] x", ""),
    "Pow": ("y = Pow(x, z)", "float[n,m] x, float[n,m] z", ""),
    "Imputer": ("y = ai.onnx.ml.Imputer<imputed_value_floats = [1.0, 2.0, 3.0, 4.0], replaced_value_float = 0.0>(o)",
                "float[n,4] o", ""),
    "Unique": ("y, first, places, counts = Unique(h)", "float[n,m] h", ""),
    "Unique-rows": ("y = Unique<axis = 0>(h)", "float[n,m] h", ""),
    "ArgMax": ("i = ArgMax<axis = 1>(x) y = Cast<to = 1>(i)", "float[n,m] x", ""),
    "ArgMin": ("i = ArgMin<axis = 0>(x) y = Cast<to = 1>(i)", "float[n,m] x", ""),
    "TopK": ("v, places = TopK<axis = 0>(x, k) y = Neg(v)", "float[n,m] x", "int64[1] k = {3}"),
    "Slice": ("y = Slice(x, s, e, a, t)", "float[n,m] x",
              "int64[1] s = {-1}, int64[1] e = {-99}, int64[1] a = {1}, int64[1] t = {-2}"),
    "Gather": ("s = ReduceSum<keepdims = 0>(x, o) m = Greater(s, t) i = NonZero(m) j = Squeeze(i, z) y = Gather(x, j)",
               "float[n,m] x", "float t = {-99.0}, int64[1] z = {0}, int64[1] o = {1}"),
    "OneHot": ("y = OneHot(k, d, v)", "int64[n] k", "int64 d = {1003}, float[2] v = {0.5, 2.0}"),
    "CDist-row": ("y = com.microsoft.CDist<metric = \"euclidean\">(q, o)", "float[k,4] q, float[n,4] o", ""),
    "Trilu-row": ("y = Trilu<upper = 1>(f, k)", "float[1,m] f", "int64 k = {3}"),
    "LabelEncoder": (f"y = ai.onnx.ml.LabelEncoder<keys_int64s = {[*range(0, 2006, 2)]}, values_floats = {[0.5 * i for i in range(1003)]}>(t)",
                     "int64[n] t", ""),
    "TopK-row": ("v, places = TopK(f, k) y = Neg(v)", "float[n,m] f", "int64[1] k = {4}"),
    "TopK-one": ("v, places = TopK<largest = 0>(e, k) y = LogSoftmax(v)", "float[n,1] e", "int64[1] k = {1}"),
    "MaxPool": ("m, i = MaxPool<kernel_shape = [2], strides = [2]>(r) y = Cast<to = 1>(i)", "float[n,1,6] r", ""),
    "Concat": ("y = Concat<axis = 0>(b, x, b, b)", "float[k,m] b, float[n,m] x", ""),
    "Concat-columns": ("y = Concat<axis = 1>(d, d, x)", "float[n,k] d, float[n,m] x", ""),
    "Pad": ("y = Pad(d, p, v)", "float[n,k] d", "int64[4] p = {10, 10, 10, 10}, float v = {2.0}"),
    "GridSample": ("y = GridSample<mode = \"nearest\">(p, g)", "float[1,1,a,b] p, float[1,c,d,2] g", ""),
    "RNN": ("h, y = RNN<hidden_size = 3, activations = [\"ThresholdedRelu\"], activation_alpha = [0.3]>(s, W, R)",
            "float[5,n,4] s", f"float[1,3,4] W = {{{', '.join(_WEIGHTS[:12])}}}, float[1,3,3] R = {{{', '.join(_WEIGHTS[:9])}}}"),
    "GRU": ("h, y = GRU<hidden_size = 3>(s, W, R, , lengths)", "float[5,n,4] s, int32[n] lengths",
            f"float[1,9,4] W = {{{', '.join(_WEIGHTS)}}}, float[1,9,3] R = {{{', '.join(_WEIGHTS[:27])}}}"),
}
"""The text of a node, its inputs and its constants."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened_place("hybrid", tmp_path_factory.mktemp("blocks")) as found:
        settings = found.folder / "scratch.xml"
        text = settings.read_text(encoding="utf-8")
        block = f"<sysds.defaultblocksize>{BLOCK}</sysds.defaultblocksize></root>"
        settings.write_text(text.replace("</root>", block), encoding="utf-8")
        yield found


def _run(place: Place, program: list[str], mode: str, memory: int = 2000) -> None:
    """Run a program; memory: how many bytes hybrid mode believes that the driver has."""
    (place.folder / "program.dml").write_text("\n".join(program) + "\n", encoding="utf-8")
    place.gateway.jvm.org.apache.sysds.utils.stats.InfrastructureAnalyzer.setLocalMaxMemory(memory)
    place.run("program.dml", {}, "-exec", mode)


def test_rows_scattered_below_whole_blocks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """First in this JVM: after runs with next to no memory the engine finds no file for an operand of table."""
    monkeypatch.setattr(plain_engine, "write_matrix", partial(write_matrix, block_size=BLOCK))
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[1,1,5] x) => (float[1,1,10] y)
        <int64[1,1,5] k = {1, 2, 5, 7, 9}> { y = MaxUnpool<kernel_shape = [2], strides = [2]>(x, k) }""")
    call = PlainCall(import_model(model, weights="inline"), {"x": GIVEN["x"][:1, None, :5]}, place.folder, "scattered_", "scattered")
    _run(place, [*sourced(call.script, place.folder, "scattered"), *call.statements()], "spark", memory=2**30)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(call.inputs))
    assert np.array_equal(call.results()["y"], expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", SPARK, ids=lambda fault: fault.identifier)
def test_fault_is_still_there(fault: Fault, mode: str, place: Place) -> None:
    write_matrix(place.folder / "X", np.array(fault.inputs), block_size=1)
    program = ['X = read("X")', "never = time() < 0", "if (never) { X = rbind(X, X) }", fault.script]
    program.append(f'write(result, "./{mode}_result", format="binary")')
    if fault.raises:
        with pytest.raises(Py4JJavaError, match=re.escape(fault.raises)):
            _run(place, program, mode, memory=100)
        return
    _run(place, program, mode, memory=100)
    assert not np.array_equal(read_matrix(place.folder / f"{mode}_result"), np.array(fault.right))


@pytest.mark.parametrize("mode", MODES)
def test_operators(mode: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # of blocks of other sizes, the engine loses those of zeros
    monkeypatch.setattr(plain_engine, "write_matrix", partial(write_matrix, block_size=BLOCK))
    heads, lines, calls = [], ["never = time() < 0"], {}
    for name, (node, inputs, constants) in CASES.items():
        head = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "com.microsoft" : 1]>'
        model = parser.parse_model(f"{head} g ({inputs}) => (float[p,q] y) <{constants}> {{ {node} }}")
        model.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(1, None))
        script = import_model(model, weights="inline")  # the blocks of files are of 1000
        given = {port.name: GIVEN[port.name] for port in script.inputs}
        namespace = name.replace("-", "_")
        call = PlainCall(script, given, place.folder, f"{mode}_{namespace}_", namespace, open_sizes=True)
        source, *weights = sourced(script, place.folder, namespace)
        heads.append(source)
        lines += [*weights, *call.statements()]
        calls[name] = model, call
    _run(place, [*heads, *lines], mode)
    for name, (model, call) in calls.items():
        (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(call.inputs))
        comparison = compare_tensors(name, call.results()["y"], expected)
        assert comparison.passed, (name, comparison)


def test_labels_that_are_texts(place: Place) -> None:
    attributes = f'coefficients = {np.eye(3, 4).ravel().tolist()}, classlabels_strings = ["low", "mid", "high"]'
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        g (float[n,4] x) => (string[n] y) {{ y, z = ai.onnx.ml.LinearClassifier<{attributes}>(x) }}""")
    (place.folder / "labels.dml").write_text(import_model(model).text, encoding="utf-8")
    write_matrix(place.folder / "labelled", GIVEN["x"][:, :4], block_size=BLOCK)
    (place.folder / "program.dml").write_text(
        'source("labels.dml") as labels\nx = read("labelled")\nprint(toString(labels::gen_g(x), rows=99))\n', encoding="utf-8")
    printed = place.run("program.dml", {}, "-exec", "spark").splitlines()
    expected = [("low", "mid", "high")[best] for best in GIVEN["x"][:, :3].argmax(axis=1)]
    assert [line for line in printed if line in ("low", "mid", "high")] == expected
