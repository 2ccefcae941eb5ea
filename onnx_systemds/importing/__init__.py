"""ONNX -> DML: the stages from a model file to a script."""
