"""Random graphs on texts: joined, split, cased, matched, looked up, compared, chosen and moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnx_systemds.model.protos import element_type, numpy_dtype
from tests.fuzz.drawing import Array, Draw
from tests.fuzz.judging import ModelCase

_SIMPLE = ("a", "b", "ab", "dd", "", "a b", "b,a", "A", "Bb", "1", "-2", "3.5")
_ODD = ("é", "É", "ß", "日本", "😀", " a ", "a  b", "q\"uo'te", "back\\slash", "NaN", "nan", "TRUE", "null", "$1", "1e3",
        "°", "·", "a,b,,c", "İ", "#", "/", "%s", "0", "-0", "inf", "Infinity", "x" * 40, "->", "{}", "e\u0301")
_PATTERNS = ("a", "[a-c]*", "d+", ".*", "(a|dd)?", "[^a]", "(?i)AB?", r"\w+", r"\d*", "^a$", "", "a{1,2}", r"\s*\S*", ".", r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class _Value:
    name: str
    dtype: str
    dims: tuple[int | None, ...]

    @property
    def is_fixed(self) -> bool:
        return None not in self.dims


@dataclass
class _Texts:
    draw: Draw
    words: tuple[str, ...]
    values: list[_Value] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)

    def name(self, stem: str) -> str:
        return f"{stem}{len(self.nodes)}_{len(self.initializers)}_{len(self.values)}"

    def add(self, op_type: str, inputs: Sequence[str], dtype: str, dims: Sequence[int | None], domain: str = "",
            **attributes: Any) -> _Value:
        value = _Value(self.name("v"), dtype, tuple(dims))
        self.nodes.append(helper.make_node(op_type, list(inputs), [value.name], domain=domain, **attributes))
        self.values.append(value)
        return value

    def several(self, op_type: str, inputs: Sequence[str], kinds: Sequence[tuple[str, Sequence[int | None]]], **attributes: Any) -> None:
        found = [_Value(self.name(f"w{place}_"), dtype, tuple(dims)) for place, (dtype, dims) in enumerate(kinds)]
        self.nodes.append(helper.make_node(op_type, list(inputs), [value.name for value in found], **attributes))
        self.values += found

    def constant(self, array: Any, dtype: str = "int64") -> str:
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(np.asarray(array, numpy_dtype(dtype)), name))
        return name

    def texts(self, dims: Sequence[int]) -> Array:
        return np.array([self.draw.one(*self.words) for _ in range(int(np.prod(dims)))], object).reshape(dims)

    def pick(self, wanted: Callable[[_Value], bool]) -> _Value | None:
        found = [value for value in self.values if wanted(value)]
        if not found:
            return None
        return self.draw.one(*found[-3:]) if self.draw.chance(0.6) else self.draw.one(*found)

    def text(self, *, fixed: bool = False, rank: int = 0) -> _Value | None:
        return self.pick(lambda value: value.dtype == "string" and len(value.dims) >= rank and (value.is_fixed or not fixed))


# --- steps -----------------------------------------------------------------------------------------------------------


def _concat(t: _Texts) -> None:
    x = t.text(fixed=True)
    if x is None:
        return
    others = [each for each in t.values if each.dtype == "string" and each.dims in (x.dims, x.dims[1:], ())]
    other = t.draw.one(*others).name if t.draw.chance(0.6) else t.constant(t.texts(x.dims[t.draw.int(0, len(x.dims)) :]), "string")
    t.add("StringConcat", [x.name, other] if t.draw.flag() else [other, x.name], "string", x.dims)


def _split(t: _Texts) -> None:
    x = t.text()
    if x is None:
        return
    attributes: dict[str, Any] = {"delimiter": t.draw.one(" ", ",", "", "a", "ab", ".", "|")} if t.draw.chance(0.7) else {}
    if t.draw.chance(0.4):
        attributes["maxsplit"] = t.draw.int(0, 2)
    t.several("StringSplit", [x.name], [("string", (*x.dims, None)), ("int64", x.dims)], **attributes)


def _normalize(t: _Texts) -> None:
    x = t.pick(lambda value: value.dtype == "string" and (len(value.dims) == 1 or (len(value.dims) == 2 and value.dims[0] == 1)))
    if x is None:
        return
    attributes: dict[str, Any] = {"case_change_action": t.draw.one("NONE", "LOWER", "UPPER"), "is_case_sensitive": t.draw.flag()}
    stops = t.draw.chance(0.5)
    if stops:
        attributes["stopwords"] = [t.draw.one(*t.words) for _ in range(t.draw.int(1, 3))]
    t.add("StringNormalizer", [x.name], "string", (*x.dims[:-1], None) if stops else x.dims, **attributes)


def _match(t: _Texts) -> None:
    x = t.text()
    if x is not None:
        t.add("RegexFullMatch", [x.name], "bool", x.dims, pattern=t.draw.one(*_PATTERNS))


def _equal(t: _Texts) -> None:
    x = t.text(fixed=True)
    if x is None:
        return
    others = [each for each in t.values if each.dtype == "string" and each.dims in (x.dims, ())]
    other = t.draw.one(*others).name if t.draw.chance(0.5) else t.constant(t.texts(t.draw.one(x.dims, (), (1,) * len(x.dims))), "string")
    t.add("Equal", [x.name, other], "bool", x.dims)


def _where(t: _Texts) -> None:
    x = t.text(fixed=True)
    if x is None:
        return
    flags = [each for each in t.values if each.dtype == "bool" and each.dims in (x.dims, ())]
    condition = t.draw.one(*flags).name if flags else t.constant(t.draw.rng.random(x.dims) < 0.5, "bool")
    others = [each for each in t.values if each.dtype == "string" and each.dims in (x.dims, ())]
    other = t.draw.one(*others).name if t.draw.chance(0.6) else t.constant(t.texts(t.draw.one(x.dims, ())), "string")
    t.add("Where", [condition, *([x.name, other] if t.draw.flag() else [other, x.name])], "string", x.dims)


def _encode(t: _Texts) -> None:
    x = t.text()
    if x is None:
        return
    keys = sorted({t.draw.one(*t.words) for _ in range(4)} or {"a"})
    way = t.draw.one("int64s", "floats", "strings")
    values: list[Any] = [{"int64s": place + 5, "floats": place / 2, "strings": t.draw.one(*t.words)}[way] for place in range(len(keys))]
    attributes: dict[str, Any] = {"keys_strings": keys, f"values_{way}": values}
    if t.draw.chance(0.5):
        attributes["default_" + {"int64s": "int64", "floats": "float", "strings": "string"}[way]] = {
            "int64s": 77, "floats": 0.25, "strings": "other"}[way]
    dtype = {"int64s": "int64", "floats": "float", "strings": "string"}[way]
    t.add("LabelEncoder", [x.name], dtype, x.dims, "ai.onnx.ml", **attributes)


def _decode(t: _Texts) -> None:
    x = t.pick(lambda value: value.dtype == "int64")
    if x is not None:
        keys = [0, 1, 2, 5, 77]
        t.add("LabelEncoder", [x.name], "string", x.dims, "ai.onnx.ml", keys_int64s=keys, values_strings=[t.draw.one(*t.words) for _ in keys],
              default_string=t.draw.one(*t.words))


def _cast(t: _Texts) -> None:
    x = t.pick(lambda value: value.dtype == "int64")
    if x is not None:
        t.add("Cast", [x.name], "string", x.dims, to=element_type("string"))


def _unique(t: _Texts) -> None:
    x = t.text()
    if x is None:
        return
    axis = {"axis": t.draw.int(-len(x.dims), len(x.dims) - 1)} if x.dims and t.draw.chance(0.4) else {}
    dims: tuple[int | None, ...] = (None,)
    if axis:
        dims = tuple(None if place == axis["axis"] % len(x.dims) else size for place, size in enumerate(x.dims))
    t.several("Unique", [x.name], [("string", dims), *[("int64", (None,))] * 3], sorted=t.draw.flag(), **axis)


def _move(t: _Texts) -> None:
    draw = t.draw
    way = draw.one("Transpose", "Reshape", "Concat", "Slice", "Gather", "Unsqueeze", "Expand", "Tile", "Flatten", "Squeeze", "Compress",
                   "GatherElements", "ScatterElements", "GatherND", "ScatterND", "Split", "Pad", "ReverseSequence", "Size")
    x = t.text(fixed=True) if way not in ("Transpose", "Concat", "Unsqueeze", "Size") else t.text()
    if x is None:
        return
    rank, dims = len(x.dims), tuple(size or 0 for size in x.dims)
    axis = draw.int(0, rank - 1) if rank else 0
    if rank == 0 and way not in ("Unsqueeze", "Reshape", "Size"):
        return
    if way == "Transpose":
        perm = [int(place) for place in draw.rng.permutation(rank)]
        t.add(way, [x.name], "string", [x.dims[place] for place in perm], perm=perm)
    elif way == "Reshape":
        t.add(way, [x.name, t.constant([-1])], "string", [int(np.prod(dims))])
    elif way == "Concat":
        others = [each for each in t.values if each.dtype == "string" and each.dims == x.dims]
        other = draw.one(*others)
        size = x.dims[axis]
        t.add(way, [x.name, other.name, x.name], "string", [*x.dims[:axis], size * 3 if size else None, *x.dims[axis + 1 :]], axis=axis)
    elif way == "Slice":
        t.add(way, [x.name, t.constant([-1]), t.constant([-99]), t.constant([axis]), t.constant([-1])], "string", dims)
    elif way == "Gather" and dims[axis]:
        found = draw.rng.integers(-dims[axis], dims[axis], draw.one((), (2,), (2, 2)))
        t.add(way, [x.name, t.constant(found)], "string", [*dims[:axis], *found.shape, *dims[axis + 1 :]], axis=axis)
    elif way == "GatherElements" and dims[axis]:
        t.add(way, [x.name, t.constant(draw.rng.integers(0, dims[axis], dims))], "string", dims, axis=axis)
    elif way == "ScatterElements" and dims[axis]:
        count = [*dims[:axis], 1, *dims[axis + 1 :]]
        t.add(way, [x.name, t.constant(draw.rng.integers(0, dims[axis], count)), t.constant(t.texts(count), "string")], "string", dims, axis=axis)
    elif way == "GatherND" and dims[0]:
        t.add(way, [x.name, t.constant(draw.rng.integers(0, dims[0], (2, 1)))], "string", [2, *dims[1:]])
    elif way == "ScatterND" and dims[0]:
        t.add(way, [x.name, t.constant(draw.rng.integers(0, dims[0], (1, 1))), t.constant(t.texts((1, *dims[1:])), "string")], "string", dims)
    elif way == "Unsqueeze":
        place = draw.int(0, rank)
        t.add(way, [x.name, t.constant([place])], "string", [*x.dims[:place], 1, *x.dims[place:]])
    elif way == "Squeeze" and 1 in dims:
        place = dims.index(1)
        t.add(way, [x.name, t.constant([place])], "string", [*dims[:place], *dims[place + 1 :]])
    elif way == "Expand":
        t.add(way, [x.name, t.constant([2, *dims])], "string", [2, *dims])
    elif way == "Tile":
        t.add(way, [x.name, t.constant([1 + (place == axis) for place in range(rank)])], "string",
              [size * (1 + (place == axis)) for place, size in enumerate(dims)])
    elif way == "Flatten":
        t.add(way, [x.name], "string", [int(np.prod(dims[:axis])), int(np.prod(dims[axis:]))], axis=axis)
    elif way == "Compress":
        t.add(way, [x.name, t.constant(draw.rng.random(dims[axis]) < 0.6, "bool")], "string",
              [*dims[:axis], None, *dims[axis + 1 :]], axis=axis)
    elif way == "Split" and dims[axis] > 1:
        t.several(way, [x.name, t.constant([1, dims[axis] - 1])], [("string", (*dims[:axis], size, *dims[axis + 1 :]))
                  for size in (1, dims[axis] - 1)], axis=axis)
    elif way == "Size":
        t.add(way, [x.name], "int64", ())


def _if(t: _Texts) -> None:
    x, y = t.text(), None
    if x is not None:
        y = t.pick(lambda value: value.dtype == "string" and value.dims == x.dims)
    condition = t.pick(lambda value: value.dtype == "bool" and value.dims == ())
    if x is None or y is None:
        return
    flag = condition.name if condition else t.constant(t.draw.chance(0.5), "bool")
    graphs = []
    for value in (x, y):
        inner = _Texts(t.draw, t.words)
        inner.values = list(t.values)
        if value.is_fixed and t.draw.chance(0.7):
            word = helper.make_node("Constant", [], ["word"], value=numpy_helper.from_array(np.array(t.draw.one(*t.words), object)))
            nodes = [word, helper.make_node("StringConcat", [value.name, "word"], ["chosen"])]
        else:
            nodes = [helper.make_node("Identity", [value.name], ["chosen"])]
        graphs.append(helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("chosen", 8, value.dims)]))
    t.add("If", [flag], "string", x.dims, then_branch=graphs[0], else_branch=graphs[1])


_STEPS = (_concat, _concat, _split, _split, _normalize, _normalize, _match, _equal, _equal, _where, _where, _encode, _encode, _decode,
          _cast, _unique, *[_move] * 6, _if)


# --- cases -----------------------------------------------------------------------------------------------------------


def case(seed: int) -> ModelCase:
    """The graph of a seed, and its calls."""
    draw = Draw(seed)
    words = tuple(draw.one(*_SIMPLE, *(_ODD if draw.chance(0.4) else ())) for _ in range(draw.int(3, 7)))
    t = _Texts(draw, words)
    dims = tuple(draw.int(1, 3) for _ in range(draw.int(0, 3)))
    given = [_Value(f"x{place}", "string", draw.one(dims, dims, dims[1:])) for place in range(draw.int(1, 2))]
    t.values += given
    for _ in range(draw.int(1, 6)):
        draw.one(*_STEPS)(t)
    own = t.values[len(given) :] or [t.add("Identity", [given[0].name], "string", given[0].dims)]
    outputs = list({value.name: value for value in (own[-1], *(draw.one(*own) for _ in range(draw.int(0, 3))))}.values())
    opening = draw.chance(0.4)
    infos = [helper.make_tensor_value_info(value.name, 8, [f"{value.name}_{axis}" if opening and draw.chance(0.5) else size
                                                           for axis, size in enumerate(value.dims)]) for value in given]
    outs = [helper.make_tensor_value_info(value.name, element_type(value.dtype), [None] * len(value.dims)) for value in outputs]
    graph = helper.make_graph(t.nodes, "texts", infos, outs, t.initializers)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    calls = []
    for place in range(2):
        if place and draw.chance(0.3):
            t.words = tuple(draw.one(*_SIMPLE, *_ODD) for _ in range(4))
        calls.append({value.name: t.texts([size or 0 for size in value.dims]) for value in given})
    return ModelCase(seed, model, (calls[0], calls[1], calls[0]), draw.one(1, 20))
