"""Models of the size that people have, made here: with random weights and of a usual export's form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

_WIDTH, _HEADS, _INNER, _WORDS, _LONGEST = 768, 12, 3072, 30522, 512
_LAYER = """
  q{n} = MatMul({x}, Wq{n}) qb{n} = Add(q{n}, bq{n})
  qh{n} = Reshape(qb{n}, heads) qt{n} = Transpose<perm = [0, 2, 1, 3]>(qh{n})
  k{n} = MatMul({x}, Wk{n}) kb{n} = Add(k{n}, bk{n})
  kh{n} = Reshape(kb{n}, heads) kt{n} = Transpose<perm = [0, 2, 3, 1]>(kh{n})
  v{n} = MatMul({x}, Wv{n}) vb{n} = Add(v{n}, bv{n})
  vh{n} = Reshape(vb{n}, heads) vt{n} = Transpose<perm = [0, 2, 1, 3]>(vh{n})
  scores{n} = MatMul(qt{n}, kt{n}) scaled{n} = Div(scores{n}, root) masked{n} = Add(scaled{n}, hidden)
  shares{n} = Softmax<axis = -1>(masked{n}) mixed{n} = MatMul(shares{n}, vt{n})
  turned{n} = Transpose<perm = [0, 2, 1, 3]>(mixed{n}) joined{n} = Reshape(turned{n}, tokens)
  o{n} = MatMul(joined{n}, Wo{n}) ob{n} = Add(o{n}, bo{n}) first{n} = Add(ob{n}, {x})
  y{n} = LayerNormalization<axis = -1, epsilon = 1e-12>(first{n}, g{n}, e{n})
  i{n} = MatMul(y{n}, Wi{n}) ib{n} = Add(i{n}, bi{n}) active{n} = Gelu(ib{n})
  f{n} = MatMul(active{n}, Wf{n}) fb{n} = Add(f{n}, bf{n}) second{n} = Add(fb{n}, y{n})
  {out} = LayerNormalization<axis = -1, epsilon = 1e-12>(second{n}, h{n}, d{n})
"""


def bert_base(layers: int = 12) -> ModelProto:
    """BERT's encoder, 110 million weights with 12 layers.

    Takes ids and mask, int64 [batch, sequence]; gives last, float32 [batch, sequence, 768].
    """
    drawn = np.random.default_rng(0)
    weights: dict[str, np.ndarray[Any, Any]] = {
        "words": _normal(drawn, _WORDS, _WIDTH), "places": _normal(drawn, _LONGEST, _WIDTH),
        "kinds": _normal(drawn, _WIDTH), "gain": np.ones(_WIDTH, np.float32), "shift": _normal(drawn, _WIDTH),
        "heads": np.array([0, 0, _HEADS, _WIDTH // _HEADS]), "tokens": np.array([0, 0, _WIDTH]),
        "root": np.float32((_WIDTH // _HEADS) ** 0.5), "one": np.float32(1), "least": np.float32(-1e4),
        "middle": np.array([1, 2]), "nil": np.array([0]),
    }
    for n in range(layers):
        for name in "qkvo":
            weights |= {f"W{name}{n}": _normal(drawn, _WIDTH, _WIDTH), f"b{name}{n}": _normal(drawn, _WIDTH)}
        weights |= {f"Wi{n}": _normal(drawn, _WIDTH, _INNER), f"bi{n}": _normal(drawn, _INNER)}
        weights |= {f"Wf{n}": _normal(drawn, _INNER, _WIDTH), f"bf{n}": _normal(drawn, _WIDTH)}
        weights |= {f"{name}{n}": np.ones(_WIDTH, np.float32) for name in "gh"}
        weights |= {f"{name}{n}": _normal(drawn, _WIDTH) for name in "ed"}
    names = ["x0", *(f"x{n}" for n in range(1, layers)), "last"]
    body = "".join(_LAYER.format(n=n, x=names[n], out=names[n + 1]) for n in range(layers))
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        bert_base (int64[batch, sequence] ids, int64[batch, sequence] mask)
        => (float[batch, sequence, {_WIDTH}] last) {{
          seen = Cast<to = 1>(mask) unseen = Sub(one, seen) far = Mul(unseen, least) hidden = Unsqueeze(far, middle)
          word = Gather(words, ids) shape = Shape<start = 1>(ids)
          place = Slice(places, nil, shape, nil) word_at = Add(word, place) embedded = Add(word_at, kinds)
          x0 = LayerNormalization<axis = -1, epsilon = 1e-12>(embedded, gain, shift)
          {body} }}"""
    )
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items())
    return model


def bert_feeds(tokens: int) -> dict[str, np.ndarray[Any, Any]]:
    """Two sequences of that many tokens, the second one padded."""
    ids = np.random.default_rng(1).integers(0, _WORDS, (2, tokens))
    mask = np.ones((2, tokens), np.int64)
    mask[1, -tokens // 4 :] = 0
    return {"ids": ids, "mask": mask}


def _normal(drawn: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return (0.02 * drawn.standard_normal(shape)).astype(np.float32)
