"""Text: operators that work on codes as on numbers, and those that make new strings."""

from __future__ import annotations

from onnx_systemds.operator_generators.registry import takes_text

# They move or compare elements, and a code is as good as a number. Control flow hands text on.
takes_text(
    "CenterCropPad", "Compress", "Concat", "ConcatFromSequence", "DepthToSpace", "Equal", "Expand", "Flatten", "Gather",
    "GatherElements", "GatherND", "Identity", "If", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement",
    "Reshape", "ReverseSequence", "Scan", "Scatter", "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct",
    "SequenceErase", "SequenceInsert", "SequenceLength", "Shape", "Size", "Slice", "SpaceToDepth", "Split",
    "SplitToSequence", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
)  # fmt: skip
