"""What comes back: frozen results that know their system, how they were obtained and how wrong they may be."""

from lbkit.results.balanced import DelayTable, Diffusion, FluidPath, MaxLoad, ParallelDiffusion
from lbkit.results.chains import ExactChain, Imbalance
from lbkit.results.light_traffic import Approximant, Expansion, StabilityBound
from lbkit.results.mean_field import MeanField
from lbkit.results.simulation import Estimate, Simulation
from lbkit.results.tags import AssignmentBounds, LoadThreshold, OptimalCutoffs, TaskAssignment

__all__ = [
    "Approximant",
    "AssignmentBounds",
    "DelayTable",
    "Diffusion",
    "Estimate",
    "ExactChain",
    "Expansion",
    "FluidPath",
    "Imbalance",
    "LoadThreshold",
    "MaxLoad",
    "MeanField",
    "OptimalCutoffs",
    "ParallelDiffusion",
    "Simulation",
    "StabilityBound",
    "TaskAssignment",
]
