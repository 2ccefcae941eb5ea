"""Names: legality, uniqueness, stability, readability and speed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_systemds.dml.names import LONGEST_IDENTIFIER, Names, generate_function_name, legal_identifier
from onnx_systemds.dml.words import AVOIDED_WORDS, BUILTIN_FUNCTIONS, RESERVED_WORDS
from tests.cpu_time import check_linear
from tests.java import engine_java

_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def assert_legal(identifier: str) -> None:
    assert _LEGAL.fullmatch(identifier), identifier
    assert len(identifier) <= LONGEST_IDENTIFIER
    assert identifier not in AVOIDED_WORDS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/layer1/conv.1/Conv_output_0", "layer1_conv_1_Conv_output_0"),
        ("input:0", "input_0"),
        ("input.1", "input_1"),
        ("x", "x"),
        ("a__b", "a__b"),
        ("_private_", "private"),
        ("123", "v_123"),
        ("", "v"),
        ("///", "v"),
        ("日本", "v"),
        ("größe", "gr_e"),
        ('{"a": [1, 2]}\n', "a_1_2"),
        ("x = 1\nprint(x)", "x_1_print_x"),
        ("if", "if_"),
        ("TRUE", "TRUE_"),
        ("True", "True_"),
        ("Double", "Double_"),
        ("NaN", "NaN_"),
        ("t", "t_"),
        ("table", "table_"),
        ("read", "read_"),
        ("/softmax", "softmax_"),
        ("weights", "weights_"),
        ("weight", "weight"),
        ("Softmax", "Softmax"),
    ],
)
def test_readable(name: str, expected: str) -> None:
    assert legal_identifier(name) == expected


def test_default_is_used_for_nothing_and_before_a_digit() -> None:
    assert legal_identifier("", "out") == "out"
    assert legal_identifier("7", "out") == "out_7"


def test_long_names_keep_head_and_tail() -> None:
    shortened = legal_identifier("encoder/" + "block/" * 2000 + "attention/output")
    assert shortened.startswith("encoder_block_")
    assert shortened.endswith("_attention_output")
    assert_legal(shortened)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("main_graph", "gen_main_graph"),
        ("abs", "gen_abs"),
        ("", "gen_graph"),
        ("2D", "gen_2D"),
        ("if", "gen_if"),
    ],
)
def test_function_names(name: str, expected: str) -> None:
    assert generate_function_name(name) == expected


@given(st.text(max_size=200))
def test_any_text_gives_a_legal_identifier(name: str) -> None:
    assert_legal(legal_identifier(name))
    assert_legal(generate_function_name(name))


@given(st.lists(st.text(alphabet="aA1_./tif\n", max_size=4)))
def test_a_scope_is_injective_and_stable(hostile: list[str]) -> None:
    names = Names(reserved=["a", "a_2"])
    first = {name: names.of(name) for name in hostile}
    assert len(set(first.values())) == len(first)
    for name, identifier in first.items():
        assert_legal(identifier)
        assert identifier not in {"a", "a_2"}
        assert names.of(name) == identifier


@given(st.lists(st.text(alphabet="x_12", max_size=5)))
def test_fresh_never_repeats(hints: list[str]) -> None:
    names = Names()
    made = [names.fresh(hint) for hint in hints]
    assert len(set(made)) == len(made)


def test_case_is_kept() -> None:
    names = Names()
    assert [names.of("Abc"), names.of("abc"), names.of("ABC")] == ["Abc", "abc", "ABC"]


def test_a_suffix_that_is_taken_is_skipped() -> None:
    names = Names()
    assert [names.of("x"), names.of("x_2"), names.of("x."), names.of("x:")] == ["x", "x_2", "x_3", "x_4"]


@pytest.mark.parametrize("stem", ["conv", "c" * 200, "t"])
def test_many_clashes_take_linear_time(stem: str) -> None:
    def clash(count: int) -> None:
        names = Names()
        made = {names.of(stem + "." * (i % 97) + ":" * (i // 97)) for i in range(count)}
        made |= {names.fresh(stem) for _ in range(count)}
        assert len(made) == 2 * count

    check_linear(clash, 1_000)


def test_same_under_any_hash_seed() -> None:
    program = (
        "from onnx_systemds.dml.names import Names\n"
        "n = Names(['q'])\n"
        "print([n.of(x) for x in ('a.b', 'a:b', 'a/b', 'if', 't', 'q', 'z' * 99)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            cwd=Path(__file__).parents[1],
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1


def test_word_list_has_the_grammar_keywords() -> None:
    assert {"parfor", "externalFunction", "Unknown", "pi", "FALSE"} <= RESERVED_WORDS


def test_builtin_functions_are_those_of_the_engine() -> None:
    with engine_java() as java:
        listed = list(java.org.apache.sysds.common.Builtins.values())
        names = {name for builtin in listed for name in (builtin.getName(), builtin.getAlias()) if name is not None}
    assert names == BUILTIN_FUNCTIONS
