"""What a caller gives as inputs: converted to the declared element type where nothing is lost by it, else refused.

The rule, for one tensor:
- the declared type itself is taken as it is;
- integers and booleans become another integer type where every value fits, a floating point type where every value is
  exact in it; booleans are taken from integers that are 0 or 1;
- floating point numbers become one of 16 bits or more by rounding, as numpy does it, unless a finite one becomes
  infinite; a smaller one only where every value is exact in it. They never become integers or booleans;
- text is text: strings, or bytes in UTF-8;
- complex numbers, dates, Python objects, masked elements and None are no tensors of ONNX.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnx_systemds.errors import TranspileError, escaped, quoted, quoted_list
from onnx_systemds.model.ir import Array, MapType, OptionalType, SequenceType, TensorType, Type
from onnx_systemds.model.protos import integer_range, numpy_dtype

_EXACT = 2**53  # up to here the engine, which knows doubles only, holds every integer
_ROUNDED = frozenset(["double", "float", "float16", "bfloat16"])

_NO_TEXT = 'what is missing is no text: give what the model was trained with in its place, "" for instance'


class InvalidInput(TranspileError):
    """An input tensor does not fit the model."""


def check_is_mapping(given: object, known: Sequence[str]) -> None:
    """Raise InvalidInput for inputs that are not given by their names, as a single array is."""
    if not isinstance(given, Mapping):
        shown = ", ".join(map(quoted, known)) or "none"
        raise InvalidInput(f"inputs are given by their names, {{NAME: array}}, not as {type(given).__name__}",
                           hint=f"the inputs of the model: {shown}")


def check_names(given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise InvalidInput where an input is missing, or one is given that the model does not have."""
    check_is_mapping(given, known)
    for name in known:
        if name not in given:
            others = quoted_list(str(other) for other in given if other not in known)
            raise InvalidInput(f"input {quoted(name)} is missing" + (f"; given is {others}" if others else ""))
    for name in given:
        if name not in known:
            shown = ", ".join(map(quoted, known)) or "none"
            raise InvalidInput(f"the model has no input {quoted(str(name))}; its inputs: {shown}")


def given_values(given: Mapping[str, Any], types: Mapping[str, Type | None]) -> dict[str, Any]:
    """What is given for each input, see `given_value`. Raises InvalidInput, also for names that are no inputs."""
    check_names(given, list(types))
    return {name: given_value(name, content, types[name]) for name, content in given.items()}


def given_value(name: str, given: Any, type_: Type | None) -> Any:
    """What is given for an input of an ONNX type: an array, the list of a sequence, None for an absent optional.

    An array of any type where the model declares none. Raises InvalidInput.
    """
    if isinstance(type_, TensorType):
        return given_tensor(name, given, type_.dtype)
    if isinstance(type_, OptionalType):
        return None if given is None else given_value(name, given, type_.element)
    if isinstance(type_, SequenceType):
        items = enumerate(_listed(name, given))
        return [given_value(f"{name}/{number}", item, type_.element) for number, item in items]
    if isinstance(type_, MapType):
        return given_map(name, given, type_)
    return given if type_ is not None else np.asarray(given)


def given_list(name: str, given: Any, dtype: str, *, optional: bool) -> Any:
    """A list of tensors of one element type; None where it may be absent. Raises InvalidInput."""
    if given is None and optional:
        return None
    return [given_tensor(f"{name}/{number}", item, dtype) for number, item in enumerate(_listed(name, given))]


def given_map(name: str, given: Any, type_: MapType) -> dict[Any, Any]:
    """A map with keys and values of the declared types. Raises InvalidInput."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"input {quoted(name)} is a map, got {_described(given)}")
    keys = given_tensor(f"{name}/keys", list(given), type_.key).tolist()
    if not isinstance(type_.value, TensorType):
        return dict(zip(keys, given.values()))
    return dict(zip(keys, given_tensor(f"{name}/values", list(given.values()), type_.value.dtype).tolist()))


def given_tensor(name: str, given: Any, dtype: str) -> Array:
    """An array of the ONNX element type ``dtype``, strings as objects; see the module. Raises InvalidInput."""
    array = _array(name, given)
    if dtype == "string":
        return _texts(name, array)
    wanted = numpy_dtype(dtype)
    if array.dtype == wanted:
        return array
    have, want = _kind(array.dtype), _kind(wanted)
    if array.size == 0 and have and not isinstance(given, np.ndarray):
        return array.astype(wanted)  # an empty Python list is of no type
    if not have or not want or (have == "float" and want != "float"):
        raise _refusal(name, dtype, _described(array))
    if want == "bool" or want == "int":
        return _as_integers(name, array, wanted, dtype)
    if array.dtype in (np.int64, np.uint64) and np.any((array > _EXACT) | (array < -_EXACT)):
        raise _refusal(name, dtype, f"{array.dtype} with a value beyond 2^53")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(wanted)
        if have == "float" and dtype in _ROUNDED:
            inexact = np.isfinite(array) & ~np.isfinite(converted)
        else:
            back = converted.astype(array.dtype)
            inexact = (back != array) & ~((back != back) & (array != array))
    if inexact.any():
        raise _refusal(name, dtype, f"{array.dtype} with the value {array[inexact][0]}")
    return converted


def _array(name: str, given: Any) -> Array:
    if given is None:
        raise InvalidInput(f"input {quoted(name)} is None")
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InvalidInput(f"input {quoted(name)} has masked elements")
    try:
        return np.asarray(given)
    except Exception as error:  # ragged lists, and whatever the conversion of a foreign class raises
        raise InvalidInput(f"input {quoted(name)} is no array: {escaped(str(error))}") from error


def _texts(name: str, array: Array) -> Array:
    """Strings as objects; bytes are decoded."""
    if array.dtype.kind == "U" or (array.size == 0 and array.dtype.kind not in "cmM"):
        return array.astype(object)
    if array.dtype.kind not in "SO":
        raise _refusal(name, "string", _described(array))
    found = np.empty(array.shape, object)
    for position, text in np.ndenumerate(array):
        try:
            found[position] = text.decode("utf-8") if isinstance(text, bytes) else text
        except UnicodeDecodeError:
            raise InvalidInput(f"input {quoted(name)}: element {list(position)} is not UTF-8") from None
        if not isinstance(found[position], str):
            raise InvalidInput(
                f"input {quoted(name)} is declared as string, element {list(position)} is {escaped(repr(text))}",
                hint=_NO_TEXT if text is None or text != text else "",
            )
    return found


def _as_integers(name: str, array: Array, wanted: np.dtype[Any], dtype: str) -> Array:
    lowest, highest = integer_range(dtype)
    numbers = array if array.dtype.kind in "iu" else array.astype(np.int64)
    for value in (numbers.min(), numbers.max()) if array.size else ():
        if not lowest <= int(value) <= highest:
            raise _refusal(name, dtype, f"{array.dtype} with the value {value}")
    return array.astype(wanted)


def _kind(dtype: np.dtype[Any]) -> str:
    """bool, int or float; "" for what is no real number."""
    found = re.match(r"bool|u?int|b?float", dtype.name)
    return "" if found is None else found[0].lstrip("u") if found[0] != "bfloat" else "float"


def _listed(name: str, given: Any) -> Sequence[Any]:
    if isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim):
        return list(given)
    raise InvalidInput(f"input {quoted(name)} is a list of tensors, got {_described(given)}")


def _described(given: Any) -> str:
    if isinstance(given, np.ndarray):
        return "Python objects" if given.dtype == object else "text" if given.dtype.kind in "SU" else str(given.dtype)
    return "None" if given is None else type(given).__name__


def _refusal(name: str, dtype: str, given: str) -> InvalidInput:
    return InvalidInput(f"input {quoted(name)} is declared as {dtype}, got {given}")
