"""The command line: what it shows, its sentences, its exit codes."""

import json
import subprocess
import sys

import pytest
from tiny import write_notebook, write_params
from typer.testing import CliRunner

from lbkit import presets, studies
from lbkit.cli import app
from lbkit.studies import SqdVariants


@pytest.fixture
def lbkit():
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def checkout(repository):
    write_params(repository, "# Small: a test\nloads: 3\n", "small.yaml", SqdVariants)
    return repository


def test_list_names_every_study_and_preset(lbkit):
    shown = lbkit("list")
    assert shown.exit_code == 0
    for name, study in studies.STUDIES.items():
        assert f"{name}: {study.title}" in shown.output
        assert all(f"    {preset} " in shown.output for preset in presets.files(name))
    assert "Figure 11: tail of the waiting time" in shown.output


def test_show_names_every_parameter(lbkit):
    lines = lbkit("show", "sqd_variants").output.splitlines()
    rows = {line.split()[0]: line for line in lines if not line.startswith(" ")}
    assert set(SqdVariants.model_fields) < set(rows)
    assert "0.8" in rows["lam"] and "a number in (0, 0.999]" in rows["lam"] and "load of the figures" in rows["lam"]


def test_show_as_schema_and_as_cell(lbkit):
    assert json.loads(lbkit("show", "sqd_variants", "--schema").output) == presets.schema(SqdVariants)
    assert lbkit("show", "sqd_variants", "--cell").output == SqdVariants().cell() + "\n"


def test_check_accepts_what_is_shipped(lbkit):
    checked = lbkit("check")
    assert checked.exit_code == 0
    assert checked.output.count(": good") == sum(len(presets.files(study)) for study in studies.STUDIES)


def test_check_names_every_bad_file(lbkit, checkout):
    good, one, two = (checkout / "params" / "sqd_variants" / f"{name}.yaml" for name in ("small", "one", "two"))
    one.write_text("d: 5\nlamda: 0.5\n")
    two.write_text("lam: 0.5\nlam: 0.6\n")
    stray = checkout / "stray.yaml"
    stray.write_text("lam: 0.5\n")
    checked = lbkit("check", *map(str, (one, good, two, stray)))
    assert checked.exit_code == 2 and checked.stdout == f"{good}: good\n"
    first, second, third = checked.stderr.splitlines()
    assert first == f"{one}:2: sqd_variants: there is no parameter 'lamda'; did you mean 'lam'?"
    assert second.startswith(f"{two}:2: found duplicate key")
    assert third.startswith(f"{stray}: its folder must be named after a study, sqd_variants")
    assert lbkit("check").exit_code == 2


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["show", "sqd_variant"], "did you mean 'sqd_variants'?"),
        (["run", "sqd"], "there is no study 'sqd'"),
        (["run", "sqd_variants", "smal"], "has no preset 'smal', only small; did you mean 'small'?"),
        (["run", "sqd_variants", "gone.yaml"], "gone.yaml: No such file"),
        (["run", "sqd_variants", "small", "-p", "lamda=0.5"], "there is no parameter 'lamda'; did you mean 'lam'?"),
        (["run", "sqd_variants", "small", "-p", "lam=1.5"], "lam must be a number in (0, 0.999], not 1.5"),
        (["run", "sqd_variants", "-p", "d=yes"], "d must be an integer in [1, 100], not 'yes'"),
        (["run", "sqd_variants", "-p", "servers=100"], "not 100; write [100]"),
        (["run", "sqd_variants", "-p", "d"], "-p takes name=value, each name once, not 'd'"),
        (["run", "sqd_variants", "-p", "d=2", "-p", "d=3"], "each name once, not 'd=3'"),
        (["run", "sqd_variants", "-p", "d=[2"], "-p d=[2: the value is not YAML"),
        (["run", "sqd_variants", "small"], "sqd_variants.ipynb: No such file"),
        (["run", "stray.yaml"], "stray.yaml: No such file"),
        (["run", "sqd_variants", "small", "--timeout", "0"], "timeout must be in (0, 10000000] seconds, not 0"),
    ],
)
def test_an_error_of_the_user_is_a_sentence_and_exit_code_2(lbkit, checkout, arguments, expected):
    failed = lbkit(*arguments)
    assert failed.exit_code == 2 and failed.stdout == ""
    assert expected in failed.stderr and len(failed.stderr.splitlines()) == 1
    assert not (checkout / "runs").exists()


def test_an_error_of_our_own_is_not_hidden(lbkit, monkeypatch):
    monkeypatch.setattr(presets, "files", lambda study: 1 / 0)
    assert isinstance(lbkit("list").exception, ZeroDivisionError)


def test_run_says_where_things_lie(lbkit, checkout):
    keep = "from lbkit import record\nrecord.claims([record.Claim('points', loads, loads, loads == 3 and d == 7)])"
    write_notebook(checkout, keep, study=SqdVariants)
    command = ["run", "sqd_variants", "small", "-p", "d=7", "--out", str(checkout / "out")]
    done = lbkit(*command)
    assert done.exit_code == 0, done.output
    folder = next((checkout / "out" / "sqd_variants").iterdir())
    assert done.stdout.startswith("cell 1 of 3\ncell 2 of 3\ncell 3 of 3\ndone after ")
    assert f"    {folder / 'notebook.ipynb'}\n" in done.stdout and f"    {folder / 'claims.json'}\n" in done.stdout
    assert json.loads((folder / "claims.json").read_text())[0]["holds"] is True
    again = lbkit(*command)
    assert again.exit_code == 0 and again.stdout.startswith("done earlier, in ")


def test_a_file_with_a_grid(lbkit, checkout, tmp_path):
    write_notebook(checkout, "assert d < 9")
    file = tmp_path / "stray.yaml"
    file.write_text("study: tiny\ngrid: {d: [2, 9]}\n")
    assert lbkit("check", str(file)).stdout == f"{file}: good, 2 points\n"

    command = ["run", str(file), "--out", str(tmp_path / "out"), "-j", "2"]
    listed = lbkit(*command, "--dry-run")
    assert listed.exit_code == 0 and not (tmp_path / "out").exists()
    first, second, estimate = listed.stdout.splitlines()
    assert first.startswith(f"new          d=2  {tmp_path / 'out' / 'tiny' / 'stray-'}") and "  d=9  " in second
    assert estimate == "2 points; time unknown: no run of tiny is done yet"

    failed = lbkit(*command)
    assert failed.exit_code == 1
    assert f"2 points: 1 done, 1 failed; below {tmp_path / 'out' / 'tiny'}\n" in failed.stdout
    first, second = failed.stderr.splitlines()
    assert first == "d=9: cell 3: AssertionError: " and second.endswith("notebook.ipynb")

    *points, estimate = lbkit(*command, "--dry-run").stdout.splitlines()
    assert [line.split()[0] for line in points] == ["done", "failed"]
    assert estimate.startswith("2 points; time about ") and estimate.endswith(": 1 earlier run of stray, with other d")


def test_list_in_a_process_of_its_own_stays_light():
    heavy = "{'numba', 'numpy', 'matplotlib', 'pandas', 'papermill', 'ipywidgets', 'nbformat'}"
    code = f"""
import atexit, sys
atexit.register(lambda: print("heavy:", sorted({heavy} & set(sys.modules))))
sys.argv = ["lbkit", "list"]
from lbkit.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sqd_variants: ") and done.stdout.endswith("heavy: []\n") and done.stderr == ""
