"""The models of a comparison: specs in, one prepared fit of the table for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from bayeseval import names
from bayeseval.engines import SamplerSettings
from bayeseval.errors import InputError, argument, did_you_mean, wording
from bayeseval.fitting.covariates import CovariateSource
from bayeseval.fitting.prepared import Prepared, prepare
from bayeseval.records import PairSource, Records
from bayeseval.spec import AUTO, ModelSpec, load_spec

__all__ = ["SpecSource", "check_asked", "model_name", "prepare_models"]

#: One model: a name, a file or a spec.
SpecSource = str | Path | ModelSpec | Mapping  # type: ignore[type-arg]


def check_asked(
    by: str, *, holdout: object = None, repeats: object = None, fits: object = None
) -> None:
    """Refuse arguments of a comparison that do not go together.

    Parameters
    ----------
    by, holdout, repeats, fits
        As for :func:`bayeseval.compare`.

    Raises
    ------
    InputError
        If nothing of the kind can be left out, or an argument has no use.
    """
    allowed = get_args(names.LeftOut)
    if by not in allowed:
        raise InputError(
            f"cannot leave out one {by!r} at a time{did_you_mean(by, allowed)} "
            f"(it is one of: {', '.join(allowed)})"
        )
    if holdout is None and repeats is not None:
        raise InputError(
            "repeats are given, and no share to leave out; add "
            + wording("holdout=0.3", "--holdout 0.3")
        )
    if holdout is not None and fits is not None:
        raise InputError(
            "fits are given, and with holdout every model is fitted to a part of the table; leave "
            "fits out"
        )


def prepare_models(
    records: Records,
    specs: SpecSource | Sequence[SpecSource],
    *,
    engine: str,
    seed: int,
    covariate: CovariateSource,
    pairs: PairSource,
) -> tuple[Prepared, ...]:
    """Prepare a fit of the table for each model.

    Parameters
    ----------
    records, specs, engine, seed, covariate, pairs
        As for :func:`bayeseval.compare`.

    Raises
    ------
    InputError
        If no model is named, one is named twice, none takes the covariate, or models read
        different scores.
    """
    several = [specs] if isinstance(specs, SpecSource) else specs
    if not isinstance(several, Sequence):
        raise InputError(
            "models are a name, a YAML file, a ModelSpec, a dict, or a list of these; got "
            f"{type(specs).__name__}"
        )
    settings = SamplerSettings(seed=seed)
    loaded = [_loaded(spec) for spec in several]
    takers = [
        covariate is not None and (isinstance(spec, str) or bool(spec.covariates))
        for spec in loaded
    ]
    if covariate is not None and loaded and not any(takers):
        raise InputError(
            f"{argument('covariate')} is given, and none of the models has a covariate; name one "
            "that has (mexa), or auto, which adds it"
        )
    fits = tuple(
        prepare(
            records,
            spec,
            engine=engine,
            settings=settings,
            covariate=covariate if takes else None,
            pairs=pairs,
        )
        for spec, takes in zip(loaded, takers, strict=True)
    )
    _check(fits, engine=engine)
    return fits


def model_name(fit: Prepared) -> str:
    """Name of the spec."""
    return fit.design.spec.name


def _loaded(spec: SpecSource) -> ModelSpec | str:
    """The spec, read once; ``auto`` depends on the table."""
    if isinstance(spec, str) and spec == AUTO:
        return spec
    return load_spec(dict(spec) if isinstance(spec, Mapping) else spec)


def _check(fits: Sequence[Prepared], *, engine: str) -> None:
    called = [model_name(one) for one in fits]
    if not fits:
        raise InputError(
            "a comparison needs a model; name at least one: "
            + wording("specs=['additive']", "--models additive")
        )
    if len(set(called)) < len(called):
        twice = next(name for i, name in enumerate(called) if name in called[:i])
        raise InputError(f"the model {twice!r} is named twice; every model needs a name of its own")
    if engine == "ml":
        raise InputError(
            "engine ml gives a point estimate, and left-out densities are means over a posterior; "
            f"leave {argument('engine')} out"
        )
    first = fits[0].design
    for design in (one.design for one in fits):
        # Sources that are averaged over change the order of a sum, and so its last digits.
        if len(design.score) != len(first.score) or not np.allclose(
            design.score, first.score, rtol=1e-12, atol=0.0
        ):
            raise InputError(
                f"{first.spec.name} and {design.spec.name} read different scores from the table, "
                "so that their densities cannot be compared"
            )
