"""Passes over the statements of a generated script."""
