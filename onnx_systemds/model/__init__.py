"""An ONNX model as it is held here: loaded, checked, frozen."""
