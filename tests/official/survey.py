"""Run official cases and print which pass: ``python -m tests.official.survey [name part ...] [--write]``.

With ``--write`` the manifests ``passing.txt`` and ``missing.txt`` are written anew (run without name parts).
"""

from __future__ import annotations

import collections
import sys
import time
from pathlib import Path

from tests.official.cases import official_cases, run_case

MANIFEST = Path(__file__).with_name("passing.txt")
MISSING = Path(__file__).with_name("missing.txt")


def read_manifest() -> set[str]:
    """Names of the cases that pass."""
    return set(MANIFEST.read_text(encoding="utf-8").split())


def read_missing() -> dict[str, str]:
    """The reason of each case that does not pass, by name."""
    lines = MISSING.read_text(encoding="utf-8").splitlines()
    return {name: reason.strip() for name, _, reason in (line.partition(": ") for line in lines)}


def main(arguments: list[str]) -> None:
    """Print each failing case with its reason, and the counts by kind."""
    parts = [argument for argument in arguments if not argument.startswith("--")]
    passed: list[str] = []
    missing: dict[str, str] = {}
    reasons: collections.Counter[str] = collections.Counter()
    start = time.perf_counter()
    for name, case in official_cases().items():
        if parts and not any(part in name for part in parts):
            continue
        try:
            run_case(case)
            passed.append(name)
        except Exception as error:  # the survey goes on, whatever happens
            lines = [line for line in str(error).splitlines() if line.strip()]
            text = " | ".join(lines[:4])[:220]
            reasons[type(error).__name__] += 1
            missing[name] = f"{type(error).__name__}: {text}"
            print(f"{name}: {missing[name]}", flush=True)
    counts = collections.Counter(name.split("/")[0] for name in passed)
    print(f"passed {dict(counts)} failed {dict(reasons)} in {time.perf_counter() - start:.0f} s")
    if "--write" in arguments and not parts:
        MANIFEST.write_text("".join(f"{name}\n" for name in sorted(passed)), encoding="utf-8")
        MISSING.write_text("".join(f"{name}: {missing[name]}\n" for name in sorted(missing)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
