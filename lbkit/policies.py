"""Dispatching policies, each said once as mathematics and read alike by the mean-field solver and the simulator.

An arriving job inspects a few servers. An idle server wins always. A busy one reports its layer k and its
length l, and the job joins the server whose rank xi(k, l) is smallest; ties are broken uniformly at random.

======  ==============================================================================================
symbol  name
======  ==============================================================================================
l       length: jobs at the server, the one in service included, l = 1, 2, ...
k       layer of the age a of the job in service: c_{k-1} < a <= c_k, k = 1..r+1, c_0 = 0, c_{r+1} = inf
xi      rank; any strictly increasing transform of it is the same policy; a tuple is compared in order
d       number of sampled servers, or its law {d: probability}
T       threshold, equal to a layer edge: a job is held to be long once its age exceeds T
======  ==============================================================================================

The eight policies of Hellemans and Van Houdt (arXiv 2011.08250) are rankings:

=====================  =====================  =======================
SQ(d)                  l                      (1)
SQ(d)-RTB              (l, k)                 (2)
SQ(d)-RE(T)            (age > T, l)           (3)
SQ(d)-RTB-RE(T)        (age > T, l, k)        (4)
LAS(d)                 k                      (5)
LAS(d)-QTB             (k, l)                 (6)
RE(d, T)               age > T                (7)
LEW(d)                 l - 1 + E[X - c | X > c], c = c_{k-1}  (8)
=====================  =====================  =======================

In (8) the lower edge of the layer stands for the age, as the last layer has no upper one.

A policy of one's own is one line::

    Policy("longest age first", rank=lambda k, l: -k, d=2, layers=Layers.every(0.1, 40))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf

import numpy as np

__all__ = [
    "Layers", "Policy", "RoundRobin", "LeastWork", "Cutoffs", "random", "sq", "sq_rtb", "sq_re", "sq_rtb_re", "las",
    "las_qtb", "re", "lew", "jsq", "jiq", "balanced", "round_robin", "least_work", "tags", "sita",
]  # fmt: skip

CANDIDATES = {
    "distinct": "d different servers, every d-subset alike",
    "replacement": "d independent uniform picks; a server picked twice counts once",
    "sum": "c different servers, a subset with probability proportional to its total speed",
    "with": "c independent picks, each proportional to the speeds; duplicates dropped",
    "succ": "c different servers, picked one after the other in proportion to the speeds of those left",
}


@dataclass(frozen=True)
class Layers:
    """Age layers (c_{k-1}, c_k], k = 1..r+1, given by the edges c_1 < ... < c_r (mean job sizes).

    Raises ValueError unless the edges are positive, finite and increasing.
    """

    edges: tuple[float, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "edges", tuple(float(c) for c in self.edges))
        steps = np.diff([0.0, *self.edges])
        if not (np.all(steps > 0) and np.all(np.isfinite(self.edges))):
            raise ValueError(f"layer edges must be positive, finite and increasing, not {_short(self.edges)}")

    @classmethod
    def every(cls, delta: float, c_max: float) -> Layers:
        """Layers of width delta up to c_max: c_k = k delta."""
        if not 0 < delta <= c_max < inf:
            raise ValueError(f"layers need 0 < delta <= c_max < inf, not delta={delta!r}, c_max={c_max!r}")
        return cls(tuple(np.arange(1, round(c_max / delta) + 1) * delta))

    @property
    def lower(self) -> np.ndarray:
        """Lower edges c_0..c_r, shape (r+1,)."""
        return np.array([0.0, *self.edges])

    def __len__(self) -> int:
        return len(self.edges) + 1

    def index(self, threshold: float) -> int:
        """The s with c_s = threshold; a job is long iff its layer k > s."""
        s = int(np.argmin(np.abs(np.array(self.edges) - threshold)))
        if not abs(self.edges[s] - threshold) <= 1e-9 * max(1.0, threshold):
            near = f"the nearest is {self.edges[s]:g}"
            raise ValueError(f"the threshold must be a layer edge; {threshold!r} is none, {near}")
        return s + 1

    def __repr__(self) -> str:
        return f"Layers({_short(self.edges)})"


@dataclass(frozen=True)
class Policy:
    """Join the sampled server of smallest rank; an idle one first; ties uniformly.

    name        what plots and tables call it
    rank        xi(k, l) on integer arrays, a number or a tuple compared in order; with ``uses_job``, xi(k, l, job)
    d           number of sampled servers: an int, a law {d: probability}, or None for all servers
    layers      age layers that k counts
    candidates  how servers are sampled: one of CANDIDATES (they differ by O(1/N) for equal speeds)

    Raises ValueError for d < 1, probabilities that do not sum to one, an unknown name of candidates.
    """

    name: str
    rank: Callable
    d: int | Mapping[int, float] | None = 2
    layers: Layers = Layers()
    uses_job: bool = False
    candidates: str = "distinct"

    def __post_init__(self):
        if self.candidates not in CANDIDATES:
            near = get_close_matches(str(self.candidates), CANDIDATES, 1, 0)
            names = ", ".join(CANDIDATES)
            raise ValueError(f"candidates must be one of {names}, not {self.candidates!r}; nearest: {near[0]}")
        if self.d is None:
            return
        law = tuple(self.d.items()) if isinstance(self.d, Mapping) else self.d
        law = law if isinstance(law, tuple) else ((law, 1.0),)
        for d, p in law:
            if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or d < 1:
                raise ValueError(f"the number of sampled servers must be an integer >= 1, not {d!r}")
            if not 0 <= p <= 1:
                raise ValueError(f"the probability of sampling {d} servers must lie in [0, 1], not {p!r}")
        total = sum(p for _, p in law)
        if not abs(total - 1) <= 1e-12:
            raise ValueError(f"the law of the number of sampled servers must sum to 1, not {total!r}")
        object.__setattr__(self, "d", tuple(sorted((int(d), float(p)) for d, p in law if p > 0)))

    @property
    def mean_d(self) -> float:
        """Mean number of sampled servers."""
        return inf if self.d is None else sum(d * p for d, p in self.d)

    def table(self, lengths: int, job=None) -> np.ndarray:
        """Ranks as integers: shape (lengths, r+1), entry [l-1, k-1] ordered as xi(k, l), ties equal.

        Raises ValueError where the ranking gives NaN, or needs a job law and has none.
        """
        if self.uses_job and job is None:
            raise ValueError(f"{self.name} ranks by the job law: say job=...")
        k, l = np.arange(1, len(self.layers) + 1)[None, :], np.arange(1, lengths + 1)[:, None]
        values = self.rank(k, l, job) if self.uses_job else self.rank(k, l)
        place = np.zeros((lengths, len(self.layers)), dtype=np.int64)
        for part in values if isinstance(values, tuple) else (values,):
            part = np.asarray(part)
            if np.any(part != part):
                where = tuple((np.argwhere(np.broadcast_to(part != part, place.shape))[0] + 1).tolist())
                raise ValueError(f"the ranking of {self.name} gives NaN at (l, k) = {where}")
            levels, code = np.unique(part, return_inverse=True)
            place = place * len(levels) + code.reshape(part.shape)
            if place.max() > 4 * place.size:
                place = np.unique(place, return_inverse=True)[1].reshape(place.shape)
        return place


@dataclass(frozen=True)
class RoundRobin:
    """Servers in turn, with frequencies proportional to their speeds (finite systems)."""

    name: str = "round robin"


@dataclass(frozen=True)
class LeastWork:
    """Join the sampled server with the least unfinished work, in time (finite systems); d = None: all servers."""

    d: int | None = None

    @property
    def name(self) -> str:
        return "LWL" if self.d is None else f"LWL({self.d})"


@dataclass(frozen=True)
class Cutoffs:
    """Size-based dispatching with cutoffs s_1 < ... < s_{h-1} (mean job sizes), h servers.

    kind "sita": server i gets the sizes in (s_{i-1}, s_i]. kind "tags": every job starts at server 1, is killed after
    s_i at server i and starts again at the next.
    """

    kind: str
    cutoffs: tuple[float, ...]

    def __post_init__(self):
        object.__setattr__(self, "cutoffs", tuple(float(s) for s in self.cutoffs))
        if not np.all(np.diff([0.0, *self.cutoffs]) > 0):
            raise ValueError(f"cutoffs must be positive and increasing, not {_short(self.cutoffs)}")

    @property
    def name(self) -> str:
        return f"{self.kind.upper()}({', '.join(f'{s:g}' for s in self.cutoffs)})"


def random() -> Policy:
    """A uniformly random server."""
    return Policy("Random", lambda k, l: 0, 1)


def sq(d: int = 2) -> Policy:
    """SQ(d): the shortest of d queues (1)."""
    return Policy(f"SQ({_law(d)})", lambda k, l: l, d)


def sq_rtb(d: int = 2, delta: float = 0.1, c_max: float = 40) -> Policy:
    """SQ(d)-RTB: ties in the length go to the job in service with the lower layer (2)."""
    return Policy(f"SQ({_law(d)})-RTB", lambda k, l: (l, k), d, Layers.every(delta, c_max))


def sq_re(d: int = 2, T: float = 2) -> Policy:
    """SQ(d)-RE(T): servers whose job is older than T only if all are (3)."""
    return Policy(f"SQ({_law(d)})-RE({T:g})", lambda k, l: (k > 1, l), d, Layers((T,)))


def sq_rtb_re(d: int = 2, T: float = 2, delta: float = 0.1, c_max: float = 40) -> Policy:
    """SQ(d)-RTB-RE(T): exclusion of old jobs, then length, then layer (4)."""
    layers = Layers.every(delta, c_max)
    s = layers.index(T)
    return Policy(f"SQ({_law(d)})-RTB-RE({T:g})", lambda k, l: (k > s, l, k), d, layers)


def las(d: int = 2, delta: float = 0.1, c_max: float = 40) -> Policy:
    """LAS(d): the job in service with the least attained service (5)."""
    return Policy(f"LAS({_law(d)})", lambda k, l: k, d, Layers.every(delta, c_max))


def las_qtb(d: int = 2, delta: float = 0.1, c_max: float = 40) -> Policy:
    """LAS(d)-QTB: as LAS, ties go to the shorter queue (6)."""
    return Policy(f"LAS({_law(d)})-QTB", lambda k, l: (k, l), d, Layers.every(delta, c_max))


def re(d: int = 2, T: float = 2) -> Policy:
    """RE(d, T): any server whose job is not older than T (7)."""
    return Policy(f"RE({_law(d)}, {T:g})", lambda k, l: k > 1, d, Layers((T,)))


def lew(d: int = 2, delta: float = 0.1, c_max: float = 40) -> Policy:
    """LEW(d): the least expected work, by the mean residual size at the lower edge of the layer (8).

    Ranks are rounded to 1e-9 mean job sizes, so that a constant residual (exponential sizes) ties instead of
    breaking ties by rounding errors.
    """
    layers = Layers.every(delta, c_max)

    def rank(k, l, job):
        residual = np.nan_to_num(job.residual_mean(layers.lower) / job.mean)  # no job is older than its law allows
        return np.round(l - 1 + residual[k - 1], 9)

    return Policy(f"LEW({_law(d)})", rank, d, layers, uses_job=True)


def jsq() -> Policy:
    """JSQ: the shortest of all queues (finite systems)."""
    return Policy("JSQ", lambda k, l: l, None)


def jiq(d: int = 2) -> Policy:
    """JIQ(d): an idle server among d, else any of them."""
    return Policy(f"JIQ({_law(d)})", lambda k, l: 0, d)


def balanced(c: int = 2, scheme: str = "sum") -> Policy:
    """Balanced routing (Chen and Ye, 2012): the shortest of c candidates drawn in proportion to their speeds.

    scheme "sum", "with" or "succ": see CANDIDATES; c = 1 is proportional random routing.
    """
    if scheme not in ("sum", "with", "succ"):
        raise ValueError(f"scheme must be sum, with or succ, not {scheme!r}")
    return Policy(f"BR({c}, {scheme})", lambda k, l: l, c, candidates=scheme)


def round_robin() -> RoundRobin:
    """Round robin, weighted by the speeds."""
    return RoundRobin()


def least_work(d: int | None = None) -> LeastWork:
    """Least work left among d sampled servers, or among all."""
    return LeastWork(d)


def tags(cutoffs) -> Cutoffs:
    """TAGS with the given cutoffs: guess the size by killing (Bachmat, Doncel and Sarfati)."""
    return Cutoffs("tags", tuple(np.atleast_1d(cutoffs)))


def sita(cutoffs) -> Cutoffs:
    """SITA with the given cutoffs: the size is known."""
    return Cutoffs("sita", tuple(np.atleast_1d(cutoffs)))


def _law(d) -> str:
    return str(d) if not isinstance(d, Mapping) else "/".join(str(n) for n in sorted(d))


def _short(values) -> str:
    head = ", ".join(f"{v:g}" for v in values[:4])
    return f"({head}{', ...' if len(values) > 4 else ''})"
