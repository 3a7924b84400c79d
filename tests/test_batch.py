"""Plans and runs of a notebook, and what a run leaves behind."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import papermill
import pytest
from matplotlib.figure import Figure
from tiny import Tiny, command, write_notebook

from lbkit import batch, points, presets, record, studies, worker
from lbkit.record import Claim
from lbkit.studies import File, param

KEEP = """
from matplotlib.figure import Figure
from lbkit import record
fig = Figure()
fig.subplots().plot([1, 2])
record.figure(fig, "line", {"lam": [lam], "d": [d]})
record.claims([record.Claim("it ran", "section 1", 1.0, True)])
import os
print("in", os.getcwd())
"""
DRAW = """
import random
from lbkit import record
draw = random.Random(seed).random()
record.claims([record.Claim(f"lam {lam}", "", draw * lam, True)])
"""


# the notebook


@pytest.mark.parametrize(
    "source, expected",
    [
        (Tiny().cell().replace("lam =", "lamda ="), "differ in lam, lamda; see 'lbkit show tiny"),
        (Tiny().cell() + "\nimport os", "must be lines 'name = value'"),
        (Tiny().cell() + "\nx =", "must be lines 'name = value'"),
    ],
)
def test_a_notebook_that_does_not_fit_is_refused_before_a_kernel_starts(repository, source, expected):
    write_notebook(repository, parameters=source)
    with pytest.raises(ValueError, match=expected):
        batch.run(Tiny(), out=repository / "runs")
    assert not (repository / "runs").exists()


@pytest.mark.parametrize("text", ["{}", "no json", '{"cells": 1, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}'])
def test_a_file_that_is_no_notebook(repository, text):
    (repository / "notebooks" / "tiny.ipynb").write_text(text)
    with pytest.raises(ValueError, match="not a valid notebook"):
        points.notebook(Tiny())


def test_a_notebook_without_the_tag_or_none_at_all(repository):
    with pytest.raises(ValueError, match=r"tiny\.ipynb: No such file"):
        points.notebook(Tiny())
    nbformat.write(nbformat.v4.new_notebook(), repository / "notebooks" / "tiny.ipynb")
    with pytest.raises(ValueError, match="no cell carries the tag 'parameters'"):
        points.notebook(Tiny())


def test_no_notebooks_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(presets, "__file__", str(tmp_path / "a" / "b" / "presets.py"))
    with pytest.raises(ValueError, match="there is no folder 'notebooks'"):
        presets.repository()
    (tmp_path / "notebooks").mkdir()
    assert presets.repository() == tmp_path


# plans


def folders(*studies, **settings):
    return [point.folder for point in points.plan(studies, **settings)]


def test_a_folder_is_named_by_all_that_decides_the_results(repository, monkeypatch):
    file = write_notebook(repository, "1")
    (first,) = folders(Tiny())
    assert folders(Tiny(lam=0.5, d=2)) == [first] == folders(Tiny(), timeout=5)
    changed = {*folders(Tiny(lam=0.6), Tiny(seed=2)), *folders(Tiny(), preset="b.yaml"), *folders(Tiny(), out="other")}
    executed = nbformat.read(file, as_version=4)
    executed.cells[-1].outputs = [nbformat.v4.new_output("stream", text="1")]
    nbformat.write(executed, file)
    assert folders(Tiny()) == [first]  # what a cell has put out is not its source
    write_notebook(repository, "2")
    changed |= set(folders(Tiny()))
    write_notebook(repository, "1")
    monkeypatch.setattr(worker, "code", lambda: "other sources")
    changed |= set(folders(Tiny()))
    assert len(changed) == 6 and first not in changed


class Reading(Tiny):
    notebook = "reading"
    sizes: File = param("", "file of sizes", min_length=0)


def test_a_file_that_is_read_decides_the_results_too(repository, monkeypatch):
    monkeypatch.setitem(studies.STUDIES, "reading", Reading)
    write_notebook(repository, study=Reading)
    sizes = repository / "sizes.csv"
    sizes.write_text("1")
    found = {*folders(Reading()), *folders(Reading(sizes="sizes.csv"))}
    sizes.write_text("2")
    assert len({*found, *folders(Reading(sizes="sizes.csv"))}) == 3
    with pytest.raises(ValueError, match=r"reading: sizes: .*none\.csv: No such file"):
        folders(Reading(sizes="none.csv"))


def test_a_plan_writes_nothing_and_refuses_a_bad_limit(repository):
    write_notebook(repository)
    assert len(points.plan([Tiny(), Tiny(d=3)], out=repository / "runs")) == 2
    assert not (repository / "runs").exists()
    for timeout in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="timeout must be in"):
            points.plan([Tiny()], timeout=timeout)
    with pytest.raises(ValueError, match=r"jobs must be in \[1, 1000\], not 0"):
        batch.execute([], jobs=0)


def keep_run(point, **changes):
    point.folder.mkdir(parents=True)
    worker.write(point.folder, point.manifest | {"status": "done"} | changes)


def test_estimates_rest_on_the_most_alike_of_earlier_runs(repository):
    write_notebook(repository)
    one, two, three = planned = points.plan([Tiny(d=1), Tiny(d=2), Tiny(d=3)], "a", out=repository)
    assert points.estimate(planned) == points.Estimate(None, "no run of tiny is done yet")
    keep_run(points.plan([Tiny(d=1)], "b", out=repository)[0], seconds=100)
    assert points.estimate(planned, 2) == points.Estimate(150, "1 earlier run of b, with other d")
    keep_run(one, seconds=10)
    keep_run(two, seconds=40, status="failed")
    assert points.estimate(planned) == points.Estimate(20, "1 earlier run of a, with other d")
    assert points.estimate([one]) == points.Estimate(0, "all is done")
    assert points.estimate([one], fresh=True) == points.Estimate(10, "1 earlier run of a")
    keep_run(points.plan([Tiny(d=3, lam=0.6)], "a", out=repository)[0], seconds=7)
    keep_run(points.plan([Tiny(d=9, lam=0.6)], "a", out=repository)[0], seconds=8)
    assert points.estimate([three]).seconds in (7, 10)  # each differs in one parameter


# runs


def test_a_run(repository, tmp_path, monkeypatch):
    write_notebook(repository, KEEP)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    steps, study = [], Tiny(lam=1e-8, choices=[3])
    run = batch.run(study, Path("dir") / "größe {y}.yaml", progress=lambda n, cells: steps.append((n, cells)))

    assert (run.status, run.cell, run.error, run.earlier) == ("done", None, None, False)
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert run.folder.parent == tmp_path / "elsewhere" / "runs" / "tiny"
    assert run.folder.name.startswith("größe {y}-")
    assert {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()} == {
        "notebook.ipynb", "figures/line.pdf", "figures/line.png", "data/line.csv", "claims.json", "result.json",
        "log.txt", ".lock",
    }  # fmt: skip
    assert pd.read_csv(run.folder / "data" / "line.csv").to_dict("list") == {"lam": [1e-8], "d": [2]}

    result = json.loads((run.folder / "result.json").read_text(encoding="utf-8"))
    assert Tiny(**result["parameters"]) == study and result["seed"] == study.seed
    assert result["status"] == "done" and 0 < result["seconds"] == run.seconds and result["started"].endswith("+00:00")
    assert result["packages"]["numpy"] == np.__version__ and result["packages"]["papermill"] == papermill.__version__
    assert result["python"] == ".".join(map(str, sys.version_info[:3]))
    assert result["code"] == worker.code() and len(result["notebook_hash"]) == 64
    description = record_description(run.folder / "figures" / "line.png")
    assert run.folder.name.encode("ascii", "ignore") in description.encode("ascii", "ignore")

    executed = nbformat.read(run.folder / "notebook.ipynb", as_version=4)
    assert f"in {run.folder}" in executed.cells[-1].outputs[0].text

    before = (run.folder / "result.json").read_bytes()
    again = batch.run(study, "größe {y}")
    assert again.earlier and (again.folder, again.status, again.seconds) == (run.folder, "done", run.seconds)
    assert (run.folder / "result.json").read_bytes() == before
    (run.folder / "figures" / "old.pdf").touch()
    (run.folder / "notes").touch()
    assert not batch.run(study, "größe {y}", fresh=True).earlier
    assert not (run.folder / "figures" / "old.pdf").exists() and (run.folder / "notes").exists()


def record_description(png: Path) -> str:
    from PIL import Image

    return Image.open(png).text["Description"]


@pytest.mark.slow
def test_results_are_the_same_bytes_for_any_number_at_a_time_and_any_executor(repository):
    """The tasks are pickled on the way, as to another machine."""
    import pickle

    class Pickling(ThreadPoolExecutor):
        def submit(self, task, point):
            return super().submit(*pickle.loads(pickle.dumps((task, point))))

    write_notebook(repository, DRAW)
    studies = [Tiny(lam=lam, seed=seed) for lam, seed in ((0.1, 1), (0.2, 2))]
    found = []
    with Pickling(2) as executor:
        for out, settings in (("a", {}), ("b", {"jobs": 2}), ("c", {"executor": executor})):
            planned = points.plan(studies, out=repository / out)
            assert [run.status for run in batch.execute(planned, **settings)] == ["done"] * 2
            found.append([(point.folder / "claims.json").read_bytes() for point in planned])
    assert found[0] == found[1] == found[2] and found[0][0] != found[0][1]


def test_a_task_that_an_executor_loses_is_interrupted(repository):
    write_notebook(repository)
    with ThreadPoolExecutor(1) as executor:
        executor.submit = lambda task, point: ThreadPoolExecutor.submit(executor, lambda: 1 / 0)
        (run,) = batch.execute(points.plan([Tiny()], out=repository), executor)
    assert (run.status, run.error) == ("interrupted", "ZeroDivisionError: division by zero")
    assert worker.read(run.folder)["status"] == "planned"


def test_a_notebook_that_changes_after_the_plan_is_not_run(repository):
    write_notebook(repository, "1")
    planned = points.plan([Tiny()], out=repository)
    write_notebook(repository, "2")
    (run,) = batch.execute(planned)
    assert run.status == "failed" and "changed since this run was planned" in run.error


def test_a_cell_that_fails_without_a_terminal(repository, tmp_path):
    """The command line in a process without a terminal: plain lines, the notebook up to the failure, exit code 1."""
    write_notebook(repository, "", "print('so far')", "assert lam < 0.9, 'too high'", "print('never')")
    done = subprocess.run(
        command(repository, "run", "tiny", "-p", "lam=0.95", "-p", "choices=[2, 3]"),
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr == "cell 4: AssertionError: too high\n"
    assert done.stdout.startswith("".join(f"cell {n} of 5\n" for n in range(1, 5)) + "failed after ")

    file = next((tmp_path / "runs" / "tiny").glob("default-*/notebook.ipynb"))
    assert f"{file}\n" in done.stdout
    result = json.loads((file.parent / "result.json").read_text(encoding="utf-8"))
    assert (result["status"], result["cell"], result["error"]) == ("failed", 4, "AssertionError: too high")
    assert (result["parameters"]["lam"], result["parameters"]["choices"]) == (0.95, [2, 3])
    cells = {cell.source: cell for cell in nbformat.read(file, as_version=4).cells}
    assert cells["print('so far')"].outputs[0].text == "so far\n" and cells["print('never')"].outputs == []
    assert cells["assert lam < 0.9, 'too high'"].execution_count == result["cell"]


# record


def test_nothing_is_written_outside_a_run(tmp_path, monkeypatch):
    monkeypatch.delenv("LBKIT_RUN_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    record.figure(Figure(), "x", {"a": [1]})
    record.claims([])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LBKIT_RUN_DIR", str(tmp_path))
    return tmp_path


def test_figures_and_data(folder):
    frame = pd.DataFrame({"policy": ["a", "b"], "wait": [1.5, np.float64(1) / 3]})
    record.figure(Figure(), "fig_1", frame)
    first = (folder / "figures" / "fig_1.pdf").read_bytes()
    record.figure(Figure(), "fig_1", frame)
    assert (folder / "figures" / "fig_1.pdf").read_bytes() == first  # no date inside: equal figures are equal files
    pd.testing.assert_frame_equal(pd.read_csv(folder / "data" / "fig_1.csv"), frame)
    assert record_description(folder / "figures" / "fig_1.png") == "lbkit"


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".a", "a b"])
def test_names_of_figures(folder, name):
    with pytest.raises(ValueError, match="a figure's name must be"):
        record.figure(Figure(), name)


def test_a_file_appears_whole_or_not_at_all(folder):
    (folder / "a").write_text("old")
    with pytest.raises(RuntimeError), record.replacing(folder / "a") as path:
        path.write_text("half")
        raise RuntimeError
    assert [(p.name, p.read_text()) for p in folder.iterdir()] == [("a", "old")]


def test_claims(folder):
    found = [
        Claim("P(W > 1) | lam < 1", 0.25, np.float64(1 / 3), np.bool_(True)),
        Claim("b", "fig. 2", np.int64(3), False, "see <below>"),
        Claim("c", "p. 3", "not run", None),
    ]
    record.claims(found)
    stored = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    assert [Claim(**claim) for claim in stored] == found
    assert [claim["holds"] for claim in stored] == [True, False, None]
    table = record.claims_table(found)
    assert [claim.verdict for claim in table.claims] == ["holds", "does not hold", "not shown"]
    html, markdown, text = table._repr_html_(), table._repr_markdown_(), repr(table)
    assert html.count("<tr ") == 4 and "see &lt;below&gt;" in html and "P(W &gt; 1)" in html and "0.3333" in html
    assert len(markdown.splitlines()) == 5 and r"P(W > 1) \| lam < 1" in markdown
    assert [line.split("  ")[0].strip() for line in text.splitlines()] == ["claim", "P(W > 1) | lam < 1", "b", "c"]


@pytest.mark.parametrize("wrong", [{"holds": "yes"}, {"holds": 0.5}, {"ours": float("nan")}, {"paper": float("inf")}])
def test_wrong_claims(wrong):
    with pytest.raises(ValueError, match="claim 'a'"):
        Claim(**{"text": "a", "paper": 1.0, "ours": 1.0, "holds": True} | wrong)


def test_versions_and_commit(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    assert points._git(tmp_path) is None
    subprocess.run([*git, "init", "-q"], check=True)
    assert points._git(tmp_path) == {"commit": None, "dirty": False}
    (tmp_path / "a").write_text("1")
    assert points._git(tmp_path)["dirty"]
    subprocess.run([*git, "add", "a"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "a"], check=True)
    clean = points._git(tmp_path)
    assert len(clean["commit"]) == 40 and not clean["dirty"]
    (tmp_path / "a").write_text("2")
    assert points._git(tmp_path) == {"commit": clean["commit"], "dirty": True}
