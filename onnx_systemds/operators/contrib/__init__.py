"""Operators of the domain com.microsoft and of onnxruntime."""
