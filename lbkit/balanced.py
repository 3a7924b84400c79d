"""Balanced routing to K parallel servers: look at c servers, join the shortest of their queues.

One idea: the law of the c candidates enters only through F(S), the probability that all of them lie in the set S of
servers. Jobs whose candidates lie in S must go to S, so F decides stability, the fluid path and whether the queues
collapse onto each other; once they do, the scheme is forgotten and one reflected Brownian motion describes all of them.

symbol   name                                                               shape, unit
mu       service rates, `rates`                                             (K,), mean jobs per unit time
M, p     total rate sum mu_k, shares mu_k / M                               scalar, (K,)
lam, rho arrival rate of all jobs together, load lam / M                    scalars
ca2, cs2 squared coefficients of variation, interarrival and service time   scalar, scalar or (K,)
t, s     share mu(S)/M of the servers in S and their number                 scalars
Q, W     jobs in system (with those in service), unfinished service time    jobs, time
U        sum mu_k W_k, the rate-weighted work                               mean job sizes

(1)  F(S) = t C(s-1, c-1)/C(K-1, c-1)       "sum": a c-subset with probability proportional to its total rate
     F(S) = t^c                             "with": c independent draws proportional to mu
     F(S) = P(c successive draws all in S)  "succ": draws proportional to mu without replacement
     F(S) = C(s, c)/C(K, c)                 "uniform": every c-subset alike; not balanced, the counterexample
(2)  rho* = min_S t/F(S)                    stable if and only if rho < rho*
(3)  delta = min over proper S of mu(S) - M F(S); the queues collapse in heavy traffic if delta > 0
(4)  [lam (F(A+T) - F(A)) - mu(T)] / |T|    fluid drift of the servers T that sit at one level just below the set A;
     the T with the largest value leaves the tie first, an empty server stays empty if its value is negative
(5)  dZ = theta dt + sigma dB + dL          with theta = lam - M and sigma^2 = lam ca2 + sum mu_k cs2_k
(6)  E[Q] = sigma^2 / (2 |theta|)           mean of its exponential stationary law
(7)  E[Q_k] = (lam_k a_k + mu_k cs2_k) / (2 s_k)    a server of its own: arrivals lam_k of SCV a_k, slack s_k
(8)  E[U_pool] = rho (1 + cs2) / (2 (1 - rho))      one server of speed M, Poisson arrivals: a lower bound on E[U]
(9)  E[U] = E[U_pool] + kappa               Poisson arrivals, any stable policy; kappa = E[U I]/E[I], the work that
     idle capacity I = sum mu_k 1(W_k = 0) sees. Exponential services: the same for Q, with cs2 = 1
(10) W_k(t) = (last departure from k - t)^+         what a job that joins queue k would wait; its mean given the lengths
     need not grow with Q_k

[interp] The abstract draws a subset of c servers in proportion to their rates. This is read as "sum", which contains
proportional routing (c = 1) and join-the-shortest-queue (c = K); "with" and "succ" are the other readings. The
diffusion limit is the same for all three. Which form of (6) the paper prints, own lambda or lam = M, is not known.

Source: Chen & Ye, Asymptotic optimality of balanced routing, Oper. Res. 60(1), 163-179, 2012. (1)-(4), (7), (9) are
derived here from that model. (10): Whitt, Deciding which queue to join, Oper. Res. 34(1), 55-62, 1986.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, stdtrit

from lbkit.results import DelayTable, Diffusion, FluidPath, MaxLoad, ParallelDiffusion

SCHEMES = ("sum", "with", "succ", "uniform")
_LATTICE = 4_000_000


def _one_of(name: str, value: str, permitted: tuple[str, ...]) -> str:
    if value not in permitted:
        near = get_close_matches(str(value), permitted, 1, 0)[0]
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(permitted)} (did you mean {near!r}?)")
    return value


def _positive_rates(rates) -> np.ndarray:
    mu = np.array(rates, float)
    if mu.ndim != 1 or mu.size == 0 or not (np.isfinite(mu).all() and (mu > 0).all()):
        raise ValueError(f"rates are {rates!r}; they must be a non-empty list of positive finite service rates")
    return mu


def _candidates(c, servers: float = np.inf) -> int:
    if not (c >= 1 and c % 1 == 0):
        raise ValueError(f"c is {c}; it must be a whole number of at least 1")
    if c > servers:
        raise ValueError(f"c is {c}; at most all {servers} servers can be drawn without replacement")
    return int(c)


def _open_load(rho) -> float:
    if not 0 < rho < 1:
        raise ValueError(f"rho is {rho}; a stationary law needs 0 < rho < 1 (rbm_mean is for a time t at any drift)")
    return float(rho)


def _scv(name: str, value, shape: tuple[int, ...] = ()) -> np.ndarray:
    scv = np.asarray(value, float)
    if scv.shape not in ((), shape) or not (np.isfinite(scv).all() and (scv >= 0).all()):
        raise ValueError(f"{name} is {value!r}; it must be finite, at least 0, and of shape () or {shape}")
    return np.broadcast_to(scv, shape)


# --- the candidates ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Inclusion:
    """F(S) of equation (1), callable on a set of server indices or on a bitmask.

    Servers of equal rate are exchangeable, so a set is known by how many it holds of each of the G distinct rates.

    Attributes: rates (K,); c; scheme; group (K,) index of each server's rate in `speeds`; speeds (G,) distinct rates,
    ascending; counts (G,) how many servers have each; table, F on the lattice of count vectors (only for "succ").
    """

    rates: np.ndarray
    c: int
    scheme: str
    group: np.ndarray
    speeds: np.ndarray
    counts: np.ndarray
    table: np.ndarray | None

    def __call__(self, servers: Iterable[int] | int) -> float:
        """P(all candidates in `servers`), a set of indices 0..K-1 or the bitmask of one; ValueError outside."""
        bits = int(servers) if isinstance(servers, Integral) else sum(2 ** int(k) for k in set(servers))
        if bits not in range(1 << len(self.rates)):
            raise ValueError(f"servers are {servers!r}; they must be indices below {len(self.rates)}, or a bitmask")
        members = [k for k in range(len(self.rates)) if bits >> k & 1]
        return float(self.at(np.bincount(self.group[members], minlength=len(self.counts))))

    def at(self, counts: np.ndarray) -> np.ndarray:
        """F of the sets that hold counts (..., G) servers of each distinct rate, shape (...)."""
        s, K = counts.sum(-1), len(self.rates)
        t = counts @ self.speeds / (self.counts @ self.speeds)
        match self.scheme:  # (1)
            case "sum":
                return t * _all_inside(s - 1, K - 1, self.c - 1)
            case "with":
                return t**self.c
            case "uniform":
                return _all_inside(s, K, self.c)
            case _:
                return self.table[tuple(np.moveaxis(counts, -1, 0))]


def inclusion(rates, c: int = 2, scheme: str = "sum") -> Inclusion:
    """The law of the c candidates as F(S) = P(all candidates in S), equation (1).

    rates (K,) per unit time; c from 1 to K, any c >= 1 for "with" (independent draws: c = K is then not
    join-the-shortest-queue). ValueError for bad rates, c or scheme, and for "succ" with more than 4 million count
    vectors prod(n_g + 1), n_g the multiplicities of the distinct rates.
    """
    mu = _positive_rates(rates)
    _one_of("scheme", scheme, SCHEMES)
    c = _candidates(c, np.inf if scheme == "with" else mu.size)
    speeds, group, counts = np.unique(mu, return_inverse=True, return_counts=True)
    table = _successive(speeds, counts, c) if scheme == "succ" else None
    return Inclusion(mu, c, scheme, group, speeds, counts, table)


def _all_inside(s, n, c: int):
    """C(s, c)/C(n, c): c draws without replacement from n all fall among s given ones."""
    i = np.arange(c)
    return np.prod(np.maximum(np.asarray(s)[..., None] - i, 0) / (n - i), axis=-1)


def _successive(speeds: np.ndarray, counts: np.ndarray, c: int) -> np.ndarray:
    """F of "succ" on the lattice of count vectors: the law of the drawn counts, then hypergeometric inclusion."""
    shape = tuple(counts + 1)
    if np.prod(counts + 1.0) > _LATTICE:
        raise ValueError(f"scheme 'succ' needs {np.prod(counts + 1.0):.3g} count vectors for these rates; at most "
                         f"{_LATTICE} are allowed: use fewer distinct rates, or scheme 'sum' or 'with'")
    drawn = np.indices(shape)
    left = np.tensordot(speeds, counts.reshape(-1, *[1] * len(counts)) - drawn, 1)
    left[(-1,) * len(counts)] = np.inf
    law = np.zeros(shape)
    law.flat[0] = 1.0
    for _ in range(c):
        after = np.zeros(shape)
        for g, (speed, n) in enumerate(zip(speeds, counts, strict=True)):
            flow = np.moveaxis(law * speed * (n - drawn[g]) / left, g, 0)
            np.moveaxis(after, g, 0)[1:] += flow[:-1]
        law = after
    for g, n in enumerate(counts):
        i = np.arange(n)
        inside = np.cumprod(np.maximum(np.arange(n + 1)[:, None] - i, 0) / (n - i), axis=1)
        law = np.moveaxis(np.tensordot(np.c_[np.ones(n + 1), inside], law, (1, g)), 0, g)
    return law / law.flat[-1]


def _subsets(F: Inclusion, within: np.ndarray) -> np.ndarray:
    """Count vectors (n, G), all non-empty, among which the extremes over subsets of `within` are found.

    At fixed s all schemes but "succ" have F convex in t, so an extreme takes the s slowest or the s fastest servers.
    """
    if F.scheme == "succ":
        return np.indices(tuple(within + 1)).reshape(len(within), -1).T[1:]
    servers = np.repeat(np.eye(len(within), dtype=int), within, axis=0)
    return np.concatenate([servers.cumsum(0), servers[::-1].cumsum(0)])


def _pick(F: Inclusion, counts: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """The first counts[g] servers of each rate g in the ascending index array `pool`, ascending."""
    return np.sort(np.concatenate([pool[F.group[pool] == g][:n] for g, n in enumerate(counts)]))


def _margin(F: Inclusion, load: float = 1.0) -> tuple[float, np.ndarray]:
    """Least speed at which a proper set falls towards the mean queue, and that set's counts; (3) at load 1."""
    sets = _subsets(F, F.counts)
    size, M = sets.sum(1), F.counts @ F.speeds
    sets, size = sets[size < len(F.rates)], size[size < len(F.rates)]
    if not len(sets):
        return np.inf, np.zeros_like(F.counts)
    fall = sets @ F.speeds - load * M * F.at(sets) - size * (1 - load) * M / len(F.rates)  # (3)
    worst = fall.argmin()
    return float(fall[worst] if abs(fall[worst]) > 1e-12 * M else 0.0), sets[worst]


def max_load(rates, c: int = 2, scheme: str = "sum") -> MaxLoad:
    """Largest load rho* of equation (2) with the set that sets it, and the collapse margin delta of (3).

    rates (K,) per unit time. Balanced schemes have rho* = 1, set by all servers, and delta > 0 for every c >= 2;
    c = 1 has delta = 0 (no balancing force). One server has delta = inf. Raises as `inclusion`.
    """
    F = inclusion(rates, c, scheme)
    sets, servers = _subsets(F, F.counts), np.arange(len(F.rates))
    share, chance = sets @ F.speeds / (F.counts @ F.speeds), F.at(sets)
    load = np.divide(share, chance, out=np.full(len(sets), np.inf), where=chance > 0)  # (2)
    least = np.flatnonzero(load <= load.min() * (1 + 1e-12))
    bottleneck = least[sets[least].sum(1).argmax()]
    margin, weakest = _margin(F)
    return MaxLoad(F.rates, F.c, scheme, float(load[bottleneck]), tuple(_pick(F, sets[bottleneck], servers).tolist()),
                   margin, tuple(_pick(F, weakest, servers).tolist()))


# --- fluid limit ---------------------------------------------------------------------------------------------------


def fluid_path(rates, start, c: int = 2, scheme: str = "sum", load: float = 1.0) -> FluidPath:
    """Exact piecewise-linear fluid queues, the limit of Q(nt)/n at arrival rate load * sum(rates).

    rates (K,) per unit time; start (K,) >= 0; 0 <= load <= 1. Equation (4), splitting groups that do not stay together.
    The path ends when no more levels will meet or empty: balanced at load 1, empty below it (if stable), or else
    running on along its final drift. ValueError for bad input, as `inclusion`.
    """
    F = inclusion(rates, c, scheme)
    q = np.array(start, float)
    if q.shape != F.rates.shape or not (np.isfinite(q).all() and (q >= 0).all()):
        raise ValueError(f"start is {start!r}; it must hold {len(F.rates)} finite queue lengths of at least 0")
    if not 0 <= load <= 1:
        raise ValueError(f"load is {load}; a fluid path needs 0 <= load <= 1")
    times, states, M = [0.0], [q], F.rates.sum()
    for _ in range(8 * len(q) ** 2 + 8):
        drift = _drifts(F, q, load * M)
        step = _next_meeting(q, drift, 1e-12 * M)
        if step == np.inf:
            return FluidPath(F.rates, F.c, scheme, float(load), np.array(times), np.array(states), drift,
                             _margin(F, load)[0])
        q = np.maximum(q + step * drift, 0)
        q = _merged(q, 1e-11 * max(q.max(), states[0].max()))
        times.append(times[-1] + step)
        states.append(q)
    raise ValueError(f"the fluid path did not end within {len(times)} pieces (time {times[-1]:.6g}); "
                     "separate start levels that nearly coincide")


def _drifts(F: Inclusion, q: np.ndarray, lam: float) -> np.ndarray:
    """Fluid drift (K,) at the levels q (K,). Equal rates on one level stay together, F being convex in s among them."""
    _, tie = np.unique(-q, return_inverse=True)
    tied = np.zeros((tie.max() + 1, len(F.counts)), int)
    np.add.at(tied, (tie, F.group), 1)
    down_to = tied.cumsum(axis=0)
    rise = (lam * np.diff(F.at(down_to), prepend=0.0) - tied @ F.speeds) / tied.sum(axis=1)  # (4)
    drift = np.where(q > 0, rise[tie], np.maximum(rise[tie], 0))
    for j in np.flatnonzero((tied > 0).sum(axis=1) > 1):
        pool, left = np.flatnonzero(tie == j), tied[j]
        drift[pool] = 0
        while pool.size:
            sets, above = _subsets(F, left), down_to[j] - left
            size = sets.sum(axis=1)
            rise = (lam * (F.at(above + sets) - F.at(above)) - sets @ F.speeds) / size  # (4)
            best = np.flatnonzero(rise >= rise.max() - 1e-12 * F.rates.sum())
            best = best[size[best].argmax()]
            if q[pool[0]] == 0 and rise[best] <= 0:
                break
            leaving = _pick(F, sets[best], pool)
            drift[leaving] = rise[best]
            pool, left = np.setdiff1d(pool, leaving), left - sets[best]
    return drift


def _next_meeting(q: np.ndarray, drift: np.ndarray, still: float) -> float:
    """Time until two levels meet or a queue empties; drifts closer than `still` count as equal."""
    order = np.lexsort((drift, q))
    gap, closing = np.diff(q[order]), -np.diff(drift[order])
    emptying = (q > 0) & (drift < -still)
    return min((gap[closing > still] / closing[closing > still]).min(initial=np.inf),
               (q[emptying] / -drift[emptying]).min(initial=np.inf))


def _merged(q: np.ndarray, eps: float) -> np.ndarray:
    """Levels closer than eps made equal, levels below eps made 0."""
    order = np.argsort(q)
    cluster = np.empty(len(q), int)
    cluster[order] = np.r_[0, np.cumsum(np.diff(q[order]) > eps)]
    mean = np.bincount(cluster, q) / np.bincount(cluster)
    return np.where(mean > eps, mean, 0)[cluster]


# --- diffusion limit -----------------------------------------------------------------------------------------------


def diffusion(rates, rho: float, ca2: float = 1.0, cs2=1.0, c: int = 2) -> Diffusion | ParallelDiffusion:
    """Diffusion approximation at load rho, 0 < rho < 1, of any balanced scheme.

    rates (K,) per unit time; cs2 scalar or (K,). c >= 2: the queues collapse on one reflected Brownian motion (5), (6),
    a `Diffusion`, the same for every c. c = 1: proportional coin tosses, K reflected motions (7) with SCV
    a_k = p_k ca2 + 1 - p_k, a `ParallelDiffusion`. ca2 = cs2 = 0 gives variance 0 and no waiting at this order: what is
    left then depends on ties and on the start. ValueError for bad input.
    """
    mu, rho = _positive_rates(rates), _open_load(rho)
    ca2, cs2, c = float(_scv("ca2", ca2)), _scv("cs2", cs2, mu.shape), _candidates(c)
    if c > 1:
        return Diffusion(mu, rho, ca2, cs2, c)
    p = mu / mu.sum()
    return _parallel(mu, rho, p * ca2 + 1 - p, cs2, ca2 - 1)


def round_robin(rates, rho: float, ca2: float = 1.0, cs2=1.0, optimal: bool = False) -> ParallelDiffusion:
    """Weighted round robin, deterministic with frequencies p_k: (7) with a_k = p_k ca2.

    optimal=True moves the frequencies so that the slacks s_k are proportional to sigma_k, with
    sigma_k^2 = mu_k (rho p_k ca2 + cs2_k), which minimises sum sigma_k^2 / (2 s_k); [interp] of the tuned round robin
    of Ye, Oper. Res. 73(1), 483-509, 2025. ValueError where a slack would exceed its rate (rho too small).
    """
    mu, rho = _positive_rates(rates), _open_load(rho)
    ca2, cs2 = float(_scv("ca2", ca2)), _scv("cs2", cs2, mu.shape)
    a = mu / mu.sum() * ca2
    sigma = np.sqrt(mu * (rho * a + cs2))
    slack = (1 - rho) * mu.sum() * sigma / sigma.sum() if optimal and sigma.any() else (1 - rho) * mu
    if (slack > mu).any():
        k = int((slack / mu).argmax())
        raise ValueError(f"rho is {rho}; the optimal slack of server {k} would be {slack[k]:.4g}, above its rate "
                         f"{mu[k]:.4g}: take rho closer to 1")
    return _parallel(mu, rho, a, cs2, ca2, slack)


def _parallel(mu, rho, a, cs2, common, slack=None) -> ParallelDiffusion:
    """Servers fed by streams of SCV a_k whose counts have covariances lam p_j p_k * common, j != k."""
    p, lam = mu / mu.sum(), rho * mu.sum()
    covariance = lam * common * np.outer(p, p)
    np.fill_diagonal(covariance, mu * (rho * a + cs2))
    return ParallelDiffusion(mu, rho, a, cs2, (1 - rho) * mu if slack is None else slack, covariance)


def choice_ratio(rates, ca2: float = 1.0, cs2=1.0) -> float:
    """Heavy-traffic ratio of E[Q], c = 1 to any c >= 2: (ca2 + K - 1 + sum cs2_k)/(ca2 + sum p_k cs2_k).

    K for Poisson arrivals and exponential services, whatever the rates; inf if ca2 = cs2 = 0 and K > 1, where c = 1
    pays for its own coin tosses alone.
    """
    mu = _positive_rates(rates)
    ca2, cs2 = float(_scv("ca2", ca2)), _scv("cs2", cs2, mu.shape)
    one, two = ca2 + len(mu) - 1 + cs2.sum(), ca2 + cs2 @ mu / mu.sum()
    return float(one / two) if two > 0 else np.inf if one > 0 else 1.0


# --- reflected Brownian motion in time -----------------------------------------------------------------------------

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _standardised(t, variance, start, *more):
    t, variance, start = (np.asarray(x, float) for x in (t, variance, start))
    for name, x in (("t", t), ("variance", variance), ("start", start)):
        if not (np.isfinite(x).all() and (x >= 0).all()):
            raise ValueError(f"{name} is {x}; it must be finite and at least 0")
    if not all(np.isfinite(x).all() for x in more):
        raise ValueError(f"drift and z must be finite, got {more}")
    spread = np.sqrt(variance * t)
    return np.where(spread > 0, spread, 1.0), spread > 0


def _mills(v):
    """Mills ratio P(N > v)/phi(v) of the standard normal N."""
    return np.sqrt(np.pi / 2) * erfcx(v / np.sqrt(2))


def _phi(v):
    return np.exp(-v * v / 2) / np.sqrt(2 * np.pi)


def rbm_mean(t, drift, variance, start=0.0):
    """E[Z(t)] of Brownian motion reflected at 0, for any sign of drift, variance >= 0 and start >= 0; broadcasts.

    With x = drift sqrt(t)/sigma, y = start/(sigma sqrt t), u = x + y, psi(u) = u Phi(u) + phi(u) and R = Phi(-.)/phi,
        E[Z(t)] = sigma sqrt(t) {psi(u) + phi(u) [R(y - x) - R(y + x)]/(2x)}.
    The quotient is an average of -R' = 1 - v R(v) over y - x < v < y + x, so drift 0 is no special case; where x > y it
    is written exp(-2xy) Phi(x - y) - Phi(-u), which cannot overflow. Variance 0 or t = 0: max(start + drift t, 0).
    """
    unit, moving = _standardised(t, variance, start, drift)
    free = np.asarray(start + np.multiply(drift, t), float)
    x, y, free, unit, moving = np.broadcast_arrays(np.multiply(drift, t) / unit, start / unit, free, unit, moving)
    u = x + y
    near = np.abs(x) < 1
    points = np.where(near, y, 1.0)[..., None] + np.where(near, x, 0.0)[..., None] * _NODES
    slope = (1 - points * _mills(points)) @ _WEIGHTS / 2
    mirror = np.where(x > y, np.exp(-2 * np.maximum(x, 0) * y) * ndtr(x - y),
                      _phi(u) * _mills(np.maximum(y - x, 0)))
    local_time = np.where(near, _phi(u) * slope, (mirror - ndtr(-u)) / np.where(near, 1.0, 2 * x))
    mean = np.where(moving, unit * (u * ndtr(u) + _phi(u) + local_time), np.maximum(free, 0))
    return mean[()]


def rbm_cdf(t, z, drift, variance, start=0.0):
    """P(Z(t) <= z) of Brownian motion reflected at 0, for any sign of drift, variance >= 0 and start >= 0; broadcasts.

        Phi((z - start - drift t)/(sigma sqrt t)) - exp(2 drift z/sigma^2) Phi((-z - start - drift t)/(sigma sqrt t)),
    the second term through log Phi. Variance 0 or t = 0 gives the step at max(start + drift t, 0).
    """
    unit, moving = _standardised(t, variance, start, drift, z)
    shift = start + np.multiply(drift, t)
    x, w = np.multiply(drift, t) / unit, np.maximum(z, 0) / unit
    image = np.exp(np.minimum(2 * x * w + log_ndtr(-w - shift / unit), 0))
    inside = np.clip(ndtr(w - shift / unit) - image, 0, 1)
    step = np.asarray(z) >= np.maximum(shift, 0)
    return np.where(np.asarray(z) < 0, 0.0, np.where(moving, inside, step))[()]


# --- bounds and identities -----------------------------------------------------------------------------------------


def pooled_workload(rho: float, scv: float = 1.0) -> float:
    """E[U_pool] of (8): mean work in one server of speed M with Poisson arrivals, a lower bound on E[U] for any policy.

    For jobs of one size law served at different speeds (not for laws that differ between servers). With scv = 1 it is
    rho/(1 - rho), a bound on E[Q] too for exponential services; for other laws E[Q] is not bounded by a pooled count.
    """
    return _open_load(rho) * (1 + float(_scv("scv", scv))) / (2 * (1 - rho))  # (8)


def mean_from_kappa(rho: float, kappa: float, scv: float = 1.0) -> float:
    """E[U] by the identity (9) from kappa, the mean work seen by idle capacity; scv = 1 and kappa = E[Q I]/E[I]: E[Q].

    Exact for Poisson arrivals only, where it is also the variance-reduced estimator: kappa is the whole optimality gap.
    """
    return pooled_workload(rho, scv) + kappa  # (9)


# --- what lengths tell ---------------------------------------------------------------------------------------------


def delays_by_length(rate: float, job, *, jobs: int = 100_000, replications: int = 8, longest: int = 8,
                     seed: int = 0) -> DelayTable:
    """Simulated mean delays (10) at two unit-speed servers under join-the-shortest-queue, by the lengths found.

    rate: Poisson arrivals per unit time; job: law of the size; jobs: arrivals of each replication, the first tenth not
    counted; longest: L. ValueError unless rate * E[size] < 2, and for fewer than 2 replications or 100 jobs.
    """
    if not 0 < rate * job.mean < 2:
        raise ValueError(f"rate is {rate}; two servers need 0 < rate < {2 / job.mean:.6g}")
    if replications < 2 or jobs < 100:
        raise ValueError(f"there are {replications} replications of {jobs} jobs; at least 2 of 100 are needed")
    sums, seen = np.zeros((2, replications, longest + 1, longest + 1, 2))
    for r, child in enumerate(np.random.SeedSequence(seed).spawn(replications)):
        rng = np.random.default_rng(child)
        times = rng.exponential(1 / rate, jobs).cumsum().tolist()
        queues = deque(), deque()
        sizes, ties = job.sample(jobs, rng).tolist(), rng.integers(2, size=jobs).tolist()
        for i, (now, size, tie) in enumerate(zip(times, sizes, ties, strict=True)):
            for queue in queues:
                while queue and queue[0] <= now:
                    queue.popleft()
            short, long = sorted((queues[tie], queues[1 - tie]), key=len)
            delays = [queue[-1] - now if queue else 0.0 for queue in (short, long)]  # (10)
            if len(long) <= longest and 10 * i >= jobs:
                sums[r, len(short), len(long)] += delays
                seen[r, len(short), len(long)] += 1
            short.append(now + delays[0] + size)
    with np.errstate(invalid="ignore"):
        each = sums / seen
        half_width = stdtrit(replications - 1, 0.975) * each.std(axis=0, ddof=1) / np.sqrt(replications)
        return DelayTable(sums.sum(axis=0) / seen.sum(axis=0), half_width, seen[..., 0].sum(axis=0).astype(int))
