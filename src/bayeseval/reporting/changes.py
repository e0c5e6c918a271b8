"""What changed between two results of a benchmark, and whether by more than their uncertainty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import special

from bayeseval._text import counted, one_line, shorten
from bayeseval.errors import InputError
from bayeseval.output.numbers import column_digits, number_text, score_unit
from bayeseval.records.report import Units
from bayeseval.reporting.folder import SavedResults

__all__ = ["LEAST_PROBABILITY", "Changes", "changes_between"]

#: Probability of its direction from which on a change is called one, as for differences of models.
LEAST_PROBABILITY: Final = 0.975
_QUANTITIES: Final = (("model", "score"), ("model", "prr"), ("language", "potential"))
_TABLES: Final = {"model": "model_ranking", "language": "language_potential"}
_WORDS: Final = {
    "score": "expected scores of models",
    "prr": "PRR",
    "potential": "language potentials",
}
# Keys of the run file that may differ, as they are called in the text.
_SETTINGS: Final[Mapping[str, str]] = {
    "benchmark": "benchmark",
    "data_hash": "data",
    "spec_hash": "model",
    "priors": "priors",
    "engine": "engine",
    "seed": "seed",
    "pairs_hash": "common pairs",
    "settings": "sampler settings",
}
_HASHES: Final = ("data_hash", "pairs_hash", "priors", "settings")
_MOST_LEVELS: Final = 4
_MOST_CHANGES: Final = 3
# Smaller relative differences come of the order in which numbers are added up.
_EQUAL: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Changes:
    """How a result differs from an older one.

    Attributes
    ----------
    settings : dict of str to (old, new)
        What was fitted otherwise: data, model, priors, engine, seed, common pairs, sampler
        settings and versions of packages. Empty where the same was fitted twice.
    new, gone : dict of str to tuple of str
        Levels by factor (``model``, ``language``) that only one of the results has.
    table : pandas.DataFrame
        Scores of models, then their PRR, then potentials of languages, each from the largest
        change relative to its uncertainty (`diff` / `diff_sd`) to the smallest. One row per
        model and language that both have (``factor``, ``level``, ``level_name``), and
        quantity (``score``, ``prr``, ``potential``): ``old`` and ``new`` posterior mean,
        ``diff``, ``diff_sd``, ``p_higher`` (probability that it went up), ``changed`` (whether
        ``p_higher`` is at least 0.975 or at most 0.025), and the median ranks ``rank_old`` and
        ``rank_new``.
    text : str
        At most 15 lines.
    """

    settings: Mapping[str, tuple[str, str]]
    new: Mapping[str, tuple[str, ...]]
    gone: Mapping[str, tuple[str, ...]]
    table: pd.DataFrame
    text: str


def changes_between(new: SavedResults, old: SavedResults) -> Changes:
    """Compare two fits: levels, settings, and every model and language that both have.

    Parameters
    ----------
    new, old : SavedResults
        Of fits.

    Returns
    -------
    Changes

    Raises
    ------
    InputError
        If one of them is not the result of a fit, or their scores are on different scales.

    Notes
    -----
    The standard deviation of a difference is the square root of the sum of both posterior
    variances, as if the two posteriors were independent. Results that share data are
    positively correlated, which makes the true standard deviation smaller: the assumption is
    the conservative choice, and fewer changes are called than there are. Differences have a
    normal distribution approximately.

    Scores are means over the common pairs of their own fit. Where these pairs differ, scores
    differ for that reason, too, and the text says so. It also says where the models differ, to
    which potentials, PRR and ranks are relative.
    """
    for results in (new, old):
        if results.kind != "fit":
            raise InputError(
                f"{results.path} is the result of a {results.kind}; only two fits can be compared"
            )
    _check_scales(new, old)
    levels = {
        factor: (set(new.table(name)[factor]), set(old.table(name)[factor]))
        for factor, name in _TABLES.items()
    }
    added = {factor: tuple(sorted(now - before)) for factor, (now, before) in levels.items()}
    gone = {factor: tuple(sorted(before - now)) for factor, (now, before) in levels.items()}
    table = pd.concat(
        [
            _clearest_first(_differences(new, old, factor, quantity))
            for factor, quantity in _QUANTITIES
        ],
        ignore_index=True,
    )
    settings = dict(_settings(new.run, old.run))
    lines = [
        f"{one_line(new.path)} against {one_line(old.path)}",
        *_unrelated_line(levels),
        *_setting_lines(settings),
        *_level_lines(levels, added, gone),
        *_change_lines(table),
        *_rank_line(table),
        *_notes(new, old, settings, table, other_models=bool(added["model"] or gone["model"])),
    ]
    return Changes(settings, added, gone, table, "\n".join(lines) + "\n")


def _check_scales(new: SavedResults, old: SavedResults) -> None:
    """Refuse to subtract scores in different units.

    Raises
    ------
    InputError
        If the scales of both are known, and they are not the same.
    """
    units = [score_unit(one.run.get("bounds")) for one in (new, old)]
    if all(units) and units[0] != units[1]:
        raise InputError(
            f"{new.path} and {old.path} are on different scales, {units[0]} and {units[1]}: their "
            "scores cannot be subtracted; fit both tables on the same scale"
        )


def _differences(new: SavedResults, old: SavedResults, factor: str, quantity: str) -> pd.DataFrame:
    """Rows of one quantity: levels of both results."""
    name = _TABLES[factor]
    now = new.table(name).set_index(factor)
    before = old.table(name).set_index(factor).reindex(now.index)
    shared = now.index.isin(old.table(name)[factor])
    now, before = now[shared], before[shared]
    mean, sd = f"{quantity}_mean", f"{quantity}_sd"
    difference = (now[mean] - before[mean]).to_numpy(dtype=float)
    spread = np.sqrt((now[sd] ** 2 + before[sd] ** 2).to_numpy(dtype=float))
    # Two equal numbers without uncertainty have no direction.
    with np.errstate(divide="ignore", invalid="ignore"):
        higher = special.ndtr(difference / spread)
    certain = (higher >= LEAST_PROBABILITY) | (higher <= 1.0 - LEAST_PROBABILITY)
    rows = pd.DataFrame(
        {
            "factor": factor,
            "level": now.index,
            "level_name": now.get("language_name", now.index),
            "quantity": quantity,
            "old": before[mean].to_numpy(dtype=float),
            "new": now[mean].to_numpy(dtype=float),
            "diff": difference,
            "diff_sd": spread,
            "p_higher": higher,
            "changed": certain,
            "rank_old": before["rank_median"].to_numpy(dtype=float),
            "rank_new": now["rank_median"].to_numpy(dtype=float),
        }
    )
    return rows[rows["diff"].notna()]


def _clearest_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Largest change relative to its uncertainty first; without any, the largest change."""
    size = rows["diff"].abs()
    if rows["diff_sd"].notna().any():
        # Without uncertainty a change is certain, however small.
        with np.errstate(divide="ignore", invalid="ignore"):
            size = (size / rows["diff_sd"]).fillna(0.0)
    return rows.loc[size.sort_values(ascending=False, kind="stable").index]


def _settings(
    new: Mapping[str, Any], old: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """What was fitted otherwise, by its name in the text."""
    for key, word in _SETTINGS.items():
        before, now = old.get(key), new.get(key)
        if key == "settings":
            # The seed has its own line.
            before, now = (
                {k: v for k, v in (one or {}).items() if k != "seed"} for one in (before, now)
            )
        if key == "data_hash" and before != now and _same_scores(old, new):
            yield "covariates, on the same scores", (_covariates(old), _covariates(new))
        elif key == "data_hash" and before != now and _same_rows(old, new):
            yield _other_units(old, new)
            if _covariates(old) != _covariates(new):
                yield "covariates", (_covariates(old), _covariates(new))
        elif before != now:
            shown = (old, new) if key == "spec_hash" else None
            yield word, _spec_names(*shown) if shown else (_short(key, before), _short(key, now))
    versions = [run.get("versions") or {} for run in (old, new)]
    for package in sorted(set(versions[0]) | set(versions[1])):
        before, now = (str(one.get(package, "none")) for one in versions)
        if before != now:
            yield package, (before, now)


def _same_scores(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether only the covariates differ; results of earlier versions have no hash of scores."""
    before, now = (run.get("scores_hash") for run in (old, new))
    return before is not None and before == now


def _same_rows(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the same scores were read with other bounds."""
    before, now = (run.get("rows_hash") for run in (old, new))
    return before is not None and before == now and old.get("bounds") != new.get("bounds")


def _other_units(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, tuple[str, str]]:
    """The units that differ; where several tasks have different ones, how many."""
    before, now = (run.get("bounds") or {} for run in (old, new))
    tasks = [task for task in now if before.get(task) != now[task]]
    changes = {(_bounds(before.get(task)), _bounds(now[task])) for task in tasks}
    word = f"units of {counted(len(tasks), 'task')}, with the same scores"
    return word, changes.pop() if len(changes) == 1 else ("", "")


def _bounds(pair: Sequence[float | None] | None) -> str:
    return str(Units(*(pair or (None, None))))


def _covariates(run: Mapping[str, Any]) -> str:
    return ", ".join(run.get("covariates") or {}) or "none"


def _spec_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, str]:
    before, now = (str((run.get("spec") or {}).get("name", "unknown")) for run in (old, new))
    return (before, now) if before != now else (before, f"{now} with other settings")


def _short(key: str, value: object) -> str:
    """A value in a line; of hashes and lists it is enough that they differ."""
    return "" if key in _HASHES else str(value)


def _unrelated_line(levels: Mapping[str, tuple[set[str], set[str]]]) -> Iterator[str]:
    """Say first that two results have nothing in common to compare."""
    apart = [f"no {factor}" for factor, (now, before) in levels.items() if not now & before]
    if apart:
        yield (
            f"The two results share {' and '.join(apart)}"
            + (": there is nothing to compare." if len(apart) == len(levels) else ".")
        )


def _setting_lines(settings: Mapping[str, tuple[str, str]]) -> list[str]:
    if not settings:
        return ["Same data, model, priors, engine, seed and versions."]
    differences = [
        f"{word} ({before} -> {now})" if before or now else word
        for word, (before, now) in settings.items()
    ]
    return [f"Different: {shorten(differences, limit=8)}."]


def _level_lines(
    levels: Mapping[str, tuple[set[str], set[str]]],
    added: Mapping[str, Sequence[str]],
    gone: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    for factor, (now, before) in levels.items():
        parts = [
            f"{counted(len(some), word, word)} ({shorten(some, limit=_MOST_LEVELS)})"
            for word, some in (("new", added[factor]), ("gone", gone[factor]))
            if some
        ]
        yield f"{factor.capitalize()}s: {', '.join([*parts, f'{len(now & before)} in both'])}."


def _change_lines(table: pd.DataFrame) -> Iterator[str]:
    """Per quantity: how many changed by more than their uncertainty, and the clearest ones."""
    for _, quantity in _QUANTITIES:
        rows = table[table["quantity"] == quantity]
        if not len(rows):
            continue
        if rows["diff_sd"].isna().all():
            yield f"{_named(quantity)}: point estimates, without uncertainty; {_largest(rows)}."
            continue
        changed = rows[rows["changed"]]
        total = len(rows)
        if not len(changed):
            yield (
                f"{_named(quantity)}: none of {total} changed by more than its uncertainty; "
                f"{_largest(rows)}."
            )
            continue
        yield (
            f"{_named(quantity)}: {len(changed)} of {total} changed by more than their uncertainty"
            f"{', the largest relative to it first' if len(changed) > 1 else ''}:"
        )
        shown = [_one(row) for row in changed.to_dict("records")]
        yield f"  {shorten(shown, limit=_MOST_CHANGES)}."


def _named(quantity: str) -> str:
    word = _WORDS[quantity]
    return word[0].upper() + word[1:]


def _largest(rows: pd.DataFrame) -> str:
    """The largest change of all, in words."""
    at = int(rows["diff"].abs().to_numpy().argmax())
    row = rows.iloc[at].to_dict()
    if abs(row["diff"]) <= _EQUAL * max(abs(row["old"]), 1.0):
        return "all are the same"
    return f"the largest change is {_one(row)}"


def _one(row: Mapping[Any, Any]) -> str:
    """``gpt: 61.2 -> 65.4 (+4.2, sd 1.2)``."""
    spread = float(row["diff_sd"])
    value = float(row["diff"])
    half = 2.0 * spread if spread > 0.0 else abs(value)
    digits = column_digits([value], [value - half], [value + half])
    old, new = (number_text(float(row[end]), digits) for end in ("old", "new"))
    difference = number_text(value, digits, sign=True)
    sd = f", sd {number_text(spread, digits)}" if np.isfinite(spread) else ""
    return f"{row['level_name']} {old} -> {new} ({difference}{sd})"


def _rank_line(table: pd.DataFrame) -> list[str]:
    """Models whose median rank is another one; the first."""
    rows = table[(table["quantity"] == "score") & table["rank_new"].notna()]
    rows = rows[rows["rank_old"].notna()]
    if not len(rows):
        return []
    moved = rows[rows["rank_old"] != rows["rank_new"]]
    if not len(moved):
        return ["Median ranks of models: unchanged."]
    order = (
        (moved["rank_new"] - moved["rank_old"]).abs().sort_values(ascending=False, kind="stable")
    )
    shown = [
        f"{row['level']} {row['rank_old']:.0f} -> {row['rank_new']:.0f}"
        for row in moved.loc[order.index].to_dict("records")
    ]
    return [
        f"Median ranks of models: {len(moved)} of {len(rows)} changed: "
        f"{shorten(shown, limit=_MOST_LEVELS)}."
    ]


def _notes(
    new: SavedResults,
    old: SavedResults,
    settings: Mapping[str, tuple[str, str]],
    table: pd.DataFrame,
    *,
    other_models: bool,
) -> Iterator[str]:
    if other_models:
        yield (
            "Potentials are means over the models of each result, and PRR and ranks are relative to"
            " these models: all three may differ because the models do."
        )
    if "common pairs" in settings:
        yield (
            "Scores and PRR are means over other language-task pairs than before, and may differ "
            "for that reason alone."
        )
    units = [(one_line(one.path), score_unit(one.run.get("bounds"))) for one in (new, old)]
    units.sort(key=lambda pair: bool(pair[1]))
    (first, unknown), (_, known) = units
    if known and not unknown:
        yield (
            f"The scale of the scores of {first} is unknown, that of the other result is"
            f" {known}: differences mean something only if both are on this scale."
        )
    failed = [one_line(one.path) for one in (new, old) if one.gate_failed]
    if failed:
        yield f"NOT CONVERGED: {' and '.join(failed)}; do not rely on these differences."
    if table["diff_sd"].notna().any():
        shared = "data" not in settings
        yield (
            f"A change counts from a probability of {LEAST_PROBABILITY:g} on; the two posteriors "
            "are taken as independent"
            + (", which overstates the sd of a difference on the same data." if shared else ".")
        )
