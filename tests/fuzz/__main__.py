"""``python -m tests.fuzz --minutes 60 --seed 7``: random cases until the time is over, findings as test rows."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from onnx_systemds.engine import Session
from tests.fuzz import found_cases, shrinking
from tests.fuzz.command_line import check_plainly
from tests.fuzz.finding import Finding
from tests.fuzz.judging import TALLY, ModelCase
from tests.fuzz.sources import SOURCES, Source

_BATCH = 20
_PLAIN = 4
"""Of each so many batches every so many cases are run by the command line, too."""
_MOST_ALIKE = 3
"""Findings with the same mark that are written; further ones are counted."""


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer; 1 where it found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first case; the next ones count on from it")
    parser.add_argument("--kind", choices=sorted(SOURCES), action="append", help="all of them where it is not given")
    parser.add_argument("--count", type=int, default=10**9, help="cases of each kind at the most")
    parser.add_argument("--found", type=Path, default=found_cases.FOLDER, help="folder for the findings")
    options = parser.parse_args(arguments)
    end = time.monotonic() + 60 * options.minutes
    kinds = options.kind or sorted(SOURCES)
    alike: Counter[str] = Counter()
    done: Counter[str] = Counter()
    sessions = Sessions()
    while time.monotonic() < end and min(done[kind] for kind in kinds) < options.count:
        for kind in kinds:
            count = min(_BATCH, options.count - done[kind])
            cases = list(SOURCES[kind].cases(options.seed + done[kind], count))
            for case in cases:
                if time.monotonic() > end:
                    break
                done[kind] += 1
                finding = SOURCES[kind].check(case, sessions.current())
                if finding is not None:
                    _report(kind, case, finding, alike, options.found, sessions)
            plain = [case for case in cases if isinstance(case, ModelCase)][::_PLAIN]
            for finding in check_plainly(plain) if done[kind] % (_BATCH * _PLAIN) == 0 else ():
                alike[f"{kind} by the command line: {finding.kind}"] += 1
                print(f"{kind} {finding.seed}: {finding.kind}: {finding.detail[:300]}\n{finding.text}", flush=True)
    print(f"cases: {dict(done)}")
    print(f"of models: {TALLY.counts}")
    print(f"findings: {dict(alike)}")
    return 1 if alike else 0


class Sessions:
    """One session at a time; another where a case has ended it."""

    def __init__(self) -> None:
        self._session: Session | None = None

    def current(self) -> Session:
        """The session."""
        if self._session is None or self._session.closed:
            self._session = Session(max_heap="2g")
        return self._session


def _report(
    kind: str, case: object, finding: Finding, alike: Counter[str], folder: Path, sessions: Sessions
) -> None:
    """Print a finding; make it small and write it, unless there are enough like it."""
    source: Source = SOURCES[kind]
    mark = f"{kind}: {source.mark(case)} {shrinking.signature(finding)}"
    alike[mark] += 1
    print(f"{kind} {finding.seed}: {finding.kind}: {source.mark(case)}: {finding.detail[:300]}", flush=True)
    if alike[mark] > _MOST_ALIKE:
        return
    if isinstance(case, ModelCase) and source.is_small:
        counts = dict(TALLY.counts)
        case, finding = shrinking.shrunk(case, finding, lambda other: source.check(other, sessions.current()))
        TALLY.counts = counts
    print(f"  {source.write(kind, case, finding, folder)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
