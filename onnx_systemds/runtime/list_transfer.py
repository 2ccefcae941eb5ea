"""Transfers sequences and optionals to the engine and back.

JMLC takes and returns only matrices and frames. So a list is sent as two matrices: all items stacked in one column, and
a table of their rows and columns. Both begin with a row of zeros, because an empty list would have no rows. Text is
sent as codes, with a frame of the strings (see `model.texts`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.errors import TranspileError, quoted
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.known_dims import as_ints
from onnx_systemds.inference.wide_integers import TYPES
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.model.protos import numpy_dtype
from onnx_systemds.model.texts import Vocabulary
from onnx_systemds.runtime.boundary_integers import check_given, integers_of


class UnexpectedShape(TranspileError):
    """A matrix has other rows or columns than the dims of its tensor."""


Matrix = np.ndarray[Any, np.dtype[Any]]

_FRAME = ', data_type="frame"'

FUNCTIONS = """
driver_unpack = function(matrix[double] packed, matrix[double] shapes) return (list[unknown] items) {
  items = list()
  end = 1
  for (k in seq(2, nrow(shapes) + 1, 1)) {
    if (k <= nrow(shapes)) {
      rows = as.scalar(shapes[k, 1])
      cols = as.scalar(shapes[k, 2])
      item = matrix(0, rows=rows, cols=cols)
      if (rows * cols > 0) {
        item = matrix(packed[(end + 1):(end + rows * cols), 1], rows=rows, cols=cols)
      }
      items = append(items, item)
      end = end + rows * cols
    }
  }
}
driver_pack = function(list[unknown] items) return (matrix[double] packed, matrix[double] shapes) {
  packed = matrix(0, rows=1, cols=1)
  shapes = matrix(0, rows=1, cols=2)
  for (k in seq(1, length(items) + 1, 1)) {
    if (k <= length(items)) {
      item = as.matrix(items[k])
      shapes = rbind(shapes, cbind(as.matrix(nrow(item)), as.matrix(ncol(item))))
      if (length(item) > 0) {
        packed = rbind(packed, matrix(item, rows=length(item), cols=1))
      }
    }
  }
}
driver_item = function(list[unknown] optional) return (list[unknown] items, double present) {
  items = list()
  present = length(optional)
  if (present > 0) {
    items = as.list(optional[1])
  }
}
"""


def functions(script: Script) -> list[str]:
    """The texts of the functions that a program needs to read and write lists."""
    lists = [port for port in script.inputs + script.outputs if port.is_list]
    if not lists:
        return []
    wanted = ["list_texts", "list_codes"] if any(port.dtype == "string" for port in lists) else []
    given = {function.name for function in script.library}
    further = [function for function in library_functions(wanted) if function.name not in given]
    return [*map(print_statement, further), FUNCTIONS]


def variables(port: Port, name: str) -> list[str]:
    """The names of the matrices and the frame that transfer a list."""
    names = [name, f"{name}_shapes"]
    names += [f"{name}_present"] if port.kind == "optional sequence" else []
    return [*names, _texts(name)] if port.dtype == "string" else names


def _texts(name: str) -> str:
    return f"{name}_texts"


def reading(port: Port, name: str) -> tuple[list[str], str]:
    """The DML statements that read a list, and the DML of the list."""
    lines = [f'{variable} = read("./{variable}"{_FRAME if variable == _texts(name) else ""})'
             for variable in variables(port, name)]
    lines.append(f"{name}_items = driver_unpack({name}, {name}_shapes)")
    if port.dtype == "string":
        lines.append(f"{name}_items = list_texts({name}_items, {_texts(name)})")
    if port.kind != "optional sequence":
        return lines, f"{name}_items"
    lines += [f"{name}_optional = list()", f"if (as.scalar({name}_present) > 0) {{",
              f"  {name}_optional = append({name}_optional, {name}_items)", "}"]
    return lines, f"{name}_optional"


def writing(port: Port, result: str, name: str) -> list[str]:
    """The DML statements that write a list."""
    lines = []
    if port.kind == "optional sequence":
        lines = [f"[{result}_items, {result}_count] = driver_item({result})",
                 f"{name}_present = as.matrix({result}_count)"]
        result = f"{result}_items"
    if port.dtype == "string":
        lines.append(f'[{name}_codes, {_texts(name)}] = list_codes({result}, as.frame(""))')
        result = f"{name}_codes"
    lines.append(f"[{name}, {name}_shapes] = driver_pack({result})")
    return [*lines, *(f'write({variable}, "./{variable}")' for variable in variables(port, name))]


def sent(port: Port, given: Any, name: str) -> dict[str, Matrix]:
    """The matrices to send for a list of arrays, or for an array or None as an optional tensor."""
    present = given is not None
    items = [] if not present else [given] if port.kind == "optional" else list(given)
    vocabulary = Vocabulary()
    arrays = [np.asarray(item) for item in items]
    if port.dtype == "string":
        arrays = [vocabulary.codes(array) for array in arrays]
    for array in arrays:
        check_given(port, array)
    matrices = [_as_matrix(array) for array in arrays]
    column = [np.zeros((1, 1)), *(matrix.reshape(-1, 1) for matrix in matrices)]
    shapes = [[0, 0], *(list(matrix.shape) for matrix in matrices)]
    contents = {name: np.concatenate(column), f"{name}_shapes": np.array(shapes, dtype=np.float64)}
    if port.kind == "optional sequence":
        contents[f"{name}_present"] = np.array([[float(present)]])
    if port.dtype == "string":
        contents[_texts(name)] = vocabulary.strings()
    return contents


def _as_matrix(item: Matrix) -> Matrix:
    rows = item.shape[0] if item.ndim else 1
    return item.astype(np.float64).reshape(rows, math.prod(item.shape[1:]))


def received(port: Port, computed: Mapping[str, Matrix], name: str, sizes: Mapping[str, int]) -> Any:
    """The list from received matrices: a list of arrays, or an array or None for an optional tensor."""
    packed, shapes = computed[name].ravel(), computed[f"{name}_shapes"][1:].astype(np.int64)
    if port.dtype == "string":
        packed = computed[_texts(name)].ravel()[np.maximum(packed.astype(np.int64) - 1, 0)]
    items = []
    start = 1
    for number, (rows, cols) in enumerate(shapes.tolist()):
        matrix = packed[start : start + rows * cols].reshape(rows, cols)
        start += rows * cols
        dims = port.dims if port.item_dims is None else port.item_dims[number]
        items.append(_item(port, matrix, dims, sizes))
    if port.kind == "optional":
        return items[0] if items else None
    if port.kind == "optional sequence" and not computed[f"{name}_present"].any():
        return None
    return items


def _item(port: Port, matrix: Matrix, dims: Sequence[Dim] | None, sizes: Mapping[str, int]) -> Matrix:
    if dims is None:
        raise TranspileError(f"the rank of the items of output {quoted(port.name)} is unknown")
    tensor = tensor_of_matrix(port, matrix, dims, sizes)
    if tensor is None:
        raise TranspileError(f"the dims of the items of output {quoted(port.name)} do not follow from their matrices")
    return tensor


def tensor_of_matrix(port: Port, matrix: Matrix, dims: Sequence[Dim], sizes: Mapping[str, int]) -> Matrix | None:
    """A matrix in boundary form as a tensor of a port's type and these dims; None if they cannot be determined."""
    matrix = _with_rows(matrix, dims, sizes)
    shape = _solved_shape(dims, matrix.shape, sizes)
    if shape is None:
        return None
    if math.prod(shape) != matrix.size or (matrix.size and matrix.shape[0] != math.prod(shape[:1])):
        rows, columns = matrix.shape
        raise UnexpectedShape(f"output {quoted(port.name)} is {rows} x {columns}, not {list(shape)} as its dims say",
                              hint="a shape rule, or what the model declares, is wrong")
    tensor = matrix.reshape(shape)
    if tensor.dtype == object:
        return tensor
    if port.dtype in TYPES:
        return integers_of(port, tensor)
    with np.errstate(invalid="ignore", over="ignore"):
        return tensor.astype(numpy_dtype(port.dtype))


def _with_rows(matrix: Matrix, dims: Sequence[Dim], sizes: Mapping[str, int]) -> Matrix:
    """The matrix of a frame without cells: a frame without columns has no rows."""
    rows = dim.substitute(dim.product(dims[:1]), sizes)
    if matrix.dtype != object or matrix.size or not isinstance(rows, int):
        return matrix
    return matrix.reshape(rows, 0 if rows else matrix.shape[1])


def _solved_shape(dims: Sequence[Dim], shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """The dims as integers, from a matrix in boundary form; None if it does not determine them."""
    known = dict(sizes)
    equations: list[tuple[Dim, int]] = [(dim.product(dims[:1]), shape[0]), (dim.product(dims[1:]), shape[1])]
    for _ in range(2):
        for size, actual in equations:
            open_symbols = [name for name in dim.symbols(size) if name not in known]
            if len(open_symbols) == 1:
                solved = _solve(dim.substitute(size, known), open_symbols[0], actual)
                if solved is not None:
                    known[open_symbols[0]] = solved
    return as_ints(dim.substitute(size, known) for size in dims)


def _solve(size: Dim, symbol: str, actual: int) -> int | None:
    """The value of the symbol for which a linear size is the actual one; None for other expressions."""
    try:
        at_zero, at_one = (dim.substitute(size, {symbol: value}) for value in (0, 1))
        if not isinstance(at_zero, int) or not isinstance(at_one, int) or at_one == at_zero:
            return None
        found = (actual - at_zero) // (at_one - at_zero)
        return found if dim.substitute(size, {symbol: found}) == actual else None
    except ZeroDivisionError:
        return None


def nested_inputs(ports: Sequence[Port], arrays: Mapping[str, Matrix]) -> dict[str, Any]:
    """Inputs from named arrays: the items of a list are NAME/0, NAME/1 ..., a map is NAME/keys and NAME/values.

    Raises InvalidInput.
    """
    inputs: dict[str, Any] = dict(arrays)
    for port in ports:
        if port.kind == "map" and f"{port.name}/keys" in arrays and f"{port.name}/values" in arrays:
            keys, values = (inputs.pop(f"{port.name}/{side}").ravel().tolist() for side in ("keys", "values"))
            if len(keys) != len(values):
                raise InvalidInput(f"input {quoted(port.name)} has {len(keys)} keys and {len(values)} values")
            inputs[port.name] = dict(zip(keys, values))
        if not port.is_list:
            continue
        items: list[Matrix] = []
        while f"{port.name}/{len(items)}" in arrays:
            items.append(inputs.pop(f"{port.name}/{len(items)}"))
        if port.kind == "optional":
            inputs[port.name] = items[0] if items else None
        else:
            inputs[port.name] = items
    return inputs


def flat_results(results: Mapping[str, Any]) -> dict[str, Matrix]:
    """Outputs as named arrays: the items of a list are called NAME/0, NAME/1 ...; text is of numpy's str dtype.

    Of a sequence of maps the values of each key are an array NAME/key.
    """
    arrays: dict[str, Matrix] = {}
    for name, result in results.items():
        if isinstance(result, np.ndarray):
            named = {name: result}
        elif result and isinstance(result[0], dict):
            named = {f"{name}/{key}": np.array([item[key] for item in result], np.float32) for key in result[0]}
        else:
            named = {f"{name}/{number}": item for number, item in enumerate(result or ())}
        arrays |= {key: item.astype(str) if item.dtype == object else item for key, item in named.items()}
    return arrays
