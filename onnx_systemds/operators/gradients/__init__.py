"""Derivatives of operators as nodes of ONNX."""
