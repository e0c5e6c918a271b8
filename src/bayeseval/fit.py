"""Fitting: records and a spec in, one frozen :class:`Fit` out.

`Fit` is the object users hold. Its data are an ArviZ DataTree; its methods are
views of that tree computed in `estimands`, its files are written by `output`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayeseval import names
from bayeseval.covariates import CovariateSource, find_covariates
from bayeseval.design import Design, build_design, restore_design
from bayeseval.diagnostics import Gate, convergence_gate
from bayeseval.engines import Progress, SamplerSettings, choose_engine, load_engine, to_tree
from bayeseval.errors import DesignError, InputError
from bayeseval.provenance import provenance, sampling
from bayeseval.records import Records
from bayeseval.records import load as load_records
from bayeseval.spec import ModelSpec, load_spec

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeseval.checks import Checks

__all__ = ["LEAVE_OUT_DRAWS", "Fit", "fit"]

# A failed gate is met once with smaller steps and twice the length; what still
# fails then is a problem of the model or the data, not of the sampler's settings.
_STRICT_ACCEPT = 0.99
_STRICT_FACTOR = 2

# Draws of each chain that left-out densities are computed at: they depend on the sds
# alone, which a thousand draws know well.
LEAVE_OUT_DRAWS = 250


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model: the posterior, how it was made, and the views of it.

    Attributes
    ----------
    data : xarray.DataTree
        ArviZ schema: ``posterior``, ``sample_stats``, ``log_likelihood``,
        ``observed_data``, ``constant_data``, ``estimands``. Scores and potentials
        are in the units of the benchmark, PRR are ratios.
    run : dict
        Provenance, written as ``run.json``: versions, spec, priors in score
        units, engine, settings, hashes, timings, gate.
    """

    data: xr.DataTree
    run: Mapping[str, Any]

    @property
    def gate(self) -> Gate:
        """The convergence gate's outcome."""
        return Gate.from_dict(self.run["gate"])

    @property
    def spec(self) -> ModelSpec:
        """The spec that was fitted."""
        return load_spec(dict(self.run["spec"]))

    def potential(self, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Language potential with intervals and ranks (paper 000, Eq. 3).

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            One row per language, highest first; the columns of
            ``tables/language_potential.csv``. Score units.
        """
        from bayeseval.estimands import potential_table

        return potential_table(self.data, ci_prob=ci_prob)

    def prr(
        self,
        *,
        support: names.Support | None = None,
        flavour: names.Flavour = "observed",
        ci_prob: float = names.CI_PROB,
    ) -> pd.DataFrame:
        """Mean-, Std- and CV-PRR of every model (paper 000, Eq. 4 and 5).

        Parameters
        ----------
        support : {"observed", "common"}, optional
            The pairs a model was tested on, or every pair of the benchmark; both
            when left out.
        flavour : {"observed", "latent"}
            Ratios of observed scores, or of expected scores.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/model_disparity.csv``; ratios.
        """
        from bayeseval.estimands import disparity_table

        if support is not None and support not in names.SUPPORTS:
            raise InputError(f"support must be one of {', '.join(names.SUPPORTS)}, got {support!r}")
        if flavour not in names.FLAVOURS:
            raise InputError(f"flavour must be one of {', '.join(names.FLAVOURS)}, got {flavour!r}")
        table = disparity_table(self.data, flavour=flavour, ci_prob=ci_prob)
        if support is None:
            return table
        return table[table["support"] == support].reset_index(drop=True)

    def components(self, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Variance components and their shares of the total variance.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/variance_components.csv``; its ``scale`` is that of the sds.
        """
        from bayeseval.estimands import components_table

        return components_table(self.data, ci_prob=ci_prob)

    def covariates(self, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Slopes of covariates, and the share of the languages' variance they explain.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/covariates.csv``; empty without covariates.
        """
        from bayeseval.estimands import covariates_table

        return covariates_table(self.data, ci_prob=ci_prob)

    def pairwise(
        self, quantity: str = "mean_prr", *, ci_prob: float = names.CI_PROB
    ) -> pd.DataFrame:
        """Differences of all pairs of models in one quantity.

        Parameters
        ----------
        quantity : str
            A posterior variable on the dimension ``model``, for example
            ``mean_prr``, ``cv_prr_common`` or ``model_effect``.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/pairwise_models.csv``.
        """
        from bayeseval.estimands import pairwise_table

        return pairwise_table(self.data, [quantity], ci_prob=ci_prob)

    def ranks(self, quantity: str = names.LANGUAGE_POTENTIAL) -> pd.DataFrame:
        """Probability of every rank of every level; 1 is best.

        Parameters
        ----------
        quantity : str
            ``language_potential``, ``mean_prr``, ``cv_prr`` or one of their
            variants.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/rank_probabilities.csv``.
        """
        from bayeseval.estimands import rank_probability_table

        return rank_probability_table(self.data, [quantity])

    def leave_one_out(
        self,
        by: names.LeftOut = "record",
        *,
        draws: int | None = LEAVE_OUT_DRAWS,
    ) -> xr.DataTree:
        """Densities of left-out scores, for ArviZ's ``loo`` and ``compare``.

        ``arviz_stats.loo(fit.leave_one_out())`` is the expected log predictive
        density. Given the standard deviations the densities are exact, so that
        importance sampling is left with the standard deviations only: its k-hats stay
        low where those of the plain ``log_likelihood`` do not.

        Parameters
        ----------
        by : {"record", "language", "task", "model"}
            Leave out one score, or all scores of one level together.
        draws : int, optional
            Draws of each chain to use, evenly spaced; None for all. It costs a few
            milliseconds each on MEGA with ``additive``, ten to thirty with
            ``crossed``, and so is not done at every fit. What was stored with the
            fit (`leave_out` of :func:`bayeseval.fit`) is read, not computed.

        Returns
        -------
        xarray.DataTree
            Groups ``posterior`` (the standard deviations) and ``log_likelihood``
            (``score`` by chain, draw and `by`; natural log, score units).

        Raises
        ------
        EngineError
            If the model is not Gaussian with one residual sd: the plain
            ``log_likelihood`` of :attr:`data` is what there is then.

        Notes
        -----
        To leave out a task or a model can move the standard deviations too far for
        importance sampling; ``loo`` warns of such k-hats.
        """
        from bayeseval.engines._leave_out import leave_out_tree, stored_leave_out_tree

        design = restore_design(self.data, self.spec)
        posterior, group = self.data["posterior"].to_dataset(), names.leave_out_group(by)
        if draws == LEAVE_OUT_DRAWS and group in self.data.children:
            return stored_leave_out_tree(design, posterior, self.data[group].to_dataset(), by=by)
        return leave_out_tree(design, posterior, by=by, draws=draws)

    def checks(self) -> Checks:
        """Ask whether the model fits the table, and whether results hang on the priors.

        Returns
        -------
        bayeseval.checks.Checks
            ``table`` has one row per check: ``status`` (``pass``, ``warn``, ``fail`` or
            ``not applicable``), what was measured, p-values and a sentence. About a
            second on MEGA; the same numbers whenever it is asked for.
        """
        from bayeseval.checks import run_checks

        design, reason = None, ""
        try:
            design = restore_design(self.data, self.spec)
        except DesignError as error:
            reason = str(error)
        bounds, seed = self.run.get("bounds"), int(self.run["seed"])
        return run_checks(self.data, design, bounds=bounds, seed=seed, why_no_design=reason)

    def with_predictive(self, *, draws: int = 500) -> Fit:
        """Add prior draws, and tables that prior and posterior predict, for ArviZ's plots.

        Parameters
        ----------
        draws : int
            Prior draws, and draws of each chain of the posterior.

        Returns
        -------
        Fit
            With the groups ``prior``, ``prior_predictive`` and ``posterior_predictive``.

        Raises
        ------
        DesignError
            If the result does not hold all of its design (replicate noise).
        """
        import xarray as xr

        from bayeseval.checks import predictive_groups

        if draws < 1:
            raise InputError(f"draws must be at least 1, got {draws}")
        design, seed = restore_design(self.data, self.spec), int(self.run["seed"])
        groups = predictive_groups(self.data, design, draws=draws, seed=seed)
        added = {name: xr.DataTree(dataset) for name, dataset in groups.items()}
        return replace(self, data=self.data.assign(added))

    def save(
        self,
        folder: str | Path,
        *,
        checks: Checks | None = None,
        ci_prob: float = names.CI_PROB,
        figures: bool = True,
        force: bool = False,
    ) -> Path:
        """Write the result folder: posterior, provenance, tables and figures.

        Parameters
        ----------
        folder : str or Path
            Written as a whole or not at all.
        checks : Checks, optional
            Of :meth:`checks`, to be stored with the result.
        ci_prob : float
            Probability of the equal-tailed intervals in the tables.
        figures : bool
            Whether to draw the figures, which takes a few seconds.
        force : bool
            Replace a folder that holds another run.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            If the folder holds something else and `force` is not set.
        """
        from bayeseval.output import write_results

        return write_results(
            self.data,
            self.run,
            Path(folder),
            checks=None if checks is None else {"checks": checks.table, **checks.details},
            ci_prob=ci_prob,
            figures=figures,
            force=force,
        )

    @classmethod
    def open(cls, folder: str | Path) -> Fit:
        """Read back what :meth:`save` wrote.

        Parameters
        ----------
        folder : str or Path
            A result folder.

        Returns
        -------
        Fit
            Equal to the fit that was saved.

        Raises
        ------
        InputError
            If the folder is not a result folder.
        """
        from bayeseval.output import read_results

        data, run = read_results(Path(folder))
        return cls(data=data, run=run)


def fit(
    records: Records | str | Path,
    spec: str | Path | ModelSpec | Mapping[str, Any] = "additive",
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
    progress: Progress | None = None,
) -> Fit:
    """Fit one multilevel model to a table of scores.

    Parameters
    ----------
    records : Records, str or Path
        The table, or what :func:`bayeseval.load` takes.
    spec : str, Path, ModelSpec or dict
        A shipped model's name, a YAML file, or a spec.
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
        benchmark's card names.
    progress : callable, optional
        Called as ``progress(stage, done, total, remark)``.

    Returns
    -------
    Fit
        Check ``fit.gate.status``: a fit that did not converge is returned too,
        after one retry with stricter settings.

    Raises
    ------
    BayesevalError
        If the table cannot be read, the spec makes no sense, the table cannot
        identify it, or the engine refuses.
    """
    import xarray as xr

    table = records if isinstance(records, Records) else load_records(records)
    model = load_spec(dict(spec) if isinstance(spec, Mapping) else spec)
    covariates = find_covariates(table, model, covariate)
    design = build_design(table, model, covariates)
    asked = SamplerSettings(
        draws=draws,
        tune=tune,
        chains=chains,
        seed=seed,
        target_accept=target_accept,
        nuts_sampler=nuts_sampler,
    )
    chosen = choose_engine(engine, design, asked)
    engine = chosen.name
    if leave_out:
        from bayeseval.engines._leave_out import check_leave_out

        for by in leave_out:
            check_leave_out(design, by)
    started = time.perf_counter()
    tree, gate, used = _attempt(design, asked, engine=engine, progress=progress)
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
        tree, gate, used = _attempt(design, strict, engine=engine, progress=progress)
    for by in leave_out:
        if progress is not None:
            progress(f"leaving out each {by}", 0, 1, "")
        tree[names.leave_out_group(by)] = xr.DataTree(_left_out(design, tree, by))
        if progress is not None:
            progress(f"leaving out each {by}", 1, 1, "")
    seconds = time.perf_counter() - started
    run = provenance(table, design, gate, covariates=covariates, engine=engine, settings=used) | {
        "engine_reason": chosen.reason,
        "sampling": sampling(tree),
        "retried": retried,
        "seconds": round(seconds, 3),
    }
    return Fit(data=tree, run=run)


def _left_out(design: Design, tree: xr.DataTree, by: str) -> xr.Dataset:
    from bayeseval.engines._leave_out import leave_out_tree

    posterior = tree["posterior"].to_dataset()
    left_out = leave_out_tree(design, posterior, by=by, draws=LEAVE_OUT_DRAWS)
    return left_out["log_likelihood"].to_dataset()


def _attempt(
    design: Design, settings: SamplerSettings, *, engine: str, progress: Progress | None
) -> tuple[xr.DataTree, Gate, SamplerSettings]:
    import xarray as xr

    from bayeseval.estimands import derive

    result = load_engine(engine)(design, settings, progress=progress)
    tree = to_tree(design, result, engine=engine)
    if progress is not None:
        progress("estimands", 0, 1, "")
    additions, estimands = derive(tree, seed=settings.seed)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().merge(additions))
    tree["estimands"] = xr.DataTree(estimands)
    gate = convergence_gate(tree)
    if progress is not None:
        progress("estimands", 1, 1, "")
    return tree, gate, result.settings
