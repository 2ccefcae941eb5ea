"""The result of an import: a DML script, its interface, and its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx_systemds import templates
from onnx_systemds.dims import Dims
from onnx_systemds.errors import TranspileError
from onnx_systemds.files import is_stream, new_folder, replacing
from onnx_systemds.importing.batching import Batch
from onnx_systemds.importing.ir import MapType
from onnx_systemds.importing.weights import Weight, write_list
from onnx_systemds.numbers import string_literal


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the main function: its ONNX name, element type and dims.

    kind: "tensor"; "sequence", "optional" or "optional sequence" are DML lists, dtype and dims are those of the items.
    dims: None where the rank of a list's items is unknown. item_dims: of each item of a list, where it is known.
    "maps" is a sequence of maps with the same keys: the matrix of their values with a column for each of ``keys``.
    "map" is one map of the ONNX type ``map_type``: a matrix of two columns, the keys and the values; a frame where
    either is text.
    """

    name: str
    dtype: str
    dims: Dims
    kind: str = "tensor"
    item_dims: tuple[Dims, ...] | None = None
    keys: tuple[int, ...] | tuple[str, ...] = ()
    map_type: MapType | None = None

    @property
    def is_list(self) -> bool:
        """Whether it is a DML list."""
        return self.kind not in ("tensor", "maps", "map")


@dataclass(frozen=True, slots=True)
class Script:
    """A generated script.

    function: name of the main function; its parameters are ``inputs``, then one integer for each of ``sizes``
    (symbols that the inputs do not determine), then the list of weights if there are any. Its results are ``outputs``,
    then one integer for each of ``returned`` (symbols that the outputs' matrices do not tell).
    batch: the axis whose parts can be scored apart, if there is one.
    """

    function: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    sizes: tuple[str, ...]
    returned: tuple[str, ...]
    weights: tuple[Weight, ...]
    header: tuple[str, ...]
    library: tuple[str, ...]
    functions: tuple[str, ...]
    batch: Batch | None = None

    @property
    def text(self) -> str:
        """The script, its weights expected in ``<function>.weights``."""
        return self.text_for(f"{self.function}.weights")

    def text_for(self, weights_folder: str) -> str:
        """The script with the folder of the weights as DML sees it: relative to where the engine is started."""
        functions = list(self.functions)
        if self.weights:
            init = templates.template("init.dml.jinja").render(
                main=self.function, name=f"{self.function}_init", folder=string_literal(weights_folder)
            )
            functions.append(init.rstrip("\n"))
        return templates.template("script.dml.jinja").render(
            header=self.header, library=self.library, functions=functions
        )

    def body_text(self) -> str:
        """The functions without the one that reads the weights from disk."""
        return templates.template("script.dml.jinja").render(
            header=self.header, library=self.library, functions=self.functions
        )

    def save(self, path: str | Path, progress: Callable[[int], None] | None = None) -> None:
        """Write the script, and its weights into ``<stem>.weights`` beside it; complete or not at all.

        ``progress`` is called with the number of weight bytes written so far. Raises OSError, and TranspileError where
        weights would have to lie beside a device or pipe.
        """
        target = Path(path)
        folder = target.with_suffix(".weights")
        if not self.weights:
            with replacing(target) as stream:
                stream.write(self.text.encode())
            return
        if is_stream(target) or folder == target:
            raise TranspileError("there is no place for the weights beside it", target, "use: --weights inline")
        with replacing(target) as stream:
            stream.write(self.text_for(str(folder)).encode())
            stream.flush()  # the script is whole on the disk before older weights are replaced
            with new_folder(folder):
                write_list(folder, "weights", self.weights, progress)
