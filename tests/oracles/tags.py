"""The numbers of ``lbkit.tags`` by other ways: kill-and-restart simulation, quadrature, exhaustion, recursions."""

from itertools import combinations
from math import exp, inf, log

import numpy as np


def fcfs(arrivals, services):
    """Waits and departures of a first-come-first-served server, by Lindley's recursion in its summed form."""
    work = np.cumsum(services)
    departures = work + np.maximum.accumulate(arrivals - (work - services))
    return departures - services - arrivals, departures


def kill_and_restart(cutoffs, arrivals, sizes, warm=0):
    """Simulated (visits, load, mean wait) of every TAGS server; the first ``warm`` jobs are not counted."""
    rows, job, time = [], np.arange(len(sizes)), arrivals
    for cutoff in [*cutoffs, inf]:
        service = np.minimum(sizes[job], cutoff)
        wait, left = fcfs(time, service)
        counted = job >= warm
        span = arrivals[-1] - arrivals[warm]
        rows.append((counted.sum() / (len(sizes) - warm), service[counted].sum() / span, wait[counted].mean()))
        on = sizes[job] > cutoff
        job, time = job[on], left[on]
    return np.array(rows).T


def by_size(cutoffs, arrivals, sizes):
    """Simulated mean wait of every SITA server."""
    server = np.searchsorted(cutoffs, sizes)
    return np.array([fcfs(arrivals[server == i], sizes[server == i])[0].mean() for i in range(len(cutoffs) + 1)])


def work(survival, a, b, n):
    """E[min(X, b)^n; X > a] from the survival function alone: a^n Fb(a) plus n x^{n-1} Fb(x) integrated in ln x."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(log(a or 1e-14 * b), log(b), 400)
    half = np.diff(edges)[:, None] / 2
    x = np.exp(edges[:-1, None] + half * (1 + nodes))
    return a**n * survival(a) + float((half * weights * n * x**n * survival(x)).sum())


def means(survival, high, lam, cutoffs):
    """Loads, waits, mean wait and mean delay of TAGS for a continuous law on (0, high], from its survival function."""
    ends = [0.0, *cutoffs, high]
    pairs = list(zip(ends, ends[1:]))
    loads = lam * np.array([work(survival, a, b, 1) for a, b in pairs])
    waits = lam * np.array([work(survival, a, b, 2) for a, b in pairs]) / (2 * (1 - loads))
    wait = sum(survival(a) * w for (a, _), w in zip(pairs, waits))
    return loads, waits, wait, wait + sum(s * survival(s) for s in cutoffs)


def servers(values, probabilities, lam, cutoffs, known=False):
    """(visits, load, wait) of the servers for a discrete law, by listing the jobs; ``known`` sizes give SITA."""
    rows = []
    for a, b in zip([-1.0, *cutoffs], [*cutoffs, inf]):
        visits = work = square = 0.0
        for x, p in zip(values, probabilities):
            if x > a and (x <= b or not known):
                visits, work, square = visits + p, work + p * min(x, b), square + p * min(x, b) ** 2
        load = lam * work
        rows.append((visits, load, lam * square / (2 * (1 - load)) if load < 1 else inf))
    return rows


def exhaustive(values, h, cost):
    """The least cost(cutoffs) over all cutoffs at sizes of a discrete law, for at most h servers."""
    return min(cost(c) for used in range(h) for c in combinations(values[:-1], used))


def bisect(f, low, high):
    """Root of a decreasing function."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    return (low + high) / 2


def pareto_one(r, h):
    """Load threshold and cutoffs over low for bounded Pareto with alpha = 1, by the backward recursion of the loads."""

    def up(M):
        y = [1.0]
        for _ in range(h - 1):
            y.append(y[-1] * exp(1 - M - y[-1]))
        return y[:0:-1] if h > 1 else []

    M = bisect(lambda M: log(r * [*up(M), 1.0][0]) + 1 - [*up(M), 1.0][0] - M, log(r) / h, log(r))
    return log(r) / M, np.array(up(M)) * r


def uniform_threshold(h):
    """Load threshold for uniform sizes on (0, 1): s - s^2 / 2 - t^2 / 2 = mu for neighbouring cutoffs t < s."""

    def last(mu):
        t = 0.0
        for _ in range(h - 1):
            inside = 1 - t * t - 2 * mu
            if inside <= 0:
                return -mu
            t = max(t, 1 - inside**0.5)
        return (1 - t * t) / 2 - mu

    return 0.5 / bisect(last, 0.5 / h, 0.5)
