"""Operators of the domain ai.onnx.ml, and those on text."""
