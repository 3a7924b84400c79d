"""Fixtures that several test files use."""

import pytest
from tiny import jupyter, repository

__all__ = ["jupyter", "repository", "smoke_runs"]


@pytest.fixture(scope="session")
def smoke_runs(tmp_path_factory):
    """Folder of the smoke runs of this session: one that is done is not repeated."""
    return tmp_path_factory.mktemp("runs")
