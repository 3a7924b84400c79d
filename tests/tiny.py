"""A repository of one tiny study, and the command line in it: ``python tiny.py FOLDER run tiny``."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import nbformat
import pytest
from pydantic import Field

from lbkit import cli, presets, studies
from lbkit.studies import WHOLE, Study, Whole, param


class Tiny(Study):
    notebook = "tiny"
    title = "A tiny study"
    paper = "no paper"

    case: Whole = param(1, "which case", ge=0, le=1000)
    lam: float = param(0.5, "load", gt=0, lt=1)
    d: Whole = param(2, "servers that an arriving job samples", ge=1, le=10)
    choices: tuple[Annotated[int, Field(ge=1, le=10), WHOLE], ...] = param(
        (2, 5), "numbers of sampled servers that are compared", min_length=1, max_length=3
    )
    seed: Whole = param(1, "seed of all random numbers", ge=0, le=100)


def write_notebook(repository: Path, *cells: str, study: type[Study] = Tiny, parameters: str | None = None) -> Path:
    """The study's notebook, of these cells after the parameters."""
    source = study().cell() if parameters is None else parameters
    tagged = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    text = nbformat.v4.new_markdown_cell("Größen")
    document = nbformat.v4.new_notebook(cells=[text, tagged, *map(nbformat.v4.new_code_cell, cells)])
    nbformat.write(document, file := repository / "notebooks" / f"{study.notebook}.ipynb")
    return file


def write_params(repository: Path, text: str, name: str = "case.yaml", study: type[Study] = Tiny) -> Path:
    file = repository / "params" / study.notebook / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory):
    return {
        name: str(tmp_path_factory.mktemp(name))
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    }


@pytest.fixture
def repository(tmp_path, monkeypatch, jupyter):
    """A repository under a path with spaces, braces and letters beyond ASCII; lbkit takes it for its own."""
    for name, value in jupyter.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "Übung {x} mit Größen"
    (folder / "notebooks").mkdir(parents=True)
    for name in ("tiny", "sqd_variants"):
        (folder / "params" / name).mkdir(parents=True)
    monkeypatch.setattr(presets, "repository", lambda: folder)
    monkeypatch.setitem(studies.STUDIES, "tiny", Tiny)
    return folder


def command(repository: Path, *arguments: str) -> list[str]:
    """The command line in a process of its own."""
    return [sys.executable, __file__, str(repository), *map(str, arguments)]


def until(condition, seconds=60.0):
    """Wait for a condition and return what it returns."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


if __name__ == "__main__":
    here = Path(sys.argv.pop(1))
    presets.repository = lambda: here
    studies.STUDIES["tiny"] = Tiny
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    cli.main()
