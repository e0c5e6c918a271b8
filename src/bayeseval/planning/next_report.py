"""What cells to measure next look like: the answer in words, terminal text, figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import counted, grouped
from bayeseval.output._style import (
    ACCENT,
    GREEN,
    GREY,
    MAIN,
    mark_gate,
    new_figure,
    styled,
    whole_figure,
)
from bayeseval.output.numbers import (
    axis_label,
    probability_text,
    unit_text,
    value_digits,
    value_texts,
)
from bayeseval.output.text import text_table, wrapped
from bayeseval.planning.choosing import CHOSEN, RANDOM, VARIANCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["answer", "format_next", "next_figure"]

# Whose sd is reduced, by target; other targets are differences of two models.
_WHAT: Final = {
    "ranking": "a difference between two models",
    "potential": "a language's potential",
    "table": "an expected score",
}
_A_RANDOM: Final = "a random choice"
_STYLES: Final = {CHOSEN: (MAIN, "-"), VARIANCE: (GREEN, "--"), RANDOM: (GREY, ":")}
# Rings of different sizes, because curves often coincide.
_MARKERS: Final = {CHOSEN: 5.0, VARIANCE: 8.0, RANDOM: 11.0}
# Most cells, and none, that are marked on a curve: few steps hide their last value.
_MOST_MARKED: Final = 11


def _sd_of(target: str) -> str:
    return _WHAT.get(target, f"the difference {target}")


def answer(
    table: pd.DataFrame,
    comparison: pd.DataFrame,
    *,
    target: str,
    sd_now: float,
    p_now: float,
    target_sd: float | None,
    target_probability: float | None,
    unit: str,
) -> str:
    """Say what the cells do together, whether the target is reached, and what others would do.

    Parameters
    ----------
    table, comparison : pandas.DataFrame
        Of :class:`bayeseval.planning.NextCells`, in the unit that scores are shown in.
    target : str
    sd_now, p_now : float
        Before any measurement.
    target_sd, target_probability : float or None
        The sd in the unit that scores are shown in.
    unit : str
        Of the scores; empty where it is not known.
    """
    unit = unit_text(unit, before=" ")
    wanted = [] if target_sd is None else [f"an sd of at most {target_sd:g}{unit}"]
    if target_probability is not None:
        wanted.append(f"a probability of the right order of at least {target_probability:g}")
    goal = " and ".join(wanted)
    if not len(table):
        return f"No cell is needed: {_sd_of(target)} has {goal} already."
    last = table.iloc[-1]
    digits = value_digits([sd_now, float(last["sd_target"])])
    before, after = value_texts([sd_now, float(last["sd_target"])], digits)
    text = (
        f"The sd of {_sd_of(target)} is {before}{unit} now and will be about {after}{unit} after "
        f"{'this cell' if len(table) == 1 else f'these {len(table)} cells'} "
        f"(cost {last['cost_together']:g})"
    )
    if np.isfinite(p_now):
        p = probability_text(p_now), probability_text(float(last["p_correct"]))
        changed = f"{p[1]} in place of {p[0]}" if p[1] != p[0] else f"stays {p[0]}"
        text += f", the probability of the right order {changed}"
    if goal:
        verb = "This reaches" if last["reaches_target"] else "This does not reach"
        text += f". {verb} the target of {goal}"
    return f"{text}. {_others(comparison, unit, digits)}"


def _others(comparison: pd.DataFrame, unit: str, digits: int) -> str:
    """At which cost the chosen cells reach what others reach with all of it."""
    total = float(comparison.loc[comparison["choice"] == CHOSEN, "cost"].iloc[-1])
    curves = dict(iter(comparison.groupby("choice")))
    chosen = curves[CHOSEN]
    parts: dict[float, list[str]] = {}
    for name, word in ((RANDOM, _A_RANDOM), (VARIANCE, "the cells of largest variance")):
        end = float(curves[name]["sd_target"].iloc[-1])
        reached = chosen["cost"][chosen["sd_target"] <= end]
        if len(reached) and reached.iloc[0] < total:
            parts.setdefault(float(reached.iloc[0]), []).append(word)
    if not parts:
        # Of one cell, or where all cells are chosen, no lower cost reaches what others do.
        ends = value_texts(
            (float(curves[name]["sd_target"].iloc[-1]) for name in (RANDOM, VARIANCE)), digits
        )
        return (
            f"At this cost {_A_RANDOM} leaves {ends[0]}{unit} and the cells of largest variance "
            f"{ends[1]}{unit}."
        )
    text = ", and ".join(
        f"at cost {cost:g} they reach what {' and '.join(words)} "
        f"{'reaches' if words == [_A_RANDOM] else 'reach'} at {total:g}"
        for cost, words in parts.items()
    )
    return f"{text[0].upper()}{text[1:]}."


def format_next(
    table: pd.DataFrame,
    *,
    target: str,
    n_cells: int,
    n_shown: int,
    sentence: str,
    notes: Sequence[str],
    heading: str,
    unit: str,
) -> str:
    """The first cells, the answer and the notes as the command prints them.

    Parameters
    ----------
    table : pandas.DataFrame
        Of :class:`bayeseval.planning.NextCells`, in the unit that scores are shown in.
    target : str
    n_cells : int
        Number of cells that could be measured.
    n_shown : int
        Most rows.
    sentence : str
        The answer.
    notes : sequence of str
    heading : str
        Which fit.
    unit : str
        Of the scores; empty where it is not known.
    """
    shown, lines = table.head(n_shown), [heading, ""]
    if len(shown):
        columns = {
            str(factor): list(shown[factor]) for factor in (names.MODEL, names.LANGUAGE, names.TASK)
        }
        columns |= {
            "cost": [f"{cost:.6g}" for cost in shown["cost"]],
            "gain": value_texts(shown["gain"]),
            "gain together": value_texts(shown["gain_together"]),
            "sd left": value_texts(shown["sd_target"]),
        }
        if "p_correct" in shown:
            columns["P(right order)"] = value_texts(shown["p_correct"], 3)
        legend = [
            f"gain: by how much the sd of {_sd_of(target)} is expected to fall"
            f"{unit_text(unit, before=', ')}, given the cells above; together: with these",
            "sd left: the sd after the measurement of the cell and of those above",
        ]
        if "p_correct" in shown:
            legend.append(
                "P(right order): expected probability that the models are put in their true order"
                + (", mean over all pairs" if target == "ranking" else "")
            )
        title = "\n".join(
            [
                f"Cells to measure next, of {grouped(n_cells)} without records",
                *(wrapped(line) for line in legend),
            ]
        )
        lines += [text_table(title, columns, names=3), ""]
    lines.append(wrapped(sentence, indent="", further=""))
    if len(table) > len(shown):
        notes = [*notes, f"{counted(n_shown, 'cell')} of {grouped(len(table))} are shown"]
    lines += [wrapped(f"note: {note}", indent="") for note in notes]
    return "\n".join(lines)


@styled
def next_figure(
    comparison: pd.DataFrame,
    *,
    target: str,
    target_sd: float | None,
    subtitle: str,
    data: str,
    gate_status: str,
    unit: str,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Sd of what is asked against the cost, for the chosen cells and for other choices.

    Parameters
    ----------
    comparison : pandas.DataFrame
        Of :class:`bayeseval.planning.NextCells`, in the unit that scores are shown in.
    target : str
    target_sd : float or None
        Drawn as a line.
    subtitle, data : str
        Title of the fit, and what was fitted.
    gate_status : str
        ``fail`` stamps the figure.
    unit : str
        Of the scores; empty where it is not known.
    ax : matplotlib.axes.Axes, optional
        Where to draw, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    if ax is not None:
        _draw(ax, comparison, target, target_sd, unit)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    several = " (root mean square)" if target in _WHAT else ""
    figure = new_figure(
        7.0,
        3.6,
        title=f"Cells to measure next: sd of {_sd_of(target)}",
        subtitle=subtitle,
        data=data,
        caption=(
            f"Expected posterior sd of {_sd_of(target)}{several}"
            f"{unit_text(unit, before=', ')}, by the cost of the cells measured: as chosen for "
            "this target, in the order of the largest variance of the expected score, and at "
            "random (mean of several orders)."
        ),
        gate_status=gate_status,
        figsize=figsize,
    )
    _draw(figure.add_subplot(), comparison, target, target_sd, unit)
    return figure


def _draw(
    axes: Axes, comparison: pd.DataFrame, target: str, target_sd: float | None, unit: str
) -> None:
    curves = dict(iter(comparison.groupby("choice")))
    few = max(map(len, curves.values())) <= _MOST_MARKED
    for name, (colour, line) in _STYLES.items():
        curve = curves[name]
        axes.step(
            curve["cost"], curve["sd_target"], line, where="post", color=colour, label=name,
            linewidth=1.8, marker="o" if few else None, markersize=_MARKERS[name],
            markerfacecolor="none",
        )  # fmt: skip
    if target_sd is not None:
        axes.axhline(target_sd, color=ACCENT, linewidth=1.2, label=f"target {target_sd:g}")
    axes.set_xlabel("Cost")
    axes.set_ylabel(axis_label(f"Sd of {_sd_of(target)}", unit))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
