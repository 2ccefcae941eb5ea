"""Repeated sequences of statements, which become functions."""
