"""Which arguments of a builtin the engine takes by name and which by place: `check_form` refuses others, as it does."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.errors import UnsupportedCase

BY_NAME = frozenset(
    (
        "aggregate", "cdf", "contains", "groupedAggregate", "icdf", "lower.tri", "order", "pchisq", "pexp",
        "pf", "pnorm", "pt", "qchisq", "qexp", "qf", "qnorm", "qt", "rand", "Rand", "removeEmpty", "replace",
        "transformapply", "transformdecode", "transformencode", "upper.tri"
    )
)
"""Those that pass over what has no name."""
FILLED = ("matrix", "frame")
"""Those whose first argument, which fills them, may have a name or none, and all others have names or none has."""
FREE = frozenset(
    (
        "assert", "batch_norm2d", "countDistinct", "eigen", "eval", "evalList", "exists", "fft",
        "fft_linearized", "ifft", "ifft_linearized", "list", "lstm", "lu", "print", "qr", "read", "remove",
        "stop", "svd", "toString", "unique", "write"
    )
)
"""Those that take any, and those of several results."""

IN_DML = frozenset(("sigmoid",))
"""Those that SystemDS defines in DML, and that have an exporter all the same."""


def check_form(name: str, places: int, names: Sequence[str]) -> None:
    """Raise UnsupportedCase where the engine does not take `places` arguments without names before those of `names`."""
    if name in BY_NAME:
        if places:
            raise UnsupportedCase(f"the engine takes the arguments of {name} by name only",
                                  hint=f"write {name}(target=..." if name.lower() != "rand" else "")
    elif name in FILLED:
        _check_filled(name, places, names)
    elif name not in FREE and names and not places:
        raise UnsupportedCase(f"the engine takes the arguments of {name} by position", hint=f"without {names[0]}=")


def _check_filled(name: str, places: int, names: Sequence[str]) -> None:
    if places + len(names) < 3:
        raise UnsupportedCase(f"{name} must have three arguments at least: data, rows and cols")
    if places > 1 and names:
        raise UnsupportedCase(f"arguments of {name} with and without names", hint="only the first may lack its name")
    if not places and names[0] != "data":
        raise UnsupportedCase(f"the first argument of {name} must be data")
