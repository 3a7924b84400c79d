"""Presets: a parameter file becomes studies, one for each of its points.

A parameter file is a flat mapping of parameters in YAML 1.2, where 1e-8 is a number and a key must not come twice.
Three keys are no parameters::

    study: sqd_variants                      of which study; else the folder of the file is named after it
    grid: {lam: [0.5, 0.7], d: [2, 5]}       every combination of these values
    zip: {scv: [5, 10], f: [0.3, 0.5]}       lists of one length, varied together; each crossed with the grid

A file without grid and zip has one point and serves ``papermill -f`` as well. A value of a parameter that is a list
itself is a list inside the list. Shipped files lie in params/<study>/<preset>.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from lbkit import studies
from lbkit.studies import ParameterError, Study, did_you_mean

__all__ = ["ParameterFile", "expand", "files", "load", "repository", "resolve", "schema"]

MOST_POINTS = 10_000


@dataclass(frozen=True, slots=True)
class ParameterFile:
    """What a parameter file says.

    path    where it lies
    study   the study it names, or None
    values  parameters that are the same at every point
    axes    {parameter: values} of parameters that vary together; the points are all combinations of the axes
    lines   {name: lines}, the line of a parameter or reserved key, or of each value of a parameter that varies
    """

    path: Path
    study: str | None
    values: dict[str, Any]
    axes: tuple[dict[str, list], ...]
    lines: dict[str, tuple[int, ...]]

    def points(self) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """What varies at each point, and the line of each parameter there."""
        fixed = {name: self.lines[name][0] for name in self.values if name in self.lines}
        for indices in product(*(range(len(next(iter(axis.values())))) for axis in self.axes)):
            places = [(axis, name, i) for axis, i in zip(self.axes, indices, strict=True) for name in axis]
            varied = {name: axis[name][i] for axis, name, i in places}
            yield varied, fixed | {name: self.lines[name][i] for _, name, i in places if name in self.lines}


def repository() -> Path:
    """The folder that holds notebooks/ and params/: beside the package, else the working directory."""
    for folder in (Path(__file__).resolve().parents[1], Path.cwd()):
        if (folder / "notebooks").is_dir():
            return folder
    raise ValueError(f"there is no folder 'notebooks' in {Path.cwd()}; run lbkit in a checkout of its repository")


def files(study: str) -> dict[str, Path]:
    """The study's shipped parameter files by the name of the preset."""
    return {file.stem: file for file in sorted((repository() / "params" / study).glob("*.yaml"))}


def load(file: Path) -> ParameterFile:
    """Read a parameter file; whether its values suit the study is for expand to say.

    Raises ValueError naming file and line where it is not what the module's docstring says.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    try:
        text = file.read_text(encoding="utf-8")
        node, values = yaml.compose(text), yaml.load(text)
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file}: the file is not UTF-8 text") from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else file
        raise ValueError(f"{where}: {getattr(error, 'problem', None) or str(error).splitlines()[0]}") from None
    if values is None:
        return ParameterFile(file, None, {}, (), {})
    if not isinstance(values, dict):
        raise ValueError(f"{file}: a parameter file must be lines 'name: value', not a {type(values).__name__}")

    values = {str(name): value for name, value in values.items()}
    lines = {str(key.value): (key.start_mark.line + 1,) for key, _ in node.value}
    study, grid, together = values.pop("study", None), values.pop("grid", {}), values.pop("zip", {})
    if not isinstance(study, str | None):
        raise ValueError(f"{file}:{lines['study'][0]}: study must be a name, not {study!r}")
    for name, lists in (("grid", grid), ("zip", together)):
        if problem := _misshapen(name, lists):
            raise ValueError(f"{file}:{lines[name][0]}: {problem}")
    grid, together = ({str(name): items for name, items in lists.items()} for lists in (grid, together))
    for name in (*grid, *together):
        if name in values or (name in grid and name in together):
            other = f"line {lines[name][0]}" if name in values else "grid"
            key = "grid" if name in grid and name in values else "zip"
            raise ValueError(f"{file}:{lines[key][0]}: {name} is set twice, in {key} and in {other}")
    for key, lists in node.value:
        if key.value in ("grid", "zip"):
            for name, items in lists.value:
                lines[str(name.value)] = tuple(item.start_mark.line + 1 for item in items.value)
    axes = [{name: items} for name, items in grid.items()] + ([together] if together else [])
    if (count := prod(len(next(iter(axis.values()))) for axis in axes)) > MOST_POINTS:
        raise ValueError(f"{file}: a file may have at most {MOST_POINTS} points, not {count}")
    return ParameterFile(file, study, values, tuple(axes), lines)


def expand(
    study: str | None = None, preset: str | Path | None = None, overrides: Mapping[str, Any] | None = None
) -> tuple[Study, ...]:
    """The studies at all points of a preset or a file: defaults, then what the file sets, then what is given here.

    study      its name; None where the file says of which study it is, by its key or its folder
    preset     name of a shipped file, or a file; None means the defaults, one point
    overrides  {parameter: value}, of parameters that the file does not vary

    Raises ValueError for an unknown study or preset and for a file that is not a parameter file, ParameterError for bad
    parameters; both name file, line and point.
    """
    overrides = dict(overrides or {})
    if preset is None:
        return (studies.get(study)(**overrides),)
    file = load(_path(study, preset))
    kind, found, problems, known = _kind(study, file), {}, {}, set()
    for name in overrides:
        if any(name in axis for axis in file.axes):
            raise ValueError(f"{file.path}:{file.lines[name][0]}: the file varies {name}, so it cannot be set besides")
    for varied, lines in file.points():
        try:
            point = kind(**file.values | varied | overrides)
        except ParameterError as error:
            for name, why in error.problems.items():
                line = lines.get(name) if name not in overrides else None
                place = f"{file.path}:{line}: " if line else "" if name in overrides else f"{file.path}: "
                if (line, why) not in known:
                    problems[name + _at(varied)] = f"{place}{why}{_at(varied)}"
                    known.add((line, why))
            continue
        if point in found:
            raise ValueError(f"{file.path}: two points are the same{_at(found[point])}")
        found[point] = varied
    if problems:
        raise ParameterError(problems)
    return tuple(found)


def resolve(study: str, preset: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Study:
    """The study of a preset or a file with one point; arguments and errors of expand, and a ValueError for a grid."""
    first, *others = expand(study, preset, overrides)
    if others:
        raise ValueError(f"{preset} has {1 + len(others)} points, not one")
    return first


def schema(study: type[Study]) -> dict[str, Any]:
    """JSON schema of the study's parameter files, for editors."""
    flat = study.model_json_schema()
    lists = {
        name: {"type": "array", "minItems": 1, "items": {"$ref": f"#/properties/{name}"}} for name in study.model_fields
    }
    varied = {"type": "object", "additionalProperties": False, "properties": lists}
    more = {
        "study": {"const": study.notebook, "description": "the study"},
        "grid": varied | {"description": "values of which every combination is a point"},
        "zip": varied | {"description": "lists of one length, varied together"},
    }
    return flat | {"properties": more | flat["properties"]}


def _path(study: str | None, preset: str | Path) -> Path:
    if study is not None:
        studies.get(study)
    if study is None or Path(preset).suffix in (".yaml", ".yml"):
        return Path(preset)
    shipped = files(study)
    if preset not in shipped:
        names = f"only {', '.join(shipped)}{did_you_mean(str(preset), shipped)}"
        raise ValueError(f"{study} has no preset {preset!r}, {names}")
    return shipped[str(preset)]


def _kind(study: str | None, file: ParameterFile) -> type[Study]:
    """The study that a file belongs to."""
    if file.study is None:
        name = study or file.path.resolve().parent.name
        if name not in studies.STUDIES:
            names = ", ".join(studies.STUDIES)
            advice = f"its folder must be named after a study, {names}, not {name!r}, or a line 'study: name' say it"
            raise ValueError(f"{file.path}: {advice}")
        return studies.get(name)
    try:
        kind = studies.get(file.study)
    except ValueError as error:
        raise ValueError(f"{file.path}:{file.lines['study'][0]}: {error}") from None
    if study not in (None, file.study):
        raise ValueError(f"{file.path}:{file.lines['study'][0]}: the file is of study {file.study}, not {study}")
    return kind


def _misshapen(key: str, lists: Any) -> str | None:
    """What is wrong with the value of grid or zip."""
    if not isinstance(lists, dict):
        return f"{key} must be lines 'name: [value, ...]', not {lists!r}"
    for name, items in lists.items():
        if not isinstance(items, list) or not items:
            hint = f"; write [{items}]" if isinstance(items, (str, int, float)) else ""
            return f"{name} in {key} must be a list of one value or more, not {items!r}{hint}"
    lengths = {name: len(items) for name, items in lists.items()}
    if key == "zip" and len(set(lengths.values())) > 1:
        return f"the lists of zip must have one length, not {', '.join(f'{n} ({name})' for name, n in lengths.items())}"
    return None


def _at(varied: Mapping[str, Any]) -> str:
    return f" (point {', '.join(f'{name}={value}' for name, value in varied.items())})" if varied else ""
