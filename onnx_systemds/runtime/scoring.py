"""Run a generated script on the embedded engine with numpy tensors of any rank."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from onnx_systemds.dml import syntax as tree
from onnx_systemds.engine import PreparedScript, ScriptCompileError, ScriptRuntimeError, Session, shared_session
from onnx_systemds.engine.prepared_script import ResultMatrix
from onnx_systemds.errors import quoted
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.script import Script
from onnx_systemds.model.given_inputs import InvalidInput, check_names
from onnx_systemds.runtime import list_transfer
from onnx_systemds.runtime.autotune import Autotuner
from onnx_systemds.runtime.batch_parts import divided, joined, of_no_sample, of_one_sample
from onnx_systemds.runtime.boundary_tensors import (
    Tensor,
    as_maps,
    as_numbers,
    bind_sizes,
    boundary_matrix,
    list_of,
    restored,
    tensor_of,
)
from onnx_systemds.runtime.driver import (
    Program,
    Shapes,
    Sizes,
    constants_program,
    input_variables,
    output_variables,
    program_of,
    result_shapes,
    weight_variables,
)
from onnx_systemds.runtime.failures import with_failed_node
from onnx_systemds.runtime.forms import Engine, SpecialisedScript, specialised_script

LONG_CALL = 0.004
"""Seconds from which on a call is divided, and large matrices are expected; below, what that costs is more than what it
saves."""


class _Specialised(NamedTuple):
    """The forms of a script for inputs of these shapes, each as a script for each part of the samples."""

    shapes: dict[str, tuple[int, ...]]
    tuner: Autotuner[Sequence[PreparedScript]]


class ScoringFunction:
    """A script that is prepared in a session. Weights are loaded once; a call takes and returns tensors by ONNX name.

    After ``specialise_after`` calls with the same input sizes the script is specialised for them. Independent samples
    (`Script.batch`) are then also divided among the processors, because much of the engine is single-threaded. If the
    script has several specialised forms, they are autotuned: called in turn until the fastest is known. A form that the
    engine refuses is dropped.
    """

    def __init__(
        self, script: Script, session: Session | None = None, *, specialise_after: int = 20, parts: int | None = None
    ) -> None:
        """Compile the script. Raises EngineError where there is no engine or it fails, TypeError for what is no Script.

        ``specialise_after``: calls with inputs of the same sizes, after which it is compiled for these as well.
        ``parts``: into how many parts samples are divided then; None is one for each processor, where calls are long.
        """
        if not isinstance(script, Script):
            raise TypeError(f"a ScoringFunction takes a Script, which import_model makes, not {type(script).__name__}")
        self.script = script
        self._session = shared_session() if session is None else session
        self._names = input_variables(script), output_variables(script)
        self._prepared = self._prepare_given()
        self._general = script.unspecialised
        self._is_open = bool(script.symbols)
        self._specialised: _Specialised | None = None
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._repeats, self._specialise_after = 0, specialise_after
        self._parts, self._shortest = parts, math.inf

    def _prepare_given(self) -> PreparedScript:
        """Compile the script as it was given, with its weights, and its constants if it has any."""
        script = self.script
        once, pinned, constants = None, dict[str, str](), dict[str, ResultMatrix]()
        if script.constants is not None:
            program, read, written = constants_program(script)
            with with_failed_node(self.script, program, {}):
                once = self._session.prepare(program.text, [*read], written)
            for name, place in read.items():
                once.pin(name, as_numbers(script.weights[place].array))
            pinned = {f"weight{place}": name for name, place in read.items()}
            with with_failed_node(self.script, program, {}, self._rerunning(once, [*read], written, {}, None)):
                computed = once.computed_matrices()
            constants = {f"constant{place}": matrix for place, matrix in enumerate(computed.values())}
        names = script.constants.names if script.constants is not None else ()
        shapes = {name: (matrix.rows, matrix.cols) for name, matrix in zip(names, constants.values(), strict=True)}
        additional = [*(f"size{place}" for place, _ in enumerate(script.sizes)), *constants]
        self._program, self._additional = program_of(script, constants=shapes), additional
        prepared = self._prepare(self._program, additional)
        if once is not None:
            prepared.pin_as(once, pinned)
            prepared.pin_results(constants)
        for name, weight in zip(weight_variables(script), script.weights):
            if name not in pinned:
                prepared.pin(name, as_numbers(weight.array))
            if weight.release is not None:
                weight.release()
        return prepared

    def __call__(self, inputs: Mapping[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Score tensors.

        inputs: by ONNX name, an array of the declared rank, a list of arrays for a sequence, the content or None for an
        optional, a dict for a map. Another element type is converted if that is lossless, see `given_inputs`. A batch
        of size 0 returns results of size 0 (`Script.batch`). timeout: seconds.
        Returns the outputs by ONNX name, with ONNX's dtypes and dims.
        Raises InvalidInput if an input is missing or has another type or shape than declared, EngineError if the run
        fails.
        """
        check_names(inputs, [port.name for port in self.script.inputs])
        tensors = {port.name: tensor_of(port, inputs) for port in self.script.inputs if not port.is_list}
        sizes = bind_sizes(self.script.inputs, tensors)
        for complaint in filter(None, (assumption.complaint(sizes) for assumption in self.script.unchecked)):
            raise InvalidInput(complaint)
        batch = self.script.batch if 0 in sizes.values() else None
        try:
            if batch is not None and sizes[batch.symbol] == 0:  # the engine fails on matrices without rows
                sample = of_one_sample(self.script, tensors)
                bound = bind_sizes(self.script.inputs, sample)
                scored = self._scored([self._prepared], self._matrices(sample, {}), sample, bound, timeout)
                return of_no_sample(self.script, scored)
            return self._called(tensors, inputs, sizes, timeout)
        except (ScriptRuntimeError, ValueError) as error:
            name = next((port.name for port in self.script.inputs if _is_emptied(port, tensors)), None)
            if name is None:
                raise
            message = f"input {quoted(name)} has no elements, a script for open sizes takes some here: {error}"
            raise InvalidInput(message, hint="fix the dims by --dim") from error

    def _called(
        self, tensors: Mapping[str, Tensor], inputs: Mapping[str, Any], sizes: Mapping[str, int], timeout: float | None
    ) -> dict[str, Any]:
        matrices = self._matrices(tensors, inputs)
        try:
            scripts = self._for_sizes(matrices, tensors, sizes)
        except (ScriptCompileError, ScriptRuntimeError, ZeroDivisionError):
            # What is computed of sizes beforehand fails, or the engine refuses them: the open script says why.
            scripts = [self._prepared]
        start = time.perf_counter()
        try:
            results = self._scored(scripts, matrices, tensors, sizes, timeout)
        except ScriptRuntimeError:
            if self._specialised is None or scripts[0] is self._prepared:
                raise
            results = self._scored([self._prepared], matrices, tensors, sizes, timeout)  # raises what inputs cause
            self._specialised.tuner.drop(scripts, [self._prepared])
        else:
            self._record(scripts, time.perf_counter() - start)
        return results

    def _scored(
        self,
        scripts: Sequence[PreparedScript],
        matrices: Mapping[str, Tensor],
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        timeout: float | None,
    ) -> dict[str, Any]:
        """The results of a script, or of one for each part of the samples."""
        if len(scripts) > 1:
            return self._in_parts(scripts, tensors, timeout)
        given = dict(matrices)
        if scripts[0] is self._prepared:
            given |= {f"size{i}": np.array([[float(sizes[name])]]) for i, name in enumerate(self.script.sizes)}
            return self._results(self._called_unspecialised(given, sizes, timeout), sizes)
        return self._results(scripts[0](given, timeout), sizes)

    def _called_unspecialised(
        self, given: Mapping[str, Tensor], sizes: Mapping[str, int], timeout: float | None
    ) -> dict[str, Tensor]:
        """What the script gives as it was given; an error names the node that failed."""
        inputs, outputs = self._names
        rerun = self._rerunning(self._prepared, [*inputs, *self._additional], outputs, given, timeout)
        with with_failed_node(self.script, self._program, sizes, rerun):
            return self._prepared(given, timeout)

    def _rerunning(
        self, prepared: PreparedScript, inputs: Sequence[str], outputs: Sequence[str], given: Mapping[str, Tensor],
        timeout: float | None,
    ) -> Callable[[str], object]:
        """Runs another text of a program, with what its prepared script is given."""

        def rerun(text: str) -> object:
            other = self._session.prepare(text, inputs, outputs)
            try:
                other.pin_as(prepared)
                return other.computed_matrices() if not given else other(given, timeout)
            finally:
                other.close()

        return rerun

    def _record(self, scripts: Sequence[PreparedScript], seconds: float) -> None:
        """Remember how long a call took, by which later ones are chosen."""
        self._shortest = min(self._shortest, seconds)
        if self._specialised is not None:
            self._specialised.tuner.record(scripts, seconds)

    def _in_parts(
        self, scripts: Sequence[PreparedScript], tensors: Mapping[str, Tensor], timeout: float | None
    ) -> dict[str, Any]:
        """Score the samples with as many scripts at the same time."""
        parts = divided(self.script, tensors, len(scripts))
        computed = self._session.run_together(scripts, [self._matrices(part, {}) for part in parts], timeout)
        sizes = [bind_sizes(self.script.inputs, part) for part in parts]
        return joined(self.script, [self._results(part, bound) for part, bound in zip(computed, sizes)])

    def _matrices(self, tensors: Mapping[str, Tensor], inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """What the prepared script takes of the inputs."""
        matrices: dict[str, Tensor] = {}
        for position, port in enumerate(self.script.inputs):
            if not port.is_list:
                matrices[f"in{position}"] = boundary_matrix(tensors[port.name])
            else:
                matrices |= list_transfer.sent(port, list_of(port, inputs[port.name]), f"in{position}")
        return matrices

    def _results(self, computed: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
        """Tensors from what the prepared script gives."""
        script, sizes = self.script, dict(sizes)
        for position, symbol in enumerate(script.returned, len(script.outputs)):
            sizes[symbol] = int(computed[f"out{position}"].item())
        return {
            port.name: list_transfer.received(port, computed, f"out{position}", sizes)
            if port.is_list
            else as_maps(port, restored(port, computed[f"out{position}"], sizes))
            for position, port in enumerate(script.outputs)
        }

    def _for_sizes(
        self, matrices: Mapping[str, Tensor], tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> Sequence[PreparedScript]:
        """The script; once inputs of the same sizes have come a number of times in a row, compiled for these sizes.

        With open sizes the engine compiles it again in part at each call, which small models feel. Several scripts are
        for one part of the samples each.
        """
        shapes = _shapes(matrices) | {name: (size,) for name, size in sizes.items()}  # those of frames, too
        if self._specialised is not None and self._specialised.shapes == shapes:
            return self._specialised.tuner.next()
        if shapes != self._shapes:
            self._repeats, self._shortest, self._shapes = 0, math.inf, shapes
        self._repeats += 1
        if self._repeats < self._specialise_after or not all(all(shape) for shape in shapes.values()):
            return [self._prepared]
        batch = self.script.batch
        count = 1 if batch is None else min(self._wanted_parts(), sizes[batch.symbol])
        whole = (_shapes(matrices), sizes)
        if count == 1:
            candidates = self._candidates([whole])
        else:
            parts = divided(self.script, tensors, count)
            of_parts = [(_shapes(self._matrices(part, {})), bind_sizes(self.script.inputs, part)) for part in parts]
            # A call with open sizes may only be long for what is compiled in it: then the whole is the faster one.
            undivided = _starts_threads(self.script) + (self._parts is None)
            first = self._candidates([whole], most=undivided) if undivided else []
            candidates = [*first, *self._candidates(of_parts)]
        self._specialised = _Specialised(shapes, Autotuner(candidates))
        return self._specialised.tuner.next()

    def _candidates(
        self, parts: Sequence[tuple[Shapes, Sizes]], most: int | None = None
    ) -> list[Sequence[PreparedScript]]:
        """The forms of the script for known sizes, each as a script for each of the parts; the first ``most``."""
        options = {"is_open": self._is_open, "is_long": self._is_long(), "is_part": len(parts) > 1}
        engine = Engine(self._computed, self._session.values, self._recompiled)
        known: dict[str, SpecialisedScript] = {}
        scripts: list[SpecialisedScript] = []  # for each part
        for shapes, sizes in parts:
            key = repr((shapes, sizes))
            if key in known:  # the constants are the same, but parts run together
                scripts.append(replace(known[key], constants=self._session.copies(known[key].constants)))
            else:
                known[key] = specialised_script(self._general, shapes, sizes, engine, **options)
                scripts.append(known[key])
        candidates: list[Sequence[PreparedScript]] = []
        for form in range(min(len(script.programs) for script in scripts))[:most]:
            try:
                candidates.append([self._prepare_specialised(script, form, sizes, is_part=len(parts) > 1)
                                   for script, (_, sizes) in zip(scripts, parts)])
            except ScriptCompileError:  # the engine takes sizes for others than they are
                if not candidates:
                    raise
        return candidates

    def _prepare_specialised(
        self, script: SpecialisedScript, form: int, sizes: Sizes, *, is_part: bool
    ) -> PreparedScript:
        """Compile a form of a script for known sizes, with its weights and constants."""
        program = script.programs[form]
        if program is None:
            return self._prepared
        shapes = result_shapes(self.script, sizes)
        inputs = {f"constant{place}": matrix for place, matrix in enumerate(script.constants.values())}
        prepared = self._prepare(program, [*inputs], shapes, single_threaded=is_part)
        prepared.pin_as(self._prepared, {name: name for name in weight_variables(self.script)})  # raises if closed
        prepared.pin_results(inputs)
        return prepared

    def _computed(self, script: Script) -> Mapping[str, ResultMatrix]:
        """The constants of a script, computed of the weights that are pinned already."""
        assert script.constants is not None
        program, read, written = constants_program(script)
        once = self._session.prepare(program.text, [*read], written)
        once.pin_as(self._prepared, {name: f"weight{place}" for name, place in read.items()})
        names = dict(zip(written, script.constants.names))
        return {names[variable]: matrix for variable, matrix in once.computed_matrices().items()}

    def _recompiled(self, program: Program, constants: Sequence[str]) -> frozenset[str]:
        """The functions of a main program that the engine recompiles at each of their calls."""
        prepared = self._prepare(program, constants)
        try:
            return prepared.recompiled_functions()
        finally:
            prepared.close()

    def _wanted_parts(self) -> int:
        """As asked for; else one for each processor, if calls are long."""
        if self._parts is not None:
            return self._parts
        return self._session.processors if self._is_long() else 1

    def _is_long(self) -> bool:
        """Whether calls have taken long; they are taken to do so where the number of parts is given."""
        return self._parts is not None or LONG_CALL <= self._shortest < math.inf

    def _prepare(
        self,
        program: Program,
        additional: Sequence[str],
        shapes: Mapping[str, tuple[int, int]] | None = None,
        *,
        single_threaded: bool = False,
    ) -> PreparedScript:
        """Compile a program, which has these additional inputs; shapes: rows and columns of outputs that are known."""
        inputs, outputs = self._names
        inputs = [*inputs, *additional]
        with with_failed_node(self.script, program, {}):
            return self._session.prepare(
                program.text, inputs, outputs, shapes=shapes, native_blas=program.native_blas,
                single_threaded=single_threaded,
            )

    def close(self) -> None:
        """Release the prepared script; idempotent."""
        self._specialised = None
        self._prepared.close()

    def __enter__(self) -> ScoringFunction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_emptied(port: Port, tensors: Mapping[str, Tensor]) -> bool:
    """Whether an input has no elements along an axis of open size: known ones are converted for."""
    if port.name not in tensors:
        return False
    return any(size == 0 and not isinstance(declared, int)
               for declared, size in zip(port.dims, tensors[port.name].shape))


def _shapes(matrices: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Rows and columns of those that are no frames."""
    return {name: matrix.shape for name, matrix in matrices.items() if matrix.dtype != object}


def _starts_threads(script: Script) -> bool:
    return any(isinstance(node, tree.For) and node.parallel for node in tree.walk(*script.callable_functions.values()))
