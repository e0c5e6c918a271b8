"""Parts of a spec that have keys of their own: main effects, covariates, noise of replicates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from bayeseval import names
from bayeseval._yaml import text_like
from bayeseval.errors import did_you_mean
from bayeseval.spec.priors import SpecConfig

__all__ = [
    "RESERVED_NAMES",
    "CovariateTerm",
    "Effects",
    "ReplicateNoise",
    "as_sources",
    "covariate_name",
    "separated",
]

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


def as_sources(value: Any) -> Any:
    """Sources of noise in the order of every output; refuse unknown ones, and prompts with judges.

    Parameters
    ----------
    value : object
        A name, a list of names, or None.
    """
    value = (value,) if isinstance(value, str) else value
    if not isinstance(value, list | tuple):
        return value
    allowed = names.NAMED_SOURCES
    for one in value:
        if one not in allowed:
            raise ValueError(
                f"unknown source {one!r}{did_you_mean(str(one), allowed)} "
                f"(allowed: {', '.join(allowed)})"
            )
    if len(set(value)) < len(value):
        raise ValueError("a source is named twice")
    if set(names.SHARED_SOURCES) <= set(value):
        raise ValueError(
            f"the noise of one of {' and '.join(names.SHARED_SOURCES)} is modelled at a time; "
            "remove one of them"
        )
    return tuple(source for source in allowed if source in value)


def separated(sources: tuple[names.Source, ...] | None) -> tuple[names.Source, ...]:
    """Sources whose noise a model separates where a table has them, with their interaction.

    Examples
    --------
    >>> separated(("seed", "boot"))
    ('seed', 'boot', 'seed_boot')
    """
    if sources is None:
        return names.SOURCES
    both = {"seed", "boot"} <= set(sources)
    return tuple(
        source for source in names.SOURCES if source in sources or (source == "seed_boot" and both)
    )


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
