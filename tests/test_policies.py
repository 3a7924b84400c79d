"""A policy is a table of integers: its order is the ranking, its ties are the ranking's ties, nothing else counts."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from lbkit import jobs
from lbkit.policies import (
    CANDIDATES, Cutoffs, Layers, Policy, balanced, jiq, jsq, las, las_qtb, least_work, lew, random, re, round_robin, sita,
    sq, sq_re, sq_rtb, sq_rtb_re, tags,
)  # fmt: skip


def dense(table):
    """Ranks 0, 1, 2, ... in the same order."""
    return np.unique(table, return_inverse=True)[1].reshape(np.shape(table))


def ranking(parts, d=2):
    layers = Layers(range(1, parts[0].shape[1]))
    return Policy("any", lambda k, l: tuple(p[l - 1, k - 1] for p in parts), d, layers)


# the table


ranks = arrays(np.int64, (5, 3), elements=st.integers(-3, 3) | st.integers(-(2**62), 2**62))


@given(st.lists(ranks, min_size=1, max_size=6))
def test_tuples_are_compared_in_order(parts):
    words = [tuple(int(p[place]) for p in parts) for place in np.ndindex(5, 3)]
    order = {word: place for place, word in enumerate(sorted(set(words)))}
    expected = np.array([order[word] for word in words]).reshape(5, 3)
    assert_array_equal(dense(ranking(parts).table(5)), expected)


def test_the_order_of_a_tuple_matters():
    assert not np.array_equal(las_qtb().table(3), sq_rtb().table(3))


@given(arrays(np.int64, (5, 3), elements=st.integers(-3, 3)))
def test_increasing_transforms_give_the_same_table(part):
    table = ranking([part]).table(5)
    for increasing in (lambda v: np.exp(v), lambda v: 3.0 * v - 5, lambda v: v**3, lambda v: np.where(v > 2, inf, v)):
        assert_array_equal(ranking([increasing(part)]).table(5), table)
    if np.ptp(part):
        assert not np.array_equal(ranking([-part]).table(5), table)


def test_integers_are_compared_exactly():
    far = Policy("far", lambda k, l: 2**60 * (l > 1) + k, 2, Layers((1, 2)))
    assert_array_equal(dense(far.table(2)), [[0, 1, 2], [3, 4, 5]])
    assert float(2**60 + 1) == float(2**60 + 2)  # floats would tie here
    diagonal = Policy("diagonal", lambda k, l: k + l, 2, Layers((1, 2))).table(4)
    assert_array_equal(dense(diagonal), np.add.outer(range(4), range(3)))


@pytest.mark.parametrize("rank", [lambda k, l: 0, lambda k, l: (0, 0.5), lambda k, l: None])
def test_a_constant_ranking_ties_everywhere(rank):
    assert np.ptp(Policy("constant", rank, 2, Layers((1,))).table(6)) == 0


def test_infinite_ranks_are_ordered():
    table = Policy("excluded", lambda k, l: np.where(k > 1, inf, np.where(l > 2, 1, -inf)), 2, Layers((1,))).table(4)
    assert_array_equal(dense(table), [[0, 2], [0, 2], [1, 2], [1, 2]])


@pytest.mark.parametrize(
    "rank, where", [(lambda k, l: np.where(k * l == 6, nan, l), r"\(3, 2\)"), (lambda k, l: (l, k * nan), r"\(1, 1\)")]
)
def test_nan_is_refused(rank, where):
    with pytest.raises(ValueError, match="hole gives NaN"):
        Policy("hole", rank, 2, Layers((1,))).table(4)


def test_a_longer_table_extends_a_shorter_one():
    for policy in (sq(), sq_rtb(), sq_re(), sq_rtb_re(), las(), las_qtb(), re(), jiq()):
        assert_array_equal(dense(policy.table(40)[:7]), dense(policy.table(7)))


# the eight policies, and those of one line


BIG = 10**6
PAPER = {
    "SQ(2)": (sq(2), lambda k, l, r: l),
    "SQ(2)-RTB": (sq_rtb(2, 0.5, 4), lambda k, l, r: l * (r + 2) + k),
    "SQ(2)-RE(2)": (sq_re(2, 2), lambda k, l, r: l + BIG * (k == 2)),
    "SQ(2)-RTB-RE(2)": (sq_rtb_re(2, 2, 0.5, 4), lambda k, l, r: l * (r + 2) + k + BIG * (k > 4)),
    "LAS(2)": (las(2, 0.5, 4), lambda k, l, r: k),
    "LAS(2)-QTB": (las_qtb(2, 0.5, 4), lambda k, l, r: k * BIG + l),
    "RE(2, 2)": (re(2, 2), lambda k, l, r: k),
    "JIQ(2)": (jiq(2), lambda k, l, r: 0),
    "JSQ": (jsq(), lambda k, l, r: l),
    "Random": (random(), lambda k, l, r: 7),
    "BR(2, sum)": (balanced(2), lambda k, l, r: l),
}


@pytest.mark.parametrize("name", PAPER)
def test_rankings_of_the_paper(name):
    policy, xi = PAPER[name]
    assert policy.name == name
    r = len(policy.layers) - 1
    expected = [[xi(k, l, r) for k in range(1, r + 2)] for l in range(1, 13)]
    assert_array_equal(dense(policy.table(12)), dense(expected))


def test_least_expected_work_by_hand():
    """Erlang-2: E[X - c | X > c] = (1 + c) / (1 + 2 c) mean job sizes, decreasing; the order mixes k and l."""
    c = np.arange(9) * 0.5
    work = np.arange(6)[:, None] + (1 + c) / (1 + 2 * c)
    for mean in (1.0, 3.0):
        policy = lew(2, 0.5 * mean, 4 * mean)
        assert_array_equal(dense(policy.table(6, jobs.erlang(2, mean))), dense(np.round(work, 9)))
    assert not np.array_equal(dense(work), dense(las_qtb(2, 0.5, 4).table(6)))


def test_least_expected_work_of_exponential_sizes_is_the_length():
    assert_array_equal(lew(2).table(20, jobs.exponential(3)), np.repeat(np.arange(20)[:, None], 401, axis=1))


def test_least_expected_work_needs_the_job_law():
    with pytest.raises(ValueError, match=r"LEW\(2\) ranks by the job law"):
        lew().table(4)


def test_laws_of_the_number_of_sampled_servers():
    policy = Policy("some", lambda k, l: l, {3: 0.5, 1: 0.5, 2: 0.0})
    assert policy.d == ((1, 0.5), (3, 0.5)) and policy.mean_d == 2
    assert sq(np.int64(3)).d == ((3, 1.0),) and jsq().mean_d == inf
    assert sq({1: 0.5, 3: 0.5}).name == "SQ(1/3)"


@pytest.mark.parametrize(
    "d", [0, -1, 1.5, True, nan, "2", {}, {2: 0.5}, {1: 0.5, 2: 0.6}, {1: nan}, {1: 1.5, 2: -0.5}, {0: 1.0}]
)
def test_numbers_of_sampled_servers_refused(d):
    with pytest.raises(ValueError, match="sampl"):
        Policy("wrong", lambda k, l: l, d)


def test_names_of_candidates():
    assert {balanced(2, s).candidates for s in ("sum", "with", "succ")} < set(CANDIDATES)
    with pytest.raises(ValueError, match="not 'distnict'; nearest: distinct"):
        Policy("wrong", lambda k, l: l, 2, candidates="distnict")
    with pytest.raises(ValueError, match="scheme must be sum, with or succ, not 'distinct'"):
        balanced(2, "distinct")


# layers


def test_layers():
    layers = Layers((0.5, 2))
    assert_array_equal(layers.lower, [0, 0.5, 2])
    assert len(layers) == 3 and len(Layers()) == 1 and layers.index(2) == 2
    assert layers == Layers([0.5, 2.0]) and hash(layers) == hash(Layers([0.5, 2.0])) and layers != Layers((0.5,))
    assert repr(Layers.every(0.1, 40)) == "Layers((0.1, 0.2, 0.3, 0.4, ...))"
    assert len(Layers.every(0.1, 40)) == 401 and len(Layers.every(0.01, 40)) == 4001


def test_thresholds_meet_the_grid_whatever_the_rounding():
    """k * 0.1 >= 2.0 goes wrong for some k and T; the threshold is the layer edge nearest to it."""
    grid = Layers.every(0.1, 40)
    assert any(k * 0.1 != float(f"{k / 10:.1f}") for k in range(1, 401))
    assert [grid.index(float(f"{k / 10:.1f}")) for k in range(1, 401)] == list(range(1, 401))
    for T in (0.3, 0.6, 0.7, 1.1, 2.0, 2.3):
        assert_array_equal(sq_rtb_re(2, T).rank(np.arange(1, 402), 1)[0], np.arange(1, 402) > round(10 * T))


@pytest.mark.parametrize("edges", [(0,), (-1, 1), (2, 1), (1, 1), (nan,), (1, nan), (1, inf)])
def test_layers_refused(edges):
    with pytest.raises(ValueError, match="layer edges must be positive, finite and increasing"):
        Layers(edges)


@pytest.mark.parametrize("delta, c_max", [(0, 1), (-1, 1), (2, 1), (nan, 1), (0.1, nan), (0.1, inf)])
def test_grids_refused(delta, c_max):
    with pytest.raises(ValueError, match="0 < delta <= c_max < inf"):
        Layers.every(delta, c_max)


@pytest.mark.parametrize("T, nearest", [(2.05, "2|2.1"), (50, "40"), (nan, ""), (-1, "0.1")])
def test_thresholds_refused(T, nearest):
    with pytest.raises(ValueError, match=f"must be a layer edge; {T} is none, the nearest is ({nearest})"):
        sq_rtb_re(2, T)


# finite systems


def test_policies_that_are_no_ranking():
    assert (least_work().name, least_work(2).name, round_robin().name) == ("LWL", "LWL(2)", "round robin")
    assert tags(2) == Cutoffs("tags", (2.0,)) and tags([1, 2.5]).name == "TAGS(1, 2.5)" and sita([1]).name == "SITA(1)"


@pytest.mark.parametrize("cutoffs", [[0], [-1, 2], [2, 1], [1, 1], [nan], [1, nan]])
def test_cutoffs_refused(cutoffs):
    for rule in (tags, sita):
        with pytest.raises(ValueError, match="cutoffs must be positive and increasing"):
            rule(cutoffs)
