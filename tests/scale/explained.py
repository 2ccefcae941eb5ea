"""Where the engine says that it computes a function: read from what ``-explain runtime -stats`` prints."""

from __future__ import annotations

import re

_LINE = re.compile(r"^(-{2,})(FUNCTION|MAIN PROGRAM|PARFOR|FOR|WHILE|IF|GENERIC|CP FCall) ?(.*)$", re.MULTILINE)
AT_SITE = ".defaultNS::score_at_site"


def places_of_calls(printed: str, function: str) -> set[str]:
    """Of each call: site, task (of Spark), process (a parallel loop in it) or driver, by the names of a plan."""
    found, around = set[str](), list[tuple[int, str, str]]()
    for dashes, kind, rest in _LINE.findall(printed):
        around = [block for block in around if block[0] < len(dashes)]
        if kind != "CP FCall":
            around.append((len(dashes), kind, rest))
        elif rest.split()[1] == function:
            kinds = {name for _, name, _ in around}
            if any(name == "FUNCTION" and AT_SITE in more for _, name, more in around):
                found.add("site")
            elif "PARFOR" in kinds:
                found.add("task" if "ParFor-ESP" in printed else "process")
            else:
                found.add("driver")
    if "site" in found and "CP paramserv" not in printed:
        found = {"driver"}
    return found
