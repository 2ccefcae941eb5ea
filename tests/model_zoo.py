"""Where the shared models are, for tests that want real ones: ``../shared/models`` beside the repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parent.parent.parent / "shared" / "models"

MODELS: Path | None = _FOLDER if _FOLDER.is_dir() else None
REASON = "the shared models are not on this machine (expected in ../shared/models beside the repository)"

needs_models = pytest.mark.skipif(MODELS is None, reason=REASON)


def model_paths(*folders: str) -> list[Path]:
    """Return the model files in the given sub-folders ("real", "generated", "reject"), sorted; none without MODELS."""
    if MODELS is None:
        return []
    return sorted(path for folder in folders for path in (MODELS / folder).glob("*.onnx"))


def model_cases(*folders: str, where: Callable[[Path], bool] = lambda path: True) -> Sequence[object]:
    """Return pytest parameters, one per model for which `where` holds, or a single skipped one with the reason."""
    found = [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in model_paths(*folders) if where(path)]
    return found or [pytest.param(None, id="no-models", marks=pytest.mark.skip(reason=REASON))]


def groups_by_size(paths: Sequence[Path], most: int = 6) -> list[list[Path]]:
    """The models in groups of the next in size, for tests that run several in one program; the largest come first."""
    ordered = sorted(paths, key=lambda path: -sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")))
    return [ordered[start : start + most] for start in range(0, len(ordered), most)]
