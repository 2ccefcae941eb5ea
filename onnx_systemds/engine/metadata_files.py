"""The ``.mtd`` file beside each file of the engine, which says in JSON what that holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def metadata_path(path: Path) -> Path:
    """The path of the ``.mtd`` file of a file or folder."""
    return path.with_name(f"{path.name}.mtd")


def write_metadata(path: Path, content: Mapping[str, object]) -> None:
    """Write the ``.mtd`` file of a file or folder. Raises OSError."""
    metadata_path(path).write_text(json.dumps(content) + "\n", encoding="utf-8")
