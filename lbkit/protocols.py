"""How each policy is run: a kernel, and what the kernel must know beside the jobs and the servers.

A protocol answers three calls: ``prepare(jobs)`` for a fresh block of jobs, ``fit(servers)`` whenever the rings have
grown, and ``serve(jobs, first, last, origin, servers)``, which serves jobs from first on and returns how far it came
and whether a ring is full.

==========  ======================================================================  ==============================
protocol    policies                                                                cost per job
==========  ======================================================================  ==============================
Sampled     a Policy or LWL(d): look at d servers, or at all of them                O(d)
Indexed     JSQ and LWL: all servers, by an index                                   O(log N)
Assigned    round robin and SITA: the state has no say                              O(1)
Chain       TAGS: one queue after the other                                         O(servers visited)
==========  ======================================================================  ==============================

Round robin visits server k, of share p_k of the capacity, at the turns nearest to (j + 1/2) / p_k, j = 0, 1, ...   (1)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import inf

import numpy as np

from lbkit import kernels
from lbkit.policies import Cutoffs, LeastWork, Policy, RoundRobin
from lbkit.systems import System

SHUFFLED = 16  # samples from which on a deck is shuffled instead of drawing again what was drawn twice
PICKS = 2**16  # candidates drawn at a time
LOOKS = 2**24  # looks at servers between two chances to stop
WEIGHTED = {  # is the first candidate drawn by speed, are the others, is one drawn twice drawn again
    "distinct": (False, False, True), "replacement": (False, False, False),
    "sum": (True, False, True), "succ": (True, True, True), "with": (True, True, False),
}  # fmt: skip


def protocol(system: System, rng: np.ndarray):
    """The protocol of a system's policy; rng (2, 4): states of xoshiro256++, for candidates and for ties."""
    policy = system.policy
    match policy:
        case Cutoffs(kind="tags"):
            return Chain(system)
        case Cutoffs() | RoundRobin():
            return Assigned(system)
        case LeastWork(d=None):
            return Indexed(system, kernels.least, rng[1])
        case Policy(d=None) if len(policy.layers) == 1 and np.all(np.diff(policy.table(64, system.job)[:, 0]) > 0):
            return Indexed(system, kernels.shortest, rng[1])
    return Sampled(system, rng)


class Sampled:
    """The best of the candidates."""

    def __init__(self, system: System, rng: np.ndarray):
        self.policy, self.job, self.rng = system.policy, system.job, rng
        N, law = system.servers, system.policy.d
        law = ((law, 1.0),) if isinstance(law, int) else law
        scheme = getattr(self.policy, "candidates", "distinct")
        first, rest, redraw = WEIGHTED[scheme]
        everyone = law is None or (redraw and law[0][0] == N)
        self.fair, self.picks = scheme == "distinct" and not everyone, None
        if everyone:
            return
        numbers, chances = (np.array(column) for column in zip(*law))
        shuffled, d = scheme == "distinct" and numbers[-1] > SHUFFLED, int(numbers[-1])
        self.law = kernels.Sampling(
            N, numbers, np.append(np.cumsum(chances)[:-1], inf) if len(law) > 1 else None, first, rest, redraw,
            *(_alias(system.service_rates / system.capacity) if first else (None, None, None)),
            np.arange(N) if shuffled else None,
        )  # fmt: skip
        self.picks = np.empty((max(PICKS // d, 1), d), np.uint32)
        self.used = len(self.picks)

    def prepare(self, jobs):
        pass

    def fit(self, servers):
        place = edges = guide = None
        cells = 1.0
        if isinstance(self.policy, Policy):
            table = self.policy.table(len(servers.levels) - 1, self.job)
            place = np.vstack([np.full(table.shape[1], -1.0), table])
            if table.shape[1] > 1:
                edges = np.array([*self.policy.layers.edges, inf])
                cells = 2 * len(edges) / edges[-2]
                guide = np.searchsorted(edges, (np.arange(2 * len(edges) + 1) - 1) / cells)
        self.ranking = kernels.Ranking(place, edges, guide, cells, None if self.fair else self.rng[1])

    def serve(self, jobs, first, last, origin, servers):
        if self.picks is None:
            last = min(last, first + max(LOOKS // len(servers.rows), 1))
            return kernels.dispatch(*jobs, first, last, origin, *servers, None, *self.ranking)
        if self.used == len(self.picks):
            kernels.sample(self.picks, self.rng[0], *self.law)
            self.used = 0
        last = min(last, first + len(self.picks) - self.used)
        picks = self.picks[self.used : self.used + last - first]
        reached, full = kernels.dispatch(*jobs, first, last, origin, *servers, picks, *self.ranking)
        self.used += reached - first
        return reached, full


class Indexed:
    """The best of all servers."""

    def __init__(self, system: System, kernel, rng: np.ndarray):
        self.kernel, self.rng = kernel, rng

    def prepare(self, jobs):
        pass

    def fit(self, servers):
        N, capacity = len(servers.rows), len(servers.levels) - 1
        head, length = _lengths(servers)
        by_work = self.kernel is kernels.least
        ring = servers.rows[np.arange(N), 2 + (head + (length - 1 if by_work else 0)) % capacity]
        key = np.where(length > 0, ring, inf)
        busy = np.flatnonzero(length > 0)
        heap = np.zeros(N, np.int64)
        heap[: len(busy)] = busy[np.argsort(key[busy], kind="stable")]
        order = np.argsort(length, kind="stable")
        spot = np.empty(N, np.int64)
        spot[order] = np.arange(N)
        end = np.searchsorted(length[order], np.arange(capacity + 2))
        end[0] = N - len(busy) if by_work else 0
        self.index = kernels.Index(self.rng, heap, key, np.array([len(busy)]), order, spot, length, end)

    def serve(self, jobs, first, last, origin, servers):
        return self.kernel(*jobs, first, last, origin, *servers, *self.index)


class Assigned:
    """A server for each job, whatever the state."""

    def __init__(self, system: System):
        self.cutoffs = np.array(system.policy.cutoffs) if isinstance(system.policy, Cutoffs) else None
        self.turns, self.ahead = _turns(system.service_rates / system.capacity), np.empty(0, np.int64)

    def prepare(self, jobs):
        if self.cutoffs is not None:
            jobs.where[:] = np.searchsorted(self.cutoffs, jobs.sizes[:, 0])
            return
        while len(self.ahead) < len(jobs.where):
            self.ahead = np.concatenate([self.ahead, next(self.turns)])
        jobs.where[:], self.ahead = self.ahead[: len(jobs.where)], self.ahead[len(jobs.where) :]

    def fit(self, servers):
        pass

    def serve(self, jobs, first, last, origin, servers):
        return kernels.assign(*jobs, first, last, origin, *servers)


class Chain:
    """TAGS; counts its visits itself."""

    def __init__(self, system: System):
        self.cutoffs, self.visits = np.array([*system.policy.cutoffs, inf]), np.zeros((system.servers, 3))

    def prepare(self, jobs):
        pass

    def fit(self, servers):
        pass

    def serve(self, jobs, first, last, origin, servers):
        return kernels.tags(*jobs, first, last, origin, *servers, self.cutoffs, self.visits)


def empty_servers(system: System, capacity: int = 6) -> kernels.Servers:
    """All servers idle, with rings for so many jobs."""
    rows = _rows(system.servers, 2 + capacity)
    slowness = None if system.speeds is None else 1 / system.speed
    column = None
    if len(system.laws) > 1:
        number = {law: i for i, law in enumerate(distinct_laws(system))}
        column = np.array([number[law] for law in system.laws])
    return kernels.Servers(rows, rows.view(np.uint64), np.zeros(1 + capacity), slowness, column)


def distinct_laws(system: System) -> list:
    """The laws of the size, each once: what the columns of sizes are drawn from."""
    return list(dict.fromkeys(system.laws))


def widened(servers: kernels.Servers, memory: float) -> kernels.Servers:
    """The same servers with rows of twice the width; ValueError where they would take more than so many bytes."""
    N, width = servers.rows.shape
    if 16 * N * width > memory:
        raise ValueError(
            f"a queue has reached {width - 2} jobs, and rings of twice that for {N} servers would take"
            f" {16 * N * width / 2**30:.1f} GiB, above {memory / 2**30:.1f} GiB: the system looks unstable;"
            " lower its rate, or simulate fewer jobs or servers"
        )
    rows = _rows(N, 2 * width)
    words, levels = rows.view(np.uint64), np.concatenate([servers.levels, np.zeros(width)])
    kernels.widen(servers.rows, servers.words, rows, words)
    return servers._replace(rows=rows, words=words, levels=levels)


class Start:
    """How servers begin: empty, with a number of fresh jobs each, or each in the state of the mean-field limit.

    Called with empty servers and a Generator, it returns them filled. In the last case the age of a service is drawn
    from the law of the age, given its layer, and the size given that age, as if no arrivals were linked to it.
    """

    def __init__(self, system: System, start: str | Sequence[int]):
        self.system, self.lengths, self.law = system, None, None
        if isinstance(start, str):
            if start not in ("empty", "cavity"):
                raise ValueError(f'start must be "empty", "cavity" or a length per server, not {start!r}')
            self.law = self._mean_field() if start == "cavity" else None
            return
        lengths = np.array(start)
        if lengths.shape != (system.servers,) or np.any(lengths < 0) or np.any(lengths % 1):
            raise ValueError(
                f"start must be a whole number >= 0 for each of the {system.servers} servers, not {start!r}"
            )
        if isinstance(system.policy, Cutoffs):
            raise ValueError(f"{system.policy.name} starts empty: which sizes are under way depends on the server")
        self.lengths = lengths.astype(np.int64)

    def _mean_field(self):
        from lbkit import cavity

        system = self.system
        if (
            not system.poisson
            or system.speeds is not None
            or len(system.laws) > 1
            or not isinstance(system.policy, Policy)
        ):
            raise ValueError(
                'start="cavity" needs Poisson arrivals, servers that are alike, and a Policy with finite d'
            )
        return cavity.solve(system.rate / system.servers, system.job, system.policy).joint

    def __call__(self, servers: kernels.Servers, rng: np.random.Generator) -> kernels.Servers:
        system, N = self.system, self.system.servers

        def fresh(here):
            """Service times of a job at each of these servers."""
            if len(system.laws) > 1:
                return np.array([system.laws[s].sample(1, rng)[0] for s in here])
            return system.job.sample(len(here), rng) / system.speed[here]

        if self.lengths is not None:
            return _filled(servers, self.lengths, fresh(np.arange(N)), np.zeros(N), fresh)
        if self.law is None:
            return servers
        layer, lengths = np.divmod(rng.choice(self.law.size, N, p=self.law.ravel() / self.law.sum()), self.law.shape[1])
        age = _ages(system.job, system.policy.layers, layer, rng)
        size = system.job.quantile(1 - rng.random(N) * system.job.survival(age))
        return _filled(servers, lengths, np.maximum(size - age, 0), -age, fresh)


def _ages(job, layers, layer, rng):
    """Ages of services in the given layers 1..r+1 (0 is idle), density P(X > a) in each, (N,); by interpolation."""
    ages = np.unique([*layers.lower, *job.quantile(1 - np.geomspace(1, 1e-15, 4000))])
    lived = job.truncated_moment(1, ages)  # int_0^a P(X > x) dx
    ends = np.append(lived[np.searchsorted(ages, layers.lower)], lived[-1])
    k = np.maximum(layer, 1)
    return np.interp(ends[k - 1] + rng.random(len(k)) * (ends[k] - ends[k - 1]), lived, ages)


def _filled(servers, lengths, first, since, fresh):
    """Servers with so many jobs (N,): first (N,) is what is left of the one in service, begun at since (N,)."""
    while len(servers.levels) <= lengths.max() + 1:
        servers = widened(servers, inf)
    servers.words[:, 0] = lengths.astype(np.uint64) << np.uint64(32)
    servers.rows[:, 1] = since
    leaves = first.copy()
    for place in range(int(lengths.max())):
        here = np.flatnonzero(lengths > place)
        leaves[here] += fresh(here) if place else 0.0
        servers.rows[here, 2 + place] = leaves[here]
    return servers


def _rows(N, width):
    """Zeros (N, width) that start with a cache line."""
    memory = np.zeros(N * width + 7)
    start = -memory.ctypes.data % 64 // 8
    return memory[start : start + N * width].reshape(N, width)


def _lengths(servers):
    """Head and length of every ring, (N,)."""
    words = servers.words[:, 0]
    return (words & kernels.LOW).astype(np.int64), (words >> kernels.HALF).astype(np.int64)


def _alias(weight):
    """Walker's alias table: a uniform server s is kept with probability keep[s], or else gives way to other[s]."""
    keep, other = weight * len(weight), np.arange(len(weight))
    poor, rich = ([*np.flatnonzero(side)] for side in (keep < 1, keep >= 1))
    while poor and rich:
        s, t = poor.pop(), rich[-1]
        other[s] = t
        keep[t] -= 1 - keep[s]
        if keep[t] < 1:
            poor.append(rich.pop())
    keep[poor + rich] = 1.0
    return weight, keep, other


def _turns(share):
    """Servers in the order of (1), in pieces."""
    N, piece = len(share), max(4 * len(share), 2**14)
    for start in count(0, piece):
        first, last = (np.ceil(turn * share - 0.5).astype(np.int64).clip(0) for turn in (start, start + piece))
        server = np.repeat(np.arange(N), last - first)
        j = np.arange(len(server)) - np.repeat(np.cumsum(last - first) - last, last - first)
        yield server[np.argsort((j + 0.5) / share[server], kind="stable")]  # (1)
