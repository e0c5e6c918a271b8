"""What a person sees on the terminal: plain aligned text, also when piped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import estimands, names
from bayeseval._text import Caution, any_of, counted, grouped, one_line
from bayeseval.fitting.gate import Gate, format_gate, gate_advice
from bayeseval.fitting.report import run_title
from bayeseval.fitting.report.model_tables import models_text, shown_exponent
from bayeseval.fitting.report.sentences import (
    CALLED,
    aggregates_or_ranking,
    geometric_mean_sentence,
    of_test_sets,
    residual_sentence,
)
from bayeseval.output.language_names import name_and_code
from bayeseval.output.numbers import (
    column_digits,
    in_units,
    interval_texts,
    number_text,
    probability_text,
    rank_interval_texts,
    score_unit,
    unit_text,
)
from bayeseval.output.text import text_table, without_empty, wrapped
from bayeseval.records import average_over_others, reduce_replicates

if TYPE_CHECKING:
    from bayeseval.design import Design, Term
    from bayeseval.records import Records
    from bayeseval.records.benchmarks import BenchmarkSummary

__all__ = ["format_listing", "format_preamble", "format_results"]

_UNRELIABLE: Final = (
    "DO NOT RELY ON THESE RESULTS: the sampler did not converge (convergence gate below)."
)
# All languages up to here, the best and the last few beyond.
_ALL_LANGUAGES = 12
_ENDS = 5
# Component of a model and its heading.
_WITHIN: Final[Mapping[str, str]] = {
    "between": "between",
    "seed": "seeds",
    "boot": "test sets",
    "seed_boot": "seed x test set",
    "prompt": "prompts",
    "prompt_own": "own prompts",
    "judge": "judges",
    "judge_own": "own judges",
    "given_se": "given",
    "within": "one run",
}
_WITHIN_WORDS: Final[Mapping[str, str]] = {
    "between": "between: sd over languages of a model's scores without the noise named here, "
    "residuals included; above 0 also where languages are alike",
    "seeds": "seeds: noise of one seed about the mean of a language",
    "test sets": "test sets: noise of one test set about the mean of a language",
    "prompts": "prompts: noise of one prompt about the mean of a language",
    "own prompts": "own prompts: the part of it that models do not share",
    "judges": "judges: noise of one judge about the mean of a language",
    "own judges": "own judges: the part of it that models do not share",
    "given": "given: the standard errors of the table",
    "one run": "one run: {}, all noise together",
}
_WHOLE: Final = (_WITHIN["between"], _WITHIN["within"])
# Shown without intervals, which are in the CSV table.
_ALONE: Final = ("seed_boot", "prompt_own", "judge_own", "given_se", "within")
_AGGREGATES: Final[Mapping[str, str]] = {
    "arithmetic_mean": "arithmetic mean",
    "geometric_mean": "geometric mean",
    "median": "median",
}
_MOST_PAIRS = 3


def format_results(
    tree: xr.DataTree,
    run: Mapping[str, Any],
    *,
    folder: str | Path | None = None,
    ci_prob: float = names.CI_PROB,
    checks: str | None = None,
) -> str:
    """Summarise a fit in text: ranking of models, language potential, components, gate.

    A fit with replicates or standard errors adds what varies within languages and which
    comparisons depend on the aggregate. Notes on the table and the model stand before the checks.

    Parameters
    ----------
    tree : xarray.DataTree
        All groups of a fit.
    run : mapping
        Its provenance, as in ``run.json``.
    folder : str or Path, optional
        Where the results are, for the last line.
    ci_prob : float
        Probability of the equal-tailed intervals.
    checks : str, optional
        What the checks of the model found.

    Returns
    -------
    str
        Plain text without colour codes; tables are as wide as the terminal, and whole in a
        pipe or a file.
    """
    exponent = shown_exponent(tree)
    unit = score_unit(run.get("bounds"), exponent)
    potential = in_units(estimands.potential_table(tree, ci_prob=ci_prob), exponent)
    components = in_units(estimands.components_table(tree, ci_prob=ci_prob), exponent)
    point_estimate = bool(potential["potential_lower"].isna().all())
    intervals = (
        "Numbers are point estimates: this engine gives no intervals."
        if point_estimate
        else f"Numbers are posterior means with {100 * ci_prob:.4g} % equal-tailed intervals; "
        "ranks are medians, 1 is best."
    )
    heading = f"{run_title(run)}, seed {run['seed']}"
    gate = Gate.from_dict(dict(run["gate"]))
    parts = [wrapped(_UNRELIABLE, indent="")] if run["gate"]["status"] == "fail" else []
    parts += [
        "\n".join([heading, wrapped(intervals, indent=""), *_reasons(run)]),
        "\n".join([*_gate(gate), *_advice(gate, run), *_sampling(run)]),
        *models_text(tree, run, unit=unit, exponent=exponent, ci_prob=ci_prob),
        _potential(
            potential,
            run.get("language_names") or {},
            tree["posterior"].attrs.get("published_shift"),
            unit,
            exponent,
            "" if point_estimate else of_test_sets(run.get("notes") or ()),
        ),
        _components(components, estimands.noise_sources(tree), unit),
    ]
    slopes = in_units(estimands.covariates_table(tree, ci_prob=ci_prob), exponent)
    parts += _covariates(slopes, unit)
    if estimands.has_replicates(tree):
        parts += [_within(tree, run, ci_prob, exponent), *_aggregates(tree, ci_prob)]
    parts += _notes(run)
    if checks is not None:
        parts.append(checks)
    if folder is not None:
        parts.append(f"Results: {one_line(folder)}")
    return "\n\n".join(parts)


def _covariates(table: pd.DataFrame, unit: str) -> list[str]:
    """Slopes per standard deviation and shares of variance explained, a line each."""
    if not len(table):
        return []
    slopes, shares = interval_texts(table, "slope"), ["-"] * len(table)
    if "explained_mean" in table:
        shares = interval_texts(table, "explained", digits=0, scale=100.0)
    return [
        text_table(
            f"Covariates, slope {unit_text(unit, before='in ', after=' ')}per standard deviation",
            {
                "covariate": list(table["covariate"]),
                "slope": slopes,
                "P(positive)": [probability_text(p) for p in table["p_positive"]],
                "explained, %": shares,
                "of the variance of": [
                    "models" if by == names.MODEL else "languages" for by in table["by"]
                ],
            },
        )
    ]


def _reasons(run: Mapping[str, Any]) -> list[str]:
    """Why this model, where it was not asked for by name."""
    return [wrapped(reason, indent="") for reason in run.get("model_reasons", ())]


def _gate(gate: Gate) -> list[str]:
    first, *rest = format_gate(gate).splitlines()
    return [wrapped(first, indent=""), *(wrapped(line.strip()) for line in rest)]


def _advice(gate: Gate, run: Mapping[str, Any]) -> list[str]:
    advice = gate_advice(gate, run)
    return [wrapped(advice)] if advice else []


def _sampling(run: Mapping[str, Any]) -> list[str]:
    """Say in a line or two how the marginal engine went about it; nothing of other engines."""
    sampler = run.get("sampling") or {}
    lines = []
    if "path" in sampler:
        way = "importance sampling" if sampler["path"] == "importance" else sampler["path"].upper()
        lines.append(wrapped(f"sds drawn by {way}: {sampler['path_reason']}"))
    if "log_marginal_likelihood" in sampler:
        lines.append(
            wrapped(
                f"log marginal likelihood {sampler['log_marginal_likelihood']:.3f} "
                f"(Monte-Carlo error {sampler['log_marginal_likelihood_se']:.3f}); it depends on "
                "the priors, which by default scale with the scores: compare models by bayeseval "
                "compare"
            )
        )
    return lines


def _counts(records: Records, design: Design) -> str:
    """Number of records; of rows that are replicates, also how many make one."""
    if len(records) == design.n_records:
        return f"{grouped(design.n_records)} records"
    averaged, _ = average_over_others(records, design.spec.sources)
    cells = reduce_replicates(averaged)
    each = [
        " to ".join(dict.fromkeys(grouped(round(n)) for n in (known.min(), known.max())))
        + f" {what}"
        for what, numbers in (
            ("seeds", cells.n_seeds),
            ("bootstrap test sets", cells.n_boot),
            ("items", cells.n_items),
            *([] if cells.by_prompt is None else [(f"{cells.by_prompt.source}s", cells.n_prompts)]),
        )
        if (known := numbers[numbers > 0]).size
    ]
    within = f" with {' and '.join(each)} each" if each else ""
    return f"{grouped(len(records))} rows: {grouped(design.n_records)} cells (records){within}"


def format_preamble(
    records: Records,
    design: Design,
    *,
    engine: str,
    reasons: Sequence[str] = (),
    warnings: Sequence[Caution] = (),
) -> str:
    """Say what will be fitted, before it is: table, model, priors, engine.

    Parameters
    ----------
    records : Records
        The table.
    design : Design
        The model on that table.
    engine : str
        The engine that was chosen.
    reasons : sequence of str
        Why this model, where it was not asked for by name.
    warnings : sequence of Caution
        Warnings beside those of the table and the design.
    """
    spec = design.spec
    sizes = ", ".join(
        f"{len(design.coords[factor])} {factor}{'s' * (len(design.coords[factor]) != 1)}"
        for factor in (names.MODEL, names.LANGUAGE, names.TASK)
    )
    outcome = design.outcome
    *most, last = (family.replace("_", "-") for family in outcome.families)
    noise = f"{', '.join(most)} and {last}" if most else last
    noise += " residuals" if outcome.link == "identity" else " scores on a logit link"
    noise += "" if outcome.chance is None else " with chance levels"
    if spec.residual_by is not None:
        what = "residual sd" if names.SD_RESIDUAL in design.priors else "dispersion"
        noise += f", {what} by {spec.residual_by}"
    predictor = ["intercept", *(s.name for s in design.slopes), *map(_formula_term, design.terms)]
    sources = "" if spec.sources is None else f"; {spec.sources_text}"
    lines = [
        f"{records.name}: {_counts(records, design)}, {sizes}",
        f"model {spec.name}: score ~ {' + '.join(predictor)}; "
        f"{noise}{sources}; population {spec.population}; engine {engine}",
    ]
    priors = [f"{name} ~ {prior}" for name, prior in design.priors.items()]
    priors += [
        f"{term.effect} ~ normal(loc=0, scale={term.known_sd:.4g}), fixed"
        for term in design.terms
        if isinstance(term.known_sd, float)
    ]
    lines += reasons
    scale = _prior_units(design, score_unit(_bounds(records)))
    lines += [f"priors{unit_text(scale, before=' ')}:", *(f"  {prior}" for prior in priors)]
    of_table = records.report.remarks_for(with_bounds=design.outcome.has_bounds)
    notes = (*design.notes, *of_table)
    lines += [f"note: {note}" for note in notes if not isinstance(note, Caution)]
    lines += [
        f"left out: {group.n_rows} row{'s' * (group.n_rows != 1)}: {group.reason}; "
        f"first {group.first}"
        for group in records.report.dropped
    ]
    # Last, where they are still on the screen when sampling begins.
    lines += [*(str(one) for one in of_table if isinstance(one, Caution)), *map(str, warnings)]
    return "\n".join(lines)


def _formula_term(term: Term) -> str:
    """A term of the formula, with what relates its levels: ``language (by place, script)``."""
    if term.relations is None:
        return term.name
    return f"{term.name} (by {', '.join(term.relations.used)})"


def _bounds(records: Records) -> dict[str, tuple[float | None, float | None]]:
    return {task: (unit.lower, unit.upper) for task, unit in records.units.items()}


def _prior_units(design: Design, unit: str) -> str:
    own = f"in {unit or 'the units of the scores'}"
    if design.outcome.link == "identity":
        return own
    in_points = names.SD_RESIDUAL in design.priors and not design.outcome.has_logit_residual
    return "on the logit scale" + (f" (sd_residual {own})" if in_points else "")


def format_listing(entries: Mapping[str, str] | Sequence[BenchmarkSummary]) -> str:
    """One line per shipped model or benchmark: its name, then what it is."""
    if isinstance(entries, Mapping):
        lines = list(entries.items())
    else:
        lines = [(entry.name, f"{entry.title} ({entry.shape})") for entry in entries]
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def _potential(
    table: pd.DataFrame,
    language_names: Mapping[str, str],
    published_shift: float | None,
    unit: str,
    exponent: int,
    scope: str,
) -> str:
    n = len(table)
    title = f"Language potential{unit_text(unit, before=', ')}"
    if n <= _ALL_LANGUAGES:
        heading, rows = f"{title} ({n} languages)", list(range(n))
    else:
        heading = f"{title} (first and last {_ENDS} of {n}; all in tables/language_potential.csv)"
        rows = [*range(_ENDS), *range(n - _ENDS, n)]
    shown = table.iloc[rows].reset_index(drop=True)
    columns: dict[str, Sequence[str]] = {
        "language": name_and_code(shown[names.LANGUAGE], language_names),
        "potential": interval_texts(shown, "potential"),
        "rank": rank_interval_texts(shown, "rank"),
        "records": [f"{count}" for count in shown["n_records"]],
        "tasks": [f"{count}" for count in shown["n_tasks"]],
    }
    if published_shift is not None:
        published = shown["potential_mean"] + float(published_shift) / 10.0**exponent
        # Digits of the published table.
        columns["as published"] = [number_text(value, 2) for value in published]
    columns = without_empty(columns)
    if n > _ALL_LANGUAGES:
        columns = {k: [*cells[:_ENDS], "...", *cells[_ENDS:]] for k, cells in columns.items()}
    heading = wrapped(heading, indent="")
    order = "Highest potential first"
    if shown["rank_lower"].notna().any():
        order += "; median ranks of languages that are close may be in another order"
    order += "."
    lines = [heading, wrapped(order), *([wrapped(scope)] if scope else [])]
    return text_table("\n".join(lines), columns)


def _components(table: pd.DataFrame, sources: Sequence[str], unit: str) -> str:
    logit = "scale" in table and (table["scale"] == "logit").any()
    where = " on the logit scale" if logit else unit_text(unit, before=" in ")
    # The same digits for both kinds of sd.
    digits = column_digits(table["sd_mean"], table["sd_lower"], table["sd_upper"])
    text = text_table(
        f"Variance components, sd{where}",
        {
            "component": list(table["component"]),
            "sd": interval_texts(table, "sd", digits=digits),
            "sd of the observed levels": interval_texts(table, "finite_sd", digits=digits),
            "share of variance, %": interval_texts(table, "share", digits=0, scale=100.0),
        },
    )
    sentence = residual_sentence(table, sources)
    return f"{text}\n{wrapped(sentence)}" if sentence else text


def _within(tree: xr.DataTree, run: Mapping[str, Any], ci_prob: float, exponent: int) -> str:
    """Noise within languages by model."""
    table = in_units(estimands.model_components_table(tree, ci_prob=ci_prob), exponent)
    by_component = dict(list(table.groupby("component", sort=False)))
    models = list(dict.fromkeys(table[names.MODEL]))
    columns: dict[str, Sequence[str]] = {"model": models}
    for component, heading in _WITHIN.items():
        if component in by_component:
            rows = by_component[component].set_index(names.MODEL).reindex(models)
            digits = column_digits(rows["sd_mean"], rows["sd_lower"], rows["sd_upper"])
            if component in _ALONE:
                rows = rows.assign(sd_lower=np.nan, sd_upper=np.nan)
            columns[heading] = interval_texts(rows, "sd", digits=digits)
    columns = without_empty(columns)
    sources = [heading for heading in columns if heading not in ("model", *_WHOLE)]
    if len(sources) == 1:
        # Its noise is that of one run.
        columns.pop(_WITHIN["within"], None)
    unit = unit_text(score_unit(run.get("bounds"), exponent), before=" in ")
    run_words = estimands.run_text(estimands.noise_sources(tree))
    legend = [w.format(run_words) for heading, w in _WITHIN_WORDS.items() if heading in columns]
    return text_table(
        f"Within and between languages, sd{unit}\n{wrapped('; '.join(legend))}",
        columns,
    )


def _aggregates(tree: xr.DataTree, ci_prob: float) -> list[str]:
    """Aggregates that disagree on pairs of models, and why they may disagree with the ranking."""
    lines = _disagreements(tree, ci_prob)
    if not lines:
        return []
    missing = geometric_mean_sentence(estimands.aggregates_table(tree, ci_prob=ci_prob))
    why = aggregates_or_ranking(estimands.noise_sources(tree))
    lines += [line for line in (missing, why) if line]
    heading = "Order by aggregates over languages (values in tables/aggregates.csv)"
    return ["\n".join([heading, *(wrapped(line) for line in lines)])]


def _notes(run: Mapping[str, Any]) -> list[str]:
    """How the table was read, and what the model took from it."""
    notes = [wrapped(str(note)) for note in run.get("notes") or ()]
    return ["\n".join(["Notes on the table and the model", *notes])] if notes else []


def _disagreements(tree: xr.DataTree, ci_prob: float) -> list[str]:
    """Pairs of models whose known order depends on the aggregate, widest apart first."""
    table = estimands.pairwise_table(
        tree, list(_AGGREGATES), ci_prob=ci_prob, most=names.MOST_PAIRED
    )
    # Pairs by aggregates; one that is not reported for a model has no say.
    p = table.pivot_table(
        index=["model_a", "model_b"], columns="quantity", values="p_a_better", sort=False
    ).reindex(columns=list(_AGGREGATES))
    if p.isna().all(axis=None):
        return []
    width = p.max(axis=1) - p.min(axis=1)
    split = p[(p.max(axis=1) >= CALLED) & (p.min(axis=1) <= 1.0 - CALLED)]
    split = split.loc[width[split.index].sort_values(ascending=False, kind="stable").index]
    if split.empty:
        shown = [_AGGREGATES[name] for name in p.columns[p.notna().any()]]
        return [
            f"For no pair of models do two of {any_of(shown, 'and')} give opposite orders, each "
            f"with a probability of at least {CALLED:g}."
        ]
    lines = []
    for (a, b), row in list(zip(split.index, split.to_numpy(), strict=True))[:_MOST_PAIRS]:
        by_aggregate = ", ".join(
            f"{probability_text(value)} by {name}"
            for name, value in zip(_AGGREGATES.values(), row, strict=True)
            if not np.isnan(value)
        )
        lines.append(f"The order depends on the aggregate: P({a} above {b}) is {by_aggregate}.")
    if len(split) > _MOST_PAIRS:
        lines.append(
            f"tables/pairwise_models.csv has {counted(len(split) - _MOST_PAIRS, 'more such pair')}."
        )
    return lines
