"""Discrete-event simulation of FCFS servers without an event list.

When a job is assigned, its departure is known. A server is a ring of the departure times of its jobs: a look at it
drops what has passed, and gives its length, the age of the job in service and the unfinished work. Only the candidates
of an arriving job are looked at, so a job costs O(d) whatever the number of servers.

=============  =========================================================================  ================
symbol         name                                                                       unit
=============  =========================================================================  ================
t, D           time of arrival; latest departure from the server that the job joins       time
W, S, R        wait, service time, response                                               time
n_i(t)         servers with i jobs or more                                                servers
U, I           work in the system; speed of its idle servers                              sizes, speed
lam, rho, X    arrival rate, load, job size (see ``systems``)
=============  =========================================================================  ================

A queue is a Lindley recursion, its length a count of departure times::

    W = max(D - t, 0)                                                                             (1)
    D <- t + W + S,    R = W + S                                                                  (2)

Of each length only sums of times are kept: n_i rises when a job joins and becomes the i-th, and falls when one of i
leaves,

    int_a^b n_i dt = sum over falls (t - a) - sum over rises (t - a) + n_i(b) (b - a)             (3)

TAGS is a chain of such recursions: a job reaches server i + 1 when server i has killed it,

    t_{i+1} = t_i + W_i + min(X, s_i) / speed_i                                                   (4)

The whole system is empty iff the largest departure so far has passed, and a cycle starts with the next arrival (5).
With Poisson arrivals and one law of the size, jobs see time averages, and for every stable policy in the model of Chen
and Ye::

    E[U] = rho E[X^2] / (2 E[X] (1 - rho)) + kappa,    kappa = E[U I] / E[I]                      (6)

Random numbers are drawn in blocks of BLOCK jobs. Gaps, sizes, candidates, ties and the initial state have streams of
their own, so that simulations with one seed share arrivals, sizes and candidates whatever their policies (common random
numbers). A replication depends on its seed alone: which thread or machine serves it makes no difference to a bit.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from itertools import pairwise
from numbers import Integral, Real
from pickle import loads
from threading import Event

import numpy as np

from lbkit import estimates, kernels
from lbkit.policies import Cutoffs, LeastWork, Policy
from lbkit.protocols import Chain, Start, distinct_laws, empty_servers, protocol, widened
from lbkit.results import Simulation
from lbkit.systems import System

BLOCK = 2**15  # jobs drawn at a time, so that they stay in the second-level cache
BATCHES = 32
BINS = 64 * 64  # histogram of 64 bins for each of 64 powers of two
MEMORY = 2**33  # bytes that the rings of all replications may take
COUNTED = ("done", "batches", "tails", "waits", "responses", "visits", "cycles")  # what a replication has to tell
FEW, MANY = 64, 1000  # servers up to which U and I are found by looking, and up to which each has statistics of its own


def simulate(
    system: System, *, jobs: int = 10**6, replications: int = 10, seed=0, warmup: float | None = None,
    until: float | str | None = None, start: str | Sequence[int] = "empty", workers: int | None = None,
    executor: Executor | None = None, progress: bool | Callable[[float], None] = False, unstable: bool = False,
) -> Simulation:  # fmt: skip
    """Waits, responses and queue lengths of a system, by independent replications.

    jobs          jobs that are counted in each replication (with until: at most)
    seed          an integer or a SeedSequence; the numbers do not depend on workers
    warmup        jobs before these, not counted: a number >= 1, a fraction of jobs below 1, or None for the time that a
                  queue in heavy traffic takes to forget its start (see ``warmup_jobs``), at most as many as jobs
    until         stop once the 95 % half-width of the mean response is below this share of it, as "1%" or 0.01
    start         "empty", "cavity" (each server in the state of the mean-field limit), or a length per server (N,)
    workers       threads, by default one for each processor
    executor      serves the replications in place of threads: any of concurrent.futures, a cluster's is
                  ``distributed.Client(address).get_executor()``; by default that of the scheduler whose address is in
                  the environment variable LBKIT_SCHEDULER, if it is set. With until, it serves every stage from the
                  first job on
    progress      tell how far it is on standard error: a bar in a terminal, a line now and then elsewhere; or a
                  function, called with the share of the jobs done, which stops the simulation by KeyboardInterrupt
    unstable      allow a rate at which no stationary law exists

    Ctrl-C ends the simulation, not the program: the result holds what was counted (by an executor: the replications it
    had finished) and says ``complete=False``. Raises ValueError for arguments outside their ranges, a rate that is not
    stable, rings that outgrow MEMORY, and machines of an executor where other versions would give other numbers.
    """
    jobs, replications = _integer("jobs", jobs, 1), _integer("replications", replications, 1)
    workers = min(replications, os.cpu_count() if workers is None else _integer("workers", workers, 1))
    goal = None if until is None else _share(until)
    executor = _executor(executor)
    if not unstable:
        system.require_stable()
    advised = 0 if unstable else warmup_jobs(system, start)
    ahead = min(advised, jobs) if warmup is None else _warmup(warmup, jobs)
    state = Start(system, start)
    runs = [_Replication(system, child, state, MEMORY / replications) for child in _sequence(seed).spawn(replications)]
    stages = [jobs] if goal is None else sorted({max(jobs >> k, min(jobs, 1000)) for k in range(7)})
    batches = max(2, min(BATCHES, jobs // (8 * system.servers)) // 2 * 2)
    collect = partial(
        Simulation, system, seed, ahead, start if isinstance(start, str) else tuple(start),
        value_of=estimates.value, estimate_of=estimates.estimate,
    )  # fmt: skip
    with _progress(progress, replications * (ahead + jobs), runs) as show:
        here = executor is None
        complete = _advance(runs, workers, show, ahead, 1, count=False) if ahead and here else True
        done = 0
        for i, stage in enumerate(stages if complete else ()):
            if here:
                complete = _advance(runs, workers, show, stage - done, batches, last=goal is None)
            else:
                complete = _advance_elsewhere(runs, executor, show, ahead, stages[: i + 1], batches)
            done = stage
            if not complete:
                break
            if goal is not None and _precision(_collect(collect, runs, complete)) <= goal:
                break
            for run in runs if stage < jobs else ():
                run.pair_batches(batches)
    if not any(run.batches for run in runs):
        raise KeyboardInterrupt(f"stopped within the first {ahead} jobs of each replication, which are not counted")
    result = _collect(collect, [run for run in runs if run.batches], complete)
    return replace(result, warnings=estimates.warnings(result, goal, advised))


def sample_path(system: System, times, *, seed=0, start: str | Sequence[int] = "empty") -> np.ndarray:
    """Lengths of all servers at the given increasing times >= 0: integers, (len(times), N). The system may be unstable.

    The path is that of the first replication of ``simulate`` with the same seed and start and no warm-up. Not for TAGS,
    where the rings hold jobs that are still on their way.
    """
    if isinstance(system.policy, Cutoffs) and system.policy.kind == "tags":
        raise ValueError(f"{system.policy.name} has no sample path here: its servers learn of jobs ahead of time")
    times = np.asarray(times, float)
    if times.ndim != 1 or not np.all(np.isfinite(times)) or np.any(np.diff(times, prepend=0) < 0):
        raise ValueError("times must be a list of finite numbers >= 0 that do not decrease")
    run = _Replication(system, _sequence(seed).spawn(1)[0], Start(system, start), MEMORY)
    run.begin()
    path = np.empty((len(times), system.servers), np.int64)
    for i, now in enumerate(times):
        run.serve_until(now)
        kernels.lengths_at(run.servers.rows, run.servers.words, now, path[i])
    return path


def warmup_jobs(system: System, start: str | Sequence[int] = "empty") -> int:
    """Jobs that a queue in heavy traffic needs to forget an empty start.

    In time 4 (ca2 + cs2) E[S] / (1 - rho)^2 for a queue of its own, when a reflected Brownian motion is 1 % below its
    mean; 4 (ca2 + cs2) E[S] (1 / (N (1 - rho)^2) + 1 / (1 - rho)) where a job chooses among several servers, so that
    they fill up together. rho is the rate over the largest stable one; from "cavity" a tenth will do.
    """
    slack = 1 - system.rate / system.max_rate
    scv = np.clip(system.gap.scv + max(law.scv for law in system.laws), 1, 1000)
    together = isinstance(system.policy, Policy | LeastWork) and max(system.samples, default=system.servers) > 1
    relaxation = 1 / (system.servers * slack**2) + 1 / slack if together else 1 / slack**2
    jobs = 4 * scv * relaxation * system.rate * system.servers / system.capacity
    return 1 + int(0.1 * jobs if isinstance(start, str) and start == "cavity" else jobs)


class _Replication:
    """One run of a system: its streams, its servers, and what has been counted."""

    def __init__(self, system, seed, start, memory):
        self.system, self.seed, self.start, self.memory = system, seed, start, memory
        self.laws, self.small = distinct_laws(system), False
        self.done, self.batches = 0, []
        self.lowest = (1023 - 30 + int(np.floor(np.log2(system.servers / system.capacity)))) << (52 - kernels.FRACTION)

    def begin(self):
        """Open the streams and fill the servers, unless that has been done."""
        if hasattr(self, "servers"):
            return
        system, N = self.system, self.system.servers
        gaps, sizes, candidates, ties, initial = self.seed.spawn(5)
        self.gaps, self.sizes = np.random.default_rng(gaps), np.random.default_rng(sizes)
        self.protocol = protocol(system, np.array([s.generate_state(4, np.uint64) for s in (candidates, ties)]))
        self.servers = self.start(empty_servers(system), np.random.default_rng(initial))
        self.protocol.fit(self.servers)
        self.chain = isinstance(self.protocol, Chain)
        self.small = system.poisson and len(self.laws) == 1 and N <= FEW and not self.chain
        self.stop, self.done, self.at, self.clock, self.origin = Event(), 0, BLOCK, 0.0, 0.0
        self.jobs = kernels.Jobs(None, None, np.empty(BLOCK, np.int32), np.empty(BLOCK), np.empty(BLOCK))
        self.ends = self.servers.rows[:, 2:].max(axis=1)
        self.backlog, self.cycle = self.unfinished(), np.array([self.ends.max(), -np.inf, 0.0, 0.0])
        self.visits = self.protocol.visits if self.chain else np.zeros((N if N <= MANY or len(self.laws) > 1 else 0, 3))
        self.clear()

    def clear(self):
        """Forget what has been counted."""
        self.batches, self.tails = [], np.zeros(1)
        self.waits, self.responses = np.zeros((2, BINS), np.int64)
        self.cycles, self.cycle[1:] = np.zeros(9), (-np.inf, 0.0, 0.0)
        self.visits[:] = 0

    def end(self):
        """Give back the memory that only further jobs would need."""
        del self.servers, self.protocol, self.jobs

    def advance(self, jobs, batches, stop, count=True, last=False):
        """Serve so many jobs in so many batches, unless stopped."""
        self.begin()
        self.stop = stop
        for size in np.diff(np.arange(batches + 1) * jobs // batches):
            begun, self.sums, self.found = self.done, np.zeros(6), np.zeros(4)
            start = self.origin = self.clock
            while self.done < begun + size and not stop.is_set():
                self.serve(begun + size - self.done)
            self.close(self.done - begun, start)
        if not count:
            self.clear()
        if last:
            self.end()

    def close(self, jobs, start):
        """End a batch."""
        if not jobs:
            return
        length, counts = self.clock - start, kernels.settle(*self.servers[:3], self.clock, self.origin)
        tail = self.servers.levels + counts[::-1].cumsum()[::-1] * length  # (3)
        tail[0] = self.system.servers * length
        self.servers.levels[:] = 0
        self.tails = np.pad(self.tails, (0, len(tail) - len(self.tails))) + tail
        if len(self.visits):
            before, self.backlog = self.backlog, self.unfinished()
            self.visits[:, 2] -= self.backlog - before
        self.batches.append([jobs, length, *self.sums, tail[1:].sum(), tail[1], *self.found])

    def unfinished(self):
        """Unfinished work at every server, in time, (N,)."""
        return np.maximum(self.servers.rows[:, 2:].max(axis=1) - self.clock, 0)

    def pair_batches(self, batches):
        """Join batches two by two while there are more than so many."""
        while len(self.batches) > batches:
            self.batches = np.add(self.batches[::2], self.batches[1::2]).tolist()

    def refill(self):
        """Draw the next block of jobs."""
        times, sizes = self.system.gap.sample(BLOCK, self.gaps), [law.sample(BLOCK, self.sizes) for law in self.laws]
        times[0] += self.clock
        self.jobs = self.jobs._replace(
            times=times, sizes=np.stack(sizes, axis=1) if len(sizes) > 1 else sizes[0][:, None]
        )
        self.protocol.prepare(self.jobs)
        self.at = 0

    def serve(self, jobs):
        """Serve at most so many jobs, up to the end of the block."""
        if self.at == BLOCK:
            self.refill()
        first = self.at
        self.move(int(min(BLOCK, first + jobs)))
        last, visits = self.at, self.visits if len(self.visits) and not self.chain else None
        kernels.tally(
            *self.jobs, first, last, self.lowest, self.sums, self.waits, self.responses, self.cycle, self.cycles, visits
        )
        if self.small:
            times, _, where, _, responses = self.jobs
            kernels.content(times, where, responses, first, last, self.system.speed, self.ends, self.found)
        self.done += last - first

    def move(self, last):
        """Let the jobs of the block before the given one join their servers, unless stopped."""
        with np.errstate(over="ignore"):  # plain Python warns where random bits overflow
            while self.at < last and not self.stop.is_set():
                self.at, full = self.protocol.serve(self.jobs, self.at, last, self.origin, self.servers)
                if full:
                    self.servers = widened(self.servers, self.memory)
                    self.protocol.fit(self.servers)
        if self.at:
            self.clock = float(self.jobs.times[self.at - 1])

    def serve_until(self, now):
        """Serve the jobs that arrive up to now."""
        while True:
            if self.at == BLOCK:
                self.refill()
                self.arrivals = np.cumsum(self.jobs.times)
            self.move(int(np.searchsorted(self.arrivals, now, side="right")))
            if self.at < BLOCK:
                return


def _advance(runs, workers, show, *how, **what) -> bool:
    """Advance all runs, some at a time; False after Ctrl-C."""
    stop, complete = Event(), True
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run.advance, *how, stop, **what) for run in runs]
        try:
            while wait(futures, timeout=0.2, return_when=FIRST_EXCEPTION).not_done:
                show()
                if any(future.done() and future.exception() for future in futures):
                    break
        except KeyboardInterrupt:
            complete = False
        finally:
            stop.set()
    for future in futures:
        future.result()
    return complete


def _advance_elsewhere(runs, executor, show, *what) -> bool:
    """Have an executor serve all runs from their first jobs on; False after Ctrl-C."""
    from cloudpickle import dumps

    pending = {executor.submit(_counted, dumps(run), _versions(), *what): run for run in runs}
    try:
        while pending:
            for future in wait(pending, timeout=0.2, return_when=FIRST_COMPLETED).done:
                vars(pending.pop(future)).update(future.result())
            show()
    except KeyboardInterrupt:
        return False
    finally:
        for future in pending:
            future.cancel()
    return True


def _counted(run, versions, ahead, stages, batches) -> dict:
    """What a pickled replication counts up to the last of the stages."""
    if versions != _versions():
        raise ValueError(f"a worker has {_versions()} in place of {versions}, which may give other numbers")
    run, stop = loads(run), Event()
    run.advance(ahead, 1, stop, count=False)
    for done, stage in pairwise([0, *stages]):
        run.pair_batches(batches)
        run.advance(stage - done, batches, stop)
    return {name: getattr(run, name) for name in COUNTED}


def _executor(executor) -> Executor | None:
    if executor is None and (address := os.environ.get("LBKIT_SCHEDULER")):
        return _cluster(address)
    if not isinstance(executor, Executor | None):
        raise ValueError(f"executor must be one of concurrent.futures, as Client(...).get_executor(), not {executor!r}")
    return executor


@cache
def _cluster(address) -> Executor:
    """The executor of a Dask cluster, given the address of its scheduler."""
    from distributed import Client

    return Client(address, set_as_default=False).get_executor()


def _versions() -> str:
    """What the numbers depend on."""
    return ", ".join(f"{name} {version(name)}" for name in ("lbkit", "numba", "numpy"))


def _collect(collect, runs, complete) -> Simulation:
    return collect(
        batches=_stacked([np.array(run.batches) for run in runs]), tails=_stacked([run.tails for run in runs]),
        waits=np.array([run.waits for run in runs]), responses=np.array([run.responses for run in runs]),
        visits=np.array([run.visits for run in runs]), cycles=np.array([run.cycles for run in runs]),
        lowest=runs[0].lowest, complete=complete,
    )  # fmt: skip


def _stacked(rows) -> np.ndarray:
    """Arrays of different lengths as one, filled up with zeros."""
    table = np.zeros((len(rows), max(map(len, rows)), *rows[0].shape[1:]))
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table


def _precision(result) -> float:
    """Relative half-width of the mean response."""
    value, half_width, _ = result.estimate("mean_response")
    return half_width / value


@contextmanager
def _progress(wanted, total, runs):
    """A function that shows how far the runs are."""
    if callable(wanted):
        yield lambda: wanted(min(1.0, sum(run.done for run in runs) / total))
        return
    if not wanted:
        yield lambda: None
        return
    from tqdm import tqdm

    begun, told = time.monotonic(), [time.monotonic()]
    bar = tqdm(total=total, unit=" jobs", unit_scale=True) if sys.stderr.isatty() else None

    def show(every=10.0):
        done, now = sum(run.done for run in runs), time.monotonic()
        if bar is not None:
            bar.update(done - bar.n)
        elif now - told[0] >= every:
            told[0] = now
            print(
                tqdm.format_meter(done, total, now - begun, ncols=0, unit=" jobs", unit_scale=True),
                file=sys.stderr,
                flush=True,
            )

    try:
        yield show
    finally:
        show(every=0.0)
        if bar is not None:
            bar.close()


def _sequence(seed) -> np.random.SeedSequence:
    """Fresh, so that simulations with the same seed are the same."""
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    return np.random.SeedSequence(_integer("seed", seed, 0))


def _integer(name, value, least) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, not {value!r}")
    return int(value)


def _warmup(warmup, jobs) -> int:
    if not isinstance(warmup, Real) or not 0 <= warmup < np.inf or (warmup > 1 and warmup % 1):
        raise ValueError(f"warmup must be a whole number of jobs, or a fraction of jobs in [0, 1), not {warmup!r}")
    return int(warmup * jobs if warmup < 1 else warmup)


def _share(until) -> float:
    text = str(until)
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = np.nan
    if not 0 < share < 1:
        raise ValueError(f'until must be a share of the mean response between 0 and 1, as "1%" or 0.01, not {until!r}')
    return share
