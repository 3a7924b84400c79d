"""Parameter files, runs of a notebook, and what a run leaves behind."""

import json
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import papermill
import psutil
import pytest
from matplotlib.figure import Figure
from papermill.iorw import read_yaml_file

from lbkit import batch, record
from lbkit.record import Claim
from lbkit.studies import ParameterError, SqdVariants

SHIPPED = sorted((batch.repository() / "params").glob("*/*.yaml"))

READ = "from lbkit.studies import SqdVariants\nstudy = SqdVariants.from_notebook(globals())"
KEEP = """
from matplotlib.figure import Figure
from lbkit import record
fig = Figure()
fig.subplots().plot([1, 2])
record.figure(fig, "line", {"lam": [study.lam], "loads": [loads]})
record.claims([record.Claim("it ran", "section 1", 1.0, True)])
import os
print("in", os.getcwd())
"""


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory):
    return {
        name: str(tmp_path_factory.mktemp(name))
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    }


@pytest.fixture
def checkout(tmp_path, monkeypatch, jupyter):
    """A repository of one study under a path with spaces, braces and letters beyond ASCII."""
    for name, value in jupyter.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "Übung {x} mit Größen"
    (folder / "notebooks").mkdir(parents=True)
    (folder / "params" / "sqd_variants").mkdir(parents=True)
    monkeypatch.setattr(batch, "repository", lambda: folder)
    return folder


def write_notebook(checkout: Path, *cells: str, parameters: str | None = None) -> Path:
    source = SqdVariants().cell() if parameters is None else parameters
    tagged = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    text = nbformat.v4.new_markdown_cell("Größen")
    document = nbformat.v4.new_notebook(cells=[text, tagged, *map(nbformat.v4.new_code_cell, cells)])
    nbformat.write(document, file := checkout / "notebooks" / "sqd_variants.ipynb")
    return file


def write_params(checkout: Path, text: str, name: str = "case.yaml") -> Path:
    file = checkout / "params" / "sqd_variants" / name
    file.write_text(text, encoding="utf-8")
    return file


# parameter files


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_shipped_files_mean_the_same_to_papermill(file):
    """YAML 1.1, as papermill reads it, and YAML 1.2 agree on every shipped file, and the study accepts it."""
    study = batch.resolve(file.parent.name, file.stem)
    assert type(study)(**read_yaml_file(str(file))) == study
    assert file.read_text(encoding="utf-8").startswith("# ")


def test_the_two_yaml_versions_differ_where_feared(checkout):
    file = write_params(checkout, "lam_low: 1e-8\n")
    assert batch.resolve("sqd_variants", file).lam_low == 1e-8
    with pytest.raises(ParameterError, match=r"'1e-8', which is text.* as in 1.0e-8"):
        SqdVariants(**read_yaml_file(str(file)))


def test_every_figure_of_the_paper_has_a_file():
    figures = {f"figure_{n:02}" for n in range(1, 13)}
    assert figures | {"smoke", "lecture", "paper"} == set(batch.presets("sqd_variants"))


@pytest.mark.parametrize(
    "text, line, expected",
    [
        ("lam: 0.5\nlam: 0.6\n", 2, "duplicate key"),
        ("lam: 0.5\nno: 1\n", 2, "there is no parameter 'no'"),
        ("# a\n\nlamda: 0.5\n", 3, "there is no parameter 'lamda'; did you mean 'lam'?"),
        ("d: 5\nlam: 1.5\n", 2, "lam must be a number in (0, 0.999], not 1.5"),
        ("d: yes\n", 1, "d must be an integer in [1, 100], not 'yes'"),
        ("d: true\n", 1, "d must be an integer in [1, 100], not True"),
        ("d: 1:30\n", 1, "not '1:30'"),
        ('lam: "0.5"\n', 1, "not '0.5', which is text"),
        ("scv: .inf\n", 1, "scv must be a number in [1, 1000], not inf"),
        ("scv: .nan\n", 1, "not nan"),
        ("scv: 2020-01-01\n", 1, "not datetime.date"),
        ("simulated_jobs: 1.5e0\n", 1, "an integer in [1000, 10000000000], not 1.5"),
        ("d: 5\nchoices: [2,\n", 3, "expected"),
        ("d: *other\n", 1, "undefined alias"),
        ("d: !!python/name:os.system x\n", 1, "tag"),
        ("d: 2\n---\nd: 3\n", 2, "another document"),
        ("lam_low: 0.9\nlam_high: 0.5\n", None, "lam_low must be below lam_high"),
        ("- 1\n- 2\n", None, "must be lines 'name: value', not a list"),
        ("plain\n", None, "must be lines 'name: value', not a str"),
        ("d: \x07\n", None, "special characters are not allowed"),
    ],
)
def test_errors_name_file_line_parameter_value_and_range(checkout, text, line, expected):
    file = write_params(checkout, text)
    with pytest.raises(ValueError) as caught:
        batch.resolve("sqd_variants", file)
    sentence = str(caught.value)
    assert sentence.startswith(f"{file}:{line}: " if line else f"{file}: ")
    assert expected in sentence and "\n" not in sentence


def test_numbers_of_yaml_1_2(checkout):
    study = batch.resolve("sqd_variants", write_params(checkout, "lam_low: 1e-8\nscv: 1e2\nc_max: 20\n"))
    assert (study.lam_low, study.scv, study.c_max) == (1e-8, 100.0, 20.0)
    assert batch.resolve("sqd_variants", write_params(checkout, "# nothing\n")) == SqdVariants()


def test_what_is_given_last_wins(checkout):
    write_params(checkout, "lam: 0.5\nd: 7\n")
    study = batch.resolve("sqd_variants", "case", {"lam": 0.6})
    assert (study.lam, study.d) == (0.6, 7)
    with pytest.raises(ParameterError, match=r"^sqd_variants: lam"):  # the file set another value, so it is not named
        batch.resolve("sqd_variants", "case", {"lam": 6})


@pytest.mark.parametrize(
    "preset, expected",
    [("cas", "has no preset 'cas', only case; did you mean 'case'?"), ("gone.yaml", "gone.yaml: No such file")],
)
def test_unknown_preset_or_file(checkout, preset, expected):
    write_params(checkout, "lam: 0.5\n")
    with pytest.raises(ValueError, match=expected.replace("?", r"\?")):
        batch.resolve("sqd_variants", preset)


def test_a_file_that_is_not_text(checkout):
    file = write_params(checkout, "")
    file.write_bytes(b"lam: \xff\n")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        batch.resolve("sqd_variants", file)


# the notebook


@pytest.mark.parametrize(
    "source, expected",
    [
        (SqdVariants().cell().replace("lam =", "lamda ="), "differ in lam, lamda; see 'lbkit show sqd_variants"),
        (SqdVariants().cell() + "\nimport os", "must be lines 'name = value'"),
        (SqdVariants().cell() + "\nx =", "must be lines 'name = value'"),
    ],
)
def test_a_notebook_that_does_not_fit_is_refused_before_a_kernel_starts(checkout, source, expected):
    write_notebook(checkout, parameters=source)
    with pytest.raises(ValueError, match=expected):
        batch.run(SqdVariants(), out=checkout / "runs")
    assert not (checkout / "runs").exists()


@pytest.mark.parametrize("text", ["{}", "no json", '{"cells": 1, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}'])
def test_a_file_that_is_no_notebook(checkout, text):
    (checkout / "notebooks" / "sqd_variants.ipynb").write_text(text)
    with pytest.raises(ValueError, match="not a valid notebook"):
        batch.notebook(SqdVariants())


def test_a_notebook_without_the_tag_or_none_at_all(checkout):
    with pytest.raises(ValueError, match=r"sqd_variants\.ipynb: No such file"):
        batch.notebook(SqdVariants())
    nbformat.write(nbformat.v4.new_notebook(), checkout / "notebooks" / "sqd_variants.ipynb")
    with pytest.raises(ValueError, match="no cell carries the tag 'parameters'"):
        batch.notebook(SqdVariants())


def test_no_notebooks_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batch, "__file__", str(tmp_path / "a" / "b" / "batch.py"))
    with pytest.raises(ValueError, match="there is no folder 'notebooks'"):
        batch.repository()
    (tmp_path / "notebooks").mkdir()
    assert batch.repository() == tmp_path


@pytest.mark.parametrize("preset", batch.presets("sqd_variants"))
def test_papermill_alone_hands_a_shipped_file_over(checkout, preset):
    """``papermill notebook.ipynb out.ipynb -f file`` and ``lbkit run`` mean the same study."""
    file = next(file for file in SHIPPED if file.match(f"sqd_variants/{preset}.yaml"))
    prepared = papermill.execute_notebook(
        nbformat.read(write_notebook(checkout), as_version=4), None, read_yaml_file(str(file)), prepare_only=True,
        kernel_name="python3", language="python",
    )  # fmt: skip
    namespace = {}
    exec("\n".join(cell.source for cell in prepared.cells if cell.cell_type == "code"), namespace)
    assert SqdVariants.from_notebook(namespace) == batch.resolve("sqd_variants", file)


# runs


def test_a_run(checkout, tmp_path, monkeypatch):
    write_notebook(checkout, READ, KEEP)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    steps, study = [], SqdVariants(lam=1e-8, choices=[3], lam_low=1e-9)
    run = batch.run(study, Path("dir") / "größe {y}.yaml", progress=lambda n, cells: steps.append((n, cells)))

    assert (run.status, run.cell, run.error) == ("done", None, None)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert run.folder.parent == tmp_path / "elsewhere" / "runs" / "sqd_variants"
    assert run.folder.name.startswith("größe {y}-")
    assert {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()} == {
        "notebook.ipynb", "figures/line.pdf", "figures/line.png", "data/line.csv", "claims.json", "result.json",
        "log.txt",
    }  # fmt: skip
    assert pd.read_csv(run.folder / "data" / "line.csv").to_dict("list") == {"lam": [1e-8], "loads": [100]}

    result = json.loads((run.folder / "result.json").read_text(encoding="utf-8"))
    assert SqdVariants(**result["parameters"]) == study and result["seed"] == study.seed
    assert result["status"] == "done" and 0 < result["seconds"] == run.seconds and result["started"].endswith("+00:00")
    assert result["packages"]["numpy"] == np.__version__ and result["packages"]["papermill"] == papermill.__version__
    assert result["python"] == ".".join(map(str, sys.version_info[:3]))
    description = record_description(run.folder / "figures" / "line.png")
    assert run.folder.name.encode("ascii", "ignore") in description.encode("ascii", "ignore")

    executed = nbformat.read(run.folder / "notebook.ipynb", as_version=4)
    assert f"in {run.folder}" in executed.cells[-1].outputs[0].text


def test_equal_parameters_share_a_folder_which_is_cleared(checkout):
    folder = batch._folder(SqdVariants(), "a", checkout)
    (folder / "figures").mkdir()
    (folder / "figures" / "old.pdf").touch()
    (folder / "notes").touch()
    assert batch._folder(SqdVariants(lam=0.8, scv=10), "a", checkout) == folder
    assert [path.name for path in folder.iterdir()] == ["notes"]
    assert batch._folder(SqdVariants(lam=0.7), "a", checkout) != folder


def record_description(png: Path) -> str:
    from PIL import Image

    return Image.open(png).text["Description"]


def test_a_kernel_that_dies(checkout):
    """papermill marks every cell of such a notebook as completed; the run must not."""
    write_notebook(checkout, "import os, signal", "os.kill(os.getpid(), signal.SIGKILL)", "1")
    run = batch.run(SqdVariants(), out=checkout / "runs")
    assert run.status == "failed" and run.cell == 4 and "DeadKernelError" in run.error


def test_an_interrupted_run_takes_its_kernel_along(checkout):
    sleep = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(60)"
    write_notebook(checkout, sleep)

    def interrupt(n, cells):
        if n == 3:
            folder = next((checkout / "runs" / "sqd_variants").iterdir())
            assert json.loads((folder / "result.json").read_text())["status"] == "running"
            while not (folder / "pid").exists() or not (folder / "pid").read_text():
                time.sleep(0.05)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch.run(SqdVariants(), out=checkout / "runs", progress=interrupt)
    folder = next((checkout / "runs" / "sqd_variants").iterdir())
    assert json.loads((folder / "result.json").read_text())["status"] == "interrupted"
    gone, kernel = time.monotonic() + 10, int((folder / "pid").read_text())
    while alive := psutil.pid_exists(kernel) and psutil.Process(kernel).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < gone
        time.sleep(0.05)
    assert not alive


def test_a_cell_that_fails_without_a_terminal(checkout, tmp_path):
    """The command line in a process without a terminal: plain lines, the notebook up to the failure, exit code 1."""
    write_notebook(checkout, READ, "", "print('so far')", "assert lam < 0.9, 'too high'", "print('never')")
    setting = (
        f"import pathlib; from lbkit import batch, cli; batch.repository = lambda: pathlib.Path({str(checkout)!r})"
    )
    command = ["run", "sqd_variants", "-p", "lam=0.95", "-p", "choices=[2, 3]"]
    done = subprocess.run(
        [sys.executable, "-c", f"{setting}; cli.main()", *command],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr == "cell 5: AssertionError: too high\n"
    assert done.stdout.startswith("".join(f"cell {n} of 6\n" for n in range(1, 6)) + "failed after ")

    file = next((tmp_path / "runs" / "sqd_variants").glob("default-*/notebook.ipynb"))
    assert f"{file}\n" in done.stdout
    result = json.loads((file.parent / "result.json").read_text(encoding="utf-8"))
    assert (result["status"], result["cell"], result["error"]) == ("failed", 5, "AssertionError: too high")
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
    assert batch._git(tmp_path) is None
    subprocess.run([*git, "init", "-q"], check=True)
    assert batch._git(tmp_path) == {"commit": None, "dirty": False}
    (tmp_path / "a").write_text("1")
    assert batch._git(tmp_path)["dirty"]
    subprocess.run([*git, "add", "a"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "a"], check=True)
    clean = batch._git(tmp_path)
    assert len(clean["commit"]) == 40 and not clean["dirty"]
    (tmp_path / "a").write_text("2")
    assert batch._git(tmp_path) == {"commit": clean["commit"], "dirty": True}
