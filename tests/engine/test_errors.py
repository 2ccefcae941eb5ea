"""How Java's cause chains become engine errors; needs no JVM."""

from __future__ import annotations

import pytest

from onnx_systemds.engine.errors import (
    EngineClosed,
    EngineError,
    EngineTimeout,
    EngineUnavailable,
    FailedNode,
    JavaFailure,
    ScriptCompileError,
    ScriptRuntimeError,
    compile_error,
    runtime_error,
    token_error,
)

SCRIPT = 'X = read("./X")\nA = X + 1\nY = A + Q\nwrite(Y, "./Y")'
PARSE_ISSUES = """
--------------------------------------------------------------
The following 2 parse issues were encountered:
#1 [line 2:4] [Syntax error] -> A = X + 1
   extraneous input '*' expecting ID ([@10,18:18='*',<33>,2:4])
#2 [line 4:0] [Validation error] -> write(Y, "./Y")
   cannot parse the int value: '*1'
--------------------------------------------------------------"""


def language_failure(message: str) -> list[JavaFailure]:
    inner = "org.apache.sysds.parser.LanguageException"
    return [
        JavaFailure("org.apache.sysds.api.DMLException", f"{inner}: {message}"),
        JavaFailure(inner, message),
    ]


@pytest.mark.parametrize(
    "kind", [EngineUnavailable, EngineTimeout, EngineClosed, ScriptCompileError, ScriptRuntimeError]
)
def test_every_error_is_an_engine_error(kind: type[EngineError]) -> None:
    assert issubclass(kind, EngineError)
    assert kind("message").message == "message"


def test_hint_is_shown_below_the_message() -> None:
    assert str(EngineUnavailable("no Java", "install it")) == "no Java\n  hint: install it"


def test_compile_error_carries_place_and_line() -> None:
    message = "Invalid Parameters : ERROR: [line 3:8] -> Q -- Undefined Variable (Q) used in statement"
    error = compile_error(language_failure(message), SCRIPT)
    assert (error.line, error.column, error.source_line) == (3, 8, "Y = A + Q")
    assert str(error) == ("line 3:8: Undefined Variable (Q) used in statement\n  Y = A + Q\n          ^")


def test_first_of_several_parse_issues_counts() -> None:
    error = compile_error([JavaFailure("org.apache.sysds.parser.ParseException", PARSE_ISSUES)], SCRIPT)
    assert (error.line, error.column, error.source_line) == (2, 4, "A = X + 1")
    assert error.message == "syntax error: extraneous input '*' expecting ID"
    assert "line before" in error.hint


def test_line_of_a_sourced_file_is_found_there() -> None:
    message = "ERROR: [line 2:6] -> B = zz + 1 -- Undefined Variable (zz) used in statement"
    library = "f = function(matrix[double] A) return (matrix[double] B) {\n  B = zz + 1\n}"
    assert compile_error(language_failure(message), SCRIPT, {"l.dml": library}).source_line == "  B = zz + 1"


def test_compile_error_without_place() -> None:
    chain = language_failure("ERROR: null -- line 0, column 0 -- stop() is not allowed inside a parfor")
    error = compile_error(chain, SCRIPT)
    assert error.line is None and error.column is None
    assert "stop() is not allowed" in str(error)
    assert "org.apache" not in str(error)


def test_place_outside_the_script_has_no_source_line() -> None:
    error = compile_error(language_failure("ERROR: [line 99:1] -> nothing -- bad"), SCRIPT)
    assert (error.line, error.source_line) == (99, "")


def test_empty_chain_still_gives_an_error() -> None:
    assert "without a message" in str(compile_error([], SCRIPT))
    overflow = [JavaFailure("java.lang.StackOverflowError", "")]
    assert "SystemDS's compiler ends in java.lang.StackOverflowError" in str(compile_error(overflow, SCRIPT))
    assert "without a message" in str(runtime_error([]))


def test_token_error_is_taken_from_the_output() -> None:
    error = token_error(["something else", "line 2:5 token recognition error at: '.b'"], SCRIPT)
    assert error is not None
    assert (error.line, error.column, error.source_line) == (2, 5, "A = X + 1")
    assert token_error(["ERROR line 2:5 mismatched"], SCRIPT) is None


def test_runtime_error_names_innermost_cause_and_instruction() -> None:
    outer = (
        "ERROR: Runtime error in program block generated from statement block between lines 1 and 4 -- Error "
        "evaluating instruction: CP°ba+*°X·MATRIX·FP64°W·MATRIX·FP64°_mVar6·MATRIX·FP64°2"
    )
    chain = [
        JavaFailure("org.apache.sysds.runtime.DMLRuntimeException", outer),
        JavaFailure("java.lang.RuntimeException", "Dimensions do not match (3!=4)."),
    ]
    error = runtime_error(chain)
    assert error.message == "Dimensions do not match (3!=4)."
    assert error.instruction == "CP ba+* X W _mVar6 2"
    assert error.lines == (1, 4)
    assert "between lines 1 and 4" in str(error)


def test_stop_text_is_the_whole_message() -> None:
    error = runtime_error([JavaFailure("org.apache.sysds.runtime.DMLScriptException", "my message")])
    assert str(error) == "my message"


def test_java_exception_without_message_keeps_its_name() -> None:
    assert (
        runtime_error([JavaFailure("java.lang.NullPointerException", "")]).message == "NullPointerException"
    )


def test_compile_errors_of_operators_have_their_place_too() -> None:
    message = "ERROR: line 3, column 4 -- Hops::optimizeMMChain() : Matrix Dimension Mismatch: 8 != 9"
    error = compile_error([JavaFailure("org.apache.sysds.hops.HopsException", message)], SCRIPT)
    assert (error.line, error.column, error.source_line) == (3, 4, "Y = A + Q")
    assert error.message == "Hops::optimizeMMChain() : Matrix Dimension Mismatch: 8 != 9"


def test_runtime_error_has_all_blocks_that_were_running() -> None:
    block = "ERROR: Runtime error in program block generated from statement block between lines {} and {} -- Error "
    chain = [JavaFailure("org.apache.sysds.runtime.DMLRuntimeException", block.format(*lines) + instruction)
             for lines, instruction in [((9, 12), "evaluating instruction: CP°FCall°f"), ((0, 0), "in a loop"),
                                        ((2, 3), "evaluating instruction: CP°ba+*°X·MATRIX·FP64")]]
    error = runtime_error([*chain, JavaFailure("java.lang.RuntimeException", "Dimensions do not match (3!=4).")])
    assert error.blocks == ((9, 12), (2, 3))
    assert error.lines == (2, 3)
    assert error.instruction == "CP ba+* X"


def test_a_whole_function_is_no_block() -> None:
    """It has the statements of all nodes: one that fails in none of them is of no node."""
    message = "ERROR: Runtime error in function program block generated from function statement block between lines 2 and 33 -- Error"
    assert runtime_error([JavaFailure("org.apache.sysds.runtime.DMLRuntimeException", message)]).blocks == ()


def test_errors_are_told_with_the_node_that_failed() -> None:
    error = ScriptRuntimeError("no", "advice", instruction="CP exp", blocks=[(3, 4)])
    error.node = FailedNode("node 1", ("X float [2]", "W float [3]"), "Y = exp(X)", 7, ("node 2",))
    assert str(error).splitlines() == [
        "node 1: no (instruction CP exp)",
        "  takes: X float [2], W float [3]",
        "  line 7 of the script: Y = exp(X)",
        "  or it is node 2",
        "  hint: advice",
    ]
    refused = ScriptCompileError("no", 3, 8, "Y = A + Q")
    refused.node = FailedNode("node 1", (), "Y = A + Q")
    assert str(refused) == "node 1: no\n  statement: Y = A + Q"
