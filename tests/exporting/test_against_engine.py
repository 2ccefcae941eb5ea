"""The engine's own parser reads what we print as it reads the original, and refuses what we refuse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.listing import script_arguments
from onnx_systemds.dml.printer import print_expression, print_script
from onnx_systemds.dml.tokens import BINARY_LEVELS, UNARY_LEVELS
from onnx_systemds.errors import ScriptSyntaxError
from onnx_systemds.exporting.sources import jar_script, jar_scripts
from tests.dml.test_syntax_errors import BROKEN
from tests.java import engine_java

Parse = Callable[..., "str | None"]

# Its lexer drops characters that it does not know, and a constant is one whatever its index.
LAX = {"x = \u201chello\u201d", "x =\u00a01", "x = NaN[1]"}
EVERY = 5  # all of them take half a minute


@pytest.fixture(scope="module")
def engine_parse() -> Iterator[Parse]:
    """A function from a script and its arguments to the engine's program as text, None if it refuses the script."""
    with engine_java() as java:
        systemds = java.org.apache.sysds.parser

        def parse(text: str, arguments: tuple[str, ...] = ()) -> str | None:
            values = java.java.util.HashMap()
            for name in arguments:
                values.put(f"${name}", "1")
            try:
                program = systemds.ParserFactory.createParser().parse(None, text, values)
            except Exception:
                return None
            functions = program.getNamespaces().get(systemds.DMLProgram.DEFAULT_NAMESPACE).getFunctions().values()
            blocks = (program.getStatementBlock(i) for i in range(program.getNumStatementBlocks()))
            shown = "\n".join(part.toString() for part in (*functions, *blocks))
            return re.sub(r"(_funvar|@)[0-9a-f]+", r"\1", shown)

        yield parse


def test_scripts_of_systemds_mean_the_same_when_printed(engine_parse: Parse) -> None:
    compared = 0
    for name in jar_scripts()[::EVERY]:
        try:
            script = jar_script(name)
        except ScriptSyntaxError:
            assert name == "scripts/databricks/demo.dml"
            continue
        assert script is not None
        arguments = tuple(script_arguments(script))
        original = engine_parse(script.text, arguments)
        if original is None:
            # Some import scripts that are not part of the jar.
            assert any(isinstance(node, tree.Source) for node in tree.walk(script)), name
            continue
        assert engine_parse(print_script(script), arguments) == original, name
        compared += 1
    assert compared >= 305 // EVERY - 5


NAMES = [tree.Name(name) for name in "abcd"]
OPERANDS = st.sampled_from([*NAMES, tree.IntLiteral(2), tree.DoubleLiteral(1.5)])
EXPRESSIONS = st.recursive(
    OPERANDS,
    lambda inner: st.one_of(
        st.builds(tree.Binary, st.sampled_from(sorted(BINARY_LEVELS)), inner, inner),
        st.builds(tree.Unary, st.sampled_from(sorted(UNARY_LEVELS)), inner),
    ),
    max_leaves=8,
)


def with_all_parentheses(node: tree.Expression) -> str:
    if isinstance(node, tree.Binary):
        return f"({with_all_parentheses(node.left)} {node.operator} {with_all_parentheses(node.right)})"
    if isinstance(node, tree.Unary):
        return f"({node.operator}{with_all_parentheses(node.operand)})"
    return print_expression(node)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(expression=EXPRESSIONS)
def test_parentheses_that_are_not_printed_are_not_needed(engine_parse: Parse, expression: tree.Expression) -> None:
    first = "a = 1; b = 2; c = 3; d = 4\n"
    expected = engine_parse(f"{first}x = {with_all_parentheses(expression)}")
    assert expected is not None
    assert engine_parse(f"{first}x = {print_expression(expression)}") == expected


def test_what_we_refuse_the_engine_refuses(engine_parse: Parse) -> None:
    accepted = {case[0] for case in BROKEN if engine_parse(case[0], ("a", "x", "y")) is not None}
    assert accepted == LAX
