"""What a sensitivity analysis looks like: its folder, figure, terminal text and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import counted
from bayeseval._typing import Figures
from bayeseval.output._parts import label_rows, labels_of, language_labels
from bayeseval.output._style import (
    ACCENT,
    MAIN,
    figure_files,
    figure_formats,
    mark_gate,
    new_figure,
    styled,
    whole_figure,
)
from bayeseval.output.language_names import add_language_names, name_and_code
from bayeseval.output.numbers import value_digits, value_texts
from bayeseval.output.store import Writer, write_csv, write_folder
from bayeseval.output.text import text_table, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "format_sensitivity",
    "main_result",
    "sensitivity_figure",
    "sensitivity_sentences",
    "write_sensitivity",
]

_WORDS: Final[Mapping[str, str]] = {
    names.LANGUAGE_POTENTIAL: "language potential",
    names.STANDARDISED_SCORE: "score of models",
    names.GAP_SD: "sd of gaps over languages",
}
_CHANGE: Final = "change (sds)"
_RANKS: Final = "changed ranks"
_FAILED: Final = ("not identified", "not fitted")
# Rows of one column of the figure, and languages in it: the first and the last half of more.
_ROWS: Final = 80
_MOST: Final = 240
# Inches: a row, title and axis of a panel, a column.
_ROW: Final = 0.155
_AXIS: Final = 0.75
_COLUMN: Final = 4.8
_SEVERAL = ("group", "outliers")
_NO_AGREEMENT: Final = (
    "No refit was possible, so there is no agreement of ranks to report: it needs at least 2 "
    "models in a refit."
)


def write_sensitivity(
    folder: Path,
    tables: Mapping[str, pd.DataFrame],
    *,
    ranks: pd.DataFrame | None,
    run: Mapping[str, Any],
    subtitle: str,
    data: str = "",
    language_names: Mapping[str, str] | None = None,
    figures: Figures = True,
    force: bool = False,
) -> Path:
    """Write the tables and the figure of a sensitivity analysis as a folder of its own.

    Parameters
    ----------
    folder : Path
        Where to.
    tables : mapping of str to pandas.DataFrame
        ``sensitivity``, ``moves`` and, where records were left out for their residuals,
        ``outliers``.
    ranks : pandas.DataFrame or None
        Ranks in the fit to all records, for the figure; None draws none.
    run : mapping
        Provenance.
    subtitle, data : str
        Title and data of the fit to all records, for the figure.
    language_names : mapping of str to str, optional
        Code to name, for the figure.
    figures : bool, str or sequence of str
        Whether to draw the figure, or in which formats.
    force : bool
        Overwrite the results of a different run.

    Raises
    ------
    InputError
        If the folder may not be replaced, or cannot be written.
    """
    writers: dict[str, Writer] = {
        f"tables/{name}.csv": partial(write_csv, table) for name, table in tables.items()
    }
    formats = figure_formats(figures)
    if formats and ranks is not None:
        figure = sensitivity_figure(
            ranks,
            tables["moves"],
            tables["sensitivity"],
            subtitle=subtitle,
            data=data,
            gate_status=run["gate"]["status"],
            language_names=language_names,
        )
        writers |= figure_files("sensitivity", figure, formats)
    return write_folder(folder, writers, run=run, force=force)


def format_sensitivity(
    table: pd.DataFrame,
    outliers: pd.DataFrame,
    verdict: Sequence[str],
    *,
    language_names: Mapping[str, str] | None = None,
) -> str:
    """Summary by what was left out, the records left out as outliers, and the sentences."""
    columns: dict[str, list[str]] = {
        key: []
        for key in ("left out", "refits", "quantity", "Spearman", "Kendall", _CHANGE, _RANKS)
    }
    for label, part in _blocks(table):
        if (part["quantity"] == "").all():
            for key in columns:
                columns[key].append({"left out": label, "refits": "0"}.get(key, "-"))
            continue
        there = [quantity for quantity in _WORDS if (part["quantity"] == quantity).any()]
        for number, quantity in enumerate(there):
            rows = part[part["quantity"] == quantity]
            columns["left out"].append(label if number == 0 else "")
            columns["refits"].append(f"{len(rows)}")
            columns["quantity"].append(_WORDS[quantity])
            columns["Spearman"].append(_lowest(rows["spearman"]))
            columns["Kendall"].append(_lowest(rows["kendall"]))
            columns[_CHANGE].append(_highest(rows["largest_change_sd"].abs()))
            columns[_RANKS].append(_highest(rows["n_rank_changes"], digits=0))
    heading = (
        "Agreement of the refits with the fit to all records: the lowest rank correlations of the\n"
        "  means of all refits; the largest change of a level beyond the mean change of all, in\n"
        "  posterior sds; the most levels whose median rank changes in a refit"
    )
    parts = [text_table(heading, columns)] if columns["quantity"] else []
    if len(outliers):
        shown = outliers.reset_index(drop=True)
        digits = value_digits(shown["residual"])
        parts.append(
            text_table(
                "Left out for their residuals (observed less expected score)",
                {
                    "model": list(shown[names.MODEL]),
                    "language": name_and_code(shown[names.LANGUAGE], language_names),
                    "task": list(shown[names.TASK]),
                    "score": value_texts(shown[names.SCORE], digits),
                    "residual": value_texts(shown["residual"], digits, sign=True),
                },
                names=3,
            )
        )
    parts.append("\n".join(wrapped(sentence, indent="", further="") for sentence in verdict))
    return "\n\n".join(parts)


def _lowest(values: pd.Series[float]) -> str:
    return _correlation_text(values.min()) if values.notna().any() else "-"


def _highest(values: pd.Series[float], digits: int = 2) -> str:
    return f"{values.max():.{digits}f}" if values.notna().any() else "-"


def _blocks(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Rows that are reported together: all levels of a factor, or one group."""
    for what in table["drop"].unique():
        part = table[table["drop"] == what]
        if what in _SEVERAL:
            for label in part["without"].unique():
                yield str(label), part[part["without"] == label]
        else:
            yield f"each {what}", part


def sensitivity_sentences(
    table: pd.DataFrame, language_names: Mapping[str, str] | None = None
) -> list[str]:
    """Say how stable the ranks are, what moves most, and which refits there are not.

    Parameters
    ----------
    table : pandas.DataFrame
        Of :class:`bayeseval.leaving_out.container.Sensitivity`.
    language_names : mapping of str to str, optional
        Code to name.
    """
    table = _with_names(table, language_names or {})
    sentences = []
    for label, part in _blocks(table):
        what = str(part["drop"].iloc[0])
        done = part[part["quantity"] != ""]
        for quantity, words in _WORDS.items():
            rows = done[(done["quantity"] == quantity) & done["kendall"].notna()]
            if len(rows):
                sentences.append(
                    _refit_sentence(rows.iloc[0], words)
                    if what in _SEVERAL
                    else _factor_sentence(rows, what, words)
                )
        for row in part[part["status"].isin(_FAILED)].to_dict("records"):
            reason_text = str(row["reason"]).rstrip(".")
            hint = " Name one of them in the group as well." if what == "group" else ""
            sentences.append(f"Without {row['without']} there is no fit: {reason_text}.{hint}")
        failed = sorted(set(part.loc[part["status"] == "gate failed", "without"]))
        if failed:
            sentences.append(f"Not converged, do not rely on: without {', '.join(failed)}.")
        if what in _SEVERAL or not len(done):
            continue
        gone = len(set(part["without"])) - len(set(done["without"]))
        if gone:
            sentences.append(f"The numbers on {label} are of the {len(set(done['without']))} left.")
    fitted = set(table["quantity"]) - {""}
    if not fitted:
        sentences.append(_NO_AGREEMENT)
    sentences += [
        f"The {words} is not estimated by this model, which has no model:language term, and is "
        "left out."
        for quantity, words in _WORDS.items()
        if fitted and quantity not in fitted
    ]
    return sentences


def _with_names(table: pd.DataFrame, language_names: Mapping[str, str]) -> pd.DataFrame:
    """Languages with their names, where they are left out and where they change."""
    named = {"without": table["drop"] == names.LANGUAGE}
    if "largest_change_level" in table:
        named["largest_change_level"] = table["quantity"] == names.LANGUAGE_POTENTIAL
    table = table.copy()
    for column, rows in named.items():
        labels = [str(label) for label in table.loc[rows, column]]
        table.loc[rows, column] = name_and_code(labels, language_names)
    return table


def main_result(table: pd.DataFrame) -> str:
    """Say how far the least stable ranks are kept, and how many refits there are not.

    Parameters
    ----------
    table : pandas.DataFrame
        Of :class:`bayeseval.leaving_out.Sensitivity`.

    Returns
    -------
    str
        One sentence without its full stop.
    """
    refits = table.drop_duplicates(["drop", "without"])
    fitted = table[(table["status"] == "fitted") & table["kendall"].notna()]
    parts = []
    if len(fitted):
        n_refits = len(fitted.drop_duplicates(["drop", "without"]))
        parts.append(f"in {counted(n_refits, 'refit')} {_least_kept(fitted)}")
    for statuses, words in ((_FAILED, "not fitted"), (("gate failed",), "not converged")):
        n = int(refits["status"].isin(statuses).sum())
        if n:
            parts.append(f"{counted(n, 'refit')} {words}")
    return "; ".join(parts)


def _least_kept(rows: pd.DataFrame) -> str:
    """Agreement of the ranks by the quantity with the lowest Kendall correlation of all refits."""
    if (rows["kendall"] == 1.0).all() and not (rows["n_rank_changes"] > 0).any():
        return "all ranks agree with those of all records"
    parts = {words: rows[rows["quantity"] == quantity] for quantity, words in _WORDS.items()}
    least = min(
        (words for words, part in parts.items() if len(part)),
        key=lambda words: (parts[words]["kendall"].min(), -parts[words]["n_rank_changes"].max()),
    )
    return _order_kept(parts[least], least)


def _order_kept(rows: pd.DataFrame, words: str) -> str:
    """Lowest rank correlations of refits with the fit to all records."""
    if (rows["kendall"] == 1.0).all():
        changes = rows["n_rank_changes"].max()
        # Posterior means can keep their order where median ranks of near ties do not.
        but = f"; up to {counted(int(changes), 'median rank')} change" if changes > 0 else ""
        return f"the order of the means by {words} is that of all records{but}"
    least = "at least " if len(rows) > 1 else ""
    spearman, kendall = (_correlation_text(rows[name].min()) for name in ("spearman", "kendall"))
    return (
        f"the order of the means by {words} agrees with that of all records: Spearman "
        f"{least}{spearman}, Kendall {least}{kendall}"
    )


def _correlation_text(correlation: float) -> str:
    """Three decimals, and below 1 for every correlation below 1."""
    return f"{correlation if correlation == 1.0 else min(correlation, 0.999):.3f}"


def _refit_sentence(row: pd.Series, words: str) -> str:
    text = f"Without {row['without']} ({counted(row['n_dropped'], 'record')}), "
    if np.isnan(row["n_rank_changes"]):
        return (
            f"{text}{words} correlates with that of all records: Spearman {row['spearman']:.3f}, "
            f"Kendall {row['kendall']:.3f}; point estimates have no ranks."
        )
    n, kendall = int(row["n_rank_changes"]), _correlation_text(row["kendall"])
    if n == 0:
        order = "" if kendall == "1.000" else f"; the order of the means does (Kendall {kendall})"
        return f"{text}no median rank by {words} changes{order}."
    text += f"{n} of {row['n_levels']:.0f} median ranks by {words} change "
    text += f"(Kendall of the means {kendall})"
    return f"{text}; largest changes of median ranks: {row['moved']}."


def _factor_sentence(rows: pd.DataFrame, what: str, words: str) -> str:
    worst = rows.iloc[int(rows["kendall"].argmin())]
    text = f"Without any one {what}, {_order_kept(rows, words)}"
    if worst["moved"]:
        text += f"; largest changes of median ranks without {worst['without']}: {worst['moved']}"
    sds = rows["largest_change_sd"].abs()
    if sds.notna().any():
        most = rows.iloc[int(sds.argmax())]
        text += (
            f". Beyond the mean change of all, {most['largest_change_level']} changes most: by "
            f"{most['largest_change_sd']:+.1f} posterior sds without {most['without']}"
        )
    return f"{text}."


@styled
def sensitivity_figure(
    ranks: pd.DataFrame,
    moves: pd.DataFrame,
    table: pd.DataFrame,
    *,
    subtitle: str,
    data: str = "",
    gate_status: str,
    language_names: Mapping[str, str] | None = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Ranks of all records with their intervals, and where the refits put them.

    Parameters
    ----------
    ranks : pandas.DataFrame
        ``quantity``, ``level``, ``lower``, ``median``, ``upper`` of the fit to all records.
    moves : pandas.DataFrame
        ``quantity``, ``level``, ``median_before``, ``median_after`` of every refit.
    table : pandas.DataFrame
        Of :class:`bayeseval.leaving_out.container.Sensitivity`.
    subtitle, data, gate_status : str
        Which fit, what was fitted, and whether it converged.
    language_names : mapping of str to str, optional
        Code to name.
    ax : matplotlib.axes.Axes, optional
        Where to draw the ranks of the models alone, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    if ax is not None:
        quantity = names.STANDARDISED_SCORE
        _panel(ax, _in_order(ranks, quantity), _moves_of(moves, quantity), quantity)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    columns, cut = _columns(ranks)
    # Inches: a row of text, and what every panel needs besides.
    height = max(sum(_ROW * len(rows) + _AXIS for _, rows in column) for column in columns)
    failed = sorted(set(table.loc[table["status"].isin(_FAILED), "without"]))
    refits = table["without"].nunique() - len(failed)
    point = bool(ranks["lower"].isna().all())
    wrapped = sum(column[0][0] == names.LANGUAGE_POTENTIAL for column in columns) > 1
    figure = new_figure(
        _COLUMN * len(columns),
        max(height, 1.6),
        title="Ranks when part of the table is left out",
        subtitle=subtitle,
        data=data,
        caption=(
            "Blue points: median ranks in the fit to all records"
            + ("" if point else "; blue bars: 95 % equal-tailed intervals of these ranks")
            + f". Orange ticks: median ranks in {refits} refit{'s, each' * (refits != 1)} "
            "without part of the table. Where a level is left out, the others are ranked among "
            "themselves, and the tick shows by how much the rank of each changes."
            + (" Each column has its own range of ranks." if wrapped else "")
            + cut
            + (f" No fit without {', '.join(failed)}." if failed else "")
        ),
        gate_status=gate_status,
        labels=list(ranks["level"]),
        figsize=figsize,
    )
    grid = figure.add_gridspec(1, len(columns))
    for place, column in enumerate(columns):
        heights = [_ROW * len(rows) + _AXIS for _, rows in column]
        # Rows are as high in a column of few levels as in one of many.
        rest = [height - sum(heights)] if height - sum(heights) > _ROW else []
        inner = grid[0, place].subgridspec(len(heights + rest), 1, height_ratios=heights + rest)
        for i, (quantity, rows) in enumerate(column):
            axes, words = figure.add_subplot(inner[i, 0]), _WORDS[quantity]
            axes.set_title(words[0].upper() + words[1:], size=9, loc="left")
            _panel(axes, rows, _moves_of(moves, quantity), quantity, language_names)
    return figure


def _columns(ranks: pd.DataFrame) -> tuple[list[list[tuple[str, pd.DataFrame]]], str]:
    """Columns of panels, a quantity and its levels each, and what to say of levels not shown."""
    languages = _in_order(ranks, names.LANGUAGE_POTENTIAL)
    cut = ""
    if len(languages) > _MOST:
        half = _MOST // 2
        cut = f" First and last {half} of {len(languages)} languages; all: tables/moves.csv."
        languages = pd.concat([languages.head(half), languages.tail(half)], ignore_index=True)
    n_columns = max(1, -(-len(languages) // _ROWS))
    n_rows = -(-len(languages) // n_columns)
    columns = [
        [(names.LANGUAGE_POTENTIAL, languages.iloc[i * n_rows : (i + 1) * n_rows])]
        for i in range(n_columns)
    ]
    others = [(q, _in_order(ranks, q)) for q in _WORDS if q != names.LANGUAGE_POTENTIAL]
    others = [(quantity, rows) for quantity, rows in others if len(rows)]
    most = max((len(rows) for _, rows in others), default=0)
    if most > _ROWS:
        half = _ROWS // 2
        cut += f" First and last {half} of {most} models; all: tables/moves.csv."
        others = [(q, pd.concat([rows.head(half), rows.tail(half)])) for q, rows in others]
    if sum(len(rows) for _, rows in others) <= _ROWS:
        return [*columns, others], cut
    return [*columns, *([one] for one in others)], cut


def _in_order(ranks: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Levels of one quantity, the best on top."""
    known = ranks[ranks["quantity"] == quantity].dropna(subset=["median"])
    return known.sort_values(["median", "lower", "upper"], ignore_index=True)


def _moves_of(moves: pd.DataFrame, quantity: str) -> pd.DataFrame:
    return moves[moves["quantity"] == quantity] if len(moves) else moves


def _panel(
    axes: Axes,
    known: pd.DataFrame,
    moves: pd.DataFrame,
    quantity: str,
    language_names: Mapping[str, str] | None = None,
) -> None:
    """Ranks of levels of one quantity, and where the refits put them."""
    from matplotlib.ticker import MaxNLocator

    known = known.reset_index(drop=True)
    place = {label: i for i, label in enumerate(known["level"])}
    y = np.arange(len(known), dtype=float)
    bars = known[known["lower"].notna()]
    axes.hlines(
        bars.index, bars["lower"], bars["upper"], color=MAIN, alpha=0.35, linewidth=3.0
    ).set_gid("bars")
    axes.scatter(known["median"], y, s=11, color=MAIN, zorder=3, linewidths=0).set_gid("points")
    if len(moves):
        there = moves[moves["level"].isin(place)].dropna(subset=["median_after"])
        rows = there["level"].map(place).to_numpy(dtype=float)
        base = known["median"].to_numpy(dtype=float)[rows.astype(int)]
        shift = (there["median_after"] - there["median_before"]).to_numpy(dtype=float)
        # Higher than points, which most of them lie on.
        ticks = axes.scatter(
            base + shift, rows, s=50, marker="|", color=ACCENT, linewidths=1.0, zorder=4
        )
        ticks.set_gid("refits")
    levels = [str(label) for label in known["level"]]
    labels = labels_of(levels)
    if quantity == names.LANGUAGE_POTENTIAL:
        named = pd.DataFrame({names.LANGUAGE: levels})
        labels = language_labels(add_language_names(named, language_names))
    label_rows(axes, labels, 7.0)
    # Whole ranks, from the first.
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    if bool((known["median"] < 2.0).any()):
        axes.set_xlim(left=0.5)
        low, high = axes.get_xlim()
        axes.set_xticks([1, *(tick for tick in axes.get_xticks() if 1.5 < tick <= high)])
        axes.set_xlim(low, high)
    axes.set_xlabel("Rank (1 = best)")
