"""The version of the package, which setup.py reads from here, too."""

__version__ = "0.2.0"
