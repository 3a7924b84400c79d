"""Exact laws of small exponential systems: queues that join the shortest of c candidates, and one renewal-fed server.

One idea: write the state as (m, d), m the shortest queue and d the excesses over it. An event changes m by at most one
and rates see m only through m = 0, so this is a quasi-birth-death process. Where the queues collapse its levels soon
shrink by the constant factor rho^K: a few dozen levels closed by that factor replace the thousands a box would need.

symbol   name                                                     shape, unit
mu, M    service rates and their sum                              (K,), per unit time
lam      arrival rate rho M                                       per unit time
m, d     level and phase: min d = 0, max d <= B                   whole, (K,)
H, L, D  rates that raise, keep, lower the level                  (P, P), per unit time
pi_m     P(level m, phase .), m < N                               (P,)
I        idle capacity, sum mu_k 1(Q_k = 0)                       per unit time

(1)  P(C) = sum over S in C of (-1)^|C - S| F(S)                  law of the set C of distinct candidates
(2)  pi_{m-1} H + pi_m L + pi_{m+1} D = 0                         L with the diagonal; no D out of level 0
(3)  pi_{m+1} = eta pi_m for m >= N - 1, eta = rho^K              closure
(4)  E[I] = M - lam  and  E[Q] = rho/(1 - rho) + E[Q I]/E[I]      exact, and not used by (2): they measure (3)
(5)  (B + 1/(1 - r)) P(max d = B)/(1 - r)                         excess cut off, P(max d = j) decaying like r^j
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, gmres, splu

from lbkit.balanced import _one_of, _open_load, inclusion, max_load
from lbkit.results import ExactChain, Imbalance

TIES = ("uniform", "proportional", "first")


def exact_chain(rates, rho: float, c: int = 2, scheme: str = "sum", ties: str = "uniform", *, tol: float = 1e-9,
                max_states: int = 600_000) -> ExactChain:
    """Stationary law of K exponential servers, Poisson arrivals, every job joining the shortest of its c candidates.

    rates (K,) per unit time; among the distinct shortest candidates a job joins each alike ("uniform"), in proportion
    to mu ("proportional") or the lowest index ("first"). Levels and phases are added until the estimated error of E[Q],
    (4) plus (5), is at most tol * E[Q]; meant for K = 2 and 3. ValueError if rho >= rho*, or where that would take more
    than max_states states N P.
    """
    limit = max_load(rates, c, scheme)
    if not 0 < rho < limit.load:
        raise ValueError(f"rho is {rho}; a stationary law needs 0 < rho < {limit.load:.6g}, where servers "
                         f"{list(limit.bottleneck)} fill up")
    _one_of("ties", ties, TIES)
    mu, eta, K = limit.rates, float(rho) ** len(limit.rates), len(limit.rates)
    N, B = 16, 16
    while (states := N * ((B + 1.0) ** K - float(B) ** K)) <= max_states:
        phases = _phases(K, B)
        blocks = _blocks(phases, mu, rho * mu.sum(), _join(phases, limit, ties))
        law, iterations, residual = _stationary(*blocks, N, eta, K)
        chain = ExactChain(mu, float(rho), limit.c, scheme, ties, phases, law, eta, iterations, residual, np.nan)
        closure = (abs(chain.mean_queue - rho / (1 - rho) - chain.kappa)
                   + chain.mean_queue * abs(chain.idle_rate / (mu.sum() * (1 - rho)) - 1))  # (4)
        excess = np.bincount(phases.max(axis=1), chain.phase_law)
        span = 1 / (1 - _decay(excess)) if K > 1 else 0.0
        cut = (B + span) * abs(excess[-1]) * span  # (5)
        if closure + cut <= tol * chain.mean_queue:
            return replace(chain, truncation=float(closure + cut))
        if cut > 0.5 * tol * chain.mean_queue:
            B += _missing(2 * cut / (tol * chain.mean_queue), excess, B)
        else:
            N += _missing(2 * closure / (tol * chain.mean_queue), np.abs(law[1:] - eta * law[:-1]).sum(axis=1), N)
    raise ValueError(f"an error of {tol:g} E[Q] needs {states:.2g} states and max_states is {max_states}: take a "
                     "smaller rho or a larger tol (c = 1 is K separate M/M/1 queues and needs no chain)")


def _decay(sizes: np.ndarray) -> float:
    """Rate r of sizes[j] ~ r^j in the third quarter of the range."""
    low, high = len(sizes) // 2, 3 * len(sizes) // 4
    first, last = np.maximum(np.abs(sizes[[low, high]]), 1e-300)
    return float(np.clip((last / first) ** (1 / (high - low)), 0.01, 0.999))


def _missing(excess: float, sizes: np.ndarray, size: int) -> int:
    """How many more terms make an error `excess` times smaller, at the rate the sizes decay."""
    return int(np.clip(np.ceil(-1.2 * np.log(excess) / np.log(_decay(sizes))), size // 8, 16 * size))


def _phases(K: int, B: int) -> np.ndarray:
    """All excesses (P, K) with minimum 0 and maximum at most B, in lexicographic order."""
    rest = np.array(list(np.ndindex((B + 1,) * (K - 1))), int)
    return np.unique(np.concatenate([np.insert(rest, k, 0, axis=1) for k in range(K)]), axis=0)


def _join(phases: np.ndarray, limit, ties: str) -> np.ndarray:
    """P(an arrival joins server k | phase), (P, K)."""
    K = len(limit.rates)
    F = inclusion(limit.rates, limit.c, limit.scheme)
    chance = np.array([F(S) for S in range(1 << K)]).reshape((2,) * K)
    for axis in range(K):
        chance = np.stack([chance.take(0, axis), np.diff(chance, axis=axis).take(0, axis)], axis)  # (1)
    join = np.zeros(phases.shape)
    for C, p in enumerate(chance.ravel()):
        if p > 1e-15:
            among = (C >> np.arange(K) & 1).astype(bool)
            shortest = among & (phases == phases[:, among].min(axis=1, keepdims=True))
            if ties == "first":
                weight = shortest & (shortest.cumsum(axis=1) == 1)
            else:
                weight = shortest * (limit.rates if ties == "proportional" else 1.0)
            join += p * weight / weight.sum(axis=1, keepdims=True)
    return join


def _blocks(phases: np.ndarray, mu: np.ndarray, lam: float, join: np.ndarray):
    """Rates (P, P) between phases: H raises the level, L keeps it, L0 keeps it in level 0, D lowers it.

    A move beyond the bound B is made by the shortest queue (arrivals) or the longest (departures) instead, which leaves
    the law of the steps of Q, and so (4), untouched.
    """
    (P, K), B, unit = phases.shape, phases.max(), np.eye(phases.shape[1], dtype=int)
    base = (B + 2) ** np.arange(K)[::-1]
    moves = []
    for k in range(K):
        arrival = (1, phases.argmin(axis=1), lam * join[:, k])
        departure = (-1, phases.argmax(axis=1), np.full(P, mu[k]))
        for step, instead, rate in (arrival, departure):
            after = phases + step * unit[k]
            busy = after.min(axis=1) >= 0
            beyond = np.ptp(after, axis=1) > B
            after[beyond] = (phases + step * unit[instead])[beyond]
            rise = after.min(axis=1)
            target = np.searchsorted(phases @ base, (after - rise[:, None]) @ base)
            moves.append((rise, busy, np.arange(P), target, rate))
    rise, busy, source, target, rate = map(np.concatenate, zip(*moves, strict=True))
    return [sparse.csr_array((rate[some], (source[some], target[some])), (P, P))
            for some in (rise == 1, rise == 0, (rise == 0) & busy, rise == -1)]


def _stationary(H, L, L0, D, N: int, eta: float, K: int) -> tuple[np.ndarray, int, float]:
    """Law (N, P) of (2) with the closure (3), the flow at state 0 replaced by pi_0(0) = 1 and then normalised.

    Factored for K < 3; else GMRES, preconditioned by one sweep up the levels that solves every level exactly.
    """
    P, scale = H.shape[0], float((H + L + D).sum(axis=1).max())
    H, L, L0, D = H / scale, L / scale, L0 / scale, D / scale
    inner = L - sparse.diags_array((H + L + D).sum(axis=1))
    levels = [L0 - sparse.diags_array((H + L0).sum(axis=1)), *[inner] * (N - 2), inner + eta * D]
    flow = (sparse.block_diag(levels) + sparse.kron(sparse.eye_array(N, k=1), H)
            + sparse.kron(sparse.eye_array(N, k=-1), D)).T.tocsr()  # (2), (3)
    flow.data[: flow.indptr[1]] = 0
    flow[0, 0] = 1.0
    start = np.zeros(N * P)
    start[0] = 1.0
    steps = []
    if K < 3:
        law = splu(flow.tocsc()).solve(start)
    else:
        block = {m: splu(flow[m * P:(m + 1) * P, m * P:(m + 1) * P].tocsc()) for m in (0, 1, N - 1)}
        up = H.T.tocsr()

        def sweep(flows):
            flows, x = flows.reshape(N, P), np.zeros((N, P))
            for m in range(N):
                x[m] = block[m if m in block else 1].solve(flows[m] - up @ x[m - 1] if m else flows[m])
            return x.ravel()

        law, _ = gmres(flow, start, M=LinearOperator(flow.shape, sweep), rtol=1e-13, atol=0.0, restart=150, maxiter=2,
                       callback=steps.append, callback_type="pr_norm")
    unbalanced = np.abs(flow @ law - start).max()
    law = law.reshape(N, P)
    mass = law.sum() + law[-1].sum() * eta / (1 - eta)
    if not unbalanced < 1e-10:
        raise ValueError(f"the linear system of {N * P} states stopped at a residual of {unbalanced:.2g}, not below "
                         "1e-10: take a smaller rho or a larger tol")
    return law / mass, len(steps), float(unbalanced / mass)


def imbalance(rates, c: int = 2, scheme: str = "sum", ties: str = "uniform") -> Imbalance:
    """Law of D = Q_1 - Q_2 for two exponential servers at load 1, far from empty: two-sided geometric.

    D > 0 grows at rate M f_1 + mu_2 and shrinks at rate M (1 - f_1) + mu_1, f_k = F({k}); D < 0 with 1 and 2 exchanged;
    `ties` as in `exact_chain`. ValueError unless there are two servers, or where no force balances them (c = 1).
    """
    limit, F = max_load(rates, c, scheme), inclusion(rates, c, scheme)
    _one_of("ties", ties, TIES)
    mu, M = limit.rates, limit.rates.sum()
    if len(mu) != 2:
        raise ValueError(f"there are {len(mu)} rates; the imbalance law is for 2 servers")
    if limit.margin <= 0:
        raise ValueError(f"the margin is {limit.margin:.4g}; the difference of the queues has a law only if it is "
                         "positive (c = 1 has no balancing force)")
    alone = np.array([F({0}), F({1})])
    tie = {"uniform": np.full(2, 0.5), "proportional": mu / M, "first": np.array([1.0, 0.0])}[ties]
    grow, shrink = M * alone + mu[::-1], M * (1 - alone) + mu
    first = (M * (alone + (1 - alone.sum()) * tie) + mu[::-1]) / shrink
    zero = 1 / (1 + (first * shrink / (shrink - grow)).sum())
    return Imbalance(mu, limit.c, scheme, ties, float(zero), zero * first, grow / shrink)


def renewal_queue(rho: float, arrivals, chance: float = 1.0) -> float:
    """E[Q] = rho/(1 - sigma) of an exponential server of load rho, renewal arrivals kept with probability `chance`.

    arrivals: a law of `lbkit.jobs`, of which only the shape matters. With service rate 1, sigma = A(1 - sigma), where
    thinning by p turns the transform A of the interarrival time into p A/(1 - (1 - p) A). chance = 1 is the pooled
    lower bound on E[Q] for exponential services, chance = p_k is server k under c = 1.
    """
    rho = _open_load(rho)
    if not 0 < chance <= 1:
        raise ValueError(f"chance is {chance}; it must be above 0 and at most 1")

    def excess(u):
        transform = float(arrivals.laplace(u * chance / (rho * arrivals.mean)))
        return 1 - u - chance * transform / (1 - (1 - chance) * transform)

    return float(rho / brentq(excess, 1e-5 * (1 - rho), 1.0, xtol=1e-15))
