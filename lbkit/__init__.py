"""Load balancing in parallel-server systems: solvers, one simulator, and the notebooks of four studies.

Modules load on first use, so that ``import lbkit`` costs next to nothing.
"""

from importlib import import_module
from importlib.metadata import version

__version__ = version("lbkit")

_MODULES = (
    "jobs", "policies", "cavity", "light_traffic", "tags", "balanced", "chains", "studies", "plots", "record", "batch",
    "panels", "presets", "widgets", "workload",
)  # fmt: skip
_NAMES = {"System": "systems", "simulate": "simulation", "sample_path": "simulation"}

__all__ = [*_MODULES, *_NAMES]


def __getattr__(name):
    if name in _MODULES:
        return import_module(f"lbkit.{name}")
    if name in _NAMES:
        return getattr(import_module(f"lbkit.{_NAMES[name]}"), name)
    raise AttributeError(f"lbkit has no {name!r}; it has {', '.join(__all__)}")


def __dir__():
    return sorted([*__all__, "__version__"])
