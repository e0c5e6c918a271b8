"""`Costs` of an evaluation, and `Plan`: designs with their precision and cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from bayeseval.errors import InputError
from bayeseval.estimands.plan_variances import Study
from bayeseval.fitting.addition import Addition
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.report import run_data, run_title
from bayeseval.output.numbers import column_digits, in_unit, in_units, score_unit

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


__all__ = [
    "FACETS",
    "LEAST_COST",
    "MOST_COST",
    "SCORE_COLUMNS",
    "Costs",
    "Plan",
    "check_size",
    "sd_digits",
]

#: What a design has a number of.
FACETS: Final = ("seeds", "items", "languages", "tasks", "prompts")
#: Columns of a plan's table in score units.
SCORE_COLUMNS: Final = tuple(f"sd_difference_{end}" for end in ("mean", "lower", "upper"))
#: Sums and ratios of costs beyond are no numbers.
LEAST_COST: Final = 1e-12
MOST_COST: Final = 1e12
# Rows that the terminal shows besides the present design.
_SHOWN = 6


def check_size(name: str, cost: float) -> None:
    """Refuse a cost that sums and ratios lose, unless it is zero: InputError."""
    if cost and not LEAST_COST <= cost <= MOST_COST:
        raise InputError(
            f"{name} must be 0 or lie between {LEAST_COST:g} and {MOST_COST:g}, got {cost:g}; "
            "state costs in another unit"
        )


@dataclass(frozen=True, slots=True)
class Costs:
    """What evaluating one model costs, in any unit of money or time.

    Attributes
    ----------
    seed : float
        One seed on one task: a training run, which serves all languages.
    item : float
        One answer: one item, in one language, by one seed, with one prompt. Without a test
        size an item is a whole test set of the present size.
    language, task : float
        Setting up a language, or a task, once.
    prompt : float
        One prompt of one task, once.

    Raises
    ------
    InputError
        If a cost is not a number of at least 0.

    Examples
    --------
    >>> import bayeseval as be
    >>> costs = be.Costs(seed=10.0, item=0.1)
    >>> float(be.plan(fit, languages=[6], costs=costs).table["cost"].iloc[0])
    31.8
    """

    seed: float = 0.0
    item: float = 0.0
    language: float = 0.0
    task: float = 0.0
    prompt: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (isinstance(value, Real) and math.isfinite(value) and float(value) >= 0.0):
                raise InputError(
                    f"{field.name} of Costs must be a number of at least 0, got {value!r}"
                )
            check_size(f"{field.name} of Costs", float(value))

    def of(self, study: Study, *, test_size: float | None = None) -> float:
        """Cost of a design.

        It is languages * language + tasks * task + tasks * prompts * prompt
        + tasks * seeds * seed + languages * tasks * prompts * seeds * items * item.

        Parameters
        ----------
        study : Study
            A number that it does not state counts as 1.
        test_size : float, optional
            Items in a test set of the present size.

        Examples
        --------
        >>> import bayeseval as be
        >>> from bayeseval.estimands.plan_variances import Study
        >>> study = Study(seeds=2.0, items=1.0, languages=10.0, tasks=3.0)
        >>> be.Costs(seed=10.0, item=0.5).of(study)
        90.0
        """
        seeds = 1.0 if math.isnan(study.seeds) else study.seeds
        prompts = 1.0 if math.isnan(study.prompts) else study.prompts
        items = (1.0 if math.isnan(study.items) else study.items) * (test_size or 1.0)
        return (
            study.languages * self.language
            + study.tasks * (self.task + prompts * self.prompt + seeds * self.seed)
            + study.languages * study.tasks * prompts * seeds * items * self.item
        )


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Addition):
    """A decision study.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per design, the present one first: ``seeds``, ``items`` (relative to the
        present test sets), ``languages``, ``tasks``, ``prompts``, empty where the fit cannot tell;
        ``n_items`` with a test size; ``cost``; ``sd_difference_*`` (score units),
        ``p_correct_*``, ``p_correct_pairs_*``, ``generalisability_*``,
        ``dependability_*``; ``present``, ``in_grid``, ``reaches_target``, ``best``;
        ``ci_kind``, ``ci_prob``.
    best : dict or None
        The row of the cheapest design of the grid that reaches the targets; None
        without a target, or when no design reaches it.
    sentence : str
        The answer in words.
    notes : tuple of str
        What the fit cannot tell.
    target_sd, target_probability : float or None
    test_size : float or None
    fit : Fit
    """

    table: pd.DataFrame
    best: dict[str, float] | None
    sentence: str
    notes: tuple[str, ...]
    target_sd: float | None
    target_probability: float | None
    test_size: float | None
    fit: Fit
    _table_names: ClassVar = ("plan",)
    _figure_names: ClassVar = ("plan",)

    @property
    def _best_row(self) -> int | None:
        rows = np.flatnonzero(self.table["best"])
        return int(rows[0]) if len(rows) else None

    @property
    def _target(self) -> float | None:
        """The target sd in the unit that scores are shown in."""
        return None if self.target_sd is None else in_unit(self.target_sd, self._exponent)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The table of designs as ``plan``, with the gate of the fit."""
        return {"plan": self.table.assign(gate=self.fit.gate.status)}

    def plot(self, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw the sd of a difference over the facets that vary most.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> figure = plan.plot(figsize=(6.0, 5.0))
        """
        from bayeseval.planning.report import plan_figure

        return plan_figure(
            in_units(self.table, self._exponent, SCORE_COLUMNS),
            best=self._best_row,
            target_sd=self._target,
            subtitle=run_title(self.fit.run),
            data=run_data(self.fit.run),
            gate_status=self.fit.gate.status,
            unit=score_unit(self.fit.run.get("bounds"), self._exponent),
            ax=ax,
            figsize=figsize,
        )

    def figures(self) -> dict[str, Figure]:
        """Draw the figure of the folder.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``plan``.

        Examples
        --------
        >>> list(plan.figures())
        ['plan']
        """
        return {"plan": self.plot()}

    def _main_result(self) -> str:
        return self.sentence.rstrip(".")

    def _main(self) -> pd.DataFrame:
        rows = self.table.loc[_shown_rows(self.table, targeted=_targeted(self))]
        known = [facet for facet in FACETS if rows[facet].notna().all()]
        ends = [f"sd_difference_{end}" for end in ("mean", "lower", "upper")]
        shown = [*known, "cost", *ends, "p_correct_mean", "best", "gate"]
        return rows[[name for name in shown if name in rows]]

    def summary(self) -> str:
        """The present design, the designs that answer the question, and the answer.

        Returns
        -------
        str
            What ``print`` shows.

        Examples
        --------
        >>> plan.summary().splitlines()[0]
        'table, model additive, engine marginal'
        """
        from bayeseval.planning.report import format_plan

        table = in_units(self.table, self._exponent, SCORE_COLUMNS)
        return format_plan(
            table,
            rows=_shown_rows(self.table, targeted=_targeted(self)),
            digits=sd_digits(table, self._target, targeted=_targeted(self)),
            sentence=self.sentence,
            notes=self.notes,
            heading=run_title(self.fit.run),
            targeted=_targeted(self),
            test_size=self.test_size,
            unit=score_unit(self.fit.run.get("bounds"), self._exponent),
        )


def _targeted(plan: Plan) -> bool:
    return plan.target_sd is not None or plan.target_probability is not None


def sd_digits(table: pd.DataFrame, target_sd: float | None, *, targeted: bool) -> int:
    """Digits of the sds in the printed table and in the answer below it.

    Parameters
    ----------
    table : pandas.DataFrame
        Of a plan, in the unit that scores are shown in.
    target_sd : float or None
        In the same unit.
    targeted : bool
        Whether there is any target.
    """
    rows = table.loc[_shown_rows(table, targeted=targeted)]
    mean, lower, upper = (rows[name].to_numpy(dtype=float) for name in SCORE_COLUMNS)
    digits = column_digits(mean, lower, upper)
    if target_sd is None:
        return digits
    # A design beside the target must not look as if it met it exactly.
    off = np.abs(mean - target_sd)
    off = off[off > 1e-3 * target_sd]
    nearest = float(off.min()) if len(off) else np.inf
    return max(digits, math.ceil(-math.log10(2.0 * nearest))) if nearest < np.inf else digits


def _shown_rows(table: pd.DataFrame, *, targeted: bool) -> list[int]:
    """Present design first, then what answers the question."""
    grid = table[table["in_grid"] & ~table["present"]]
    if targeted and table["reaches_target"].any():
        part = grid[grid["reaches_target"]].sort_values(["cost", "sd_difference_mean"])
    elif targeted:
        part = grid.sort_values(["sd_difference_mean", "cost"])
    else:
        # One facet at a time.
        present = table.loc[0, list(FACETS)].to_numpy(dtype=float)
        values = grid[list(FACETS)].to_numpy(dtype=float)
        known = ~np.isnan(present)
        part = grid[(values[:, known] != present[known]).sum(axis=1) == 1]
        return [0, *part.index]
    return [0, *part.index[:_SHOWN]]
