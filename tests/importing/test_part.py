"""Parts of a graph: ``part_of`` and, on the command line, ``--from`` and ``--to``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_systemds.errors import InvalidModel
from onnx_systemds.importing.part import part_of
from onnx_systemds.model.ir import Model, TensorType
from onnx_systemds.model.load import load_model
from tests.test_cli import invoke

HEADER = '<ir_version: 8, opset_import: ["" : 17, "foreign" : 1]>'
CHAIN = """g (float[batch, 2] X, float[batch, 2] Z) => (float[batch, 3] Y, float[batch, 2] V)
    <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.5, -1}>
    { a = Add(X, b) h = Relu(a) p = MatMul(h, w) Y = Tanh(p) V = Mul(Z, h) }"""
FOREIGN = """g (float[batch, 2] X) => (float Y)
    { a = Neg(X) d = foreign.Own(a) e = Exp(d) low, high = Split <axis = 1> (e) f = Sub(high, low) Y = foreign.Own(f) }"""
TWO = """g (float[batch, 4] X) => (float[batch, 2] Y) { low, high = Split <axis = 1> (X) Y = Sub(high, low) }"""
HALVES = """g (float[batch, 4] X) => (float[batch, 2] Y, float[batch, 2] high)
    { low, high = Split <axis = 1> (X) Y = Neg(low) }"""


def model(text: str) -> Model:
    return load_model(onnx.parser.parse_model(HEADER + text))


def names(found: Model) -> tuple[list[str], list[str], list[str]]:
    graph = found.graph
    return ([given.name for given in graph.inputs], [node.op_type for node in graph.nodes], [info.name for info in graph.outputs])


@pytest.mark.parametrize(("starts", "ends", "inputs", "nodes", "outputs", "weights"), [
    ((), (), ["X", "Z"], ["Add", "Relu", "MatMul", "Tanh", "Mul"], ["Y", "V"], {"w", "b"}),
    ((), ("p",), ["X"], ["Add", "Relu", "MatMul"], ["p"], {"w", "b"}),
    (("h",), (), ["Z", "h"], ["MatMul", "Tanh", "Mul"], ["Y", "V"], {"w"}),
    (("h",), ("Y",), ["h"], ["MatMul", "Tanh"], ["Y"], {"w"}),
    (("h", "h"), ("p", "h", "p"), ["h"], ["MatMul"], ["p", "h"], {"w"}),
    (("X",), ("a",), ["X"], ["Add"], ["a"], {"b"}),
])
def test_a_part_holds_what_its_ends_need(
    starts: tuple[str, ...], ends: tuple[str, ...], inputs: list[str], nodes: list[str], outputs: list[str], weights: set[str]
) -> None:
    found = part_of(model(CHAIN), starts, ends)
    assert names(found) == (inputs, nodes, outputs)
    assert set(found.graph.initializers) == weights
    assert {type_ for given in found.graph.inputs for type_ in [given.type]} == {TensorType("float", ("batch", 2))}


def test_what_cannot_be_typed_stays_open() -> None:
    found = part_of(model(FOREIGN), ["d"], ["e"])
    assert names(found) == (["d"], ["Exp"], ["e"]) and found.graph.inputs[0].type is None


@pytest.mark.parametrize(("text", "starts", "ends", "message"), [
    (CHAIN, ["hh"], [], '"hh" is no value of the graph'),
    (CHAIN, ["w"], [], '"w" is a weight of the graph'),
    (CHAIN, ["Z"], ["Y"], '"Y" does not depend on "Z"'),
    (CHAIN, ["p"], ["a"], '"a" does not depend on "p"'),
    (CHAIN, ["Y"], ["Y"], 'no node computes "Y" of "Y"'),
    (CHAIN, [], ["X"], 'no node computes "X"$'),
    (TWO, ["low"], [], '"low" is computed together with "high": begin with all of them'),
    (HALVES, ["low"], [], '"low" is computed together with "high": begin with all of them'),
])
def test_what_is_no_part(text: str, starts: list[str], ends: list[str], message: str) -> None:
    with pytest.raises(InvalidModel, match=message):
        part_of(model(text), starts, ends)


def test_a_near_name_is_told() -> None:
    with pytest.raises(InvalidModel) as caught:
        part_of(model(FOREIGN), [], ["hihg"])
    assert '"high"' in caught.value.hint


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(HEADER + FOREIGN), tmp_path / "foreign.onnx")
    return tmp_path / "foreign.onnx"


@pytest.mark.engine
def test_the_middle_of_a_model_is_converted_run_and_verified(saved: Path) -> None:
    assert "foreign.Own" in invoke(saved).output
    part = ("--from", "d", "--to", "f", "--type", "d=float[batch,2]")
    assert "no type for its input" in invoke(saved, *part[:4]).output
    result = invoke(saved, *part)
    assert result.exit_code == 0 and "gen_g(d [batch, 2]) -> f [batch, 1]" in result.stderr, result.output
    given, found = saved.with_name("in.npz"), saved.with_name("out.npz")
    np.savez(given, d=np.log(np.array([[1, 3], [4, 2]], np.float32)))
    assert invoke("run", saved, *part, "--inputs", given, "--outputs", found).exit_code == 0
    np.testing.assert_allclose(np.load(found)["f"], [[2], [-2]], rtol=1e-6)
    result = invoke("verify", saved, *part, "--per-node")
    assert result.exit_code == 0 and "passed: 1 of 1 outputs agree" in result.output, result.output
    assert "can be converted" in invoke("inspect", saved, *part).output.splitlines()[-1]


@pytest.mark.engine
def test_a_part_is_judged_by_the_part(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(HEADER.replace(', "foreign" : 1', "") + CHAIN), tmp_path / "chain.onnx")
    result = invoke("verify", tmp_path / "chain.onnx", "--from", "h", "--to", "V", "--to", "p", "--json")
    assert result.exit_code == 0 and '"name": "V"' in result.output and "onnxruntime" in result.output, result.output
