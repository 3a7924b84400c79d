"""What a simulation says, and how far it may be off: ratios, the jackknife, regenerative cycles, control variates.

==========  ==========================================================================
symbol      name
==========  ==========================================================================
n           units: replications, or batches of consecutive jobs of all replications
g           a number (or array) computed from sums over units
g_(i)       the same with unit i left out
x_b         controls of batch b: what its jobs brought less what was to be expected
t           quantile of Student's law with n - 1 degrees of freedom
==========  ==========================================================================

Every number is a smooth function of sums (a ratio, a quantile of a histogram, a sum of ratios); one formula serves::

    half-width = t sqrt((n - 1)/n sum_i (g_(i) - mean g_(.))^2)                                   (1)

Over C complete cycles of n_c jobs with a total y_c, the ratio r = sum y / sum n has

    half-width = t sqrt(C/(C - 1) sum_c (y_c - r n_c)^2) / sum n                                  (2)

The jobs of a batch brought a time and a work with known expectations (their ratio is the busy fraction). With
pseudo-values n g - (n - 1) g_(b) over batches and beta by least squares, the controlled estimate is (Lavenberg and
Welch, 1981)

    g - beta x                                                                                    (3)

and its half-width is (1) for g - beta x, beta held fixed.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from lbkit import kernels
from lbkit.policies import Cutoffs
from lbkit.results import Estimate

FIELDS = (
    "jobs",
    "time",
    "wait",
    "wait2",
    "response",
    "response2",
    "delayed",
    "size",
    "area",
    "busy",
    "looks",
    "work",
    "seen",
    "idle",
)
METHODS = ("replications", "batches", "cycles")


class Totals(NamedTuple):
    """Sums over units, a leading axis for the units where there is one: what every estimate is a function of.

    fields (14,) see FIELDS; tails (L + 1,) integrals of n_i; waits, responses (bins,) counts; visits (N, 3)
    """

    fields: np.ndarray
    tails: np.ndarray
    waits: np.ndarray
    responses: np.ndarray
    visits: np.ndarray

    def __getattr__(self, name):
        if name not in FIELDS:
            raise AttributeError(name)
        return self.fields[..., FIELDS.index(name)]


def _mean(top, bottom):
    return lambda sim, total, at: getattr(total, top) / getattr(total, bottom)


def _utilisation(sim, total, at):
    """Share of the capacity in use."""
    system = sim.system
    if len(total.visits):
        return total.visits[:, 2] @ system.service_rates / (system.capacity * total.time)
    return total.size / (system.laws[0].mean * system.capacity * total.time)


def _work_by_identity(sim, total, at):
    system = sim.system
    rho, job = system.load, system.job
    return rho * job.moment(2) / (2 * job.mean * (1 - rho)) + total.seen / total.idle  # (6) of simulation


def _jobs_by_identity(sim, total, at):
    job = sim.system.job
    return _work_by_identity(sim, total, at) / job.mean - total.busy / total.time * (job.scv - 1) / 2


QUANTITIES = {
    "mean_wait": _mean("wait", "jobs"),
    "mean_response": _mean("response", "jobs"),
    "wait_probability": _mean("delayed", "jobs"),
    "mean_jobs": _mean("area", "time"),
    "mean_queue": lambda sim, total, at: total.area / total.time / sim.system.servers,
    "std_wait": lambda sim, total, at: np.sqrt(max(total.wait2 / total.jobs - (total.wait / total.jobs) ** 2, 0.0)),
    "std_response": lambda sim, total, at: np.sqrt(
        max(total.response2 / total.jobs - (total.response / total.jobs) ** 2, 0.0)
    ),
    "utilisation": _utilisation,
    "littles_law": _mean("area", "response"),
    "queue_tail": lambda sim, total, at: total.tails / total.tails[0],
    "wait_quantile": lambda sim, total, at: quantile(total.waits, at, sim.lowest),
    "response_quantile": lambda sim, total, at: quantile(total.responses, at, sim.lowest),
    "wait_tail": lambda sim, total, at: tail(total.waits, at, sim.lowest),
    "response_tail": lambda sim, total, at: tail(total.responses, at, sim.lowest),
    "shares": lambda sim, total, at: total.visits[:, 0] / total.jobs,
    "utilisations": lambda sim, total, at: total.visits[:, 2] / total.time,
    "mean_queues": lambda sim, total, at: total.visits[:, 1:].sum(axis=1) / total.time,
    "mean_waits": lambda sim, total, at: total.visits[:, 1] / np.maximum(total.visits[:, 0], 1),
    "mean_work": _mean("work", "looks"),
    "kappa": _mean("seen", "idle"),
    "idle_speed": _mean("idle", "looks"),
    "mean_work_by_identity": _work_by_identity,
    "mean_jobs_by_identity": _jobs_by_identity,
}
CONTENT = ("mean_work", "kappa", "idle_speed", "mean_work_by_identity", "mean_jobs_by_identity")
BY_SERVER = ("shares", "utilisations", "mean_queues", "mean_waits")
COUNTED = ("queue_tail", "wait_quantile", "response_quantile", "wait_tail", "response_tail", *BY_SERVER)


def estimate(
    sim, name: str, at=None, *, method: str | None = None, control: bool = False, level: float = 0.95, other=None
) -> Estimate:
    """Value and half-width of a quantity, see ``Simulation.estimate``; of the difference to another simulation."""
    g = _quantity(sim, name, at)
    method = method or ("replications" if len(sim.batches) > 1 else "batches")
    if method not in METHODS:
        near = get_close_matches(str(method), METHODS, 1, 0)
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}; nearest: {near[0]}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}")
    if method == "cycles":
        return _by_cycles(sim, name, level)
    if method == "batches" and name in COUNTED:
        raise ValueError(
            f"{name} is counted for whole replications: its interval needs method='replications' and two of them"
        )
    units = _units(sim, method)
    if len(units.fields) < 2:
        raise ValueError("one replication gives no interval by replications: simulate more, or say method='batches'")
    total = _sum(units)
    if other is not None:
        others = _units(other, method)
        values = [
            g(sim, _left(total, units, i), at) - g(other, _left(_sum(others), others, i), at)
            for i in range(len(units.fields))
        ]
        return Estimate(_plain(g(sim, total, at) - g(other, _sum(others), at)), _half_width(values, level), level)
    beta = _beta(sim, g, at) if control else np.zeros(2)

    def controlled(total):
        return g(sim, total, at) - beta @ _controls(sim, total)  # (3)

    values = [controlled(_left(total, units, i)) for i in range(len(units.fields))]
    return Estimate(_plain(controlled(total)), _half_width(values, level), level)


def value(sim, name: str, at=None):
    """The value alone."""
    return _plain(_quantity(sim, name, at)(sim, _sum(_units(sim, "replications")), at))


def quantile(counts, q, lowest: int):
    """The q-quantile of a histogram, q in [0, 1] of any shape; bins are 1/64 to 1/128 wide relative to their start."""
    q = np.asarray(q, float)
    if not np.all((0 <= q) & (q <= 1)):
        raise ValueError(f"a quantile needs 0 <= q <= 1, not {q!r}")
    edges, cumulated = _edges(len(counts), lowest), np.cumsum(counts)
    goal = q * cumulated[-1]
    b = np.minimum(np.searchsorted(cumulated, goal), len(counts) - 1)
    share = (goal - (cumulated[b] - counts[b])) / np.maximum(counts[b], 1)
    return np.where(b == 0, 0.0, edges[b] + share * (edges[b + 1] - edges[b]))[()]


def tail(counts, x, lowest: int):
    """P(. > x) from a histogram, x >= 0 of any shape."""
    x = np.asarray(x, float)
    if not np.all(x >= 0):
        raise ValueError(f"a time must be >= 0, not {x!r}")
    edges, above = _edges(len(counts), lowest), np.cumsum(counts[::-1])[::-1]
    b = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(counts) - 1)
    share = np.where(b == 0, 1.0, np.clip((x - edges[b]) / (edges[b + 1] - edges[b]), 0, 1))
    return ((above[b] - share * counts[b]) / above[0])[()]


def warnings(sim, goal: float | None, advised: int) -> tuple[str, ...]:
    """Sentences on what makes a simulation doubtful."""
    said, system = [], sim.system
    stable, many = system.rate < system.max_rate, len(sim.batches) > 1
    if not sim.complete:
        said.append(f"stopped early: {sim.jobs:.3g} jobs were counted")
    if sim.batches.shape[0] * sim.batches.shape[1] > 1:
        response = estimate(sim, "mean_response")
        share = response.half_width / response.value
        if goal is not None and share > goal and sim.complete:
            need = sim.jobs * (share / goal) ** 2
            said.append(
                f"the mean response is known to {share:.2%}, not to {goal:.2%}: that would take about {need:.1g} jobs"
            )
        if share > 0.1:
            said.append(f"the run is too short: the mean response is known to {share:.0%} only")
    if stable and sim.warmup < 0.99 * advised:
        said.append(f"the warm-up of {sim.warmup} jobs is shorter than the advised {advised}: the means may be too low")
    for law in dict.fromkeys(system.laws):
        fourth, second = law.moment(4), law.moment(2)
        if second == np.inf:
            said.append(
                f"{law!r} has an infinite second moment: so may the mean wait be, and no interval is to be trusted"
            )
        elif fourth == np.inf or (fourth / second**2 - 1) / sim.jobs > 0.1**2:
            said.append(f"{law!r} has so heavy a tail that {sim.jobs:.3g} jobs do not fix its second moment to 10 %")
    if stable and abs(off := value(sim, "littles_law") - 1) > 0.02:
        said.append(f"Little's law is off by {off:+.1%}: what is in the system at the ends of the run weighs too much")
    if stable and many:
        used = estimate(sim, "utilisation")
        due = system.loads @ system.speed / system.speed.sum() if isinstance(system.policy, Cutoffs) else system.load
        if abs(used.value - due) > max(4 * used.half_width, 0.002):
            said.append(f"the run is too short: the utilisation is {used.value:.4f}, and ought to be {due:.4f}")
    if many and sim.complete and sim.batches.shape[1] > 1:
        early, late = (_jobs(half) for half in np.array_split(sim.batches, 2, axis=1))
        if np.all(late > early) and np.mean(late / early) > 1.3:
            said.append(
                f"the number in the system still grows, from {early.mean():.3g} to {late.mean():.3g}: unstable, or too"
                f" short (rate = {system.rate:g} against a bound of {system.max_rate:.6g})"
            )
    return tuple(said)


def _jobs(batches):
    """Jobs in the system, a time average for each replication."""
    sums = batches.sum(axis=1)
    return sums[:, FIELDS.index("area")] / sums[:, FIELDS.index("time")]


def _quantity(sim, name, at):
    if name not in QUANTITIES:
        near = get_close_matches(str(name), QUANTITIES, 1, 0)
        raise ValueError(f"there is no quantity {name!r}, only {', '.join(QUANTITIES)}; nearest: {near[0]}")
    if name.startswith(("wait_t", "wait_q", "response_")) and at is None:
        raise ValueError(f"{name} needs at=..., a probability or a time")
    if name in BY_SERVER and not sim.visits.size:
        raise ValueError(f"{name} is kept for at most 1000 servers, not for {sim.system.servers}")
    if name in CONTENT and not sim.batches[:, :, FIELDS.index("idle")].any():
        raise ValueError(f"{name} needs Poisson arrivals, one law of the size, at most 64 servers, and no TAGS")
    if name == "mean_jobs_by_identity" and isinstance(sim.system.policy, Cutoffs):
        raise ValueError(f"{name} needs a policy for which the size of a job has no say, not {sim.system.policy.name}")
    return QUANTITIES[name]


def _units(sim, method) -> Totals:
    if method == "batches":
        fields = sim.batches.reshape(-1, len(FIELDS))
        fields = fields[fields[:, 0] > 0]
        none = np.zeros((len(fields), 0))
        return Totals(fields, none, none, none, np.zeros((len(fields), 0, 3)))
    return Totals(sim.batches.sum(axis=1), sim.tails, sim.waits, sim.responses, sim.visits)


def _sum(units) -> Totals:
    return Totals(*(part.sum(axis=0) for part in units))


def _left(total, units, i) -> Totals:
    return Totals(*(whole - part[i] for whole, part in zip(total, units, strict=True)))


def _half_width(values, level):
    """(1)."""
    values, n = np.array(values), len(values)
    spread = (n - 1) / n * ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    return _plain(stdtrit(n - 1, (1 + level) / 2) * np.sqrt(spread))


def _controls(sim, total):
    """Mean gap and mean size less their expectations, (2,)."""
    size = total.size / total.jobs - sim.system.laws[0].mean if len(sim.system.laws) == 1 else 0.0
    return np.array([total.time / total.jobs - sim.system.gap.mean, size])


def _beta(sim, g, at):
    """Regression of the pseudo-values of the batches on their controls, (2,)."""
    units = _units(sim, "batches")
    total, n = _sum(units), len(units.fields)
    rest = [_left(total, units, i) for i in range(n)]
    pseudo = n * g(sim, total, at) - (n - 1) * np.array([g(sim, left, at) for left in rest])
    controls = np.array([_controls(sim, Totals(*(part[i] for part in units))) for i in range(n)])
    return np.linalg.lstsq(np.column_stack([np.ones(n), controls]), pseudo)[0][1:]


def _by_cycles(sim, name, level) -> Estimate:
    """(2)."""
    if name not in ("mean_wait", "mean_response"):
        raise ValueError(f"cycles are kept for mean_wait and mean_response, not for {name}")
    C, n, w, r, nn, ww, rr, nw, nr = sim.cycles.sum(axis=0)
    if C < 30:
        raise ValueError(f"the system emptied {int(C)} times only; intervals by cycles need 30")
    y, yy, ny = (w, ww, nw) if name == "mean_wait" else (r, rr, nr)
    ratio = y / n
    spread = C / (C - 1) * max(yy - 2 * ratio * ny + ratio**2 * nn, 0.0)
    return Estimate(float(ratio), float(stdtrit(C - 1, (1 + level) / 2) * np.sqrt(spread) / n), level)


def _plain(number):
    return number if np.ndim(number) else float(number)


def _edges(bins, lowest):
    return ((lowest + np.arange(bins + 1)) << kernels.FRACTION).view(float)
