"""Short names of values that exporters call by the module that makes them.

PyTorch's older exporter writes ``/resnet/encoder/stages.0/layers.1/layer/layer.0/convolution/Conv_output_0``,
TensorFlow's ``StatefulPartitionedCall/model/dense/MatMul:0``. A reader needs as much of the path's end as tells the
value from others, and no type of operator where its module makes one value:
``stages_0_layers_1_layer_0_convolution``. The same holds for weights, ``model.encoder.layer.0.query.bias``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping

_FIRST_OUTPUT = re.compile(r"(?:_output_0|:0)$")
_LONGEST_NAME = 400  # names of other exporters hold source code: each end of a path is counted
_LEAST_PARTS = 2
_FEWEST_DOTS = 3

NUMBERED = "onnx::"
"""What names begin with that tell nothing: ``onnx::Conv_205`` is a weight that PyTorch's older exporter has folded."""

ModulePath = tuple[str, ...]
"""The words of a path: of the modules around a value or node, outermost first."""


def is_path(name: str) -> bool:
    """Whether a name is the path of a module and what that makes or holds, or a number that PyTorch's exporter gave."""
    is_known = "/" in name or name.startswith(NUMBERED) or name.count(".") >= _FEWEST_DOTS
    return is_known and len(name) <= _LONGEST_NAME


def short_names(names: Iterable[str]) -> dict[str, str]:
    """What to call each value that a path names, by its full name; the others are left out."""
    paths = {name: path for name in names if is_path(name) and (path := _path(name))}
    ends = Counter(end for path in paths.values() for end in _ends(path))
    modules = Counter(end for path in paths.values() for end in _ends(path[:-1]))
    return {name: _short(path, ends, modules if "/" in name else {}) for name, path in paths.items()}


def shortened(name: str, short: Mapping[str, str]) -> str:
    """A name, or one that is made of a value's and an ending, with that value's short name for its full one."""
    full = beginning_in(name, short)
    return short[full] + name[len(full) :] if full else name


def beginning_in(name: str, names: Container[str]) -> str:
    """The longest of ``names`` that a name is, or begins with before an underscore or a slash; "" if none."""
    end = len(name)
    while end > 0 and is_path(name[:end]):
        if name[:end] in names:
            return name[:end]
        end = max(name.rfind("_", 0, end), name.rfind("/", 0, end))
    return ""


def _path(name: str) -> ModulePath:
    """The parts of a path, none that the next one repeats: ``layer/layer.0`` is ``layer.0``."""
    parts = [part for part in _FIRST_OUTPUT.sub("", name).split("/" if "/" in name else ".") if part]
    return tuple(part for part, following in zip(parts, [*parts[1:], ""])
                 if following != part and not following.startswith(f"{part}."))


def _ends(path: ModulePath) -> Iterable[ModulePath]:
    return (path[start:] for start in range(len(path)))


def _short(path: ModulePath, ends: Mapping[ModulePath, int], modules: Mapping[ModulePath, int]) -> str:
    """The shortest end that no other value has, without the operator where its module has no other value."""
    for count in range(min(_LEAST_PARTS, len(path)), len(path) + 1):
        end = path[len(path) - count :]
        module = end[:-1]
        if ends[end] == 1 and (count == len(path) or not end[0][:1].isdigit()):
            return "_".join(module if modules.get(module) == 1 else end)
    return "_".join(path)
