"""DML -> ONNX: scripts are read into a tree, evaluated over symbolic values and written as a graph."""
