"""Doctor: whether this machine has what lbkit needs, and what to do where it has not.

Each check is a function that looks at one thing and gives a Finding; none repairs anything.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

from lbkit import batch, points, presets, worker

__all__ = ["Finding", "examine"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
DISK = 2**30  # bytes that should be free
PATIENCE = 120.0  # s that a first notebook may take
VERDICTS = {True: "good", False: "to do", None: "optional"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    name  what it looked at
    good  True, False where something must be done, None where it may be done
    says  what is there, or what to do
    """

    name: str
    good: bool | None
    says: str

    @property
    def verdict(self) -> str:
        return VERDICTS[self.good]


def examine(out: Path) -> Iterator[Finding]:
    """Check everything, one thing after the other; runs are to lie below ``out``."""
    yield _packages()
    yield _lock()
    yield _extras()
    yield _repository()
    yield _disk(out)
    yield _cache()
    yield _notebook()
    yield _browser()


def _packages() -> Finding:
    """Required packages against the versions that lbkit needs at least."""
    needed = [requirement for requirement in _requirements() if not requirement.marker]
    if wrong := list(filter(None, map(_lacks, needed))):
        return Finding("packages", False, f"{'; '.join(wrong)}: 'make run' sets all up, or use pip install -U")
    return Finding("packages", True, f"lbkit {metadata.version('lbkit')} and the {len(needed)} packages that it needs")


def _lock() -> Finding:
    """Installed packages against requirements.lock."""
    try:
        text = (presets.repository() / "requirements.lock").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return Finding("lock", None, "there is no requirements.lock to compare the packages with")
    pins = [Requirement(line.rstrip("\\ ")) for line in text.splitlines() if "==" in line and not line.startswith(" ")]
    pins = [pin for pin in pins if not pin.marker or pin.marker.evaluate()]
    if other := [sentence for pin in pins if _installed(pin.name) and (sentence := _lacks(pin))]:
        more = f" and {len(other) - 3} more" if len(other) > 3 else ""
        advice = "'rm .venv/ready; make run' takes the tested versions"
        return Finding("lock", None, f"{'; '.join(other[:3])}{more}: {advice}")
    return Finding("lock", True, f"installed packages are at the versions of requirements.lock, {len(pins)} in all")


def _extras() -> Finding:
    """Which extras are there."""
    extras = metadata.metadata("lbkit").get_all("Provides-Extra") or []
    lacking = {
        extra: requirement.name
        for extra in extras
        for requirement in _requirements()
        if requirement.marker and requirement.marker.evaluate({"extra": extra}) and _lacks(requirement)
    }
    if lacking:
        names = ", ".join(f"{extra} ({name})" for extra, name in lacking.items())
        return Finding("extras", None, f"not complete: {names}; pip install lbkit[NAME] adds one")
    return Finding("extras", True, ", ".join(extras))


def _repository() -> Finding:
    try:
        return Finding("notebooks", True, str(presets.repository() / "notebooks"))
    except ValueError as error:
        return Finding("notebooks", False, str(error))


def _disk(out: Path) -> Finding:
    folder = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.is_dir())
    free = shutil.disk_usage(folder).free
    says = f"{free / 2**30:.1f} GiB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Finding("disk", False, f"{folder} cannot be written to: choose another folder with --out")
    return Finding("disk", free >= DISK, says if free >= DISK else f"{says}: a study may take more, make room")


def _cache() -> Finding:
    """Where numba keeps compiled functions."""
    try:
        from lbkit import kernels
    except RuntimeError as error:  # of numba, which finds no folder
        return Finding("numba cache", False, f"{error}: set NUMBA_CACHE_DIR to a folder that can be written to")
    if not hasattr(kernels.dispatch, "stats"):
        return Finding("numba cache", False, "NUMBA_DISABLE_JIT is set, which slows lbkit hundreds of times: unset it")
    folder = Path(kernels.dispatch.stats.cache_path)
    size = sum(file.stat().st_size for file in folder.glob("*.nb[ci]"))
    says = f"{size / 1e6:.0f} MB of compiled functions in {folder}"
    return Finding("numba cache", True, says if size else f"empty, {folder}: the first run compiles for a minute")


def _notebook() -> Finding:
    """Run a notebook of one cell, just as a study is run."""
    import nbformat

    with TemporaryDirectory(prefix="lbkit-") as folder:
        file, out = Path(folder) / "cell.ipynb", Path(folder).resolve() / "run"
        cell = nbformat.v4.new_code_cell("import sys, lbkit\nprint(sys.prefix)")
        document = nbformat.v4.new_notebook(cells=[cell])
        nbformat.write(document, file)
        manifest = {
            "status": "planned", "notebook": str(file), "notebook_hash": worker.notebook_hash(document),
            "code": worker.code(), "timeout": PATIENCE, "parameters": {},
        }  # fmt: skip
        ended = batch.perform(points.Point(out, manifest))
        if ended.status != "done":
            return Finding("kernel", False, f"no notebook runs, {ended.error}: is ipykernel installed in {sys.prefix}?")
        prefix = nbformat.read(out / "notebook.ipynb", as_version=4).cells[0].outputs[0].text.strip()
    if prefix != sys.prefix:
        advice = f"'{sys.executable} -m ipykernel install --sys-prefix' makes one here"
        return Finding("kernel", False, f"notebooks run in {prefix}, not in {sys.prefix}: {advice}")
    return Finding("kernel", True, f"a notebook runs, in {ended.seconds:.1f} s")


def _browser() -> Finding:
    if found := next(filter(None, map(shutil.which, BROWSERS)), None):
        return Finding("browser", True, found)
    return Finding("browser", None, "none is found; only the tests of the pages need one, the package chromium")


def _requirements() -> list[Requirement]:
    return list(map(Requirement, metadata.requires("lbkit") or ()))


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _lacks(requirement: Requirement) -> str | None:
    """What is wrong with the package that is required, if anything is."""
    found = _installed(requirement.name)
    if found and requirement.specifier.contains(found, prereleases=True):
        return None
    return f"{requirement.name} is {found or 'missing'}, not {requirement.specifier}"
