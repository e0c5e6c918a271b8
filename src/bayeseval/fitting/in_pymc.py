"""`pymc_model`: the model that would be fitted, as a PyMC model to inspect and extend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bayeseval._calls import explained
from bayeseval.errors import InputError
from bayeseval.fitting.covariates import CovariateSource
from bayeseval.fitting.prepared import prepare
from bayeseval.records import Records, TableSource
from bayeseval.records import load as load_records
from bayeseval.spec import AUTO, ModelSpec

__all__ = ["pymc_model"]


@explained
def pymc_model(
    records: Records | TableSource,
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    covariate: CovariateSource = None,
    extend: Callable[[Any], Any] | None = None,
) -> Any:
    """Build the PyMC model of a spec on a table, to inspect, extend and sample in PyMC.

    Parameters
    ----------
    records, spec, covariate
        As for :func:`bayeseval.fit`.
    extend : callable, optional
        Adds terms. It is called in the context of the model with the linear predictor, a
        tensor with one value for every record in the order of ``records.table``, and returns
        a linear predictor of the same shape. Under a logit link it is on the logit scale.

    Returns
    -------
    pymc.Model
        The density that all engines sample, with the names and dimensions of a fit. The
        observed variable is ``score`` (with several likelihoods ``score_<likelihood>``). Terms
        for which few scores are known are non-centred: ``<term>_effect_offset`` is sampled and
        ``<term>_effect`` is deterministic.

    Raises
    ------
    BayesevalError
        If the table cannot be read or cannot identify the spec, or `extend` returns something
        other than one value for every record.

    Examples
    --------
    >>> import bayeseval as be
    >>> model = be.pymc_model(df, "additive")
    >>> [str(variable) for variable in model.observed_RVs]
    ['score']
    >>> sorted(model.named_vars_to_dims["language_effect"])
    ['language']
    """
    from bayeseval.engines.pymc import build

    if extend is not None and not callable(extend):
        raise InputError(f"extend must be a function, got {type(extend).__name__}")
    table = records if isinstance(records, Records) else load_records(records)
    prepared = prepare(table, spec, engine="pymc", covariate=covariate)
    return build(prepared.design, extend=extend)
