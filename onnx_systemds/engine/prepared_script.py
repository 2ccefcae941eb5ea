"""Scripts that a session has compiled, and their calls with numpy arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from onnx_systemds.engine.errors import EngineClosed, EngineError, JavaFailure, runtime_error
from onnx_systemds.engine.transfer import Channel, Matrix, check_array, is_text

_LONGEST_CHAIN = 50
_CALLS_BEFORE = 20
"""Calls of a script after which a caller is worth its making (see `caller`)."""
_RECOMPILED = re.compile(r"^-+FUNCTION \S*::(\w+) \[recompile=true\]$", re.MULTILINE)


def failure_chain(error: Any) -> list[JavaFailure]:
    """Return the Java exception of a Py4JJavaError and its causes, outermost first."""
    chain: list[JavaFailure] = []
    throwable = error.java_exception
    while throwable is not None and len(chain) < _LONGEST_CHAIN:
        chain.append(JavaFailure(throwable.getClass().getName(), throwable.getMessage() or ""))
        throwable = throwable.getCause()
    return chain


@dataclass(frozen=True)
class ResultMatrix:
    """A matrix in the engine. size: bytes."""

    block: Any
    rows: int
    cols: int
    size: int


class Host(Protocol):
    """The session that a prepared script belongs to, as the script sees it."""

    _channel: Channel
    _java_error: type[Exception]

    def _operation(self, timeout: float | None, what: str) -> AbstractContextManager[Any]:
        """Hold the session for calls into its JVM."""

    def _use_native_blas(self, wanted: bool) -> None:
        """Switch the native BLAS on or off for what runs from now on."""


class PreparedScript:
    """A compiled script with pinned inputs. A call takes the other inputs and returns the outputs."""

    def __init__(
        self,
        session: Host,
        prepared: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        native_blas: bool,
        shapes: Mapping[str, tuple[int, int]],
    ) -> None:
        """Use `Session.prepare` instead."""
        self._session = session
        self._prepared = prepared
        self._native_blas = native_blas
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._shapes = shapes
        self._pinned: dict[str, tuple[str, Any]] = {}
        # What an output is shows at the first run only; asked in this order, the last success first.
        self._readers: dict[str, tuple[Callable[[Any, str], Matrix], ...]] = {}
        self._caller: Any = None
        self._calls: float = 0

    def pin(self, name: str, matrix: Matrix) -> None:
        """Set an input (a weight) for all further calls; pinning again replaces it. Raises ValueError."""
        if name not in self._inputs:
            raise ValueError(f"'{name}' is not an input of the script; these are {', '.join(self._inputs)}")
        matrix = check_array(name, matrix)
        with self._session._operation(None, f"sending '{name}'"):
            self._pinned[name] = self._set(name, matrix, pinned=True)

    def pin_as(self, other: PreparedScript, names: Mapping[str, str] | None = None) -> None:
        """Pin inputs that another script of this session has pinned, without another transfer.

        names: inputs of this script -> pinned inputs of the other one; None: all, by the same names. Sparse matrices
        are copied: the engine may make one dense in place while the other script reads it.
        """
        with self._session._operation(None, "pinning"):
            self._check_open()
            other._check_open()
            for name, source in ({name: name for name in other._pinned} if names is None else names).items():
                self._pin_block(name, *other._pinned[source])

    def pin_results(self, matrices: Mapping[str, ResultMatrix]) -> None:
        """Pin matrices that another script of this session has computed (`computed_matrices`).

        Scripts that run in parallel need their own copies of sparse ones (`Session.copies`).
        """
        with self._session._operation(None, "pinning"):
            self._check_open()
            for name, matrix in matrices.items():
                self._prepared.setMatrix(name, matrix.block, True)
                self._pinned[name] = ("setMatrix", matrix.block)

    def computed_matrices(self) -> dict[str, ResultMatrix]:
        """Run a script whose inputs are all pinned; return the outputs that are matrices, which stay in the engine.

        A sparse matrix is replaced by a copy with all rows in one array; otherwise Java's garbage collector would visit
        each row again and again. Raises the errors of a call.
        """
        self._checked({})
        with self._session._operation(None, "running a script"):
            self._session._use_native_blas(self._native_blas)
            results = self._executed()
            found: dict[str, ResultMatrix] = {}
            for name in self._outputs:
                try:
                    block = results.getMatrixBlock(name)
                except self._session._java_error:  # it is a number
                    continue
                if block.isInSparseFormat():
                    sparse, block = block, self._session._channel.copied(block)
                    self._session._channel.release(sparse)
                found[name] = ResultMatrix(block, block.getNumRows(), block.getNumColumns(), block.getInMemorySize())
            self._session._channel.release(results)
            return found

    def recompiled_functions(self) -> frozenset[str]:
        """The functions that the engine recompiles at each call, for the sizes of its arguments."""
        with self._session._operation(None, "explaining a script"):
            self._check_open()
            return frozenset(_RECOMPILED.findall(self._prepared.explain()))

    def __call__(self, inputs: Mapping[str, Matrix], timeout: float | None = None) -> dict[str, Matrix]:
        """Run the script and return its outputs by name.

        Every input that is not pinned needs a 2-D array: numbers or booleans of any dtype, or strings. An
        output is a 2-D float64 array (1 x 1 for a scalar), or an object array of str for a frame.
        Raises ScriptRuntimeError, EngineTimeout, EngineClosed, EngineError; TypeError and ValueError for
        inputs that do not match.
        """
        arrays = self._checked(inputs)
        with self._session._operation(timeout, "running a script"):
            self._session._use_native_blas(self._native_blas)
            return self._run(arrays)

    def close(self) -> None:
        """Release the compiled script and its pinned inputs; idempotent."""
        self._prepared = self._caller = None
        self._pinned.clear()

    def _checked(self, inputs: Mapping[str, Matrix]) -> dict[str, Matrix]:
        """The inputs as arrays that can be sent. Raises EngineClosed, TypeError, ValueError."""
        self._check_open()
        wanted = [name for name in self._inputs if name not in self._pinned]
        if set(wanted) != set(inputs):
            raise ValueError(f"the script needs the inputs {sorted(wanted)}, not {sorted(inputs)}")
        return {name: check_array(name, inputs[name]) for name in wanted}

    def _run(self, arrays: Mapping[str, Matrix]) -> dict[str, Matrix]:
        """Send the inputs, run the script, and get its outputs; inside an operation of the session."""
        self._calls += 1
        if self._calls > _CALLS_BEFORE and self._session._channel.fits_call([*arrays.values()]):
            return self._run_at_once(arrays)
        for name, array in arrays.items():
            self._set(name, array, pinned=False)
        results = self._executed()
        return {name: self._get(results, name) for name in self._outputs}

    def _run_at_once(self, arrays: Mapping[str, Matrix]) -> dict[str, Matrix]:
        """The same in a single round trip, but for outputs that are no matrix or a large one."""
        self._check_open()
        channel = self._session._channel
        if self._caller is None or self._caller[0] != [*arrays]:
            try:
                self._caller = ([*arrays], channel.caller(self._prepared, [*arrays], self._outputs))
            except (self._session._java_error, TypeError):  # the engine comes without its compiler
                self._calls = -math.inf
                return self._run(arrays)
        caller = self._caller[1]
        try:
            matrices = channel.call(caller, [*arrays.values()])
        except self._session._java_error as error:
            raise runtime_error(failure_chain(error)) from None
        found = dict(zip(self._outputs, matrices))
        results = caller.results() if any(matrix is None for matrix in matrices) else None
        return {name: self._get(results, name) if matrix is None else matrix for name, matrix in found.items()}

    def _executed(self) -> Any:
        """What the engine's run of the script gives: ResultVariables."""
        try:
            return self._prepared.executeScript()
        except self._session._java_error as error:
            raise runtime_error(failure_chain(error)) from None

    def _pin_block(self, name: str, method: str, block: Any) -> None:
        if method == "setMatrix" and block.isInSparseFormat():
            block = self._session._channel.copied(block)
        getattr(self._prepared, method)(name, block, True)
        self._pinned[name] = (method, block)

    def _set(self, name: str, array: Matrix, *, pinned: bool) -> tuple[str, Any]:
        """Send an input; returns the method that sets such inputs, and the engine's block."""
        self._check_open()
        channel = self._session._channel
        if is_text(array):
            sent = ("setFrame", channel.send_frame(array))
        else:
            sent = ("setMatrix", channel.send_matrix(array))
        getattr(self._prepared, sent[0])(name, sent[1], pinned)
        return sent

    def _check_open(self) -> None:
        if self._prepared is None:
            raise EngineClosed("the prepared script is closed")

    def _get(self, results: Any, name: str) -> Matrix:
        readers = self._readers.get(name) or (self._get_matrix, self._get_frame, self._get_scalar)
        for reader in readers:
            try:
                value = reader(results, name)
            except self._session._java_error as error:
                failure = failure_chain(error)[-1]
                # ResultVariables says so of another kind of variable, and of none at all.
                if not failure.kind.endswith(".DMLException"):
                    raise runtime_error([failure]) from None
                continue
            if readers[0] is not reader:
                self._readers[name] = (reader, *(other for other in readers if other is not reader))
            return value
        raise EngineError(f"the script gave no matrix, frame or scalar for the output '{name}'")

    def _get_matrix(self, results: Any, name: str) -> Matrix:
        return self._session._channel.receive_matrix(results.getMatrixBlock(name), self._shapes.get(name))

    def _get_frame(self, results: Any, name: str) -> Matrix:
        return self._session._channel.receive_frame(results.getFrameBlock(name))

    def _get_scalar(self, results: Any, name: str) -> Matrix:
        scalar = results.getScalarObject(name)
        if scalar.getValueType().toString() == "STRING":
            return np.array([[scalar.getStringValue() or ""]], dtype=object)
        return np.array([[scalar.getDoubleValue()]], dtype=np.float64)
