"""Model specifications: what is in the linear predictor, declared in YAML."""

from bayeseval.spec.model import (
    AUTO,
    AUTO_SUMMARY,
    ModelSpec,
    list_models,
    load_spec,
)
from bayeseval.spec.parts import (
    CovariateTerm,
    Effects,
    ReplicateNoise,
    covariate_name,
    separated,
)
from bayeseval.spec.priors import Prior
from bayeseval.spec.relations import LanguageRelations, ModelRelations

__all__ = [
    "AUTO",
    "AUTO_SUMMARY",
    "CovariateTerm",
    "Effects",
    "LanguageRelations",
    "ModelRelations",
    "ModelSpec",
    "Prior",
    "ReplicateNoise",
    "covariate_name",
    "list_models",
    "load_spec",
    "separated",
]
