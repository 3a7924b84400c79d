"""The book: every study with the outputs of its newest run, and the reference, as pages that work without network.

    python docs/book.py build/site [--preset lecture] [--runs runs]

Sphinx reads a copy of this folder to which the notebooks, a page for each module and MathJax have been added. Warnings
are errors.
"""

import json
from pathlib import Path
from pkgutil import walk_packages
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory

import nbformat
import offline
from executed import asked, executed
from sphinx.cmd.build import build_main

import lbkit
from lbkit import studies

HERE = Path(__file__).resolve().parent


def build(runs: dict[str, Path], out: Path) -> None:
    """Write the site from a run of each study: {study: folder of the run}. Raises ValueError if Sphinx complains."""
    with TemporaryDirectory(prefix="lbkit-") as made:
        source = Path(made) / "docs"
        copytree(HERE, source, ignore=ignore_patterns("__pycache__", "slides*"))
        offline.mathjax(source / "_static" / "mathjax")
        for study, run in runs.items():
            _write(source / "studies" / f"{study}.ipynb", nbformat.writes(_folded(executed(study, run))))
        _write(source / "studies.inc", _overview(runs))
        for module in walk_packages(lbkit.__path__, "lbkit."):
            _write(source / "api" / f"{module.name}.md", MODULE.format(name=module.name))
        if build_main(["-q", "-n", "-W", "--keep-going", "-d", f"{made}/doctrees", str(source), str(out)]):
            raise ValueError("the site is not complete, see above")


MODULE = """# {name}

```{{eval-rst}}
.. automodule:: {name}
```
"""


def _folded(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Code is folded, but for the parameters."""
    for cell in notebook.cells:
        tags = cell.metadata.setdefault("tags", [])
        if cell.cell_type == "code" and "parameters" not in tags:
            tags.append("hide-input")
    return notebook


def _overview(runs: dict[str, Path]) -> str:
    """Which question, which notebook, after whom, how long: a table, and the contents."""
    rows = ["| question | notebook | after | time |", "|---|---|---|---|"]
    for study, run in runs.items():
        kind, cells = studies.get(study), nbformat.read(run / "notebook.ipynb", as_version=4).cells
        title = next(cell.source for cell in cells if cell.source.startswith("# ")).split("\n")[0].removeprefix("# ")
        seconds = json.loads((run / "result.json").read_text(encoding="utf-8"))["seconds"]
        rows.append(f"| {title} | [{study}](studies/{study}.ipynb) | {kind.paper} | {seconds:.0f} s |")
    contents = ["```{toctree}", ":caption: Studies", ":hidden:", *(f"studies/{study}" for study in runs), "```"]
    return "\n".join([*rows, "", *contents, ""])


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def main() -> None:
    with asked("A book of every study, from its newest run.") as (out, runs):
        build(runs, out)
    print(out / "index.html")


if __name__ == "__main__":
    main()
