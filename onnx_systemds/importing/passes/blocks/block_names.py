"""What a repeated sequence and its variables are called: by the scopes of the nodes that it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import takewhile

from onnx_systemds.dml.module_paths import ModulePath
from onnx_systemds.dml.names import legal_identifier
from onnx_systemds.importing.origins import Origin

_MOST = 0.8  # of the nodes of a sequence that a scope has to hold
_WORDS_OF_NAME = 2


def common_scope(origins: Sequence[object]) -> ModulePath:
    """The innermost scope that holds most of the nodes; empty where they have none."""
    scopes = [origin.scope for origin in origins if isinstance(origin, Origin)]
    held = Counter(scope[:length] for scope in scopes for length in range(1, len(scope) + 1))
    return max((scope for scope, count in held.items() if count >= _MOST * len(scopes)), key=len, default=())


def block_name(scopes: Sequence[ModulePath]) -> str:
    """The name of a sequence by the scopes of its instances: ``encoder.layer.0`` is called encoder_layer."""
    words = [tuple(word for word in scope if not word.isdigit()) for scope in scopes]
    if len(set(words)) > 1 or not words[0]:
        return "block"
    return legal_identifier("_".join(words[0][-_WORDS_OF_NAME:]), "block")


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
