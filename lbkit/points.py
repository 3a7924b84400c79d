"""Points: studies become plans of runs, each with a folder named by all that decides its results.

The folder is ``<out>/<study>/<preset>-<hash>``, hashed from the sources of lbkit, the cells of the notebook, the
parameters, the seed and the files that the parameters name. So a point that is done is done, and what could change its
results sends them elsewhere.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from lbkit import presets, worker
from lbkit.studies import Study

__all__ = ["Estimate", "Point", "estimate", "notebook", "plan"]

TIMEOUT = 6 * 3600.0  # s


@dataclass(frozen=True, slots=True)
class Point:
    """A run to be.

    folder    where it will lie
    manifest  what is known of it beforehand, as in result.json
    """

    folder: Path
    manifest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a batch will take.

    seconds  wall-clock time of what is not done yet, None where nothing is known
    basis    what that rests on
    """

    seconds: float | None
    basis: str


def notebook(study: Study) -> Path:
    """The study's notebook, whose parameters cell must define the study's parameters, all of them and nothing else."""
    return _notebook(study)[0]


def plan(
    studies: Sequence[Study], preset: str | Path = "default", *, out: str | Path = "runs", timeout: float = TIMEOUT
) -> tuple[Point, ...]:
    """The points of studies that differ in their parameters alone; nothing is written.

    preset   preset or file the parameters came from; it gives the folders their names
    out      folder of all runs
    timeout  seconds that a point may take

    Raises ValueError for a notebook that does not fit the study, a file of input that cannot be read, and a timeout
    outside (0, 10^7].
    """
    if not 0 < timeout <= 1e7:
        raise ValueError(f"timeout must be in (0, 10000000] seconds, not {timeout:g}")
    file, digest = _notebook(studies[0])
    name, folder = Path(preset).stem, Path(out).resolve() / studies[0].notebook
    common = {
        "study": studies[0].notebook,
        "preset": name,
        "status": "planned",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "notebook": str(file.resolve()),
        "notebook_hash": digest,
        "code": worker.code(),
        "timeout": timeout,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(),
        "git": _git(file.parent),
    }
    points = []
    for study in studies:
        values, inputs = study.values(), _inputs(study)
        decisive = [common["code"], digest, values, values.get("seed"), *inputs.values()]
        key = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:12]
        own = {"parameters": values, "seed": values.get("seed"), "inputs": inputs}
        points.append(Point(folder / f"{name}-{key}", common | own))
    return tuple(points)


def estimate(points: Sequence[Point], jobs: int = 1, fresh: bool = False) -> Estimate:
    """How long the points that are not done, or all if fresh, will take: each as long as the earlier run most like it.

    That is one of the same preset if there is any, and among these the one with the fewest other parameters.
    """
    todo = [point for point in points if fresh or (worker.read(point.folder) or {}).get("status") != "done"]
    found = [worker.read(file.parent) for file in points[0].folder.parent.glob("*/result.json")]
    done = [earlier for earlier in found if earlier and earlier["status"] == "done"]
    if not todo:
        return Estimate(0.0, "all is done")
    if not done:
        return Estimate(None, f"no run of {todo[0].manifest['study']} is done yet")
    nearest = [min(done, key=partial(_distance, point)) for point in todo]
    seconds = [earlier["seconds"] for earlier in nearest]
    runs = {earlier["started"] + str(earlier["parameters"]) for earlier in nearest}
    names = ", ".join(sorted({earlier["preset"] for earlier in nearest}))
    other = set().union(*(_differ(point, earlier) for point, earlier in zip(todo, nearest, strict=True)))
    basis = f"{len(runs)} earlier run{'s'[:len(runs) > 1]} of {names}"
    if other:
        basis += f", with other {', '.join(sorted(other))}"
    return Estimate(max(max(seconds), sum(seconds) / jobs), basis)


def _distance(point: Point, earlier: Mapping[str, Any]) -> tuple[bool, int]:
    return earlier["preset"] != point.manifest["preset"], len(_differ(point, earlier))


def _differ(point: Point, earlier: Mapping[str, Any]) -> set[str]:
    """Names of the parameters in which an earlier run differs from a point."""
    one, other = point.manifest["parameters"], earlier["parameters"]
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def _notebook(study: Study) -> tuple[Path, str]:
    """The study's notebook and the hash of its cells."""
    import nbformat

    file = presets.repository() / "notebooks" / f"{study.notebook}.ipynb"
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
    return file, worker.notebook_hash(document)


def _inputs(study: Study) -> dict[str, str]:
    """{parameter: hash} of the files that the study reads."""
    values, hashes = study.values(), {}
    for name in [name for name, schema in type(study).schemas().items() if schema.get("format") == "file"]:
        file = presets.repository() / values[name]
        try:
            hashes |= {name: hashlib.sha256(file.read_bytes()).hexdigest()} if values[name] else {}
        except OSError as error:
            raise ValueError(f"{study.notebook}: {name}: {file}: {error.strerror}") from None
    return hashes


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
