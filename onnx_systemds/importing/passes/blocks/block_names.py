"""What a repeated sequence and its variables are called: by the scopes of the nodes that it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

from onnx_systemds.dml.module_paths import ModulePath
from onnx_systemds.dml.names import legal_identifier
from onnx_systemds.importing.origins import Origin

_MOST = 0.8  # of the nodes of a sequence that a scope has to hold
_WORDS_OF_NAME = 2
_NUMBERED = ("v", "val")
"""What the identifiers of values begin with that a model, or PyTorch's exporter, calls by a number."""


def common_scope(origins: Sequence[object]) -> ModulePath:
    """The innermost scope that holds most of the nodes; empty where they have none."""
    scopes = [origin.scope for origin in origins if isinstance(origin, Origin)]
    held = Counter(scope[:length] for scope in scopes for length in range(1, len(scope) + 1))
    return max((scope for scope, count in held.items() if count >= _MOST * len(scopes)), key=len, default=())


def block_name(scopes: Sequence[ModulePath], weights: Iterable[Sequence[str]]) -> str:
    """The name of a sequence by the scopes of its instances: ``encoder.layer.0`` is called encoder_layer.

    weights: what weights are called in the instances. Without scopes ``layers_0_bias`` and ``layers_1_bias`` say it.
    """
    words = [tuple(word for word in scope if not word.isdigit()) for scope in scopes]
    found = words[0] if len(set(words)) == 1 else ()
    if not found:
        held = Counter(filter(None, map(_words_before_number, weights)))
        found = max(held, key=lambda it: held[it], default=())
    return legal_identifier("_".join(found[-_WORDS_OF_NAME:]), "block") if found else "block"


def _words_before_number(names: Sequence[str]) -> tuple[str, ...]:
    """The words that all names begin with before a number that is another in each; none where there is no such."""
    words = [name.split("_") for name in names]
    same = [*takewhile(lambda it: len(set(it)) == 1, zip(*words))]
    numbers = {it[len(same)] for it in words if len(it) > len(same)}
    is_numbered = len(numbers) == len(names) and all(map(str.isdigit, numbers))
    found = tuple(it[0] for it in same if not it[0].isdigit())
    return found if is_numbered and found[:1] and found[0] not in _NUMBERED else ()


def common_name(names: Sequence[str], op_type: str) -> str:
    """What is called ``add_3`` in one instance and ``add_9`` in another: add.

    A value that its model calls by a mere number is called by its operator, ``op_type``. LayerNormalization becomes
    LayerNorm, as in PyTorch: a block of long names is no shorter than what it stands for.
    """
    if len(set(names)) == 1:
        return names[0]
    words = [[word for word in name.split("_") if not word.isdigit()] for name in names]
    first, *others = words[0] or [""]
    if first in _NUMBERED and op_type:
        return legal_identifier("_".join((op_type.replace("Normalization", "Norm"), *others)))
    if any(it != words[0] for it in words) and (ending := common_ending(names)):
        return legal_identifier(ending)
    return legal_identifier("_".join(words[0]))


def local_name(name: str, scope: ModulePath) -> str:
    """What a variable is called within a scope: without the part of that, or of its end, that its name begins with."""
    for start in range(len(scope)):
        prefix = legal_identifier("_".join(scope[start:])) + "_"
        if name.startswith(prefix):
            return legal_identifier(name[len(prefix) :])
    return name


def common_ending(names: Collection[str]) -> str:
    """The last words that all names have, from one on that is no number: LayerNorm_bias; "" if there are none."""
    words = [name.split("_")[::-1] for name in names]
    common = [same[0] for same in takewhile(lambda same: len(set(same)) == 1, zip(*words))]
    while common and not common[-1][:1].isalpha():
        common.pop()
    return "_".join(reversed(common))
