"""Every figure and every notebook tells which run it comes from."""

import json
import re
import zlib

import nbformat
import pytest
from matplotlib.figure import Figure
from PIL import Image
from tiny import Tiny, write_notebook

from lbkit import batch, record

RUN = {
    "study": "tags", "preset": "größe", "parameters": {"alpha": 1.0, "rhos": [0.5]}, "seed": 7,
    "started": "2026-01-02T03:04:05+00:00", "python": "3.11.7", "platform": "Linux", "packages": {"lbkit": "0.1.0"},
    "git": {"commit": "0123abcd", "dirty": True},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LBKIT_RUN_DIR", str(tmp_path))
    return tmp_path


def keep(folder, **changes):
    manifest = RUN | {"notebook": "some/where.ipynb", "status": "running"} | changes
    (folder / "result.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_provenance_is_what_the_manifest_tells(folder):
    assert record.provenance(folder) == {}
    keep(folder)
    assert record.provenance(folder) == RUN


def test_both_files_of_a_figure_carry_all_of_it(folder):
    keep(folder)
    record.figure(Figure(), "fig")
    text = Image.open(folder / "figures" / "fig.png").text
    assert json.loads(text["Comment"]) == RUN and text["Title"] == "fig"
    assert text["Description"] == (
        f"tags {folder.name}, lbkit 0.1.0, commit 0123abcd with changes, started 2026-01-02T03:04:05+00:00"
    )
    pdf = (folder / "figures" / "fig.pdf").read_bytes()
    assert b"/CreationDate (D:20260102030405Z)" in pdf and b"commit 0123abcd with changes" in pdf
    (keywords,) = re.findall(rb"/Keywords \((.*?)\)", pdf)
    assert json.loads(keywords.replace(b"\\\\", b"\\")) == RUN


def test_equal_figures_of_one_run_are_equal_files_and_of_another_run_not(folder):
    files = [folder / "figures" / f"fig.{suffix}" for suffix in ("pdf", "png")]
    made = []
    for seed in (7, 7, 8):
        keep(folder, seed=seed)
        record.figure(Figure(), "fig")
        made.append([zlib.crc32(file.read_bytes()) for file in files])
    assert made[0] == made[1] and not set(made[0]) & set(made[2])


@pytest.mark.parametrize("git", [None, {"commit": None, "dirty": True}])
def test_a_figure_outside_a_checkout(folder, git):
    keep(folder, git=git)
    record.figure(Figure(), "fig")
    assert "commit unknown" in Image.open(folder / "figures" / "fig.png").text["Description"]


@pytest.mark.parametrize("last", ["print(1)", "1 / 0"])
def test_the_notebook_carries_it_too_whether_it_fails_or_not(repository, last):
    write_notebook(repository, "print('here')", last)
    run = batch.run(Tiny(case=4), out=repository / "runs")
    assert run.status == ("done" if last == "print(1)" else "failed")
    told = nbformat.read(run.folder / "notebook.ipynb", as_version=4).metadata["lbkit"]
    assert told == record.provenance(run.folder)
    assert set(told) == set(record.PROVENANCE) and told["parameters"]["case"] == 4
