"""What the functions of one script share: names, weights, library functions, refusals."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import is_uniform
from onnx_systemds.dml.module_paths import NUMBERED, shortened
from onnx_systemds.dml.names import Names, legal_identifier
from onnx_systemds.dml.words import RESERVED_WORDS
from onnx_systemds.engine.matrix_files import Weight
from onnx_systemds.errors import Reasons
from onnx_systemds.inference.known_dims import as_int
from onnx_systemds.inference.wide_integers import WideIntegers
from onnx_systemds.model.ir import Array
from onnx_systemds.model.texts import Vocabulary
from onnx_systemds.operators.api.layout import View, item_form
from onnx_systemds.operators.rendering.equal_arrays import equal, sample

LARGEST_LITERAL = 64  # elements of a weight that `auto` still writes into the script
LARGEST_BESIDE_LIST = 8  # the same of a function that takes the list of weights anyway


@dataclass
class ScriptParts:
    """What the functions of one script share.

    weights_mode: "auto", "inline" or "files". release: drops the memory-mapped pages of an array. style: "plain", or
    "nn" with layers of SystemDS. layers: names of files of ``nn/layers`` that are sourced.
    short_names: what values are called whose names are paths.
    errors: what generators refused. in_single_precision: as `values_in_single_precision` gives it.
    """

    weights_mode: str = "auto"
    release: Callable[[Array], None] | None = None
    function_names: Names = field(default_factory=Names)
    style: str = "plain"
    short_names: Mapping[str, str] = field(default_factory=dict)
    imports: dict[str, None] = field(default_factory=dict)
    layers: dict[str, None] = field(default_factory=dict)
    errors: Reasons = field(default_factory=Reasons)
    weights: dict[str, Weight] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)  # names of the functions of sub-graphs, by their texts
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    integers: WideIntegers | None = None
    in_single_precision: frozenset[tuple[int, str]] = frozenset()
    written: dict[str, tree.Block] = field(default_factory=dict)  # by the first output of a node
    _function_keys: dict[str, str] = field(default_factory=dict)
    _weight_keys: dict[int, tuple[Array, str]] = field(default_factory=dict)
    _alike: dict[Hashable, list[str]] = field(default_factory=dict)  # keys of weights, by samples of these

    def function_name(self, hint: str, key: str) -> str:
        """The name of the function that ``key`` stands for, made on first use."""
        if key not in self._function_keys:
            self._function_keys[key] = self.function_names.fresh(hint)
        return self._function_keys[key]

    def weight_key(self, name: str, array: Array, view: View, *, is_trainable: bool = False) -> str:
        """Register a weight under the name of its value, or find an equal one; returns its key in the list.

        Those that a program may train are equal at the start only.
        """
        # by identity: two sub-graphs may call different weights by the same name
        _, key = self._weight_keys.get(id(array), (array, ""))
        if key:
            return key
        matrix = array.reshape(as_int(view.rows), as_int(view.cols))
        alike = [] if is_trainable or array.dtype == object else self._alike.setdefault(sample(matrix), [])
        key = self._equal_weight(matrix, alike)
        if not key:
            key = base = _camel_case(name if name.startswith(NUMBERED) else shortened(name, self.short_names))
            number = 1
            while key in self.weights:
                number += 1
                key = f"{base}x{number}"
            self._weight_keys[id(array)] = (array, key)  # holds the array, so that its id stays its own
            release = self.release
            self.weights[key] = Weight(key, matrix, None if release is None else lambda: release(array))
            alike.append(key)
        return key

    def trainable_key(self, name: str, array: Array) -> str:
        """The key of a weight that a program may train; it has the form of function boundaries unless it has one."""
        return self.weight_key(name, array, item_form(array.shape), is_trainable=True)

    def of_another_function(self) -> ScriptParts:
        """The parts of another function of the script, which shares names and weights."""
        return replace(
            self, imports={}, layers={}, errors=Reasons(), bodies={}, vocabulary=Vocabulary(), written={},
            _function_keys={},
        )

    def _equal_weight(self, matrix: Array, alike: list[str]) -> str:
        """The one of these keys whose weight has the same content, as nodes make it of one initializer; "" if none."""
        for key in alike:
            known = self.weights[key].array
            is_equal = equal(known, matrix)
            if self.release is not None:
                self.release(known)
                self.release(matrix)
            if is_equal:
                return key
        return ""

    def goes_to_file(self, array: Array, *, has_list: bool = False) -> bool:
        """Whether a constant becomes a file beside the script. has_list: whether its function takes weights anyway."""
        if self.weights_mode == "inline" or array.size <= 1:
            return False
        largest = LARGEST_BESIDE_LIST if has_list else LARGEST_LITERAL
        return self.weights_mode == "files" or (array.size > largest and not is_uniform(array))


def _camel_case(name: str) -> str:
    """A list key: an identifier, as `list` takes, without underscores: there the engine cuts the names of its files."""
    first, *rest = legal_identifier(name, "w").split("_")
    key = first + "".join(part[:1].upper() + part[1:] for part in rest)
    return f"{key}0" if key in RESERVED_WORDS else key
