"""Balanced routing against enumeration, Euler steps, boxes of queues, quadrature and stored reference values."""

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

from lbkit import balanced, jobs
from lbkit.chains import exact_chain, imbalance, renewal_queue

from oracles import balanced as oracle

VALUES = json.loads((Path(__file__).parent / "values" / "balanced_routing.json").read_text())
DIGITS = 6e-8  # the stored values have eight significant digits
BALANCED = ("sum", "with", "succ")
LOADS = ("0.5", "0.8", "0.9", "0.95", "0.98", "0.99")


def system(name):
    """(rates, c, scheme) from a key such as "K3 mu=[1, 2, 3] succ c=2"; jsq is `sum` with c = K."""
    rates = json.loads(re.search(r"mu=(\[.*?\])", name)[1])
    scheme, c = re.search(r"(\w+) c=(\d+)", name).groups()
    return rates, int(c), "sum" if scheme == "jsq" else scheme


def subsets(K):
    return [S for n in range(K + 1) for S in combinations(range(K), n)]


# --- candidates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", balanced.SCHEMES)
@pytest.mark.parametrize("rates", [[1, 2, 3], [1, 1, 10], [0.5, 2, 0.5, 2, 0.5], [1.5, 0.5, 2.5, 1]])
def test_inclusion_is_what_enumeration_gives(rates, scheme):
    for c in range(1, len(rates) + 1):
        F, law = balanced.inclusion(rates, c, scheme), oracle.candidate_sets(rates, c, scheme)
        for S in subsets(len(rates)):
            exact = float(oracle.inclusion(law, S))
            assert F(S) == pytest.approx(exact, abs=1e-14)
            assert F(sum(1 << k for k in S)) == F(set(S))


def test_the_enumeration_tells_the_schemes_apart():
    laws = {s: oracle.candidate_sets([1, 2, 3], 2, s) for s in balanced.SCHEMES}
    for own, other in combinations(balanced.SCHEMES, 2):
        F = balanced.inclusion([1, 2, 3], 2, own)
        assert max(abs(F(S) - float(oracle.inclusion(laws[other], S))) for S in subsets(3)) > 1e-3


def test_every_candidate_is_one_of_the_servers_and_all_draws_of_one_server_follow_the_rates():
    for scheme in BALANCED:
        F = balanced.inclusion([1, 2, 3], 1, scheme)
        assert [F({k}) for k in range(3)] == pytest.approx([1 / 6, 2 / 6, 3 / 6])
        assert F(range(3)) == 1 and F(()) == 0


@pytest.mark.parametrize("scheme", ["sum", "succ", "uniform"])
def test_all_servers_drawn_without_replacement_is_join_the_shortest_queue(scheme):
    F = balanced.inclusion([1, 2, 3, 4], 4, scheme)
    assert all(F(S) == 0 for S in subsets(4)[:-1]) and F(range(4)) == pytest.approx(1, abs=1e-15)


def test_all_servers_drawn_with_replacement_is_not_join_the_shortest_queue():
    assert balanced.inclusion([1, 3], 2, "with")({1}) == pytest.approx(9 / 16)
    assert balanced.inclusion([1, 3], 7, "with")({1}) == pytest.approx(0.75**7)


def test_chance_of_being_a_candidate_is_not_proportional_to_the_rate_without_replacement():
    def chances(scheme):
        F = balanced.inclusion([1, 2, 3], 2, scheme)
        return [1 - F({0, 1, 2} - {k}) for k in range(3)]
    assert chances("sum") == pytest.approx([7 / 12, 8 / 12, 9 / 12])
    assert chances("succ") == pytest.approx([5 / 12, 11 / 15, 17 / 20])
    assert chances("with") == pytest.approx([11 / 36, 20 / 36, 27 / 36])


# --- stability and collapse ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("scheme", balanced.SCHEMES)
def test_max_load_is_the_minimum_over_all_sets(scheme, seed):
    rng = np.random.default_rng(seed)
    rates = rng.choice(rng.uniform(0.2, 5, 4), 5).round(3)
    for c in (1, 2, 3):
        law, M = oracle.candidate_sets(rates, c, scheme), rates.sum()
        chance = {S: float(oracle.inclusion(law, S)) for S in subsets(5)[1:]}
        load = min(rates[list(S)].sum() / M / p for S, p in chance.items() if p)
        margin = min(rates[list(S)].sum() - M * p for S, p in chance.items() if len(S) < 5)
        found = balanced.max_load(rates, c, scheme)
        assert found.load == pytest.approx(load, rel=1e-12)
        assert found.margin == pytest.approx(margin, abs=1e-11)
        assert rates[list(found.bottleneck)].sum() / M / chance[found.bottleneck] == pytest.approx(load, rel=1e-12)
        assert rates[list(found.weakest)].sum() - M * chance[found.weakest] == pytest.approx(margin, abs=1e-11)


@pytest.mark.parametrize("scheme", BALANCED)
def test_balanced_schemes_are_stable_up_to_load_one_and_collapse_from_two_candidates_on(scheme):
    for rates in ([1, 1], [1, 20], [1, 2, 3], np.repeat([0.5, 2, 10], [30, 20, 10])):
        one, two, three = (balanced.max_load(rates, min(c, len(rates)), scheme) for c in (1, 2, 3))
        assert one.load == two.load == three.load == 1 and two.bottleneck == tuple(range(len(rates)))
        assert one.margin == 0 < two.margin <= three.margin


def test_uniform_sampling_of_unequal_servers_is_unstable_early():
    found = balanced.max_load([1, 1, 10], 2, "uniform")
    assert found.load == VALUES["exact"]["max_stable_rho_uniform_d2_mu_1_1_10"] and found.bottleneck == (0, 1)
    assert found.margin == -2 and found.weakest == (0, 1)
    assert balanced.max_load([10, 1, 1], 2, "uniform").bottleneck == (1, 2)


def test_many_servers_cost_what_their_distinct_rates_cost():
    for scheme in balanced.SCHEMES:
        assert balanced.max_load(np.ones(100), 2, scheme).margin == pytest.approx(0.99 if scheme == "with" else 1)
    assert balanced.max_load(np.linspace(1, 2, 300), 2).load == 1
    assert balanced.max_load([2.0], 1).margin == np.inf and balanced.max_load([2.0], 5, "with").load == 1


# --- fluid ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALUES["fluid"])
def test_fluid_paths_of_the_reference(name):
    rates, c, scheme = system(name)
    stored = VALUES["fluid"][name]
    path = balanced.fluid_path(rates, json.loads(re.search(r"q0=(\[.*?\])", name)[1]), c, scheme)
    assert path.times == pytest.approx(stored["breakpoints"], rel=DIGITS)
    assert path.states.ravel() == pytest.approx(np.ravel(stored["states"]), rel=DIGITS)
    assert path.balance_time == pytest.approx(stored["T_balance"], rel=DIGITS)
    assert path.bound == pytest.approx(stored["bound"], rel=DIGITS)


@pytest.mark.parametrize(("rates", "start", "c", "scheme", "load"), [
    ([1, 2, 3, 5], [0.3, 2, 1.1, 0], 2, "sum", 1), ([1, 2, 3, 5], [0.3, 2, 1.1, 0], 2, "with", 1),
    ([1, 2, 3, 5], [2, 0, 1.1, 0.3], 2, "succ", 0.8), ([1, 1, 4], [1, 0, 2], 3, "succ", 0.6),
    ([1, 1, 10], [0.5, 0.2, 1], 2, "uniform", 0.55), ([0.2, 5, 3], [1, 1, 1], 2, "with", 0.4),
    ([0.1, 10], [1, 1], 2, "sum", 0.1)])
def test_fluid_path_is_the_limit_of_small_steps(rates, start, c, scheme, load):
    path, until = balanced.fluid_path(rates, start, c, scheme, load), 2.0
    errors = []
    for step in (4e-4, 1e-4):
        euler = oracle.fluid(rates, start, c, scheme, load * sum(rates), until, step)
        errors.append(np.abs(euler - path(np.linspace(0, until, len(euler)))).max())
    assert errors[1] < 3e-4 * sum(rates) and errors[1] < 0.5 * errors[0] + 1e-12


def test_small_steps_refuse_the_path_of_another_scheme_or_number_of_candidates():
    euler = oracle.fluid([1, 2, 3], [2, 1, 0], 2, "sum", 6, 2.0, 1e-3)
    for c, scheme in ((2, "with"), (2, "succ"), (3, "sum")):
        path = balanced.fluid_path([1, 2, 3], [2, 1, 0], c, scheme)
        assert np.abs(euler - path(np.linspace(0, 2, 2001))).max() > 0.05


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scheme", BALANCED)
def test_critical_fluid_keeps_its_mass_and_balances_within_the_bound(scheme, seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 9))
    rates, start = rng.uniform(0.2, 4, K), rng.uniform(0, 3, K) * (rng.random(K) < 0.8)
    start[0] += 1
    path = balanced.fluid_path(rates, start, int(rng.integers(2, K + 1)), scheme)
    assert path.states.sum(axis=1) == pytest.approx(start.sum(), rel=1e-10)
    assert path.states[-1] == pytest.approx(start.mean(), rel=1e-10) and path.balance_time == path.times[-1]
    assert 0 < path.balance_time <= path.bound * (1 + 1e-10)
    assert path(path.times[-1] + 5) == pytest.approx(start.mean(), rel=1e-9)
    excess = np.maximum(path.states - path.states.mean(axis=1, keepdims=True), 0).sum(axis=1)
    assert np.all(np.diff(excess) <= -path.margin * np.diff(path.times) + 1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_holds_below_critical_load_too(seed):
    rng = np.random.default_rng(seed)
    path = balanced.fluid_path(rng.uniform(1, 2, 5), rng.uniform(0, 3, 5), 3, "sum", 0.9)
    assert path.margin > 0 and path.balance_time <= path.bound
    assert path.states[-1] == pytest.approx(0, abs=1e-12) and path.final_drift == pytest.approx(0, abs=1e-12)


def test_two_queues_meet_at_the_closed_form():
    p, gap = np.array([0.2, 0.8]), 3.0
    for c in (2, 3, 6):
        times = [balanced.fluid_path(5 * p, s, c, "with").balance_time for s in ([4, 1], [1, 4])]
        assert times == pytest.approx(gap / (2 * 5 * p * (1 - p ** (c - 1))))
    for scheme in ("sum", "succ"):
        times = [balanced.fluid_path(5 * p, s, 2, scheme).balance_time for s in ([4, 1], [1, 4])]
        assert times == pytest.approx(gap / (2 * 5 * p))
    never = balanced.fluid_path(5 * p, [4, 1], 1)
    assert never.balance_time == never.bound == np.inf and never.final_drift == pytest.approx(0)


def test_one_long_queue_among_equals_drains_faster_with_more_candidates():
    for K in (4, 10):
        start = [K] + [0] * (K - 1)
        times = [balanced.fluid_path(np.ones(K), start, c, "with").balance_time for c in range(2, 7)]
        assert times == pytest.approx([(K - 1) / (1 - K ** (1.0 - c)) for c in range(2, 7)])
        assert np.all(np.diff(times) < 0)
        assert balanced.fluid_path(np.ones(K), start, 2).balance_time == pytest.approx(K - 1)


def test_below_critical_load_a_slow_server_leaves_the_tie():
    path = balanced.fluid_path([0.1, 10], [1, 1], 2, "sum", 0.1)
    assert path.states[1] == pytest.approx([1 - 0.1 / 8.99, 0], abs=1e-12)
    assert path.states[-1] == pytest.approx([0, 0], abs=1e-12)


def test_an_unstable_fluid_runs_on():
    path = balanced.fluid_path([1, 1, 10], [0, 0, 0], 2, "uniform", 0.55)
    assert path.final_drift == pytest.approx([0.1, 0.1, 0]) and path(30) == pytest.approx([3, 3, 0])
    assert balanced.fluid_path([1, 1, 10], [3, 3, 0], 2, "uniform", 0.45).states[-1] == pytest.approx(0, abs=1e-12)


def test_balanced_start_and_one_server():
    assert balanced.fluid_path([1, 2], [1, 1], 2).balance_time == 0 == balanced.fluid_path([1, 2], [1, 1], 2).bound
    lone = balanced.fluid_path([2], [1], 1, load=0.5)
    assert lone.times == pytest.approx([0, 1]) and lone.balance_time == 0
    assert lone([0.5, 9]).ravel() == pytest.approx([0.5, 0])


# --- diffusion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALUES["diffusion"])
def test_estimators_of_the_reference(name):
    stored = VALUES["diffusion"][name]
    args = stored["ca2"], stored["cs2"]
    assert balanced.choice_ratio(stored["mu"], *args) == pytest.approx(stored["ratio"], rel=DIGITS)
    for key in (k for k in stored if k.startswith("rho=")):
        rho, row = float(key[4:]), stored[key]
        two, one = (balanced.diffusion(stored["mu"], rho, *args, c=c) for c in (2, 1))
        turn, best = (balanced.round_robin(stored["mu"], rho, *args, optimal=o) for o in (False, True))
        found = [two.variance, two.drift, two.mean_queue, two.mean_queue_critical, one.mean_queue, turn.mean_queue,
                 best.mean_queue, two.limit, one.limit]
        assert found == pytest.approx([row[k] for k in ("var", "drift", "EQ", "EQ_crit", "EQ_c1", "EQ_rr", "EQ_rr_opt")]
                                      + [stored["HT_const_c_ge_2"], stored["HT_const_c1"]], rel=DIGITS)
        assert two.mean_waits == pytest.approx(row["EWk"], rel=DIGITS)


MIXED = {"rates": [0.5, 0.75, 1, 1.25, 1.5], "ca2": 0.7, "cs2": [1, 0.5, 2, 4, 0]}


def test_all_numbers_of_candidates_from_two_on_share_one_diffusion():
    assert {balanced.diffusion(**MIXED, rho=0.9, c=c).mean_queue for c in (2, 3, 50)} == {
        balanced.diffusion(**MIXED, rho=0.9).mean_queue}
    assert balanced.diffusion(MIXED["rates"], 0.9, 1, MIXED["cs2"]).limit == pytest.approx(1.2875)


def test_the_three_estimators_share_their_limit_and_differ_by_a_constant():
    for make in (balanced.diffusion, balanced.round_robin, lambda **k: balanced.diffusion(**k, c=1)):
        near, far = make(**MIXED, rho=1 - 1e-7), make(**MIXED, rho=0.9)
        for mean in (near.mean_queue, near.mean_queue_critical, near.mean_queue_pooled):
            assert 1e-7 * mean == pytest.approx(far.limit, rel=1e-5)
        gaps = [near.mean_queue_critical - near.mean_queue, near.mean_queue_critical - near.mean_queue_pooled]
        assert np.abs(gaps).max() < 20 and abs(gaps[0] - (far.mean_queue_critical - far.mean_queue)) < 1e-6


def test_the_pooled_form_is_exact_for_single_servers():
    scv, rho = 3.0, 0.7
    pollaczek_khinchine = rho + rho**2 * (1 + scv) / (2 * (1 - rho))
    assert balanced.diffusion([2.0], rho, 1, scv).mean_queue_pooled == pytest.approx(pollaczek_khinchine)
    assert balanced.diffusion([1, 2, 4], rho, 1, scv, c=1).mean_queue_pooled == pytest.approx(3 * pollaczek_khinchine)
    simulated = VALUES["sim"]["K5 homog M/H2(4) speed random c=1"]["0.9"]
    mean, half = simulated["EQ"]
    assert abs(balanced.diffusion(np.ones(5), 0.9, 1, 4, c=1).mean_queue_pooled - mean) < half


def test_queues_are_equal_delays_are_not_and_the_tail_is_exponential():
    limit = balanced.diffusion([1, 2, 3], 0.9)
    assert np.ptp(limit.mean_queues) == 0 and limit.mean_queues.sum() == pytest.approx(limit.mean_queue)
    assert limit.mean_waits * [1, 2, 3] == pytest.approx(limit.mean_queues)
    assert limit.mean_response == pytest.approx(limit.mean_queue / 5.4)
    assert quad(limit.tail, 0, np.inf)[0] == pytest.approx(limit.mean_queue)
    single = balanced.diffusion([1, 2, 3], 0.9, c=1)
    assert single.tails(2.0) == pytest.approx(np.exp(-2 / single.mean_queues)) and single.tails([0, 1]).shape == (2, 3)


def test_coin_tosses_are_independent_only_for_poisson_arrivals():
    off = ~np.eye(3, dtype=bool)
    for ca2 in (0.0, 1.0, 2.5):
        one = balanced.diffusion([1, 2, 3], 0.9, ca2, 1, c=1)
        assert one.covariance[off] == pytest.approx(((ca2 - 1) * 0.9 * 6 * np.outer([1, 2, 3], [1, 2, 3]) / 36)[off])
        arrivals = one.covariance - np.diag(one.rates * one.cs2)
        assert arrivals.sum() == pytest.approx(0.9 * 6 * ca2)  # the streams add up to the renewal process
        turns = balanced.round_robin([1, 2, 3], 0.9, ca2)
        assert (turns.covariance - np.diag(turns.rates * turns.cs2)).sum() == pytest.approx(0.9 * 6 * ca2)


@pytest.mark.parametrize("seed", range(10))
def test_order_of_the_policies_in_heavy_traffic(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 7))
    case = {"rates": rng.uniform(0.3, 3, K), "ca2": rng.uniform(0, 3), "cs2": rng.uniform(0, 4, K), "rho": 0.99}
    shared = balanced.diffusion(**case).mean_queue
    best, turns = balanced.round_robin(**case, optimal=True), balanced.round_robin(**case)
    assert shared <= best.mean_queue <= turns.mean_queue < balanced.diffusion(**case, c=1).mean_queue
    assert best.slack.sum() == pytest.approx(turns.slack.sum())
    for _ in range(20):
        other = best.slack * np.exp(rng.normal(0, 0.1, K))
        other *= best.slack.sum() / other.sum()
        assert (best.variance / (2 * other)).sum() >= best.mean_queue


def test_where_the_order_is_an_equality():
    fixed = {"rates": [1, 2, 3], "rho": 0.9, "ca2": 2.0, "cs2": 0.0}
    assert balanced.diffusion(**fixed).mean_queue == pytest.approx(balanced.round_robin(**fixed).mean_queue)
    alike = {"rates": np.ones(4), "rho": 0.9, "ca2": 2.0, "cs2": 3.0}
    plain, best = (balanced.round_robin(**alike, optimal=o).mean_queue for o in (False, True))
    assert best == pytest.approx(plain)


def test_ratio_of_one_to_two_candidates():
    for rates in ([1, 1], [1, 2, 30]):
        assert balanced.choice_ratio(rates) == pytest.approx(len(rates))
    one, two = (balanced.diffusion(**MIXED, rho=0.9, c=c).limit for c in (1, 2))
    assert balanced.choice_ratio(**MIXED) == pytest.approx(one / two)
    assert balanced.choice_ratio([1, 2], 0, 0) == np.inf and balanced.choice_ratio([3], 0, 0) == 1


def test_deterministic_systems_degenerate():
    limit = balanced.diffusion(np.ones(5), 0.9, 0, 0)
    assert limit.variance == limit.mean_queue == limit.limit == 0 and limit.mean_queue_pooled == 0.9
    assert limit.tail([0.0, 3.0]).tolist() == [0, 0] and limit.mean_waits.tolist() == [0] * 5
    for optimal in (False, True):
        turns = balanced.round_robin(np.ones(5), 0.9, 0, 0, optimal=optimal)
        assert turns.mean_queue == 0 and turns.mean_queue_pooled == pytest.approx(4.5)  # the simulated D/D queue
    assert VALUES["sim"]["K5 homog D/D speed jsq c=5"]["0.9"]["EQ"][0] == 4.5
    part = balanced.round_robin([1, 1], 0.9, 0, [0, 2], optimal=True)
    assert part.mean_queues == pytest.approx([0, 2 / (2 * 0.2)]) and part.tails(1.0)[0] == 0


# --- reflected Brownian motion -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "drift", "start"), [
    ("EZ_from0_drift-1_var2", -1, 0), ("EZ_from0_drift0_var2", 0, 0), ("EZ_from0_drift+1_var2", 1, 0),
    ("EZ_from3_drift-1_var2", -1, 3)])
def test_mean_of_reflected_brownian_motion_of_the_reference(name, drift, start):
    stored = VALUES["rbm"][name]
    assert balanced.rbm_mean(stored["t"], drift, 2, start) == pytest.approx(stored["EZ"], rel=DIGITS)


def test_law_of_reflected_brownian_motion_of_the_reference():
    stored = VALUES["rbm"]["P(Z(1)<=z)_from0_drift-1_var2"]
    assert balanced.rbm_cdf(1, [float(z) for z in stored], -1, 2) == pytest.approx(list(stored.values()), rel=DIGITS)
    stored = VALUES["scaling"]["RBM mean drift -3 var 12 at t=0.1,0.25,0.5,1"]
    assert balanced.rbm_mean([0.1, 0.25, 0.5, 1], -3, 12) == pytest.approx(stored["EZ"], rel=DIGITS)


@pytest.mark.parametrize("drift", [-30, -3, -1, -1e-3, -1e-9, 0, 1e-9, 1e-3, 0.7, 2, 40])
def test_mean_from_zero_is_spitzers_integral(drift):
    for t in (0.01, 1, 7.0):
        exact = oracle.rbm_mean_from_zero(t, drift, 2.5)
        assert balanced.rbm_mean(t, drift, 2.5) == pytest.approx(exact, rel=1e-10)
        assert abs(balanced.rbm_mean(t, drift, 2.6) / exact - 1) > 1e-4 or drift == 40


@pytest.mark.parametrize("drift", [-1.5, 0, 0.8])
def test_mean_and_law_solve_the_backward_equation(drift):
    x, mean = oracle.rbm_expectation(lambda z: z, 1.3, drift, 2.0, 16)
    at = slice(0, 600, 40)
    assert balanced.rbm_mean(1.3, drift, 2.0, x[at]) == pytest.approx(mean[at], abs=3e-5)
    assert np.abs(balanced.rbm_mean(1.3, drift + 0.01, 2.0, x[at]) - mean[at]).max() > 1e-3
    x, below = oracle.rbm_expectation(lambda z: (z < 1.004) * 1.0, 1.3, drift, 2.0, 16)
    assert balanced.rbm_cdf(1.3, 1.004, drift, 2.0, x[at]) == pytest.approx(below[at], abs=3e-5)


@pytest.mark.parametrize("drift", [-20, -1, -1e-4, 0, 1e-4, 1, 20])
@pytest.mark.parametrize("start", [0, 0.1, 3, 50])
def test_mean_is_the_integral_of_the_tail(drift, start):
    for t in (0.2, 5):
        centre, width = max(start + drift * t, 0), 12 * np.sqrt(2 * t) + 2
        edges = np.unique(np.clip([0, 2 / (1 + abs(drift)), centre - width, centre, centre + width], 0, None))
        mean = sum(quad(lambda z: 1 - balanced.rbm_cdf(t, z, drift, 2, start), a, b, epsabs=1e-12, limit=200)[0]
                   for a, b in zip(edges[:-1], edges[1:], strict=True))
        assert balanced.rbm_mean(t, drift, 2, start) == pytest.approx(mean, rel=1e-8)


def test_reflected_brownian_motion_far_out():
    with np.errstate(all="raise", under="ignore"):
        assert balanced.rbm_mean(1e12, -1, 2, [0, 5, 1e6]) == pytest.approx([1, 1, 1], rel=1e-12)
        assert balanced.rbm_mean(1e12, 1, 2, 7) == pytest.approx(1e12 + 7 + np.exp(-7), rel=1e-15)
        assert balanced.rbm_mean(1, [-1e-300, 0, 1e-300], 1) == pytest.approx([np.sqrt(2 / np.pi)] * 3, rel=1e-14)
        assert balanced.rbm_mean(1, -1e8, 2) == pytest.approx(1e-8, rel=1e-12)
        assert balanced.rbm_mean(1, -1e4, 2, 1e4 + 3) == pytest.approx(3, abs=0.1)
        assert balanced.rbm_mean(1e-8, 3, 2, 5) == pytest.approx(5 + 3e-8, rel=1e-14)
        assert balanced.rbm_cdf(1e12, [0, 1, 3], -1, 2) == pytest.approx(1 - np.exp([-0.0, -1, -3]), rel=1e-12)
        assert balanced.rbm_cdf(1, [0, 1, 900, 1100], 1000, 2) == pytest.approx([0, 0, 0, 1], abs=1e-15)
        assert balanced.rbm_cdf(1, [-1, 1e5], -1000, 2, 1e5).tolist() == [0, 1]
    x = np.linspace(-1 - 1e-6, -1 + 1e-6, 9)  # the two branches agree where they meet
    for start in (0, 0.9, 1.1, 4):
        assert np.abs(np.diff(balanced.rbm_mean(1, x, 1, start), 2)).max() < 1e-11


def test_reflected_brownian_motion_without_noise_or_time():
    assert balanced.rbm_mean(2, [-1, -3, 1], 0, 4).tolist() == [2, 0, 6]
    assert balanced.rbm_mean(0, -1, 2, 4) == 4 and balanced.rbm_mean(0, 0, 0) == 0
    assert balanced.rbm_cdf(2, [1.9, 2.0, -1], -1, 0, 4).tolist() == [0, 1, 0] and balanced.rbm_cdf(0, 4, 1, 1, 4) == 1
    assert balanced.rbm_mean(np.ones((3, 1)), -1, 2, np.ones(4)).shape == (3, 4)


def test_scaled_queues_approach_the_reflected_mean():
    stored = VALUES["scaling"]["mu=(1,2,3) theta=-3 from 0, jsq c=3"]["n=10000"]
    mean = balanced.rbm_mean([0.1, 0.25, 0.5, 1], -3, 12)
    assert np.all(np.abs(stored["EQhat_t_0.1_0.25_0.5_1"] - mean) < stored["ci"])


# --- bounds and identities -----------------------------------------------------------------------------------------


def test_pooled_server_bounds_the_simulated_work_and_the_identity_closes_the_gap():
    for name in ("K5 homog M/H2(4) speed jsq c=5", "K5 homog M/D speed jsq c=5", "K5 homog M/H2(4) speed random c=1"):
        for rho, row in ((float(r), VALUES["sim"][name][r]) for r in ("0.9", "0.95")):
            scv = VALUES["sim"][name][f"{rho:g}"]["cs2"][0]
            mean = balanced.mean_from_kappa(rho, row["kappaU"][0], scv)
            assert balanced.pooled_workload(rho, scv) < row["EU"][0]
            assert mean == pytest.approx(row["EU_identity"][0], rel=1e-6)
            assert abs(row["EU"][0] - mean) < row["EU"][1] + row["kappaU"][1]
    assert balanced.pooled_workload(0.9) == pytest.approx(9) and balanced.pooled_workload(0.9, 4) == pytest.approx(22.5)


def test_a_pooled_count_is_no_bound_for_variable_jobs():
    stored = VALUES["counterexample_count_bound"]["K=2 mu=(1,1) M/H2(20) speed rho=.6 jsq"]
    pooled = balanced.diffusion([2], 0.6, 1, 20).mean_queue_pooled
    assert pooled == pytest.approx(stored["pooled_FCFS_count"]) and stored["EQ"][0] + stored["EQ"][1] < pooled
    assert stored["EU"][0] - stored["EU"][1] > balanced.pooled_workload(0.6, 20) == pytest.approx(stored["pooled_U"])


@pytest.mark.parametrize("rho", ["0.8", "0.9", "0.95", "0.99"])
def test_renewal_queues_of_the_reference(rho):
    exact, r = VALUES["exact"], float(rho)
    assert renewal_queue(r, jobs.deterministic()) == pytest.approx(exact["pooled_DM1"][rho], rel=DIGITS)
    assert 5 * renewal_queue(r, jobs.deterministic(), 0.2) == pytest.approx(exact["K5_D_M_c1"][rho], rel=DIGITS)
    het = sum(renewal_queue(r, jobs.erlang(2), p) for p in (0.1, 0.15, 0.2, 0.25, 0.3))
    assert het == pytest.approx(exact["K5_E2_M_c1"][rho], rel=DIGITS)


def test_renewal_queue_limits():
    for rho in (0.01, 0.5, 0.999):
        assert renewal_queue(rho, jobs.exponential(7), 0.3) == pytest.approx(rho / (1 - rho), rel=2e-9)
    assert renewal_queue(0.9, jobs.erlang(3), 1e-6) == pytest.approx(9, rel=1e-5)  # rare arrivals are Poisson
    assert renewal_queue(0.999, jobs.hyperexponential(30)) * 0.001 == pytest.approx(31 / 2, rel=0.01)
    simulated = VALUES["sim"]["K5 homog D/M speed rr c=1"]
    for rho in ("0.9", "0.95"):  # round robin over 5 keeps every fifth arrival of a deterministic stream
        mean, half = simulated[rho]["EQ"]
        assert abs(5 * renewal_queue(float(rho), jobs.deterministic()) - mean) < half


# --- exact chains --------------------------------------------------------------------------------------------------


def check_chain(name, load):
    row = VALUES["ctmc"][name][load]
    chain = exact_chain(system(name)[0], float(load), *system(name)[1:])
    found = [chain.mean_queue, chain.spread, chain.kappa, chain.empty, *chain.mean_queues, *chain.utilisations]
    stored = [row[k] for k in ("EQ", "spread", "kappa", "P_empty")] + row["EQk"] + row["util"]
    assert found == pytest.approx(stored, rel=DIGITS)
    assert chain.truncation <= 1e-9 * chain.mean_queue and chain.residual < 1e-12
    assert chain.mean_queue == pytest.approx(balanced.mean_from_kappa(float(load), chain.kappa), rel=1e-8)


CHAINS = [k for k in VALUES["ctmc"] if re.match(r"K\d mu", k)]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", [k for k in CHAINS if k.startswith("K2")])
def test_two_servers_of_the_reference(name, load):
    check_chain(name, load)


@pytest.mark.parametrize("load", ["0.5", "0.8", *(pytest.param(x, marks=pytest.mark.slow) for x in ("0.9", "0.95"))])
@pytest.mark.parametrize("name", [k for k in CHAINS if k.startswith("K3")])
def test_three_servers_of_the_reference(name, load):
    check_chain(name, load)


@pytest.mark.parametrize(("key", "tie"), [("rho=0.8 tie=uniform", "uniform"), ("rho=0.8 tie=first", "first"),
                                          pytest.param("rho=0.9 tie=prop", "proportional", marks=pytest.mark.slow)])
def test_ties_of_the_reference(key, tie):
    for name, mean in VALUES["ctmc"][f"ties mu=[1,2,3] {key}"].items():
        c, scheme = system("mu=[] " + name)[1:]
        chain = exact_chain([1, 2, 3], float(key[4:7]), c, scheme, tie, tol=1e-8)
        assert chain.mean_queue == pytest.approx(mean, rel=DIGITS)


@pytest.mark.parametrize(("rates", "rho", "size"), [([1, 3], 0.4, 30), ([1, 1, 2], 0.25, 9)])
@pytest.mark.parametrize("scheme", balanced.SCHEMES)
def test_a_box_of_queues_gives_the_same_means(rates, rho, size, scheme):
    ties = {"sum": "uniform", "with": "proportional", "succ": "first", "uniform": "uniform"}[scheme]
    means = oracle.queues(rates, rho, 2, scheme, ties, size)
    assert exact_chain(rates, rho, 2, scheme, ties).mean_queues == pytest.approx(means, rel=2e-7)


def test_the_box_tells_schemes_and_ties_apart():
    means = oracle.queues([1, 3], 0.4, 2, "with", "uniform", 30)
    for scheme, ties in (("sum", "uniform"), ("with", "first"), ("with", "proportional")):
        assert np.abs(exact_chain([1, 3], 0.4, 2, scheme, ties).mean_queues / means - 1).max() > 1e-3


@pytest.mark.parametrize(("rates", "rho"), [
    ([1, 1], 0.99), ([1, 3], 0.9), ([1, 3], 0.999), ([1, 20], 0.6), ([1, 2, 2], 0.6)])
def test_reported_truncation_is_the_error(rates, rho):
    fine = exact_chain(rates, rho, 2, "with", tol=1e-10).mean_queue
    for tol in (1e-3, 1e-6):
        rough = exact_chain(rates, rho, 2, "with", tol=tol)
        assert 0 < abs(rough.mean_queue - fine) <= 2 * rough.truncation <= 2 * tol * fine


def test_one_candidate_is_a_product_of_single_queues():
    for rates, rho in (([1.0], 0.95), ([1, 4], 0.7), ([1, 1], 0.95)):
        chain = exact_chain(rates, rho, 1)
        K, n = len(rates), np.arange(40)
        assert chain.mean_queue == pytest.approx(K * rho / (1 - rho), rel=1e-8)
        assert chain.pmf(n) == pytest.approx((1 - rho) ** K * rho**n * (1 if K == 1 else n + 1), rel=1e-6)
    loads = 0.4 * 5 / 2 / np.array([2, 3])
    assert exact_chain([2, 3], 0.4, 1, "uniform").mean_queues == pytest.approx(loads / (1 - loads), rel=1e-8)


def test_order_and_scale_of_the_servers_do_not_matter():
    one, other = exact_chain([1, 3], 0.8), exact_chain([30, 10], 0.8)
    assert one.mean_queues == pytest.approx(other.mean_queues[::-1], rel=1e-8)
    assert one.mean_response == pytest.approx(10 * other.mean_response)
    assert exact_chain([1, 3], 0.8, 2, "succ").mean_queue == pytest.approx(one.mean_queue, rel=1e-9)  # both are JSQ


def test_more_candidates_shorter_queues():
    means = [exact_chain([1, 1], 0.9, c, "with").mean_queue for c in (1, 2, 3, 6)]
    means.append(exact_chain([1, 1], 0.9).mean_queue)
    assert np.all(np.diff(means) < 0) and means[-1] > balanced.pooled_workload(0.9)
    three = [exact_chain([1, 1, 1], 0.5, c).mean_queue for c in (2, 3)]
    assert 3 > three[0] > three[1] > 1


@pytest.mark.parametrize(("name", "scheme"), [("K2 mu=[1, 1] with c=2", "with"), ("K2 mu=[1, 1] jsq c=2", "sum"),
                                              ("K2 mu=[1, 3] with c=2", "with")])
def test_distributions_of_the_reference(name, scheme):
    for load, row in VALUES["distribution"][name].items():
        rho, n = float(load), np.arange(9000 if load == "0.99" else 900)
        chain = exact_chain(system(name)[0], rho, 2, scheme)
        law = chain.pmf(n)
        assert law.sum() == pytest.approx(1, abs=1e-10) and law @ n == pytest.approx(chain.mean_queue, rel=1e-8)
        assert np.sqrt(law @ n**2 - (law @ n) ** 2) / (law @ n) == pytest.approx(row["CV"], rel=1e-7)
        assert law[500] / law[499] == pytest.approx(row["geometric_ratio"], rel=1e-7)
        tails = [chain.tail(int(np.ceil(float(y) * chain.mean_queue))) for y in row["P_Q_ge_y_mean"]]
        assert tails == pytest.approx(list(row["P_Q_ge_y_mean"].values()), rel=1e-6)


def test_utilisations_carry_the_load_and_idle_capacity_is_what_is_left():
    chain = exact_chain([1, 3], 0.9)
    assert chain.utilisations == pytest.approx([0.966, 0.878], abs=5e-4)
    assert chain.utilisations @ [1, 3] == pytest.approx(3.6, rel=1e-9)
    assert chain.idle_rate == pytest.approx(0.4, rel=1e-8)
    assert chain.levels.sum() < 1 and chain.phase_law.sum() == pytest.approx(1)
    assert chain.tail([0, 1]) == pytest.approx([1, 1 - chain.empty])


@pytest.mark.parametrize("scheme", ["sum", "with"])
def test_imbalance_of_equal_servers_and_kappa_determine_each_other(scheme):
    f = balanced.inclusion([1, 1], 2, scheme)({0})
    for rho in (0.3, 0.9):
        chain = exact_chain([1, 1], rho, 2, scheme)
        assert chain.spread == pytest.approx((1 - (1 - rho) * chain.kappa / rho) / (1 - 2 * f), rel=1e-8)


def test_kappa_stays_bounded_and_the_approach_is_linear():
    kappas = [exact_chain([1, 1], rho, 2, "with").kappa for rho in (0.98, 0.99)]
    assert 2 * kappas[1] - kappas[0] == pytest.approx(1.998, abs=1e-3)
    chain = exact_chain([1, 1], 0.999, 2, "with")
    assert (0.001 * chain.mean_queue - 1) / 0.001 == pytest.approx(chain.kappa - 1, rel=1e-4)
    assert abs(chain.mean_queue - balanced.diffusion([1, 1], 0.999).mean_queue) < 3


def test_uniform_sampling_against_simulation():
    stored = VALUES["uniform_jsqd"]["mu=(1,1,10), d=2"]
    loose = {"tol": 1e-5}
    assert abs(exact_chain([1, 1, 10], 0.4, 2, "uniform", **loose).mean_queue - stored["0.4"][0]) < stored["0.4"][1]
    mean, half = stored["with c=2 rho=.55"]
    assert abs(exact_chain([1, 1, 10], 0.55, 2, "with", **loose).mean_queue - mean) < half
    with pytest.raises(ValueError, match=r"0 < rho < 0.5, where servers \[0, 1\]"):
        exact_chain([1, 1, 10], 0.55, 2, "uniform")


# --- imbalance of two servers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["K2 mu=[1, 1] with c=2", "K2 mu=[1, 3] with c=2"])
def test_imbalance_of_the_reference(name):
    stored, law = VALUES["ctmc"][name]["limit_diff"], imbalance(*system(name))
    assert [law.mean_abs, law.mean, law.zero, *law.ratio] == pytest.approx(
        [stored[k] for k in ("Eabs", "ED", "P0", "rplus", "rminus")], rel=DIGITS, abs=1e-12)


def test_imbalance_closed_forms():
    join = imbalance([1, 3])
    assert [join.mean_abs, join.mean, *join.ratio] == pytest.approx([41 / 24, 17 / 12, 0.6, 1 / 7])
    equal = imbalance([1, 1], 2, "with")
    assert equal.mean_abs == pytest.approx(1 / (1 - 2 * 0.25)) and equal.zero == pytest.approx(0.2)
    n = np.arange(-300, 301)
    for law in (join, equal, imbalance([1, 3], 3, "with", "first")):
        assert law.pmf(n).sum() == pytest.approx(1) and law.pmf(n) @ n == pytest.approx(law.mean)
        assert law.pmf(n) @ np.abs(n) == pytest.approx(law.mean_abs)


@pytest.mark.parametrize("ties", ["uniform", "proportional", "first"])
def test_imbalance_is_the_limit_of_the_chain(ties):
    law = imbalance([1, 3], 2, "sum", ties)
    errors = [abs(exact_chain([1, 3], rho, 2, "sum", ties).spread - law.mean_abs) for rho in (0.99, 0.999)]
    assert errors[1] < 0.011 * law.mean_abs and errors[1] == pytest.approx(errors[0] / 10, rel=0.2)
    other = imbalance([1, 3], 2, "sum", {"uniform": "first"}.get(ties, "uniform"))
    assert abs(other.mean_abs - law.mean_abs) > 0.011 * law.mean_abs


# --- what lengths tell ---------------------------------------------------------------------------------------------


def test_a_queue_of_exponential_jobs_delays_by_its_length():
    table = balanced.delays_by_length(1.6, jobs.exponential(), jobs=20_000, longest=5, seed=1)
    often = table.seen > 500
    lengths = np.stack(np.indices((6, 6)), axis=-1)
    assert often.sum() > 8 and not np.tril(table.seen, -1).any()
    assert np.all(np.abs(table.mean - lengths)[often] <= 2 * table.half_width[often] + 1e-12)
    assert np.any(np.abs(table.mean - lengths - 0.2)[often] > 2 * table.half_width[often])


def test_the_lengths_found_have_the_law_of_the_chain():
    table = balanced.delays_by_length(1.6, jobs.exponential(), jobs=20_000, longest=5, seed=2)
    chain = exact_chain([1, 1], 0.8)
    law = np.zeros((6, 6))
    for m, level in enumerate(chain.levels[:6]):
        law[m, m:] = np.bincount(chain.phases.max(axis=1), level)[: 6 - m]
    found = table.seen / (8 * 18_000)
    assert found == pytest.approx(law, abs=0.012)
    assert np.abs(found - law.T).max() > 0.012


def test_a_longer_queue_can_be_the_better_one():
    """Sizes 0 or 20: the longer queue has waited longer for its big job to end."""
    table = balanced.delays_by_length(0.8, jobs.discrete([0, 20], [0.95, 0.05]), jobs=30_000, seed=3)
    shorter, longer = table.mean[1, 3]
    assert shorter - longer > 3 * table.half_width[1, 3].sum()
    even = balanced.delays_by_length(0.8, jobs.deterministic(), jobs=5_000, seed=3).mean[1, 2]
    assert even[0] < even[1] - 0.5


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "message"), [
    (lambda: balanced.inclusion([1, 0], 1), "positive finite"), (lambda: balanced.inclusion([], 1), "non-empty"),
    (lambda: balanced.inclusion([1, np.nan], 1), "positive finite"),
    (lambda: balanced.inclusion([1, 2], 3), "at most all 2"),
    (lambda: balanced.inclusion([1, 2], 0), "at least 1"), (lambda: balanced.inclusion([1, 2], 1.5), "whole number"),
    (lambda: balanced.inclusion([1, 2], 2, "succc"), "did you mean 'succ'"),
    (lambda: balanced.inclusion([1, 2])({2}), "below 2"), (lambda: balanced.inclusion([1, 2])({-1}), "below 2"),
    (lambda: balanced.inclusion([1, 2])(4), "below 2"),
    (lambda: balanced.max_load(np.linspace(1, 2, 30), 2, "succ"), "count vectors"),
    (lambda: balanced.fluid_path([1, 2], [1], 2), "2 finite queue lengths"),
    (lambda: balanced.fluid_path([1, 2], [1, -1], 2), "at least 0"),
    (lambda: balanced.fluid_path([1, 2], [1, 1], 2, load=1.1), "0 <= load <= 1"),
    (lambda: balanced.fluid_path([1, 2], [1, 1], 2)(-1), "time 0"),
    (lambda: balanced.diffusion([1, 2], 1.0), "0 < rho < 1"), (lambda: balanced.diffusion([1, 2], 0), "0 < rho < 1"),
    (lambda: balanced.diffusion([1, 2], 0.9, -1), "ca2"),
    (lambda: balanced.diffusion([1, 2], 0.9, 1, [1, 1, 1]), "cs2"),
    (lambda: balanced.diffusion([1, 2], 0.9, np.inf), "finite"),
    (lambda: balanced.round_robin([1, 1], 0.1, 0, [0, 1], optimal=True), "rho closer to 1"),
    (lambda: balanced.rbm_mean(-1, 0, 1), "t is"), (lambda: balanced.rbm_mean(1, 0, -1), "variance"),
    (lambda: balanced.rbm_mean(1, np.nan, 1), "drift"), (lambda: balanced.rbm_cdf(1, np.nan, 1, 1), "finite"),
    (lambda: balanced.pooled_workload(1.0), "rho"), (lambda: renewal_queue(0.9, jobs.exponential(), 0), "chance"),
    (lambda: exact_chain([1, 1], 1.0), "0 < rho < 1"), (lambda: exact_chain([1, 1], 0.5, ties="random"), "ties"),
    (lambda: exact_chain([1, 1, 1], 0.9, 1), "separate M/M/1"), (lambda: imbalance([1, 1, 1]), "2 servers"),
    (lambda: balanced.delays_by_length(2, jobs.exponential()), "0 < rate < 2"),
    (lambda: balanced.delays_by_length(1, jobs.exponential(), replications=1), "at least 2 of 100"),
    (lambda: imbalance([1, 1], 1), "no balancing force"), (lambda: imbalance([1, 3], 2, ties="last"), "ties")])
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
