"""Reveal.js slides of the study notebooks, from runs of them, that work without network.

    python docs/slides.py build/slides [--preset lecture] [--runs runs]

A cell's slide type says where it goes. On a slide stand text and outputs: no code, and of a cell that draws a figure
the figure alone. A slide whose section was not run is left out.
"""

from pathlib import Path
from shutil import copy2

import offline
from executed import asked, executed
from nbconvert import SlidesExporter
from nbformat import NotebookNode

from lbkit import studies

HERE = Path(__file__).resolve().parent
FIGURES = {"image/svg+xml", "image/png"}


def slides(notebook: NotebookNode) -> NotebookNode:
    """The cells of the slides, of a figure's cell the figure alone; a slide without any of its outputs is dropped."""
    pages: list[list[NotebookNode]] = []
    for cell in notebook.cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type", "skip")
        if kind == "skip":
            continue
        if kind in ("slide", "subslide") or not pages:
            pages.append([])
        if cell.cell_type == "code":
            drawn = [output for output in cell.outputs if FIGURES & output.get("data", {}).keys()]
            cell.outputs = drawn or cell.outputs
        pages[-1].append(cell)
    notebook.cells = [cell for page in pages if _complete(page) for cell in page]
    return notebook


def build(study: str, run: Path, out: Path) -> Path:
    """Write the slides of a study from a run of it; they need what ``assets`` leaves beside them."""
    notebook = slides(executed(study, run))
    notebook.metadata.title = studies.get(study).title
    notebook.metadata.mathjax = offline.MATHJAX | {"tex2jax": {"inlineMath": [["$", "$"]]}}
    exporter = SlidesExporter(
        exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True, exclude_anchor_links=True
    )
    exporter.raw_template = (HERE / "slides.html.j2").read_text(encoding="utf-8")
    page, _ = exporter.from_notebook_node(notebook)
    file = out / f"{study}.html"
    file.write_text(page, encoding="utf-8")
    return file


def assets(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    offline.mathjax(out / "mathjax")
    offline.reveal(out / "reveal")
    copy2(HERE / "slides.css", out)


def _complete(page: list[NotebookNode]) -> bool:
    code = [cell for cell in page if cell.cell_type == "code"]
    return not code or any(cell.outputs for cell in code)


def main() -> None:
    with asked("Reveal.js slides of every study, from its newest run.") as (out, runs):
        assets(out)
        for study, run in runs.items():
            print(build(study, run, out))


if __name__ == "__main__":
    main()
