"""Mean response times near zero load, and what they extend to (see ``lbkit.light_traffic``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import factorial

import numpy as np
from numpy.polynomial.polynomial import polyder, polymul, polyroots, polysub, polyval


@dataclass(frozen=True, slots=True)
class Expansion:
    """Taylor expansion at lam = 0+ of the mean response time under SQ(d) (see ``light_traffic``); lam: total rate.

    groups       (speed, servers) of every speed, slowest first
    derivatives  R^(n)(0+), n = 0..order, in units of time^(n+1); Fractions where asked for
    waiting      part of R^(d)(0+) owed to jobs whose d samples are all busy; None if order < d
    max_rate     arrival rate at which the system loses its stability
    method       how the derivatives were obtained
    """

    groups: tuple
    d: int
    derivatives: tuple
    waiting: float | None
    max_rate: float
    method: str

    @property
    def assignment(self):
        """R^(d)(0+) without its waiting part: what the choice among idle servers brings."""
        return None if self.waiting is None else self.derivatives[self.d] - self.waiting

    @property
    def coefficients(self) -> tuple:
        """R^(n)(0+) / n!, n = 0..order."""
        return tuple(r / factorial(n) for n, r in enumerate(self.derivatives))

    @property
    def slope_per_server(self):
        """K R'(0+): the slope in the arrival rate per server."""
        return sum(servers for _, servers in self.groups) * self.derivatives[1]

    @property
    def minimum(self) -> tuple[float, float]:
        """(lam*, gain): where the polynomial first turns upwards, and R(0+) - R(lam*). ValueError if it never does."""
        if len(self.derivatives) == 1:
            raise ValueError("an expansion of order 0 has no minimum; take order >= 1")
        lam = _turning_point([float(c) for c in self.coefficients], [1.0], self.max_rate)
        return lam, float(self.derivatives[0] - self(lam))

    def __call__(self, lam):
        """The Taylor polynomial at total arrival rate lam, any shape; ValueError unless 0 <= lam < max_rate."""
        _require_rate(lam, self.max_rate, "the largest stable rate")
        if np.ndim(lam):
            return polyval(np.asarray(lam, float), [float(c) for c in self.coefficients])
        return sum(c * lam**n for n, c in enumerate(self.coefficients))


@dataclass(frozen=True, slots=True)
class StabilityBound:
    """SQ(d) is stable for total arrival rates below ``rate`` (see ``light_traffic``).

    servers  size n of the set of slowest servers that fills up there; unique: no other set does
    groups   (speed, servers) of the system, slowest first
    """

    rate: float
    servers: int
    unique: bool
    groups: tuple = field(repr=False)

    @property
    def bottleneck(self) -> tuple:
        """(speed, servers) of the n slowest servers."""
        left, found = self.servers, []
        for speed, servers in self.groups:
            found.append((speed, min(servers, left)))
            left -= found[-1][1]
            if not left:
                return tuple(found)

    def __float__(self) -> float:
        return float(self.rate)


@dataclass(frozen=True, slots=True)
class Approximant:
    """Mean response time as the geometric mean of rational functions of x = lam / scale (see ``light_traffic``).

    factors    (numerator, denominator) of each function, coefficients in ascending order
    limit      arrival rate where the formula ends: the largest stable rate or a pole below it
    statement  what is matched and where it holds
    """

    scale: float
    factors: tuple
    limit: float
    statement: str

    @property
    def minimum(self) -> tuple[float, float]:
        """(lam*, gain): where the curve first turns upwards, and R(0+) - R(lam*). ValueError if it never does."""
        above, below = np.ones(1), np.ones(1)
        for numerator, denominator in self.factors:
            above, below = polymul(above, numerator), polymul(below, denominator)
        lam = self.scale * _turning_point(above, below, self.limit / self.scale)
        return lam, float(self(0.0) - self(lam))

    def __call__(self, lam):
        """Mean response time at total arrival rate lam, any shape; ValueError unless 0 <= lam < limit."""
        _require_rate(lam, self.limit, "where this formula ends")
        x = np.asarray(lam, float) / self.scale
        parts = np.array([polyval(x, numerator) / polyval(x, denominator) for numerator, denominator in self.factors])
        if not np.all(parts > 0):
            raise ValueError(f"the formula turns negative at a rate up to {np.max(lam):.6g} and cannot hold there")
        value = np.prod(parts, axis=0) ** (1 / len(parts))
        return value if np.ndim(lam) else float(value)


def _require_rate(lam, limit, what):
    rates = np.asarray(lam, float)
    if not np.all((rates >= 0) & (rates < limit)):
        given = f"{rates.min():.6g}..{rates.max():.6g}" if rates.ndim else lam
        raise ValueError(f"arrival rates must be in 0 <= lam < {limit:.6g}, {what}, not {given}")


def _turning_point(numerator, denominator, limit) -> float:
    """The first x in [0, limit) at which numerator/denominator stops falling; coefficients in ascending order."""
    slope = polysub(polymul(polyder(numerator), denominator), polymul(numerator, polyder(denominator)))
    slope = np.trim_zeros(slope, "b")
    if not slope.any() or slope[np.flatnonzero(slope)[0]] > 0:
        return 0.0
    for root in sorted(x.real for x in polyroots(slope) if abs(x.imag) <= 1e-9 * abs(x) and 0 < x.real < limit):
        if polyval(root, polyder(slope)) > 0:
            return float(root)
    raise ValueError(f"the curve falls up to its end at {limit:.6g}; it has no minimum, take a higher order")
