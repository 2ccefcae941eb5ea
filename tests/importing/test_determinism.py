"""Same model, same bytes: every model under two hash seeds, scripts and weights."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.model_zoo import MODELS, needs_models

CHILD = """
import hashlib, sys
from pathlib import Path
from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
for path in sorted(Path(sys.argv[1]).glob("*/*.onnx")):
    digest = hashlib.sha256()
    try:
        script = import_model(path)
        digest.update(script.text.encode())
        for weight in script.weights:
            digest.update(weight.name.encode() + repr(weight.array.shape).encode() + weight.array.tobytes())
    except TranspileError as error:
        digest.update(str(error).encode())
    print(path.name, digest.hexdigest())
"""


def _digests(seed: str) -> list[str]:
    assert MODELS is not None
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(MODELS)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@needs_models
@pytest.mark.slow("all models, twice")
def test_hash_seed_does_not_show() -> None:
    first, second = _digests("1"), _digests("4242")
    assert len(first) >= 72
    assert first == second
