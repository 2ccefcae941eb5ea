"""The sizes that one DML function uses: their identifiers, definitions and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import indent
from typing import NamedTuple

from onnx_systemds.dml.names import Names
from onnx_systemds.inference import dim_text
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.assumptions import Assumption, Relation
from onnx_systemds.inference.checks import Checks
from onnx_systemds.inference.dim_equations import solve
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.operators.api.layout import split_view


class FunctionSizes:
    """The sizes of one function. used: the symbols that it has to define. checks: what it has to check of sizes."""

    def __init__(self, names: Names, checks: Checks, outer: FunctionSizes | None) -> None:
        """Start a function; ``outer``: the sizes of the one around it."""
        self.used: dict[str, None] = {}
        self.checks = checks
        self._names = names
        self._outer = outer
        self._symbol_names: dict[str, str] = {}
        self._of_inputs: frozenset[str] = frozenset()  # symbols that the inputs determine

    def name(self, symbol: str) -> str:
        """The identifier of a symbol; from now on the function has to define it."""
        self.used.setdefault(symbol)
        return self._symbol_name(symbol)

    def _symbol_name(self, symbol: str) -> str:
        if symbol not in self._symbol_names:
            self._symbol_names[symbol] = self._names.fresh(symbol)
        return self._symbol_names[symbol]

    def text(self, size: Dim) -> str:
        """A size as a DML expression (not in parentheses)."""
        return dim_text.text(size, self.name)

    def factor(self, size: Dim) -> str:
        """A size as a DML operand."""
        return dim_text.factor_text(size, self.name)

    def read_from(self, given: Sequence[tuple[str, Dims]], others: Sequence[tuple[str, Dims]] = ()) -> None:
        """Note the symbols that inputs determine, of which there are the identifiers and dims; see `definitions`."""
        self._of_inputs = frozenset(_solved(given, others, str)[0])

    def is_known(self, symbol: str) -> bool:
        """Whether a size is there without one more argument of the main function."""
        if symbol in self.used or symbol in self._of_inputs:
            return True
        return self._outer is not None and self._outer.is_known(symbol)

    def definitions(
        self, given: Sequence[tuple[str, Dims]], others: Sequence[tuple[str, Dims]] = (), *, is_checked: bool = False
    ) -> tuple[list[str], list[str]]:
        """Definitions of the sizes used, and the identifiers of those that the inputs do not determine.

        ``given``: identifier and dims of each matrix input, which has the form of function boundaries. others:
        inputs that determine the symbols alone which the former do not have. With ``is_checked`` inputs that contradict
        each other end the run with a message.
        """
        solved, needs, left = _solved(given, others, self._symbol_name)
        checks: list[str] = []
        if is_checked:
            equal = self.checks.replacements(self.is_known)
            left = [found._replace(size=dim.substitute(found.size, equal)) for found in left if dim.symbols(found.size)]
            there = {*solved, *self.used}
            checks = self._input_checks([equation for equation in left if there.issuperset(dim.symbols(equation.size))])
        wanted = {name for name in self.used if name in solved}
        for name in reversed(list(solved)):
            if name in wanted:
                wanted.update(needs[name])
        statements = [f"{self.name(name)} = {text}" for name, text in solved.items() if name in wanted]
        return statements + checks, [name for name in self.used if name not in solved]

    def unchecked(self) -> tuple[Assumption, ...]:
        """What is taken for granted of sizes that the function cannot distinguish, such as those of a product."""
        return tuple(found for found in self.checks.at_start if not all(map(self.is_known, found.symbols)))

    def start_checks(self) -> list[str]:
        """Statements that check what is taken for granted of sizes that are known at the start of the function."""
        checked = [found for found in self.checks.at_start if all(map(self.is_known, found.symbols))]
        bounded = {name for found in checked if found.relation is Relation.AT_LEAST and not found.divisors
                   for name in found.symbols}
        divided = [found for found in checked if not bounded.isdisjoint(found.divisors)]
        # DML computes all of a condition, and a division by 0 ends the run: bounds of divisors stand in front
        parts = [[found for found in checked if found not in divided], divided]
        return [text for part in parts for text in under_one_condition(
            [found.statement(self.text, self.factor) for found in part], [found.broken(self.text) for found in part])]

    def _input_checks(self, equations: Sequence[_Equation]) -> list[str]:
        """Statements that stop the run where an input's rows or columns are not what other inputs say."""
        checks: list[str] = []
        for equation in equations:
            known = f" = \" + {self.factor(equation.size)}" if dim.symbols(equation.size) else '"'
            checks.append(size_check(equation.function, equation.identifier, self.text(equation.size), known))
        return checks


def size_check(function: str, identifier: str, expected: str, known: str = '"') -> str:
    """The statement that stops the run where ``function``, nrow or ncol, of a matrix is not what is expected.

    known: how the message ends, which is in quotes up to there.
    """
    total, what = f"{function}({identifier})", "rows" if function == "nrow" else "columns"
    message = f'"{identifier} has " + {total} + " {what}, not {expected}{known}'
    return f"if ({total} != {expected}) {{ stop({message}) }}"


def under_one_condition(checks: Sequence[str], broken: Sequence[str]) -> list[str]:
    """Checks, several of them under the condition that one of them is broken.

    Each condition ends a block of the engine's, which small scripts feel.
    """
    if len(checks) < 2:
        return list(checks)
    condition = " | ".join(f"({one})" for one in broken)
    return ["\n".join([f"if ({condition}) {{", *(indent(check, "  ") for check in checks), "}"])]


class _Equation(NamedTuple):
    """The size that a matrix shows: ``function``, nrow or ncol, of ``identifier`` is ``size``."""

    function: str
    identifier: str
    size: Dim

    @property
    def total(self) -> str:
        """What shows the size, as DML."""
        return f"{self.function}({self.identifier})"


def _solved(
    given: Sequence[tuple[str, Dims]], others: Sequence[tuple[str, Dims]], symbol_text: Callable[[str], str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]], list[_Equation]]:
    """The symbols that matrices of function boundaries show: how, with the help of which, and the equations left."""
    left = [*_equations(given), *_equations(others)]
    ruled = {name for _, dims in given for name in dim.symbols(dims)}
    asking = {identifier for identifier, _ in others}
    solved: dict[str, str] = {}
    needs: dict[str, tuple[str, ...]] = {}
    progress = True
    while progress:
        progress = False
        for found in list(left):
            open_symbols = [name for name in dim.symbols(found.size) if name not in solved]
            if len(open_symbols) != 1 or (found.identifier in asking and open_symbols[0] in ruled):
                continue
            text = solve(found.size, open_symbols[0], found.total, symbol_text)
            if text is not None:
                solved[open_symbols[0]] = text
                needs[open_symbols[0]] = dim.symbols(found.size)
                left = [equation for equation in left if equation[:2] != found[:2]]
                progress = True
    return solved, needs, left


def _equations(given: Sequence[tuple[str, Dims]]) -> Iterator[_Equation]:
    """What matrices of function boundaries show."""
    for identifier, dims in given:
        if dims:
            view = split_view(dims, 1)
            yield from (_Equation("nrow", identifier, view.rows), _Equation("ncol", identifier, view.cols))
