"""The dense method of Hellemans and Van Houdt (arXiv 2011.08250, section 4) and classical closed forms. No lbkit here.

dense_*    states (layer k, length l, phase j); the chain is observed at the ages c_0..c_r. Cost O(r m^3 B^3)
atoms_map  the same for services of finitely many sizes: the chain of the lengths at the starts of service
mg1_*      one server with a Poisson stream of arrivals
"""

import numpy as np
from scipy.linalg import expm
from scipy.special import factorial
from scipy.stats import poisson


def hyperexponential(scv, f, k=1):
    """(alpha, A) of MErlang(scv, f, k) with unit mean; k = 1 is HEXP(scv, f)."""
    fit = 2 * (scv + 1) / (1 + 1 / k) - 1
    g = 1 - f
    root = np.sqrt((fit - 1) * (fit - 1 + 8 * f * g))
    mu = (fit + 4 * f - 1 + root) / (2 * f * (fit + 1)), (fit + 4 * g - 1 - root) / (2 * g * (fit + 1))
    alpha, A = np.zeros(2 * k), np.zeros((2 * k, 2 * k))
    alpha[0], alpha[k] = mu[0] * f, 1 - mu[0] * f
    for branch in (0, 1):
        for i in range(branch * k, branch * k + k):
            A[i, i] = -k * mu[branch]
            if i + 1 < branch * k + k:
                A[i, i + 1] = k * mu[branch]
    return alpha, A


def dense_map(rates, edges, alpha, A, lam):
    """Stationary law pi[k, l, j] (busy part sums to lam) for arrival rates[k, l], l = 1..B; arrivals stop at l = B."""
    rates = np.array(rates, dtype=float)
    layers, B = rates.shape
    m = len(alpha)
    rates[:, -1] = 0
    D = np.eye(B, k=-1)
    D[0, 0] = 1
    G = np.kron(D, np.outer(-A @ np.ones(m), alpha))
    identity = np.eye(m * B)
    propagate, stay = [], []
    widths = np.diff([0.0, *edges])
    for k in range(layers):
        F = np.kron(np.diag(-rates[k]) + np.diag(rates[k, :-1], 1), np.eye(m)) + np.kron(np.eye(B), A)
        step = expm(F * widths[k]) if k < layers - 1 else np.zeros_like(F)
        propagate.append(step)
        stay.append((identity - step) @ np.linalg.inv(-F))
    cycle = stay[-1] @ G
    for k in range(layers - 2, -1, -1):
        cycle = stay[k] @ G + propagate[k] @ cycle
    system = np.vstack([(cycle - identity).T, np.ones(m * B)])
    start = np.linalg.lstsq(system, np.append(np.zeros(m * B), 1.0), rcond=None)[0]
    law = []
    for k in range(layers):
        law.append((start @ stay[k]).reshape(B, m))
        start = start @ propagate[k]
    law = np.array(law)
    return lam * law / law.sum()


def dense_rates(x, xi, lam, d):
    """Arrival rates from occupancy x[k, l] and ranks xi[k, l], by the definition of U and V."""
    rates = np.empty_like(x)
    for state in np.ndindex(*x.shape):
        U, V = x[xi >= xi[state]].sum(), x[xi > xi[state]].sum()
        rates[state] = lam * sum(U**i * V ** (d - 1 - i) for i in range(d))
    return rates


def dense_solve(xi, edges, alpha, A, lam, d, B, tol=1e-13, iterations=5000):
    """Plain fixed-point iteration from the empty system; xi(k, l) on integers. Returns pi[k, l, j]."""
    ranks = np.array([[xi(k, l) for l in range(1, B + 1)] for k in range(1, len(edges) + 2)], dtype=float)
    pi = np.zeros((*ranks.shape, len(alpha)))
    for _ in range(iterations):
        new = dense_map(dense_rates(pi.sum(axis=2), ranks, lam, d), edges, alpha, A, lam)
        if np.abs(new - pi).sum() < tol:
            return new
        pi = new
    raise RuntimeError("the dense method did not converge")


def mitzenmacher_tail(lam, d, length):
    """P(Q >= i) of SQ(d) with exponential sizes, i = 0..length-1."""
    exponent = np.arange(length) if d == 1 else (d ** np.arange(length, dtype=float) - 1) / (d - 1)
    return lam**exponent


def dense_waits(pi, rates, alpha, A, lam, w, services):
    """P(W > w) for services = 0, P(R > w) for services = 1, from the phase and the length at the join."""
    m = len(alpha)
    joins = (pi * rates[:, :, None]).sum(axis=0) / lam
    if services:
        joins = np.vstack([(1 - joins.sum()) * alpha, joins])
    n = len(joins)
    generator = np.kron(np.eye(n), A) + np.kron(np.eye(n, k=-1), np.outer(-A.sum(axis=1), alpha))
    return np.array([joins.ravel() @ expm(generator * t) @ np.ones(n * m) for t in w])


def atoms_map(rates, edges, values, probabilities, lam):
    """Stationary law x[k, l] (sums to lam) for arrival rates[k, l], l = 1..B, and services of the given sizes."""
    rates, values, probabilities = np.array(rates, dtype=float), np.asarray(values), np.asarray(probabilities)
    rates[:, -1] = 0
    layers, B = rates.shape
    edges, age = np.asarray(edges, dtype=float), 0.0
    grown, stay, finish = np.eye(B), np.zeros((layers, B, B)), np.zeros((B, B))
    for stop in np.unique([*values, *edges[edges < max(values)]]):
        k = np.searchsorted(edges, age, side="right")
        births = np.diag(-rates[k]) + np.diag(rates[k, :-1], 1)
        step = expm(np.block([[births, np.eye(B)], [np.zeros((B, 2 * B))]]) * (stop - age))
        stay[k] += probabilities[values > age].sum() * grown @ step[:B, B:]
        grown = grown @ step[:B, :B]
        finish += probabilities[values == stop].sum() * grown
        age = stop
    completion = np.eye(B, k=-1)
    completion[0, 0] = 1
    system = np.vstack([(finish @ completion - np.eye(B)).T, np.ones(B)])
    law = np.linalg.lstsq(system, np.append(np.zeros(B), 1.0), rcond=None)[0] @ stay
    return lam * law / law.sum()


def quadrature(quantile, cuts=(), nodes=12):
    """Sizes and probabilities that stand for the law quantile(u), u uniform; smooth but at u = 0, 1 and ``cuts``."""
    t, g = np.polynomial.legendre.leggauss(nodes)
    ends = np.unique([0, *cuts, *0.5 ** np.arange(1, 46), *1 - 0.5 ** np.arange(2, 46), 1])
    u = ends[:-1, None] + np.diff(ends)[:, None] * (1 + t) / 2
    return quantile(u.ravel()), (np.diff(ends)[:, None] * g / 2).ravel()


def pollaczek_khinchine(lam, mean, second):
    """E[W] of M/G/1."""
    return lam * second / (2 * (1 - lam * mean))


def mg1_lengths(rho, arrivals):
    """P(Q = n) of M/G/1, n = 0..N-1, from P(A = n), A the arrivals during one service: the chain at departures."""
    above = 1 - np.cumsum(arrivals)
    law = [1 - rho]
    for n in range(len(arrivals) - 1):
        law.append((law[0] * above[n] + sum(law[k] * above[n + 1 - k] for k in range(1, n + 1))) / arrivals[0])
    return np.array(law)


def arrivals_in_phases(lam, alpha, A, length):
    """P(A = n), n = 0..length-1, for phase-type services."""
    waits = np.linalg.inv(lam * np.eye(len(alpha)) - A)
    return np.array([alpha @ np.linalg.matrix_power(lam * waits, n) @ waits @ -A.sum(axis=1) for n in range(length)])


def arrivals_in_atoms(lam, values, probabilities, length):
    """P(A = n), n = 0..length-1, for services of the given sizes."""
    return poisson.pmf(np.arange(length)[:, None], lam * np.asarray(values)) @ probabilities


def md1_wait_tail(lam, w):
    """P(W > w) of M/D/1 with services of length one (Erlang, Crommelin); the sum alternates, so w <= 10."""
    k = np.arange(int(w) + 1)
    return 1 - (1 - lam) * (np.exp(lam * (w - k)) * (lam * (k - w)) ** k / factorial(k)).sum()


def mph1_wait_tail(lam, alpha, A, w):
    """P(W > w) of M/PH/1: a geometric sum of residual services, again of phase type."""
    busy = lam * np.linalg.solve(-A.T, alpha)
    return busy @ expm((A + np.outer(-A.sum(axis=1), busy)) * w) @ np.ones(len(alpha))


def mg1_wait_tail(lam, mean, survival, w, points=2000):
    """P(W > .) of M/G/1 at w i / points, i = 0..points: the renewal equation by the trapezoid rule, second order."""
    residual = lam * survival(np.linspace(0, w, points + 1)) * w / points
    beyond = lam * mean - np.append(0, np.cumsum((residual[1:] + residual[:-1]) / 2))
    tail = beyond[:1]
    for i in range(1, points + 1):
        inner = residual[1:i] @ tail[:0:-1] + residual[i] * tail[0] / 2
        tail = np.append(tail, (beyond[i] + inner) / (1 - residual[0] / 2))
    return tail
