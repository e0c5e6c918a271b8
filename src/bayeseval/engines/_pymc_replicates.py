"""The noise of replicates in PyMC: seeds, test sets, prompts and judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymc as pm
import pytensor.tensor as pt

from bayeseval import names
from bayeseval.design import ByCell, Replicates, Source
from bayeseval.records import restricted_log_density

__all__ = ["replicate_noise"]


def replicate_noise(replicates: Replicates, value: Mapping[str, Any]) -> tuple[Any, Any]:
    """Add the density of the replicates to the model.

    Parameters
    ----------
    replicates : Replicates
    value : mapping of str to tensor
        The parameters of the model.

    Returns
    -------
    variance : tensor
        Noise of the records.
    shift : tensor or None
        What the prompts (or judges) that cells share add to the records.
    """
    expected = noise = 0.0
    shift = None
    variances = {}
    for source in replicates.sources:
        typical = pm.math.log(value[names.source_model_sd(source.name)])
        if source.over_models is not None:
            typical = typical @ source.over_models
        centre = typical[source.model]
        within = value[names.source_log_sd(source.name)]
        if source.centred:
            log_sd = pm.Normal(source.drawn, mu=centre, sigma=within, dims=source.dim)
        else:
            log_sd = centre + within * pm.Normal(source.drawn, dims=source.dim)
        sd = pm.Deterministic(
            names.source_cell_sd(source.name), pm.math.exp(log_sd), dims=source.dim
        )
        variance = variances[source.name] = sd**2
        noise = noise + source.share * variance[source.of_record]
        if source.by_cell is not None:
            shift = _prompts(source, source.by_cell, value, variance)
        else:
            weight, cell = replicates.weight[source.name], replicates.cell[source.name]
            expected = expected + weight * variance[cell]
    if len(replicates.squares):
        pm.Gamma(
            names.SQUARES,
            alpha=replicates.df / 2.0,
            beta=1.0 / (2.0 * expected),
            observed=replicates.squares,
        )
    if replicates.unbalanced is not None:
        log_density = restricted_log_density(
            replicates.unbalanced,
            *(variances[name][replicates.unbalanced_cell[name]] for name in names.RUN_SOURCES),
            xp=pt,
        )
        pm.Potential(names.UNBALANCED, log_density.sum())
    return noise, shift


def _prompts(source: Source, by_cell: ByCell, value: Mapping[str, Any], variance: Any) -> Any:
    """Density of the contrasts among prompts; returns the shared part of every record."""
    effects = []
    for one in by_cell.shared:
        sd = value[one.sd]
        drawn = pm.Normal(one.drawn, sigma=sd if one.centred else 1.0, dims=one.dim)
        effects.append(
            drawn if one.centred else pm.Deterministic(one.effect, sd * drawn, dims=one.dim)
        )
    sums = by_cell.sums(effects)
    pm.Potential(names.CONTRASTS, by_cell.log_density(sums, variance, xp=pt).sum())
    return by_cell.means(sums)[source.of_record] * (source.share > 0.0)
