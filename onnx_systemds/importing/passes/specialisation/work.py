"""A script between two passes, and the requested form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnx_systemds.dml import syntax as tree
from onnx_systemds.importing.passes.matrix_sizes import Shape
from onnx_systemds.importing.passes.specialisation.hoisting import Flow, Hoisted, flow_of, impure_functions
from onnx_systemds.operators.api.reserved_names import WEIGHTS


@dataclass(frozen=True)
class Form:
    """The requested form of a specialised script; the default is the form for plain SystemDS.

    is_prepared: whether the caller computes the constants itself and gives them with their sizes, also to a script that
    has no weights; else the init function does that, of a script that has one. hoisted: the names of the constants
    then, None for all. is_serial: whether loops start no threads (see `loops`). flattens: of which matrices extremes
    are taken on one row (see `extremes`). joins_biases: whether biases are joined to weights, which is precise where
    all ``Constants.bounds`` are small (see `sample_columns`). inlined: functions whose bodies replace their calls.
    cuts_images: whether convolutions of one image are made of two strips, for the engine's threads (see `strips`).
    """

    is_prepared: bool = False
    hoisted: frozenset[str] | None = None
    is_serial: bool = True
    flattens: Literal["none", "large", "all"] = "large"
    joins_biases: bool = False
    inlined: frozenset[str] = frozenset()
    cuts_images: bool = True


@dataclass(frozen=True)
class Work:
    """The functions of a script between two passes.

    sizes: of the main function's parameters: rows and columns of a matrix, or the number that a parameter is. weights:
    the names in the list of weights.
    bounds: variables with what maxima are taken with before biases are added. reasons: why passes did not fire.
    """

    main: tree.Function
    functions: Mapping[str, tree.Function]
    form: Form
    sizes: Mapping[str, Shape | int]
    weights: tuple[str, ...]
    bounds: tuple[str, ...] = ()
    hoisted: Hoisted | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def results(self) -> list[str]:
        """The names of the main function's results."""
        return [result.name for result in self.main.results]

    @property
    def hoists(self) -> bool:
        """Whether constants can be hoisted, into an init function or by the caller."""
        return self.form.is_prepared or any(parameter.name == WEIGHTS for parameter in self.main.parameters)

    def flow(self, *impure: str) -> Flow:
        """Which statements are constant now; calls of functions that are ``impure`` are not."""
        return flow_of(self.main.body, [WEIGHTS], self.results, impure_functions(self.functions).union(impure))
