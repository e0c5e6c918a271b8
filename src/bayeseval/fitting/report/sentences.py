"""What the tables of models say, in sentences: estimand tables in, text out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import counted, grouped
from bayeseval.design.test_sets import SAYS_WHAT_IS_SHARED
from bayeseval.estimands import sources_text
from bayeseval.fitting.report.pairs import paired_models, pairs_of_models, pairs_text
from bayeseval.output.numbers import number_text, percent_text, probability_text, unit_text

__all__ = [
    "CALLED",
    "aggregates_or_ranking",
    "expected_wrong",
    "geometric_mean_sentence",
    "known_order_sentence",
    "leading_sentence",
    "listed",
    "main_result",
    "of_test_sets",
    "prediction_sentence",
    "ranking_details",
    "ranking_sentences",
    "residual_sentence",
]

#: Two models are told apart when one is better with this probability.
CALLED: Final = 0.975
_SET: Final = 0.95
# Names that a sentence lists before it counts.
_MOST: Final = 4
# Shares of predicted pairs from which on a model is named.
_MOSTLY: Final = 0.5


def ranking_sentences(ranking: pd.DataFrame, pairs: pd.DataFrame, *, unit: str = "") -> list[str]:
    """Say who is ahead, who cannot be told apart, and how large the differences are.

    Parameters
    ----------
    ranking : pandas.DataFrame
        ``model_ranking.csv``, best first.
    pairs : pandas.DataFrame
        ``pairwise_models.csv``; rows of other quantities than the score are left aside. Its
        attribute ``margin`` is a difference without practical meaning, in score units.
    unit : str
        Unit of the scores; empty where it is not known.

    Returns
    -------
    list of str
        Empty for a point estimate, which has no probabilities, and for a single model.
    """
    first = leading_sentence(ranking, pairs)
    return [first, *ranking_details(ranking, pairs, unit=unit)] if first else []


def leading_sentence(ranking: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Say who is ahead, or that the models cannot be told apart.

    Parameters
    ----------
    ranking, pairs : pandas.DataFrame
        As for :func:`ranking_sentences`.

    Returns
    -------
    str
        Empty for a point estimate, which has no probabilities, and for a single model.
    """
    result = main_result(ranking, pairs)
    if not result:
        return ""
    if not _has_order(ranking, pairs):
        return f"{result}."
    return f"{result}.{_mostly_predicted(ranking)}{_more_likely(ranking)}"


def ranking_details(ranking: pd.DataFrame, pairs: pd.DataFrame, *, unit: str = "") -> list[str]:
    """What follows the leading sentence: candidates, tiers, known orders, sizes of differences.

    Parameters
    ----------
    ranking, pairs, unit : object
        As for :func:`ranking_sentences`.

    Returns
    -------
    list of str
        Empty for a point estimate and for a single model.
    """
    if not _is_ranked(ranking, pairs):
        return []
    sentences = []
    if _has_order(ranking, pairs):
        sentences = [
            _candidates(ranking, pairs),
            _tiers(ranking),
            known_order_sentence(ranking, pairs),
        ]
    elif not ranking["may_be_best"].fillna(False).all():
        sentences = [_candidates(ranking, pairs)]
    margin = float(pairs.attrs.get("margin", float("nan")))
    own = pairs[pairs["quantity"] == names.STANDARDISED_SCORE]
    return [text for text in [*sentences, *_differences(own, len(ranking), margin, unit)] if text]


def known_order_sentence(ranking: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Count the pairs of models whose order is known, and those expected to be wrong by chance.

    Parameters
    ----------
    ranking, pairs : pandas.DataFrame
        As for :func:`ranking_sentences`.

    Returns
    -------
    str
        Empty where no order is known, and for fewer than three models.
    """
    if not _has_order(ranking, pairs):
        return ""
    p = _probabilities(pairs)
    sure = np.maximum(p, 1.0 - p)
    sure = sure[sure >= CALLED]
    return (
        f"{grouped(len(sure))} of {pairs_of_models(len(p), len(ranking))} "
        f"{'is' if len(sure) == 1 else 'are'} "
        f"in a known order (probability at least {CALLED:g}); of these, {expected_wrong(sure)} "
        "are expected to be wrong by chance."
    )


def _is_ranked(ranking: pd.DataFrame, pairs: pd.DataFrame) -> bool:
    """Whether there are models to compare, and probabilities to compare them by."""
    return len(ranking) > 1 and not bool(np.isnan(_probabilities(pairs)).any())


def _has_order(ranking: pd.DataFrame, pairs: pd.DataFrame) -> bool:
    """Whether the order of a pair is known, among three models or more."""
    p = _probabilities(pairs)
    return len(ranking) > 2 and bool((np.maximum(p, 1.0 - p) >= CALLED).any())


def _probabilities(pairs: pd.DataFrame) -> np.ndarray:
    """Of every pair, that its first model has the higher score."""
    own = pairs[pairs["quantity"] == names.STANDARDISED_SCORE]
    return own["p_a_better"].to_numpy(dtype=float)


def main_result(ranking: pd.DataFrame, pairs: pd.DataFrame, *, most: int = _MOST) -> str:
    """Say who is ahead, or that the models cannot be told apart, without a full stop.

    Parameters
    ----------
    ranking, pairs : pandas.DataFrame
        As for :func:`ranking_sentences`.
    most : int
        Names of models that are listed; the rest is counted.

    Returns
    -------
    str
        Empty for a point estimate, which has no probabilities, and for a single model.
    """
    if not _is_ranked(ranking, pairs):
        return ""
    own = pairs[pairs["quantity"] == names.STANDARDISED_SCORE]
    p = own["p_a_better"].to_numpy(dtype=float)
    if len(ranking) == 2:
        return _two_models(own.iloc[0])
    return _leader(ranking, own, most, known=bool((np.maximum(p, 1.0 - p) >= CALLED).any()))


def _two_models(pair: pd.Series) -> str:
    better, worse, p = pair["model_a"], pair["model_b"], float(pair["p_a_better"])
    if p < 0.5:
        better, worse, p = worse, better, 1.0 - p
    order = f"{better} is better than {worse} with probability {probability_text(p)}"
    return order if p >= CALLED else f"The two models cannot be told apart: {order} only"


def _leader(ranking: pd.DataFrame, pairs: pd.DataFrame, most: int, *, known: bool) -> str:
    n = len(ranking)
    if not known:
        compared = min(n, paired_models(len(pairs)))
        models = f"best {compared} of {n} models" if compared < n else f"{n} models"
        return (
            f"None of the {models} can be told apart from another: for no pair is the order "
            f"known with a probability of {CALLED:g}"
        )
    first = str(ranking[names.MODEL].iloc[0])
    chance = ranking["p_best"].to_numpy(dtype=float)
    others = _not_apart(first, pairs)
    best = f"the best of the {n} models with probability {probability_text(float(chance[0]))}"
    if not others:
        return f"{first} is ahead, and {best}"
    # Of two equal models one is the best with probability 0.5 or more: that is no lead.
    close = [str(model) for model in ranking[names.MODEL] if model in others]
    return (
        f"{first} has the highest score, and is {best}; it cannot be told apart from "
        f"{listed(close, most)}"
    )


def _mostly_predicted(ranking: pd.DataFrame) -> str:
    """Warn where the highest score rests on predictions more than on measurements."""
    share = float(ranking["share_predicted"].iloc[0]) if "share_predicted" in ranking else 0.0
    if not share > _MOSTLY:
        return ""
    return (
        f" But {percent_text(share)} % of the language-task pairs behind the score of "
        f"{ranking[names.MODEL].iloc[0]} are predicted, not measured."
    )


def _more_likely(ranking: pd.DataFrame) -> str:
    """Name the model that is the most likely best, if it has not the highest score."""
    chance = ranking["p_best"].to_numpy(dtype=float)
    likely = int(np.argmax(chance))
    if not likely:
        return ""
    return (
        f" {ranking[names.MODEL].iloc[likely]} is the best with probability "
        f"{probability_text(float(chance[likely]))}."
    )


def _candidates(ranking: pd.DataFrame, pairs: pd.DataFrame) -> str:
    chosen = ranking["may_be_best"].fillna(False).astype(bool)
    several = [str(model) for model in ranking.loc[chosen, names.MODEL]]
    if len(several) < 2:
        return ""
    text = f"The best model is one of {listed(several)} (with a probability of at least {_SET:g})"
    first = str(ranking[names.MODEL].iloc[0])
    if _not_apart(first, pairs) <= set(several):
        return f"{text}."
    # The two lists answer two questions, and look like a contradiction.
    return (
        f"{text}. Models that cannot be told apart from {first} need not be in this set: telling "
        "models apart concerns one pair at a time."
    )


def _not_apart(first: str, pairs: pd.DataFrame) -> set[str]:
    """Models whose order with the first one is not known."""
    own = pairs[pairs["quantity"] == names.STANDARDISED_SCORE]
    own = own[(own["model_a"] == first) | (own["model_b"] == first)]
    p = own["p_a_better"].to_numpy(dtype=float)
    level = own[np.maximum(p, 1.0 - p) < CALLED]
    return {*map(str, level["model_a"]), *map(str, level["model_b"])} - {first}


def _tiers(ranking: pd.DataFrame) -> str:
    sizes = ranking.groupby("tier", sort=True)[names.MODEL].size()
    if not len(sizes):
        return ""
    if len(sizes) == len(ranking):
        return "Each model can be told apart from the next one."
    return (
        f"{counted(len(sizes), 'tier')}: the models of a tier cannot be told apart from its first "
        "one. A model of a later tier can still be indistinguishable from another of an earlier "
        "tier."
    )


def expected_wrong(sure: np.ndarray) -> str:
    """Expected number of wrong calls in words, given the probability of each."""
    wrong = float((1.0 - sure).sum())
    return "fewer than 0.1" if wrong < 0.05 else f"about {number_text(wrong, 1)}"


def _differences(pairs: pd.DataFrame, n_models: int, margin: float, unit: str) -> list[str]:
    """How many differences matter, where there is a margin."""
    if "p_within_margin" not in pairs or pairs["p_within_margin"].isna().any():
        return []
    within, p = (pairs[c].to_numpy(dtype=float) for c in ("p_within_margin", "p_a_better"))
    # Two models that are far apart one way or the other are no difference to rely on.
    ordered = np.maximum(p, 1.0 - p) >= CALLED
    large, n = int((ordered & (within <= 1.0 - CALLED)).sum()), len(pairs)
    small = int((within >= CALLED).sum())
    text = (
        f"{margin:.3g}{unit_text(_singular(unit, margin), before=' ')}" if margin == margin else ""
    )
    limit = f"the margin of {text}" if text else "the margin"
    if n == 1:
        if large or small:
            return [f"The difference is {'larger' if large else 'smaller'} than {limit}."]
        return [
            f"The difference is larger than {limit}, in one direction or the other, with "
            f"probability {probability_text(1.0 - float(within[0]))}."
        ]
    verb, every = "differs" if large == 1 else "differ", pairs_of_models(n, n_models)
    sentence = f"{grouped(large)} of {every} {verb} in a known direction by more than {limit}"
    if small:
        sentence += f", and {pairs_text(small)} {'differs' if small == 1 else 'differ'} by less"
    rest = n - large - small
    known = f"each with a probability of at least {CALLED:g}"
    if not large + small:
        return [
            f"For none of the {every} is it known, with a probability of at least "
            f"{CALLED:g}, whether they differ by more or by less than {limit}."
        ]
    if not rest:
        return [f"{sentence} ({known})."]
    return [f"{sentence} ({known}); for {pairs_text(rest)} this is not known."]


def _singular(unit: str, number: float) -> str:
    return unit.replace("points", "point").replace("units", "unit") if number == 1.0 else unit


def prediction_sentence(ranking: pd.DataFrame, n_pairs: int) -> str:
    """Say how much of the models' scores was predicted rather than measured.

    Parameters
    ----------
    ranking : pandas.DataFrame
        ``model_ranking.csv``.
    n_pairs : int
        Number of common pairs of a language and a task.
    """
    share = ranking["share_predicted"].to_numpy(dtype=float)
    models = [str(model) for model in ranking[names.MODEL]]
    pairs = f"{n_pairs} language-task {'pair' if n_pairs == 1 else 'pairs'}"
    if not (share > 0.0).any():
        return f"All models were tested on all {pairs}: no score is predicted."
    tested = round((1.0 - share.max()) * n_pairs)
    # Several may have been tested on the same small number of pairs.
    fewest = np.rint((1.0 - share) * n_pairs) == tested
    least = [model for model, few in zip(models, fewest, strict=True) if few]
    text = f"Scores are means over the same {pairs}."
    if len(least) == len(models):
        who = "Every model" if len(models) > 1 else models[0]
        return f"{text} {who} was tested on {tested} of them; the others are predicted."
    gaps, mostly = int((share > 0.0).sum()), int((share > _MOSTLY).sum())
    some = f" {gaps} of the {len(models)} models {'was' if gaps == 1 else 'were'} not tested"
    text += some if gaps < len(models) else f" None of the {len(models)} models was tested"
    text += " on all of them; missing scores are predicted"
    if mostly:
        those = counted(mostly, "model") if mostly < len(models) else f"all {len(models)} models"
        text += f", for {those} more than half of all"
    one = "was" if len(least) == 1 else "were"
    return f"{text}. {listed(least)} {one} tested on the fewest pairs, {tested}."


def geometric_mean_sentence(aggregates: pd.DataFrame) -> str:
    """Say why models have no geometric mean over the languages at hand.

    Parameters
    ----------
    aggregates : pandas.DataFrame
        ``aggregates.csv``.

    Returns
    -------
    str
        Empty where all have one.
    """
    own = aggregates[aggregates["aggregate"] == "geometric_mean"]
    own = own[(own["population"] == "fixed") & (own["of"] == "expected")]
    missing = own[own["value_mean"].isna()]
    if not len(missing):
        return ""
    if missing["note"].nunique() == 1:
        reason = str(missing["note"].iloc[0]).removeprefix("not reported: ")
    else:
        reason = "in some draws a language is at or below 0, where no geometric mean exists"
    whose = "" if len(missing) == len(own) else f" of {listed(list(missing[names.MODEL]))}"
    return f"The geometric mean{whose} is left out: {reason}."


# Rows of the variance components with errors that the residual leaves out.
_ERRORS: Final = {
    "known_se": "known standard errors",
    "replicates": "noise of {}",
    "shared_items": "noise of test sets that cells share",
}


def aggregates_or_ranking(sources: Collection[str]) -> str:
    """Why aggregates and the ranking can order models differently, given the sources of noise."""
    return (
        "Aggregates and the ranking average different scores. Aggregates use the scores of all "
        f"cells (missing ones predicted) without the noise of {sources_text(sources)}, and average "
        "within each language first, then over languages. The ranking averages expected scores, "
        "which exclude residuals too, with equal weight for all common language-task pairs. Close "
        "models can therefore be in a different order."
    )


def residual_sentence(components: pd.DataFrame, sources: Collection[str]) -> str:
    """Say what both sds of the residual contain, where errors of the scores are known.

    Parameters
    ----------
    components : pandas.DataFrame
        ``variance_components.csv``.
    sources : collection of str
        Sources of noise within cells.

    Returns
    -------
    str
        Empty where no errors are known, and where the residual contains them.
    """
    there, noise = set(components["component"]), sources_text(sources)
    errors = {row: what.format(noise) for row, what in _ERRORS.items() if row in there}
    if not errors:
        return ""
    return (
        f"residual: its sd leaves out the {' and the '.join(errors.values())}, which have rows of "
        f"their own ({', '.join(errors)}). The sd of its observed levels is computed from score "
        "minus prediction, and therefore includes these errors."
    )


def listed(labels: Sequence[str], most: int = _MOST) -> str:
    """Join names as a sentence does; beyond `most` the rest is counted.

    Examples
    --------
    >>> listed(["A", "B", "C"]), listed(["A", "B", "C", "D"], 2)
    ('A, B and C', 'A, B and 2 others')
    """
    shown = list(labels)
    if len(shown) > most + 1:
        shown = [*shown[:most], f"{len(shown) - most} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def of_test_sets(notes: Sequence[str]) -> str:
    """Say what the intervals of languages leave out, if nothing shows what cells share.

    Parameters
    ----------
    notes : sequence of str
        Notes of the fit on its model.
    """
    if any(note.startswith(SAYS_WHAT_IS_SHARED) for note in notes):
        return ""
    return "The intervals are for these test sets: other items would move the scores of all models."
