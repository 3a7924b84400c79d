"""Exact laws of small exponential systems (see ``lbkit.chains``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Imbalance:
    """Two-sided geometric law of D = Q_1 - Q_2 at load 1, far from empty (see ``chains``).

    zero    P(D = 0);  first: (P(D = 1), P(D = -1));  ratio: (r+, r-), P(D = n+1)/P(D = n) outwards on either side
    """

    rates: np.ndarray
    c: int
    scheme: str
    ties: str
    zero: float
    first: np.ndarray
    ratio: np.ndarray

    @property
    def mean(self) -> float:
        """E D."""
        return float(self._moments @ [1, -1])

    @property
    def mean_abs(self) -> float:
        """E|D|."""
        return float(self._moments.sum())

    def pmf(self, n) -> np.ndarray:
        """P(D = n), whole n of any shape."""
        n = np.asarray(n)
        side = (n < 0).astype(int)
        return np.where(n == 0, self.zero, self.first[side] * self.ratio[side] ** np.maximum(np.abs(n) - 1, 0))

    @property
    def _moments(self) -> np.ndarray:
        return self.first / (1 - self.ratio) ** 2


@dataclass(frozen=True, eq=False)
class ExactChain:
    """Stationary law of exponential servers under a rule that joins the shortest of c candidates (see ``chains``).

    phases       (P, K) excesses of the queues over the shortest one
    levels       (N, P) P(shortest queue = m, phase); beyond the last row every level is ``ratio`` times the one before
    residual     largest unbalanced flow of the linear system, as a share of M; iterations: of its solver (0: factored)
    truncation   estimated error of E[Q] owed to the tail ratio and to the bound on the excess
    """

    rates: np.ndarray
    rho: float
    c: int
    scheme: str
    ties: str
    phases: np.ndarray = field(repr=False)
    levels: np.ndarray = field(repr=False)
    ratio: float
    iterations: int
    residual: float
    truncation: float

    @cached_property
    def phase_law(self) -> np.ndarray:
        """P(phase), (P,)."""
        return self.levels.sum(axis=0) + self.levels[-1] * self.ratio / (1 - self.ratio)

    @cached_property
    def mean_queues(self) -> np.ndarray:
        """E[Q_k], (K,)."""
        N, r = len(self.levels), self.ratio
        weights = np.arange(N, dtype=float)
        weights[-1] = (N - 1) / (1 - r) + r / (1 - r) ** 2
        return self.phase_law @ self.phases + weights @ self.levels.sum(axis=1)

    @property
    def mean_queue(self) -> float:
        """E[Q]."""
        return float(self.mean_queues.sum())

    @property
    def mean_response(self) -> float:
        """E[Q]/lam, time in system."""
        return self.mean_queue / (self.rho * float(self.rates.sum()))

    @property
    def spread(self) -> float:
        """E[max_k Q_k - min_k Q_k]."""
        return float(self.phase_law @ self.phases.max(axis=1))

    @property
    def utilisations(self) -> np.ndarray:
        """P(Q_k > 0), (K,)."""
        return 1 - self.levels[0] @ (self.phases == 0)

    @property
    def idle_rate(self) -> float:
        """E[I], I = sum of mu_k over the idle servers; exactly M - lam but for truncation."""
        return float(self.levels[0] @ self._idle)

    @property
    def kappa(self) -> float:
        """E[Q I]/E[I], the queue that idle capacity sees; E[Q] = rho/(1 - rho) + kappa but for truncation."""
        return float(self.levels[0] * self.phases.sum(axis=1) @ self._idle) / self.idle_rate

    @property
    def empty(self) -> float:
        """P(Q = 0)."""
        return float(self.levels[0, ~self.phases.any(axis=1)].sum())

    def pmf(self, n) -> np.ndarray:
        """P(Q = n), whole n >= 0 of any shape."""
        n = np.asarray(n)
        law, excess, K = np.zeros(n.max() + 1), self.phases.sum(axis=1), len(self.rates)
        for m in range(n.max() // K + 1):
            beyond = max(m - len(self.levels) + 1, 0)
            some = excess <= n.max() - K * m
            row = self.levels[m - beyond, some] * self.ratio**beyond
            law += np.bincount(K * m + excess[some], row, minlength=len(law))
        return law[n]

    def tail(self, n) -> np.ndarray:
        """P(Q >= n), whole n >= 0 of any shape."""
        n = np.asarray(n)
        return 1 - np.r_[0.0, self.pmf(np.arange(max(n.max(), 1))).cumsum()][n]

    @property
    def _idle(self) -> np.ndarray:
        return (self.phases == 0) @ self.rates
