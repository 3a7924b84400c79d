"""Systems: stability bounds against all subsets and all sizes, and the sentences for what is wrong."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbkit import System, jobs, policies

E = jobs.exponential()


def worst_of_all_sets(speeds, mean, inside):
    """Smallest rate at which some set of servers cannot serve the jobs that only it may serve."""
    N = len(speeds)
    sets = [S for n in range(1, N + 1) for S in combinations(range(N), n) if inside(n) > 0]
    return min(sum(speeds[s] for s in S) / mean / inside(len(S)) for S in sets)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0.5, 1, 2, 3.5, 10]), min_size=1, max_size=7), st.data())
def test_the_bound_is_that_of_the_worst_set(speeds, data):
    N = len(speeds)
    d, e = data.draw(st.integers(1, N)), data.draw(st.integers(1, N))
    law = {d: 0.25, e: 0.75} if d != e else {d: 1.0}
    system = System(1.0, jobs.erlang(2, 0.5), policies.sq(law), speeds=speeds)
    exact = worst_of_all_sets(speeds, 0.5, lambda n: sum(p * comb(n, d) / comb(N, d) for d, p in law.items()))
    assert system.max_rate == pytest.approx(exact, rel=1e-12)
    again = policies.Policy("again", lambda k, l: l, d=law, candidates="replacement")
    exact = worst_of_all_sets(speeds, 0.5, lambda n: sum(p * (n / N) ** d for d, p in law.items()))
    assert System(1.0, jobs.erlang(2, 0.5), again, speeds=speeds).max_rate == pytest.approx(exact, rel=1e-12)


def test_known_bounds():
    assert System(4, E, policies.sq(2), speeds={2: 5, 10: 5}).max_rate == 45  # below the capacity of 60
    assert System(4, E, policies.least_work(2), speeds={2: 5, 10: 5}).max_rate == 45
    assert System(4, E, policies.random(), speeds=[1, 1, 10]).max_rate == 3
    for policy in (
        policies.jsq(),
        policies.round_robin(),
        policies.least_work(),
        policies.balanced(1),
        policies.balanced(2),
    ):
        assert System(4, E, policy, speeds=[1, 1, 10]).max_rate == pytest.approx(12)


@pytest.mark.parametrize("law", [E, jobs.bounded_pareto(1.1, 0.3, 50), jobs.uniform(0, 2)], ids=repr)
def test_loads_by_size_are_means_over_sizes(law):
    x = np.sort(law.quantile((np.arange(400_000) + 0.5) / 400_000))
    for rate, cutoffs in ((0.9, [0.8]), (1.1, [0.5, 1.4])):
        low, high = np.array([0, *cutoffs]), np.array([*cutoffs, np.inf])
        for policy, share in (
            (policies.sita(cutoffs), lambda a, b: np.where((a < x) & (x <= b), x, 0)),
            (policies.tags(cutoffs), lambda a, b: np.where(x > a, np.minimum(x, b), 0)),
        ):
            system = System(rate, law, policy, speeds=[1, 2, 0.5][: len(low)])
            assert system.loads == pytest.approx(
                [rate * share(a, b).mean() / v for a, b, v in zip(low, high, system.speed)], rel=2e-3
            )
            assert system.rate / system.max_rate == pytest.approx(system.loads.max())


def test_load_one_is_named_and_not_stable():
    for rate, policy, servers in ((1000, policies.jsq(), 1000), (1, policies.random(), 1), (8, policies.sq(2), 8)):
        with pytest.raises(
            ValueError, match=rf"rate is {rate}, but .* only for rates below {rate}, where all servers fill up"
        ):
            System(rate, E, policy, servers=servers).require_stable()
        System(rate * (1 - 1e-9), E, policy, servers=servers).require_stable()
    with pytest.raises(ValueError, match="below 45, where the 5 slowest servers fill up"):
        System(50, E, policies.sq(2), speeds=[2] * 5 + [10] * 5).require_stable()
    with pytest.raises(ValueError, match="server 2 of 2 fills up, whose load is 1.3"):
        System(1.9, E, policies.tags([1.1])).require_stable()


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"rate": -1.0}, "rate must be a positive finite number"),
        ({"rate": np.nan}, "rate must be a positive finite number"),
        ({"policy": "sq"}, "must come from lbkit.policies"),
        ({"servers": None}, "say how many servers"),
        ({"servers": 2.5}, "servers must be an integer"),
        ({"servers": 2, "speeds": [1, 2, 3]}, "2 by servers, 3 by speeds"),
        ({"speeds": [1, 0]}, "every speed must be"),
        ({"policy": policies.sq(5)}, "cannot sample 5 different servers out of 4"),
        ({"policy": policies.tags([1.0, 2.0])}, "4 by servers, 3 by cutoffs"),
        ({"job": [E] * 3}, "4 by servers, 3 by job"),
        ({"job": [E] * 4, "speeds": [1] * 4}, "no room for speeds"),
        ({"job": [E] * 2, "policy": policies.sita([1.0]), "servers": None}, "needs a law of the job size"),
    ],
)
def test_what_is_wrong_is_said(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        System(**{"rate": 1.0, "job": E, "policy": policies.sq(2), "servers": 4} | arguments)


def test_what_a_system_knows():
    system = System(3, [E, jobs.erlang(2, 0.5)], policies.sq(2), arrivals=jobs.deterministic(7))
    assert system.service_rates.tolist() == [1, 2] and system.load == 1 and system.gap.mean == pytest.approx(1 / 3)
    assert not system.poisson and System(3, E, policies.sq(2), servers=4, arrivals=jobs.exponential(9)).poisson
    assert System(1, E, policies.tags([1, 2])).servers == 3
    assert System(1, E, policies.sq(2), speeds={2: 5, 10: 5}).speeds == (2,) * 5 + (10,) * 5
    with pytest.raises(ValueError, match="known beforehand for TAGS and SITA only"):
        system.loads
