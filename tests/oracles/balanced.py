"""Slow, obvious answers for balanced routing: enumeration, Euler steps, a box of queues, quadrature, differences."""

from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
from scipy.integrate import quad
from scipy.linalg import solve_banded
from scipy.sparse import coo_array
from scipy.sparse.linalg import spsolve
from scipy.stats import norm


def candidate_sets(rates, c, scheme):
    """{frozenset of distinct candidates: probability}, by running through every possible draw."""
    mu = [Fraction(float(r)).limit_denominator(10**6) for r in rates]
    total, K = sum(mu), len(mu)
    law = {}

    def add(servers, p):
        law[frozenset(servers)] = law.get(frozenset(servers), 0) + p

    if scheme == "with":
        for draw in product(range(K), repeat=c):
            p = Fraction(1)
            for k in draw:
                p *= mu[k] / total
            add(draw, p)
    elif scheme == "succ":
        for draw in permutations(range(K), c):
            p, left = Fraction(1), total
            for k in draw:
                p *= mu[k] / left
                left -= mu[k]
            add(draw, p)
    else:
        weight = {C: sum(mu[k] for k in C) if scheme == "sum" else Fraction(1) for C in combinations(range(K), c)}
        for C, w in weight.items():
            add(C, w / sum(weight.values()))
    return law


def inclusion(law, servers):
    """P(all candidates in `servers`)."""
    return sum(p for C, p in law.items() if C <= set(servers))


def fluid(rates, start, c, scheme, lam, until, step):
    """Euler steps of the fluid queues, ties broken by index in every step: they slide along the ties. (steps + 1, K)"""
    mu, q = np.array(rates, float), np.array(start, float)
    law = candidate_sets(rates, c, scheme)
    chance = {S: float(inclusion(law, S)) for n in range(len(mu) + 1)
              for S in map(frozenset, combinations(range(len(mu)), n))}
    path = [q]
    for _ in range(round(until / step)):
        above, flow = frozenset(), -mu
        for k in np.argsort(-q, kind="stable"):
            flow[k] += lam * (chance[above | {k}] - chance[above])
            above |= {k}
        q = np.maximum(q + step * flow, 0)
        path.append(q)
    return np.array(path)


def queues(rates, rho, c, scheme, ties, size):
    """E[Q_k] of exponential servers whose queues are blocked at `size`: one equation per state of the box."""
    mu, K = np.array(rates, float), len(rates)
    lam, law = rho * mu.sum(), candidate_sets(rates, c, scheme)
    states = list(product(range(size + 1), repeat=K))
    where = {q: i for i, q in enumerate(states)}
    source, target, rate = [], [], []

    def move(q, k, step, r):
        to = (*q[:k], q[k] + step, *q[k + 1:])
        if to in where:
            source.append(where[q])
            target.append(where[to])
            rate.append(r)

    for q in states:
        for k in range(K):
            if q[k]:
                move(q, k, -1, mu[k])
        for C, p in law.items():
            best = sorted(k for k in C if q[k] == min(q[j] for j in C))
            weight = {"uniform": [1.0] * len(best), "proportional": [mu[k] for k in best],
                      "first": [1.0] + [0.0] * (len(best) - 1)}[ties]
            for k, w in zip(best, weight, strict=True):
                if w:
                    move(q, k, 1, lam * float(p) * w / sum(weight))
    Q = coo_array((rate, (source, target)), (len(states),) * 2).tolil()
    Q.setdiag(-np.asarray(Q.sum(axis=1)).ravel())
    A = Q.T.tolil()
    A[0] = np.ones(len(states))
    law = spsolve(A.tocsc(), np.eye(1, len(states))[0])
    return law @ np.array(states)


def rbm_mean_from_zero(t, drift, variance):
    """Spitzer: E Z(t) = int_0^t E[X(u)^+]/u du, X free Brownian motion; u = v^2."""
    def positive_part(u):
        m, s = drift * u, np.sqrt(variance * u)
        return m * norm.cdf(m / s) + s * norm.pdf(m / s)
    return quad(lambda v: 2 * positive_part(v * v) / v, 0, np.sqrt(t), epsabs=1e-13, epsrel=1e-13)[0]


def rbm_expectation(f, t, drift, variance, top, cells=2000, steps=2000):
    """E f(Z(t)) on a grid of starts: u_t = drift u_x + variance u_xx/2, u_x(0) = 0, Crank-Nicolson. (grid, values)"""
    x = np.linspace(0, top, cells + 1)
    h, k = x[1], t / steps
    up, down = variance / (2 * h * h) + drift / (2 * h), variance / (2 * h * h) - drift / (2 * h)
    L = np.zeros((3, cells + 1))
    L[0, 1:], L[1], L[2, :-1] = up, -up - down, down
    L[0, 1] = up + down
    L[:, -1] = 0
    L[2, -2] = 0
    implicit = -k / 2 * L
    implicit[1] += 1
    u = f(x)
    for step in range(steps):
        if step < 4:  # two implicit half steps smooth the kink
            half = -k / 2 * L
            half[1] += 1
            for _ in range(2):
                u = solve_banded((1, 1), half, u)
            continue
        right = u + k / 2 * (L[1] * u)
        right[:-1] += k / 2 * L[0, 1:] * u[1:]
        right[1:] += k / 2 * L[2, :-1] * u[:-1]
        u = solve_banded((1, 1), implicit, right)
    return x, u
