"""Fitting: records and a spec in, one frozen :class:`Fit` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayeseval._calls import explained
from bayeseval._progress import reporting
from bayeseval._typing import Progress
from bayeseval.engines import SamplerSettings
from bayeseval.fitting.covariates import CovariateSource
from bayeseval.fitting.fitted import LEAVE_OUT_DRAWS, Fit
from bayeseval.fitting.gate import warn_of_gates
from bayeseval.fitting.prepared import prepare
from bayeseval.records import PairSource, Records, TableSource
from bayeseval.records import load as load_records
from bayeseval.spec import AUTO, ModelSpec

__all__ = ["LEAVE_OUT_DRAWS", "Fit", "fit"]


@explained
def fit(
    records: Records | TableSource,
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    engine: str = "auto",
    draws: int | None = None,
    tune: int | None = None,
    chains: int | None = None,
    seed: int = 0,
    target_accept: float | None = None,
    nuts_sampler: str | None = None,
    leave_out: str | Sequence[str] = (),
    predictive: bool = False,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
    margin: float | None = None,
    progress: Progress | bool | None = None,
) -> Fit:
    """Fit one multilevel model to a table of scores.

    Parameters
    ----------
    records : Records, DataFrame, str or Path
        The table, or what :func:`bayeseval.load` takes.
    spec : str, Path, ModelSpec or dict
        A shipped model's name, a YAML file, or a spec. ``auto`` is the fullest of
        ``additive``, ``interaction``, ``crossed`` and ``dataset`` whose effects can be estimated
        separately from the table (``paper`` with the engine ``ml``); ``run.json`` states it with
        the reasons.
    engine : {"auto", "numpyro", "pymc", "marginal", "ml"}
        Algorithm that computes the posterior. ``auto`` is ``marginal`` if the likelihood is
        Gaussian and no setting of NUTS is given, else ``numpyro``; ``run.json`` states it with the
        reason.
    draws, tune, chains : int, optional
        Kept draws and warm-up per chain, number of chains; None is the engine's default. An engine
        refuses settings that it does not use. With few draws the convergence gate fails, and with
        fewer than 37 in total every simultaneous rank set contains all ranks.
    seed : int
        Random seed; the same seed gives the same numbers.
    target_accept : float, optional
        Target acceptance rate of NUTS.
    nuts_sampler : str, optional
        For the engine ``pymc``: ``pymc``, ``nutpie``, ``numpyro`` or ``blackjax``.
    leave_out : sequence of {"record", "language", "task", "model"}, or one of these
        Store the closed-form densities of left-out scores with the fit, as groups
        ``leave_out_<what>`` of its data; see :meth:`Fit.leave_one_out`.
    predictive : bool
        Store the groups that ArviZ's prior, predictive and power-scaling functions read:
        ``posterior_predictive``, ``prior``, ``prior_predictive`` and ``log_prior``. They more
        than double the size of the result, and nothing else in it changes;
        :meth:`Fit.with_predictive` adds them later.
    covariate : Covariate, sequence of Covariate, str or Path, optional
        For a model with covariates: values, or a file of them. By default, those that the
        benchmark's card names. ``auto`` includes those that are given here in the model.
    pairs : str, Path or DataFrame
        The language-task pairs that models are compared on: ``any`` that a model was tested
        on, those ``shared`` by two models or more, or a table of them with the columns
        ``language`` and ``task``.
    margin : float, optional
        Difference between two models that is too small to matter, score units. When left
        out, 1 % of the declared range of the scores.
    progress : bool or callable, optional
        True shows progress on stderr; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Fit
        A fit that did not converge is returned too, after one retry with stricter
        settings: ``fit.gate.status`` is ``fail``, and its ``repr`` and the column ``gate`` of its
        tables say so.

    Raises
    ------
    BayesevalError
        If the table cannot be read, the spec is invalid, its effects cannot be estimated from the
        table, or the engine refuses it.

    Warns
    -----
    ConvergenceWarning
        Once, if the convergence gate failed.

    Examples
    --------
    >>> import bayeseval as be
    >>> fit = be.fit(df, "additive", draws=400, chains=2, seed=0)
    >>> fit.gate.status
    'pass'
    """
    settings = SamplerSettings(
        draws=draws,
        tune=tune,
        chains=chains,
        seed=seed,
        target_accept=target_accept,
        nuts_sampler=nuts_sampler,
    )
    with reporting(progress) as report:
        table = records if isinstance(records, Records) else load_records(records)
        prepared = prepare(
            table,
            spec,
            engine=engine,
            settings=settings,
            leave_out=leave_out,
            predictive=predictive,
            covariate=covariate,
            pairs=pairs,
            margin=margin,
        )
        result = prepared.run(report)
    warn_of_gates({"": result.gate}, stacklevel=3)
    return result
