"""Convert a model, run it as often as its case says, and hold the results against those of others.

Judges are onnxruntime, with its optimiser and without, and ONNX's reference implementation, both in the model's own
types and in double. A result that agrees with one of them is right. Where none agrees it is a fault if onnxruntime and the
reference agree with each other, or if only one of them can run the model; where they differ from each other, nothing
follows. Known faults of the judges are in `judge_faults`, what differs and is no fault
in `tolerances`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx.inliner
from onnx import ModelProto, printer
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.engine import EngineClosed, EngineError, EngineTimeout, Session
from onnx_systemds.errors import InternalError, InvalidModel, MultipleErrors, TranspileError
from onnx_systemds.importing.script import Script
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying.comparing import compare_tensors, spread
from onnx_systemds.verifying.judging import judge, run
from tests.double_precision import in_double, in_double_type
from tests.fuzz import contrib_reference
from tests.fuzz.finding import Finding
from tests.fuzz.judge_faults import is_untrusted
from tests.fuzz.nudging import within_rounding
from tests.fuzz.tolerances import tolerated

SECONDS = 20.0
"""How long a case may take."""

JUDGES = ("onnxruntime", "reference")

_REFUSALS = ("2^53", "which FP64 does not hold", "the script takes", " columns, not ", " rows, not ",
             "the sizes of the parts add up to", "the size of a part is negative", "are unknown: it has no elements",
             "do not follow from their matrices")
_OTHER_SHAPE = re.compile(r" is \d+ x \d+, not \d+ x \d+")
"""What is in the messages of the checks that scripts and `ScoringFunction` make."""

Feeds = Mapping[str, Any]


@dataclass(frozen=True)
class ModelCase:
    """A model and the inputs of the calls that one prepared script of it gets, in their order.

    specialise_after: as of `ScoringFunction`; calls from there on with the same sizes are of scripts made for these.
    is_exact: whether each element of the results is a number of its own, so that no large one hides a small one.
    functions, style, dims: as of `import_model`. parts: as of `ScoringFunction`; with them all of its forms have their turns.
    """

    seed: int
    model: ModelProto
    calls: tuple[Feeds, ...]
    specialise_after: int = 20
    is_exact: bool = False
    functions: str | None = None
    style: str = "plain"
    dims: Mapping[str, int] = field(default_factory=dict)
    parts: int | None = None

    def converted(self) -> Script:
        """The script of the model. Raises TranspileError."""
        return import_model(self.model, functions=self.functions, style=self.style, dims=self.dims)

    def __str__(self) -> str:
        lines = [printer.to_text(self.model)]
        lines += [f"call {place}: " + ", ".join(f"{name} = {_shown(value)}" for name, value in feeds.items())
                  for place, feeds in enumerate(self.calls)]
        return "\n".join(lines)


@dataclass
class Tally:
    """What became of the cases: right, wrong, refused, not judged, by reason."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: str) -> None:
        """Count one more."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1


TALLY = Tally()


class Verdict:
    """What the judges say of one call; each is asked when needed, once."""

    def __init__(self, model: ModelProto, feeds: Feeds) -> None:
        self.model = onnx.inliner.inline_local_functions(model) if model.functions else model
        self.feeds = feeds
        self._asked: dict[str, dict[str, Any] | None] = {}
        self.reasons: dict[str, str] = {}

    def of(self, name: str) -> dict[str, Any] | None:
        """The outputs of a judge, None where it refuses, or is known to be wrong here."""
        if name not in self._asked:
            try:
                outputs = None if is_untrusted(name, self.model, self.feeds) else self._ask(name)
            except Exception as error:  # judges fail in every way
                self.reasons[name] = f"{type(error).__name__}: {str(error)[:300]}"
                outputs = None
            self._asked[name] = outputs
        return self._asked[name]

    def _ask(self, name: str) -> dict[str, Any]:
        with np.errstate(all="ignore"):
            if name == "onnxruntime":
                return run(self.model, self.feeds, optimized=False)
            if name == "optimised":
                return run(self.model, self.feeds)
            if name == "exact":
                return judge(self.model, self.feeds)
            if name == "double":
                return dict(in_double(self.model, self.feeds, contrib_reference.OPERATORS))
            if name == "wide":
                return run(*in_double_type(self.model, self.feeds), optimized=False)
            outputs = ReferenceEvaluator(self.model, new_ops=contrib_reference.OPERATORS).run(None, dict(self.feeds))
        return {info.name: output for info, output in zip(self.model.graph.output, outputs)}

    def runs(self) -> bool:
        """Whether one of the judges can run the call."""
        return any(self.of(name) is not None for name in JUDGES)


def check_model(
    case: ModelCase, session: Session, judged: ModelProto | None = None, judges: Sequence[str] = JUDGES
) -> Finding | None:
    """Convert and run a case; its finding, None where nothing is wrong with it.

    judged: the model as judges are to take it. judges: those without whom a call is not judged, if they run the first one.
    """
    start = time.perf_counter()
    try:
        script = case.converted()
    except TranspileError as error:
        return _refusal(case, error, judged or case.model)
    except Exception as error:
        return finding(case, "error", f"conversion: {type(error).__name__}: {error}")
    if time.perf_counter() - start > SECONDS:
        return finding(case, "slow", "conversion")
    verdicts = [Verdict(judged or case.model, feeds) for feeds in case.calls]
    if not verdicts[0].runs():
        TALLY.add("no judge")
        return None
    asked = [name for name in judges if verdicts[0].of(name) is not None]
    possible = [verdict for verdict in verdicts if all(verdict.of(name) is not None for name in asked)]
    refused = [verdict for verdict in verdicts if len(asked) == 2 and not verdict.runs() and len(verdict.reasons) == 2]
    return _run(case, script, possible, session) or _accepted(case, script, _different(refused)[:2], session)


def _refusal(case: ModelCase, error: TranspileError, judged: ModelProto) -> Finding | None:
    if is_internal(error):
        return finding(case, "error", f"conversion: {error}")
    reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
    verdict = Verdict(judged, case.calls[0])
    is_valid = all(verdict.of(name) is not None for name in ("onnxruntime", "reference"))
    if is_valid and any(isinstance(reason, InvalidModel) for reason in reasons):
        return finding(case, "error", f"refused as invalid: {error}")
    TALLY.add("refused" if verdict.runs() else "refused, as the judges do")
    return None


def _run(case: ModelCase, script: Script, verdicts: Sequence[Verdict], session: Session) -> Finding | None:
    """Run the calls that a judge can run."""
    place, start = -1, time.perf_counter()
    try:
        with ScoringFunction(script, session, specialise_after=case.specialise_after, parts=case.parts) as function:
            for place, verdict in enumerate(verdicts):
                try:
                    results = function(verdict.feeds, timeout=SECONDS)
                except (EngineError, TranspileError) as error:
                    if is_refusal(error):
                        TALLY.add("refused at run time")
                        continue
                    raise
                problem = wrong_output(case, results, verdict)
                if problem:
                    return finding(case, "wrong", f"call {place}: {problem}")
    except (EngineClosed, EngineTimeout) as error:
        return finding(case, "slow", f"call {place}: {error}")
    except Exception as error:
        return finding(case, "error", f"call {place}: {type(error).__name__}: {str(error)[:2000]}")
    if time.perf_counter() - start > SECONDS:
        return finding(case, "slow", "calls")
    TALLY.add("right")
    return None


def _accepted(case: ModelCase, script: Script, verdicts: Sequence[Verdict], session: Session) -> Finding | None:
    """Run calls that both judges refuse, though not others of the model: numbers that come of them are wrong."""
    for verdict in verdicts:
        try:
            with ScoringFunction(script, session) as function:
                results = function(verdict.feeds, timeout=SECONDS)
        except Exception:  # in whatever words
            TALLY.add("refused at run time, as the judges do")
            continue
        is_empty = any(array.size == 0 for array in _arrays(verdict.feeds.values()))
        if any(array.size and (is_empty or array.any()) for array in _arrays(results.values())):
            return finding(case, "wrong", f"numbers of what the judges refuse: {verdict.reasons}"[:1500])
    return None


def _arrays(values: Iterable[Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Tensors, and those in lists and maps."""
    for value in values:
        if isinstance(value, (list, Mapping)):
            yield from _arrays(value.values() if isinstance(value, Mapping) else value)
        elif value is not None:
            yield np.asarray(value)


def _different(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Without those of the same inputs."""
    return list({id(next(iter(verdict.feeds.values()), None)): verdict for verdict in verdicts}.values())


def is_refusal(error: Exception) -> bool:
    """Whether a call was refused in words: numbers that FP64 has not, or a check that the script itself makes.

    An `InvalidInput` names the input without elements and what helps.
    """
    return isinstance(error, InvalidInput) or any(words in str(error) for words in _REFUSALS) \
        or _OTHER_SHAPE.search(str(error)) is not None


def wrong_output(case: ModelCase, results: Mapping[str, Any], verdict: Verdict) -> str:
    """What is wrong with the results of a call, "" when nothing is."""
    undecided = False
    for name in results:
        problems: dict[str, str] = {}
        for who in ("onnxruntime", "reference", "optimised", "exact", "double", "wide"):
            said = verdict.of(who)
            if said is None:
                continue
            problem = different(results[name], said[name], is_exact=case.is_exact, is_wide=who in ("double", "wide"))
            if not problem:
                problems = {}
                break
            problems[who] = problem
        runtime, reference = verdict.of("onnxruntime"), verdict.of("reference")
        judged = next((said for said in (runtime, reference) if said is not None), None)
        if not problems or judged is None or any(
            tolerated(verdict.model, verdict.feeds, results[name], said[name])
            for who in problems if (said := verdict.of(who)) is not None
        ):
            continue
        if runtime is not None and reference is not None and different(
            runtime[name], reference[name], is_exact=case.is_exact
        ):
            undecided = True
            continue
        if within_rounding(verdict.model, verdict.feeds, name, results[name], judged[name]):
            undecided = True
            continue
        shown = "; ".join(f"{who}: {problem}" for who, problem in problems.items())
        return f"output {name}: {shown}"
    if undecided:
        TALLY.add("judges differ")
    return ""


def different(actual: Any, expected: Any, *, is_exact: bool = False, is_wide: bool = False) -> str:
    """In what two results differ, "" when they agree: tensors, sequences, optionals and maps."""
    if actual is None or expected is None:
        return "" if actual is None and expected is None else f"{actual!r}, expected {expected!r}"
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return f"{actual!r}, expected {expected!r}"
        return next(filter(None, (different(one, other) for one, other in zip(actual, expected))), "")
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping) or set(actual) != set(expected):
            return f"{actual!r}, expected {expected!r}"
        return next(filter(None, (different(np.asarray(actual[key], np.float32), np.asarray(value, np.float32))
                                  for key, value in expected.items())), "")
    one, other = np.asarray(actual), np.asarray(expected)
    if is_wide and other.dtype == np.float64:
        with np.errstate(over="ignore"):
            other = other.astype(one.dtype)
    is_float = other.dtype in (np.float32, np.float64)
    atol = 1e-37 if is_exact and is_float else 1e-5 * spread(other) if is_float else None
    rtol = 1e-4 if is_exact and is_float else None
    found = compare_tensors("", one, other, rtol, atol)
    return "" if found.passed else str(found)


def is_internal(error: TranspileError) -> bool:
    """Whether an error, or one of its reasons, is a fault of ours."""
    reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
    return any(isinstance(reason, InternalError) for reason in reasons)


def finding(case: ModelCase, kind: Any, detail: str) -> Finding:
    """A finding of a case, counted."""
    TALLY.add(kind)
    return Finding(kind, case.seed, str(case), detail)


def _shown(value: Any) -> str:
    with np.printoptions(threshold=400, precision=9):
        return repr(value)
