"""A system: what arrives, how it is dispatched, and who serves it. First come, first served at every server.

========  ==================================================================  ======================
symbol    name                                                                unit
========  ==================================================================  ======================
lam       ``rate``: arrivals to the whole system                              jobs per unit time
X         job size, ``job``; takes X / speed at a server of that speed        mean job sizes
mu_k      ``service_rates``: 1 / E[service time at server k]                  jobs per unit time
M         ``capacity``: sum of the mu_k                                       jobs per unit time
rho       ``load``: lam / M
F(n)      P(all sampled servers are among the n slowest)
rho_i     load of server i where sizes decide
========  ==================================================================  ======================

Jobs all of whose candidates are in a set must be served there, and the n slowest servers are the worst set of n::

    lam F(n) < sum of the n smallest mu_k,  n = 1..N                                              (1)
    F(n) = C(n, d) / C(N, d),  or (n/N)^d with replacement                                        (2)

Candidates drawn in proportion to the speeds, round robin and a look at all servers leave rho < 1. By size::

    SITA  rho_i = lam E[X; s_{i-1} < X <= s_i] / speed_i < 1                                      (3)
    TAGS  rho_i = lam (E min(X, s_i) - E[X; X <= s_{i-1}]) / speed_i < 1                          (4)

(1) is sufficient for the shortest queue and for the least work (Foss and Chernova, 1998; Bramson, 2011), and necessary
for whatever else a policy does with its candidates. The layers of a policy count the age of a service in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from numbers import Integral, Real

import numpy as np

from lbkit.jobs import Law, exponential
from lbkit.policies import Cutoffs, LeastWork, Policy, RoundRobin


@dataclass(frozen=True)
class System:
    """N servers, a queue each, and a dispatcher.

    rate      lam, arrivals per unit time to the whole system
    job       law of the size; or a law per server, of the time that any job takes there (and no speeds)
    policy    anything of ``lbkit.policies``
    servers   N, of unit speed
    speeds    (N,) speeds, or {speed: servers}, in place of servers
    arrivals  shape of the law of the time between arrivals, scaled to the rate; Poisson arrivals if not given.
              ``jobs.empirical(gaps)`` draws from a measured trace

    Raises ValueError for a rate or a speed that is not positive, numbers of servers that contradict each other, more
    samples than servers, and a policy by size among servers with laws of their own. Whether it is stable is not asked.
    """

    rate: float
    job: Law | Sequence[Law]
    policy: Policy | RoundRobin | LeastWork | Cutoffs
    servers: int | None = None
    speeds: Sequence[float] | Mapping[float, int] | None = None
    arrivals: Law | None = None

    def __post_init__(self):
        if not isinstance(self.rate, Real) or not 0 < self.rate < inf:
            raise ValueError(f"rate must be a positive finite number of arrivals per unit time, not {self.rate!r}")
        if not isinstance(self.policy, Policy | RoundRobin | LeastWork | Cutoffs):
            raise ValueError(f"policy must come from lbkit.policies, not {self.policy!r}")
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("rate", float(self.rate))
        if self.speeds is not None:
            listed = self.speeds.items() if isinstance(self.speeds, Mapping) else ((speed, 1) for speed in self.speeds)
            put("speeds", tuple(float(speed) for speed, count in listed for _ in range(count)))
            for speed in self.speeds:
                if not 0 < speed < inf:
                    raise ValueError(f"every speed must be a positive finite number, not {speed!r}")
        if not isinstance(self.job, Law):
            put("job", tuple(self.job))
            if self.speeds is not None:
                raise ValueError(
                    "a law of the service time for each server leaves no room for speeds; scale the laws instead"
                )
            if isinstance(self.policy, Cutoffs):
                raise ValueError(
                    f"{self.policy.name} needs a law of the job size, not a law of the service time per server"
                )
        put("servers", self._count())
        if any(law.mean == inf for law in self.laws):
            raise ValueError("the mean job size is infinite, so that no rate is stable")
        for d in self.samples:
            redraws = getattr(self.policy, "candidates", "distinct") not in ("replacement", "with")
            if redraws and not (isinstance(d, Integral) and 1 <= d <= self.servers):
                raise ValueError(f"{self.policy.name} cannot sample {d!r} different servers out of {self.servers}")

    def _count(self) -> int:
        """N, on which all that is given must agree."""
        known = {"servers": self.servers, "speeds": None if self.speeds is None else len(self.speeds)}
        known["job"] = None if isinstance(self.job, Law) else len(self.job)
        known["cutoffs"] = len(self.policy.cutoffs) + 1 if isinstance(self.policy, Cutoffs) else None
        known = {name: n for name, n in known.items() if n is not None}
        if not known:
            raise ValueError("say how many servers there are: servers=... or speeds=[...]")
        if len(set(known.values())) > 1:
            raise ValueError(
                "the numbers of servers differ: " + ", ".join(f"{n} by {name}" for name, n in known.items())
            )
        n = next(iter(known.values()))
        if not isinstance(n, Integral) or isinstance(n, bool) or not 1 <= n < 2**31:
            raise ValueError(f"servers must be an integer from 1 to {2**31 - 1}, not {n!r}")
        return int(n)

    @property
    def laws(self) -> tuple[Law, ...]:
        """The law of the size, or those of the service times."""
        return (self.job,) if isinstance(self.job, Law) else self.job

    @property
    def samples(self) -> tuple[int, ...]:
        """Numbers of servers that a job may sample; empty where it looks at all of them or at none."""
        match self.policy:
            case Policy(d=tuple()):
                return tuple(d for d, _ in self.policy.d)
            case LeastWork(d=d) if d is not None:
                return (d,)
        return ()

    @cached_property
    def speed(self) -> np.ndarray:
        """Speeds, (N,); one for servers with laws of their own."""
        return np.ones(self.servers) if self.speeds is None else np.array(self.speeds)

    @cached_property
    def service_rates(self) -> np.ndarray:
        """mu_k, (N,)."""
        return self.speed / (self.laws[0].mean if len(self.laws) == 1 else np.array([law.mean for law in self.laws]))

    @cached_property
    def capacity(self) -> float:
        """M."""
        return float(self.service_rates.sum())

    @property
    def load(self) -> float:
        """rho = lam / M."""
        return self.rate / self.capacity

    @cached_property
    def gap(self) -> Law:
        """Law of the time between arrivals."""
        return exponential(1 / self.rate) if self.arrivals is None else self.arrivals.scaled(1 / self.rate)

    @property
    def poisson(self) -> bool:
        """Whether arrivals are Poisson."""
        return self.arrivals is None or self.arrivals == exponential(self.arrivals.mean)

    @property
    def loads(self) -> np.ndarray:
        """rho_i, (N,), of TAGS and SITA (3), (4); ValueError for policies whose loads depend on the state."""
        if not isinstance(self.policy, Cutoffs):
            raise ValueError(
                f"the loads of the servers are known beforehand for TAGS and SITA only, not for {self.policy.name}"
            )
        s = np.array(self.policy.cutoffs)
        done = np.array([0.0, *self.job.partial_moment(1, s), self.job.mean])
        if self.policy.kind == "sita":
            return self.rate * np.diff(done) / self.speed  # (3)
        return self.rate * (np.array([*self.job.truncated_moment(1, s), self.job.mean]) - done[:-1]) / self.speed  # (4)

    @property
    def max_rate(self) -> float:
        """The rate at which the system ceases to be stable (1)-(4)."""
        return self._limit[0]

    @cached_property
    def _limit(self) -> tuple[float, str]:
        """The largest stable rate and what fills up there."""
        if isinstance(self.policy, Cutoffs):
            i = int(self.loads.argmax())
            return self.rate / self.loads[
                i
            ], f"server {i + 1} of {self.servers} fills up, whose load is {self.loads[i]:.6g}"
        rates = np.sort(self.service_rates)
        n, N = (
            np.flatnonzero(np.append(np.diff(rates) > 0, True)) + 1,
            self.servers,
        )  # the worst set is made of whole groups
        scheme, law = getattr(self.policy, "candidates", "distinct"), getattr(self.policy, "d", None)
        law = ((law, 1.0),) if isinstance(law, int) else law
        if law and scheme == "distinct":
            inside = sum(p * np.prod([(n - i).clip(0) / (N - i) for i in range(d)], axis=0) for d, p in law)  # (2)
        elif law and scheme == "replacement":
            inside = sum(p * (n / N) ** d for d, p in law)  # (2)
        else:
            inside = (n == N) * 1.0
        bounds = np.cumsum(rates)[n - 1] / np.maximum(inside, 1e-300)  # (1)
        worst = np.flatnonzero(bounds <= bounds.min() * (1 + 1e-12))[-1]
        slowest = f"the {n[worst]} slowest servers fill up" if n[worst] > 1 else "the slowest server fills up"
        return float(bounds[worst]), "all servers fill up" if n[worst] == N else slowest

    def require_stable(self) -> None:
        """ValueError that names the bound, unless the rate is below it."""
        bound, what = self._limit
        if not self.rate < bound * (1 - 1e-12):
            raise ValueError(
                f"rate is {self.rate:g}, but {self.policy.name} is stable only for rates below {bound:.6g}, where"
                f" {what}; lower the rate, or say unstable=True to watch the queues grow"
            )
