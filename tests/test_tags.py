import json
import re
from dataclasses import replace
from itertools import pairwise
from math import e, inf, lgamma, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.special import lambertw

from lbkit import jobs, tags
from oracles import tags as oracle

STORED = json.loads((Path(__file__).parent / "values" / "tags.json").read_text())  # 40-digit arithmetic, 14 digits kept
DIGITS = 1e-10


class CensoredPareto:
    """min(Pareto(1, 1), p): a density and an atom of mass 1/p at p, written out by hand."""

    low = 1.0

    def __init__(self, p):
        self.high, self.atoms, self.mean = p, np.array([p]), 1 + log(p)

    def survival(self, x):
        return np.where(np.asarray(x) < self.high, 1 / np.maximum(x, 1.0), 0.0)[()]

    def pdf(self, x):
        return np.where((x >= 1) & (x < self.high), np.maximum(x, 1.0) ** -2, 0.0)

    def partial_moment(self, n, x):
        y = np.clip(x, 1.0, self.high)
        return ((1 - 1 / y, np.log(y), y - 1)[n] + (np.asarray(x) >= self.high) * self.high ** (n - 1.0))[()]

    def tail_moment(self, n, x):
        y, p = np.clip(x, 1.0, self.high), self.high
        return np.where(np.asarray(x) < p, (1 / y, 1 + np.log(p / y), 2 * p - y)[n], 0.0)[()]

    def truncated_moment(self, n, x):
        return self.partial_moment(n, x) + x**n * self.survival(x)

    def moment(self, n):
        return self.tail_moment(n, 0.0)

    def quantile(self, u):
        return min(1 / (1 - u), self.high)


def law(text):
    """The law that a stored description names."""
    kind, numbers = text.split("(")[0], [float(x) for x in re.findall(r"-?\d+\.?\d*(?:e\d+)?", text.split("(", 1)[1])]
    if kind == "HyperExp":
        p, r = [[float(x) for x in re.findall(r"'([\d.]+)'", part)] for part in text.split("],[")]
        return jobs.PhaseType(np.array(p) / sum(p), -np.diag(r))
    return {
        "Exp": lambda mu: jobs.exponential(1 / mu),
        "Uniform": jobs.uniform,
        "Weibull": lambda shape: jobs.weibull(shape, {0.25: 24, 0.5: 2, 2: sqrt(np.pi) / 2}[shape]),
        "Lognormal": lambda mu, sigma: jobs.lognormal(np.expm1(sigma**2), np.exp(mu + sigma**2 / 2)),
        "Pareto": lambda alpha: jobs.pareto(alpha, 1),
        "BP": jobs.bounded_pareto,
        "CensoredPareto1": lambda k, p: CensoredPareto(p),
        "Discrete": lambda *v: jobs.discrete(v, [1] if len(v) == 1 else [0.999, 0.001]),
    }[kind](*numbers)


def numbers(x):
    return np.array(x, float)


def agree(found, stored, tolerance=DIGITS):
    assert np.allclose(found, numbers(stored), rtol=tolerance, atol=1e-300), (found, stored)


def some_laws():
    return [
        jobs.exponential(2), jobs.uniform(0, 1), jobs.uniform(1, 3), jobs.hyperexponential(20), jobs.weibull(0.4),
        jobs.lognormal(30), jobs.erlang(4), jobs.bounded_pareto(0.5, 1, 1e4), jobs.bounded_pareto(1, 2, 1e5),
        jobs.bounded_pareto(1.7, 1, 1e3), jobs.discrete([1, 3, 10, 40], [0.5, 0.3, 0.15, 0.05]), CensoredPareto(1e3),
    ]  # fmt: skip


def random_law(rng):
    """Any law on [1, r]: a few atoms or a bounded Pareto, and its r."""
    r = 10 ** rng.uniform(0.5, 6)
    if rng.random() < 0.3:
        return jobs.bounded_pareto(rng.uniform(0.1, 2.5), 1, r), r
    values = np.sort(np.r_[1, r, r ** rng.random(rng.integers(0, 6))])
    return jobs.discrete(values, rng.dirichlet(np.full(len(values), 0.5) * values ** -rng.uniform(0, 0.3))), r


# stability


@pytest.mark.parametrize("stored", STORED["thresholds"], ids=lambda x: f"{x['name']}-{x['h']}")
def test_max_load_agrees_with_the_stored_thresholds(stored):
    job = law(stored["dist"])
    found = tags.max_load(job, stored["h"])
    agree((found.load, found.rate), (stored["rho_star"], stored["lam_star"]))
    cutoffs = numbers(stored["cuts"])
    agree(found.cutoffs, cutoffs[cutoffs < job.high * (1 - DIGITS)])
    assert found.loads.max() <= 1 + 1e-14


@pytest.mark.parametrize("stored", STORED["bp_threshold_by_alpha"], ids=lambda x: f"{x['alpha']}-{x['p']:.0e}")
def test_max_load_of_bounded_pareto_by_alpha(stored):
    job = jobs.bounded_pareto(stored["alpha"], 1, stored["p"])
    for h in (2, 3, 4, 8, inf):
        agree(tags.max_load(job, h).load, stored[f"h{h}"])


def test_alpha_one_is_the_most_stable_only_in_the_limit():
    def load(alpha):
        return tags.max_load(jobs.bounded_pareto(alpha, 1, stored["p"]), stored["h"]).load

    distance = {}
    for stored in STORED["bp_argmax_alpha"]:
        best = float(stored["alpha"])
        agree((load(best), load(1)), (stored["rho_star"], stored["rho_star_alpha1"]))
        assert load(best) > max(load(best - 1e-3), load(best + 1e-3), load(1))
        found = tags.most_stable(stored["p"], stored["h"])
        agree(found.load, load(best))
        assert found.job.alpha == pytest.approx(best, abs=1e-5)
        distance.setdefault(stored["h"], []).append(abs(best - 1))
    assert distance[2] == sorted(distance[2], reverse=True) and distance[2][-1] < 0.006
    assert distance[4][-1] < min(distance[4][0], 0.006)


def test_max_load_closed_forms():
    s = -2 - lambertw(-np.exp(-2), -1).real
    found = tags.max_load(jobs.exponential(3), 2)
    agree((found.load, found.cutoffs[0]), (1 / (1 - np.exp(-s)), 3 * s), 1e-13)
    agree([tags.max_load(jobs.exponential(), h).load for h in (3, 4)], (1.764750328, 1.968897580), 1e-9)
    for h in (2, 3, 4, 7):
        agree(tags.max_load(jobs.uniform(0, 1), h).load, oracle.uniform_threshold(h), 1e-13)
        assert tags.max_load(jobs.deterministic(2), h).load == pytest.approx(1, abs=1e-14)
        for alpha in (1.1, 1.5, 2.5):
            agree(tags.max_load(jobs.pareto(alpha, 5), h).load, sum(alpha**-i for i in range(h)), 1e-13)
    agree(tags.max_load(jobs.uniform(0, 1), 4).cutoffs, (3 / 8, 1 / 2, 5 / 8), 1e-13)
    agree(tags.max_load(jobs.uniform(0, 1), 4).load, 64 / 39, 1e-13)
    for r in (1e3, 1e6, 1e10):
        for h in (2, 3, 5, 8):
            found, (load, cutoffs) = tags.max_load(jobs.bounded_pareto(1, 7, 7 * r), h), oracle.pareto_one(r, h)
            agree(found.load, load, 1e-12)
            agree(found.cutoffs, 7 * cutoffs, 1e-12)
            agree(tags.max_load(CensoredPareto(r), h).load, h * (1 + log(r)) / (h + log(r)), 1e-13)
        with pytest.raises(AssertionError):
            agree(tags.max_load(jobs.bounded_pareto(1, 1, r), 3).load, oracle.pareto_one(1.001 * r, 3)[0])
    for stored in STORED["closed_forms"]["bp1"]:
        r, h = float(stored["r"]), stored["h"]
        agree(tags.max_load(jobs.bounded_pareto(1, 1, r), h).load, stored["rho_star"])
        agree(tags.max_load(jobs.bounded_pareto(1, 1, r), h).cutoffs, stored["cuts_over_k"])
        agree(tags.max_load(CensoredPareto(r), h).load, stored["censored"])
        agree(tags.load_bound(r, h), stored["extremal_all_laws"])
        assert float(stored["approx_h_ln_r"]) < tags.max_load(jobs.bounded_pareto(1, 1, r), h).load < h
    for stored in STORED["closed_forms"]["pareto"]:
        found = tags.max_load(jobs.pareto(float(stored["alpha"]), 1), stored["h"])
        agree(found.load, stored["rho_star"])
        agree(found.cutoffs, stored["cuts_over_k"])


def test_markovs_ceiling():
    agree(tags.max_load(jobs.exponential(3), inf).load, e, 1e-13)
    agree(tags.max_load(jobs.uniform(0, 1), inf).load, 2, 1e-13)
    agree(tags.max_load(jobs.deterministic(3), inf).load, 1, 1e-13)
    agree(tags.max_load(jobs.bounded_pareto(1, 1, 1e6), inf).load, jobs.bounded_pareto(1, 1, 1e6).mean, 1e-13)
    agree(tags.max_load(jobs.pareto(1.25, 3), inf).load, 5, 1e-13)
    agree(tags.max_load(jobs.discrete([1, 10, 100], [0.7, 0.2, 0.1]), inf).load, 12.7 / 10, 1e-13)
    for job in some_laws():
        loads = [tags.max_load(job, h).load for h in (1, 2, 3, 25)]
        ceiling = tags.max_load(job, inf).load
        assert loads[0] == pytest.approx(1, abs=1e-14)
        assert all(a <= b * (1 + 1e-13) for a, b in pairwise([*loads, ceiling]))
        assert loads[-1] > 0.7 * ceiling


def test_max_load_of_discrete_laws_by_exhaustive_search():
    rng = np.random.default_rng(4)
    for _ in range(40):
        values = np.sort(10 ** rng.uniform(0, 4, 7))
        p = rng.dirichlet(values**-0.6)
        for h in (2, 3, 4):

            def heaviest(cutoffs):
                return max(load for _, load, _ in oracle.servers(values, p, 1.0, cutoffs))

            mu = oracle.exhaustive(values, h, heaviest)
            agree(tags.max_load(jobs.discrete(values, p), h).load, values @ p / mu, 1e-12)


@pytest.mark.parametrize("job", some_laws(), ids=repr)
def test_the_threshold_separates_stable_from_unstable(job):
    for h in (2, 3, 5):
        found = tags.max_load(job, h)
        assert found.loads.max() == pytest.approx(1, abs=1e-13)
        if not len(job.atoms):
            assert found.loads == pytest.approx(np.ones(h), abs=1e-12)
        if isinstance(job, jobs.Law):
            assert tags.analyse(0.999 * found.rate, job, found.cutoffs).loads == pytest.approx(0.999 * found.loads)
        rng = np.random.default_rng(h)
        for _ in range(200):
            near = np.sort(np.resize(found.cutoffs, h - 1) * np.exp(rng.normal(0, 0.3, h - 1)))
            points = tags._points(job, near)
            assert tags._servers("TAGS", 1.001 * found.rate, points[:-1], points[1:])[1].max() > 1


def test_limits_of_the_threshold():
    for stored in STORED["closed_forms"]["bp_lt1_limit_h2"]:
        alpha = float(stored["alpha"])
        agree(tags.load_limit(alpha, 2), stored["rho_star"])
        agree(tags.load_limit(alpha, inf), stored["hinf"])
    agree(tags.load_limit(0.5, 2), (1 + sqrt(5)) / 2, 1e-13)
    for alpha in (0.3, 0.5, 0.8, 1.3, 2.2):
        for h in (1, 2, 3, 6, inf):
            near, far = (tags.max_load(jobs.bounded_pareto(alpha, 1, r), h).load for r in (1e15, 1e25))
            limit = tags.load_limit(alpha, h)
            assert abs(far - limit) <= abs(near - limit) + 1e-12 and far == pytest.approx(limit, rel=2e-4)
    assert [tags.load_limit(1, h) for h in (1, 2, 7, inf)] == [1, 2, 7, inf]
    assert tags.load_limit(1 - 1e-9, 3) == pytest.approx(3, rel=1e-6) == tags.load_limit(1 + 1e-9, 3)


# means


@pytest.mark.parametrize("stored", STORED["fixed_cutoffs"], ids=lambda x: x["dist"][:12] + x["rho"])
def test_means_at_fixed_cutoffs(stored):
    job, lam, cutoffs = law(stored["dist"]), float(stored["lam"]), numbers(stored["cuts"])
    agree((job.mean, job.moment(2)), (stored["mean"], stored["ex2"]))
    found, want = tags.analyse(lam, job, cutoffs), stored["tags"]
    agree(lam * found.visits, want["rate"])
    agree(found.loads, want["load"])
    agree(found.loads / lam / found.visits, want["ES"])
    agree(2 * found.waits * (1 - found.loads) / lam / found.visits, want["ES2"])
    agree(found.waits, want["W"])
    agree(found.wasted_load, want["waste"])
    agree((found.mean_wait, found.mean_delay, found.mean_response), (want["WQ"], want["D"], want["ET"]))
    inverse = {"Lognormal": np.exp(2), "Discrete": 1}.get(stored["dist"].split("(")[0], inf)
    if "slowdown" in want:
        agree(found.slowdown, want["slowdown"])
    elif inverse == inf:
        assert found.slowdown == inf
    else:
        assert 1 + found.waits[0] * inverse < found.slowdown <= 1 + found.mean_delay * inverse * (1 + DIGITS)
    agree(found.mean_queues.sum(), lam * float(want["WQ"]))
    known, want = tags.sita(lam, job, cutoffs), stored["sita"]
    agree(known.loads, want["load"])
    agree(known.waits, want["W"])
    agree(known.mean_wait, want["WQ"])
    assert known.mean_delay == known.mean_wait and known.wasted_load == 0


@pytest.mark.parametrize("job", some_laws(), ids=repr)
def test_loads_add_up_and_shares_too(job):
    rng = np.random.default_rng(8)
    for h in (1, 2, 3, 6):
        cutoffs = np.sort(job.mean * 10 ** rng.uniform(-1.5, 1.5, h - 1))
        lam = 0.9 / job.mean
        found = tags.analyse(lam, job, cutoffs)
        assert found.loads.sum() == pytest.approx(lam * job.mean + found.wasted_load, rel=1e-13)
        assert found.wasted_load == pytest.approx(lam * cutoffs @ job.survival(cutoffs), rel=1e-12, abs=1e-15)
        assert np.all(found.loads <= lam * job.mean * (1 + 1e-13))
        if isinstance(job, jobs.Law):
            known = tags.sita(lam, job, cutoffs)
            assert known.loads.sum() == pytest.approx(lam * job.mean, rel=1e-13)
            assert known.visits.sum() == pytest.approx(1, rel=1e-13)
            assert known.mean_wait <= found.mean_wait * (1 + 1e-13)
            assert known.slowdown <= found.slowdown * (1 + 1e-13)


@pytest.mark.parametrize(
    ("job", "high"),
    [(jobs.exponential(), 45), (jobs.uniform(0, 1), 1), (jobs.erlang(3), 30), (jobs.bounded_pareto(1, 1, 1e4), 1e4)],
    ids=repr,
)
def test_means_by_quadrature_of_the_survival_function(job, high):
    cutoffs, lam = [0.4 * high**0.6, 0.6 * high**0.8], 0.8 / job.mean
    found = tags.analyse(lam, job, cutoffs)
    loads, waits, wait, delay = oracle.means(job.survival, high, lam, cutoffs)
    for a, b in ((found.loads, loads), (found.waits, waits), (found.mean_wait, wait), (found.mean_delay, delay)):
        agree(a, b, 1e-9 if job.low == 0 else 1e-6)  # a kink inside a panel costs digits
    with pytest.raises(AssertionError):
        agree(found.waits, oracle.means(job.survival, high, lam, [1.001 * s for s in cutoffs])[1], 1e-6)


def test_means_of_a_discrete_law_by_listing_its_jobs():
    values, p, lam = [0.0, 1.0, 3.0, 10.0, 40.0], [0.2, 0.4, 0.25, 0.1, 0.05], 0.15
    job = jobs.discrete(values, p)
    for cutoffs in ([], [1], [2, 10], [3, 10, 40], [0.5, 50, 60]):
        for run, known in ((tags.analyse, False), (tags.sita, True)):
            visits, loads, waits = zip(*oracle.servers(values, p, lam, cutoffs, known))
            found = run(lam, job, cutoffs)
            agree((found.visits, found.loads, found.waits), (visits, loads, waits), 1e-13)
            assert found.slowdown == inf
    busy = jobs.discrete(values[1:], np.array(p[1:]) / 0.8)
    agree(tags.analyse(lam, job, [3]).loads, tags.analyse(0.8 * lam, busy, [3]).loads, 1e-13)
    agree(tags.analyse(lam, job, [3]).waits, tags.analyse(0.8 * lam, busy, [3]).waits, 1e-13)


def test_one_server_is_the_same_queue_under_every_policy():
    for job in some_laws()[:-1]:
        lam = 0.7 / job.mean
        wait = lam * job.moment(2) / 2 / 0.3
        ways = [
            tags.analyse(lam, job, []), tags.sita(lam, job, []), tags.random_split(lam, job, 1),
            tags.least_work(lam, job, 1), tags.optimise(lam, job, 1).assignment,
            tags.optimise_sita(lam, job, 1).assignment,
        ]  # fmt: skip
        for way in ways:
            agree((way.mean_wait, way.mean_delay, way.loads[0]), (wait, wait, 0.7), 1e-12)
            assert way.note == tags.EXACT and way.slowdown == pytest.approx(ways[0].slowdown, rel=1e-12)
    assert tags.max_load(jobs.exponential(), 1).load == pytest.approx(1, abs=1e-15)


def test_least_work_is_erlangs_formula_for_exponential_sizes():
    a, h = 2.4, 3
    terms = [a**n / np.prod(range(1, n + 1)) for n in range(h)]
    last = a**h / 6 / (1 - a / h)
    agree(tags.least_work(a, jobs.exponential(), h).mean_wait, last / (sum(terms) + last) / (h - a), 1e-13)
    assert "exact" not in tags.least_work(1, jobs.exponential(), 2).note


def test_scaling_of_time():
    job = jobs.bounded_pareto(1.2, 1, 1e4)
    one, seven = tags.optimise(0.2, job, 3), tags.optimise(0.2 / 7, job.scaled(7 * job.mean), 3)
    agree(seven.cutoffs, 7 * one.cutoffs, 1e-9)
    agree(seven.value, 7 * one.value, 1e-12)
    agree(tags.max_load(job.scaled(5), 4).load, tags.max_load(job, 4).load, 1e-13)


# simulation


@pytest.mark.parametrize("stored", STORED["simulation"], ids=lambda x: f"{x['policy']}-{x['dist'][:9]}-{x['rho']}")
def test_stored_simulations_where_the_theory_is_exact(stored):
    job, lam, h, n = law(stored["dist"]), stored["lam"], stored["h"], stored["jobs"]
    waits, half = np.array(stored["W"]).T
    if stored["policy"] in ("lwr", "jsq"):
        return
    if stored["policy"] == "random":
        found = tags.random_split(lam, job, h)
        exact = slice(None)
    else:
        run, exact = (tags.analyse, slice(1)) if stored["policy"] == "tags" else (tags.sita, slice(None))
        found = run(lam, job, stored["cuts"])
    assert np.all(abs(found.waits - waits)[exact] < 2.5 * half[exact])
    assert np.all(abs(found.visits - stored["frac"]) < 5 * np.sqrt(found.visits / n))
    spread = 5 * np.sqrt(lam * job.moment(2) / (n / lam)) / found.loads
    assert np.all(abs(found.loads / stored["load_obs"] - 1) < spread + 1e-3)
    if stored["policy"] == "tags":
        assert np.all(found.waits[1:] > (waits - 2.5 * half)[1:])  # never below, as the note says


def test_kill_and_restart_simulation():
    rng = np.random.default_rng(12)
    for job, lam, cutoffs in (
        (jobs.exponential(), 1.2, [0.9, 1.9]), (jobs.bounded_pareto(1.5, 1, 50), 0.3, [5]),
        (jobs.uniform(0, 1), 2.2, [0.5]), (jobs.discrete([1, 2, 9], [0.6, 0.3, 0.1]), 0.4, [2]),
    ):  # fmt: skip
        runs, known = [], []
        for _ in range(20):
            arrivals, sizes = np.cumsum(rng.exponential(1 / lam, 50_000)), job.sample(50_000, rng)
            runs.append(oracle.kill_and_restart(cutoffs, arrivals, sizes, 5_000))
            known.append(oracle.by_size(cutoffs, arrivals, sizes))
        mean, error = np.mean(runs, axis=0), np.std(runs, axis=0) / sqrt(20)
        found, by_size = tags.analyse(lam, job, cutoffs), tags.sita(lam, job, cutoffs)
        assert np.all(abs(found.visits - mean[0])[1:] < 4.5 * error[0, 1:])
        assert np.all(abs(found.loads - mean[1]) < 4.5 * error[1])
        assert abs(found.waits[0] - mean[2, 0]) < 4.5 * error[2, 0]
        assert np.all(found.waits[1:] > mean[2, 1:] - 4.5 * error[2, 1:])
        assert np.all(abs(by_size.waits - np.mean(known, axis=0)) < 4.5 * np.std(known, axis=0) / sqrt(20) + 2e-3)
        assert abs(by_size.waits[0] - mean[2, 0]) > 20 * error[2, 0]  # the killed jobs matter
        assert found.note == tags.POISSON and by_size.note == tags.EXACT


# best cutoffs


@pytest.mark.parametrize("stored", STORED["optimum"], ids=lambda x: f"{x['h']}-{x['alpha']}-{x['p']:.0e}-{x['rho']}")
def test_stored_optima(stored):
    job, lam, h = jobs.bounded_pareto(stored["alpha"], stored["k"], stored["p"]), float(stored["lam"]), stored["h"]
    agree(tags.max_load(job, h).load, stored["rho_star"])
    agree(tags.random_split(lam, job, h).mean_wait, stored["W_random"])
    agree(tags.least_work(lam, job, h).mean_wait, stored["W_LeeLongton"])
    agree(tags.ratio_limit(stored["alpha"], h), stored["ratio_limit_rho<1"])
    wait, delay, known = (
        tags.optimise(lam, job, h), tags.optimise(lam, job, h, objective="delay"), tags.optimise_sita(lam, job, h),
    )  # fmt: skip
    for found, want in ((wait, stored["tags"]), (delay, stored["tagsD"]), (known, stored["sita"])):
        assert found.residual < 1e-11
        if want is stored["tagsD"] and float(want["cuts"][-1]) == stored["p"]:  # stored: a third server that is idle
            assert found.servers_used == 2 and found.value < float(want["cost"])
            agree(found.value, 15.454124927109)
            continue
        agree(found.value, want["cost"])
        agree(found.cutoffs, want["cuts"])
        agree(found.assignment.loads, want["loads"])
    agree(wait.assignment.mean_delay, stored["tags"]["D_at_these_cuts"])
    agree(wait.assignment.wasted_load, stored["tags"]["waste_load"])
    agree(wait.value / known.value, stored["ratio_WQ"])


@pytest.mark.parametrize("stored", STORED["sita_e"], ids=lambda x: x["alpha"])
def test_stored_equal_loads(stored):
    job = jobs.bounded_pareto(float(stored["alpha"]), 1, stored["p"])
    found = tags.sita_equal_load(job, stored["h"])
    agree(found, stored["cuts"])
    agree(tags.sita(float(stored["rho"]) / job.mean, job, found).mean_wait, stored["WQ"])


def test_equal_loads_of_sita():
    for job in some_laws():
        if not len(job.atoms):
            assert tags.sita(1 / job.mean, job, tags.sita_equal_load(job, 5)).loads == pytest.approx(np.full(5, 0.2))
    job = jobs.bounded_pareto(1, 1, 1e6)
    agree(tags.sita_equal_load(job, 3), [100, 1e4], 1e-12)
    agree(tags.optimise_sita(0.8 / job.mean, job, 3).cutoffs, [100, 1e4], 1e-10)
    agree(tags.sita_equal_load(jobs.discrete([1, 2, 5], [0.5, 0.4, 0.1]), 2), [2], 0)
    agree(tags.sita_equal_load(jobs.deterministic(4), 3), [4, 4], 0)


@pytest.mark.parametrize("policy, objective", [("TAGS", "wait"), ("TAGS", "delay"), ("SITA", "wait")])
def test_slope_against_differences(policy, objective):
    for job in some_laws():
        if len(job.atoms):
            continue
        search = tags._Search(policy, objective, 0.9 / job.mean, job, 4)
        base = (tags.sita_equal_load(job, 4) - job.low) * 0.9 + job.low

        def difference(i, search):
            step = np.where(np.arange(3) == i, 1e-4, 0)
            up, down = (search.value(base * np.exp(k * step)) for k in (1, -1))
            return (up - down) / 2e-4 / search.value(base)

        found = search.slope(base)
        assert found == pytest.approx([difference(i, search) for i in range(3)], rel=1e-4, abs=1e-6)
        other = tags._Search("SITA" if policy == "TAGS" else "TAGS", "wait", 0.9 / job.mean, job, 4)
        assert found != pytest.approx([difference(i, other) for i in range(3)], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("job", some_laws()[:-1], ids=repr)
def test_the_optimum_is_never_above_random_search(job):
    rng = np.random.default_rng(3)
    for h, share in ((2, 0.5), (4, 0.97)):
        for policy, objective in (("TAGS", "wait"), ("TAGS", "delay"), ("SITA", "wait")):
            limit = tags.max_load(job, h).load if policy == "TAGS" else 0.9 * h if not len(job.atoms) else 1
            search = tags._Search(policy, objective, share * limit / job.mean, job, h)
            found = search.best()
            assert found.value == search.value(found.cutoffs)
            around = np.resize(found.cutoffs, h - 1)
            tries = [np.sort(around * np.exp(rng.normal(0, s, h - 1))) for s in (1e-3, 0.05, 1) for _ in range(15)]
            tries += [np.sort(job.sample(h - 1, rng) * 10 ** rng.uniform(0, 2)) for _ in range(30)]
            assert min(map(search.value, tries)) >= found.value * (1 - 1e-12)


def test_optima_of_discrete_laws_by_exhaustive_search():
    rng = np.random.default_rng(5)
    for _ in range(25):
        values = np.sort(10 ** rng.uniform(0, 4, 8))
        p = rng.dirichlet(values**-0.4)
        job = jobs.discrete(values, p)
        lam = rng.uniform(0.2, 0.98) / job.mean
        for known, objective in ((False, "wait"), (False, "delay"), (True, "wait")):

            def cost(cutoffs):
                wait = sum(v * w for v, _, w in oracle.servers(values, p, lam, cutoffs, known))
                lost = sum(s * p[values > s].sum() for s in cutoffs)
                return wait + lost if objective == "delay" else wait

            found = tags.optimise_sita(lam, job, 3) if known else tags.optimise(lam, job, 3, objective=objective)
            agree(found.value, oracle.exhaustive(values, 3, cost), 1e-12)
            assert np.all(np.isin(found.cutoffs, values)) and found.value == pytest.approx(cost(tuple(found.cutoffs)))
        lam = 0.99 * lam
        with pytest.raises(AssertionError):
            agree(found.value, oracle.exhaustive(values, 3, cost), 1e-3)
    trace = jobs.empirical(jobs.lognormal(20).sample(20_000, seed=1))
    found = tags.optimise(1.2 / trace.mean, trace, 3)
    search = tags._Search("TAGS", "wait", 1.2 / trace.mean, trace, 3)
    place = np.searchsorted(trace.atoms, found.cutoffs)
    agree(trace.atoms[place], found.cutoffs, 0)
    steps = [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, 1]
    assert all(search.value(trace.atoms[place + step]) >= found.value for step in steps)


def test_fewer_servers_where_wasted_work_counts():
    job = jobs.bounded_pareto(1, 1, 1e4)
    lam = 0.5 / job.high
    found, known = tags.optimise(lam, job, 2, objective="delay"), tags.optimise_sita(lam, job, 2)
    assert found.servers_used == 1 and len(found.cutoffs) == 0
    for r, ratio in ((1e4, 51), (1e6, 501), (1e8, 5001)):  # grows like sqrt(r) / 2, unlike that of the waits
        job = jobs.bounded_pareto(1, 1, r)
        known = tags.optimise_sita(0.5 / r, job, 2).value
        assert tags.optimise(0.5 / r, job, 2, objective="delay").value / known == pytest.approx(ratio, rel=0.01)
        assert tags.optimise(0.5 / r, job, 2).value / known < 1.6
    assert tags.optimise(0.5, jobs.exponential(), 4).servers_used == 4


@pytest.mark.parametrize("share", [0.99, 0.9999, 1 - 1e-7])
def test_next_to_the_threshold(share):
    for job in (jobs.exponential(), jobs.bounded_pareto(1, 1, 1e6), jobs.uniform(0, 1)):
        found = tags.optimise(share * tags.max_load(job, 3).rate, job, 3)
        assert np.all(found.assignment.loads < 1) and found.servers_used == 3
        assert found.value > 0.1 * job.mean / (1 - share)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9])
def test_duality_of_alpha_and_two_minus_alpha(alpha):
    """x -> low high / x swaps the two under SITA; TAGS has no such symmetry."""

    def relative(alpha, optimise):
        job = jobs.bounded_pareto(alpha, 1, 1e5)
        lam = 0.8 / job.mean
        return optimise(lam, job, 3).value / (lam * job.moment(2)), lam * optimise(lam, job, 3).value

    agree(relative(alpha, tags.optimise_sita), relative(2 - alpha, tags.optimise_sita), 1e-11)
    assert relative(alpha, tags.optimise)[1] != pytest.approx(relative(2 - alpha, tags.optimise)[1], rel=1e-2)
    cutoffs = [tags.optimise_sita(0.8 / job.mean, job, 3).cutoffs for job in
               (jobs.bounded_pareto(a, 1, 1e5) for a in (alpha, 2 - alpha))]  # fmt: skip
    agree(cutoffs[0], 1e5 / cutoffs[1][::-1], 1e-9)


def test_minimax_queue_bounds_the_optimum():
    job = jobs.bounded_pareto(0.5, 1, 1e6)
    lam = 0.8 / job.mean
    found = tags.optimise(lam, job, 2, objective="minimax")
    assert found.assignment.mean_wait == pytest.approx(4509.96, abs=0.01)
    assert tags.optimise(lam, job, 2).value == pytest.approx(4251.79, abs=0.01)
    for job in some_laws()[:7]:
        for h in (2, 4):
            lam = 0.95 * tags.max_load(job, h).rate
            longest, best = tags.optimise(lam, job, h, objective="minimax"), tags.optimise(lam, job, h)
            assert longest.assignment.mean_queues == pytest.approx(np.full(h, longest.value), rel=1e-8)
            assert longest.value <= lam * best.value <= h * longest.value


def test_limits_of_the_ratio():
    for stored in STORED["closed_forms"]["ratio_limit"]:
        agree(tags.ratio_limit(float(stored["alpha"]), stored["h"]), stored["ratio"])
    assert tags.ratio_limit(1, inf) == 2 and tags.ratio_limit(1.5, inf) == pytest.approx(4 / 3)
    assert tags.ratio_limit(0.5, inf) == pytest.approx(4 ** (1 / 3)) and tags.ratio_limit(0.5, 1) == 1
    assert tags.ratio_limit(1 + 1e-9, 3) == pytest.approx(tags.ratio_limit(1, 3), rel=1e-7)

    def ratio(alpha, r, rho, h):
        job = jobs.bounded_pareto(alpha, 1, r)
        return tags.optimise(rho / job.mean, job, h).value / tags.optimise_sita(rho / job.mean, job, h).value

    for alpha, far in ((1.5, 1.30615), (0.5, 1.53442)):
        assert ratio(alpha, 1e60, 0.5, 3) == pytest.approx(far, abs=1e-5)
        assert tags.ratio_limit(alpha, 3) < far < 1.002 * tags.ratio_limit(alpha, 3)
    assert ratio(1.9, 1e3, 0.8, 3) == pytest.approx(2.64, abs=0.005)  # above 2 at finite r
    assert ratio(1.5, 1e20, 1.2, 2) == pytest.approx(3.8525, abs=1e-4)
    for alpha, rho, limit in ((1.5, 1.2, 3.857143), (0.5, 1.2, 4.42105), (0.5, 1.5, 9), (1, 1.9, sqrt(2))):
        assert tags.ratio_limit(alpha, 2, rho=rho) == pytest.approx(limit, rel=2e-6)
    assert ratio(0.5, 1e25, 1.2, 2) == pytest.approx(4.42105, rel=1e-3)
    seen = [ratio(1, r, 1.5, 2) for r in (1e6, 1e10, 1e20, 1e40)]
    assert seen == pytest.approx([1.810, 1.627, 1.513, 1.462], abs=6e-4)
    errors = np.log(np.array(seen) / sqrt(2))
    assert np.all(np.diff(errors) < 0)
    job = jobs.bounded_pareto(1, 1, 1e30)
    assert tags.optimise(0.5 / job.mean, job, 2).cutoffs[0] == pytest.approx(sqrt(1e30 / 2), rel=0.01)


# bounds over all laws


def test_no_law_exceeds_the_bounds():
    rng = np.random.default_rng(7)
    for i in range(300):
        job, r = random_law(rng)
        h, rho = int(rng.integers(1, 6)), rng.uniform(0.05, 0.99)
        lam, limit = rho / job.mean, tags.bounds(rho, r, h)
        cutoffs = job.low * (job.high / job.low) ** (np.arange(1, h) / h) if job.high > job.low else []
        assert lam * tags.sita(lam, job, cutoffs).mean_wait <= limit.sita
        assert lam * tags.analyse(lam, job, cutoffs).mean_wait <= limit.tags
        assert lam * tags.random_split(lam, job, h).mean_wait <= limit.random * (1 + 1e-12)
        for servers in (h, inf) if i % 3 == 0 else ():
            assert tags.max_load(job, servers).load <= tags.load_bound(r, servers) * (1 + 1e-13)


def test_laws_that_reach_the_bounds():
    for r in (10, 1e3, 1e6):
        two = jobs.discrete([1, r], [r / (1 + r), 1 / (1 + r)])  # half of the work each
        for h in (2, 3, 4, 8):
            atoms = r ** (np.arange(h) / (h - 1))
            above = np.r_[1, 1 / atoms[1:], 0]
            reached = tags.max_load(jobs.discrete(atoms, -np.diff(above)), h).load
            agree(reached, tags.load_bound(r, h), 1e-12)
            assert reached > tags.max_load(CensoredPareto(r), h).load
            limit = tags.bounds(0.6, r, h)
            agree(0.6 / two.mean * tags.random_split(0.6 / two.mean, two, h).mean_wait, limit.random, 1e-12)
            equal = r ** (np.arange(h + 1) / h)
            forced = jobs.discrete(equal, 1 / equal / (1 / equal).sum())
            for optimise, most in ((tags.optimise_sita, limit.sita), (tags.optimise, limit.tags)):
                assert limit.lower <= 0.6 / forced.mean * optimise(0.6 / forced.mean, forced, h).value <= most
        agree(tags.max_load(CensoredPareto(r), inf).load, tags.load_bound(r, inf), 1e-12)
    three, bound = jobs.discrete([1, 1e3, 1e6], np.array([1, 1e-3, 1e-6]) / 1.001001), tags.bounds(0.5, 1e6, 2)
    assert (bound.sita, bound.tags, bound.lower) == pytest.approx((250, 250 + 250_000 / 999, 500 / 36), rel=1e-12)
    assert 0.5 / three.mean * tags.optimise(0.5 / three.mean, three, 2).value == pytest.approx(20.9, abs=0.1)
    assert tags.load_bound(5, 1) == 1 and tags.bounds(0.5, 5, 1).tags == tags.bounds(0.5, 5, 1).sita


def md_queue(load, servers, size=400):
    """Mean queue of M/D/h from the number present, N' = (N - h)^+ + Poisson(load), by powers of its matrix."""
    n = np.arange(size)
    poisson = np.exp(n * log(load) - load - np.array([lgamma(k + 1) for k in n]))
    step = np.array([np.r_[np.zeros(max(k - servers, 0)), poisson][:size] for k in n])
    step[:, -1] += 1 - step.sum(axis=1)
    for _ in range(16):
        step = step @ step
    return step[0] @ np.maximum(n - servers, 0)


@pytest.mark.parametrize("h", [1, 2, 3])
def test_what_least_work_is_forced_to(h):
    for rho, r in ((0.5, 10), (0.8, 1e3)):
        shares = np.geomspace(0.003 / r, 1, 200)
        loads = rho * shares * r / (1 + shares * (r - 1))
        by_share = np.array([md_queue(a, h, 200) for a in loads[::10]]) / shares[::10]
        forced = tags.least_work_bound(rho, r, h)
        assert by_share.max() <= forced * (1 + 1e-9) and by_share.max() > 0.9 * forced
    if h == 1:
        share = np.geomspace(1e-6, 1, 100_000)
        a = 0.8 * share * 1e3 / (1 + share * 999)
        agree(tags.least_work_bound(0.8, 1e3, 1), (a**2 / (2 * (1 - a)) / share).max(), 1e-8)
    growth = tags.least_work_bound(0.5, 1e8, h) / tags.least_work_bound(0.5, 1e7, h)
    assert growth == pytest.approx(10, rel=1e-4)  # while the bounds of TAGS and SITA grow like r^{1/h}


def test_comparison_holds_a_row_for_every_stable_load():
    job, rhos = jobs.bounded_pareto(1.5, 1, 1e3), [0.5, 1.6, 1.7, 1.9, 2.0]
    table = tags.compare(rhos, job, 2)
    rows = {(policy, rho): (wait, delay) for policy, rho, wait, delay in zip(*table.values())}
    assert list(table) == ["policy", "rho", "wait", "delay"]
    loads = {name: [rho for policy, rho in rows if policy == name] for name in ("TAGS", "SITA", "Random", "LWR")}
    assert loads["TAGS"] == [rho for rho in rhos if rho < tags.max_load(job, 2).load]
    assert loads["SITA"] == loads["Random"] == loads["LWR"] == [0.5, 1.6, 1.7, 1.9]
    lam = 0.5 / job.mean
    assert rows["TAGS", 0.5] == tuple(tags.optimise(lam, job, 2, objective=o).value for o in ("wait", "delay"))
    assert rows["SITA", 0.5] == (tags.optimise_sita(lam, job, 2).value,) * 2
    assert (rows["Random", 0.5][0], rows["LWR", 0.5][0]) == pytest.approx((5.27, 1.054), abs=0.005)


# what cannot be


def test_infinite_moments():
    job = jobs.pareto(1.5, 1)
    found = tags.analyse(0.3, job, [10])
    assert np.isfinite(found.waits[0]) and found.waits[1] == inf == found.mean_wait == found.slowdown
    assert "second moment is infinite" in found.note and found.loads.sum() == pytest.approx(0.9 + found.wasted_load)
    with pytest.raises(ValueError, match="infinite second moment"):
        tags.optimise(0.3, job, 2)
    heavy = replace(jobs.pareto(1.5, 1), alpha=0.9)
    for refuse in (lambda: tags.max_load(heavy, 3), lambda: tags.max_load(heavy, inf)):
        with pytest.raises(ValueError, match="infinite mean"):
            refuse()
    with pytest.raises(ValueError, match="server 2 of 2 is overloaded: its load is inf"):
        tags.analyse(0.1, heavy, [2])
    with pytest.raises(ValueError, match="too heavy"):
        tags.max_load(jobs.pareto(1.001, 1), 20)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (lambda x: tags.analyse(1.4, x, [3]), r"server 1 of 2 is overloaded: its load is 1\.33.* < 1\.46594.* = 1\.4"),
        (lambda x: tags.analyse(1.4, x, [0.2]), r"server 2 of 2 is overloaded: its load is 1\.3754"),
        (lambda x: tags.sita(1.9, x, [1]), r"server 2 of 2 is overloaded.*SITA.*lam E X < 2"),
        (lambda x: tags.analyse(0.5, x, [2, 1]), r"strictly increasing, got \[2\.0, 1\.0\]"),
        (lambda x: tags.analyse(0.5, x, [1, 1]), "strictly increasing"),
        (lambda x: tags.analyse(0.5, x, [0]), "positive"),
        (lambda x: tags.analyse(0.5, x, [np.nan]), "finite"),
        (lambda x: tags.analyse(0.5, x, [[1]]), "increasing"),
        (lambda x: tags.analyse(-1, x, [1]), "lam is -1; it must be above 0"),
        (lambda x: tags.optimise(np.nan, x, 2), "lam is nan"),
        (lambda x: tags.max_load(x, 2.5), "servers is 2.5; it must be one of 1, 2, 3, ... or inf"),
        (lambda x: tags.optimise(0.5, x, inf), "servers is inf; it must be one of 1, 2, 3, ...$"),
        (lambda x: tags.optimise(0.5, x, 2, objective="delays"), "did you mean 'delay'"),
        (lambda x: tags.optimise(1.5, x, 2), r"lam E X is 1\.5; 2 TAGS servers are stable only below 1\.46594"),
        (lambda x: tags.optimise_sita(2.5, x, 2), "2 SITA servers are unstable at all cutoffs"),
        (lambda x: tags.random_split(3, x, 3), "all 3 servers are overloaded: lam E X is 3 and must be below 3"),
        (lambda x: tags.least_work(3, x, 2), "all 2 servers are overloaded"),
        (lambda x: tags.ratio_limit(2, 2), "alpha is 2; it must be above 0 and below 2"),
        (lambda x: tags.ratio_limit(1.5, 3, rho=1.1), "known for 0 < rho < 1"),
        (lambda x: tags.ratio_limit(1.5, 2, rho=1.7), "1 < rho < 1.66667"),
        (lambda x: tags.bounds(1, 10, 2), "rho is 1; it must be above 0 and below 1"),
        (lambda x: tags.load_bound(1, 2), "high/low - 1 is 0"),
        (lambda x: tags.load_limit(0, 2), "alpha is 0"),
        (lambda x: tags.least_work_bound(2, 10, 2), "rho is 2; it must be above 0 and below 2"),
        (lambda x: tags.most_stable(1, 2), "high/low - 1 is 0"),
    ],
)
def test_refusals_are_sentences(run, sentence):
    with pytest.raises(ValueError, match=sentence):
        run(jobs.exponential())
