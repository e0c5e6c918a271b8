"""Views of a fit: its tables, the columns that are looked at first and all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from bayeseval import names
from bayeseval.fitting.gate import Gate

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeseval._typing import Progress
    from bayeseval.fitting.covariates import CovariateSource
    from bayeseval.fitting.predictions import CellSource

__all__ = ["Views"]

# Columns of the narrow views; all columns are those of the CSV files.
_INTERVAL: Final = ("mean", "lower", "upper")
_RANKS: Final = ("rank_median", "rank_lower", "rank_upper")


def _ends(name: str) -> tuple[str, ...]:
    return tuple(f"{name}_{end}" for end in _INTERVAL)


_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "ranking": (names.MODEL, *_ends("score"), *_RANKS, "tier", "share_predicted"),
    "potential": (names.LANGUAGE, "language_name", *_ends("potential"), *_RANKS, "n_records"),
    "by_language": (
        *(names.MODEL, names.LANGUAGE, "language_name"),
        *_ends("prr_language"),
        *_ends("gap"),
        "n_records",
    ),
    "disparity": (names.MODEL, *_ends("mean_prr"), "std_prr_mean", *_ends("cv_prr"), "n_records"),
    "components": ("component", *_ends("sd"), *_ends("share")),
    "covariates": ("covariate", *_ends("slope"), *_ends("raw_slope")),
    "pairwise": ("model_a", "model_b", *_ends("diff"), "p_a_better", "p_within_margin"),
}


def labelled(table: pd.DataFrame, run: Mapping[str, Any], ci_prob: float) -> pd.DataFrame:
    """Move what all rows share from a table's columns to its ``attrs``; name languages.

    A failed gate is a column as well, so that it goes wherever the numbers go.
    """
    from bayeseval.output.language_names import add_language_names

    gate = Gate.from_dict(run["gate"]).status
    shared = {"ci_kind": names.CI_KIND, "ci_prob": ci_prob, "gate": gate}
    table = add_language_names(table, run.get("language_names"))
    table = table.drop(columns=[name for name in shared if name in table.columns])
    if gate == "fail":
        table = table.assign(gate=gate)
    table.attrs.update(shared)
    return table


class Views:
    """The tables of a fit; every method returns a new data frame."""

    data: xr.DataTree
    run: Mapping[str, Any]

    @property
    def gate(self) -> Gate:
        """The convergence gate's outcome."""
        return Gate.from_dict(self.run["gate"])

    def _view(
        self,
        table: pd.DataFrame,
        ci_prob: float = names.CI_PROB,
        *,
        view: str = "",
        detail: bool = True,
    ) -> pd.DataFrame:
        """A table of the fit's, with the columns of a view unless all are asked for."""
        table = labelled(table, self.run, ci_prob)
        if detail:
            return table
        shown = [name for name in (*_COLUMNS[view], "gate") if name in table.columns]
        return table[shown]

    def potential(self, *, detail: bool = False, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Language potential with intervals and ranks (arXiv:2508.17162, Eq. 3).

        Parameters
        ----------
        detail : bool
            Return all columns instead of the main ones.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            One row per language, highest first; the columns of
            ``tables/language_potential.csv``. Score units.
            Columns: ``language``, ``language_name``, ``potential_{mean,lower,upper}``,
            ``rank_{median,lower,upper}``, ``n_records``; with `detail` all of the file.

        Examples
        --------
        >>> fit.potential().columns.tolist()[:4]
        ['language', 'language_name', 'potential_mean', 'potential_lower']
        >>> len(fit.potential())
        6
        """
        from bayeseval.fitting.report.tables import potential_view

        known = self.run.get("language_names")
        return self._view(
            potential_view(self.data, known, ci_prob=ci_prob),
            ci_prob,
            view="potential",
            detail=detail,
        )

    def ranking(self, *, detail: bool = False, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Models ranked by their expected scores on the common pairs.

        Parameters
        ----------
        detail : bool
            Return all columns instead of the main ones.
        ci_prob : float
            Probability of the equal-tailed intervals and of the simultaneous rank sets.

        Returns
        -------
        pandas.DataFrame
            One row per model, best first; the columns of ``tables/model_ranking.csv``.
            Score units; PRR are ratios.
            Columns: ``model``, ``score_{mean,lower,upper}``, ``rank_{median,lower,upper}``,
            ``tier``, ``share_predicted``; with `detail` all of the file.

        Examples
        --------
        >>> fit.ranking()["rank_median"].tolist()[0]
        1.0
        >>> "p_best" in fit.ranking(), "p_best" in fit.ranking(detail=True)
        (False, True)
        """
        from bayeseval.estimands import ranking_table

        return self._view(
            ranking_table(self.data, ci_prob=ci_prob), ci_prob, view="ranking", detail=detail
        )

    def by_language(self, *, detail: bool = False, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Every model in every language: its PRR there, and its gap to the potential.

        Parameters
        ----------
        detail : bool
            Return all columns instead of the main ones.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/model_language.csv``; gaps in score units.
            Columns: ``model``, ``language``, ``language_name``,
            ``prr_language_{mean,lower,upper}``, ``gap_{mean,lower,upper}``, ``n_records``;
            with `detail` all of the file.

        Examples
        --------
        >>> len(fit.by_language()) == 4 * 6
        True
        """
        from bayeseval.estimands import model_language_table

        return self._view(
            model_language_table(self.data, ci_prob=ci_prob),
            ci_prob,
            view="by_language",
            detail=detail,
        )

    def disparity(
        self,
        *,
        flavour: names.Flavour = "observed",
        support: names.Support = "observed",
        detail: bool = False,
        ci_prob: float = names.CI_PROB,
    ) -> pd.DataFrame:
        """The published description: Mean-, Std- and CV-PRR (arXiv:2508.17162, Eq. 4 and 5).

        It treats scores as exact and describes every model on its own pairs, so it does not rank
        the models; :meth:`ranking` does.

        Parameters
        ----------
        flavour : {"observed", "latent"}
            Ratios of observed scores, or of expected scores.
        support : {"observed", "common"}
            The pairs a model was tested on, or the common pairs (expected scores only).
        detail : bool
            Return all columns instead of the main ones.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/model_disparity.csv``; ratios.
            Columns: ``model``, ``mean_prr_{mean,lower,upper}``, ``std_prr_mean``,
            ``cv_prr_{mean,lower,upper}``, ``n_records``; with `detail` all of the file.

        Examples
        --------
        >>> sorted(fit.disparity()["model"])
        ['m0', 'm1', 'm2', 'm3']
        """
        from bayeseval.estimands import disparity_table

        table = disparity_table(self.data, flavour=flavour, support=support, ci_prob=ci_prob)
        return self._view(table, ci_prob, view="disparity", detail=detail)

    # The name of version 0.1.
    prr = disparity

    def components(self, *, detail: bool = False, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Variance components and their shares of the total variance.

        Parameters
        ----------
        detail : bool
            Return all columns instead of the main ones.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/variance_components.csv``; its ``scale`` is that of the sds.
            Columns: ``component``, ``sd_{mean,lower,upper}``, ``share_{mean,lower,upper}``;
            with `detail` all of the file.

        Examples
        --------
        >>> fit.components()["component"].tolist()
        ['language', 'task', 'model', 'residual']
        """
        from bayeseval.estimands import components_table

        return self._view(
            components_table(self.data, ci_prob=ci_prob), ci_prob, view="components", detail=detail
        )

    def covariates(self, *, detail: bool = False, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
        """Slopes of covariates, and the share of variance (of languages or models) they explain.

        Parameters
        ----------
        detail : bool
            Return all columns instead of the main ones.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/covariates.csv``; empty without covariates.
            Columns: ``covariate``, ``slope_{mean,lower,upper}`` (standardised),
            ``raw_slope_{mean,lower,upper}``; with `detail` all of the file.

        Examples
        --------
        >>> len(fit.covariates())
        0
        """
        from bayeseval.estimands import covariates_table

        return self._view(
            covariates_table(self.data, ci_prob=ci_prob), ci_prob, view="covariates", detail=detail
        )

    def pairwise(
        self,
        quantity: str = names.STANDARDISED_SCORE,
        *,
        detail: bool = False,
        ci_prob: float = names.CI_PROB,
    ) -> pd.DataFrame:
        """Differences of all pairs of models in one quantity.

        Parameters
        ----------
        quantity : str
            A posterior variable on the dimension ``model``: ``standardised_score``,
            ``gap_sd_languages`` or ``model_effect``.
        detail : bool
            Return all columns instead of the main ones.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            The columns of ``tables/pairwise_models.csv``.
            Columns: ``model_a``, ``model_b``, ``diff_{mean,lower,upper}``, ``p_a_better``,
            ``p_within_margin``; with `detail` all of the file.

        Examples
        --------
        >>> len(fit.pairwise("standardised_score"))
        6
        """
        from bayeseval.estimands import pairwise_table

        return self._view(
            pairwise_table(self.data, [quantity], ci_prob=ci_prob),
            ci_prob,
            view="pairwise",
            detail=detail,
        )

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

        Examples
        --------
        >>> float(fit.ranks("standardised_score")["probability"].sum().round(6))
        4.0
        """
        from bayeseval.estimands import rank_probability_table

        return self._view(rank_probability_table(self.data, [quantity]))

    @overload
    def predict(
        self,
        cells: CellSource,
        *,
        new: str | Sequence[str] = (),
        covariate: CovariateSource = None,
        draws: Literal[False] = False,
        ci_prob: float = names.CI_PROB,
        progress: Progress | bool | None = None,
    ) -> pd.DataFrame: ...

    @overload
    def predict(
        self,
        cells: CellSource,
        *,
        new: str | Sequence[str] = (),
        covariate: CovariateSource = None,
        draws: Literal[True],
        ci_prob: float = names.CI_PROB,
        progress: Progress | bool | None = None,
    ) -> xr.Dataset: ...

    def predict(
        self,
        cells: CellSource,
        *,
        new: str | Sequence[str] = (),
        covariate: CovariateSource = None,
        draws: bool = False,
        ci_prob: float = names.CI_PROB,
        progress: Progress | bool | None = None,
    ) -> pd.DataFrame | xr.Dataset:
        """Predict scores of any model on any language and task, measured or not.

        Parameters
        ----------
        cells : DataFrame, str or Path
            A table with the columns ``model``, ``language`` and ``task``, or its file; a factor
            with one level needs no column. Columns that describe a new measurement are optional:
            ``n`` (test items), ``se`` (standard error of the score due to its test set, score
            units) and ``seeds`` (how many it is the mean of).
        new : str or sequence of str
            Factors (``language``, ``task``, ``model``) whose labels need not be in the table of
            the fit; others are refused, as a label that is not there may be misspelled.
        covariate : Covariate, sequence of Covariate, str or Path, optional
            Values of new languages and models; when left out, the source of the fit's own.
        draws : bool
            Return all draws instead of the table.
        ci_prob : float
            Probability of the equal-tailed intervals.
        progress : bool or callable, optional
            True shows progress on stderr; a callable is called as
            ``progress(stage, done, total, remark)``.

        Returns
        -------
        pandas.DataFrame or xarray.Dataset
            One row per cell, in their order: ``model``, ``language``, ``language_name``, ``task``,
            ``n``, ``se`` and ``seeds`` where given, ``n_records``, ``new`` (factors whose level is
            new), ``expected_{mean,sd,lower,upper}``, ``measurement_{lower,upper}``; score units.
            ``attrs["notes"]`` says how the cells were read. With `draws`: ``expected`` and
            ``measurement`` by chain, draw and cell. Identical rows are one measurement.

        Raises
        ------
        InputError
            If the fit is a point estimate, a label or a number is not allowed, a new level has
            no known population, or draws take more memory than is free.

        Examples
        --------
        >>> import pandas as pd
        >>> cells = pd.DataFrame(
        ...     {"model": ["m0", "m9"], "language": ["l0", "l0"], "task": ["t0", "t0"]}
        ... )
        >>> table = fit.predict(cells, new="model")
        >>> table[["model", "new", "n_records"]].values.tolist()
        [['m0', '', 1], ['m9', 'model', 0]]
        """
        from bayeseval._progress import reporting
        from bayeseval.fitting.predictions import prepare_predictions

        ready = prepare_predictions(self.data, self.run, cells, new=new, covariate=covariate)
        with reporting(progress) as report:
            table, drawn = ready.predict(ci_prob=ci_prob, draws=draws, progress=report)
        return table if drawn is None else drawn
