"""The command line: what can be run, with which parameters, and a run of it.

A wrong name or value ends in a sentence and exit code 2, a run that fails in exit code 1.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lbkit import batch, cluster, doctor, points, presets, report, studies, worker

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
        files = presets.files(name)
        for preset, file in files.items():
            typer.echo(f"    {preset:<{max(map(len, files))}}  {_purpose(file)}")


@app.command()
def show(
    study: StudyName,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of its files instead.")] = False,
    cell: Annotated[bool, typer.Option("--cell", help="Print the notebook's parameters cell instead.")] = False,
) -> None:
    """Show a study's parameters: name, default, range and meaning."""
    kind = studies.get(study)
    if schema:
        typer.echo(json.dumps(presets.schema(kind), indent=2))
    elif cell:
        typer.echo(kind().cell())
    else:
        _table(kind)


@app.command()
def check(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]...", help="Default: all shipped.")] = None,
) -> None:
    """Check parameter files; a line 'study: NAME' in it or its folder says which study a file belongs to."""
    files = files or [file for study in studies.STUDIES for file in presets.files(study).values()]
    sentences = []
    for file in files:
        try:
            count = len(presets.expand(preset=file))
            typer.echo(f"{file}: good" + (f", {count} points" if count > 1 else ""))
        except ValueError as error:
            sentences.append(str(error))
    if sentences:
        raise ValueError("\n".join(sentences))


@app.command()
def run(
    study: Annotated[str, typer.Argument(metavar="STUDY|FILE", help="A study, or a file that says of which it is.")],
    preset: Annotated[str | None, typer.Argument(metavar="[PRESET|FILE]", help="Default: no preset.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="May come several times.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of all runs.")] = Path("runs"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", help="Points at a time.")] = 1,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Limit for each point.")] = points.TIMEOUT,
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat what is done, too.")] = False,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", envvar="LBKIT_SCHEDULER", help="Use this Dask cluster.")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Use a Dask cluster of N processes here.")] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="List the points and how long they will take.")] = False,
) -> None:
    """Run a study's notebook at each point of a preset or file; what is done already is not repeated.

    Exit code: 0 all is done, 1 something is not, 2 wrong input, 130 stopped.
    """
    if preset is None and Path(study).suffix in (".yaml", ".yml"):
        study, preset = None, study
    found = presets.expand(study, preset, _overrides(parameter or []))
    planned = points.plan(found, preset or "default", out=out, timeout=timeout)
    if dry:
        _list(planned, jobs, fresh)
        return
    stopped, labels, runs = False, _labels(planned), {}
    with cluster.joined(len(planned), scheduler, workers) as place, _progress(labels) as (say, step):

        def ended(run: batch.Run) -> None:
            runs[run.folder] = run
            label, when = labels[run.folder], "earlier, in" if run.earlier else "after"
            count = f"[{len(runs)}/{len(labels)}] {label}: " if label else ""
            say(run.folder, f"{count}{run.status} {when} {run.seconds:.1f} s")

        try:
            step = None if "executor" in place else step  # it stays on this machine
            batch.execute(planned, **place, jobs=jobs, fresh=fresh, ended=ended, progress=step)
        except KeyboardInterrupt:
            stopped = True
    _summary(labels, runs)
    if stopped or any(run.status != "done" for run in runs.values()):
        raise typer.Exit(130 if stopped else 1)


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


def _labels(planned: Sequence[points.Point]) -> dict[Path, str]:
    """What to call each point: by the parameters in which they differ; nothing where there is one point only."""
    values = [point.manifest["parameters"] for point in planned]
    names = [name for name, first in values[0].items() if any(other[name] != first for other in values)]
    return {
        point.folder: ", ".join(f"{name}={point.manifest['parameters'][name]}" for name in names) for point in planned
    }


def _summary(labels: Mapping[Path, str], runs: Mapping[Path, batch.Run]) -> None:
    """Where the results lie, how many points came to what end, and what became of those that are not done."""
    if len(labels) == 1:
        for name in ("notebook.ipynb", "figures", "data", "claims.json", "result.json"):
            for folder in runs:
                if (folder / name).exists():
                    typer.echo(f"    {folder / name}")
    else:
        ends = Counter(runs[folder].status if folder in runs else "not started" for folder in labels)
        counts = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
        typer.echo(f"{len(labels)} points: {counts}; below {next(iter(labels)).parent}")
    for folder, run in runs.items():
        if run.status != "done":
            places = (labels[folder], run.cell and f"cell {run.cell}", run.error)
            typer.echo(": ".join(filter(None, places)), err=True)
            if labels[folder] and run.status != "busy" and (folder / "notebook.ipynb").exists():
                typer.echo(f"    {folder / 'notebook.ipynb'}", err=True)


def _list(planned: Sequence[points.Point], jobs: int, fresh: bool) -> None:
    """The points with what is known of each, and how long the rest will take."""
    for folder, label in _labels(planned).items():
        status = (worker.read(folder) or {"status": "new"})["status"]
        typer.echo("  ".join(filter(None, (f"{status:<11}", label, str(folder)))))
    expected = points.estimate(planned, jobs, fresh)
    time = "unknown" if expected.seconds is None else f"about {expected.seconds:.0f} s, {jobs} at a time"
    typer.echo(f"{len(planned)} point{'s'[: len(planned) > 1]}; time {time}: {expected.basis}")


@contextmanager
def _progress(labels: Mapping[Path, str]) -> Iterator[tuple[Callable, Callable | None]]:
    """On a terminal a bar for each point that runs; else a line for each cell if there is only one point."""
    if not sys.stdout.isatty():
        step = None if len(labels) > 1 else lambda point, n, cells: typer.echo(f"cell {n} of {cells}")
        yield lambda folder, line: typer.echo(line), step
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as bar:
        tasks = {folder: bar.add_task("", total=None, visible=False, start=False) for folder in labels}

        def step(point, n, cells):
            if n == 1:
                bar.start_task(tasks[point.folder])
            label = f"{labels[point.folder]} cell {n} of {cells}".lstrip()
            bar.update(tasks[point.folder], description=label, completed=n - 1, total=cells, visible=True)

        def say(folder, line):
            bar.remove_task(tasks[folder])
            bar.console.print(line, markup=False, highlight=False)

        yield say, step


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


RunsFolder = Annotated[Path, typer.Option(metavar="DIR", help="Folder of all runs.")]


@app.command()
def status(out: RunsFolder = Path("runs")) -> None:
    """Show the runs: which are done, failed, interrupted, running or planned, and how long they took."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("study", "run", "status", "started", "took", "claims", "error"):
        table.add_column(head, overflow="fold", no_wrap=head in ("study", "run", "started"))
    for run in report.stored(out):
        claims = ", ".join(run.counts.values())
        began = "" if run.status == "planned" else f"{run.started.astimezone():%Y-%m-%d %H:%M}"
        error = (run.manifest.get("error") or "").partition("\n")[0]
        table.add_row(run.study, run.folder.name, run.status, began, report.duration(run.seconds), claims, error)
    Console(width=None if sys.stdout.isatty() else 160, markup=False, highlight=False).print(table)


@app.command("report")
def write_report(
    out: RunsFolder = Path("runs"),
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the pages. Default: OUT/report.")] = None,
) -> None:
    """Write the finished runs as pages for a browser, which need no network: what holds, and every notebook."""
    typer.echo(report.gallery(out, to or out / "report"))


@app.command("doctor")
def examine(out: RunsFolder = Path("runs")) -> None:
    """Check this machine: packages, kernel, browser, disk, caches. Exit code 1 if something must be done."""
    findings = []
    for finding in doctor.examine(out):
        findings.append(finding)
        typer.echo(f"{finding.name:<12} {finding.verdict:<9} {finding.says}")
    if any(finding.good is False for finding in findings):
        raise typer.Exit(1)
