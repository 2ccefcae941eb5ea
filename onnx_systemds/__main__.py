"""``python -m onnx_systemds`` is the command line, and so is the installed ``onnx-systemds``."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from onnx_systemds.cli import INTERRUPTED


def run() -> None:
    """Run the command line; an interruption ends it in words, also while its modules are imported.

    So that nothing half-written is left, it ends in the same way where another process asks it to end.
    """
    for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # Windows has no SIGHUP
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores one of them
            signal.signal(number, _end)
    try:
        from onnx_systemds.cli.commands import main

        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)  # as a shell tells it


if __name__ == "__main__":
    run()
