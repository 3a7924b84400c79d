"""Report: what lies in a folder of runs, as a list and as pages that need no network.

``stored`` reads the runs below a folder; ``gallery`` writes, from the finished ones::

    index.html               each study's summary and claims: holds, does not hold, not shown
    <study>-<preset>.html    the executed notebook, figures inside, code folded away, and where it comes from
    mathjax/                 what typesets the equations

Each study and preset has one page: of its runs, those with the parameters that are shipped come before others, and then
the last to end counts. The first page takes a study's claims from its fullest preset: paper, else lecture, else smoke.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lbkit import batch, presets, worker
from lbkit.record import VERDICTS, Claim, provenance, replacing
from lbkit.studies import STUDIES

__all__ = ["Stored", "duration", "gallery", "stored"]

PAGES = Path(__file__).parent / "pages"
PLURAL = {"holds": "hold", "does not hold": "do not hold", "not shown": "not shown"}
FULLNESS = ("paper", "lecture", "smoke")
MATHJAX = (
    "MathJax.js", "extensions/MathEvents.js", "extensions/TeX", "extensions/tex2jax.js", "jax/element", "jax/input/TeX",
    "jax/output/SVG",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """A run as its folder tells.

    folder    where everything lies
    status    "planned", "running", "done", "failed" or "interrupted", as a run is whose process is gone
    started   when
    manifest  what result.json holds
    claims    the claims it checked
    """

    folder: Path
    study: str
    preset: str
    status: str
    started: datetime
    manifest: dict[str, Any]
    claims: tuple[Claim, ...]

    @property
    def seconds(self) -> float | None:
        """Wall-clock time, so far if it is running; None if nobody was left to write it down."""
        if self.status == "running":
            return (datetime.now(UTC) - self.started).total_seconds()
        return self.manifest.get("seconds")

    @property
    def ended(self) -> datetime:
        return self.started + timedelta(seconds=self.seconds or 0)

    @property
    def commit(self) -> str:
        git = self.manifest["git"] or {}
        return (git.get("commit") or "unknown")[:10] + (" with changes" if git.get("dirty") else "")

    @property
    def provenance(self) -> dict[str, Any]:
        return provenance(self.folder)

    @property
    def changes(self) -> dict[str, Any]:
        """Parameters that differ from those of the shipped preset of that name, if there is one with one point."""
        own = self.manifest["parameters"]
        shipped = _shipped(self.study, self.preset) or own
        return {name: value for name, value in own.items() if shipped.get(name) != value}

    @property
    def page(self) -> str:
        return f"{self.study}-{self.preset}.html"

    @property
    def counts(self) -> dict[str, str]:
        """{verdict: how many claims have it}, in words."""
        number = Counter(claim.verdict for claim in self.claims)
        return {
            verdict: f"{number[verdict]} {verdict if number[verdict] == 1 else PLURAL[verdict]}"
            for verdict in VERDICTS.values()
            if number[verdict]
        }


def stored(out: Path) -> list[Stored]:
    """The runs below a folder, the first to start first.

    Raises ValueError where there is no such folder, and for a file that is not a run's.
    """
    if not out.is_dir():
        raise ValueError(f"there is no folder {str(out)!r}; 'lbkit run STUDY PRESET --out {out}' would make one")
    return sorted(map(_read, out.rglob("result.json")), key=lambda run: (run.started, run.folder))


def gallery(out: Path, to: Path) -> Path:
    """Write the pages of the finished runs below ``out`` into the folder ``to``; returns the first page.

    Raises ValueError where no run is finished, or where MathJax is not installed.
    """
    runs = stored(out)
    done = [run for run in runs if run.status == "done"]
    if not done:
        raise ValueError(f"no run in {str(out)!r} is finished; 'lbkit run STUDY PRESET --out {out}' makes one")
    shown = {(run.study, run.preset): run for run in sorted(done, key=lambda run: (not run.changes, run.ended))}
    studies = [name for name in STUDIES if any(study == name for study, _ in shown)]
    by_study = {name: sorted((run for run in shown.values() if run.study == name), key=_rank) for name in studies}
    _mathjax(to / "mathjax")
    templates = _templates()
    for siblings in by_study.values():
        for run in siblings:
            _write(to / run.page, templates.get_template("run.html.j2"), run=run, siblings=siblings, **_body(run))
    left = Counter(run.status for run in runs if run.status != "done")
    _write(to / "index.html", templates.get_template("index.html.j2"), by_study=by_study, left=left)
    return to / "index.html"


def duration(seconds: float | None) -> str:
    """A wall-clock time in words, as "3 min 5 s"."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _read(file: Path) -> Stored:
    folder = file.parent
    try:
        found = worker.read(folder)
        status = found["status"]
        if status == "running" and not batch.alive(folder):
            found = worker.read(folder)  # it may have ended in between
            status = "interrupted" if found["status"] == "running" else found["status"]
        file_of_claims = folder / "claims.json"
        rows = json.loads(file_of_claims.read_text(encoding="utf-8")) if file_of_claims.is_file() else []
        claims, started = tuple(Claim(**row) for row in rows), datetime.fromisoformat(found["started"])
        return Stored(folder, found["study"], found["preset"], status, started, found, claims)
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{file}: the file does not describe a run of lbkit; move it elsewhere") from None


@cache
def _shipped(study: str, preset: str) -> dict[str, Any] | None:
    """Parameters of a shipped preset of one point."""
    try:
        return presets.resolve(study, None if preset == "default" else preset).values()
    except ValueError:
        return None


def _rank(run: Stored) -> tuple[int, str]:
    """The fullest preset first."""
    return FULLNESS.index(run.preset) if run.preset in FULLNESS else len(FULLNESS), run.preset


def _body(run: Stored) -> dict[str, Any]:
    """The cells of the notebook in HTML, the style of its code, and its sections as (anchor, title)."""
    import nbformat
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    exporter = HTMLExporter(
        template_name="cells", extra_template_basedirs=[str(PAGES)], exclude_input_prompt=True,
        exclude_output_prompt=True,
    )  # fmt: skip
    cells, _ = exporter.from_notebook_node(nbformat.read(run.folder / "notebook.ipynb", as_version=4))
    sections = re.findall(r'<h2 id="([^"]+)">(.*?)<a class="anchor-link"', cells, re.DOTALL)
    return {"cells": cells, "sections": sections, "code_style": HtmlFormatter(style="friendly").get_style_defs()}


def _templates():
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(PAGES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"duration": duration, "moment": _moment, "plain": _plain}
    templates.globals |= {"studies": STUDIES, "version": version("lbkit"), "now": datetime.now(UTC)}
    return templates


def _write(file: Path, template, **names) -> None:
    with replacing(file) as path:
        path.write_text(template.render(names), encoding="utf-8")


def _mathjax(to: Path) -> None:
    """Copy what of MathJax the pages need, some 4 MB."""
    try:
        import nbclassic
    except ImportError:
        raise ValueError("a report needs MathJax for its equations: install nbclassic, as in lbkit[site]") from None
    source = Path(nbclassic.__file__).parent / "static" / "components" / "MathJax"
    for name in MATHJAX:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy2
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        copy(source / name, to / name, **({"dirs_exist_ok": True} if copy is shutil.copytree else {}))


def _moment(time: datetime) -> str:
    return f"{time.astimezone(UTC):%-d %B %Y, %H:%M} UTC"


def _plain(value: Any) -> str:
    """A value of a manifest as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
