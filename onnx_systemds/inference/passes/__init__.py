"""Passes over a graph before, and while, its types are inferred."""
