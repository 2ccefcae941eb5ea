"""``python -m onnx_systemds`` is the command line."""

from onnx_systemds.cli import main

main()
