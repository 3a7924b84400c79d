"""Independent replications of a system, with an interval on every number (see ``lbkit.simulation``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lbkit.policies import CANDIDATES


class Estimate(NamedTuple):
    """A simulated number (or array of them): the exact one is within value +- half_width with probability level."""

    value: float
    half_width: float
    level: float


def _simulated(name, meaning):
    return property(lambda self: self.value_of(self, name), doc=meaning)


@dataclass(frozen=True, eq=False)
class Simulation:
    """Independent replications of a system (see ``simulation``); waits and responses are times, W + service = R.

    warmup      jobs of each replication before the counted ones
    start       how a replication began
    batches     (R, B, 14) sums over batches of consecutive jobs, see ``estimates.FIELDS``
    tails       (R, L + 1) time integrals of the number of servers with i jobs or more
    waits, responses   (R, bins) counts in bins 1/64 to 1/128 wide, relative to where they start
    visits      (R, N, 3) jobs, waits and service times by server; N = 0 if there are more than 1000
    cycles      (R, 9) complete cycles between two epochs at which the system is empty, see ``kernels.tally``
    complete    False if stopped by hand
    warnings    sentences on what makes the numbers doubtful
    """

    system: object
    seed: object
    warmup: int
    start: object
    batches: np.ndarray = field(repr=False)
    tails: np.ndarray = field(repr=False)
    waits: np.ndarray = field(repr=False)
    responses: np.ndarray = field(repr=False)
    visits: np.ndarray = field(repr=False)
    cycles: np.ndarray = field(repr=False)
    lowest: int = field(repr=False)
    value_of: Callable = field(repr=False)
    estimate_of: Callable = field(repr=False)
    complete: bool = True
    warnings: tuple[str, ...] = ()

    mean_wait = _simulated("mean_wait", "E[W], time in queue of a job.")
    mean_response = _simulated("mean_response", "E[R], time in system.")
    mean_queue = _simulated("mean_queue", "E[Q], jobs at a server, the one in service included.")
    mean_jobs = _simulated("mean_jobs", "N E[Q], jobs in the system.")
    wait_probability = _simulated("wait_probability", "P(W > 0).")
    std_wait = _simulated("std_wait", "Standard deviation of W.")
    std_response = _simulated("std_response", "Standard deviation of R.")
    queue_tail = _simulated("queue_tail", "P(Q >= i), i = 0..L, an average over time and servers.")
    utilisation = _simulated("utilisation", "Share of the capacity in use; rho but for sampling error.")
    littles_law = _simulated(
        "littles_law", "(time average of the jobs in system) / (lam E[R]), counted apart; 1 but for the ends of a run."
    )
    shares = _simulated(
        "shares", "Share of the jobs that each server gets, (N,); under TAGS of the jobs that visit it."
    )
    utilisations = _simulated("utilisations", "P(server k is busy), (N,).")
    mean_queues = _simulated("mean_queues", "E[Q_k], (N,).")
    mean_waits = _simulated("mean_waits", "Mean wait of the jobs at server k, (N,).")
    mean_work = _simulated(
        "mean_work", "E[U], unfinished work in the system, in units of size; Poisson arrivals, N <= 64."
    )
    kappa = _simulated("kappa", "E[U I] / E[I], the work that idle speed I sees.")
    idle_speed = _simulated("idle_speed", "E[I]; sum of the speeds less lam E[X] but for sampling error.")
    mean_work_by_identity = _simulated(
        "mean_work_by_identity", "E[U] from kappa, of far smaller variance near load one."
    )
    mean_jobs_by_identity = _simulated(
        "mean_jobs_by_identity", "N E[Q] from kappa, where the size of a job has no say."
    )

    @property
    def replications(self) -> int:
        """R."""
        return len(self.batches)

    @property
    def jobs(self) -> int:
        """Jobs that were counted, in all replications together."""
        return int(self.batches[:, :, 0].sum())

    @property
    def sampling(self) -> str:
        """How the candidates of a job are drawn."""
        candidates = getattr(self.system.policy, "candidates", "distinct")
        return CANDIDATES[candidates] if self.system.samples else "no candidates are drawn"

    def wait_quantile(self, q):
        """The smallest w with P(W <= w) >= q, q of any shape, to about 1 %."""
        return self.value_of(self, "wait_quantile", q)

    def response_quantile(self, q):
        """The smallest r with P(R <= r) >= q, q of any shape, to about 1 %."""
        return self.value_of(self, "response_quantile", q)

    def wait_tail(self, w):
        """P(W > w), w in units of time, any shape."""
        return self.value_of(self, "wait_tail", w)

    def response_tail(self, r):
        """P(R > r), r in units of time, any shape."""
        return self.value_of(self, "response_tail", r)

    def estimate(
        self, name: str, at=None, *, method: str | None = None, control: bool = False, level: float = 0.95
    ) -> Estimate:
        """A property above with its half-width, or with at=..., "wait_quantile", "response_tail" and the like.

        method   "replications" (the default where there are two), "batches" (not for histograms and per-server
                 numbers), "cycles" (mean_wait and mean_response, where the system empties)
        control  use the known means of the gaps and sizes as control variates
        Raises ValueError for a name or a method that does not apply.
        """
        return self.estimate_of(self, name, at, method=method, control=control, level=level)

    def half_width(self, name: str, at=None, **options):
        """Half-width of the interval; arguments as for ``estimate``."""
        return self.estimate(name, at, **options).half_width

    def difference(self, other: Simulation, name: str, at=None) -> Estimate:
        """self - other, by pairs of replications on common random numbers.

        Raises ValueError unless both have the same seed, arrivals, warm-up, jobs and replications.
        """
        ours, theirs = ((s.seed, s.system.gap, s.warmup, s.jobs, s.replications) for s in (self, other))
        if ours != theirs:
            raise ValueError(
                "a difference needs the same seed, arrivals, warmup, jobs and replications on both sides: say warmup"
            )
        return self.estimate_of(self, name, at, other=other)
