"""``functions``: what nodes repeat is a function, called several times, and computes the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import ScoringFunction, import_model
from onnx_systemds.cli.node_map import script_map
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block, print_expression
from onnx_systemds.dml.scopes import called_in, is_call
from onnx_systemds.engine import EngineError
from onnx_systemds.errors import NodePlace
from onnx_systemds.importing.passes.block_cuts import CALLED_CUT, cut
from onnx_systemds.importing.passes.blocks.block_names import block_name, common_name
from onnx_systemds.importing.passes.blocks.repeats import find_repeats
from onnx_systemds.importing.passes.shared_expressions import with_shared_expressions_in
from onnx_systemds.importing.passes.specialisation.hoisting import impure_functions
from onnx_systemds.importing.script import Script
from onnx_systemds.inference.registry import operator_generators
from onnx_systemds.model.node_scopes import scope_of
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.verifying.verify import verify_model
from tests.command_line import run_dml
from tests.model_zoo import model_cases, model_paths, needs_models
from tests.models.encoders import TOKENS, WIDTH, encoder
from tests.operators.harness import random
from tests.plain_engine import PlainCall, calls_plainly, sourced

SHARED = "bert_tiny.ts"
SCOPES = "pkg.torch.onnx.name_scopes"


def lines_of(script: Script) -> int:
    """Lines of a script but for those with further numbers of a matrix."""
    return sum(not re.fullmatch(r' +(-?\d[-+\d. e]*(".*)?|cols=\d+\))', line) for line in script.text.splitlines())


def calls_of(script: Script, name: str) -> list[tree.Call]:
    return [node for node in tree.walk(*script.main.body) if isinstance(node, tree.Call) and node.function == name]


@pytest.mark.parametrize("batch", ["batch", 2])
def test_layers_are_one_function(batch: int | str) -> None:
    script = import_model(encoder(12, batch=batch))
    layer = next(function for function in script.functions if function.name == "encoder_layer")
    assert len(calls_of(script, "encoder_layer")) == 12
    assert lines_of(script) <= (332 if batch == "batch" else 310)
    assert layer.comments.before == ("# The nodes of encoder.layer.0 to encoder.layer.11, called 12 times.",)
    last = [it.name for it in layer.parameters][-4:]
    if batch == 2:  # as fast as it can be
        assert last == ["narrow_weight", "narrow_bias", "norm_weight", "norm_bias"]
    else:
        assert last == ["narrow_bias", "norm_weight", "norm_bias", "own_weights"]
        assert "  narrow_weight = matrix(as.matrix(own_weights[6]), rows=16, cols=8)" in script.text.splitlines()
        second = print_expression(calls_of(script, "encoder_layer")[1].arguments[-1].value)
        assert second.startswith('list(as.matrix(weights["layer1AttentionQueryWeightFused"]), as.matrix(weights["layer1')
        assert second.endswith('as.matrix(weights["layer1NarrowWeight"]))')
    assert [it.name for it in layer.results] == ["norm"]
    assert any(line.startswith("  Add = gelu(attention_norm %*% wide_weight + wide_bias)") for line in script.text.splitlines())
    assert script.general is not None
    assert {function.name for function in script.general.functions}.isdisjoint({"encoder_layer"})


def test_a_few_layers_are_a_function_if_that_is_shorter() -> None:
    scripts = {mode: import_model(encoder(3, batch="batch"), functions=mode)
               for mode in (None, "keep", "flat", "blocks")}
    assert scripts[None].text == scripts["blocks"].text
    assert scripts["keep"].text == scripts["flat"].text
    assert len(calls_of(scripts["blocks"], "encoder_layer")) == 3 and not calls_of(scripts["flat"], "encoder_layer")
    assert lines_of(scripts["blocks"]) < 0.95 * lines_of(scripts["flat"])  # of which half are of the library
    assert 'stop("X has no rows")' in scripts["blocks"].text  # a row is added to X in the function
    with pytest.raises(ValueError, match="functions is one of flat, blocks, keep, not 'all'"):
        import_model(encoder(2), functions="all")


@needs_models
def test_what_is_hardly_shorter_stays_as_it_is() -> None:
    (path,) = (path for path in model_paths("generated") if path.stem == "lightrand_squeezenet")
    assert import_model(path).text == import_model(path, functions="flat").text


def test_a_few_calls_give_their_weights_as_arguments() -> None:
    """The engine would compile at each call where a list is made, and where it is taken apart."""
    script = import_model(encoder(3, batch="batch"))
    given = [print_expression(argument.value) for argument in calls_of(script, "encoder_layer")[1].arguments]
    assert 'matrix(as.matrix(weights["layer1WideBias"]), rows=1, cols=16)' in given
    assert "own_weights" not in script.text


def test_results_have_sizes_where_a_later_call_takes_them() -> None:
    """The engine does not know them before it has compiled the function, for which it has to know them."""
    calls = [statement for statement in import_model(encoder(4), functions="blocks").main.body
             if isinstance(statement, tree.Assign) and "encoder_layer(" in statement.spelling]
    endings = [statement.spelling.rpartition('Weight"])))')[2] for statement in calls]
    assert endings == [*[", rows=4 * batch, cols=8)"] * 3, ""]


def blocks_of_two_kinds() -> onnx.ModelProto:
    """One of each kind takes what one of the other gives."""
    nodes, weights, last = [], [], "X"
    one, other = ("Tanh", "Sigmoid", "Relu", "Softplus"), ("Exp", "Abs", "Sqrt", "Neg")
    for number, kind in enumerate((one, other, other, one)):
        for step, op_type in enumerate(kind):
            weights += [numpy_helper.from_array(random(8, 8, seed=number), f"w{number}_{step}"),
                        numpy_helper.from_array(random(8, seed=step), f"b{number}_{step}")]
            nodes += [helper.make_node("MatMul", [last, weights[-2].name], [f"m{number}_{step}"]),
                      helper.make_node("Add", [f"m{number}_{step}", weights[-1].name], [f"a{number}_{step}"]),
                      helper.make_node(op_type, [f"a{number}_{step}"], [f"o{number}_{step}"])]
            last = f"o{number}_{step}"
        if number == 1:
            nodes.append(helper.make_node("Cos", [last], ["between"]))
            last = "between"
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in ("X", last)]
    graph = helper.make_graph(nodes, "turns", infos[:1], infos[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_results_have_sizes_where_calls_of_other_functions_take_them() -> None:
    """Also that of the last call of a function, which none of the same function takes."""
    script = import_model(blocks_of_two_kinds(), functions="blocks", weights="files")
    names = {function.name for function in script.functions if function is not script.main}
    calls = [statement.value for statement in script.main.body
             if isinstance(statement, tree.Assign) and not names.isdisjoint(called_in(statement))]
    assert len(names) == 2
    assert [is_call(value, "matrix") for value in calls] == [True, True, True, False]


@pytest.mark.parametrize("batch", ["batch", 2])
def test_numbers_are_the_same_to_the_last_bit(batch: int | str) -> None:
    inputs = {"X": random(2, TOKENS, WIDTH)}
    flat, blocks = (ScoringFunction(import_model(encoder(3, batch=batch), functions=mode))(inputs)["Y"]
                    for mode in ("flat", "blocks"))
    np.testing.assert_array_equal(flat, blocks)
    if batch == 2:
        assert verify_model(encoder(3, batch=batch), inputs, functions="blocks").passed


def test_what_is_one_in_the_first_layer_may_be_two_in_others() -> None:
    """A decoder whose first layer attends to what it also adds to, the others to the encoder."""
    nodes = []
    for number, (own, other) in enumerate((("x", "x"), ("y0", "x"), ("y1", "x"))):
        names = iter([f"{letter}{number}" for letter in "abcdefghij"] + [f"y{number}"])
        made: list[str] = []
        for op_type, *inputs in (("Sin", own), ("Cos", other), ("Mul", 0, 1), ("Add", 2, 0), ("Abs", 3), ("Sqrt", 4),
                                 ("Sub", 5, 3), ("Mul", 6, 1), ("Add", 7, 5), ("Mul", 8, 4), ("Tanh", 9)):
            made.append(next(names))
            taken = [made[given] if isinstance(given, int) else str(given) for given in inputs]
            nodes.append(helper.make_node(str(op_type), taken, [made[-1]]))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y2")]
    model = helper.make_model(helper.make_graph(nodes, "decoder", infos[:1], infos[1:]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    assert verify_model(model, {"x": random(3, 4)}, functions="blocks").passed


@pytest.mark.parametrize("path", model_cases("generated", where=lambda path: path.stem == SHARED))
def test_a_shared_model_on_the_plain_engine(path: Path) -> None:
    """As a program calls them, its matrices of known sizes."""
    with np.load(path.with_suffix(".npz")) as stored:
        inputs = {name[3:]: stored[name] for name in stored.files if name.startswith("in_")}
    scripts = [import_model(path, functions=mode) for mode in ("flat", "blocks")]
    assert lines_of(scripts[1]) < lines_of(scripts[0])
    assert scripts[1].text.count("m_Where_1 = ") == scripts[0].text.count("m_Where_1 = ") == 1
    (flat,), (blocks,) = (calls_plainly(script, [inputs]) for script in scripts)
    for name, expected in flat.items():
        np.testing.assert_array_equal(blocks[name], expected)


@pytest.mark.engine
def test_what_two_places_of_a_program_call_is_compiled_once(tmp_path: Path) -> None:
    """The engine's analysis ends after three rounds, sooner than it knew the sizes of products by eights."""
    import_model(encoder(2, batch="batch"), functions="blocks", weights="inline").save(tmp_path / "layers.dml")
    call = "Y = layers::gen_encoder(X)\nif (never) { print(sum(Y)) }\n"
    program = f'source("layers.dml") as layers\nnever = time() < 0\nX = rand(rows=16, cols={TOKENS * WIDTH})\n'
    output = run_dml(f"{program}{call}for (i in 1:5) {{ {call} }}\n", tmp_path, options=["-stats"])
    compiled = re.search(r"Functions recompiled:\s*(\d+)", output)
    assert compiled is None or int(compiled[1]) < 6, "6 calls"


def residual_layers(count: int) -> onnx.ModelProto:
    """Layers that read what the model is given, without anything before."""
    nodes, weights = [], []
    for number in range(count):
        given, wide = f"x{number}", f"wide{number}"
        for name, shape in ((f"first{number}", (8, 12)), (f"bias{number}", (12,)), (f"second{number}", (12, 8)),
                            (f"scale{number}", (8,))):
            weights.append(numpy_helper.from_array(random(*shape), name))
        nodes += [
            helper.make_node("LayerNormalization", [given, f"scale{number}"], [f"{wide}_normal"]),
            helper.make_node("MatMul", [f"{wide}_normal", f"first{number}"], [f"{wide}_product"]),
            helper.make_node("Add", [f"{wide}_product", f"bias{number}"], [wide]),
            helper.make_node("Tanh", [wide], [f"{wide}_active"]),
            helper.make_node("MatMul", [f"{wide}_active", f"second{number}"], [f"{wide}_result"]),
            helper.make_node("Softmax", [f"{wide}_result"], [f"{wide}_shares"]),
            helper.make_node("Add", [given, f"{wide}_shares"], [f"x{number + 1}"]),
        ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in ("x0", f"x{count}")]
    graph = helper.make_graph(nodes, "layers", infos[:1], infos[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def two_results(count: int) -> onnx.ModelProto:
    """Layers each of which gives two values to the next one."""
    operators = ("Sin", "Cos", "Tanh", "Sqrt", "Abs", "Sigmoid", "Softsign", "Exp", "Floor", "Ceil")
    nodes, left, right = [], "x", "g"
    for number in range(count):
        names = [f"{op_type}{number}".lower() for op_type in operators]
        for given, op_type, name in zip((left, right, *names), operators, names):
            nodes.append(helper.make_node(op_type, [given], [name]))
        nodes.append(helper.make_node("Add", [names[-1], left], [f"left{number}"]))
        nodes.append(helper.make_node("Mul", [names[-2], right], [f"right{number}"]))
        left, right = f"left{number}", f"right{number}"
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in ("x", "g", left, right)]
    graph = helper.make_graph(nodes, "layers", infos[:2], infos[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_layers_that_give_two_values_to_the_next_are_a_function_only_if_asked_for() -> None:
    """A call gives a size to one result alone: the engine would compile each layer at each call."""
    model = two_results(8)
    assert [len(import_model(model, functions=mode).functions) for mode in ("flat", None, "blocks")] == [1, 1, 2]
    assert len(import_model(residual_layers(8)).functions) == 2


@pytest.mark.engine
@pytest.mark.parametrize("dims", [{}, {"n": 4}], ids=["open", "known"])
@pytest.mark.parametrize("count", [3, 6])
def test_layers_of_what_is_read_from_a_file_are_compiled_once(
    count: int, dims: dict[str, int], tmp_path: Path
) -> None:
    """The engine knows how many zeros a file has; at each call it compiles the block that takes the weights."""
    script = import_model(residual_layers(count), functions="blocks", dims=dims)
    assert len(script.functions) == 2
    script.save(tmp_path / "layers.dml")
    run_dml('X = rand(rows=4, cols=8, min=1, max=2, seed=1)\nwrite(X, "X", format="binary")', tmp_path)
    begin = 'source("layers.dml") as layers\nX = read("X")\nweights = layers::gen_layers_init()\n'
    numbers = []
    for calls in (1, 11):
        loop = f"for (i in 1:{calls}) {{ Y = layers::gen_layers(X, weights)\nprint(sum(Y)) }}\n"
        output = run_dml(begin + loop, tmp_path, options=["-stats"])
        compiled = re.search(r"HOP DAGs recompiled \(PRED, SB\):\s*\d+/(\d+)", output)
        functions = re.search(r"Functions recompiled:\s*(\d+)", output)
        assert functions is None or int(functions[1]) <= 1
        numbers.append(int(compiled[1]) if compiled else 0)
    assert numbers[1] - numbers[0] <= 10


def test_an_error_in_a_call_is_of_the_node_that_the_call_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(node: NodeView) -> Fragment:
        fragment = generate(node)
        place, (target, value) = next((place, text.split(" = ")) for place, text in enumerate(fragment.statements))
        taken = f"{target}_raw[1:(nrow({target}_raw) + as.integer(sum({target}_raw) > 1e6)), ]"
        written = [f"{target}_raw = {value}", f"{target} = {taken}"]
        return replace(
            fragment, statements=(*fragment.statements[:place], *written, *fragment.statements[place + 1 :])
        )

    (since, generator), *_ = operator_generators["", "Gelu"].items()
    generate: Callable[[NodeView], Fragment] = generator
    monkeypatch.setitem(operator_generators, ("", "Gelu"), {since: planted})
    model = encoder(3)
    for weight in model.graph.initializer:
        if weight.name == "encoder.layer.1.wide.bias":
            weight.CopyFrom(numpy_helper.from_array(random(2 * WIDTH) + np.float32(1e6), weight.name))
    script = import_model(model, functions="blocks")
    with pytest.raises(EngineError) as caught:
        ScoringFunction(script)({"X": random(2, TOKENS, WIDTH)})
    node = caught.value.node
    assert node is not None
    assert isinstance(node.place, NodePlace)
    assert node.place.node == "/encoder/layer.1/Gelu"
    assert node.line is not None
    assert node.others == ()
    assert script.text.splitlines()[node.line - 1].strip() == node.statement
    assert "Gelu_raw[1:" in node.statement


def test_lines_of_a_function_are_of_the_nodes_of_all_its_calls() -> None:
    script = import_model(encoder(2), functions="blocks")
    lines = script.text_for("encoder").splitlines()
    nodes = {node.node.node: [lines[it.line - 1].strip() for it in node.statements if it.function == "encoder_layer"]
             for node in script_map(script, "encoder")}
    assert nodes["/encoder/layer.0/Gelu"] == nodes["/encoder/layer.1/Gelu"] == [
        "Add = gelu(attention_norm %*% wide_weight + wide_bias) %*% narrow_weight + narrow_bias + attention_norm"
    ]
    assert nodes["/pooler/Tanh"] == []


@pytest.mark.parametrize(("names", "expected"), [
    (["add_3", "add_9"], "add"), (["norm_centred", "norm_1_centred"], "norm_centred"), (["view_1", "view_1"], "view_1"),
    (["first_norm", "last_norm"], "norm"), (["v_42", "v_99"], "MatMul"), (["v_1_exp", "v_9_exp"], "MatMul_exp"),
    (["first", "second"], "first"), (["v_4_exp", "Y_exp"], "MatMul_exp"),
])
def test_values_of_a_block_have_no_numbers_of_one_layer(names: list[str], expected: str) -> None:
    assert common_name(names, "MatMul") == expected


@pytest.mark.parametrize("path", model_cases("real", where=lambda path: path.stem == "sample-apps__transformer"))
def test_blocks_of_short_names_are_shorter(path: Path) -> None:
    """Longer ones, as of normalisations, break lines until a function of two layers is not worth it.

    With samples first layers are so short that none is.
    """
    assert common_name(["v_3_centred", "v_9_centred"], "LayerNormalization") == "LayerNorm_centred"
    assert len(calls_of(import_model(path, omitted=["samples-first"]), "layers")) == 2


@pytest.mark.parametrize(("scopes", "weights", "expected"), [
    ([("encoder", "layer", "0"), ("encoder", "layer", "1")], [], "encoder_layer"),
    ([(), ()], [("layers_0_bias", "layers_1_bias"), ("v_1", "v_2")], "layers"),
    ([(), ()], [("m_encoder_layers_0_bias", "m_encoder_layers_1_bias")], "encoder_layers"),
    ([("a",), ("b",)], [("bias", "bias"), ("v_1", "v_2"), ("own_1", "other_2")], "block"),
])
def test_blocks_are_called_by_their_scopes_or_weights(
    scopes: list[tuple[str, ...]], weights: list[tuple[str, ...]], expected: str
) -> None:
    assert block_name(scopes, weights) == expected


def test_own_functions_of_a_model_are_written_out() -> None:
    body = [helper.make_node(op, [given], [result]) for op, given, result in
            (("Tanh", "a", "b"), ("Exp", "b", "c"), ("Sin", "c", "d"), ("Cos", "d", "e"))]
    function = helper.make_function("own", "Waves", ["a"], ["e"], body, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Waves", [given], [result], domain="own") for given, result in (("X", "H"), ("H", "Y"))]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "XY"]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "waves", infos[:1], infos[1:])
    model = helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)
    names = {mode: [it.name for it in import_model(model, functions=mode).functions] for mode in ("keep", "flat")}
    assert names == {"keep": ["gen_Waves", "gen_waves"], "flat": ["gen_waves"]}


def test_comments_say_of_which_module_statements_are() -> None:
    lines = import_model(encoder(2), weights="inline").text.splitlines()
    comments = {line: lines[place + 1].split(" = ")[0] for place, line in enumerate(lines) if line.startswith("  # en")}
    assert [*comments.items()] == [
        ("  # encoder.layer.0", "  layer_0_attention_query_weight_fused"),
        ("  # encoder.layer.1", "  layer_1_attention_query_weight_fused"),
    ]
    assert "  Y = tanh(layer_1_norm)  # pooler" in lines


def repeats_in(text: str, given: str = "X", results: str = "Y") -> list[tuple[int, int, list[tuple[str, ...]]]]:
    """Number and length of the sequences, and their parameters."""
    found = find_repeats(parse_script(text).statements, [given], [results])
    return [(len(it.instances), len(it.instances[0]), list(it.parameters)) for it in found]


def layers(*changed: str, count: int = 4) -> str:
    """Statements that are alike; ``changed``: some of them as they are in the second layer."""
    text = ["x0 = exp(X)"]
    for number in range(count):
        lines = ["w{n} = matrix(\"{n} 1\", rows=1, cols=2)", "a{n} = sin(x{n})", "b{n} = a{n} * w{n}", "c{n} = cos(b{n})",
                 "d{n} = c{n} + a{n}", "e{n} = abs(d{n})", "f{n} = sqrt(e{n})", "g{n} = f{n} - 1", "x{m} = g{n} * x{n}"]
        for line in changed if number == 1 else ():
            lines = [line if line.split(" = ")[0] == old.split(" = ")[0] else old for old in lines]
        text += [line.format(n=number, m=number + 1) for line in lines]
    return "\n".join([*text, f"Y = exp(x{count})"])


def test_repeats() -> None:
    assert repeats_in(layers()) == [(4, 8, [("x0", "x1", "x2", "x3"), ("w0", "w1", "w2", "w3")])]
    assert repeats_in(layers(count=1)) == []


@pytest.mark.parametrize("changed", [
    "d{n} = c{n} - a{n}", "d{n} = c{n} + b{n}", "g{n} = f{n} - 2", "c{n} = tan(b{n})", "d{n} = a{n} + c{n}",
])
def test_a_layer_that_differs_is_not_one_of_them(changed: str) -> None:
    assert [(times, length) for times, length, _ in repeats_in(layers(changed, count=6))] == [(4, 8)]


@pytest.mark.parametrize(("value", "name"), [
    ("matrix(cbind(X, X), rows=2 * n, cols=4)", "X_repeated"), ("cbind(X, exp(X))", "X_joined"),
    ("abs(matrix(1, rows=n, cols=1)) %*% X", "X_repeated"), ("matrix(X, rows=2 * n, cols=2)", None),
    ("X %*% matrix(1, rows=4, cols=1)", None), ("cbind(X, changed)", None),
    ("cbind(X, rand(rows=2, cols=1))", None),
])
def test_what_layers_repeat_alike_is_made_once(value: str, name: str | None) -> None:
    """Before them, but behind the checks; what is of a layer, and what changes, is made where it stands."""
    checked = "changed = X + n\nchanged = changed + 1\nif (n == 0) {\n  stop(n)\n}\n"
    layers = "a = X + 1\nb = a + {0}\nc = cbind(b, b)\nd = b * {0}\n"
    body = parse_script(checked + layers.format(value)).statements
    found = print_block(with_shared_expressions_in(body, ["X", "n"], impure_functions({})))
    expected = layers.format(value) if name is None else f"{name} = {value}\n{layers.format(name)}"
    assert found == checked + expected


def test_a_variable_that_changes_is_not_moved() -> None:
    assert repeats_in(layers("e{n} = abs(d{n})\ne{n} = e{n} + 1", count=2)) == []


@pytest.mark.parametrize(("name", "scopes", "expected"), [
    ("/m/encoder/layer.0/dense/MatMul", None, ("m", "encoder", "layer", "0", "dense")),
    ("MatMul_3", None, ()),
    ("node_add", "['', 'm', 'm.h.1', 'm.h.1.attn', 'add']", ("m", "h", "1", "attn")),
    ("/a/b", "['add']", ()),
    ("/a/b", "none", ()),
])
def test_scopes_of_nodes(name: str, scopes: str | None, expected: tuple[str, ...]) -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"], name)
    if scopes is not None:
        node.metadata_props.add(key=SCOPES, value=scopes)
    assert scope_of(node.name, node.metadata_props) == expected


@pytest.mark.engine
@pytest.mark.parametrize("samples", [1, 3])
def test_calls_within_layers_are_compiled_once(samples: int, tmp_path: Path) -> None:
    """Each layer multiplies pairs of matrices twice, by a function with loops."""
    layers = "\n".join(
        f"""a{number} = MatMul (x{number}, v{number}) c{number} = Tanh (a{number}) p{number} = MatMul (c{number}, c{number})
        q{number} = Sigmoid (p{number}) e{number} = MatMul (q{number}, w{number}) f{number} = Tanh (e{number})
        r{number} = MatMul (f{number}, f{number}) x{number + 1} = Add (r{number}, x{number})""" for number in range(2)
    )
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, 8, 8] X) => (float[N, 8, 8] Y) {{ x0 = Neg (X)\n{layers}\nY = Neg (x2) }}""")
    model.graph.initializer.extend(
        numpy_helper.from_array(random(8, 8), f"{name}{number}") for name in "vw" for number in range(2))
    script = import_model(model, functions="blocks", weights="inline")
    layer = next(function for function in script.functions if function is not script.main)
    before = [first for first, statement in pairwise(layer.body) if "batch_matmul" in called_in(statement)]
    assert before == [cut(CALLED_CUT)] * 2
    call = PlainCall(script, {"X": random(samples, 8, 8)}, tmp_path, "", "model")
    loop = ["for (trip in 1:10) {", call.call(), 'print("called")', "}"]
    program = [*sourced(script, tmp_path, "model"), *call.readings(), *loop, *call.writings()]
    output = run_dml("\n".join(program) + "\n", tmp_path, options=["-stats"])
    compiled = re.search(r"Functions recompiled:\s*(\d+)", output)
    assert compiled is not None and int(compiled[1]) <= 2 and output.count("called\n") == 10
