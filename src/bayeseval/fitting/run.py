"""Fitting: records and a spec in, one frozen :class:`Fit` out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeseval import names
from bayeseval._progress import reporting
from bayeseval._typing import Progress
from bayeseval.design import Design, build_design, choose_model
from bayeseval.engines import SamplerSettings, choose_engine, load_engine, to_tree
from bayeseval.errors import InputError
from bayeseval.fitting.covariates import CovariateSource, covariate_names, find_covariates
from bayeseval.fitting.fitted import LEAVE_OUT_DRAWS, Fit
from bayeseval.fitting.gate import Gate, convergence_gate, warn_of_gates
from bayeseval.fitting.provenance import provenance, sampling
from bayeseval.records import (
    PairChoice,
    PairSource,
    Records,
    TableSource,
    choose_pairs,
    pairs_hash,
    warn_of_sole_pairs,
)
from bayeseval.records import load as load_records
from bayeseval.spec import AUTO, ModelSpec

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LEAVE_OUT_DRAWS", "Fit", "fit", "run_fit"]

# A failed gate is met once with smaller steps and twice the length; what still
# fails then is a problem of the model or the data, not of the sampler's settings.
_STRICT_ACCEPT = 0.99
_STRICT_FACTOR = 2

_SIDES = ("lower", "upper")


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
    leave_out: Sequence[str] = (),
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
        ``additive``, ``interaction``, ``crossed`` and ``dataset`` that the table identifies
        (``paper`` with the engine ``ml``); ``run.json`` says which and why.
    engine : {"auto", "numpyro", "pymc", "marginal", "ml"}
        How to get to the posterior. ``auto`` is ``marginal`` where the likelihood is
        Gaussian and no setting of NUTS is given, else ``numpyro``; ``run.json`` says
        which and why.
    draws, tune, chains : int, optional
        Kept draws and warm-up per chain, number of chains; None is the engine's
        default. An engine refuses what it has no use for.
    seed : int
        The one seed; same seed, same numbers.
    target_accept : float, optional
        Target acceptance rate of NUTS.
    nuts_sampler : str, optional
        For the engine ``pymc``: ``pymc``, ``nutpie``, ``numpyro`` or ``blackjax``.
    leave_out : sequence of {"record", "language", "task", "model"}
        Store the closed-form densities of left-out scores with the fit, as groups
        ``leave_out_<what>`` of its data; see :meth:`Fit.leave_one_out`.
    covariate : Covariate, sequence of Covariate, str or Path, optional
        For a model with covariates: values, or a file of them. When left out, what the
        benchmark's card names. ``auto`` takes those that are given here into the model.
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
        settings: ``fit.gate.status`` is ``fail``, and so say its ``repr`` and the column
        ``gate`` of its tables.

    Raises
    ------
    BayesevalError
        If the table cannot be read, the spec makes no sense, the table cannot
        identify it, or the engine refuses.

    Warns
    -----
    ConvergenceWarning
        Once, if the convergence gate failed.
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
        result = run_fit(
            records,
            spec,
            engine=engine,
            settings=settings,
            leave_out=leave_out,
            covariate=covariate,
            pairs=pairs,
            margin=margin,
            progress=report,
        )
    warn_of_gates({"": result.gate}, stacklevel=2)
    return result


def run_fit(
    records: Records | TableSource,
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    engine: str = "auto",
    settings: SamplerSettings,
    leave_out: Sequence[str] = (),
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
    margin: float | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Fit as :func:`fit` does, for callers that say themselves when the gate failed.

    Parameters
    ----------
    records, spec, engine
        As for :func:`fit`.
    settings : SamplerSettings
        Draws, warm-up, chains, seed and the settings of NUTS.
    leave_out, covariate, pairs, margin, progress
        As for :func:`fit`.

    Returns
    -------
    Fit
        Without a warning when its gate failed.
    """
    import xarray as xr

    table = records if isinstance(records, Records) else load_records(records)
    model = choose_model(spec, table, covariates=covariate_names(covariate), engine=engine)
    covariates = find_covariates(table, model.spec, covariate)
    design = build_design(table, model.spec, covariates)
    common = choose_pairs(table, pairs)
    comparison = comparison_data(table, common, margin)
    chosen = choose_engine(engine, design, settings)
    engine = chosen.name
    if leave_out:
        from bayeseval.engines._leave_out import check_leave_out

        for by in leave_out:
            check_leave_out(design, by)
    started = time.perf_counter()
    tree, gate, used = _attempt(design, comparison, settings, engine=engine, progress=progress)
    retried = gate.status == "fail"
    if retried:
        strict = replace(used, draws=_STRICT_FACTOR * (used.draws or 1))
        if used.tune is not None:
            strict = replace(
                strict,
                tune=_STRICT_FACTOR * used.tune,
                target_accept=max(_STRICT_ACCEPT, used.target_accept or 0.0),
            )
        if progress is not None:
            progress("retry", 0, 1, "the convergence gate failed; once more, stricter")
        tree, gate, used = _attempt(design, comparison, strict, engine=engine, progress=progress)
    for by in leave_out:
        if progress is not None:
            progress(f"leaving out each {by}", 0, 1, "")
        tree[names.leave_out_group(by)] = xr.DataTree(_left_out(design, tree, by))
        if progress is not None:
            progress(f"leaving out each {by}", 1, 1, "")
    seconds = time.perf_counter() - started
    run = provenance(table, design, gate, covariates=covariates, engine=engine, settings=used)
    run["notes"] += warn_of_sole_pairs(table, common)
    run |= {
        "model_reasons": list(model.reasons),
        "engine_reason": chosen.reason,
        "sampling": sampling(tree),
        "retried": retried,
        "pairs": common.name,
        "pairs_hash": pairs_hash(table, common),
        "margin": margin,
        "seconds": round(seconds, 3),
    }
    return Fit(data=tree, run=run)


def _left_out(design: Design, tree: xr.DataTree, by: str) -> xr.Dataset:
    from bayeseval.engines._leave_out import leave_out_tree

    posterior = tree["posterior"].to_dataset()
    left_out = leave_out_tree(design, posterior, by=by, draws=LEAVE_OUT_DRAWS)
    return left_out["log_likelihood"].to_dataset()


def comparison_data(records: Records, pairs: PairChoice, margin: float | None) -> xr.Dataset:
    """What a comparison of models rests on besides the posterior, for ``constant_data``.

    Parameters
    ----------
    records : Records
        The table, for the declared range of every task.
    pairs : PairChoice
        The common pairs.
    margin : float, optional
        Difference that is too small to matter, score units.

    Raises
    ------
    InputError
        If `margin` is not a positive number.
    """
    import xarray as xr

    if margin is not None and not 0.0 < margin < np.inf:
        raise InputError(f"margin must be a positive number of score units, got {margin:g}")
    units = [records.units[task] for task in records.coords["task"]]
    bounds = np.array([[u.lower, u.upper] for u in units], dtype=np.float64).T
    data = {f"declared_{side}": ((names.TASK,), b) for side, b in zip(_SIDES, bounds, strict=True)}
    if pairs.name != "any":
        data |= {
            "common_pair_language": (("common_pair",), pairs.language),
            "common_pair_task": (("common_pair",), pairs.task),
        }
    attrs = {"pairs": pairs.name} | ({} if margin is None else {"margin": float(margin)})
    return xr.Dataset(data, attrs=attrs)


def _attempt(
    design: Design,
    comparison: xr.Dataset,
    settings: SamplerSettings,
    *,
    engine: str,
    progress: Progress | None,
) -> tuple[xr.DataTree, Gate, SamplerSettings]:
    import xarray as xr

    from bayeseval.estimands import derive

    result = load_engine(engine)(design, settings, progress=progress)
    tree = to_tree(design, result, engine=engine)
    constant = tree["constant_data"].to_dataset()
    attrs = {**constant.attrs, **comparison.attrs}
    tree["constant_data"] = xr.DataTree(constant.merge(comparison).assign_attrs(attrs))
    if progress is not None:
        progress("estimands", 0, 1, "")
    additions, estimands = derive(tree, seed=settings.seed)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().merge(additions))
    tree["estimands"] = xr.DataTree(estimands)
    gate = convergence_gate(tree)
    if progress is not None:
        progress("estimands", 1, 1, "")
    return tree, gate, result.settings
