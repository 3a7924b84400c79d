"""Worker: the process that executes the notebook of one run, and does not outlive the process it works for.

A run lives in a folder of its own::

    notebook.ipynb  figures/  data/  claims.json    what the notebook made
    result.json                                     the manifest: parameters, versions, commit, status
    log.txt                                         what the kernel said outside the cells
    .lock                                           held by the worker as long as it lives

Every file but the log appears whole or not at all, and the manifest says "done" after all else, so that it can be
trusted, which the notebook's own metadata cannot: papermill marks the cells after a killed kernel as completed.

The worker is started as ``python -m lbkit.worker FOLDER``, where a manifest says "planned". Its standard input is a
lifeline, a pipe nobody writes to: it ends with the process that holds its other end, also when that is killed, and then
the worker ends its kernel and itself. On its standard output it says a line of JSON for each cell that starts and one
at its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import Any

import psutil
from filelock import FileLock, Timeout

from lbkit.record import provenance, replacing

__all__ = ["code", "lock", "notebook_hash", "read", "sweep", "work", "write"]

SIGN = "LBKIT_WORKER"  # set to the folder of the run in the environment of all that a worker starts


def read(folder: Path) -> dict[str, Any] | None:
    """The manifest of a run, None where there is none that makes sense."""
    try:
        return json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def write(folder: Path, manifest: Mapping[str, Any]) -> None:
    with replacing(folder / "result.json") as path:
        path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def lock(folder: Path, wait: float = 0.5) -> FileLock:
    """The lock of a run, to enter; raises filelock.Timeout where another holds it for longer than wait seconds."""
    return FileLock(folder / ".lock", timeout=wait)


def code() -> str:
    """Hash of all sources of lbkit."""
    package = Path(__file__).parent
    found = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        found.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def notebook_hash(notebook) -> str:
    """Hash of the cells of a notebook node as they are written, whatever they have put out."""
    cells = [[cell.cell_type, cell.source] for cell in notebook.cells]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def sweep(folder: Path) -> None:
    """Kill whatever a worker of this run left behind when it was killed itself."""
    _kill(
        process
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get(SIGN) == str(folder)
    )


def work(folder: Path) -> None:
    """Execute the notebook of a planned run in this process, to the end of the process."""
    clock = perf_counter()
    events = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to the log

    def say(news: Mapping[str, Any]) -> None:
        with suppress(OSError):  # nobody may be listening any more
            print(json.dumps(news), file=events, flush=True)

    claim = lock(folder)
    try:
        claim.acquire()
    except Timeout:
        return say({"status": "busy"})
    manifest = read(folder)
    if manifest["status"] == "done":  # another worker was here in between
        return say(manifest)
    sweep(folder)
    manifest |= {"status": "running", "started": datetime.now(UTC).isoformat(timespec="seconds"), "error": None}
    scratch, writing = mkdtemp(prefix="lbkit-"), threading.Lock()
    os.environ |= {SIGN: str(folder), "JUPYTER_RUNTIME_DIR": scratch, "IPYTHONDIR": scratch}
    if not os.access(Path(__file__).parent, os.W_OK):  # nor may there be a home to keep compiled code in
        os.environ.setdefault("NUMBA_CACHE_DIR", str(folder.parents[1] / f".compiled-{manifest['code'][:12]}"))

    def start(cell: int | None, cells: int) -> None:
        with writing:
            manifest.update(cell=cell, cells=cells)
            write(folder, manifest)
            say({"cell": cell, "cells": cells})

    def end(status: str, error: str | None = None) -> None:
        writing.acquire()  # and never released: the first outcome counts and ends the process
        _kill(psutil.Process().children(recursive=True))
        shutil.rmtree(scratch, ignore_errors=True)
        manifest.update(status=status, error=error, seconds=round(perf_counter() - clock, 3))
        if status == "done":
            manifest["cell"] = None
        try:
            write(folder, manifest)
        except OSError as failure:
            manifest.update(status="failed", error=error or f"the outcome cannot be written: {failure}")
        say(manifest)
        os._exit(0)

    def watch() -> None:
        sys.stdin.buffer.read()
        end("interrupted", "it was stopped before its end")

    limit = f"it took longer than its time limit, {manifest['timeout']:g} s"
    threading.Thread(target=watch, daemon=True).start()
    timer = threading.Timer(manifest["timeout"], end, ("failed", limit))
    timer.daemon = True
    timer.start()
    try:
        error = _execute(manifest, scratch, start)
    except Exception as failure:
        sys.excepthook(*sys.exc_info())
        error = f"{type(failure).__name__}: {failure}"
    end("failed" if error else "done", error)


def _execute(manifest: Mapping[str, Any], scratch: str, start) -> str | None:
    """Execute the notebook in the working directory; what the cell that failed said, if one did."""
    sys.modules["rfc3987_syntax"] = None  # jsonschema would spend a second on a grammar of URLs that nobody checks
    import nbformat
    import papermill
    from papermill.iorw import LocalHandler, papermill_io

    class Whole(LocalHandler):
        def write(self, text, path):
            with replacing(Path(path)) as part:
                part.write_text(text, encoding="utf-8")

    notebook = nbformat.read(manifest["notebook"], as_version=4)
    if (code(), notebook_hash(notebook)) != (manifest["code"], manifest["notebook_hash"]):
        return "the notebook or the sources of lbkit have changed since this run was planned; start it again"
    code_cells = sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in notebook.cells)
    cells = code_cells + 1  # papermill adds a cell that sets the parameters
    started = iter(range(1, cells + 1))
    start(None, cells)
    notebook.metadata["lbkit"] = provenance(Path())
    Whole().write(nbformat.writes(notebook), "notebook.ipynb")
    papermill_io.register("notebook.ipynb", Whole())
    try:
        papermill.execute_notebook(
            "notebook.ipynb",
            "notebook.ipynb",
            manifest["parameters"],
            kernel_name="python3",
            language="python",
            progress_bar=False,
            config=_transport(f"{scratch}/kernel"),
            on_cell_execute=lambda cell, cell_index: start(next(started), cells),
        )
    except papermill.PapermillExecutionError as error:
        return f"{error.ename}: {error.evalue}"
    return None


def _transport(socket: str):
    """Talk to the kernel through a socket file, as ports may collide; its path may have some 100 bytes."""
    from traitlets.config import Config

    fits = os.name == "posix" and len(os.fsencode(socket)) < 90
    return Config(KernelManager={"transport": "ipc", "ip": socket} if fits else {})


def _kill(processes) -> None:
    killed = []
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
            killed.append(process)
    psutil.wait_procs(killed, timeout=1)


if __name__ == "__main__":
    work(Path(sys.argv[1]))
