"""The one place where a script is read as trees, and where what passes made of it is written again.

What the passes left alone keeps its text: functions as a whole, and of the main function the lines of statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml import templates
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block, print_statement
from onnx_systemds.importing.passes.block_cuts import cut_blocks, with_never
from onnx_systemds.importing.passes.specialisation.trees import called_functions, is_load
from onnx_systemds.importing.passes.specialisation.work import Work
from onnx_systemds.importing.script import Constants, Script
from onnx_systemds.operators.api.scope import WEIGHTS


@dataclass(frozen=True)
class Source:
    """The functions of a script as trees; ``functions`` are all but the main one."""

    main: tree.Function
    functions: Mapping[str, tree.Function]


def read(script: Script) -> Source:
    """The trees of a script's functions."""
    functions = {name: function for text in (*script.library, *script.functions)
                 for name, function in _functions(text).items()}  # fmt: skip
    return Source(functions.pop(script.function), functions)


def written(script: Script, source: Source, work: Work) -> Script:
    """The script that passes made."""
    main = work.main
    texts = {name: text for text in (*script.library, *script.functions) for name in _functions(text)}
    texts = {name: text for name, text in texts.items() if source.functions.get(name) is work.functions.get(name)}
    texts |= {name: templates.library_text(name) for name in work.functions if name not in source.functions}
    own = [name for text in script.functions for name in _functions(text) if name != script.function]
    functions = tree.Script(tuple(work.functions.values()))

    def printed(root: tree.Script) -> dict[str, str]:
        """The functions that are called."""
        called = [function.name for function in called_functions(functions, [root])]
        return {name: texts.get(name) or print_statement(work.functions[name]).rstrip("\n") for name in called}

    kept, constants = printed(tree.Script((main,))), None
    if work.hoisted is not None:
        statements = work.hoisted.statements
        if not any(parameter.name == WEIGHTS for parameter in main.parameters):
            of_list = tree.Parameter(WEIGHTS, tree.DataType("list", "unknown"))
            main = replace(main, parameters=(*main.parameters, of_list))
        lines = tuple(print_block(with_never(cut_blocks(statements))).splitlines())
        bounds = tuple(work.hoisted.variables.get(name, name) for name in work.bounds)
        library = tuple(text for name, text in sorted(printed(tree.Script(statements)).items()) if name not in kept)
        constants = Constants(work.hoisted.names, lines, library, work.hoisted.matrices, bounds)
    return replace(
        script,
        library=tuple(kept[name] for name in sorted(kept) if name not in own),
        functions=(*(kept[name] for name in own if name in kept), _main_text(script, source.main, main)),
        constants=constants,
    )


@lru_cache(maxsize=1024)
def _functions(text: str) -> dict[str, tree.Function]:
    return parse_script(text).functions


def _main_text(script: Script, before: tree.Function, after: tree.Function) -> str:
    """The text of the main function: its lines, but for statements that are others now."""
    text = next(text for text in script.functions if script.function in _functions(text))
    lines = text.split("\n")
    opening = lines.index("{")
    head = lines[: opening + 1]
    if before.parameters != after.parameters:
        place = next(place for place, line in enumerate(head) if line.startswith(f"{after.name} = function("))
        separator = ", " if before.parameters else ""
        head[place] = f"{head[place][:-1]}{separator}list[unknown] {WEIGHTS})"
    segments = _segments(before.body, lines, opening)
    printed: list[str] = []
    place = 0
    while place < len(after.body):
        segment = segments.get(id(after.body[place]))
        count = 0 if segment is None else len(segment.statements)
        if segment is not None and all(
            one is other for one, other in zip(after.body[place : place + count], segment.statements, strict=False)
        ) and place + count <= len(after.body):  # fmt: skip
            printed += segment.lines
            place += count
        else:
            pair = after.body[place : place + 2]
            shown = "; ".join(map(_text, pair)) if is_load(pair) else _text(pair[0])
            printed += [f"  {line}" for line in shown.split("\n")]
            place += 2 if is_load(pair) else 1
    return "\n".join([*head, *printed, "}"])


def _text(statement: tree.Statement) -> str:
    """The lines of a statement."""
    return print_statement(statement).rstrip("\n")


@dataclass
class _Segment:
    """Lines of a text with one statement, or several on one line; comments in front of them are theirs."""

    statements: list[tree.Statement]
    lines: Sequence[str] = ()


def _segments(body: tree.Block, lines: Sequence[str], opening: int) -> dict[int, _Segment]:
    """The segments by the identity of their first statements."""
    starts: dict[int, _Segment] = {}
    for statement in body:
        starts.setdefault(statement.position.line - 1, _Segment([])).statements.append(statement)
    places = [*starts, len(lines) - 1]  # the last line closes the function
    first = opening + 1
    for start, end in pairwise(places):
        while end > start + 1 and lines[end - 1].lstrip().startswith("#"):
            end -= 1
        starts[start].lines = lines[first:end]
        first = end
    return {id(segment.statements[0]): segment for segment in starts.values()}
