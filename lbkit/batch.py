"""Batch: points become runs, each in a process and a folder of its own, N at a time.

Running a batch again goes on where it ended: what is done stays, what is planned, failed or was interrupted is run. The
manifest of a point, result.json, says its status::

    planned       it has not started
    running       a worker executes it
    done          everything is there
    failed        a cell raised, the kernel died, the disk was full or the time was up
    interrupted   the worker was killed or stopped, or the runner was

A point on which another runner works is left alone and comes back as "busy", which no manifest says. What a run leaves
in its folder and who may write there, lbkit.worker says.

A point is plain data and perform a plain function, so that any concurrent.futures executor may run them, also on
another machine that shares the file system.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from filelock import Timeout

from lbkit import worker
from lbkit.points import TIMEOUT, Point, plan
from lbkit.presets import resolve
from lbkit.studies import Study

__all__ = ["Run", "alive", "execute", "perform", "plan", "resolve", "run"]


@dataclass(frozen=True, slots=True)
class Run:
    """How a run ended.

    folder   where everything lies
    status   "done", "failed", "interrupted" or "busy"
    seconds  wall-clock time
    cell     number n of the cell In [n] that failed or was cut short
    error    what it said, or why it was cut short
    earlier  it was done before and has not been repeated
    """

    folder: Path
    status: str
    seconds: float = 0.0
    cell: int | None = None
    error: str | None = None
    earlier: bool = False


def alive(folder: Path) -> bool:
    """Whether a worker executes the run in a folder; where none does, a manifest that says "running" is out of date."""
    try:
        with worker.lock(folder, wait=0):
            return False
    except Timeout:
        return True


def execute(
    points: Sequence[Point],
    executor: Executor | None = None,
    *,
    jobs: int = 1,
    fresh: bool = False,
    scheduler: str = "",
    ended: Callable[[Run], None] = lambda run: None,
    progress: Callable[[Point, int, int], None] | None = None,
) -> list[Run]:
    """Run what is not done yet and keep what every point leaves behind.

    executor   runs the points; None means this machine, ``jobs`` points at a time
    fresh      repeat what is done, too
    scheduler  address of the scheduler of a Dask cluster that serves the simulations of the notebooks, "" for none
    ended      called with each Run as it ends
    progress   called as progress(point, n, cells) when the n-th code cell of a point starts, where the executor runs it

    What befalls a point is no exception but its Run. KeyboardInterrupt stops the points that run here, hands over what
    came of them, and is raised again.

    Raises ValueError unless jobs is in [1, 1000].
    """
    if not 1 <= jobs <= 1000:
        raise ValueError(f"jobs must be in [1, 1000], not {jobs}")
    for point in points:
        with suppress(OSError, Timeout):  # perform will say what is wrong
            _announce(point)
    runs: list[Run] = []
    waiting: dict[Future[Run], Point] = {}

    def collect(future: Future[Run]) -> None:
        point = waiting.pop(future)
        try:
            run = future.result()
        except Exception as error:  # of the executor or of progress
            run = Run(point.folder, "interrupted", error=f"{type(error).__name__}: {error}")
        runs.append(run)
        ended(run)

    try:
        with nullcontext((executor, {})) if executor else _here(jobs) as (pool, lifeline):
            task = partial(perform, fresh=fresh, scheduler=scheduler, progress=progress, **lifeline)
            try:
                for point in points:
                    waiting[pool.submit(task, point)] = point
                for future in as_completed(list(waiting)):
                    collect(future)
            except BaseException:
                for future in waiting:
                    future.cancel()
                raise
    finally:
        for future in [future for future in waiting if future.done() and not future.cancelled()]:
            collect(future)
    return runs


def perform(
    point: Point,
    *,
    fresh: bool = False,
    scheduler: str = "",
    lifeline: int = subprocess.PIPE,
    progress: Callable[[Point, int, int], None] | None = None,
) -> Run:
    """Run one point in a worker, unless it is done; see execute.

    lifeline  a pipe at whose end the worker ends; by default it is this process that the worker does not outlive
    """
    folder, clock = point.folder, perf_counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with worker.lock(folder):
            found = worker.read(folder)
            if found and found["status"] == "done" and not fresh:
                return _run(folder, found, earlier=True)
            _clear(folder)
            worker.write(folder, point.manifest)
        with (folder / "log.txt").open("a") as log:
            outcome = _supervise(point, scheduler, lifeline, log, progress)
    except Timeout:
        outcome = {"status": "busy"}
    except OSError as error:
        outcome = {"status": "failed", "error": str(error)}
    if outcome["status"] == "busy":
        outcome["error"] = "another runner works on it"
    return _run(folder, {"seconds": round(perf_counter() - clock, 3)} | outcome)


def run(
    study: Study,
    preset: str | Path = "default",
    *,
    out: str | Path = "runs",
    fresh: bool = False,
    timeout: float = TIMEOUT,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Run a single study: plan and execute in one, with progress called as progress(n, cells)."""
    step = (lambda point, n, cells: progress(n, cells)) if progress else None
    return execute(plan([study], preset, out=out, timeout=timeout), fresh=fresh, progress=step)[0]


@contextmanager
def _here(jobs: int) -> Iterator[tuple[Executor, dict[str, int]]]:
    """Threads that each watch over a worker, and the lifeline of these workers, which leaving cuts."""
    lifeline, held = os.pipe()
    try:
        with ThreadPoolExecutor(jobs) as threads:
            try:
                yield threads, {"lifeline": lifeline}
            finally:
                os.close(held)
    finally:
        os.close(lifeline)


def _supervise(point: Point, scheduler: str, lifeline: int, log, progress) -> dict[str, Any]:
    """Have a worker execute the notebook and report how it ended, however it ended."""
    folder, news = point.folder, {}
    environment = {
        "LBKIT_RUN_DIR": str(folder), "LBKIT_SCHEDULER": scheduler,
        "JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "lbkit.worker", str(folder)],
        cwd=folder, env={"OMP_NUM_THREADS": "1"} | os.environ | environment, stdin=lifeline,
        stdout=subprocess.PIPE, stderr=log, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            for line in process.stdout:
                with suppress(ValueError):  # of a worker that was killed in the middle of a line
                    news = json.loads(line)
                if progress and "status" not in news and news.get("cell"):
                    progress(point, news["cell"], news["cells"])
        except BaseException:
            process.kill()
            process.wait()
            worker.sweep(folder)
            raise
    if "status" in news:
        return news
    error = f"the worker ended with code {process.returncode}, see log.txt"
    outcome = {"status": "interrupted", "cell": news.get("cell"), "error": error}
    with suppress(OSError, Timeout), worker.lock(folder):
        worker.sweep(folder)
        found = worker.read(folder)
        if found["status"] not in ("planned", "running"):  # it was killed after all was written
            return found
        worker.write(folder, found | outcome)
    return outcome


def _announce(point: Point) -> None:
    """Let a point that nothing is known of show as planned."""
    if not worker.read(point.folder):
        point.folder.mkdir(parents=True, exist_ok=True)
        with worker.lock(point.folder):
            if not worker.read(point.folder):
                worker.write(point.folder, point.manifest)


def _clear(folder: Path) -> None:
    """Take away what an earlier attempt left."""
    for made in ("figures", "data"):
        shutil.rmtree(folder / made, ignore_errors=True)
    for made in ("notebook.ipynb", "claims.json", "result.json", "log.txt"):
        for file in (folder / made, *folder.glob(f".{made}.*")):
            file.unlink(missing_ok=True)


def _run(folder: Path, outcome: Mapping[str, Any], earlier: bool = False) -> Run:
    told = {name: outcome[name] for name in ("status", "seconds", "cell", "error") if name in outcome}
    return Run(folder, earlier=earlier, **told)
