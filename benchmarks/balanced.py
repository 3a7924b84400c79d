"""Timings of the fluid paths and of the exact chains of balanced routing: ``python benchmarks/balanced.py``."""

import time

import numpy as np

from lbkit.balanced import fluid_path
from lbkit.chains import exact_chain


def seconds(call, repeats: int) -> float:
    """Best CPU time of one call."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def main():
    rng = np.random.default_rng(1)
    distinct, three = rng.uniform(0.5, 3, 12), np.repeat([0.5, 1.0, 2.5], [40, 35, 25])
    cases = {
        "K=3": (np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 0.0])),
        "K=12, distinct rates": (distinct, rng.uniform(0, 5, 12)),
        "K=100, one rate": (np.ones(100), rng.uniform(0, 5, 100)),
        "K=100, one long queue": (np.ones(100), np.r_[100.0, np.zeros(99)]),
        "K=100, three rates": (three, rng.uniform(0, 5, 100)),
    }
    for name, (rates, start) in cases.items():
        for scheme in ("sum", "with", "succ"):
            path = fluid_path(rates, start, 2, scheme)
            cost = seconds(lambda: fluid_path(rates, start, 2, scheme), 3)  # noqa: B023
            print(f"fluid {name:22} {scheme:5} {len(path.times):4} pieces  T={path.balance_time:9.5f}"
                  f"  bound={path.bound:9.5f}  {1e3 * cost:8.2f} ms")
    for rates, rho, c, scheme in (([1, 1], 0.9, 2, "with"), ([1, 3], 0.99, 2, "with"), ([1, 2, 3], 0.9, 3, "sum"),
                                  ([1, 2, 3], 0.9, 2, "succ"), ([1, 2, 3], 0.9, 2, "with")):
        chain = exact_chain(rates, rho, c, scheme)
        cost = seconds(lambda: exact_chain(rates, rho, c, scheme), 1)  # noqa: B023
        print(f"chain {rates!s:10} rho={rho} {scheme} c={c}  {chain.levels.size:7} states"
              f"  E[Q]={chain.mean_queue:.8f} +- {chain.truncation:.0e}  {cost:6.2f} s")


if __name__ == "__main__":
    main()
