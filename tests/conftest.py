"""Fixtures that several test files use."""

from tiny import jupyter, repository

__all__ = ["jupyter", "repository"]
