"""The law of one server in the mean-field limit (see ``lbkit.cavity``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class MeanField:
    """Mean-field law of one server and the waiting time of a job (see ``cavity``).

    lam               arrival rate per server, per unit time
    joint[k, l]       P(layer k, length l), k = 0..r+1, l = 0..L; idle is [0, 0]; sums to 1
    rates[k, l]       arrival rate seen in that state, per unit time
    iterations        evaluations of the map; residual: L1 change of the joint law in the last one
    error             estimated error of the joint law and relative error of the mean wait, contraction included
    changes           L1 change in every iteration
    exact_wait        E[W] in closed form where the ranking ignores the length, else None
    """

    lam: float
    job: object
    policy: object
    joint: np.ndarray = field(repr=False)
    rates: np.ndarray = field(repr=False)
    iterations: int
    residual: float
    error: float
    changes: np.ndarray = field(repr=False)
    exact_wait: float | None
    tails: Callable = field(repr=False)
    bound: Callable = field(repr=False)

    @property
    def mean_wait(self) -> float:
        """E[W], time in queue of a job."""
        if self.exact_wait is not None:
            return self.exact_wait
        beyond = self.joint[:, 2:].sum(axis=0)
        return float(np.arange(1, len(beyond) + 1) @ beyond / self.lam)

    @property
    def mean_response(self) -> float:
        """E[R] = E[W] + E[X]."""
        return self.mean_wait + self.job.mean

    @property
    def mean_queue(self) -> float:
        """E[Q], jobs at a server, the one in service included."""
        return self.lam * self.mean_response

    @property
    def queue_tail(self) -> np.ndarray:
        """P(Q >= i), i = 0..L."""
        return self.joint.sum(axis=0)[::-1].cumsum()[::-1]

    @cached_property
    def truncation_bound(self) -> float:
        """Bound of P(Q > L), L the last level; inf where the job law has no second moment."""
        return self.bound()

    def wait_tail(self, w) -> np.ndarray:
        """P(W > w), w in units of time, any shape."""
        return self.tails(w, 0)

    def response_tail(self, w) -> np.ndarray:
        """P(R > w), w in units of time, any shape."""
        return self.tails(w, 1)
