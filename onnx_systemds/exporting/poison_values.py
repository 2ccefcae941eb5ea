"""Values that a refused statement did not give: they pass through calls and lists, and stop what reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.exporting.values import ListValue, Poison, Value

_MOST_REASONS = 200


class Poisoned(TranspileError):
    """An expression reads what an earlier statement should have given that was refused for `errors`."""

    def __init__(self, errors: tuple[TranspileError, ...]) -> None:
        super().__init__("a value is poisoned")
        self.errors = errors


def poison_error(value: Poison, what: str) -> TranspileError:
    """Return the error of reading a poison value."""
    return Poisoned(value.errors) if value.errors else UnsupportedCase(f"{what} {value.reason}")


def intact(value: Value, what: str) -> Value:
    """Return a value that is read. Raises where it is poison."""
    if isinstance(value, Poison):
        raise poison_error(value, what)
    return value


def poisons_in(value: Value) -> Iterator[Poison]:
    """Yield the poison values in a value: itself, or items of a list."""
    if isinstance(value, Poison):
        yield value
    elif isinstance(value, ListValue):
        for item in value.items:
            yield from poisons_in(item)


def identity(error: TranspileError) -> tuple[str, str]:
    """Return what is the same of equal reasons."""
    return str(error.place), error.message


def unique(errors: Iterable[TranspileError]) -> tuple[TranspileError, ...]:
    """Return reasons, each one once."""
    found = {identity(error): error for error in errors}
    return tuple(found.values())[:_MOST_REASONS]
