"""Text tensors: inside a function they are matrices of codes, and one dictionary holds the strings.

Code i stands for string number i of the frame ``texts``, whose strings are distinct and to which strings are only ever
appended. So everything that moves or compares elements works on text as on numbers. At function boundaries a text
tensor is a frame, and one of rank 0 a string. Strings known at conversion have the first codes, the empty one code 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onnx_systemds.dml.java_text import frame_literal
from onnx_systemds.dml.literals import is_expressible
from onnx_systemds.model.ir import Array

EMPTY = 1
"""The code of the empty string."""


@dataclass
class Vocabulary:
    """The strings that are known at conversion, by code."""

    numbers: dict[str, int] = field(default_factory=lambda: {"": EMPTY})

    def code(self, text: str) -> int:
        """The code of a string, a new one at first use."""
        return self.numbers.setdefault(text, len(self.numbers) + 1)

    def codes(self, strings: Array) -> Array:
        """The codes of a tensor of strings."""
        found = [self.code(text.decode("utf-8") if isinstance(text, bytes) else str(text)) for text in strings.flat]
        return np.array(found, dtype=np.int64).reshape(strings.shape)

    def strings(self) -> Array:
        """All strings as a matrix of one column, in the order of their codes."""
        return np.array(list(self.numbers), dtype=object).reshape(-1, 1)

    @property
    def is_plain(self) -> bool:
        """Whether DML can write all strings without the help of Java."""
        return all(is_expressible(text) for text in self.numbers)

    def literal(self) -> str:
        """The dictionary as DML text: a frame of one column."""
        return frame_literal(list(self.numbers))
