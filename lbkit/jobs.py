r"""Laws of a job size X >= 0: a base derives what all laws share, a family states only what has a closed form.

======== ======================== ===================================================================
symbol   name                     meaning, shape or unit
======== ======================== ===================================================================
X        job size                 work, in the time a server of speed one needs for it
Fb(x)    ``survival(x)``          P(X > x), x of any shape
m_n(x)   ``partial_moment(n, x)`` E[X^n; X <= x] for an integer n >= -1, unit size^n
t_n(x)   ``tail_moment(n, x)``    E[X^n; X > x], unit size^n
scv      ``scv``                  Var X / (E X)^2
alpha, A ``alpha``, ``A``         start (m,) and sub-generator (m, m) per unit time; a = -A 1 is ``exit``
v(x)     ``phase_survival(x)``    alpha exp(A x), shape of x + (m,)
f        ``f``                    share of the work that the branch of the short jobs brings
======== ======================== ===================================================================

    E min(X, x)^n = m_n(x) + x^n Fb(x),    E[X - x | X > x] = t_1(x) / Fb(x) - x                      (1)
    E exp(-s X) = int exp(-s Q(u(y))) u'(y) dy over the line, Q = quantile, u(y) = 1 / (1 + exp(-y))  (2)
Phase type
    Fb(x) = v(x) 1,   density v(x) a,   E[X - x | X > x] = v(x) (-A)^{-1} 1 / v(x) 1                  (3)
    t_n(x) = sum_k C(n, k) x^{n-k} k! v(x) (-A)^{-k} 1                                                (4)
    t_{-1}(x) = int_0^inf exp(-s x) v(x) (s I - A)^{-1} a ds                                          (5)
    m_n(x) = n! theta^{-n} times the mass absorbed up to x in a chain of n + 1 copies of A, with steps
    theta I from each copy to the next and the exit a from the last                                   (6)
    exp(M x), M >= 0 off the diagonal: B = M + theta I >= 0, and the series of exp(B h) and its
    repeated squares only add and multiply nonnegative numbers                                        (7)
Two branches of k stages, unit mean, c = 2 (scv + 1) / (1 + 1/k) - 1, d = sqrt((c - 1)(c - 1 + 8 f (1 - f)))
    mu_1 = (c + 4 f - 1 + d) / (2 f (c + 1)),   mu_2 = 4 (1 - f) / (c + 3 - 4 f + d),
    rates k mu_1 and k mu_2, probabilities f mu_1 and (1 - f) mu_2                                    (8)
Power law: density proportional to x^{-alpha-1} on [low, high], with d = ln(b / a)
    int_a^b x^{q-1} dx = (b if q > 0 else a)^q (1 - exp(-|q| d)) / |q|, which is d for q = 0          (9)
Weibull: (X / scale)^shape is exponential, so t_n(x) = scale^n exp(-z) E (z + Y)^{n/shape} with
    z = (x / scale)^shape and Y exponential with unit mean                                            (10)

(8) is the fit of Hellemans & Van Houdt (arXiv 2011.08250), with mu_2 freed of its cancellation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce, wraps
from inspect import signature
from itertools import accumulate
from math import comb, exp, factorial, inf, log, log1p, pi, sqrt
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, exp1, expit, gammainc, gammaincc, gammaln, log_ndtr, ndtri, poch, xlogy

Numbers = float | np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """Law of a job size. Every method takes a scalar or an array and returns the same shape; ValueError for NaN."""

    label: str = field(default="", kw_only=True)
    low = 0.0
    high = inf
    atoms = np.empty(0)
    _sizes = _rates = ()

    def __post_init__(self):
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def survival(self, x: ArrayLike) -> Numbers:
        """P(X > x)."""
        return _each("x", x, lambda x: self._tail(0, x))

    def pdf(self, x: ArrayLike) -> Numbers:
        """Density per unit of size; ValueError for a law made of atoms."""
        return _each("x", x, self._pdf)

    def quantile(self, u: ArrayLike) -> Numbers:
        """The smallest x with P(X <= x) >= u, for 0 <= u <= 1."""
        return _each("u", u, lambda u: np.clip(self._quantile(u), self.low, self.high), 0, 1)

    def partial_moment(self, n: int, x: ArrayLike) -> Numbers:
        """E[X^n; X <= x] for an integer n >= -1, unit size^n."""
        return _each("x", x, lambda x: self._partial(_integer("n", n, -1), x))

    def tail_moment(self, n: int, x: ArrayLike) -> Numbers:
        """E[X^n; X > x] for an integer n >= -1, unit size^n, without cancellation; inf where it diverges."""
        return _each("x", x, lambda x: self._tail(_integer("n", n, -1), x))

    def truncated_moment(self, n: int, x: ArrayLike) -> Numbers:
        """E min(X, x)^n for an integer n >= -1, unit size^n."""
        return _each("x", x, lambda x: self._truncated(_integer("n", n, -1), x))

    def residual_mean(self, x: ArrayLike) -> Numbers:
        """E[X - x | X > x], the work left at age x; zero from the end of the support on."""
        return _each("x", x, self._residual)

    def laplace(self, s: ArrayLike) -> Numbers:
        """E exp(-s X) for 0 <= s < inf, s per unit of size; absolute error below 1e-12."""
        return _each("s", s, self._laplace, 0, np.finfo(float).max)

    def moment(self, n: int) -> float:
        """E X^n for an integer n >= -1, unit size^n; inf where it diverges."""
        return self.tail_moment(n, -1)

    @cached_property
    def mean(self) -> float:
        """E X."""
        return self.moment(1)

    @cached_property
    def scv(self) -> float:
        """Squared coefficient of variation, Var X / (E X)^2; may be inf."""
        return max(self.moment(2) / self.mean**2 - 1, 0.0)

    @property
    def breakpoints(self) -> np.ndarray:
        """Sizes at which the survival function jumps or has a kink, sorted."""
        return np.unique([*self.atoms, *(x for x in (self.low, self.high) if 0 < x < inf)])

    def sample(self, n: int, seed) -> np.ndarray:
        """n independent sizes; seed is an int, a SeedSequence or a Generator."""
        return self._sample(n, np.random.default_rng(seed))

    def scaled(self, mean: float) -> Law:
        """The law of c X, with c such that the mean is the given one."""
        _positive(mean=mean)
        c = mean / self.mean
        changed = {name: getattr(self, name) * c for name in self._sizes}
        changed |= {name: getattr(self, name) / c for name in self._rates}
        return replace(self, **changed, label=f"{self!r}".split(".scaled(")[0] + f".scaled({_text(mean)})")

    def _truncated(self, n, x):
        over = self._tail(0, x)
        return self._partial(n, x) + np.where(over > 0, x ** float(n) * over, 0)  # (1)

    def _residual(self, x):
        over = self._tail(0, x)
        return np.where(over > 0, self._tail(1, x) / over - x, 0)  # (1)

    def _laplace(self, s):
        value = inf
        for step in 0.5 ** np.arange(2, 13):
            u = expit(np.arange(-36, 36 + step, step))
            weight = u * (1 - u) / np.sum(u * (1 - u))
            before, value = value, np.exp(-s[..., None] * self._quantile(u)) @ weight  # (2)
            if np.all(abs(value - before) < 1e-13):
                return value
        raise ArithmeticError(f"the transform of {self} is known to {np.max(abs(value - before)):.1g} only")

    def _sample(self, n, rng):
        return self.quantile(rng.random(n))

    def _state(self):
        values = [getattr(self, f.name) for f in fields(self) if f.name != "label"]
        return type(self), *(v.tobytes() if isinstance(v, np.ndarray) else v for v in values)

    def __eq__(self, other):
        return self._state() == other._state() if isinstance(other, Law) else NotImplemented

    def __hash__(self):
        return hash(self._state())

    def __repr__(self):
        parameters = (f"{f.name}={_text(getattr(self, f.name))}" for f in fields(self) if f.name != "label")
        return self.label or f"{type(self).__name__}({', '.join(parameters)})"


@dataclass(frozen=True, eq=False, repr=False)
class PhaseType(Law):
    """Time to absorption of a Markov chain started in ``alpha`` (m,) with sub-generator ``A`` (m, m), per unit time.

    ``exit`` (m,) is -A 1. The relative error in the tail is about 1e-16 x max |A_jj|; that of ``partial_moment(-1, x)``
    is relative to ``moment(-1)``. ValueError unless alpha is a probability vector and A has a negative diagonal, no
    other negative entry, row sums <= 0 and an exit within reach of every phase.
    """

    alpha: np.ndarray
    A: np.ndarray
    _rates = ("A",)

    def __post_init__(self):
        alpha, A = _probabilities("alpha", self.alpha), np.array(self.A, float)
        m = alpha.size
        _check(A.shape == (m, m), "the shape of A", str(A.shape), f"with {m} entries in alpha it must be {(m, m)}")
        signs = np.where(np.eye(m, dtype=bool), A < 0, A >= 0) & np.isfinite(A)
        _check(signs, "A", A, "a sub-generator is finite, negative on the diagonal and >= 0 off it")
        exit, rounding = -A.sum(axis=1), 1e-14 * abs(A).max(axis=1)
        _check(exit >= -rounding, "A.sum(axis=1)", -exit, "a row of a sub-generator has a sum <= 0")
        exit[exit < rounding] = 0
        ends = reduce(lambda ends, _: ends | (A > 0) @ ends, alpha, exit > 0)
        _check(ends, "phase", ["endless"] * m, "every phase of A must lead to an exit")
        for name, value in {"alpha": alpha, "A": A, "exit": exit}.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    def phase_survival(self, x: ArrayLike) -> np.ndarray:
        """alpha exp(A x), the probability of each phase at age x, shape of x + (m,)."""

        def phases(x):
            v, log_mass = self._phases(x)
            return v * np.exp(log_mass)[..., None]

        return _each("x", x, phases)

    def _phases(self, x):
        """v(x) / v(x) 1 and ln v(x) 1: the phases stay accurate where the survival underflows."""
        return _propagate(self.alpha, self.A, x)

    @property
    def _rate(self):
        return -np.diag(self.A).min()

    def _moments(self, n):
        """k! (-A)^{-k} 1 for k = 0, ..., n."""
        return accumulate(range(1, n + 1), lambda m, k: k * np.linalg.solve(-self.A, m), initial=np.ones(len(self.A)))

    def _pdf(self, x):
        v, log_mass = self._phases(x)
        return np.where(x < 0, 0, np.exp(log_mass) * (v @ self.exit))  # (3)

    def _residual(self, x):
        return self._phases(x)[0] @ [*self._moments(1)][1] - np.minimum(x, 0)  # (3)

    def _resolvent(self, s):
        """(s I - A)^{-1} a, shape of s + (m,)."""
        return np.linalg.solve(s[..., None, None] * np.eye(len(self.A)) - self.A, self.exit[:, None])[..., 0]

    def _laplace(self, s):
        return self._resolvent(s) @ self.alpha

    def _tail(self, n, x):
        x = np.clip(x, 0, 1e300)
        v, log_mass = self._phases(x)
        if n >= 0:
            given = sum(comb(n, k) * x ** (n - k) * (v @ m) for k, m in enumerate(self._moments(n)))  # (4)
        else:
            fastest = min(1e18 * self._rate + 40 / x[x > 0].min(initial=inf), 1e300)
            s, ds = _log_grid(1e-18 / (x.max(initial=0) + self.mean), fastest)
            given = (np.exp(-x[..., None] * s) * (v @ self._resolvent(s).T)) @ ds  # (5)
            given = np.where((x == 0) & (self.alpha @ self.exit > 0), inf, given)
        return np.where(np.exp(log_mass) > 0, np.exp(log_mass) * given, 0)

    def _partial(self, n, x):
        if n < 0 and self.alpha @ self.exit > 0:
            return np.where(x > 0, inf, 0)
        tail, whole, m, theta = self._tail(n, x), self.moment(n), len(self.A), self._rate
        late = tail < whole / 2
        if n < 0 or np.all(late):
            return whole - tail
        chain = np.zeros(2 * ((n + 1) * m + 1,))
        chain[:-1, :-1] = np.kron(np.eye(n + 1), self.A) + np.kron(np.eye(n + 1, k=1), theta * np.eye(m))
        chain[-1 - m : -1, -1] = self.exit
        v, log_mass = _propagate(np.append(self.alpha, np.zeros(n * m + 1)), chain, np.where(late, 0, x))
        return np.where(late, whole - tail, factorial(n) / theta**n * v[..., -1] * np.exp(log_mass))  # (6)

    def _quantile(self, u):
        goal = np.log1p(-u)
        low, high = np.zeros(u.shape), np.minimum(self.mean * np.exp(-goal), 1e300)  # Markov's inequality
        x, step = np.minimum(-self.mean * goal, high), inf
        while np.any(abs(step) > 1e-9 * x):  # the last step of Newton leaves the square of this
            v, log_mass = self._phases(x)
            excess = log_mass - goal
            low, high = np.where(excess >= 0, x, low), np.where(excess <= 0, x, high)
            newton = x + excess / (v @ self.exit)
            inside = (low <= newton) & (newton <= high)
            step = np.where(inside, newton, (low + high) / 2) - x
            x = x + step
        return np.where(u < 1, x * (u > 0), inf)

    def _sample(self, n, rng):
        rate = -np.diag(self.A)
        jump = np.cumsum(np.maximum(self.A, 0) / rate[:, None], axis=1)
        size, job = np.zeros(n), np.arange(n)
        phase = np.searchsorted(np.cumsum(self.alpha)[:-1], rng.random(n), side="right")
        while job.size:
            size[job] += rng.standard_exponential(job.size) / rate[phase]
            phase = np.sum(rng.random((job.size, 1)) >= jump[phase], axis=1)
            job, phase = job[phase < len(rate)], phase[phase < len(rate)]
        return size


class MixedErlang(PhaseType):
    """Phase type with parallel branches, each a sequence of stages of one rate; everything is a gamma function."""

    @cached_property
    def branches(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Probabilities, numbers of stages and rates of the branches."""
        last = np.flatnonzero(np.append(np.diag(self.A, 1), 0) == 0)
        stages = np.diff(last, prepend=-1)
        return self.alpha[last - stages + 1], stages, -np.diag(self.A)[last]

    def _phases(self, x):
        w, k, r = self.branches
        stage = np.concatenate([np.arange(j) for j in k])
        y = np.clip(x, 0, 1e300 / r.max())[..., None] * np.repeat(r, k)
        terms = np.repeat(np.log(w), k) + xlogy(stage, y) - gammaln(stage + 1) - y
        top = terms.max(axis=-1, keepdims=True)
        v = np.exp(terms - top)
        mass = v.sum(axis=-1, keepdims=True)
        return v / mass, (top + np.log(mass))[..., 0]

    def _partial(self, n, x):
        w, k, r = self.branches
        x = np.maximum(x, 0)[..., None]
        finite = poch(k, n) * r ** -float(n) * gammainc(np.maximum(k + n, 1), r * x)
        return np.where(k + n > 0, finite, np.where(x > 0, inf, 0)) @ w

    def _tail(self, n, x):
        if n >= 0:
            return super()._tail(n, x)
        w, k, r = self.branches
        y = r * np.maximum(x, 0)[..., None]
        return np.where(k > 1, r / (k - 1) * gammaincc(np.maximum(k - 1, 1), y), r * exp1(y)) @ w

    def _sample(self, n, rng):
        w, k, r = self.branches
        branch = 0
        if len(w) > 1:
            u, edges = rng.random(n), np.cumsum(w)[:-1]
            few = len(w) <= 4  # comparing is faster than searching
            branch = sum((u >= e).astype(np.intp) for e in edges) if few else np.searchsorted(edges, u, side="right")
        if np.all(k == 1):
            size = rng.standard_exponential(n)
        else:
            size = rng.standard_gamma(k[0] if np.all(k == k[0]) else k[branch], n)
        size *= (1 / r)[branch]
        return size


@dataclass(frozen=True, eq=False, repr=False)
class Power(Law):
    """Density proportional to x^{-alpha-1} on [low, high]: Pareto for alpha > 0, uniform for alpha = -1."""

    alpha: float
    low: float
    high: float
    _sizes = ("low", "high")

    @cached_property
    def _whole(self):
        """The unit of size in which powers are taken, and the integral of the unnormalised density."""
        unit = self.low if self.alpha > 0 else self.high
        return unit, _power_integral(-self.alpha, self.low, self.high, unit)

    def _measure(self, n, a, b):
        """E[X^n; a < X <= b]."""
        unit, whole = self._whole
        return unit**n * _power_integral(n - self.alpha, a, b, unit) / whole  # (9)

    def _tail(self, n, x):
        return np.where(x < self.high, self._measure(n, np.clip(x, self.low, self.high), self.high), 0)

    def _partial(self, n, x):
        return np.where(x > self.low, self._measure(n, self.low, np.clip(x, self.low, self.high)), 0)

    def _pdf(self, x):
        unit, whole = self._whole
        return np.where((self.low <= x) & (x <= self.high), (x / unit) ** (-self.alpha - 1) / (unit * whole), 0)

    def _quantile(self, u):
        p, t = u if self.alpha > 0 else 1 - u, abs(self.alpha) * np.log1p(np.divide(self.high - self.low, self.low))
        log_power = np.log1p(p * np.expm1(-t)) if t < 1 else np.log(1 - p + p * np.exp(-t))
        return self._whole[0] * np.exp(-log_power / self.alpha)

    def _residual(self, x):
        age = np.clip(x, self.low, min(self.high, 1e300))
        unit = age if self.alpha > 0 else self.high
        work, over = (_power_integral(q - self.alpha, age, self.high, unit) for q in (1, 0))
        return np.where(x < self.high, unit * work / over - x, 0)  # (1)


@dataclass(frozen=True, eq=False, repr=False)
class Weibull(Law):
    """P(X > x) = exp(-(x / scale)^shape)."""

    shape: float
    scale: float
    _sizes = ("scale",)

    def _hazard(self, x):
        return (np.maximum(x, 0) / self.scale) ** self.shape

    def _pdf(self, x):
        y = x / self.scale
        density = self.shape / self.scale * np.exp(xlogy(self.shape - 1, y) - y**self.shape)
        return np.where((x >= 0) & (x < inf), density, 0)

    def _quantile(self, u):
        return self.scale * (-np.log1p(-u)) ** (1 / self.shape)

    def _partial(self, n, x):
        a, z = 1 + n / self.shape, self._hazard(x)
        if a <= 0:
            return np.where(z > 0, inf, 0)
        return self.scale**n * np.exp(gammaln(a) + np.log(gammainc(a, z)))

    def _tail(self, n, x):
        a, z = 1 + n / self.shape, self._hazard(x)
        if a > 0:
            return self.scale**n * np.exp(gammaln(a) + np.log(gammaincc(a, z)))
        y, dy = _log_grid(1e-18 * z[z > 0].min(initial=1), 750)
        beyond = np.exp(-z) * ((z[..., None] + y) ** (a - 1) @ (dy * np.exp(-y)))
        return self.scale**n * np.where(z > 0, beyond, inf)  # (10)

    def _residual(self, x):
        age, (y, dy) = np.clip(x, self.scale, 1e300), _log_grid(1e-18, 750)
        z = self._hazard(age)
        far = age * (np.expm1(np.log1p(y / z[..., None]) / self.shape) @ (dy * np.exp(-y)))  # (10)
        return np.where(z > 1, far, super()._residual(x))


@dataclass(frozen=True, eq=False, repr=False)
class Lognormal(Law):
    """ln(X / median) is normal with mean 0 and standard deviation sigma."""

    median: float
    sigma: float
    _sizes = ("median",)

    def _normal(self, x):
        return np.log(np.maximum(x, 0) / self.median) / self.sigma

    def _pdf(self, x):
        density = np.exp(-(self._normal(x) ** 2) / 2) / (sqrt(2 * pi) * self.sigma * x)
        return np.where((x > 0) & (x < inf), density, 0)

    def _quantile(self, u):
        return self.median * np.exp(self.sigma * ndtri(u))

    def _partial(self, n, x, sign=1):
        shift = n * self.sigma
        return np.exp(n * log(self.median) + shift**2 / 2 + log_ndtr(sign * (self._normal(x) - shift)))

    def _tail(self, n, x):
        return self._partial(n, x, -1)

    def _residual(self, x):
        y = np.clip(x, self.median, 1e300)
        z = self._normal(y)
        far = y * (erfcx((z - self.sigma) / sqrt(2)) / erfcx(z / sqrt(2)) - 1)
        return np.where(z > 0, far, super()._residual(x))


@dataclass(frozen=True, eq=False, repr=False)
class Discrete(Law):
    """Mass ``probabilities`` (N,) at the increasing sizes ``values`` (N,)."""

    values: np.ndarray
    probabilities: np.ndarray
    _sizes = ("values",)
    low = property(lambda self: float(self.values[0]))
    high = property(lambda self: float(self.values[-1]))
    atoms = property(lambda self: self.values)
    _sums = cached_property(lambda self: {})

    @cached_property
    def scv(self) -> float:
        return float(self.probabilities @ (self.values / self.mean - 1) ** 2)

    def _cumulative(self, n):
        """m_n and t_n below the first value and at each value, (N + 1,) each."""
        if n not in self._sums:
            terms = self.probabilities * self.values ** float(n)
            up, down = (np.cumsum(t, dtype=np.longdouble).astype(float) for t in (terms, terms[::-1]))
            self._sums[n] = np.append(0, up), np.append(down[::-1], 0)
        return self._sums[n]

    def _partial(self, n, x):
        return self._cumulative(n)[0][np.searchsorted(self.values, x, side="right")]

    def _tail(self, n, x):
        return self._cumulative(n)[1][np.searchsorted(self.values, x, side="right")]

    def _pdf(self, x):
        raise ValueError(f"{self} has no density: all its mass is in .atoms")

    def _quantile(self, u):
        return self.values[np.searchsorted(self._cumulative(0)[0][1:-1], u)]

    def _sample(self, n, rng):
        distinct = np.ptp(self.probabilities) == 0
        return self.values[rng.integers(self.values.size, size=n)] if distinct else super()._sample(n, rng)

    def _laplace(self, s):
        return np.reshape([self.probabilities @ np.exp(-t * self.values) for t in s.flat], s.shape)


def _named(constructor):
    """The constructor, with its call as the repr of the law."""

    @wraps(constructor)
    def named(*args, **kwargs):
        law, call = constructor(*args, **kwargs), signature(constructor).bind(*args, **kwargs)
        call.apply_defaults()
        arguments = ", ".join(f"{name}={_text(value)}" for name, value in call.arguments.items())
        return replace(law, label=f"{constructor.__name__}({arguments})")

    return named


@_named
def exponential(mean: float = 1) -> PhaseType:
    """Exponential law."""
    _positive(mean=mean)
    return _branches([1], 1, [1 / mean])


@_named
def erlang(k: int, mean: float = 1) -> PhaseType:
    """Sum of k independent exponentials of one rate; scv = 1/k."""
    _positive(mean=mean)
    return _branches([1], _integer("k", k, 1), [k / mean])


@_named
def hyperexponential(scv: float = 10, f: float = 0.5) -> PhaseType:
    """Two exponential branches, unit mean, scv >= 1; the first, of short jobs, has the share f of the work (8)."""
    _positive(scv=scv, f=f)
    _check(scv >= 1, "scv", scv, "a hyperexponential has scv >= 1, and erlang(k) has scv = 1/k")
    return _fitted(scv, f, 1)


@_named
def mixed_erlang(scv: float = 10, f: float = 0.5, k: int = 5) -> PhaseType:
    """Two Erlang branches of k stages, unit mean, scv >= 1/k; the first has the share f of the work (8)."""
    _positive(scv=scv, f=f)
    _check(scv >= 1 / _integer("k", k, 1), "scv", scv, f"with k = {k} stages the smallest permitted is 1/k = {1 / k:g}")
    return _fitted(max(2 * (scv + 1) / (1 + 1 / k) - 1, 1), f, k)


@_named
def pareto(alpha: float, low: float) -> Power:
    """P(X > x) = (low / x)^alpha for x >= low; alpha > 1."""
    _positive(alpha=alpha, low=low)
    _check(alpha > 1, "alpha", alpha, "the mean of a Pareto law is infinite unless alpha > 1 (see bounded_pareto)")
    return Power(float(alpha), float(low), inf)


@_named
def bounded_pareto(alpha: float, low: float, high: float) -> Power:
    """The Pareto law given X <= high, of any alpha > 0."""
    _positive(alpha=alpha, low=low, high=high)
    _check(low < high, "low", low, f"it must be less than high, which is {high}")
    return Power(float(alpha), float(low), float(high))


@_named
def uniform(a: float, b: float) -> Power:
    """Uniform on [a, b], 0 <= a < b."""
    _positive(b=b)
    _check(0 <= a < b, "a", a, f"it must be >= 0 and less than b, which is {b}")
    return Power(-1.0, float(a), float(b))


@_named
def weibull(shape: float, mean: float = 1) -> Weibull:
    """P(X > x) = exp(-(x / scale)^shape), with the scale that gives the mean; decreasing hazard rate for shape < 1."""
    _positive(shape=shape, mean=mean)
    _check(shape >= 0.01, "shape", shape, "below 0.01 the scale of a Weibull law underflows")
    return Weibull(float(shape), mean * exp(-gammaln(1 + 1 / shape)))


@_named
def lognormal(scv: float, mean: float = 1) -> Lognormal:
    """The exponential of a normal variable; scv > 0."""
    _positive(scv=scv, mean=mean)
    return Lognormal(mean / sqrt(1 + scv), sqrt(log1p(scv)))


@_named
def deterministic(value: float = 1) -> Discrete:
    """Every job has the same size."""
    _positive(value=value)
    return _discrete([value], [1])


@_named
def discrete(values: ArrayLike, probabilities: ArrayLike) -> Discrete:
    """Finitely many sizes >= 0; equal ones are merged."""
    return _discrete(values, probabilities)


@_named
def empirical(samples: ArrayLike) -> Discrete:
    """The law of a draw, with replacement, from a measured trace of sizes >= 0."""
    samples = _nonnegative("samples", samples)
    return _discrete(samples, np.full(samples.size, 1 / samples.size))


def _branches(w, k, r):
    """Parallel branches of k stages each, taken with probabilities w, of rates r."""
    rate, alpha = np.repeat(np.asarray(r, float), k), np.zeros(k * len(r))
    alpha[::k] = w
    step = np.where(np.arange(1, rate.size) % k, rate[:-1], 0)
    return MixedErlang(alpha, np.diag(step, 1) - np.diag(rate))


def _fitted(c, f, k):
    _check(f < 1, "f", f, "the share of the work that short jobs bring is between 0 and 1")
    d = sqrt((c - 1) * (c - 1 + 8 * f * (1 - f)))
    mu = np.array([(c + 4 * f - 1 + d) / (2 * f * (c + 1)), 4 * (1 - f) / (c + 3 - 4 * f + d)])  # (8)
    return _branches(mu * (f, 1 - f), k, k * mu)


def _discrete(values, probabilities):
    values, probabilities = _nonnegative("values", values), _probabilities("probabilities", probabilities)
    n = values.size
    _check(probabilities.size == n, "the number of probabilities", probabilities.size, f"there are {n} values")
    values, index = np.unique(values[probabilities > 0], return_inverse=True)
    _check(values[-1] > 0, "every size", values[-1], "the mean job size must be positive")
    return Discrete(values, np.bincount(index, probabilities[probabilities > 0]))


def _propagate(v, M, x):
    """v exp(M x) for each x, as rows of sum one and the logarithms of their sums (7)."""
    theta, one = -np.diag(M).min(), np.eye(len(M))
    B, orders = M + theta * one, range(1, len(M) + 20)
    h = 2.0 ** -np.ceil(np.log2(theta + B.sum(axis=1).max()))
    rest, doublings = np.modf(np.clip(x / h, 0, 1e300))
    rows = np.array([*accumulate(orders, lambda row, n: row @ B * (h / n), initial=v)])
    v = rest[..., None] ** np.arange(len(rows)) @ rows * np.exp(-theta * h * rest)[..., None]
    mass = v.sum(axis=-1)
    v, log_mass = v / mass[..., None], np.log(mass)
    E, log_E = np.exp(-theta * h) * reduce(lambda E, n: one + E @ B * (h / n), reversed(orders), one), 0.0  # (7)
    while np.any(doublings):
        doublings, odd = np.divmod(doublings, 2)
        w = v @ E
        mass = w.sum(axis=-1)
        v = np.where((odd * mass > 0)[..., None], w / mass[..., None], v)
        log_mass = np.where(odd > 0, log_mass + np.log(mass) + log_E, log_mass)
        E = E @ E
        log_E, E = 2 * log_E + np.log(E.max()), E / max(E.max(), 1e-300)
    return v, log_mass


def _power_integral(q, a, b, unit):
    """The integral of x^{q-1} over [a, b], with x in the given unit (9)."""
    d = np.log1p(np.divide(b - a, a))
    return np.power((b if q > 0 else a) / unit, q) * np.expm1(-abs(q) * d) / -abs(q) if abs(q) > 1e-30 else d


def _log_grid(low, high):
    """Nodes and weights on (0, inf) of the trapezoid rule in the logarithm; the error is below 1e-15."""
    y = np.exp(np.arange(log(low), log(high), 0.125))
    return y, y / 8


def _each(name, x, f, low=-inf, high=inf):
    x = np.asarray(x, float)
    _check((low <= x) & (x <= high), name, x, f"it must be a number from {low:g} to {high:g}")
    with np.errstate(all="ignore"):
        value = np.asarray(f(x), float)
    return value if value.ndim else float(value)


def _check(valid, name, value, rule):
    """ValueError about the first entry of ``value`` that is not valid."""
    for i in np.argwhere(~np.asarray(valid, bool)).tolist():
        raise ValueError(f"{name}{i or ''} is {np.asarray(value)[tuple(i)]}; {rule}")


def _integer(name, n, low):
    _check(isinstance(n, Integral) and n >= low, name, n, f"it must be an integer >= {low}")
    return int(n)


def _positive(**parameters):
    for name, value in parameters.items():
        _check(isinstance(value, Real) and 0 < value < inf, name, value, "it must be a positive finite number")


def _nonnegative(name, values):
    values = np.array(values, float)
    _check(values.ndim == 1 and values.size, f"the shape of {name}", str(values.shape), "it must be (N,) with N >= 1")
    _check((values >= 0) & (values < inf), name, values, "it must be finite and >= 0")
    return values


def _probabilities(name, values):
    values = _nonnegative(name, values)
    _check(abs(values.sum() - 1) < 1e-9, f"the sum of {name}", values.sum(), "it must be 1")
    return values / values.sum()


def _text(value):
    if np.ndim(value):
        return f"{np.asarray(value, float).tolist()}" if np.size(value) <= 16 else f"<{np.size(value)} numbers>"
    return repr(float(value)).removesuffix(".0")
