import math
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.special import erfcx, log_ndtr

from lbkit import jobs
from oracles import jobs as oracle

CYCLE = [0.2, 0.8, 0], [[-3, 2, 0.5], [0, -0.7, 0.4], [1.1, 0, -4]]
TRACE = np.round(np.random.default_rng(7).exponential(size=200), 1)
U = np.array([1e-6, 0.01, 0.3, 0.7, 0.99, 1 - 1e-9])


def two_branches(scv, f, stages=1):
    """Survival of the fit: the quadratic for mu_1 that unit mean, share f and the second moment leave."""
    half_moment = (scv + 1) / (1 + 1 / stages)
    fast = max(np.roots([half_moment * f, (1 - f) ** 2 - f**2 - half_moment, f]).real)
    slow = (1 - f * fast) / (1 - f)
    branches = (f * fast, stages * fast), ((1 - f) * slow, stages * slow)
    return lambda x: sum(p * stage_sum(stages, rate * x) for p, rate in branches)


def stage_sum(k, y):
    y = np.minimum(y, 800)
    return np.exp(-y) * sum(y**j / math.factorial(j) for j in range(k))


def chain(alpha, A):
    decay, vectors = np.linalg.eig(np.array(A))
    weight = (alpha @ vectors) * np.linalg.solve(vectors, np.ones(len(A)))
    return lambda x: (np.exp(np.multiply.outer(np.minimum(x, 1e5), decay)) @ weight).real


def clipped_power(alpha, low, high):
    def survival(x):
        x = np.clip(x, low, high)
        top = 0 if high == np.inf else high**-alpha
        return (x**-alpha - top) / (low**-alpha - top)

    return survival


def weibull_tail(shape, mean):
    return lambda x: np.exp(-np.minimum((x * math.gamma(1 + 1 / shape) / mean) ** shape, 800))


def lognormal_tail(scv, mean):
    sigma = math.sqrt(math.log(1 + scv))
    middle = math.log(mean) - sigma**2 / 2
    return np.vectorize(lambda x: math.erfc((math.log(x) - middle) / sigma / math.sqrt(2)) / 2 if x > 0 else 1.0)


def atoms_above(values, probabilities):
    return lambda x: np.sum((np.asarray(values) > np.asarray(x)[..., None]) * np.asarray(probabilities), axis=-1)


LAWS = {
    "exponential": (jobs.exponential(), lambda x: stage_sum(1, x)),
    "exponential 2.5": (jobs.exponential(2.5), lambda x: stage_sum(1, x / 2.5)),
    "erlang": (jobs.erlang(3), lambda x: stage_sum(3, 3 * x)),
    "erlang 20": (jobs.erlang(20, mean=2), lambda x: stage_sum(20, 10 * x)),
    "hyperexponential": (jobs.hyperexponential(), two_branches(10, 0.5)),
    "hyperexponential rare": (jobs.hyperexponential(30, 0.1), two_branches(30, 0.1)),
    "mixed_erlang": (jobs.mixed_erlang(), two_branches(10, 0.5, 5)),
    "mixed_erlang low scv": (jobs.mixed_erlang(0.5, 0.3, 4), two_branches(0.5, 0.3, 4)),
    "PhaseType": (jobs.PhaseType(*CYCLE), chain(*CYCLE)),
    "PhaseType erlang": (jobs.PhaseType([1, 0], [[-2, 2], [0, -2]]), lambda x: stage_sum(2, 2 * x)),
    "deterministic": (jobs.deterministic(2), lambda x: np.where(np.asarray(x) < 2, 1.0, 0.0)),
    "uniform": (jobs.uniform(0, 2), lambda x: np.clip(1 - x / 2, 0, 1)),
    "uniform off zero": (jobs.uniform(1, 3), lambda x: np.clip((3 - x) / 2, 0, 1)),
    "weibull heavy": (jobs.weibull(0.5), weibull_tail(0.5, 1)),
    "weibull light": (jobs.weibull(2.5, mean=3), weibull_tail(2.5, 3)),
    "lognormal": (jobs.lognormal(4), lognormal_tail(4, 1)),
    "lognormal narrow": (jobs.lognormal(0.1, mean=2), lognormal_tail(0.1, 2)),
    "bounded_pareto": (jobs.bounded_pareto(1, 1, 1000), clipped_power(1, 1, 1000)),
    "bounded_pareto flat": (jobs.bounded_pareto(0.5, 0.1, 10), clipped_power(0.5, 0.1, 10)),
    "pareto": (jobs.pareto(1.5, 1), clipped_power(1.5, 1, np.inf)),
    "pareto light": (jobs.pareto(4.2, 0.5), clipped_power(4.2, 0.5, np.inf)),
    "discrete": (jobs.discrete([3, 0, 1], [0.3, 0.2, 0.5]), atoms_above([0, 1, 3], [0.2, 0.5, 0.3])),
    "empirical": (jobs.empirical(TRACE), atoms_above(TRACE, np.full(200, 1 / 200))),
}
every = pytest.mark.parametrize("law, survival", LAWS.values(), ids=LAWS.keys())
CONTINUOUS = {name: pair for name, pair in LAWS.items() if not pair[0].atoms.size}
continuous = pytest.mark.parametrize("law, survival", CONTINUOUS.values(), ids=CONTINUOUS.keys())


def points(law):
    """Sizes all over the support, off the atoms."""
    x = law.quantile(U)
    return x[x > 0] * (1 + 1e-9 * (law.atoms.size > 0))


def below(x):
    return np.nextafter(x, -np.inf)


def finite_orders(law):
    return [n for n in (1, 2, 3) if math.isfinite(law.moment(n))]


@every
def test_survival_is_its_definition(law, survival):
    x = points(law)
    assert law.survival(x) == pytest.approx(survival(x), rel=2e-8, abs=1e-14)
    assert law.survival([-1.0, math.inf]) == pytest.approx([1, 0], rel=1e-14, abs=0)


@every
def test_moments_are_integrals_of_the_survival_function(law, survival):
    for n in finite_orders(law):
        whole = oracle.partial_moment(lambda x: survival(x) * (x < 1e119), n, 1e120, law.mean, law.breakpoints)
        assert law.moment(n) == pytest.approx(whole, rel=1e-10)
    assert law.moment(0) == pytest.approx(1, rel=1e-14)
    assert law.mean == law.moment(1)
    if 2 in finite_orders(law):
        assert law.scv == pytest.approx(law.moment(2) / law.mean**2 - 1, rel=1e-12, abs=1e-12)


def test_a_wrong_moment_is_caught_by_the_quadrature():
    class Wrong(jobs.Weibull):
        def _tail(self, n, x):
            return super()._tail(n, x) * (1 + 1e-8 * (n == 2))

    law = jobs.weibull(0.5)
    wrong = Wrong(law.shape, law.scale)
    test_moments_are_integrals_of_the_survival_function(law, weibull_tail(0.5, 1))
    with pytest.raises(AssertionError):
        test_moments_are_integrals_of_the_survival_function(wrong, weibull_tail(0.5, 1))


@every
def test_partial_and_tail_moments_by_quadrature(law, survival):
    for x in points(law)[1:5]:
        for n in finite_orders(law):
            tail = oracle.tail_moment(survival, n, x, law.mean, law.breakpoints)
            assert law.tail_moment(n, x) == pytest.approx(tail, rel=1e-9, abs=1e-13 * law.moment(n))
            part = oracle.partial_moment(survival, n, x, law.mean, law.breakpoints)
            assert law.partial_moment(n, x) == pytest.approx(part, rel=1e-9, abs=1e-13 * law.moment(n))


def test_the_oracles_tell_close_laws_apart():
    law, close = jobs.hyperexponential(10, 0.5), two_branches(10.001, 0.5)
    assert law.tail_moment(2, 1) != pytest.approx(oracle.tail_moment(close, 2, 1, 1), rel=1e-6)
    assert law.partial_moment(2, 1) != pytest.approx(oracle.partial_moment(close, 2, 1, 1), rel=1e-6)
    assert law.residual_mean(1) != pytest.approx(oracle.residual_mean(close, 1, 1), rel=1e-6)
    assert law.laplace(1) != pytest.approx(oracle.laplace(close, 1, 1), rel=1e-6)


@every
def test_the_two_sides_of_a_size_add_up(law, survival):
    x = np.concatenate([points(law), law.breakpoints, [0, law.mean, 1e6]])
    for n in (-1, 0, *finite_orders(law)):
        part, tail = law.partial_moment(n, x), law.tail_moment(n, x)
        assert np.all(part >= 0) and np.all(tail >= 0)
        assert part + tail == pytest.approx(np.full(x.shape, law.moment(n)), rel=1e-12)
        assert law.truncated_moment(n, x[:4]) == pytest.approx(part[:4] + x[:4] ** n * law.survival(x[:4]), rel=1e-14)
    assert law.partial_moment(0, x) == pytest.approx(1 - law.survival(x), abs=1e-14)
    assert np.all(law.truncated_moment(1, x) <= np.minimum(x, law.mean) * (1 + 1e-14))


@every
def test_inverse_moment_by_quadrature(law, survival):
    for x in points(law)[1:5]:
        lost = oracle.integral(lambda t: survival(t) / t**2, x, math.inf, law.mean, law.breakpoints)
        assert law.tail_moment(-1, x) == pytest.approx(survival(x) / x - lost, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize(
    "name", ["exponential", "hyperexponential", "weibull heavy", "uniform", "PhaseType", "discrete"]
)
def test_inverse_moment_is_infinite_with_density_or_mass_at_zero(name):
    law = LAWS[name][0]
    assert law.moment(-1) == law.partial_moment(-1, 1) == math.inf
    assert law.partial_moment(-1, -1) == 0
    assert math.isfinite(law.tail_moment(-1, 0.1))


def test_inverse_moments_in_closed_form():
    assert jobs.erlang(3).moment(-1) == pytest.approx(1.5, rel=1e-14)
    assert jobs.PhaseType([1, 0], [[-2, 2], [0, -2]]).moment(-1) == pytest.approx(2, rel=1e-13)
    assert jobs.uniform(1, 3).moment(-1) == pytest.approx(math.log(3) / 2, rel=1e-15)
    assert jobs.pareto(1.5, 2).moment(-1) == pytest.approx(1.5 / 2.5 / 2, rel=1e-15)
    assert jobs.weibull(2).moment(-1) == pytest.approx(math.gamma(1.5) * math.gamma(0.5), rel=1e-14)


@continuous
def test_quantile_inverts_the_survival_function(law, survival):
    assert law.survival(law.quantile(U)) == pytest.approx(1 - U, rel=1e-8, abs=4e-15)
    assert law.quantile([0, 1]) == pytest.approx([law.low, law.high], rel=1e-12)


@every
def test_quantile_is_the_smallest_size_that_reaches_the_level(law, survival):
    x = law.quantile(np.linspace(0.013, 0.987, 50))
    assert np.all(np.diff(x) >= 0)
    assert np.all(law.partial_moment(0, x) >= np.linspace(0.013, 0.987, 50) - 1e-14)
    assert np.all(law.partial_moment(0, below(x)) <= np.linspace(0.013, 0.987, 50) + 1e-11)


@continuous
def test_density_integrates_to_the_survival_function(law, survival):
    x = law.quantile([0.001, 0.05, 0.2, 0.5, 0.8, 0.95, 0.999])
    for a, b in pairwise(x):
        mass = oracle.integral(law.pdf, a, b, law.mean)
        assert mass == pytest.approx(law.survival(a) - law.survival(b), rel=1e-11)
    outside = [-1.0, *([law.low / 2] if law.low > 0 else []), *([2 * law.high] if law.high < math.inf else [])]
    assert np.all(law.pdf(outside) == 0)


@pytest.mark.parametrize("name", ["deterministic", "discrete", "empirical"])
def test_laws_with_atoms_have_no_density(name):
    with pytest.raises(ValueError, match="no density"):
        LAWS[name][0].pdf(1)


@every
def test_residual_mean_by_quadrature(law, survival):
    for x in points(law)[:5]:
        if survival(x) > 0:
            expected = oracle.residual_mean(survival, x, law.mean, law.breakpoints)
            assert law.residual_mean(x) == pytest.approx(expected, rel=1e-8)
    assert law.residual_mean(-1) == pytest.approx(law.mean + 1, rel=1e-14)
    assert law.high == math.inf or law.residual_mean([law.high, 2 * law.high]) == pytest.approx([0, 0], abs=0)


@every
def test_laplace_by_quadrature(law, survival):
    for s in np.array([1e-3, 0.1, 1, 20]) / law.mean:
        expected = oracle.laplace(survival, s, law.mean, law.breakpoints)
        assert law.laplace(s) == pytest.approx(expected, abs=2e-11)
    assert law.laplace(0) == pytest.approx(1, abs=1e-14)


@every
def test_samples_follow_the_law(law, survival):
    n = 40_000
    x = np.sort(law.sample(n, seed=5))
    assert kolmogorov_distance(x, law) < 1.95 / math.sqrt(n)
    assert kolmogorov_distance(x, law.scaled(1.06 * law.mean)) > 1.95 / math.sqrt(n)
    if law.scv < 40:
        assert x.mean() == pytest.approx(law.mean, abs=4 * law.mean * math.sqrt(law.scv / n) + 1e-12)


def kolmogorov_distance(x, law):
    """The supremum of |F_n - F| over the sample x, on both sides of each of its sizes."""
    values, counts = np.unique(x, return_counts=True)
    fraction = np.append(0, np.cumsum(counts)[:-1]) / x.size
    gaps = fraction + counts / x.size - law.partial_moment(0, values), fraction - law.partial_moment(0, below(values))
    return np.abs(gaps).max()


@every
def test_a_seed_decides_the_sample(law, survival):
    assert np.array_equal(law.sample(100, 3), law.sample(100, np.random.default_rng(3)))
    assert np.array_equal(law.sample(100, 3), law.sample(100, np.random.SeedSequence(3)))
    assert law.scv == 0 or not np.array_equal(law.sample(100, 3), law.sample(100, 4))


@every
def test_scaled_keeps_the_shape(law, survival):
    c, x = 7.5 / law.mean, points(law)
    scaled = law.scaled(7.5)
    assert scaled.mean == pytest.approx(7.5, rel=1e-14)
    assert scaled.scv == pytest.approx(law.scv, rel=1e-12)
    assert scaled.survival(c * x) == pytest.approx(law.survival(x), rel=1e-7)
    assert scaled.breakpoints == pytest.approx(c * law.breakpoints)
    assert law.scaled(law.mean) == law
    assert repr(scaled.scaled(2)) == f"{law!r}.scaled(2)"


@every
def test_shapes_come_back(law, survival):
    x = np.array([[0.5, 1, 2], [3, 0, 7]])
    calls = [law.survival, law.residual_mean, law.laplace, lambda x: law.quantile(x / 10)]
    calls += [lambda x, n=n: law.partial_moment(n, x) for n in (0, 1)] + [lambda x: law.tail_moment(1, x)]
    calls += [lambda x: law.truncated_moment(1, x)] + [law.pdf] * (not law.atoms.size)
    for call in calls:
        assert call(x).shape == (2, 3)
        assert type(call(1)) is float
        assert call(1) == pytest.approx(call(x)[0, 1], rel=1e-14)
        assert call(np.empty(0)).shape == (0,)


@every
def test_no_size_gives_nan(law, survival):
    x = np.array([-math.inf, -1, 0, 5e-324, 1e-30, 1, 1e30, 1e300, math.inf])
    for n in (-1, 0, 1, 2, 3, 7):
        assert not np.isnan(law.partial_moment(n, x)).any() and not np.isnan(law.tail_moment(n, x)).any()
        assert law.partial_moment(n, math.inf) == pytest.approx(law.moment(n), rel=1e-14)
        assert law.tail_moment(n, math.inf) == 0
        assert not np.isnan(law.truncated_moment(n, x[2:])).any()
    assert not np.isnan(law.residual_mean(x)).any()
    assert law.atoms.size or not np.isnan(law.pdf(x)).any()


@every
def test_laws_are_values(law, survival):
    copy = pickle.loads(pickle.dumps(law))
    assert copy == law and hash(copy) == hash(law) and repr(copy) == repr(law)
    assert law != law.scaled(2 * law.mean)
    with pytest.raises(FrozenInstanceError):
        law.label = "another"
    if "numbers" not in repr(law):
        assert eval(repr(law), vars(jobs)) == law


def test_arrays_of_a_law_are_read_only():
    for array in (jobs.erlang(2).alpha, jobs.erlang(2).A, jobs.erlang(2).exit, jobs.empirical(TRACE).atoms):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3
    values = np.array([1.0, 2.0])
    law = jobs.discrete(values, [0.5, 0.5])
    values[0] = 100
    assert law.low == 1


def test_reprs():
    assert repr(jobs.hyperexponential(scv=10, f=0.5)) == "hyperexponential(scv=10, f=0.5)"
    assert repr(jobs.mixed_erlang(k=3).scaled(2)) == "mixed_erlang(scv=10, f=0.5, k=3).scaled(2)"
    assert repr(jobs.PhaseType([1], [[-2]])) == "PhaseType(alpha=[1.0], A=[[-2.0]])"
    assert repr(jobs.empirical(np.ones(100))) == "empirical(samples=<100 numbers>)"


def test_support_atoms_and_breakpoints():
    law = jobs.bounded_pareto(1.5, 2, 50)
    assert (law.low, law.high, law.breakpoints.tolist()) == (2, 50, [2, 50])
    assert jobs.pareto(1.5, 2).breakpoints.tolist() == [2] and jobs.pareto(1.5, 2).high == math.inf
    assert jobs.uniform(0, 3).breakpoints.tolist() == [3]
    assert jobs.hyperexponential().breakpoints.size == jobs.weibull(0.5).atoms.size == 0
    law = jobs.discrete([4, 1, 4, 9], [0.25, 0.5, 0.25, 0])
    assert law.atoms.tolist() == law.breakpoints.tolist() == [1, 4]
    assert law.survival([1, 3.9, 4]) == pytest.approx([0.5, 0.5, 0])
    assert law.partial_moment(1, [0.9, 1, 4]) == pytest.approx([0, 0.5, 2.5])


# the two-branch fit


def test_fit_of_the_hyperexponential():
    law = jobs.hyperexponential(10, 0.5)
    fast, slow = -np.diag(law.A)
    assert (fast, slow) == pytest.approx(((11 + math.sqrt(99)) / 11, (11 - math.sqrt(99)) / 11), rel=1e-14)
    assert fast == pytest.approx(1.9045340337) and slow == pytest.approx(0.0954659663)
    assert law.alpha == pytest.approx([fast / 2, slow / 2], rel=1e-15)


@given(st.floats(1, 1e8), st.floats(0.001, 0.999), st.integers(1, 8))
def test_fit_has_unit_mean_the_scv_and_the_share_of_work(scv, f, k):
    law = jobs.mixed_erlang(scv, f, k)
    (p, q), _, (fast, slow) = law.branches
    assert law.mean == pytest.approx(1, rel=1e-13)
    assert law.scv == pytest.approx(scv, rel=1e-11)
    assert p * k / fast == pytest.approx(f, rel=1e-13) and q * k / slow == pytest.approx(1 - f, rel=1e-13)
    assert fast >= slow * (1 - 1e-14)


def test_limits_of_the_fit():
    assert jobs.mixed_erlang(10, 0.5, 1).A == pytest.approx(jobs.hyperexponential(10, 0.5).A)
    assert jobs.mixed_erlang(1 / 3, 0.2, 3).survival(1.7) == pytest.approx(jobs.erlang(3).survival(1.7), rel=1e-13)
    assert jobs.hyperexponential(1, 0.2).survival(1.7) == pytest.approx(math.exp(-1.7), rel=1e-14)


# phase type


@pytest.mark.parametrize(
    "name", ["erlang", "erlang 20", "hyperexponential rare", "mixed_erlang", "mixed_erlang low scv"]
)
def test_closed_forms_agree_with_the_general_chain(name):
    closed = LAWS[name][0]
    general = jobs.PhaseType(closed.alpha, closed.A)
    x = np.append(closed.quantile(U), closed.mean * np.array([30, 100]))
    assert general.phase_survival(x) == pytest.approx(closed.phase_survival(x), rel=1e-11, abs=1e-300)
    for call in ("survival", "pdf", "residual_mean", "laplace"):
        assert getattr(general, call)(x) == pytest.approx(getattr(closed, call)(x), rel=1e-11, abs=1e-300)
    for n in (-1, 0, 1, 2, 5):
        assert general.tail_moment(n, x) == pytest.approx(closed.tail_moment(n, x), rel=1e-11, abs=1e-300)
        scale = closed.moment(-1) if n == -1 and math.isfinite(closed.moment(-1)) else 0
        assert general.partial_moment(n, x) == pytest.approx(closed.partial_moment(n, x), rel=1e-11, abs=1e-13 * scale)
    assert general.quantile(U) == pytest.approx(closed.quantile(U), rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 5), st.integers(0, 2**32), st.floats(0, 1.5))
def test_random_chains(m, seed, spread):
    rng = np.random.default_rng(seed)
    A = rng.exponential(size=(m, m)) * (rng.random((m, m)) < 0.6) * 10 ** rng.uniform(-spread, spread, (m, 1))
    np.fill_diagonal(A, 0)
    A -= np.diag(A.sum(axis=1) + 10 ** rng.uniform(-spread, spread, m))
    law = jobs.PhaseType(rng.dirichlet(np.ones(m)), A)
    x = law.quantile(np.array([0.001, 0.2, 0.9]))
    phases = np.array([law.alpha @ expm(A * t) for t in x])
    assert law.phase_survival(x) == pytest.approx(phases, rel=1e-9, abs=1e-13)
    assert law.survival(x) == pytest.approx([0.999, 0.8, 0.1], rel=1e-12)
    assert law.mean == pytest.approx(-law.alpha @ np.linalg.solve(A, np.ones(m)), rel=1e-12)
    for n in (0, 1, 3):
        assert law.partial_moment(n, x) + law.tail_moment(n, x) == pytest.approx(np.full(3, law.moment(n)), rel=1e-12)


def test_tail_of_a_mixture_stays_accurate_and_positive():
    law = jobs.hyperexponential(10, 0.5)
    fast, slow = -np.diag(law.A)
    x = np.array([10, 100, 1000, 7000])
    expected = np.log(law.alpha[1]) - slow * x + np.log1p(law.alpha[0] / law.alpha[1] * np.exp((slow - fast) * x))
    for same in (law, jobs.PhaseType(law.alpha, law.A)):
        assert np.log(same.survival(x)) == pytest.approx(expected, abs=1e-11)
        assert same.residual_mean(1e5) == pytest.approx(1 / slow, rel=1e-13)
        assert same.survival(1e5) == 0


def test_residual_mean_beyond_the_smallest_number():
    law = jobs.erlang(3, mean=3)
    x = np.array([1e3, 1e5, 1e8])
    expected = (x**2 / 2 + 2 * x + 3) / (x**2 / 2 + x + 1)
    assert law.residual_mean(x) == pytest.approx(expected, rel=1e-14)
    assert jobs.PhaseType(law.alpha, law.A).residual_mean(x[:2]) == pytest.approx(expected[:2], rel=1e-9)


def test_small_partial_moments_of_a_chain_do_not_cancel():
    rate = 12.0
    law = jobs.PhaseType([1] + [0] * 11, np.diag([-rate] * 12) + np.diag([rate] * 11, 1))
    for x in (1e-3, 1e-6):
        series = sum((-rate * x) ** j / math.factorial(j) / (14 + j) for j in range(8))
        leading = rate**12 * x**14 / math.factorial(11)
        assert law.partial_moment(2, x) == pytest.approx(leading * series, rel=1e-12)


def test_phases_of_an_erlang_are_poisson():
    v = jobs.erlang(4, mean=2).phase_survival(np.array([[0.5], [3]]))
    assert v.shape == (2, 1, 4)
    assert v[1, 0] == pytest.approx([math.exp(-6) * 6**j / math.factorial(j) for j in range(4)], rel=1e-14)
    assert jobs.erlang(4, mean=2).phase_survival(0.5).shape == (4,)
    assert jobs.erlang(4, mean=2).exit.tolist() == [0, 0, 0, 2]


def test_rounding_in_the_data_is_taken_out():
    law = jobs.PhaseType([0.3333333333] * 3, [[-0.8, 0.1, 0.7], [0.1, -0.3, 0.2], [0.1, 0.2, -1]])
    assert law.alpha.sum() == pytest.approx(1, rel=1e-15) and law.survival(0) == pytest.approx(1, rel=1e-14)
    assert -0.8 + 0.1 + 0.7 < 0 < 0.1 - 0.3 + 0.2 and law.exit[:2].tolist() == [0, 0]
    assert jobs.discrete([1, 2, 3], [0.3333333333] * 3).moment(0) == pytest.approx(1, rel=1e-15)


def test_families_are_phase_type():
    for law in (jobs.exponential(), jobs.erlang(2), jobs.hyperexponential(), jobs.mixed_erlang()):
        assert isinstance(law, jobs.PhaseType)
        assert law.exit == pytest.approx(-law.A.sum(axis=1), abs=1e-14)


# power laws


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1 + 1e-9, 1 - 1e-13, 1.5, 2.0, 2 - 1e-7, 3.0])
@pytest.mark.parametrize("ratio", [10.0, 1e3, 1e10])
def test_bounded_pareto_to_all_digits(alpha, ratio):
    low = 0.25
    law = jobs.bounded_pareto(alpha, low, low * ratio)
    for share in (1e-9, 0.1, 0.5, 0.9, 1 - 1e-9):
        x = float(low * ratio**share)
        for n in (-1, 0, 1, 2, 3):
            tail = oracle.bounded_pareto_moment(alpha, law.low, law.high, n, x, law.high)
            part = oracle.bounded_pareto_moment(alpha, law.low, law.high, n, law.low, x)
            assert law.tail_moment(n, x) == pytest.approx(tail, rel=1e-13)
            assert law.partial_moment(n, x) == pytest.approx(part, rel=1e-13)


def test_differences_of_powers_would_fail_at_a_large_ratio():
    alpha, low, high, x = 1 - 1e-13, 1.0, 1e10, 1e7
    exact = oracle.bounded_pareto_moment(alpha, low, high, 1, low, x)
    naive = (x ** (1 - alpha) - 1) / (1 - alpha) * alpha / (1 - high**-alpha)
    assert abs(naive / exact - 1) > 1e-6
    assert jobs.bounded_pareto(alpha, low, high).partial_moment(1, x) == pytest.approx(exact, rel=1e-13)


@given(st.integers(0, 3), st.floats(-1e-6, 1e-6), st.floats(1.5, 1e9))
def test_moments_are_continuous_in_alpha_at_the_logarithm(n, step, ratio):
    assume(n + step > 0)
    at, near = jobs.bounded_pareto(max(n, 1e-12), 1, ratio), jobs.bounded_pareto(n + step, 1, ratio)
    assert near.moment(n) == pytest.approx(at.moment(n), rel=3e-5)
    assert near.tail_moment(n, 1.2) == pytest.approx(at.tail_moment(n, 1.2), rel=3e-5)


@given(st.floats(1e-12, 60), st.floats(1.001, 1e10), st.floats(0, 1))
def test_quantile_of_any_bounded_pareto(alpha, ratio, u):
    law = jobs.bounded_pareto(alpha, 1, ratio)
    assert law.survival(law.quantile(u)) == pytest.approx(1 - u, abs=1e-12 + 1e-15 * alpha)


def test_pareto_in_closed_form():
    law = jobs.pareto(1.5, 2)
    assert law.mean == pytest.approx(6, rel=1e-15) and law.scv == law.moment(2) == law.tail_moment(2, 1e9) == math.inf
    assert law.residual_mean([2, 10, 1e12, 1e250]) == pytest.approx([4, 20, 2e12, 2e250], rel=1e-14)
    assert law.partial_moment(2, 8) == pytest.approx(1.5 * 2**1.5 * (8**0.5 - 2**0.5) / 0.5, rel=1e-14)
    bounded = jobs.bounded_pareto(1.5, 2, 1e200)
    assert bounded.mean == pytest.approx(law.mean, rel=1e-14)


# Weibull and lognormal


def test_weibull_of_shape_one_is_exponential():
    x = np.array([1e-9, 0.3, 5, 600])
    law, same = jobs.weibull(1, mean=2), jobs.exponential(2)
    for n in (-1, 0, 1, 2):
        assert law.tail_moment(n, x) == pytest.approx(same.tail_moment(n, x), rel=1e-12)
    assert law.pdf(x) == pytest.approx(same.pdf(x), rel=1e-12)


def test_weibull_residual_mean_beyond_the_smallest_number():
    x = np.array([0.01, 1, 30, 1e4, 1e8])
    law = jobs.weibull(0.5, mean=2)
    assert law.scale == pytest.approx(1, rel=1e-14)
    assert law.residual_mean(x) == pytest.approx(2 + 2 * np.sqrt(x), rel=1e-13)
    law = jobs.weibull(2)
    assert law.residual_mean(x) == pytest.approx(law.scale * math.sqrt(math.pi) / 2 * erfcx(x / law.scale), rel=1e-12)


def test_lognormal_residual_mean_beyond_the_smallest_number():
    law = jobs.lognormal(0.1)
    x = 1e8
    assert law.survival(x) == 0

    def ratio(t):
        return np.exp(log_ndtr(-np.log(t / law.median) / law.sigma) - log_ndtr(-math.log(x / law.median) / law.sigma))

    assert law.residual_mean(x) == pytest.approx(oracle.integral(ratio, x, math.inf, 1), rel=1e-9)


def test_lognormal_moments():
    law = jobs.lognormal(4, mean=3)
    assert law.scv == pytest.approx(4, rel=1e-13)
    assert [law.moment(n) for n in (-1, 2, 3)] == pytest.approx([5 / 3, 9 * 5, 27 * 5**3], rel=1e-13)


# atoms


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.floats(-1, 1e6), st.integers(-1, 3))
def test_a_trace_is_its_sums(samples, x, n):
    samples = np.array(samples)
    samples[0] = max(samples[0], 1e-3)
    samples[samples < 1e-100] = 0
    law = jobs.empirical(samples)
    with np.errstate(divide="ignore"):
        powers = samples ** float(n) / samples.size
    assert law.partial_moment(n, x) == pytest.approx(powers[samples <= x].sum(), rel=1e-12)
    assert law.tail_moment(n, x) == pytest.approx(powers[samples > x].sum(), rel=1e-12)
    assert law.mean == pytest.approx(samples.mean(), rel=1e-12)
    assert law.scv == pytest.approx(samples.var() / samples.mean() ** 2, rel=1e-9, abs=1e-12)


def test_quantiles_of_atoms():
    law = jobs.discrete([0, 1, 3], [0.25, 0.5, 0.25])
    assert law.quantile([0, 0.25, 0.26, 0.75, 0.76, 1]).tolist() == [0, 0, 1, 1, 3, 3]
    assert jobs.deterministic(2).quantile([0, 0.5, 1]).tolist() == [2, 2, 2]


def test_zero_is_a_size():
    law = jobs.discrete([0, 2], [0.5, 0.5])
    assert (law.mean, law.scv, law.survival(0), law.moment(0), law.moment(-1)) == (1, 1, 0.5, 1, math.inf)
    assert law.tail_moment(-1, 0) == 0.25


def test_equal_values_are_merged_and_traces_are_laws():
    assert jobs.discrete([1, 2, 1], [0.25, 0.5, 0.25]) == jobs.discrete([1, 2], [0.5, 0.5])
    assert jobs.empirical([2, 1, 2, 1]) == jobs.discrete([1, 2], [0.5, 0.5])
    assert jobs.deterministic(3) == jobs.empirical([3, 3, 3, 3])


# sentences


NAN = math.nan
ERRORS = [
    (lambda: jobs.exponential(0), r"mean is 0; it must be a positive finite number"),
    (lambda: jobs.exponential(-2.5), r"mean is -2.5; it must be a positive"),
    (lambda: jobs.exponential(NAN), r"mean is nan; it must be a positive"),
    (lambda: jobs.exponential("1e-8"), r"mean is 1e-8; it must be a positive finite number"),
    (lambda: jobs.erlang(0), r"k is 0; it must be an integer >= 1"),
    (lambda: jobs.erlang(2.5), r"k is 2.5; it must be an integer"),
    (lambda: jobs.hyperexponential(scv=0.5), r"scv is 0.5; a hyperexponential has scv >= 1, and erlang\(k\)"),
    (lambda: jobs.hyperexponential(scv=NAN), r"scv is nan; it must be a positive finite"),
    (lambda: jobs.hyperexponential(f=1), r"f is 1; .* between 0 and 1"),
    (lambda: jobs.hyperexponential(f=0), r"f is 0; it must be a positive"),
    (lambda: jobs.hyperexponential(f=NAN), r"f is nan"),
    (lambda: jobs.mixed_erlang(scv=0.2, k=4), r"scv is 0.2; with k = 4 stages the smallest permitted is 1/k = 0.25"),
    (lambda: jobs.mixed_erlang(k=0), r"k is 0; it must be an integer >= 1"),
    (lambda: jobs.mixed_erlang(f=1.5), r"f is 1.5; .* between 0 and 1"),
    (lambda: jobs.PhaseType([0.5, 0.4], -np.eye(2)), r"the sum of alpha is 0.9; it must be 1"),
    (lambda: jobs.PhaseType([1.5, -0.5], -np.eye(2)), r"alpha\[1\] is -0.5; it must be finite and >= 0"),
    (lambda: jobs.PhaseType([], []), r"the shape of alpha is \(0,\)"),
    (lambda: jobs.PhaseType([1], -np.eye(2)), r"the shape of A is \(2, 2\); with 1 entries in alpha"),
    (lambda: jobs.PhaseType([1, 0], [[-1, -1], [0, -1]]), r"A\[0, 1\] is -1.0; a sub-generator is"),
    (lambda: jobs.PhaseType([1, 0], [[-1, 1], [0, 1]]), r"A\[1, 1\] is 1.0; .* negative on the diagonal"),
    (lambda: jobs.PhaseType([1, 0], [[-1, NAN], [0, -1]]), r"A\[0, 1\] is nan; a sub-generator is finite"),
    (lambda: jobs.PhaseType([1, 0], [[-1, 0], [2, -1]]), r"A.sum\(axis=1\)\[1\] is 1.0; .* sum <= 0"),
    (lambda: jobs.PhaseType([1, 0, 0], [[-1, 0, 0], [0, -1, 1], [0, 1, -1]]), r"phase\[1\] is endless; every phase"),
    (lambda: jobs.pareto(1, 1), r"alpha is 1; the mean of a Pareto law is infinite unless alpha > 1"),
    (lambda: jobs.pareto(2, -1), r"low is -1; it must be a positive"),
    (lambda: jobs.bounded_pareto(1, 3, 3), r"low is 3; it must be less than high, which is 3"),
    (lambda: jobs.bounded_pareto(0, 1, 3), r"alpha is 0; it must be a positive"),
    (lambda: jobs.bounded_pareto(1, 1, math.inf), r"high is inf; it must be a positive finite"),
    (lambda: jobs.bounded_pareto(1, NAN, 3), r"low is nan"),
    (lambda: jobs.uniform(-1, 2), r"a is -1; it must be >= 0 and less than b, which is 2"),
    (lambda: jobs.uniform(2, 2), r"a is 2; it must be >= 0 and less than b, which is 2"),
    (lambda: jobs.uniform(NAN, 2), r"a is nan; it must be >= 0"),
    (lambda: jobs.weibull(-1), r"shape is -1; it must be a positive"),
    (lambda: jobs.weibull(0.001), r"shape is 0.001; below 0.01"),
    (lambda: jobs.weibull(1, mean=0), r"mean is 0; it must be a positive"),
    (lambda: jobs.lognormal(0), r"scv is 0; it must be a positive"),
    (lambda: jobs.deterministic(0), r"value is 0; it must be a positive"),
    (lambda: jobs.discrete([1, 2], [0.5, 0.6]), r"the sum of probabilities is 1.1; it must be 1"),
    (lambda: jobs.discrete([1, 2], [1.0]), r"the number of probabilities is 1; there are 2 values"),
    (lambda: jobs.discrete([1, -2], [0.5, 0.5]), r"values\[1\] is -2.0; it must be finite and >= 0"),
    (lambda: jobs.discrete([1, 2], [1.5, -0.5]), r"probabilities\[1\] is -0.5"),
    (lambda: jobs.discrete([0, 2], [1, 0]), r"every size is 0.0; the mean job size must be positive"),
    (lambda: jobs.empirical([]), r"the shape of samples is \(0,\); it must be \(N,\) with N >= 1"),
    (lambda: jobs.empirical([1, 2, NAN]), r"samples\[2\] is nan; it must be finite and >= 0"),
    (lambda: jobs.empirical([1, -3, NAN]), r"samples\[1\] is -3.0; it must be finite and >= 0"),
    (lambda: jobs.empirical([0, 0]), r"every size is 0.0; the mean job size must be positive"),
    (lambda: jobs.exponential().survival([1, NAN]), r"x\[1\] is nan; it must be a number"),
    (lambda: jobs.erlang(2).phase_survival(NAN), r"x is nan; it must be a number"),
    (lambda: jobs.exponential().quantile(1.5), r"u is 1.5; it must be a number from 0 to 1"),
    (lambda: jobs.exponential().laplace(-1), r"s is -1.0; it must be a number from 0"),
    (lambda: jobs.exponential().moment(-2), r"n is -2; it must be an integer >= -1"),
    (lambda: jobs.exponential().tail_moment(1.5, 1), r"n is 1.5; it must be an integer"),
    (lambda: jobs.exponential().scaled(0), r"mean is 0; it must be a positive"),
]


@pytest.mark.parametrize("call, sentence", ERRORS, ids=[sentence[:40] for _, sentence in ERRORS])
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_importing_the_laws_is_light():
    script = "import sys, lbkit.jobs; print(*{'scipy.stats', 'matplotlib', 'pandas'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert found == []
