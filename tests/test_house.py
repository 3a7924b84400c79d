"""The rules of the house: who may import whom, what a notebook may hold, what the set-up files agree on."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import environment
import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path for path in (ROOT / "lbkit").rglob("*.py") if path.name != "__init__.py")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

NOUNS = {"jobs", "policies", "systems", "results"}
MATHEMATICS = {
    "cavity", "quadrature", "waits", "light_traffic", "tags", "balanced", "chains", "simulation", "protocols",
    "estimates", "workload",
}  # fmt: skip
RIGHT_TO_LEFT = [
    NOUNS, {"kernels"}, MATHEMATICS, {"record"}, {"studies", "plots", "worker", "screen", "latest"},
    {"presets", "controls", "panels"}, {"points"}, {"batch", "cluster", "widgets"}, {"doctor", "report"}, {"cli"},
]  # fmt: skip
LEVEL = {name: level for level, names in enumerate(RIGHT_TO_LEFT) for name in names}
OUTSIDE = {
    "matplotlib", "pandas", "papermill", "pydantic", "typer", "ipywidgets", "ruamel", "nbformat", "IPython", "tqdm",
}  # fmt: skip


def module(path):
    """The module in the picture that a file belongs to: lbkit/results/tags.py is part of results."""
    return path.relative_to(ROOT / "lbkit").parts[0].removesuffix(".py")


def imports(path):
    """Modules named in import statements: (module, at the top level or not)."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module != "lbkit" else [f"lbkit.{alias.name}" for alias in node.names]
        for name in names:
            yield name, node in tree.body


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "lbkit")))
def test_a_module_imports_only_to_its_right(path):
    here = module(path)
    assert here in LEVEL, f"{here} has no place in the picture of the architecture"
    for name, _ in imports(path):
        if name.startswith("lbkit.") and (other := name.split(".")[1]) != here:
            allowed = LEVEL[other] < LEVEL[here] or {here, other} <= MATHEMATICS or {here, other} <= NOUNS
            assert allowed, f"{here} may not import {other}"
    if LEVEL[here] <= LEVEL["record"]:
        top = {name.split(".")[0] for name, at_top in imports(path) if at_top}
        assert not top & OUTSIDE, f"{here} loads {top & OUTSIDE} at its top"


def test_the_import_rule_can_fail(tmp_path):
    bad = tmp_path / "jobs.py"
    bad.write_text("from lbkit import cavity\nimport lbkit.kernels\n")
    assert {name for name, _ in imports(bad)} == {"lbkit.cavity", "lbkit.kernels"}


def test_importing_lbkit_is_light():
    code = (
        "import sys, time; t = time.perf_counter(); import lbkit; t = time.perf_counter() - t\n"
        "names = 'matplotlib', 'ipywidgets', 'papermill', 'dask', 'numba', 'pandas', 'scipy'\n"
        "print(t, *[name for name in names if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seconds, *heavy = said.split()
    assert not heavy
    assert float(seconds) < 0.5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_clean_and_thin(path):
    from lbkit import studies

    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code), "outputs are stored"
    for cell in code:
        source = "".join(cell["source"])
        for node in ast.walk(ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE))):
            defined = isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
            assert not defined, f"a definition in\n{source}"
    tagged = [cell for cell in code if "parameters" in cell["metadata"].get("tags", [])]
    if path.stem in studies.STUDIES:
        assert len(tagged) == 1
        assert "".join(tagged[0]["source"]) == studies.get(path.stem)().cell()
    else:
        assert not tagged


def test_environment_yml_is_in_step_with_pyproject_and_the_lock():
    assert (ROOT / "environment.yml").read_text() == environment.environment()


def test_the_lock_is_hashed_and_names_no_registry():
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^[\w.-]+==.*$", lock, re.MULTILINE)
    assert len(pins) > 50
    assert not re.search(r"https?://|--index-url|--extra-index", lock)
    blocks = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in block for block in blocks)


def test_no_absolute_path_of_a_machine_is_committed():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    pattern = re.compile("|".join(("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/[a-z]", "file://" + "/")))
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 2_000_000:
            found = pattern.search(path.read_text(errors="ignore"))
            assert not found, f"{name}: {found[0]}"
