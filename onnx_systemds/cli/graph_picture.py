"""A typed graph, as the conversion reads it: as text, as a picture (SVG), or as a page with both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.cli.layered_layout import layered
from onnx_systemds.dml.templates import page
from onnx_systemds.errors import TranspileError, escaped, shown_path
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value, dims_words
from onnx_systemds.model.ir import Node, operator_name

SUFFIXES = (".txt", ".svg", ".html")
MOST_NODES = 5000
_LETTER, _PADDING, _HEIGHT = 6.6, 8.0, 34.0
_LONGEST = 36
_MOST_ELEMENTS = 6


@dataclass(frozen=True, slots=True)
class Box:
    """What a node, input or output looks like. kind: node, input or output; words: what a pointer on it reads."""

    kind: str
    title: str
    detail: str
    words: str
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = _HEIGHT


def graph_file(typed: TypedGraph, path: Path, title: str) -> str:
    """The content of a file .txt, .svg or .html. Raises TranspileError for other names, and for too many nodes."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(f"*{ending}" for ending in SUFFIXES)
        raise TranspileError(f"a graph is written to a file called {known}", path)
    text = "".join(f"{line}\n" for line in graph_lines(typed))
    if suffix == ".txt":
        return text
    title = shown_path(title)
    count = len(_shown(typed))
    if count > MOST_NODES:
        raise TranspileError(f"a picture of {count:,} nodes would be illegible; use a .txt file", path)
    picture = page("graph.svg.jinja").render(title=title, **_drawn(typed))
    if suffix == ".svg":
        return picture
    return page("graph.html.jinja").render(title=title, picture=picture, text=text, nodes=count)


def graph_lines(typed: TypedGraph, indent: str = "") -> Iterator[str]:
    """Inputs, a node a line with the types of its results, outputs; sub-graphs below their nodes."""
    for name in typed.inputs:
        yield f"{indent}input {escaped(name)}: {type_words(typed.values[name])}"
    for position, node in _shown(typed):
        results = ", ".join(f"{escaped(name)}: {type_words(typed.values[name])}" for name in node.outputs if name)
        yield f"{indent}{results} = {_call(node)}"
        for key, body in typed.bodies.items():
            if key[0] == position:
                yield f"{indent}  {key[1]}:"
                yield from graph_lines(body, indent + "    ")
    for name in typed.outputs:
        yield f"{indent}output {escaped(name)}: {type_words(typed.values[name])}"


def type_words(value: Value) -> str:
    """Element type and dims of a value, or the kind of one that is no tensor."""
    if value.type is not None:
        return type(value.type).__name__.removesuffix("Type").lower()
    return f"{value.dtype or 'unknown'} {dims_words(value.dims)}"


def _shown(typed: TypedGraph) -> list[tuple[int, Node]]:
    """The nodes that are computed when the model runs, with their positions: neither constants nor known sizes."""
    names, shown = set(typed.outputs), []
    for position in reversed(range(len(typed.nodes))):
        node = typed.nodes[position]
        if any(name in names and (name in typed.outputs or not typed.values[name].is_known) for name in node.outputs):
            shown.append((position, node))
            names.update(_read(typed, position))
    return shown[::-1]


def _call(node: Node) -> str:
    operator = operator_name(*node.identity)
    attributes = ", ".join(f"{escaped(name)}={_content(content)}" for name, content in sorted(node.attributes.items()))
    shown = f" <{attributes}>" if attributes else ""
    named = f"  # {escaped(node.name)}" if node.name else ""
    return f"{escaped(operator)}{shown}({', '.join(map(escaped, node.inputs))}){named}"


def _content(content: Any) -> str:
    if isinstance(content, np.ndarray):
        return f"array {list(content.shape)}"
    if isinstance(content, tuple):
        shown = ", ".join(map(_content, content[:_MOST_ELEMENTS]))
        return f"[{shown}{', ...' if len(content) > _MOST_ELEMENTS else ''}]"
    if isinstance(content, str):
        return f'"{escaped(content, 40)}"'
    return f"{content:g}" if isinstance(content, int | float) else type(content).__name__.lower()


def _drawn(typed: TypedGraph) -> dict[str, Any]:
    """Boxes and the paths of lines, for the template."""
    boxes, edges = _boxes(typed)
    widths = [max(len(box.title) * 1.12, len(box.detail)) * _LETTER + 2 * _PADDING for box in boxes]
    places = layered(widths, _HEIGHT, list(edges))
    drawn = [replace(box, x=round(x, 1), y=round(y, 1), width=round(width, 1))
             for box, width, (x, y) in zip(boxes, widths, places.corners)]
    lines = [(_path(points), edges[edge]) for edge, points in places.lines.items()]
    return {"boxes": drawn, "lines": lines, "width": round(places.width, 1), "height": round(places.height, 1)}


def _boxes(typed: TypedGraph) -> tuple[list[Box], dict[tuple[int, int], str]]:
    """Inputs, nodes and outputs, and between them the values that pass, in words."""
    boxes: list[Box] = []
    source: dict[str, int] = {}
    edges: dict[tuple[int, int], str] = {}
    for name in typed.inputs:
        source[name] = len(boxes)
        boxes.append(_box("input", name, type_words(typed.values[name]), name))
    for position, node in _shown(typed):
        results = [name for name in node.outputs if name]
        detail = type_words(typed.values[results[0]]) if results else ""
        words = "\n".join([_call(node), *(f"{escaped(name)}: {type_words(typed.values[name])}" for name in results)])
        for name in _read(typed, position):
            if name in source:
                edges[source[name], len(boxes)] = f"{escaped(name)}: {type_words(typed.values[name])}"
        source |= dict.fromkeys(results, len(boxes))
        boxes.append(_box("node", node.op_type, detail, words))
    for name in typed.outputs:
        if name in source:
            edges[source[name], len(boxes)] = escaped(name)
        boxes.append(_box("output", name, type_words(typed.values[name]), name))
    return boxes, edges


def _read(typed: TypedGraph, position: int) -> Sequence[str]:
    """The values that a node reads, those that its sub-graphs take from around them included."""
    read = list(typed.nodes[position].inputs)
    for body in typed.bodies_at(position):
        read += [name for inner in range(len(body.nodes)) for name in _read(body, inner) if name not in body.own]
        read += [name for name in body.outputs if name not in body.own]
    return list(dict.fromkeys(filter(None, read)))


def _box(kind: str, title: str, detail: str, words: str) -> Box:
    return Box(kind, escaped(title, _LONGEST), escaped(detail, _LONGEST), words)


def _path(points: Sequence[tuple[float, float]]) -> str:
    """A curve through the points: straight along boxes, bent between layers."""
    x, y = points[0]
    words = [f"M{x:.1f} {y:.1f}"]
    for number, (right, down) in enumerate(points[1:]):
        middle = (y + down) / 2
        words.append(f"C{x:.1f} {middle:.1f} {right:.1f} {middle:.1f} {right:.1f} {down:.1f}" if number % 2 == 0
                     else f"L{right:.1f} {down:.1f}")
        x, y = right, down
    return " ".join(words)
