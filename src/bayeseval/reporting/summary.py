"""What a result says, in sentences: who is ahead, what differs, and what the checks mean for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from bayeseval import names
from bayeseval._text import grouped, show
from bayeseval.errors import InputError
from bayeseval.estimands import sources_text
from bayeseval.families import FAMILIES, link
from bayeseval.fitting.gate import Gate, format_gate, gate_advice
from bayeseval.fitting.report.evenness import NO_EVENNESS, evenness_sentences, notes_on_gaps
from bayeseval.fitting.report.sentences import (
    known_order_sentence,
    leading_sentence,
    listed,
    prediction_sentence,
    ranking_details,
)
from bayeseval.leaving_out.report import sensitivity_sentences
from bayeseval.output._integrity import again
from bayeseval.output.language_names import name_and_code
from bayeseval.output.numbers import (
    in_units,
    interval_texts,
    percent_text,
    rank_range_texts,
    score_exponent,
    score_unit,
    unit_text,
)
from bayeseval.records.doubts import order_in_doubt
from bayeseval.reporting.folder import SavedResults
from bayeseval.reporting.observed import Observed

__all__ = [
    "Facts",
    "checks_sentence",
    "data_sentence",
    "facts_of",
    "headline",
    "meanings",
    "model_sentences",
    "sampling_sentences",
]

_PLURALS: Final[Mapping[str, str]] = {
    "language": "differences between languages",
    "task": "differences between tasks",
    "model": "differences between models",
    "residual": "the residual",
    "replicates": "the noise of {}",
    "known_se": "known standard errors",
    "shared_items": "the noise of shared test items",
}
# Failing checks whose meaning stands at the top of the page; the rest is counted.
_MOST_MEANINGS: Final = 4
# Components whose shares are named at the top of the page.
_MOST_SHARES: Final = 3
# Those that concern models and their ranks first.
_FIRST: Final = ("independence", "connectivity", "equal_variance_model", "influential_records")


@dataclass(frozen=True, eq=False)
class Facts:
    """A result folder in the units that a reader sees.

    Attributes
    ----------
    run : dict
        Contents of ``run.json``.
    tables : dict of str to pandas.DataFrame
        All tables, scores in units of a power of ten where they are very small or large.
    unit : str
        Unit of the scores; empty where it is not known.
    language_names : dict of str to str
        Code to name.
    observed : Observed or None
        Averages of the scores; None without the posterior file.
    exponent : int
        The power of ten, as on the terminal: of the largest score.
    """

    run: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    unit: str
    language_names: Mapping[str, str]
    observed: Observed | None
    exponent: int = 0

    def has(self, *tables: str) -> bool:
        """Whether the folder has all of these tables, with a row in each."""
        return all(name in self.tables and len(self.tables[name]) > 0 for name in tables)

    @property
    def point_estimate(self) -> bool:
        """Whether the engine gave no intervals."""
        ranking = self.tables.get("model_ranking")
        return ranking is not None and bool(ranking["score_lower"].isna().all())


def _link(spec: Mapping[str, Any]) -> str:
    likelihood = spec.get("likelihood", "normal")
    names_of = [*likelihood.values()] if isinstance(likelihood, Mapping) else [str(likelihood)]
    for name in names_of:
        if name not in FAMILIES:
            raise InputError(
                f"the run file names the unknown likelihood {show(name)} (known: "
                f"{', '.join(FAMILIES)}); restore the file, or {again()}"
            )
    return link(names_of)


def facts_of(results: SavedResults, observed: Observed | None) -> Facts:
    """Bring the tables of a folder into the units of the report.

    Parameters
    ----------
    results : SavedResults
    observed : Observed or None
        Of :func:`bayeseval.reporting.observed.read_observed`.
    """
    run = results.run
    exponent = 0
    ranking = results.tables.get("model_ranking")
    # Effects on a logit scale have no unit that a power of ten could change.
    if ranking is not None and _link(run.get("spec") or {}) == "identity":
        # Without the scores, their means are the next best.
        exponent = score_exponent(
            ranking["score_mean"].dropna() if observed is None else observed.score
        )
    tables = {name: in_units(table, exponent) for name, table in results.tables.items()}
    return Facts(
        run=run,
        tables=tables,
        unit=score_unit(run.get("bounds"), exponent),
        language_names=run.get("language_names") or {},
        observed=observed,
        exponent=exponent,
    )


def headline(facts: Facts) -> list[str]:
    """Three to five sentences: who is ahead, evenness, potentials and the largest component.

    Parameters
    ----------
    facts : Facts
        Of a fit, a comparison or a sensitivity analysis.
    """
    tables = facts.tables
    verdict = facts.run.get("verdict")
    if isinstance(verdict, list) and verdict:
        return [str(sentence) for sentence in verdict]
    if facts.has("sensitivity"):
        return sensitivity_sentences(tables["sensitivity"], facts.language_names)
    if not facts.has("model_ranking"):
        return []
    doubt = order_in_doubt(map(str, facts.run.get("notes") or ()))
    sentences = [*_models(facts), doubt, *_evenness(facts)]
    if facts.has("language_potential"):
        sentences.append(_potential(facts))
    if facts.has("variance_components"):
        sentences.append(_components(facts))
    return [one for one in sentences if one]


def _pairs(facts: Facts) -> pd.DataFrame:
    pairs = facts.tables["pairwise_models"].copy(deep=False)
    if facts.observed is not None:
        pairs.attrs["margin"] = facts.observed.margin * 10.0**-facts.exponent
    return pairs


def model_sentences(facts: Facts) -> list[str]:
    """What the terminal says below its table of models, without who is ahead."""
    ranking = facts.tables["model_ranking"]
    sentences = ranking_details(ranking, _pairs(facts), unit=facts.unit)
    if facts.observed is not None:
        sentences.append(prediction_sentence(ranking, facts.observed.n_pairs))
    return sentences


def _models(facts: Facts) -> list[str]:
    ranking = facts.tables["model_ranking"]
    first_sentence = leading_sentence(ranking, _pairs(facts))
    if first_sentence:
        return [first_sentence, known_order_sentence(ranking, _pairs(facts))]
    first = ranking.iloc[0]
    score = interval_texts(ranking, "score")[0]
    unit = unit_text(facts.unit, before=" ")
    if len(ranking) == 1:
        return [f"{first[names.MODEL]} has an expected score of {score}{unit}."]
    return [
        f"{first[names.MODEL]} has the highest expected score, {score}{unit}. The engine gives "
        "point estimates without intervals, so how certain this order is, is not known."
    ]


def _evenness(facts: Facts) -> list[str]:
    ranking = facts.tables["model_ranking"]
    if ranking["gap_sd_languages_mean"].isna().all():
        # What would give an estimate stands beside the table.
        return [f"{NO_EVENNESS}.", *notes_on_gaps(facts.run)]
    called = interval_texts(ranking, "gap_sd_languages")
    constant = facts.observed.constant if facts.observed else ()
    return evenness_sentences(
        ranking,
        _pairs(facts),
        called=called,
        constant=constant,
        notes=notes_on_gaps(facts.run),
    )


def _potential(facts: Facts) -> str:
    table = facts.tables["language_potential"]
    known = table[table["potential_mean"].notna()].reset_index(drop=True)
    if len(known) < 2:
        return ""
    labels = name_and_code(known[names.LANGUAGE], facts.language_names)
    texts = interval_texts(known, "potential")
    unit = unit_text(facts.unit, before=" ")
    ranks = ["", ""]
    if known["rank_lower"].notna().all():
        ends = known[["rank_lower", "rank_upper"]].to_numpy(dtype=float)[[0, -1]]
        ranks = [
            f" (rank {text.replace('-', ' to ')} of {len(known)})"
            for text in rank_range_texts(ends)
        ]
    return (
        "Language potential is the score that models reach in a language on average over all "
        f"tasks. Its estimate is highest for {labels[0]}, {texts[0]}{unit}{ranks[0]}, and lowest "
        f"for {labels[-1]}, {texts[-1]}{ranks[1]}."
    )


def _components(facts: Facts) -> str:
    table = facts.tables["variance_components"]
    whole = table[table["model"] == ""] if "model" in table else table
    known = whole[whole["share_mean"].notna()].sort_values(
        "share_mean", ascending=False, kind="stable"
    )
    if len(known) < 2:
        return ""
    texts = interval_texts(known, "share", digits=0, scale=100.0)
    sources = sources_text(set(table["component"]))
    parts = [
        _PLURALS.get(str(one), f"the term {one}").format(sources) for one in known["component"]
    ]
    first = parts[0][0].upper() + parts[0][1:]
    verb = "accounts" if parts[0].startswith("the") else "account"
    # Two left would be as long as the words that stand for them.
    shown = len(parts) if len(parts) <= _MOST_SHARES + 1 else _MOST_SHARES
    others = [
        f"{part} {share} %" for part, share in zip(parts[1:shown], texts[1:shown], strict=True)
    ]
    if shown < len(parts):
        left = 100.0 * float(known["share_mean"].iloc[shown:].sum())
        others.append(f"the {len(parts) - shown} other components together {left:.0f} %")
    rest = listed(others, most=len(others))
    # Two separate 95 % intervals: the order of the pair has a probability of at least 0.95.
    if known["share_lower"].iloc[0] > known["share_upper"].iloc[1:].max():
        return (
            f"{first} {verb} for the largest share of the variance of scores, {texts[0]} %; {rest}."
        )
    exact = known["share_lower"].isna().iloc[0]
    why = "These are point estimates" if exact else "The intervals of the largest shares overlap"
    return f"{first} {verb} for {texts[0]} % of the variance of scores; {rest}. {why}."


def data_sentence(facts: Facts) -> str:
    """The data in a line: records, levels, unit, intervals."""
    run = facts.run
    levels = run.get("levels") or {}
    sizes = [
        f"{grouped(levels[factor])} {factor}{'' if levels[factor] == 1 else 's'}"
        for factor in (names.MODEL, names.LANGUAGE, names.TASK)
        if factor in levels
    ]
    parts = [f"{grouped(int(run['n_records']))} records"] if "n_records" in run else []
    text = ", ".join([*parts, *sizes])
    cells = 1
    for factor in names.FACTORS:
        cells *= int(levels.get(factor, 0))
    if cells and "n_records" in run:
        text += f"; {percent_text(min(1.0, run['n_records'] / cells))} % of all cells have a score"
    if facts.unit:
        text += f"; scores in {facts.unit}"
    return f"{text}." if text else ""


def sampling_sentences(results: SavedResults) -> list[str]:
    """The convergence gate, what a failed one means, and where NUTS took over."""
    return [*_gate_sentences(results), *_fallback_sentences(results)]


def _fallback_sentences(results: SavedResults) -> list[str]:
    """Fits of the marginal engine that importance sampling could not do, and why."""
    taken_over = {name: one for name, one in results.samplers.items() if one.get("path") == "nuts"}
    if not taken_over:
        return []
    if "" in taken_over:
        return [f"The sds were drawn by NUTS: {taken_over['']['path_reason']}."]
    return [
        f"The sds of {listed(list(taken_over))} were drawn by NUTS: the importance weights were "
        "not reliable."
    ]


def _gate_sentences(results: SavedResults) -> list[str]:
    """The convergence gate in a line, and what a failed one means."""
    gate = results.run.get("gate")
    if not gate:
        failed = sorted(name for name, status in results.gates.items() if status == "fail")
        if failed:
            return [f"Convergence gate: failed for {listed(failed)}: do not rely on these results."]
        return ["Convergence gate: passed by all fits."] if results.gates else []
    outcome = Gate.from_dict(dict(gate))
    lines = [line.strip() for line in format_gate(outcome).splitlines() if line.strip()]
    if outcome.status == "pass":
        return [f"{'; '.join(lines)}."]
    if outcome.status == "fail":
        lines.insert(0, "Do not rely on these results: the sampler did not converge")
        advice = "" if results.kind == "sensitivity" else gate_advice(outcome, results.run)
        return [*(f"{line}." for line in lines), *filter(None, [advice])]
    return [f"{line}." for line in lines]


def checks_sentence(facts: Facts) -> str:
    """How many checks of the model passed, and how many did not."""
    if not facts.has("checks"):
        return "The model was not checked."
    table = facts.tables["checks"]
    count = table["status"].value_counts()
    warned = [str(name).replace("_", " ") for name in table.loc[table["status"] == "warn", "check"]]
    parts = [
        f"{count[status]} {words}"
        for status, words in (
            ("pass", "passed"),
            ("warn", f"with a warning ({listed(warned, most=len(warned))})" if warned else ""),
            ("fail", "failed"),
            ("not applicable", "not applicable"),
        )
        if status in count
    ]
    text = f"Model checks: {', '.join(parts)}."
    # Which numbers depend on the priors concerns every conclusion, and no check fails for it.
    priors = table[(table["check"] == "prior_sensitivity") & (table["status"] == "warn")]
    for row in priors.fillna({"sentence": "", "meaning": ""}).to_dict("records"):
        text += f" {row['sentence']} {row['meaning']}"
    return text


def meanings(facts: Facts) -> tuple[list[tuple[str, str]], int]:
    """What failing checks mean for the conclusions: those that concern models first.

    Returns
    -------
    list of (str, str)
        Names of checks and their meaning.
    int
        Failing checks that are not in the list.
    """
    if not facts.has("checks"):
        return [], 0
    table = facts.tables["checks"]
    failed = table[(table["status"] == "fail") & (table["meaning"].fillna("") != "")]
    by_meaning: dict[str, list[str]] = {}
    for row in sorted(failed.to_dict("records"), key=_urgency):
        by_meaning.setdefault(str(row["meaning"]), []).append(str(row["check"]).replace("_", " "))
    shown = [(", ".join(checks), meaning) for meaning, checks in by_meaning.items()]
    return shown[:_MOST_MEANINGS], len(shown[_MOST_MEANINGS:])


def _urgency(row: Mapping[Any, Any]) -> int:
    return _FIRST.index(row["check"]) if row["check"] in _FIRST else len(_FIRST)
