"""Models on the terminal: the ranking, evenness between languages, the published description."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import estimands, names
from bayeseval._text import shorten
from bayeseval.errors import argument
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.fitting.report.evenness import evenness_sentences, notes_on_gaps, without_evenness
from bayeseval.fitting.report.sentences import listed, prediction_sentence, ranking_sentences
from bayeseval.output.language_names import name_and_code
from bayeseval.output.numbers import (
    NONE,
    in_units,
    interval_texts,
    percent_text,
    rank_interval_texts,
    rank_range_texts,
    score_exponent,
    unit_text,
    value_texts,
)
from bayeseval.output.text import fits, text_table, without_empty, wrapped
from bayeseval.records.doubts import constant_models, order_in_doubt

__all__ = [
    "describes",
    "description_text",
    "evenness_text",
    "lowest_gaps",
    "models_text",
    "ranking_text",
    "shown_exponent",
]

# All models up to here; the first and the last few beyond.
_ALL: Final = 30
_FIRST: Final = 20
_LAST: Final = 5
_NEAR_ZERO: Final = "The models logit and bounded keep the potentials of bounded scores above zero."
_CV_LEGEND: Final = "CV-PRR: in brackets, its value if the gap were the same in every language"
_CONSTANT: Final = "cv_prr_constant_gap"
# Gaps of all models in all languages, of which the terminal shows one for each model.
_MOST_GAPS: Final = 20_000
_GAP: Final = ("gap_mean", "gap_lower", "gap_upper")
_DECLARE: Final = "They need the bounds of the scores (units in a mapping file)."
_MOST_PAIRS: Final = 3
# The rule of `bayeseval.estimands.inference.may_be_zero`, in words.
_TOO_CLOSE: Final = (
    "too close to zero for a stable ratio (within 5 posterior sds of zero, or at most zero in a "
    "draw)"
)
# Languages that a line under a heading names.
_MOST_LANGUAGES: Final = 12
_JOINT: Final = (
    "rank: interval of each model on its own, calibrated on average over models; joint: intervals "
    "that contain the ranks of all models at once with {} probability"
)
# Where the column has no room.
_JOINT_IN_FILE: Final = (
    "Rank intervals are those of each model on its own, calibrated on average over models. "
    "Intervals that contain the ranks of all models at once with {} probability: rank_set in "
    "tables/model_ranking.csv."
)


def describes(run: Mapping[str, Any]) -> bool:
    """Whether a run shows the published description first: ``paper`` and the engine ``ml``."""
    return bool(run["engine"] == "ml" or run["spec"]["name"] == "paper")


def models_text(
    tree: xr.DataTree,
    run: Mapping[str, Any],
    *,
    unit: str,
    exponent: int = 0,
    ci_prob: float,
) -> list[str]:
    """All that the terminal shows of models, the ranking first.

    Parameters
    ----------
    tree : xarray.DataTree
        All groups of a fit.
    run : mapping
        Its provenance.
    unit : str
        Unit of the scores; empty where it is not known.
    exponent : int
        Power of ten that the scores are shown in.
    ci_prob : float
        Probability of the equal-tailed intervals.

    Returns
    -------
    list of str
        Tables with the sentences below them. A point estimate and the model ``paper`` have
        the published description first.
    """
    arrays = estimands.read_arrays(tree)
    ranking = estimands.ranking_table(tree, ci_prob=ci_prob)
    pairs = estimands.pairwise_table(tree, ci_prob=ci_prob, most=names.MOST_PAIRED)
    pairs.attrs["margin"] = arrays.margin
    ranking, pairs = in_units(ranking, exponent), in_units(pairs, exponent)
    notes = {
        name: str(tree["posterior"][name].attrs.get("note", ""))
        for name in (names.PRR, names.CV_PRR_LANGUAGES)
    }
    description = estimands.disparity_table(tree, ci_prob=ci_prob)
    language_names = run.get("language_names") or {}
    left_out = _left_out(tree, language_names)
    # Below zero a logit link has no place.
    near_zero = (left_out or "may be zero" in notes[names.PRR]) and not (arrays.score < 0.0).any()
    hint = ""
    if near_zero and arrays.response.link == "identity":
        hint = _NEAR_ZERO if np.isfinite(arrays.bounds).all() else f"{_NEAR_ZERO} {_DECLARE}"
    parts = [
        ranking_text(
            ranking,
            pairs,
            n_pairs=len(arrays.common.language),
            unit=unit,
            notes=[
                order_in_doubt(run.get("notes") or ()),
                f"PRR is not reported: {notes[names.PRR]}." if notes[names.PRR] else "",
                left_out if not notes[names.PRR] else "",
                hint,
                _no_margin(arrays),
            ],
        ),
        evenness_text(
            ranking,
            pairs,
            gaps=in_units(_gaps(tree, ranking, ci_prob), exponent),
            run=run,
            unit=unit,
            language_names=language_names,
            note=notes[names.CV_PRR_LANGUAGES],
            one_score=constant_models(
                arrays.score, arrays.index[names.MODEL], arrays.levels[names.MODEL]
            ),
            left_out=json.loads(
                tree["posterior"][names.CV_PRR_LANGUAGES].attrs.get("left_out", "[]")
            ),
        ),
    ]
    if describes(run):
        parts.insert(0, description_text(description))
    return parts


def _gaps(tree: xr.DataTree, ranking: pd.DataFrame, ci_prob: float) -> pd.DataFrame:
    """Gaps of models in languages; none where there are none or too many to compute again."""
    n = len(ranking) * tree["posterior"].sizes[names.LANGUAGE]
    if n > _MOST_GAPS or ranking["gap_sd_languages_mean"].isna().all():
        return pd.DataFrame(columns=[names.MODEL, names.LANGUAGE, *_GAP])
    return estimands.model_language_table(tree, ci_prob=ci_prob)


def lowest_gaps(ranking: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    """Gap of every model in the language that `ranking` names as its lowest.

    Parameters
    ----------
    ranking, gaps : pandas.DataFrame
        ``model_ranking.csv`` and ``model_language.csv``.

    Returns
    -------
    pandas.DataFrame
        ``gap_{mean,lower,upper}``, in the order of `ranking`; missing where `gaps` has no row.
    """
    of = gaps.set_index([names.MODEL, names.LANGUAGE])[list(_GAP)].astype(float)
    wanted = pd.MultiIndex.from_frame(ranking[[names.MODEL, "worst_language"]])
    return of.reindex(wanted).reset_index(drop=True)


def shown_exponent(tree: xr.DataTree) -> int:
    """Power of ten that the scores of a fit are shown in; none beside effects on a logit scale."""
    arrays = estimands.read_arrays(tree)
    return 0 if arrays.response.link == "logit" else score_exponent(arrays.score)


def _no_margin(arrays: PosteriorArrays) -> str:
    """Say why no difference is called small, where the range of the scores would allow it."""
    width = float((arrays.bounds[1] - arrays.bounds[0]).max())
    if np.isfinite(arrays.margin) or arrays.response.link == "logit":
        return ""
    if not np.isfinite(width):
        return (
            "Not every task has a known scale, so there is no default margin for differences that "
            f"matter: set one with {argument('margin')}, or declare both bounds of the scale."
        )
    return (
        f"All scores lie within {np.ptp(arrays.score):.2g} of each other, less than 1 % of their "
        "scale: there is no default margin for differences that matter; "
        f"set one with {argument('margin')}."
    )


def _left_out(tree: xr.DataTree, language_names: Mapping[str, str]) -> str:
    """Say which pairs the published description goes without."""
    name = names.disparity_name("mean_prr")
    pairs = json.loads(tree["posterior"][name].attrs.get("left_out", "[]"))
    if not pairs:
        return ""
    parts = [names.cell_levels(str(pair)) for pair in pairs]
    languages = name_and_code([language for language, _ in parts], language_names)
    named = listed(
        [f"{name} on {task}" for name, (_, task) in zip(languages, parts, strict=True)], _MOST_PAIRS
    )
    one = len(pairs) == 1
    return (
        f"The published description (Mean-PRR, CV-PRR) leaves out {len(pairs)} "
        f"pair{'' if one else 's'}, whose potential is {_TOO_CLOSE}: {named}."
    )


def ranking_text(
    ranking: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    n_pairs: int,
    unit: str,
    notes: Sequence[str] = (),
) -> str:
    """The first table: expected scores on common pairs, ranks and tiers, in words below.

    Parameters
    ----------
    ranking, pairs : pandas.DataFrame
        ``model_ranking.csv`` and ``pairwise_models.csv``.
    n_pairs : int
        Number of common pairs.
    unit : str
        Unit of the scores; empty where it is not known.
    notes : sequence of str
        Further sentences; empty ones are left out.
    """
    columns = {
        "model": [str(model) for model in ranking[names.MODEL]],
        "score": interval_texts(ranking, "score"),
        "PRR": interval_texts(ranking, "prr"),
        "rank": rank_interval_texts(ranking, "rank"),
        "joint": _rank_sets(ranking),
        "tier": [NONE if pd.isna(tier) else str(tier) for tier in ranking["tier"]],
        "predicted": [f"{percent_text(share)} %" for share in ranking["share_predicted"]],
    }
    heading = wrapped(
        f"Models by expected score{unit_text(unit, before=', ')}, all on the same {n_pairs} "
        f"language-task pairs{_models_label(len(ranking))}",
        indent="",
    )
    if ranking["rank_set_lower"].notna().any():
        percent = f"{100 * float(ranking['ci_prob'].iloc[0]):.4g} %"
        if not fits(without_empty(columns)):
            del columns["joint"]
            notes = [*notes, _JOINT_IN_FILE.format(percent)]
        else:
            heading += "\n" + wrapped(_JOINT.format(percent))
    sentences = [
        *ranking_sentences(ranking, pairs, unit=unit),
        prediction_sentence(ranking, n_pairs),
        *notes,
    ]
    return _with_sentences(heading, columns, sentences)


def evenness_text(
    ranking: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    gaps: pd.DataFrame,
    run: Mapping[str, Any],
    unit: str,
    language_names: Mapping[str, str],
    note: str = "",
    left_out: Sequence[str] = (),
    one_score: Sequence[str] = (),
) -> str:
    """Evenness between languages: a table, or why there is none and what would give it.

    Parameters
    ----------
    ranking, pairs : pandas.DataFrame
        ``model_ranking.csv`` and ``pairwise_models.csv``.
    gaps : pandas.DataFrame
        ``model_language.csv``, or no row of it: then no gap is shown.
    run : mapping
        The run file of the fit.
    unit : str
        Unit of the scores; empty where it is not known.
    language_names : mapping of str to str
        Code to name.
    note : str
        Why CV-PRR is not reported, where it is not.
    left_out : sequence of str
        Languages that CV-PRR goes without, because their potential may be zero.
    one_score : sequence of str
        Models with one score throughout.
    """
    if ranking["gap_sd_languages_mean"].isna().all():
        chosen = bool(run.get("model_reasons"))
        reason = without_evenness(run.get("levels") or {}, chosen=chosen)
        return "\n".join(wrapped(one, indent="") for one in (reason, *notes_on_gaps(run)))
    sds = interval_texts(ranking, "gap_sd_languages")
    cv, constant = (
        value_texts(ranking[column], 2) for column in ("cv_prr_languages_mean", _CONSTANT)
    )
    worst = [str(label) for label in ranking["worst_language"].fillna("")]
    columns = {
        "model": [str(model) for model in ranking[names.MODEL]],
        "sd of gaps": sds,
        "rank": rank_interval_texts(ranking, "gap_sd_rank"),
        "CV-PRR": [
            text if same == NONE else f"{text} ({same})"
            for text, same in zip(cv, constant, strict=True)
        ],
        **({"lowest gap": interval_texts(lowest_gaps(ranking, gaps), "gap")} if len(gaps) else {}),
        "in" if len(gaps) else "lowest gap in": [label or NONE for label in worst],
    }
    heading = "\n".join(
        [
            f"Evenness between languages{_models_label(len(ranking))}",
            *(
                wrapped(text)
                for text in (
                    "sd of gaps: sd over languages of a model's mean score less the language "
                    f"potential{unit_text(unit, before=', ')}; rank 1 is most even; an sd of gaps "
                    "is above 0 in every draw, also of a model that treats all languages alike",
                    *([] if note else [_CV_LEGEND]),
                    "lowest gap: in the language with the lowest posterior mean gap"
                    f"{_named(worst, language_names)}; the lowest true gap may be in another one",
                )
            ),
        ]
    )
    sentences = evenness_sentences(
        ranking, pairs, called=sds, constant=one_score, notes=notes_on_gaps(run)
    )
    if note:
        sentences.append(f"CV-PRR is not reported: {note}.")
    elif left_out:
        named = listed(name_and_code(list(left_out), language_names))
        sentences.append(
            f"CV-PRR leaves out {named}, whose potential is {_TOO_CLOSE}; the sd of gaps does not."
        )
    return _with_sentences(heading, columns, sentences)


def _named(labels: Sequence[str], language_names: Mapping[str, str]) -> str:
    """Names of the languages that stand in a table by their codes."""
    codes = [label for label in dict.fromkeys(labels) if label in language_names]
    text = shorten(name_and_code(codes, language_names), limit=_MOST_LANGUAGES)
    return f", here {text}" if codes else ""


def description_text(table: pd.DataFrame) -> str:
    """The published description of every model on its own pairs, without ranks.

    Parameters
    ----------
    table : pandas.DataFrame
        ``model_disparity.csv``.
    """
    table = table.reset_index(drop=True)
    columns = {
        "model": [str(model) for model in table[names.MODEL]],
        "Mean-PRR": interval_texts(table, "mean_prr"),
        "Std-PRR": interval_texts(table, "std_prr"),
        "CV-PRR": interval_texts(table, "cv_prr"),
        "records": [f"{count}" for count in table["n_records"]],
    }
    heading = wrapped(
        "Published description: scores over potential, each model on the pairs it was tested on"
        f"{_models_label(len(table), 'tables/model_disparity.csv')}",
        indent="",
    )
    reasons = table.loc[table["note"] != "", [names.MODEL, "note"]]
    notes = [f"{model}: {note}" for model, note in reasons.itertuples(index=False)]
    return _with_sentences(heading, columns, notes)


def _rank_sets(ranking: pd.DataFrame) -> list[str]:
    """Ranks that hold for all models at once, first to last."""
    bounds = ranking[["rank_set_lower", "rank_set_upper"]].to_numpy(dtype=float)
    return rank_range_texts(bounds)


def _models_label(n: int, file: str = "tables/model_ranking.csv") -> str:
    if n <= _ALL:
        return f" ({n} model{'' if n == 1 else 's'})"
    return f" (first {_FIRST} and last {_LAST} of {n} models; all in {file})"


def _with_sentences(
    heading: str, columns: Mapping[str, Sequence[str]], sentences: Sequence[str]
) -> str:
    """A table without columns that are empty, and sentences below it."""
    kept = without_empty(columns)
    n = len(kept["model"])
    if n > _ALL:
        rows = [*range(_FIRST), *range(n - _LAST, n)]
        kept = {name: [cells[i] for i in rows] for name, cells in kept.items()}
        for name, cells in kept.items():
            kept[name] = [*cells[:_FIRST], "..." if name == "model" else "", *cells[_FIRST:]]
    lines = [wrapped(sentence) for sentence in sentences if sentence]
    return "\n".join([text_table(heading, kept), *lines])
