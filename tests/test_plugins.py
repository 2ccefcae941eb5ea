"""Plugins: the example of the documentation as an installed package, overriding, and what is said of plugins that fail."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_systemds import export_script, import_model
from onnx_systemds.dml.templates import add_templates
from onnx_systemds.errors import PluginError, TranspileError
from onnx_systemds.inference.registry import expanders, find, operator_generators, text_operators
from onnx_systemds.operators import expander, generator, rewrite, shape_rule
from onnx_systemds.plugins import load_plugins
from onnx_systemds.runtime.list_transfer import tensor_of_matrix
from onnx_systemds.verifying.verify import verify_model
from tests.invoking import invoke
from tests.test_docs import ROOT, example

pytestmark = pytest.mark.usefixtures("registries_restored")

PAGE = ROOT / "docs" / "plugins.md"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the documented package, as pip leaves it, and a model beside it."""
    project = example("package", PAGE)
    package, metadata = tmp_path / "site" / "company_operators", tmp_path / "site" / "company_operators-1.0.dist-info"
    (package / "templates" / "library").mkdir(parents=True)
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: company-operators\nVersion: 1.0\n")
    entries = re.search(r'\[project.entry-points."(.*)"\]\n((?:.+\n)+)', project)
    assert entries
    (metadata / "entry_points.txt").write_text(f"[{entries[1]}]\n" + entries[2].replace('"', ""))
    (package / "templates" / "library" / "swish.dml").write_text(example("library", PAGE))
    (package / "__init__.py").write_text(example("import plugin", PAGE))
    (package / "exporting.py").write_text(example("export plugin", PAGE))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.chdir(tmp_path)
    exec(compile(example("model", PAGE), "model", "exec"), {})
    return package


def refused(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    return result.output


def model(text: str, domain: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17{domain}]> g {text}')


def test_an_installed_package_in_both_directions(installed: Path, tmp_path: Path) -> None:
    result = invoke("gate.onnx", "--verbose")
    assert result.exit_code == 0, result.output
    assert "company-swish: Mul \"#1\": with 1 nodes before it" in result.output
    assert (tmp_path / "gate.dml").read_text() == example("script", PAGE)
    assert invoke("gate.dml", "--function", "gen_gate", "--input", "X=double[batch,3]", "-o", "company.onnx").exit_code == 0
    exported = onnx.load("company.onnx")
    assert [(node.domain, node.op_type) for node in exported.graph.node] == [("my.company", "Swish")]
    joined = export_script("X = read('X')\nY = X * (1 / (1 + exp(-X)))\nwrite(Y, 'Y')", inputs={"X": "double[n,3]"}, dtype="float16")
    assert [node.op_type for node in joined.graph.node if node.op_type != "Cast"] == ["Swish"]
    assert "| my.company.Swish | yes | 1 | 1 | samples |" in invoke("operators").output


def test_a_file_of_an_installed_plugin_may_be_named_as_well(installed: Path) -> None:
    for path in (installed / "__init__.py", "site/company_operators/__init__.py"):
        result = invoke("gate.onnx", "--plugin", path)
        assert result.exit_code == 0, result.output


def test_installed_plugins_are_left_out(installed: Path, tmp_path: Path) -> None:
    assert invoke("gate.onnx", "--no-plugins").exit_code == 0
    assert "swish" not in (tmp_path / "gate.dml").read_text()
    assert invoke("gate.onnx", "--no-pass", "company-swish").exit_code == 0
    assert "swish" not in (tmp_path / "gate.dml").read_text()


@pytest.mark.engine
def test_the_package_is_right(installed: Path) -> None:
    load_plugins()
    x = np.array([[-1000, -2, -0.5], [0, 3, 1000]], np.float32)
    report = verify_model("gate.onnx", {"X": x})
    assert report.passed and "swish(" in import_model("gate.onnx").text


def test_a_failing_installed_plugin_has_its_name(installed: Path) -> None:
    (installed / "exporting.py").write_text("1 / 0")
    output = refused("gate.onnx")
    assert output == ("error: the plugin company-export of company-operators 1.0, company_operators.exporting, fails: "
                      "ZeroDivisionError: division by zero\n"
                      "  hint: --no-plugins leaves out the plugins of installed packages\n")


def test_a_generator_that_fails_has_its_line(installed: Path, tmp_path: Path) -> None:
    text = (installed / "__init__.py").read_text().replace("    return node.matrix_result(", "    1 / 0\n    return node.matrix_result(")
    (installed / "__init__.py").write_text(text)
    line = text.splitlines().index("    1 / 0") + 1
    output = refused("gate.onnx")
    assert output == example("failure", PAGE).replace("FOLDER", str(tmp_path / "site")).replace("LINE", str(line))
    assert not (tmp_path / "gate.dml").exists()


def test_taking_our_place_is_said(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "my_softplus.py").write_text(example("override", PAGE))
    onnx.save(model("(float[2] X) => (float[2] Y) { Y = Softplus(X) }"), "s.onnx")
    output = refused("s.onnx", "--plugin", "my_softplus.py")
    assert re.sub(r"(activation.py):\d+", r"\1:LINE", output) == example("refusal", PAGE)
    (tmp_path / "my_softplus.py").write_text(example("override", PAGE).replace("since=1", "since=1, override=True"))
    for _ in range(2):  # again in the same process
        assert invoke("s.onnx", "--plugin", "my_softplus.py").exit_code == 0
    assert "Y = log(1 + exp(X))" in (tmp_path / "s.dml").read_text()
    (tmp_path / "other.py").write_text((tmp_path / "my_softplus.py").read_text())
    assert "one of the two has to go" in refused("s.onnx", "--plugin", "my_softplus.py", "--plugin", "other.py")


def test_an_override_serves_from_its_version_on() -> None:
    own = find(operator_generators, ("", "Relu"), 5)
    assert ("", "Gather") in text_operators

    def relu(node: object) -> None:
        """Never called."""

    with pytest.raises(ValueError, match=r'a generator of "Relu" from version 6 on is registered at onnx_systemds/'):
        generator("Relu", since=7)(relu)
    generator("Relu", since=7, override=True)(relu)
    assert [find(operator_generators, ("", "Relu"), version) is relu for version in (6, 7, 13, 14, 21)] == [False, True, True, True, True]
    assert find(operator_generators, ("", "Relu"), 5) is own
    generator("Gather", since=1, override=True)(relu)
    assert ("", "Gather") not in text_operators


def test_generators_and_expanders_are_of_one_operator() -> None:
    contrib = next(identity for identity in expanders if identity[0] == "com.microsoft")
    with pytest.raises(ValueError, match="an? expander of .* override=True"):
        generator(contrib[1], since=1, domain=contrib[0])(lambda node: None)
    with pytest.raises(ValueError, match="a generator of .* override=True"):
        expander("Relu", since=14)(lambda node: None)
    with pytest.raises(ValueError, match="overrides it as a whole"):
        expander("Relu", since=14, override=True)(lambda node: None)
    expander("Relu", since=1, override=True)(lambda node: node.emit("Max", [node.node.inputs[0], node.node.inputs[0]]))
    assert ("", "Relu") not in operator_generators or not operator_generators["", "Relu"]


def test_versions_count_from_1() -> None:
    with pytest.raises(ValueError, match="cannot serve from version 0 on"):
        generator("Own", since=0, domain="my.company")(lambda node: None)


def test_no_shape_rule_is_said_everywhere(tmp_path: Path) -> None:
    generator("Own", since=1, domain="my.company")(lambda node: node.matrix_result(node.matrix(0, 1), 1))
    onnx.save(model("(float[2] X) => (float[2] Y) { Y = my.company.Own(X) }", ', "my.company": 1'), tmp_path / "own.onnx")
    words = "the operator has no shape rule, and ONNX does not infer its outputs"
    assert words in refused(tmp_path / "own.onnx")
    shown = invoke("inspect", tmp_path / "own.onnx").output
    assert words in shown and "supported from" not in shown
    assert "| my.company.Own | no: it has no shape rule |" in invoke("operators").output
    shape_rule("Own", domain="my.company")(lambda node: (node.tensor(node.dims(0)),))
    assert "| my.company.Own | yes |" in invoke("operators").output


def test_a_misspelt_name_is_told_from_a_domain_that_nobody_knows() -> None:
    generator("Own", since=1, domain="my.company")(lambda node: node.matrix_result(node.matrix(0, 1), 1))
    with pytest.raises(TranspileError, match='my.company.Owm, opset 1.: the operator has no generator\n  hint: its domain has: "Own"'):
        import_model(model("(float[2] X) => (float[2] Y) { Y = my.company.Owm(X) }", ', "my.company": 1'))


@pytest.mark.parametrize(("shape", "dims"), [((3, 3), (3, 2)), ((2, 3), (3, 2)), ((1, 3), (3,)), ((2, 1), ())])
def test_results_of_other_dims_than_the_shape_rule_says(shape: tuple[int, int], dims: tuple[int, ...]) -> None:
    (port,) = import_model(model("(float[n] X) => (float[n] Y) { Y = Neg(X) }")).outputs
    with pytest.raises(TranspileError, match=re.escape(f'output "Y" is {shape[0]} x {shape[1]}, not {list(dims)} as its dims say')):
        tensor_of_matrix(port, np.ones(shape), dims, {})


def test_templates_of_a_plugin(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    with pytest.raises(ValueError, match=r"holds no operators/\*.dml.jinja and no library/\*.dml"):
        add_templates(folder)
    (folder / "operators").mkdir(parents=True)
    (folder / "library").mkdir()
    (folder / "operators" / "shifted.dml.jinja").write_text("{{ y }} = {{ x }} + {{ by }}")
    (folder / "library" / "sum.dml").write_text("sum = function() {}")
    with pytest.raises(ValueError, match="is called like a builtin of DML"):
        add_templates(folder)
    (folder / "library" / "sum.dml").rename(folder / "library" / "softplus.dml")
    with pytest.raises(ValueError, match=r"has the name of .*softplus.dml\": to take its place say override=True"):
        add_templates(folder)
    (folder / "library" / "softplus.dml").write_text("softplus = function(matrix[double] X) return (matrix[double] Y) {\n  Y = X + 0\n}\n")
    add_templates(folder, override=True)
    add_templates(folder, override=True)
    generator("Softplus", since=1, override=True)(
        lambda node: node.matrix_result("Y", 1, before=node.render("shifted", y="Y", x=node.call("softplus", node.matrix(0, 1)), by=2)))
    assert "  Y = X + 0\n" in import_model(model("(float[2] X) => (float[2] Y) { Y = Softplus(X) }")).text
    other = tmp_path / "other" / "library"
    other.mkdir(parents=True)
    (other / "softplus.dml").write_text("")
    with pytest.raises(ValueError, match="one of the two has to go"):
        add_templates(other.parent, override=True)


def test_rewrites_that_break_the_graph() -> None:
    text = "(float[2] X) => (float[2] Y) { A = Abs(X) B = Neg(A) Y = Add(A, B) }"
    rewrite("mine", "Neg")(lambda graph, node: (node, ["A"]))
    with pytest.raises(TranspileError, match='rewrite "mine", node "#1": the value "A" cannot go: other nodes read it'):
        import_model(model(text))
    with pytest.raises(ValueError, match='a rewrite "mine" is registered at .*test_plugins.py'):
        rewrite("mine", "Neg")(lambda graph, node: None)


def test_rewrites_that_read_what_is_not_there() -> None:
    rewrite("mine", "Neg")(lambda graph, node: (replace(node, inputs=("nowhere",)), []))
    with pytest.raises(TranspileError, match='after the rewrite "mine" node "Neg" reads what no node makes before it: "nowhere"'):
        import_model(model("(float[2] X) => (float[2] Y) { Y = Neg(X) }"))


def test_a_rewrite_says_why_not() -> None:
    rewrite("mine", "Neg")(lambda graph, node: "it is alone")
    notes = import_model(model("(float[2] X) => (float[2] Y) { Y = Neg(X) }")).notes
    assert [(note.fired, note.words) for note in notes if note.rule == "mine"] == [(False, "it is alone")]


def test_results_of_another_kind() -> None:
    text = "(float[2] X) => (float[2] Y) { Y = Neg(X) }"
    shape_rule("Neg", override=True)(lambda node: node.tensor(node.dims(0)))
    with pytest.raises(PluginError, match=r'node "#0" .*: the shape rule at .*test_plugins.py:\d+ gives Value, not a tuple'):
        import_model(model(text))


def test_dims_that_are_no_sizes() -> None:
    shape_rule("Neg", override=True)(lambda node: (node.tensor((2.0,)),))
    with pytest.raises(PluginError, match=r"the shape rule at .* gives float, not dims of integers and expressions"):
        import_model(model("(float[2] X) => (float[2] Y) { Y = Neg(X) }"))


def test_a_library_function_that_nobody_has() -> None:
    generator("Neg", since=1, override=True)(lambda node: node.matrix_result(node.call("my_neg", node.matrix(0, 1)), 1))
    with pytest.raises(TranspileError, match=r'node "#0" .*: there is no library function "my_neg"\n  hint: add_templates'):
        import_model(model("(float[2] X) => (float[2] Y) { Y = Neg(X) }"))


def test_a_generator_without_a_result() -> None:
    generator("Neg", since=1, override=True)(lambda node: None)
    with pytest.raises(PluginError, match=r"the generator at .*test_plugins.py:\d+ gives NoneType, not a fragment"):
        import_model(model("(float[2] X) => (float[2] Y) { Y = Neg(X) }"))


def test_statements_that_are_no_texts() -> None:
    """As of a snippet, which is a list of statements, within the list of statements."""
    generator("Neg", since=1, override=True)(lambda node: node.matrix_result("y", 1, before=[["y = 1"]]))
    with pytest.raises(PluginError, match=r"the plugin fails at .*test_plugins.py:\d+: TypeError: a statement is a text, not of type list"):
        import_model(model("(float[2] X) => (float[2] Y) { Y = Neg(X) }"))


def test_what_no_plugin_wrote_as_dml() -> None:
    generator("Neg", since=1, override=True)(lambda node: node.matrix_result(f"- - ( {node.matrix(0, 1)}", 1))
    with pytest.raises(TranspileError, match=r"the generator at .*test_plugins.py:\d+ wrote what is no DML"):
        import_model(model("(float[2] X) => (float[2] Y) { Y = Neg(X) }"))
