"""Every exercise has a solution, which runs and prints what the notebook says it prints."""

import json
import re
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

from lbkit import presets, studies

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.(\d+))?(?![\w.]*\w)")


def cells(study):
    return json.loads((NOTEBOOKS / f"{study}.ipynb").read_text(encoding="utf-8"))["cells"]


def solutions(study):
    """(code, quoted output) of each."""
    prose = ["".join(cell["source"]) for cell in cells(study) if cell["cell_type"] == "markdown"]
    folded = [text for text in prose if text.startswith("<details><summary>Solution")]
    return [re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", text, re.DOTALL).groups() for text in folded]


@cache
def names(study):
    """What the parameters cell, as for the smoke preset, and the cell after it define."""
    code = [cell for cell in cells(study) if cell["cell_type"] == "code"]
    at = next(i for i, cell in enumerate(code) if "parameters" in cell["metadata"].get("tags", []))
    space = presets.resolve(study, "smoke").values()
    with redirect_stdout(StringIO()):
        exec(re.sub(r"^%.*$", "", "".join(code[at + 1]["source"]), flags=re.MULTILINE), space)
    return space


def agree(said, quoted):
    """Equal text, and numbers equal up to one unit of the last digit quoted."""
    if NUMBER.sub("#", said) != NUMBER.sub("#", quoted):
        return False
    pairs = zip(NUMBER.finditer(said), NUMBER.finditer(quoted), strict=True)
    return all(abs(float(a[0]) - float(b[0])) < 1.01 * 10.0 ** -len(b[1] or "") for a, b in pairs)


@pytest.mark.parametrize("n", range(3))
@pytest.mark.parametrize("study", studies.STUDIES)
def test_a_solution_prints_what_it_is_said_to_print(study, n):
    code, quoted = solutions(study)[n]
    said = StringIO()
    with redirect_stdout(said):
        exec(code, dict(names(study)))
    assert quoted.strip()
    assert agree(said.getvalue().strip(), quoted.strip()), said.getvalue()


@pytest.mark.parametrize("study", studies.STUDIES)
def test_each_exercise_has_its_solution(study):
    prose = ["".join(cell["source"]) for cell in cells(study) if cell["cell_type"] == "markdown"]
    exercises = next(text for text in prose if text.startswith("## Exercises"))
    numbers = re.findall(r"^(\d)\. ", exercises, re.MULTILINE)
    assert numbers == re.findall(r"^<details><summary>Solution (\d)</summary>$", "\n".join(prose), re.MULTILINE)
    assert len(numbers) == len(solutions(study)) == 3


@pytest.mark.parametrize(
    "said, quoted, same",
    [
        ("E[W] 0.123 at 2", "E[W] 0.124 at 2", True),
        ("E[W] 0.123 at 2", "E[W] 0.125 at 2", False),
        ("E[W] 0.123 at 2", "E[W] 0.123 at 4", False),
        ("E[W] 0.123 at 2", "E[Q] 0.123 at 2", False),
        ("1 2", "1", False),
    ],
)
def test_the_comparison_can_fail(said, quoted, same):
    assert agree(said, quoted) is same
