"""Stability, fluid path and heavy-traffic limit of balanced routing (see ``lbkit.balanced``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class MaxLoad:
    """Stability and collapse of a rule that joins the shortest of c candidates (see ``balanced``).

    load            largest stable load rho*; bottleneck: the servers that fill up there
    margin          delta, least speed at which a proper set of servers drains at load 1, in jobs per unit time;
                    weakest: that set. The queues collapse in heavy traffic if and only if margin > 0
    """

    rates: np.ndarray
    c: int
    scheme: str
    load: float
    bottleneck: tuple[int, ...]
    margin: float
    weakest: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FluidPath:
    """Exact piecewise-linear fluid queues (see ``balanced``); calling it with times (...) gives the levels (..., K).

    times         breakpoints (n,), times[0] = 0; states: levels (n, K) there
    final_drift   drift (K,) kept for ever after the last breakpoint
    margin        least speed at which a proper set falls towards the mean level, at this load
    """

    rates: np.ndarray
    c: int
    scheme: str
    load: float
    times: np.ndarray
    states: np.ndarray
    final_drift: np.ndarray
    margin: float

    def __call__(self, t) -> np.ndarray:
        t = np.asarray(t, float)
        if not np.all(t >= 0):
            raise ValueError(f"t is {t}; a fluid path starts at time 0")
        inside = np.stack([np.interp(t, self.times, level) for level in self.states.T], axis=-1)
        return inside + np.maximum(t - self.times[-1], 0)[..., None] * self.final_drift

    @property
    def balance_time(self) -> float:
        """T, when all levels are equal for the first time; inf if never."""
        return float(self.times[np.ptp(self.states, axis=1) == 0].min(initial=np.inf))

    @property
    def bound(self) -> float:
        """m(0)/margin >= T, m = sum of (q_k - mean)^+; inf where the margin is not positive."""
        start = self.states[0]
        excess = float(np.maximum(start - start.mean(), 0).sum())
        return 0.0 if np.ptp(start) == 0 else excess / self.margin if self.margin > 0 else np.inf


class _Means:
    """What follows from the mean queues, for a result with ``rates``, ``rho``, ``mean_queue`` and ``mean_queues``."""

    @property
    def mean_waits(self) -> np.ndarray:
        """E[W_k] = E[Q_k]/mu_k, (K,): time a job that joins server k waits."""
        return self.mean_queues / self.rates

    @property
    def mean_response(self) -> float:
        """E[Q]/lam, time in system."""
        return self.mean_queue / (self.rho * float(self.rates.sum()))


@dataclass(frozen=True, eq=False)
class Diffusion(_Means):
    """All K queues collapsed on one reflected Brownian motion, c >= 2 (see ``balanced``); its E[Q] is wrong by O(1).

    rates (K,), rho = lam/M, ca2, cs2 (K,) as given. Queue lengths are equal, delays are not: E[W_k] ~ 1/mu_k.
    """

    rates: np.ndarray
    rho: float
    ca2: float
    cs2: np.ndarray
    c: int

    @property
    def drift(self) -> float:
        """theta = lam - M, jobs per unit time."""
        return float((self.rho - 1) * self.rates.sum())

    @property
    def variance(self) -> float:
        """sigma^2 = lam ca2 + sum mu_k cs2_k, jobs^2 per unit time."""
        return float(self.rho * self.rates.sum() * self.ca2 + self.rates @ self.cs2)

    @property
    def limit(self) -> float:
        """C = lim (1 - rho) E[Q] as rho -> 1."""
        return float(self.ca2 + self.cs2 @ self.rates / self.rates.sum()) / 2

    @property
    def mean_queue(self) -> float:
        """E[Q] with the variance at this rho: (rho ca2 + mean cs2)/(2(1 - rho))."""
        return self.variance / (-2 * self.drift)

    @property
    def mean_queue_critical(self) -> float:
        """E[Q] with the variance at rho = 1: C/(1 - rho)."""
        return self.limit / (1 - self.rho)

    @property
    def mean_queue_pooled(self) -> float:
        """E[Q] = rho + rho^2 C/(1 - rho), exact for one M/G/1 server of speed M."""
        return self.rho + self.rho**2 * self.limit / (1 - self.rho)

    @property
    def mean_queues(self) -> np.ndarray:
        """E[Q_k] = E[Q]/K, (K,)."""
        return np.full(len(self.rates), self.mean_queue / len(self.rates))

    def tail(self, x) -> np.ndarray:
        """P(Q > x) = exp(-x/E[Q]), any shape, x >= 0; 0 where the variance is 0."""
        return np.exp(-np.asarray(x, float) / self.mean_queue) if self.mean_queue else np.zeros(np.shape(x))


@dataclass(frozen=True, eq=False)
class ParallelDiffusion(_Means):
    """K reflected Brownian motions, one for each server, that never collapse: c = 1 or round robin (see ``balanced``).

    stream_scv   a_k (K,), SCV of the arrivals at server k;  slack s_k (K,), mu_k less its arrival rate
    covariance   (K, K) per unit time; the reflection is the identity, so every marginal is exponential, and the
                 servers are independent only if the covariance is diagonal. E[Q] is wrong by O(1)
    """

    rates: np.ndarray
    rho: float
    stream_scv: np.ndarray
    cs2: np.ndarray
    slack: np.ndarray
    covariance: np.ndarray

    @property
    def drift(self) -> np.ndarray:
        """-s_k, (K,)."""
        return -self.slack

    @property
    def variance(self) -> np.ndarray:
        """sigma_k^2 = mu_k (rho a_k + cs2_k), (K,)."""
        return np.diag(self.covariance)

    @property
    def limit(self) -> float:
        """C = lim (1 - rho) E[Q] as rho -> 1, the slacks keeping their proportions."""
        return (1 - self.rho) * self.mean_queue_critical

    @property
    def mean_queues(self) -> np.ndarray:
        """E[Q_k] = sigma_k^2/(2 s_k), (K,)."""
        return self._exponential_means(self.variance)

    @property
    def mean_queue(self) -> float:
        """E[Q], variances at this rho."""
        return float(self.mean_queues.sum())

    @property
    def mean_queue_critical(self) -> float:
        """E[Q], variances at rho = 1."""
        return float(self._exponential_means(self.rates * (self.stream_scv + self.cs2)).sum())

    @property
    def mean_queue_pooled(self) -> float:
        """E[Q] = sum of rho_k + rho_k^2 (a_k + cs2_k)/(2(1 - rho_k)), rho_k = 1 - s_k/mu_k: closest of the three."""
        rho = 1 - self.slack / self.rates
        return float((rho + rho**2 * self._exponential_means(self.rates * (self.stream_scv + self.cs2))).sum())

    def tails(self, x) -> np.ndarray:
        """P(Q_k > x) of every server, x (...) -> (..., K)."""
        means, x = self.mean_queues, np.asarray(x, float)[..., None]
        return np.where(means > 0, np.exp(-x / np.where(means > 0, means, 1.0)), 0.0)

    def _exponential_means(self, variance) -> np.ndarray:
        return np.divide(variance, 2 * self.slack, out=np.zeros(len(self.rates)), where=variance > 0)


@dataclass(frozen=True, eq=False)
class DelayTable:
    """Delays at both queues given what an arrival finds, m jobs in the shorter and n >= m in the longer.

    mean        (L+1, L+1, 2) by [m, n]: E[delay] at the shorter and at the longer queue, time; NaN where never seen
    half_width  (L+1, L+1, 2) of 95 % intervals, from replications; NaN where some replication has not seen [m, n]
    seen        (L+1, L+1) arrivals that found [m, n]; those that found more than L jobs in a queue are left out
    """

    mean: np.ndarray
    half_width: np.ndarray
    seen: np.ndarray
