"""Documents are fresh: what they show is what happens, generated pages are what the registry says.

``python -m tests.test_docs`` rewrites docs/operators.md, docs/builtins.md, docs/command_line.md, docs/python.md, what
docs/quickstart.md and README.md show of a script and its results, program and plan in docs/scoring.md and what
docs/adding_an_operator.md shows.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_systemds.cli import builtin_table
from onnx_systemds.cli.support_table import document
from tests.command_line import run_dml
from tests.docs import reference
from tests.docs.pages import blocks_of
from tests.official.survey import read_manifest

ROOT = Path(__file__).parent.parent
OPERATORS = ROOT / "docs" / "operators.md"
BUILTINS = ROOT / "docs" / "builtins.md"
README = ROOT / "README.md"
QUICKSTART = ROOT / "docs" / "quickstart.md"
SCORING = ROOT / "docs" / "scoring.md"
PYTHON_API = ROOT / "docs" / "python_api_of_systemds.md"
EXPORTING = ROOT / "docs" / "exporting.md"
COMPARISON = ROOT / "docs" / "comparison.md"
COMMANDS = ROOT / "docs" / "command_line.md"
PYTHON = ROOT / "docs" / "python.md"
ADDING = ROOT / "docs" / "adding_an_operator.md"
ADDING_BUILTIN = ROOT / "docs" / "adding_a_builtin.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
REFRESH = "refresh by python -m tests.test_docs, and read the diff"


def example(name: str, document: Path = QUICKSTART) -> str:
    """The code block after ``<!-- example: name -->`` in a document."""
    found = re.search(rf"<!-- example: {name} -->\n```\w*\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"{document.name} has no example {name}"
    return found[1]


def run_python(code: str, folder: Path) -> str:
    """Run Python code in a folder; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def generated_script(folder: Path) -> str:
    """Make the quickstart's model and convert it with the command line."""
    run_python(example("model"), folder)
    run_python("from onnx_systemds.cli.commands import main; main(['mlp.onnx', '-o', 'mlp.dml'])", folder)
    return (folder / "mlp.dml").read_text(encoding="utf-8")


def test_operators_document_is_fresh() -> None:
    assert OPERATORS.read_text(encoding="utf-8") == document(), REFRESH


def test_references_are_fresh() -> None:
    assert COMMANDS.read_text(encoding="utf-8") == reference.command_line(), REFRESH
    assert PYTHON.read_text(encoding="utf-8") == reference.python(), REFRESH


def test_the_reference_of_python_is_python() -> None:
    blocks = [block.text for block in blocks_of(PYTHON.read_text(encoding="utf-8"))]
    names = [getattr(node, "name", "") for text in blocks for node in ast.parse(text).body]
    assert {"import_model", "export_script", "ScoringFunction", "generator", "builtin"} <= {*names}


def test_builtins_document_is_fresh() -> None:
    assert BUILTINS.read_text(encoding="utf-8") == builtin_table.document(), REFRESH


def results(folder: Path) -> dict[str, str]:
    """What the quickstart's model gives, by the names of the examples; its script is in the folder."""
    rows = re.findall(r"^\d.*$", run_dml(example("wrapper"), folder), re.MULTILINE)
    return {"printed": "".join(f"{row}\n" for row in rows), "python result": run_python(example("python"), folder)}


def test_the_quickstart_shows_the_real_script_and_it_runs(tmp_path: Path) -> None:
    assert generated_script(tmp_path) == example("script"), REFRESH
    assert results(tmp_path) == {name: example(name) for name in ("printed", "python result")}, REFRESH


def test_readme_shows_what_the_quickstart_shows() -> None:
    for name in ("script", "wrapper", "printed", "network", "verify"):
        assert example(name, README) == example(name), REFRESH


def verification(folder: Path) -> str:
    """What ``verify`` prints of the quickstart's model, without the version of onnxruntime."""
    printed = run_python("from onnx_systemds.cli.commands import main; main(['verify', 'mlp.onnx', '--per-node'])", folder)
    return re.sub(r"(onnxruntime) [\d.]+", r"\1", printed)


@pytest.mark.engine
def test_the_quickstart_verifies_the_model(tmp_path: Path) -> None:
    run_python(example("model"), tmp_path)
    assert verification(tmp_path) == example("verify")


def test_the_quickstart_scores_a_table(tmp_path: Path) -> None:
    run_python(example("pipeline"), tmp_path)
    arguments = ["people.onnx", "-o", "people.dml", "--function-name", "people"]
    run_python(f"from onnx_systemds.cli.commands import main; main({arguments})", tmp_path)
    assert example("scores") in run_dml(example("table"), tmp_path)
    assert (tmp_path / "scores.csv").read_text(encoding="utf-8").startswith("no,0.87005")


@pytest.mark.engine
def test_the_quickstart_scores_a_file(tmp_path: Path) -> None:
    run_python(example("pipeline"), tmp_path)
    arguments = ["score", "people.onnx", "--input", "people.csv", "--output", "scores.csv"]
    printed = run_python(f"from onnx_systemds.cli.commands import main; main({arguments})", tmp_path)
    assert printed.startswith("scores.csv: 6 rows, ")
    shown, written = example("scored").split(), (tmp_path / "scores.csv").read_text(encoding="utf-8").split()
    assert shown[0] == written[0] and len(written) == 7
    for expected, found in zip(shown[1:], written[1:]):
        assert [text[:5] for text in found.split(",")] == [text[:5] for text in expected.split(",")]


def run_commands(commands: str, folder: Path) -> str:
    """Run lines of a shell in a folder; returns all that they print."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-euc", commands], cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=True).stdout


def export(folder: Path) -> str:
    """Export the quickstart's network; returns what the commands print."""
    (folder / "net.dml").write_text(example("network"), encoding="utf-8")
    return run_commands(example("export commands"), folder)


def test_the_quickstart_exports_a_network(tmp_path: Path) -> None:
    assert export(tmp_path) == example("export result"), REFRESH
    nodes = [node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node]
    for page in (README, QUICKSTART):
        assert f"`{', '.join(nodes)}`" in page.read_text(encoding="utf-8")


def score_program(folder: Path) -> str:
    """The program that scores files with the quickstart's model."""
    run_python(example("model"), folder)
    run_python("from onnx_systemds.cli.commands import main; main(['mlp.onnx', '-o', 'mlp.dml', '--score'])", folder)
    return (folder / "mlp_score.dml").read_text(encoding="utf-8")


def head_of(program: str) -> str:
    """What the page shows of a program: the comments that say how it is started."""
    return program[: program.index("# What a federated site")].rstrip() + "\n"


def plan(folder: Path) -> str:
    """What ``inspect --plan`` prints of the quickstart's model."""
    run_python(example("model"), folder)
    words = ["inspect", "mlp.onnx", "--dim", "batch=2000000", "--plan", "spark"]
    return run_python(f"from onnx_systemds.cli.commands import main; main({words})", folder)


def test_scoring_shows_the_real_plan(tmp_path: Path) -> None:
    assert plan(tmp_path) == example("plan", SCORING), REFRESH


@pytest.mark.engine
def test_a_file_is_scored(tmp_path: Path) -> None:
    program = score_program(tmp_path)
    assert head_of(program) == example("program", SCORING), REFRESH
    np.savetxt(tmp_path / "rows.csv", np.arange(1, 149).reshape(37, 4), delimiter=",")
    assert "scored 37 rows in" in run_dml(program, tmp_path, arguments={"X": "rows.csv", "Y": "scores.csv"})
    scores = np.loadtxt(tmp_path / "scores.csv", delimiter=",")
    given = np.arange(1, 149).reshape(37, 4) + 1
    assert np.allclose(scores[:, 0], 1 / (1 + np.exp(given[:, 1] / 4 - given[:, 0])))


@pytest.mark.engine
def test_models_in_the_python_api_of_systemds(tmp_path: Path) -> None:
    generated_script(tmp_path)
    assert example("printed", PYTHON_API) in run_python(example("module", PYTHON_API), tmp_path)
    assert example("source printed", PYTHON_API) in run_python(example("source", PYTHON_API), tmp_path)
    assert example("exported", PYTHON_API) in run_python(example("export", PYTHON_API), tmp_path)


@pytest.mark.engine
def test_several_results_in_the_python_api_of_systemds(tmp_path: Path) -> None:
    (tmp_path / "classifier.dml").write_text(
        "gen_classifier = function(matrix[double] X) return (matrix[double] label, matrix[double] probabilities) {\n"
        "  label = rowIndexMax(X)\n  probabilities = X / rowSums(X)\n}\n", encoding="utf-8")
    (tmp_path / "own.dml").write_text(example("several", PYTHON_API), encoding="utf-8")
    code = example("source", PYTHON_API).replace("mlp.dml", "own.dml").replace("gen_mlp", "label").replace("np.ones((1, 4))", "np.eye(3)")
    assert "[[1.]\n [2.]\n [3.]]" in run_python(code, tmp_path)


def own_operator(folder: Path) -> tuple[str, str]:
    """The script of the model with an operator of its own domain, and what the Python call prints."""
    run_python(example("own model", ADDING), folder)
    (folder / "my_operators.py").write_text(example("own plugin", ADDING), encoding="utf-8")
    run_python("from onnx_systemds.cli.commands import main; main(['nearest.onnx', '--plugin', 'my_operators.py'])", folder)
    printed = run_python(f"import sys; sys.path.insert(0, '')\n{example('own call', ADDING)}", folder)
    return (folder / "nearest.dml").read_text(encoding="utf-8"), printed


@pytest.mark.engine
def test_own_operator_is_shown_as_it_is(tmp_path: Path) -> None:
    script, printed = own_operator(tmp_path)
    assert script == example("own script", ADDING)
    assert printed == example("own result", ADDING)


@pytest.mark.engine
def test_the_module_of_tests_for_an_operator() -> None:
    code = compile(example("test module", ADDING), "test_softsign.py", "exec")
    module: dict[str, Any] = {"__name__": "test_softsign"}
    exec(code, module)
    for case in module["CASES"]:
        module["test_case"](case)
    assert [row.op_type for row in module["DERIVATIVES"]] == ["Softsign"]


def listed(head: str) -> set[str]:
    """The modules in the first column of a table of docs/architecture.md, without folders and endings."""
    table = ARCHITECTURE.read_text(encoding="utf-8").split(f"| {head} | duty |\n", 1)[1].split("\n\n", 1)[0]
    names = re.findall(r"`([\w./]+)`", " ".join(row.split("|")[1] for row in table.splitlines()[1:]))
    return {name.rpartition("/")[2].removesuffix(".py") for name in names} - {""}


def modules(folder: str) -> set[str]:
    """The modules in a folder of the package."""
    return {path.stem for path in (ROOT / "onnx_systemds" / folder).glob("*.py")} - {"__init__"}


def test_the_tables_of_modules_are_whole() -> None:
    passes = modules("importing/passes")
    assert listed("module of `importing/`") == modules("importing")
    assert listed("module of `importing/passes/`") == passes
    parts = ("exporting", "exporting/evaluating", "exporting/graph", "exporting/passes")
    assert listed("module of `exporting/`") - {"export_command"} == set().union(*map(modules, parts))


@pytest.mark.engine
def test_a_script_of_people_is_scored_by_a_model(tmp_path: Path) -> None:
    (tmp_path / "train.dml").write_text(example("train", EXPORTING), encoding="utf-8")
    (tmp_path / "score.dml").write_text(example("score", EXPORTING), encoding="utf-8")
    assert run_commands(example("people commands", EXPORTING), tmp_path) == example("people result", EXPORTING)


@pytest.mark.parametrize("name", ["external", "iterative", *(pytest.param(name, marks=pytest.mark.engine) for name in ("first", "verify"))])
def test_commands_that_export(name: str, tmp_path: Path) -> None:
    (tmp_path / "score.dml").write_text(example(f"{name} script", EXPORTING), encoding="utf-8")
    assert run_commands(example(f"{name} commands", EXPORTING), tmp_path) == example(f"{name} result", EXPORTING)


def test_official_cases_are_counted_as_the_manifest_does() -> None:
    passing = [name for name in read_manifest() if name.startswith("node/")]
    assert f"{len(passing):,} pass" in README.read_text(encoding="utf-8")
    assert f"{len(passing):,} of " in COMPARISON.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [README, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "tutorials").glob("*.md"))],
                         ids=lambda page: page.stem)
def test_engines_are_started_with_the_module_that_they_need(page: Path) -> None:
    commands = re.findall(r"java [^\n]*DMLScript", page.read_text(encoding="utf-8"))
    assert all(command.startswith("java --add-modules=jdk.incubator.vector ") for command in commands)


def main() -> None:
    """Rewrite what is generated."""
    OPERATORS.write_text(document(), encoding="utf-8")
    BUILTINS.write_text(builtin_table.document(), encoding="utf-8")
    COMMANDS.write_text(reference.command_line(), encoding="utf-8")
    PYTHON.write_text(reference.python(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        shown = {"script": generated_script(Path(name)), "verify": verification(Path(name)), "network": example("network"),
                 "wrapper": example("wrapper"), "export result": export(Path(name)), **results(Path(name))}
        for words, text in shown.items():
            replace_example(QUICKSTART, words, text)
            replace_example(README, words, text)
        replace_example(SCORING, "program", head_of(score_program(Path(name))))
        replace_example(SCORING, "plan", plan(Path(name)))
        script, printed = own_operator(Path(name))
    replace_example(ADDING, "own script", script)
    replace_example(ADDING, "own result", printed)


def replace_example(document: Path, name: str, text: str) -> None:
    """Put other text into the code block of an example."""
    head = re.compile(rf"(<!-- example: {name} -->\n```\w*\n).*?(```)", re.DOTALL)
    changed = head.sub(lambda found: found[1] + text + found[2], document.read_text(encoding="utf-8"))
    document.write_text(changed, encoding="utf-8")


if __name__ == "__main__":
    main()
