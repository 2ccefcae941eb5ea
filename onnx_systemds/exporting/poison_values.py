"""Values that a refused statement did not give: they pass through calls and lists, and stop what reads them."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.exporting.values import ListValue, Lost, Value


class Poisoned(TranspileError):
    """An expression reads what an earlier statement should have given that was refused for `errors`."""

    def __init__(self, errors: tuple[TranspileError, ...]) -> None:
        super().__init__("a value is lost")
        self.errors = errors


def lost_error(value: Lost, what: str) -> TranspileError:
    """Return the error of reading a lost value."""
    return Poisoned(value.errors) if value.errors else UnsupportedCase(f"{what} {value.reason}")


def intact(value: Value, what: str) -> Value:
    """Return a value that is read. Raises when it is lost."""
    if isinstance(value, Lost):
        raise lost_error(value, what)
    return value


def lost_in(value: Value) -> Iterator[Lost]:
    """Yield what is lost of a value: itself, or items of a list."""
    if isinstance(value, Lost):
        yield value
    elif isinstance(value, ListValue):
        for item in value.items:
            yield from lost_in(item)
