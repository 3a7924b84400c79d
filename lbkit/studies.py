"""Studies: the typed parameters of each notebook.

A parameter is said once, here: its default, its hard bounds, its meaning and the range of its slider. The notebook's
parameters cell, the YAML files, the command line, the widgets and the JSON schema are all made from this.

A study is a frozen model named after its notebook. Types are strict: no text stands for a number, no truth value for an
integer, no NaN or infinity for anything; 1e6 may stand for an integer, an integer for a real number. A parameter out
of its range is refused in one sentence.

To add a study, subclass Study: a class attribute per fact, a field per parameter, a validator per condition that ties
parameters together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

__all__ = [
    "STUDIES", "OwnWorkload", "ParameterError", "SqdVariants", "Study", "did_you_mean", "get", "param", "permitted",
]  # fmt: skip


class ParameterError(ValueError):
    """Parameters that a study refuses.

    problems  {parameter: sentence}; a condition that ties several parameters together stands under ""
    """

    def __init__(self, problems: Mapping[str, str]):
        super().__init__("\n".join(problems.values()))
        self.problems = dict(problems)


def param(
    default, description: str, *, slider: tuple[float, float, float] | None = None,
    scale: Literal["linear", "log", "gap"] = "linear", **bounds,
):  # fmt: skip
    """A parameter of a study.

    description  its meaning and unit, free of "=" and "#" (the parameters cell carries it as a comment)
    slider       (low, high, step) of its control, inside the hard bounds; without one a number has no control
    scale        the slider moves linearly, in log10 x, or in log10 (1 - x), its step in decades
    bounds       hard bounds gt, ge, lt, le of a number, one on either side, or min_length and max_length of a list
    """
    control = {"json_schema_extra": {"slider": list(slider), "scale": scale}} if slider else {}
    return Field(default, description=description, **control, **bounds)


class Study(BaseModel):
    """Parameters of one notebook.

    notebook  stem of the notebook's file name, which is the name of the study too
    title     what it studies
    paper     whose results it reproduces

    Raises ParameterError, a ValueError with one sentence for each bad parameter.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)

    notebook: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]

    def __init__(self, /, **parameters):
        try:
            super().__init__(**{name: _plain(value) for name, value in parameters.items()})
        except ValidationError as error:
            raise ParameterError(_sentences(type(self), error)) from None

    @classmethod
    def schemas(cls) -> dict[str, dict[str, Any]]:
        """JSON schema of each parameter: its default, description, bounds and slider."""
        return cls.model_json_schema()["properties"]

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Study:
        """The study that a notebook's ``globals()`` spell out after its parameters cell; other names are left alone."""
        missing = [name for name in cls.model_fields if name not in namespace]
        if missing:
            sentence = f"{cls.notebook}: the parameters cell does not define {', '.join(missing)}"
            raise ParameterError({"": sentence})
        return cls(**{name: namespace[name] for name in cls.model_fields})

    def values(self) -> dict[str, Any]:
        """Every parameter as plain numbers, text and lists."""
        return self.model_dump(mode="json")

    def cell(self) -> str:
        """Source of the notebook's parameters cell: a line ``name = value  # description`` for each parameter."""
        values = self.values()
        return "\n".join(
            f"{name} = {values[name]!r}  # {field.description}" for name, field in type(self).model_fields.items()
        )


WHOLE = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
Whole = Annotated[int, WHOLE]

VariantsSection = Literal[
    "convergence", "improvement", "hazard", "ties", "choices", "scv", "fraction", "tails", "granularity", "simulation",
]  # fmt: skip

Ranking = Literal["SQ", "SQ-RTB", "SQ-RE", "SQ-RTB-RE", "LAS", "LAS-QTB", "RE", "LEW"]


class SqdVariants(Study):
    """Job sizes are hyperexponential (k one) or mixed Erlang; times are in mean job sizes, loads per server.

    Every scv >= 1 and f in (0, 1) is attained with any number k of phases. At most 5000 layers, c_max / delta, keep the
    mean-field tables within some 3 GB.
    """

    notebook = "sqd_variants"
    title = "Variants of SQ(d) that see for how long a server has worked on its job"
    paper = "Hellemans and Van Houdt (arXiv 2011.08250)"

    figures: tuple[VariantsSection, ...] = param(
        get_args(VariantsSection)[:-1], "sections to run", min_length=1, max_length=len(get_args(VariantsSection))
    )
    scv: float = param(10.0, "squared coefficient of variation of a job size", ge=1, le=1000, slider=(1, 40, 0.5))
    f: float = param(0.5, "fraction of the work that belongs to short jobs", gt=0, lt=1, slider=(0.05, 0.95, 0.05))
    k: Whole = param(1, "Erlang phases of each kind of job; 1 is hyperexponential", ge=1, le=50, slider=(1, 15, 1))
    d: Whole = param(5, "servers that an arriving job samples", ge=1, le=100, slider=(2, 20, 1))
    delta: float = param(0.1, "width of an age layer", gt=0, le=100, slider=(0.05, 1, 0.05))
    c_max: float = param(40.0, "age at which the layers end", gt=0, le=1000, slider=(10, 80, 1))
    threshold: float = param(2.0, "age beyond which a job counts as long, a multiple of delta", gt=0, le=1000,
                             slider=(0.5, 10, 0.5))  # fmt: skip
    lam: float = param(0.8, "load of the figures at a single load", gt=0, le=0.999, slider=(0.2, 0.999, 0.05),
                       scale="gap")  # fmt: skip
    compared: tuple[Ranking, ...] = param(
        ("SQ", "SQ-RTB", "SQ-RE", "LEW"), "policies that the panel compares", min_length=1, max_length=8
    )
    lam_low: float = param(0.1, "lowest load of a curve", gt=0, le=0.999)
    lam_high: float = param(0.995, "highest load of a curve", gt=0, le=0.999)
    loads: Whole = param(100, "loads on a curve", ge=2, le=2000)
    choices: tuple[Annotated[int, Field(ge=1, le=100), WHOLE], ...] = param(
        (2, 5, 10, 15, 20), "numbers of sampled servers that are compared", min_length=1, max_length=20
    )
    scv_high: float = param(40.0, "largest scv of the curve over scv, which starts at 1", gt=1, le=1000)
    scv_points: Whole = param(40, "points of the curve over scv", ge=2, le=2000)
    f_points: Whole = param(50, "points of the curve over f", ge=2, le=2000)
    servers: tuple[Annotated[int, Field(ge=1, le=1_000_000), WHOLE], ...] = param(
        (100, 1000, 10000), "numbers of servers that are simulated", min_length=1, max_length=20
    )
    simulated_jobs: Whole = param(1_000_000, "jobs of each simulated replication", ge=1000, le=10_000_000_000)
    replications: Whole = param(4, "independent replications of each simulated point", ge=2, le=1000)
    seed: Whole = param(1, "seed of all random numbers", ge=0, le=2**63 - 1)

    @model_validator(mode="after")
    def _fit_together(self):
        if not self.lam_low < self.lam_high:
            raise ValueError(f"lam_low must be below lam_high, not {self.lam_low:g} with lam_high {self.lam_high:g}")
        if self.c_max / self.delta > 5000:
            least = self.c_max / 5000
            raise ValueError(f"c_max / delta must be at most 5000, so delta at least {least:g}, not {self.delta:g}")
        if self.threshold > self.c_max:
            raise ValueError(f"threshold must be at most c_max, {self.c_max:g}, not {self.threshold:g}")
        nearest = max(1, round(self.threshold / self.delta)) * self.delta
        if abs(nearest - self.threshold) > 1e-9 * max(1, self.threshold):
            value = f"{self.threshold:g}; the nearest is {nearest:g}"
            raise ValueError(f"threshold must be a multiple of delta, {self.delta:g}, not {value}")
        if self.d > min(self.servers):
            raise ValueError(f"d must be at most the number of servers simulated, {min(self.servers)}, not {self.d}")
        return self


LightTrafficSection = Literal[
    "scenario", "approximation", "evidence", "growth", "diversity", "choices", "minimum", "stability", "interpolation",
    "mean_field",
]  # fmt: skip


class LightTraffic(Study):
    """Slow and fast servers, sizes of mean one; speeds are sizes per unit time, rates are of all arrivals together.

    Size laws: H hyperexponential with a third of the work in short jobs, E exponential, W Weibull of shape 2,
    D deterministic.
    """

    notebook = "light_traffic"
    title = "Light traffic of SQ(d) on servers of different speeds"
    paper = "Izagirre and Makowski (arXiv 1701.06004)"

    figures: tuple[LightTrafficSection, ...] = param(
        get_args(LightTrafficSection), "sections to run", min_length=1, max_length=len(get_args(LightTrafficSection))
    )
    slow: float = param(2.0, "speed of a slow server", ge=0.01, le=1000, slider=(0.5, 10, 0.5))
    fast: float = param(10.0, "speed of a fast server", ge=0.01, le=1000, slider=(1, 50, 0.5))
    slow_servers: Whole = param(5, "number of slow servers", ge=0, le=100_000, slider=(0, 20, 1))
    fast_servers: Whole = param(5, "number of fast servers", ge=0, le=100_000, slider=(1, 20, 1))
    d: Whole = param(2, "servers that an arriving job samples", ge=1, le=20, slider=(1, 5, 1))
    laws: tuple[Literal["H", "E", "W", "D"], ...] = param(
        ("H", "E", "W", "D"), "size laws that are compared", min_length=1, max_length=4
    )
    scv: float = param(2.0, "squared coefficient of variation of law H", ge=1, le=100, slider=(1, 20, 0.5))
    lam_high: float = param(20.0, "arrival rate where the curves end", gt=0, le=1e8, slider=(1, 40, 1))
    lam_points: Whole = param(101, "arrival rates on a curve", ge=2, le=2000)
    rates: tuple[Annotated[float, Field(gt=0, le=1e8)], ...] = param(
        (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0), "arrival rates that are simulated", min_length=1, max_length=50
    )
    loads: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = param(
        (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), "shares of the largest stable rate that are simulated",
        min_length=1, max_length=50,
    )  # fmt: skip
    servers: tuple[Annotated[int, Field(ge=2, le=1000), WHOLE], ...] = param(
        (2, 4, 10, 20, 50, 100, 200, 400), "numbers of servers that are compared", min_length=1, max_length=20
    )
    order: Whole = param(7, "order of the power series for exponential sizes", ge=4, le=10)
    busy_periods: Whole = param(10_000, "busy periods of each simulated replication", ge=100, le=10_000_000)
    simulated_jobs: Whole = param(
        100_000, "jobs of a replication where that many busy periods would take more", ge=1000, le=1_000_000_000
    )
    replications: Whole = param(10, "independent replications of each simulated point", ge=2, le=1000)
    seed: Whole = param(1, "seed of all random numbers", ge=0, le=2**63 - 1)

    @model_validator(mode="after")
    def _fit_together(self):
        K = self.slow_servers + self.fast_servers
        if not self.slow <= self.fast:
            raise ValueError(f"slow must be at most fast, {self.fast:g}, not {self.slow:g}")
        if max(self.d, 2) > K:
            raise ValueError(f"there must be at least {max(self.d, 2)} servers, slow and fast ones, not {K}")
        from lbkit.light_traffic import max_rate

        groups = [(c, n) for c, n in ((self.slow, self.slow_servers), (self.fast, self.fast_servers)) if n]
        limit = float(max_rate(groups, (1, 2), self.d))
        for name, rate in (("lam_high", self.lam_high), ("rates", max(self.rates))):
            if rate >= limit:
                raise ValueError(f"{name} must stay below {limit:g}, the largest stable rate, not reach {rate:g}")
        return self


TagsSection = Literal[
    "alpha", "servers", "range", "loads", "ratio", "cutoffs", "balance", "error", "worst", "rivals",
]  # fmt: skip


class Tags(Study):
    """Sizes are bounded Pareto on [1, r], with P(X > x) close to x^-alpha; loads are in units of one server."""

    notebook = "tags"
    title = "TAGS: task assignment by guessing the size"
    paper = "Bachmat, Doncel and Sarfati (TAGS)"

    figures: tuple[TagsSection, ...] = param(
        get_args(TagsSection), "sections to run", min_length=1, max_length=len(get_args(TagsSection))
    )
    alpha: float = param(1.0, "exponent of the bounded Pareto law", ge=0.05, le=1.95, slider=(0.1, 1.9, 0.05))
    ratio: float = param(1e3, "range r, largest over smallest size", ge=2, le=1e12, slider=(10, 1e10, 0.25),
                         scale="log")  # fmt: skip
    rho: float = param(0.5, "a load that one server could bear, in units of one server", gt=0, lt=1,
                       slider=(0.05, 0.95, 0.05))  # fmt: skip
    rho_above: float = param(1.2, "a load that one server could not bear", gt=1, lt=2, slider=(1.05, 1.95, 0.05))
    h: Whole = param(3, "servers in the figures of a single system", ge=2, le=8, slider=(2, 6, 1))
    servers: tuple[Annotated[int, Field(ge=2, le=16), WHOLE], ...] = param(
        (2, 3, 4), "numbers of servers that are compared", min_length=1, max_length=4
    )
    servers_high: Whole = param(16, "largest number of servers of the curves over it", ge=3, le=64)
    alphas: tuple[Annotated[float, Field(ge=0.05, le=1.95)], ...] = param(
        (0.5, 1.0, 1.5, 1.9), "exponents that are compared", min_length=1, max_length=4
    )
    alpha_points: Whole = param(77, "exponents on a curve", ge=3, le=2000)
    ratios: tuple[Annotated[float, Field(ge=2, le=1e40)], ...] = param(
        (1e3, 1e6, 1e10), "ranges that are compared", min_length=1, max_length=4
    )
    ratio_high: float = param(1e20, "range where the curves over it end, which start at 10", ge=100, le=1e60)
    ratio_points: Whole = param(39, "ranges on a curve", ge=3, le=1000)
    rho_points: Whole = param(40, "loads on a curve", ge=3, le=1000)
    rhos: tuple[Annotated[float, Field(gt=0, lt=16)], ...] = param(
        (0.5, 0.8, 1.1, 1.3), "loads that are simulated where TAGS is stable", min_length=1, max_length=20
    )
    small_ratios: tuple[Annotated[float, Field(ge=2, le=1e4)], ...] = param(
        (10.0, 30.0, 100.0, 300.0, 1000.0), "ranges that are simulated", min_length=1, max_length=20
    )
    simulated_jobs: Whole = param(1_000_000, "jobs of each simulated replication", ge=1000, le=10_000_000_000)
    replications: Whole = param(8, "independent replications of each simulated point", ge=2, le=1000)
    seed: Whole = param(1, "seed of all random numbers", ge=0, le=2**63 - 1)


RoutingSection = Literal[
    "paths", "fluid", "transient", "stationary", "load", "approach", "gap", "fairness", "mean_field", "ratio", "whitt",
]  # fmt: skip
Rate = Annotated[float, Field(gt=0, le=1000)]


class BalancedRouting(Study):
    """Rates are in mean job sizes per unit time, loads are shares of the total rate.

    Exact chains serve two or three servers, `rates`, of which the fastest is at most five times as fast as the slowest:
    beyond that the queues differ by so much that a chain takes minutes. Other systems are simulated.
    """

    notebook = "balanced_routing"
    title = "Balanced routing to parallel servers in heavy traffic"
    paper = "Chen and Ye (Oper. Res. 60(1), 2012)"

    figures: tuple[RoutingSection, ...] = param(
        get_args(RoutingSection), "sections to run", min_length=1, max_length=len(get_args(RoutingSection))
    )
    rates: tuple[Rate, ...] = param(
        (1.0, 2.0, 3.0), "service rates of two or three servers, mean job sizes per unit time", min_length=2,
        max_length=3,
    )
    c: Whole = param(2, "candidates of the figures for a single number of candidates", ge=1, le=3, slider=(1, 3, 1))
    scheme: Literal["sum", "with", "succ"] = param("sum", "how the candidates are drawn")
    rho: float = param(0.9, "load of the figures at a single load", gt=0, le=0.995, slider=(0.3, 0.99, 0.05),
                       scale="gap")  # fmt: skip
    rho_low: float = param(0.3, "lowest load of a curve", gt=0, le=0.995)
    rho_high: float = param(0.99, "highest load of a curve", ge=0.5, le=0.995)
    loads: Whole = param(16, "loads on a curve", ge=2, le=200)
    tol: float = param(1e-4, "relative error allowed in the mean queue of an exact chain", ge=1e-6, le=0.01)
    scales: tuple[Annotated[int, Field(ge=1, le=100_000), WHOLE], ...] = param(
        (10, 100, 1000), "numbers n, time is divided by n and queues by its root", min_length=1, max_length=5
    )
    theta: float = param(-3.0, "drift of the scaled queue", ge=-20, le=20, slider=(-6, 2, 0.5))
    start: tuple[Annotated[float, Field(ge=0, le=1000)], ...] = param(
        (2.0, 1.0, 0.0), "fluid levels at time 0, one for each of the rates", min_length=2, max_length=3
    )
    farm: tuple[Rate, ...] = param(
        (0.5, 0.75, 1.0, 1.25, 1.5), "service rates of the larger system that is simulated", min_length=2,
        max_length=64,
    )
    scv: float = param(4.0, "squared coefficient of variation of the hyperexponential job sizes", ge=1, le=100,
                       slider=(1, 20, 0.5))  # fmt: skip
    servers: Whole = param(100, "servers of the farm set against the mean field", ge=4, le=10_000)
    paths: Whole = param(100, "simulated paths behind every mean over time", ge=10, le=2000)
    big: Whole = param(20, "size of a big job, of probability 1 / big, where the others are of size 0", ge=2, le=1000)
    simulated_jobs: Whole = param(1_000_000, "jobs of each simulated replication", ge=1000, le=1_000_000_000)
    replications: Whole = param(4, "independent replications of each simulated point", ge=2, le=1000)
    seed: Whole = param(1, "seed of all random numbers", ge=0, le=2**63 - 1)

    @model_validator(mode="after")
    def _fit_together(self):
        if not self.rho_low < self.rho_high:
            raise ValueError(f"rho_low must be below rho_high, not {self.rho_low:g} with rho_high {self.rho_high:g}")
        servers, slowest, fastest = len(self.rates), min(self.rates), max(self.rates)
        if len(self.start) != servers:
            raise ValueError(f"start must hold one level for each of the {servers} rates, not {len(self.start)}")
        if self.c > servers:
            raise ValueError(f"c must be at most the number of rates, {servers}, not {self.c}")
        if fastest > 5 * slowest:
            bound = f"5 times the least, {slowest:g}"
            raise ValueError(f"the largest of the rates must be at most {bound}, not {fastest:g}")
        least = -sum(self.rates) * min(self.scales) ** 0.5
        if self.theta <= least:
            raise ValueError(f"theta must be above {least:.4g}, where arrivals end at the least of the scales, "
                             f"not {self.theta:g}")
        return self


WorkloadSection = Literal[
    "tail", "work", "age", "order", "likelihood", "threshold", "large", "cutoffs", "small", "loads",
]  # fmt: skip
File = Annotated[str, Field(max_length=1000, json_schema_extra={"format": "file"})]  # a path from the repository on


class OwnWorkload(Study):
    """Sizes and gaps are files of one column, CSV or Parquet, in one unit of time; paths start at the repository.

    Times of the other parameters are in mean job sizes, loads per server. Gaps give arrivals their shape; how fast they
    come is said by the loads.
    """

    notebook = "own_workload"
    title = "A workload of one's own: its law, its fits, and the policy that suits it"
    paper = "the four papers, tried on a trace"

    figures: tuple[WorkloadSection, ...] = param(
        get_args(WorkloadSection), "sections to run", min_length=1, max_length=len(get_args(WorkloadSection))
    )
    sizes: File = param("data/sample_sizes.csv", "file of job sizes", min_length=1)
    gaps: File = param("", "file of the times between arrivals; empty for Poisson arrivals", min_length=0)
    order: Literal["resampled", "replayed"] = param(
        "resampled", "how a simulation draws from the files: independently, or in their order"
    )
    atoms: Whole = param(2000, "sizes that the law of the solvers may have; a longer trace is thinned", ge=100,
                         le=1_000_000)  # fmt: skip
    phases: Whole = param(3, "branches of the larger hyperexponential that is fitted", ge=2, le=10)
    lam: float = param(0.6, "load of the figures at a single load", gt=0, le=0.99, slider=(0.1, 0.95, 0.05))
    loads: tuple[Annotated[float, Field(gt=0, le=0.99)], ...] = param(
        (0.2, 0.4, 0.6, 0.8, 0.9), "loads that are compared", min_length=1, max_length=20
    )
    d: Whole = param(2, "servers that an arriving job samples", ge=2, le=100, slider=(2, 10, 1))
    delta: float = param(0.1, "width of an age layer", gt=0, le=100)
    c_max: float = param(40.0, "age at which the layers end", gt=0, le=1000)
    threshold_points: Whole = param(30, "thresholds that are tried, from delta to c_max", ge=2, le=1000)
    servers: Whole = param(200, "servers of the large system that is simulated", ge=2, le=100_000)
    h: Whole = param(2, "servers of the small system", ge=2, le=8, slider=(2, 8, 1))
    cutoff_points: Whole = param(200, "cutoffs on a curve", ge=10, le=10_000)
    simulated_jobs: Whole = param(300_000, "jobs of each simulated replication", ge=1000, le=1_000_000_000)
    replications: Whole = param(8, "independent replications of each simulated point", ge=2, le=1000)
    seed: Whole = param(1, "seed of all random numbers", ge=0, le=2**63 - 1)

    @model_validator(mode="after")
    def _fit_together(self):
        if not 1 <= self.c_max / self.delta <= 5000:
            low, high = self.c_max / 5000, self.c_max
            raise ValueError(f"delta must lie between c_max / 5000, {low:g}, and c_max, {high:g}, not {self.delta:g}")
        if self.d > self.servers:
            raise ValueError(f"d must be at most the number of servers simulated, {self.servers}, not {self.d}")
        return self


STUDIES: dict[str, type[Study]] = {study.notebook: study for study in Study.__subclasses__()}


def get(name: str) -> type[Study]:
    """The study of that name; a ValueError names the nearest one."""
    if name not in STUDIES:
        raise ValueError(f"there is no study {name!r}, only {', '.join(STUDIES)}{did_you_mean(name, STUDIES)}")
    return STUDIES[name]


def permitted(schema: Mapping[str, Any]) -> str:
    """What a parameter may be, in words, from its JSON schema."""
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if schema["type"] == "string":
        return f"text of {schema['minLength']} to {schema['maxLength']} characters"
    if schema["type"] == "array":
        return f"a list of {schema['minItems']} to {schema['maxItems']} items, each {permitted(schema['items'])}"
    if schema["type"] == "boolean":
        return "true or false"
    low = f"[{schema['minimum']}" if "minimum" in schema else f"({schema['exclusiveMinimum']}"
    high = f"{schema['maximum']}]" if "maximum" in schema else f"{schema['exclusiveMaximum']})"
    return f"{'an integer' if schema['type'] == 'integer' else 'a number'} in {low}, {high}"


def did_you_mean(name: str, names) -> str:
    """A question to end a sentence with: the nearest name, or nothing."""
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


_NUMBER = re.compile(r"[-+]?[\d_.]+(e[-+]?\d+)?", re.IGNORECASE)


def _sentences(study: type[Study], error: ValidationError) -> dict[str, str]:
    """One sentence for each bad parameter."""
    problems, schemas = {}, study.schemas()
    for problem in error.errors(include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if problem["type"] == "value_error":
            sentence = str(problem["ctx"]["error"])
        elif name not in schemas:
            sentence = f"there is no parameter {name!r}{did_you_mean(name, schemas)}"
        else:
            value, schema = problem["input"], schemas[name]
            inside = len(problem["loc"]) > 1  # an item of a list
            hint = _hint(value, schema["items"] if inside else schema)
            sentence = f"{name} must be {permitted(schema)}, not {_short(value)}{hint}"
        problems.setdefault(name, f"{study.notebook}: {sentence}")
    return problems


def _hint(value, schema) -> str:
    """How to write what was probably meant."""
    if "enum" in schema:
        return did_you_mean(value, schema["enum"]) if isinstance(value, str) else ""
    if schema["type"] == "array":
        return f"; write [{value}]" if isinstance(value, (str, int, float)) else ""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return ", which is text: write the number without quotes and, in YAML, with a decimal point, as in 1.0e-8"
    return ""


def _plain(value):
    """NumPy scalars and arrays as Python values, lists as tuples."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _short(value) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 80 else f"{text[:76]} ..."
