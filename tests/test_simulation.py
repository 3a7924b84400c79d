"""The simulator against an event-driven one in plain Python, exact queues, exact chains and the mean-field limit."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from math import exp, log
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import pytest

from lbkit import System, cavity, jobs, kernels, light_traffic, policies, protocols, simulate, simulation, tags
from lbkit.policies import Layers, Policy
from lbkit.simulation import sample_path
from oracles import balanced as candidates_oracle
from oracles import simulation as oracle

VALUES = json.loads((Path(__file__).parent / "values" / "balanced_routing.json").read_text())
E, D, H = jobs.exponential(), jobs.deterministic(), jobs.hyperexponential(4)
LAWS = {
    "exponential": E, "deterministic": D, "hyperexponential": H, "erlang": jobs.erlang(3), "weibull": jobs.weibull(0.7),
    "zeros": jobs.discrete([0, 2], [0.5, 0.5]), "trace": jobs.empirical([0.2, 0.3, 0.3, 1, 1.2, 3]),
    "uniform": jobs.uniform(0, 2),
}  # fmt: skip
SMALL = {"jobs": 20_000, "replications": 4, "seed": 1}


@cache
def simulated(system, **options):
    return simulate(system, **{"seed": 1, "jobs": 100_000} | options)


def close(found, exact, name, at=None, precision=0.1, **options):
    """Whether a simulation agrees with a number within two half-widths, which must be small."""
    value, half_width, _ = found.estimate(name, at, **options)
    assert np.all(half_width <= precision * np.maximum(np.abs(value), 1e-3)), "too short to tell anything"
    return bool(np.all(np.abs(value - exact) <= 2 * half_width + 1e-12))


# --- job by job against events -------------------------------------------------------------------------------------


def brought(system, count, seed=1):
    """Gaps and sizes of the first replication."""
    gaps, sizes = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(1)[0].spawn(5)[:2])
    n = simulation.BLOCK
    assert count <= n
    return system.gap.sample(n, gaps)[:count], system.job.sample(n, sizes)[:count]


def in_turn(speeds):
    """Server k at turns (j + 1/2) / p_k."""
    p = np.array(speeds) / sum(speeds)
    turns = sorted(((j + 0.5) / p[k], k) for k in range(len(p)) for j in range(5000))
    return lambda servers, now, size, number: turns[number][1]


def least_of(N, key):
    return lambda servers, now, size, number: min(range(N), key=lambda s: key(servers[s], now))


FINE = Layers.every(1e-4, 12)
PATHS = {
    "round robin": (System(4.5, H, policies.round_robin(), servers=5), in_turn([1] * 5)),
    "round robin by speed": (System(7, H, policies.round_robin(), speeds=[1, 2, 5], arrivals=jobs.erlang(2)),
                             in_turn([1, 2, 5])),
    "SITA": (System(1.5, H, policies.sita([1.0]), speeds=[1, 2]), lambda servers, now, size, n: int(size > 1)),
    "least work": (System(3.6, H, policies.least_work(), servers=4), least_of(4, lambda server, now: server.work(now))),
    "shortest, oldest": (System(2.7, H, Policy("o", lambda k, l: (l, -k), d=None, layers=FINE), servers=3),
                         least_of(3, lambda server, now: (len(server.jobs), -server.age(now)))),
    "youngest": (System(2.7, H, Policy("y", lambda k, l: k, d=3, layers=FINE), servers=3),
                 least_of(3, lambda server, now: bool(server.jobs) and 1 + server.age(now))),
}  # fmt: skip


@pytest.mark.parametrize("name", PATHS)
def test_every_job_fares_as_in_the_event_driven_simulator(name):
    system, choose = PATHS[name]
    gaps, sizes = brought(system, 4000)
    watch = np.linspace(1, gaps.sum() - 1, 50)
    waits, responses, where, seen = oracle.run(gaps, sizes, choose, system.speed, watch)
    found = simulate(system, jobs=4000, replications=1, seed=1, warmup=0)
    assert found.mean_wait == pytest.approx(np.mean(waits), rel=1e-9)
    assert found.std_wait == pytest.approx(np.std(waits), rel=1e-9)
    assert found.mean_response == pytest.approx(np.mean(responses), rel=1e-9)
    path = sample_path(system, watch, seed=1)
    assert np.array_equal(np.sort(path), np.sort(seen))  # which of several idle servers is taken makes no difference
    if name.startswith(("round robin", "SITA")):
        assert found.shares == pytest.approx(np.bincount(where) / 4000) and np.array_equal(path, seen)
    ends = np.add.accumulate(gaps)[-1]
    left = np.minimum(np.cumsum(gaps) + responses, ends) - np.cumsum(gaps)
    assert found.mean_jobs == pytest.approx(left.sum() / ends, rel=1e-9)
    assert found.queue_tail[1:].sum() * system.servers == pytest.approx(found.mean_jobs)


def test_another_rule_gives_another_path():
    system, _ = PATHS["least work"]
    gaps, sizes = brought(system, 4000)
    other = least_of(4, lambda server, now: len(server.jobs))
    found = simulate(system, jobs=4000, replications=1, seed=1, warmup=0)
    assert abs(np.mean(oracle.run(gaps, sizes, other, [1] * 4)[0]) / found.mean_wait - 1) > 0.01


def test_tags_is_a_chain_of_queues():
    system = System(0.9, H, policies.tags([0.7, 2.5]))
    gaps, sizes = brought(system, 4000)
    waits, responses = oracle.tags(gaps, sizes, [0.7, 2.5])
    found = simulate(system, jobs=4000, replications=1, seed=1, warmup=0)
    assert (found.mean_wait, found.mean_response) == pytest.approx((np.mean(waits), np.mean(responses)), rel=1e-9)
    assert found.shares == pytest.approx([1, np.mean(sizes > 0.7), np.mean(sizes > 2.5)])
    assert abs(np.mean(oracle.tags(gaps, sizes, [0.7, 2.6])[0]) / found.mean_wait - 1) > 1e-4


def by_layer(width, last):
    return lambda server, now: min(int(np.ceil(server.age(now) / width)), last)


RANKS = {
    "SQ(2)": (policies.sq(2), lambda server, now: len(server.jobs)),
    "SQ(1) or SQ(3)": (policies.sq({1: 0.3, 3: 0.7}), lambda server, now: len(server.jobs)),
    "SQ(20)": (policies.sq(20), lambda server, now: len(server.jobs)),
    "LWL(2)": (policies.least_work(2), lambda server, now: server.work(now)),
    "JIQ(3)": (policies.jiq(3), lambda server, now: 0),
    "LAS(3)": (policies.las(3, 0.5, 5), by_layer(0.5, 11)),
    "LAS-QTB(3)": (policies.las_qtb(3, 0.5, 5), lambda server, now: (by_layer(0.5, 11)(server, now), len(server.jobs))),
    "SQ(3)-RTB": (policies.sq_rtb(3, 0.1, 2), lambda server, now: (len(server.jobs), by_layer(0.1, 21)(server, now))),
    "RE(2)": (policies.re(2, 1.5), lambda server, now: server.age(now) > 1.5),
}


@pytest.mark.parametrize("name", RANKS)
def test_every_job_joins_the_best_of_its_candidates(name):
    policy, rank = RANKS[name]
    system = System(24, H, policy, speeds={1: 20, 2: 5})
    (gaps, sizes), states = brought(system, 3000), np.random.SeedSequence(1).spawn(1)[0].spawn(5)[2:4]
    protocol = protocols.Sampled(system, np.array([s.generate_state(4, np.uint64) for s in states]))
    picks = np.empty((3000, max(system.samples)), np.uint32)
    kernels.sample(picks, protocol.rng[0], *protocol.law)
    candidates = [[int(s) for s in row if s < 25] for row in picks]
    waits, _, where, _ = oracle.run(gaps, sizes, oracle.best_of(rank, candidates), system.speed)
    found = simulate(system, jobs=3000, replications=1, seed=1, warmup=0)
    assert (found.mean_wait, found.std_wait) == pytest.approx((np.mean(waits), np.std(waits)), rel=1e-9)
    assert found.shares == pytest.approx(np.bincount(where, minlength=25) / 3000)
    shifted = candidates[1:] + candidates[:1]
    assert (
        abs(np.mean(oracle.run(gaps, sizes, oracle.best_of(rank, shifted), system.speed)[0]) / found.mean_wait - 1)
        > 1e-4
    )


# --- exact queues --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_m_g_1(law):
    size = LAWS[law]
    found = simulated(System(0.7 / size.mean, size, policies.random(), servers=1))
    exact = 0.7 / size.mean * size.moment(2) / (2 * 0.3)
    assert close(found, exact, "mean_wait") and not close(found, 1.1 * exact, "mean_wait")
    assert close(found, 0.7, "utilisation", precision=0.01) and close(found, 0.7, "wait_probability", precision=0.01)
    assert found.littles_law == pytest.approx(1, abs=1e-3) and not found.warnings


def test_m_m_1_distributions():
    found, rho = simulated(System(0.7, E, policies.random(), servers=1)), 0.7
    for w in (0.0, 0.5, 3.0):
        assert close(found, rho * exp(-0.3 * w), "wait_tail", w) and close(found, exp(-0.3 * w), "response_tail", w)
        assert not close(found, rho * exp(-0.3 * w) * 1.1, "wait_tail", w)
    for q in (0.1, 0.5, 0.99):
        assert close(found, -log(1 - q) / 0.3, "response_quantile", q)
        assert close(found, max(-log((1 - q) / rho) / 0.3, 0), "wait_quantile", q)
    tail, half_width, _ = found.estimate("queue_tail")
    assert np.all(np.abs(tail[:10] - rho ** np.arange(10)) <= 2 * half_width[:10] + 1e-12)
    assert not np.all(np.abs(tail[:10] - 0.72 ** np.arange(10)) <= 2 * half_width[:10] + 1e-12)
    assert found.std_response == pytest.approx(1 / 0.3, rel=0.05)


@pytest.mark.parametrize(
    "arrivals, transform",
    [(D, oracle.deterministic_gap(0.8)), (jobs.erlang(2), oracle.erlang_gap(2, 0.8)), (E, oracle.erlang_gap(1, 0.8))],
    ids=["D", "E2", "M"],
)
def test_gi_m_1(arrivals, transform):
    found = simulated(System(0.8, E, policies.random(), servers=1, arrivals=arrivals))
    exact = oracle.gi_m_1(transform, 0.8)
    assert close(found, exact, "mean_wait") and not close(found, 4 if arrivals is not E else 3, "mean_wait")
    sigma = exact / (1 + exact)
    tail, half_width, _ = found.estimate("queue_tail")
    assert np.all(
        np.abs(tail[1:8] - 0.8 * sigma ** np.arange(7)) <= 2 * half_width[1:8]
    )  # an average over time, not arrivals


def test_round_robin_of_renewal_arrivals_is_a_bank_of_queues():
    found = simulated(System(4, E, policies.round_robin(), servers=5))
    assert close(found, oracle.gi_m_1(oracle.erlang_gap(5, 0.8), 0.8), "mean_wait")
    assert found.shares == pytest.approx(0.2, abs=1e-5)


def test_servers_with_laws_of_their_own():
    laws = [E, jobs.erlang(2, 0.25), E]
    found = simulated(System(2, laws, policies.random(), servers=3))
    rate = 2 / 3
    for k, law in enumerate(laws):
        exact = rate * law.moment(2) / (2 * (1 - rate * law.mean))
        waits, half_width, _ = found.estimate("mean_waits")
        assert abs(waits[k] - exact) < 2 * half_width[k] < 0.2 * exact
    assert found.utilisations == pytest.approx([rate * law.mean for law in laws], rel=0.02)


def test_sita_is_a_split_and_the_first_queue_of_tags_is_exact():
    found = simulated(System(0.9, H, policies.sita([0.8])))
    exact = tags.sita(0.9, H, [0.8])
    assert close(found, exact.mean_wait, "mean_wait") and close(found, exact.waits, "mean_waits")
    uniform = jobs.uniform(0, 1)
    found, exact = simulated(System(1.6, uniform, policies.tags([0.7]))), tags.analyse(1.6, uniform, [0.7])
    assert close(found, exact.loads, "utilisations", precision=0.05)
    waits, half_width, _ = found.estimate("mean_waits")
    assert abs(waits[0] - exact.waits[0]) < 2 * half_width[0] < 0.1 * waits[0]
    assert waits[1] + 2 * half_width[1] < exact.waits[1] / 3  # arrivals at server 2 keep a distance


# --- exact chains --------------------------------------------------------------------------------------------------

CHAINS = {
    "K2 mu=[1, 1] with c=2": ([1, 1], policies.balanced(2, "with")),
    "K2 mu=[1, 3] with c=2": ([1, 3], policies.balanced(2, "with")),
    "K3 mu=[1, 1, 1] with c=2": ([1, 1, 1], Policy("with", lambda k, l: l, d=2, candidates="replacement")),
    "K3 mu=[1, 1, 1] jsq c=3": ([1, 1, 1], policies.jsq()),
    "K3 mu=[1, 2, 3] succ c=2": ([1, 2, 3], policies.balanced(2, "succ")),
    "K3 mu=[1, 2, 3] with c=3": ([1, 2, 3], policies.balanced(3, "with")),
}


@pytest.mark.parametrize("name", CHAINS)
def test_exact_chains(name):
    speeds, policy = CHAINS[name]
    exact = VALUES["ctmc"][name]["0.9"]
    found = simulated(System(0.9 * sum(speeds), E, policy, speeds=speeds), jobs=250_000)
    assert close(found, exact["EQ"], "mean_jobs") and close(found, exact["EQ"], "mean_jobs_by_identity", precision=0.02)
    assert close(found, exact["kappa"], "kappa") and close(found, 0.1 * sum(speeds), "idle_speed")
    if "EQk" in exact:
        assert close(found, exact["EQk"], "mean_queues") and close(found, exact["util"], "utilisations")
    for other in CHAINS:
        if other != name and len(CHAINS[other][0]) == len(speeds) and CHAINS[other][0] == speeds:
            assert not close(found, VALUES["ctmc"][other]["0.9"]["EQ"], "mean_jobs_by_identity", precision=0.02)


def test_ties_are_broken_uniformly():
    exact = {ties: VALUES["ctmc"][f"ties mu=[1,2,3] rho=0.8 tie={ties}"] for ties in ("uniform", "first")}
    for key, policy in {
        "sum c=2": policies.balanced(2),
        "jsq c=3": policies.jsq(),
        "succ c=2": policies.balanced(2, "succ"),
    }.items():
        value = {ties: e[key]["EQ"] if isinstance(e[key], dict) else e[key] for ties, e in exact.items()}
        found = simulated(System(4.8, E, policy, speeds=[1, 2, 3]), jobs=250_000)
        assert close(found, value["uniform"], "mean_jobs_by_identity", precision=0.02)
        assert not close(found, value["first"], "mean_jobs_by_identity", precision=0.02)


def test_different_speeds_in_light_traffic():
    series = light_traffic.series({2: 5, 10: 5}, E)
    found = simulated(System(4, E, policies.sq(2), speeds={2: 5, 10: 5}), jobs=10**6)
    assert close(found, series(4.0), "mean_response", precision=0.01, control=True)
    assert not close(found, 0.3, "mean_response", precision=0.01, control=True)


def test_all_servers_by_an_index_or_by_looking():
    ours = [
        simulated(System(18, H, policy, speeds={1: 10, 2: 5}), warmup=5000)
        for policy in (policies.jsq(), policies.sq(15), policies.sq(9))
    ]
    same, other = ours[0].difference(ours[1], "mean_response"), ours[0].difference(ours[2], "mean_response")
    assert abs(same.value) <= 2 * same.half_width < 0.05 * ours[0].mean_response
    assert abs(other.value) > 2 * other.half_width


# --- the mean-field limit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", [policies.sq(2), policies.las(2), policies.sq_rtb_re(3, 1), policies.lew(2)], ids=lambda p: p.name
)
def test_the_limit_of_many_servers(policy):
    few, many = (simulated(System(0.8 * N, H, policy, servers=N), warmup=N * 150, jobs=300_000) for N in (40, 80))
    exact = cavity.solve(0.8, H, policy)
    pair = [s.estimate("mean_response", control=True) for s in (few, many)]
    limit, half_width = 2 * pair[1].value - pair[0].value, np.hypot(2 * pair[1].half_width, pair[0].half_width)
    assert abs(limit - exact.mean_response) < 2 * half_width < 0.06 * limit
    assert (
        pair[0].value - exact.mean_response > 2 * pair[0].half_width
    )  # 1/N is there, and the extrapolation removes it
    assert many.queue_tail[:5] == pytest.approx(exact.queue_tail[:5], abs=0.02)
    assert many.wait_tail([0.5, 2.0]) == pytest.approx(exact.wait_tail(np.array([0.5, 2.0])), abs=0.02)


@pytest.mark.parametrize("policy", [policies.sq(2), policies.sq_rtb(2, 0.25, 5)], ids=lambda p: p.name)
@pytest.mark.parametrize("job", [jobs.deterministic(), jobs.pareto(2.5, 0.6), jobs.weibull(0.6)], ids=repr)
def test_the_limit_for_sizes_that_are_no_phase_type(job, policy):
    few, many = (simulated(System(0.8 * N, job, policy, servers=N), warmup=N * 150, jobs=300_000) for N in (40, 80))
    exact = cavity.solve(0.8, job, policy)
    pair = [s.estimate("mean_response", control=True) for s in (few, many)]
    limit, half_width = 2 * pair[1].value - pair[0].value, np.hypot(2 * pair[1].half_width, pair[0].half_width)
    assert abs(limit - exact.mean_response) < 2 * half_width < 0.06 * limit
    assert abs(limit - cavity.solve(0.8, jobs.exponential(), policy).mean_response) > 2 * half_width  # another law fails


def test_a_million_servers():
    exact = cavity.solve(0.7, E, policies.sq(2))
    found = simulate(
        System(7e5, E, policies.sq(2), servers=10**6), jobs=500_000, replications=2, seed=1, start="cavity", warmup=0
    )
    assert found.mean_wait == pytest.approx(exact.mean_wait, rel=0.02)
    assert found.queue_tail[:4] == pytest.approx(exact.queue_tail[:4], abs=1e-3)


def test_start_in_the_state_of_the_limit():
    system = System(180, H, policies.las(2), servers=200)
    exact = cavity.solve(0.9, H, policies.las(2)).mean_queue
    begun = [sample_path(system, [0.0, 1.0], seed=s, start="cavity").mean(axis=1) for s in range(20)]
    error = np.std(begun, axis=0) / np.sqrt(20)
    assert np.all(np.abs(np.mean(begun, axis=0) - exact) < 4 * error) and np.all(error < 0.05 * exact)
    assert np.array_equal(sample_path(System(1, E, policies.jsq(), servers=3), [0.0], start=[9, 0, 30])[0], [9, 0, 30])
    assert simulate(system, start="cavity", **SMALL).warmup < simulate(system, **SMALL).warmup


# --- candidates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["sum", "with", "succ", "distinct", "replacement"])
def test_candidates(scheme):
    rates, n = [1, 2, 3, 0.001], 100_000
    policy = Policy("p", lambda k, l: l, d=2, candidates=scheme)
    rng = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint64)
    protocol, picks = protocols.Sampled(System(1, E, policy, speeds=rates), rng), np.empty((n, 2), np.uint32)
    kernels.sample(picks, rng[0], *protocol.law)
    known = {"distinct": "uniform"}.get(scheme, scheme)
    weights = [1] * 4 if scheme == "replacement" else rates
    law = candidates_oracle.candidate_sets(weights, 2, "with" if scheme == "replacement" else known)
    for S in ((0,), (1, 2), (0, 1, 2), (2, 3)):
        p = float(candidates_oracle.inclusion(law, S))
        inside = np.all(np.isin(picks, [*S, 4]), axis=1).mean()
        assert abs(inside - p) < 4 * np.sqrt(p * (1 - p) / n) + 1e-9


def test_many_candidates_and_numbers_at_random():
    rng = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint64)
    for d, N in ((2, 3), (17, 20), (19, 20)):
        protocol, picks = (
            protocols.Sampled(System(1, E, policies.sq(d), servers=N), rng),
            np.empty((20_000, d), np.uint32),
        )
        kernels.sample(picks, rng[0], *protocol.law)
        assert all(len(set(row)) == d for row in picks[:200].tolist())
        for column in (picks[:, 0], picks[:, -1]):
            assert np.bincount(column, minlength=N) == pytest.approx(20_000 / N, abs=5 * np.sqrt(20_000 / N))
    protocol, picks = (
        protocols.Sampled(System(1, E, policies.sq({1: 0.25, 3: 0.75}), servers=9), rng),
        np.empty((20_000, 3), np.uint32),
    )
    kernels.sample(picks, rng[0], *protocol.law)
    assert np.mean(picks[:, 1] == 9) == pytest.approx(0.25, abs=0.02) and np.all(
        (picks[:, 1] == 9) == (picks[:, 2] == 9)
    )


# --- intervals -----------------------------------------------------------------------------------------------------


def test_intervals_cover():
    exact, hits = 1 / (1 - 0.5), {}
    for seed in range(40):
        found = simulate(System(0.5, E, policies.random(), servers=1), jobs=3000, replications=8, seed=seed, workers=1)
        for options in ({}, {"method": "batches"}, {"method": "cycles"}, {"control": True}):
            value, half_width, _ = found.estimate("mean_response", **options)
            hits.setdefault(str(options), []).append(abs(value - exact) <= half_width)
        value, half_width, _ = found.estimate("response_quantile", 0.9)
        hits.setdefault("quantile", []).append(abs(value - log(10) / 0.5) <= half_width)
    assert all(0.83 <= np.mean(h) for h in hits.values()), {k: np.mean(h) for k, h in hits.items()}


def test_known_means_narrow_the_interval():
    found = simulated(System(80, E, policies.sq(2), servers=100))
    assert found.half_width("mean_response", control=True) < 0.7 * found.half_width("mean_response")
    assert found.half_width("mean_response", level=0.99) > 1.2 * found.half_width("mean_response")
    pooled = simulated(System(4.5, H, policies.least_work(), servers=5))
    assert pooled.half_width("mean_work_by_identity") < 0.3 * pooled.half_width("mean_work")
    assert close(pooled, pooled.estimate("mean_work_by_identity").value, "mean_work")
    assert close(pooled, pooled.estimate("mean_jobs_by_identity").value, "mean_jobs")


def test_common_random_numbers():
    options = {"jobs": 20_000, "warmup": 1000, "replications": 8}
    system = {d: System(8, H, policies.sq(d), servers=10) for d in (2, 3)}
    two, three = (simulated(system[d], **options) for d in (2, 3))
    gain = two.difference(three, "mean_response")
    apart = np.hypot(two.half_width("mean_response"), three.half_width("mean_response"))
    assert gain.value > 2 * gain.half_width and gain.half_width < 0.6 * apart
    assert np.array_equal(two.batches[:, :, 1], three.batches[:, :, 1])
    with pytest.raises(ValueError, match="same seed"):
        two.difference(simulated(system[3], **options, seed=2), "mean_wait")


def test_cycles_are_the_busy_periods():
    found = simulated(System(0.5, E, policies.random(), servers=1))
    number, length = found.cycles.sum(axis=0)[:2]
    assert length / number == pytest.approx(2, rel=0.02)  # jobs in a busy period of M/M/1
    with pytest.raises(ValueError, match="the system emptied [0-9]+ times only"):
        simulated(System(95, E, policies.sq(2), servers=100)).estimate("mean_wait", method="cycles")


# --- a run ---------------------------------------------------------------------------------------------------------


def content(found):
    return b"".join(
        part.tobytes()
        for part in (found.batches, found.tails, found.waits, found.responses, found.visits, found.cycles)
    )


@pytest.mark.parametrize(
    "policy", [policies.sq(2), policies.jsq(), policies.least_work(), policies.round_robin()], ids=lambda p: p.name
)
def test_the_same_seed_gives_the_same_bytes(policy):
    system = System(4, H, policy, servers=5)
    one = content(simulate(system, **SMALL, workers=1))
    assert all(one == content(simulate(system, **SMALL, workers=workers)) for workers in (2, 4))
    assert one == content(simulate(system, **SMALL | {"seed": np.random.SeedSequence(1)}))
    assert one != content(simulate(system, **SMALL | {"seed": 2}))


class Submitting(Executor):
    """Executes at once what its function accepts, and leaves the rest waiting."""

    def __init__(self, accept=lambda number: True, altered=lambda *arguments: arguments):
        self.accept, self.altered, self.futures = accept, altered, []

    def submit(self, work, *arguments):
        self.futures.append(future := Future())
        if self.accept(len(self.futures)):
            try:
                future.set_result(work(*self.altered(*arguments)))
            except Exception as error:
                future.set_exception(error)
        return future


@pytest.mark.parametrize("name", ["SQ(2)", "LEW(2)", "JSQ", "round robin", "TAGS"])
@pytest.mark.parametrize("options", [{}, {"warmup": 0}, {"until": "0.5%"}], ids=str)
def test_an_executor_gives_the_same_bytes(name, options):
    system = {
        "SQ(2)": System(4, H, policies.sq(2), speeds=[1, 1, 2, 2]), "LEW(2)": System(4, H, policies.lew(2), servers=5),
        "JSQ": System(4, H, policies.jsq(), servers=5), "round robin": System(4, H, policies.round_robin(), servers=5),
        "TAGS": System(0.5, H, policies.tags([1.0])),
    }[name]  # fmt: skip
    here = simulate(system, **SMALL, **options)
    there = simulate(system, **SMALL, **options, executor=Submitting())
    assert content(here) == content(there)
    assert (here.jobs, here.warmup, here.warnings, there.complete) == (there.jobs, there.warmup, there.warnings, True)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_will_do(pool):
    """Processes get policies whose ranks pickle alone refuses."""
    system = System(4, H, policies.lew(2), servers=5)
    context = {"mp_context": multiprocessing.get_context("spawn")} if pool is ProcessPoolExecutor else {}
    with pool(2, **context) as executor:
        there = simulate(system, **SMALL, executor=executor)
    assert content(simulate(system, **SMALL)) == content(there)


def test_an_executor_may_fail():
    system = System(4, H, policies.sq(2), servers=5)
    with pytest.raises(ValueError, match="executor must be one of concurrent.futures, .* not 'tcp:"):
        simulate(system, **SMALL, executor="tcp://localhost:8786")
    other = Submitting(altered=lambda run, versions, *what: (run, "lbkit 0.0", *what))
    with pytest.raises(ValueError, match=r"a worker has lbkit .*, numpy .* in place of lbkit 0\.0"):
        simulate(system, **SMALL, executor=other)
    stuck = Submitting(lambda number: number == 1, lambda *arguments: (b"no pickle", *arguments[1:]))
    with pytest.raises(UnpicklingError):
        simulate(system, **SMALL, executor=stuck)
    assert [future.cancelled() for future in stuck.futures] == [False, True, True, True]


def test_control_c_keeps_what_an_executor_has_finished():
    system, executor = System(4, H, policies.sq(2), servers=5), Submitting(lambda number: number in (1, 3))
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    found = simulate(system, **SMALL, executor=executor)
    assert not found.complete and "stopped early" in found.warnings[0]
    assert np.array_equal(found.batches, simulate(system, **SMALL).batches[[0, 2]])
    assert [future.cancelled() for future in executor.futures] == [False, True, False, True]


def test_plain_python_gives_the_same_numbers():
    code = """
from lbkit import System, jobs, policies, protocols, simulate
protocols.PICKS = 512  # how many candidates are drawn at a time is of no consequence
E, run = jobs.exponential(), {"jobs": 300, "replications": 2, "warmup": 50, "workers": 1}
for policy in (policies.sq(2), policies.jsq(), policies.least_work(), policies.lew(2), policies.balanced(2, "succ"),
               policies.least_work(2), policies.sq({1: 0.5, 3: 0.5}), policies.round_robin()):
    print(simulate(System(2.4, E, policy, speeds=[1, 1, 2]), **run).mean_response.hex())
print(simulate(System(1.0, E, policies.tags([1.2])), **run).mean_response.hex())
"""
    run, root = [sys.executable, "-W", "error", "-c", code], Path(__file__).parent.parent
    modes = [os.environ | {"NUMBA_DISABLE_JIT": off} for off in "01"]
    ends = [subprocess.run(run, env=env, text=True, capture_output=True, check=True, cwd=root) for env in modes]
    lines = [end.stdout.split() for end in ends]
    assert len(lines[0]) == 9 and lines[0] == lines[1]


def test_deterministic_arrivals_and_services():
    for policy in (policies.jsq(), policies.round_robin(), policies.least_work(), policies.sq(5)):
        found = simulate(System(4.5, D, policy, servers=5, arrivals=D), **SMALL)
        assert found.mean_wait == pytest.approx(0, abs=1e-9) and found.mean_jobs == pytest.approx(4.5, abs=1e-9)
    assert (
        simulate(System(4.5, D, policies.sq(2), servers=5, arrivals=D), **SMALL).mean_jobs > 5
    )  # its coins cost waits
    alone = simulate(System(0.9, D, policies.sq(1), servers=1, arrivals=D), **SMALL)
    assert (alone.mean_wait, alone.mean_response) == pytest.approx((0, 1)) and alone.utilisation == pytest.approx(0.9)


def test_gaps_and_sizes_may_be_zero():
    found = simulated(System(1.6, E, policies.jsq(), servers=2, arrivals=LAWS["zeros"]))
    assert found.littles_law == pytest.approx(1, abs=1e-3) and close(found, 0.8, "utilisation")


def test_an_unstable_system_is_named():
    with pytest.raises(ValueError, match="rate is 8, but SQ.2. is stable only for rates below 8"):
        simulate(System(8, E, policies.sq(2), servers=8))
    with pytest.raises(ValueError, match="below 45, where the 5 slowest"):
        simulate(System(50, E, policies.sq(2), speeds={2: 5, 10: 5}))
    over = simulate(System(1.2, E, policies.random(), servers=1), unstable=True, **SMALL)
    assert (
        over.utilisation == pytest.approx(1, abs=0.01)
        and "still grows" in over.warnings[-1]
        and "bound of 1" in over.warnings[-1]
    )
    hidden = simulate(System(5.6, E, policies.jiq(2), speeds=[1, 1, 10]), **SMALL)  # the bound is necessary only
    assert any("still grows" in sentence for sentence in hidden.warnings)


def test_rings_grow_and_stop_growing(monkeypatch):
    found = simulate(System(0.97, E, policies.random(), servers=1), **SMALL)
    assert len(found.queue_tail) > 30
    monkeypatch.setattr(simulation, "MEMORY", 2**14)
    with pytest.raises(ValueError, match="a queue has reached .* the system looks unstable"):
        simulate(System(2, E, policies.random(), servers=1), unstable=True, **SMALL)


def test_until_it_is_precise():
    system = System(0.5, E, policies.random(), servers=1)
    found = simulate(system, until="2%", jobs=10**6, replications=4)
    assert (
        found.half_width("mean_response") <= 0.02 * found.mean_response
        and found.jobs < 4 * 10**6
        and not found.warnings
    )
    assert content(found) == content(simulate(system, until=0.02, jobs=10**6, replications=4, workers=1))
    short = simulate(system, until="0.1%", **SMALL)
    assert short.jobs == 80_000 and "not to 0.10%: that would take about" in short.warnings[0]
    for wrong in ("x", 0, "200%"):
        with pytest.raises(ValueError, match="until must be"):
            simulate(system, until=wrong)


def test_a_short_run_says_so():
    near = simulate(System(0.999, E, policies.random(), servers=1), **SMALL)
    assert any("too short" in s for s in near.warnings) and any("warm-up" in s for s in near.warnings)
    heavy = simulate(System(0.5, jobs.pareto(2.5, 0.6), policies.random(), servers=1), **SMALL)
    assert any("heavy a tail" in s for s in heavy.warnings)
    infinite = simulate(System(0.5, jobs.pareto(1.5, 1 / 3), policies.random(), servers=1), **SMALL)
    assert any("infinite second moment" in s for s in infinite.warnings)
    assert not simulate(System(0.5, E, policies.random(), servers=1), **SMALL).warnings


def test_control_c_returns_what_there_is():
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    found = simulate(System(900, E, policies.sq(2), servers=1000), jobs=10**9, replications=4, seed=1)
    assert not found.complete and 0 < found.jobs < 4 * 10**9 and "stopped early" in found.warnings[0]
    assert found.mean_queue > 0.5


def test_progress_without_a_terminal(capsys):
    simulate(System(0.5, E, policies.random(), servers=1), progress=True, **SMALL)
    lines = capsys.readouterr().err.splitlines()
    assert lines and all("jobs/s" in line and "\r" not in line for line in lines) and "100%" in lines[-1]
    simulate(System(0.5, E, policies.random(), servers=1), **SMALL)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"jobs": 0}, "jobs must be an integer >= 1"),
        ({"replications": 1.5}, "replications must be an integer"),
        ({"seed": -1}, "seed must be an integer"),
        ({"warmup": -1}, "warmup must be"),
        ({"start": "cavty"}, "start must be"),
        ({"start": [1, 2, 3]}, "start must be a whole number >= 0 for each of the 2 servers"),
        ({"workers": 0}, "workers must be"),
    ],
)
def test_what_is_wrong_is_said(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        simulate(System(1, E, policies.jsq(), servers=2), **options)


def test_what_cannot_be_estimated_is_said():
    found = simulate(System(1.5, E, policies.jsq(), servers=2, arrivals=D), jobs=5000, replications=1)
    for arguments, sentence in (
        (("mean_weight",), "nearest: mean_wait"),
        (("kappa",), "needs Poisson arrivals"),
        (("queue_tail",), "replications"),
        (("wait_quantile",), "needs at="),
    ):
        with pytest.raises(ValueError, match=sentence):
            found.estimate(*arguments)
    with pytest.raises(ValueError, match="nearest: cycles"):
        found.estimate("mean_wait", method="cycle")
    with pytest.raises(ValueError, match='start="cavity" needs'):
        simulate(found.system, start="cavity")
    assert found.half_width("mean_response") > 0 and found.sampling == "no candidates are drawn"
    assert simulate(System(1, E, policies.sq(2), servers=2), **SMALL).sampling.startswith("d different servers")


def test_a_path_follows_the_fluid_limit():
    known = VALUES["fluid"]["mu=[1.0, 2.0, 3.0] q0=[2, 1, 0] sum c=2"]
    n, system = 4000, System(6, E, policies.balanced(2, "sum"), speeds=[1, 2, 3])
    path = sample_path(system, n * np.array(known["breakpoints"]), start=[2 * n, n, 0]) / n
    assert path == pytest.approx(np.array(known["states"]), abs=0.1)
    assert np.abs(path - np.array(VALUES["fluid"]["mu=[1.0, 2.0, 3.0] q0=[2, 1, 0] with c=2"]["states"])).max() > 0.1
    with pytest.raises(ValueError, match="do not decrease"):
        sample_path(system, [2.0, 1.0])
    with pytest.raises(ValueError, match="TAGS.* has no sample path"):
        sample_path(System(1, E, policies.tags([1])), [1.0])
