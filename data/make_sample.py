"""Make the sample workload of the notebook own_workload. It is synthetic: nothing in it was measured.

    python data/make_sample.py [FOLDER]

writes sample_sizes.csv and sample_gaps.csv, 5000 jobs in the order of their arrival, in seconds. Jobs come in sessions.
Six of seven are interactive, of some ten jobs with lognormal sizes around 0.3 s; the others are batches of some four
jobs with bounded Pareto sizes from 1 s to 600 s. Within a session gaps are short, so that sizes are correlated from job
to job and arrivals come in bursts. Only ``random.random`` of the standard library is drawn on, whose sequence Python
guarantees, and times are rounded to a millisecond: the files come out the same, byte for byte.
"""

import math
import sys
from pathlib import Path
from random import Random
from statistics import NormalDist

SEED, JOBS = 20, 5000


def exponential(rng: Random, mean: float) -> float:
    return -mean * math.log(1 - rng.random())


def bounded_pareto(rng: Random, alpha: float, low: float, high: float) -> float:
    return low * (1 - rng.random() * (1 - (low / high) ** alpha)) ** (-1 / alpha)


def session(rng: Random) -> list[tuple[float, float]]:
    """(gap before the job, size) of the jobs of a session, in seconds."""
    interactive = rng.random() < 6 / 7
    jobs, gap = [], exponential(rng, 6.0)
    while True:
        z = NormalDist().inv_cdf(1 - rng.random() or 0.5)
        size = 0.3 * math.exp(0.9 * z) if interactive else bounded_pareto(rng, 1.3, 1, 600)
        jobs.append((gap, max(size, 0.001)))
        if rng.random() < (0.1 if interactive else 0.25):
            return jobs
        gap = exponential(rng, 0.5)


def main(folder: Path) -> None:
    rng, jobs = Random(SEED), []
    while len(jobs) < JOBS:
        jobs += session(rng)
    for name, column in zip(("gaps", "sizes"), zip(*jobs[:JOBS], strict=True), strict=True):
        lines = [f"{name}_in_seconds", *(f"{value:.3f}" for value in column)]
        (folder / f"sample_{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
