"""Laws of the waiting and the response time of a job, from a solved cavity.

A job that joins level l waits for the rest of the service under way and for l - 1 whole services. For phase-type
sizes the phase at the join is enough: with J_l(j) = P(join level l while phase j is served), uniformised at theta =
max |A_jj| with P = I + A / theta, and s_n the state after n steps, services to go times phase::

    P(W > w) = sum_n Pois(n; theta w) a_n,    a_n = s_n 1,    s_0 = J                                 (1)

one sequence for all w, every term nonnegative. For any other law the residual size at the join and the size are put
on a lattice of LATTICE points up to the largest w of each decade, rounded to the nearest, and convolved by FFT::

    P(W <= w) - P(W = 0) = sum_l (R_l * X^{*(l-1)})(0, w],    P(R_l > u) = int flow_l(a) Fbar(a + u) da   (2)

The lattice error is of second order in its step, of first order at atoms of the law. The response time has one
service more.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from lbkit import kernels
from lbkit.jobs import PhaseType

LATTICE = 2**12
AGES = 2**10


def tails(job, server, rates, lam, w, services):
    """P(W > w) for services = 0, P(R > w) for services = 1; w >= 0 of any shape, rates (L, r+1)."""
    w = np.minimum(np.asarray(w, dtype=float), 1e100)
    if not np.all(w >= 0):
        raise ValueError(f"a waiting time must be >= 0, not {w[~(w >= 0)].flat[0]:g}")
    if isinstance(job, PhaseType):
        return _phase_type(job, server, rates, lam, w.ravel(), services).reshape(w.shape)
    tail = np.empty(w.shape)
    decade = np.floor(np.log10(np.maximum(w, 1e-3 * job.mean)))
    for same in (decade == value for value in np.unique(decade)):  # a lattice for each order of magnitude
        tail[same] = _lattice(job, server, rates, lam, w[same], services)
    order = np.argsort(w, axis=None)
    tail.flat[order] = np.maximum(np.minimum.accumulate(tail.flat[order]), 0.0)  # where two lattices meet
    return tail


def _levels(server, rates):
    """The states (u, tail, mass) of the levels one after the other, unnormalised."""
    phase0, _, _, _, _, share = server.last
    u, own = np.zeros(server.weight.shape), np.zeros(server.weight.shape)
    tail, mass = np.zeros(max(len(phase0), share.size)), np.zeros(rates.shape[1])
    below = np.zeros(rates.shape[1])
    for now in rates:
        finite = server.Lam, server.layer_of, server.step, server.weight
        kernels.climb(now, below, *finite, u, own, *server.last, tail, mass)
        yield now, u, tail, mass
        below = now


def _phase_type(job, server, rates, lam, w, services):
    phases, (*_, cells, _, _) = range(len(job.alpha)), server.last
    weight = np.stack([server.weights(lambda a: job.phase_survival(a)[..., j]) for j in phases], axis=-1)
    share = [server.cell_shares(lambda a: job.phase_survival(a)[..., j]).ravel() for j in phases if len(cells)]
    join, busy = [], 0.0
    for now, u, tail, mass in _levels(server, rates):
        by_layer = now[server.layer_of] @ np.einsum("sn,snj->sj", u, weight)
        last = np.array([s @ tail for s in share]) if share else tail
        join.append(by_layer + now[-1] * (last if len(last) == len(job.alpha) else 0.0))
        busy += mass.sum()
    state = np.array(join) * job.mean / busy  # x sums to lam E[X]; J = lambda x / lam
    if services:
        state = np.vstack([(1 - state.sum()) * job.alpha, state])
    theta = np.abs(np.diag(job.A)).max()
    P, restart = np.eye(len(job.A)) + job.A / theta, np.outer(job.exit, job.alpha) / theta
    most, a = theta * w.max(initial=0), []
    while state.sum() > 1e-300 and len(a) < most + 10 * most**0.5 + 30:
        a.append(state.sum())
        finished = state[1:] @ restart
        state = state @ P
        state[:-1] += finished
    n = np.arange(len(a))
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.where(n == 0, 0.0, n * np.log(theta * w)[:, None])
    return np.exp(power - theta * w[:, None] - gammaln(n + 1)) @ a  # (1)


def _lattice(job, server, rates, lam, w, services):
    step = max(w.max(initial=0.0), 1e-6 * job.mean) / (LATTICE - 1)
    edges = np.maximum(np.arange(-0.5, LATTICE) * step, 0.0)
    ages, joins = _joins(job, server, rates, edges[-1])
    residual = -np.diff((joins / job.survival(ages)) @ job.survival(ages[:, None] + edges), axis=1)
    size_hat = np.fft.rfft(-np.diff(np.append(1.0, job.survival(edges[1:]))), 2 * LATTICE)
    total = np.zeros(LATTICE)
    for part in residual[::-1]:  # Horner in (2)
        total = part + np.fft.irfft(np.fft.rfft(total, 2 * LATTICE) * size_hat)[:LATTICE]
    total[0] += 1 - joins.sum()
    if services:
        total = np.fft.irfft(np.fft.rfft(total, 2 * LATTICE) * size_hat)[:LATTICE]
    return 1 - np.interp(w, edges, np.append(0.0 if services else 1 - joins.sum(), total.cumsum()))


def _joins(job, server, rates, reach):
    """Ages at the join, (A,), and P(join level l at about that age), (L, A): fine bins up to ``reach``."""
    nodes = np.append(server.nodes, server.cell_nodes)
    flows, busy = [], 0.0
    for now, u, tail, mass in _levels(server, rates):
        y = kernels.states_at(server.ages, server.piece_start, server.Lam, u) * server.gauss
        in_layers = now[server.layer_of_piece][:, None] * y
        flows.append(np.append(in_layers, now[-1] * server.at_cell_nodes(tail) * server.cell_gauss))
        busy += mass.sum()
    flows = np.array(flows) * job.survival(nodes) * job.mean / busy  # x sums to lam E[X]; joins are lambda x / lam
    age_bins = np.append(np.linspace(0, reach, AGES), reach * 1.02 ** np.arange(1, AGES))
    where = np.minimum(np.searchsorted(age_bins, nodes, side="right"), len(age_bins)) - 1
    joins = np.array([np.bincount(where, flow, len(age_bins)) for flow in flows])
    mass = joins.sum(axis=0)
    used = mass > 0
    ages = np.bincount(where, flows.sum(axis=0) * nodes, len(age_bins))[used] / mass[used]
    return ages, joins[:, used]
