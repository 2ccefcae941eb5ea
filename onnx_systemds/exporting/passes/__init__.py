"""Passes over the graph that an export has built."""
