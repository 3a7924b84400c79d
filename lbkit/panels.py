"""Panels: what each study shows under its sliders.

For each study, under its name, the arguments of ``widgets.explore`` but the study itself: a function from the study to
a tidy table, quick enough to follow a hand, one that draws the table on two axes, and the same for simulated points,
which may take their time. They are plain functions, so that a table seen in a panel can be computed without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, floor, log10, pi

import numpy as np
import pandas as pd

from lbkit import balanced, cavity, chains, jobs, plots, policies
from lbkit import light_traffic as light
from lbkit import tags as guessing
from lbkit.simulation import simulate
from lbkit.studies import BalancedRouting, LightTraffic, SqdVariants, Tags
from lbkit.systems import System

__all__ = ["balanced_routing", "light_traffic", "sqd_variants", "tags"]

LAWS = {"H": "hyperexponential", "E": "exponential", "W": "Weibull", "D": "deterministic"}
FARM = 1000  # servers at most of a farm simulated for the mean field


# SQ(d) variants: E[W] against the load, and the gain over SQ(d)


def waits(study: SqdVariants) -> Iterator[pd.DataFrame]:
    """Columns policy, lam, mean_wait, improvement: first at every fourth load, if this is much quicker, then at all."""
    job, rivals = _sizes(study), _rankings(study)
    loads = np.linspace(study.lam_low, study.lam_high, min(study.loads, 100))
    for some in (loads[:: len(loads) // 20], loads) if set(rivals) - {"SQ", "RE"} and len(loads) > 40 else (loads,):
        table = pd.DataFrame(cavity.compare(some, job, rivals, rivals.get("SQ", policies.sq(study.d)), tol=1e-6))
        yield table.assign(here=study.lam)


def draw_waits(table, axes):
    left, right = axes
    fresh = plots.redraw(table, "lam", "mean_wait", left) + plots.redraw(table, "lam", "improvement", right)
    _here(axes, table)
    return _dress(fresh, axes, (
        dict(title="mean wait", x="load", y="E[W] (mean job sizes)", yscale="log", ylim=(1e-3, 100), xlim=(0, 1)),
        dict(title="gain over SQ(d)", x="load", y="1 - E[W] / E[W] of SQ(d)", legend=None, ylim=(-0.5, 1), xlim=(0, 1)),
    ))  # fmt: skip


def simulated_waits(study: SqdVariants, tell: Callable[[float], None]) -> Iterator[pd.DataFrame]:
    """Columns policy, lam, wait, half at the study's load, for as many servers as it simulates, FARM at most."""
    servers = min(max(study.servers), FARM)
    rate, job = study.lam * servers, _sizes(study)
    points = [(name, study.lam, System(rate, job, policy, servers)) for name, policy in _rankings(study).items()]
    yield from _estimates(study, points, ("policy", "lam", "wait"), "mean_wait", tell)


def mark_waits(points, axes):
    plots.points(points, "lam", "wait", "half", axes[0], legend=False)


def _sizes(study):
    return jobs.mixed_erlang(study.scv, study.f, study.k)


def _rankings(study):
    """{name: policy} of the policies that are compared."""
    d, T, layers = study.d, study.threshold, {"delta": study.delta, "c_max": study.c_max}
    make = {
        "SQ": lambda: policies.sq(d), "SQ-RTB": lambda: policies.sq_rtb(d, **layers),
        "SQ-RE": lambda: policies.sq_re(d, T), "SQ-RTB-RE": lambda: policies.sq_rtb_re(d, T, **layers),
        "LAS": lambda: policies.las(d, **layers), "LAS-QTB": lambda: policies.las_qtb(d, **layers),
        "RE": lambda: policies.re(d, T), "LEW": lambda: policies.lew(d, **layers),
    }  # fmt: skip
    return {name: make[name]() for name in study.compared}


sqd_variants = dict(
    compute=waits, draw=draw_waits, simulate=simulated_waits, mark=mark_waits, columns=2,
    controls=("scv", "f", "k", "d", "threshold", "lam", "compared"),
)  # fmt: skip


# light traffic: E[R] near zero load, and up to the largest stable rate


def responses(study: LightTraffic) -> pd.DataFrame:
    """Columns range, law, lam, response: the Taylor polynomial of order d, and the interpolation up to .95 lam_c."""
    groups = _groups(study)
    limit = light.max_rate(groups, jobs.exponential(), study.d).rate
    near, far = (np.linspace(0, end, 60) for end in (study.lam_high, 0.95 * limit))
    parts = []
    for law in study.laws:
        job = _law(study, law)
        for name, lams, method in (("near zero", near, light.expand), ("up to the limit", far, light.interpolate)):
            response = method(groups, job, study.d)(lams)
            parts.append(pd.DataFrame({"range": name, "law": LAWS[law], "lam": lams, "response": response}))
    return pd.concat(parts)


def draw_responses(table, axes):
    fresh = 0
    for ax, (_, part) in zip(axes, table.groupby("range", sort=False)):
        fresh += plots.redraw(part, "lam", "response", ax, by="law")
        ax.set(xlim=(0, part.lam.max()), ylim=(0, _round_up(part.response.max())))
    rate = "arrival rate (jobs per unit time)"
    return _dress(fresh, axes, (
        dict(title="Taylor polynomial of order d", x=rate, y="E[R] (units of time)"),
        dict(title="interpolation up to 0.95 of the limit", x=rate, legend=None),
    ))  # fmt: skip


def simulated_responses(study: LightTraffic, tell: Callable[[float], None]) -> Iterator[pd.DataFrame]:
    """Columns law, lam, response, half at the study's rates."""
    policy, speeds = policies.sq(study.d), np.repeat(*zip(*_groups(study)))
    points = [
        (LAWS[law], rate, System(rate, _law(study, law), policy, speeds=speeds))
        for rate in study.rates
        for law in study.laws
    ]
    yield from _estimates(study, points, ("law", "lam", "response"), "mean_response", tell)


def mark_responses(points, axes):
    for ax in axes:
        plots.points(points, "lam", "response", "half", ax, by="law", legend=False)


def _groups(study):
    groups = (study.slow, study.slow_servers), (study.fast, study.fast_servers)
    return [(speed, servers) for speed, servers in groups if servers]


def _law(study, name):
    return {
        "H": lambda: jobs.hyperexponential(study.scv, 1 / 3), "E": jobs.exponential, "W": lambda: jobs.weibull(2),
        "D": jobs.deterministic,
    }[name]()  # fmt: skip


light_traffic = dict(
    compute=responses, draw=draw_responses, simulate=simulated_responses, mark=mark_responses, columns=2,
    controls=("slow", "fast", "slow_servers", "fast_servers", "d", "scv", "lam_high", "laws"),
)  # fmt: skip


# TAGS: the mean wait against the load, and the loads of the servers at the best cutoffs


def assignments(study: Tags) -> Iterator[pd.DataFrame]:
    """Columns policy, rho, wait, and policy, server, load at the study's load: at five loads, then at thirteen."""
    job, h = jobs.bounded_pareto(study.alpha, 1, study.ratio), study.h
    limit = guessing.max_load(job, h).load
    at_best = []
    for name, search in (("TAGS", guessing.optimise), ("SITA", guessing.optimise_sita)):
        best = search(study.rho / job.mean, job, h).assignment
        servers = np.arange(1, len(best.loads) + 1)
        at_best.append(pd.DataFrame({"policy": name, "server": servers, "load": best.loads}))
    waits = {
        "TAGS": lambda lam: guessing.optimise(lam, job, h).value,
        "SITA": lambda lam: guessing.optimise_sita(lam, job, h).value,
        "Random": lambda lam: guessing.random_split(lam, job, h).mean_wait,
        "LWR": lambda lam: guessing.least_work(lam, job, h).mean_wait,
    }
    for n in (5, 13):
        loads = 0.97 * limit * np.sin(np.linspace(0.1, 1, n) * pi / 2) ** 2  # closer where curves bend
        rows = [(policy, rho, wait(rho / job.mean)) for policy, wait in waits.items() for rho in loads]
        yield pd.concat([pd.DataFrame(rows, columns=["policy", "rho", "wait"]), *at_best]).assign(here=study.rho, h=h)


def draw_assignments(table, axes):
    left, right = axes
    waits, loads = table[table.wait.notna()], table[table.load.notna()]
    fresh = plots.redraw(waits, "rho", "wait", left) + plots.redraw(loads, "server", "load", right)
    for line in right.lines:
        line.set_marker("o")
    h, top = int(table.h.iloc[0]), 10 ** ceil(log10(waits.wait.max()))
    left.set(xlim=(0, waits.rho.max()), ylim=(top / 1e6, top))
    right.set(xlim=(0.8, h + 0.2), xticks=range(1, h + 1))
    _here([left], table)
    return _dress(fresh, axes, (
        dict(title="mean wait at the best cutoffs", x="load (of one server)", y="W (least size)", yscale="log"),
        dict(title="loads of the servers", x="server", y="load", legend=None, ylim=(0, 1)),
    ))  # fmt: skip


def simulated_assignments(study: Tags, tell: Callable[[float], None]) -> Iterator[pd.DataFrame]:
    """Columns policy, rho, wait, half at the study's load."""
    job, h = jobs.bounded_pareto(study.alpha, 1, study.ratio), study.h
    lam = study.rho / job.mean
    guess, known = guessing.optimise(lam, job, h), guessing.optimise_sita(lam, job, h)
    rules = [
        ("TAGS", policies.tags(guess.cutoffs), guess.servers_used),
        ("SITA", policies.sita(known.cutoffs), known.servers_used),
        ("Random", policies.random(), h),
        ("LWR", policies.least_work(), h),
    ]
    points = [(name, study.rho, System(lam, job, policy, servers)) for name, policy, servers in rules]
    yield from _estimates(study, points, ("policy", "rho", "wait"), "mean_wait", tell)


def mark_assignments(points, axes):
    plots.points(points, "rho", "wait", "half", axes[0], legend=False)


tags = dict(
    compute=assignments, draw=draw_assignments, simulate=simulated_assignments, mark=mark_assignments, columns=2,
    controls=("alpha", "ratio", "rho", "h"),
)  # fmt: skip


# balanced routing: how levels merge, and E[Q] against the load


def queues(study: BalancedRouting) -> Iterator[pd.DataFrame]:
    """Columns server, t, level of the fluid path, and rule, load, queue; then an exact chain at the load rho too."""
    mu, scv = np.array(study.rates), study.scv
    path = balanced.fluid_path(mu, study.start, study.c, study.scheme, load=study.rho)
    end = 1.5 * max(balanced.fluid_path(mu, study.start, 2, study.scheme).balance_time, 1.0)
    t = np.linspace(0, end, 60)
    fluid = [
        pd.DataFrame({"server": f"server {k + 1} (rate {m:g})", "t": t, "level": level})
        for k, (m, level) in enumerate(zip(mu, path(t).T))
    ]
    loads = 1 - np.geomspace(0.9, 0.005, 60)
    curves = {
        "limit, c = 1": [balanced.diffusion(mu, load, cs2=scv, c=1).mean_queue for load in loads],
        "limit, c >= 2": [balanced.diffusion(mu, load, cs2=scv).mean_queue for load in loads],
        "pooled server": [balanced.pooled_workload(load, scv) - load * (scv - 1) / 2 for load in loads],
    }
    rules = [pd.DataFrame({"rule": rule, "load": loads, "queue": queue}) for rule, queue in curves.items()]
    yield pd.concat([*fluid, *rules]).assign(here=study.rho)
    if scv == 1 and study.c > 1:
        exact = chains.exact_chain(mu, study.rho, study.c, study.scheme, tol=1e-3).mean_queue
        dot = pd.DataFrame({"rule": f"exact, c = {study.c}", "load": [study.rho], "queue": [exact]})
        yield pd.concat([*fluid, *rules, dot]).assign(here=study.rho)


def draw_queues(table, axes):
    left, right = axes
    levels, means = table[table.level.notna()], table[table["queue"].notna()]
    fresh = plots.redraw(levels, "t", "level", left, by="server")
    fresh += plots.redraw(means, "load", "queue", right, by="rule")
    for line in right.lines:
        line.set_marker("D" if line.get_label().startswith("exact") else "")
    left.set(xlim=(0, levels.t.max()), ylim=(0, _round_up(levels.level.max())))
    _here([right], table)
    return _dress(fresh, axes, (
        dict(title="fluid levels", x="time, in units of n", y="queue / n"),
        dict(title="jobs in the system", x="load", y="E[Q]", yscale="log", xlim=(0, 1), ylim=(0.1, 2000)),
    ))  # fmt: skip


def simulated_queues(study: BalancedRouting, tell: Callable[[float], None]) -> Iterator[pd.DataFrame]:
    """Columns rule, load, queue, half at the study's load."""
    rate, job = study.rho * sum(study.rates), jobs.hyperexponential(study.scv)
    points = [
        (f"c = {looks}", study.rho, System(rate, job, policies.balanced(looks, study.scheme), speeds=study.rates))
        for looks in sorted({1, study.c})
    ]
    yield from _estimates(study, points, ("rule", "load", "queue"), "mean_jobs", tell)


def mark_queues(points, axes):
    plots.points(points, "load", "queue", "half", axes[1], by="rule", legend=False)


balanced_routing = dict(
    compute=queues, draw=draw_queues, simulate=simulated_queues, mark=mark_queues, columns=2,
    controls=("c", "scheme", "rho", "scv"),
)  # fmt: skip


def _estimates(study, points, names, estimate, tell):
    """Rows (label, x, estimate, half-width) of points (label, x, system), one after the other."""
    rows = []
    for label, x, system in points:
        found = simulate(
            system, jobs=study.simulated_jobs, replications=study.replications, seed=study.seed,
            start="cavity" if system.servers == FARM else "empty",
            progress=lambda share: tell((len(rows) + share) / len(points)),
        )  # fmt: skip
        rows.append((label, x, *found.estimate(estimate)[:2]))
        yield pd.DataFrame(rows, columns=[*names, "half"])


def _round_up(value):
    """The least of 1, 1.5, 2, 3, 4, 5, 7 and their decades that leaves some room above a value."""
    decade = 10.0 ** floor(log10(1.02 * value))
    return next(step * decade for step in (1, 1.5, 2, 3, 4, 5, 7, 10) if step * decade >= 1.02 * value)


def _here(axes, table):
    """A thin line where the study's load is."""
    for ax in axes:
        held = [line for line in ax.lines if line.get_gid() == "here"]
        line = held[0] if held else ax.axvline(0, color="0.5", lw=1, gid="here")
        line.set_xdata([table.here.iloc[0]] * 2)


def _dress(fresh, axes, furniture):
    """Titles, labels and a legend, where lines came or went."""
    for ax, what in zip(axes, furniture) if fresh else ():
        plots.dress(ax, **what)
    return bool(fresh)
