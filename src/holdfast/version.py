"""The version of Holdfast, apart from everything else so that every layer can tell it."""

__version__ = "0.1.0"
