"""Laws, limits and rates of the light-traffic expansion, against exact references that run the policy literally."""

import json
from dataclasses import replace
from fractions import Fraction as F
from itertools import combinations
from math import comb, factorial, inf, nan
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lbkit import jobs
from lbkit.light_traffic import expand, interpolate, max_rate, pade, series, without_waiting
from oracles.light_traffic import chain_series, reiman_simon, truncated_chain

VALUES = json.loads((Path(__file__).parent / "values" / "light_traffic.json").read_text())
SCENARIO = {"1": {2: 5, 10: 5}, "2": {2: 50, 10: 50}, "3": {10: 10}}
SYSTEM = {f"scenario{name}": groups for name, groups in SCENARIO.items()} | {
    "K2_equal": [1, 1],
    "K2_1_2": [1, 2],
    "K3_1_2_5": [1, 2, 5],
    "K3_2_3_3": [2, 3, 3],
    "K4_1_2_3_7": [1, 2, 3, 7],
    "K5_1_1_1_4_9": [1, 1, 1, 4, 9],
    "K3_10_6_1": [10, 6, 1],
}
EXPONENTIAL, HYPER, ERLANG = (
    ([F(1)], [[F(-1)]]),
    ([F(1, 3), F(2, 3)], [[F(-1, 2), F(0)], [F(0), F(-2)]]),
    ([F(1), F(0)], [[F(-2), F(2)], [F(0), F(-2)]]),
)
MOMENTS = {"H": (1, 3), "E": (1, 2), "G": (1, F(3, 2)), "D": (1, 1)}
PHASES = {"H": HYPER, "E": EXPONENTIAL, "G": ERLANG}


def number(entry):
    return F(entry["exact"]) if "exact" in entry else entry["float"]


def moments(law):
    return tuple(number(VALUES["size_laws"][law][m]) for m in ("m1", "m2"))


def phase_type(law):
    alpha, A = PHASES[law]
    return jobs.PhaseType([float(p) for p in alpha], [[float(rate) for rate in row] for row in A])


def capacities(slowness):
    return [1 / F(a) for a in slowness]


# stored references, from a separate derivation in rational arithmetic and its own simulations


@pytest.mark.parametrize("row", VALUES["derivatives"], ids=lambda r: f"{r['system']}-{r['law']}-{r['d']}")
def test_stored_derivatives(row):
    groups = [(F(speed), servers) for speed, servers in row["groups"]]
    known = row.get("all_to_order_d") or [row["R0"], row["R1"], row["R2"]]
    e = expand(groups, moments(row["law"]), row["d"], len(known) - 1, exact=True)
    for found, entry in zip(e.derivatives, known, strict=True):
        if "exact" in entry:
            assert found == number(entry)
        else:
            assert float(found) == pytest.approx(entry["float"], rel=1e-14, abs=1e-17)
    if row["d"] == 2:
        assert (e.assignment, e.waiting) == (number(row["R2_assignment"]), number(row["R2_waiting"]))
        assert_allclose(e.minimum, (row["lambda_star"], row["gain"]), rtol=1e-12)


@pytest.mark.parametrize("row", VALUES["stability"], ids=lambda r: f"{r['system']}-{r['d']}")
def test_stored_stability(row):
    bound = max_rate(SYSTEM[row["system"]], (1, 2), row["d"], exact=True)
    assert (bound.rate, bound.servers, bound.unique) == (number(row["lambda_c"]), row["slowest_n"], row["unique"])


@pytest.mark.parametrize("row", VALUES["series_exponential"], ids=lambda r: r["system"])
def test_stored_series(row):
    found = series(SYSTEM[row["system"]], jobs.exponential(), row["d"], 8)
    powers = found.max_rate ** np.arange(9)
    assert_allclose(found.coefficients * powers, row["coefficients_of_lambda_n_in_R"] * powers, rtol=2e-9, atol=1e-14)


def test_stored_interpolations():
    for run in VALUES["simulations"]:
        for kind, value in run["interpolation"].items():
            found = interpolate(SCENARIO[run["scenario"]], moments(run["law"]), kind=kind)(run["lam"])
            assert found == pytest.approx(value, rel=1e-12)


def low_load_deviations(change=lambda e: e):
    """(simulation - order-2 polynomial) / standard error wherever the third order is far below the error."""
    deviations = []
    cubic = {name: abs(series(groups, jobs.exponential(), 2, 3).coefficients[3]) for name, groups in SCENARIO.items()}
    for run in VALUES["simulations"]:
        half = max(run["half"], run["half_runs"])
        if cubic[run["scenario"]] * run["lam"] ** 3 < half / 4:
            e = change(expand(SCENARIO[run["scenario"]], moments(run["law"])))
            deviations.append((run["R"] - e(run["lam"])) / (half / 1.96))
    return np.array(deviations)


def test_simulations_at_low_load():
    z = low_load_deviations()
    assert len(z) >= 12 and abs(z).max() < 3.5 and np.mean(z**2) < 2


@pytest.mark.parametrize(
    "wrong",
    [
        without_waiting,
        lambda e: replace(e, derivatives=(*e.derivatives[:2], e.derivatives[2] / 2)),
        lambda e: replace(e, derivatives=(e.derivatives[0], 0.0, e.derivatives[2])),
    ],
    ids=["no waiting", "no factor two", "no slope"],
)
def test_simulations_refuse_wrong_derivatives(wrong):
    z = low_load_deviations(wrong)
    assert abs(z).max() > 4 and np.mean(z**2) > 3


def test_simulated_slopes():
    """(R(lam) - R(0+)) / lam - lam R''/2 estimates R'(0+)."""
    for scenario, lam in [("1", 2), ("2", 10)]:
        for run in VALUES["simulations"]:
            if (run["scenario"], run["lam"]) == (scenario, lam):
                r = expand(SCENARIO[scenario], moments(run["law"])).derivatives
                slope, error = (run["R"] - r[0]) / lam - lam * r[2] / 2, run["half"] / lam / 1.96
                assert abs(slope - r[1]) < 3 * error
                assert r[1] < 0 and abs(r[1]) > 8 * error


def test_other_simulations():
    for run in VALUES["simulations_other"]:
        e = expand(SYSTEM[run["system"]], moments(run["law"]), run["d"])
        assert e(run["lam"]) == pytest.approx(run["taylor"], rel=1e-12)
        beyond = abs(series(SYSTEM[run["system"]], jobs.exponential(), run["d"], run["d"] + 1).coefficients[-1])
        half = max(run["half"], run["half_runs"])
        assert abs(run["R"] - e(run["lam"])) < half + 2 * beyond * run["lam"] ** (run["d"] + 1)


# exact oracles


@pytest.mark.parametrize("law", PHASES)
@pytest.mark.parametrize("system", ["K2_equal", "K2_1_2", "K3_1_2_5", "K3_2_3_3"])
def test_derivatives_against_the_chain(system, law):
    speeds = [F(c) for c in SYSTEM[system]]
    for d in range(1, len(speeds) + 1):
        exact = chain_series(speeds, *PHASES[law], d, 5 if len(speeds) == 2 else 4)
        e = expand(speeds, MOMENTS[law], d, 4 if d == 1 else d, exact=True)
        assert list(e.coefficients) == exact[: len(e.coefficients)]
        found = series(speeds, phase_type(law), d, len(exact) - 1)
        assert_allclose(found.coefficients, [float(c) for c in exact], rtol=1e-11, atol=1e-15)
        assert found.waiting == pytest.approx(float(expand(speeds, MOMENTS[law], d).waiting))
        if d > 1:
            assert e.assignment != exact[d] * factorial(d) and e.derivatives[d] != exact[d]


def test_derivatives_against_the_chain_with_four_servers():
    speeds = [F(1), F(2), F(3), F(7)]
    for d in (2, 3, 4):
        exact = chain_series(speeds, *EXPONENTIAL, d, 4)
        assert list(expand(speeds, (1, 2), d, exact=True).coefficients) == exact[: d + 1]
        assert_allclose(series(speeds, jobs.exponential(), d, 4).coefficients, [float(c) for c in exact], rtol=1e-11)


@pytest.mark.parametrize("sizes", [[(1, F(1))], [(1, F(1, 3)), (2, F(2, 3))]], ids=["deterministic", "two points"])
@pytest.mark.parametrize("slowness", [(1, 1), (2, 1), (3, 2, 1), (1, 2, 2)])
def test_derivatives_against_the_integral(slowness, sizes):
    m1, m2 = (sum(size**n * p for size, p in sizes) for n in (1, 2))
    for d in range(1, len(slowness) + 1):
        e = expand(capacities(slowness), (m1, m2), d, 2, exact=True)
        exact = [reiman_simon(slowness, sizes, d, n) for n in range(3)]
        assert list(e.derivatives) == exact
        assert d != 2 or (e.assignment != exact[2] and e.derivatives[2] / 2 != exact[2])


def test_third_derivative_against_the_integral():
    for slowness in [(3, 2, 1), (1, 2, 2)]:
        exact = reiman_simon(slowness, [(1, F(1))], 3, 3)
        assert expand(capacities(slowness), (1, 1), 3, exact=True).derivatives[3] == exact


@pytest.mark.parametrize(("speeds", "d"), [((1, 2), 2), ((1, 1), 2), ((1, 2), 1)])
def test_error_of_every_order_falls_at_its_rate(speeds, d):
    """Halving lam divides the error of the order-n polynomial by 2^(n+1); the chain is solved without expansion."""
    lam, e = 0.02, series(speeds, jobs.exponential(), d, 4)
    exact = [truncated_chain(speeds, d, rate) for rate in (lam, lam / 2)]
    for n in range(4):
        right = e.derivatives[: n + 1]
        wrong = (*right[:n], right[n] + 0.1)
        if abs(e.derivatives[n + 1]) > 1e-9:  # R' = 0 for equal speeds
            polynomials = [replace(e, derivatives=r) for r in (right, wrong)]
            fall, stuck = ((p(lam) - exact[0]) / (p(lam / 2) - exact[1]) for p in polynomials)
            assert fall == pytest.approx(2 ** (n + 1), rel=0.05) and stuck < 1.5 * 2**n


def test_closed_form_and_series_part_beyond_order_d():
    """Their polynomials of order d differ from R by the same lam^(d+1)."""
    for d in (2, 3):
        e, s = expand(SCENARIO["1"], jobs.exponential(), d), series(SCENARIO["1"], jobs.exponential(), d, 9)
        errors = [s(lam) - e(lam) for lam in (0.2, 0.1)]
        assert errors[0] / errors[1] == pytest.approx(2 ** (d + 1), rel=0.02)


# laws


def test_second_derivative_in_closed_form():
    for speeds in ([1, 2], [1, 2, 5], [2, 2, 3, 7, 7, 7]):
        a, K = [1 / F(c) for c in speeds], len(speeds)
        S = [sum(x**j for x in a) for j in range(4)]
        e = expand(speeds, (F(3, 2), F(7, 2)), 2, exact=True)
        assert e.derivatives[1] == -F(9, 4) * (S[2] - S[1] ** 2 / K) / (K * (K - 1))
        assert e.assignment == 2 * F(27, 8) * sum(x * (x - S[1] / K) ** 2 for x in a) / (K * (K - 1) ** 2) >= 0
        assert e.waiting == F(3, 2) * F(7, 2) * (S[1] * S[2] - S[3]) / (K * (K - 1)) ** 2 > 0
        assert e.slope_per_server == K * e.derivatives[1]


def test_derivatives_below_order_d_are_those_of_join_the_shortest_queue():
    speeds = [1, 2, 3, 5, 5, 8]
    whole = expand(speeds, (1, 5), 6, exact=True).derivatives
    for d in range(2, 6):
        assert expand(speeds, (1, 2), d, exact=True).derivatives[:d] == whole[:d]
        assert expand(speeds, (1, 2), d, exact=True).derivatives[d] != whole[d]


def test_insensitivity_below_order_d_and_a_line_in_m2_at_order_d():
    for d in (2, 3, 4):
        es = [expand([1, 2, 4, 4], (1, m2), d, exact=True) for m2 in (1, 2, 5)]
        assert len({e.derivatives[:d] for e in es}) == 1
        low, middle, high = (e.derivatives[d] for e in es)
        assert 0 < middle - low == (high - middle) / 3
    laws = [jobs.exponential(), jobs.deterministic(), jobs.weibull(2), jobs.hyperexponential(10), jobs.lognormal(4)]
    es = [expand(SCENARIO["1"], law) for law in laws]
    assert_allclose([e.derivatives[:2] for e in es], [es[0].derivatives[:2]] * len(es), rtol=1e-12)
    assert np.all(np.diff([e.waiting for e in sorted(es, key=lambda e: e.waiting)]) > 0)


@pytest.mark.parametrize("law", PHASES)
def test_insensitivity_of_the_chain(law):
    found = series([1, 2, 5], phase_type(law), 3, 4).derivatives
    assert_allclose(found[:3], [float(r) for r in expand([1, 2, 5], (1, 2), 3).derivatives[:3]], rtol=1e-12)


def test_equal_servers_stay_flat_below_order_d():
    a, m1, m2 = F(1, 3), F(1, 2), F(2)
    for K in (2, 3, 6):
        for d in range(1, K + 1):
            e = expand({3: K}, (m1, m2), d, exact=True)
            assert e.derivatives[:d] == (m1 * a, *[0] * (d - 1))
            assert e.derivatives[d] == e.waiting == m1 ** (d - 1) * m2 * a ** (d + 1) / (2 * comb(K, d))
            assert e.minimum == (0, 0)


def test_without_waiting_only_the_mean_size_counts():
    for d in (2, 3):
        laws = jobs.erlang(3), jobs.hyperexponential(9)
        light, heavy = (without_waiting(series([1, 2, 4], law, d, 5)) for law in laws)
        assert_allclose(light.derivatives, heavy.derivatives, rtol=1e-9, atol=1e-14)
        assert len(light.derivatives) == d + 1 and light.waiting == 0 == without_waiting(light).waiting
        assert light.assignment == light.derivatives[d] == pytest.approx(expand([1, 2, 4], (1, 2), d).assignment)
        assert len(set(without_waiting(expand([3] * 4, (1, 2), d, exact=True)).derivatives[1:])) == 1


def test_one_sample_is_pollaczek_khinchine():
    speeds, (m1, m2), lam = [1, 2, 5], (F(2), F(7)), F(1, 5)
    exact = sum(m1 / c + lam / 3 * m2 / F(c) ** 2 / (2 * (1 - lam * m1 / c / 3)) for c in speeds) / 3
    errors = [abs(exact - expand(speeds, (m1, m2), 1, n, exact=True)(lam)) for n in range(1, 12)]
    assert all(F(1, 9) < after / before < F(1, 7) for before, after in zip(errors, errors[1:]))  # lam m1 / K = 2/15


def test_slope_is_schur_concave_in_the_slownesses():
    rng = np.random.default_rng(1)
    for _ in range(40):
        a = [F(int(x), 12) for x in rng.integers(1, 60, 5)]
        i, j = rng.choice(5, 2, replace=False)
        if a[i] == a[j]:
            continue
        t = F(int(rng.integers(1, 12)), 12)
        b = list(a)
        b[i], b[j] = t * a[i] + (1 - t) * a[j], (1 - t) * a[i] + t * a[j]
        before, after = (expand(capacities(x), (1, 2), 3, 2, exact=True).derivatives for x in (a, b))
        assert before[0] == after[0] and before[1] < after[1] <= 0


def test_slope_is_not_schur_monotone_in_the_capacities():
    spread, even = (expand(speeds, (1, 2)).derivatives for speeds in ([10.5, 5.5, 1], [10, 6, 1]))
    assert_allclose([spread[1], even[1]], [-0.08308, -0.08383], atol=5e-6)
    wide, narrow = (expand(speeds, (1, 2)).derivatives for speeds in ([12, 4, 1], [6, 6, 5]))
    assert wide[1] < narrow[1] and wide[0] > narrow[0]


def test_sign_of_the_second_derivative_is_that_of_the_skewness():
    assert expand(SCENARIO["1"], (1, 2), 3).derivatives[2] == pytest.approx(0, abs=1e-18)
    assert expand(capacities([1, 1, 1, 5]), (1, 2), 4).derivatives[2] > 0
    assert expand(capacities([5, 5, 5, 1]), (1, 2), 4).derivatives[2] < 0


def test_units_of_time_and_size():
    base, d = [1, 2, 5], 3
    e = expand(base, (1, 2), d, exact=True).derivatives
    larger = expand(base, (3, 18), d, exact=True).derivatives
    faster = expand([3 * c for c in base], (3, 18), d, exact=True).derivatives
    assert larger == tuple(3 ** (n + 1) * r for n, r in enumerate(e)) and faster == e


# forms of the input, large systems, rounding


def test_groups_in_every_form():
    forms = [[10, 2, 2.0, F(10)], {2: 2, 10: 2}, [(10, 1), (2, 2), (10, 1)], np.array([2.0, 10, 2, 10]), (2, 2, 10, 10)]
    es = [expand(speeds, jobs.exponential()) for speeds in forms]
    assert all(e == es[0] for e in es) and es[0].groups == ((2, 2), (10, 2))
    assert es[0].derivatives == expand(forms[0], (1.0, 2.0)).derivatives


def test_a_million_servers_and_their_limit():
    for K in (10**3, 10**6):
        e = expand({2: K // 2, 10: K // 2}, (1, 2))
        exact = expand({2: K // 2, 10: K // 2}, (1, 2), exact=True)
        assert_allclose(e.derivatives, [float(r) for r in exact.derivatives], rtol=1e-14)
        assert e.slope_per_server == pytest.approx(-0.04, rel=2 / K)
        assert K**2 * e.derivatives[2] == pytest.approx(2 * 0.3 * 0.04 + 2 * 0.3 * 0.13, rel=4 / K)


@pytest.mark.parametrize("d", [1, 2, 10, 20])
def test_rounding_stays_small_where_the_cumulants_cancel(d):
    speeds = [1 + k / 7 for k in range(20)]
    found, exact = (expand(speeds, (1.0, 2.0), d, exact=exact).derivatives for exact in (False, True))
    assert_allclose(found, [float(r) for r in exact], rtol=1e-11)


def test_exact_results_are_fractions():
    e = expand([1, F(1, 3)], (F(1, 2), F(3, 4)), exact=True)
    assert all(isinstance(r, F) for r in (*e.derivatives, e.waiting, e.assignment, e(F(1, 100))))
    assert isinstance(max_rate([1, F(1, 3)], (F(1, 2), 1), exact=True).rate, F)


# stability


def test_stability_over_every_subset():
    rng = np.random.default_rng(2)
    for _ in range(60):
        K = int(rng.integers(1, 8))
        speeds = [int(c) for c in rng.integers(1, 12, K)]
        rates = []
        for d in range(1, K + 1):
            every = [
                (F(comb(K, d) * sum(U), comb(n, d)), n) for n in range(d, K + 1) for U in combinations(speeds, n)
            ]
            bound = max_rate(speeds, (2, 4), d, exact=True)
            assert bound.rate == min(every)[0] / 2
            assert (bound.rate * 2, bound.servers) in every
            assert bound.unique == (sum(rate == bound.rate * 2 for rate, _ in every) == 1)
            assert sum(n for _, n in bound.bottleneck) == bound.servers
            rates.append(bound.rate)
        assert rates == sorted(rates)
        assert rates[0] == F(K * min(speeds), 2) and rates[-1] == F(sum(speeds), 2)


def test_stability_is_below_the_capacity():
    bound = max_rate(SCENARIO["1"], jobs.exponential())
    assert float(bound) == pytest.approx(45) and bound.bottleneck == ((2, 5),)
    assert max_rate(SCENARIO["2"], (1, 1), exact=True).rate == F(19800, 49)
    assert max_rate({2: 500_000, 10: 500_000}, (1, 2)).servers == 500_000


def test_a_tie_of_two_sets():
    # d = 2 of 3: the pair gives 3 (1 + 1) = 6, the whole 1 + 1 + 4
    assert not max_rate([1, 1, 4], (1, 2)).unique
    assert "in doubt" in interpolate([1, 1, 4], (1, 2)).statement


# between light and heavy traffic


@pytest.mark.parametrize("kind", ["Ia", "Ib", "Ig"])
@pytest.mark.parametrize(("speeds", "d"), [(SCENARIO["1"], 2), ([1, 2], 2), ([1, 2, 5], 3), ({10: 10}, 2)])
def test_interpolation_matches_both_ends(kind, speeds, d):
    job = jobs.hyperexponential(3)
    curve, e, rate = interpolate(speeds, job, d, kind=kind), expand(speeds, job, d, 2), float(max_rate(speeds, job, d))
    errors = [curve(lam) - e(lam) for lam in (rate / 200, rate / 400)]
    assert errors[0] / errors[1] == pytest.approx(8, rel=0.1)
    near = 1 - 1e-7
    assert (1 - near) * curve(near * rate) == pytest.approx(job.moment(2) / (2 * job.mean**2 * rate), rel=1e-4)
    assert curve(np.array([0, rate / 3]))[1] == curve(rate / 3)


def test_geometric_mean_of_the_two_forms():
    lam = np.linspace(0, 44, 20)
    Ia, Ib, Ig = (interpolate(SCENARIO["1"], (1, 2), kind=kind)(lam) for kind in ("Ia", "Ib", "Ig"))
    assert_allclose(Ig**2, Ia * Ib, rtol=1e-13)


@pytest.mark.parametrize(("scenario", "kind", "load", "error"), [("1", "Ig", 0.67, 0.05), ("3", "Ia", 0.71, 0.03)])
def test_interpolation_against_simulation(scenario, kind, load, error):
    for run in VALUES["simulations"]:
        curve = interpolate(SCENARIO[scenario], moments(run["law"]), kind=kind)
        if run["scenario"] == scenario and run["lam"] <= load * curve.limit:
            assert curve(run["lam"]) == pytest.approx(run["R"], rel=error)


def test_one_sample_is_interpolated_exactly():
    lam = np.linspace(0, 2.99, 30)
    for speeds, kinds in (([1, 1, 1], ["Ia", "Ib", "Ig"]), ([1, 1, 4], ["Ib"])):
        exact = sum(1 / c + lam / 3 * 4 / c**2 / (2 * (1 - lam / c / 3)) for c in speeds) / 3
        for kind in kinds:
            assert_allclose(interpolate(speeds, (1, 4), 1, kind=kind)(lam), exact, rtol=1e-9)


@pytest.mark.parametrize(
    ("speeds", "kind", "error"), [([1, 1], "Ib", 0.025), ([1, 1, 1], "Ig", 0.02), ([1, 2], "Ig", 0.12)]
)
def test_interpolation_of_a_few_exponential_servers(speeds, kind, error):
    e = series(speeds, jobs.exponential(), 2, 12)
    for load in (0.2, 0.4, 0.6):
        lam = load * e.max_rate
        exact = truncated_chain(speeds, 2, lam) if len(speeds) == 2 else pade(e, 6, 6)(lam)
        assert interpolate(speeds, jobs.exponential(), kind=kind)(lam) == pytest.approx(exact, rel=error)


def test_interpolation_for_three_samples_is_low_and_says_so():
    curve, exact = interpolate([1, 2, 5], jobs.exponential(), 3), series([1, 2, 5], jobs.exponential(), 3, 12)
    assert curve(3.2) < 0.9 * pade(exact, 6, 6)(3.2)
    assert "rough" in curve.statement and "rough" not in interpolate([1, 2, 5], (1, 2), 2).statement


# the minimum of the response curve


def test_minimum_of_the_parabola():
    e = expand(SCENARIO["1"], jobs.exponential())
    (lam, gain), (_, slope, bend) = e.minimum, e.derivatives
    assert (lam, gain) == pytest.approx((-slope / bend, slope**2 / (2 * bend)), rel=1e-12)
    assert np.all(e(np.linspace(0, 40, 400)) >= e.derivatives[0] - gain)


def test_minimum_of_the_cubic():
    e = expand(SCENARIO["1"], (1, 2), 3)
    assert e.minimum[0] == pytest.approx((-2 * e.derivatives[1] / e.derivatives[3]) ** 0.5, rel=1e-9)


def test_minimum_of_the_response_curve_itself():
    """The parabola stops early, its assignment part alone far too late, the interpolation comes close."""
    e = series(SCENARIO["1"], jobs.exponential(), 2, 14)
    lam, gain = pade(e, 7, 7).minimum
    assert (lam, gain) == pytest.approx((5.33, 0.0107), rel=0.01)
    assert pade(e, 6, 8).minimum == pytest.approx((lam, gain), rel=1e-5)
    parabola = expand(SCENARIO["1"], jobs.exponential())
    assert parabola.minimum == pytest.approx((4.03, 0.00895), rel=0.002)
    assert without_waiting(parabola).minimum[0] > 14
    assert interpolate(SCENARIO["1"], jobs.exponential()).minimum == pytest.approx((lam, gain), rel=0.1)


def test_a_polynomial_that_never_turns():
    with pytest.raises(ValueError, match="no minimum"):
        expand([1, 2], (1, 2), 2, 1).minimum
    with pytest.raises(ValueError, match="order 0"):
        expand([1, 2], (1, 2), 2, 0).minimum


# Pade


def test_pade_recovers_a_rational_response():
    curve = pade(expand([1, 1], jobs.exponential(), 1, 2), 1, 1)  # M/M/1 at rate lam/2: R = 1/(1 - lam/2)
    lam = np.linspace(0, 1.9, 20)
    assert_allclose(curve(lam), 1 / (1 - lam / 2), rtol=1e-12)
    assert curve.limit == pytest.approx(2)
    with pytest.raises(ValueError, match="singular"):
        pade(expand([1, 1], jobs.exponential(), 1, 8), 3, 3)


def test_pade_goes_beyond_the_series():
    e = series([1, 2], jobs.exponential(), 2, 12)
    exact = truncated_chain((1, 2), 2, 1.5)
    assert pade(e, 6, 6)(1.5) == pytest.approx(exact, rel=1e-4)
    assert abs(e(1.5) / exact - 1) > 0.01


def test_pade_keeps_the_taylor_coefficients():
    e = series(SCENARIO["1"], jobs.exponential(), 2, 8)
    curve = pade(e, 4, 4)
    (top, bottom), c = curve.factors[0], np.array(e.coefficients) * curve.scale ** np.arange(9)
    assert_allclose(np.convolve(bottom, c)[:9], [*top, *[0] * (9 - len(top))], atol=1e-12)


def test_pade_ends_at_its_pole():
    curve = pade(series(SCENARIO["1"], jobs.exponential(), 2, 8), 4, 4)
    assert curve.limit < 45 and np.isfinite(curve(curve.limit * 0.999))
    with pytest.raises(ValueError, match="ends"):
        curve(curve.limit * 1.001)


# refusals


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: expand([1, 0], (1, 2)), "speed must be a positive finite number, not 0"),
        (lambda: expand([1, -2], (1, 2)), "not -2"),
        (lambda: expand([1, nan], (1, 2)), "not nan"),
        (lambda: expand([1, inf], (1, 2)), "not inf"),
        (lambda: expand([1, "2"], (1, 2)), "not '2'"),
        (lambda: expand([], (1, 2), 1), "empty"),
        (lambda: expand({1: 2.5}, (1, 2)), "number of servers"),
        (lambda: expand({1: 0}, (1, 2)), "number of servers"),
        (lambda: expand([1, 2], (1, 2), 3), "d must be in 1..2"),
        (lambda: expand([1, 2], (1, 2), 0), "d must be an integer >= 1"),
        (lambda: expand([1, 2], (1, 2), 1.5), "d must be an integer"),
        (lambda: expand([1, 2], (1, 2), 2, -1), "order must be an integer >= 0"),
        (lambda: expand([1, 2], (1, 2), 2, 3), "series"),
        (lambda: expand([1, 2], (0, 2)), "mean job size"),
        (lambda: expand([1, 2], (nan, 2)), "mean job size"),
        (lambda: expand([1, 2], (inf, inf)), "mean job size"),
        (lambda: expand([1, 2], (2, 3)), "at least"),
        (lambda: expand([1, 2], (1, nan)), "at least"),
        (lambda: expand([1, 2], jobs.pareto(1.5, 1)), "infinite"),
        (lambda: interpolate([1, 2, 3], jobs.pareto(1.5, 1), 3), "infinite"),
        (lambda: interpolate([1, 2], (1, 2), kind="Ic"), "'Ia', 'Ib' or 'Ig'"),
        (lambda: interpolate([1, 2], (1, 2))(3), "0 <= lam < 3"),
        (lambda: interpolate([1, 2], (1, 2))(-0.1), "0 <= lam < 3"),
        (lambda: interpolate([1, 2], (1, 2))([0.5, nan]), "0 <= lam < 3"),
        (lambda: expand([1, 2], (1, 2))(3.5), "largest stable rate"),
        (lambda: expand([1, 2], (1, 2))(nan), "largest stable rate"),
        (lambda: series([1, 2], jobs.weibull(2)), "phase-type"),
        (lambda: series(range(1, 30), jobs.exponential(), 2, 6, max_states=2000), "lower the order"),
        (lambda: without_waiting(expand([1, 2], (1, 2), 2, 1)), "take order >= 2"),
        (lambda: pade(expand([1, 2], (1, 2)), 2, 2), "has order 2"),
        (lambda: pade(expand([1, 2], (1, 2)), -1, 2), "m must be an integer"),
    ],
)
def test_bad_input_is_answered_by_a_sentence(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert sentence in str(error.value)


def test_infinite_second_moment_leaves_the_orders_below_d():
    heavy, light = jobs.pareto(1.5, 1), jobs.exponential(3)
    for d in (2, 3):
        found, same = (expand([1, 2, 5], job, d, d - 1) for job in (heavy, light))
        assert_allclose(found.derivatives, same.derivatives, rtol=1e-12)
        assert found.waiting is None and found.assignment is None
    assert float(max_rate([1, 2, 5], heavy)) == pytest.approx(float(max_rate([1, 2, 5], light)))


def test_ib_is_refused_where_it_has_a_pole():
    speeds = capacities([*[5] * 9, F(1, 10)])  # one fast server among slow ones: R'' is far below zero
    with pytest.raises(ValueError, match="b > -1"):
        interpolate(speeds, (1, 1), 3, kind="Ib")
    assert interpolate(speeds, (1, 1), 3, kind="Ia")(0.5) > 0
