"""Every study notebook runs from its smoke preset and leaves behind what a reader needs."""

import json
from pathlib import Path

import pytest

from lbkit import batch, studies

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("study", studies.STUDIES)
def test_a_study_runs_and_leaves_figures_data_and_claims(study, smoke_runs):
    run = batch.run(batch.resolve(study, "smoke"), "smoke", out=smoke_runs)
    assert run.status == "done", run.error
    figures = {file.stem for file in (run.folder / "figures").glob("*.pdf")}
    assert len(figures) >= 7
    assert figures == {file.stem for file in (run.folder / "figures").glob("*.png")}
    assert figures == {file.stem for file in (run.folder / "data").glob("*.csv")}
    claims = json.loads((run.folder / "claims.json").read_text(encoding="utf-8"))
    verdicts = [claim["holds"] for claim in claims]
    assert len(verdicts) >= 10 and None not in verdicts
    assert True in verdicts and False in verdicts  # each paper has claims of both kinds
    result = json.loads((run.folder / "result.json").read_text(encoding="utf-8"))
    assert result["parameters"] == batch.resolve(study, "smoke").values() and result["status"] == "done"


@pytest.mark.parametrize("study", studies.STUDIES)
def test_a_notebook_tells_a_story(study):
    cells = json.loads((NOTEBOOKS / f"{study}.ipynb").read_text(encoding="utf-8"))["cells"]
    prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    exercises = next(text for text in prose if text.startswith("## Exercises"))
    assert prose[0].startswith("# ") and all(f"\n{n}. " in exercises for n in (1, 2, 3))
    assert any("$" in text for text in prose)
