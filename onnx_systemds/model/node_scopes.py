"""The modules that nodes are of: PyTorch writes them into metadata, or into the names of nodes."""

from __future__ import annotations

import re
from typing import Any

_KEY = "pkg.torch.onnx.name_scopes"
_ENTRY = re.compile(r"'([^']*)'")
_PARTS = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST = 4096


def scope_of(name: str, metadata: Any) -> tuple[str, ...]:
    """The words of a node's scope, outermost first: of ``m.encoder.layer.0``, or of ``/m/encoder/layer.0/MatMul``.

    metadata: the node's metadata_props. The last of the scopes there is the node itself.
    """
    for pair in metadata:
        if pair.key == _KEY:
            scopes = _ENTRY.findall(pair.value[:_LONGEST])
            return _words(scopes[-2]) if len(scopes) > 1 else ()
    return _words(name[:_LONGEST].rpartition("/")[0]) if "/" in name else ()


def _words(path: str) -> tuple[str, ...]:
    return tuple(filter(None, _PARTS.split(path)))
