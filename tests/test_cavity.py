"""The mean-field fixed point against closed forms, two dense methods, stored values and the laws of every policy."""

import json
from dataclasses import replace
from math import gamma, inf, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import nnls
from scipy.special import comb

from lbkit import cavity, jobs, policies
from lbkit.cavity import solve
from lbkit.policies import Layers, Policy, jiq, las, las_qtb, lew, re, sq, sq_re, sq_rtb, sq_rtb_re
from oracles import cavity as oracle

VALUES = json.loads((Path(__file__).parent / "values" / "cavity.json").read_text())["values"]
HYPER = jobs.hyperexponential(10, 0.5)
CYCLIC = np.array([0.5, 0.3, 0.2]), np.array([[-3.0, 1, 1], [0.5, -1, 0.25], [2, 0, -5]])
START, STAY = CYCLIC[0], np.linalg.inv(-CYCLIC[1])
UNIT = (START @ STAY).sum()
BOUNDED = 200**0.5 * (1 - 200**-1.5) / 3 / (1 - 200**-0.5)  # E[X^2] / E[X]^2 for alpha = 1.5, high = 200 low
TRACE = np.random.default_rng(1).weibull(0.6, 100)
TRACE /= TRACE.mean()

# name: a law of lbkit with unit mean, its second moment, and an independent law: phases, atoms, or one of scipy
LAWS = {
    "exponential": (jobs.exponential(), 2, (np.ones(1), -np.eye(1))),
    "Erlang": (jobs.erlang(8), 9 / 8, (np.eye(8)[0], 8 * (np.eye(8, k=1) - np.eye(8)))),
    "hyperexponential": (HYPER, 11, oracle.hyperexponential(10, 0.5)),
    "mixed Erlang": (jobs.mixed_erlang(10, 0.5, 5), 11, oracle.hyperexponential(10, 0.5, 5)),
    "cyclic": (jobs.PhaseType(*CYCLIC).scaled(1), 2 * START @ STAY @ STAY.sum(1) / UNIT**2, (START, CYCLIC[1] * UNIT)),
    "deterministic": (jobs.deterministic(), 1, ([1.0], [1.0])),
    "discrete": (jobs.discrete([0.4, 1, 2.2], [0.4, 0.4, 0.2]), 1.432, ([0.4, 1, 2.2], [0.4, 0.4, 0.2])),
    "zero sizes": (jobs.discrete([0, 0.5, 4], [0.4, 0.4, 0.2]), 3.3, ([0, 0.5, 4], [0.4, 0.4, 0.2])),
    "trace": (jobs.empirical(TRACE), np.mean(TRACE**2), (TRACE, np.full(100, 0.01))),
    "uniform": (jobs.uniform(0.5, 1.5), 13 / 12, stats.uniform(0.5)),
    "Weibull 3": (jobs.weibull(3), gamma(5 / 3) / gamma(4 / 3) ** 2, stats.weibull_min(3, scale=1 / gamma(4 / 3))),
    "Weibull 1/2": (jobs.weibull(0.5), 6, stats.weibull_min(0.5, scale=0.5)),
    "lognormal": (jobs.lognormal(2), 3, stats.lognorm(np.log(3) ** 0.5, scale=3**-0.5)),
    "bounded Pareto": (jobs.bounded_pareto(1.5, 0.3, 60).scaled(1), BOUNDED, None),
    "Pareto": (jobs.pareto(2.5, 0.6), 1.8, stats.pareto(2.5, scale=0.6)),
}  # fmt: skip
GRID = 0.5, 5.0
ALL = {
    "SQ": sq, "SQ-RE": sq_re, "RE": re, "JIQ": jiq,
    "SQ-RTB": lambda d: sq_rtb(d, *GRID), "SQ-RTB-RE": lambda d: sq_rtb_re(d, 2, *GRID), "LAS": lambda d: las(d, *GRID),
    "LAS-QTB": lambda d: las_qtb(d, *GRID), "LEW": lambda d: lew(d, *GRID),
    "odd first": lambda d: Policy("odd first", lambda k, l: (l % 2 == 0, k, l), d, Layers.every(*GRID)),
    "oldest": lambda d: Policy("oldest", lambda k, l: (-k, l), d, Layers.every(*GRID)),
}  # fmt: skip


def waiting(r):
    """E[W] from the lengths alone."""
    return np.maximum(np.arange(r.joint.shape[1]) - 1, 0) @ r.joint.sum(axis=0) / r.lam


def entry_rate(r):
    """Rate of the jobs that join a busy server."""
    return (r.joint[1:, 1:] * r.rates[1:, 1:]).sum()


def atoms(name, edges=()):
    """Sizes and probabilities that stand for the law, from a source that is not lbkit."""
    law = LAWS[name][2]
    return oracle.quadrature(law.ppf, law.cdf(edges)) if hasattr(law, "ppf") else law


# closed forms


@pytest.mark.parametrize("lam, d", [(0.3, 20), (0.5, 2), (0.9, 2), (0.9, 5), (0.99, 3), (0.999, 2)])
def test_exponential_sizes_under_the_shortest_queue(lam, d):
    r = solve(lam, jobs.exponential(), sq(d), tol=1e-14)
    expected = oracle.mitzenmacher_tail(lam, d, len(r.queue_tail))
    rounding = 1e-13 if lam < 0.999 else 2e-12  # over 1 - contraction rate
    assert_allclose(r.queue_tail, expected, rtol=0, atol=rounding)
    assert r.mean_wait == pytest.approx(oracle.mitzenmacher_tail(lam, d, 40)[2:].sum() / lam, rel=10 * rounding)
    assert abs(r.queue_tail[2] - lam**d) > 1e-13  # one power short


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("lam", [0.3, 0.9])
def test_one_sampled_server_is_pollaczek_khinchine(name, lam):
    job, second, _ = LAWS[name]
    exact = oracle.pollaczek_khinchine(lam, 1, second)
    for policy in (sq(1), sq_rtb(1, *GRID), las_qtb(1, *GRID), policies.random(), sq({1: 1.0})):
        r = solve(lam, job, policy, max_levels=16)
        assert r.mean_wait == pytest.approx(exact, rel=1e-12)
        assert r.mean_queue == pytest.approx(lam * (exact + 1), rel=1e-12) and r.mean_response == r.mean_wait + job.mean
    assert solve(lam, job, jiq(3), max_levels=16).mean_wait == pytest.approx(
        oracle.pollaczek_khinchine(lam**3, 1, second), rel=1e-12
    )


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law[2]])
@pytest.mark.parametrize("policy", [sq(1), sq_rtb(1, *GRID)], ids=["one layer", "layers"])
def test_lengths_of_one_sampled_server(name, policy):
    """The recursion over the levels against the chain at departures, and its mean against the closed form."""
    job, _, law = LAWS[name]
    r = solve(0.5, job, policy, max_levels=512)
    phases = np.ndim(law[1]) == 2 if isinstance(law, tuple) else False
    arrivals = oracle.arrivals_in_phases(0.5, *law, 12) if phases else oracle.arrivals_in_atoms(0.5, *atoms(name), 12)
    lengths = oracle.mg1_lengths(0.5, arrivals)
    scale = 1e-13 + 2 * r.truncation_bound
    assert_allclose(r.joint.sum(axis=0)[:12], lengths, atol=scale)
    if r.truncation_bound < 1e-20:
        assert waiting(r) == pytest.approx(r.mean_wait, rel=1e-12)
    else:
        assert name in ("Pareto", "lognormal", "Weibull 1/2") and waiting(r) < r.mean_wait
    wrong = oracle.mg1_lengths(0.5, oracle.arrivals_in_atoms(0.5, [0.9, 1.1], [0.5, 0.5], 12))
    assert abs(r.joint.sum(axis=0)[:12] - wrong).max() > 100 * scale


@pytest.mark.parametrize(
    "name", ["hyperexponential", "cyclic", "deterministic", "zero sizes", "uniform", "Weibull 1/2"]
)
@pytest.mark.parametrize("policy", ["LAS", "RE", "JIQ", "oldest layer"])
def test_ranks_without_length_have_a_closed_form(name, policy):
    oldest = Policy("oldest layer", lambda k, l: -k, 3, Layers.every(*GRID))
    r = solve(0.7, LAWS[name][0], oldest if policy == "oldest layer" else ALL[policy](3), max_levels=1024)
    assert r.exact_wait is not None and r.truncation_bound < 1e-14
    assert waiting(r) == pytest.approx(r.exact_wait, rel=1e-11)


def test_a_ranking_that_ignores_short_lengths_only():
    """The length has a say from the 21st job on: no closed form."""
    reluctant, indifferent = (
        solve(0.97, HYPER, Policy("cap", rank, 2)) for rank in (lambda k, l: l > 20, lambda k, l: 0)
    )
    assert reluctant.exact_wait is None and reluctant.iterations > 1
    assert reluctant.mean_wait == pytest.approx(waiting(reluctant), rel=1e-12)
    assert reluctant.mean_wait < 0.7 * indifferent.mean_wait


# two dense methods as oracles


PHASES = {"hyperexponential": oracle.hyperexponential(10, 0.5), "mixed Erlang": oracle.hyperexponential(10, 0.5, 2)}
BIG = 10**6


def rankings(alpha, A, edges):
    """xi(k, l) of every policy, on arrays, from the paper's definitions; a job is long from age 2 on."""
    r, s = len(edges), np.argmin(np.abs(np.array([*edges, inf]) - 2)) + 1
    alive = np.array([alpha @ oracle.expm(A * c) for c in (0, *edges)])
    residual = np.linalg.solve(-A.T, alive.T).sum(axis=0) / alive.sum(axis=1)
    return {
        "SQ": lambda k, l: l,
        "SQ-RE": lambda k, l: l + BIG * (k > 1),
        "RE": lambda k, l: k,
        "JIQ": lambda k, l: 0 * k * l,
        "SQ-RTB": lambda k, l: (r + 2) * l + k,
        "SQ-RTB-RE": lambda k, l: (r + 2) * l + k + BIG * (k > s),
        "LAS": lambda k, l: k,
        "LAS-QTB": lambda k, l: BIG * k + l,
        "LEW": lambda k, l: np.round(l - 1 + residual[k - 1], 9),
        "odd first": lambda k, l: (1 - l % 2) * BIG**2 + BIG * k + l,
        "oldest": lambda k, l: l - BIG * k,
    }


def dense_residual(r, alpha, A, xi, d=3, total=None):
    """|T_dense(H(x)) - x|_1, phases summed."""
    x = r.joint[1:, 1:]
    k, l = np.ogrid[1 : x.shape[0] + 1, 1 : x.shape[1] + 1]
    rates = oracle.dense_rates(x, xi(k, l) + 0 * k * l, r.lam, d)
    pi = oracle.dense_map(rates, r.policy.layers.edges, alpha, A, r.lam if total is None else total)
    return np.abs(pi.sum(axis=2) - x).sum()


@pytest.mark.parametrize("law", PHASES)
@pytest.mark.parametrize("name", ALL)
def test_fixed_point_of_the_dense_method(name, law):
    alpha, A = PHASES[law]
    job = HYPER if law == "hyperexponential" else jobs.mixed_erlang(10, 0.5, 2)
    r = solve(0.4 if name in ("JIQ", "oldest") else 0.6, job, ALL[name](3), tol=1e-14)
    xi = rankings(alpha, A, r.policy.layers.edges)
    assert dense_residual(r, alpha, A, xi[name]) < (2e-13 if r.joint.shape[1] > 50 else 5e-14)
    assert dense_residual(r, alpha, A, xi[name], d=2) > 1e-2
    assert dense_residual(r, alpha, A, xi[name], total=1 - r.lam) > 1e-2  # idle with probability lam
    assert dense_residual(r, alpha, A, lambda k, l: 1.0 * l + k if name == "JIQ" else -xi[name](k, l)) > 1e-3


def test_the_dense_method_from_the_empty_system():
    alpha, A = PHASES["hyperexponential"]
    for name in ("SQ-RTB", "LEW"):
        r = solve(0.5, HYPER, ALL[name](2))
        xi = rankings(alpha, A, r.policy.layers.edges)[name]
        pi = oracle.dense_solve(xi, r.policy.layers.edges, alpha, A, 0.5, 2, 16)
        x = pi.sum(axis=2)
        assert_allclose(x[:, :8], r.joint[1:, 1:9], rtol=0, atol=1e-12)
        k, l = np.ogrid[1:12, 1:17]
        rates, w = oracle.dense_rates(x, xi(k, l), 0.5, 2), [0.0, 0.5, 3, 20]
        assert_allclose(r.wait_tail(w), oracle.dense_waits(pi, rates, alpha, A, 0.5, w, 0), rtol=1e-10)
        assert_allclose(r.response_tail(w), oracle.dense_waits(pi, rates, alpha, A, 0.5, w, 1), rtol=1e-10)
        assert abs(r.wait_tail(w) - oracle.dense_waits(pi, rates, alpha, A, 0.5, w, 1)).max() > 0.1


@pytest.mark.parametrize("law", ["deterministic", "zero sizes", "uniform", "Weibull 1/2"])
@pytest.mark.parametrize("name", ["SQ", "SQ-RE", "SQ-RTB", "LAS-QTB", "LEW", "odd first"])
def test_fixed_point_for_general_sizes(name, law):
    r = solve(0.6, LAWS[law][0], ALL[name](3), tol=1e-14)
    edges = r.policy.layers.edges
    found = oracle.atoms_map(r.rates[1:, 1:], edges, *atoms(law, edges), 0.6)
    assert np.abs(found - r.joint[1:, 1:]).sum() < 2e-13
    wrong = oracle.atoms_map(r.rates[1:, 1:], edges, [0.9, 1.1], [0.5, 0.5], 0.6)
    assert np.abs(wrong - r.joint[1:, 1:]).sum() > 1e-3


@pytest.mark.parametrize("law", ["discrete", "trace", "Weibull 3", "lognormal", "Pareto"])
def test_fixed_point_under_ties_by_age(law):
    r = solve(0.6, LAWS[law][0], ALL["SQ-RTB"](3), tol=1e-14)
    found = oracle.atoms_map(r.rates[1:, 1:], r.policy.layers.edges, *atoms(law, r.policy.layers.edges), 0.6)
    assert np.abs(found - r.joint[1:, 1:]).sum() < (1e-9 if law == "Pareto" else 2e-13)  # the oracle cuts the tail off


# stored values, from a separate derivation and its own simulations


def stored(row):
    family = {"exp": jobs.exponential, "hexp": jobs.hyperexponential, "merlang": jobs.mixed_erlang}
    grid = {} if row["r"] < 2 else {"delta": row["Delta"], "c_max": row["r"] * row["Delta"]}
    T = {} if row["T"] is None else {"T": row["T"]}
    policy = getattr(policies, row["policy"].lower().replace("-", "_"))
    return row["lam"], family[row["job"][0]](*row["job"][1:]), policy(row["d"], **T, **grid)


def name_of(row):
    return f"{row['policy']}-{'-'.join(map(str, row['job']))}-{row['lam']}-{row['d']}"


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in VALUES if row.get("dense_check_B")], ids=name_of)
def test_stored_cases_against_the_dense_method(row):
    lam, job, policy = stored(row)
    kind, *parameters = row["job"]
    phases = oracle.hyperexponential(*parameters) if kind != "exp" else (np.ones(1), -np.eye(1))
    xi = rankings(*phases, policy.layers.edges)[row["policy"]]
    assert dense_residual(solve(lam, job, policy, tol=1e-14), *phases, xi, row["d"]) < 1e-13


@pytest.mark.parametrize("row", VALUES, ids=name_of)
def test_stored_values(row):
    r = solve(*stored(row))
    assert_allclose((r.mean_wait, r.mean_queue, r.mean_response), (row["EW"], row["EQ"], row["ER"]), rtol=1e-11)
    tail = np.append(r.queue_tail, np.zeros(len(row["tail"])))[: len(row["tail"])]
    assert_allclose(tail, row["tail"], rtol=0, atol=1e-11)
    assert_allclose(r.wait_tail(row["w"]), row["PWgt"], rtol=1e-9, atol=1e-12)
    assert_allclose(r.response_tail(row["w"]), row["PRgt"], rtol=1e-9, atol=1e-12)
    assert r.truncation_bound < 1e-15 and r.error < 1e-11
    plain = solve(*stored(row), accelerate=False)
    steps = np.count_nonzero(plain.changes > 1e-10) + 1
    assert abs(steps - row["iters_plain_tol1e_10"]) <= 2
    assert plain.mean_wait == pytest.approx(r.mean_wait, rel=2e-12) and len(plain.changes) == plain.iterations
    assert r.iterations <= plain.iterations and plain.residual == (0 if r.exact_wait else plain.changes[-1])


@pytest.mark.parametrize("row", [row for row in VALUES if row["simulated"]], ids=name_of)
def test_stored_simulations(row):
    """N = 4000 servers: the bias is of order 1/N."""
    sim = row["sim"]
    near = {"rel": 0.005 if row["d"] < 20 else 0.04}
    r = solve(*stored(row))
    assert r.mean_wait == pytest.approx(sim["EW"], **near)
    assert_allclose(r.wait_tail(sim["PW_pts"]), sim["PW_gt"], rtol=0.06, atol=1e-3)
    wrong = jiq(row["d"]) if row["d"] > 1 else sq(2)
    assert solve(row["lam"], r.job, wrong).mean_wait != pytest.approx(sim["EW"], rel=0.1)


TIES = {
    2: (1.534508, 1.235331, 1.116918, 1.072109, 1.053579, 1.041663),
    5: (4.933906, 3.535021, 2.292297, 1.775573, 1.562516, 1.413891),
    20: (20.000, 19.995979, 18.797368, 12.321495, 7.612137, 3.451958),
}


@pytest.mark.parametrize("d", TIES)
def test_ties_among_busy_servers(d):
    found = [cavity.mean_ties(solve(lam, HYPER, sq(d)), d) for lam in (0.3, 0.6, 0.8, 0.9, 0.95, 0.99)]
    assert_allclose(found, TIES[d], rtol=0, atol=5.1e-7 if d < 20 else 6e-7)


def test_ties_with_idle_servers_are_another_quantity():
    """The sum from level 0 on, without the condition that all are busy."""
    r = solve(0.3, HYPER, sq(5))
    u, k = np.append(r.queue_tail, 0), np.arange(1, 6)[:, None]
    among_all = (k * comb(5, k) * (u[:-1] - u[1:]) ** k * u[1:] ** (5 - k)).sum()
    assert among_all == pytest.approx(3.512, abs=1e-3) and cavity.mean_ties(r, 5) > 4.9


GAINS = {  # (E[W]_SQ - E[W]) / E[W]_SQ
    ("HEXP", 0.3, 5): {"SQ-RTB": 0.7356, "SQ-RTB-RE": 0.7358, "LAS": 0.7357, "LEW": 0.7359, "RE": 0.606},
    ("HEXP", 0.3, 20): {"SQ-RTB": 0.8073, "LAS": 0.8073, "LEW": 0.8073, "RE": 0.6315, "SQ-RE": 0.6315},
    ("HEXP", 0.7, 5): {"SQ-RTB": 0.4098, "SQ-RTB-RE": 0.4600, "LEW": 0.4694},
    ("HEXP", 0.8, 5): {"SQ-RTB": 0.2291, "SQ-RE": 0.1750, "SQ-RTB-RE": 0.3044, "LAS": 0.2538, "LAS-QTB": 0.2743,
                       "RE": -0.1200, "LEW": 0.3218},
    ("HEXP", 0.99, 20): {"LEW": 0.2010, "SQ-RTB-RE": 0.2020},
    ("HEXP", 0.9, 15): {"SQ-RE": 0.2535}, ("HEXP", 0.9, 20): {"SQ-RE": 0.4019},
    ("HEXP", 0.97, 15): {"SQ-RE": 0.0776}, ("HEXP", 0.97, 20): {"SQ-RE": 0.0150},
    ("MErlang", 0.7, 5): {"SQ-RTB": 0.4795, "LEW": 0.6088},
    ("MErlang", 0.8, 5): {"LEW": 0.4626, "SQ-RTB-RE": 0.3461},
    ("SCV 30", 0.3, 5): {"LEW": 0.8594}, ("SCV 30", 0.7, 5): {"SQ-RTB": 0.3514, "SQ-RTB-RE": 0.4727, "LEW": 0.4880},
    ("f = 1/10", 0.3, 5): {"LEW": 0.3057},
}  # fmt: skip
GAIN_LAWS = {
    "HEXP": HYPER, "MErlang": jobs.mixed_erlang(10, 0.5, 5), "SCV 30": jobs.hyperexponential(30, 0.5),
    "f = 1/10": jobs.hyperexponential(10, 0.1),
}  # fmt: skip


@pytest.mark.parametrize("case", GAINS, ids=str)
def test_gains_over_the_shortest_queue(case):
    law, lam, d = case
    wanted = {name: getattr(policies, name.lower().replace("-", "_"))(d) for name in GAINS[case]}
    table = cavity.compare([lam], GAIN_LAWS[law], wanted, sq(d))
    assert table["policy"] == list(wanted) and table["lam"] == [lam] * len(wanted)
    assert_allclose(table["improvement"], list(GAINS[case].values()), rtol=0, atol=6e-5 if lam > 0.3 else 6e-4)


# laws that hold for every policy


def shares(job, lower):
    """Share of the service that is given in each layer of age."""
    return np.diff(np.append(job.truncated_moment(1, lower), job.mean)) / job.mean


def check_laws(r, laws_of_d):
    job, lam = r.job, r.lam
    rho = lam * job.mean
    assert np.all(r.joint >= 0) and np.all(r.rates >= 0)
    assert r.joint.sum() == pytest.approx(1, abs=1e-14) and r.joint[0, 0] == 1 - rho
    assert not r.joint[0, 1:].any() and not r.joint[1:, 0].any()
    assert_allclose(r.joint[1:].sum(axis=1), rho * shares(job, r.policy.layers.lower), atol=1e-12)
    busy = sum(p * rho**d for d, p in laws_of_d.items())
    assert entry_rate(r) == pytest.approx(lam * busy, rel=1e-11)
    assert r.rates[0, 0] * r.joint[0, 0] == pytest.approx(lam * (1 - busy), rel=1e-12)
    up = (r.joint * r.rates).sum(axis=0)
    assert np.all(np.diff(r.queue_tail) <= 0) and r.queue_tail[0] == pytest.approx(1) and len(up) == len(r.queue_tail)
    assert r.mean_queue == pytest.approx(np.arange(len(up)) @ r.joint.sum(axis=0), rel=1e-11)
    return r


@pytest.mark.parametrize("law", [name for name in LAWS if name not in ("Pareto", "lognormal")])
@pytest.mark.parametrize("name", ALL)
def test_laws_of_every_policy(name, law):
    check_laws(solve(0.6, LAWS[law][0], ALL[name](3), max_levels=1024), {3: 1})


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=3, max_size=3),
    st.integers(0, 2),
    st.sampled_from(["exponential", "hyperexponential", "deterministic", "uniform", "zero sizes"]),
    st.sampled_from([{1: 0.5, 3: 0.5}, {2: 1.0}, {1: 0.2, 2: 0.3, 4: 0.5}]),
)
def test_laws_of_any_ranking(table, slope, law, d):
    """A ranking nobody has thought about, not monotone in age or length."""
    table = np.array(table)
    policy = Policy(
        "any", lambda k, l: table[k - 1, np.minimum(l, 4) - 1] + slope * np.maximum(l - 4, 0), d, Layers((0.5, 2))
    )
    r = check_laws(solve(0.5, LAWS[law][0], policy), d)
    assert r.wait_tail(0) == pytest.approx(sum(p * 0.5**n for n, p in d.items()), rel=1e-9)


TRANSFORMS = {
    "exponential": lambda v: np.exp(v / 40.0),
    "affine": lambda v: 3.5 * v - 100,
    "power": lambda v: v**3,
    "tuple": lambda v: (v // 5, v % 5),
    "tuple with a constant": lambda v: (0.5, v, False),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("rank", [lambda k, l: 12 * l + k, lambda k, l: k, lambda k, l: 2 * l + (7 * k) % 5], ids="abc")
def test_only_the_order_of_the_ranks_counts(rank, transform):
    layers = Layers.every(*GRID)
    plain, other = (
        solve(0.7, HYPER, Policy("p", xi, 2, layers))
        for xi in (rank, lambda k, l: TRANSFORMS[transform](rank(k, l) + 0 * k * l))
    )
    assert_array_equal(plain.joint, other.joint)
    reverse = solve(0.4, HYPER, Policy("p", lambda k, l: -rank(k, l), 2, layers))
    assert abs(reverse.mean_wait / solve(0.4, HYPER, Policy("p", rank, 2, layers)).mean_wait - 1) > 0.02


@pytest.mark.parametrize("law", ["hyperexponential", "cyclic", "deterministic", "zero sizes", "Weibull 1/2"])
@pytest.mark.parametrize("name", ["SQ", "SQ-RE", "LAS", "LAS-QTB", "LEW", "SQ-RTB-RE"])
def test_the_unit_of_time_is_free(name, law):
    unit, m = 0.7, 30.0
    make = {"SQ": lambda c: sq(2), "SQ-RE": lambda c: sq_re(2, 2 * c), "LAS": lambda c: las(2, c / 2, 5 * c),
            "LAS-QTB": lambda c: las_qtb(2, c / 2, 5 * c), "LEW": lambda c: lew(2, c / 2, 5 * c),
            "SQ-RTB-RE": lambda c: sq_rtb_re(2, 2 * c, c / 2, 5 * c)}[name]  # fmt: skip
    job = LAWS[law][0]
    one, scaled = solve(unit, job, make(1.0)), solve(unit / m, job.scaled(m), make(m))
    assert scaled.mean_wait == pytest.approx(m * one.mean_wait, rel=1e-10)
    assert scaled.mean_response == pytest.approx(m * one.mean_response, rel=1e-10)
    assert scaled.mean_queue == pytest.approx(one.mean_queue, rel=1e-10)
    assert_allclose(scaled.joint.sum(axis=0)[:8], one.joint.sum(axis=0)[:8], atol=1e-11)
    w = np.array([0.0, 0.3, 2.2])
    assert_allclose(scaled.wait_tail(m * w), one.wait_tail(w), rtol=1e-6)


def test_least_expected_work_of_exponential_sizes_is_the_shortest_queue():
    for lam, d in [(0.5, 5), (0.9, 2)]:
        work, queue = solve(lam, jobs.exponential(), lew(d)), solve(lam, jobs.exponential(), sq(d))
        assert work.mean_wait == pytest.approx(queue.mean_wait, rel=1e-11)
        assert_allclose(work.queue_tail, queue.queue_tail, atol=1e-13)
    assert solve(0.9, HYPER, lew(2)).mean_wait < 0.95 * solve(0.9, HYPER, sq(2)).mean_wait


def test_exclusion_of_old_jobs_is_attained_service_in_two_layers():
    a, b = solve(0.8, HYPER, re(4, 2)), solve(0.8, HYPER, las(4, 2, 2))
    assert_array_equal(a.joint, b.joint)
    assert a.mean_wait == b.mean_wait != solve(0.8, HYPER, las(4, 1, 2)).mean_wait


def test_policies_of_ones_own():
    """Three lines; longest of two queues has a stationary law where a long queue drains: d lam^d < 1."""
    longest = Policy("longest queue", rank=lambda k, l: -l, d=2)
    r = solve(0.6, jobs.exponential(), longest)
    assert (
        r.mean_wait > solve(0.6, jobs.exponential(), jiq(2)).mean_wait > solve(0.6, jobs.exponential(), sq(2)).mean_wait
    )
    assert dense_residual(r, np.ones(1), -np.eye(1), lambda k, l: -l, d=2) < 1e-12
    u = r.queue_tail  # lam (u_1^2 - (u_1 - u_l)^2) is the flow into queues >= l + 1, and u_{l+1} the flow out of them
    assert_allclose(u[2:], 0.6 * (u[1] ** 2 - (u[1] - u[1:-1]) ** 2), atol=1e-12)
    with pytest.raises(ValueError, match="longest queue .* lower lam"):
        solve(0.8, jobs.exponential(), longest)


@pytest.mark.parametrize("law", ["deterministic", "Erlang", "uniform"])
def test_a_queue_that_never_drains_is_a_sentence(law):
    with pytest.raises(ValueError, match="heavy tail|without bound"):
        solve(0.9, LAWS[law][0], Policy("longest queue", lambda k, l: -l, 2))


# limits


@pytest.mark.parametrize("policy", [sq(2), sq_rtb(2, 0.4, 0.4), las(2, 0.4, 0.4)], ids=lambda p: p.name)
def test_erlang_sizes_tend_to_constant_ones(policy):
    """Error of order 1/k, halved when k doubles."""
    exact = solve(0.8, jobs.deterministic(), policy).mean_wait
    errors = np.array([solve(0.8, jobs.erlang(2**n), policy).mean_wait - exact for n in range(3, 8)])
    assert np.all(errors > 0) and errors[-1] < 0.01 * exact
    ratios = errors[:-1] / errors[1:]
    assert abs(ratios[-1] - 2) < 0.1 and np.all(np.abs(ratios - 2) < 0.6)


@pytest.mark.parametrize("policy", [sq(2), sq_rtb(2, *GRID), las(2, *GRID), lew(2, *GRID)], ids=lambda p: p.name)
def test_exponential_mixtures_fitted_to_a_heavy_tail(policy):
    """Weibull 1/2 is a mixture of exponentials; the finer the fitted one, the closer the answer."""
    exact = solve(0.7, jobs.weibull(0.5), policy).mean_wait
    x, errors = np.geomspace(1e-4, 150, 300), []
    for terms in (4, 8, 24):
        rates = np.geomspace(0.04, 2000, terms)
        rows = np.exp(-np.outer(x, rates)), 30 * np.ones((1, terms)), 30 / rates[None], 10 / rates[None] ** 2
        weights = nnls(np.vstack(rows), np.concatenate([np.exp(-((2 * x) ** 0.5)), [30, 30, 30]]))[0]
        rates, weights = rates[weights > 0], weights[weights > 0]
        job = jobs.PhaseType(weights / weights.sum(), -np.diag(rates)).scaled(1)
        errors.append(abs(solve(0.7, job, policy).mean_wait / exact - 1))
    assert errors[2] < 1e-3 and errors[1] < 1e-2 and errors[0] > 0.1


@pytest.mark.parametrize("name", ["SQ", "SQ-RTB", "LAS", "LAS-QTB", "LEW"])
def test_low_load(name):
    """All d servers are busy with one job: P(wait) = lam^d; where ages have no say, E[W] = lam^d E[X^2] / 2 E[X]."""
    for lam in (0.3, 0.03):
        for law in ("exponential", "hyperexponential", "deterministic", "uniform", "zero sizes"):
            r = solve(lam, LAWS[law][0], ALL[name](20))
            assert entry_rate(r) == pytest.approx(lam**21, rel=1e-12)
            second = r.job.mean**2 * (1 + r.job.scv) / 2
            if name == "SQ":
                assert r.mean_wait == pytest.approx(lam**20 * second, rel=1e-9)
            assert r.mean_wait == pytest.approx(waiting(r), rel=1e-12)
            assert r.wait_tail(0) == pytest.approx(lam**20, rel=1e-9)
    assert solve(0.3, jobs.exponential(), ALL[name](20)).mean_wait == pytest.approx(3.487e-11, rel=1e-3)


@pytest.mark.parametrize("name", ["SQ", "SQ-RTB", "LAS-QTB", "LEW", "LAS", "JIQ"])
def test_up_to_the_largest_load(name):
    """Waits grow like log 1/(1-lam) where the length decides, like 1/(1-lam) where it has no say."""
    lams = np.append(np.linspace(0.05, 0.9, 10), [0.99, 0.995, 0.999])
    rs = cavity.sweep(lams, HYPER, ALL[name](5), tol=1e-8, max_levels=512)
    waits = np.array([r.mean_wait for r in rs])
    assert np.all(np.diff(waits) > 0) and np.all(np.isfinite(waits))
    assert 8 < waits[-1] / waits[-3] < 11 if name in ("LAS", "JIQ") else 1 < waits[-1] / waits[-3] < 4
    assert_allclose(
        [entry_rate(r) for r in rs], lams**6, rtol=3e-4 if name == "LAS" else 1e-6
    )  # LAS is cut at level 512


# accuracy claimed and kept


@pytest.mark.parametrize("name", ["SQ", "SQ-RE", "SQ-RTB", "LAS-QTB", "LEW"])
@pytest.mark.parametrize("lam, d", [(0.3, 20), (0.8, 2), (0.95, 5), (0.999, 5)])
@pytest.mark.parametrize("law", ["hyperexponential", "deterministic"])
def test_the_error_is_honest(name, lam, d, law):
    job, policy = LAWS[law][0], ALL[name](d)
    exact = solve(lam, job, policy, tol=1e-14)
    for tol in (1e-4, 1e-6, 1e-9, 1e-12):
        r = solve(lam, job, policy, tol=tol)
        true = max(abs(r.mean_wait / exact.mean_wait - 1), np.abs(r.queue_tail[1:3] - exact.queue_tail[1:3]).max())
        assert true <= 10 * r.error + 2e-13 and r.error <= max(tol, 3e-12 if lam < 0.999 else 1e-10)
    plain = solve(min(lam, 0.95), job, policy, accelerate=False)
    fast = solve(min(lam, 0.95), job, policy)
    assert fast.mean_wait == pytest.approx(plain.mean_wait, rel=3e-12)
    assert_allclose(fast.queue_tail[:4], plain.queue_tail[:4], atol=3e-12)
    rate = plain.changes[-1] / plain.changes[-2]
    assert 0 <= rate < 1 and fast.iterations <= plain.iterations


@pytest.mark.parametrize("law", ["hyperexponential", "cyclic", "deterministic", "lognormal", "Weibull 1/2", "Pareto"])
@pytest.mark.parametrize("policy", [las(2, *GRID), jiq(2)], ids=lambda p: p.name)
def test_the_truncation_bound_bounds(law, policy):
    job = LAWS[law][0]
    full = solve(0.7, job, policy, max_levels=256)
    for levels in (16, 32, 64):
        r = solve(0.7, job, policy, max_levels=levels)
        cut = r.joint.shape[1]
        beyond = full.joint[:, cut:].sum()
        assert beyond <= r.truncation_bound * (1 + 1e-9) <= 3 * (beyond + full.truncation_bound) + 1e-20
        assert np.abs(full.joint[:, :cut] - r.joint).sum() <= 2.001 * r.truncation_bound + 1e-13
        assert r.mean_wait == full.mean_wait


@pytest.mark.parametrize("lam, d", [(0.5, 2), (0.9, 2), (0.99, 3)])
def test_the_bound_beyond_the_last_level(lam, d):
    r = solve(lam, jobs.exponential(), sq(d))
    beyond = oracle.mitzenmacher_tail(lam, d, len(r.queue_tail) + 1)[-1]
    assert 0 < beyond <= r.truncation_bound * (1 + 1e-5) < 1e-20


def test_no_bound_without_a_second_moment():
    """A bound, possibly infinite, never NaN."""
    for name in ("SQ", "SQ-RE", "SQ-RTB", "LAS-QTB"):
        r = check_laws(solve(0.5, jobs.pareto(1.5, 1 / 3), ALL[name](5), max_levels=64), {5: 1})
        assert 0 <= r.truncation_bound < 1e-9 or r.truncation_bound == inf


# waiting times


def test_waits_of_one_sampled_server():
    w = np.array([0.0, 0.25, 1, 3.3, 10])
    for name in ("exponential", "hyperexponential", "mixed Erlang", "cyclic"):
        job, _, phases = LAWS[name]
        for policy in (sq(1), sq_rtb(1, *GRID)):
            exact = [oracle.mph1_wait_tail(0.7, *phases, t) for t in w]
            assert_allclose(solve(0.7, job, policy).wait_tail(w), exact, rtol=1e-10)
    assert_allclose(solve(0.7, jobs.exponential(), sq(1)).wait_tail(w), 0.7 * np.exp(-0.3 * w), rtol=1e-11)
    assert_allclose(solve(0.7, jobs.exponential(), sq(1)).response_tail(w), np.exp(-0.3 * w), rtol=1e-11)


@pytest.mark.parametrize("name, tol", [("uniform", 3e-4), ("Weibull 3", 1e-5), ("lognormal", 4e-4), ("trace", 1e-3)])
def test_waits_of_one_sampled_server_for_general_sizes(name, tol):
    job, _, law = LAWS[name]
    survival = law.sf if hasattr(law, "sf") else lambda x: (law[0] > x[:, None]) @ law[1]
    exact = oracle.mg1_wait_tail(0.7, 1, survival, 5.0)
    found = solve(0.7, job, sq(1), max_levels=128).wait_tail(np.linspace(0, 5, 2001))
    assert_allclose(found, exact, rtol=0, atol=tol)
    assert abs(found - 0.7 * np.exp(-0.3 * np.linspace(0, 5, 2001))).max() > 10 * tol


def test_waits_for_constant_services():
    w = np.linspace(0, 5, 101)
    exact = [oracle.md1_wait_tail(0.7, t) for t in w]
    assert_allclose(solve(0.7, jobs.deterministic(), sq_rtb(1, 0.1, 2)).wait_tail(w), exact, rtol=0, atol=2e-3)


def test_waits_for_constant_services_without_layers():
    w = np.linspace(0, 5, 101)
    exact = [oracle.md1_wait_tail(0.7, t) for t in w]
    assert_allclose(solve(0.7, jobs.deterministic(), sq(1)).wait_tail(w), exact, rtol=0, atol=2e-3)


def test_a_large_wait_in_the_call_leaves_the_small_ones_alone():
    r = solve(0.8, jobs.lognormal(4), sq(2))
    assert_allclose(r.wait_tail([0.5, 1e4])[0], r.wait_tail(0.5), rtol=2e-3)


def integral(tail, top, pieces=30, nodes=12):
    t, g = np.polynomial.legendre.leggauss(nodes)
    ends = np.append(0, np.geomspace(top / 1e4, top, pieces))
    w = ends[:-1, None] + np.diff(ends)[:, None] * (1 + t) / 2
    return (tail(w) @ g) @ np.diff(ends) / 2


@pytest.mark.parametrize("law", ["hyperexponential", "cyclic"])
@pytest.mark.parametrize("name", ["SQ", "LAS", "SQ-RTB-RE", "odd first"])
def test_the_tail_of_the_wait(name, law):
    r = solve(0.7, LAWS[law][0], ALL[name](3))
    w = np.concatenate([[0], np.geomspace(1e-6, 100, 100)])
    wait, response = r.wait_tail(w), r.response_tail(w)
    assert wait[0] == pytest.approx(0.7**3, rel=1e-11) and response[0] == pytest.approx(1, abs=1e-13)
    assert np.all(np.diff(wait) < 1e-15) and np.all(np.diff(response) < 1e-15) and np.all(response >= wait)
    assert integral(r.wait_tail, 500) == pytest.approx(r.mean_wait, rel=1e-9)
    assert integral(r.response_tail, 500) == pytest.approx(r.mean_response, rel=1e-9)
    assert r.wait_tail(w[None, :2]).shape == (1, 2) and r.wait_tail(1.0).shape == () and r.wait_tail([]).shape == (0,)
    assert r.wait_tail(inf) == 0 and r.response_tail(1e12) == 0


@pytest.mark.parametrize(
    "law", ["deterministic", "discrete", "zero sizes", "trace", "uniform", "Weibull 1/2", "bounded Pareto"]
)
@pytest.mark.parametrize("name", ["SQ", "SQ-RTB", "LEW"])
def test_the_tail_of_the_wait_for_general_sizes(name, law):
    r = solve(0.7, LAWS[law][0], ALL[name](3))
    top = 12 * (1 + r.job.scv)
    w = np.linspace(0, top, 4096)
    wait, response = r.wait_tail(w), r.response_tail(w)
    assert wait[0] == pytest.approx(0.7**3, rel=1e-9)
    assert np.all(np.diff(wait) < 1e-12) and np.all(np.diff(response) < 1e-12) and np.all(wait > -1e-12)
    assert np.trapezoid(wait, w) == pytest.approx(r.mean_wait, rel=5e-3)
    assert np.trapezoid(response, w) == pytest.approx(r.mean_response, rel=5e-3)
    assert r.wait_tail(inf) == pytest.approx(0, abs=1e-12)


# refusals


@pytest.mark.parametrize("lam", [0, -0.5, 0.9991, 1, 7, nan, inf, -inf])
def test_loads_refused(lam):
    with pytest.raises(ValueError, match=r"lam must lie in \(0, 0.999\] \(a load of at most 0.999\), not"):
        solve(lam, HYPER, sq())


def test_loads_are_relative_to_the_mean_size():
    with pytest.raises(ValueError, match=r"lam must lie in \(0, 0.333\]"):
        solve(0.5, jobs.exponential(3), sq())
    assert solve(1.5, jobs.exponential(0.5), sq()).mean_wait > 0


@pytest.mark.parametrize(
    "policy, name", [(policies.jsq(), "JSQ"), (policies.round_robin(), "round robin"), ("sq", "sq")]
)
def test_policies_refused(policy, name):
    with pytest.raises(ValueError, match=f"finitely many sampled servers, not {name}"):
        solve(0.5, HYPER, policy)


def test_a_ranking_with_holes_is_refused():
    with pytest.raises(ValueError, match="the ranking of holes gives NaN"):
        solve(0.5, HYPER, Policy("holes", lambda k, l: np.where(l > 20, nan, l), 1))


@pytest.mark.parametrize("policy", [las(2), re(2), jiq(2), sq(1)], ids=lambda p: p.name)
def test_infinite_waits_are_refused(policy):
    heavy = jobs.pareto(1.5, 1 / 3)
    with pytest.raises(
        ValueError, match=r"E\[W\] is infinite: pareto.* has no second moment and .* ignores the queue length"
    ):
        solve(0.5, heavy, policy, max_levels=16)
    assert solve(0.5, jobs.pareto(2.1, 1.1 / 2.1), policy, max_levels=16).mean_wait < inf


def test_too_few_levels_or_iterations_are_refused():
    with pytest.raises(ValueError, match=r"heavy tail: the flow into level 17 is still .* raise max_levels above 16"):
        solve(0.99, HYPER, sq(2), max_levels=16)
    with pytest.raises(
        ValueError, match="not reached in 5 iterations: the last changed it by .* raise max_iterations or tol"
    ):
        solve(0.9, HYPER, sq(2), max_iterations=5)


@pytest.mark.parametrize("w", [-1e-9, nan, [1, -1], [[nan]]])
def test_waiting_times_refused(w):
    for job in (HYPER, jobs.deterministic()):
        r = solve(0.5, job, sq())
        for tail in (r.wait_tail, r.response_tail):
            with pytest.raises(ValueError, match="a waiting time must be >= 0, not"):
                tail(w)


def test_a_result_is_frozen_and_knows_its_question():
    r = solve(0.5, HYPER, sq_rtb(2, *GRID))
    assert (r.lam, r.job, r.policy.name) == (0.5, HYPER, "SQ(2)-RTB")
    assert r.joint.shape == r.rates.shape == (12, len(r.queue_tail))
    with pytest.raises(AttributeError):
        r.lam = 0.6
    assert replace(r, lam=0.5).mean_wait == r.mean_wait


def test_rounding_does_not_hold_up_the_acceleration_of_many_states():
    r = cavity.solve(0.99, jobs.hyperexponential(10, 0.5), policies.las_qtb(5, delta=0.02, c_max=40))
    assert r.joint.size > 500_000 and r.iterations < 20
