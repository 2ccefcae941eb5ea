"""``python -m onnx_systemds`` is the command line, and so is the installed ``onnx-systemds``."""

from __future__ import annotations

import sys

from onnx_systemds.cli import INTERRUPTED


def run() -> None:
    """Run the command line; an interruption ends it in words, also while its modules are imported."""
    try:
        from onnx_systemds.cli.commands import main

        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
