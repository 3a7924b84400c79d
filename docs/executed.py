"""A study's notebook as it stands now, with the outputs that a run of it has left.

Prose and slides may change after a run; code may not: a cell whose code the run does not know is refused, so that no
page shows an output beside code that did not make it.
"""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat

from lbkit import presets, studies

__all__ = ["asked", "executed", "newest"]

WIDGET = "application/vnd.jupyter.widget-view+json"


@contextmanager
def asked(description: str) -> Iterator[tuple[Path, dict[str, Path]]]:
    """What the command line asks for: where to write, and {study: folder of its run}; a ValueError ends the program."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", default="lecture")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    try:
        yield options.out, {study: newest(study, options.preset, options.runs) for study in studies.STUDIES}
    except ValueError as error:
        parser.exit(2, f"{error}\n")


def newest(study: str, preset: str = "lecture", runs: Path = Path("runs")) -> Path:
    """Folder of the last run of a study that is done and has the preset's parameters; ValueError if there is none."""
    wanted, done = presets.resolve(study, preset).values(), {}
    for file in runs.glob(f"{study}/*/result.json"):
        run = json.loads(file.read_text(encoding="utf-8"))
        if run["status"] == "done" and run["parameters"] == wanted:
            done[run["started"]] = file.parent
    if not done:
        raise ValueError(f"{runs} holds no finished run of {study} {preset}: make one by lbkit run {study} {preset}")
    return done[max(done)]


def executed(study: str, folder: Path) -> nbformat.NotebookNode:
    """The notebook of a study with the parameters and outputs of the run in ``folder``.

    Of a panel its picture is left, as controls need a kernel. Raises ValueError if the code has changed since the run.
    """
    made = {cell.id: cell for cell in nbformat.read(folder / "notebook.ipynb", as_version=4).cells}
    notebook = nbformat.read(presets.repository() / "notebooks" / f"{study}.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if "parameters" in cell.metadata.get("tags", ()):
            run = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            cell.source = studies.get(study)(**run["parameters"]).cell()
        elif cell.id in made and made[cell.id].source == cell.source:
            cell.execution_count = made[cell.id].execution_count
            cell.outputs = made[cell.id].outputs
            for output in cell.outputs:
                output.get("data", {}).pop(WIDGET, None)
        else:
            raise ValueError(f"{folder}: the code of {study} is not what this run had: lbkit run {study} makes another")
    return notebook
