"""What the passes over a graph say of themselves: each pass has a row where it fires and one where it says why not."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from onnx_systemds import import_model
from onnx_systemds.inference import passes
from onnx_systemds.inference.notes import Note, note_lines
from onnx_systemds.verifying.verify import verify_model

HEADER = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1, "local" : 1]>'
QUANTIZED = """g (uint8[4, 4] X) => (uint8[4, 4] Y)
    <float a = {%s}, uint8 z = {3}, float b = {%s}> { y = DequantizeLinear(X, a, z) Y = QuantizeLinear(y, b, z) }"""
HEADS = """g (float[1, 3, 2] X) => (float[1, 2, 3, 1] Y, float[a, b, c, 1] Z)
    <int64[4] s = {1, 3, 2, -1}, float[2, 2] V = {1, 2, 3, 4}, float[2, 2] W = {5, 6, 7, 8}>
    { a = MatMul(X, V) b = Reshape(a, s) Y = Transpose <perm = [0, 2, 1, 3]> (b)
      c = MatMul(X, W) d = Reshape(c, s) Z = Transpose <perm = %s> (d) }"""
MODELS = {
    "hard-swish": """g (float[2] X) => (float[2] Y) <float three = {3}, float zero = {0}, float six = {6}>
        { a = Add(X, three) c = Clip(a, zero, six) m = Mul(X, c) Y = Div(m, six) }""",
    "hard-swish, other nodes also read": """g (float[2] X) => (float[2] Y, float[2] c)
        <float three = {3}, float zero = {0}, float six = {6}>
        { a = Add(X, three) c = Clip(a, zero, six) m = Mul(X, c) Y = Div(m, six) }""",
    "hard-swish, not multiplied": """g (float[2] X) => (float[2] c) <float three = {3}, float zero = {0}, float six = {6}>
        { a = Add(X, three) c = Clip(a, zero, six) }""",
    "common-subexpressions": """g (float[2] X) => (float[2] Y) { a = Exp(X) b = Exp(X) Y = Add(a, b) }""",
    "single-comparisons": """g (float[2] X) => (bool[2] Y) <float c = {0.3}> { Y = Equal(X, c) }""",
    "cast-elimination": """g (float[2] X) => (float[2] Y) { a = Cast <to = 1> (X) Y = Abs(a) }""",
    "cast-elimination, one of the graph's": """g (float[2] X) => (float[2] Y) { Y = Cast <to = 1> (X) }""",
    "transpose-sinking": """g (float[2, 3] X) => (float[2, 3] Y)
        { a = Transpose <perm = [1, 0]> (X) b = Abs(a) Y = Transpose <perm = [1, 0]> (b) }""",
    "transpose-sinking, not be fewer": """g (float[2, 3] X, float[3, 2] Z) => (float[2, 3] Y)
        { a = Transpose <perm = [1, 0]> (X) b = Abs(a) c = Add(b, Z) Y = Transpose <perm = [1, 0]> (c) }""",
    "convolution-folding": """g (float[1, 1, 2, 2] X) => (float[1, 1, 2, 2] Y) <float[1, 1, 1, 1] W = {2}, float s = {3}>
        { c = Conv(X, W) Y = Mul(c, s) }""",
    "convolution-folding, other nodes read": """g (float[1, 1, 2, 2] X) => (float[1, 1, 2, 2] Y, float[1, 1, 2, 2] c)
        <float[1, 1, 1, 1] W = {2}, float s = {3}> { c = Conv(X, W) Y = Mul(c, s) }""",
    "convolution-folding, weights of the Conv": """g (float[1, 1, 2, 2] X, float[1, 1, 1, 1] W) => (float[1, 1, 2, 2] Y)
        <float s = {3}> { c = Conv(X, W) Y = Mul(c, s) }""",
    "convolution-folding, each channel": """g (float[1, 1, 2, 2] X) => (float[1, 1, 2, 2] Y)
        <float[1, 1, 1, 1] W = {2}, float[2] s = {3, 4}> { c = Conv(X, W) Y = Mul(c, s) }""",
    "convolution-folding, pads": """g (float[1, 1, 2, 2] X) => (float[1, 1, 4, 4] Y)
        <float[1, 1, 1, 1] W = {2}, float s = {3}> { c = Add(X, s) Y = Conv <pads = [1, 1, 1, 1]> (c, W) }""",
    "layer-normalization": """g (float[4, 2] X) => (float[4, 2] Y) <float two = {2}, float epsilon = {0.1}>
        { q = Pow(X, two) v = ReduceMean <axes = [-1]> (q) e = Add(v, epsilon) r = Sqrt(e) Y = Div(X, r) }""",
    "layer-normalization, other nodes also read": """g (float[4, 2] X) => (float[4, 2] Y, float[4, 1] r)
        <float two = {2}, float epsilon = {0.1}>
        { q = Pow(X, two) v = ReduceMean <axes = [-1]> (q) e = Add(v, epsilon) r = Sqrt(e) Y = Div(X, r) }""",
    "product-folding": """g (float[4, 2] X) => (float[4, 1] Y) <float[2] s = {2, 3}, float[2, 1] W = {4, 5}>
        { n = LayerNormalization(X, s) Y = MatMul(n, W) }""",
    "product-folding, something else reads": """g (float[4, 2] X) => (float[4, 1] Y, float[4, 2] n)
        <float[2] s = {2, 3}, float[2, 1] W = {4, 5}> { n = LayerNormalization(X, s) Y = MatMul(n, W) }""",
    "product-folding, no constant": """g (float[4, 2] X) => (float[4, 1] Y)
        <float[2] s = {2, 3}, float[2, 1] W = {4, 5}> { n = LayerNormalization(X, s, s) Y = MatMul(n, W) }""",
    "product-folding, too narrow": """g (float[4, 2] X) => (float[4, 1] Y)
        <float[2] s = {1e30, 1e30}, float[2, 1] W = {1e30, 1e30}> { n = LayerNormalization(X, s) Y = MatMul(n, W) }""",
    "gather-hoisting": """g (float[2, 3, 2] X) => (float[2, 2] Y) <int64 first = {0}, float[2, 2] W = {1, 2, 3, 4}>
        { a = MatMul(X, W) b = Relu(a) Y = Gather <axis = 1> (b, first) }""",
    "gather-hoisting, read other places": """g (float[2, 3, 2] X) => (float[2, 2] Y, float[2, 3, 2] b)
        <int64 first = {0}, float[2, 2] W = {1, 2, 3, 4}> { a = MatMul(X, W) b = Relu(a) Y = Gather <axis = 1> (b, first) }""",
    "horizontal-fusion": HEADS % "[0, 2, 1, 3]",
    "horizontal-fusion, not read as heads": HEADS % "[2, 0, 1, 3]",
    "horizontal-fusion, one place": """g (float[1, 3, 2] X) => (float[1, 1, 2] Y)
        <int64[4] s = {1, 3, 2, -1}, int64[3] r = {1, 3, 2}, float[2, 2] U = {1, 2, 3, 4}, float[2, 2] V = {5, 6, 7, 8},
         float[2, 2] W = {9, 10, 11, 12}, int64 first = {0}>
        { a = MatMul(X, U) b = Reshape(a, s) q = Transpose <perm = [0, 2, 1, 3]> (b)
          c = MatMul(X, V) d = Reshape(c, s) k = Transpose <perm = [0, 2, 3, 1]> (d)
          e = MatMul(X, W) f = Reshape(e, s) v = Transpose <perm = [0, 2, 1, 3]> (f)
          g = MatMul(q, k) h = Softmax(g) i = MatMul(h, v) j = Transpose <perm = [0, 2, 1, 3]> (i)
          l = Reshape(j, r) Y = Gather <axis = 1> (l, first) }""",
    "gelu": """g (float[2] X) => (float[2] Y) <float root = {1.41421354}, float one = {1}, float half = {0.5}>
        { d = Div(X, root) e = Erf(d) a = Add(e, one) m = Mul(X, a) Y = Mul(m, half) }""",
    "gelu, other nodes also read": """g (float[2] X) => (float[2] Y, float[2] e)
        <float root = {1.41421354}, float one = {1}, float half = {0.5}>
        { d = Div(X, root) e = Erf(d) a = Add(e, one) m = Mul(X, a) Y = Mul(m, half) }""",
    "gelu, not multiplied": """g (float[2] X) => (float[2] a) <float root = {1.41421354}, float one = {1}>
        { d = Div(X, root) e = Erf(d) a = Add(e, one) }""",
    "row-normalization": """g (float[2, 2] X) => (float[2, 3] Y, int64[2] l)
        { l, p = ai.onnx.ml.LinearClassifier <coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts = [1.0, 2.0, 3.0],
          classlabels_ints = [0, 1, 2], post_transform = "SOFTMAX"> (X)
          Y = ai.onnx.ml.Normalizer <norm = "L1"> (p) }""",
    "row-normalization, no softmax": """g (float[2, 2] X) => (float[2, 3] Y, int64[2] l)
        { l, p = ai.onnx.ml.LinearClassifier <coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts = [1.0, 2.0, 3.0],
          classlabels_ints = [0, 1, 2], post_transform = "LOGISTIC"> (X)
          Y = ai.onnx.ml.Normalizer <norm = "L1"> (p) }""",
    "row-normalization, gives no softmax": """g (float[2, 2] X) => (float[1, 2] Y)
        { l, p = ai.onnx.ml.LinearClassifier <coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts = [1.0, 2.0, 3.0],
          classlabels_ints = [5, 6, 7], post_transform = "SOFTMAX"> (X)
          Y = ai.onnx.ml.Normalizer <norm = "L1"> (l) }""",
    "direction-joining": """g (float[3, 2, 1] X, float[2, 1, 1] W, float[2, 1, 1] R) => (float[3, 2, 2, 1] T)
        { y = RNN <hidden_size = 1, direction = "bidirectional"> (X, W, R) T = Transpose <perm = [0, 2, 1, 3]> (y) }""",
    "direction-joining, other nodes": """g (float[3, 2, 1] X, float[2, 1, 1] W, float[2, 1, 1] R)
        => (float[3, 2, 2, 1] T, float[3, 2, 2, 1] y)
        { y = RNN <hidden_size = 1, direction = "bidirectional"> (X, W, R) T = Transpose <perm = [0, 2, 1, 3]> (y) }""",
    "known-branches": """g (float[2] X) => (float[2] Y) <bool c = {1}>
        { Y = If (c) <then_branch = t () => (float[2] a) { a = Abs(X) }, else_branch = e () => (float[2] b) { b = Neg(X) }> }""",
    "known-branches, when the model runs": """g (float[2] X, bool c) => (float[2] Y)
        { Y = If (c) <then_branch = t () => (float[2] a) { a = Abs(X) }, else_branch = e () => (float[2] b) { b = Neg(X) }> }""",
    "known-lists": """g (float[2] X) => (float[2] Y) <int64 p = {0}> { s = SequenceConstruct(X, X) Y = SequenceAt(s, p) }""",
    "known-lists, position": """g (float[2] X, int64 p) => (float[2] Y) { s = SequenceConstruct(X, X) Y = SequenceAt(s, p) }""",
    "known-lists, items": """g (seq(float[2]) S) => (float[2] Y) <int64 p = {0}> { Y = SequenceAt(S, p) }""",
    "loop-states": """g (int64 n, float[2] X, float[2] W) => (float[2] Y, float[2] Z)
        { Y, Z = Loop (n, , X, W) <body = b (int64 i, bool c, float[2] y, float[2] w) => (bool d, float[2] z, float[2] w)
          { d = Identity(c) z = Mul(y, w) }> }""",
    "own-samples": """g (float[N, 5, 2] X, int64[N] last) => (float[N, 2] Y) <int64 zero = {0}, int64 one = {1}, int64[1] a = {1}>
        { s = Shape <start = 0, end = 1> (X) n = Squeeze(s) r = Range(zero, n, one) i = Unsqueeze(r, a) j = Unsqueeze(last, a)
          k = Concat <axis = 1> (i, j) Y = GatherND(X, k) }""",
    "own-samples, the numbers of the samples": """g (float[N, 5, 2] X, int64[N] last) => (float[N, 2] Y) <int64[1] a = {1}>
        { j = Unsqueeze(last, a) k = Concat <axis = 1> (j, j) Y = GatherND(X, k) }""",
    "samples-first": """g (float[2, N, 3] X) => (float[3, N, 2] Y) <float[3, 3] W = {1, 2, 3, 4, 5, 6, 7, 8, 9}>
        { t = Transpose <perm = [1, 0, 2]> (X) p = MatMul(t, W) Y = Transpose <perm = [1, 2, 0]> (p) }""",
    "samples-first, are not known apart": """g (int64[a, b] I) => (float[a, 2, b, 1] Y)
        <float[3, 2] E = {1, 2, 3, 4, 5, 6}, int64[1] all = {-1}, int64[1] two = {2}, int64[4] d = {0, 0, 2, 1}>
        { f = Reshape(I, all) e = Gather(E, f) s = Shape(I) c = Concat <axis = 0> (s, two) r = Reshape(e, c)
          t = Transpose <perm = [1, 0, 2]> (r) u = Reshape(t, d) Y = Transpose <perm = [1, 2, 0, 3]> (u) }""",
    "zero-states": """g (float[3, N, 1] X, float[1, 1, 1] W, float[1, 1, 1] R) => (float[3, 1, N, 1] Y)
        <int64[1] one = {1}, int64[1] at0 = {0}, int64[1] two = {2}>
        { s = Shape <start = 1, end = 2> (X) d = Concat <axis = 0> (two, s, one) z = ConstantOfShape(d)
          h = Slice(z, at0, one, at0) Y = RNN <hidden_size = 1> (X, W, R, , , h) }""",
    "zero-states, not known to be zeros": """g (float[3, N, 1] X, float[1, 1, 1] W, float[1, 1, 1] R, float[1, N, 1] h) => (float[3, 1, N, 1] Y)
        { Y = RNN <hidden_size = 1> (X, W, R, , , h) }""",
    "zero-states, the sizes of the layer": """g (float[3, N, 1] X, float[1, 1, 1] W, float[1, 1, 1] R, int64[3] d) => (float[3, 1, N, 1] Y)
        { z = ConstantOfShape(d) Y = RNN <hidden_size = 1> (X, W, R, , , z) }""",
    "unit-splits": """g (float[N, 2] X) => (seq(float[1, 2]) Y)
        { n = Shape <end = 1> (X) o = ConstantOfShape <value = int64[1] {1}> (n) Y = SplitToSequence <axis = 0> (X, o) }""",
    "unit-splits, not known to be as many": """g (float[N, 2] X, int64[1] n) => (seq(float[1, 2]) Y)
        { o = ConstantOfShape <value = int64[1] {1}> (n) Y = SplitToSequence <axis = 0> (X, o) }""",
    "unit-splits, not known to be ones": """g (float[N, 2] X, int64[1] n) => (seq(float[2, 2]) Y)
        { o = ConstantOfShape <value = int64[1] {2}> (n) Y = SplitToSequence <axis = 0> (X, o) }""",
    "padded-slices": """g (float[2, N] X) => (float[2, N] Y)
        <int64[1] one = {1}, int64[1] far = {9223372036854775807}, int64[4] pads = {0, 0, 0, 1}>
        { s = Slice(X, one, far, one) Y = Pad(s, pads) }""",
    "padded-slices, open": """g (float[2, 3] X) => (float[2, 3] Y)
        <int64[1] one = {1}, int64[1] far = {9223372036854775807}, int64[4] pads = {0, 0, 0, 1}>
        { s = Slice(X, one, far, one) Y = Pad(s, pads) }""",
    "padded-slices, at the other end": """g (float[2, N] X) => (float[2, N] Y)
        <int64[1] one = {1}, int64[1] far = {9223372036854775807}, int64[4] pads = {0, 1, 0, 0}>
        { s = Slice(X, one, far, one) Y = Pad(s, pads) }""",
    "padded-slices, one axis": """g (float[2, N] X, int64[4] pads) => (float[?, M] Y)
        <int64[1] one = {1}, int64[1] far = {9223372036854775807}>
        { s = Slice(X, one, far, one) Y = Pad(s, pads) }""",
    "signed-shifts": """g (int64[2] X) => (int64[2] Y) <uint64 k = {3}>
        { a = Cast <to = 13> (X) b = BitShift <direction = "LEFT"> (a, k) Y = Cast <to = 7> (b) }""",
    "signed-shifts, not known to be below 64": """g (int64[2] X, uint64 k) => (int64[2] Y)
        { a = Cast <to = 13> (X) b = BitShift <direction = "LEFT"> (a, k) Y = Cast <to = 7> (b) }""",
    "counted-ranges": """g (float[h, 2] X) => (float[?, 2] Y)
        <float one = {1}, int64 more = {1}, int64[1] last = {1}>
        { s = Shape <end = 1> (X) h = Squeeze(s) n = Add(h, more) f = Cast <to = 1> (n) r = Range(one, f, one)
          c = Unsqueeze(r, last) Y = Mul(X, c) }""",
    "counted-ranges, not known to be sizes": """g (float X) => (float[?] Y) <float one = {1}>
        { Y = Range(one, X, one) }""",
    "transposed-products": """g (float[2, 3, 4] X, float[2, 5, 4] K) => (float[2, 3, 5] Y)
        { t = Transpose <perm = [0, 2, 1]> (K) Y = MatMul(X, t) }""",
    "transposed-products, last axis": """g (float[2, 3, 4] X, float[4, 2, 5] K) => (float[2, 3, 5] Y)
        { t = Transpose <perm = [1, 0, 2]> (K) Y = MatMul(X, t) }""",
    "transposed-products, scaled": """g (float[2, 3, 4] X, float[2, 5, 4] K, float[5] s) => (float[2, 3, 5] Y)
        { t = Transpose <perm = [0, 2, 1]> (K) u = Mul(t, s) Y = MatMul(X, u) }""",
    "scanned-distances": """g (float[4, 3] X, float[5, 3] R) => (float[5, 4] D)
        { Y, D = Scan <num_scan_inputs = 1, body = b (float[4, 3] x, float[3] r) => (float[4, 3] y, float[4] d)
            { y = Identity(x) s = Sub(x, r) d = ReduceSumSquare <axes = [1], keepdims = 0> (s) }>
          (X, R) }""",
    "scanned-distances, backwards": """g (float[4, 3] X, float[5, 3] R) => (float[5, 4] D)
        { Y, D = Scan <num_scan_inputs = 1, scan_input_directions = [1], body = b (float[4, 3] x, float[3] r) => (float[4, 3] y, float[4] d)
            { y = Identity(x) s = Sub(x, r) d = ReduceSumSquare <axes = [1], keepdims = 0> (s) }>
          (X, R) }""",
    "identity-gathers": """g (float[N, 2] X) => (float[N, 1, 2] Y) <int64 zero = {0}, int64 one = {1}, int64[1] a = {1}>
        { s = Shape <start = 0, end = 1> (X) n = Squeeze(s) r = Range(zero, n, one) i = Unsqueeze(r, a) Y = Gather(X, i) }""",
    "identity-gathers, not all places": """g (float[N, 2] X) => (float[M, 1, 2] Y) <int64 zero = {0}, int64 two = {2}, int64[1] a = {1}>
        { s = Shape <start = 0, end = 1> (X) n = Squeeze(s) r = Range(zero, n, two) i = Unsqueeze(r, a) Y = Gather(X, i) }""",
    "ramps": """g (float[N, 2] X) => (bool[N] Y) <int64 zero = {0}, int64 one = {1}>
        { s = Shape <start = 0, end = 1> (X) n = Squeeze(s) r = Range(zero, n, one) Y = Less(r, zero) }""",
    "ramp-uses": """g (float[N, 2] X, float[9, 3] W) => (float[N, 3] Y) <int64 zero = {0}, int64 one = {1}>
        { s = Shape <start = 0, end = 1> (X) n = Squeeze(s) r = Range(zero, n, one) Y = Gather(W, r) }""",
    "ramp-uses, one after the other": """g (float[N, 2] X, float[9, 3] W) => (float[N, 3] Y) <int64 zero = {0}, int64 two = {2}>
        { s = Shape <start = 0, end = 1> (X) n = Squeeze(s) m = Mul(n, two) r = Range(zero, m, two) Y = Gather(W, r) }""",
    "requantization": QUANTIZED % (0.5, 0.5),
    "requantization, scale": QUANTIZED % (0.5, 0.25),
    "requantization, beyond": QUANTIZED % (1e38, 1e38),
    "requantization, type": """<ir_version: 10, opset_import: ["" : 21]> g (float8e5m2[4] X, float8e5m2 z) => (float8e5m2[4] Y)
        <float a = {0.5}> { y = DequantizeLinear(X, a) Y = QuantizeLinear(y, a, z) }""",
    "elementwise-sinking": """g (float[1, 1, 4, 4] X) => (float[1, 1, 2, 2] Y)
        { r = Relu(X) Y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) }""",
    "elementwise-sinking, indices": """g (float[1, 1, 4, 4] X) => (float[1, 1, 2, 2] Y, int64[1, 1, 2, 2] I)
        { r = Relu(X) Y, I = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) }""",
    "elementwise-sinking, several scales": """g (uint8[2, 2] X) => (float[4] Y)
        <float[2] a = {0.5, 0.25}, uint8[2] z = {3, 4}, int64[1] shape = {4}>
        { y = DequantizeLinear <axis = 0> (X, a, z) Y = Reshape(y, shape) }""",
    "elementwise-sinking, does not take fewer": """g (uint8[9, 3] X, int64[10] I) => (float[10, 3] Y)
        <float a = {0.5}> { y = DequantizeLinear(X, a) Y = Gather(y, I) }""",
    "elementwise-sinking, for each of the places": """g (uint8[9, 3] X, int64[2] I) => (float[2, 3] Y)
        <float[9] a = {1, 2, 3, 4, 5, 6, 7, 8, 9}> { y = DequantizeLinear <axis = 0> (X, a) Y = Gather(y, I) }""",
    "constant-folding": "g (float[2] X) => (float[2] Y) <float[2] a = {1, 2}> { b = Neg(a) Y = Add(X, b) }",
    "constant-folding, elements": """g (float[2] X) => (float[300, 300] Y) <int64[2] s = {300, 300}, float a = {1}>
        { Y = Expand(a, s) }""",
    "constant-folding, no rule": "g (float[2] X) => (float[2] Y) <float[2] a = {1, 2}> { Y = Erf(a) }",
    "shape-arithmetic": "g (float[N, 2] X) => (float[M] Y) { s = Shape(X) t = ReduceProd <keepdims = 1> (s) Y = Reshape(X, t) }",
    "definitions": """g (float[2, 2] X, int64[2] t) => (float Y) { Y = SoftmaxCrossEntropyLoss(X, t) }""",
    "function-inlining": """g (float[2] X) => (float[2] Y) { Y = local.twice(X) }
        <domain: "local", opset_import: ["" : 17]> twice (x) => (y) { y = Add(x, x) }""",
    "function-inlining, function of the script": """g (float[2] X) => (float[2] Y) { Y = local.more(X) }
        <domain: "local", opset_import: ["" : 17]> more (x) => (y) { a = Add(x, x) b = Abs(a) c = Neg(b) d = Exp(c) y = Cos(d) }""",
    "continuations": """g (float[2, 1] X, bool c) => (float[M] Y) <int64[1] all = {-1}>
        { r = If (c) <then_branch = t () => (float[K] a) { a = Reshape(X, all) }, else_branch = e () => (float[K, 1] b) { b = Abs(X) }>
          n = Neg(r) Y = Reshape(n, all) }""",
}


def notes_of(text: str) -> tuple[Note, ...]:
    return import_model(onnx.parser.parse_model(text if text.startswith("<") else HEADER + text)).notes


def test_an_integer_times_zero_is_known() -> None:
    model = onnx.parser.parse_model(HEADER + """g (float[2] X, int64 n, int64[k] m) => (float[2] Y, int64[k] Z) <int64 zero = {0}>
        { a = Mul(n, zero) b = Cast <to = 1> (a) Y = Add(X, b) Z = Mul(m, zero) }""")
    text = import_model(model).text
    assert "Y = X\n" in text and "Z = m * 0\n" in text and "n_number" not in text


@pytest.mark.parametrize("row", MODELS)
def test_passes_say_what_they_did_and_why_not(row: str) -> None:
    rule, _, reason = row.partition(", ")
    note, *_ = [note for note in notes_of(MODELS[row]) if note.rule == rule]
    assert note.fired == (not reason)
    assert reason in note.words


@pytest.mark.parametrize("rule", [rule for rule in passes.OPTIONAL_PASSES if rule in MODELS])
def test_a_pass_can_be_omitted(rule: str) -> None:
    model = onnx.parser.parse_model(HEADER + MODELS[rule])
    assert all(note.rule != rule for note in import_model(model, omitted=[rule]).notes)
    report = verify_model(model, omitted=[rule])
    assert report.passed and report.outputs


def test_a_pass_that_is_needed_cannot_be_omitted() -> None:
    with pytest.raises(ValueError, match='no pass "definitions" to omit; there are constants-to-initializers, loop-states, '):
        import_model(onnx.parser.parse_model(HEADER + MODELS["definitions"]), omitted=["definitions"])


def test_every_pass_has_a_row() -> None:
    """Differentiation is judged where gradients are; constants become initializers without a word."""
    files = {path.stem for path in Path(passes.__file__).parent.glob("*.py")} - {"__init__"}
    rules = {re.sub("-", "_", row.partition(",")[0]) for row in MODELS}
    assert files - rules == {"constants_to_initializers", "differentiation"}


def test_every_pass_is_in_a_list() -> None:
    listed = (*passes.GRAPH_PASSES, *passes.CALL_PASSES, *passes.NODE_PASSES, *passes.SIMPLIFYING_NODE_PASSES, *passes.CONTENT_PASSES, *passes.REST_PASSES,
              *passes.SIMPLIFYING_REST_PASSES)
    modules = {apply.__module__.rpartition(".")[2] for apply in listed}
    assert modules == {path.stem for path in Path(passes.__file__).parent.glob("*.py")} - {"__init__"}


def test_nodes_of_which_the_same_is_said_are_one_line() -> None:
    notes = [Note("rule", "Abs", name, "words", fired) for name, fired in (("a", True), ("b", False), ("c", True))]
    assert note_lines(notes) == [
        "passes that fired:", '  rule: Abs "a", "c": words', "passes that did not, and why:", '  rule: Abs "b": words',
    ]
    assert note_lines([]) == []
