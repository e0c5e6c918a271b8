"""What forecasts rest on, and how those of left-out languages did, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import any_of
from bayeseval._typing import Floats
from bayeseval.errors import wording
from bayeseval.output.numbers import value_texts

__all__ = [
    "format_check",
    "idle_covariate",
    "known_by",
    "scale_notes",
    "unclear_slopes",
    "weak_check",
    "what_helps",
]

# Of the intervals of left-out languages; the probability of coverage so low that it is reported.
_CHECKED_PROB: Final = 0.95
_WEAK: Final = 0.1
# In sds of the covariate: what rounding and errors of measurement may change.
_ALIKE: Final = 0.25


def known_by(spec: Mapping[str, Any]) -> str:
    """What is known of languages without records.

    Parameters
    ----------
    spec : mapping
        The model, as ``run.json`` has it.

    Examples
    --------
    >>> known_by({"covariates": [{"name": "mexa"}], "languages": {"place": 1000, "script": True}})
    'mexa and related languages (place, script)'
    """
    parts = [str(one["name"]) for one in spec.get("covariates") or ()]
    if spec.get("languages"):
        parts.append(f"related languages ({', '.join(_relations(spec['languages']))})")
    return " and ".join(parts)


def _relations(languages: Mapping[str, Any]) -> list[str]:
    own = [name for name in languages if name != "files"]
    return [*own, *sorted(languages.get("files") or ())]


def what_helps(spec: Mapping[str, Any]) -> str:
    """What a forecast can be made with or without, in the words of a sentence.

    Parameters
    ----------
    spec : mapping
        As for :func:`known_by`.

    Examples
    --------
    >>> what_helps({"languages": {"script": True}})
    'relations'
    """
    covariates = spec.get("covariates") or ()
    known = "the covariates" if len(covariates) > 1 else "the covariate"
    if not spec.get("languages"):
        return known
    return f"{known} and relations" if covariates else "relations"


def weak_check(check: pd.DataFrame) -> str:
    """Say that too few left-out languages lie in their intervals; empty otherwise.

    Too few is what happens in at most one of ten checks of right intervals.

    Parameters
    ----------
    check : pandas.DataFrame
        Of :func:`bayeseval.forecasting.check.check_forecasts`.
    """
    from scipy.stats import binom

    if check.empty:
        return ""
    covered = check.loc[check["with_covariate"].astype(bool), "covered_95"].astype(bool)
    n, inside = len(covered), int(covered.sum())
    if binom.cdf(inside, n, _CHECKED_PROB) > _WEAK:
        return ""
    return (
        f"only {inside} of {n} left-out languages ({100 * inside / n:.0f} %) lie inside the 95 % "
        f"intervals of their forecasts, and about {_CHECKED_PROB * n:.1f} should: the intervals of "
        "new languages are probably too narrow"
    )


def idle_covariate(check: pd.DataFrame, helps: str = "the covariate") -> str:
    """Say that forecasts of left-out languages are no better with the covariate; else empty.

    They are better if their CRPS is lower by more than two standard errors of the differences by
    language.

    Parameters
    ----------
    check : pandas.DataFrame
        Of :func:`bayeseval.forecasting.check.check_forecasts`.
    helps : str
        What forecasts are checked with and without: the covariate, relations or both.
    """
    if check.empty or check["with_covariate"].nunique() < 2:
        return ""
    way = check["with_covariate"].astype(bool)
    crps = check.assign(way=way).pivot_table("crps", names.LANGUAGE, "way", aggfunc="mean")
    gain = (crps[False] - crps[True]).to_numpy(dtype=float)
    mean = float(gain.mean())
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else 0.0
    if mean > 2.0 * error:
        return ""
    one = helps == "the covariate"
    pronoun = "it" if one else "them"
    means = [float(crps[way].mean()) for way in (True, False)]
    # Three significant digits of scores from 0 to 1.
    digits = max(2, 2 - int(np.floor(np.log10(max(*means, 1e-12)))))
    with_it, without_it = value_texts(means, digits)
    values = f"a CRPS of {with_it} with {pronoun} and {without_it} without"
    if mean <= 0.0:
        return (
            f"{helps} {'does' if one else 'do'} not help: forecasts of left-out languages have "
            f"{values} {pronoun}"
        )
    return (
        f"{helps} may not help: forecasts of left-out languages have {values} {pronoun}, a "
        f"difference of {mean:.2g} with a standard error of {error:.2g}"
    )


def unclear_slopes(covariates: pd.DataFrame, *, skipped: bool = False) -> str:
    """Say of which covariates the slope may be 0, where no forecast was checked; else empty.

    Parameters
    ----------
    covariates : pandas.DataFrame
        Of :func:`bayeseval.estimands.covariates_table`.
    skipped : bool
        Whether the check could have been made.

    Examples
    --------
    >>> table = pd.DataFrame({"covariate": ["speakers"], "by": ["language"], "ci_prob": [0.95],
    ...     "slope_lower": [-1.5], "slope_upper": [4.0]})
    >>> unclear_slopes(table)
    'the 95 % interval of the slope of speakers includes 0, so this covariate may not help'
    """
    if covariates.empty:
        return ""
    # Covariates of models add nothing to forecasts of languages.
    rows = covariates[covariates["by"] != names.MODEL]
    rows = rows[(rows["slope_lower"] <= 0.0) & (rows["slope_upper"] >= 0.0)]
    called = list(map(str, rows["covariate"]))
    if not called:
        return ""
    percent = f"{100 * float(rows['ci_prob'].iloc[0]):.4g} %"
    text = (
        f"the {percent} interval of the slope of {called[0]} includes 0, so this covariate may not "
        "help"
        if len(called) == 1
        else f"the {percent} intervals of the slopes of {any_of(called, 'and')} include 0, so "
        "these covariates may not help"
    )
    if not skipped:
        return text
    check = wording("leave check=False out", "leave --no-check out")
    return f"{text}; {check} to compare forecasts of left-out languages with and without " + (
        "it" if len(called) == 1 else "covariates"
    )


def scale_notes(difference: Floats, name: str) -> list[str]:
    """What is to be said of given values that are not those of the fit.

    Parameters
    ----------
    difference : ndarray, shape (n_languages,)
        In standard deviations of the covariate, languages with records; NaN where not given.
    name : str
        Of the covariate.
    """
    known = difference[np.isfinite(difference)]
    if not len(known):
        return [
            f"the given {name} has no value for a language with records, so its scale cannot be "
            "compared with the one that the model was fitted to"
        ]
    rms = float(np.sqrt(np.mean(known**2)))
    if rms < _ALIKE:
        return []
    return [
        f"for languages with records the given {name} is {rms:.1f} sd away from the values that "
        "the model was fitted to (root mean square); if it was measured in another way, fit with "
        "it too"
    ]


def format_check(check: pd.DataFrame, helps: str = "the covariate") -> str:
    """How forecasts of left-out languages did, in two lines.

    Parameters
    ----------
    check : pandas.DataFrame
        Of :func:`bayeseval.forecasting.check.check_forecasts`.
    helps : str
        What forecasts are checked with and without: the covariate, relations or both.
    """
    lines = [
        f"Check: each of the {check[names.LANGUAGE].nunique()} languages with records left out and "
        "forecast (target: its unpooled potential)"
    ]
    for with_covariate, part in check.groupby("with_covariate", sort=False):
        model = f"with {helps}   " if with_covariate else f"without {helps}"
        lines.append(
            f"  {model}  RMSE {np.sqrt((part['error'] ** 2).mean()):.3g}, "
            f"CRPS {part['crps'].mean():.3g}, elpd {part['elpd'].sum():.1f}; the target is in "
            f"{100 * part['covered_90'].mean():.0f} % of the 90 % intervals and "
            f"{100 * part['covered_95'].mean():.0f} % of the 95 % intervals"
        )
    return "\n".join(lines)
