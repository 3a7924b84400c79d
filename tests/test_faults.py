"""Faults: whatever is killed, full, stuck or started twice, no finished point is lost and nothing stays behind.

SPIN computes in C without ever letting another thread of its process run, as compiled code may do for minutes.
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import nbformat
import psutil
import pytest
from tiny import Tiny, command, until, write_notebook, write_params

from lbkit import batch, points, worker

SAY = "import os, pathlib\npathlib.Path('pid').write_text(str(os.getpid()))"
SPIN = "sum(range(10**13))"
FAULTS = f"""
import os, pathlib, signal
from lbkit import record
broken = pathlib.Path({{flag!r}}).exists()
if broken and case == 2:
    raise RuntimeError("no luck")
if broken and case == 3:
    os.kill(os.getpid(), signal.SIGKILL)
if broken and case == 4:
    os.kill(os.getppid(), signal.SIGKILL)
    {SPIN}
if broken and case == 5:
    print("x" * 400_000)
record.claims([record.Claim("it ran", case, case, True)])
"""


def alive(out: Path) -> list[psutil.Process]:
    """Workers of these runs, and what they have started."""
    found = []
    for process in psutil.process_iter(["environ", "cmdline", "status"]):
        info = process.info
        marks = [(info["environ"] or {}).get("LBKIT_WORKER", ""), (info["cmdline"] or [""])[-1]]
        if info["status"] != psutil.STATUS_ZOMBIE and any(mark.startswith(str(out / "tiny")) for mark in marks):
            found.append(process)
    return found


def manifests(out: Path) -> dict[int, dict]:
    """Manifests by the case."""
    found = [worker.read(file.parent) for file in (out / "tiny").glob("*/result.json")]
    return {manifest["parameters"]["case"]: manifest for manifest in found}


@pytest.fixture
def start(repository):
    """Start the command line; what still runs at the end of a test that failed is killed."""
    runners = []

    def start(*arguments, **settings):
        runner = subprocess.Popen(
            command(repository, *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, encoding="utf-8", start_new_session=True, **settings,
        )  # fmt: skip
        runners.append(runner)
        return runner

    yield start
    for runner in runners:
        runner.kill()
        runner.communicate()


def spinning(out: Path, case: int = 1):
    """The kernel of a case, once it spins."""

    def pid():
        for file in (out / "tiny").glob("*/pid"):
            if worker.read(file.parent)["parameters"]["case"] == case and (text := file.read_text()):
                return int(text)

    return psutil.Process(until(pid))


def gone(*processes):
    return all(not p.is_running() or p.status() == psutil.STATUS_ZOMBIE for p in processes)


def test_each_fault_is_named_and_the_next_run_repeats_these_points_alone(repository, start, tmp_path):
    """A cell that raises, a killed kernel, a killed worker whose kernel spins, a full disk: 5 points, 2 at a time."""
    out, flag = tmp_path / "out", tmp_path / "broken"
    flag.touch()
    write_notebook(repository, "'so far'", FAULTS.format(flag=str(flag)))
    file = write_params(repository, "grid: {case: [1, 2, 3, 4, 5]}\n")

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    first = start("run", file, "-j", "2", "--out", out, preexec_fn=small)
    said, errors = first.communicate(timeout=120)
    assert first.returncode == 1, errors
    assert f"5 points: 1 done, 3 failed, 1 interrupted; below {out / 'tiny'}" in said
    assert "case=1: done after " in said and len([line for line in said.splitlines() if line.startswith("[")]) == 5
    found = manifests(out)
    assert {case: manifest["status"] for case, manifest in found.items()} == {
        1: "done", 2: "failed", 3: "failed", 4: "interrupted", 5: "failed",
    }  # fmt: skip
    assert [found[case]["cell"] for case in range(1, 6)] == [None, 4, 4, 4, 4]
    reasons = {2: "RuntimeError: no luck", 3: "DeadKernelError", 4: "ended with code -9", 5: "File too large"}
    for case, reason in reasons.items():
        assert reason in found[case]["error"]
        (line,) = [line for line in errors.splitlines() if line.startswith(f"case={case}: cell 4: ")]
        assert reason in line
    partial = [Path(line.strip()) for line in errors.splitlines() if line.startswith("    ")]
    assert len(partial) == 4
    for notebook in partial:
        cells = {cell.source: cell for cell in nbformat.read(notebook, as_version=4).cells}
        assert cells["'so far'"].outputs[0]["data"]["text/plain"] == "'so far'"
    assert not alive(out)

    (claims,) = [file for file in (out / "tiny").glob("*/claims.json") if worker.read(file.parent) == found[1]]
    written = claims.stat().st_mtime_ns
    flag.unlink()
    second = subprocess.run(command(repository, "run", file, "-j", "2", "--out", out), capture_output=True, text=True)
    assert second.returncode == 0 and "case=1: done earlier, in" in second.stdout, second.stderr
    assert manifests(out)[1] == found[1] and claims.stat().st_mtime_ns == written
    assert {manifest["status"] for manifest in manifests(out).values()} == {"done"}
    assert len(list((out / "tiny").iterdir())) == 5
    for claims in (out / "tiny").glob("*/claims.json"):
        assert json.loads(claims.read_text())[0]["ours"] == worker.read(claims.parent)["parameters"]["case"]


def test_a_full_disk_from_the_first_byte_on(repository, start, tmp_path):
    write_notebook(repository, "1")

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    failed = start("run", "tiny", "--out", tmp_path / "out", preexec_fn=full)
    assert "File too large" in failed.communicate(timeout=120)[1] and failed.returncode == 1
    assert not any(file.stat().st_size for file in (tmp_path / "out").rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "kind", [signal.SIGKILL, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (signal.SIGTERM, signal.SIGHUP))]
)
def test_a_runner_that_is_killed_takes_worker_and_kernel_along(repository, start, tmp_path, kind):
    write_notebook(repository, SAY, SPIN)
    runner = start("run", "tiny", "--out", tmp_path)
    kernel = spinning(tmp_path)
    executing = kernel.parent()
    until(lambda: manifests(tmp_path)[1]["cell"] == 4)
    assert not gone(kernel, executing) and batch.alive(Path(executing.cwd()))
    runner.send_signal(kind)
    assert runner.wait(timeout=60) == (130 if kind == signal.SIGTERM else -kind)
    until(lambda: gone(kernel, executing))
    manifest = manifests(tmp_path)[1]
    assert (manifest["status"], manifest["cell"]) == ("interrupted", 4) and manifest["seconds"] > 0


def test_ctrl_c_twice_keeps_what_is_done(repository, start, tmp_path):
    write_notebook(repository, f"{SAY}\nif case > 1:\n    {SPIN}")
    file = write_params(repository, "grid: {case: [1, 2, 3]}\n")
    runner = start("run", file, "--out", tmp_path)
    kernel = spinning(tmp_path, 2)
    done = manifests(tmp_path)[1]
    runner.send_signal(signal.SIGINT)
    runner.send_signal(signal.SIGINT)
    said, errors = runner.communicate(timeout=60)
    assert runner.returncode == 130
    until(lambda: gone(kernel))
    found = manifests(tmp_path)
    assert {case: manifest["status"] for case, manifest in found.items()} == {1: "done", 2: "interrupted", 3: "planned"}
    assert found[1] == done


@pytest.mark.slow
def test_ctrl_c_says_what_was_stopped(repository, start, tmp_path):
    write_notebook(repository, SAY, SPIN)
    file = write_params(repository, "grid: {case: [1, 2]}\n")
    runner = start("run", file, "--out", tmp_path)
    kernel = spinning(tmp_path)
    runner.send_signal(signal.SIGINT)
    said, errors = runner.communicate(timeout=60)
    assert runner.returncode == 130 and gone(kernel) and not alive(tmp_path)
    assert "2 points: 1 interrupted, 1 not started" in said
    assert "case=1: cell 3: it was stopped" in errors or "case=1: cell 4: it was stopped" in errors


@pytest.mark.slow
def test_a_notebook_that_hangs_is_ended_at_its_limit(repository, tmp_path):
    write_notebook(repository, SAY, SPIN)
    run = batch.run(Tiny(), out=tmp_path, timeout=4)
    assert run.status == "failed" and run.error == "it took longer than its time limit, 4 s"
    assert 4 <= run.seconds < 10 and not alive(tmp_path)
    assert manifests(tmp_path)[1]["error"] == run.error


@pytest.mark.slow
def test_a_second_runner_leaves_a_locked_point_alone(repository, start, tmp_path):
    out, go = tmp_path / "out", tmp_path / "go"
    wait = f"import pathlib, time\nwhile case == 1 and not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.05)"
    write_notebook(repository, SAY, wait)
    file = write_params(repository, "grid: {case: [1, 2]}\n")
    one = start("run", file, "--out", out)
    spinning(out)
    two = subprocess.run(command(repository, "run", file, "--out", out), capture_output=True, text=True, timeout=120)
    assert two.returncode == 1 and two.stderr == "case=1: another runner works on it\n"
    assert "2 points: 1 busy, 1 done" in two.stdout and manifests(out)[1]["status"] == "running"
    second = manifests(out)[2]
    go.touch()
    said, errors = one.communicate(timeout=120)
    assert one.returncode == 0, errors
    assert "case=2: done earlier" in said and manifests(out)[2] == second


@pytest.mark.parametrize("last, status", [("done", "done"), ("running", "interrupted")])
def test_a_worker_that_is_killed_in_its_last_moment(repository, tmp_path, monkeypatch, last, status):
    """The manifest counts, not what the worker had no time to say."""
    write_notebook(repository)
    python = tmp_path / "python"
    python.write_text(f"""#!{sys.executable}
import os, pathlib, signal, sys
from lbkit import worker
folder = pathlib.Path(sys.argv[-1])
worker.write(folder, worker.read(folder) | {{"status": {last!r}, "seconds": 5}})
print('{{"status": "do', end="", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    run = batch.run(Tiny(), out=tmp_path)
    assert run.status == status == worker.read(run.folder)["status"] and (run.seconds == 5) == (last == "done")


@pytest.mark.slow
def test_what_an_attempt_left_behind_is_swept_before_the_next(repository, tmp_path):
    write_notebook(repository, "1")
    (point,) = points.plan([Tiny()], out=tmp_path)
    environment = os.environ | {"LBKIT_WORKER": str(point.folder)}
    left = subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True)
    other = subprocess.Popen(["sleep", "60"], env=os.environ | {"LBKIT_WORKER": str(tmp_path)}, start_new_session=True)
    assert batch.perform(point).status == "done"
    assert left.wait(5) == -signal.SIGKILL and other.poll() is None
    other.kill()


@pytest.mark.slow
def test_a_repository_that_cannot_be_written_and_no_home(repository, tmp_path):
    """Root may write everywhere, so it gives up that right first."""
    write_notebook(repository, f"import lbkit\nassert lbkit.__file__.startswith({str(repository)!r})\nlbkit.chains")
    shutil.copytree(Path(worker.__file__).parent, repository / "lbkit", ignore=shutil.ignore_patterns("__pycache__"))
    (no := tmp_path / "no").mkdir()
    for path in (no, repository, *repository.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    plain = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []
    if not shutil.which("setpriv") or not subprocess.run([*plain, "touch", no / "x"], capture_output=True).returncode:
        pytest.skip("this machine lets root write everywhere")
    names = ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    nowhere = {"PYTHONPATH": str(repository)} | {name: str(no / name) for name in names}
    done = subprocess.run(
        [*plain, *command(repository, "run", "tiny", "--out", tmp_path / "out")], env=os.environ | nowhere, cwd=no,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.slow
def test_a_run_needs_no_network(repository, tmp_path):
    alone = ["unshare", "-rn"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let a process leave the network")
    write_notebook(repository, "1")
    run = [*alone, *command(repository, "run", "tiny", "--out", tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_soak(repository, tmp_path):
    """200 points, 4 at a time, while runners, workers and kernels are killed at random."""
    write_notebook(repository, "from lbkit import record", "record.claims([record.Claim('it ran', case, case, True)])")
    file = write_params(repository, f"grid: {{case: {list(range(200))}}}\n")
    chance, kept, kills, code = random.Random(1), {}, 0, None
    while code != 0:
        runner = psutil.Popen(command(repository, "run", file, "-j", "4", "--out", tmp_path), stdout=subprocess.DEVNULL)
        while (code := runner.poll()) is None:
            time.sleep(chance.uniform(0.2, 2))
            if kills < 100:
                with suppress(psutil.Error):  # it ended meanwhile
                    chance.choice([runner, *5 * runner.children(recursive=True)]).kill()
                    kills += 1
        found = manifests(tmp_path)
        assert all(found[case] == manifest for case, manifest in kept.items()), "a point was lost or done twice"
        kept = {case: manifest for case, manifest in found.items() if manifest["status"] == "done"}
        assert code != 0 or kills == 100
    assert sorted(kept) == list(range(200)) and len(list((tmp_path / "tiny").iterdir())) == 200
    for claims in (tmp_path / "tiny").glob("*/claims.json"):
        assert json.loads(claims.read_text())[0]["ours"] == worker.read(claims.parent)["parameters"]["case"]
    until(lambda: not alive(tmp_path))
