"""Comments that say of which module of a model statements are."""

from __future__ import annotations

import onnx

from onnx_systemds import import_model


def lines_of(*nodes: tuple[str, str], result: str = "Y") -> list[str]:
    """The statements of a chain of operators of one input, each with the scope of its node."""
    names = ["X", *(f"a{place}" for place in range(1, len(nodes))), result]
    chain = " ".join(f"{after} = {operator}({before})" for (operator, _), before, after in zip(nodes, names, names[1:]))
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[N,3] X) => (float[N,3] {result}) {{ {chain} }}')
    for node, (operator, scope) in zip(model.graph.node, nodes, strict=True):
        node.name = f"/{scope}/{operator}"
    return [line.strip() for line in import_model(model).text.partition("{\n")[2].splitlines() if line != "}"]


SOFTMAX = ["a2_exp = exp(a1 - rowMaxs(a1))", "a2 = a2_exp / rowSums(a2_exp)"]


def test_a_statement_that_is_alone_has_its_module_beside_it() -> None:
    assert lines_of(("Abs", "m/a"), ("Softmax", "m/b"), ("Tanh", "m/a")) == [
        "a1 = abs(X)  # m.a", "# m.b", *SOFTMAX, "Y = tanh(a2)  # m.a"]
    assert lines_of(("Abs", "m/b"), ("Softmax", "m/b"), ("Tanh", "m/a")) == [
        "# m.b", "a1 = abs(X)", *SOFTMAX, "Y = tanh(a2)  # m.a"]


def test_a_module_that_has_no_room_beside_its_statement_is_above_it() -> None:
    result = "Y" * 60
    statement = f"{result} = tanh(a1)"
    room = 120 - len(f"  {statement}  # m.")
    for scope, ends in (("b" * room, [f"{statement}  # m.{'b' * room}"]),
                        ("b" * (room + 1), [f"# m.{'b' * (room + 1)}", statement])):
        assert lines_of(("Abs", "m/a"), ("Tanh", f"m/{scope}"), result=result) == ["a1 = abs(X)  # m.a", *ends]
