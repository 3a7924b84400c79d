r"""Light traffic: the mean response time R(lam) of SQ(d) near lam = 0, for FCFS servers of any speeds.

One idea: with fewer than d jobs about, an arrival finds an idle server among its d samples, so SQ(d) is the loss
system "join an idle server, uniformly", whose law is explicit and depends on the sizes through their mean alone.
Waiting enters at order d.

==============  ==============================================================  ====================================
symbol          meaning                                                         unit or shape
==============  ==============================================================  ====================================
lam             total arrival rate (Poisson)                                    jobs per unit time
K, C_k          servers and their speeds                                        size per unit time
d               distinct servers sampled, ties broken uniformly                 1..K
m1, m2          E X, E X^2 of the job size X                                    size, size^2
a_k, S_j        slowness 1/C_k and power sums sum a_k^j                         time per size
abar, b_k       S_1/K and a_k - abar
B_j, e_j        power sums and elementary symmetric functions of the b_k
p_n, q_n        e_n/C(K, n), and the same made of the a_k: mean product over n random servers
kappa_n         cumulants that belong to the "moments" q_n
c_n             coefficient of lam^n in the stationary law of the chain         (states,)
Q, P            completions and phase moves; where an arrival leads             (states, states)
U               set of the n slowest servers, n >= d
x, h            load lam/lam_c, and lim (1 - x) R in heavy traffic              -, time
==============  ==============================================================  ====================================

Orders up to d, any size law::

    n e_n = sum_{j=2..n} (-1)^{j-1} B_j e_{n-j},  p_{K+1} := 0                                                     (1)
    q_n = sum_m C(n, m) abar^{n-m} p_m                                                                             (2)
    kappa_1 = abar,  kappa_n = p_n - sum_{m=2..n-1} C(n-1, m-1) kappa_m p_{n-m}                                    (3)
    R^(n)(0+) = m1^{n+1} kappa_{n+1},  n < d                                                                       (4)
    delta = K (abar q_d - q_{d+1}) / d                                                                             (5)
    R^(d)(0+) = m1^{d+1} (kappa_{d+1} + delta/C(K, d)) + m1^{d-1} m2 (q_{d+1} + delta) / (2 C(K, d))               (6)
                 assignment                             waiting

(3) uses that a constant added to every a_k changes kappa_1 alone; the value taken for p_{K+1} drops out of (6). For
d = 2 the parts are 2 m1^3 sum a_k b_k^2 / (K (K-1)^2) and m1 m2 (S_1 S_2 - S_3) / (K (K-1))^2. Orders above d::

    d = 1:  R^(n)(0+) = n! m1^{n-1} m2 S_{n+1} / (2 K^{n+1}),  n >= 1   (Pollaczek-Khinchine)                      (7)
    phase type:  0 = Q' c_n + (P' - I) c_{n-1},  1 c_n = 0,  c_0 the empty system                                  (8)

In (8) c_n lives on the states within n arrivals of the empty system, so a finite chain gives it without truncation.

Stability and what lies between::

    lam_c = min_U C(K, d)/C(|U|, d) sum_{k in U} C_k / m1                                                          (9)
    h = m2 / (2 m1^2 lam_c)                                                                                       (10)
    Ia = [r0 + (r1 - r0) x + (r2 - r1) x^2 + (h - r2) x^3] / (1 - x)                                              (11)
    Ib = [r0 + (r1 + (b-1) r0) x + (r2 + (b-1) r1 - b r0) x^2] / ((1 - x)(1 + b x)),  b = (r2 - h)/(h - r1)       (12)
    Ig = sqrt(Ia Ib)                                                                                              (13)

with r_n = R^(n)(0+) lam_c^n / n!. All of (1)-(7), (9) are evaluated in rational arithmetic and rounded once.

Sources: derivatives by the method of Reiman and Simon (1989), set up for this model by Izagirre and Makowski (arXiv
1701.06004); (6) keeps the wait of a job whose d samples are all busy, the part that makes R^(d) depend on m2. (9): Foss
and Chernova (1998), Bramson (2011). (10) is state-space collapse, heuristic here; (11)-(13) are interpolations.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from math import comb, factorial, inf, isclose, lcm
from numbers import Integral, Real
from sys import float_info

import numpy as np
from scipy.interpolate import pade as pade_polynomials
from scipy.linalg import LinAlgError, LinAlgWarning
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import splu

from lbkit.jobs import Law, PhaseType
from lbkit.results import Approximant, Expansion, StabilityBound

Speeds = Sequence[float] | Mapping[float, int] | Sequence[tuple[float, int]]
Size = Law | tuple[float, float]


def expand(speeds: Speeds, job: Size, d: int = 2, order: int | None = None, *, exact: bool = False) -> Expansion:
    """Derivatives R^(n)(0+), n = 0..order (default d), of the mean response time under SQ(d), in closed form.

    ``speeds`` is a sequence of K speeds, a mapping {speed: servers} or a sequence of (speed, servers); ``job`` is a law
    or the pair (m1, m2). The arithmetic is rational: the error is one rounding of the slownesses and one of the result,
    and none with ``exact``, which returns Fractions (a float given counts as the binary number it is).

    Cost O(groups d + d^2). ValueError for an order above d (except d = 1, where every order is closed), and for order d
    when m2 is infinite, since R^(d)(0+) is infinite too. Source: (1)-(7).
    """
    groups, K = _system(speeds, d)
    order = d if order is None else _integer("order", order, 0)
    if order > d > 1:
        raise ValueError(
            f"order {order} exceeds d = {d}: beyond order d more than two moments of the job size matter; "
            "series() gives any order for exponential and phase-type sizes"
        )
    m1, m2 = _moments(job)
    if order >= d and m2 == inf:
        raise ValueError(f"R^({d})(0+) is infinite since E[X^2] is; orders 0..{d - 1} are finite, take order={d - 1}")

    a, unit = _integers([1 / Fraction(speed) if exact else 1 / float(speed) for speed, _ in groups])
    counts, top = [count for _, count in groups], min(order, d) + 1
    total = sum(n * x for n, x in zip(counts, a))
    mean = Fraction(total, K * unit)
    B = [Fraction(sum(n * (K * x - total) ** j for n, x in zip(counts, a)), (K * unit) ** j) for j in range(top + 1)]

    p = [Fraction(1)]
    for n in range(1, top + 1):
        terms = ((-1) ** (j - 1) * B[j] * p[n - j] * Fraction(comb(K, n - j), comb(K, n)) for j in range(2, n + 1))
        p.append(sum(terms, Fraction(0)) / n if n <= K else Fraction(0))  # (1)
    kappa = [Fraction(0), mean]
    for n in range(2, top + 1):
        kappa.append(p[n] - sum(comb(n - 1, m - 1) * kappa[m] * p[n - m] for m in range(2, n)))  # (3)

    derivatives, waiting = [m1 ** (n + 1) * kappa[n + 1] for n in range(min(order + 1, d))], None  # (4)
    if order >= d:
        q_d, q_next = (sum(comb(n, m) * mean ** (n - m) * p[m] for m in range(n + 1)) for n in (d, d + 1))  # (2)
        delta = K * (mean * q_d - q_next) / d  # (5)
        waiting = m1 ** (d - 1) * m2 * (q_next + delta) / (2 * comb(K, d))
        derivatives.append(m1 ** (d + 1) * (kappa[d + 1] + delta / comb(K, d)) + waiting)  # (6)
    for n in range(d + 1, order + 1):
        S = Fraction(sum(count * x ** (n + 1) for count, x in zip(counts, a)), unit ** (n + 1))
        derivatives.append(factorial(n) * m1 ** (n - 1) * m2 * S / (2 * K ** (n + 1)))  # (7)
    number = Fraction if exact else float
    waiting = None if waiting is None else number(waiting)
    rate = float(_stability(groups, K, m1, d)[0])
    return Expansion(tuple(groups), d, tuple(map(number, derivatives)), waiting, rate, "closed form")


def series(speeds: Speeds, job: PhaseType, d: int = 2, order: int = 8, *, max_states: int = 50_000) -> Expansion:
    """Derivatives R^(n)(0+), n = 0..order, of any order, from the Markov chain of a small system with phase-type sizes.

    Servers of equal speed are lumped. Nothing is truncated; the error is the rounding of one sparse solve per order and
    grows with the order (some nine digits are left at order 8 with ten servers). The series converges in a circle that
    may end far below the largest stable rate; ``pade`` goes on from there.

    ValueError for a law that is not phase type, and when more than ``max_states`` states lie within order + 1 arrivals
    of the empty system. Source: (8).
    """
    groups, K = _system(speeds, d)
    order = _integer("order", order, 0)
    if not isinstance(job, PhaseType):
        raise ValueError(f"the series needs a phase-type law, exponential say, not {job!r}; expand() takes any law")
    states, up, down = _chain(groups, job, d, order + 1, max_states)
    size = len(states)
    P, Q = (coo_array((w, (to, origin)), (size, size)).tocsr() for origin, to, w in (zip(*up), zip(*down)))  # P', Q'
    drain = splu((diags_array(Q.sum(axis=0)) - Q).tocsc()[1:, 1:])  # without the empty state, which 1 c_n = 0 gives
    jobs = np.array([sum(length * servers for (length, *_), servers in state) for state in states], float)
    law = np.zeros(size)
    law[0] = 1
    coefficients = []
    for _ in range(order + 1):
        busy = drain.solve((P @ law - law)[1:])  # (8)
        law = np.concatenate([[-busy.sum()], busy])
        coefficients.append(float(jobs @ law))  # lam R(lam) is the mean number of jobs
    closed = expand(groups, job, d, min(order, d))
    derivatives = tuple(factorial(n) * c for n, c in enumerate(coefficients))
    return replace(closed, derivatives=derivatives, method=f"power series of the Markov chain, {size} states")


def without_waiting(expansion: Expansion) -> Expansion:
    """The expansion cut off after order d, with R^(d)(0+) reduced to its assignment part: wrong, and instructive.

    It depends on the mean size alone, and is constant for equal speeds and d > 1. The second derivative that the text
    of Izagirre and Makowski describes has these properties; the exact one, (6), has not. ValueError if the order is
    below d.
    """
    d, derivatives = expansion.d, expansion.derivatives
    if expansion.waiting is None:
        raise ValueError(f"an expansion of order {len(derivatives) - 1} has no waiting part; take order >= {d}")
    return replace(expansion, derivatives=(*derivatives[:d], expansion.assignment), waiting=0 * expansion.waiting)


def pade(expansion: Expansion, m: int, n: int) -> Approximant:
    """Rational function of degrees [m/n] in lam that shares the first m + n + 1 Taylor coefficients of ``expansion``.

    It ends at its first pole below the largest stable rate; a spurious one moves when the degrees change. ValueError if
    the expansion is too short or the equations are singular (R is then close to a rational function of lower degrees).
    """
    m, n = _integer("m", m, 0), _integer("n", n, 0)
    c = [float(coefficient) for coefficient in expansion.coefficients]
    if m + n >= len(c):
        raise ValueError(f"a [{m}/{n}] Pade approximant needs order {m + n}; the expansion has order {len(c) - 1}")
    scale = min((abs(c[0] / ck) ** (1 / k) for k, ck in enumerate(c) if k and ck), default=expansion.max_rate)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        try:
            top, bottom = pade_polynomials([ck * scale**k for k, ck in enumerate(c[: m + n + 1])], n, m)
        except (LinAlgError, LinAlgWarning):
            raise ValueError(f"the equations of the [{m}/{n}] Pade approximant are singular; lower m or n") from None
    poles = [x.real * scale for x in bottom.roots if x.real > 0 and abs(x.imag) <= 1e-9 * abs(x)]
    factors = ((tuple(top.coef[::-1]), tuple(bottom.coef[::-1])),)
    statement = f"[{m}/{n}] Pade approximant: the derivatives at 0 up to order {m + n}; no error bound"
    return Approximant(scale, factors, min([expansion.max_rate, *poles]), statement)


def max_rate(speeds: Speeds, job: Size, d: int = 2, *, exact: bool = False) -> StabilityBound:
    """Largest arrival rate lam_c below which SQ(d) is stable, and the n slowest servers U that set it, in O(groups).

    A job whose samples all lie in U has to be served by U; at lam_c their work fills U. For d = K, lam_c is the whole
    capacity, for d = 1 the K-fold of the slowest server. ``exact`` returns a Fraction. Source: (9).
    """
    groups, K = _system(speeds, d)
    rate, n, unique = _stability(groups, K, _moments(job)[0], d)
    return StabilityBound(rate if exact else float(rate), n, unique, tuple(groups))


def interpolate(speeds: Speeds, job: Size, d: int = 2, *, kind: str = "Ig") -> Approximant:
    """R(lam) on 0 <= lam < lam_c, from R, R', R'' at 0 and the heavy-traffic residue h.

    ``kind``: "Ia" has one pole and a cubic numerator, "Ib" a second pole; for d = 2 they mostly err on either side, and
    "Ig" is their geometric mean. No bounds. Measured for d = 2 up to x = 0.6: unequal speeds, Ig within 5 % with ten
    servers half of them slow, 11 % with two to four servers, but 36 % high with one slow server among nine fast ones;
    equal speeds, some 5 % at most by Ib for two servers, Ig for three, Ia from five on. For d > 2 all are rough, mostly
    too low, since waiting enters at order d. For d = 1 and at most two speeds Ib is exact.

    ValueError for infinite m2 and for b <= -1, where Ib has a pole inside. Source: (9)-(13).
    """
    if kind not in ("Ia", "Ib", "Ig"):
        raise ValueError(f"kind must be 'Ia', 'Ib' or 'Ig', not {kind!r}")
    groups, K = _system(speeds, d)
    m1, m2 = _moments(job)
    if m2 == inf:
        raise ValueError("no interpolation: E[X^2] is infinite, and with it the residue h")
    rate, _, unique = _stability(groups, K, m1, d)
    alike = groups[0][1] if d == 1 else 1  # for d = 1 every slowest server is a bottleneck of its own
    h = float(alike * m2 / (2 * m1**2 * rate))  # (10)
    r0, r1, r2 = (c * float(rate) ** k for k, c in enumerate(expand(groups, (m1, m2), d, 2).coefficients))
    Ia = (r0, r1 - r0, r2 - r1, h - r2), (1, -1)  # (11)
    factors = (Ia,)
    if kind != "Ia":
        b = 0 if isclose(r2, h, rel_tol=1e-12) else (r2 - h) / (h - r1) if h != r1 else -inf
        if b <= -1:
            raise ValueError(f"{kind} needs b > -1, but b = {b:.4g}; Ia has no such condition")
        Ib = (r0, r1 + (b - 1) * r0, r2 + (b - 1) * r1 - b * r0), (1, b - 1, -b)  # (12)
        factors = (Ib,) if kind == "Ib" else (Ia, Ib)  # (13)
    statement = f"{kind}: R, R', R'' at 0 and the residue {h:.6g} at rate {float(rate):.6g}; no bound between"
    if d > 1 and not unique:
        statement += "; two sets of servers tie there, so the residue is in doubt"
    if d > 2:
        statement += f"; rough at moderate load, mostly too low, as waiting enters at order {d}"
    return Approximant(float(rate), factors, float(rate), statement)


def _stability(groups, K, m1, d):
    """lam_c, the size n of U, and whether no other set attains it. For d > 1 the least U is made of whole groups."""
    speeds, unit = _integers([speed for speed, _ in groups])
    done = total = n = 0
    least, of, unique = 1, 0, True
    for speed, (_, count) in zip(speeds, groups):
        done, total = done + count, total + count * speed
        excess = total * of - least * comb(done, d)  # sign of total/comb(done, d) - least/of
        unique = excess < 0 or unique and (excess > 0 or done < d)
        if excess < 0:
            least, of, n = total, comb(done, d), done
    if d == 1:
        n, unique = 1, groups[0][1] == 1
    return Fraction(least, of) * comb(K, d) / (unit * m1), n, unique  # (9)


def _chain(groups, job, d, arrivals, max_states):
    """States within so many arrivals of the empty system (state 0), and the transitions (from, to, weight) up and down.

    A state tells how many servers have each (length, speed, phase of the job in service); an idle server has phase 0.
    """
    start = [(phase, p) for phase, p in enumerate(job.alpha) if p > 0]
    empty = frozenset(((0, float(speed), 0), servers) for speed, servers in groups)
    numbers, states, up, down = {empty: 0}, [empty], [], []

    def number(state):
        if state not in numbers:
            if len(states) == max_states:
                raise ValueError(
                    f"more than max_states = {max_states} states lie within {arrivals} arrivals of the empty system; "
                    "lower the order, merge speeds into fewer groups or raise max_states"
                )
            numbers[state] = len(states)
            states.append(state)
        return numbers[state]

    first = 0
    for _ in range(arrivals):
        last = len(states)
        for i in range(first, last):
            up += [(i, number(state), p) for state, p in _arrivals(states[i], start, d)]
        first = i = last
        while i < len(states):
            down += [(i, number(state), rate) for state, rate in _completions(states[i], start, job)]
            i += 1
    return states, up, down


def _arrivals(state, start, d) -> Iterator[tuple[frozenset, float]]:
    """The next states and their probabilities when a job joins a shortest queue of d sampled ones."""
    K = at_least = sum(servers for _, servers in state)
    for length, shortest in groupby(sorted(state), key=lambda entry: entry[0][0]):
        shortest = list(shortest)
        here = sum(servers for _, servers in shortest)
        share = (comb(at_least, d) - comb(at_least - here, d)) / comb(K, d) / here
        at_least -= here
        for (_, speed, phase), servers in shortest if share else ():
            for after, p in [(phase, 1)] if length else start:
                yield _moved(state, (length, speed, phase), (length + 1, speed, after)), servers * share * p


def _completions(state, start, job) -> Iterator[tuple[frozenset, float]]:
    """The next states and their rates when a service ends or changes its phase."""
    for (length, speed, phase), servers in state:
        if length:
            next_job = start if length > 1 else [(0, 1)]
            ends = [((length - 1, speed, after), job.exit[phase] * p) for after, p in next_job]
            turns = [((length, speed, after), rate) for after, rate in enumerate(job.A[phase]) if after != phase]
            for new, rate in ends + turns:
                if rate > 0:
                    yield _moved(state, (length, speed, phase), new), servers * speed * rate


def _moved(state, old, new) -> frozenset:
    """The state with one server less in ``old`` and one more in ``new``."""
    servers = Counter(dict(state))
    servers[old] -= 1
    servers[new] += 1
    return frozenset((+servers).items())


def _integers(values) -> tuple[list[int], int]:
    """Integers and their common unit: values[i] = integers[i] / unit, exactly."""
    ratios = [value.as_integer_ratio() for value in values]
    unit = lcm(*(q for _, q in ratios))
    return [p * (unit // q) for p, q in ratios], unit


def _system(speeds, d):
    """The (speed, servers) groups, slowest first, and K."""
    listed = list(speeds.items() if isinstance(speeds, Mapping) else speeds)
    if not all(isinstance(entry, (tuple, list)) and len(entry) == 2 for entry in listed):
        listed = Counter(listed).items()
    servers = Counter()
    for speed, count in listed:
        if not isinstance(speed, Real) or isinstance(speed, bool) or not float_info.min <= speed <= float_info.max:
            raise ValueError(f"every speed must be a positive finite number, not {speed!r}")
        speed = int(speed) if isinstance(speed, Integral) else speed if isinstance(speed, Fraction) else float(speed)
        servers[speed] += _integer("the number of servers of a speed", count, 1)
    K = sum(servers.values())
    if not K:
        raise ValueError("speeds is empty; at least one server is needed")
    if _integer("d", d, 1) > K:
        raise ValueError(f"d = {d} distinct servers cannot be sampled from {K}; d must be in 1..{K}")
    return sorted(servers.items()), K


def _moments(job):
    """(m1, m2) as Fractions; m2 may be inf."""
    m1, m2 = job if isinstance(job, (tuple, list)) else (job.mean, job.moment(2))
    if not 0 < m1 < inf:
        raise ValueError(f"the mean job size must be positive and finite, not {m1!r}")
    if not m2 >= m1 * m1 * (1 - 1e-12):
        raise ValueError(f"E[X^2] must be at least (E X)^2 = {m1 * m1}, not {m2!r}")
    return Fraction(m1), m2 if m2 == inf else Fraction(m2)


def _integer(name, value, least) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, not {value!r}")
    return int(value)
