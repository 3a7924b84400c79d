"""A measured workload: rows that are read or refused by line, fits, thinning, replay, and the ranking of systems."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from lbkit import System, cavity, jobs, policies, simulate, studies, tags, workload

DATA = Path(__file__).resolve().parent.parent / "data"
SIZES = workload.read(DATA / "sample_sizes.csv")
TRACE = jobs.empirical(SIZES).scaled(1)
numbers = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30)


def written(folder, text, name="sizes.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@settings(max_examples=30)
@given(values=numbers, header=st.booleans(), ending=st.sampled_from(["\n", "\r\n"]))
def test_every_row_is_read_in_its_order(values, header, ending, tmp_path_factory):
    rows = ["seconds"] * header + [repr(value) for value in values]
    path = written(tmp_path_factory.mktemp("csv"), ending.join(rows) + ending)
    assert workload.read(path).tolist() == values


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_parquet_holds_the_same_rows(dtype, tmp_path):
    values = np.array([3, 1, 4, 1, 5], dtype)
    pd.DataFrame({"size": values}).to_parquet(path := tmp_path / "sizes.parquet")
    assert workload.read(path).tolist() == values.tolist()


def test_a_byte_order_mark_and_blanks_around_a_number_do_no_harm(tmp_path):
    assert workload.read(written(tmp_path, b"\xef\xbb\xbf 1.5 \n2\n")).tolist() == [1.5, 2]


@settings(max_examples=40)
@given(
    values=numbers, at=st.integers(0, 30), header=st.booleans(),
    bad=st.sampled_from(["-1", "nan", "NaN", "", "inf", "-inf", "three", "1s", "0", "1e999", "None", "0x10"]),
)  # fmt: skip
def test_a_bad_row_is_named_by_its_line(values, at, header, bad, tmp_path_factory):
    rows = [repr(value) for value in values]
    rows.insert(at := min(at, len(rows)), bad)
    if bad == "three" and not at and not header:
        header = True  # a first row of letters is a header, unless there is one already
    assume(header or any(rows))  # a file of blank lines holds nothing
    path = written(tmp_path_factory.mktemp("csv"), "\n".join(["size"] * header + rows) + "\n")
    with pytest.raises(ValueError) as caught:
        workload.read(path)
    assert f"line {at + 1 + header} holds {bad or 'nothing'!r}" in str(caught.value)


def test_many_bad_rows_are_counted(tmp_path):
    with pytest.raises(ValueError, match=r"line 1 holds '-1', .*line 5 holds '-1' and 3 more$"):
        workload.read(written(tmp_path, "-1\n" * 8))


def test_a_gap_may_be_zero_and_a_size_may_not(tmp_path):
    path = written(tmp_path, "1\n0\n")
    assert workload.read(path, zero=True).tolist() == [1, 0]
    with pytest.raises(ValueError, match="line 2 holds '0'"):
        workload.read(path)
    with pytest.raises(ValueError, match="line 1 holds '-1'"):
        workload.read(written(tmp_path, "-1\n0\n"), zero=True)


@pytest.mark.parametrize(
    "text, name, sentence",
    [
        ("", "sizes.csv", "holds no numbers"),
        ("seconds\n", "sizes.csv", "holds no numbers"),
        ("1,5\n2,5\n", "sizes.csv", "one column, not 2; write decimals with a point"),
        ("1\n2,5\n", "sizes.csv", "line 2"),
        (b"\xff\xfe1\n", "sizes.csv", "not UTF-8"),
        ("1\n", "sizes.xlsx", "must end in .csv, .txt, .parquet, not '.xlsx'"),
        ("1\n", "sizes.parquet", "is not Parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(text, name, sentence, tmp_path):
    with pytest.raises(ValueError) as caught:
        workload.read(written(tmp_path, text, name))
    assert sentence in str(caught.value) and name in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "table, sentence",
    [
        ({"a": [1.0], "b": [2.0]}, "one column, not a, b"),
        ({"a": [True, False]}, "must hold numbers, not bool"),
        ({"a": pd.to_datetime(["2020-01-01"])}, "must hold numbers, not datetime64"),
        ({"a": [1.0, np.nan, -2.0]}, "row 2 holds 'nan', row 3 holds '-2.0'"),
        ({"a": ["1", "x"]}, "row 2 holds 'x'"),
        ({"a": np.empty(0)}, "holds no numbers"),
    ],
)
def test_parquet_that_is_no_column_of_sizes_is_refused(table, sentence, tmp_path):
    pd.DataFrame(table).to_parquet(path := tmp_path / "sizes.parquet")
    with pytest.raises(ValueError, match=sentence):
        workload.read(path)


def test_a_missing_file_gets_a_suggestion(tmp_path):
    written(tmp_path, "1\n")
    with pytest.raises(ValueError, match="no such file; did you mean 'sizes.csv'"):
        workload.read(tmp_path / "size.csv")


def test_the_sample_is_made_by_its_script_byte_for_byte(tmp_path):
    subprocess.run([sys.executable, str(DATA / "make_sample.py"), str(tmp_path)], check=True)
    for made in (names := sorted(tmp_path.iterdir())):
        assert made.read_bytes() == (DATA / made.name).read_bytes()
        assert made.stat().st_size < 300_000
    assert [made.name for made in names] == ["sample_gaps.csv", "sample_sizes.csv"]
    assert DATA.parent / studies.OwnWorkload().sizes == DATA / "sample_sizes.csv"


@pytest.mark.parametrize("law", [TRACE, jobs.empirical(jobs.pareto(1.3, 1).sample(20_000, 1)).scaled(1)], ids=str)
@pytest.mark.parametrize("atoms", [2, 3, 50, 400])
def test_thinning_keeps_three_moments(law, atoms):
    thin = workload.thinned(law, atoms)
    assert len(thin.values) <= atoms
    assert [thin.moment(n) for n in range(4)] == pytest.approx([law.moment(n) for n in range(4)], rel=1e-9)
    assert law.low <= thin.low and thin.high <= law.high
    x = law.quantile(np.linspace(0, 1, 99))
    assert abs(thin.survival(x) - law.survival(x)).max() <= 2 / (atoms // 2) + law.probabilities.max()


def test_thinning_leaves_a_short_trace_alone_and_needs_two_atoms():
    assert workload.thinned(TRACE, len(TRACE.values)) is TRACE
    with pytest.raises(ValueError, match="atoms is 1"):
        workload.thinned(TRACE, 1)


@pytest.mark.parametrize("make", [policies.sq, policies.sq_rtb, policies.las, policies.lew])
def test_a_thinned_law_has_the_waits_of_the_trace(make):
    """Means of groups have the mean of the trace, but not its second moment: that is not enough."""
    groups = jobs.empirical([part.mean() for part in np.array_split(np.sort(SIZES), 200)]).scaled(1)
    exact, thin, poor = (
        cavity.solve(0.8, law, make(2)).mean_wait for law in (TRACE, workload.thinned(TRACE, 200), groups)
    )
    assert thin == pytest.approx(exact, rel=1e-3) and poor < 0.97 * exact


@pytest.mark.parametrize("scv", [1.5, 10, 100])
@pytest.mark.parametrize("f", [0.05, 0.5, 0.95])
def test_three_moments_find_a_hyperexponential_again(scv, f):
    law = jobs.hyperexponential(scv, f).scaled(3)
    fit = workload.fit_moments(law)
    assert not fit.note
    x = np.geomspace(1e-2, 1e3, 50)
    assert fit.law.survival(x) == pytest.approx(law.survival(x), rel=1e-6)


def test_three_moments_of_the_sample():
    fit = workload.fit_moments(TRACE)
    assert [fit.law.moment(n) for n in (1, 2, 3)] == pytest.approx([TRACE.moment(n) for n in (1, 2, 3)], rel=1e-9)


def test_moments_out_of_reach_are_said():
    even = workload.fit_moments(jobs.uniform(1, 3))
    assert even.law == jobs.exponential(2) and "scv" in even.note
    flat = workload.fit_moments(jobs.discrete([0.01, 10], [0.8, 0.2]))
    assert flat.law.mean == pytest.approx(2.008) and flat.law.scv == pytest.approx(3.96, rel=0.01)
    assert "third moment" in flat.note


@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=40, unique=True), phases=st.integers(1, 4))
def test_no_step_lowers_the_likelihood_and_the_mean_is_kept(sizes, phases):
    law = jobs.empirical(sizes)
    fit = workload.fit_likelihood(law, phases)
    assert np.diff(fit.climb).min(initial=0) >= -1e-12 * abs(fit.climb).max()
    assert fit.law.mean == pytest.approx(law.mean, rel=1e-9)
    assert fit.climb[-1] == pytest.approx(np.log(fit.law.pdf(law.values)) @ law.probabilities, abs=1e-9)
    assert fit.climb[-1] >= -1 - np.log(law.mean) - 1e-3  # the exponential law is a special case


def test_one_branch_is_the_exponential_law():
    assert workload.fit_likelihood(TRACE, 1).law.survival(2.0) == pytest.approx(np.exp(-2))


@pytest.mark.parametrize("phases", [2, 3])
def test_no_optimiser_finds_a_higher_likelihood_nearby(phases):
    fit = workload.fit_likelihood(TRACE, phases)
    p, _, mu = fit.law.branches

    def lost(logs):
        p, mu = np.exp(logs[:phases]) / np.exp(logs[:phases]).sum(), np.exp(logs[phases:])
        return -TRACE.probabilities @ np.log(np.exp(-mu * TRACE.values[:, None]) @ (p * mu))

    assert -minimize(lost, np.log([*p, *mu]), method="BFGS").fun <= fit.climb[-1] + 1e-7
    assert -lost(np.log([*p, *(1.1 * mu)])) < fit.climb[-1] - 1e-4


def test_likelihood_finds_the_branches_that_made_the_sizes():
    made = jobs.hyperexponential(10, 0.5)
    fit = workload.fit_likelihood(jobs.empirical(made.sample(100_000, 3)))
    (p, _, mu), (true_p, _, true_mu) = fit.law.branches, made.branches
    assert p == pytest.approx(true_p, rel=0.05) and mu == pytest.approx(true_mu, rel=0.05)


def test_likelihood_does_not_depend_on_the_unit():
    seconds, hours = (workload.fit_likelihood(TRACE.scaled(mean), 3).law for mean in (1800, 0.5))
    assert seconds.branches[0] == pytest.approx(hours.branches[0], rel=1e-6)
    assert seconds.branches[2] == pytest.approx(hours.branches[2] / 3600, rel=1e-6)


def test_likelihood_refuses_what_has_none():
    with pytest.raises(ValueError, match=r"phases is 3; with 2 different sizes it must lie in \[1, 2\]"):
        workload.fit_likelihood(jobs.empirical([1, 2, 2]), 3)
    with pytest.raises(ValueError, match="a size of zero"):
        workload.fit_likelihood(jobs.empirical([0, 1, 2]))


def test_a_replay_is_a_stretch_of_the_trace():
    trace = np.arange(1.0, 8)
    law = workload.replayed(trace)
    starts = set()
    for seed in range(40):
        drawn = law.sample(20, seed)
        starts.add(drawn[0])
        assert drawn.tolist() == np.roll(np.tile(trace, 4), 1 - int(drawn[0]))[:20].tolist()
    assert starts == set(trace)
    assert law.scaled(1).sample(20, 0) == pytest.approx(law.sample(20, 0) / 4)
    assert law.survival(3.5) == jobs.empirical(trace).survival(3.5) and law != jobs.empirical(trace)


def test_the_simulator_keeps_the_order_of_a_replay():
    """Long and short jobs in turn, two servers in turn: one server gets all the long ones, unless the draws are free."""
    sizes, effort = np.tile([1.0, 9.0], 50), {"jobs": 20_000, "replications": 2, "seed": 1, "warmup": 1}
    ordered, free = (
        simulate(System(0.3, law.scaled(1), policies.round_robin(), 2), **effort).visits
        for law in (workload.replayed(sizes), jobs.empirical(sizes))
    )
    mean_service = [visits[:, :, 2] / visits[:, :, 0] for visits in (ordered, free)]
    assert np.sort(mean_service[0]) == pytest.approx(np.array([[0.2, 1.8]] * 2), rel=0.01)
    assert mean_service[1] == pytest.approx(np.ones((2, 2)), rel=0.05)


def test_correlation_of_known_sequences():
    assert workload.autocorrelation([1, 100] * 20, 2) == pytest.approx([-1, 1])
    assert workload.autocorrelation(np.arange(9), 1) == pytest.approx([1])
    assert np.isnan(workload.autocorrelation([2, 2, 2, 2], 2)).all()
    rng = np.random.default_rng(1)
    free = workload.autocorrelation(rng.permutation(SIZES), 20)
    assert abs(free).max() < 4 / np.sqrt(len(SIZES)) < workload.autocorrelation(SIZES, 1)[0]
    assert workload.autocorrelation(np.log(SIZES), 3) == pytest.approx(workload.autocorrelation(SIZES, 3))
    for lags in (0, 3):
        with pytest.raises(ValueError, match=rf"lags is {lags}; with 4 rows it must lie in \[1, 2\]"):
            workload.autocorrelation([1, 2, 3, 4], lags)


def test_cutoffs_are_found_where_some_are_stable():
    bound = tags.max_load(TRACE, 2).load
    assert set(workload.best_cutoffs(0.97 * bound, TRACE, 2)) == {"SITA", "TAGS"}
    assert set(workload.best_cutoffs(1.03 * bound, TRACE, 2)) == {"SITA"}
    assert workload.best_cutoffs(1.2, jobs.deterministic(), 2) == {}  # one size cannot be split
    with pytest.raises(ValueError, match="stable only for rates below 2"):
        workload.best_cutoffs(2.0, TRACE, 2)
    found = workload.best_cutoffs(1.2, TRACE, 2)
    for name, analyse in {"SITA": tags.sita, "TAGS": tags.analyse}.items():
        tried = [analyse(1.2, TRACE, found[name].cutoffs * shift).mean_delay for shift in (0.9, 0.99, 1.01, 1.1)]
        assert found[name].assignment.mean_delay <= min(tried)


def test_contenders_are_those_that_are_stable():
    mine = {"mine": policies.sq(2)}
    low, high = (workload.contenders(rate, TRACE, 2, mine) for rate in (1.0, 1.9))
    assert set(low) == {"Random", "round robin", "JSQ", "LWL", "mine", "SITA-E", "SITA", "TAGS"}
    assert set(low) - set(high) == {"TAGS"}
    assert set(workload.contenders(1.2, jobs.deterministic(), 2, {})) == {"Random", "round robin", "JSQ", "LWL"}
    for system in (*low.values(), *high.values()):
        system.require_stable()


def test_a_ranking_agrees_with_exact_means():
    systems = workload.contenders(1.0, TRACE, 2, {})
    table = pd.DataFrame(workload.rank(systems, jobs=100_000, replications=6, seed=2)).set_index("policy")
    assert table.mean_response.is_monotonic_increasing and table.behind.iloc[0] == 0 == table.behind_half.iloc[0]
    exact = {
        "SITA": tags.optimise_sita(1.0, TRACE, 2).assignment.mean_response,
        "Random": tags.random_split(1.0, TRACE, 2).mean_response,
    }
    for name, mean in exact.items():
        assert abs(table.mean_response[name] - mean) < 2 * table.half[name] < 0.6 * mean
    assert exact["Random"] > 1.5 * exact["SITA"]
    assert table.behind["JSQ"] == pytest.approx(table.mean_response["JSQ"] - table.mean_response.iloc[0])
    assert table.behind_half["JSQ"] < table.half["JSQ"]  # pairs on common random numbers


def test_another_quantity_is_ranked_too():
    systems = {policy.name: System(0.5, TRACE, policy, 1) for policy in (policies.jsq(), policies.least_work())}
    table = workload.rank(systems, jobs=2000, replications=2, quantity="mean_wait")
    assert table["mean_wait"][0] == pytest.approx(table["mean_wait"][1])  # one server: nothing to choose
