"""Mean-field fixed point of any ranking policy, for any job law: one queue among infinitely many.

N servers of unit speed, Poisson arrivals at rate lam N, each inspecting d servers. As N grows, one server (the queue
at the cavity) sees arrivals at a rate lambda(k, l) that depends on what it would report, and this rate depends in
turn on the law of all servers. The fixed point of the two maps is the answer (Hellemans and Van Houdt, arXiv
2011.08250).

==========  ==========================================================  =============
symbol      name                                                        shape
==========  ==========================================================  =============
lam, rho    arrival rate per server; load rho = lam E[X] < 1
x(k, l)     occupancy: P(layer k, length l), k = 1..r+1, l >= 1         (L, r+1)
U, V        mass of the busy states of rank >= v, > v
lambda      arrival rate seen in (k, l)                                 (L, r+1)
Fbar        survival function of the job size; F2(a) = int_a^inf Fbar
y_l(a)      pure-birth state: level l at age a, given no completion
E_l(a)      exp(-int_0^a lambda(., l)): no arrival up to age a
v(l)        rate at which services start at level l
Lam         uniformisation rate lam E[d], a bound of every lambda
==========  ==========================================================  =============

Map H, occupancy to rates; U^d - V^d is divided by U - V in the sum, never by subtraction::

    lambda(k, l) = lam sum_{i<d} U^i V^{d-1-i},    v = xi(k, l)                                       (1)

so that a job waits with probability rho^d under every policy. Map T, rates to occupancy. Arrivals ignore the phase of
the service, so the law enters only through its survival function::

    x(k, l) = int_{layer k} y_l(a) Fbar(a) da,    y_l' = lambda(k, l-1) y_{l-1} - lambda(k, l) y_l    (2)

Inside a sublayer of width D, y is uniformised at Lam::

    u_{n+1} = u_n P,    y(c + D) = sum_n p_n u_n,    x = sum_n w_n u_n                                (3)
    p_n = Pois(n; Lam D)                                                                              (4)
    w_n = int_0^D Pois(n; Lam s) Fbar(c + s) ds                                                       (5)

The last layer is solved through the resolvent for acyclic phase-type laws, Y_l (lambda_l - A) = y_l(c_r) alpha e^{A
c_r} + lambda_{l-1} Y_{l-1} (6a), for any other law by Radau collocation of (2) on age cells that grow geometrically
(6b). No stationary equations are solved: what goes up to level l+1 comes down, so that with v(1) = 1::

    y_l = v(l) E_l + g_l,    g_l driven by y_{l-1}, g_l(0) = 0                                        (7)
    v(l) = sum_k lambda x_g / (1 - sum_k lambda x_E)                                                  (8)
    x(., l) = v(l) x_E + x_g                                                                          (9)

level by level, until the flow upwards is negligible. Where ranks ignore the length (LAS, RE, random, JIQ), x(k) and
with it lambda(k) are known at once, and with L(a) = int_0^a lambda ::

    E[W] = int L Fbar da + E[X] (1 - rho^d)^{-1} int lambda L Fbar da                                 (10)

What lies above the last level L is at most, with r_k >= lambda(k, l) for l >= L and
R = sum_k r_k int_{layer k} Fbar < 1::

    sum_k int lambda(k, L) y_L F2 da (1 + max_k r_k / (1 - R) E[X])                                   (11)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from math import comb, inf, isfinite

import numpy as np

from lbkit import kernels, waits
from lbkit.jobs import Law
from lbkit.policies import Policy
from lbkit.quadrature import Server, second_excess
from lbkit.results import MeanField

ROUNDING = 1e-13  # below it an iteration that gains nothing ends
DEPTH = 3  # of Anderson acceleration


def solve(
    lam: float, job, policy: Policy, *, tol: float = 1e-12, accelerate: bool = True, start: MeanField | None = None,
    max_iterations: int = 20_000, max_levels: int | None = None,
) -> MeanField:  # fmt: skip
    """Stationary law of one server in the limit of many, and the waiting time of a job.

    lam             arrival rate per server, per unit time, 0 < lam E[X] <= 0.999
    job             any law of ``lbkit.jobs``
    policy          any Policy with a finite number of sampled servers
    tol             permitted error of x (L1) and of E[W] (relative), the contraction rate accounted for
    accelerate      Anderson acceleration; off for the plain iteration of the paper
    start           a result nearby, of the same layers, to start from; default: the empty system
    max_levels      longest queue; default 4096, or 256 without a second moment, where it may have a heavy tail

    Raises ValueError for inputs outside these ranges, and where the answer does not exist (infinite E[W]) or was not
    reached (the sentence tells how far it came).
    """
    return _solve(lam, job, policy, *_prepared(lam, job, policy), tol, accelerate, start, max_iterations, max_levels)


def _prepared(lam, job, policy):
    """What solves at arrival rates up to ``lam`` share: the quadrature, and the rank table for so many lengths.

    With a table goes whether it ignores the length, which makes the rates known at once.
    """
    _load(lam, job)
    if not isinstance(policy, Policy) or policy.d is None:
        name = getattr(policy, "name", policy)
        raise ValueError(f"the mean-field limit needs a ranking policy with finitely many sampled servers, not {name}")

    @cache
    def ranks(lengths):
        place = policy.table(lengths, job)
        return place, policy.mean_d == 1 or bool(np.all(place == place[0]))

    return Server(job, policy.layers, lam * policy.mean_d), ranks


def _solve(
    lam, job, policy, server, ranks, tol=1e-12, accelerate=True, start=None, max_iterations=20_000, max_levels=None
):
    rho = _load(lam, job)
    if not 0 < tol < 1:
        raise ValueError(f"tol must lie in (0, 1), not {tol!r}")
    if start is not None and len(start.joint) != len(policy.layers) + 1:
        raise ValueError(f"start has {len(start.joint) - 1} layers, {policy.name} has {len(policy.layers)}")
    if max_levels is None:
        max_levels = 2**12 if isfinite(job.scv) else 2**8
    sampled, chances = (np.array(column) for column in zip(*policy.d))
    x = np.zeros((8, len(policy.layers))) if start is None else start.joint[1:, 1:].T * (rho / (1 - start.joint[0, 0]))

    def rates_at(x):
        return by_layer.repeat(len(x), axis=0) if known else kernels.arrival_rates(place, x, lam, sampled, chances)

    place, known = ranks(len(x))
    if known:
        by_layer = kernels.arrival_rates(place[:1], rho * server.shares[None, :], lam, sampled, chances)
        exact_wait = _wait_by_layer(by_layer[0], rho, policy, server)
    anderson, changes, goal = _Anderson(accelerate, x.shape), [], tol
    while True:
        rates = rates_at(x)
        image, levels, flow, *last = server.occupancy(rates)
        if flow == inf:
            raise ValueError(f"{policy.name} piles jobs up at lam = {lam}: lengths grow without bound; lower lam")
        if flow > 0 and len(x) < max_levels:
            more = min((4 if known else 2) * len(x), max_levels) - len(x)
            x = np.vstack([x, np.zeros((more, x.shape[1]))])
            place, known = ranks(len(x))
            anderson = _Anderson(accelerate, x.shape)
            continue
        if flow > 0 and not known:
            raise ValueError(
                f"the queue length of {policy.name} at lam = {lam} has a heavy tail: the flow into level {levels + 1} "
                f"is still {flow:.1e} of that into level 2; lower lam, or raise max_levels above {max_levels}"
            )
        scale = rho / image.sum()
        image *= scale
        if known:
            changes, error = [0.0], 0.0
            break
        distance, gained, waiting = kernels.change(x, image)
        changes.append(distance)
        error = max(distance / rho, abs(gained) / max(waiting, 1e-300))
        stalled = error < ROUNDING and changes[-1] > 0.5 * min(changes[-2:-1], default=inf)
        if error < goal and (len(changes) > 1 or start) or stalled:
            rate = _contraction(lambda y: server.image(rates_at(y), rho), x, image, anderson.direction(x, image))
            goal = tol * (1 - rate)
            if error < goal or stalled:
                error /= 1 - rate
                break
        if len(changes) >= max_iterations:
            raise ValueError(
                f"the fixed point of {policy.name} at lam = {lam} was not reached in {max_iterations} iterations: "
                f"the last changed it by {error:.1e} > {goal:.1e}; raise max_iterations or tol"
            )
        x = anderson.step(x, image, levels, rho)
    idle_rate = lam * (1 - _delayed(rho, policy)) / (1 - rho)
    return MeanField(
        lam=lam, job=job, policy=policy, joint=_with_idle(image[:levels], 1 - rho),
        rates=_with_idle(rates[:levels], idle_rate), iterations=len(changes), residual=changes[-1], error=error,
        changes=np.array(changes), exact_wait=exact_wait if known else None,
        tails=partial(waits.tails, job, server, rates[:levels], lam),
        bound=partial(_mass_above, server, rates[:levels], np.all(np.diff(place, axis=0) >= 0), last, scale),
    )  # fmt: skip


def sweep(lams, job, policy: Policy, **options) -> list[MeanField]:
    """``solve`` at each arrival rate of ``lams`` (per server, per unit time), each started from the one before."""
    return list(_sweep(lams, job, policy, options))


def _sweep(lams, job, policy, options):
    lams, result = [float(lam) for lam in lams], None
    shared = _prepared(max(lams), job, policy) if lams else ()
    for lam in lams:
        result = _solve(lam, job, policy, *shared, start=result, **options)
        yield result


def compare(lams, job, policies, baseline: Policy, **options) -> dict[str, list]:
    """Tidy columns policy, lam, mean_wait, improvement: a row for each policy and load.

    policies  a sequence, or {label: policy} to name the rows
    baseline  the improvement is relative to it at the same load, (E[W]_base - E[W]) / E[W]_base
    """
    labelled = policies if isinstance(policies, Mapping) else {policy.name: policy for policy in policies}

    def waits(policy):
        return [r.mean_wait for r in _sweep(lams, job, policy, options)]

    base = waits(baseline)
    rows = [
        (label, float(lam), wait, 1 - wait / reference)
        for label, policy in labelled.items()
        for lam, reference, wait in zip(lams, base, base if policy is baseline else waits(policy))
    ]
    return dict(zip(("policy", "lam", "mean_wait", "improvement"), map(list, zip(*rows))))


def mean_ties(result: MeanField, d: int) -> float:
    """Mean number of shortest queues among d sampled servers that are all busy (paper, equation 21)."""
    u = np.append(result.queue_tail[1:], 0.0)
    p, above = u[:-1] - u[1:], u[1:]
    return sum(k * comb(d, k) * (p**k * above ** (d - k)).sum() for k in range(1, d + 1)) / u[0] ** d


class _Anderson:
    """Anderson acceleration of x = T(H(x)) in its last few steps, from the third step on."""

    def __init__(self, on, shape):
        self.on, self.known = on, 0
        self.points, self.images = np.empty((2, DEPTH + 1, *shape))

    def step(self, x, image, levels, rho):
        newest, self.known = self.known % (DEPTH + 1), self.known + 1
        self.points[newest], self.images[newest] = x, image
        if not self.on or self.known < 3:
            return image
        mixed = kernels.mix(self.points, self.images, newest, min(self.known - 1, DEPTH), levels)
        return mixed * (rho / mixed.sum())  # summed pairwise: rounding would be seen

    def direction(self, x, image):
        """The last step, a good guess of the slowest direction."""
        return image - (self.points[(self.known - 1) % (DEPTH + 1)] if self.known else x)


def _contraction(image_of, x, image, direction, steps=4, size=1e-6):
    """Estimated contraction rate of the map near its fixed point, by a few steps of the power method from x."""
    rate = 0.0
    for _ in range(steps):
        moved = np.maximum(x + direction * (size / max(np.abs(direction).sum(), 1e-300)), 0.0)
        distance, direction = np.abs(moved - x).sum(), image_of(moved) - image
        rate = np.abs(direction).sum() / max(distance, 1e-300)
    return min(rate, 0.9999)


def _load(lam, job):
    if not isinstance(job, Law):
        raise ValueError(f"job must be a law of lbkit.jobs, not {job!r}")
    rho = lam * job.mean
    if not 0 < rho <= 0.999:
        raise ValueError(f"lam must lie in (0, {0.999 / job.mean:g}] (a load of at most 0.999), not {lam!r}")
    return rho


def _delayed(rho, policy):
    """P(W > 0), the same whatever the ranking."""
    return sum(p * rho**d for d, p in policy.d)


def _wait_by_layer(rate, rho, policy, server):
    """Mean wait (10) for ranks that ignore the length."""
    job, lower = server.job, server.layers.lower
    age = server.nodes - lower[server.layer_of_piece][:, None]  # since the start of the layer
    moment = server.by_layer(server.survival * age, second_excess(job, lower[-1]) if rate[-1] > 0 else 0.0)
    if not isfinite(moment[-1]):
        raise ValueError(f"E[W] is infinite: {job!r} has no second moment and {policy.name} ignores the queue length")
    before = np.append(0.0, np.cumsum(rate[:-1] * np.diff(lower)))  # L at the lower edges
    area = before * job.mean * server.shares + rate * moment  # int L Fbar over each layer
    return float(area.sum() + job.mean * (rate @ area) / (1 - _delayed(rho, policy)))  # (10)


def _mass_above(server, rates, monotone, last, scale):
    """Bound (11) of the mass above the last level; inf where the law has no second moment or (11) does not apply."""
    job, beyond = server.job, rates[-1] if monotone else np.full_like(rates[-1], server.Lam)
    busy = job.mean * (beyond @ server.shares)
    if busy >= 1:
        return inf
    return float(scale * server.area(rates[-1], *last) * (1 + beyond.max() * job.mean / (1 - busy)))


def _with_idle(busy, idle):
    """Array with the paper's indices [k, l], the idle state at [0, 0]."""
    whole = np.zeros((busy.shape[1] + 1, busy.shape[0] + 1))
    whole[0, 0], whole[1:, 1:] = idle, busy.T
    return whole


