"""Fixtures that several test files use."""

import signal

import pytest
from tiny import jupyter, repository

__all__ = ["jupyter", "repository", "smoke_runs"]

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what it starts in the background


@pytest.fixture(scope="session")
def smoke_runs(tmp_path_factory):
    """Folder of smoke runs that all test files share: one that is done is not repeated."""
    return tmp_path_factory.mktemp("runs")
