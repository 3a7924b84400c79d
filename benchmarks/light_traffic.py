"""Time of the light-traffic expansion, best of several runs: ``python benchmarks/light_traffic.py``."""

from timeit import repeat

import numpy as np

from lbkit import jobs
from lbkit.light_traffic import expand, max_rate, series

job = jobs.exponential()
distinct = np.random.default_rng(1).uniform(1, 10, 1000).tolist()
cases = {
    "derivatives, K = 1000 distinct speeds, d = 2": lambda: expand(distinct, job),
    "derivatives, K = 1000 distinct speeds, d = 10": lambda: expand(distinct, job, 10),
    "derivatives, K = 10^6 in two groups, d = 2": lambda: expand({2: 500_000, 10: 500_000}, job),
    "stability, K = 10^6 in two groups, d = 2": lambda: max_rate({2: 500_000, 10: 500_000}, job),
    "series, ten servers of two speeds, order 8": lambda: series({2: 5, 10: 5}, job),
    "series, a hundred servers of two speeds, order 8": lambda: series({2: 50, 10: 50}, job),
    "series, Erlang-2, ten servers of two speeds, order 6": lambda: series({2: 5, 10: 5}, jobs.erlang(2), 2, 6),
}
for name, call in cases.items():
    print(f"{name:<55}{1e3 * min(repeat(call, number=1, repeat=15)):9.3f} ms")
