"""Model specifications: what is in the linear predictor, declared in YAML."""

from bayeseval.spec.model import (
    CovariateTerm,
    Effects,
    ModelSpec,
    ReplicateNoise,
    list_models,
    load_spec,
)
from bayeseval.spec.priors import Prior

__all__ = [
    "CovariateTerm",
    "Effects",
    "ModelSpec",
    "Prior",
    "ReplicateNoise",
    "list_models",
    "load_spec",
]
