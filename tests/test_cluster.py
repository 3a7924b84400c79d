"""A real scheduler and two workers, each a process of its own, on the loopback: the same bytes, whatever happens."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from tiny import Tiny, command, until, write_notebook

from lbkit import System, batch, cluster, jobs, points, policies, simulate, worker

SYSTEM = System(4, jobs.hyperexponential(4), policies.lew(2), servers=5)
SIMULATED = """
import os
from lbkit import System, jobs, policies, record, simulate
system = System(4, jobs.hyperexponential(4), policies.lew(2), servers=5)
found = simulate(system, jobs=20_000, replications=4, seed=case)
record.claims([record.Claim("E[W]", "p. 1", found.mean_wait.hex(), True)])
print("scheduler", os.environ["LBKIT_SCHEDULER"])
"""


def content(found):
    parts = (found.batches, found.tails, found.waits, found.responses, found.visits, found.cycles)
    return b"".join(part.tobytes() for part in parts)


def waited(case):
    """The number that the notebook finds, found here."""
    return simulate(SYSTEM, jobs=20_000, replications=4, seed=case).mean_wait.hex()


def told(folder):
    (claim,) = json.loads((folder / "claims.json").read_text())
    return claim["ours"]


@pytest.fixture
def dask(tmp_path):
    """A cluster: its address, a client, and the processes of its workers by name."""
    from distributed import Client

    (folder := tmp_path / "dask").mkdir()
    file, log = folder / "scheduler.json", (folder / "log.txt").open("w")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": folder}
    run = [str(Path(sys.executable).parent / "dask")]
    with log:
        processes = [subprocess.Popen([
            *run, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
        ], **quiet)]  # fmt: skip
        try:
            address = json.loads(until(lambda: file.is_file() and file.read_text()))["address"]
            quiet |= {"env": os.environ | {"LBKIT_SCHEDULER": address, "OMP_NUM_THREADS": "1"}}
            workers = {name: subprocess.Popen([
                *run, "worker", address, "--name", name, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny",
                "--no-dashboard", "--memory-limit", "0", "--local-directory", str(folder),
            ], **quiet) for name in ("a", "b")}  # fmt: skip
            processes += workers.values()
            with Client(address, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=60)
                yield SimpleNamespace(address=address, client=client, workers=workers)
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


def executed(dask):
    """Tasks that the workers have executed."""
    return sum(dask.client.run(lambda dask_worker: dask_worker.state.executed_count).values())


def test_a_simulation_is_the_same_with_a_worker_killed_in_its_midst(dask):
    options = {"jobs": 2_000_000, "replications": 6, "seed": 1}
    here, killed = simulate(SYSTEM, **options), []

    def kill():
        until(lambda: all(dask.client.processing().values()))
        time.sleep(0.2)
        dask.workers["a"].send_signal(signal.SIGKILL)
        killed.append(dask.workers["a"].wait())

    (thread := threading.Thread(target=kill)).start()
    there = simulate(SYSTEM, **options, executor=dask.client.get_executor())
    thread.join()
    assert killed == [-signal.SIGKILL] and len(dask.client.scheduler_info()["workers"]) == 1
    assert content(there) == content(here) and there.complete
    precise = {"jobs": 100_000, "replications": 4, "seed": 2, "until": "3%"}
    there = simulate(SYSTEM, **precise, executor=dask.client.get_executor())
    assert content(there) == content(simulate(SYSTEM, **precise))


@pytest.mark.slow
def test_a_batch_is_complete_with_a_worker_killed_in_its_midst(dask, repository, tmp_path):
    """The workers' own environment names the scheduler; a notebook that took it up would wait for ever."""
    write_notebook(repository, SIMULATED)
    planned = points.plan([Tiny(case=case) for case in range(1, 5)], out=tmp_path / "runs")

    def runners():
        """The processes that execute a notebook now, by the process they work for."""
        return {
            process.ppid(): process
            for process in psutil.process_iter(["cmdline"])
            if "lbkit.worker" in (process.info["cmdline"] or ()) and str(tmp_path) in process.info["cmdline"][-1]
        }

    with cluster.joined(len(planned), dask.address) as place, ThreadPoolExecutor(1) as pool:
        assert list(place) == ["executor"]
        future = pool.submit(batch.execute, planned, **place)
        victim = until(lambda: runners().get(dask.workers["b"].pid))
        folder = Path(victim.cmdline()[-1])
        until(lambda: worker.read(folder)["status"] == "running")
        dask.workers["b"].kill()
        runs = future.result(timeout=120)
    assert not psutil.pid_exists(victim.pid)
    assert {run.folder: run.status for run in runs} == {point.folder: "done" for point in planned}
    for case, point in enumerate(planned, 1):
        assert told(point.folder) == waited(case)
        assert '"scheduler \\n"' in (point.folder / "notebook.ipynb").read_text()


@pytest.mark.slow
def test_a_single_notebook_hands_its_simulations_over(dask, repository, tmp_path):
    write_notebook(repository, SIMULATED)
    planned, before = points.plan([Tiny(case=3)], out=tmp_path / "runs"), executed(dask)
    with cluster.joined(1, dask.address) as place:
        assert place == {"scheduler": dask.address}
        (run,) = batch.execute(planned, **place)
    assert run.status == "done" and executed(dask) - before == 4
    assert told(run.folder) == waited(3)


@pytest.mark.slow
def test_a_cluster_of_this_machine(repository, tmp_path):
    write_notebook(repository, SIMULATED)
    done = subprocess.run(
        command(repository, "run", "tiny", "-p", "case=5", "--workers", "2", "--out", "out"),
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "out").rglob("notebook.ipynb")
    assert told(file.parent) == waited(5) and "scheduler tcp://127.0.0.1:" in file.read_text()


def test_no_cluster(monkeypatch):
    with cluster.joined(1) as place:
        assert place == {}
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    for options, sentence in (
        ({"scheduler": "tcp://127.0.0.1:1"}, "no cluster with a worker answers at tcp://127.0.0.1:1"),
        ({"scheduler": "somewhere"}, "missing port number"),
        ({"scheduler": "a:1", "workers": 2}, "not both, a:1 and 2"),
        ({"workers": 0}, r"workers must be in \[1, 1000\], not 0"),
    ):
        with pytest.raises(ValueError, match=sentence), cluster.joined(1, **options):
            pytest.fail("there is none")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"install lbkit\[cluster\]"), cluster.joined(1, workers=1):
        pytest.fail("there is none")
