"""The registries: all that is said of an operator, facet by facet, each keyed by (domain, op_type) and version.

How it is written in DML (generator), or which other nodes stand for it (expander); which dims and dtypes it gives
(shape rule); whether samples can be scored in parts (batch rule); what it makes of sizes (size rule) and of constants
(fold); its derivative (gradient); what it makes of 64-bit integers (integer rule), of lists with known items (list
rule) and of text; which layer of SystemDS it is (nn layer). All of it stands beside its generator.

A plugin registers in the same way. With ``override=True`` it takes the place of what we have of an operator from
version ``since`` on, facet by facet; without, that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from onnx_systemds.errors import InternalError, PluginError, TranspileError, quoted
from onnx_systemds.registration import Place, Places

if TYPE_CHECKING:
    from onnx_systemds.inference.backward import Backward
    from onnx_systemds.inference.expansion import Expansion
    from onnx_systemds.inference.facts import NodeFacts
    from onnx_systemds.inference.integer_spans import IntegerUse
    from onnx_systemds.inference.list_node import ListNode
    from onnx_systemds.inference.values import Elements, Value
    from onnx_systemds.model.graph_editor import GraphEditor
    from onnx_systemds.model.ir import Array, Node

    # From a NodeView to a Fragment; both are of `operators.api`, of which inference only asks whether there is one.
    Generator = Callable[[Any], Any]
    ShapeRule = Callable[[NodeFacts], tuple[Value, ...]]
    Expander = Callable[[Expansion], None]
    Mixes = Callable[[NodeFacts, int, int], bool]
    Compute = Callable[[NodeFacts, Sequence[Elements]], Elements | None]
    FoldRule = Callable[[NodeFacts, tuple[Value, ...]], Sequence[Array | None] | None]
    IntegerRule = Callable[[NodeFacts], IntegerUse]
    ListRule = Callable[[ListNode], tuple[Node, ...] | str | None]
    GradientRule = Callable[[Backward], Sequence[str]]
    Join = Callable[[GraphEditor, Node], tuple[Node, Sequence[str]] | str | None]

Function = TypeVar("Function", bound=Callable[..., object])
Entry = TypeVar("Entry")
Identity = tuple[str, str]  # (domain, op_type); the domain of ai.onnx is ""
Registry = dict[Identity, dict[int, Entry]]  # by the version from which on an entry serves


@dataclass(frozen=True, slots=True)
class BatchRule:
    """What an operator does along an axis whose parts may be given to it one by one.

    mixes: of a node, an input and an axis of it (by position), whether elements along the axis are mixed or counted.
    It may raise TranspileError where only the run knows. sizes: inputs of sizes, which may follow from the length of
    the axis. reshapes: the axis may get longer or shorter. fills: an output may have the axis where no input has it.
    draws: the numbers are random, so that no parts are those of the whole.
    """

    mixes: Mixes
    sizes: tuple[int, ...] = ()
    reshapes: bool = False
    fills: bool = False
    draws: bool = False


@dataclass(frozen=True, slots=True)
class SizeRule:
    """How the elements of a small tensor of integers follow, as sizes, while the graph is inferred.

    compute: of a node and the elements of all its inputs; gives those of the first output, None where they cannot be
    told. of_dims: it reads the dims of the inputs alone, and is given no elements. moves: each element stays what it
    is, a size or a number with a sign.
    """

    compute: Compute
    of_dims: bool = False
    moves: bool = False


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A plugin's pass over the graph of a model: at each node that is one of these operators. See `rewrite`."""

    name: str
    operators: frozenset[Identity]
    join: Join


operator_generators: Registry[Generator] = {}
shape_rules: Registry[ShapeRule] = {}
expanders: Registry[Expander] = {}
batch_rules: Registry[BatchRule] = {}
size_rules: Registry[SizeRule] = {}
folds: Registry[FoldRule] = {}
gradients: Registry[GradientRule] = {}
integer_rules: Registry[IntegerRule] = {}
list_rules: Registry[ListRule] = {}
nn_layers: Registry[Generator] = {}
text_operators: set[Identity] = set()
text_lookups: set[Identity] = set()
boundary_operators: set[Identity] = set()
rewrites: dict[str, Rewrite] = {}
refused_operators: dict[Identity, str] = {("", "ImageDecoder"): "DML has no decoder of compressed images"}
"""Operators that have no form in DML, and why."""

_PLACES = Places(__file__)
_KINDS: tuple[tuple[Registry[Any], str], ...] = (
    (operator_generators, "generator"), (shape_rules, "shape rule"), (expanders, "expander"),
    (batch_rules, "batch rule"), (size_rules, "size rule"), (folds, "fold"), (gradients, "gradient"),
    (integer_rules, "integer rule"), (list_rules, "list rule"), (nn_layers, "nn layer"),
)
_MARKS = ((text_operators, "takes_text"), (text_lookups, "looks_up_text"),
          (boundary_operators, "gives_boundary_form"))


def generator(
    op_type: str, since: int | Sequence[int], domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register the function below as the generator of an operator from opset version ``since`` on.

    A generator is needed at each version where signature or meaning changes; one that serves after several such
    changes names all these versions. A later one replaces it from its own version on. Raises ValueError on a second
    registration, as all decorators of this module do.
    """
    return _registering(operator_generators, (op_type,), since, domain, override)


def shape_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register the function below as the rule for dtype and dims of the outputs of operators.

    Operators without a rule take ONNX's own inference.
    """
    return _registering(shape_rules, op_types, since, domain, override)


def expander(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register the function below, which expands an operator to other nodes.

    It is asked where the operator has no generator, or one for text alone; shapes follow from the nodes.
    """
    return _registering(expanders, op_types, since, domain, override)


def batch_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False, sizes: tuple[int, ...] = (),
    reshapes: bool = False, fills: bool = False, draws: bool = False,
) -> Callable[[Mixes], Mixes]:
    """Register the function below as the one that says whether a node mixes elements along an axis: see `BatchRule`.

    Of operators without a rule it is taken that they do: models with them are scored whole.
    """

    return _registering(batch_rules, op_types, since, domain, override,
                        lambda mixes: BatchRule(mixes, sizes, reshapes, fills, draws))


def size_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False, of_dims: bool = False,
    moves: bool = False,
) -> Callable[[Compute], Compute]:
    """Register the function below as the one that follows sizes through an operator: see `SizeRule`.

    Sizes that pass through operators without a rule are known when the model runs only.
    """

    return _registering(size_rules, op_types, since, domain, override,
                        lambda compute: SizeRule(compute, of_dims, moves))


def fold(*op_types: str, since: int = 1, domain: str = "", override: bool = False) -> Callable[[Function], Function]:
    """Register the function below as the one that computes operators whose inputs are all known at conversion.

    It is given the node and what is inferred of its outputs, and gives their contents; None where the engine is to
    compute them, as it does for operators without a rule. `folding.by_reference` asks ONNX's reference.
    """
    return _registering(folds, op_types, since, domain, override)


def gradient(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register the function below as the chain rule of operators: see `backward`.

    Operators without a rule are differentiated by their definition by ONNX, where there is one.
    """
    return _registering(gradients, op_types, since, domain, override)


def integer_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register the function below as the one that says what operators make of 64-bit integers: see `integer_spans`.

    Those without a rule are given integers up to 2^53, and their results are taken to be no larger.
    """
    return _registering(integer_rules, op_types, since, domain, override)


def list_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register the function below as the one that resolves operators on lists whose items are known by name.

    It is given a `ListNode` and gives the nodes that stand in its place; or a text, which says why it stays, or None
    where that is because items or positions are not known.
    """
    return _registering(list_rules, op_types, since, domain, override)


def nn_layer(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register the function below as the one that writes operators as layers of ``nn/layers`` (``--style nn``).

    It is given a `NodeView` and gives a fragment, or None where no layer's signature fits: then the generator writes.
    """
    return _registering(nn_layers, op_types, since, domain, override)


def takes_text(*op_types: str, domain: str = "") -> None:
    """Say that the generators of these operators are right for text, too: they move or compare codes as numbers."""
    _mark(text_operators, op_types, domain)


def looks_up_text(*op_types: str, domain: str = "") -> None:
    """Say that these operators look texts up in those of the model only: all others are the same to them."""
    _mark(text_lookups, op_types, domain)


def gives_boundary_form(*op_types: str, domain: str = "") -> None:
    """Say that results of these operators come in the form in which values cross the boundary of a DML function."""
    _mark(boundary_operators, op_types, domain)


def rewrite(name: str, *op_types: str, domain: str = "") -> Callable[[Join], Join]:
    """Register the function below as a pass that joins nodes of the model's graph, before types are known.

    It is given the graph and each node of these operators, where a pattern may end. It gives the node that takes the
    place of this one, and the values that are gone with it: no other node may read them (`GraphEditor.made_for`). Or
    a text, which says why the node stays; or None. ``--no-pass`` takes the name, and ``--verbose`` tells it.
    """

    def decorate(join: Join) -> Join:
        if name in rewrites:
            _PLACES.check(name, f"a rewrite {quoted(name)}", override=False)
        _PLACES.made[name] = _PLACES.caller()
        rewrites[name] = Rewrite(name, frozenset((domain, op_type) for op_type in op_types), join)
        return join

    return decorate


def find(registry: Mapping[Identity, Mapping[int, Entry]], identity: Identity, version: int) -> Entry | None:
    """What a registry has with the highest ``since`` not above ``version``; None when there is none."""
    since = serving(registry, identity, version)
    return registry[identity][since] if since else None


def place_of(registry: Registry[Any], identity: Identity, version: int) -> Place | None:
    """Where the entry is registered that serves an operator at a version, None where that is not known."""
    return _PLACES.made.get((_kind(registry), identity, serving(registry, identity, version)))


def wrong_result(registry: Registry[Any], facts: NodeFacts, wanted: str, given: object) -> TranspileError:
    """The error for an entry that gives something of another kind: a fault of the plugin that it is of, or of ours."""
    made = place_of(registry, facts.node.identity, facts.node.version)
    message = f"the {_kind(registry)} at {made} gives {type(given).__name__}, not {wanted}"
    return (InternalError if made is None or made.is_own else PluginError)(message, facts.place)


def serving(registry: Mapping[Identity, Mapping[int, Any]], identity: Identity, version: int) -> int:
    """From which version on the entry serves that is in force at a version; 0 for none."""
    return max((since for since in registry.get(identity, ()) if since <= version), default=0)


def _registering(
    registry: Registry[Any], op_types: tuple[str, ...], since: int | Sequence[int], domain: str, override: bool,
    entry: Callable[[Any], Any] = lambda function: function,
) -> Callable[[Function], Function]:
    versions = (since,) if isinstance(since, int) else since

    def decorate(function: Function) -> Function:
        for op_type, version in product(op_types, versions):
            _note(registry, (domain, op_type), version, override)
            registry.setdefault((domain, op_type), {})[version] = entry(function)
        return function

    return decorate


def _note(registry: Registry[Any], identity: Identity, since: int, override: bool) -> None:
    """Note where an entry is made; what we have of the same goes where a plugin says so. Raises ValueError."""
    kind, name, place = _kind(registry), quoted(".".join(filter(None, identity))), _PLACES.caller()
    if since < 1:
        raise ValueError(f"a {kind} of {name} cannot serve from version {since} on: versions count from 1")
    written = (operator_generators, expanders)  # of which one serves, a generator first
    for other in written if not place.is_own and any(registry is each for each in written) else (registry,):
        before = serving(other, identity, since)
        key = (_kind(other), identity, before)
        if before == since or (before and not place.is_own and _PLACES.made[key].file != place.file):
            _PLACES.check(key, f"a {_kind(other)} of {name} from version {before} on", override)
        if other is not registry and registry is expanders and 0 < before < since:
            raise ValueError(f"{name} has a generator from version {before} on: an expander overrides it as a whole")
        for version in [version for version in other.get(identity, ()) if override and version >= since]:
            if _PLACES.made[_kind(other), identity, version].is_own:
                del other[identity][version]
    if registry is operator_generators and override:  # nothing is known of the new one but what the plugin says
        for marked, mark in _MARKS:
            if identity in marked and _PLACES.made[mark, identity].is_own:
                marked.discard(identity)
    _PLACES.made[kind, identity, since] = place


def _mark(operators: set[Identity], op_types: tuple[str, ...], domain: str) -> None:
    mark = next(name for each, name in _MARKS if each is operators)
    for op_type in op_types:
        identity = (domain, op_type)
        place = _PLACES.caller()
        if identity in operators and place.is_own:
            raise ValueError(f"{quoted(op_type)} is marked twice")
        operators.add(identity)
        _PLACES.made[mark, identity] = place


def _kind(registry: Registry[Any]) -> str:
    return next(kind for each, kind in _KINDS if each is registry)
