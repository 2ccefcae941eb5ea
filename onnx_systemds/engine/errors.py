"""The errors of the engine, and how a chain of Java exceptions becomes one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LINE_AND_COLUMN = re.compile(r"(?:\[line |\bline )(\d+)(?::|, column )(\d+)")
_TOKEN_ERROR = re.compile(r"^line (\d+):(\d+) (token recognition error at: .*)$")
_STATEMENT_OF_ERROR = re.compile(r"\[line \d+:\d+\][^\n]*?-> ([^\n]*?)(?: -- |$)", re.MULTILINE)
_INSTRUCTION = re.compile(r"Error evaluating instruction: (.+)", re.DOTALL)
_BLOCK_LINES = re.compile(r"(?<!function statement block between )lines (\d+) (?:and|to) (\d+)|\(lines (\d+)-(\d+)\)")
_CALL_OF_OTHER_FILE = re.compile(r"error executing function (?!\.defaultNS::)")
_JAVA_NAME_BEFORE_MESSAGE = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_REFUSED_INDEX = re.compile(r"table \(one of the value <= zero\)|w/ zeros for rexpand|values for matrix indexing")
_INDEX_HINT = "an index is out of range"
_SYNTAX_HINT = "the fault may stand on the line before: SystemDS reports the place where it could not go on"


def compile_error(
    chain: Sequence[JavaFailure], script: str, sources: Mapping[str, str] | None = None
) -> ScriptCompileError:
    """Return the error for a script that SystemDS refused; `chain` is outermost first.

    The innermost message with a line number counts, and of a list of parse issues the first: those after it
    are often consequences.
    """
    messages = [failure.message for failure in chain if failure.message]
    placed = [message for message in messages if _place(message) is not None]
    if not placed:
        message = _strip_java_names(messages[-1]) if messages else _name(chain)
        return ScriptCompileError(message.strip())
    text = _first_issue(placed[-1])
    place = _place(text)
    assert place is not None
    statement = _STATEMENT_OF_ERROR.search(text)
    source = _source_line(place[0], statement.group(1) if statement else "", script, sources or {})
    hint = _SYNTAX_HINT if "[Syntax error]" in text else ""
    return ScriptCompileError(_readable_issue(text), place[0], place[1], source, hint)


def token_error(lines: Sequence[str], script: str) -> ScriptCompileError | None:
    """Return an error if SystemDS's lexer complained in `lines` of its output, else None.

    The lexer only prints such a complaint and drops the characters: `a.b` would silently be read as `a`.
    """
    for line in lines:
        found = _TOKEN_ERROR.match(line)
        if found:
            row, column = int(found.group(1)), int(found.group(2))
            return ScriptCompileError(found.group(3), row, column, _line_of(script, row))
    return None


def runtime_error(chain: Sequence[JavaFailure]) -> ScriptRuntimeError:
    """Return the error for a script that failed while running; `chain` is outermost first."""
    if not chain:
        return ScriptRuntimeError("the script failed without a message")
    cause = chain[-1]
    message = _strip_java_names(cause.message) or cause.kind
    simple_name = cause.kind.rpartition(".")[2]
    if cause.kind.startswith("java.") and simple_name != "RuntimeException":
        message = f"{simple_name}: {cause.message}" if cause.message else simple_name
    instruction = ""
    blocks: dict[tuple[int, int], None] = {}  # an exception's message may hold that of its cause
    is_elsewhere = False  # in a function of a sourced file, or in a builtin's: lines are of other texts
    for failure in chain:
        is_elsewhere = is_elsewhere or _CALL_OF_OTHER_FILE.match(failure.message) is not None
        found = _INSTRUCTION.search(failure.message)
        if found:
            instruction = _readable_instruction(found.group(1))
        block = _BLOCK_LINES.search(failure.message)
        if block and not is_elsewhere:
            first, last = (int(number) for number in block.groups() if number is not None)
            if last > 0:
                blocks[first, last] = None
    hint = _INDEX_HINT if _REFUSED_INDEX.search(message) else ""
    return ScriptRuntimeError(message, hint, instruction=instruction, blocks=tuple(blocks))


def _place(message: str) -> tuple[int, int] | None:
    for found in _LINE_AND_COLUMN.finditer(message):
        if int(found.group(1)) > 0:
            return int(found.group(1)), int(found.group(2))
    return None


def _first_issue(message: str) -> str:
    """Return the first of the numbered issues of a ParseException, or the message itself."""
    without_rules = "\n".join(line for line in message.splitlines() if not line.startswith("-----"))
    return re.split(r"^#2 ", without_rules, maxsplit=1, flags=re.MULTILINE)[0].strip()


def _readable_issue(text: str) -> str:
    """Take place, quoted statement and Java names out of a message: the error carries those itself."""
    text = _strip_java_names(text)
    text = re.sub(r"^The following .*encountered:\s*", "", text)
    text = re.sub(r"^#\d+ ", "", text)
    if "[Syntax error]" in text or "[Validation error]" in text:
        kind = "syntax error" if "[Syntax error]" in text else "validation error"
        details = [re.sub(r" \(\[@.*$", "", line.strip()) for line in text.splitlines()[1:] if line.strip()]
        return f"{kind}: {details[0]}" if details else kind
    parts = text.split(" -- ", 1)
    return (parts[1] if len(parts) == 2 else text).strip()


def _source_line(line: int, statement: str, script: str, sources: Mapping[str, str]) -> str:
    """Return the DML line an error speaks of; the engine does not say whether it is of a sourced file."""
    wanted = statement.strip()
    for text in (script, *sources.values()):
        candidate = _line_of(text, line)
        if wanted and candidate and wanted.replace(" ", "") in candidate.replace(" ", ""):
            return candidate
    return _line_of(script, line)


def _line_of(text: str, line: int) -> str:
    lines = text.splitlines()
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _strip_java_names(message: str) -> str:
    while True:
        shorter = _JAVA_NAME_BEFORE_MESSAGE.sub("", message)
        if shorter == message:
            return message
        message = shorter


def _readable_instruction(text: str) -> str:
    """Turn `CP°ba+*°X·MATRIX·FP64°W·MATRIX·FP64°_mVar6·...` into `CP ba+* X W _mVar6`."""
    return " ".join(part.split("·", 1)[0] for part in text.strip().split("°"))


def _name(chain: Sequence[JavaFailure]) -> str:
    return f"SystemDS's compiler ends in {chain[-1].kind}" if chain else "the script was refused without a message"


@dataclass(frozen=True)
class JavaFailure:
    """One link of a Java cause chain: the exception's class name and its message ('' when it has none)."""

    kind: str
    message: str


@dataclass(frozen=True)
class FailedNode:
    """The node whose statement failed.

    place: anything that prints as a place. takes: its inputs, with their shapes. line: in the script as it is saved,
    None where the statement is only in a form of it. others: the places of nodes of which it may as well be, where the
    engine does not tell them apart.
    """

    place: object
    takes: tuple[str, ...]
    statement: str
    line: int | None = None
    others: tuple[object, ...] = ()

    def lines(self) -> list[str]:
        """What is shown below the message."""
        where = "statement" if self.line is None else f"line {self.line} of the script"
        lines = [f"  takes: {', '.join(self.takes)}"] if self.takes else []
        lines += [f"  {where}: {self.statement}"] if self.statement else []
        return lines + [f"  or it is {other}" for other in self.others]


class EngineError(Exception):
    """Anything that went wrong in or around SystemDS; `hint` says what the user may do about it.

    node: that of a model whose statement failed, where one did.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.node: FailedNode | None = None

    def __str__(self) -> str:
        return self._with_node(self.message)

    def _with_node(self, text: str) -> str:
        """The text of the error with its node and its hint."""
        node = [] if self.node is None else self.node.lines()
        where = "" if self.node is None else f"{self.node.place}: "
        return "\n".join([f"{where}{text}", *node, *([f"  hint: {self.hint}"] if self.hint else [])])


class EngineUnavailable(EngineError):
    """SystemDS cannot be started here: no Java, a Java without the vector module, no SystemDS."""


class EngineTimeout(EngineError):
    """The engine did not answer in time; its JVM was killed and the session is closed."""


class EngineClosed(EngineError):
    """The session or the prepared script was closed before this use."""


class ScriptCompileError(EngineError):
    """SystemDS refused a script; `line` counts from 1, `column` from 0, both None when it did not say.

    file: the sourced one that they are of, "" for the script itself.
    """

    def __init__(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        source_line: str = "",
        hint: str = "",
        file: str = "",
    ) -> None:
        super().__init__(message, hint)
        self.file = file
        self.line = line
        self.column = column
        self.source_line = source_line

    def __str__(self) -> str:
        if self.line is None or self.node is not None:
            return super().__str__()
        text = f"{self.file and self.file + ', '}line {self.line}:{self.column}: {self.message}"
        if self.source_line:
            # Tabs are copied, so that the caret stands under its character in every terminal.
            before = self.source_line[: self.column or 0]
            text += f"\n  {self.source_line}\n  {''.join(c if c == chr(9) else ' ' for c in before)}^"
        return self._with_node(text)


class ScriptRuntimeError(EngineError):
    """A script failed while running; the message is the innermost cause, or the text of `stop(...)`.

    `instruction` is the SystemDS instruction that failed ('' when unknown), `blocks` the first and last lines of the
    statement blocks that were running: calls and what they are in first, none for a `stop`. Whole functions are not
    among them, nor are the blocks of functions of sourced files.
    """

    def __init__(
        self, message: str, hint: str = "", *, instruction: str = "", blocks: Sequence[tuple[int, int]] = ()
    ) -> None:
        super().__init__(message, hint)
        self.instruction = instruction
        self.blocks = tuple(blocks)

    @property
    def lines(self) -> tuple[int, int] | None:
        """The first and last line of the innermost block."""
        return self.blocks[-1] if self.blocks else None

    def __str__(self) -> str:
        text = self.message
        if self.instruction:
            text += f" (instruction {self.instruction})"
        if self.lines and self.node is None:
            text += f" (between lines {self.lines[0]} and {self.lines[1]})"
        return self._with_node(text)
