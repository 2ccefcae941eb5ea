"""`Results`: the results of a function: outputs in boundary form, and sizes that they do not determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from onnx_systemds.dml import syntax as tree
from onnx_systemds.importing.parameters import INTEGER, MATRIX, as_declared, declaration, is_nested
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dim_equations import solve
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.operators.api.layout import LIST, SCALAR, Form, View, bind, in_form, split_view
from onnx_systemds.operators.rendering.scope import Scope


@dataclass(frozen=True, slots=True)
class Gradients:
    """What a function has that gives derivatives: ``seeds``, the inputs that are derivatives by outputs.

    outputs: the derivatives, whose sizes are known. columns: those that go into one column, with the keys of the
    weights by which they are derived.
    """

    seeds: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)


NO_GRADIENTS = Gradients()


class Results:
    """The results of one function, requested from its scope.

    statements: those that hand over what needs one of its own. parameters: the results, in order. returned: the symbols
    of the main function whose sizes are returned after the outputs. derives: whether derivatives are among them.
    """

    def __init__(
        self, scope: Scope, sizes: Sequence[Dim] = (), *, is_inner: bool, gradients: Gradients = NO_GRADIENTS
    ) -> None:
        """Demand the outputs of a function.

        sizes: those that a sub-graph's function returns, too.
        """
        self.scope = scope
        self.is_inner = is_inner
        self.parameters: list[tree.Parameter] = []
        self.returned: dict[str, None] = {}
        self.derives = bool(gradients.outputs)
        self._columns, self._derived = gradients.columns, gradients.outputs
        self.statements = self._demand_outputs(sizes)

    def _demand_outputs(self, sizes: Sequence[Dim]) -> list[str]:
        """Request the outputs; return the statements that assign those which need one."""
        scope = self.scope
        returns: list[str] = []
        taken: set[str] = set()
        for name in scope.graph.outputs:
            value = scope.value(name)
            form = scope.boundary(name)
            if name in self._columns:
                continue
            if value.is_text and not self.is_inner:
                identifier = scope.names.fresh(name)
                returns.append(f"{identifier} = {self._as_text(name, form)}")
                self.parameters.append(declaration(value, identifier))
                continue
            is_known = value.content is not None or value.items is not None
            is_plain = name in scope.own and name not in scope.graph.inputs and not is_known
            if form is not SCALAR and is_plain and value.elements is None and name not in taken:
                identifier = scope.demand(name, form)
                taken.add(name)
            else:
                identifier = scope.names.fresh(name)
                text = scope.demand(name, form)
                returns.append(f"{identifier} = {as_declared(value, text, is_inner=self.is_inner)}")
            self.parameters.append(declaration(value, identifier, is_inner=self.is_inner))
        if self._columns:
            identifier = scope.names.fresh("gradient")
            returns.append(f"{identifier} = {bind('rbind', self._derivatives())}")
            self.parameters.append(tree.Parameter(identifier, MATRIX))
        for size in sizes:
            identifier = scope.names.fresh("size")
            returns.append(f"{identifier} = as.integer({scope.sizes.text(size)})")
            self.parameters.append(tree.Parameter(identifier, INTEGER))
        return returns if self.is_inner else returns + self._return_sizes()

    def _derivatives(self) -> list[str]:
        """The derivatives by weights, in the order of their keys, each as a column."""
        weights = self.scope.parts.weights
        return [self.scope.demand(name, View(weights[key].array.size, 1))
                for name, key in sorted(self._columns.items(), key=itemgetter(1))]

    def _as_text(self, name: str, form: Form) -> str:
        """The statement that decodes a text output to a frame, a string or a list of frames."""
        scope = self.scope
        if form == LIST:
            function = "nested_texts" if is_nested(scope.value(name)) else "list_texts"
            scope.parts.imports[function] = None
            return f"{function}({scope.demand(name, form)}, {scope.texts()})"
        scope.parts.imports["codes_text"] = None
        if form is SCALAR:
            view = View(1, 1)
        else:
            view = View(0, 1) if scope.value(name).size == 0 else form  # a frame has columns
        codes = scope.demand(name, view)
        if form is not SCALAR and dim.depends_on_run(form.cols):
            scope.parts.imports["framed_codes"] = None
            codes = f"framed_codes({codes})"
        return in_form(f"codes_text({codes}, {scope.texts()})", form)

    def _return_sizes(self) -> list[str]:
        """Return the sizes that the run decides and that rows and columns of outputs do not determine."""
        scope = self.scope
        tensors = [name for name in scope.graph.inputs if not scope.value(name).is_list]
        given = {name for value in tensors for name in dim.symbols(scope.dims(value))}
        for value in scope.graph.outputs:
            if scope.value(value).is_list or value in self._derived:
                continue
            self.returned.update(dict.fromkeys(_unseen(scope.dims(value), given, is_text=scope.value(value).is_text)))
        statements: list[str] = []
        for symbol in self.returned:
            identifier = scope.names.fresh(f"size_{symbol}")
            statements.append(f"{identifier} = {scope.sizes.name(symbol)}")
            self.parameters.append(tree.Parameter(identifier, INTEGER))
        return statements


def _determines(size: Dim, symbol: str) -> bool:
    """Whether rows or columns determine the only unknown symbol in their number; a size that may be 0 is no divisor."""
    others = dim.divide_exactly(size, dim.symbol(symbol))
    is_divided = others is not None and dim.may_be_zero(others)
    return not is_divided and solve(size, symbol, "", str) is not None


def _unseen(dims: Dims, given: set[str], *, is_text: bool) -> list[str]:
    """The symbols in an output's dims that neither the inputs nor its matrix determine.

    A frame without columns has no rows either, so neither determines anything for text that may have none.
    """
    known = set(given)
    shows = not is_text or not dim.depends_on_run(split_view(dims, 1).cols)
    for _ in range(2 if shows else 0):
        for size in split_view(dims, 1):
            left = [name for name in dim.symbols(size) if name not in known]
            if len(left) == 1 and _determines(size, left[0]):
                known.add(left[0])
    return [name for name in dim.symbols(dims) if name not in known and dim.depends_on_run(dim.symbol(name))]
