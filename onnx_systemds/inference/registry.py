"""The registries of facts about operators, one for each facet, keyed by (domain, op_type) and version.

| facet | says |
|---|---|
| generator | the DML of the operator |
| expander | the ONNX nodes that replace it |
| shape rule | dims and dtypes of its outputs |
| batch rule | whether samples can be scored in parts |
| size rule | how it computes sizes |
| fold | its result for known inputs |
| gradient | its derivative |
| integer rule | how it treats 64-bit integers |
| list rule | what replaces it for lists with known items |
| nn layer | the layer of SystemDS that it is |
| ``takes_text`` | its generator is correct for text |

All facets of an operator are registered beside its generator. A plugin registers in the same way. With
``override=True`` it replaces our entry from version ``since`` on, facet by facet; without, that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from onnx_systemds.errors import InternalError, PluginError, TranspileError, quoted
from onnx_systemds.model.ir import DERIVATIVES
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
    Compute = Callable[[NodeFacts, Sequence[Elements]], Elements | tuple[Elements, ...] | None]
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
    """Whether an operator can process the parts of an axis separately.

    mixes: takes a node, an input and an axis (both by position); returns whether elements along the axis are mixed or
    counted. It may raise TranspileError if only the run knows. sizes: inputs that hold sizes, which may depend on the
    length of the axis. reshapes: the axis may get longer or shorter. grows: it may get longer, and ``mixes`` says
    whether samples stay in their order. fills: an output may have the axis although no input has it. draws: the results
    are random, so that parts never equal the whole.
    """

    mixes: Mixes
    sizes: tuple[int, ...] = ()
    reshapes: bool = False
    grows: bool = False
    fills: bool = False
    draws: bool = False


@dataclass(frozen=True, slots=True)
class SizeRule:
    """How inference computes the elements of a small integer tensor as sizes.

    compute: takes a node and the elements of all inputs; returns those of the first output, or a tuple of those of all,
    None if they are unknown.
    of_dims: the rule reads the dims of the inputs only and gets no elements. moves: the rule only moves elements, so
    that a size stays a size.
    """

    compute: Compute
    of_dims: bool = False
    moves: bool = False


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A plugin's pass over the nodes of some operators in the graph of a model. See `rewrite`."""

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
untrained_inputs: dict[Identity, tuple[int, ...]] = {}
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


def operators_of_models() -> set[Identity]:
    """The operators that have a generator or an expander, but for those that only derivatives have."""
    return {identity for identity in (*operator_generators, *expanders) if identity[0] != DERIVATIVES}


def generator(
    op_type: str, since: int | Sequence[int], domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register a function as the generator of an operator from opset version ``since`` on.

    A generator is needed at each version where signature or meaning changes. One that serves several such versions
    names all of them. A later generator replaces it from its own version on. Raises ValueError on a second
    registration, as do all decorators of this module.
    """
    return _registering(operator_generators, (op_type,), since, domain, override)


def shape_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register a function as the rule for the dtypes and dims of the outputs of operators.

    Operators without a rule use ONNX's own inference.
    """
    return _registering(shape_rules, op_types, since, domain, override)


def expander(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register a function that expands an operator to other nodes.

    It is used if the operator has no generator, or only one for text. The shapes are inferred from the nodes.
    """
    return _registering(expanders, op_types, since, domain, override)


def batch_rule(  # noqa: PLR0913 - what an operator may be, by name
    *op_types: str, since: int = 1, domain: str = "", override: bool = False, sizes: tuple[int, ...] = (),
    reshapes: bool = False, grows: bool = False, fills: bool = False, draws: bool = False,
) -> Callable[[Mixes], Mixes]:
    """Register a function that says whether a node mixes elements along an axis, see `BatchRule`.

    Operators without a rule are assumed to mix them: models with them are scored whole.
    """

    return _registering(batch_rules, op_types, since, domain, override,
                        lambda mixes: BatchRule(mixes, sizes, reshapes, grows, fills, draws))


def size_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False, of_dims: bool = False,
    moves: bool = False,
) -> Callable[[Compute], Compute]:
    """Register a function that follows sizes through an operator, see `SizeRule`.

    Sizes that pass through an operator without a rule are known only when the model runs.
    """

    return _registering(size_rules, op_types, since, domain, override,
                        lambda compute: SizeRule(compute, of_dims, moves))


def fold(*op_types: str, since: int = 1, domain: str = "", override: bool = False) -> Callable[[Function], Function]:
    """Register a function that computes operators whose inputs are all known at conversion.

    It takes the node and its inferred outputs and returns their contents, None if the engine should compute them (as
    for operators without a rule). `folding.by_reference` asks ONNX's reference.
    """
    return _registering(folds, op_types, since, domain, override)


def gradient(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False, untrained: tuple[int, ...] = ()
) -> Callable[[Function], Function]:
    """Register a function as the chain rule of operators, see `backward`.

    Operators without a rule are differentiated through their definition in ONNX, if there is one. untrained: inputs
    that training leaves as they are though they have a derivative, as statistics that are counted instead.
    """
    untrained_inputs.update({(domain, op_type): untrained for op_type in op_types if untrained})
    return _registering(gradients, op_types, since, domain, override)


def integer_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register a function that says how operators treat 64-bit integers, see `integer_spans`.

    Operators without a rule get integers up to 2^53, and their results are assumed to be no larger.
    """
    return _registering(integer_rules, op_types, since, domain, override)


def list_rule(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register a function that replaces operators on lists whose items are known by name.

    It takes a `ListNode` and returns the nodes that replace it; a string that says why it stays; or None if items or
    positions are unknown.
    """
    return _registering(list_rules, op_types, since, domain, override)


def nn_layer(
    *op_types: str, since: int = 1, domain: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Register a function that writes operators as layers of ``nn/layers`` (``--style nn``).

    It takes a `NodeView` and returns a fragment, or None if no signature of a layer fits; then the generator is used.
    """
    return _registering(nn_layers, op_types, since, domain, override)


def takes_text(*op_types: str, domain: str = "") -> None:
    """Declare that the generators of operators are also correct for text: they move or compare codes as numbers."""
    _mark(text_operators, op_types, domain)


def looks_up_text(*op_types: str, domain: str = "") -> None:
    """Declare that operators only look strings up among those of the model: all other strings are equal for them."""
    _mark(text_lookups, op_types, domain)


def gives_boundary_form(*op_types: str, domain: str = "") -> None:
    """Declare that operators return results in the form in which values cross the boundary of a DML function."""
    _mark(boundary_operators, op_types, domain)


def rewrite(name: str, *op_types: str, domain: str = "") -> Callable[[Join], Join]:
    """Register a function as a pass that joins nodes of the graph before type inference.

    It takes the graph and each node of the operators, the last node of a pattern. It returns the node that replaces
    this one and the values that disappear, which no other node may read (`GraphEditor.made_for`). Otherwise it returns
    None, or a string that says why the node stays. ``--no-pass`` takes the name; ``--verbose`` prints it.
    """

    def decorate(join: Join) -> Join:
        if name in rewrites:
            _PLACES.check(name, f"a rewrite {quoted(name)}", override=False)
        _PLACES.made[name] = _PLACES.caller()
        rewrites[name] = Rewrite(name, frozenset((domain, op_type) for op_type in op_types), join)
        return join

    return decorate


def find(registry: Mapping[Identity, Mapping[int, Entry]], identity: Identity, version: int) -> Entry | None:
    """The entry with the highest ``since`` that is not above ``version``; None if there is none."""
    since = serving(registry, identity, version)
    return registry[identity][since] if since else None


def place_of(registry: Registry[Any], identity: Identity, version: int) -> Place | None:
    """The place where the entry in force at a version was registered; None if unknown."""
    return _PLACES.made.get((_kind(registry), identity, serving(registry, identity, version)))


def wrong_result(registry: Registry[Any], facts: NodeFacts, wanted: str, given: object) -> TranspileError:
    """The error for an entry that returns a wrong type: PluginError for a plugin's entry, InternalError for ours."""
    made = place_of(registry, facts.node.identity, facts.node.version)
    message = f"the {_kind(registry)} at {made} gives {type(given).__name__}, not {wanted}"
    return (InternalError if made is None or made.is_own else PluginError)(message, facts.place)


def serving(registry: Mapping[Identity, Mapping[int, Any]], identity: Identity, version: int) -> int:
    """The ``since`` of the entry in force at a version; 0 if there is none."""
    found = 0
    for since in registry.get(identity, ()):
        if found < since <= version:
            found = since
    return found


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
    """Record the place of an entry, and remove our entries that it overrides. Raises ValueError."""
    kind, name, place = _kind(registry), quoted(".".join(filter(None, identity))), _PLACES.caller()
    if since < 1:
        raise ValueError(f"a {kind} of {name} cannot serve from version {since} on: versions count from 1")
    written = (operator_generators, expanders)  # at most one of both is used: a generator first
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
    if registry is operator_generators and override:  # only the plugin can say what the new generator supports
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
