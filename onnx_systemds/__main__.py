"""``python -m onnx_systemds`` is the command line, and so is the installed ``onnx-systemds``."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""The exit code of what was ended by Ctrl-C, as a shell gives it."""


def run() -> None:
    """Run the command line; an interruption ends it in words, also while its modules are imported."""
    try:
        from onnx_systemds.cli import main

        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
