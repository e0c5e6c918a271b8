"""`HeldOut`: how well models predict scores left out of their fits, and its folder."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_path
from bayeseval._text import counted
from bayeseval.comparison.predictive import summarised
from bayeseval.comparison.sentences import FEW_UNITS, LEAST_RATIO, unreliable
from bayeseval.comparison.two_way import TWO_WAY
from bayeseval.fitting.gate import Gate
from bayeseval.fitting.report import run_data
from bayeseval.output.numbers import number_text
from bayeseval.output.result import Result
from bayeseval.output.text import text_table, wrapped
from bayeseval.records import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeseval._typing import Figures

__all__ = ["HeldOut", "holdout_identity", "main_table", "sentences"]

_IN_SCORE_UNITS: Final = (
    ("RMSE", "rmse"),
    ("MAE", "mae"),
    ("CRPS", "crps"),
    ("difference", "crps_diff"),
    ("SE", "crps_diff_se"),
)


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut(Result):
    """Models of one table by how well they predict scores left out, the best one first.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each model and one for ``two-way means``: ``spec``, ``rmse`` (of the
        predicted mean), ``mae`` (of the predicted median), ``crps``, ``crps_diff`` (less that of
        the best) and ``crps_diff_se`` (units left out are clusters, over all repeats),
        ``log_score`` (mean log density of a left-out score, natural logarithm; higher is
        better), ``coverage_90`` (share of scores inside 90 % intervals), ``n`` (predicted
        scores) and ``n_units`` (different units among them); ``gate`` if that of any fit failed.
        Score units.
    predictions : pandas.DataFrame
        One row for each left-out score, repeat and model: ``spec``, ``repeat``, ``model``,
        ``language``, ``task``, ``unit``, ``score``, ``mean``, ``median``, ``lower``, ``upper``
        (90 %), ``crps``, ``log_score`` and ``in_90`` (whether the score is inside; between 0 and
        1 of a score that the model moves off a bound).
    verdict : tuple of str
        The answer in sentences.
    by : str
        What was left out together, as it was asked for.
    what : str
        A unit in words: ``cell``, ``language``, ``model``, ``task`` or ``dataset``.
    share : float
        Share of the units that each repeat leaves out.
    repeats : int
        Number of repeats.
    gates : dict of str to tuple of Gate
        Convergence gates of the repeats, by name of the model.
    run : dict
        Provenance.
    """

    table: pd.DataFrame
    predictions: pd.DataFrame
    verdict: tuple[str, ...]
    by: names.LeftOut
    what: str
    share: float
    repeats: int
    gates: Mapping[str, tuple[Gate, ...]]
    run: Mapping[str, Any]

    def save(self, folder: str | Path, *, figures: Figures = True, force: bool = False) -> Path:
        """Write ``run.json``, the tables and the figure; the folder appears whole or not at all.

        Parameters
        ----------
        folder : str or Path
            ``tables/holdout.csv``, ``tables/holdout_predictions.csv`` and
            ``figures/holdout.png``.
        figures : bool, str or sequence of str
            Whether to draw the figure, or in which formats ("pdf", "png,svg").
        force : bool
            Overwrite the results of a different run.

        Raises
        ------
        InputError
            If the folder holds something else or cannot be written.

        Examples
        --------
        >>> folder = held_out.save("results/holdout", figures=False)
        >>> sorted(path.name for path in (folder / "tables").iterdir())
        ['holdout.csv', 'holdout_predictions.csv']
        """
        from bayeseval.output._style import figure_files, figure_formats
        from bayeseval.output.store import Writer, write_csv, write_folder

        writers: dict[str, Writer] = {
            f"tables/{name}.csv": partial(write_csv, table) for name, table in self.tables.items()
        }
        formats = figure_formats(figures)
        if formats:
            writers |= figure_files("holdout", self.plot(), formats)
        run = {
            **self.run,
            "by": self.by,
            "holdout": self.share,
            "repeats": self.repeats,
            "gates": _statuses(self.gates),
            "verdict": list(self.verdict),
        }
        return write_folder(as_path("folder", folder), writers, run=run, force=force)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the folder: scores of the models, and all predictions."""
        from bayeseval.output.language_names import add_language_names

        gates = _statuses(self.gates)
        known = self.run.get("language_names")
        return {
            "holdout": self.table.assign(gate=self.table["spec"].map(gates)),
            "holdout_predictions": add_language_names(self.predictions, known).assign(
                gate=self.predictions["spec"].map(gates)
            ),
        }

    def summary(self) -> str:
        """The table and the verdict in text.

        Returns
        -------
        str
            What ``print`` shows.

        Examples
        --------
        >>> held_out.summary().splitlines()[0]
        'Predictions of left-out scores, 20 % of the cells at a time, 2 repeats'
        """
        columns = {"model": [str(name) for name in self.table["spec"]]}
        digits = _score_digits(self.table)
        for heading, key in _IN_SCORE_UNITS:
            columns[heading] = [number_text(value, digits) for value in self.table[key]]
        columns["log score"] = [number_text(value, 2) for value in self.table["log_score"]]
        columns["in 90 %"] = [f"{share:.1%}" for share in self.table["coverage_90"]]
        heading = f"Predictions of left-out scores, {self._asked()}"
        explained = wrapped(
            "RMSE, MAE and CRPS in score units, lower is better; difference: CRPS less that of the "
            "best; log score: mean log density of a left-out score, higher is better; in 90 %: "
            "left-out scores inside 90 % intervals"
        )
        lines = [wrapped(sentence, indent="", further="") for sentence in self.verdict]
        return "\n".join([text_table(heading, columns), explained, "", *lines])

    def plot(self, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw the differences in CRPS.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw them alone, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches; by default, what the table needs.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> figure = held_out.plot()
        """
        from bayeseval.comparison.figure import holdout_figure

        return holdout_figure(
            self.table,
            asked=self._asked(),
            subtitle=self._title(),
            data=run_data(self.run),
            gate_status="fail" if self._failed() else "pass",
            ax=ax,
            figsize=figsize,
        )

    def figures(self) -> dict[str, Figure]:
        """Draw the figure of the folder.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``holdout``.

        Examples
        --------
        >>> list(held_out.figures())
        ['holdout']
        """
        return {"holdout": self.plot()}

    @property
    def named_gates(self) -> dict[str, Gate]:
        """Convergence gates of all fits by model and repeat."""
        return {
            f"{name}, repeat {i + 1}": gate
            for name, several in self.gates.items()
            for i, gate in enumerate(several)
        }

    def _asked(self) -> str:
        times = counted(self.repeats, "repeat")
        if self.by == names.RECORD:
            return f"{100 * self.share:.4g} % of the {self.what}s at a time, {times}"
        # Of few levels, the share that was asked for cannot be met exactly.
        left_out = self.predictions.groupby("repeat")["unit"].nunique().max()
        return f"{counted(int(left_out), self.what)} at a time, {times}"

    def _title(self) -> str:
        return f"{self.run['benchmark']}, {counted(len(self.gates), 'model')}"

    def _main_result(self) -> str:
        return self.verdict[0].rstrip(".")

    def _main(self) -> pd.DataFrame:
        return self.table

    def _failed(self) -> bool:
        return "fail" in _statuses(self.gates).values()


def holdout_identity(
    runs: Sequence[Mapping[str, Any]], *, by: str, share: float, repeats: int
) -> dict[str, Any]:
    """What makes two holdouts the same: the table, all specs, and what is left out.

    Parameters
    ----------
    runs : sequence of mapping
        Identities of the fits.
    by, share, repeats
        As for :class:`HeldOut`.
    """
    first = runs[0]
    asked = f"holdout {by} {share!r} {repeats} " + " ".join(str(run["spec_hash"]) for run in runs)
    return {
        "data_hash": first["data_hash"],
        "spec_hash": hashlib.sha256(asked.encode()).hexdigest(),
        "engine": "-".join(["compare", *(str(run["engine"]) for run in runs)]),
        "seed": first["seed"],
        "pairs_hash": first["pairs_hash"],
    }


def _statuses(gates: Mapping[str, Sequence[Gate]]) -> dict[str, str]:
    """Status of each model: that of its worst fit. Two-way means are no fit."""
    statuses = {TWO_WAY: "pass"}
    for name, several in gates.items():
        failed = any(one.status == "fail" for one in several)
        statuses[name] = "fail" if failed else several[0].status
    return statuses


def main_table(predictions: pd.DataFrame, gates: Mapping[str, Sequence[Gate]]) -> pd.DataFrame:
    """:attr:`HeldOut.table`."""
    table = summarised(predictions)
    statuses = _statuses(gates)
    return table.assign(gate=table["spec"].map(statuses)) if "fail" in statuses.values() else table


def _score_digits(table: pd.DataFrame) -> int:
    """Digits after the decimal point in score units: three of the smallest CRPS, two at least."""
    least = float(table["crps"].min())
    return max(2, 2 - math.floor(math.log10(least))) if least > 0.0 else 2


def sentences(
    table: pd.DataFrame,
    gates: Mapping[str, Sequence[Gate]],
    units: Mapping[str, Units],
    *,
    what: str,
) -> Iterator[str]:
    """:attr:`HeldOut.verdict`.

    Parameters
    ----------
    table : pandas.DataFrame
        Best first, at least a model and two-way means.
    gates : mapping of str to sequence of Gate
    units : mapping of str to Units
        Bounds of the tasks.
    what : str
        What a unit is.
    """
    failed = [
        f"{name} (in {counted(n, 'repeat')} of {len(several)})"
        for name, several in gates.items()
        if (n := sum(one.status == "fail" for one in several))
    ]
    if failed:
        yield unreliable(failed)
    best, second = table.iloc[0], table.iloc[1]
    error, digits = float(second["crps_diff_se"]), _score_digits(table)
    lead, lead_error = (number_text(second[name], digits) for name in ("crps_diff", "crps_diff_se"))
    below = f"below that of {second['spec']}"
    if np.isnan(error):
        yield (
            f"No clear winner: {best['spec']} is first, its CRPS {lead} {below}; of one "
            f"left-out {what} there is no standard error."
        )
    elif float(second["crps_diff"]) >= LEAST_RATIO * error > 0.0:
        yield (
            f"{best['spec']} predicts left-out {what}s best: its CRPS is {lead} "
            f"(SE {lead_error}) {below}."
        )
    else:
        yield (
            f"No clear winner: {best['spec']} is first, its CRPS {lead} (SE {lead_error}) "
            f"{below}, less than two standard errors."
        )
    tied = [
        f"{row['spec']} {number_text(row['crps_diff'], digits)} "
        f"(SE {number_text(row['crps_diff_se'], digits)})"
        for row in table.iloc[2:].to_dict("records")
        if row["crps_diff"] < LEAST_RATIO * row["crps_diff_se"]
    ]
    if tied:
        yield f"Not clearly worse than {best['spec']} either: {', '.join(tied)}."
    if best["spec"] == TWO_WAY:
        yield "No model predicts better than two-way means."
    if 1 < best["n_units"] < FEW_UNITS:
        few = counted(int(best["n_units"]), f"left-out {what}")
        yield f"The standard errors are based on only {few} and are rough."
    widths = {
        one.upper - one.lower
        for one in units.values()
        if one.lower is not None and one.upper is not None
    }
    if len(widths) > 1:
        yield (
            "The tasks have different scales: errors of those with wide scales weigh most; "
            "tables/holdout_predictions.csv has every score's own."
        )
