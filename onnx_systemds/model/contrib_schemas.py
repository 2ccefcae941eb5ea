"""Signatures of onnxruntime's own operators, which ONNX has no schemas for: names, and the attributes' defaults.

Nearly all are of domain com.microsoft, version 1; a few layer normalizations, and what ONNX once tried out, stand in
ONNX's own domain.
Names end in ``?`` where they are optional and in ``*`` where there may be any number.
Defaults are those of onnxruntime's schemas, or of its documentation where a schema is silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from onnx_systemds.errors import quoted

CONTRIB = "com.microsoft"

Default = int | float | str | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ContribSchema:
    """The signature of one operator. attributes: their defaults, None where there is none."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Default]


SCHEMAS: dict[tuple[str, str], ContribSchema] = {}

REFUSED: dict[str, str] = {}
"""Operators of com.microsoft that will not be converted, and why."""


def find_contrib_schema(domain: str, op_type: str) -> ContribSchema | None:
    """The signature of an operator, None where it is none of onnxruntime's or not in the table."""
    return SCHEMAS.get((domain, op_type))


def contrib_default(domain: str, op_type: str, name: str) -> Default:
    """The default of an attribute, None where there is none."""
    schema = find_contrib_schema(domain, op_type)
    return None if schema is None else schema.attributes.get(name)


def unknown_parts(domain: str, op_type: str, inputs: Sequence[str], attributes: Iterable[str]) -> list[str]:
    """What a node has that the signature of its operator has not: inputs by their place, attributes by their name."""
    schema = find_contrib_schema(domain, op_type)
    if schema is None:
        return []
    is_open = bool(schema.inputs) and schema.inputs[-1].endswith("*")
    further = [] if is_open else [place for place, name in enumerate(inputs) if name and place >= len(schema.inputs)]
    unknown = [name for name in attributes if name not in schema.attributes]
    return [*(f"input {place}" for place in further), *(f"the attribute {quoted(name)}" for name in unknown)]


def _operator(op_type: str, inputs: str, outputs: str, **attributes: Default) -> None:
    """Add an operator of com.microsoft."""
    _add((CONTRIB, op_type), inputs, outputs, attributes)


def _add(identity: tuple[str, str], inputs: str, outputs: str, attributes: Mapping[str, Default]) -> None:
    """Add a row; fractions are rounded to FP32, in which onnxruntime keeps them."""
    rounded = {
        name: float(np.float32(default)) if isinstance(default, float) else default
        for name, default in attributes.items()
    }
    SCHEMAS[identity] = ContribSchema(tuple(inputs.split()), tuple(outputs.split()), MappingProxyType(rounded))


def _refused(reason: str, *op_types: str) -> None:
    REFUSED.update(dict.fromkeys(op_types, reason))


_IMAGE: dict[str, Default] = {
    "auto_pad": "NOTSET", "dilations": None, "group": 1, "kernel_shape": None, "pads": None, "strides": None,
}

# --- products and convolutions -----------------------------------------------------------------------------------

_operator("FusedMatMul", "A B", "Y", alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0)
_operator("TransposeMatMul", "A B", "Y", alpha=1.0, transA=0, transB=0)
_operator("FusedMatMulActivation", "A B", "Y", alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0,
          activation=None, activation_alpha=None, activation_beta=None, activation_gamma=None,
          activation_axis=None)
_operator("FusedGemm", "A B C?", "Y", transA=0, transB=0, alpha=1.0, beta=1.0, activation=None,
          activation_alpha=None, activation_beta=None, activation_gamma=None)
_operator("GemmFastGelu", "X W bias?", "Y")
_operator("FusedConv", "X W B? Z?", "Y", **_IMAGE, activation=None, activation_params=None)

_operator("NhwcConv", "X W B?", "Y", **_IMAGE)
_operator("NhwcFusedConv", "X W B? Z?", "Y", **_IMAGE, activation=None, activation_params=None)
_operator("ConvTransposeWithDynamicPads", "X W Pads? B?", "Y", auto_pad="NOTSET", dilations=None, group=1,
          kernel_shape=None, output_padding=None, strides=None)
_EXPERTS: dict[str, Default] = {
    "activation_alpha": 1.0, "activation_beta": 0.0, "activation_type": "relu", "k": 1, "normalize_routing_weights": 0,
    "swiglu_fusion": 0, "swiglu_limit": None, "use_sparse_mixer": 0,
}
_operator("MoE", "input router_probs fc1_experts_weights fc1_experts_bias? fc2_experts_weights fc2_experts_bias? "
          "fc3_experts_weights? fc3_experts_bias?", "output", **_EXPERTS)

_operator("MoEGroupRouter", "logits expert_bias projection_weight?", "router_probs? selection_scores? router_weights?",
          group_topk=2, n_group=1, router_sentinel=-10000.0, top_k=None, topk_group=1)

# --- activations -------------------------------------------------------------------------------------------------

_operator("Gelu", "X", "Y")
_operator("FastGelu", "X bias?", "Y")
_operator("BiasGelu", "A B", "C")
_operator("QuickGelu", "X", "Y", alpha=1.702)
_operator("BiasSplitGelu", "X bias", "Y")
_operator("BiasSoftmax", "data bias", "output", axis=1, is_inner_broadcast=None)
_operator("BiasAdd", "X bias skip", "Y")

_operator("BiasDropout", "data bias residual? ratio? training_mode?", "output mask?", seed=None)
_operator("GatedAdd", "X Y gate", "output")
_operator("ScaledSiLU", "X scale?", "Y", alpha=1.0)

# --- normalizations ----------------------------------------------------------------------------------------------

_STASHED: dict[str, Default] = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
_add(("", "LayerNormalization"), "X Scale B?", "Y Mean? InvStdDev?", _STASHED)
_add(("", "SimplifiedLayerNormalization"), "X scale", "Y inv_std_var?", _STASHED)
_operator("SkipLayerNormalization", "input skip gamma beta? bias?",
          "output mean? inv_std_var? input_skip_bias_sum?", epsilon=1e-12)
_operator("SkipSimplifiedLayerNormalization", "input skip gamma bias?",
          "output mean? inv_std_var? input_skip_bias_sum?", epsilon=1e-12)
_operator("EmbedLayerNormalization",
          "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids?",
          "output mask_index? embedding_sum?", epsilon=1e-12, mask_index_type=0)

_GROUPS: dict[str, Default] = {"activation": None, "channels_last": 1, "epsilon": 1e-5, "groups": None}
_operator("GroupNorm", "X gamma beta", "Y", **_GROUPS)
_operator("SkipGroupNorm", "X gamma beta skip bias?", "Y S?", **_GROUPS)
_operator("GatedRMSNorm", "X scale gate", "Y", activation="silu", epsilon=1e-5)
_operator("BranchwiseRMSNorm", "X scale?", "Y", num_branches=0, epsilon=1e-5)

# --- attention ---------------------------------------------------------------------------------------------------

_operator("Attention", "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
          "output present?", num_heads=None, unidirectional=0, qkv_hidden_sizes=None, past_present_share_buffer=0,
          do_rotary=0, rotary_embedding_dim=0, mask_filter_value=-10000.0, scale=None)
_operator("MultiHeadAttention",
          "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length? "
          "cache_indirection?", "output present_key? present_value? qk?",
          num_heads=None, mask_filter_value=-10000.0, scale=None, unidirectional=0)
_operator("GroupQueryAttention",
          "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache? "
          "position_ids? attention_bias? head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight? query_seqlens?",
          "output present_key? present_value? output_qk?",
          num_heads=None, kv_num_heads=None, scale=None, softcap=0.0, local_window_size=-1, do_rotary=0,
          rotary_interleaved=0, smooth_softmax=-1, qk_output=0, k_quant_type="NONE", v_quant_type="NONE",
          kv_cache_bit_width=None, sliding_window_cache=0, causal=1, qk_norm_epsilon=1e-6,
          q_norm_epsilon=None, k_norm_epsilon=None)
_operator("SparseAttention",
          "query key? value? past_key past_value block_row_indices block_col_indices total_sequence_length "
          "key_total_sequence_lengths cos_cache? sin_cache?", "output present_key present_value", num_heads=None,
          kv_num_heads=None, scale=None, sparse_block_size=None, do_rotary=0, rotary_interleaved=0)
_operator("RotaryEmbedding", "input position_ids cos_cache sin_cache", "output", interleaved=0, num_heads=0,
          rotary_embedding_dim=0, is_packed_batching=0, scale=1.0)

_operator("MRotaryEmbedding", "input position_ids cos_cache sin_cache", "output", mrope_section=None, num_heads=0,
          rotary_embedding_dim=0, interleaved=0, mrope_layout=0, is_packed_batching=0, scale=1.0)
_operator("GemmaRotaryEmbedding", "emb q q_rot k k_rot", "output1 output2")
_operator("DecoderMaskedMultiHeadAttention",
          "query key? value? mask_index? attention_bias? past_key? past_value? past_sequence_length? beam_width? "
          "cache_indirection? bias?", "output present_key? present_value? qk?",
          num_heads=None, mask_filter_value=-10000.0, scale=None, output_qk=0, past_present_share_buffer=0)
_operator("RelativePositionBias", "bias_table query_length key_length", "output", is_bidirectional=0, max_distance=None)
_operator("GatedRelativePositionBias", "query_layer query_bias rel_pos weight bias eco_a token_offset?", "output",
          num_heads=None)
_operator("RemovePadding", "input sequence_token_count", "output token_offset cumulated_seq_len max_seq_len")
_operator("RestorePadding", "input token_offset", "output")
_operator("PackedAttention", "input weights bias token_offset cumulative_sequence_length attention_bias?", "output",
          num_heads=None, qkv_hidden_sizes=None, scale=None)
_operator("PackedMultiHeadAttention",
          "query key? value? bias? token_offset cumulative_sequence_length attention_bias?", "output",
          num_heads=None, mask_filter_value=-10000.0, scale=None)

# --- data movement and the rest ----------------------------------------------------------------------------------

_operator("GatherND", "data indices", "output")
_operator("Inverse", "X", "Y")
_operator("Trilu", "X k?", "Y", upper=1)
_operator("Unique", "x", "y idx counts")
_operator("CropAndResize", "X rois batch_indices crop_size", "Y", mode="bilinear", extrapolation_value=0.0)
_operator("Range", "start limit delta?", "Y")
_operator("ExpandDims", "X axis", "Y")
_operator("Pad", "data pads value?", "output", mode="constant")
_operator("NhwcMaxPool", "x", "y", auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape=None, pads=None,
          strides=None)
_operator("GridSample", "X Grid", "Y", mode="bilinear", padding_mode="zeros", align_corners=0)
_operator("CDist", "A B", "C", metric="sqeuclidean")
_operator("Rfft", "X", "Y", signal_ndim=1, normalized=0, onesided=1)
_operator("Irfft", "X", "Y", signal_ndim=None, normalized=0, onesided=1)
_operator("ComplexMul", "A B", "C")
_operator("ComplexMulConj", "A B", "C")
_operator("UnfoldTensor", "input", "output", dim=-1, size=None, step=1)
_operator("EngramGate", "key query value key_norm_scale query_norm_scale conv_norm_scale?",
          "output gated_value_normed?", epsilon=1e-5)
_operator("HyperConnectionPreMix", "streams pre_mix", "output", num_branches=0, reduction_scale=1.0)
_operator("HyperConnectionPostMix", "streams block_output post_mix stream_mix?", "output", num_branches=0)
_operator("LinearAttention", "query key value past_state? decay? beta?", "output present_state", chunk_size=64,
          kv_num_heads=None, q_num_heads=None, scale=0.0, state_window=0, update_rule="gated_delta")
_operator("LinearAttentionGate", "a dt_bias decay_scale b?", "decay beta?")
_operator("SwiGLU", "gate up?", "output", activation_alpha=1.0, activation_beta=0.0, limit=0.0, round_activation=0)
_operator("CausalConvWithState", "input weight bias? past_state?", "output present_state", activation="none",
          channels_last=0, dilation=1, ndim=1, state_window=0)
_operator("IsAllFinite", "input*", "output", isinf_only=0, isnan_only=0)
_operator("TorchEmbedding", "weight indices padding_idx? scale_grad_by_freq?", "Y")
_operator("SampleOp", "X", "Y")
_operator("MaxpoolWithMask", "X M", "Y", auto_pad="NOTSET", kernel_shape=None, pads=None, storage_order=0, strides=None)

_operator("Tokenizer", "X", "Y", mark=None, mincharnum=None, pad_value=None, separators=None, tokenexp=None)

# --- quantized ---------------------------------------------------------------------------------------------------

_WINDOWS: dict[str, Default] = {"auto_pad": "NOTSET", "kernel_shape": None, "pads": None, "strides": None}
_operator("QuantizeLinear", "x y_scale y_zero_point?", "y", axis=1)
_operator("DequantizeLinear", "x x_scale x_zero_point?", "y", axis=1)
_operator("DynamicQuantizeMatMul", "A B b_scale b_zero_point? bias?", "Y")
_operator("MatMulIntegerToFloat", "A B a_scale b_scale a_zero_point? b_zero_point? bias?", "Y")
_operator("MatMulInteger16", "A B", "Y")
_operator("QGemm", "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?", "Y",
          alpha=1.0, transA=0, transB=0)
_operator("QLinearAdd", "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", "C")
_operator("QLinearMul", "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", "C")
_operator("QLinearSigmoid", "X X_scale X_zero_point? Y_scale Y_zero_point?", "Y")
_operator("QLinearLeakyRelu", "X X_scale X_zero_point? Y_scale Y_zero_point?", "Y", alpha=0.01)
_operator("QLinearSoftmax", "X X_scale x_zero_point? y_scale y_zero_point", "Y", axis=-1, opset=13)
_operator("QLinearConcat", "Y_scale Y_zero_point inputs*", "Y", axis=None)
_operator("QLinearWhere", "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point", "Z")
_operator("QLinearReduceMean", "data data_scale data_zero_point? reduced_scale reduced_zero_point?", "reduced",
          axes=None, keepdims=1)
_operator("QLinearAveragePool", "X x_scale x_zero_point? y_scale y_zero_point?", "Y", **_WINDOWS, ceil_mode=0,
          channels_last=0, count_include_pad=0)
_operator("QLinearGlobalAveragePool", "X x_scale x_zero_point y_scale y_zero_point", "Y", channels_last=0)
_operator("QLinearConv", "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?", "y", **_IMAGE,
          channels_last=0)
_operator("DynamicQuantizeLSTM", "X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale "
          "R_zero_point", "Y? Y_h? Y_c?", activation_alpha=None, activation_beta=None, activations=None, clip=None,
          direction="forward", hidden_size=None, input_forget=0)
_operator("QAttention", "input weight bias input_scale weight_scale mask_index? input_zero_point? "
          "weight_zero_point? past?", "output present?", num_heads=None, unidirectional=0, do_rotary=0,
          past_present_share_buffer=0, mask_filter_value=-10000.0, scale=None)
_operator("QEmbedLayerNormalization", "input_ids segment_ids? word_embedding_quant position_embedding_quant "
          "segment_embedding? gamma_quant beta_quant mask? word_embedding_scale position_embedding_scale "
          "segment_embedding_scale? gamma_scale beta_scale word_embedding_zero_point position_embedding_zero_point "
          "segment_embedding_zero_point? gamma_zero_point beta_zero_point", "layernorm_out mask_index_out",
          epsilon=1e-12)
_operator("QMoE",
          "input router_probs fc1_experts_weights fc1_scales? fc1_experts_bias? fc2_experts_weights fc2_scales? "
          "fc2_experts_bias? fc3_experts_weights? fc3_scales? fc3_experts_bias? fc1_zero_points? fc2_zero_points? "
          "fc3_zero_points? router_weights? fc1_global_scale? fc2_global_scale? fc1_act_scale? fc2_act_scale? "
          "fc1_act_block_scale? fc2_act_block_scale?", "output", **_EXPERTS, accuracy_level=0, block_size=None,
          expert_weight_bits=4, fc1_expert_weight_bits=None, fc2_expert_weight_bits=None, fc3_expert_weight_bits=None,
          quant_type="int", weights_prepacked=-1)
_operator("MulInteger", "A A_zero_point? B B_zero_point?", "C")
_operator("ReduceSumInteger", "data", "reduced", axes=None, keepdims=1)
_operator("MatMulNBits", "A B scales zero_points? g_idx? bias?", "Y", K=None, N=None, bits=4, block_size=None,
          accuracy_level=0, weight_prepacked=0)
_operator("MatMulBnb4", "A B absmax", "Y", K=None, N=None, block_size=None, quant_type=None, training_mode=0, transB=1)
_operator("GatherBlockQuantized", "data indices scales zero_points?", "output", bits=4, block_size=128, gather_axis=0,
          quantize_axis=1)

# --- what ONNX tried out before opset 10 --------------------------------------------------------------------------

_add(("", "Affine"), "X", "Y", {"alpha": 1.0, "beta": 0.0})
_add(("", "Crop"), "input", "output", {"border": None, "scale": None})
_add(("", "DynamicSlice"), "data starts ends axes?", "output", {})
_add(("", "ImageScaler"), "input", "output", {"bias": None, "scale": 1.0})
_add(("", "MeanVarianceNormalization"), "input", "output", {"across_channels": 0, "normalize_variance": 1})
_add(("", "ParametricSoftplus"), "X", "Y", {"alpha": None, "beta": None})
_add(("", "Scale"), "input", "output", {"scale": 1.0})
_add(("", "ScaledTanh"), "input", "output", {"alpha": None, "beta": None})
_add(("", "ThresholdedRelu"), "X", "Y", {"alpha": 1.0})

# --- others ------------------------------------------------------------------------------------------------------

_operator("MurmurHash3", "X", "Y", positive=1, seed=0)
_operator("NGramRepeatBlock", "input_ids scores", "scores_out", ngram_size=None)
_operator("WordConvEmbedding", "Sequence W B C", "Y", char_embedding_size=None, conv_window_size=None,
          embedding_size=None)

# --- refused -----------------------------------------------------------------------------------------------------

_refused("it generates text by running a model within the model, with a search that has no form in DML",
         "BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")
_refused("it is compiled for one accelerator and has no definition", "EPContext", "Snpe")
