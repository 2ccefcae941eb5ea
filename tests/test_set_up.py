"""``scripts/set_up`` on a machine that has all that it needs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "set_up"


@pytest.mark.skipif(not Path("/sbin/ldconfig").exists(), reason="no system that set_up installs on")
def test_nothing_is_installed_where_all_is_there(tmp_path: Path) -> None:
    for name, text in (("java", "echo jdk.incubator.vector"), ("python3", ""), ("apt-get", "echo apt-get"), ("id", "echo 0")):
        program = tmp_path / "programs" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    for name in ("scripts/set_up", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(SCRIPT if name == "scripts/set_up" else tmp_path / "programs" / "python3", tmp_path / name)
    environment = {"PATH": f"{tmp_path / 'programs'}:/usr/bin:/bin"}  # as Debian's users have it, without sbin
    done = subprocess.run([tmp_path / "scripts/set_up", "pipelines"], env=environment, capture_output=True, text=True,
                          check=True)
    assert done.stdout + done.stderr == ""
