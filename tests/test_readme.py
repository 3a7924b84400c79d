"""The examples of the README run, and print what their comments say."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_examples_run(capsys):
    space = {}
    for example in EXAMPLES:
        exec(example, space)
    said = [[float(x) for x in line.split()] for line in capsys.readouterr().out.splitlines()]
    assert said[0][0] == pytest.approx(0.51987, abs=5e-6)
    assert said[1][0] == pytest.approx(said[1][1], rel=1e-12)
    assert said[2][0] == pytest.approx(0.557, abs=5e-4)
    mean, half = said[3]
    assert abs(mean / said[2][0] - 1) < 0.02 + 2 * half / mean
