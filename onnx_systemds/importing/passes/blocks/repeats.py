"""Sequences of statements that a function repeats, equal but for the names of variables.

Constants, and what is computed once (as an order of rows that all layers share), are left out: they stand before
the sequence that needs them. The order of the others is that of the walk, which is the same for equal parts of a graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.module_paths import ModulePath
from onnx_systemds.dml.names import Names as Identifiers
from onnx_systemds.dml.rewrite import with_first
from onnx_systemds.dml.scopes import assigned, assignment_counts, mentioned, once, operand_of, reads
from onnx_systemds.importing.passes.blocks.block_names import common_scope
from onnx_systemds.importing.passes.named_sizes import reads_size
from onnx_systemds.operators.api.reserved_names import WEIGHTS

FEWEST_STATEMENTS = 8
_MOST_FAMILIES = 16
_MOST_PERIODS = 24
_MOST_TRIES = 8
_MOST_SHIFTS = 64

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A sequence that is repeated.

    instances: the positions of its statements. parameters: variables that it reads, results: those that it gives, each
    by their names in the instances.
    """

    instances: tuple[tuple[int, ...], ...]
    parameters: tuple[Names, ...]
    results: tuple[Names, ...]

    @property
    def saved(self) -> int:
        """The number of statements that a function saves; a call counts as three."""
        return _saved(len(self.instances), len(self.instances[0]))


def _saved(times: int, length: int) -> int:
    return (times - 1) * length - 3 * times if length >= FEWEST_STATEMENTS else 0


@dataclass(frozen=True, slots=True)
class _Run:
    """A sequence of statements that is there several times, the next one always at the same distance.

    later, earlier: by how much all may begin later, and, if they are not as long as they are apart, end earlier.
    """

    start: int
    period: int
    length: int
    times: int
    later: int
    earlier: int

    @property
    def saved(self) -> int:
        """The number of statements that a function saves if all instances are equal."""
        return _saved(self.times, self.length)

    def places(self) -> range:
        """Where its instances begin."""
        return range(self.start, self.start + self.times * self.period, self.period)


def find_repeats(body: tree.Block, given: Iterable[str], results: Iterable[str]) -> list[Repeat]:
    """What statements repeat; no two of the sequences have a statement in common.

    given, results: the variables that have a value before the statements, and those that are read after them.
    """
    return _Finder(body, frozenset(given), frozenset(results)).found()


def with_separate_reshapes(body: tree.Block) -> tree.Block:
    """The statements, with what the last of several layers reshapes, as it is a result, in a statement of its own."""
    if not any(map(_reshaped, body)):
        return body
    shapes = [_shape(statement) for statement in body]
    alike = Counter(shapes)
    names = Identifiers(assigned(body))
    found: list[tree.Statement] = []
    for statement, shape in zip(body, shapes):
        inner = _reshaped(statement)
        if inner is None or alike[shape] > 1 or not alike[_shape(inner)]:
            found.append(statement)
            continue
        assert isinstance(statement, tree.Assign) and isinstance(statement.value, tree.Call)
        first = tree.Name(names.fresh(f"{statement.target.name}_before"))
        found.append(replace(inner, target=first))
        found.append(tree.Assign(statement.target, with_first(statement.value, first), origin=statement.origin))
    return tuple(found)


def _reshaped(statement: tree.Statement) -> tree.Assign | None:
    """The statement without the reshape around what it calculates, if there is one."""
    if not isinstance(statement, tree.Assign) or statement.shares_line:
        return None
    inner = operand_of(statement.value, "matrix")
    return replace(statement, value=inner) if isinstance(inner, (tree.Binary, tree.Call)) else None


class _Finder:
    def __init__(self, body: tree.Block, given: frozenset[str], results: frozenset[str]) -> None:
        self.body = body
        self.counts = assignment_counts(body) + Counter(given)
        numbers: dict[Hashable, int] = {}
        self.shapes = [numbers.setdefault(_shape(statement), len(numbers)) if self._is_plain(statement) else None
                       for statement in body]
        self.uses: dict[str, list[int]] = {name: [len(body)] for name in results}  # positions where variables are read
        for place, statement in enumerate(body):
            for name in reads(statement):
                self.uses.setdefault(name, []).append(place)
        moved = self._moved(given)
        self.places = [place for place in range(len(body)) if place not in moved]
        self.kinds = [-1 - place if (shape := self.shapes[place]) is None else shape for place in self.places]

    def found(self) -> list[Repeat]:
        repeats: list[Repeat] = []
        while len(repeats) < _MOST_FAMILIES and (best := self._best()) is not None:
            repeats.append(best)
            used = {place for instance in best.instances for place in instance}
            self.kinds = [-1 - place if place in used else kind for place, kind in zip(self.places, self.kinds)]
        return sorted(repeats, key=lambda repeat: repeat.instances[0][0])

    def _is_plain(self, statement: tree.Statement) -> bool:
        """Whether a statement assigns variables that no other statement assigns."""
        if isinstance(statement, tree.Assign):
            targets: tuple[tree.Target, ...] = () if statement.accumulate else (statement.target,)
        else:
            targets = statement.targets if isinstance(statement, tree.MultiAssign) else ()
        return bool(targets) and all(isinstance(it, tree.Name) and self.counts[it.name] == 1 for it in targets)

    def _moved(self, given: frozenset[str]) -> set[int]:
        """Statements that may stand before any sequence: constants, weights, and what is computed once of these,
        of the parameters and of sizes."""
        known = set(given) - {WEIGHTS}
        moved: set[int] = set()
        alike = Counter(shape for shape in self.shapes if shape is not None)
        for place, (statement, shape) in enumerate(zip(self.body, self.shapes)):
            if shape is not None:
                needed = reads(statement)
                is_alone = alike[shape] == 1 or reads_size(statement)
                if needed <= {WEIGHTS} or (is_alone and needed <= known):
                    moved.add(place)
                    known |= {*assigned((statement,))}
        return moved

    def _best(self) -> Repeat | None:
        """The repeat that saves most statements."""
        best: Repeat | None = None
        for run in sorted(self._runs(), key=lambda run: -run.saved)[:_MOST_TRIES]:
            if best is not None and best.saved >= run.saved:
                break
            repeat = self._repeat(self._with_fewest_live_values(run))
            if repeat is not None and (best is None or repeat.saved > best.saved):
                best = repeat
        return best

    def _runs(self) -> Iterator[_Run]:
        """The sequences that are repeated at equal distances."""
        for period in self._periods():
            place = 0
            while place < len(self.kinds) - period:
                length = 0
                while place + length + period < len(self.kinds) and self._same(place + length, period):
                    length += 1
                if length >= FEWEST_STATEMENTS:
                    times, rest = length // period + 1, length % period
                    whole = _Run(place, period, period, times, rest, 0)
                    less = min(rest // 3, _MOST_SHIFTS)
                    part = _Run(place, period, rest, times + 1, less, less)  # the last ends in something else
                    yield from (run for run in (whole, part) if run.saved > 0 and not self._is_small(run))
                place += length + 1

    def _is_small(self, run: _Run) -> bool:
        """Whether a sequence itself repeats a few statements."""
        kinds = self.kinds[run.start : run.start + run.period]
        return any(kinds[step:] == kinds[:-step] for step in range(1, min(FEWEST_STATEMENTS, len(kinds))))

    def _same(self, place: int, period: int) -> bool:
        return self.kinds[place] == self.kinds[place + period]

    def _periods(self) -> list[int]:
        """The most frequent distances between equal statements."""
        distances: Counter[int] = Counter()
        before: dict[int, list[int]] = {}
        for place, kind in enumerate(self.kinds):
            seen = before.setdefault(kind, [])
            distances.update(place - other for other in seen[-4:] if place - other >= FEWEST_STATEMENTS)
            seen.append(place)
        return [period for period, _ in distances.most_common(_MOST_PERIODS)]

    def _with_fewest_live_values(self, run: _Run) -> _Run:
        """A run with its ends where as few values as possible are passed on.

        Of those that are alike in this it is the longest, one between two nodes, and where most nodes are of one scope.
        """
        live = self._live()
        starts = range(run.start, run.start + min(run.later, run.period - 1) + 1)
        end = run.start + run.length
        tried = [replace(run, start=start, length=end - earlier - start if run.length < run.period else run.length)
                 for start in starts for earlier in range(run.earlier + 1)]
        handed = [sum(live[place] + live[place + it.length] for place in it.places()) for it in tried]
        least = min(handed)
        quiet = [it for it, count in zip(tried, handed) if count == least][:_MOST_SHIFTS]
        return max(quiet, key=lambda it: (
            it.length, self._is_between_nodes(it.start), len(self._scope(it.start, it.length))))

    def _is_between_nodes(self, start: int) -> bool:
        """Whether the statement before a place computes another node, or there is none."""
        first, second = (self.body[self.places[place]].origin for place in (max(start - 1, 0), start))
        return not start or first is not second

    def _live(self) -> list[int]:
        """The number of live values after each position in the sequence."""
        numbers = {place: number for number, place in enumerate(self.places)}
        steps = [0] * (len(self.places) + 2)
        for number, place in enumerate(self.places):
            for name in assigned((self.body[place],)):
                last = max((numbers.get(use, len(numbers)) for use in self.uses.get(name, ())), default=number)
                steps[number + 1] += 1
                steps[max(last, number) + 1] -= 1
        return [*accumulate(steps)]

    def _scope(self, start: int, period: int) -> ModulePath:
        return common_scope([self.body[place].origin for place in self.places[start : start + period]])

    def _repeat(self, run: _Run) -> Repeat | None:
        """The repeat of equal sequences, for instances that read their own variables at the same positions."""
        instances = [tuple(self.places[place : place + run.length]) for place in run.places()]
        wirings = [self._wiring(instance) for instance in instances]
        first, last = max(_equal_spans([inner for inner, _ in wirings]), key=lambda span: span[1] - span[0])
        if _saved(last - first, run.length) <= 0:
            return None
        instances, wirings = instances[first:last], wirings[first:last]
        parameters = tuple(dict.fromkeys(zip(*(outer for _, outer in wirings))))
        targets = [self._targets(instance) for instance in instances]
        given = {number for instance, names in zip(instances, targets) for number, name in enumerate(names)
                 if not set(self.uses.get(name, ())) <= set(instance)}
        results = tuple(tuple(names[number] for names in targets) for number in sorted(given))
        return Repeat(tuple(instances), parameters, results) if results else None

    def _targets(self, instance: Sequence[int]) -> list[str]:
        return [name for place in instance for name in assigned((self.body[place],))]

    def _wiring(self, instance: Sequence[int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """For each variable that is read: which of the own ones it is, or -1; the names of those that are not own."""
        own: dict[str, int] = {}
        inner: list[int] = []
        outer: list[str] = []
        for place in instance:
            statement = self.body[place]
            for name in _read_names(statement):
                inner.append(own.get(name, -1))
                if name not in own:
                    outer.append(name)
            for name in assigned((statement,)):
                own[name] = len(own)
        return tuple(inner), tuple(outer)


def _read_names(statement: tree.Statement) -> tuple[str, ...]:
    assert isinstance(statement, (tree.Assign, tree.MultiAssign))
    return mentioned(statement.value if isinstance(statement, tree.Assign) else statement.call).variables


def _equal_spans(items: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """The spans of equal neighbours."""
    start = 0
    for place in range(1, len(items) + 1):
        if place == len(items) or items[place] != items[start]:
            yield start, place
            start = place


@once
def _shape(statement: tree.Statement) -> Hashable:
    """What is equal for statements that differ in names of variables alone."""
    found: list[object] = []
    stack: list[tree.Node] = [statement]
    while stack:
        node = stack.pop()
        kind = type(node)
        found.append(kind)
        plain, below = _FIELDS.get(kind) or _fields(kind)
        for name in plain:
            found.append(getattr(node, name))
        for name in below:
            value = getattr(node, name)
            if isinstance(value, tuple):
                found.append(len(value))
                stack += value
            else:
                found.append(value is None)
                if value is not None:
                    stack.append(value)
    return tuple(found)


_FIELDS: dict[type[tree.Node], tuple[Names, Names]] = {}


def _fields(kind: type[tree.Node]) -> tuple[Names, Names]:
    """The fields of a kind of nodes: those with plain values, but for names of variables, and those with nodes."""
    below = tree.child_fields(kind)
    plain = tuple(it.name for it in fields(kind) if it.compare and it.name not in below)
    found = _FIELDS[kind] = (() if kind in (tree.Name, tree.Indexed) else plain, below)
    return found
