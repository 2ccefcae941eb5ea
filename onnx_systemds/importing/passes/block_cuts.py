"""Conditions that are never true, which cut the blocks of a function's statements.

The engine simplifies expressions over all statements of a block. What it would make wrong of two statements is kept
apart by a cut between them (see `engine.faults`); a block that gets long is cut, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from onnx_systemds.engine.safe_forms import is_zero

STATEMENTS_PER_BLOCK = 100
# The engine's compile time is quadratic in the length of a basic block, and long ones overflow Java's default stack.
# A condition that its compiler could decide is folded away; an empty loop would mark the function to be compiled anew
# at each call, which in SystemDS 3.4 keeps sizes of the call before (see docs/decisions/0004-block-cuts.md).
NEVER = "never = time() < 0"
GUARDED = "if (never) {  # keeps calls of a function apart, which the engine else may take for equal"
_CUT = 'if (never) { print("never") }  # '
BLOCK_CUT = f"{_CUT}cuts the block: compile time is quadratic in its length"
EXTREMES_CUT = f"{_CUT}cuts the block: max(max(A, B), C) is wrong for sparse matrices"
TRANSPOSED_CUT = f"{_CUT}cuts the block: t(A) %*% t(B) is taken for a product of other sizes"
COMPARED_CUT = f"{_CUT}cuts the block: what is made of comparisons forgets NaN and infinities"
SHIFTED_CUT = f"{_CUT}cuts the block: zeros beside zeros and a number are taken for that number, negated"
# Once the engine has inlined the functions called in an if or a loop, it takes a constant number that one of them
# returns for the value behind it: a function with control flow is not inlined.
NOT_INLINED = f"{_CUT}not to be inlined: constant results would spread over all branches"

_IDENTIFIER = re.compile(r"[A-Za-z]\w*")
_EXTREME_CALL = re.compile(r"\b(min|max)\(")
_DEFINED = re.compile(r"(\w+) = (.*)")
_CALL = re.compile(r"(min|max|t)\(")
_NAME_OR_CALL = re.compile(r"\w+\(?")
_COMPARISON = re.compile(r"\(?[\w.]+ (<|>|<=|>=) ([\w.()-]+?)\)?")
_COMPARED = re.compile(r"(\w+) == (?:0|0\.0)(?![\w.])")
_PRODUCT = re.compile(r" %\*% ")
_NUMBER = r"\d[\d.]*(?:e-?\d+)?"
_SHIFTED = re.compile(rf"\(?(?:(\w+) [-+*/] {_NUMBER}|{_NUMBER} [+*] (\w+))\)?")
_SUM = re.compile(rf"\(?(?:\w+(?:\(\w+\))? [-+] {_NUMBER}|{_NUMBER} \+ \w+(?:\(\w+\))?)\)?")
_BESIDE = re.compile(r"(?:/|\^|<=?|>=?|==|!=|%%|%/%) \(?(\w+)(?![\w(.])|\b(?:min|max)\([^,]*, (\w+)\)")


def with_never(statements: list[str]) -> list[str]:
    """The statements with the definition of ``never`` in front, where it is used."""
    return [NEVER, *statements] if any("if (never) {" in statement for statement in statements) else statements


def cut_blocks(statements: Sequence[str]) -> list[str]:
    """The statements with cuts where a block gets long, and between those that the engine would join to a fault."""
    cut: list[str] = []
    count = 0
    block = _Block()
    for statement in statements:
        reason = block.refuses(statement) or (BLOCK_CUT if count == STATEMENTS_PER_BLOCK else None)
        if reason is not None:
            cut.append(reason)
            count, block = 0, _Block()
        cut.append(statement)
        count += not statement.startswith("#")
        block.add(statement)
    return cut


class _Block:
    """What is defined in a block: names of extremes, transposed matrices, comparisons and sums with numbers."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}  # by name: min, max, t, comparison, sign (a comparison with 0), shifted

    def add(self, statement: str) -> None:
        """Take a statement into the block."""
        defined = _DEFINED.match(statement)
        kind = self._kind(defined[2]) if defined is not None else ""
        if defined is not None and kind:
            self.kinds[defined[1]] = kind

    def refuses(self, statement: str) -> str | None:
        """The cut that a statement needs in front of it, if it does."""
        if not self.kinds:
            return None
        called = set(_EXTREME_CALL.findall(statement))
        if called and any(self.kinds.get(name) in called for name in _IDENTIFIER.findall(statement)):
            return EXTREMES_CUT
        if any(self.kinds.get(name) in ("comparison", "sign") for name in _COMPARED.findall(statement)):
            return COMPARED_CUT  # (x < y) == 0 becomes x >= y
        if (" * " in statement or " - " in statement) and any(
            self.kinds.get(name) == "sign" for name in _IDENTIFIER.findall(statement)
        ):
            return COMPARED_CUT  # x * (x > 0) becomes max(x, 0), (x > 0) - (x < 0) becomes sign(x)
        if any(self.kinds.get(name) == "shifted" for names in _BESIDE.findall(statement) for name in names):
            return SHIFTED_CUT  # of rev(x) / (abs(x) + 1), where x holds zeros only, 0 / matrix(1, ..) and then -1
        for place in _PRODUCT.finditer(statement):
            operands = _operand_before(statement, place.start()), _operand_behind(statement, place.end())
            if all(self._kind(operand) == "t" for operand in operands):
                return TRANSPOSED_CUT
        return None

    def _kind(self, text: str) -> str:
        """The function that gives a value, whatever its reshapes are: the engine drops those that change nothing."""
        while text.startswith("matrix("):
            text = text[len("matrix(") : _closing(text, len("matrix"), ",")]
        call = _CALL.match(text)
        if call is not None and _closing(text, call.end() - 1, "") == len(text) - 1:
            return call[1]
        compared = _COMPARISON.fullmatch(text)
        if compared is not None:
            return "sign" if is_zero(compared[2]) else "comparison"
        scaled = _SHIFTED.fullmatch(text)
        if _SUM.fullmatch(text) or (scaled is not None and self.kinds.get(scaled[1] or scaled[2]) == "shifted"):
            return "shifted"
        return self.kinds.get(text, "")


def _operand_before(statement: str, end: int) -> str:
    """The name or call that ends in front of a place."""
    depth, start = 0, end
    while start > 0:
        character = statement[start - 1]
        depth += (character == ")") - (character == "(")
        if depth < 0 or (depth == 0 and not (character.isalnum() or character in "_(")):
            break
        start -= 1
    return statement[start:end]


def _operand_behind(statement: str, start: int) -> str:
    """The name or call that begins at a place."""
    found = _NAME_OR_CALL.match(statement, start)
    if found is None:
        return ""
    return statement[start : _closing(statement, found.end() - 1, "") + 1] if found[0].endswith("(") else found[0]


def _closing(text: str, start: int, stop: str) -> int:
    """The place where the parenthesis at ``start`` is closed, or of the first ``stop`` directly within it."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0 or (depth == 1 and text[place] == stop):
            return place
    return len(text)
