"""CPU times of the TAGS solvers, best of several runs: ``python benchmarks/tags.py`` from the root."""

from time import process_time
from timeit import repeat

from lbkit import jobs, tags

laws = (
    jobs.bounded_pareto(1, 1, 1e6), jobs.bounded_pareto(1.5, 1, 1e10), jobs.exponential(), jobs.hyperexponential(20),
    jobs.lognormal(100), jobs.empirical(jobs.lognormal(100).sample(100_000, seed=1)),
)  # fmt: skip
for job in laws:
    for h in (2, 3, 8):
        lam = 0.8 / job.mean
        cases = {
            "max_load": lambda: tags.max_load(job, h),
            "optimise": lambda: tags.optimise(lam, job, h),
            "optimise delay": lambda: tags.optimise(lam, job, h, objective="delay"),
        }
        for name, call in cases.items():
            label = f"{name}, {h} servers, {job}"
            print(f"{label:<75}{1e3 * min(repeat(call, timer=process_time, number=1, repeat=7)):9.1f} ms")
