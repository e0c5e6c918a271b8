"""How even models are over languages, in sentences: estimand tables in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import grouped
from bayeseval.design import too_small_because
from bayeseval.fitting.report.pairs import paired_models, pairs_of_models
from bayeseval.fitting.report.sentences import CALLED, expected_wrong, listed

__all__ = ["NO_EVENNESS", "evenness_sentences", "notes_on_gaps", "without_evenness"]

_TERM: Final = "model:language"
#: What a model without interactions of models and languages says of evenness.
NO_EVENNESS: Final = (
    f"Evenness over languages is not estimated by this model, which has no {_TERM} term"
)
_TWO_MODELS: Final = (
    "With two models, the gaps of one mirror those of the other: both have the same sd of gaps, "
    "which says how much their difference varies over languages, and not which of them is uneven."
)


def evenness_sentences(
    ranking: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    called: Sequence[str] = (),
    constant: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> list[str]:
    """Say which models can be told apart in how even they are over languages.

    Parameters
    ----------
    ranking, pairs : pandas.DataFrame
        As for :func:`bayeseval.fitting.report.sentences.ranking_sentences`.
    called : sequence of str
        Texts of ``gap_sd_languages`` by row of `ranking`, for the least even model.
    constant : sequence of str
        Models with one score throughout, which are not named as the least even one.
    notes : sequence of str
        From :func:`notes_on_gaps`.

    Returns
    -------
    list of str
        Empty where evenness is not estimated.
    """
    own = pairs[pairs["quantity"] == names.GAP_SD]
    p = own["p_a_better"].to_numpy(dtype=float)
    if not len(own) or np.isnan(p).any():
        return []
    # Of the table: `ranking` may leave out models whose PRR is not known.
    if len(p) == 1:
        return [_TWO_MODELS, *notes]
    known = np.maximum(p, 1.0 - p) >= CALLED
    without = [str(model) for model in ranking[names.MODEL] if model in set(constant)]
    note = [*_no_evenness(without), *notes]
    if not known.any():
        n = paired_models(len(p))
        best = f" of the {n} most even ones" if n < len(ranking) else ""
        text = f"No two models{best} can be told apart in how even they are over languages."
        return [text, *note]
    n, every = int(known.sum()), pairs_of_models(len(p), len(ranking))
    wrong = expected_wrong(np.maximum(p, 1.0 - p)[known])
    text = (
        f"{grouped(n)} of {every} {'differs' if n == 1 else 'differ'} in "
        f"evenness over these languages (probability at least {CALLED:g}); of these, {wrong} are "
        "expected to be wrong by chance."
    )
    sizes = ranking["gap_sd_languages_mean"].where(~ranking[names.MODEL].isin(without))
    if sizes.notna().any():
        last = int(np.nanargmax(sizes.to_numpy(dtype=float)))
        size = f" ({called[last]})" if called else ""
        the = f"Apart from {listed(without)}, the" if without else "The"
        text += f" {the} sd is largest for {ranking[names.MODEL].iloc[last]}{size}."
    return [text, *note]


def _no_evenness(models: Sequence[str]) -> list[str]:
    """Why the gaps of models with one score throughout are no evenness."""
    if not models:
        return []
    one = len(models) == 1
    has, their, they = ("has", "its", "it is") if one else ("have", "their", "they are")
    return [
        f"{listed(models)} {has} one score throughout: {their} gaps mirror the potentials of the "
        f"languages, and do not say how even {they}."
    ]


def notes_on_gaps(run: Mapping[str, Any]) -> list[str]:
    """What the model of a fit does to sds of gaps, so that they mean less than they seem to.

    Parameters
    ----------
    run : mapping
        The run file of a fit.
    """
    spec = run.get("spec") or {}
    patterns = int((spec.get("low_rank") or {}).get(_TERM, 0))
    # The full interaction takes up gaps of any kind.
    limited = [] if _TERM in (spec.get("interactions") or ()) else _other_gaps(patterns)
    too_small = too_small_because(map(str, run.get("notes") or ()))
    return [*limited, *([too_small] if too_small else [])]


def _other_gaps(patterns: int) -> list[str]:
    """What the gaps of a low-rank interaction leave out."""
    if not patterns:
        return []
    patterns_over = "one pattern" if patterns == 1 else f"{patterns} patterns"
    return [
        f"These gaps follow {patterns_over} over languages, which models have more or less of. "
        "Gaps of any other kind count as noise: if there are such gaps, the sds are too small, and "
        "their intervals do not show it."
    ]


def without_evenness(levels: Mapping[str, int], *, chosen: bool = False) -> str:
    """Say why there is no evenness over languages, and what would give it.

    Parameters
    ----------
    levels : mapping of str to int
        Numbers of languages, tasks and models.
    chosen : bool
        Whether ``auto`` took the model, because the table does not identify the term.
    """
    n_tasks = levels.get(names.TASK, 1)
    if n_tasks > 1 and not chosen:
        return (
            f"{NO_EVENNESS}. The model crossed has the term. So has a spec of your own with "
            f"'interactions: [{_TERM}]', which can keep the likelihood of this model."
        )
    if n_tasks > 1:
        return (
            f"{NO_EVENNESS}: auto leaves the term out where the table does not identify it. "
            "Scores of more models, languages or tasks would identify it."
        )
    factors = (
        "With one task, the model factors estimates the part of it that follows two patterns over "
        "languages, which models have more or less of; gaps of another kind count as noise there. "
        if _has_room_for_two(levels)
        else ""
    )
    return (
        f"{NO_EVENNESS}. {factors}To estimate the term itself (auto includes it if the table "
        "identifies it), add scores on further tasks, or state how much every score would vary "
        "with another test set: standard errors (se), the number of test items (n), or bootstraps. "
        "Seeds alone are not enough; if all errors are known already, add models or languages."
    )


def _has_room_for_two(levels: Mapping[str, int]) -> bool:
    """Whether a complete table of one task has more scores than two patterns have free values."""
    sizes = [levels.get(factor, 1) for factor in (names.MODEL, names.LANGUAGE)]
    free = sum(sizes) - 2
    return min(sizes) > 2 and 3 * free - 2 < sizes[0] * sizes[1]
