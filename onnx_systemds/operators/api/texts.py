"""The strings of a script for generators: codes, and the dictionary of their strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_systemds.model.texts import Vocabulary
from onnx_systemds.operators.api.reserved_names import NEW_TEXTS


class Texts:
    """The strings that are known at conversion, and the dictionary of those that the run makes, too."""

    def __init__(self, vocabulary: Vocabulary, dictionary: Callable[[], str]) -> None:
        self._vocabulary = vocabulary
        self._dictionary = dictionary

    def code(self, text: str) -> int:
        """The code of a string that is known at conversion."""
        return self._vocabulary.code(text)

    def codes(self, strings: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The codes of a tensor of strings that is known at conversion."""
        return self._vocabulary.codes(strings)

    def dictionary(self) -> str:
        """The dictionary of strings, as an argument."""
        return self._dictionary()

    def extending(self, call: str, *results: str) -> str:
        """A statement that assigns the results of a call, the last of which is the dictionary with new strings."""
        return f"[{', '.join(results)}, {NEW_TEXTS}] = {call}"
