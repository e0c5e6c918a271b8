"""A comparison in one table and in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._typing import Bools, Floats
from bayeseval.comparison.moved import Moved
from bayeseval.comparison.scores import Scores
from bayeseval.errors import by_option
from bayeseval.estimands.moves import (
    agreement,
    level_moves,
    most_moved,
    read_quantity,
    reported_quantities,
)
from bayeseval.fitting.run import Fit

__all__ = ["comparison_table", "moves_table", "routes_table", "verdict", "winner"]

LEAST_RATIO: Final = 2.0
_IN_WORDS: Final[Mapping[str, str]] = {
    names.LANGUAGE_POTENTIAL: "language potentials",
    names.STANDARDISED_SCORE: "scores of models",
    names.GAP_SD: "sds of gaps over languages",
}
# With fewer left-out units a standard error is itself known to a fifth at best.
FEW_UNITS: Final = 20


def comparison_table(scores: Mapping[str, Scores], rest: Bools | None = None) -> pd.DataFrame:
    """Elpd of every model and its difference from the best one, best first.

    A model with a left-out unit that was not computed has no elpd, and stands last.

    Parameters
    ----------
    scores : dict of str to Scores
        By name of the model.
    rest : ndarray of bool, shape (n_units,), optional
        Left-out scores that no model moves, where some are moved: the same over these alone.
    """
    totals = {name: float(one.elpd.sum()) for name, one in scores.items()}
    best = max(totals, key=lambda name: -np.inf if np.isnan(totals[name]) else totals[name])
    rows = []
    for name, one in scores.items():
        n = len(one.elpd)
        difference = one.elpd - scores[best].elpd
        rows.append(
            {
                "spec": name,
                "elpd": one.elpd.sum(),
                "se": _standard_error(one.elpd),
                "elpd_diff": difference.sum(),
                "diff_se": _standard_error(difference),
                "p_eff": one.lppd - one.elpd.sum(),
                "n_bad_k": int(one.bad.sum()),
                "n": n,
                "method": one.method,
            }
        )
        if rest is not None:
            part = difference[rest]
            rows[-1] |= {
                "elpd_unmoved": one.elpd[rest].sum(),
                "unmoved_diff": part.sum(),
                "unmoved_diff_se": _standard_error(part),
            }
    table = pd.DataFrame(rows).sort_values(
        "elpd", ascending=False, kind="stable", na_position="last"
    )
    return table.reset_index(drop=True)


def _standard_error(values: Floats) -> float:
    """Of a sum; NaN of a single value."""
    n = len(values)
    return float(np.sqrt(n * values.var(ddof=1))) if n > 1 else float("nan")


def routes_table(scores: Mapping[str, Scores]) -> pd.DataFrame:
    """Elpd as it is reported beside that of plain PSIS over all parameters, for records."""
    rows = []
    for name, one in scores.items():
        if one.plain is None:
            continue
        elpd, k_hat = one.plain
        rows.append(
            {
                "spec": name,
                "elpd": one.elpd.sum(),
                "n_bad_k": int(one.bad.sum()),
                "method": one.method,
                "elpd_psis": elpd.sum(),
                "n_bad_k_psis": int((k_hat > names.K_HAT_MAX).sum()),
                "n": len(elpd),
            }
        )
    return pd.DataFrame(rows)


def moves_table(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Correlations of what is ranked with the first model's, and who moves most.

    A quantity that one of two models does not estimate has no row of them.
    """
    first, *others = fits
    rows = []
    for quantity in reported_quantities(fits[first].data):
        for name in others:
            if quantity not in reported_quantities(fits[name].data):
                continue
            moved = level_moves(*(read_quantity(fits[f].data, quantity) for f in (first, name)))
            spearman, kendall = agreement(moved)
            rows.append(
                {
                    "spec": name,
                    "against": first,
                    "quantity": quantity,
                    "spearman": spearman,
                    "kendall": kendall,
                    "moved": most_moved(
                        moved, language_names=_language_names(fits[first], quantity)
                    ),
                }
            )
    columns = ["spec", "against", "quantity", "spearman", "kendall", "moved"]
    return pd.DataFrame(rows, columns=columns)


def _language_names(fit: Fit, quantity: str) -> Mapping[str, str] | None:
    """Names of the levels of a quantity, where they are languages."""
    return fit.run.get("language_names") if quantity == names.LANGUAGE_POTENTIAL else None


def unreliable(failed: Sequence[str]) -> str:
    """That nothing can be said of models that have not converged, and what to do."""
    return (
        f"Not converged, so nothing here is reliable: {', '.join(failed)}. Take more draws"
        f"{by_option('--draws')}, or leave these models out."
    )


def verdict(
    table: pd.DataFrame,
    moves: pd.DataFrame,
    fits: Mapping[str, Fit],
    by: names.LeftOut,
    moved: Moved | None = None,
) -> list[str]:
    """The answer in sentences."""
    known = table[table["elpd"].notna()]
    alone = f"Only one model, {table['spec'].iloc[0]}, was given: there is no comparison."
    # First what makes all others void.
    failed = [name for name, one in fits.items() if one.gate.status == "fail"]
    sentences = [unreliable(failed)] if failed else []
    sentences += [alone] if len(table) == 1 else winner(known, by, moved)
    if moved is not None:
        sentences.append(moved.sentence(known, by))
    if len(known) and known["n"].iloc[0] < FEW_UNITS:
        sentences.append(
            f"The standard errors are based on only {known['n'].iloc[0]} left-out {by}s and are "
            "rough."
        )
    unknown = [str(name) for name in table.loc[table["elpd"].isna(), "spec"]]
    if unknown:
        sentences.append(f"Not computed, and not compared: {', '.join(unknown)} (see below).")
    for row in known[known["n_bad_k"] > 0].to_dict("records"):
        # What importance sampling could not do was left out for good; what is left are
        # ratios and refits that rest on few draws, and these err either way.
        sentences.append(
            f"{row['spec']}: {row['n_bad_k']} of {row['n']} left-out {by}s have too few draws "
            f"(k-hat above {names.K_HAT_MAX:g}, or a refit or bridge whose chains disagree); its "
            "elpd has a large Monte-Carlo error."
        )
    sentences += _added_variance(fits)
    for row in moves.to_dict("records"):
        what = _IN_WORDS.get(str(row["quantity"]), str(row["quantity"]))
        if np.isnan(row["spearman"]):
            sentences.append(
                f"{what[0].upper()}{what[1:]} are not reported by both {row['against']} and "
                f"{row['spec']}, and cannot be compared."
            )
            continue
        text = (
            f"Order of the posterior means of {what} under {row['against']} and {row['spec']}: "
            f"Spearman {row['spearman']:.2f}, Kendall {row['kendall']:.2f}"
        )
        sentences.append(
            f"{text}; largest changes of median ranks: {row['moved']}."
            if row["moved"]
            else f"{text}."
        )
    # Of one model there is nobody to have what it lacks.
    lacking = [
        name
        for name in fits
        if len(fits) > 1 and names.GAP_SD not in reported_quantities(fits[name].data)
    ]
    if lacking:
        sentences.append(
            f"The {_IN_WORDS[names.GAP_SD]} are not estimated by {', '.join(lacking)}, for lack "
            "of a model:language term, and are not compared."
        )
    return sentences


def winner(known: pd.DataFrame, by: names.LeftOut, moved: Moved | None) -> list[str]:
    """Which of the models with an elpd is best, and which cannot be told from it."""
    if len(known) < 2:
        return ["No comparison: fewer than two models have an elpd."]
    best, second = known.iloc[0], known.iloc[1]
    lead, error = -float(second["elpd_diff"]), float(second["diff_se"])
    shaky = best["n_bad_k"] > 0 or second["n_bad_k"] > 0
    lead_text = f"{lead:.1f} (SE {error:.1f}) ahead of {second['spec']}"
    sentences = []
    if _is_close(lead, error) or shaky:
        reason = (
            f"less than {names.LEAST_DIFFERENCE:g}: a smaller difference says nothing, "
            "whatever its standard error"
            if lead < names.LEAST_DIFFERENCE
            else "less than two standard errors"
            if lead < LEAST_RATIO * error
            else "but some left-out densities are unreliable"
        )
        sentences.append(f"No clear winner: {best['spec']} is {lead_text}, {reason}.")
    elif moved is None or (by != names.RECORD and moved.is_alike):
        sentences.append(f"{best['spec']} predicts a left-out {by} best: elpd {lead_text}.")
    elif by != names.RECORD:
        sentences.append(
            f"No winner is named: {best['spec']} is {lead_text}, and models predict other values "
            "of scores at a bound."
        )
    else:
        sentences.append(_winner_of_both(known, lead_text))
    tied = [
        f"{row['spec']} {-row['elpd_diff']:.1f} (SE {row['diff_se']:.1f})"
        for row in known.iloc[2:].to_dict("records")
        if _is_close(-row["elpd_diff"], row["diff_se"])
    ]
    if tied:
        sentences.append(f"Not clearly worse than {best['spec']} either: {', '.join(tied)}.")
    return sentences


def _winner_of_both(known: pd.DataFrame, lead_text: str) -> str:
    """The best model where it also is without the scores that models move."""
    best = known["spec"].iloc[0]
    nearest = known.iloc[1:].sort_values("unmoved_diff", ascending=False, kind="stable").iloc[0]
    lead, error = -float(nearest["unmoved_diff"]), float(nearest["unmoved_diff_se"])
    ahead = f"{abs(lead):.1f} (SE {error:.1f}) ahead of"
    if not _is_close(lead, error):
        return (
            f"{best} predicts a left-out record best: elpd {lead_text}, and {ahead} "
            f"{nearest['spec']} over the scores that no model moves."
        )
    without = (
        f"{nearest['spec']} is {ahead} it"
        if lead < 0.0
        else f"it is only {ahead} {nearest['spec']}"
    )
    return (
        f"No clear winner: {best} is {lead_text}, but over the scores that no model moves "
        f"{without}."
    )


def _is_close(difference: float, error: float) -> bool:
    # A standard error of a single score is NaN: nothing is clear then.
    return not (difference >= names.LEAST_DIFFERENCE and difference >= LEAST_RATIO * error)


def _added_variance(fits: Mapping[str, Fit]) -> list[str]:
    """What the terms that the first model lacks take of the variance."""
    first, *others = fits
    base = fits[first].components(detail=True).set_index("component")
    sentences = []
    for name in others:
        parts = fits[name].components(detail=True).set_index("component")
        scales = [str(table["scale"].iloc[0]) for table in (parts, base)]
        if scales[0] != scales[1]:
            sentences.append(
                f"{name} has its variances on the {scales[0]} scale, {first} on the {scales[1]} "
                "scale: they cannot be compared."
            )
            continue
        extra = [label for label in parts.index if label not in base.index]
        if not extra:
            continue
        shares = ", ".join(
            f"{label} {100 * parts.loc[label, 'share_mean']:.0f} % "
            f"[{100 * parts.loc[label, 'share_lower']:.0f}, "
            f"{100 * parts.loc[label, 'share_upper']:.0f}]"
            for label in extra
        )
        sentence = f"{name} adds {shares} of the variance"
        if "residual" in base.index and "residual" in parts.index:
            before, after = (float(table["sd_mean"]["residual"]) for table in (base, parts))
            digits = 2 if scales[0] == "logit" else 1
            shown = [f"{sd:.{digits}f}" if sd >= 1.0 else f"{sd:.2g}" for sd in (before, after)]
            sentence += f"; the residual sd goes from {shown[0]} to {shown[1]}"
        sentences.append(f"{sentence}.")
    return sentences
