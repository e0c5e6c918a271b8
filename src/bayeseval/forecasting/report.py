"""What forecasts look like: tables in the result folder, three figures, terminal text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import counted
from bayeseval._typing import Floats
from bayeseval.forecasting.words import format_check, idle_covariate, weak_check
from bayeseval.languages.codes import script_name
from bayeseval.output._parts import language_labels
from bayeseval.output._style import (
    ACCENT,
    FAINT,
    GREY,
    MAIN,
    figure_text,
    mark_gate,
    new_figure,
    styled,
    whole_figure,
)
from bayeseval.output.language_names import LANGUAGE_NAME, name_and_code
from bayeseval.output.numbers import (
    axis_label,
    interval_texts,
    probability_text,
    unit_text,
    value_texts,
)
from bayeseval.output.text import text_table, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "beyond_scale",
    "forecast_figure",
    "format_forecast",
    "main_result",
    "script_figure",
]

_ENDS: Final = 8
_NAMED: Final = 50  # names in one figure; more hide the points
_WIDTH: Final = 7.0
_WIDE: Final = 9.5  # names beside the points need room
_FILLED: Final = " Orange and filled: the languages that were asked for."


@styled
def forecast_figure(
    table: pd.DataFrame,
    line: pd.DataFrame,
    *,
    covariate: str,
    subtitle: str,
    data: str = "",
    gate_status: str,
    languages: Sequence[str] = (),
    unit: str = "",
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Potential against the covariate: line with band, languages with records and without.

    Parameters
    ----------
    table, line : pandas.DataFrame
        Of :class:`bayeseval.forecasting.Forecast`.
    covariate : str
        Name of the covariate; empty without one.
    subtitle, data : str
        Title of the fit, and what was fitted.
    gate_status : str
        ``fail`` stamps the figure.
    languages : sequence of str
        Those that are marked.
    unit : str
        Unit of the scores; empty where it is not known.
    ax : matplotlib.axes.Axes, optional
        Where to draw, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    if ax is not None:
        _draw_forecast(ax, table, line, covariate, languages, unit)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    percent = f"{100 * float(table['ci_prob'].iloc[0]):.4g} %" if len(table) else ""
    figure = new_figure(
        _WIDE,
        6.2,
        title=f"Language potential against {covariate}",
        subtitle=subtitle,
        data=data,
        caption=(
            f"Line and band: expected potential and its {percent} interval. Dots: languages with "
            f"records; circles: forecasts, bars are their {percent} intervals, which "
            "include a language's deviation from the line. Grey circles lie outside the range of "
            f"the languages with records.{_FILLED if languages else ''}"
            + (
                f" Named: the {_NAMED} languages with records that lie farthest from the line."
                if int(table["observed"].sum()) > _NAMED
                else ""
            )
        ),
        gate_status=gate_status,
        figsize=figsize,
    )
    _draw_forecast(figure.add_subplot(), table, line, covariate, languages, unit)
    return figure


def _draw_forecast(
    axes: Axes,
    table: pd.DataFrame,
    line: pd.DataFrame,
    covariate: str,
    languages: Sequence[str],
    unit: str,
) -> None:
    from bayeseval.output._labels import place_labels

    x = line["covariate"]
    axes.fill_between(x, line["potential_lower"], line["potential_upper"], color=FAINT, linewidth=0)
    axes.plot(x, line["potential_mean"], color=GREY, linewidth=1.2)
    for outside, colour in ((False, ACCENT), (True, GREY)):
        part = table[~table["observed"] & (table["extrapolation"] == outside)]
        axes.vlines(
            part[covariate],
            part["potential_lower"],
            part["potential_upper"],
            color=colour,
            alpha=0.18,
            linewidth=1.0,
        )
        axes.plot(
            part[covariate], part["potential_mean"], "o", mfc="white", mec=colour, ms=3.5, ls=""
        )
    own = table[table["observed"]]
    axes.plot(own[covariate], own["potential_mean"], "o", color=MAIN, ms=4.0, ls="")
    asked = table[table[names.LANGUAGE].isin(languages)]
    axes.vlines(
        asked[covariate], asked["potential_lower"], asked["potential_upper"], color=ACCENT, lw=1.2
    )
    axes.plot(asked[covariate], asked["potential_mean"], "o", color=ACCENT, ms=4.5, ls="")
    axes.set_xlabel(figure_text(covariate))
    axes.set_ylabel(axis_label("Language potential", unit))
    # Labels are placed in pixels, which the layout decides.
    whole_figure(axes).draw_without_rendering()
    labelled = _labelled(table, line, covariate, languages)
    named, other = table[labelled], table[~labelled]
    bars = asked[[covariate, "potential_lower", covariate, "potential_upper"]]
    place_labels(
        axes,
        named[covariate].to_numpy(dtype=float),
        named["potential_mean"].to_numpy(dtype=float),
        language_labels(named),
        lines=np.vstack([bars.to_numpy(dtype=float), _pieces(line)]),
        size=6.5,
        colour=GREY,
        marks=other[[covariate, "potential_mean"]].to_numpy(dtype=float),
        first=named[names.LANGUAGE].isin(languages).tolist(),
    )


def _labelled(
    table: pd.DataFrame, line: pd.DataFrame, covariate: str, languages: Sequence[str]
) -> pd.Series[bool]:
    """Languages whose names are written: those asked for, and with records the least expected."""
    expected = np.interp(table[covariate], line["covariate"], line["potential_mean"])
    distance = (table["potential_mean"] - expected).abs().where(table["observed"].astype(bool))
    least: pd.Series[bool] = distance.rank(ascending=False) <= _NAMED
    return table[names.LANGUAGE].isin(languages) | least


def _pieces(line: pd.DataFrame) -> Floats:
    """Ends of the pieces of a line, which labels keep off."""
    ends = line[["covariate", "potential_mean"]].to_numpy(dtype=float)
    return np.hstack([ends[:-1], ends[1:]])


@styled
def script_figure(
    table: pd.DataFrame,
    *,
    covariate: str,
    subtitle: str,
    data: str = "",
    gate_status: str,
    languages: Sequence[str] = (),
    unit: str = "",
) -> Figure | None:
    """Potentials by script, the most frequent scripts first; None if no label says its script.

    Parameters
    ----------
    table, covariate, subtitle, data, gate_status, languages, unit
        See :func:`forecast_figure`.
    """
    script = table["source_label"].astype("str").str.partition("_")[2].replace("", "unknown")
    if (script == "unknown").all():
        return None
    counts = script.value_counts()
    shown = list(counts[counts >= 3].index)
    group = script.where(script.isin(shown), "others")
    order = [*shown, *(["others"] if (group == "others").any() else [])]
    figure = new_figure(
        _WIDTH,
        0.9 + 0.32 * len(order),
        title="Language potential by script",
        subtitle=subtitle,
        data=data,
        caption=(
            "A blue point is a language with records, an orange circle is a forecast. Vertical "
            "lines: mean potential of the languages of a script, whose number is in brackets. The "
            f"labels in the source of {covariate or 'the covariate'} say which script a language "
            "is written in."
            f"{_FILLED if languages else ''}"
        ),
        gate_status=gate_status,
    )
    axes = figure.add_subplot()
    for row, label in enumerate(order):
        part = table[group == label]
        # Evenly spread in the row by potential, so that marks do not hide each other.
        lines = 2 + min(5, len(part) // 40)
        offset = 0.3 * (2.0 * (np.arange(len(part)) % lines) / (lines - 1) - 1.0)
        open_ = ~part["observed"].to_numpy(dtype=bool)
        y, values = row + offset, part["potential_mean"].to_numpy(dtype=float)
        axes.plot(values[open_], y[open_], "o", mfc="white", mec=ACCENT, ms=3.5, ls="")
        axes.plot(values[~open_], y[~open_], "o", color=MAIN, ms=4.0, ls="")
        asked = part[names.LANGUAGE].isin(languages).to_numpy(dtype=bool)
        axes.plot(values[asked], y[asked], "o", color=ACCENT, ms=4.5, ls="")
        axes.vlines(values.mean(), row - 0.4, row + 0.4, color=GREY, linewidth=1.5)
    sizes = group.value_counts()
    labels = [figure_text(f"{script_name(label)} ({sizes[label]})") for label in order]
    axes.set_yticks(range(len(order)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(axis_label("Language potential", unit))
    return figure


def format_forecast(
    table: pd.DataFrame,
    check: pd.DataFrame,
    covariate: str,
    subtitle: str,
    notes: Sequence[str],
    *,
    helps: str = "the covariate",
    languages: Sequence[str] = (),
    unit: str = "",
    scale: tuple[float, float] | None = None,
) -> str:
    """Summarise a forecast in text.

    Parameters
    ----------
    table, check, covariate, subtitle, notes
        Of :class:`bayeseval.forecasting.container.Forecast`; `covariate` is empty without one.
    helps : str
        What forecasts are checked with and without.
    languages, unit
        As there; all rows of `languages` are shown, or the ends of the table.
    scale : tuple of float, optional
        Lowest and highest possible potential in the units of the table, where they are known.
    """
    new = table[~table["observed"]]
    percent = 100 * float(table["ci_prob"].iloc[0])
    shown = new if len(new) <= 2 * _ENDS else pd.concat([new.head(_ENDS), new.tail(_ENDS)])
    rows = f"{counted(len(new), 'language')} without records"
    rows += "" if shown is new else f", first and last {_ENDS}"
    if languages:
        shown = table[table[names.LANGUAGE].isin(languages)]
        rows = f"{len(shown)} of {len(table)} languages"
    heading = f"Forecast potential{unit_text(unit, before=', ')} ({rows})"
    if shown["extrapolation"].any():
        heading += (
            f"\n  *: {covariate or 'a covariate'} outside the range of the languages with records"
        )
    if shown["observed"].any():
        heading += "\n  +: with records"
    called = dict(zip(shown["source_label"], shown[LANGUAGE_NAME], strict=True))
    labels = name_and_code(shown["source_label"], called)
    columns = {
        "language": [
            f"{label}{' *' * bool(outside)}{' +' * bool(own)}"
            for label, outside, own in zip(
                labels, shown["extrapolation"], shown["observed"], strict=True
            )
        ],
        **({covariate: value_texts(shown[covariate])} if covariate else {}),
        "potential": interval_texts(shown, "potential"),
        "rank": [
            f"{median:.0f} [{low:.0f}, {high:.0f}]"
            for median, low, high in shown[["rank_median", "rank_lower", "rank_upper"]].to_numpy()
        ],
        "P(lowest quarter)": [probability_text(p) for p in shown["p_lowest_quarter"]],
    }
    parts = [
        f"{subtitle}\nMeans with {percent:.4g} % intervals; ranks among all "
        f"{'languages of the covariate' if covariate else 'these languages'}, 1 is best."
    ]
    if len(shown):
        parts.append(text_table(heading, columns))
    if int(new["extrapolation"].sum()):
        parts.append(
            f"{int(new['extrapolation'].sum())} of the {len(new)} forecasts are extrapolations: "
            f"their {covariate or 'covariates'} "
            f"{'is' if covariate else 'are'} outside the range of the languages with records."
        )
    if len(check):
        parts.append(format_check(check, helps))
    notes = [
        *notes,
        *filter(None, [weak_check(check), idle_covariate(check, helps), beyond_scale(new, scale)]),
    ]
    parts += [wrapped(f"note: {note}", indent="") for note in notes]
    return "\n\n".join(parts)


def beyond_scale(table: pd.DataFrame, scale: tuple[float, float] | None) -> str:
    """Say which forecasts exceed the scale, and what that means; empty if none does.

    Parameters
    ----------
    table : pandas.DataFrame
        Potentials of languages without records.
    scale : tuple of float or None
        Lowest and highest possible potential.
    """
    if scale is None or table.empty:
        return ""
    low, high = scale
    means = (table["potential_mean"] < low) | (table["potential_mean"] > high)
    ends = (table["potential_lower"] < low) | (table["potential_upper"] > high)
    if not ends.any() and not means.any():
        return ""
    outside, reaching = int(means.sum()), int((ends | means).sum())
    has = "has an interval that reaches" if reaching == 1 else "have intervals that reach"
    return (
        f"possible scores are from {low:g} to {high:g}, and a linear model does not know this: of "
        f"{counted(len(table), 'forecast')}, {outside} {'lies' if outside == 1 else 'lie'} outside "
        f"and {reaching} {has} outside. Such a forecast says no "
        "more than that the language is near that end of the scale; ranks are not affected. For "
        "forecasts inside the scale, fit a table of transformed scores, such as logits. Scores at "
        "an end of the scale have no logit and must be moved inside first; the potentials are "
        "then means of logits, which are not logits of mean scores."
    )


def main_result(
    table: pd.DataFrame,
    covariate: str,
    unit: str = "",
    scale: tuple[float, float] | None = None,
) -> str:
    """Say how many languages were forecast, and which has the highest and lowest potential.

    Parameters
    ----------
    table, covariate
        Of :class:`bayeseval.forecasting.Forecast`.
    unit : str
        Follows the potentials; empty for none.
    scale : tuple of float, optional
        Lowest and highest possible potential, where they are known.

    Returns
    -------
    str
        One sentence without its full stop.
    """
    new = table[~table["observed"].astype(bool)].reset_index(drop=True)
    labels = name_and_code(
        new["source_label"], dict(zip(new["source_label"], new[LANGUAGE_NAME], strict=True))
    )
    potential = interval_texts(new, "potential")
    text = f"{counted(len(new), 'language')} without records forecast from {covariate}: "
    if len(new) == 1:
        text += f"{labels[0]} {potential[0]}"
    else:
        text += f"highest {labels[0]} {potential[0]}, lowest {labels[-1]} {potential[-1]}"
    text += unit_text(unit, before=" ")
    if beyond_scale(new, scale) and scale is not None:
        text += f" (some intervals reach outside the scale, {scale[0]:g} to {scale[1]:g})"
    return text
