"""Adds a main function that takes codes instead of strings, for scoring in places without frames.

The numbers are those that the model's own texts have (docs/decisions/0007); all others have the number after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.java_text import java_string_literal
from onnx_systemds.dml.scopes import assigned, read_first
from onnx_systemds.errors import NodePlace, escaped, quoted
from onnx_systemds.importing.body import parsed
from onnx_systemds.importing.origins import Origin
from onnx_systemds.importing.parameters import MATRIX, TEXT_FRAME
from onnx_systemds.importing.script import Script
from onnx_systemds.operators.api.reserved_names import TEXTS, WEIGHTS

MOST_TEXTS = 1000
"""Of the model: each cell is looked for in all of them."""
_OTHERS = "tasks and sites have numbers for the texts of the model, and one for all others"


@dataclass(frozen=True, slots=True)
class CodedNames:
    """The names of the additional functions.

    codes: gives the numbers of a frame of texts. scored: the main function for numbers. texts: gives the model's texts.
    """

    codes: str
    scored: str
    texts: str


def coded_names(script: Script) -> CodedNames:
    """The names of the additional functions of a script."""
    return CodedNames(*(f"{script.function}_{ending}" for ending in ("codes", "of_codes", "texts")))


def has_texts(script: Script) -> bool:
    """Whether an input or output is text."""
    return any(port.dtype == "string" for port in (*script.inputs, *script.outputs))


def obstacle_to_codes(script: Script) -> str:
    """Why strings cannot be encoded before the main function is called; "" if they can, or if there are none."""
    if not has_texts(script):
        return ""
    if len(script.texts) > MOST_TEXTS and any(port.dtype == "string" for port in script.inputs):
        return f"tasks and sites look texts up in {MOST_TEXTS} texts or fewer, and the model has {len(script.texts)}"
    node = "" if script.batching is None else script.batching.text
    left = None if node else next(_needing_texts(_divided(script)), None)
    if left is not None and isinstance(left.origin, Origin):
        node = _shown(left.origin.place)
    return f"{_OTHERS}: {node}" if node else _OTHERS if left is not None else ""


def with_coded_texts(script: Script) -> Script:
    """The script with the functions of `coded_names` before its main function, if strings can be encoded before."""
    names = coded_names(script)
    is_there = any(function.name == names.scored for function in script.functions)
    if is_there or not has_texts(script) or obstacle_to_codes(script):
        return script
    scored = _divided(script).scored
    added = [_encoding(names.codes, script.texts)] if any(port.dtype == "string" for port in script.inputs) else []
    if any(port.dtype == "string" for port in script.outputs):
        added.append(_dictionary(script, names.texts))
    first = [function for function in script.functions if function.name != script.function]
    return replace(script, functions=(*first, *added, replace(scored, name=names.scored), script.main))


@dataclass(frozen=True, slots=True)
class _Divided:
    """The main function for codes, and the names of the frames in the original."""

    scored: tree.Function
    frames: frozenset[str]


def _divided(script: Script) -> _Divided:
    """The main function without the statements that encode and decode strings."""
    main = script.main
    texts = {each.name for each in (*main.parameters, *main.results) if each.type == TEXT_FRAME}
    frames, body = {TEXTS}, list[tree.Statement]()
    for statement in main.body:
        match statement:
            case tree.Assign(target=tree.Name(name=name)) if name == TEXTS:
                continue
            case tree.MultiAssign(
                targets=(codes, tree.Name(name=extended)),
                call=tree.Call("text_codes", (tree.CallArgument(value=tree.Name(name=name) as given), _)),
            ) if name in texts:
                frames.add(extended)
                body.append(tree.Assign(codes, given, origin=statement.origin))
            case tree.Assign(target=tree.Name(name=name), value=tree.Call("codes_text", (held, _))) if name in texts:
                body.append(replace(statement, value=held.value))
            case _:
                body.append(statement)
    parameters, results = (
        tuple(replace(each, type=MATRIX) if each.type == TEXT_FRAME else each for each in side)
        for side in (main.parameters, main.results)
    )
    scored = replace(main, parameters=parameters, results=results, body=tuple(body), comments=_COMMENTS)
    return _Divided(scored, frozenset(frames))


_COMMENTS = tree.Comments(before=("# The function below for the numbers of texts.",))


def _needing_texts(divided: _Divided) -> Iterator[tree.Statement]:
    """The remaining statements that read or make frames."""
    for statement in divided.scored.body:
        if not divided.frames.isdisjoint((*read_first((statement,)), *assigned((statement,)))):
            yield statement


def _encoding(name: str, texts: Sequence[str]) -> tree.Function:
    """The function that encodes the strings of a frame, which may be federated."""
    listed, after = ", ".join(map(java_string_literal, texts)), len(texts) + 1
    java = f"(java.util.Arrays.asList(new String[] {{{listed}}}).indexOf(x) + {after}) % {after} + 1"
    body = parsed([f"codes = as.matrix(map(F, 'x -> {java}'))",
                   "codes = replace(target=codes, pattern=NaN, replacement=1)"])
    comment = f"# The numbers of texts: those of the model from 1 on, {after} for all others. Null is an empty text."
    return tree.Function(name, (tree.Parameter("F", TEXT_FRAME),), (tree.Parameter("codes", MATRIX),), body,
                         comments=tree.Comments(before=(comment,)))


def _dictionary(script: Script, name: str) -> tree.Function:
    """The function that returns the strings of the model in the order of their codes."""
    main = script.main
    (given,) = (each for each in main.body if isinstance(each, tree.Assign) and each.target == tree.Name(TEXTS))
    parameters = tuple(each for each in main.parameters if each.name == WEIGHTS)
    comment = tree.Comments(before=("# The texts of the model in the order of their numbers.",))
    return tree.Function(name, parameters, (tree.Parameter(TEXTS, TEXT_FRAME),), (given,), comments=comment)


def _shown(place: NodePlace) -> str:
    return f"node {quoted(place.node)} ({escaped(place.op)})"
