"""Servers that jobs meet under TAGS, SITA and their rivals (see ``lbkit.tags``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class LoadThreshold:
    """Largest load that TAGS can bear (see ``tags.max_load``).

    servers  h, an integer or inf
    load     rho*_h = rate E[X], in units of one server
    rate     arrival rate at which it is reached, per unit time
    cutoffs  (<= h - 1,), sizes; empty for servers = inf
    loads    loads of the servers there, one each unless the job law has atoms; empty for servers = inf
    """

    job: object
    servers: int | float
    load: float
    rate: float
    cutoffs: np.ndarray
    loads: np.ndarray


@dataclass(frozen=True, eq=False)
class TaskAssignment:
    """Servers of an assignment rule and what a job meets there (see ``tags``); ``note`` says what is approximate.

    policy       "TAGS", "SITA", "random" or "least work"
    lam          arrival rate of all jobs, per unit time
    cutoffs      (h - 1,), sizes; empty where the rule has none
    visits       P(a job visits server i), (h,)
    loads        (h,)
    waits        mean wait of a visit to server i, (h,), in units of time
    wasted_load  load of the work that is done again
    slowdown     E[response / size]
    """

    policy: str
    lam: float
    job: object
    cutoffs: np.ndarray
    visits: np.ndarray
    loads: np.ndarray
    waits: np.ndarray
    wasted_load: float
    slowdown: float
    note: str

    @property
    def mean_wait(self) -> float:
        """Mean time in queue of a job, over all its servers."""
        return float(self.visits @ self.waits)

    @property
    def mean_delay(self) -> float:
        """Mean wait plus the service that is lost: mean response less the mean size."""
        return self.mean_wait + self.wasted_load / self.lam

    @property
    def mean_response(self) -> float:
        """Mean time from arrival to completion."""
        return self.mean_delay + self.job.mean

    @property
    def mean_queues(self) -> np.ndarray:
        """Mean number of waiting jobs at server i, (h,)."""
        return self.lam * self.visits * self.waits


@dataclass(frozen=True, eq=False)
class OptimalCutoffs:
    """Best cutoffs of at most ``servers`` servers (see ``tags.optimise``).

    objective   "wait", "delay" or "minimax", the longest mean queue
    value       its value at the optimum
    residual    largest relative slope of the value in the log of a cutoff ("minimax": log ratio of two queues); 0 for
                laws with atoms, where the search ends in windows of 1e-8
    assignment  the TaskAssignment at the optimum
    """

    objective: str
    servers: int
    value: float
    residual: float
    assignment: TaskAssignment

    @property
    def cutoffs(self) -> np.ndarray:
        """(servers_used - 1,), sizes."""
        return self.assignment.cutoffs

    @property
    def servers_used(self) -> int:
        """At most ``servers``."""
        return len(self.cutoffs) + 1


@dataclass(frozen=True)
class AssignmentBounds:
    """Bounds of lam times the mean wait, over all job laws on [low, high] (see ``tags.bounds``).

    ratio   high/low
    sita    no law needs more under SITA
    tags    no law needs more under TAGS, with (3) of ``tags`` for the waits
    random  largest value under a random split
    lower   some law needs at least this, under SITA and under TAGS
    """

    rho: float
    ratio: float
    servers: int
    sita: float
    tags: float
    random: float
    lower: float
