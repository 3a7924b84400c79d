"""Every compiled function: numbers in, numbers out. One module holds all, so that numba's disk cache sees every change.

Mean field (the equations are numbered in ``cavity``): ``poisson_weights``, ``arrival_rates``, ``climb``,
``occupancy``, ``change``, ``mix``. Simulation (numbered in ``simulation``): servers as rings of departure times, a
kernel per kind of policy, statistics.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

TINY = 1e-100  # flushed to zero: denormal numbers would slow the recursions several-fold


@njit(cache=True, nogil=True)
def poisson_weights(ages, mass, piece_start, rate, terms):
    """w[s, n] = int Pois(n; rate (a - c_s)) dm(a) over sublayer s, from quadrature nodes (5).

    ages, mass    (P, G) ages since the start of the sublayer, and quadrature weight times survival there
    piece_start   (S+1,) sublayer s owns the pieces piece_start[s]:piece_start[s+1]
    Returns (S, terms).
    """
    weights = np.zeros((len(piece_start) - 1, terms))
    for s in range(len(weights)):
        for piece in range(piece_start[s], piece_start[s + 1]):
            for g in range(ages.shape[1]):
                mean = rate * ages[piece, g]
                term = mass[piece, g] * np.exp(-mean)
                for n in range(terms):
                    weights[s, n] += term
                    term *= mean / (n + 1)
    return weights


@njit(cache=True, nogil=True)
def arrival_rates(place, mass, lam, sampled, chances):
    """lambda_act(l, k) from the occupancy and the rank table (1).

    place     (L, r+1) ranks as small integers
    mass      (L, r+1) occupancy x of the busy states
    sampled   (D,) numbers of sampled servers, chances (D,) their probabilities
    Returns (L, r+1).
    """
    above = np.zeros(place.max() + 2)
    for l in range(place.shape[0]):
        for k in range(place.shape[1]):
            above[place[l, k]] += mass[l, k]
    for v in range(len(above) - 2, -1, -1):
        above[v] += above[v + 1]  # U(v); above[v+1] is V(v)
    rate = np.zeros(len(above) - 1)
    for v in range(len(rate)):
        for i in range(len(sampled)):
            total, power = 0.0, 1.0
            for _ in range(sampled[i]):  # sum of U^i V^(d-1-i), after Horner
                total = total * above[v + 1] + power
                power *= above[v]
            rate[v] += lam * chances[i] * total  # (1)
        if rate[v] < TINY:
            rate[v] = 0.0
    rates = np.empty(place.shape)
    for l in range(place.shape[0]):
        for k in range(place.shape[1]):
            rates[l, k] = rate[place[l, k]]
    return rates


@njit(cache=True, nogil=True, fastmath={"contract"})
def climb(now, below, Lam, layer_of, step, weight, u, own, phase0, exits, flows, cells, collocation, share, tail, mass):
    """One level of the level-cut recursion (7)-(9): from level l-1 to level l, in place.

    now, below    (r+1,) arrival rates at levels l and l-1
    layer_of      (S,) layer of each sublayer; step, weight (S, q): Poisson weights p, w
    u             (S, q) uniformised states of level l-1, replaced by those of level l; own (S, q) scratch
    phase0        (m,) alpha exp(A c_r); exits (m,), flows (m, m): -diag(A), off-diagonal part of upper triangular A
    cells         (C,) widths of the age cells of the last layer when it is collocated, else empty
    collocation   (p, p) Radau matrix; share (C, p) integration weights with survival
    tail          (m,) or (C, p) flattened state of the last layer at level l-1, replaced
    mass          (r+1,) output: occupancy of level l by layer
    Returns the flow of arrivals out of level l.
    """
    own_end, driven_end = 1.0, 0.0
    own_flow, driven_flow = 0.0, 0.0
    last = len(now) - 1
    own_mass, driven_mass = np.zeros(last + 1), np.zeros(last + 1)
    for s in range(len(layer_of)):
        k = layer_of[s]
        stay, move = 1 - now[k] / Lam, below[k] / Lam
        a, b = own_end, driven_end
        own_end, driven_end = 0.0, 0.0
        own_sum, driven_sum = 0.0, 0.0
        for n in range(u.shape[1]):
            own_sum += weight[s, n] * a
            driven_sum += weight[s, n] * b
            own_end += step[s, n] * a
            driven_end += step[s, n] * b
            drive = u[s, n] * move
            own[s, n], u[s, n] = a, b
            a *= stay
            b = b * stay + drive
        own_end = own_end if own_end > TINY else 0.0
        own_mass[k] += own_sum
        driven_mass[k] += driven_sum
    own_tail, driven_tail = np.zeros(len(tail)), np.zeros(len(tail))
    if len(cells) == 0:
        for j in range(len(phase0)):
            a, b = own_end * phase0[j], driven_end * phase0[j] + below[last] * tail[j]
            for i in range(j):
                a += own_tail[i] * flows[i, j]
                b += driven_tail[i] * flows[i, j]
            own_tail[j] = a / (now[last] + exits[j])
            driven_tail[j] = b / (now[last] + exits[j])
            own_mass[last] += own_tail[j]
            driven_mass[last] += driven_tail[j]
    else:
        p = len(collocation)
        rhs = np.empty((p, 2))
        for c in range(len(cells)):
            drive = np.dot(collocation, tail[c * p : (c + 1) * p])
            for i in range(p):
                rhs[i, 0] = own_end
                rhs[i, 1] = driven_end + cells[c] * below[last] * drive[i]
            y = np.linalg.solve(np.eye(p) + cells[c] * now[last] * collocation, rhs)
            for i in range(p):
                own_tail[c * p + i], driven_tail[c * p + i] = y[i, 0], y[i, 1]
                own_mass[last] += share[c, i] * y[i, 0]
                driven_mass[last] += share[c, i] * y[i, 1]
            own_end, driven_end = max(y[p - 1, 0], 0.0), max(y[p - 1, 1], 0.0)
            if own_end < TINY:
                own_end = 0.0
    for k in range(last + 1):
        own_flow += now[k] * own_mass[k]
        driven_flow += now[k] * driven_mass[k]
    start = driven_flow / (1 - own_flow) if driven_mass.sum() > 0 else 1.0  # v(1) = 1, (8)
    for s in range(len(layer_of)):
        for n in range(u.shape[1]):
            value = u[s, n] + start * own[s, n]
            u[s, n] = value if value > TINY else 0.0
    for i in range(len(tail)):
        tail[i] = start * own_tail[i] + driven_tail[i]
    flow = 0.0
    for k in range(last + 1):
        mass[k] = start * own_mass[k] + driven_mass[k]
        flow += now[k] * mass[k]
    return flow


@njit(cache=True, nogil=True)
def occupancy(rates, Lam, layer_of, step, weight, phase0, exits, flows, cells, collocation, share, negligible):
    """The map T: occupancy (L, r+1) up to scale for given arrival rates (L, r+1), level by level.

    Stops at the level whose outflow, relative to that of level 1, is at most ``negligible`` or has grown beyond bounds.
    Returns the occupancy, the number of levels used, the last relative outflow (0 and inf in these two cases), and the
    state of the last level: u (S, q) and tail.
    """
    mass = np.zeros(rates.shape)
    u, own = np.zeros(weight.shape), np.zeros(weight.shape)
    tail = np.zeros(max(len(phase0), share.size))
    below, first, flow = np.zeros(rates.shape[1]), 0.0, 0.0
    for l in range(len(rates)):
        flow = climb(rates[l], below, Lam, layer_of, step, weight, u, own,
                     phase0, exits, flows, cells, collocation, share, tail, mass[l])  # fmt: skip
        below = rates[l]
        if l == 0:
            first = flow
        if flow <= negligible * first:
            return mass, l + 1, 0.0, u, tail
        if not flow < 1e100 * first:
            return mass, l + 1, np.inf, u, tail
    return mass, len(rates), flow / first, u, tail


@njit(cache=True, nogil=True)
def change(x, image):
    """L1 distance of two occupancies (L, r+1), the change of the mean number waiting, and that number of the image."""
    distance, gained, waiting = 0.0, 0.0, 0.0
    for l in range(x.shape[0]):
        moved, mass = 0.0, 0.0
        for k in range(x.shape[1]):
            distance += abs(image[l, k] - x[l, k])
            moved += image[l, k] - x[l, k]
            mass += image[l, k]
        gained += l * moved
        waiting += l * mass
    return distance, gained, waiting


@njit(cache=True, nogil=True)
def mix(points, images, newest, differences, levels):
    """Anderson's next point (L, r+1), up to scale, from rings of points and their images (n, L, r+1).

    newest, differences   position of the last point, and how many steps back to look
    Entries that would fall below a tenth of the image stay with the image.
    """
    n, image = len(points), images[newest]
    gram, projection = np.zeros((differences, differences)), np.zeros(differences)
    step = np.empty((differences, image.shape[1]))
    for l in range(levels):
        for i in range(differences):
            a, b = (newest - i - 1) % n, (newest - i) % n
            step[i] = (images[b, l] - points[b, l]) - (images[a, l] - points[a, l])
        gram += step @ step.T
        projection += step @ (image[l] - points[newest, l])
    gamma = np.linalg.lstsq(gram, projection, 1e-14)[0]
    mixed = image.copy()
    for l in range(levels):
        for k in range(image.shape[1]):
            for i in range(differences):
                mixed[l, k] -= gamma[i] * (images[(newest - i) % n, l, k] - images[(newest - i - 1) % n, l, k])
            if mixed[l, k] < 0.1 * image[l, k]:
                mixed[l, k] = image[l, k]
    return mixed


@njit(cache=True, nogil=True)
def states_at(ages, piece_start, rate, u):
    """y at the quadrature nodes, (P, G), from the uniformised states u (S, q) of one level (3)."""
    values = np.empty(ages.shape)
    for s in range(len(u)):
        for piece in range(piece_start[s], piece_start[s + 1]):
            for g in range(ages.shape[1]):
                mean = rate * ages[piece, g]
                term, value = np.exp(-mean), 0.0
                for n in range(u.shape[1]):
                    value += term * u[s, n]
                    term *= mean / (n + 1)
                values[piece, g] = value
    return values


# --- simulation ----------------------------------------------------------------------------------------------------
#
# Arrays are passed one by one: an array taken out of a tuple inside a loop costs more than the loop's arithmetic.
# Indices in the loops that matter are unsigned, so that none is tested for counting from the end. Tests for None are
# made when a function is compiled.

ONE, TWO, HALF, LOW = np.uint64(1), np.uint64(2), np.uint64(32), np.uint64(2**32 - 1)
R11, R17, R19, R23, R41, R45 = (np.uint64(r) for r in (11, 17, 19, 23, 41, 45))
FRACTION = 46  # bits of a number that a histogram drops: 64 bins for each power of two
AHEAD = np.uint64(8)  # jobs before its turn that a candidate is fetched from memory
LOOK = 4  # one arrival in so many looks at the whole system


class Servers(NamedTuple):
    """N servers, a row each.

    rows      (N, 2 + C) head and length, start of the service in progress, departure times in a ring of C places
    words     (N, 2 + C) the same memory as unsigned integers; words[s, 0] = head + 2^32 length
    levels    (C + 1,) for each i >= 1: the times at which lengths fell below i, less those at which they rose to i (3)
    slowness  (N,) time per unit of size; None if it is one
    column    (N,) column of sizes that holds a server's; None if there is one only
    """

    rows: np.ndarray
    words: np.ndarray
    levels: np.ndarray
    slowness: np.ndarray | None
    column: np.ndarray | None


class Jobs(NamedTuple):
    """Jobs in order of arrival, what they bring and what becomes of them.

    times     (n,) time since the arrival before, which becomes the time of arrival as jobs are served
    sizes     (n, columns)
    where     (n,) server; waits (n,), responses (n,)
    """

    times: np.ndarray
    sizes: np.ndarray
    where: np.ndarray
    waits: np.ndarray
    responses: np.ndarray


class Sampling(NamedTuple):
    """The law of the candidates among N servers.

    servers   N
    numbers   (D,) sampled servers, odds (D,) their cumulated probabilities; None if D = 1
    first, rest, redraw   is the first server drawn by weight, are the others; is one drawn twice drawn again or dropped
    weight, keep, other   (N,) probability of a draw by weight, and its alias table; None where not used
    deck      (N,) a permutation, to be shuffled where d is large; else None
    """

    servers: int
    numbers: np.ndarray
    odds: np.ndarray | None
    first: bool
    rest: bool
    redraw: bool
    weight: np.ndarray | None
    keep: np.ndarray | None
    other: np.ndarray | None
    deck: np.ndarray | None


class Ranking(NamedTuple):
    """What makes a server the best of the candidates. None stands for what is not used, and costs nothing.

    place     (C + 1, r + 1) rank of (length, layer), an idle server, row 0, first; None: rank by unfinished work
    edges     (r + 1,) upper edges of the layers, the last inf; None for one layer
    guide     (G,) first layer to try at age g / cells
    rng       (4,) to break ties; None where the first will do, as the order of the candidates is uniform
    """

    place: np.ndarray | None
    edges: np.ndarray | None
    guide: np.ndarray | None
    cells: float
    rng: np.ndarray | None


class Index(NamedTuple):
    """All servers in a heap by a time, and in order.

    rng       (4,) to break ties
    heap      (N,) of which size[0] in use, the server with the smallest key[server] on top
    order     (N,) servers by length, spot (N,) its inverse, held (N,) lengths; end (C + 2,): those of length l are
              order[end[l]:end[l + 1]]. For the least work: the first end[0] of order are idle, the rest is not used.
    """

    rng: np.ndarray
    heap: np.ndarray
    key: np.ndarray
    size: np.ndarray
    order: np.ndarray
    spot: np.ndarray
    held: np.ndarray
    end: np.ndarray


@intrinsic
def prefetch(typing, rows, s):
    """Fetch the first two cache lines of row s into the cache."""

    def code(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        row = context.cast(builder, arguments[1], signature.args[1], types.intp)
        byte, word = ir.IntType(8), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, word])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        start = builder.bitcast(array.data, byte.as_pointer())
        offset = builder.mul(row, cgutils.unpack_tuple(builder, array.strides)[0])
        for line in (0, 64):
            place = builder.gep(start, [builder.add(offset, context.get_constant(types.intp, line))])
            builder.call(fetch, [place, word(1), word(3), word(1)])
        return context.get_dummy_value()

    return types.none(rows, s), code


if config.DISABLE_JIT:

    def prefetch(rows, s):
        """Nothing to do in plain Python."""


@njit(cache=True, nogil=True)
def draw(rng):
    """64 random bits: xoshiro256++ of Blackman and Vigna, state rng (4,)."""
    a, b, c, d = rng[0], rng[1], rng[2], rng[3]
    word = a + d
    word = ((word << R23) | (word >> R41)) + a
    moved = b << R17
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= moved
    rng[0], rng[1], rng[2], rng[3] = a, b, c, (d << R45) | (d >> R19)
    return word


@njit(cache=True, nogil=True)
def below(rng, n):
    """A uniform integer in [0, n), n < 2^32, without bias (Lemire's rejection)."""
    n = np.uint64(n)
    word = (draw(rng) >> HALF) * n
    if (word & LOW) < n:
        least = (LOW + ONE - n) % n
        while (word & LOW) < least:
            word = (draw(rng) >> HALF) * n
    return np.int64(word >> HALF)


@njit(cache=True, nogil=True)
def fraction(rng):
    """A uniform number in [0, 1)."""
    return np.float64(draw(rng) >> R11) * 2.0**-53


@njit(cache=True, nogil=True)
def among(s, picks, i, count):
    """Whether s is one of the first count entries of picks[i]."""
    for j in range(count):
        if picks[i, j] == s:
            return True
    return False


@njit(cache=True, nogil=True)
def another(weight, left, picks, i, count, rng):
    """A server by weight that is not among the first count picks[i], which leave so much of the weight."""
    goal, s = fraction(rng) * left, -1
    for t in range(len(weight)):
        if not among(t, picks, i, count):
            s = t
            goal -= weight[t]
            if goal < 0:
                break
    return s


@njit(cache=True, nogil=True)
def sample(picks, rng, servers, numbers, odds, first, rest, redraw, weight, keep, other, deck):
    """Draw the candidates of each job, picks (n, d), by the law ``Sampling``; N fills up what is not used."""
    for i in range(len(picks)):
        count, d, left = 0, numbers[0], 1.0
        if odds is not None:
            u, k = fraction(rng), 0
            while u >= odds[k]:
                k += 1
            d = numbers[k]
        for j in range(d):
            if deck is not None:
                k = j + below(rng, servers - j)
                deck[j], deck[k] = deck[k], deck[j]
                picks[i, j] = deck[j]
                count += 1
                continue
            while True:
                s = below(rng, servers)
                if weight is not None and (first if j == 0 else rest):
                    if redraw and left < 1 / 16:
                        s = another(weight, left, picks, i, count, rng)
                    elif fraction(rng) >= keep[s]:
                        s = other[s]
                if not among(s, picks, i, count):
                    picks[i, count] = s
                    count += 1
                    if weight is not None:
                        left -= weight[s]
                    break
                if not redraw:
                    break
        for j in range(count, picks.shape[1]):
            picks[i, j] = servers


@njit(cache=True, nogil=True)
def drop(rows, words, levels, s, now, origin):
    """Forget what has left server s by now; returns its length."""
    s, capacity = np.uint64(s), np.uint64(rows.shape[1] - 2)
    head, length = words[s, 0] & LOW, words[s, 0] >> HALF
    while length > 0 and rows[s, head + TWO] <= now:
        left = rows[s, head + TWO]
        levels[length] += left - origin  # (3)
        rows[s, 1] = left
        head += ONE
        if head == capacity:
            head -= capacity
        length -= ONE
    words[s, 0] = head | (length << HALF)
    return length


@njit(cache=True, nogil=True)
def work(rows, words, s, now):
    """Unfinished work of server s, in time, once ``drop`` has been there."""
    s, capacity = np.uint64(s), np.uint64(rows.shape[1] - 2)
    length = words[s, 0] >> HALF
    if length == 0:
        return 0.0
    last = (words[s, 0] & LOW) + length - ONE
    if last >= capacity:
        last -= capacity
    return rows[s, last + TWO] - now


@njit(cache=True, nogil=True)
def join(rows, words, levels, s, now, service, origin):
    """A job joins server s, where ``drop`` has been; returns its wait, and the length of which it is the last."""
    s, capacity = np.uint64(s), np.uint64(rows.shape[1] - 2)
    head, length = words[s, 0] & LOW, words[s, 0] >> HALF
    place = head + length
    if place >= capacity:
        place -= capacity
    last = place - ONE if place > 0 else capacity - ONE
    wait = rows[s, last + TWO] - now if length > 0 else 0.0  # (1)
    rows[s, 1] = rows[s, 1] if length > 0 else now
    rows[s, place + TWO] = now + wait + service  # (2)
    length += ONE
    words[s, 0] = head | (length << HALF)
    levels[length] -= now - origin  # (3)
    return wait, np.int64(length)


@njit(cache=True, nogil=True)
def service_of(sizes, i, slowness, column, s):
    """Service time of job i at server s."""
    s = np.uint64(s)
    size = sizes[i, 0] if column is None else sizes[i, column[s]]
    return size if slowness is None else size * slowness[s]


@njit(cache=True, nogil=True)
def settle(rows, words, levels, now, origin):
    """Drop all that has left any server by now; returns the number of servers of each length, (C + 1,)."""
    counts = np.zeros(len(levels), np.int64)
    for s in range(len(rows)):
        counts[drop(rows, words, levels, s, now, origin)] += 1
    return counts


@njit(cache=True, nogil=True)
def widen(rows, words, wide, wide_words):
    """Copy servers into longer rows (N, 2 + C'), rings unrolled."""
    capacity = np.uint64(rows.shape[1] - 2)
    for s in range(len(rows)):
        head, length = words[s, 0] & LOW, words[s, 0] >> HALF
        wide_words[s, 0], wide[s, 1] = length << HALF, rows[s, 1]
        for place in range(length):
            wide[s, place + 2] = rows[s, head + TWO]
            head += ONE
            if head == capacity:
                head -= capacity


@njit(cache=True, nogil=True)
def lengths_at(rows, words, now, lengths):
    """The length of every server at a time before the next arrival, into lengths (N,); nothing is dropped."""
    capacity = np.uint64(rows.shape[1] - 2)
    for s in range(len(rows)):
        head, length = words[s, 0] & LOW, words[s, 0] >> HALF
        while length > 0 and rows[s, head + TWO] <= now:
            head += ONE
            if head == capacity:
                head -= capacity
            length -= ONE
        lengths[s] = length


@njit(cache=True, nogil=True)
def dispatch(times, sizes, where, waits, responses, first, last, origin, rows, words, levels, slowness, column,
             picks, place, edges, guide, cells, rng):  # fmt: skip
    """Jobs first..last-1 join the best of their candidates picks (last - first, d), or of all servers if that is None.

    Returns how far it came and whether a ring is full, in which case it stops. See ``Jobs``, ``Servers``, ``Ranking``.
    """
    now = times[first - 1] if first > 0 else 0.0
    d = len(rows) if picks is None else picks.shape[1]
    start, end = np.uint64(first), np.uint64(last)
    for i in range(start, end):
        now += times[i]
        times[i] = now
        best, rank, ties = np.uint64(0), np.inf, 1
        if picks is not None:
            for j in range(d if i + AHEAD < end else 0):
                prefetch(rows, picks[i - start + AHEAD, j])
        for j in range(d):
            s = np.uint64(j) if picks is None else np.uint64(picks[i - start, j])
            if s == len(rows):
                break
            length, layer = drop(rows, words, levels, s, now, origin), 0
            if edges is not None and length > 0:
                age = now - rows[s, 1]
                layer = guide[min(np.int64(age * cells), len(guide) - 1)]
                while age > edges[layer]:
                    layer += 1
            mine = work(rows, words, s, now) if place is None else place[length, layer]
            better = mine < rank
            if rng is not None and mine == rank:
                ties += 1
                better = below(rng, ties) == 0
            ties = 1 if mine < rank else ties
            best, rank = (s, mine) if better else (best, rank)
        service = service_of(sizes, i, slowness, column, best)
        wait, length = join(rows, words, levels, best, now, service, origin)
        where[i], waits[i], responses[i] = best, wait, wait + service
        if length == len(levels) - 1:
            return np.int64(i) + 1, True
    return last, False


@njit(cache=True, nogil=True)
def assign(times, sizes, where, waits, responses, first, last, origin, rows, words, levels, slowness, column):
    """Jobs first..last-1 join the servers given by where. Returns as ``dispatch``."""
    now = times[first - 1] if first > 0 else 0.0
    for i in range(first, last):
        now += times[i]
        times[i] = now
        s = where[i]
        drop(rows, words, levels, s, now, origin)
        service = service_of(sizes, i, slowness, column, s)
        wait, length = join(rows, words, levels, s, now, service, origin)
        waits[i], responses[i] = wait, wait + service
        if length == len(levels) - 1:
            return i + 1, True
    return last, False


@njit(cache=True, nogil=True)
def tags(times, sizes, where, waits, responses, first, last, origin, rows, words, levels, slowness, column,
         cutoffs, visits):  # fmt: skip
    """TAGS: from server to server until one lets the job finish (4). Returns as ``dispatch``.

    cutoffs (h,), the last inf; visits (h, 3): every visit adds one, its wait and its service time.
    """
    now = times[first - 1] if first > 0 else 0.0
    for i in range(first, last):
        now += times[i]
        times[i] = now
        at, waited, full = now, 0.0, False
        for s in range(len(cutoffs)):
            service = min(sizes[i, 0], cutoffs[s]) * (1.0 if slowness is None else slowness[s])
            drop(rows, words, levels, s, at, origin)
            wait, length = join(rows, words, levels, s, at, service, origin)
            visits[s, 0] += 1
            visits[s, 1] += wait
            visits[s, 2] += service
            at += wait + service
            waited += wait
            full |= length == len(levels) - 1
            if sizes[i, 0] <= cutoffs[s]:
                where[i], waits[i], responses[i] = s, waited, at - now
                break
        if full:
            return i + 1, True
    return last, False


@njit(cache=True, nogil=True)
def sink(heap, key, size):
    """Restore the heap after the key on its top has grown."""
    at, s = 0, heap[0]
    while 2 * at + 1 < size[0]:
        child = 2 * at + 1
        if child + 1 < size[0] and key[heap[child + 1]] < key[heap[child]]:
            child += 1
        if key[heap[child]] >= key[s]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = s


@njit(cache=True, nogil=True)
def push(heap, key, size, s):
    """Put server s into the heap."""
    at = size[0]
    size[0] += 1
    while at > 0 and key[heap[(at - 1) // 2]] > key[s]:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = s


@njit(cache=True, nogil=True)
def pop(heap, key, size):
    """Take the server on top out of the heap."""
    size[0] -= 1
    heap[0] = heap[size[0]]
    sink(heap, key, size)


@njit(cache=True, nogil=True)
def move(order, spot, s, place):
    """Let server s change places with the one at a place of the order."""
    t, old = order[place], spot[s]
    order[place], order[old] = s, t
    spot[s], spot[t] = place, old


@njit(cache=True, nogil=True)
def shortest(times, sizes, where, waits, responses, first, last, origin, rows, words, levels, slowness, column,
             rng, heap, key, size, order, spot, held, end):  # fmt: skip
    """Jobs first..last-1 join a shortest of all queues; the heap holds the next departures. Returns as ``dispatch``."""
    now = times[first - 1] if first > 0 else 0.0
    for i in range(first, last):
        now += times[i]
        times[i] = now
        while size[0] > 0 and key[heap[0]] <= now:
            s = heap[0]
            length = drop(rows, words, levels, s, now, origin)
            while held[s] > length:
                move(order, spot, s, end[held[s]])
                end[held[s]] += 1
                held[s] -= 1
            if length > 0:
                key[s] = rows[s, (words[s, 0] & LOW) + TWO]
                sink(heap, key, size)
            else:
                pop(heap, key, size)
        s = order[below(rng, end[held[order[0]] + 1])]
        service = service_of(sizes, i, slowness, column, s)
        drop(rows, words, levels, s, now, origin)
        wait, length = join(rows, words, levels, s, now, service, origin)
        end[length] -= 1
        move(order, spot, s, end[length])
        held[s] = length
        if length == 1:
            key[s] = now + service
            push(heap, key, size, s)
        where[i], waits[i], responses[i] = s, wait, wait + service
        if length == len(levels) - 1:
            return i + 1, True
    return last, False


@njit(cache=True, nogil=True)
def least(times, sizes, where, waits, responses, first, last, origin, rows, words, levels, slowness, column,
          rng, heap, key, size, order, spot, held, end):  # fmt: skip
    """Jobs first..last-1 join a server of least work; the heap holds the last departures. Returns as ``dispatch``."""
    now = times[first - 1] if first > 0 else 0.0
    for i in range(first, last):
        now += times[i]
        times[i] = now
        while size[0] > 0 and key[heap[0]] <= now:
            order[end[0]] = heap[0]
            end[0] += 1
            pop(heap, key, size)
        s = heap[0]
        if end[0] > 0:
            k = below(rng, end[0])
            s = order[k]
            end[0] -= 1
            order[k] = order[end[0]]
        drop(rows, words, levels, s, now, origin)
        service = service_of(sizes, i, slowness, column, s)
        wait, length = join(rows, words, levels, s, now, service, origin)
        key[s] = now + wait + service
        if length == 1:
            push(heap, key, size, s)
        else:
            sink(heap, key, size)
        where[i], waits[i], responses[i] = s, wait, wait + service
        if length == len(levels) - 1:
            return i + 1, True
    return last, False


@njit(cache=True, nogil=True)
def tally(times, sizes, where, waits, responses, first, last, lowest, sums, wait_bins, response_bins, cycle, cycles,
          visits):  # fmt: skip
    """Add jobs first..last-1 to the statistics.

    sums     (6,) sums of wait, wait^2, response, response^2, delayed, size
    wait_bins, response_bins   (bins,) counts; bin b starts at the number with the bits (lowest + b) 2^FRACTION, and
             the first and the last take all that lies beyond
    cycle    (4,) latest departure so far; jobs, waits, responses of the cycle under way (jobs = -inf: until one starts)
    cycles   (9,) complete cycles: their number, sums of n, w, r, n^2, w^2, r^2, n w, n r
    visits   (N, 3) jobs, waits and service times by server, or None
    """
    wait_words, response_words, top = waits.view(np.int64), responses.view(np.int64), len(wait_bins) - 1
    w1, w2, r1, r2, delayed, work = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    latest, n, w, r = cycle[0], cycle[1], cycle[2], cycle[3]
    for i in range(np.uint64(first), np.uint64(last)):
        wait, response = waits[i], responses[i]
        if times[i] >= latest:  # (5)
            if n > 0:
                for k, term in enumerate((1.0, n, w, r, n * n, w * w, r * r, n * w, n * r)):
                    cycles[k] += term
            n, w, r = 0.0, 0.0, 0.0
        latest = max(latest, times[i] + response)
        n += 1
        w += wait
        r += response
        w1 += wait
        w2 += wait * wait
        r1 += response
        r2 += response * response
        delayed += 1.0 if wait > 0 else 0.0
        work += sizes[i, 0]
        if visits is not None:
            s = where[i]
            visits[s, 0] += 1
            visits[s, 1] += wait
            visits[s, 2] += response - wait
        wait_bins[min(max((wait_words[i] >> FRACTION) - lowest, 0), top)] += 1
        response_bins[min(max((response_words[i] >> FRACTION) - lowest, 0), top)] += 1
    cycle[0], cycle[1], cycle[2], cycle[3] = latest, n, w, r
    for k, term in enumerate((w1, w2, r1, r2, delayed, work)):
        sums[k] += term


@njit(cache=True, nogil=True)
def content(times, where, responses, first, last, speeds, ends, sums):
    """Let every LOOK-th job look around; add the looks, the work U, U I and idle speed I they find to sums (4,) (6).

    speeds (N,); ends (N,) last departures
    """
    for i in range(first, last):
        if i % LOOK == 0:
            now, found, idle = times[i], 0.0, 0.0
            for s in range(len(ends)):
                left = ends[s] - now
                found += speeds[s] * left if left > 0 else 0.0
                idle += 0.0 if left > 0 else speeds[s]
            sums[0] += 1
            sums[1] += found
            sums[2] += found * idle
            sums[3] += idle
        ends[where[i]] = times[i] + responses[i]
