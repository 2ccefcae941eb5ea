"""`NodeSizes`: the statements that define and check the sizes which nodes decide or need."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.importing.parameters import element_text
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.assumptions import Assumption
from onnx_systemds.inference.dim_equations import solve
from onnx_systemds.operators.api.layout import split_view
from onnx_systemds.operators.rendering.scope import Scope


class NodeSizes:
    """Sizes of the run, by node, while the nodes of a function are rendered from the last to the first."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._computed: dict[int, list[str]] = {}  # statements that compute sizes, by the fragment after them
        self._checks: dict[int, list[tuple[Assumption, str]]] = {}  # of sizes that nodes give, by the fragment after

    def given_by(self, position: int) -> list[str]:
        """The statements that define the used sizes which a node decides at run time."""
        return self._demand_sizes(position) + self._demand_elements(position)

    def note_needed(self, position: int) -> tuple[str, ...]:
        """Note the checks and computed sizes before a node; return the imports of their statements."""
        self._check_sizes(position)
        return self._compute_sizes(position) if self.scope.graph.run_sizes.calls_at(position) else ()

    def in_front_of(self, number: int) -> list[str]:
        """The statements before a fragment, without repeated checks."""
        is_new = self.scope.sizes.checks.is_new
        checks = [text for assumption, text in self._checks.get(number, ()) if is_new(assumption)]
        return [*self._computed.get(number, ()), *checks]

    def _demand_sizes(self, position: int) -> list[str]:
        """The statements that define the used sizes which this node decides at run time."""
        scope, graph = self.scope, self.scope.graph
        statements: list[str] = []
        left = [symbol for symbol in graph.sizes.get(position, ()) if symbol in scope.sizes.used]
        if not left:
            return statements
        known = set(scope.sizes.used) - set(left)
        for symbol in left:
            text = self._size_statement(position, symbol, known)
            if text is None:
                scope.returned.setdefault(symbol)
                name = next(name for name in graph.nodes[position].outputs
                            if name and symbol in dim.symbols(scope.dims(name)))
                scope.demand(name, scope.boundary(name))
            else:
                statements.append(text)
            known.add(symbol)
        return statements

    def _demand_elements(self, position: int) -> list[str]:
        """The statements that read the elements of this node's outputs that are used as sizes."""
        scope, run_sizes = self.scope, self.scope.graph.run_sizes
        symbols = run_sizes.elements_at(self.scope.graph.nodes[position].outputs)
        statements: list[str] = []
        for symbol in filter(scope.sizes.used.__contains__, symbols):
            name, element = run_sizes.elements[symbol]
            form = scope.boundary(name)
            text = element_text(scope.demand(name, form), scope.dims(name), element)
            statements.append(f"{scope.sizes.name(symbol)} = {text}")
        return statements

    def _compute_sizes(self, position: int) -> tuple[str, ...]:
        """Note the statements that compute sizes before a node; return their imports."""
        scope, run_sizes = self.scope, self.scope.graph.run_sizes
        statements: list[str] = []
        imports: list[str] = []
        for symbol in reversed(run_sizes.calls_at(position)):
            if symbol in scope.sizes.used:
                call = run_sizes.calls[symbol]
                arguments = ", ".join(map(scope.sizes.text, call.arguments))
                text = f"{call.function}({arguments})" if call.function else arguments
                statements.insert(0, f"{scope.sizes.name(symbol)} = {text}")
                imports += [call.function] if call.function else []
        self._computed[scope.rendered] = statements
        return tuple(imports)

    def _check_sizes(self, position: int) -> None:
        """Note the checks before this node of sizes that other nodes decide, if the script knows them."""
        scope = self.scope
        computed, found = scope.graph.run_sizes.calls_at(position), dict[str, bool]()
        self._checks[scope.rendered] = [
            (assumption, assumption.statement(scope.sizes.text, scope.sizes.factor))
            for assumption in scope.sizes.checks.of_node(position)
            if all(name in computed or self._is_determined(name, found) for name in assumption.symbols)
        ]

    def _is_determined(self, symbol: str, found: dict[str, bool]) -> bool:
        """Whether a size is defined, is computed, or follows from rows or columns of an output of its node.

        found: what was asked before; sizes that are computed of others may read the same ones again and again.
        """
        if symbol not in found:
            found[symbol] = self._decides(symbol, found)
        return found[symbol]

    def _decides(self, symbol: str, found: dict[str, bool]) -> bool:
        graph = self.scope.graph
        if self.scope.sizes.is_known(symbol) or symbol in graph.run_sizes.elements:
            return True
        if (call := graph.run_sizes.calls.get(symbol)) is not None:
            return all(self._is_determined(name, found) for name in dim.symbols(call.arguments))
        sources = [position for position, decided in graph.sizes.items() if symbol in decided]
        views = [split_view(dims, split) for position in sources for name in graph.nodes[position].outputs
                 if name and (dims := graph.values[name].dims) for split in self._splits(name, dims)]
        return any(_tells(size, symbol) for view in views for size in view)

    def _splits(self, name: str, dims: dim.Dims) -> list[int]:
        """The splits of a value whose rows or columns may determine sizes."""
        return [1] if name in self.scope.at_boundary else [1, *range(2, len(dims) + 1), 0]

    def _size_statement(self, position: int, symbol: str, known: set[str]) -> str | None:
        """The statement that defines a size by rows or columns of an output; None if the node defines it."""
        scope, node = self.scope, self.scope.graph.nodes[position]
        for name in node.outputs:
            dims = scope.value(name).dims if name else None
            if not dims or symbol not in dim.symbols(dims):
                continue
            for split in self._splits(name, dims):
                view = split_view(dims, split)
                for function, size in (("nrow", view.rows), ("ncol", view.cols)):
                    others = [other for other in dim.symbols(size) if dim.depends_on_run(dim.symbol(other))]
                    if symbol not in dim.symbols(size) or not known.union([symbol]).issuperset(others):
                        continue
                    text = solve(size, symbol, f"{function}({scope.demand(name, view)})", scope.sizes.name)
                    if text is not None:
                        return f"{scope.sizes.name(symbol)} = {text}"
        if node.identity == ("", "If"):
            return None
        raise UnsupportedCase(f"the size {symbol.lstrip('?')} does not follow from the result")


def _tells(size: dim.Dim, symbol: str) -> bool:
    """Whether a size follows from a number of rows or columns, if all sizes of inputs are known."""
    is_open = any(dim.depends_on_run(dim.symbol(name)) for name in dim.symbols(size) if name != symbol)
    return not is_open and solve(size, symbol, "", str) is not None
