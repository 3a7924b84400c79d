"""Each check of the doctor finds what it is there to find."""

import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

import lbkit
from lbkit import batch, doctor, kernels, presets
from lbkit.cli import app

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def requirements(monkeypatch):
    return lambda *lines: monkeypatch.setattr(doctor, "_requirements", lambda: list(map(Requirement, lines)))


def test_this_machine_is_fit_for_these_tests(tmp_path):
    shown = CliRunner().invoke(app, ["doctor", "--out", str(tmp_path / "not" / "there" / "yet")])
    assert shown.exit_code == 0, shown.output
    findings = {line[:12].strip(): line[13:].split(maxsplit=1) for line in shown.output.splitlines()}
    assert list(findings) == ["packages", "lock", "extras", "notebooks", "disk", "numba cache", "kernel", "browser"]
    assert findings["packages"][0] == "good" and findings["kernel"] == ["good", findings["kernel"][1]]
    assert findings["kernel"][1].startswith("a notebook runs, in ") and str(tmp_path) in findings["disk"][1]
    assert not list(tmp_path.iterdir())


def test_something_to_do_is_exit_code_1(monkeypatch):
    found = [doctor.Finding("a", True, "x"), doctor.Finding("b", False, "do y"), doctor.Finding("c", None, "z")]
    shown = {}
    for keep in ([0, 1, 2], [0, 2]):
        monkeypatch.setattr(doctor, "examine", lambda out, keep=keep: (found[i] for i in keep))
        shown[len(keep)] = CliRunner().invoke(app, ["doctor"])
    assert [shown[2].exit_code, shown[3].exit_code] == [0, 1]
    assert [line.split() for line in shown[3].output.splitlines()] == [
        ["a", "good", "x"], ["b", "to", "do", "do", "y"], ["c", "optional", "z"],
    ]  # fmt: skip


def test_packages_that_are_missing_or_too_old(requirements):
    requirements("numpy>=1.0", "pandas>=99", "no-such-package>=1", "pytest>=99; extra == 'test'")
    found = doctor._packages()
    assert found.good is False and "pandas is 3" in found.says and "not >=99" in found.says
    assert "no-such-package is missing, not >=1" in found.says
    assert "numpy" not in found.says and "pytest" not in found.says
    requirements("numpy>=1.0")
    assert doctor._packages().good is True


def test_packages_other_than_the_lock_says(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "repository", lambda: tmp_path)
    assert doctor._lock().good is None
    lines = [f"numpy==0.{n} \\\n    --hash=sha256:00" for n in range(5)]
    lines += [f"{pin} \\\n    --hash=sha256:00" for pin in ("no-such-package==1.0", "pandas==0.1 ; python_version < '3'")]
    (tmp_path / "requirements.lock").write_text("\n".join(lines))
    found = doctor._lock()
    assert found.good is None and "not ==0.2 and 2 more: 'rm .venv/ready; make run'" in found.says
    assert "no-such-package" not in found.says and "pandas" not in found.says


def test_extras_are_optional(requirements):
    requirements("numpy>=1.0", "no-such-package; extra == 'site'", "pytest>=1; extra == 'test'")
    found = doctor._extras()
    assert found.good is None and "site (no-such-package)" in found.says and "test" not in found.says


def test_no_repository(monkeypatch):
    def none():
        raise ValueError("there is no folder 'notebooks'")

    monkeypatch.setattr(presets, "repository", none)
    assert doctor._repository() == doctor.Finding("notebooks", False, "there is no folder 'notebooks'")
    assert doctor._lock().good is None


def test_a_full_disk_and_one_that_is_read_only(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(2**40, 2**40 - 2**28, 2**28))
    found = doctor._disk(tmp_path / "runs")
    assert found.good is False and found.says.startswith(f"0.2 GiB free in {tmp_path}")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(2**40, 0, 2**40))
    assert doctor._disk(tmp_path / "runs").good is True
    monkeypatch.setattr(doctor.os, "access", lambda folder, mode: False)
    assert "cannot be written to" in doctor._disk(tmp_path).says


def test_compiled_functions(monkeypatch):
    found = doctor._cache()
    assert found.good is True and " MB of compiled functions in " in found.says
    monkeypatch.setattr(kernels, "dispatch", kernels.dispatch.py_func)  # as NUMBA_DISABLE_JIT leaves it
    assert "NUMBA_DISABLE_JIT" in doctor._cache().says and doctor._cache().good is False

    class NoFolder:
        @staticmethod
        def find_spec(name, path, target=None):
            if name == "lbkit.kernels":
                raise RuntimeError("cannot cache function: no locator available")  # as numba does

    monkeypatch.delattr(lbkit, "kernels")
    monkeypatch.delitem(sys.modules, "lbkit.kernels")
    monkeypatch.setattr(sys, "meta_path", [NoFolder, *sys.meta_path])
    found = doctor._cache()
    assert found.good is False and "no locator available: set NUMBA_CACHE_DIR" in found.says


@pytest.mark.parametrize(
    "status, prefix, says",
    [
        ("failed", None, "no notebook runs, No such kernel: is ipykernel installed"),
        ("done", "elsewhere", f"notebooks run in elsewhere, not in {sys.prefix}: '{sys.executable} -m ipykernel"),
        ("done", sys.prefix, "a notebook runs, in 2.0 s"),
    ],
)
def test_a_kernel_that_does_not_start_or_is_another(monkeypatch, status, prefix, says):
    import nbformat

    def perform(point):
        point.folder.mkdir()
        document = nbformat.read(point.manifest["notebook"], as_version=4)
        document.cells[0].outputs = [nbformat.v4.new_output("stream", text=f"{prefix}\n")]
        nbformat.write(document, point.folder / "notebook.ipynb")
        return batch.Run(point.folder, status, 2.0, error=None if status == "done" else "No such kernel")

    monkeypatch.setattr(batch, "perform", perform)
    found = doctor._notebook()
    assert found.good is (prefix == sys.prefix) and found.says.startswith(says)


def test_a_browser_is_optional(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor._browser().good is None
    (tmp_path / "chrome").write_text("#!/bin/sh\n")
    (tmp_path / "chrome").chmod(0o755)
    assert doctor._browser() == doctor.Finding("browser", True, str(Path(tmp_path) / "chrome"))
