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
from bayeseval.design import restore_design
from bayeseval.errors import DesignError, InputError
from bayeseval.fitting.gate import Gate
from bayeseval.spec import AUTO, ModelSpec, load_spec

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeseval._typing import Figures, Progress
    from bayeseval.checks import Checks

__all__ = ["LEAVE_OUT_DRAWS", "Fit", "check_fit"]

# Draws of each chain that left-out densities are computed at: they depend on the sds
# alone, which a thousand draws know well.
LEAVE_OUT_DRAWS = 250

_GATE_WORDS = {"pass": "passed", "fail": "failed", "not applicable": "not applicable"}


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fitted model: the posterior, how it was made, and the views of it.

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

    def __repr__(self) -> str:
        """Which fit this is, in one line; first of all that it did not converge."""
        run, levels = self.run, self.run["levels"]
        parts = [
            str(run["benchmark"]),
            f"model {run['spec']['name']}",
            f"engine {run['engine']}",
            ", ".join(
                [f"{run['n_records']:,} records"]
                + [f"{levels[factor]:,} {factor}s" for factor in names.FACTORS]
            ),
            f"gate {_GATE_WORDS[self.gate.status]}",
        ]
        if self.gate.status == "fail":
            parts.insert(0, "NOT CONVERGED")
        return f"Fit({'; '.join(parts)})"

    def _view(self, table: pd.DataFrame, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Move what all rows share from a table's columns to its ``attrs``; name languages.

        A failed gate is a column as well, so that it goes wherever the numbers go.
        """
        from bayeseval.output.language_names import add_language_names

        shared = {"ci_kind": names.CI_KIND, "ci_prob": ci_prob, "gate": self.gate.status}
        view = add_language_names(table, self.run.get("language_names"))
        view = view.drop(columns=[name for name in shared if name in view.columns])
        if self.gate.status == "fail":
            view = view.assign(gate=self.gate.status)
        view.attrs.update(shared)
        return view

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
        from bayeseval.fitting.report.tables import potential_view

        known = self.run.get("language_names")
        return self._view(potential_view(self.data, known, ci_prob=ci_prob), ci_prob)

    def ranking(self, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Models ranked by their expected scores on the common pairs.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals and of the simultaneous rank sets.

        Returns
        -------
        pandas.DataFrame
            One row per model, best first; the columns of ``tables/model_ranking.csv``.
            Score units; PRR are ratios.
        """
        from bayeseval.estimands import ranking_table

        return self._view(ranking_table(self.data, ci_prob=ci_prob), ci_prob)

    def by_language(self, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Every model in every language: its PRR there, and its gap to the potential.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/model_language.csv``; gaps in score units.
        """
        from bayeseval.estimands import model_language_table

        return self._view(model_language_table(self.data, ci_prob=ci_prob), ci_prob)

    def disparity(
        self,
        *,
        flavour: names.Flavour = "observed",
        support: names.Support = "observed",
        ci_prob: float = names.CI_PROB,
    ) -> pd.DataFrame:
        """The published description: Mean-, Std- and CV-PRR (paper 000, Eq. 4 and 5).

        It takes scores as exact and describes models on different pairs, so it ranks
        nobody; :meth:`ranking` does.

        Parameters
        ----------
        flavour : {"observed", "latent"}
            Ratios of observed scores, or of expected scores.
        support : {"observed", "common"}
            The pairs a model was tested on, or the common pairs (expected scores only).
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/model_disparity.csv``; ratios.
        """
        from bayeseval.estimands import disparity_table

        table = disparity_table(self.data, flavour=flavour, support=support, ci_prob=ci_prob)
        return self._view(table, ci_prob)

    # The name of version 0.1.
    prr = disparity

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

        return self._view(components_table(self.data, ci_prob=ci_prob), ci_prob)

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

        return self._view(covariates_table(self.data, ci_prob=ci_prob), ci_prob)

    def pairwise(
        self, quantity: str = names.STANDARDISED_SCORE, *, ci_prob: float = names.CI_PROB
    ) -> pd.DataFrame:
        """Differences of all pairs of models in one quantity.

        Parameters
        ----------
        quantity : str
            A posterior variable on the dimension ``model``: ``standardised_score``,
            ``gap_sd_languages`` or ``model_effect``.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/pairwise_models.csv``.
        """
        from bayeseval.estimands import pairwise_table

        return self._view(pairwise_table(self.data, [quantity], ci_prob=ci_prob), ci_prob)

    def ranks(self, quantity: str = names.LANGUAGE_POTENTIAL) -> pd.DataFrame:
        """Probability of every rank of every level; 1 is best.

        Parameters
        ----------
        quantity : str
            ``language_potential``, ``standardised_score`` or ``gap_sd_languages``.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/rank_probabilities.csv``.
        """
        from bayeseval.estimands import rank_probability_table

        return self._view(rank_probability_table(self.data, [quantity]))

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
            If the model is not Gaussian with one residual sd. :func:`bayeseval.compare`
            has other ways then; PSIS of the plain ``log_likelihood`` is too high wherever
            its k-hats exceed 0.7.

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
        """Ask whether the model fits the table, and how sensitive results are to the priors.

        Returns
        -------
        bayeseval.checks.Checks
            ``table`` has one row per check: ``status`` (``pass``, ``warn``, ``fail`` or
            ``not applicable``), what was measured, p-values, a sentence, and of warnings and
            failures what they mean and the next command. About a second on MEGA; the same
            numbers whenever it is asked for.
        """
        from bayeseval.checks import run_checks

        design, reason = None, ""
        try:
            design = restore_design(self.data, self.spec)
        except DesignError as error:
            reason = str(error)
        bounds, seed = self.run.get("bounds"), int(self.run["seed"])
        # A model that auto put together has no file that a command could name.
        chosen = str(self.run["spec"].get("summary", "")).startswith("Chosen by auto")
        return run_checks(
            self.data,
            design,
            bounds=bounds,
            seed=seed,
            why_no_design=reason,
            # Results of earlier versions do not have the source.
            benchmark=str(self.run.get("source", self.run["benchmark"])),
            options=str(self.run.get("source_options", "")),
            model=AUTO if chosen else str(self.run["spec"]["name"]),
        )

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
        checks: Checks | Callable[[], Checks] | None = None,
        ci_prob: float = names.CI_PROB,
        figures: Figures = True,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Path:
        """Write the result folder: posterior, provenance and tables, then checks, then figures.

        Parameters
        ----------
        folder : str or Path
            Posterior, provenance and tables are written as a whole or not at all; what ends
            checks or figures leaves them there.
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
        progress : callable, optional
            Called as ``progress(stage, done, total, remark)``.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            If the folder holds something else and `force` is not set.
        """
        from bayeseval.fitting.report.folder import write_results

        def check_tables() -> dict[str, pd.DataFrame]:
            made = checks() if callable(checks) else checks
            return {} if made is None else {"checks": made.table, **made.details}

        return write_results(
            self.data,
            self.run,
            Path(folder),
            checks=None if checks is None else check_tables,
            ci_prob=ci_prob,
            figures=figures,
            force=force,
            progress=progress,
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
        from bayeseval.fitting.report.folder import read_results

        data, run = read_results(Path(folder))
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
