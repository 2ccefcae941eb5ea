"""What SystemDS's Java tests give their scripts: expressions of Java, evaluated as far as a text tells.

Paths of inputs begin with ``IN/``, those of outputs with ``OUT/``.
"""

from __future__ import annotations

import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchmarks.whole_scripts.texts import enclosed, parts, without_java_comments

Value = str | int | float
TESTS = Path("src", "test", "java")
_MOST_STEPS, _DEEPEST = 1500, 25
_NUMBER = re.compile(r"-?[\d.]+(?:[eE][-+]?\d+)?[fFdDlL]?")
_METHOD = re.compile(r"\b(?:public|private|protected|static|void|double\[\]\[\]|int|String)\s+(\w+)\s*\(([^()]*)\)\s*"
                     r"(?:throws [\w, .]+)?\{")
_COMPARISON = re.compile(r"([^=!<>]+)(==|!=|>=|<=|>|<)([^=]+)")
_COMPARED: dict[str, Callable[[Value, Value], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}
_FOLDERS = {"input": "IN/", "inputDir": "IN/", "output": "OUT/", "outputDir": "OUT/", "expected": "OUT/exp_"}
_MATHEMATICS: dict[str, Callable[..., Value]] = {
    "pow": pow, "max": max, "min": min, "ceil": math.ceil, "sqrt": math.sqrt, "floor": math.floor, "abs": abs,
    "round": round,
}
_NAMED: dict[str, Value] = {"true": "TRUE", "false": "FALSE", "Double.NaN": "NaN", "Math.PI": math.pi}
_INHERITED = {"SCRIPT_DIR": "./src/test/scripts/", "DATASET_DIR": "./src/test/resources/datasets/"}
_RANDOM = ("getRandomInt", "nextInt")


class Unknown(Exception):
    """An expression whose value its text does not tell."""


@dataclass(frozen=True)
class Method:
    """A method of a Java class: its name, parameters, and where its body begins and ends."""

    name: str
    parameters: tuple[str, ...]
    begin: int
    end: int


@dataclass(frozen=True, eq=False)
class JavaFile:
    """A file of Java without its comments."""

    path: Path
    text: str

    @cached_property
    def methods(self) -> list[Method]:
        """The methods in it."""
        found = []
        for match in _METHOD.finditer(self.text):
            words = (parameter.split() for parameter in parts(match[2]))
            names = tuple(each[-1] for each in words if len(each) > 1)
            found.append(Method(match[1], names, match.end(), enclosed(self.text, match.end() - 1)[1]))
        return found

    def method_at(self, place: int) -> Method | None:
        """The innermost method around a place."""
        around = (method for method in self.methods if method.begin <= place <= method.end)
        return max(around, key=lambda method: method.begin, default=None)

    @cached_property
    def parameters(self) -> list[list[str]]:
        """The rows of parameters that JUnit runs the class for, as expressions."""
        begin = re.search(r"@(?:Parameterized\.)?Parameters\b.*?new Object\[\]\[\]\s*\{", self.text, re.DOTALL)
        rows = parts(enclosed(self.text, begin.end() - 1)[0]) if begin else []
        return [parts(enclosed(row, 0)[0]) for row in rows if row.startswith("{")]

    def parameter_index(self, name: str) -> int | None:
        """The place of a field among the parameters of JUnit."""
        declared = rf"@(?:Parameterized\.)?Parameter\s*(?:\((\d*)\))?\s*(?:public\s+)?[\w\[\]]+\s+{name}\s*;"
        found = re.search(declared, self.text)
        return int(found[1] or 0) if found else None

    def argument_lists(self) -> list[tuple[int, list[str]]]:
        """The lists of arguments that programs are given, as expressions, each with its place."""
        found = [(match.start(), parts(enclosed(self.text, match.end() - 1)[0]))
                 for match in re.finditer(r"programArgs\s*=\s*new String\s*\[\s*\]\s*\{", self.text)]
        added = [(match.start(), enclosed(self.text, match.end() - 1)[0])
                 for match in re.finditer(r"\b(?:proArgs|args|programArgs|list)\.add\(", self.text)]
        return [*found, *([(added[0][0], [each for _, each in added])] if added else [])]


class JavaTests:
    """All Java tests of a source tree of SystemDS."""

    def __init__(self, checkout: Path) -> None:
        paths = sorted(checkout.joinpath(TESTS).rglob("*.java"))
        self._files = [JavaFile(path, without_java_comments(path.read_text(errors="replace"))) for path in paths]
        self._naming: dict[str, list[JavaFile]] = defaultdict(list)
        for file in self._files:
            for text in set(re.findall(r'"((?:[^"\\\n]|\\.)*)"', file.text)):
                named = self._naming[text.rsplit("/", 1)[-1].removesuffix(".dml")]
                if file not in named:
                    named.append(file)

    def of(self, script: str) -> list[JavaFile]:
        """The tests that name a script, those of its folder first."""
        path = Path(script)
        names = (path.stem, re.sub(r"\d+$", "", path.stem), path.stem.removesuffix("Reference"))
        files = next((self._naming[name] for name in names if name in self._naming), [])
        folder = f'"{path.parent}'
        return sorted(files, key=lambda file: (folder not in file.text, str(file.path)))[:4]


@dataclass
class Evaluation:
    """Evaluates expressions at a place of a file. choice: which call of a method gives its parameters."""

    file: JavaFile
    place: int
    choice: int = 0
    _depth: int = field(default=0, init=False)
    _steps: int = field(default=0, init=False)

    def value(self, expression: str, place: int | None = None) -> Value:
        """The value of an expression. Raises Unknown."""
        self._depth += 1
        self._steps += 1
        try:
            if self._depth > _DEEPEST or self._steps > _MOST_STEPS:
                raise Unknown(expression)
            return self._value(expression.strip(), self.place if place is None else place)
        finally:
            self._depth -= 1

    def truth(self, expression: str, place: int) -> bool:
        """Whether a condition holds; where it is not known, `choice` says."""
        try:
            return self.value(expression, place) == "TRUE"
        except Unknown:
            return self.choice % 2 == 0

    def _value(self, text: str, place: int) -> Value:
        for rule in (self._literal, self._cast, self._ternary, self._comparison, self._arithmetic, self._call,
                     self._element, self._constant, self._variable):
            found = rule(text, place)
            if found is not None:
                return found
        raise Unknown(text)

    def _literal(self, text: str, _: int) -> Value | None:
        if re.fullmatch(r'"((?:[^"\\]|\\.)*)"', text):
            return text[1:-1].replace('\\"', '"')
        if _NUMBER.fullmatch(text):
            digits = text.rstrip("fFdDlL")
            try:
                return int(digits) if re.fullmatch(r"-?\d+", digits) else float(digits)
            except ValueError:
                raise Unknown(text) from None
        return _NAMED.get(text)

    def _cast(self, text: str, place: int) -> Value | None:
        cast = re.match(r"\((int|double|long|float|String)\)\s*", text)
        if cast:
            found = self.value(text[cast.end() :], place)
            return _whole(found, text) if cast[1] in ("int", "long") else found
        if text.startswith("("):
            inner, end = enclosed(text, 0)
            if end == len(text):
                return self.value(inner, place)
        return None

    def _ternary(self, text: str, place: int) -> Value | None:
        condition = parts(text, "?")
        ways = parts(condition[1], ":") if len(condition) == 2 else []
        return self.value(ways[0 if self.truth(condition[0], place) else 1], place) if len(ways) == 2 else None

    def _comparison(self, text: str, place: int) -> Value | None:
        found = _COMPARISON.fullmatch(text)
        if not found or '"' in text or any(part.count("(") != part.count(")") for part in (text, found[1], found[3])):
            return None
        try:
            holds = _COMPARED[found[2]](self.value(found[1], place), self.value(found[3], place))
        except TypeError:
            raise Unknown(text) from None
        return "TRUE" if holds else "FALSE"

    def _arithmetic(self, text: str, place: int) -> Value | None:
        for sign in "+-*/%":
            operands = parts(text, sign)
            if len(operands) < 2 or not all(operands) or text.startswith(sign):
                continue
            if sign == "-" and re.search(r"[eE]$", operands[0]):
                continue
            found, *others = (self.value(operand, place) for operand in operands)
            for other in others:
                found = _calculated(sign, found, other)
            return found
        return None

    def _call(self, text: str, place: int) -> Value | None:
        found = re.fullmatch(r"([\w.]+)\s*(\(.*\))((?:\.\w+\(\))*)", text, flags=re.DOTALL)
        if not found or enclosed(found[2], 0)[1] != len(found[2]):
            return None
        receiver, _, name = found[1].rpartition(".")
        given = parts(enclosed(found[2], 0)[0])
        if name in _FOLDERS:
            return _FOLDERS[name] + (str(self.value(given[0], place)) if given else "")
        if name in _RANDOM:
            return 3
        if name in _MATHEMATICS:
            try:
                return _MATHEMATICS[name](*(self.value(each, place) for each in given))
            except (TypeError, ValueError, OverflowError):
                raise Unknown(text) from None
        if name in ("toString", "valueOf") and given:
            return self.value(given[0], place)
        if name in ("toString", "toUpperCase", "toLowerCase", "name", "ordinal") and not given:
            of = self.value(receiver, place)
            if name == "ordinal":
                return self._ordinal(str(of))
            changed = {"toUpperCase": str.upper, "toLowerCase": str.lower}.get(name)
            return changed(of) if changed and isinstance(of, str) else of
        raise Unknown(text)

    def _ordinal(self, name: str) -> int:
        """The place of a constant in its enumeration."""
        for found in re.finditer(r"\benum\s+\w+\s*\{([^};]*)", self.file.text):
            names = [re.match(r"\w*", each.strip()) for each in parts(found[1])]
            words = [each[0] for each in names if each]
            if name in words:
                return words.index(name)
        raise Unknown(name)

    def _element(self, text: str, place: int) -> Value | None:
        element = re.fullmatch(r"(\w+)\[(.+)\]", text)
        if not element:
            return None
        array = re.search(rf"\b{element[1]}\s*=\s*(?:new\s+\w+(?:\[\])+\s*)?\{{([^;]*)\}}\s*;", self.file.text)
        items = parts(array[1]) if array else []
        try:
            index = int(self.value(element[2], place))
        except (Unknown, ValueError):
            index = 0
        if not 0 <= index < len(items):
            raise Unknown(text)
        return self.value(items[index], place)

    def _constant(self, text: str, _: int) -> Value | None:
        if re.fullmatch(r"[A-Z]\w*\.[A-Z_0-9]+", text):
            return text.rsplit(".", 1)[1]
        return "C" if re.fullmatch(r"[\w.]+\.class\.getSimpleName\(\)", text) else None

    def _variable(self, text: str, place: int) -> Value | None:
        if not re.fullmatch(r"(?:this\.)?\w+", text):
            return None
        name = text.removeprefix("this.")
        method = self.file.method_at(place)
        assigned = rf"(?<![\w.]){name}\s*=(?!=)\s*([^;]+);"
        if method:
            own = [*re.finditer(assigned, self.file.text[method.begin : place])]
            found = self._first((own[-1][1], method.begin + own[-1].start()) for _ in own[:1])
            if found is not None:
                return found
            if name in method.parameters:
                index = method.parameters.index(name)
                given = self._arguments(method, index)
                if given:
                    return self.value(*given[self.choice % len(given)])
                if method.name == self.file.path.stem:
                    return self._parameter(index, text)
        field_index = self.file.parameter_index(name)
        if field_index is not None:
            return self._parameter(field_index, text)
        found = self._first((match[1], match.start()) for match in re.finditer(assigned, self.file.text))
        if found is not None:
            return found
        declared = re.search(rf"\b{name}\s*=\s*([^,;=]+)[,;]", self.file.text)
        return self.value(declared[1], declared.start()) if declared else _INHERITED.get(name)

    def _first(self, expressions: Iterator[tuple[str, int]]) -> Value | None:
        """The first value that is known."""
        for expression, place in expressions:
            try:
                return self.value(expression, place)
            except Unknown:
                continue
        return None

    def _parameter(self, index: int, text: str) -> Value:
        """A parameter of JUnit."""
        rows = [row for row in self.file.parameters if index < len(row)]
        if not rows:
            raise Unknown(text)
        return self.value(rows[self.choice % len(rows)][index])

    def _arguments(self, method: Method, index: int) -> list[tuple[str, int]]:
        """What the calls of a method give for one of its parameters, each with its place."""
        text, found = self.file.text, []
        for match in re.finditer(rf"(?<!void )(?<!\w){method.name}\s*\(", text):
            between = text[match.end() : method.begin]
            declares = match.start() < method.begin <= match.start() + 400 and ";" not in between
            given = [] if declares else parts(enclosed(text, match.end() - 1)[0])
            if len(given) == len(method.parameters):
                found.append((given[index], match.start()))
        return found


def _calculated(sign: str, left: Value, right: Value) -> Value:
    if isinstance(left, str) or isinstance(right, str):
        if sign != "+":
            raise Unknown(f"{left} {sign} {right}")
        return f"{left}{right}"
    try:
        if sign == "/":
            return left // right if isinstance(left, int) and isinstance(right, int) else left / right
        computed: dict[str, Callable[[float, float], float]] = {
            "+": operator.add, "-": operator.sub, "*": operator.mul, "%": operator.mod,
        }
        return computed[sign](left, right)
    except (ZeroDivisionError, OverflowError):
        raise Unknown(f"{left} {sign} {right}") from None


def _whole(value: Value, text: str) -> int:
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        raise Unknown(text) from None
