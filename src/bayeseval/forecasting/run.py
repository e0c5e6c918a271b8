"""Forecasts: potentials of languages without records, and how well such forecasts do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_names
from bayeseval._calls import explained
from bayeseval._cluster import Cluster
from bayeseval._processes import sensible_jobs
from bayeseval._progress import reporting
from bayeseval._random import generator
from bayeseval._resources import resource_names, shipped_covariates
from bayeseval._text import counted, shell_quoted
from bayeseval._typing import Bools, Floats, Progress
from bayeseval.design import restore_design
from bayeseval.errors import DesignError, InputError, argument, wording
from bayeseval.estimands import rank_draws, read_arrays
from bayeseval.estimands.arrays import interval_summary
from bayeseval.estimands.covariates import covariates_table
from bayeseval.estimands.forecast import lowest_quarter, new_potential
from bayeseval.estimands.frames import finish, rank_columns, summary_columns
from bayeseval.fitting.covariates import CovariateSource, covariate_names, stored_covariate
from bayeseval.fitting.fitted import Fit, check_fit
from bayeseval.fitting.gate import GATE_FAILED, warn_of_gates
from bayeseval.forecasting.candidates import (
    languages_of_the_map,
    related_languages,
    why_unrelated,
)
from bayeseval.forecasting.check import check_forecasts
from bayeseval.forecasting.container import Forecast
from bayeseval.forecasting.words import scale_notes, unclear_slopes
from bayeseval.languages.labels import meant_or_near
from bayeseval.languages.matching import match, understand, with_names
from bayeseval.output.language_names import add_language_names
from bayeseval.records import Covariate
from bayeseval.spec import AUTO, CovariateTerm, LanguageRelations

if TYPE_CHECKING:
    from bayeseval.estimands.container import PosteriorArrays

__all__ = ["Forecast", "forecast"]

# The covariate that is shipped, and the model that has it.
_SHIPPED: Final = "mexa"


@explained
def forecast(
    fit: Fit,
    *,
    covariate: CovariateSource = None,
    languages: str | Sequence[str] | None = None,
    check: bool = True,
    seed: int = 0,
    ci_prob: float = names.CI_PROB,
    jobs: int | None = None,
    dask: str | None = None,
    progress: Progress | bool | None = None,
) -> Forecast:
    """Forecast the potential of languages without records.

    Parameters
    ----------
    fit : Fit
        Of a model with covariates, such as ``mexa``, or with ``languages: {...}``, which
        relates languages, or both; identity link. Every language with a value of each
        covariate is forecast; without a covariate, those of which the package knows a place and
        `languages`.
    covariate : Covariate, str or Path, optional
        Values of the languages to forecast; when left out, those that the fit was made with.
    languages : str or sequence of str, optional
        Which to print and to mark in the figures: labels, language codes or English names, such
        as ``sw``, ``swh_Latn`` or ``Swahili``; in one text, separated by commas. The table has
        all.
    check : bool
        Whether to leave out each language with records and forecast it: two refits per
        language, half a minute on MEGA. The notes say whether too few of them lie inside their
        intervals, and which checks of the fit fail.
    seed : int
        Of the new languages' own effects and of the refits.
    ci_prob : float
        Probability of the equal-tailed intervals.
    jobs : int, optional
        Number of refits of the check that run in parallel; one by default. The results do not
        depend on it.
    dask : str, optional
        Address ``tcp://host:port`` of the scheduler of a Dask cluster, whose workers make these
        refits instead.
    progress : bool or callable, optional
        True shows progress on stderr; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Forecast
        ``print`` shows a summary; ``table`` and ``check`` contain all numbers.

    Raises
    ------
    InputError
        If the model has neither a covariate nor related languages, a logit link or fixed language
        effects; if there is no language to forecast, or one that is not known.

    Warns
    -----
    ConvergenceWarning
        Once, if the convergence gate of the fit failed.

    Examples
    --------
    >>> import bayeseval as be
    >>> spec = {"name": "with_speakers", "covariates": ["speakers"]}
    >>> fit = be.fit(df, spec, covariate=covariate, draws=400, chains=2)
    >>> forecast = be.forecast(fit, covariate=covariate, check=False)
    >>> sorted(forecast.table.loc[~forecast.table["observed"], "language"])
    ['de', 'fr']
    """
    check_fit(fit)
    warn_of_gates({"the fit": fit.gate}, stacklevel=3)
    # First, because it refuses a damaged posterior.
    arrays = read_arrays(fit.data)
    _refuse_unknown_languages(fit, arrays, covariate)
    rng = generator(seed, "forecast")
    own = list(arrays.levels[names.LANGUAGE])
    asked = list(as_names("languages", languages or (), of="languages"))
    if not _of_languages(fit, arrays):
        found = _without_covariate(fit, arrays, asked, covariate)
    else:
        found = _from_covariates(fit, arrays, covariate, rng)
    new = new_potential(
        arrays, found.added, rng=rng, seed=int(fit.run["seed"]), relations=found.relations
    )
    labels, notes = [*own, *found.new], list(found.notes)
    table = _table(
        {
            names.LANGUAGE: labels,
            "source_label": [found.matched.get(label, label) for label in labels],
            "observed": np.arange(len(labels)) < len(own),
            **found.values,
        },
        _with_observed(fit, new),
        extrapolation=found.extrapolation,
        ci_prob=ci_prob,
    )
    only = next(iter(found.values)) if len(found.values) == 1 else None
    # Refused before the check, which takes long.
    called = with_names(fit.run["language_names"], table[names.LANGUAGE])
    chosen, matched = _chosen(table, asked, called, list(found.values), fit.spec.languages)
    failed = [GATE_FAILED] if fit.gate.status == "fail" else []
    checked, notes = pd.DataFrame(), [*failed, *matched, *notes]
    if check:
        with reporting(progress) as report:
            here = 1 if jobs is None and dask is None else jobs
            at_once = sensible_jobs(here, cores_each=1, dask=dask)
            checked, reason = _checked(fit, seed=seed, jobs=at_once, progress=report)
        notes += [f"no check of the forecasts: {reason}"] if reason else []
        notes += _failed_checks(fit)
    if checked.empty:
        unclear = unclear_slopes(covariates_table(fit.data, ci_prob=ci_prob), skipped=not check)
        notes += [unclear] if unclear else []
    named = add_language_names(finish(table, ci_prob), called, after=names.LANGUAGE)
    if fit.gate.status == "fail":
        named["gate"] = fit.gate.status
    return Forecast(
        table=named,
        check=checked,
        line=pd.DataFrame() if only is None else _line(arrays, only, found.values[only], ci_prob),
        covariate=only or "",
        notes=tuple(notes),
        fit=fit,
        languages=chosen,
    )


@dataclass(frozen=True, eq=False)
class _New:
    """Languages without records, and what is known of them.

    Attributes
    ----------
    new : list of str
    added : ndarray, shape (n_samples, n_new)
        What the covariate adds to their potentials.
    relations : ndarray or None
        How related all languages are, see :func:`related_languages`.
    values : dict of str to ndarray, shape (n_languages + n_new,)
        The covariates.
    extrapolation : ndarray of bool, shape (n_languages + n_new,)
    matched : mapping of str to str
        Labels of the table to those of the covariate's source.
    notes : list of str
    """

    new: list[str]
    added: Floats
    relations: Floats | None
    values: Mapping[str, Floats]
    extrapolation: Bools
    matched: Mapping[str, str]
    notes: list[str]


def _without_covariate(
    fit: Fit, arrays: PosteriorArrays, asked: Sequence[str], given: CovariateSource
) -> _New:
    """Languages that only their relations to others are known of."""
    if given is not None:
        raise InputError(
            f"the model {fit.spec.name} has no covariate, so none can be given; leave it out"
        )
    own = arrays.levels[names.LANGUAGE]
    new, relations, notes = related_languages(
        arrays, fit.spec.languages, languages_of_the_map(own, asked)
    )
    n = len(own) + len(new)
    return _New(
        new=new,
        added=np.zeros((arrays.n_samples, len(new))),
        relations=relations,
        values={},
        extrapolation=np.zeros(n, dtype=np.bool_),
        matched={},
        notes=notes,
    )


def _from_covariates(
    fit: Fit, arrays: PosteriorArrays, given: CovariateSource, rng: np.random.Generator
) -> _New:
    """Languages that have a value of every covariate, and known relations where needed."""
    own, models = list(arrays.levels[names.LANGUAGE]), arrays.levels[names.MODEL]
    own_given = () if given is None else covariate_names(given)
    terms = _of_languages(fit, arrays)
    sources = {
        term.name: stored_covariate(
            fit.data,
            fit.run,
            fit.spec,
            term.name,
            # A file is for the only covariate, and refused where there are several.
            given if isinstance(given, str | Path) or term.name in own_given else None,
        )
        for term in terms
    }
    first, *others = sources.values()
    known, notes = _languages(first, own, models)
    # Sources may write the same language in different ways.
    label_in = {first.name: {label: label for label in known}}
    for other in others:
        theirs, lacking = _languages(other, own, models)
        found = match(known, theirs).mapping
        label_in[other.name] = found
        known = [label for label in known if label in found]
        notes += lacking
    if not known:
        raise InputError(
            f"no language beyond those of the table has values of {' and '.join(sources)}"
        )
    known, relations, lost = related_languages(arrays, fit.spec.languages, known)
    notes = [*(note for one in sources.values() for note in one.notes), *notes, *lost]
    values, added = {}, np.zeros((1, len(known)))
    outside = np.zeros(len(own) + len(known), dtype=np.bool_)
    for term in terms:
        source = sources[term.name]
        slope = next(one for one in arrays.slopes if one.name == term.name)
        measured, se = source.at([label_in[term.name][label] for label in known], models)
        x = _true_values((measured - slope.mean) / slope.sd, se / slope.sd, term, arrays, rng)
        observed = slope.mean + slope.sd * _over_models(slope.standardised.mean(axis=0))
        everything = np.concatenate([observed, _over_models(measured)])
        values[term.name], added = everything, added + slope.slope[:, None] * x
        outside |= (everything < observed.min()) | (everything > observed.max())
        if term.name in own_given or isinstance(given, str | Path):
            own_values = _over_models(source.at(own, models)[0])
            notes += scale_notes((own_values - observed) / slope.sd, term.name)
    return _New(known, added, relations, values, outside, first.matched, notes)


def _failed_checks(fit: Fit) -> list[str]:
    """A note on the checks that the fit fails, if it fails any."""
    table = fit.checks().table
    failed = [str(name).replace("_", " ") for name in table.loc[table["status"] == "fail", "check"]]
    if not failed:
        return []
    return [
        f"the fit fails {counted(len(failed), 'check')} ({', '.join(failed)}): its model does not "
        "describe these scores well, and forecasts and their intervals depend on it"
    ]


def _of_languages(fit: Fit, arrays: PosteriorArrays) -> tuple[CovariateTerm, ...]:
    """Covariates that differ between languages; those of models add nothing to a potential."""
    by = {slope.name: slope.by for slope in arrays.slopes}
    return tuple(term for term in fit.spec.covariates if by[term.name] != names.MODEL)


def _refuse_unknown_languages(fit: Fit, arrays: PosteriorArrays, given: CovariateSource) -> None:
    """Refuse a model that knows nothing of languages without records."""
    if _of_languages(fit, arrays) or fit.spec.languages is not None:
        return
    if given is not None:
        raise InputError(
            f"the model {fit.spec.name} has no covariate of languages, and {argument('covariate')} "
            "gives the values of one that the model has: the fit estimates what it adds to a "
            f"potential; {_fit_with_covariate(fit.run, given)}, and forecast from its folder"
        )
    raise InputError(
        f"the model {fit.spec.name} has no covariate of languages and does not relate them, and a "
        "forecast needs one of these; fit a spec with 'languages: {place: 1000 km, family: "
        f"glottolog, script: true}}', or {_fit_with_covariate(fit.run)}"
    )


def _fit_with_covariate(run: Mapping[str, Any], wanted: CovariateSource = None) -> str:
    """What to fit instead: with the wanted covariate, the benchmark's own or the shipped one."""
    table = str(run["source"])
    own = table in resource_names("benchmarks") and _SHIPPED in shipped_covariates(table)
    options = f" {run['source_options']}" if run.get("source_options") else ""
    if wanted is not None and str(wanted) != _SHIPPED:
        # auto takes a covariate of any name; one that is no file has no name that could be shown.
        value = str(wanted) if isinstance(wanted, str | Path) else None
        return "fit one with " + wording(
            f"be.fit(records, {AUTO!r}, covariate={'covariate' if value is None else repr(value)})",
            f"bayeseval fit --benchmark {shell_quoted(table)}{options} --model {AUTO} "
            f"--covariate {shell_quoted(value or 'FILE')}",
        )
    given = "" if own else wording(f", covariate={_SHIPPED!r}", f" --covariate {_SHIPPED}")
    advice = "fit one with " + wording(
        f"be.fit(records, {_SHIPPED!r}{given})",
        f"bayeseval fit --benchmark {shell_quoted(table)}{options} --model {_SHIPPED}{given}",
    )
    if own or wanted is not None:
        return advice
    origin = shipped_covariates()[_SHIPPED].parents[1].name
    file = wording("covariate='FILE'", "--covariate FILE")
    return (
        f"{advice} ({_SHIPPED}: alignment with English of the languages of FLORES-200, shipped "
        f"with {origin}; {file} takes values of your own)"
    )


def _with_observed(fit: Fit, new: Floats) -> Floats:
    """Draws of the potentials of all languages: those with records, then the new ones."""
    there = fit.data["posterior"][names.LANGUAGE_POTENTIAL].transpose("chain", "draw", ...)
    values = there.to_numpy()
    if np.isinf(values).any():
        raise InputError(
            f"the fit is damaged: {names.LANGUAGE_POTENTIAL} has infinite draws; fit the model"
            " again"
        )
    return np.concatenate([values.reshape(len(new), -1), new], axis=1)


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


def _languages(
    values: Covariate, own: Sequence[str], models: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Languages to forecast: without records, and with a value for every model."""
    new = [label for label in values.labels if label not in own and not values.missing([label])]
    whole = np.isfinite(_over_models(values.at(new, models)[0]))
    known = [label for label, there in zip(new, whole, strict=True) if there]
    if not known:
        raise InputError(
            f"{values.name} has values for no language beyond the {len(own)} of the table"
        )
    partly = [label for label in new if label not in known]
    lacking = f"{', '.join(partly[:3])}{', ...' if len(partly) > 3 else ''}"
    note = f"not forecast, because {values.name} is missing for some models: {lacking}"
    return known, [note] if partly else []


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


def _chosen(
    table: pd.DataFrame,
    asked: Sequence[str],
    called: Mapping[str, str],
    covariates: Sequence[str],
    relations: LanguageRelations | None,
) -> tuple[tuple[str, ...], list[str]]:
    """Languages that are asked for, in the order of the table, and what was read into them.

    A label of the benchmark or of the covariate's source is taken as it is; others are matched
    to the source's labels, as the benchmark's own were.
    """
    if not asked:
        return (), []
    own, theirs = list(table[names.LANGUAGE]), list(table["source_label"])
    matches = match([label for label in asked if label not in own], theirs)
    for one in matches.ambiguous:
        raise InputError(f"languages: {one.label!r} was not matched: {one.why}")
    for lacking in matches.unmatched:
        why = None
        if relations is not None and understand(lacking.label) is not None:
            why = why_unrelated(relations, lacking.label)
        if why is not None:
            raise InputError(f"language {lacking.label!r} cannot be forecast: {why}")
        known = [*own, *theirs, *called.values()]
        where = "in the covariate" if covariates else "among those that can be forecast"
        raise InputError(
            f"no language {lacking.label!r} {where}{meant_or_near(lacking.label, known)} "
            f"({'it has' if covariates else 'there are'} {len(table)})"
        )
    wanted = {*asked, *matches.mapping.values()}
    chosen = tuple(
        label for label, other in zip(own, theirs, strict=True) if {label, other} & wanted
    )
    read = [
        f"{pair.a!r} is read as {pair.b!r}{f' ({pair.how})' if pair.how else ''}"
        for pair in matches.pairs
        if pair.a != pair.b
    ]
    return chosen, [f"languages: {'; '.join(read)}"] if read else []


def _line(arrays: PosteriorArrays, name: str, values: Floats, ci_prob: float) -> pd.DataFrame:
    slope = next(one for one in arrays.slopes if one.name == name)
    grid = np.linspace(values.min(), values.max(), 60)
    common = arrays.intercept + arrays.main[names.TASK].mean(axis=1)
    draws = common[:, None] + slope.slope[:, None] * (grid - slope.mean) / slope.sd
    return pd.DataFrame(
        {"covariate": grid}
        | summary_columns("potential", interval_summary(draws, ci_prob=ci_prob), sd=False)
    )


def _checked(
    fit: Fit, *, seed: int, jobs: int | Cluster, progress: Progress | None
) -> tuple[pd.DataFrame, str | None]:
    from bayeseval.engines.marginal import why_no_closed_form

    try:
        design = restore_design(fit.data, fit.spec)
    except DesignError as error:
        # Forecasts need draws; only checking them needs the design.
        return pd.DataFrame(), str(error)
    reason = why_no_closed_form(design)
    if reason is not None:
        return pd.DataFrame(), reason
    return check_forecasts(design, seed=seed, jobs=jobs, progress=progress), None
