"""Write the golden files anew, to be reviewed in the diff: ``python -m tests.golden.refresh [scripts] [references]``.

The references come from onnxruntime, never from our own engine; the scripts are what the importer generates today.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime

from onnx_systemds import import_model
from tests.golden.models import GOLDENS, REAL
from tests.model_zoo import MODELS

FOLDER = Path(__file__).parent


def reference_text(name: str) -> str:
    """All outputs of all calls of a golden model as CSV lines, in the order in which the wrapper appends them."""
    golden = GOLDENS[name]()
    session = onnxruntime.InferenceSession(golden.model.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = []
    for inputs in golden.calls:
        for output in session.run(None, inputs):
            rows += np.asarray(output, np.float64).reshape(output.shape[0], -1).tolist()
    return "".join(",".join(map(repr, row)) + "\n" for row in rows)


def real_script(name: str) -> str:
    """The script of one of the shared models."""
    assert MODELS is not None
    return import_model(MODELS / "real" / f"{name}.onnx").text_for(name)


def main(what: list[str]) -> None:
    """Write what is asked for; both without arguments."""
    for name, build in GOLDENS.items():
        if not what or "references" in what:
            (FOLDER / "output_reference" / f"{name}_reference.out").write_text(reference_text(name))
        if not what or "scripts" in what:
            (FOLDER / "scripts" / f"{name}.dml").write_text(import_model(build().model).text_for(name))
    if MODELS is not None and (not what or "scripts" in what):
        for name in REAL:
            (FOLDER / "scripts" / f"{name}.dml").write_text(real_script(name))


if __name__ == "__main__":
    main(sys.argv[1:])
