"""The losses that the program which trains a model can minimise: most are layers of SystemDS, by their names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss, the mean over samples. of: what it takes, in words. after: ONNX operators whose results it does not take.

    target: what targets are, in words; "": classes. of_truths: they are from 0 to 1.
    is_layer: it is in ``nn/layers``, else in the template of the program. of_classes: targets may be class numbers.
    of_probabilities: it takes numbers from 0 to 1. of_channels: classes are the second dim, as channels of images are.
    """

    name: str
    of: str
    target: str = ""
    is_layer: bool = True
    of_classes: bool = False
    of_probabilities: bool = False
    of_channels: bool = False
    of_truths: bool = False
    after: tuple[str, ...] = ()

    @property
    def layer(self) -> str:
        """What computes it: takes a row for each sample or place, and a column for each class."""
        return self.name.removesuffix("2d")

    @property
    def path(self) -> str:
        """Of its layer."""
        return f"nn/layers/{self.layer}.dml"

    def call(self, direction: str, result: str, target: str) -> str:
        """The call that gives the loss (forward), or its derivative (backward)."""
        return f"{self.layer}{'::' if self.is_layer else '_'}{direction}({result}, {target})"


LOSSES = {loss.name: loss for loss in (
    Loss("l2_loss", "numbers: half the squared distance", "a number for each of its elements"),
    Loss("l1_loss", "numbers: the absolute difference", "a number for each of its elements"),
    Loss("cross_entropy_loss", "probabilities of classes, after a Softmax", of_classes=True, of_probabilities=True),
    Loss("softmax_cross_entropy_loss", "scores of classes, before a Softmax", of_classes=True,
         after=("Softmax", "LogSoftmax")),
    Loss("cross_entropy_loss2d", "probabilities of classes, a channel for each", of_classes=True,
         of_probabilities=True, of_channels=True),
    Loss("softmax_cross_entropy_loss2d", "scores of classes before a Softmax, a channel for each", of_classes=True,
         of_channels=True, after=("Softmax", "LogSoftmax")),
    Loss("log_loss", "a probability, after a Sigmoid", "0 or 1", of_probabilities=True, of_truths=True),
    Loss("sigmoid_cross_entropy_loss", "a score, before a Sigmoid", "0 or 1", is_layer=False, of_truths=True,
         after=("Sigmoid",)),
)}
"""By name."""
