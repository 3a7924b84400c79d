r"""A measured workload: rows of a file become a law, the law gets simpler ones beside it, and systems are ranked by it.

The law of a trace puts the mass 1/N on each of its N sizes. Every solver takes it as it is; the fits below say how much
of it a law of a few phases keeps.

========== ===========================================================================
symbol     name, shape
========== ===========================================================================
x_j, w_j   ``values`` and ``probabilities`` of the law of the trace, (n,)
p_i, mu_i  probability and rate of branch i of a hyperexponential law, (m,)
q_ji       P(branch i | size x_j), (n, m)
l          mean log-likelihood of a job, sum_j w_j ln sum_i p_i mu_i exp(-mu_i x_j)
========== ===========================================================================

Three moments: of the laws ``jobs.hyperexponential(scv, f)`` with the scv of the trace, the one with its third moment,
which rises with the share f of the work in short jobs                                                (1)
Expectation maximisation (Dempster, Laird and Rubin, 1977) repeats
    q_ji = p_i mu_i exp(-mu_i x_j) / sum_k p_k mu_k exp(-mu_k x_j)                                    (2)
    p_i = sum_j w_j q_ji,   mu_i = p_i / sum_j w_j q_ji x_j                                           (3)
l never falls, and sum_i p_i / mu_i is the mean of the trace after every step.
Thinning: the sorted sizes are cut where the mean of P(X <= x) and E[X; X <= x] / E X passes a multiple of 2 / atoms,
and each piece becomes the two-point Gauss rule of its own moments, with s = E (X - m)^3 / (2 var) about its mean m,
    x = m + s -+ r,   r = sqrt(s^2 + var),   with masses in the ratio (r + s) : (r - s)               (4)
so that three moments of the whole law are kept, and its survival function where it is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import rankdata

from lbkit import policies, tags
from lbkit.jobs import Discrete, Law, MixedErlang, discrete, empirical, exponential, hyperexponential
from lbkit.policies import Cutoffs, Policy
from lbkit.results import OptimalCutoffs
from lbkit.simulation import simulate, warmup_jobs
from lbkit.systems import System

__all__ = [
    "Fit", "Replay", "autocorrelation", "best_cutoffs", "contenders", "fit_likelihood", "fit_moments", "rank", "read",
    "replayed", "thinned",
]  # fmt: skip

BAD_ROWS = 5  # that a message lists
NOTHING = ("nan", "na", "n/a", "null", "none")  # a missing number, not the name of a column
GAIN, STEPS = 1e-9, 20_000  # a fit ends once a step gains less of the log-likelihood of a job, or after so many


@dataclass(frozen=True, slots=True)
class Fit:
    """A law fitted to a trace.

    law    the hyperexponential law
    climb  mean log-likelihood of a job at the start and after each step, (steps + 1,); empty for a fit by moments
    note   what could not be matched, or nothing
    """

    law: MixedErlang
    climb: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Replay(Discrete):
    """The law of a trace, drawn in the order of the trace: each call of ``sample`` is a stretch from a random row on.

    The end of the trace is followed by its beginning. A simulation draws blocks of ``simulation.BLOCK`` jobs, so that
    correlation from job to job is kept but where blocks meet; that of sizes with gaps is not.
    """

    trace: np.ndarray
    _sizes = ("values", "trace")

    def _sample(self, n, rng):
        return self.trace.take(rng.integers(self.trace.size) + np.arange(n), mode="wrap")


def read(path: str | Path, *, zero: bool = False) -> np.ndarray:
    """The numbers of a file, (N,), in its order and its unit: CSV (.csv, .txt) or Parquet (.parquet) of one column.

    A first line of CSV that begins with a letter and is no number is a header. ``zero`` says whether zero is permitted:
    a gap between arrivals may be zero, a size may not.

    Raises ValueError for a file that is missing, of another kind, empty or of several columns, and for rows that are
    not positive finite numbers: it names the first of them, by line in CSV and by row in Parquet.
    """
    path = Path(path)
    readers = {".csv": _csv, ".txt": _csv, ".parquet": _parquet}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: the file must end in {', '.join(readers)}, not {path.suffix or 'nothing'!r}")
    if not path.is_file():
        near = get_close_matches(path.name, [file.name for file in path.parent.glob("*")], 1)
        raise ValueError(f"{path}: there is no such file" + (f"; did you mean {near[0]!r}?" if near else ""))
    text, values, unit, first = readers[path.suffix.lower()](path)
    if not len(values):
        raise ValueError(f"{path}: the file holds no numbers")
    bad = np.flatnonzero(~((values >= 0) & (values < np.inf) & (zero | (values > 0))))
    if bad.size:
        named = [f"{unit} {first + i} holds {text[i] or 'nothing'!r}" for i in bad[:BAD_ROWS]]
        more = f" and {bad.size - BAD_ROWS} more" if bad.size > BAD_ROWS else ""
        permitted = "numbers >= 0" if zero else "numbers > 0"
        raise ValueError(f"{path}: rows must be finite {permitted}, but {', '.join(named)}{more}")
    return values


def autocorrelation(values: ArrayLike, lags: int) -> np.ndarray:
    """Rank correlation (Spearman's) of a sequence with itself 1, ..., lags rows later, (lags,); NaN if all are equal.

    Ranks, since one huge value drowns the ordinary coefficient. Independent rows give 0 +- 2 / sqrt(N).
    """
    ranks = rankdata(values)
    if not 1 <= lags < len(ranks) - 1:
        raise ValueError(f"lags is {lags}; with {len(ranks)} rows it must lie in [1, {len(ranks) - 2}]")
    if np.ptp(ranks) == 0:
        return np.full(lags, np.nan)
    return np.array([np.corrcoef(ranks[:-lag], ranks[lag:])[0, 1] for lag in range(1, lags + 1)])


def replayed(sizes: ArrayLike) -> Replay:
    """The law of a trace of sizes >= 0, (N,), sampled in its order; see ``Replay``."""
    law = empirical(sizes)
    return Replay(law.values, law.probabilities, np.array(sizes, float), label=f"replayed(<{len(sizes)} numbers>)")


def thinned(law: Discrete, atoms: int) -> Discrete:
    """A law of at most so many atoms with the mean, the second and the third moment of the given one (4).

    A law of no more atoms is returned as it is. ValueError unless atoms >= 2.
    """
    if not atoms >= 2:
        raise ValueError(f"atoms is {atoms}; it must be at least 2")
    x, p = law.values, law.probabilities
    if x.size <= atoms:
        return law
    place = (np.cumsum(p) + np.cumsum(p * x) / law.mean) / 2
    cell = np.ceil(np.minimum(place, 1) * (atoms // 2) * (1 - 1e-12))
    start = np.flatnonzero(np.diff(cell, prepend=-1))
    mass = np.add.reduceat(p, start)
    mean = np.add.reduceat(p * x, start) / mass
    off = x - np.repeat(mean, np.diff(np.append(start, x.size)))
    var, skew = (np.add.reduceat(p * off**n, start) / mass for n in (2, 3))
    s = np.divide(skew, 2 * var, out=np.zeros_like(var), where=var > 0)
    r = np.sqrt(s**2 + var)
    upper = np.divide(r - s, 2 * r, out=np.zeros_like(r), where=r > 0)  # (4)
    values = np.concatenate([mean + s - r, mean + s + r]).clip(x[0], x[-1])
    rule = discrete(values, np.concatenate([mass * (1 - upper), mass * upper]))
    return replace(rule, label=f"{law!r} thinned to {rule.values.size} atoms")


def fit_moments(law: Law) -> Fit:
    """Two exponential branches with the mean, the scv and, where one exists, the third moment of the law (1).

    A law of scv <= 1 gets the exponential law of its mean; one whose third moment is less than any such branches have
    gets f = 1/2. The note says so.
    """
    if law.scv <= 1:
        return Fit(exponential(law.mean), note=f"the scv, {law.scv:.4g}, is less than a hyperexponential has")
    goal = law.moment(3) / law.mean**3

    def excess(log_odds):
        return np.log(hyperexponential(law.scv, 1 / (1 + np.exp(-log_odds))).moment(3) / goal)

    if excess(-20) >= 0:
        note = f"the third moment, {goal:.4g} cubed means, is less than a hyperexponential of this scv has"
        return Fit(hyperexponential(law.scv, 0.5).scaled(law.mean), note=note)
    f = 1 / (1 + np.exp(-brentq(excess, -20, 20)))  # (1)
    return Fit(hyperexponential(law.scv, f).scaled(law.mean))


def fit_likelihood(law: Discrete, phases: int = 2) -> Fit:
    """The hyperexponential law of so many branches that makes the trace most likely, by expectation maximisation.

    It starts from groups of neighbouring sizes that hold equal shares of the work. The maximum is a local one; the mean
    is that of the trace, higher moments are not matched. ValueError for phases < 1 and for a size of zero, which has an
    infinite likelihood.
    """
    x, w = law.values, law.probabilities
    if not 1 <= phases <= x.size:
        raise ValueError(f"phases is {phases}; with {x.size} different sizes it must lie in [1, {x.size}]")
    if x[0] == 0:
        raise ValueError(f"{law!r} has a size of zero, whose likelihood is infinite")
    group = np.ceil(np.cumsum(w * x) / law.mean * phases * (1 - 1e-12)).astype(int) - 1
    q, climb = np.eye(phases)[np.clip(group, 0, phases - 1)] * 0.9 + 0.1 / phases, []
    while len(climb) < 2 or climb[-1] - climb[-2] > GAIN and len(climb) <= STEPS:
        p = w @ q
        mu = p / ((w * x) @ q)  # (3)
        log_joint = np.log(p * mu) - mu * x[:, None]
        log_density = logsumexp(log_joint, axis=1)
        climb.append(w @ log_density)
        q = np.exp(log_joint - log_density[:, None])  # (2)
    fastest_first = np.argsort(-mu)
    label = f"hyperexponential of {phases} branches by likelihood"
    fitted = MixedErlang(p[fastest_first], -np.diag(mu[fastest_first]), label=label)
    return Fit(fitted, np.array(climb), "" if len(climb) <= STEPS else f"not at rest after {STEPS} steps")


def best_cutoffs(rate: float, job: Law, servers: int) -> dict[str, OptimalCutoffs]:
    """Cutoffs of least mean delay under "SITA" and "TAGS", of those that some cutoffs keep stable.

    rate in jobs per unit time to the whole system, below servers / E[X]; ValueError for one that is not.
    """
    System(rate, job, policies.jsq(), servers).require_stable()
    found = {}
    for name, search in {"SITA": tags.optimise_sita, "TAGS": partial(tags.optimise, objective="delay")}.items():
        with suppress(ValueError):  # no cutoffs are stable
            found[name] = search(rate, job, servers)
    return found


def contenders(
    rate: float, job: Law, servers: int, rankings: Mapping[str, Policy], arrivals: Law | None = None
) -> dict[str, System]:
    """Systems of a few servers that compete for one workload, by name.

    rankings  policies that rank sampled servers; to them come Random, round robin, JSQ and LWL, and by size SITA-E
              (equal loads), SITA and TAGS with their best cutoffs, where these are stable
    arrivals  as for ``System``; the cutoffs are the best for Poisson arrivals

    Raises ValueError as ``best_cutoffs`` does.
    """
    blind = policies.random(), policies.round_robin(), policies.jsq(), policies.least_work()
    chosen = {policy.name: policy for policy in blind} | dict(rankings)
    chosen["SITA-E"] = policies.sita(np.unique(tags.sita_equal_load(job, servers)))
    for name, best in best_cutoffs(rate, job, servers).items():
        chosen[name] = Cutoffs(name.lower(), tuple(best.cutoffs))
    systems = {
        name: System(rate, job, policy, len(policy.cutoffs) + 1 if isinstance(policy, Cutoffs) else servers,
                     arrivals=arrivals)
        for name, policy in chosen.items()
    }  # fmt: skip
    return {name: system for name, system in systems.items() if rate < system.max_rate}


def rank(
    systems: Mapping[str, System], *, jobs: int, replications: int, seed=0, quantity: str = "mean_response"
) -> dict[str, list]:
    """Simulate systems on common random numbers and sort them by a quantity of ``Simulation``, the least first.

    Tidy columns: policy; one named after the quantity, and half, its 95 % half-width; behind and behind_half, the
    difference to the first, whose interval is the narrower one of pairs; warnings. The other arguments are those of
    ``simulate``, whose errors are raised; the warm-up is the longest that any of the systems needs.
    """
    warmup = min(jobs, max(map(warmup_jobs, systems.values())))
    effort = {"jobs": jobs, "replications": replications, "seed": seed, "warmup": warmup}
    runs = {name: simulate(system, **effort) for name, system in systems.items()}
    order = sorted(runs, key=lambda name: getattr(runs[name], quantity))
    rows = [
        (name, *runs[name].estimate(quantity)[:2], *runs[name].difference(runs[order[0]], quantity)[:2],
         "; ".join(runs[name].warnings))
        for name in order
    ]  # fmt: skip
    names = "policy", quantity, "half", "behind", "behind_half", "warnings"
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _csv(path):
    """Rows as text and as numbers, what a row is called and the number of the first one."""
    from pandas import read_csv, to_numeric
    from pandas.errors import EmptyDataError, ParserError

    raw = {"header": None, "dtype": str, "skip_blank_lines": False, "keep_default_na": False}
    try:
        rows = read_csv(path, encoding="utf-8-sig", **raw)
    except EmptyDataError:
        return [], np.empty(0), "line", 1
    except ParserError as error:
        raise ValueError(f"{path}: {str(error).strip().removeprefix('Error tokenizing data. C error: ')}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the file is not UTF-8 text") from None
    if rows.shape[1] > 1:
        raise ValueError(f"{path}: the file must have one column, not {rows.shape[1]}; write decimals with a point")
    text = rows[0].str.strip()
    values = to_numeric(text, errors="coerce").to_numpy(float)
    header = int(np.isnan(values[0]) and text[0][:1].isalpha() and text[0].lower() not in NOTHING)
    return text[header:].tolist(), values[header:], "line", 1 + header


def _parquet(path):
    from pandas import read_parquet, to_numeric
    from pyarrow import ArrowException

    try:
        table = read_parquet(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path}: the file is not Parquet ({str(error).splitlines()[0]})") from None
    if table.shape[1] != 1:
        raise ValueError(f"{path}: the file must have one column, not {', '.join(map(str, table.columns)) or 'none'}")
    column = table.iloc[:, 0]
    if column.dtype.kind not in "iufO":
        raise ValueError(f"{path}: the column must hold numbers, not {column.dtype}")
    return [*map(str, column)], to_numeric(column, errors="coerce").to_numpy(float), "row", 1
