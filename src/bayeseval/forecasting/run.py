"""Forecasts: potentials of languages without records, and how well such forecasts do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._progress import reporting
from bayeseval._random import generator
from bayeseval._resources import resource_names
from bayeseval._typing import Bools, Figures, Floats, Progress
from bayeseval.design import restore_design
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands import rank_draws, read_arrays
from bayeseval.estimands.arrays import interval_summary
from bayeseval.estimands.forecast import lowest_quarter, new_potential
from bayeseval.estimands.frames import finish, rank_columns, summary_columns
from bayeseval.fitting.covariates import CovariateSource, find_covariates
from bayeseval.fitting.fitted import Fit, check_fit
from bayeseval.fitting.gate import GATE_FAILED, warn_of_gates
from bayeseval.forecasting.check import check_forecasts
from bayeseval.languages.matching import understand
from bayeseval.output.language_names import add_language_names
from bayeseval.output.numbers import score_unit
from bayeseval.output.result import Result
from bayeseval.records import Covariate, Records
from bayeseval.spec import CovariateTerm, ModelSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayeseval.estimands.container import PosteriorArrays

__all__ = ["Forecast", "forecast"]

# In sds of the covariate: what rounding and errors of measurement may change.
_ALIKE: Final = 0.25


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Result):
    """Potentials of all languages that the covariate knows.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per language, highest potential first: ``language``, ``source_label``,
        ``observed`` (it has records), the covariate's raw value, ``potential_{mean,sd,lower,
        upper}`` (score units), ``rank_{mean,median,lower,upper}`` among all,
        ``p_lowest_quarter``, ``extrapolation`` (the value is outside the range of the
        languages with records), ``ci_kind``, ``ci_prob``; ``gate`` if that of the fit failed.
    check : pandas.DataFrame
        How forecasts of left-out languages did, see
        :func:`bayeseval.forecasting.check_forecasts`; empty when that was not asked for or has
        no closed form.
    line : pandas.DataFrame
        ``covariate``, ``potential_{mean,lower,upper}``: the expected potential over the
        covariate's range, without a language's own effect.
    covariate : str
    subtitle : str
        Which fit.
    gate : str
    notes : tuple of str
    languages : tuple of str
        Those that were asked for, as in the table: printed, and marked in the figures.
        Empty when all were.
    unit : str
        Unit of the scores; empty where it is not known.
    """

    table: pd.DataFrame
    check: pd.DataFrame
    line: pd.DataFrame
    covariate: str
    subtitle: str
    gate: str
    notes: tuple[str, ...]
    languages: tuple[str, ...] = ()
    unit: str = ""

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the folder with the gate of the fit."""
        tables = {"forecast": self.table.assign(gate=self.gate)}
        return tables | (
            {"forecast_check": self.check.assign(gate=self.gate)} if len(self.check) else {}
        )

    def summary(self) -> str:
        """Forecasts and how such forecasts did, in text.

        Returns
        -------
        str
            What ``print`` shows.
        """
        from bayeseval.forecasting.report import format_forecast

        return format_forecast(
            self.table,
            self.check,
            self.covariate,
            self.subtitle,
            self.notes,
            languages=self.languages,
            unit=self.unit,
        )

    def save(self, folder: str | Path, *, figures: Figures = True) -> Path:
        """Add tables and figures (or ``figures="pdf"``) to the result folder of the fit."""
        from bayeseval.forecasting.report import write_forecast

        return write_forecast(
            folder,
            self.table,
            self.check,
            self.line,
            covariate=self.covariate,
            subtitle=self.subtitle,
            gate_status=self.gate,
            languages=self.languages,
            figures=figures,
            unit=self.unit,
        )

    def _drawn(self) -> dict[str, Any]:
        return {
            "covariate": self.covariate,
            "subtitle": self.subtitle,
            "gate_status": self.gate,
            "languages": self.languages,
            "unit": self.unit,
        }

    def plot(self, *, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw potentials against the covariate.

        Parameters
        ----------
        figsize : tuple of float, optional
            Width and height in inches.

        Returns
        -------
        matplotlib.figure.Figure
            Neither shown nor closed.
        """
        from bayeseval.forecasting.report import forecast_figure

        return forecast_figure(self.table, self.line, **self._drawn(), figsize=figsize)

    def plot_map(self) -> Figure | None:
        """Draw potentials where languages are spoken.

        Returns
        -------
        matplotlib.figure.Figure or None
            Neither shown nor closed; None if no language has a known place.
        """
        from bayeseval.forecasting.map import map_figure

        return map_figure(self.table, **self._drawn())

    def figures(self) -> dict[str, Figure]:
        """Draw the figures of the folder.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``forecast``, ``forecast_by_script`` and, where places are known, ``forecast_map``.
        """
        from bayeseval.forecasting.report import script_figure

        made = {
            "forecast": self.plot(),
            "forecast_by_script": script_figure(self.table, **self._drawn()),
            "forecast_map": self.plot_map(),
        }
        return {name: figure for name, figure in made.items() if figure is not None}

    def _headline(self) -> str:
        new = int((~self.table["observed"].astype(bool)).sum())
        return f"{self.subtitle}; {new} languages without records forecast from {self.covariate}"

    def _main(self) -> pd.DataFrame:
        table = self.table
        rows = (
            table[table[names.LANGUAGE].isin(self.languages)]
            if self.languages
            else table[~table["observed"].astype(bool)]
        )
        ends = [f"potential_{end}" for end in ("mean", "lower", "upper")]
        ranks = [f"rank_{part}" for part in ("median", "lower", "upper")]
        shown = [names.LANGUAGE, "language_name", self.covariate, *ends, *ranks]
        shown += ["p_lowest_quarter", "extrapolation", "gate"]
        return rows[[name for name in shown if name in rows]]

    def _failed(self) -> bool:
        return self.gate == "fail"


def forecast(
    fit: Fit,
    *,
    covariate: CovariateSource = None,
    languages: Sequence[str] | None = None,
    check: bool = True,
    seed: int = 0,
    ci_prob: float = names.CI_PROB,
    progress: Progress | bool | None = None,
) -> Forecast:
    """Potential of every language that the fit's covariate knows.

    Parameters
    ----------
    fit : Fit
        Of a model with one covariate, such as ``mexa``; identity link.
    covariate : Covariate, str or Path, optional
        Values of the languages to forecast; when left out, those that the fit was made with.
    languages : sequence of str, optional
        Which to print and to mark in the figures, by label; the table has all.
    check : bool
        Whether to leave out each language with records and forecast it: two refits per
        language, half a minute on MEGA.
    seed : int
        Of the new languages' own effects and of the refits.
    ci_prob : float
        Probability of the equal-tailed intervals.
    progress : bool or callable, optional
        True shows progress on stderr; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Forecast
        Printed, a summary; ``table`` and ``check`` hold everything.

    Raises
    ------
    InputError
        If the model has no covariate or several, a logit link or fixed language effects; if
        there is no language to forecast, or one that is not known.

    Warns
    -----
    ConvergenceWarning
        Once, if the convergence gate of the fit failed.
    """
    check_fit(fit)
    warn_of_gates({"the fit": fit.gate}, stacklevel=2)
    term = _only_covariate(fit.spec)
    values = _covariate(fit, term, covariate)
    arrays = read_arrays(fit.data)
    (slope,) = arrays.slopes
    own = list(arrays.levels[names.LANGUAGE])
    models = arrays.levels[names.MODEL]
    known, notes = _languages(values, own, models)
    measured, se = values.at(known, models)
    raw = _over_models(measured)
    rng = generator(seed, "forecast")
    x = _true_values((measured - slope.mean) / slope.sd, se / slope.sd, term, arrays, rng)
    new = new_potential(arrays, slope.slope[:, None] * x, rng=rng, seed=int(fit.run["seed"]))
    observed = slope.mean + slope.sd * _over_models(slope.standardised.mean(axis=0))
    all_values = np.concatenate([observed, raw])
    labels = [*own, *known]
    table = _table(
        {
            names.LANGUAGE: labels,
            "source_label": [values.matched.get(label, label) for label in labels],
            "observed": np.arange(len(labels)) < len(own),
            term.name: all_values,
        },
        _with_observed(fit, new),
        extrapolation=(all_values < observed.min()) | (all_values > observed.max()),
        ci_prob=ci_prob,
    )
    # Refused before the check, which takes long.
    chosen = _chosen(table, languages)
    if covariate is not None:
        own_values = _over_models(values.at(own, models)[0])
        notes += _apart((own_values - observed) / slope.sd, term.name)
    failed = [GATE_FAILED] if fit.gate.status == "fail" else []
    checked, notes = pd.DataFrame(), [*failed, *values.notes, *notes]
    if check:
        with reporting(progress) as report:
            checked, reason = _checked(fit, seed=seed, progress=report)
        notes += [f"no check of the forecasts: {reason}"] if reason else []
    named = add_language_names(finish(table, ci_prob), _names(fit, table), after=names.LANGUAGE)
    if fit.gate.status == "fail":
        named["gate"] = fit.gate.status
    return Forecast(
        table=named,
        check=checked,
        line=_line(arrays, all_values, ci_prob),
        covariate=term.name,
        subtitle=f"{fit.run['benchmark']}, model {fit.spec.name}, engine {fit.run['engine']}",
        gate=fit.gate.status,
        notes=tuple(notes),
        languages=chosen,
        unit=score_unit(fit.run.get("bounds")),
    )


def _only_covariate(spec: ModelSpec) -> CovariateTerm:
    if len(spec.covariates) != 1:
        raise InputError(
            f"the model {spec.name} has {len(spec.covariates) or 'no'} covariate"
            f"{'s' * (len(spec.covariates) > 1)}, and a forecast needs exactly one; fit the model "
            "mexa"
        )
    (term,) = spec.covariates
    return term


def _with_observed(fit: Fit, new: Floats) -> Floats:
    """Draws of the potentials of all languages: those with records, then the new ones."""
    there = fit.data["posterior"][names.LANGUAGE_POTENTIAL].transpose("chain", "draw", ...)
    return np.concatenate([there.to_numpy().reshape(len(new), -1), new], axis=1)


def _table(
    columns: Mapping[str, object], draws: Floats, *, extrapolation: Bools, ci_prob: float
) -> pd.DataFrame:
    """Potentials and ranks of all languages, highest first."""
    ranks = rank_draws(draws, highest_first=True)
    columns = {
        **columns,
        **summary_columns("potential", interval_summary(draws, ci_prob=ci_prob)),
        **rank_columns("rank", ranks, ci_prob=ci_prob),
        "p_lowest_quarter": lowest_quarter(ranks).mean(axis=0),
        "extrapolation": extrapolation,
    }
    table = pd.DataFrame(columns)
    return table.sort_values("potential_mean", ascending=False, kind="stable")


def _names(fit: Fit, table: pd.DataFrame) -> dict[str, str]:
    """Names of the fit's languages, and of those that only the covariate has."""
    known = dict(fit.run["language_names"])
    for label in table[names.LANGUAGE]:
        language = None if label in known else understand(str(label))
        if language is not None:
            known[str(label)] = language.name
    return known


def _covariate(fit: Fit, term: CovariateTerm, given: CovariateSource) -> Covariate:
    if isinstance(given, Covariate) and given.name == term.name:
        return given
    records = _records(fit)
    if given is not None:
        return find_covariates(records, fit.spec, given)[0]
    said = fit.run["covariates"][term.name]
    if said["source"] and Path(said["source"]).exists():
        (found,) = find_covariates(records, fit.spec, said["source"])
        if found.content_hash == said["hash"]:
            return found
        raise InputError(
            f"{said['source']} has changed since the fit; fit again, or give the values as "
            "covariate= (--covariate)"
        )
    shipped = _shipped(fit, said["source"])
    if shipped is not None:
        (found,) = find_covariates(records, fit.spec, shipped)
        if found.content_hash == said["hash"]:
            return found
    raise InputError(
        f"the values of {term.name} that the fit was made with are not at "
        f"{said['source'] or 'any file'}; give them as covariate= (--covariate)"
    )


def _shipped(fit: Fit, source: str) -> Path | None:
    """The benchmark's own file of that name: the folder may come from another machine."""
    card = resource_names("benchmarks").get(str(fit.run["benchmark"]))
    # Of either system's paths.
    name = PureWindowsPath(source).name
    if card is None or not name:
        return None
    path = card.parent / "covariates" / name
    return path if path.is_file() else None


def _records(fit: Fit) -> Records:
    """The fit's table, for the labels that a covariate is matched to."""
    constant = fit.data["constant_data"].to_dataset()
    table = pd.DataFrame(
        {
            f: constant[f].to_numpy()[constant[f"{f}_index"].to_numpy()].astype(str)
            for f in names.FACTORS
        }
    )
    score = fit.data["observed_data"][names.SCORE].to_numpy()
    return Records.from_frame(
        table.assign(score=score).drop_duplicates(list(names.FACTORS)),
        name=str(fit.run["benchmark"]),
        language_names=fit.run["language_names"],
        mixed_scales="allow",
    )


def _languages(
    values: Covariate, own: Sequence[str], models: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Languages to forecast: without records, and with a value for every model."""
    new = [label for label in values.labels if label not in own and not values.missing([label])]
    whole = np.isfinite(_over_models(values.at(new, models)[0]))
    known = [label for label, there in zip(new, whole, strict=True) if there]
    if not known:
        raise InputError(f"{values.name} knows no language beyond the {len(own)} of the table")
    partly = [label for label in new if label not in known]
    lacking = f"{', '.join(partly[:3])}{', ...' if len(partly) > 3 else ''}"
    note = f"not forecast, because {values.name} is missing for some models: {lacking}"
    return known, [note] if partly else []


def _apart(difference: Floats, name: str) -> list[str]:
    """What is to be said of given values that are not those of the fit.

    Parameters
    ----------
    difference : ndarray, shape (n_languages,)
        In standard deviations of the covariate, languages with records; NaN where not given.
    """
    there = difference[np.isfinite(difference)]
    if not len(there):
        return [
            f"the given {name} knows no language with records, so nothing shows that it is on the "
            "scale that the model was fitted to"
        ]
    apart = float(np.sqrt(np.mean(there**2)))
    if apart < _ALIKE:
        return []
    return [
        f"for languages with records the given {name} is {apart:.1f} sd away from the values that "
        "the model was fitted to (root mean square); if it was measured in another way, fit with "
        "it too"
    ]


def _over_models(values: Floats) -> Floats:
    """Mean over models, the first of two axes, where values are by model."""
    return values.mean(axis=-2) if values.ndim > 1 else values


def _true_values(
    x: Floats,
    se: Floats,
    term: CovariateTerm,
    arrays: PosteriorArrays,
    rng: np.random.Generator,
) -> Floats:
    """Standardised values; with measurement error draws of them given the measurement.

    Parameters
    ----------
    x, se : ndarray, shape (n_new,) or (n_models, n_new)

    Returns
    -------
    ndarray, shape (n_samples, n_new) or (1, n_new)
        Their mean over models, whose errors are independent.
    """
    if not term.measurement_error or not (se > 0.0).any():
        return _over_models(x)[None]
    share = 1.0 / (1.0 + se**2)
    noise = np.sqrt(1.0 - share) * rng.standard_normal((arrays.n_samples, *x.shape))
    drawn = share * x + noise
    return np.asarray(drawn.mean(axis=1) if x.ndim == 2 else drawn)


def _chosen(table: pd.DataFrame, languages: Sequence[str] | None) -> tuple[str, ...]:
    """Asked for by a label of the benchmark or of the source; in the order of the table."""
    if languages is None:
        return ()
    for label in languages:
        both = [*table[names.LANGUAGE], *table["source_label"]]
        if label not in both:
            raise InputError(
                f"no language {label!r} in the covariate{did_you_mean(label, both)} "
                f"(it has {len(table)})"
            )
    own = table[names.LANGUAGE]
    return tuple(own[own.isin(languages) | table["source_label"].isin(languages)])


def _line(arrays: PosteriorArrays, values: Floats, ci_prob: float) -> pd.DataFrame:
    (slope,) = arrays.slopes
    grid = np.linspace(values.min(), values.max(), 60)
    common = arrays.intercept + arrays.main[names.TASK].mean(axis=1)
    draws = common[:, None] + slope.slope[:, None] * (grid - slope.mean) / slope.sd
    return pd.DataFrame(
        {"covariate": grid}
        | summary_columns("potential", interval_summary(draws, ci_prob=ci_prob), sd=False)
    )


def _checked(fit: Fit, *, seed: int, progress: Progress | None) -> tuple[pd.DataFrame, str | None]:
    from bayeseval.engines.marginal import why_not

    design = restore_design(fit.data, fit.spec)
    reason = why_not(design)
    if reason is not None:
        return pd.DataFrame(), reason
    return check_forecasts(design, seed=seed, progress=progress), None
