"""Three references for the mean response time of SQ(d) with FCFS servers, all by running the policy over every sample.

chain_series     power series at arrival rate 0 of the Markov chain, rational, every server kept apart
reiman_simon     the integral of Reiman and Simon (1989), rational, for sizes with finitely many values
truncated_chain  stationary law of the chain for two servers, no expansion
"""

from collections import defaultdict
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from itertools import combinations, permutations, product
from math import factorial, prod

import numpy as np


def joined(lengths, d):
    """[(server, probability)]: every sample of d servers, uniformly among the shortest of it."""
    share = defaultdict(Fraction)
    samples = list(combinations(range(len(lengths)), d))
    for sample in samples:
        shortest = [k for k in sample if lengths[k] == min(lengths[j] for j in sample)]
        for k in shortest:
            share[k] += Fraction(1, len(samples) * len(shortest))
    return list(share.items())


def chain_series(speeds, alpha, A, d, order):
    """Coefficients of lam^0..lam^order in R(lam), for an upper triangular sub-generator A."""
    exits = [-sum(row) for row in A]
    empty = ((0, 0),) * len(speeds)

    def put(state, k, server):
        return (*state[:k], server, *state[k + 1 :])

    law, coefficients = {empty: Fraction(1)}, []
    for _ in range(order + 1):
        inflow, queue = defaultdict(Fraction), []

        def add(state, weight):
            if state not in inflow and state != empty:
                heappush(queue, (-sum(length for length, _ in state), sum(phase for _, phase in state), state))
            inflow[state] += weight

        for state, weight in law.items():
            add(state, -weight)
            for k, p in joined([length for length, _ in state], d):
                length, phase = state[k]
                for after, q in [(phase, 1)] if length else enumerate(alpha):
                    add(put(state, k, (length + 1, after)), weight * p * q)
        law = {}
        while queue:
            state = heappop(queue)[2]
            busy = [(k, length, phase) for k, (length, phase) in enumerate(state) if length]
            law[state] = inflow[state] / sum(-speeds[k] * A[phase][phase] for k, _, phase in busy)
            for k, length, phase in busy:
                flow = law[state] * speeds[k]
                for after, q in enumerate(alpha) if length > 1 else [(0, 1)]:
                    add(put(state, k, (length - 1, after)), flow * exits[phase] * q)
                for after in range(phase + 1, len(alpha)):
                    add(put(state, k, (length, after)), flow * A[phase][after])
        law[empty] = -sum(law.values())
        coefficients.append(sum(weight * sum(length for length, _ in state) for state, weight in law.items()))
    return coefficients


def reiman_simon(slowness, sizes, d, n):
    """R^(n)(0+) for integer slownesses and integer sizes [(size, probability)].

    All services are integers, so that the integrand is affine on every simplex cut out by the planes t_i in Z and
    t_i - t_j in Z, and its mean is its value at the centre, where the fractional parts are 1/(n+1), .., n/(n+1) in some
    order. Time is counted in units of 1/(n+1).
    """
    unit = n + 1
    mean = sum(size * p for size, p in sizes)

    def response(epochs, works, departures):
        """Expected response of the job at time 0 when those still to come find the servers so occupied."""
        now = epochs[0] if epochs else 0
        total = Fraction(0)
        for k, p in joined([sum(t > now for t in server) for server in departures], d):
            free = max([now, *departures[k]])
            if epochs:
                left = (*departures[k], free + works[0] * slowness[k] * unit)
                total += p * response(epochs[1:], works[1:], (*departures[:k], left, *departures[k + 1 :]))
            else:
                total += p * (Fraction(free, unit) + mean * slowness[k])
        return total

    @cache
    def psi(epochs):
        total = Fraction(0)
        for jobs in product(sizes, repeat=len(epochs)):
            p = prod(q for _, q in jobs)
            total += p * response(epochs, tuple(size for size, _ in jobs), ((),) * len(slowness))
        return total

    longest = n * max(slowness) * max(size for size, _ in sizes)
    total = Fraction(0)
    for corner in product(range(-longest, 0), repeat=n):
        for parts in permutations(range(1, n + 1)):
            point = [c * unit + part for c, part in zip(corner, parts)]
            for size in range(n + 1):
                for subset in combinations(point, size):
                    total += (-1) ** (n - size) * psi(tuple(sorted(subset)))
    return total / factorial(n)


def truncated_chain(speeds, d, lam, cap=25):
    """R(lam) of two servers with exponential sizes of mean one, at most ``cap`` jobs at each."""
    number = {state: i for i, state in enumerate(product(range(cap + 1), repeat=2))}
    Q = np.zeros((len(number), len(number)))
    for state, i in number.items():
        for k, p in joined(state, d):
            if state[k] < cap:
                Q[i, number[tuple(n + (j == k) for j, n in enumerate(state))]] += lam * p
        for k, speed in enumerate(speeds):
            if state[k]:
                Q[i, number[tuple(n - (j == k) for j, n in enumerate(state))]] += speed
    Q -= np.diag(Q.sum(axis=1))
    Q[:, 0] = 1
    law = np.linalg.solve(Q.T, np.eye(len(number))[0])
    return float(law @ [sum(state) for state in number] / lam)
