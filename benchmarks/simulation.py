"""SQ(2) side by side: lbkit, plain C with the same algorithm, C with an event heap, SimPy and Ciw.

    pip install -r benchmarks/requirements.txt
    python benchmarks/simulation.py [rounds]

Every program keeps the response time of each job, runs on one processor and is timed in CPU seconds. The rounds take
turns between the programs, and the best round counts. Needs gcc; SimPy and Ciw are left out where they are missing.
"""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lbkit import System, jobs, policies, simulate
from lbkit.protocols import empty_servers
from lbkit.simulation import sample_path

try:
    import ciw
    import simpy
except ImportError:
    ciw = simpy = None

LOAD = 0.9


def hyperexponential(scv):
    """Probability and means of two branches of equal work, unit mean."""
    p = (1 + ((scv - 1) / (scv + 1)) ** 0.5) / 2
    return p, 0.5 / p, 0.5 / (1 - p)


def size(scv):
    p, short, long = hyperexponential(scv) if scv > 1 else (1, 1, 1)
    return lambda: random.expovariate(1 / (short if random.random() < p else long))


def with_lbkit(servers, scv, n):
    job = jobs.exponential() if scv == 1 else jobs.hyperexponential(scv)
    system = System(LOAD * servers, job, policies.sq(2), servers=servers)
    start = time.process_time()
    found = simulate(system, jobs=n, replications=1, warmup=0, seed=1, workers=1)
    return time.process_time() - start, found.mean_response


def with_c(algorithm, servers, scv, n, program):
    out = subprocess.run(
        [program, algorithm, *map(str, (servers, LOAD, n, scv, 1))], capture_output=True, text=True, check=True
    )
    seconds, _, response = map(float, out.stdout.split())
    return seconds, response


def with_simpy(servers, scv, n):
    draw, responses = size(scv), []
    random.seed(1)
    environment = simpy.Environment()
    stations = [simpy.Resource(environment) for _ in range(servers)]

    def serve(station):
        arrived = environment.now
        with station.request() as turn:
            yield turn
            yield environment.timeout(draw())
        responses.append(environment.now - arrived)

    def arrive():
        for _ in range(n):
            yield environment.timeout(random.expovariate(LOAD * servers))
            one, two = random.sample(stations, 2)
            environment.process(serve(min(one, two, key=lambda s: s.count + len(s.queue))))

    start = time.process_time()
    environment.process(arrive())
    environment.run()
    return time.process_time() - start, float(np.mean(responses))


def with_ciw(servers, scv, n):
    """A first node without service sends each job to one of two others."""

    class OneOfTwo(ciw.routing.NodeRouting):
        def next_node(self, individual):
            return min(random.sample(self.simulation.nodes[2:-1], 2), key=lambda node: node.number_of_individuals)

    class Away(ciw.routing.NodeRouting):
        def next_node(self, individual):
            return self.simulation.nodes[-1]

    p, short, long = hyperexponential(scv) if scv > 1 else (0.5, 1, 1)
    service = ciw.dists.HyperExponential([1 / short, 1 / long], [p, 1 - p])
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(LOAD * servers)] + [None] * servers,
        service_distributions=[ciw.dists.Deterministic(0)] + [service] * servers,
        routing=ciw.routing.NetworkRouting(routers=[OneOfTwo()] + [Away()] * servers),
        number_of_servers=[float("inf")] + [1] * servers,
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    start = time.process_time()
    simulation.simulate_until_max_customers(n)
    seconds = time.process_time() - start
    records = [r for r in simulation.get_all_records() if r.node > 1]
    return seconds, float(np.mean([r.exit_date - r.arrival_date for r in records]))


def compare(servers, scv, programs, rounds):
    best = {name: (np.inf, np.nan) for name in programs}
    for _ in range(rounds):
        for name, (run, n) in programs.items():
            seconds, response = run(servers, scv, n)
            best[name] = min(best[name], (seconds / n, response))
    print(f"\nSQ(2), {servers} servers, load {LOAD}, scv {scv}", flush=True)
    for name, (seconds, response) in best.items():
        ratio = seconds / best["lbkit"][0]
        print(f"  {name:<22}{1e-6 / seconds:>11.5f} M jobs/s   lbkit: {ratio:>9.2f} times   E[R] = {response:.3f}")


def compiled(folder, places):
    """The C program with rings of so many places."""
    program, source = f"{folder}/sq_simulator_{places}", Path(__file__).with_name("sq_simulator.c")
    subprocess.run(["gcc", "-O3", "-march=native", f"-DPLACES={places}", "-o", program, source, "-lm"], check=True)
    return program


def main(rounds=3):
    with tempfile.TemporaryDirectory() as folder:
        for servers, scv, places in ((1000, 1, 14), (1000, 10, 126), (10, 1, 30), (10, 10, 126), (10**6, 1, 14)):
            program, n = compiled(folder, places), 10**7 if servers < 10**6 else 2 * 10**7
            with_lbkit(servers, scv, 10_000)  # loads the kernels
            programs = {"lbkit": (with_lbkit, n)}
            for name, algorithm in {"C, the same algorithm": "ring", "C, event heap": "heap"}.items():
                programs[name] = (lambda *system, how=algorithm: with_c(how, *system, program), n)
            if simpy and servers < 10**6:
                programs |= {"SimPy": (with_simpy, 10**5), "Ciw": (with_ciw, 1000 if servers == 1000 else 20_000)}
            compare(servers, scv, programs, rounds)
    for capacity in (6, 14, 30):
        rows = empty_servers(System(1, jobs.exponential(), policies.sq(2), servers=1000), capacity).rows
        print(f"rings of {capacity} places: {rows.nbytes / 1000:.0f} bytes per server")
    start, system = time.process_time(), System(10, jobs.exponential(), policies.balanced(2), servers=10)
    sample_path(system, np.linspace(0, 5e5, 1001), start=[1000] * 10)
    print(f"path of K = 10 at load one, 10^7 events, seen 1001 times: {time.process_time() - start:.2f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
