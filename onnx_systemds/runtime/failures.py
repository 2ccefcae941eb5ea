"""Attributes errors of the engine to the node of the model whose statement failed.

The engine reports the lines of the failed block, which may have statements of many nodes, and nothing for `stop`. The
program then runs again, traced: each statement is a block of its own, and `stop` becomes an instruction that fails
(docs/decisions/0027).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.printer import print_script, print_statement
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import assigned, ends_run
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.engine import EngineError, ScriptCompileError, ScriptRuntimeError
from onnx_systemds.engine.errors import FailedNode
from onnx_systemds.importing.origins import (
    Origin,
    PlacedStatement,
    SharedOrigin,
    placed_statements,
    read_back,
    split_joined,
    statements_between,
)
from onnx_systemds.importing.passes.block_cuts import BLOCK_CUT, cut, with_never
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.driver import Program

_LONGEST_STATEMENT = 200
_MOST_OTHERS = 4
_FAILING = "print(as.scalar(matrix(0, rows=1 + as.integer(time() > 0), cols=1)))"
_Failed = tuple[PlacedStatement, ...]
"""The statements of nodes of which one has failed."""


@contextmanager
def with_failed_node(
    script: Script, program: Program, sizes: Mapping[str, int], rerun: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Add the failed node to errors of the engine.

    sizes: known sizes of symbols. rerun: runs another text of the program in the same way.
    """
    try:
        yield
    except (ScriptCompileError, ScriptRuntimeError) as error:
        if error.node is None:
            error.node = failed_node(error, script, program, sizes, rerun)
        raise


def failed_node(
    error: EngineError,
    script: Script,
    program: Program,
    sizes: Mapping[str, int],
    rerun: Callable[[str], object] | None,
) -> FailedNode | None:
    """The node that caused an error of the engine; None if there is none, or if it cannot be determined."""
    tracked = read_back(program.text, program.functions, program.statements)
    failed = _failed(error, placed_statements(tracked))
    is_settled = len({(place.line, place.origin) for place in failed}) == 1
    if not is_settled and isinstance(error, ScriptRuntimeError) and rerun is not None:
        failed = _failed_when_traced(tracked, rerun, is_stop=not error.blocks) or failed
    return _described(failed, script, sizes) if failed else None


def _failed_when_traced(tracked: tree.Script, rerun: Callable[[str], object], *, is_stop: bool) -> _Failed:
    traced = _traced(tracked, is_stop=is_stop)
    text = print_script(traced)
    functions = tuple(traced.functions.values())
    try:
        rerun(text)
    except EngineError as error:
        return _failed(error, placed_statements(read_back(text, functions, traced.statements)))
    return ()


def _failed(error: EngineError, places: Sequence[PlacedStatement]) -> _Failed:
    """The statements of the innermost running block that belongs to a node.

    Those of a function with the statements of several nodes are of what the call around them stands for.
    """
    blocks: Sequence[tuple[int, int]] = ()
    if isinstance(error, ScriptRuntimeError):
        blocks = error.blocks
    elif isinstance(error, ScriptCompileError) and error.line is not None:
        blocks = [(error.line, error.line)]
    running = [statements_between(places, first, last) for first, last in blocks]
    for depth in reversed(range(len(running))):
        around = running[:depth][::-1]
        found = tuple(each for place in running[depth] for each in _of_nodes(place, around))
        if found:
            return found
    return ()


def _of_nodes(place: PlacedStatement, around: Iterable[Sequence[PlacedStatement]]) -> Iterator[PlacedStatement]:
    """A statement for each node that may have failed. around: the running blocks, innermost first."""
    for part in (*place.others, place.origin if place.shared is None else place.shared):
        if isinstance(part, Origin):
            yield place if part is place.origin else replace(place, origin=part)
        elif isinstance(part, SharedOrigin):
            numbers = (_calls(block, part.function) for block in around)
            for number in next(filter(None, numbers), range(len(part.calls))):
                if (origin := part.of(number)) is not None:
                    yield replace(place, origin=origin)


def _calls(block: Iterable[PlacedStatement], function: str) -> list[int]:
    """The numbers of the calls of a function in a block."""
    calls = (place.calls for place in block)
    return [call.number for call in calls if call is not None and call.function == function]


def _described(failed: _Failed, script: Script, sizes: Mapping[str, int]) -> FailedNode:
    first = failed[0]
    assert first.origin is not None
    others = [place for place in dict.fromkeys(str(place.origin.place) for place in failed if place.origin is not None)
              if place != str(first.origin.place)]
    saved = script.text
    line = _line_in(saved, script, first)
    shown = print_statement(first.statement) if line is None else saved.splitlines()[line - 1]
    text = shown.strip().partition("\n")[0]
    return FailedNode(
        first.origin.place,
        tuple(taken.text(sizes) for taken in first.origin.takes),
        text if len(text) <= _LONGEST_STATEMENT else f"{text[:_LONGEST_STATEMENT]}...",
        line,
        tuple(others[:_MOST_OTHERS]),
    )


def _line_in(saved: str, script: Script, failed: PlacedStatement) -> int | None:
    """The line of a statement in the saved script; the running form may load weights differently."""
    places = placed_statements(read_back(saved, script.functions))
    own = [place for place in places if failed.origin in place.origins]
    targets = assigned((failed.statement,))
    same = [place for place in own if place.statement == failed.statement]
    found = [place for place in [*same, *own] if assigned((place.statement,)) == targets]
    found += [place for place in own if targets in (assigned((it,)) for it in split_joined((place.statement,)))]
    return found[0].line if found else None


def _traced(script: tree.Script, *, is_stop: bool) -> tree.Script:
    """The script with a cut between any two statements."""
    if is_stop:
        failing = parse_snippet(_FAILING)[0]
        script = rewritten(script, lambda node: replace(failing, origin=node.origin) if ends_run(node) else node)
    sources = tuple(item for item in script.items if isinstance(item, tree.Source))  # these stand at the top
    main = with_never(_apart(item for item in script.statements if not isinstance(item, tree.Source)))
    functions = (replace(function, body=with_never(_apart(function.body))) for function in script.functions.values())
    return replace(script, items=(*sources, *functions, *main))


def _apart(block: Iterable[tree.Statement]) -> list[tree.Statement]:
    found: list[tree.Statement] = []
    for statement in split_joined(block):
        found += [cut(BLOCK_CUT), statement] if found else [statement]
    return found
