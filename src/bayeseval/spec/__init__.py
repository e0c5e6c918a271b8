"""Model specifications: what is in the linear predictor, declared in YAML."""

from bayeseval.spec.model import (
    AUTO,
    AUTO_SUMMARY,
    CovariateTerm,
    Effects,
    ModelSpec,
    ReplicateNoise,
    covariate_name,
    list_models,
    load_spec,
)
from bayeseval.spec.priors import Prior

__all__ = [
    "AUTO",
    "AUTO_SUMMARY",
    "CovariateTerm",
    "Effects",
    "ModelSpec",
    "Prior",
    "ReplicateNoise",
    "covariate_name",
    "list_models",
    "load_spec",
]
