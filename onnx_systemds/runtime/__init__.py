"""Runs a script from Python: scoring, its inputs and outputs, and forms for the sizes of its calls."""
