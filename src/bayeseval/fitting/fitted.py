"""`Fit`: a fitted model, the views of it, and the folder it is saved in.

Its data are an ArviZ DataTree; its methods are views of that tree computed in
`estimands`, its files are written by `output`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayeseval import names
from bayeseval._arguments import as_path, as_whole_number
from bayeseval._progress import reporting
from bayeseval._resources import resource_names
from bayeseval._text import grouped
from bayeseval.design import restore_design
from bayeseval.errors import DesignError, InputError
from bayeseval.fitting.covariates import given_covariate
from bayeseval.fitting.plots import Plots
from bayeseval.fitting.report import run_title
from bayeseval.fitting.views import Views
from bayeseval.output.result import Result
from bayeseval.spec import AUTO, ModelSpec, load_spec

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeseval._typing import Figures, Progress
    from bayeseval.checks import Checks

__all__ = ["LEAVE_OUT_DRAWS", "Fit", "check_fit", "check_posterior"]

# Draws of each chain that left-out densities are computed at: they depend on the sds
# alone, which a thousand draws know well.
LEAVE_OUT_DRAWS = 250

_GATE_WORDS = {"pass": "passed", "fail": "failed", "not applicable": "not applicable"}
# Models that the short form of a fit names beside the leading one; the rest is counted.
_NAMED = 1


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Views, Plots, Result):
    """A fitted model: the posterior, its provenance, and tables and figures of the results.

    The tables that its methods return carry ``ci_kind``, ``ci_prob`` and ``gate`` in
    their ``attrs``; when the convergence gate failed they have a column ``gate`` too.

    Attributes
    ----------
    data : xarray.DataTree
        ArviZ schema: ``posterior``, ``sample_stats``, ``log_likelihood``,
        ``observed_data``, ``constant_data``, ``estimands``. Scores and potentials
        are in the units of the benchmark, PRR are ratios.
    run : dict
        Provenance, written as ``run.json``: versions, spec, priors in score
        units, engine, settings, hashes, timings, gate.

    Examples
    --------
    >>> import bayeseval as be
    >>> fit = be.fit(df, "additive", draws=400, chains=2)
    >>> fit
    Fit(table, model additive, engine marginal; 50 records, gate passed; m... is ...)
    >>> fit.data["posterior"]["language_potential"].dims
    ('chain', 'draw', 'language')
    """

    data: xr.DataTree
    run: Mapping[str, Any]

    @property
    def spec(self) -> ModelSpec:
        """The spec that was fitted."""
        return load_spec(dict(self.run["spec"]))

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the result folder with all their columns, by name of the file."""
        from bayeseval.fitting.report.tables import result_tables

        made = result_tables(
            self.data,
            gate_status=self.gate.status,
            language_names=self.run.get("language_names"),
        )
        return {Path(path).stem: table for path, table in made.items()}

    def summary(self, *, ci_prob: float = names.CI_PROB) -> str:
        """Ranking of models, potentials and components in text; what ``print(fit)`` shows.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        str
            The text that the command line prints, without the checks.

        Examples
        --------
        >>> fit.summary().splitlines()[0]
        'table, model additive, engine marginal, seed 0'
        """
        from bayeseval.fitting.report.terminal import format_results

        return format_results(self.data, self.run, ci_prob=ci_prob)

    def _title(self) -> str:
        counts = f"{grouped(self.run['n_records'])} records"
        return f"{run_title(self.run)}; {counts}, gate {_GATE_WORDS[self.gate.status]}"

    def _main_result(self) -> str:
        from bayeseval.estimands import ranking_probabilities
        from bayeseval.fitting.report.sentences import main_result

        ranking, pairs = ranking_probabilities(self.data)
        if self.gate.status == "not applicable" and len(ranking) > 1:
            first = ranking[names.MODEL].iloc[0]
            return f"{first} has the highest score; a point estimate has no probabilities"
        return main_result(ranking, pairs, most=_NAMED)

    def _main(self) -> pd.DataFrame:
        return self.ranking()

    def _failed(self) -> bool:
        return self.gate.status == "fail"

    def leave_one_out(
        self,
        by: names.LeftOut = "record",
        *,
        draws: int | None = LEAVE_OUT_DRAWS,
    ) -> xr.DataTree:
        """Densities of left-out scores, for ArviZ's ``loo`` and ``compare``.

        ``arviz_stats.loo(fit.leave_one_out())`` is the expected log predictive
        density. Given the standard deviations, the densities are exact. Importance sampling has to
        account for the standard deviations only, so its k-hats are low even if those of the plain
        ``log_likelihood`` are high.

        Parameters
        ----------
        by : {"record", "language", "task", "model"}
            Leave out one score, or all scores of one level together.
        draws : int, optional
            Draws of each chain to use, evenly spaced; None for all. Each draw takes a few
            milliseconds on MEGA with ``additive`` and ten to thirty with ``crossed``. Densities
            that were stored with the fit (`leave_out` of :func:`bayeseval.fit`) are read instead.

        Returns
        -------
        xarray.DataTree
            Groups ``posterior`` (the standard deviations) and ``log_likelihood``
            (``score`` by chain, draw and `by`; natural log, score units).

        Raises
        ------
        EngineError
            If the model is not Gaussian with one residual sd. :func:`bayeseval.compare` has other
            methods for such models; PSIS of the plain ``log_likelihood`` is unreliable where its
            k-hats exceed 0.7.

        Notes
        -----
        Leaving out a task or a model can change the standard deviations too much for importance
        sampling; ``loo`` warns of such k-hats.

        Examples
        --------
        >>> tree = fit.leave_one_out()
        >>> tree["log_likelihood"]["score"].dims
        ('chain', 'draw', 'record')
        """
        from bayeseval.engines._leave_out import leave_out_tree, stored_leave_out_tree

        design = restore_design(self.data, self.spec)
        posterior, group = self.data["posterior"].to_dataset(), names.leave_out_group(by)
        if draws == LEAVE_OUT_DRAWS and group in self.data.children:
            return stored_leave_out_tree(design, posterior, self.data[group].to_dataset(), by=by)
        return leave_out_tree(design, posterior, by=by, draws=draws)

    def checks(self) -> Checks:
        """Check whether the model fits the table, and how sensitive results are to the priors.

        Returns
        -------
        bayeseval.checks.Checks
            ``table`` has one row per check: ``status`` (``pass``, ``warn``, ``fail`` or
            ``not applicable``), the measured value, p-values, a sentence, and for warnings and
            failures their meaning and the next command. It takes about a second on MEGA and gives
            the same numbers every time.

        Examples
        --------
        >>> checks = fit.checks()
        >>> checks.status("calibration") in ("pass", "warn", "fail")
        True
        """
        from bayeseval.checks import FitLabel, run_checks
        from bayeseval.fitting.report.model_tables import shown_exponent

        design, reason = None, ""
        try:
            design = restore_design(self.data, self.spec)
        except DesignError as error:
            reason = str(error)
        bounds, seed = self.run.get("bounds"), int(self.run["seed"])
        # A command cannot name a model that auto assembled and that is not shipped.
        model = str(self.run["spec"]["name"])
        is_assembled = bool(self.run.get("model_reasons")) and model not in resource_names("models")
        made = run_checks(
            self.data,
            design,
            bounds=bounds,
            seed=seed,
            why_no_design=reason,
            # Results of earlier versions do not have the source.
            benchmark=str(self.run.get("source", self.run["benchmark"])),
            options=str(self.run.get("source_options", "")),
            covariate=given_covariate(self.run),
            model=AUTO if is_assembled else model,
            language_names=self.run.get("language_names"),
        )
        label = FitLabel(
            **self._label(),
            unit=self._unit(),
            exponent=shown_exponent(self.data),
            language_names=self.run.get("language_names") or {},
        )
        return replace(made, fit=label)

    def with_predictive(self, *, draws: int | None = None) -> Fit:
        """Add the groups that ArviZ's prior, predictive and power-scaling functions read.

        The same groups as ``predictive=True`` of :func:`bayeseval.fit` stores, with the same
        numbers.

        Parameters
        ----------
        draws : int, optional
            Prior draws, and draws of each chain of the posterior (evenly spaced) at which
            scores are predicted; None for as many as a chain has. LOO-PIT needs all of them.

        Returns
        -------
        Fit
            With the groups ``prior``, ``prior_predictive``, ``posterior_predictive`` and
            ``log_prior``.

        Raises
        ------
        InputError
            If the fit is a point estimate (engine ``ml``).
        DesignError
            If the saved result does not contain the whole design (noise of replicates); fit with
            ``predictive=True`` instead.

        Examples
        --------
        >>> sorted(set(fit.with_predictive(draws=10).data.children) - set(fit.data.children))
        ['log_prior', 'posterior_predictive', 'prior', 'prior_predictive']
        """
        import xarray as xr

        from bayeseval.checks import predictive_groups

        draws = None if draws is None else as_whole_number("draws", draws, least=1)
        check_posterior(str(self.run["engine"]), "with_predictive")
        design, seed = restore_design(self.data, self.spec), int(self.run["seed"])
        groups = predictive_groups(self.data, design, draws=draws, seed=seed)
        added = {name: xr.DataTree(dataset) for name, dataset in groups.items()}
        run = {**self.run, "predictive": True}
        return replace(self, data=self.data.assign(added), run=run)

    def save(
        self,
        folder: str | Path,
        *,
        checks: Checks | Callable[[], Checks] | None = None,
        ci_prob: float = names.CI_PROB,
        figures: Figures = True,
        force: bool = False,
        progress: Progress | bool | None = None,
    ) -> Path:
        """Write the result folder: posterior, provenance and tables, then checks, then figures.

        Parameters
        ----------
        folder : str or Path
            Posterior, provenance and tables are written as a whole or not at all. They remain if
            an error or an interruption ends the checks or the figures.
        checks : Checks or callable, optional
            Of :meth:`checks`, to be stored with the result; the method itself
            (``checks=fit.checks``) is called when the posterior is saved.
        ci_prob : float
            Probability of the equal-tailed intervals in the tables.
        figures : bool, str or sequence of str
            Whether to draw the figures, which takes a few seconds, or in which formats:
            png (the default), pdf or svg, or several of them ("png,pdf").
        force : bool
            Overwrite the results of a different run.
        progress : bool or callable, optional
            True shows progress on stderr; a callable is called as
            ``progress(stage, done, total, remark)``.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            If the folder holds something else and `force` is not set.

        Examples
        --------
        >>> folder = fit.save("results/pilot", figures=False)
        >>> sorted(path.name for path in folder.iterdir())
        ['posterior.nc', 'run.json', 'tables']
        """
        from bayeseval.checks import Checks
        from bayeseval.fitting.report.folder import write_results

        if checks is not None and not callable(checks) and not isinstance(checks, Checks):
            raise InputError(
                "checks must be what fit.checks() returns, or the method itself; got "
                f"{type(checks).__name__}"
            )

        def check_tables() -> dict[str, pd.DataFrame]:
            made = checks() if callable(checks) else checks
            return {} if made is None else {"checks": made.table, **made.details}

        with reporting(progress) as report:
            return write_results(
                self.data,
                self.run,
                as_path("folder", folder),
                checks=None if checks is None else check_tables,
                ci_prob=ci_prob,
                figures=figures,
                force=force,
                progress=report,
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

        Examples
        --------
        >>> import bayeseval as be
        >>> again = be.Fit.open(fit.save("results/again", figures=False))
        >>> again.ranking().equals(fit.ranking())
        True
        """
        from bayeseval.fitting.report.folder import read_results

        data, run = read_results(as_path("folder", folder))
        return cls(data=data, run=run)


def check_fit(fit: object) -> None:
    """Refuse what is no fit, in one line.

    Raises
    ------
    InputError
        If `fit` is not a :class:`Fit`.
    """
    if not isinstance(fit, Fit):
        raise InputError(
            "the first argument is a Fit, as bayeseval.fit and bayeseval.Fit.open return it; got "
            f"{type(fit).__name__}"
        )


def check_posterior(engine: str, what: str) -> None:
    """Refuse draws of a point estimate, in one line.

    Raises
    ------
    InputError
        If `engine` is ``ml``; `what` was asked for.
    """
    if engine == "ml":
        raise InputError(
            f"{what} needs draws from a posterior, and the engine ml gives a point estimate; "
            "use the engine marginal, numpyro or pymc"
        )
