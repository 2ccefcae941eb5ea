"""The optimizers that the program which trains a model can use: those of SystemDS, by their names in ``nn/optim``."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_systemds.importing.interface import assigned_call

DECAY = "weight_decay"
"""The argument of an update function by which it makes parameters smaller."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer. states: columns that it keeps beside the parameters. rate: by default.

    arguments: of its update function between the rate and the states; ``t`` is the number of updates before.
    weight_decay: by default; where ``decays`` it is an argument, else the gradient gets it.
    """

    name: str
    rate: float
    arguments: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    weight_decay: float = 0

    @property
    def decays(self) -> bool:
        """Whether its update function itself makes parameters smaller."""
        return DECAY in self.arguments

    @property
    def path(self) -> str:
        """Of its script."""
        return f"nn/optim/{self.name}.dml"

    @property
    def init(self) -> str:
        """The statement that sets its states, "" if it has none."""
        if not self.states:
            return ""
        return assigned_call(f"{self.name}::init", ["parameters"], self.states)

    @property
    def update(self) -> str:
        """The statement that changes parameters and states by the gradient."""
        arguments = ("parameters", "gradient", "rate", *self.arguments, *self.states)
        return assigned_call(f"{self.name}::update", arguments, ["parameters", *self.states])

    @property
    def step(self) -> str:
        """The statement that calls the program's function for an update."""
        arguments = ("parameters", "gradient", "t", "share", *self.states)
        return assigned_call("update", arguments, ["parameters", *self.states])


OPTIMIZERS = {optimizer.name: optimizer for optimizer in (
    Optimizer("adam", 0.001, ("0.9", "0.999", "1e-8", "t"), ("m", "v")),
    Optimizer("adamw", 0.001, ("0.9", "0.999", "1e-8", DECAY, "t"), ("m", "v"), 0.01),
    Optimizer("rmsprop", 0.001, ("0.99", "1e-8"), ("cache",)),
    Optimizer("adagrad", 0.01, ("1e-6",), ("cache",)),
    Optimizer("sgd", 0.01),
    Optimizer("sgd_momentum", 0.01, ("0.9",), ("v",)),
    Optimizer("sgd_nesterov", 0.01, ("0.9",), ("v",)),
)}
"""By name."""
DEFAULT = "adam"
"""The optimizer where none is named."""
CONSTANT = "constant"
"""The schedule of a rate that stays the same."""
SCHEDULES = {"linear": "1 - (epoch - 1) / epochs", "cosine": "(1 + cos(pi * (epoch - 1) / epochs)) / 2"}
"""Others, and the share of the rate that an epoch has."""
