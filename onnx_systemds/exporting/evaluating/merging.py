"""The common form of a variable's values from both branches of an If, or all iterations of a Loop: `Template`.

A template says which tensors cross the boundary of the sub-graph, and how to make a value of them again. A value that
is known and the same on all paths does not cross it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.frames import blank, joined
from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import FLOAT, Tensor
from onnx_systemds.exporting.poison_values import intact, poison_error
from onnx_systemds.exporting.values import DOUBLE, KINDS, STRING, FrameValue, ListValue, Matrix, Poison, Scalar, Value
from onnx_systemds.inference.dims import Dim, Dims, Expression


@dataclass(eq=False)
class Template:
    """The common form of the values of one variable.

    fixed: the value itself, where it is the same on all ways. type: of a scalar. dims: of a matrix, None for a size
    that differs; view: tensor dims, where all have the same. cells: the kind of the cells of a frame, which has `dims`
    as a matrix has. items: of a list.
    """

    name: str
    fixed: Value | None = None
    type: str = ""
    dims: list[Dim | None] | None = None
    view: Dims | None = None
    cells: str = ""
    items: list[Template] | None = None
    names: tuple[str, ...] = ()
    _made: Dims = field(default=())

    def widen(self, value: Value) -> bool:
        """Widen the template by a value; return whether it has changed. Raises UnsupportedCase."""
        if self.fixed is not None:
            if _same(self.fixed, value):
                return False
            general = _general(self.name, self.fixed)
            self.fixed, self.type, self.dims = None, general.type, general.dims
            self.view, self.items, self.names = general.view, general.items, general.names
            self.widen(value)
            return True
        if self.items is not None:
            if not isinstance(value, ListValue) or len(value.items) != len(self.items):
                raise UnsupportedCase(f"{self.name} is a list whose length only the run knows",
                                      hint="a matrix may grow: M = rbind(M, row)")
            return max([item.widen(own) for item, own in zip(self.items, value.items)], default=False)
        if self.dims is not None:
            return self._widen_matrix(value)
        if not isinstance(value, Scalar) or (value.type == STRING) != (self.type == STRING):
            own = "a string" if self.type == STRING else "a scalar"
            raise UnsupportedCase(f"{self.name} is {own} on one path and {value} on another")
        if value.type != self.type and self.type != DOUBLE:
            self.type = DOUBLE
            return True
        return False

    def _widen_matrix(self, value: Value) -> bool:
        if not isinstance(value, (Matrix, FrameValue)) or self.cells != _cells(self.name, value):
            form = "frame" if self.cells else "matrix"
            raise UnsupportedCase(f"{self.name} is a {form} on one path and {value} on another")
        assert self.dims is not None
        changed = False
        for axis, dim in enumerate(value.dims):
            if self.dims[axis] is not None and self.dims[axis] != dim and dim not in self._made[axis : axis + 1]:
                self.dims[axis] = None
                changed = True
        if self.view is not None and isinstance(value, Matrix) and value.tensor.dims != self.view:
            self.view = None
            changed = True
        return changed

    def outside(self, graph: GraphBuilder) -> Template:
        """Forget sizes, and numbers made of them, that cannot be computed in the current scope."""
        fixed = self.fixed
        if isinstance(fixed, Scalar) and isinstance(fixed.content, Expression) and not graph.computable(fixed.content):
            self.fixed, self.type = None, fixed.type
        if self.items is not None:
            for item in self.items:
                item.outside(graph)
        if self.dims is not None:
            for axis, dim in enumerate(self.dims):
                if dim is not None and not graph.computable(dim):
                    self.dims[axis] = None
                    self.view = None
        return self

    def outputs(self, graph: GraphBuilder) -> list[tuple[str, Dims]]:
        """Return kind and dims of each tensor that crosses the boundary."""
        if self.fixed is not None:
            return []
        if self.items is not None:
            return [output for item in self.items for output in item.outputs(graph)]
        if self.dims is None:
            return [(KINDS[self.type], ())]
        if self.view is not None and None not in self.dims:
            return [(FLOAT, self.view)]
        bases = ("rows", "cols")
        self._made = tuple(
            graph.size_symbol(f"{self.name}_{bases[axis]}") if dim is None else dim
            for axis, dim in enumerate(self.dims)
        )
        return [(self.cells or FLOAT, self._made)]

    def tensors(self, context: Context, value: Value | None) -> list[Tensor]:
        """Return the tensors of a value; None: the variable is not defined on this path. Raises TranspileError."""
        if self.fixed is not None:
            return []
        if isinstance(value, Poison):
            if value.errors:  # no zeros for what was refused before a loop that may leave it
                raise poison_error(value, self.name)
            value = None
        if self.items is not None:
            items = value.items if isinstance(value, ListValue) else (None,) * len(self.items)
            return [t for form, item in zip(self.items, items) for t in form.tensors(context, item)]
        if self.dims is None:
            if value is None:
                return [blank(context, KINDS[self.type], ())]
            return [context.g.cast(context.tensor(value), KINDS[self.type])]
        if isinstance(value, FrameValue):
            return [joined(context, value)]
        if self.cells:
            return [blank(context, self.cells, tuple(1 if dim is None else dim for dim in self.dims))]
        view = None if None in self.dims else self.view
        if not isinstance(value, Matrix):
            return [context.g.filled(0.0, view or tuple(1 if dim is None else dim for dim in self.dims))]
        return [context.flat(value) if view is None else context.viewed(value, view)]

    def value(self, context: Context, stream: Iterator[Tensor]) -> Value:
        """Return the value made of the next tensors of `stream`."""
        if self.fixed is not None:
            return self.fixed
        if self.items is not None:
            return ListValue(tuple(item.value(context, stream) for item in self.items), self.names)
        tensor = next(stream)
        if self.dims is None:
            return context.scalar(tensor)
        if self.cells:
            return FrameValue((tensor,))
        if tensor.rank == 2 and (self.view is None or None in self.dims):
            return Matrix(tensor, *tensor.dims)
        rows, cols = self.dims
        assert rows is not None and cols is not None
        return Matrix(tensor, rows, cols)


def tensors_of(forms: Mapping[str, Template], context: Context, values: Mapping[str, Value]) -> list[Tensor]:
    """Return the tensors of all variables of these forms; a variable may have no value."""
    return [tensor for name, form in forms.items() for tensor in form.tensors(context, values.get(name))]


def values_of(forms: Mapping[str, Template], context: Context, tensors: Iterable[Tensor]) -> dict[str, Value]:
    """Return the variables that are made of tensors in the order of `tensors_of`."""
    stream = iter(tensors)
    return {name: form.value(context, stream) for name, form in forms.items()}


def template(name: str, one: Value | None, other: Value | None) -> Template:
    """Return the common form of two values; None: the variable is not defined on a path. Raises UnsupportedCase."""
    values = [value for value in (one, other) if value is not None and not isinstance(value, Poison)]
    if not values:
        raise UnsupportedCase(f"the variable {name} is not defined on any path to here")
    if len(values) == 1:
        return _general(name, values[0])
    found = Template(name, fixed=values[0]) if _fixable(values[0]) else _general(name, values[0])
    found.widen(values[1])
    return found


def _general(name: str, value: Value) -> Template:
    value = intact(value, name)
    if isinstance(value, Matrix):
        return Template(name, dims=list(value.dims), view=value.tensor.dims)
    if isinstance(value, FrameValue):
        return Template(name, dims=list(value.dims), cells=_cells(name, value))
    if isinstance(value, ListValue):
        items = [Template(f"{name}_{i + 1}", fixed=item) if _fixable(item) else _general(f"{name}_{i + 1}", item)
                 for i, item in enumerate(value.items)]
        return Template(name, items=items, names=value.names)
    if isinstance(value, Scalar):
        return Template(name, type=value.type)
    raise _no_choice(name, value)


def _no_choice(name: str, value: Value) -> UnsupportedCase:
    return UnsupportedCase(f"{name} is {value}: a model cannot choose one by a condition that only the run knows",
                           hint="assign it outside of the if or the loop")


def _cells(name: str, value: Matrix | FrameValue) -> str:
    """Return the kind of the cells of a frame, nothing for a matrix."""
    kinds = {part.kind for part in value.parts} if isinstance(value, FrameValue) else {""}
    if len(kinds) > 1:
        raise _no_choice(name, value)
    return kinds.pop()


def _fixable(value: Value) -> bool:
    return isinstance(value, Poison) or (isinstance(value, Scalar) and not isinstance(value.content, Tensor))


def _same(one: Value, other: Value) -> bool:
    if one is other:
        return True
    if not isinstance(one, Scalar) or not isinstance(other, Scalar) or one.type != other.type:
        return False
    a, b = one.content, other.content
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b
    if isinstance(a, Expression) or isinstance(b, Expression):
        return a == b
    return a == b or (a != a and b != b)
