"""Expectations from a survival function alone, by quadrature, and bounded Pareto moments in 50 decimal digits."""

from decimal import Decimal, localcontext

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def integral(f, a, b, scale, breaks=()):
    """The integral of f over [a, b], b = inf allowed, by Gauss's rule on panels that double in width away from a."""
    last = min(b, 1e120)
    edges = np.unique(np.clip([a, *(a + scale * 2.0 ** np.arange(-80, 400)), *breaks, last], a, last))
    half = np.diff(edges)[:, None] / 2
    return float(np.sum(f(edges[:-1, None] + half * (1 + NODES)) * half * WEIGHTS))


def tail_moment(survival, n, x, scale, breaks=()):
    """E[X^n; X > x] = x^n S(x) + n int_x^inf t^{n-1} S(t) dt, for x > 0."""
    return x**n * survival(x) + n * integral(lambda t: t ** (n - 1) * survival(t), x, np.inf, scale, breaks)


def partial_moment(survival, n, x, scale, breaks=()):
    """E[X^n; X <= x] = n int_0^x t^{n-1} (S(t) - S(x)) dt, for n >= 1."""
    return n * integral(lambda t: t ** (n - 1) * (survival(t) - survival(x)), 0, x, scale, breaks)


def residual_mean(survival, x, scale, breaks=()):
    """E[X - x | X > x] = int_x^inf S(t) dt / S(x)."""
    return integral(lambda t: survival(t) / survival(x), x, np.inf, scale, breaks)


def laplace(survival, s, scale, breaks=()):
    """E exp(-s X) = 1 - int s exp(-s t) S(t) dt."""
    return 1 - integral(lambda t: s * np.exp(-np.minimum(s * t, 700)) * survival(t), 0, np.inf, scale, breaks)


def bounded_pareto_moment(alpha, low, high, n, a, b):
    """E[X^n; a < X <= b] for density proportional to x^{-alpha-1} on [low, high]."""
    with localcontext() as context:
        context.prec = 50
        alpha, low, high, a, b = map(Decimal, (alpha, low, high, a, b))

        def power(q, a, b):
            return (b / a).ln() if q == 0 else (b**q - a**q) / q

        return float(power(n - alpha, a, b) / power(-alpha, low, high))
