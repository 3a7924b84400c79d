"""A plain event-driven simulator: one heap of arrivals and departures, queues that hold jobs. No lbkit here.

It knows nothing of rings or of departures ahead of time: the system changes at events; a policy sees it as it stands.
"""

import heapq
from collections import deque
from math import exp, inf


class Server:
    def __init__(self, speed):
        self.speed, self.jobs, self.begun = speed, deque(), 0.0

    def age(self, now):
        return now - self.begun

    def work(self, now):
        """Time until the server is empty if nothing else comes."""
        if not self.jobs:
            return 0.0
        return sum(size for _, _, size in self.jobs) / self.speed - self.age(now)


def run(gaps, sizes, choose, speeds, watch=()):
    """FCFS servers: choose(servers, now, size, number) names the server that a job joins.

    Returns the waits and responses of the jobs by number, the server of each, and the lengths at the times watch.
    At equal times departures come before arrivals, and both before a look.
    """
    servers = [Server(speed) for speed in speeds]
    waits, responses, where, seen = {}, {}, {}, []
    events, now = [(time, 2, n) for n, time in enumerate(watch)], 0.0
    for number, gap in enumerate(gaps):
        now += gap
        events.append((now, 1, number))
    heapq.heapify(events)

    def begin(s, now):
        number, arrived, size = servers[s].jobs[0]
        servers[s].begun, waits[number] = now, now - arrived
        heapq.heappush(events, (now + size / servers[s].speed, 0, s))

    while events:
        now, kind, n = heapq.heappop(events)
        if kind == 0:
            number, arrived, _ = servers[n].jobs.popleft()
            responses[number] = now - arrived
            if servers[n].jobs:
                begin(n, now)
        elif kind == 1:
            s = where[n] = choose(servers, now, sizes[n], n)
            servers[s].jobs.append((n, now, sizes[n]))
            if len(servers[s].jobs) == 1:
                begin(s, now)
        else:
            seen.append([len(server.jobs) for server in servers])
    jobs = range(len(gaps))
    return [waits[n] for n in jobs], [responses[n] for n in jobs], [where[n] for n in jobs], seen


def tags(gaps, sizes, cutoffs):
    """Waits (summed over the servers visited) and responses under TAGS, by events."""
    limits, queues = [*cutoffs, inf], [deque() for _ in range(len(cutoffs) + 1)]
    waits, responses, arrived = [0.0] * len(gaps), [0.0] * len(gaps), []
    events, now = [], 0.0
    for number, gap in enumerate(gaps):
        now += gap
        arrived.append(now)
        events.append((now, 1, 0, number))
    heapq.heapify(events)

    def begin(server, now):
        number, since = queues[server][0]
        waits[number] += now - since
        heapq.heappush(events, (now + min(sizes[number], limits[server]), 0, server, number))

    while events:
        now, arrival, server, number = heapq.heappop(events)
        if arrival:
            queues[server].append((number, now))
            if len(queues[server]) == 1:
                begin(server, now)
            continue
        queues[server].popleft()
        if sizes[number] > limits[server]:
            heapq.heappush(events, (now, 1, server + 1, number))
        else:
            responses[number] = now - arrived[number]
        if queues[server]:
            begin(server, now)
    return waits, responses


def best_of(rank, candidates):
    """Join the candidate of smallest rank(server, now), an idle one first; the first of several in the order given."""

    def choose(servers, now, size, number):
        return min(candidates[number], key=lambda s: (1, rank(servers[s], now)) if servers[s].jobs else (0, 0))

    return choose


def gi_m_1(transform, rho):
    """Mean wait in GI/M/1 with unit mean services and arrivals of rate rho; transform(s) = E exp(-s gap)."""
    sigma = 0.5
    for _ in range(2000):
        sigma = transform(1 - sigma)
    return sigma / (1 - sigma)


def deterministic_gap(rho):
    return lambda s: exp(-s / rho)


def erlang_gap(k, rho):
    return lambda s: (1 + s / (k * rho)) ** -k
