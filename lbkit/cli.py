"""The command line: what can be run, with which parameters, and a run of it.

A wrong name or value ends in a sentence and exit code 2, a run that fails in exit code 1.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lbkit import batch, studies

__all__ = ["app", "main"]


class _Sentences(TyperGroup):
    """Shows an error of the user's as its sentence."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (ValueError, OSError) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Sentences, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Load balancing in parallel-server systems: run the notebooks with other parameters.",
)  # fmt: skip

StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="A name that 'lbkit list' shows.")]


@app.command("list")
def list_studies() -> None:
    """List the studies and their presets."""
    for name, study in studies.STUDIES.items():
        typer.echo(f"{name}: {study.title}; {study.paper}")
        files = batch.presets(name)
        for preset, file in files.items():
            typer.echo(f"    {preset:<{max(map(len, files))}}  {_purpose(file)}")


@app.command()
def show(
    study: StudyName,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema instead.")] = False,
    cell: Annotated[bool, typer.Option("--cell", help="Print the notebook's parameters cell instead.")] = False,
) -> None:
    """Show a study's parameters: name, default, range and meaning."""
    kind = studies.get(study)
    if schema:
        typer.echo(json.dumps(kind.model_json_schema(), indent=2))
    elif cell:
        typer.echo(kind().cell())
    else:
        _table(kind)


@app.command()
def check(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]...", help="Default: all shipped.")] = None,
) -> None:
    """Check parameter files; the folder of a file says which study it belongs to."""
    files = files or [file for study in studies.STUDIES for file in batch.presets(study).values()]
    sentences = []
    for file in files:
        study = file.resolve().parent.name
        try:
            if study not in studies.STUDIES:
                names = ", ".join(studies.STUDIES)
                raise ValueError(f"{file}: its folder must be named after a study, {names}, not {study!r}")
            batch.resolve(study, file)
            typer.echo(f"{file}: good")
        except ValueError as error:
            sentences.append(str(error))
    if sentences:
        raise ValueError("\n".join(sentences))


@app.command()
def run(
    study: StudyName,
    preset: Annotated[str | None, typer.Argument(metavar="[PRESET|FILE]", help="Default: no preset.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="May come several times.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of all runs.")] = Path("runs"),
) -> None:
    """Run a study's notebook."""
    parameters = batch.resolve(study, preset, _overrides(parameter or []))
    with _progress() as progress:
        ended = batch.run(parameters, preset or "default", out=out, progress=progress)
    typer.echo(f"{ended.status} after {ended.seconds:.1f} s")
    for name in ("notebook.ipynb", "figures", "data", "claims.json", "result.json"):
        if (ended.folder / name).exists():
            typer.echo(f"    {ended.folder / name}")
    if ended.status != "done":
        typer.echo(f"cell {ended.cell}: {ended.error}" if ended.cell else ended.error, err=True)
        raise typer.Exit(1)


def main() -> None:
    """Entry point; a run that is told to stop ends in an orderly way, as after Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()


def _overrides(pairs: list[str]) -> dict[str, Any]:
    """Parameters given as name=value, values in YAML 1.2."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    overrides = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name in overrides:
            raise ValueError(f"-p takes name=value, each name once, not {pair!r}")
        try:
            overrides[name] = YAML(typ="safe", pure=True).load(value)
        except YAMLError:
            raise ValueError(f"-p {pair}: the value is not YAML") from None
    return overrides


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, else a line for each cell."""
    if not sys.stdout.isatty():
        yield lambda n, cells: typer.echo(f"cell {n} of {cells}")
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("kernel starts", total=None)
        yield lambda n, cells: bar.update(task, description=f"cell {n} of {cells}", completed=n - 1, total=cells)


def _table(study: type[studies.Study]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("parameter", "default", "range", "meaning"):
        table.add_column(head, overflow="fold")
    for name, schema in study.schemas().items():
        default = json.dumps(schema["default"])
        table.add_row(name, default, studies.permitted(schema), schema["description"])
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(table)


def _purpose(file: Path) -> str:
    """The comment a parameter file starts with."""
    first = file.read_text(encoding="utf-8").split("\n", 1)[0]
    return first.lstrip("# ") if first.startswith("#") else ""
