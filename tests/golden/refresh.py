"""Write the golden files anew, to be reviewed in the diff: ``python -m tests.golden.refresh [scripts] [references]``.

The references come from onnxruntime, never from our own engine; the scripts are what the importer generates today.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime

from onnx_systemds import import_model
from tests.golden.models import GOLDENS

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


def main(what: list[str]) -> None:
    """Write what is asked for; both without arguments."""
    for name, build in GOLDENS.items():
        if not what or "references" in what:
            (FOLDER / "output_reference" / f"{name}_reference.out").write_text(reference_text(name))
        if not what or "scripts" in what:
            (FOLDER / "scripts" / f"{name}.dml").write_text(import_model(build().model).text_for(f"{name}.weights"))


if __name__ == "__main__":
    main(sys.argv[1:])
