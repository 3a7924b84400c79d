"""environment.yml from pyproject.toml and requirements.lock: print it, or let a test compare it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


CONDA_NAMES = {"playwright": "playwright-python"}


def direct_dependencies(extras=("cluster", "dashboard", "test")):
    """Names of what pyproject.toml asks for, but for the pages that `make site` builds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [spec for extra in extras for spec in project["optional-dependencies"][extra]]
    return sorted({re.match(r"[\w.-]+", spec)[0] for spec in wanted} - {"lbkit"})


def locked_versions():
    """{name: version} of requirements.lock, for the oldest Python where there are several."""
    pins = re.findall(r"^([\w.-]+)==([^\s;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    return {name: version for name, version in reversed(pins)}


def environment():
    """The text of environment.yml."""
    locked = locked_versions()
    normal = {name: re.sub("[._-]+", "-", name).lower() for name in direct_dependencies()}
    lines = [f"  - {CONDA_NAMES.get(name, name)}={locked[normal[name]]}" for name in normal]
    written = "# Written by `make lock` from pyproject.toml and requirements.lock."
    head = [written, "name: lbkit", "channels: [conda-forge]"]
    python, package = ["dependencies:", "  - python=3.11", "  - pip"], ["  - pip:", "      - --no-deps", "      - -e ."]
    return "\n".join([*head, *python, *lines, *package]) + "\n"


if __name__ == "__main__":
    print(environment(), end="")
