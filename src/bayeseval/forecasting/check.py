"""How well forecasts do: every language left out and forecast, with the covariate and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._cluster import Cluster
from bayeseval._processes import run_all
from bayeseval._random import generator
from bayeseval._typing import Floats, Progress
from bayeseval.design import Design
from bayeseval.engines import SamplerSettings
from bayeseval.estimands import read_arrays
from bayeseval.estimands.expected import language_potential
from bayeseval.estimands.forecast import sample_crps

__all__ = ["check_forecasts"]

# Draws of each refit, per chain: a mean and two quantiles are wanted of each.
_DRAWS: Final = 500


class _Shared(NamedTuple):
    """What all refits share: the models with the covariate and without."""

    models: tuple[Design, Design]
    draws: int
    seed: int


def check_forecasts(
    design: Design,
    *,
    draws: int = _DRAWS,
    seed: int = 0,
    jobs: int | Cluster = 1,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Leave out every language and forecast it, with the covariate and without.

    What is forecast is the language's potential as all its records say it without any
    pooling: with language effects fixed and no covariate. It has an error itself, which the
    intervals have to cover too and which is added to them.

    Parameters
    ----------
    design : Design
        Gaussian, with a covariate.
    draws : int
        Of each refit, in each of two chains.
    seed : int
        The one seed.
    jobs : int or Cluster
        Refits at once, or where they run.
    progress : callable, optional
        Called as ``progress(stage, done, total, remark)``.

    Returns
    -------
    pandas.DataFrame
        A row per language and model: ``language``, ``with_covariate``, ``target``,
        ``target_sd``, ``forecast_{mean,sd}`` (of the potential), ``error``, ``crps``,
        ``covered_90``, ``covered_95`` (of the target), ``elpd`` (log density of the
        language's scores given all others), ``n_records``. Score units, natural log.
    """
    plain = _without_covariate(design)
    # Fixed by a known wide sd: the potentials that the records alone give.
    unpooled = _potentials(_unpooled(plain), draws, seed)[0]
    target, error = unpooled.mean(axis=0), unpooled.std(axis=0, ddof=1)
    labels = design.coords[names.LANGUAGE]
    counts = np.bincount(design.factor_index[names.LANGUAGE], minlength=len(labels))
    rows: list[dict[str, object]] = []
    rng = generator(seed, "forecast-check")
    refits = run_all(
        _without_level,
        [(number, level) for number in (0, 1) for level in range(len(labels))],
        shared=_Shared((design, plain), draws, seed),
        jobs=jobs,
        stage="leaving out each language",
        progress=progress or (lambda stage, done, total, remark: None),
        labels=[*labels, *labels],
    )
    for number, (model, is_with) in enumerate(((design, True), (plain, False))):
        whole = _potentials(model, draws, seed)[1]
        for level, label in enumerate(labels):
            own, evidence = refits[number * len(labels) + level]
            noisy = own + error[level] * rng.standard_normal(len(own))
            covered = [
                bool(low <= target[level] <= high)
                for low, high in (
                    np.quantile(noisy, [0.5 - p / 2, 0.5 + p / 2]) for p in (0.9, 0.95)
                )
            ]
            rows.append(
                {
                    names.LANGUAGE: label,
                    "with_covariate": is_with,
                    "target": target[level],
                    "target_sd": error[level],
                    "forecast_mean": own.mean(),
                    "forecast_sd": own.std(ddof=1),
                    "error": own.mean() - target[level],
                    "crps": sample_crps(noisy, float(target[level])),
                    "covered_90": covered[0],
                    "covered_95": covered[1],
                    "elpd": whole - evidence,
                    "n_records": int(counts[level]),
                }
            )
    return pd.DataFrame(rows)


def _without_level(
    shared: _Shared, asked: tuple[int, int], beat: Progress | None
) -> tuple[Floats, float]:
    """Draws of the potential of a language that was left out, and the log evidence."""
    from bayeseval.engines._evidence import without

    number, level = asked
    if beat is not None:
        beat("leaving out a language", 0, 1, "")
    rest = without(shared.models[number], by="language", unit=level)
    values, evidence = _potentials(rest, shared.draws, shared.seed)
    return values[:, level], evidence


def _without_covariate(design: Design) -> Design:
    known = {slope.slope for slope in design.slopes}
    known |= {sd for term in design.terms for sd in term.sds if sd != term.sd}
    priors = {k: prior for k, prior in design.priors.items() if k not in known}
    spec = design.spec.model_copy(update={"covariates": (), "languages": None, "models": None})
    terms = tuple(replace(term, relations=None) for term in design.terms)
    return replace(design, spec=spec, terms=terms, slopes=(), priors=priors)


def _unpooled(design: Design) -> Design:
    sd = names.sd_name(names.LANGUAGE)
    wide = design.spec.fixed_scale * float(design.score.std(ddof=1))
    return replace(
        design,
        terms=tuple(
            replace(term, known_sd=wide) if term.name == names.LANGUAGE else term
            for term in design.terms
        ),
        priors={k: prior for k, prior in design.priors.items() if k != sd},
    )


def _potentials(design: Design, draws: int, seed: int) -> tuple[Floats, float]:
    """Draws of all languages' potentials, and the log evidence."""
    from bayeseval.engines import to_tree
    from bayeseval.engines.marginal import sample

    sampled = sample(design, SamplerSettings(draws=draws, chains=2, seed=seed))
    arrays = read_arrays(to_tree(design, sampled, engine="marginal"))
    values = language_potential(arrays, seed=seed)
    return values, float(sampled.attrs.get("log_marginal_likelihood", "nan"))
