"""The quadrature of one server: all that the map T of ``cavity`` needs for a job law, its layers and a rate.

Equations are numbered as there. The finite layers are cut into sublayers with at most eight potential arrivals, and
these into pieces over which the survival function is smooth. The last layer is solved through the resolvent for
acyclic phase-type laws, else on age cells that grow with the age. Integrals use Gauss-Legendre nodes throughout, on
atoms' intervals exactly.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from scipy.special import gammaln, pdtrc, roots_jacobi, roots_legendre, xlogy

from lbkit import kernels
from lbkit.jobs import PhaseType

NEGLIGIBLE = 1e-22  # flow into the next level, relative to that into level 2
GAUSS = 12  # nodes a piece
RADAU = 16  # collocation nodes an age cell


class Server:
    """The quadrature of one server: everything T needs, for a job law, its layers and a uniformisation rate."""

    def __init__(self, job, layers, Lam):
        self.job, self.Lam, self.layers = job, Lam, layers
        lived = layers.lower[: np.searchsorted(layers.lower, job.high) + 1]  # no job gets older than job.high
        self.edges = _divide(lived, Lam / 8)
        self.layer_of = np.searchsorted(lived, self.edges[:-1], side="right") - 1
        width = np.diff(self.edges)
        widest = Lam * width.max(initial=0)
        self.terms = int(np.argmax(pdtrc(np.arange(200), widest) < 1e-16)) + 1
        n = np.arange(self.terms)
        self.step = np.exp(xlogy(n, Lam * width[:, None]) - Lam * width[:, None] - gammaln(n + 1))  # (4)
        self.nodes, self.ages, self.gauss, self.piece_start = self._pieces()
        self.survival = self.gauss * job.survival(self.nodes)
        self.weight = kernels.poisson_weights(self.ages, self.survival, self.piece_start, Lam, self.terms)  # (5)
        self.layer_of_piece = np.repeat(self.layer_of, np.diff(self.piece_start))
        self.shares = self.by_layer(self.survival, excess(job, layers.lower[-1])) / job.mean
        self._last_layer(layers.lower[-1])

    def _pieces(self):
        """Gauss nodes on pieces of the sublayers over which the survival function is smooth."""
        cuts = _cuts(self.job, self.edges, self.Lam)
        start = np.searchsorted(cuts, self.edges)
        nodes, gauss = _nodes(cuts)
        owner = np.repeat(np.arange(len(self.layer_of)), np.diff(start))
        return nodes, nodes - self.edges[owner][:, None], gauss, start

    def by_layer(self, at_nodes, last):
        """Sums over the nodes of each layer, shape (r+1,), with the value of the last layer given."""
        sums = np.zeros(len(self.layers))
        np.add.at(sums, self.layer_of_piece, at_nodes.sum(axis=1))
        sums[-1] = last
        return sums

    def weights(self, value):
        """w[s, n] of (5) with value(a) in place of the survival function."""
        mass = self.gauss * value(self.nodes)
        return kernels.poisson_weights(self.ages, mass, self.piece_start, self.Lam, self.terms)

    def _last_layer(self, start):
        job, dead = self.job, (np.zeros(1), np.ones(1), np.zeros((1, 1)))  # no job gets older than c_r
        self.acyclic = isinstance(job, PhaseType) and np.array_equal(job.A, np.triu(job.A))
        self.cell_edges = np.array([start]) if self.acyclic else _age_cells(job, start, self.Lam)
        cuts, widths = _cuts(job, self.cell_edges, 0.0), np.diff(self.cell_edges)
        self.cell_of = np.searchsorted(self.cell_edges, cuts[:-1], side="right") - 1
        self.cell_nodes, self.cell_gauss = _nodes(cuts)
        if len(widths):
            ages = (self.cell_nodes - self.cell_edges[self.cell_of][:, None]) / widths[self.cell_of][:, None]
            self.basis = _lagrange(_radau()[0], ages)
            share = self.cell_shares(job.survival)
            share[-1, -1] += excess(job, self.cell_edges[-1])
            self.last = (np.empty(0), np.empty(0), np.empty((0, 0)), widths, _radau()[1], share)  # (6b)
        else:
            phases = (job.phase_survival(start), -np.diag(job.A), np.triu(job.A, 1)) if self.acyclic else dead  # (6a)
            self.last = (*phases, np.empty(0), np.empty((RADAU, RADAU)), np.empty((0, RADAU)))

    def cell_shares(self, value):
        """Integrals of value(a) times the collocation basis over each age cell of the last layer, shape (C, p)."""
        mass = np.einsum("pg,pgi->pi", self.cell_gauss * value(self.cell_nodes), self.basis)
        return np.add.reduceat(mass, np.searchsorted(self.cell_of, np.arange(len(self.cell_edges) - 1)), axis=0)

    def at_cell_nodes(self, tail):
        """y at the quadrature nodes of the age cells, shape (P, G), from its collocation values."""
        if not len(self.cell_nodes):
            return self.cell_nodes
        return np.einsum("pgi,pi->pg", self.basis, tail.reshape(-1, RADAU)[self.cell_of])

    def occupancy(self, rates):
        """Map T: see ``kernels.occupancy``."""
        return kernels.occupancy(rates, self.Lam, self.layer_of, self.step, self.weight, *self.last, NEGLIGIBLE)

    def image(self, rates, rho):
        """The occupancy for given rates, scaled to the load."""
        mass = self.occupancy(rates)[0]
        return mass * (rho / mass.sum())

    def area(self, rates, u, tail):
        """sum_k int lambda(k, L) y_L F2 da of (11), for the rates (r+1,) and the state of the last level."""
        beyond = partial(excess, self.job)
        in_layers = rates[self.layer_of] @ (self.weights(beyond) * u).sum(axis=1)
        if len(self.cell_edges) > 1:
            shares = self.cell_shares(beyond)
            shares[-1, -1] += second_excess(self.job, self.cell_edges[-1])
        else:
            shares = _mean_to_go(self.job) if self.acyclic else np.zeros(len(tail))
        flow = rates[-1] * tail
        return in_layers + shares.ravel()[flow > 0] @ flow[flow > 0]  # a share may be infinite


def excess(job, a):
    """F2(a) = E(X - a)^+."""
    a = np.asarray(a, dtype=float)
    return job.survival(a) * np.where(a < job.high, job.residual_mean(np.minimum(a, np.nextafter(job.high, 0))), 0.0)


def second_excess(job, a):
    """E[(X - a)^+ ^2] / 2 = int_a^inf F2."""
    if a >= job.high:
        return 0.0
    if isinstance(job, PhaseType):
        return float(job.phase_survival(a) @ np.linalg.solve(-job.A, _mean_to_go(job)))
    return float((job.tail_moment(2, a) - 2 * a * job.tail_moment(1, a) + a * a * job.survival(a)) / 2)


def _mean_to_go(job):
    return np.linalg.solve(-job.A, np.ones(len(job.A)))


def _cuts(job, edges, Lam):
    """The edges, cut further where the survival function is not smooth over a piece."""
    if isinstance(job, PhaseType):
        return _divide(edges, (Lam + np.abs(np.diag(job.A)).max()) / 1.5)
    if 0 < job.atoms.size <= 100:
        edges = _divide(edges, 32 / job.mean)  # a service left over keeps the shape of the law: ages must lie densely
    halves = 0.5 ** np.arange(1, 50)
    inner = np.concatenate([job.breakpoints, job.quantile(halves), job.quantile(1 - halves)])
    inner = inner[(inner > edges[0]) & (inner < edges[-1])]
    return np.unique(np.concatenate([edges, inner]))


def _divide(edges, density):
    """The edges with every interval cut into equal parts, at least ``density`` of them per unit."""
    width = np.diff(edges)
    parts = np.maximum(np.ceil(density * width), 1).astype(int)
    within = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(np.repeat(edges[:-1], parts) + within * np.repeat(width / parts, parts), edges[-1])


def _age_cells(job, start, Lam):
    """Edges of age cells from ``start`` on, up to where no mass is left.

    A cell is as wide as half of the age passed. For the first 10^5 potential arrivals it is also no wider than three
    standard deviations of the time of the coming arrival, as y_l may be a Poisson probability of a high level.
    """
    edges = [start]
    while edges[-1] < job.high and excess(job, edges[-1]) > 1e-16 * job.mean:
        passed = edges[-1] - start + 1 / Lam
        width = min(passed / 2, 3 * (passed / Lam) ** 0.5) if passed * Lam < 1e5 else passed / 2
        edges.append(min(edges[-1] + width, job.high))
    return np.array(edges)


def _nodes(cuts):
    """Gauss nodes between the cuts and their weights, (P, GAUSS) each."""
    (t, g), width = _gauss(GAUSS), np.diff(cuts)[:, None]
    return cuts[:-1, None] + width * t, width * g


@cache
def _gauss(n):
    t, g = roots_legendre(n)
    return (1 + t) / 2, g / 2


@cache
def _radau():
    """Radau IIA nodes on (0, 1] and the integration matrix of their Lagrange basis."""
    nodes = np.append((1 + roots_jacobi(RADAU - 1, 1, 0)[0]) / 2, 1.0)
    t, g = _gauss(RADAU)
    return nodes, np.array([c * g @ _lagrange(nodes, c * t) for c in nodes])


def _lagrange(nodes, t):
    """Lagrange basis of ``nodes`` at t, shape t.shape + (p,)."""
    gaps = nodes[:, None] - nodes + np.eye(len(nodes))
    factors = (np.asarray(t)[..., None, None] - nodes) / gaps
    factors[..., np.arange(len(nodes)), np.arange(len(nodes))] = 1.0
    return factors.prod(axis=-1)
