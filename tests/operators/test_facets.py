"""Every operator has every facet that it can have, or stands in a list with the reason why not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from onnx_systemds.cli.facet_table import FACETS, GAP, NONE, YES, facet_lines, facet_rows
from onnx_systemds.inference import registry
from onnx_systemds.inference.registry import batch_rule, size_rule

WITHOUT: Mapping[str, Mapping[str, str]] = {
    "dims": {},
    "samples": {
        "it mixes all elements, counts them, or selects by their content":
            "Compress DynamicQuantizeLinear MeanVarianceNormalization NonMaxSuppression NonZero Shape Size Unique",
        "no input has samples": "BlackmanWindow HammingWindow HannWindow MelWeightMatrix EyeLike Range",
        "lists are no tensors": """ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt
            SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence""",
        "what its sub-graphs do is not looked at": "If Loop Scan",
        "how many words the longest text of all has, or which texts stay": """StringNormalizer StringSplit
            com.microsoft.Tokenizer""",
        "the entries of one map are no samples": "ai.onnx.ml.CastMap ai.onnx.ml.DictVectorizer",
        "a step of training is one for all samples": """ai.onnx.preview.training.Adagrad ai.onnx.preview.training.Adam
            ai.onnx.preview.training.Momentum""",
        "it is not yet said along which axes it keeps elements apart":
            """AffineGrid BitCast CenterCropPad Col2Im CumProd DFT DeformConv Det GridSample
            MaxRoiPool MaxUnpool ReverseSequence RoiAlign STFT Scatter ScatterND TensorScatter
            TfIdfVectorizer com.microsoft.DynamicQuantizeLSTM com.microsoft.Inverse com.microsoft.QGemm com.microsoft.QLinearConcat com.microsoft.QLinearSoftmax
            com.microsoft.QLinearWhere com.microsoft.TransposeMatMul""",
    },
    "sizes": {
        "its integers are positions or counts that the data decides": """ArgMax ArgMin MaxPool NonMaxSuppression NonZero
            TopK Unique Compress ai.onnx.ml.SVMClassifier ai.onnx.ml.LinearClassifier ai.onnx.ml.TreeEnsembleClassifier""",
        "its integers are random": "Bernoulli Multinomial",
        "its integers are looked up, or made of text or features": """StringSplit ai.onnx.ml.ArrayFeatureExtractor
            ai.onnx.ml.Binarizer ai.onnx.ml.CastMap ai.onnx.ml.CategoryMapper ai.onnx.ml.DictVectorizer ai.onnx.ml.Imputer
            ai.onnx.ml.LabelEncoder""",
        "lists are resolved into their items, sub-graphs have sizes of their own":
            "ConcatFromSequence If Loop OptionalGetElement Scan SequenceAt SequenceLength",
        "a size that passes through it is one of the run": """Abs BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr
            BitwiseXor BlackmanWindow CenterCropPad Clip Col2Im CumProd CumSum DepthToSpace Einsum EyeLike Flatten
            GatherElements GatherND Gemm GridSample HammingWindow HannWindow MatMul MelWeightMatrix OneHot PRelu Pad Pow
            ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Relu Resize ReverseSequence Scatter
            ScatterElements ScatterND Shrink Sign SpaceToDepth TensorScatter Tile Trilu Upsample""",
    },
    "gradient": {
        "lists whose items are not known are refused": "OptionalGetElement",
        "rules are for ai.onnx and linear models, of other domains they are refused": """
            ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer ai.onnx.ml.FeatureVectorizer ai.onnx.ml.Imputer
            ai.onnx.ml.LabelEncoder ai.onnx.ml.OneHotEncoder ai.onnx.ml.SVMClassifier ai.onnx.ml.SVMRegressor
            ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier ai.onnx.ml.TreeEnsembleRegressor
            ai.onnx.preview.training.Adagrad ai.onnx.preview.training.Adam ai.onnx.preview.training.Momentum
            com.microsoft.DynamicQuantizeLSTM com.microsoft.Inverse com.microsoft.MurmurHash3
            com.microsoft.QGemm com.microsoft.QLinearAdd com.microsoft.QLinearAveragePool com.microsoft.QLinearConcat
            com.microsoft.QLinearGlobalAveragePool com.microsoft.QLinearLeakyRelu com.microsoft.QLinearMul
            com.microsoft.QLinearSigmoid com.microsoft.QLinearSoftmax com.microsoft.QLinearWhere
            com.microsoft.Tokenizer com.microsoft.TransposeMatMul""",
        "it is refused in words: ONNX gives no definition to be differentiated, and no rule is written yet":
            """BitCast DeformConv Det GlobalLpPool Hardmax
            LpPool MaxRoiPool MelWeightMatrix
            Scatter TensorScatter Unique com.microsoft.CDist""",
    },
    "integers": {
        "its results are indices, floats cut off, interpolated, or items of lists, whose numbers are no larger than 2^53":
            """BlackmanWindow Col2Im EyeLike GridSample HammingWindow HannWindow Loop MelWeightMatrix NonMaxSuppression
            OptionalGetElement Resize Scan SequenceAt Upsample""",
        "features and labels are kept to 2^53, as in attributes": """ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer
            ai.onnx.ml.CategoryMapper ai.onnx.ml.Imputer ai.onnx.ml.LabelEncoder ai.onnx.ml.LinearClassifier
            ai.onnx.ml.SVMClassifier ai.onnx.ml.TreeEnsembleClassifier""",
    },
    "lists": {
        "its shape rule says which items the list has": """Identity Optional SequenceConstruct SequenceEmpty SequenceErase
            SequenceInsert""",
        "lists leave it as those of a branch, or as a list of maps": "If ai.onnx.ml.ZipMap",
    },
    "text": {
        "it computes with numbers, or draws them; text is refused in words":
            "Col2Im GridSample NonZero RandomNormalLike RandomUniformLike Resize Trilu Upsample",
    },
    "layer": {},
}
"""By facet the operators without it, with the reason for each group. Of constants see `test_sizes_fold`."""


def test_every_facet_has_a_list_of_reasons() -> None:
    assert {*WITHOUT, "constants"} == set(FACETS)


@pytest.mark.parametrize("facet", WITHOUT)
def test_every_operator_has_the_facet_or_a_reason(facet: str) -> None:
    """Exactly: an operator that has the facet now must leave the list."""
    gaps = {row.name for row in facet_rows() if row.facets[facet] == GAP}
    listed = " ".join(WITHOUT[facet].values()).split()
    assert len(listed) == len(set(listed))
    assert sorted(gaps - set(listed)) == [], "neither a rule beside the generator nor a reason in WITHOUT"
    assert sorted(set(listed) - gaps) == [], "a reason for what is not missing"


def test_sizes_fold() -> None:
    """What sizes are followed through is computed at conversion, too; all else may be left to the engine."""
    of_dims = {identity for identity, rules in registry.size_rules.items() if all(r.of_dims for r in rules.values())}
    assert set(registry.size_rules) - of_dims <= set(registry.folds)


def test_rules_are_for_operators_that_are_registered() -> None:
    """A misspelt name would never be found."""
    known = {*registry.operator_generators, *registry.expanders}
    for rules in (registry.shape_rules, registry.batch_rules, registry.size_rules, registry.folds,
                  registry.integer_rules, registry.nn_layers):
        assert set(rules) <= known
    defined = {("", "CastLike")}  # by ONNX
    assert {*registry.gradients, *registry.list_rules} - known <= defined
    assert registry.text_operators - known <= defined


def test_table_of_facets() -> None:
    lines = list(facet_lines())
    rows = [line for line in lines if line.startswith("| Gather |")]
    states = [NONE if facet in ("lists", "layer") else YES for facet in FACETS]
    assert rows == [f"| Gather | {' | '.join(states)} |"]
    assert len(lines) > len(registry.operators_of_models())


def test_second_rules_are_errors() -> None:
    with pytest.raises(ValueError, match="is registered at"):
        batch_rule("Relu")(lambda node, position, axis: False)
    with pytest.raises(ValueError, match="is registered at"):
        size_rule("Gather")(lambda node, inputs: None)
