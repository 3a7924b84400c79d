"""Time of the mean-field solver against the dense method, best of several runs: ``python benchmarks/cavity.py``."""

import sys
from pathlib import Path
from timeit import repeat

import numpy as np

from lbkit import cavity, jobs, kernels, policies
from lbkit.policies import Layers
from lbkit.quadrature import Server

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from oracles.cavity import dense_map, hyperexponential  # noqa: E402


def best(call, runs=7):
    return min(repeat(call, number=1, repeat=runs))


def one_map(stages, B, r, lam, d=5):
    """Both sides of one map T, as calls, at rates that keep all B levels in use."""
    job, layers = jobs.mixed_erlang(10, 0.5, stages), Layers.every(0.1, r / 10)
    server = Server(job, layers, lam * d)
    rates = lam * np.random.default_rng(1).uniform(0.5, 1, (B, r + 1))
    rates[-1] = 0
    fast = server.Lam, server.layer_of, server.step, server.weight, *server.last
    phases = hyperexponential(10, 0.5, stages)
    return lambda: kernels.occupancy(rates, *fast, 0.0)[:2], lambda: dense_map(rates.T, layers.edges, *phases, lam)


print("one map T, equal B       ours         dense        ratio    L1 difference")
for stages, B, r, lam, runs in [(1, 30, 50, 0.8, 7), (1, 60, 200, 0.9, 3), (5, 40, 100, 0.8, 2)]:
    ours, dense = one_map(stages, B, r, lam)
    (mass, levels), law = ours(), dense().sum(axis=2)
    t, slow = best(ours, 30), best(dense, runs)
    error = np.abs(mass.T / mass.sum() - law / lam).sum()
    print(f"m={2 * stages:<3}B={levels:<4}r={r:<5}{1e6 * t:10.0f} us{1e3 * slow:10.1f} ms{slow / t:10.0f}{error:14.0e}")

print("\none map T against the number of phases, B = 40, r = 100")
for stages in (1, 2, 5, 10, 20):
    print(f"m={2 * stages:<6}{1e6 * best(one_map(stages, 40, 100, 0.8)[0], 30):10.0f} us")
print("and against B and r, m = 2")
for B, r in [(20, 100), (40, 100), (80, 100), (160, 100), (40, 200), (40, 400), (40, 800)]:
    t = best(one_map(1, B, r, 0.8)[0], 30)
    print(f"B={B:<6}r={r:<6}{1e6 * t:10.0f} us{1e9 * t / B / r:10.1f} ns for each level and layer")

ALL = {
    "SQ": policies.sq, "SQ-RE(2)": policies.sq_re, "SQ-RTB": policies.sq_rtb, "SQ-RTB-RE(2)": policies.sq_rtb_re,
    "LAS": policies.las, "LAS-QTB": policies.las_qtb, "RE(2)": policies.re, "LEW": policies.lew,
}  # fmt: skip
job = jobs.hyperexponential(10, 0.5)
print("\nwhole solution, d = 5, lam = 0.8, delta = 0.1, r = 400, HEXP(10, 1/2)")
for name, policy in ALL.items():
    print(f"{name:<16}{1e3 * best(lambda: cavity.solve(0.8, job, policy(5))):10.2f} ms")
lams = np.linspace(0.1, 0.995, 100)
curves = [best(lambda: cavity.sweep(lams, job, policy(5)), 2) for policy in ALL.values()]
print(f"a curve of 100 loads up to 0.995, all eight policies: {sum(curves):.2f} s")
