r"""TAGS, task assignment by guessing size, and SITA: stability, means, best cutoffs, limits and bounds.

Poisson arrivals, h first-come-first-served servers of unit speed. Under TAGS every job starts at server 1; server i < h
kills a job after time s_i and sends it to server i + 1, its work lost. Under SITA sizes are known, and server i gets
those in (s_{i-1}, s_i]. A job of size s_i ends at server i. All means are sums over servers of a function of
(s_{i-1}, s_i].

========== ==================================================================================================
lam, rho   arrival rate of all jobs, per unit time; rho = lam E X < rho*_h <= h, in units of one server
s_i        ``cutoffs``, (h - 1,), sizes; s_0 = 0-, s_h = inf
m_n, Fb, G E[X^n; X <= s], P(X > s) and G(s) = E min(X, s), whose derivative is Fb
v_i, S_i   P(a job visits server i), and its time in service there, 0 if it does not
rho_i, W_i load of server i, and mean wait of a visit, (h,)
alpha, r   exponent and high/low of a bounded Pareto law
========== ==================================================================================================

Servers of TAGS; for SITA v_i = P(s_{i-1} < X <= s_i), and nothing is killed
    v_i = Fb(s_{i-1}),   E S_i^n = E[X^n; s_{i-1} < X <= s_i] + s_i^n Fb(s_i),   rho_i = lam E S_i        (1)
    W_i = lam E S_i^2 / (2 (1 - rho_i)),   exact for SITA and for server 1, beyond it see ``POISSON``     (2)
    wasted load  sum_i rho_i - rho = lam sum_{i<h} s_i Fb(s_i)                                            (3)
    wait  sum_i v_i W_i,   delay  wait + sum_{i<h} s_i Fb(s_i),   response  delay + E X                   (4)
    slowdown  1 + sum_i W_i E[1/X; X visits i] + sum_{i<h} s_i E[1/X; X > s_i]                            (5)
Stability, mu = 1/lam: fill the servers in turn and bring the last load to one
    s_i = the largest s with G(s) <= mu + m_1(s_{i-1}),   E[X; X > s_{h-1}] = mu,   rho*_h = E X / mu     (6)
    rho*_inf = E X / sup_s s Fb(s-), so that rho*_inf >= 1 is Markov's inequality                         (7)
Best cutoffs: a shortest path through a grid, then a root of the derivative in ln s, summed over the servers at s
    (v W)' = v' W + v (lam E' S^2 / 2 + W lam E' S) / (1 - rho)                                           (8)

Sources: Harchol-Balter (J. ACM 49(2), 2002) for TAGS; Bachmat, Doncel and Sarfati for stability and the ratio to SITA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import accumulate
from math import exp, expm1, inf, log, nan, sqrt
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammainc

from lbkit.jobs import bounded_pareto
from lbkit.results import AssignmentBounds, LoadThreshold, OptimalCutoffs, TaskAssignment

EXACT = "every wait is exact"
POISSON = (
    "server 1 is exact; arrivals at the others are taken as Poisson, which overstates their waits: in simulations by"
    " 2 to 9 % for bounded Pareto (mean_wait by 1 to 5 %), 20 to 97 % for exponential (11 to 23 %) and 1.7 to 4.5 times"
    " for uniform sizes (9 to 24 %)"
)
LEE_LONGTON = (
    "two moments do not fix the wait: in simulations it is 1.4 to 2.6 times less for bounded Pareto, r = 1000, h = 2"
)
OBJECTIVES = ("wait", "delay", "minimax")
TABLE, GRID, WINDOW = 1000, 300, 33  # sizes in the table of G, in the first grid of cutoffs and in each later one


@dataclass(frozen=True, slots=True)
class _Points:
    """The law at sizes s (...,): m_n, t_n = E[X^n; X > s] and s^n Fb(s), with n = 0, 1, 2 along the last axis."""

    s: np.ndarray
    partial: np.ndarray
    tail: np.ndarray
    killed: np.ndarray

    def __getitem__(self, index) -> _Points:
        return _Points(self.s[index], self.partial[index], self.tail[index], self.killed[index])

    def until(self, end: _Points, n: int) -> np.ndarray:
        """E[X^n; s < X <= end], by the difference that cancels less."""
        with np.errstate(invalid="ignore"):
            below, above = end.partial[..., n] - self.partial[..., n], self.tail[..., n] - end.tail[..., n]
        return np.where(end.partial[..., n] <= self.tail[..., n], below, above)


def _points(job, cutoffs) -> _Points:
    """The law at 0-, at the cutoffs and at inf, shape (h + 1,)."""
    s = np.asarray(cutoffs, float)
    partial, tail = (np.stack([f(n, s) for n in range(3)], axis=-1) for f in (job.partial_moment, job.tail_moment))
    whole, none = np.array([[1, job.mean, job.moment(2)]]), np.zeros((1, 3))
    rows = (none, partial, whole), (whole, tail, none), (none, s[:, None] ** np.arange(3) * tail[:, :1], none)
    return _Points(np.array([0, *s, inf]), *map(np.concatenate, rows))


def _servers(policy, lam, a, b):
    """v_i, rho_i and W_i of servers between a and b; the wait is inf from load one on."""
    visits = a.tail[..., 0] if policy == "TAGS" else a.until(b, 0)
    load, square = (lam * (a.until(b, n) + (b.killed[..., n] if policy == "TAGS" else 0)) for n in (1, 2))  # (1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return visits, load, np.where(load < 1, square / (2 * (1 - load)), inf)  # (2)


def max_load(job, servers: int | float) -> LoadThreshold:
    """Largest rho at which some cutoffs keep every TAGS server stable (6); for servers = inf Markov's ceiling (7).

    At the rate and the cutoffs returned no load exceeds one, and without atoms all are one; at any smaller rate these
    cutoffs are stable. They are fewer than h - 1 where atoms leave a server without work, and none for servers = inf.
    ValueError for a law without a mean and for servers other than 1, 2, ..., inf.
    """
    h = _count(servers, infinite=True)
    if job.mean == inf:
        raise ValueError(f"{job!r} has an infinite mean, so that no arrival rate is stable")
    least = job.mean / h if h < inf else _height(job, job.mean / 2)
    low, high = _range(job, least, lambda s: job.tail_moment(1, s) < least / 2)
    grid = np.union1d(np.geomspace(low, high, TABLE), job.atoms[job.atoms >= low])
    if h == inf:
        k = _height(job, grid).argmax()
        around = np.log(grid[[max(k - 1, 0), min(k + 1, len(grid) - 1)]])
        peak = minimize_scalar(lambda y: -_height(job, exp(y)), bounds=around, method="bounded")
        mu = float(max(_height(job, grid[k]), -peak.fun))  # (7)
        return LoadThreshold(job, h, job.mean / mu, 1 / mu, np.empty(0), np.empty(0))
    reached = job.truncated_moment(1, grid)

    def largest(goal):
        """The largest s with G(s) <= goal: Newton's method on the concave G, begun on a chord."""
        k = np.searchsorted(reached, goal, side="right")
        if k == 0 or k == len(grid):
            return high if k else goal
        left, right = grid[k - 1 : k + 1]
        s = np.interp(goal, reached[k - 1 : k + 1], (left, right))
        for _ in range(20):
            before, s = s, min(max((goal - job.partial_moment(1, s)) / job.survival(s), left), right)
            if abs(s - before) <= 1e-9 * s:
                break
        return s

    def fill(mu):
        cutoffs = [0.0]
        while len(cutoffs) < h:
            cutoffs.append(max(largest(mu + job.partial_moment(1, cutoffs[-1])), cutoffs[-1]))
        return cutoffs

    def excess(mu):
        return job.tail_moment(1, fill(mu)[-1]) - mu  # (6)

    mu = brentq(excess, job.mean / h * (1 - 1e-9), job.mean * (1 + 1e-9), xtol=1e-15 * job.mean, rtol=1e-15)
    step = float(np.spacing(mu))
    while excess(mu) > 0:
        mu, step = mu + step, 2 * step
    cutoffs = np.array([s for s in fill(mu)[1:] if s < job.high])
    points = _points(job, cutoffs)
    _, loads, _ = _servers("TAGS", 1 / mu, points[:-1], points[1:])
    return LoadThreshold(job, h, job.mean / mu, 1 / mu, cutoffs, loads)


def _height(job, s):
    return s * job.survival(np.nextafter(s, 0))


def _range(job, least, negligible: Callable[[float], bool]):
    """Sizes (low, high) between which cutoffs are looked for: from ``least`` on, and up to a negligible tail."""
    high = job.mean if job.high == inf else job.high
    while job.high == inf and not negligible(high):
        high *= 4
        if high > 1e100:
            raise ValueError(f"the tail of {job!r} is too heavy: sizes beyond 1e100 matter")
    return max(job.low, least), high


def analyse(lam: float, job, cutoffs: ArrayLike) -> TaskAssignment:
    """TAGS with the given cutoffs: loads, waits and means (1)-(5); ``.note`` says what is approximate and by how much.

    lam > 0 per unit time; cutoffs (h - 1,), sizes that increase strictly; one at or beyond the largest size leaves the
    servers after it idle. Waits are inf where E X^2 is. ValueError names the first server whose load is not below one.
    """
    return _assign("TAGS", lam, job, cutoffs)


def sita(lam: float, job, cutoffs: ArrayLike) -> TaskAssignment:
    """SITA with the given cutoffs, exact. Arguments and errors as for ``analyse``."""
    return _assign("SITA", lam, job, cutoffs)


def _assign(policy, lam, job, cutoffs):
    lam, cutoffs = _positive("lam", lam), np.array(cutoffs, float, ndmin=1)
    if cutoffs.ndim > 1 or not np.all(np.isfinite(cutoffs)) or np.any(np.diff(cutoffs, prepend=0) <= 0):
        raise ValueError(f"cutoffs must be positive, finite and strictly increasing, got {cutoffs.tolist()}")
    points, h = _points(job, cutoffs), len(cutoffs) + 1
    visits, loads, waits = _servers(policy, lam, points[:-1], points[1:])
    for i in np.flatnonzero(loads >= 1)[:1]:
        bound = max_load(job, h).load if policy == "TAGS" and job.mean < inf else h
        raise ValueError(
            f"server {i + 1} of {h} is overloaded: its load is {loads[i]:.6g} and must be below 1; {policy} with {h}"
            f" servers can be stable only for lam E X < {bound:.6g}, and here lam E X = {lam * job.mean:.6g}"
        )
    inverse = np.array([_inverse(job), *job.tail_moment(-1, cutoffs), 0])
    note, wasted, seen, lost = EXACT, 0.0, -np.diff(inverse), 0.0
    if policy == "TAGS":
        wasted, seen, lost = points.killed[:, 1].sum(), inverse[:-1], cutoffs @ inverse[1:-1]  # (3)
        note = POISSON if h > 1 else EXACT
    if inf in waits:
        note += "; the second moment is infinite, and so is the wait of the largest jobs"
    slowdown = 1 + waits @ seen + lost if inverse[0] < inf else inf  # (5)
    return TaskAssignment(policy, lam, job, cutoffs, visits, loads, waits, lam * wasted, float(slowdown), note)


def _inverse(job):
    """E[1/X], inf where a size may be zero."""
    return inf if job.partial_moment(0, 0.0) > 0 else job.tail_moment(-1, 0.0)


def random_split(lam: float, job, servers: int) -> TaskAssignment:
    """Every job picks a server at random: h queues M/G/1, exact. ValueError unless lam E X < servers."""
    return _alike("random", lam, job, servers, lambda h, load: lam / h * job.moment(2) / (2 * (1 - load)), EXACT)


def least_work(lam: float, job, servers: int) -> TaskAssignment:
    """Least work remaining, the queue M/G/h, after Lee and Longton (1959): (1 + scv) / 2 times the wait of M/M/h.

    An approximation, exact for one server and for exponential sizes. ValueError unless lam E X < servers.
    """

    def wait(h, load):
        *_, erlang_b = accumulate(range(1, h + 1), lambda b, i: h * load * b / (i + h * load * b), initial=1.0)
        return (1 + job.scv) / 2 * erlang_b / (1 - load * (1 - erlang_b)) * job.mean / (h * (1 - load))

    return _alike("least work", lam, job, servers, wait, EXACT if servers == 1 else LEE_LONGTON)


def _alike(policy, lam, job, servers, wait, note):
    """Servers that are all alike, and a wait independent of the size."""
    lam, h = _positive("lam", lam), _count(servers)
    load = lam * job.mean / h
    if load >= 1:
        raise ValueError(f"all {h} servers are overloaded: lam E X is {lam * job.mean:.6g} and must be below {h}")
    one, none, w = np.ones(h), np.empty(0), wait(h, load)
    return TaskAssignment(policy, lam, job, none, one / h, load * one, w * one, 0.0, float(1 + w * _inverse(job)), note)


def optimise(lam: float, job, servers: int, *, objective: str = "wait") -> OptimalCutoffs:
    """Cutoffs of at most h TAGS servers that minimise the mean "wait" or "delay" (4), or the longest queue ("minimax").

    The minimax of the mean queues lam v_i W_i, divided by lam, is a lower bound of the least mean wait. The optimum is
    global on a logarithmic grid of sizes, then refined. ValueError where no cutoffs are stable or E X^2 is infinite.
    """
    if objective not in OBJECTIVES:
        near = get_close_matches(str(objective), OBJECTIVES, 1, 0)[0]
        raise ValueError(f"objective is {objective!r}; did you mean {near!r}? Known are {', '.join(OBJECTIVES)}")
    return _Search("TAGS", objective, _positive("lam", lam), job, _count(servers)).best()


def optimise_sita(lam: float, job, servers: int) -> OptimalCutoffs:
    """Cutoffs of at most h SITA servers that minimise the mean wait. Errors as for ``optimise``."""
    return _Search("SITA", "wait", _positive("lam", lam), job, _count(servers)).best()


def sita_equal_load(job, servers: int) -> np.ndarray:
    """Cutoffs (h - 1,) of SITA-E, m_1(s_i) = i E X / h; an atom that m_1 jumps over it is the cutoff, maybe twice."""
    least = job.mean / _count(servers)
    ends = np.log(_range(job, least, lambda s: job.tail_moment(1, s) < least / 2)) + (-1e-9, 1e-9)
    cutoffs = []
    for goal in least * np.arange(1, servers):
        s = exp(brentq(lambda y: job.partial_moment(1, exp(y)) - goal, *ends, xtol=1e-15, rtol=1e-15))
        cutoffs.append(next(iter(job.atoms[np.isclose(job.atoms, s, rtol=1e-12, atol=0)]), s))
    return np.array(cutoffs)


def compare(rhos, job, servers: int) -> dict[str, list]:
    """Tidy columns policy, rho, wait, delay: a row for each load that TAGS, SITA, Random and LWR (least work) can bear.

    TAGS and SITA have at most h servers with their best cutoffs, those for the wait in one column, for the delay in the
    other. Errors as for ``optimise``.
    """
    h, bound, rows = servers, max_load(job, servers).load, []
    for rho in map(float, rhos):
        lam = rho / job.mean
        if rho < bound:
            rows.append(("TAGS", rho, *(optimise(lam, job, h, objective=name).value for name in ("wait", "delay"))))
        if rho < h:
            others = optimise_sita(lam, job, h).assignment, random_split(lam, job, h), least_work(lam, job, h)
            rows += [(name, rho, a.mean_wait, a.mean_delay) for name, a in zip(("SITA", "Random", "LWR"), others)]
    return dict(zip(("policy", "rho", "wait", "delay"), map(list, zip(*rows))))


@dataclass(frozen=True)
class _Search:
    """The cheapest path 0- < s_1 < ... < s_{h-1} < inf, a server being a step."""

    policy: str
    objective: str
    lam: float
    job: object
    servers: int

    def best(self) -> OptimalCutoffs:
        job, h, rho = self.job, self.servers, self.lam * self.job.mean
        if job.moment(2) == inf:
            raise ValueError(f"{job!r} has an infinite second moment, so that the mean wait is infinite at all cutoffs")
        bound, stable = inf, sita_equal_load(job, h)
        if self.policy == "TAGS" and rho >= 1:
            threshold = max_load(job, h)
            bound, stable = threshold.load, threshold.cutoffs
        found = self.paths([self.grid(0, inf, GRID, stable)] * (h - 1))
        least = min(cost for cost, _ in found)
        if rho >= bound or least == inf:
            below = f"stable only below {bound:.6g}" if bound < inf else "unstable at all cutoffs"
            raise ValueError(f"lam E X is {rho:.6g}; {h} {self.policy} servers are {below}")
        used, value = 0, inf
        for m, (cost, start) in enumerate(found, 1):
            if cost <= 1.02 * least and (m <= used + 1 or used == 0 or cost < found[used - 1][0]):
                refined = self.refine(start)
                if self.value(refined) < value * (1 - 1e-12):
                    used, value, cutoffs = m, self.value(refined), refined
        slope = 0.0 if len(job.atoms) else float(abs(self.slope(cutoffs)).max(initial=0))
        return OptimalCutoffs(self.objective, h, value, slope, _assign(self.policy, self.lam, job, cutoffs))

    @cached_property
    def span(self):
        """Sizes between which cutoffs are looked for."""
        least = self.job.mean / (100 * self.servers)
        least = min(self.job.quantile(0.01 / self.servers) or least, least)
        return _range(self.job, least, lambda s: self.job.tail_moment(2, s) < 1e-9 * self.job.moment(2))

    def grid(self, low, high, size, more):
        """Logarithmic sizes, as many of the atoms, and the sizes in ``more``."""
        low, high = max(low, self.span[0]), min(high, self.span[1])
        atoms = self.job.atoms[(self.job.atoms >= low) & (self.job.atoms <= high)]
        atoms = atoms[np.linspace(0, len(atoms) - 1, min(size, len(atoms))).round().astype(int)]
        sizes = np.unique(np.concatenate([np.geomspace(low, high, size), atoms, more]))
        return sizes[(sizes > 0) & (sizes < self.job.high)]

    def cost(self, a, b):
        visits, load, wait = _servers(self.policy, self.lam, a, b)
        with np.errstate(invalid="ignore"):
            cost = visits * wait * (self.lam if self.objective == "minimax" else 1)
        cost = cost + b.killed[..., 1] if self.objective == "delay" else cost  # (4)
        return np.where((b.s > a.s) & (load < 1), cost, inf)

    @property
    def join(self) -> np.ufunc:
        return np.maximum if self.objective == "minimax" else np.add

    def paths(self, stages):
        """Least cost and its cutoffs for 1, 2, ... servers; cutoff i is taken from stages[i - 1], increasing sizes."""
        sizes = np.unique(np.concatenate([[], *stages]))
        points = _points(self.job, sizes)
        last, value, path, found = points[:1], np.zeros(1), np.empty((1, 0)), []
        for stage in (*stages, []):
            total = self.join(value, self.cost(last, points[-1:]))
            found.append((float(total.min()), path[total.argmin()]))
            if len(stage) == 0:
                return found
            level = points[1 + np.searchsorted(sizes, stage)]
            total = self.join(value[:, None], self.cost(last[:, None], level[None]))
            last, value, path = level, total.min(axis=0), np.column_stack([path[total.argmin(axis=0)], stage])

    def refine(self, cutoffs):
        """Shortest paths in ever smaller windows around the cutoffs."""
        if len(cutoffs) == 0:
            return cutoffs
        width = 2 * log(self.span[1] / self.span[0]) / GRID
        for _ in range(100):
            stages = [self.grid(s * exp(-width), s * exp(width), WINDOW, [s]) for s in cutoffs]
            before, (_, cutoffs) = cutoffs, self.paths(stages)[-1]
            width /= 8 if abs(np.log(cutoffs / before)).max() < 0.9 * width else 1
            if width < 1e-8:
                break
        return cutoffs if len(self.job.atoms) else self.polish(cutoffs)

    def polish(self, cutoffs):
        """Newton's method for the slope, for as long as the slope halves and the cost does not grow."""
        slope, bumps = self.slope(cutoffs), np.exp(1e-6 * np.eye(len(cutoffs)))
        jacobian = np.array([self.slope(cutoffs * bump) - slope for bump in bumps]).T / 1e-6
        if not np.all(np.isfinite(jacobian)):
            return cutoffs
        moved = cutoffs * np.exp(np.clip(np.linalg.lstsq(jacobian, -slope)[0], -0.01, 0.01))
        flatter = abs(self.slope(moved)).max() < abs(slope).max() / 2
        return self.polish(moved) if flatter and self.value(moved) <= self.value(cutoffs) * (1 + 1e-13) else cutoffs

    def value(self, cutoffs):
        points = _points(self.job, cutoffs)
        return float(self.join.reduce(self.cost(points[:-1], points[1:])))

    def slope(self, cutoffs):
        """Derivative of the cost in each ln s_i over the cost, for "minimax" the log ratios of neighbouring queues."""
        points = _points(self.job, cutoffs)
        visits, load, wait = _servers(self.policy, self.lam, points[:-1], points[1:])
        if np.any(load >= 1) or not np.all(visits):
            return np.full(len(cutoffs), nan)
        if self.objective == "minimax":
            return np.diff(np.log(visits * wait))
        over, density = points.tail[1:-1, 0], self.job.pdf(cutoffs)
        lost = density * cutoffs ** np.arange(3)[:, None]
        below = (0, over, 2 * cutoffs * over) if self.policy == "TAGS" else lost

        def change(i, visit, work, square):
            return visit * wait[i] + visits[i] * self.lam * (square / 2 + wait[i] * work) / (1 - load[i])  # (8)

        total, cost = change(slice(None, -1), *below) + change(slice(1, None), *-lost), visits @ wait
        if self.objective == "delay":
            total, cost = total + over - cutoffs * density, cost + points.killed[:, 1].sum()
        return cutoffs * total / cost


def most_stable(ratio: float, servers: int | float) -> LoadThreshold:
    """The bounded Pareto law on [1, ratio] that bears the largest load; its exponent, to 1e-6, is ``.job.alpha``."""
    r = 1 + _positive("high/low - 1", ratio - 1)
    search = {"bounds": (0.01, 3), "method": "bounded", "options": {"xatol": 1e-6}}
    best = minimize_scalar(lambda alpha: -max_load(bounded_pareto(alpha, 1, r), servers).load, **search)
    return max_load(bounded_pareto(best.x, 1, r), servers)


def load_limit(alpha: float, servers: int | float) -> float:
    """Limit of rho*_h for bounded Pareto laws as r -> inf, alpha > 0.

    For alpha >= 1 it is 1 + 1/alpha + ... + alpha^{1-h}. For alpha < 1 the fill (6) runs backwards, from z = 1 to z = 0
    in z = (s / high)^{1-alpha}: h steps z -> (z - (1-alpha) z^{1/(1-alpha)}) / alpha - 1 / rho*.
    """
    alpha, h = _positive("alpha", alpha), _count(servers, infinite=True)
    if h == inf:
        return alpha / (alpha - 1) if alpha > 1 else (1 - alpha) ** (-1 / alpha) if alpha < 1 else inf
    if alpha >= 1:
        return sum(alpha**-i for i in range(h))

    def left(inverse_load):
        z = 1.0
        for _ in range(h):
            z = (z - (1 - alpha) * max(z, 0) ** (1 / (1 - alpha))) / alpha - inverse_load
        return z

    return 1 / brentq(left, 0.5 / h, 2, xtol=1e-15, rtol=1e-15)


def ratio_limit(alpha: float, servers: int | float, *, rho: float | None = None) -> float:
    """Limit of the least mean wait of TAGS over that of SITA for bounded Pareto laws as r -> inf, 0 < alpha < 2.

    For rho < 1 it is (2/alpha)^{(1 - q^{h-1}) / (1 - q^h)}, q = 2/alpha - 1, for every rho, and at most 2; at finite r
    the ratio may exceed 2. For two servers it is known up to load_limit(alpha, 2). ValueError for any other rho.
    """
    alpha, h = _positive("alpha", alpha, 2), _count(servers, infinite=True)
    if rho is None or 0 < rho < 1:
        q = 2 / alpha - 1
        decay = -abs(log(q))
        return (2 / alpha) ** (1 - 1 / h if q == 1 else expm1((h - 1) * decay) / expm1(h * decay) / max(q, 1))
    if h != 2 or not 1 < rho < load_limit(alpha, 2):
        known = f"0 < rho < 1, and with two servers for 1 < rho < {load_limit(alpha, 2):.6g}"
        raise ValueError(f"rho is {rho} with {h} servers; the limit is known for {known}")
    if alpha == 1:
        return sqrt(2)
    if alpha > 1:
        return alpha ** (alpha / (alpha - 1)) * (2 - rho) / (1 - alpha * (rho - 1))
    z = 1 - 1 / rho
    s = z ** (1 / (1 - alpha))
    first = rho * (z - (1 - alpha) * s) / alpha
    return (2 - (2 - alpha) * s**alpha) / alpha * (2 - rho) / (1 - first)


def load_bound(ratio: float, servers: int | float) -> float:
    """Largest rho*_h of all laws on [low, high], r = high/low: h - (h-1) r^{-1/(h-1)}, and 1 + ln r for servers = inf.

    h atoms low r^{i/(h-1)}, i = 0..h-1, reach it if P(X > atom i) = low / atom i+1.
    """
    r, h = 1 + _positive("high/low - 1", ratio - 1), _count(servers, infinite=True)
    if h == inf:
        return 1 + log(r)
    return h - (h - 1) * r ** (-1 / (h - 1)) if h > 1 else 1.0


def bounds(rho: float, ratio: float, servers: int) -> AssignmentBounds:
    """Bounds of lam times the mean wait over all laws on [low, high], r = high/low, under (2) and for 0 < rho < 1.

    g = r^{1/h}: SITA g/2 rho^2 / (1 - rho) and TAGS 1 + g/(g-1) times that, both with cutoffs low g^i; random split
    rho^2 (1+r)^2 / (8 r h (1 - rho/h)). Some law forces (rho/(h+1))^2 g/2 on SITA and TAGS, whatever the cutoffs.
    """
    rho, r, h = _positive("rho", rho, 1), 1 + _positive("high/low - 1", ratio - 1), _count(servers)
    g = r ** (1 / h)
    known = g / 2 * rho**2 / (1 - rho)
    guessed = known * (1 + g / (g - 1)) if h > 1 else known
    random = rho**2 * (1 + r) ** 2 / (8 * r * h * (1 - rho / h))
    return AssignmentBounds(rho, r, h, known, guessed, random, (rho / (h + 1)) ** 2 * g / 2)


def least_work_bound(rho: float, ratio: float, servers: int) -> float:
    """Some law on [low, high], r = high/low, forces this value of lam times the mean wait on least work, 0 < rho < h.

    Let a job be high with probability q, else low. Were the low ones free, an M/D/h of offered load a = lam q high
    would be left, with mean queue L = sum_n E (Poisson(n a) - n h)^+ / n by Spitzer's identity; hence lam W >= L / q.
    """
    h, r = _count(servers), 1 + _positive("high/low - 1", ratio - 1)
    rho = _positive("rho", rho, h)

    def forced(log_q):
        q = exp(log_q)
        a = rho * q * r / (1 + q * (r - 1))
        n = np.arange(1, 3 + 40 / (a - h + h * log(h / a)))
        return float((a * gammainc(n * h, n * a) - h * gammainc(n * h + 1, n * a)).sum()) / q

    best = minimize_scalar(lambda y: -forced(y), bounds=(-log(r) - 5, 0), method="bounded")
    return forced(best.x)


def _positive(name, value, below=inf):
    if not 0 < value < below:
        raise ValueError(f"{name} is {value}; it must be above 0 and below {below}")
    return float(value)


def _count(servers, infinite=False):
    if infinite and servers == inf:
        return inf
    if not isinstance(servers, Integral) or servers < 1:
        raise ValueError(f"servers is {servers!r}; it must be one of 1, 2, 3, ...{' or inf' if infinite else ''}")
    return int(servers)
