"""Tells the engine's compiler the rows of the only matrix that a script takes, where the model declares them.

The compiler tries a function of one matrix that is called with sizes it does not know, and what that calls, at
7777 x 3333 (see `probed_sizes`), and stops where an operation on images counts other rows: in ``conv2d(X, W,
input_shape=[1, 3, 8, 8], ..)``. A reshape to the declared rows, which are those of X, takes no time when it runs.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callees
from onnx_systemds.dml.line_breaks import INDENT
from onnx_systemds.dml.printer import WIDTH
from onnx_systemds.dml.scopes import called_in, is_call, is_reshape, matrix_parameters, reads_more_than
from onnx_systemds.importing.passes.block_cuts import cut
from onnx_systemds.importing.script import Script, with_main
from onnx_systemds.operators.api.layout import split_view

_WHY = "# tells the compiler the declared sizes, it tries others"
_OF_IMAGES = frozenset(("avg_pool", "conv2d", "conv2d_backward_data", "max_pool"))


def with_declared_sizes(script: Script) -> Script:
    """The script whose main function tells the sizes of its only matrix; specialised is the script as it was."""
    main = script.main
    matrices = matrix_parameters(main)
    if len(matrices) != 1 or not _has_images(script):
        return script
    (name,) = matrices
    dims = next(port.dims for port, parameter in zip(script.inputs, main.parameters) if parameter.name == name)
    view = split_view(dims or (), 1)
    place = next((place for place, statement in enumerate(main.body) if _reads_as_it_is(statement, name)), None)
    if place is None or not isinstance(view.rows, int) or view.rows == 0 or view.cols == 0:
        return script
    columns = view.cols if isinstance(view.cols, int) else f"ncol({name})"
    reshape = f"{name} = matrix({name}, rows={view.rows}, cols={columns})"
    fits = len(f"{INDENT}{reshape}  {_WHY}") <= WIDTH
    told = cut(f"{reshape}  {_WHY}" if fits else f"{_WHY}\n{reshape}")
    return with_main(script, replace(main, body=(*main.body[:place], told, *main.body[place:])))


def _has_images(script: Script) -> bool:
    """Whether the main function, or what it calls, has an operation on images."""
    functions = (script.main, *callees(script.callable_functions, script.main.body).values())
    return any(not _OF_IMAGES.isdisjoint(called_in(it)) for function in functions for it in function.body)


def _reads_as_it_is(statement: tree.Statement, name: str) -> bool:
    """Whether a statement reads cells of a matrix in the shape that it has."""
    return reads_more_than(statement, name, lambda call: is_call(call, "nrow", "ncol") or is_reshape(call))
