"""Record: what a run of a notebook leaves behind.

With the environment variable LBKIT_RUN_DIR set to a folder, figures, their data and the claims that were checked are
written there; without it, in a notebook used by hand, nothing is written::

    figures/<name>.pdf  figures/<name>.png  data/<name>.csv  claims.json

Every file appears whole or not at all. A figure carries in its metadata the provenance of the run it belongs to: a
sentence for people, and all of it in JSON.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

__all__ = ["Claim", "Claims", "claims", "claims_table", "figure", "provenance", "replacing"]

VERDICTS = {True: "holds", False: "does not hold", None: "not shown"}
PROVENANCE = ("study", "preset", "parameters", "seed", "started", "python", "platform", "packages", "git", "code")


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper beside what was found.

    text   the statement
    paper  the paper's number, or where it says so
    ours   the number found
    holds  True, False, or None where this run shows neither
    note   a remark

    Raises ValueError unless holds is one of these three, and for a number that is not finite.
    """

    text: str
    paper: str | float
    ours: str | float
    holds: bool | None
    note: str = ""

    def __post_init__(self):
        if self.holds not in VERDICTS:
            raise ValueError(f"holds must be True, False or None, not {self.holds!r} (claim {self.text!r})")
        for number in (self.paper, self.ours):
            if not isinstance(number, str) and not isfinite(number):
                raise ValueError(f"a claim's numbers must be finite, not {number!r} (claim {self.text!r})")
        object.__setattr__(self, "holds", None if self.holds is None else bool(self.holds))

    @property
    def verdict(self) -> str:
        return VERDICTS[self.holds]

    @property
    def row(self) -> tuple[str, ...]:
        """The claim as text: statement, paper, ours, verdict, note."""
        return self.text, _number(self.paper), _number(self.ours), self.verdict, self.note


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims as a table, for a notebook, a page or a terminal."""

    claims: tuple[Claim, ...]
    head = ("claim", "paper", "ours", "verdict", "note")

    def _repr_html_(self) -> str:
        rows = [_tag("tr", *(_tag("td", escape(text)) for text in claim.row)) for claim in self.claims]
        return _tag("table", _tag("tr", *(_tag("th", text) for text in self.head)), *rows)

    def _repr_markdown_(self) -> str:
        rows = [self.head, ["---"] * len(self.head), *(claim.row for claim in self.claims)]
        return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows)

    def __repr__(self) -> str:
        rows = [self.head, *(claim.row for claim in self.claims)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def figure(fig, name: str, data: Mapping[str, Sequence] | Any = None) -> None:
    """Write a Matplotlib Figure as figures/<name>.pdf and .png, and what it shows as data/<name>.csv.

    data  a tidy DataFrame, or {column: values} with columns of one length

    Raises ValueError for a name that is more than letters, digits, ".", "_" and "-".
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"a figure's name must be letters, digits, '.', '_' and '-', not {name!r}")
    if not (folder := _folder()):
        return
    run = provenance(folder)
    origin, everything = _origin(folder, run), json.dumps(run)
    started = datetime.fromisoformat(run["started"]) if run else None  # of the run: equal figures are equal files
    pdf = {"Title": name, "Subject": origin, "Keywords": everything, "Creator": "lbkit", "CreationDate": started}
    png = {"Title": name, "Description": origin, "Comment": everything, "Software": "lbkit"}
    fig.draw_without_rendering()
    fig.set_layout_engine("none")  # laid out once for both files
    for suffix, metadata in {"pdf": pdf, "png": png}.items():
        with replacing(folder / "figures" / f"{name}.{suffix}") as path:
            fig.savefig(path, format=suffix, dpi=160, metadata=metadata)
    if data is not None:
        from pandas import DataFrame

        with replacing(folder / "data" / f"{name}.csv") as path:
            DataFrame(data).to_csv(path, index=False)


def claims(found: Sequence[Claim]) -> None:
    """Write claims.json: for each claim its text, the paper's number, ours, holds and note."""
    if folder := _folder():
        with replacing(folder / "claims.json") as path:
            rows = [asdict(claim) for claim in found]
            path.write_text(json.dumps(rows, indent=2, ensure_ascii=False, default=_item) + "\n", encoding="utf-8")


def claims_table(found: Sequence[Claim]) -> Claims:
    """The claims as a table to display."""
    return Claims(tuple(found))


def provenance(folder: Path) -> dict[str, Any]:
    """Where the files in the folder of a run come from: PROVENANCE, as result.json tells; {} where there is none."""
    manifest = folder / "result.json"
    if not manifest.is_file():
        return {}
    run = json.loads(manifest.read_text(encoding="utf-8"))
    return {name: run[name] for name in PROVENANCE if name in run}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place once the block has ended without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _folder() -> Path | None:
    folder = os.environ.get("LBKIT_RUN_DIR")
    return Path(folder) if folder else None


def _origin(folder: Path, run: Mapping[str, Any]) -> str:
    """The provenance of a run as a sentence."""
    if not run:
        return "lbkit"
    git = run["git"] or {}
    commit = f"commit {git.get('commit') or 'unknown'}{' with changes' if git.get('dirty') else ''}"
    return f"{run['study']} {folder.name}, lbkit {run['packages']['lbkit']}, {commit}, started {run['started']}"


def _item(number):
    """A NumPy number as a Python one."""
    return number.item()


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _tag(tag: str, *inside: str) -> str:
    return f'<{tag} style="text-align: left">{"".join(inside)}</{tag}>'
