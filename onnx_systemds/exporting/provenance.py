"""What a model says of the script it was made of, the same in whatever folder it was."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import helper

from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import escaped
from onnx_systemds.exporting.sources import JAR_PREFIX
from onnx_systemds.version import __version__

_UNNAMED = "<text>"
PRODUCER = "onnx-systemds"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The script that a model is made of, and its function (None: all of it). folder: where a text is taken to be."""

    script: tree.Script
    function: str | None
    folder: str | Path | None

    def name(self) -> str:
        """The file's name; of a script of SystemDS, its path in the jar."""
        return self.shown(self.script.file)

    def place(self, place: str) -> str:
        """Return a ``file:line`` as written into the model."""
        file, colon, line = place.rpartition(":")
        return f"{self.shown(file)}{colon}{line}" if colon else place

    def shown(self, file: str) -> str:
        """Return the path of a script, relative to the folder of this one; ``scripts/...`` for those of SystemDS."""
        if file.startswith(JAR_PREFIX):
            return file.removeprefix(JAR_PREFIX)
        if file == _UNNAMED:
            return file
        return escaped(Path(os.path.relpath(file, self._base())).as_posix())

    def _base(self) -> str | Path:
        file = self.script.file
        if file == _UNNAMED or file.startswith(JAR_PREFIX):
            return self.folder or "."
        return Path(file).parent

    def describe(self, model: onnx.ModelProto) -> None:
        """Write into a model who made it, and of what."""
        name = self.name()
        model.producer_name, model.producer_version = PRODUCER, __version__
        model.doc_string = f"the function {self.function} of {name}" if self.function else f"the script {name}"
        facts = {"script": name}
        if self.script.text:  # none where the tree was built by a program
            facts["script_sha256"] = hashlib.sha256(self.script.text.encode("utf-8", "surrogatepass")).hexdigest()
        if self.function:
            facts["function"] = self.function
        helper.set_model_props(model, facts)
