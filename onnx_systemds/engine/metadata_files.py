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


def write_list_metadata(path: Path, count: int) -> None:
    """Write the ``.mtd`` file of the folder of a list with so many items. Raises OSError."""
    write_metadata(path, {"data_type": "list", "value_type": "unknown", "rows": count, "cols": 1, "format": "binary"})
