"""Batch: a parameter file becomes a study, a study becomes a run of its notebook.

A parameter file ``params/<study>/<preset>.yaml`` is a flat mapping of parameters; its folder says of which study. It is
YAML 1.2, where 1e-8 is a number and a key must not come twice. The same file serves ``papermill -f``.

A run lives in a folder of its own, ``<out>/<study>/<preset>-<hash of the parameters>``::

    notebook.ipynb  figures/  data/  claims.json    what the notebook made
    result.json                                     the run itself: parameters, versions, commit, time, outcome
    log.txt                                         what the kernel said outside the cells

``result.json`` is written before the run starts and again when it ends, so that a run that was cut short shows as such,
which the notebook's own metadata cannot tell. It is all that the process that executes the notebook needs to know::

    python -m lbkit.batch <folder>
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from lbkit import studies
from lbkit.record import replacing
from lbkit.studies import ParameterError, Study, did_you_mean

__all__ = ["Run", "load", "notebook", "presets", "repository", "resolve", "run"]


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has ended.

    folder   where everything lies
    status   "done", "failed" or "interrupted"
    seconds  wall-clock time
    cell     number n of the cell In [n] that failed
    error    what it said
    """

    folder: Path
    status: str
    seconds: float
    cell: int | None = None
    error: str | None = None


def repository() -> Path:
    """The folder that holds notebooks/ and params/: beside the package, else the working directory."""
    for folder in (Path(__file__).resolve().parents[1], Path.cwd()):
        if (folder / "notebooks").is_dir():
            return folder
    raise ValueError(f"there is no folder 'notebooks' in {Path.cwd()}; run lbkit in a checkout of its repository")


def presets(study: str) -> dict[str, Path]:
    """The study's shipped parameter files by name."""
    return {file.stem: file for file in sorted((repository() / "params" / study).glob("*.yaml"))}


def load(file: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Parameters of a YAML file, and the line of each.

    Raises ValueError naming file and line where it is not a flat mapping in YAML 1.2.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    try:
        text = file.read_text(encoding="utf-8")
        node, values = yaml.compose(text), yaml.load(text)
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file}: the file is not UTF-8 text") from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else file
        raise ValueError(f"{where}: {getattr(error, 'problem', None) or str(error).splitlines()[0]}") from None
    if values is None:
        return {}, {}
    if not isinstance(values, dict):
        raise ValueError(f"{file}: a parameter file must be lines 'name: value', not a {type(values).__name__}")
    lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    return {str(name): value for name, value in values.items()}, lines


def resolve(study: str, preset: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Study:
    """A study's parameters: its defaults, then those of a preset or a file, then those given here.

    Raises ValueError for an unknown study or preset, and ParameterError for bad parameters with the file and the line
    that set them.
    """
    kind, overrides = studies.get(study), dict(overrides or {})
    if preset is None:
        return kind(**overrides)
    file = _file(study, preset)
    values, lines = load(file)
    try:
        return kind(**values | overrides)
    except ParameterError as error:
        places = {"": f"{file}: "} | {name: f"{file}:{line}: " for name, line in lines.items() if name not in overrides}
        raise ParameterError({name: places.get(name, "") + why for name, why in error.problems.items()}) from None


def notebook(study: Study) -> Path:
    """The study's notebook, whose parameters cell must define the study's parameters, all of them and nothing else."""
    import nbformat

    file = repository() / "notebooks" / f"{study.notebook}.ipynb"
    try:
        document = nbformat.read(file, as_version=4)
        nbformat.validate(document)
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from None
    except Exception:  # a broken file makes nbformat raise almost anything
        raise ValueError(f"{file}: the file is not a valid notebook") from None
    source = next((cell.source for cell in document.cells if "parameters" in cell.metadata.get("tags", ())), None)
    if source is None:
        raise ValueError(f"{file}: no cell carries the tag 'parameters'")
    try:
        defined = {target.id for line in ast.parse(source).body for target in line.targets}
    except (AttributeError, SyntaxError):
        raise ValueError(f"{file}: the parameters cell must be lines 'name = value'") from None
    if odd := defined ^ type(study).model_fields.keys():
        fresh = f"lbkit show {study.notebook} --cell"
        raise ValueError(f"{file}: the parameters cell and the study differ in {', '.join(sorted(odd))}; see '{fresh}'")
    return file


def run(
    study: Study,
    preset: str | Path = "default",
    *,
    out: str | Path = "runs",
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Execute a study's notebook in a fresh process and keep what it leaves behind.

    preset    preset or file the parameters came from; it gives the folder its name
    out       folder of all runs
    progress  called as progress(n, cells) when the n-th code cell starts

    A cell that fails is no exception but a Run with status "failed"; the notebook up to there is kept.

    Raises ValueError, before anything starts, for a notebook that does not fit the study.
    """
    source, started, clock = notebook(study), datetime.now(UTC), perf_counter()
    folder = _folder(study, Path(preset).stem, Path(out))
    manifest = {
        "study": study.notebook,
        "preset": Path(preset).stem,
        "parameters": study.values(),
        "seed": study.values().get("seed"),
        "notebook": str(source),
        "started": started.isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(),
        "git": _git(source.parent),
    }
    ended = Run(folder, "interrupted", 0.0)
    _write(folder, manifest | {"status": "running"})
    try:
        ended = replace(ended, **_supervise(folder, progress))
    finally:
        ended = replace(ended, seconds=round(perf_counter() - clock, 3))
        outcome = {name: getattr(ended, name) for name in ("status", "seconds", "cell", "error")}
        _write(folder, manifest | outcome)
    return ended


def _supervise(folder: Path, progress) -> dict[str, Any]:
    """Execute the notebook in a process of its own and report how it ended."""
    environment = {"LBKIT_RUN_DIR": str(folder), "JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    event: dict[str, Any] = {}
    with (
        (folder / "log.txt").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "lbkit.batch", str(folder)],
            cwd=folder, env={"OMP_NUM_THREADS": "1"} | os.environ | environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            for line in process.stdout:
                event = json.loads(line)
                if progress and "error" not in event:
                    progress(event["cell"], event["cells"])
        except BaseException:
            process.terminate()
            raise
    if process.returncode == 0:
        return {"status": "done"}
    died = f"the process of the notebook ended with code {process.returncode}, see log.txt"
    return {"status": "failed", "cell": event.get("cell"), "error": event.get("error", died)}


def _execute(folder: Path) -> None:
    """Execute the notebook of a run in this process, saying on stdout, in a line of JSON each, which cell starts."""
    import nbformat
    import papermill

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an orderly end takes the kernel along
    events = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to the log
    manifest = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    cells = nbformat.read(manifest["notebook"], as_version=4).cells
    code = sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in cells)
    event = {"cell": None, "cells": code + 1}  # papermill adds a cell that sets the parameters

    def say(**news):
        event.update(news)
        print(json.dumps(event), file=events, flush=True)

    try:
        with TemporaryDirectory(prefix="lbkit-") as sockets:
            papermill.execute_notebook(
                re.sub("[{}]", r"\g<0>\g<0>", manifest["notebook"]),  # papermill fills in paths as templates
                "notebook.ipynb",
                manifest["parameters"],
                kernel_name="python3",
                language="python",
                progress_bar=False,
                config=_transport(f"{sockets}/kernel"),
                on_cell_execute=lambda cell, cell_index: say(cell=(event["cell"] or 0) + 1),
            )
    except papermill.PapermillExecutionError as error:
        say(error=f"{error.ename}: {error.evalue}")
        raise SystemExit(1) from None
    except Exception as error:
        say(error=f"{type(error).__name__}: {error}")
        raise


def _transport(socket: str):
    """Talk to the kernel through a socket file, as ports may collide; its path may have some 100 bytes."""
    from traitlets.config import Config

    fits = os.name == "posix" and len(os.fsencode(socket)) < 90
    return Config(KernelManager={"transport": "ipc", "ip": socket} if fits else {})


def _folder(study: Study, preset: str, out: Path) -> Path:
    """The run's folder, cleared of an earlier run of the same parameters."""
    digest = hashlib.sha256(json.dumps(study.values(), sort_keys=True).encode()).hexdigest()[:8]
    folder = (out / study.notebook / f"{preset}-{digest}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for made in ("figures", "data"):
        shutil.rmtree(folder / made, ignore_errors=True)
    for made in ("notebook.ipynb", "claims.json"):
        (folder / made).unlink(missing_ok=True)
    return folder


def _file(study: str, preset: str | Path) -> Path:
    if Path(preset).suffix in (".yaml", ".yml"):
        return Path(preset)
    files = presets(study)
    if preset not in files:
        raise ValueError(f"{study} has no preset {preset!r}, only {', '.join(files)}{did_you_mean(str(preset), files)}")
    return files[str(preset)]


def _write(folder: Path, manifest: Mapping[str, Any]) -> None:
    with replacing(folder / "result.json") as path:
        path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _packages() -> dict[str, str]:
    """Versions of lbkit and of what it requires."""
    required = [re.match(r"[\w.-]+", line)[0] for line in metadata.requires("lbkit") or () if "extra ==" not in line]
    return {name: metadata.version(name) for name in ("lbkit", *required)}


def _git(folder: Path) -> dict[str, Any] | None:
    """Commit of the checkout that holds the folder, and whether files differ from it."""
    status = ["git", "--no-optional-locks", "-C", str(folder), "status", "--porcelain=v2", "--branch"]
    try:
        lines = subprocess.run(status, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    commit = next(line.split()[-1] for line in lines if line.startswith("# branch.oid"))
    changed = any(not line.startswith("#") for line in lines)
    return {"commit": None if commit == "(initial)" else commit, "dirty": changed}


if __name__ == "__main__":
    _execute(Path(sys.argv[1]))
