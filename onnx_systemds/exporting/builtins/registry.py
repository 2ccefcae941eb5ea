"""Which DML builtin is exported by which function, and how the arguments of a call reach it: `builtin`.

The parameters of the function are those of the builtin, in order and by name; a dot in a name is written as an
underscore, and a Python word gets one after it. Their annotations say what an argument must be:

- `Matrix`, `Scalar`, `ListValue`, `Value`: that kind of value. A scalar of 1 x 1 is no matrix, as in DML.
- `Dim`: an integer, known or computed by the model. `Sizes`: a tuple of them, from a list such as ``[N, 3, 32, 32]``.
- ``bool``, ``int``, ``float``, ``str``: a value that must be known.

Before a ``/`` are the parameters that the engine takes by position, whatever their names:
``table(a, b, cols=9, rows=7)`` has 9 rows.

The first parameter is the `Context`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from onnx_systemds.dml.tokens import DOTTED_WORDS
from onnx_systemds.errors import TranspileError, UnsupportedCase, escaped, quoted
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.poison_values import poison_error, poisons_in
from onnx_systemds.exporting.values import ListValue, Matrix, Scalar, Value, known_of
from onnx_systemds.inference.dims import Dim
from onnx_systemds.registration import Places

_BY_PLACE = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}


@dataclass(frozen=True)
class Builtin:
    """A builtin and the signature of its function."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[inspect.Parameter, ...]

    @property
    def is_ours(self) -> bool:
        """Whether it is no plugin's."""
        return self.function.__module__.startswith("onnx_systemds.")

    def __call__(self, context: Context, positional: Sequence[Value], named: Mapping[str, Value]) -> Any:
        """Return the result of a call. Raises UnsupportedCase for arguments that do not fit, Poisoned for poison."""
        try:
            return self._called(context, positional, named)
        except UnsupportedCase:
            poisons = [item for value in (*positional, *named.values()) for item in poisons_in(value)]
            if poisons:
                raise poison_error(poisons[0], f"an item that {self.name} reads") from None
            raise

    def _called(self, context: Context, positional: Sequence[Value], named: Mapping[str, Value]) -> Any:
        values = self._bound(positional, named)
        keywords: dict[str, Any] = {}
        variadic: list[Any] = []
        for parameter in self.parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest = values.pop(parameter.name, [])
                variadic = [_converted(context, value, parameter, self.name) for value in rest]
            elif parameter.name in values:
                keywords[parameter.name] = _converted(context, values[parameter.name], parameter, self.name)
            elif parameter.default is parameter.empty:
                raise UnsupportedCase(f"{self.name} needs the argument {dml_name(parameter)}")
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                keywords[parameter.name] = parameter.default
        leading = [keywords.pop(p.name) for p in self.parameters if p.name in keywords
                   and (p.kind is p.POSITIONAL_ONLY or (variadic and p.kind is p.POSITIONAL_OR_KEYWORD))]
        found = self.function(context, *leading, *variadic, **keywords)
        for value in () if self.is_ours or found is None else found if isinstance(found, tuple) else (found,):
            if not isinstance(value, get_args(Value)):
                shown = escaped(repr(value))
                raise UnsupportedCase(f"the exporter of {self.name} gives {shown}, which is no value of DML",
                                      hint="ctx.matrix(tensor) and ctx.scalar(tensor) make one")
        return found

    def _bound(self, positional: Sequence[Value], named: Mapping[str, Value]) -> dict[str, Any]:
        """Return the arguments by parameter; those of a variadic one as a list."""
        found: dict[str, Any] = {}
        places = [p for p in self.parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p for p in self.parameters if p.kind is p.VAR_POSITIONAL), None)
        if positional and {p.kind for p in self.parameters} <= _BY_PLACE:
            positional, named = [*positional, *named.values()], {}
        for parameter, value in zip(places, positional):
            found[parameter.name] = value
        if len(positional) > len(places):
            if rest is None:
                raise UnsupportedCase(f"{self.name} takes at most {len(places)} arguments, not {len(positional)}")
            found[rest.name] = list(positional[len(places) :])
        legal = {p.name for p in self.parameters if p.kind is not p.VAR_POSITIONAL}
        for name, value in named.items():
            key = name.replace(".", "_")
            key = f"{key}_" if f"{key}_" in legal else key
            if key not in legal:
                raise UnsupportedCase(f"{self.name} has no argument {name} that can be exported",
                                      hint=f"it takes {', '.join(sorted(legal)) or 'none'}")
            if key in found:
                raise UnsupportedCase(f"{self.name} gets the argument {name} twice")
            found[key] = value
        return found


BUILTINS: dict[str, Builtin] = {}
REFUSED: dict[str, tuple[str, str]] = {}


Function = TypeVar("Function", bound=Callable[..., Any])
_PLACES = Places(__file__)
_OPTIONAL = {Matrix | None: Matrix, ListValue | None: ListValue}


def builtin(*names: str, override: bool = False, meaning: str = "") -> Callable[[Function], Function]:
    """Register a function as the exporter of builtins. Raises ValueError if a name has one already.

    override: whether it replaces one of ours. meaning: what the model computes; by default the docstring.
    """

    def register(function: Function) -> Function:
        function.__doc__ = meaning or function.__doc__
        parameters = tuple(inspect.signature(function, eval_str=True).parameters.values())[1:]
        for name in names:
            if name in BUILTINS:
                _PLACES.check(name, f"an exporter of {quoted(name)}", override)
            _PLACES.made[name] = _PLACES.caller()
            REFUSED.pop(name, None)  # a plugin may export what we refuse
            BUILTINS[name] = Builtin(name, function, parameters)
        return function

    return register


def refuse(*names: str, reason: str, hint: str = "") -> None:
    """Register builtins that an ONNX model cannot compute, with the reason for the error message."""
    for name in names:
        REFUSED[name] = (reason, hint)


def dml_name(parameter: inspect.Parameter) -> str:
    """The name of a parameter in DML: Python's words have a ``_`` after them, and no dots."""
    name = parameter.name.rstrip("_")
    dotted = name.replace("_", ".")
    return dotted if dotted in DOTTED_WORDS else name


def _converted(context: Context, value: Value, parameter: inspect.Parameter, function: str) -> Any:
    """Return an argument as the annotation of its parameter wants it."""
    wanted = parameter.annotation
    name = dml_name(parameter)
    if wanted in (bool, int, float, str):
        return known_content(value, wanted, name, function)
    if wanted in (Dim, Dim | None):
        return context.integer(value)
    if wanted == Sizes:
        if not isinstance(value, ListValue):
            raise UnsupportedCase(f"the argument {name} of {function} is {value}, not a list of sizes")
        return tuple(context.integer(item) for item in value.items)
    wanted = _OPTIONAL.get(wanted, wanted)
    if wanted in (Matrix, Scalar, ListValue) and not isinstance(value, wanted):
        raise UnsupportedCase(f"the argument {name} of {function} is {value}, not a {wanted.__name__.lower()}")
    return value


def known_content(value: Value, wanted: type, name: str, function: str) -> Any:
    """Return the content of the argument `name` of a builtin. Raises UnsupportedCase when it is not known."""
    known = known_of(value)
    if known is None and isinstance(value, Matrix):
        known = value.tensor.only_element
    if known is None:
        raise UnsupportedCase(f"the argument {name} of {function} must be known when the script is exported",
                              hint="give it as a literal or a bound argument")
    if isinstance(known, str) != (wanted is str):
        raise UnsupportedCase(f"the argument {name} of {function} must be a {wanted.__name__}")
    return wanted(known)


class Sizes(tuple[Dim, ...]):
    """Annotation of a parameter that takes a list of integers."""


def refusal(name: str) -> TranspileError | None:
    """Return why a builtin is not exported, if that is known."""
    if name not in REFUSED:
        return None
    reason, hint = REFUSED[name]
    return UnsupportedCase(f"{name} has no counterpart in ONNX: {reason}", hint=hint)
