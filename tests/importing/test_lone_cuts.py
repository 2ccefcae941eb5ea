"""The condition of the one branch of a function that is never taken stands in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import numpy_helper, parser

from onnx_systemds import import_model
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.importing.passes.lone_cuts import with_lone_cuts

CUT = 'if (never) { print("never") }  # cuts the block'


def test_only_where_it_is_asked_once() -> None:
    proto = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] x) => (float[n, 2] y) { y = MatMul(x, w) }')
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((3, 2), np.float32), "w"))
    script = import_model(proto, weights="files")
    text = f"""
one = function(double x) return (double y) {{
  never = time() < 0
  y = x + 1
  {CUT}
}}
two = function(double x) return (double y) {{
  never = time() < 0
  {CUT}
  y = x + 1
  {CUT}
}}
"""
    made = with_lone_cuts(replace(script, functions=tuple(parse_script(text).functions.values())))
    one, two = made.functions
    assert len(one.body) == 2 and "if (time() < 0)" in made.body_text() and made.body_text().count("never = ") == 1
    assert len(two.body) == 4
    assert 'if (time() < 0) { print("never") }  # cuts the block' in script.text  # on one line, as it was written
