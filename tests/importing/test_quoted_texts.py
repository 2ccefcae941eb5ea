"""The program that scores files takes quotes from the texts of csv files, which the engine leaves on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.importing.coded_texts import with_coded_texts
from onnx_systemds.importing.score_program import score_text
from tests.command_line import run_dml
from tests.scored_files import numbers

NAMES = ["Graz", "Zell, am See", 'the "Mur"', "", '"']
pytestmark = pytest.mark.engine


def _program(folder: Path, inputs: list[str]) -> str:
    """Of a model that gives the number of a text, -1 where it is unknown, and adds the numbers of other columns."""
    nodes = [helper.make_node("LabelEncoder", ["T"], ["code"], domain="ai.onnx.ml", keys_strings=NAMES,
                              values_int64s=[*range(len(NAMES))], default_int64=-1),
             helper.make_node("Cast", ["code"], ["number"], to=TensorProto.FLOAT),
             helper.make_node("Sum", ["number", *inputs[1:]], ["Y"])]
    infos = [helper.make_tensor_value_info(name, TensorProto.STRING if name == "T" else TensorProto.FLOAT, ["n", 1])
             for name in inputs]
    graph = helper.make_graph(nodes, "small", infos, [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["n", 1])])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    script = with_coded_texts(import_model(helper.make_model(graph, opset_imports=opsets, ir_version=8)))
    script.save(folder / "model.dml")
    return score_text(script, "model")


@pytest.mark.parametrize("place", ["local", "whole"])
def test_a_column_of_texts(tmp_path: Path, place: str) -> None:
    program = _program(tmp_path, ["T"])
    lines = ['"T"', "Graz", '"Graz"', '"Zell, am See"', '"the ""Mur"""', '""', '""""', '"Linz"', 'the "Mur"']
    (tmp_path / "T.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_dml(program, tmp_path, arguments={"T": "T.csv", "Y": "Y.csv", "header": "TRUE", "rows": "2", "place": place})
    assert np.array_equal(numbers(tmp_path / "Y.csv").ravel(), [0, 0, 1, 2, 3, 4, -1, 2])


def test_texts_among_numbers(tmp_path: Path) -> None:
    program = _program(tmp_path, ["T", "A"])
    (tmp_path / "table.csv").write_text('"Graz",10\nGraz,20\n"Zell, am See",30\n', encoding="utf-8")
    run_dml(program, tmp_path, arguments={"table": "table.csv", "Y": "Y.csv"})
    assert np.array_equal(numbers(tmp_path / "Y.csv").ravel(), [10, 20, 31])


def test_a_text_of_several_lines_is_refused(tmp_path: Path) -> None:
    """The engine takes each line for a row."""
    program = _program(tmp_path, ["T", "A"])
    (tmp_path / "table.csv").write_text('Graz,10\n"Zell\nam See",30\n', encoding="utf-8")
    with pytest.raises(AssertionError, match="row 2: a text in double quotes does not end in its line"):
        run_dml(program, tmp_path, arguments={"table": "table.csv", "Y": "Y.csv"})
    assert not (tmp_path / "Y.csv").exists()
