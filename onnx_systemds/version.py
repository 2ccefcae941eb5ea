"""The version of the package, which setup.py repeats."""

__version__ = "0.2.0"
