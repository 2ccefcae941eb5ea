"""One DML function while it is rendered from its end to its start.

A consumer is rendered before the producer. It *demands* the forms (see `layout`) of its inputs that it needs and gets
identifiers for them; when the walk reaches the producer, all its consumers have said what they want, so the producer
writes its result once, and each further form as one reshape. What nobody demands is never written: that is
the dead-code elimination. The first form demanded of a value gets the plain name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from onnx_systemds.dml.literals import literal, matrix_literal
from onnx_systemds.dml.names import Names, legal_identifier
from onnx_systemds.engine.matrix_files import Weight
from onnx_systemds.engine.safe_forms import ZEROS, full_matrix, is_zero
from onnx_systemds.errors import Reasons, ShapeUnknown, UnsupportedCase, quoted
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.assumptions import Assumption
from onnx_systemds.inference.checks import Checks
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.local_functions import BODY
from onnx_systemds.inference.registry import boundary_operators
from onnx_systemds.inference.single_precision import values_in_single_precision
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value, has_known_elements
from onnx_systemds.inference.wide_integers import GraphIntegers, WideIntegers, check_held
from onnx_systemds.model.ir import Array
from onnx_systemds.model.texts import Vocabulary
from onnx_systemds.operators.api.integer_checks import range_checks, sum_check
from onnx_systemds.operators.api.layout import (
    LIST,
    SCALAR,
    Form,
    View,
    boundary_form,
    converted,
    item_form,
    reshaped,
    split_view,
)

WEIGHTS = "weights"  # the list argument that carries the large weights
TEXTS = "texts"  # the dictionary: the distinct strings behind the codes (see `texts`)
# Stand for the dictionary before and after a statement until the order of all statements is known (see
# `importing.passes.dictionaries`): the engine (3.4.0) loses rows of a frame that is assigned to a name which it is an
# argument of. No name of a model gives such identifiers.
OLD_TEXTS = "old_texts_"
NEW_TEXTS = "new_texts_"
# Where an old value is handed on behind a new one in a block, the engine hands on the new one.
COPIES_CUT = 'if (never) { print("never") }  # cuts the block: what is handed on would be overwritten before'
LARGEST_LITERAL = 64  # elements of a weight that `auto` still writes into the script


@dataclass
class ScriptParts:
    """What the functions of one script share.

    weights_mode: "auto", "inline" or "files". release: drops the memory-mapped pages behind an array.
    errors: what generators refused.
    """

    weights_mode: str = "auto"
    release: Callable[[Array], None] | None = None
    function_names: Names = field(default_factory=Names)
    imports: dict[str, None] = field(default_factory=dict)
    errors: Reasons = field(default_factory=Reasons)
    weights: dict[str, Weight] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)  # names of the functions of sub-graphs, by their texts
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    integers: WideIntegers | None = None
    _function_keys: dict[str, str] = field(default_factory=dict)
    _weight_keys: dict[int, tuple[Array, str]] = field(default_factory=dict)

    def function_name(self, hint: str, key: str) -> str:
        """The name of the function that ``key`` stands for, made on first use."""
        if key not in self._function_keys:
            self._function_keys[key] = self.function_names.fresh(hint)
        return self._function_keys[key]

    def weight_key(self, name: str, array: Array, view: View) -> str:
        """Register a weight under the name of its value; returns its key in the list."""
        # by identity: two sub-graphs may call different weights by the same name
        _, key = self._weight_keys.get(id(array), (array, ""))
        if not key:
            key = base = _camel_case(name)
            number = 1
            while key in self.weights:
                number += 1
                key = f"{base}x{number}"
            self._weight_keys[id(array)] = (array, key)  # holds the array, so that its id stays its own
            matrix = array.reshape(int(view.rows), int(view.cols))  # type: ignore[arg-type]
            release = self.release
            self.weights[key] = Weight(key, matrix, None if release is None else lambda: release(array))
        return key

    def goes_to_file(self, array: Array) -> bool:
        """Whether a constant becomes a file beside the script."""
        if self.weights_mode == "inline" or array.size <= 1:
            return False
        return self.weights_mode == "files" or (array.size > LARGEST_LITERAL and not is_uniform(array))


class Scope:
    """Identifiers, demanded forms, sizes and constants of one function."""

    def __init__(
        self, graph: TypedGraph, parts: ScriptParts, own: Mapping[str, Value], outer: Scope | None = None
    ) -> None:
        """Start a function; ``outer`` is the one around it, None for the main one."""
        self.is_main = outer is None
        self.outer = outer
        self.graph = graph
        self.parts = parts
        self.own = own
        self.names = Names([WEIGHTS, TEXTS, "never"])
        self.forms: dict[str, dict[Form, str]] = {}
        self.constants: dict[str, Array] = {}
        self.rendered = -1  # number of the fragment that is being rendered, counted from the end; -1: the outputs
        self._users: dict[str, int] = {}  # by constant: the fragment that uses it first in the script
        self._late: dict[tuple[str, Form], tuple[str, str, int]] = {}  # identifier, its source, fragment of first use
        self._shared: dict[str, tuple[str, int]] = {}  # by expression: identifier, fragment of first use
        self.captured: dict[str, None] = {}
        self.used_inputs: set[str] = set()
        self.sizes: dict[str, None] = {}
        # sizes are read from the boundary form before there is another one
        self.at_boundary = {name for position, node in enumerate(graph.nodes) for name in node.outputs
                            if node.identity in boundary_operators or (position, BODY) in graph.bodies}  # fmt: skip
        self.returned: dict[str, None] = {}  # sizes that no result's rows and columns tell: the node gives them, too
        self.checks: Checks = Checks(graph, None if outer is None else outer.checks)
        self._told: frozenset[str] = frozenset()  # symbols that the inputs tell
        self.uses_weights = False
        self.uses_texts = False
        self._symbol_names: dict[str, str] = {}
        self._in_single_precision = values_in_single_precision(graph)
        self.integers = GraphIntegers(graph, {}) if parts.integers is None else parts.integers.of(graph)

    def value(self, name: str) -> Value:
        """What inference knows of a value."""
        return self.graph.values[name]

    def dims(self, name: str) -> Dims:
        """Dims of a value. Raises ShapeUnknown."""
        found = self.value(name).dims
        if found is None:
            raise ShapeUnknown(f"the rank of {quoted(name)} is unknown", hint="declare the shapes of the inputs")
        return found

    def boundary(self, name: str) -> Form:
        """The form of a value at function boundaries. Raises ShapeUnknown."""
        return LIST if self.value(name).is_list else boundary_form(self.dims(name))

    def texts(self) -> str:
        """What stands for the dictionary of strings; from now on the function defines it or is given it."""
        self.uses_texts = True
        return OLD_TEXTS

    # --- sizes -------------------------------------------------------------------------------------------------

    def size_name(self, symbol: str) -> str:
        """The identifier of a symbol; from now on the function has to define it."""
        self.sizes.setdefault(symbol)
        return self._symbol_name(symbol)

    def _symbol_name(self, symbol: str) -> str:
        if symbol not in self._symbol_names:
            self._symbol_names[symbol] = self.names.fresh(symbol)
        return self._symbol_names[symbol]

    def dim_text(self, size: Dim) -> str:
        """A size as a DML expression (not in parentheses)."""
        return dim.text(size, self.size_name)

    def factor_text(self, size: Dim) -> str:
        """A size as a DML operand."""
        return dim.factor_text(size, self.size_name)

    # --- demands -----------------------------------------------------------------------------------------------

    def demand(self, name: str, form: Form) -> str:
        """The DML text of a value in a form: an identifier, or a literal for a known scalar.

        Raises UnsupportedCase for values that have no matrix form yet.
        """
        value = self.value(name)
        if value.items is not None:
            return self._list_of(value.items)
        if self.is_late(name, form):
            return self._late_identifier(name, form)
        self._check_size(name, value, form)
        if value.constant is not None:
            check_held(name, value.constant)
            content = self.parts.vocabulary.codes(value.constant) if value.dtype == "string" else value.constant
            return constant_literal(content) if form is SCALAR else self.constant(name, content, form)
        if value.elements is not None:
            if form is SCALAR:
                return self.factor_text(value.elements.ravel()[0])
        elif value.dtype == "" and not value.is_list:
            raise UnsupportedCase(f"{quoted(name)} is no dense tensor, sequence or optional: not supported")
        if name not in self.own and not self._is_expression(name):
            self.captured.setdefault(name)
        return self._identifier(name, form)

    def _check_size(self, name: str, value: Value, form: Form) -> None:
        """Raise UnsupportedCase for a form with another number of elements: the node's inputs do not fit each other."""
        if not isinstance(form, View) or not value.is_known_size or value.is_list:
            return
        if isinstance(form.rows, int) and isinstance(form.cols, int) and value.size != form.rows * form.cols:
            shown = ", ".join(map(str, value.dims or ()))
            raise UnsupportedCase(f"{quoted(name)} is [{shown}], where {form.rows} x {form.cols} elements are needed")

    def _list_of(self, items: Sequence[str]) -> str:
        """A list of values that are known by name."""
        given: list[str] = []
        for item in items:
            form = LIST if self.value(item).is_list else item_form(self.dims(item))
            given.append(self.demand(item, form))
        return f"list({', '.join(given)})"

    def constant(self, name: str, array: Array, view: View) -> str:
        """The identifier of a constant matrix, defined where it is used first."""
        self.constants[name] = array
        self._users[name] = self.rendered
        known = _known_view(array.size, view)
        if known is None:  # written down as it is at function boundaries, and reshaped when the script runs
            self._identifier(name, self.known_form(name))
        return self._identifier(name, known or view)

    def is_late(self, name: str, form: Form) -> bool:
        """Whether a form of a value holds sizes that the run decides, but not when it computes the value."""
        if form is SCALAR:
            return False
        mentioned = [symbol for symbol in dim.symbols(form) if symbol.startswith("?")]
        if name in self.at_boundary and mentioned and form != LIST:
            return form != self.known_form(name)
        return bool(mentioned) and not set(mentioned) <= set(dim.symbols(self.dims(name)))

    def known_form(self, name: str) -> View:
        """A form of a value that its producer can write: that of function boundaries, as a matrix."""
        return split_view(self.dims(name), min(1, len(self.dims(name))))

    def _late_identifier(self, name: str, form: Form) -> str:
        """The identifier of a late form, which is a reshape in front of the first fragment that uses it."""
        source = self.demand(name, SCALAR if self.dims(name) == () else self.known_form(name))
        source = f"as.matrix({source})" if self.dims(name) == () else source
        identifier, _, _ = self._late.get((name, form), ("", "", 0))
        for symbol in dim.symbols(form or ()):
            self.size_name(symbol)
        self._late[name, form] = (identifier or self.names.fresh(_view_hint(name, form)), source, self.rendered)
        return self._late[name, form][0]

    def shared(self, text: str, hint: str) -> str:
        """The identifier of an expression over sizes alone, which is defined once, in front of its first use."""
        identifier, _ = self._shared.get(text) or (self.names.fresh(hint), 0)
        self._shared[text] = (identifier, self.rendered)
        return identifier

    def late_statements(self) -> dict[int, list[str]]:
        """Definitions of shared expressions and late forms, by the number of the fragment that uses them first."""
        statements: dict[int, list[str]] = {}
        for text, (identifier, user) in self._shared.items():
            statements.setdefault(user, []).append(f"{identifier} = {text}")
        for (_, form), (identifier, source, user) in self._late.items():
            assert form is not SCALAR
            statements.setdefault(user, []).append(f"{identifier} = {reshaped(source, form, self.dim_text)}")
        return statements

    def preferred(self, name: str) -> Form:
        """The form of a value that its consumers asked for first, else that of function boundaries."""
        forms = self.forms.get(name)
        return next(iter(forms)) if forms else self.boundary(name)

    def is_demanded(self, name: str) -> bool:
        """Whether any consumer wants the value, and its producer has to write it."""
        return name in self.forms and name not in self.constants and not self._is_expression(name)

    def _is_expression(self, name: str) -> bool:
        return has_known_elements(self.value(name))

    def _identifier(self, name: str, form: Form) -> str:
        forms = self.forms.setdefault(name, {})
        if name in self.graph.inputs:
            self.used_inputs.add(name)
        if form not in forms:
            forms[form] = self.names.of(name) if not forms else self.names.fresh(_view_hint(name, form))
        return forms[form]

    def alias(self, name: str, form: Form, identifier: str) -> bool:
        """Let the producer of ``name`` write straight into ``identifier``; False when the name is already taken."""
        value = self.value(name)
        is_plain = name in self.own and name not in self.graph.inputs and value.constant is None
        if not is_plain or value.elements is not None or form in self.forms.get(name, {}) or self.is_late(name, form):
            return False
        self.forms.setdefault(name, {})[form] = identifier
        return True

    # --- definitions -------------------------------------------------------------------------------------------

    def rounded(self, name: str, text: str, form: Form) -> str:
        """An expression as FP32 holds it, if it is (a step to) a value that has to be computed so."""
        if name not in self._in_single_precision:
            return text
        self.parts.imports["nearest_float"] = None
        return f"as.scalar(nearest_float(as.matrix({text})))" if form is SCALAR else f"nearest_float({text})"

    def define(self, name: str, text: str, form: Form) -> list[str]:
        """The statements that give a value all the forms demanded of it, from an expression of one form."""
        forms = self.forms.get(name, {})
        if not forms:
            return []
        text = self.rounded(name, text, form)
        home = form if form in forms else next(iter(forms))
        identifier = forms[home]
        expression = converted(text, form, home, self.dim_text)
        statements = [] if expression == identifier else [f"{identifier} = {expression}"]
        statements += [
            f"{other} = {converted(identifier, home, wanted, self.dim_text)}"
            for wanted, other in forms.items()
            if other != identifier
        ]
        return statements + range_checks(self.integers, name, identifier, home)

    def sum_checks(self, position: int) -> list[str]:
        """Statements that stop the run where sums of 64-bit integers at a node lose digits on their way."""
        terms = self.integers.sums.get(position)
        if terms is None:
            return []
        node = self.graph.nodes[position]
        factors = [(self.demand(name, self.preferred(name)), self.preferred(name))
                   for name in (node.inputs[place] for place in terms.positions)]  # fmt: skip
        count = "" if terms.number == 1 else self.factor_text(terms.number)
        return [sum_check(next(name for name in node.outputs if name), factors, count)]

    def constant_statements(self) -> dict[int, list[str]]:
        """Definitions of the constants, by the number of the fragment that uses them first.

        They stand near their use: a value that lives through many blocks costs compile time in each of them.
        """
        statements: dict[int, list[str]] = {}
        for name in reversed(list(self.constants)):
            view = next(iter(self.forms[name]))
            assert view is not SCALAR
            statements.setdefault(self._users[name], []).extend(self._constant_lines(name, view))
        return statements

    def _constant_lines(self, name: str, view: View) -> list[str]:
        array = self.constants[name]
        if not self.parts.goes_to_file(array):
            return self.define(name, self._literal(name, array, view), view)
        self.uses_weights = True
        key = self.parts.weight_key(name, array, view)
        text = f'as.matrix({WEIGHTS}["{key}"])'
        if self.parts.weights[key].array.shape != (view.rows, view.cols):  # of another function, or by another name
            return self.define(name, f"matrix({text}, rows={view.rows}, cols={view.cols})", view)
        read, *others = self.define(name, text, view)
        # the whole range tells the compiler the sizes, for a tenth of what a reshape costs
        identifier = self.forms[name][view]
        return [f"{read}; {identifier} = {identifier}[1:{view.rows}, 1:{view.cols}]", *others]

    def _literal(self, name: str, array: Array, view: View) -> str:
        """A constant in the script; the engine must not see it in what nodes calculate of constants alone."""
        text = matrix_literal(array, int(view.rows), int(view.cols))  # type: ignore[arg-type]
        number = text.removeprefix("matrix(").partition(",")[0]
        if array.size == 0 or number.startswith('"') or name not in self._beside_constants:
            return text
        if is_zero(number):
            self.parts.imports[ZEROS] = None
        return full_matrix(number, str(view.rows), str(view.cols))

    @cached_property
    def _beside_constants(self) -> set[str]:
        """The inputs of nodes that have no others than constants."""
        values = self.graph.values
        inputs = [[name for name in node.inputs if name] for node in self.graph.nodes]
        known = [names for names in inputs if all(values[name].constant is not None for name in names)]
        return {name for names in known for name in names}

    def element_statements(self) -> list[str]:
        """Definitions of small tensors whose elements are sizes."""
        statements: list[str] = []
        for name in list(self.forms):
            if name in self.constants or not self._is_expression(name):
                continue
            value = self.value(name)
            assert value.elements is not None
            column = ", ".join(f"as.matrix({self.dim_text(element)})" for element in value.elements.ravel())
            form = View(value.elements.size, 1)
            statements += self.define(name, f"rbind({column})" if value.elements.size > 1 else column, form)
        return statements

    def symbol_statements(
        self, given: Sequence[tuple[str, Dims]], *, checked: bool = False
    ) -> tuple[list[str], list[str]]:
        """Definitions of the sizes used, and the identifiers of those that the inputs do not determine.

        ``given``: identifier and dims of each matrix input, which has the form of function boundaries. With ``checked``
        inputs that contradict each other end the run with a message.
        """
        solved, needs, left = _solved(given, self._symbol_name)
        checks: list[str] = []
        if checked:
            equal = self.checks.replacements(self.can_tell)
            left = [(total, dim.substitute(size, equal)) for total, size in left if dim.symbols(size)]
            there = {*solved, *self.sizes}
            checks = self._checks([equation for equation in left if there.issuperset(dim.symbols(equation[1]))])
        wanted = {name for name in self.sizes if name in solved}
        for name in reversed(list(solved)):
            if name in wanted:
                wanted.update(needs[name])
        statements = [f"{self.size_name(name)} = {text}" for name, text in solved.items() if name in wanted]
        return statements + checks, [name for name in self.sizes if name not in solved]

    def told_by(self, given: Sequence[tuple[str, Dims]]) -> None:
        """Note the symbols that inputs tell, of which there are the identifiers and dims."""
        self._told = frozenset(_solved(given, str)[0])

    def can_tell(self, symbol: str) -> bool:
        """Whether a size is there without one more argument of the main function."""
        return symbol in self.sizes or symbol in self._told or (self.outer is not None and self.outer.can_tell(symbol))

    def unchecked(self) -> tuple[Assumption, ...]:
        """What is taken for granted of sizes that the function cannot tell apart, such as those of a product."""
        return tuple(found for found in self.checks.at_start if not all(map(self.can_tell, found.symbols)))

    def start_checks(self) -> list[str]:
        """Statements that check what is taken for granted of sizes that are known at the start of the function.

        Each condition ends a block of the engine's, which small scripts feel: so there is one for all.
        """
        checked = [found for found in self.checks.at_start if all(map(self.can_tell, found.symbols))]
        lines = [assumption.statement(self.dim_text, self.factor_text) for assumption in checked]
        if len(lines) < 2:
            return lines
        broken = " | ".join(f"({assumption.broken(self.dim_text)})" for assumption in checked)
        return ["\n".join([f"if ({broken}) {{", *(f"  {line}" for line in lines), "}"])]

    def _checks(self, equations: Sequence[tuple[str, Dim]]) -> list[str]:
        """Statements that stop the run where an input's rows or columns are not what other inputs say."""
        checks: list[str] = []
        for total, size in equations:
            expected = self.dim_text(size)
            kind, _, identifier = total.rstrip(")").partition("(")
            what = "rows" if kind == "nrow" else "columns"
            known = f" = \" + {self.factor_text(size)}" if dim.symbols(size) else '"'
            message = f'"{identifier} has " + {total} + " {what}, not {expected}{known}'
            checks.append(f"if ({total} != {expected}) {{ stop({message}) }}")
        return checks


def _solved(
    given: Sequence[tuple[str, Dims]], symbol_text: Callable[[str], str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]], list[tuple[str, Dim]]]:
    """The symbols that matrices of function boundaries tell: how, with the help of which, and the equations left."""
    equations: list[tuple[str, Dim]] = []
    for identifier, dims in given:
        if dims:
            view = split_view(dims, 1)
            equations += [(f"nrow({identifier})", view.rows), (f"ncol({identifier})", view.cols)]
    solved: dict[str, str] = {}
    needs: dict[str, tuple[str, ...]] = {}
    left = equations
    progress = True
    while progress:
        progress = False
        for total, size in list(left):
            open_symbols = [name for name in dim.symbols(size) if name not in solved]
            text = dim.solve(size, open_symbols[0], total, symbol_text) if len(open_symbols) == 1 else None
            if text is not None:
                solved[open_symbols[0]] = text
                needs[open_symbols[0]] = dim.symbols(size)
                left = [equation for equation in left if equation[0] != total]
                progress = True
    return solved, needs, left


def _known_view(size: int, view: View) -> View | None:
    """A view of that many elements in integers: an operator may ask for a size of the run that has to be equal."""
    rows, cols = view
    if isinstance(rows, int) and isinstance(cols, int):
        return view
    known = rows if isinstance(rows, int) else cols
    if not isinstance(known, int):
        return None
    if known == 0 or size % known:
        raise UnsupportedCase(f"{size} elements do not fill a {rows} x {cols} matrix")
    return View(rows, size // known) if isinstance(rows, int) else View(size // known, cols)


def _camel_case(name: str) -> str:
    """A list key: an identifier without underscores, at which the engine cuts the names of a list's files."""
    first, *rest = legal_identifier(name, "w").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def is_uniform(array: Array) -> bool:
    """Whether all elements are the same number; only looked at where that is quick."""
    if array.size == 0:
        return True
    return array.size <= 1 << 20 and bool(np.all(array == array.flat[0]))


def constant_literal(array: Array) -> str:
    """A known single element as a DML number; booleans are 0 and 1. Raises UnsupportedCase for other sizes."""
    if array.size != 1:
        raise UnsupportedCase(f"a tensor of {array.size} elements stands where one is needed")
    element = array.ravel()[0]
    return literal(int(element) if array.dtype.kind == "b" else element)


def _view_hint(name: str, form: Form) -> str:
    if form is SCALAR:
        return f"{name}_scalar"
    cols = form.cols
    return f"{name}_by_{cols}" if isinstance(cols, int) else f"{name}_view"
