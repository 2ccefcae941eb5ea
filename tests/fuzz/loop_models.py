"""Random loops: several carried values that are kept, exchanged, summed up, grown or cut, and what is collected of them.

Each seed gives one model with a Loop or a Scan, in which a value may also go through an If, a further Loop or a function
of the model, and the inputs of some runs of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fuzz.judging import ModelCase

Runs = list[dict[str, np.ndarray[Any, Any]]]

# The dims of a kind of value; a string is an axis that may grow, "N" an input's open axis.
KINDS: Mapping[str, tuple[Any, ...]] = {
    "scalar": (), "single": (1,), "vector": (3,), "row": (1, 3), "matrix": (2, 3), "cube": (2, 2, 2), "open": ("N", 3),
    "long": ("grows",), "tall": ("grows", 3), "wide": (2, "grows"),
}
GROWING = ("long", "tall", "wide")


@dataclass
class LoopModel:
    """A model, the inputs of its runs, and what it is, in words."""

    model: onnx.ModelProto
    runs: Runs
    text: str


@dataclass
class _Body:
    """Nodes of one graph; what is there to use, by kind."""

    maker: _Maker
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [self.maker.fresh(op_type.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, dtype: Any) -> str:
        found: str = self.add("Constant", value=onnx.numpy_helper.from_array(np.asarray(value, dtype)))
        return found


def case(seed: int, specialise_after: int = 20) -> ModelCase:
    """The model of a seed, and its runs."""
    found = loop_model(seed)
    return ModelCase(seed, found.model, tuple(found.runs), specialise_after)


def loop_model(seed: int) -> LoopModel:
    """The model of a seed."""
    return _Maker(seed).made()


class _Maker:
    """The choices of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.seed = seed
        self.names = 0
        self.functions: list[onnx.FunctionProto] = []
        self.words: list[str] = []

    def fresh(self, hint: str) -> str:
        self.names += 1
        return f"{hint}{self.names}"

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    # --- the whole -------------------------------------------------------------------------------------------

    def made(self) -> LoopModel:
        is_scan = self.chance(0.25)
        pool = [kind for kind in KINDS if not (is_scan and kind in GROWING)]
        some = [self.one_of(*pool) for _ in range(2)]
        kinds = [self.one_of(*some) for _ in range(int(self.random.integers(1, 5)))]
        starts = [f"x{number}" for number in range(len(kinds))]
        main = _Body(self)
        inputs = [_info(name, TensorProto.FLOAT, _declared(kind, f"D{i}")) for i, (name, kind) in
                  enumerate(zip(starts, kinds))]
        inputs += [_info("n", TensorProto.INT64, ()), _info("go", TensorProto.BOOL, ())]
        given = [(name, kind) for name, kind in zip(starts, kinds)]
        known = [place for place, kind in enumerate(kinds) if kind != "open"]
        if known and self.chance(0.3):  # starts that the compiler knows
            place = self.one_of(*known)
            given[place] = (main.constant(np.full(_shape(kinds[place], 0, 1), 0.5), np.float32), kinds[place])
        results, collected = self.scan(main, given) if is_scan else self.loop(main, given, 0)
        outputs = [self._after(main, name, kind) for name, kind in results]
        outputs += [self._after(main, name, None) for name, _ in collected]
        if self.chance(0.5):
            outputs += [(name, TensorProto.FLOAT, None) for name, _ in results]
        infos = [onnx.ValueInfoProto(name=name) for name, *_ in outputs]
        for info, (_, dtype, rank) in zip(infos, outputs):
            info.type.tensor_type.elem_type = dtype
            del rank
        xs = [_info("xs", TensorProto.FLOAT, ("T", 3))] if is_scan else []
        graph = helper.make_graph(main.nodes, f"loops{self.seed}", [*inputs, *xs], infos)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8, functions=self.functions)
        return LoopModel(model, [self._run(kinds, is_scan) for _ in range(3)], " ".join(self.words))

    def _run(self, kinds: Sequence[str], is_scan: bool) -> dict[str, np.ndarray[Any, Any]]:
        rows = int(self.random.integers(1, 4))
        size = int(self.random.integers(1, 4))
        feeds: dict[str, np.ndarray[Any, Any]] = {
            f"x{i}": self.random.integers(-3, 4, _shape(kind, size, rows)).astype(np.float32)
            for i, kind in enumerate(kinds)
        }
        feeds["n"] = np.array(self.random.integers(0, 5), np.int64)
        feeds["go"] = np.array(self.chance(0.8))
        if is_scan:
            feeds["xs"] = self.random.integers(-3, 4, (int(self.random.integers(1, 5)), 3)).astype(np.float32)
        return feeds

    def _after(self, main: _Body, name: str, kind: str | None) -> tuple[str, int, None]:
        """What an output is made of a loop's result: the engine's compiler must not take sizes for known."""
        ways = ["Abs", "sum", "Size", "joined", "Identity"]
        if kind is not None:  # else the dims of no slices, of which onnxruntime takes open ones for 0
            ways.append("Shape")
        if kind in ("long", "vector", "single"):
            ways += ["product", "mean"]
        way = self.one_of(*ways)
        if way in ("Shape", "Size"):
            return main.add(way, name), TensorProto.INT64, None
        if way == "sum":
            return main.add("ReduceSum", name, keepdims=0), TensorProto.FLOAT, None
        if way == "mean":
            total = main.add("ReduceSum", name, keepdims=0)
            count = main.add("Cast", main.add("Size", name), to=TensorProto.FLOAT)
            return main.add("Div", total, main.add("Max", count, main.constant(1, np.float32))), TensorProto.FLOAT, None
        if way == "product":
            return main.add("MatMul", name, name), TensorProto.FLOAT, None
        if way == "joined" and kind != "scalar":
            return main.add("Concat", name, main.add("Neg", name), axis=0), TensorProto.FLOAT, None
        return main.add("Abs" if way == "joined" else way, name), TensorProto.FLOAT, None

    # --- loops -----------------------------------------------------------------------------------------------

    def loop(
        self, outer: _Body, given: Sequence[tuple[str, str]], depth: int
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """A Loop over carried values: those after it, and what is collected."""
        body = _Body(self)
        count, before = self.fresh("i"), self.fresh("c")
        states = [(self.fresh("s"), kind) for _, kind in given]
        number = body.add("Cast", count, to=TensorProto.FLOAT)
        after = self._next_values(body, states, [*given, (number, "scalar")], depth)
        rows = self._collected(body, states, after, number)
        trips = self.one_of("n", outer.constant(int(self.random.integers(0, 5)), np.int64))
        go = self.one_of("", "go", outer.constant(True, np.bool_))
        keeps = before if self.chance(0.5) else body.add("Less", number, body.constant(self.one_of(0.5, 2.5), np.float32))
        if trips == "n" and self.chance(0.2) and keeps != before:
            trips = ""
        if not go and not trips:
            go = "go"
        self.words.append(f"Loop({trips or '-'}, {go or '-'}, {'kept' if keeps == before else 'computed'})")
        following = self._named(body, [(keeps, "condition"), *after, *rows])
        dtypes = [TensorProto.BOOL, *[TensorProto.FLOAT] * (len(following) - 1)]
        infos = [_info(name, dtype, None if kind == "condition" else _inner(self, kind))
                 for (name, kind), dtype in zip(following, dtypes)]
        infos[0] = _info(following[0][0], TensorProto.BOOL, ())
        graph = helper.make_graph(
            body.nodes, self.fresh("body"),
            [_info(count, TensorProto.INT64, ()), _info(before, TensorProto.BOOL, ()),
             *(_info(name, TensorProto.FLOAT, _inner(self, kind)) for name, kind in states)],
            infos,
        )
        results = outer.add("Loop", trips, go, *(name for name, _ in given), outputs=len(following) - 1, body=graph)
        results = [results] if isinstance(results, str) else results
        named = list(zip(results, (kind for _, kind in following[1:])))
        return named[: len(given)], named[len(given) :]

    def scan(
        self, outer: _Body, given: Sequence[tuple[str, str]]
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """A Scan over the rows of ``xs``."""
        body = _Body(self)
        states = [(self.fresh("s"), kind) for _, kind in given]
        piece = self.fresh("p")
        after = self._next_values(body, states, [*given, (piece, "vector")], 0)
        number = body.add("ReduceSum", piece, keepdims=0)
        following = self._named(body, [*after, *self._collected(body, states, after, number)])
        self.words.append("Scan")
        graph = helper.make_graph(
            body.nodes, self.fresh("body"),
            [*(_info(name, TensorProto.FLOAT, _inner(self, kind)) for name, kind in states),
             _info(piece, TensorProto.FLOAT, (3,))],
            [_info(name, TensorProto.FLOAT, _inner(self, kind)) for name, kind in following],
        )
        results = outer.add("Scan", *(name for name, _ in given), "xs", outputs=len(following), body=graph,
                            num_scan_inputs=1)
        results = [results] if isinstance(results, str) else results
        named = list(zip(results, (kind for _, kind in following)))
        return named[: len(given)], named[len(given) :]

    def _named(self, body: _Body, values: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Results of a graph: names that stand once, made in it."""
        return [(body.add("Identity", name), kind) for name, kind in values]

    def _collected(
        self, body: _Body, states: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]], number: str
    ) -> list[tuple[str, str]]:
        choices = [pair for pair in (*states, *after, (number, "scalar")) if pair[1] not in GROWING]
        choices += [(body.add("ReduceSum", name, keepdims=0), "scalar") for name, kind in after if kind in GROWING]
        return [self.one_of(*choices) for _ in range(int(self.random.integers(0, 3)))]

    # --- the values of the next iteration --------------------------------------------------------------------

    def _next_values(
        self, body: _Body, states: Sequence[tuple[str, str]], captured: Sequence[tuple[str, str]], depth: int
    ) -> list[tuple[str, str]]:
        """A new value for each state."""
        if depth == 0 and self.chance(0.15):
            self.words.append("nested")
            found, _ = self.loop(body, states, depth + 1)
            return found
        return [(self._next_value(body, state, kind, [*states, *captured], depth), kind) for state, kind in states]

    def _next_value(
        self, body: _Body, state: str, kind: str, values: Sequence[tuple[str, str]], depth: int
    ) -> str:
        same = [name for name, other in values if other == kind]
        other = self.one_of(*same)
        ways = ["keep", "other", "other", "sum", "half", "twice turned", "if", "function"]
        if kind in GROWING:
            ways = ["keep", "other", "grow", "grow", "grow", "cut", "half", "if", "filled"]
        way = self.one_of(*ways)
        self.words.append(f"{kind}:{way}")
        axis = KINDS[kind].index("grows") if kind in GROWING else 0
        if way == "keep":
            return state
        if way == "other" and kind not in GROWING:
            return str(other)
        if way == "other":  # of equal sizes or not
            return str(other)
        if way == "sum":
            return str(body.add("Add", state, other))
        if way == "half":
            return str(body.add("Mul", other, body.constant(0.5, np.float32)))
        if way == "twice turned":
            rank = len(KINDS[kind])
            perm = {"perm": [*range(rank)][::-1]} if rank else {}
            return str(body.add("Transpose", body.add("Transpose", other, **perm), **perm))
        if way == "function":
            return self._called(body, state, other)
        if way == "grow":
            shape = [1 if size == "grows" else size for size in KINDS[kind]]
            piece = body.constant(np.full(shape, float(self.random.integers(1, 4))), np.float32)
            return str(body.add("Concat", state, self.one_of(piece, piece, state), axis=axis))
        if way == "filled":  # its size, used after a branch
            shape = body.add("Shape", state)
            branch = self._chosen(body, state, state, kind)
            filled = body.add("ConstantOfShape", shape, value=onnx.numpy_helper.from_array(np.ones(1, np.float32)))
            return str(body.add("Concat", filled, branch, axis=axis))
        if way == "cut":
            bounds = [body.constant([value], np.int64) for value in (0, self.one_of(1, 2), axis)]
            return str(body.add("Slice", body.add("Concat", state, other, axis=axis), *bounds))
        return self._chosen(body, state, other, kind)

    def _chosen(self, body: _Body, state: str, other: str, kind: str) -> str:
        """An If between two values, or of one and what a loop makes of it."""
        branches = []
        for name in (state, other):
            inner = _Body(self)
            if self.chance(0.2):
                (result, _), *_ = self.loop(inner, [(name, kind)], 2)[0]
            else:
                result = inner.add("Identity" if self.chance(0.6) else "Neg", name)
            (result, _), = self._named(inner, [(result, kind)])
            branches.append(helper.make_graph(inner.nodes, self.fresh("branch"), [],
                                              [_info(result, TensorProto.FLOAT, _inner(self, kind))]))
        condition = self.one_of("go", body.add("Greater", body.add("ReduceSum", other, keepdims=0),
                                               body.constant(0, np.float32)))
        return str(body.add("If", condition, then_branch=branches[0], else_branch=branches[1]))

    def _called(self, body: _Body, state: str, other: str) -> str:
        """A function of the model with two results, of which one is an argument."""
        if not self.functions:
            nodes = [helper.make_node(op_type, inputs, outputs) for op_type, inputs, outputs in (
                ("Add", ["a", "b"], ["t"]), ("Neg", ["t"], ["u"]), ("Add", ["u", "b"], ["v"]), ("Sub", ["v", "a"], ["r"]),
                ("Identity", ["a"], ["q"]))]
            self.functions.append(
                helper.make_function("my", "Mixed", ["a", "b"], ["r", "q"], nodes, [helper.make_opsetid("", 17)])
            )
        results = body.add("Mixed", state, other, outputs=2, domain="my")
        return str(self.one_of(*results))


def _shape(kind: str, size: int, rows: int) -> tuple[int, ...]:
    return tuple({"grows": size, "N": rows}.get(dim, dim) for dim in KINDS[kind])


def _declared(kind: str, name: str) -> tuple[Any, ...]:
    return tuple(name if dim == "grows" else dim for dim in KINDS[kind])


def _inner(maker: _Maker, kind: str) -> tuple[Any, ...]:
    return tuple(maker.fresh("d") if dim == "grows" else dim for dim in KINDS[kind])


def _info(name: str, dtype: int, dims: Sequence[Any] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)
