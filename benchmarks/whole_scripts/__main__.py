"""SystemDS's own test scripts, whole: ``python -m benchmarks.whole_scripts --systemds CHECKOUT [--write]``.

Each script runs on the engine, with the arguments and inputs of the Java test that runs it, is exported by the command
line for these, and its model by onnxruntime gives what the engine wrote, within the tolerances of ``verify``, or this
says so. CHECKOUT is a source tree of SystemDS 3.4.0::

    git clone --depth 1 --branch 3.4.0-rc2 https://github.com/apache/systemds

Ends with exit code 1 where a result is wrong or was not read, a script hangs, or a traceback is shown.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from benchmarks.report import write_section
from benchmarks.whole_scripts.models import Found
from benchmarks.whole_scripts.outputs import Parting
from benchmarks.whole_scripts.trials import opened, run, scripts_of
from benchmarks.whole_scripts.verdicts import (
    AGREE,
    DOCUMENTED,
    DOUBTFUL,
    FAILING,
    GOOD,
    RIGHTLY,
    ROUNDING,
    Verdict,
    readings,
    verdict,
)

HEADER = """## Whole scripts of SystemDS

Written by `python -m benchmarks.whole_scripts --systemds CHECKOUT --half {half} --write`, in some ten minutes on two
cores; CHECKOUT is a source tree: `git clone --depth 1 --branch 3.4.0-rc2 https://github.com/apache/systemds`.
SystemDS's own test scripts run on the engine with the arguments and inputs of the Java tests that run them (large
sizes made smaller), are exported by the command line for these in float64, and onnxruntime gives what the engine
wrote, within the tolerances of `verify`. Whatever parts or is refused was read: `benchmarks/whole_scripts/read.json`
has the reasons, and how far outputs may part; anything else is counted as not read. *rounding*: the engine's own
results part as far where its inputs are 1e-14 other (`--shaken`). *documented*:
[differences](export_differences.md) has what the model gives, and what the engine, whose fault or choice it is.
*doubtful*: refused, and need not be. Scripts are not judged where no inputs are found that the engine takes, and
where it stops or runs for a minute: many test that it refuses a script."""
_HALVES = {"1": "a half of all, drawn once", "2": "the other half of all", "all": "all"}
NO_RESULT = "no result that could be an output"
_EXPLAINED = (RIGHTLY, ROUNDING, DOCUMENTED, DOUBTFUL)
Verdicts = Mapping[str, tuple[Found, Verdict]]


def loaded(path: Path) -> list[Found]:
    """Results as ``--save`` wrote them."""
    lines = map(json.loads, path.read_text().splitlines())
    return [Found(**{**each, "partings": [Parting(**parting) for parting in each["partings"]]}) for each in lines]


def counts(verdicts: Verdicts) -> dict[str, list[str]]:
    """The scripts of each kind of verdict."""
    found: dict[str, list[str]] = defaultdict(list)
    for script, (_, meaning) in sorted(verdicts.items()):
        found[meaning.kind].append(script)
    return dict(sorted(found.items()))


def share(kinds: Mapping[str, Sequence[str]]) -> tuple[int, int]:
    """How many scripts agree or are rightly refused, and how many are judged."""
    judged = sum(len(scripts) for kind, scripts in kinds.items() if not kind.startswith("not judged"))
    return sum(len(kinds.get(kind, ())) for kind in GOOD), judged


def summary(kinds: Mapping[str, Sequence[str]]) -> str:
    """The share in words."""
    good, judged = share(kinds)
    documented, doubtful = (len(kinds.get(kind, ())) for kind in (DOCUMENTED, DOUBTFUL))
    return (f"{good} of {judged} judged scripts agree or are rightly refused: {100 * good / max(judged, 1):.1f} %. "
            f"Beside them {documented} differ as documented, {doubtful} are refused though they need not be.")


def report(verdicts: Verdicts) -> str:
    """What is printed at the end: counts, the share, and the scripts that were not agreed on, with reasons."""
    kinds = counts(verdicts)
    lines = [f"{len(scripts):5d} {kind}" for kind, scripts in kinds.items()]
    for kind in (DOCUMENTED, DOUBTFUL, *FAILING):
        for script in kinds.get(kind, ()):
            lines.append(f"{kind}: {script}: {verdicts[script][1].reason[:1000]}")
    return "\n".join([*lines, summary(kinds)])


def section(verdicts: Verdicts, half: str) -> str:
    """The section of docs/benchmarks.md."""
    kinds = counts(verdicts)
    rows = []
    for kind, scripts in kinds.items():
        rows.append(f"| {kind} | | {len(scripts)} |")
        if kind in _EXPLAINED:
            reasons = Counter(verdicts[script][1].reason for script in scripts)
            rows += [f"| | {reason} | {count} |" for reason, count in reasons.most_common()]
    iterative = sum(found.iterative and meaning.kind == AGREE for found, meaning in verdicts.values())
    good, judged = share(kinds)
    silent = sum(NO_RESULT in found.message and meaning.kind == RIGHTLY for found, meaning in verdicts.values())
    writing = f"Of those that write something {good - silent} of {judged - silent} do."
    found = f"{len(verdicts)} scripts, {_HALVES[half]}. {summary(kinds)} {writing}"
    lines = textwrap.wrap(f"{found} {iterative} agree by `--iterative`." if iterative else found, 118)
    return "\n".join([HEADER.format(half=half), "", *lines, "", "| scripts | reason | |", "|---|---|--:|", *rows])


def main() -> None:
    """Print a line for each script that does not agree, and the share."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--systemds", type=Path, metavar="CHECKOUT", required=True, help="a source tree of SystemDS")
    arguments.add_argument("--half", choices=_HALVES, default="1", help="which scripts [default: 1]")
    arguments.add_argument("--processes", type=int, default=2, help="each with a JVM [default: 2]")
    arguments.add_argument("--names", nargs="+", default=[], help="these scripts alone, by parts of their names")
    arguments.add_argument("--shaken", action="store_true",
                           help="how the engine's own results part where inputs are a share of 1e-14 other")
    arguments.add_argument("--save", type=Path, metavar="FILE", help="write results as lines of JSON")
    arguments.add_argument("--saved", type=Path, metavar="FILE", help="judge these results, run nothing")
    arguments.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")
    given = arguments.parse_args()
    read = readings()
    scripts = [script for script in scripts_of(given.systemds, "all" if given.names else given.half)
               if not given.names or any(name in script for name in given.names)]
    if given.shaken:
        with tempfile.TemporaryDirectory(prefix="whole-scripts-") as folder:
            trials = opened(given.systemds.absolute(), read.given, Path(folder))
            for script in scripts:
                print(script, *map(str, trials.shaken(script)), sep="\n  ", flush=True)
            trials.engine.close()
        return
    verdicts: dict[str, tuple[Found, Verdict]] = {}
    results = loaded(given.saved) if given.saved else run(given.systemds, scripts, read.given, given.processes)
    with given.save.open("w") if given.save else nullcontext() as saved:
        for found in results:
            meaning = verdict(found, read)
            verdicts[found.script] = found, meaning
            if given.names or meaning.kind in FAILING:
                print(f"{found.script}: {meaning.kind}: {meaning.reason[:1000]}", flush=True)
            if saved:
                print(json.dumps(asdict(found)), file=saved, flush=True)
    print(report(verdicts))
    if given.write:
        write_section("whole_scripts", section(verdicts, given.half))
    sys.exit(any(kind in FAILING for kind in counts(verdicts)))


if __name__ == "__main__":
    main()
