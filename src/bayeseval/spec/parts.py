"""Parts of a spec that have keys of their own: main effects, covariates, noise of replicates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from bayeseval import names
from bayeseval._yaml import text_like
from bayeseval.spec.priors import SpecConfig

__all__ = ["RESERVED_NAMES", "CovariateTerm", "Effects", "ReplicateNoise", "covariate_name"]

#: Names that tables of variance components and dimensions use for something else.
RESERVED_NAMES = {
    *(*names.FACTORS, names.DATASET, names.RECORD, *names.SOURCES, names.TEST_SET),
    *("residual", "replicates", "known_se", names.INTERCEPT, names.NU, "chain", "draw"),
}


class Effects(SpecConfig):
    """How each main effect is treated.

    ``pooled`` effects share a standard deviation that is estimated; the standard
    deviation of ``fixed`` effects is known and wide (`ModelSpec.fixed_scale` times
    sd(score)).
    """

    language: Literal["pooled", "fixed"] = "pooled"
    task: Literal["pooled", "fixed"] = "pooled"
    model: Literal["pooled", "fixed"] = "pooled"


class CovariateTerm(SpecConfig):
    """A covariate in the linear predictor, ``x * theta`` with x standardised.

    Attributes
    ----------
    name : str
        Name of the covariate; the benchmark's card or an argument of the fit gives its
        file. It must differ from the names of other parts of the model, such as
        ``language`` or ``residual``.
    missing : {"refuse", "model"}
        How to treat languages that have no value. ``refuse`` raises an error; ``model``
        estimates the missing values, with the prior N(0, 1).
    measurement_error : bool
        Whether a value with a standard error is a noisy measurement of an unknown value.
    """

    name: Annotated[
        str,
        text_like("[a-z][a-z0-9_]*", "lower-case letters, digits and '_', a letter first"),
    ]
    missing: Literal["refuse", "model"] = "refuse"
    measurement_error: bool = False


class ReplicateNoise(SpecConfig):
    """How the noise of replicates (seeds, bootstrapped test sets) is treated.

    Attributes
    ----------
    pool : bool
        True: the standard deviations of a model's cells share a distribution and are
        estimated together. False: the standard deviation of each cell is computed from
        its own replicates and taken as known, as in parametric resampling (arXiv:2509.22612,
        section 5).
    """

    pool: bool = True


def covariate_name(path: Path) -> str:
    """Turn the name of a covariate file into a valid covariate name, for ``auto``.

    Parameters
    ----------
    path : Path
        ``data/MEXA-2.csv`` gives ``mexa_2``; a reserved or unusable name gives ``covariate``.
    """
    name = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).strip("_")
    return (
        name
        if re.fullmatch(r"[a-z][a-z0-9_]*", name) and name not in RESERVED_NAMES
        else "covariate"
    )
