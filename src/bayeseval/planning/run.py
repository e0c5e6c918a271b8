"""Planning the next evaluation: the cheapest design that is precise enough.

The formulas are in :mod:`bayeseval.estimands.planning`; this module knows grids, costs
and targets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np

from bayeseval import names
from bayeseval._arguments import as_number, as_texts
from bayeseval._calls import explained
from bayeseval._text import any_of, counted, grouped
from bayeseval.errors import InputError, argument, did_you_mean
from bayeseval.estimands.arrays import as_ci_prob
from bayeseval.estimands.plan_variances import (
    Facet,
    PlanVariances,
    Study,
    present_study,
    read_plan_variances,
)
from bayeseval.estimands.planning import (
    cheapest_study,
    error_variance,
    reaches_targets,
    study_table,
)
from bayeseval.estimands.read import read_arrays
from bayeseval.fitting.fitted import Fit, check_fit
from bayeseval.fitting.gate import GATE_FAILED, warn_of_gates
from bayeseval.fitting.report.model_tables import shown_exponent
from bayeseval.output.numbers import in_unit, in_units, interval_texts, score_unit, unit_text
from bayeseval.planning.container import (
    FACETS,
    SCORE_COLUMNS,
    Costs,
    Plan,
    check_size,
    sd_digits,
)
from bayeseval.planning.grid import grid_of, read_levels, with_cheapest

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Costs", "Plan", "number_between", "plan", "read_costs"]

# In the order of sentences.
_WORDS = ("languages", "tasks", "prompts", "seeds", "items")


@explained
def plan(
    fit: Fit,
    *,
    target_sd: float | None = None,
    target_probability: float | None = None,
    seeds: Sequence[int] | None = None,
    items: Sequence[float] | None = None,
    languages: Sequence[int] | None = None,
    tasks: Sequence[int] | None = None,
    prompts: Sequence[int] | None = None,
    test_size: float | None = None,
    fixed: str | Sequence[str] = (),
    costs: Costs | None = None,
    cost_seed: float | None = None,
    cost_item: float | None = None,
    cost_language: float | None = None,
    cost_task: float | None = None,
    cost_prompt: float | None = None,
    ci_prob: float = names.CI_PROB,
) -> Plan:
    """Compute how precise other designs would be, and the cheapest that is precise enough.

    Parameters
    ----------
    fit : Fit
        The fit whose variance components are used, draw by draw.
    target_sd : float, optional
        Largest acceptable standard deviation, in score units, of the random error of the
        difference between two models' means; a design reaches it if its posterior mean does.
    target_probability : float, optional
        Smallest acceptable probability that two models of the population are ranked in the right
        order, between 0.5 and 1.
    seeds : sequence of int, optional
        Numbers of seeds per cell to try. By default this and the following are around the present
        numbers.
    items : sequence of float, optional
        Sizes of a test set to try: relative to the present ones, or numbers of items
        when `test_size` is given.
    languages, tasks : sequence of int, optional
        Numbers to try.
    prompts : sequence of int, optional
        Numbers of prompts (or judges) of every task to try.
    test_size : float, optional
        Items in one of the present test sets.
    fixed : str or sequence of str
        ``language``, ``task`` or both: factors whose levels are fixed, so that the conclusion is
        about these levels only.
    costs : Costs, optional
        What evaluating one model costs. Without any cost an answer costs 1.
    cost_seed, cost_item, cost_language, cost_task, cost_prompt : float, optional
        The fields of `costs` one by one, in its place; 0 when left out.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    Plan
        The designs with their precision and cost, and the cheapest that reaches the target.

    Raises
    ------
    InputError
        If a number is invalid, or the fit has no information about what it asks for.

    Warns
    -----
    ConvergenceWarning
        Once, if the convergence gate of the fit failed.

    References
    ----------
    Brennan (2001), Generalizability Theory; arXiv:2509.22612, section 3.

    Examples
    --------
    >>> import bayeseval as be
    >>> plan = be.plan(fit, languages=[3, 6, 12])
    >>> sorted(set(plan.table["languages"]))
    [3.0, 6.0, 12.0]
    """
    check_fit(fit)
    warn_of_gates({"the fit": fit.gate}, stacklevel=3)
    target_sd = number_between("target_sd", target_sd, above=0.0)
    target_probability = number_between(
        "target_probability", target_probability, above=0.5, below=1.0
    )
    test_size = number_between("test_size", test_size, above=0.0)
    ci_prob = as_ci_prob(ci_prob)
    fixed_facets = _facets(fixed)
    costs = read_costs(
        costs,
        seed=cost_seed,
        item=cost_item,
        language=cost_language,
        task=cost_task,
        prompt=cost_prompt,
    )
    variances = read_plan_variances(fit.data, fixed=fixed_facets, seed=int(fit.run["seed"]))
    present = present_study(fit.data, variances)
    asked = dict(zip(FACETS, (seeds, items, languages, tasks, prompts), strict=True))
    levels = read_levels(asked, present, variances, test_size=test_size)
    free = [f for f in ("languages", "tasks") if asked[f] is None and len(levels[f]) > 1]
    levels = with_cheapest(
        levels,
        free,
        variances,
        cost=partial(costs.of, test_size=test_size),
        target_sd=target_sd,
        target_probability=target_probability,
    )
    grid = grid_of(levels)
    studies = [present, *(study for study in grid if not _same(study, present))]
    table = study_table(variances, studies, ci_prob=ci_prob)
    place = list(table.columns).index(FACETS[-1]) + 1
    if test_size is not None:
        table.insert(place, "n_items", table["items"] * test_size)
        place += 1
    table.insert(place, "cost", [costs.of(study, test_size=test_size) for study in studies])
    in_grid = np.array([any(_same(present, s) for s in grid), *([True] * (len(studies) - 1))])
    reaches = reaches_targets(table, target_sd=target_sd, target_probability=target_probability)
    row = cheapest_study(table, reaches & in_grid)
    table = table.assign(
        present=np.arange(len(table)) == 0,
        in_grid=in_grid,
        reaches_target=reaches,
        best=np.arange(len(table)) == (-1 if row is None else row),
    )
    numeric = [*FACETS, *table.columns[place:]]
    if fit.gate.status == "fail":
        table["gate"] = fit.gate.status
    best = (
        None
        if row is None
        else {c: float(table[c].iloc[row]) for c in numeric if table[c].dtype.kind == "f"}
    )
    exponent = shown_exponent(fit.data)
    return Plan(
        table=table,
        best=best,
        sentence=_sentence(
            in_units(table, exponent, SCORE_COLUMNS),
            row,
            None if target_sd is None else in_unit(target_sd, exponent),
            target_probability,
            variances=variances,
            test_size=test_size,
            exponent=exponent,
            tried=_tried(levels, free),
        ),
        notes=(
            *((GATE_FAILED,) if fit.gate.status == "fail" else ()),
            *_incomplete(fit.data),
            *variances.notes,
        ),
        target_sd=target_sd,
        target_probability=target_probability,
        test_size=test_size,
        fit=fit,
    )


def read_costs(costs: Costs | None, **given: float | None) -> Costs:
    """Costs given as one object or field by field; without any, an item costs 1.

    Raises
    ------
    InputError
        If both are given, or a cost is not a number of at least 0.
    """
    if costs is not None:
        if any(value is not None for value in given.values()):
            raise InputError("give either costs or cost_seed, cost_item, ..., not both")
        if not isinstance(costs, Costs):
            raise InputError(
                f"costs must be a Costs, such as Costs(seed=10, item=0.1), got "
                f"{type(costs).__name__}"
            )
        given = asdict(costs)
    known = {
        name: as_number(argument(f"cost_{name}"), value)
        for name, value in given.items()
        if value is not None
    }
    for name, cost in known.items():
        if not (math.isfinite(cost) and cost >= 0.0):
            raise InputError(
                f"{argument(f'cost_{name}')} must be a number of at least 0, got {cost:g}"
            )
        check_size(argument(f"cost_{name}"), cost)
    return Costs(**known) if known else Costs(item=1.0)


def _facets(fixed: str | Sequence[str]) -> tuple[Facet, ...]:
    known: tuple[Facet, ...] = get_args(Facet)
    fixed = as_texts(argument("fixed"), fixed, of="language, task")
    for word in fixed:
        if word not in known:
            raise InputError(
                f"{argument('fixed')} must be language or task, got {word!r}"
                f"{did_you_mean(word, known)}"
            )
    return tuple(facet for facet in known if facet in fixed)


def number_between(
    name: str, value: float | None, *, above: float, below: float = math.inf
) -> float | None:
    """Return an optional number, refused unless it lies between two others."""
    if value is None:
        return None
    value = as_number(argument(name), value)
    if above < value < below:
        return value
    limits = f"above {above:g} and " + ("be finite" if below == math.inf else f"below {below:g}")
    raise InputError(f"{argument(name)} must lie {limits}, got {value:g}")


def _same(one: Study, other: Study) -> bool:
    return bool(np.array_equal(one, other, equal_nan=True))


def _design(row: pd.Series, test_size: float | None) -> str:
    texts = []
    for facet in _WORDS[:-1]:
        if not math.isnan(row[facet]):
            texts.append(f"{row[facet]:g} {facet if row[facet] != 1 else facet[:-1]}")
    if not math.isnan(row["items"]):
        texts.append(
            f"test sets {row['items']:g} times the present size"
            if test_size is None
            else f"{row['items'] * test_size:g} items"
        )
    return ", ".join(texts)


def _precision(row: pd.Series, unit: str, digits: int) -> str:
    """Precision of a design; `digits` of its sd are those of the printed table."""
    alone = row.to_frame().T
    (sd,) = interval_texts(alone, "sd_difference", digits=digits)
    (p,) = interval_texts(alone, "p_correct", digits=3)
    return f"sd of the difference {sd}{unit}, P(right order) {p}"


def _sentence(
    table: pd.DataFrame,
    best: int | None,
    target_sd: float | None,
    target_probability: float | None,
    *,
    variances: PlanVariances,
    test_size: float | None,
    exponent: int,
    tried: str,
) -> str:
    """The answer; table and target are in units of 10^exponent."""
    unit = unit_text(score_unit(None, exponent), before=" ")
    wanted = (
        [] if target_sd is None else [f"an sd of the difference of at most {target_sd:g}{unit}"]
    )
    if target_probability is not None:
        wanted.append(f"a probability of the right order of at least {target_probability:g}")
    limit = _limit(table, variances, exponent)
    digits = sd_digits(table, target_sd, targeted=bool(wanted))
    if not wanted:
        row = table.iloc[0]
        return f"Present design: {_design(row, test_size)}; {_precision(row, unit, digits)}.{limit}"
    goal = " and ".join(wanted)
    if best is not None:
        row = table.iloc[best]
        return (
            f"Cheapest design with {goal}: {_design(row, test_size)}; "
            f"{_precision(row, unit, digits)}; cost {row['cost']:g}.{tried}"
            + (" The present design reaches it, too." if _dearer_present(table, best) else "")
        )
    grid = table[table["in_grid"]]
    row = grid.iloc[int(np.argmin(grid["sd_difference_mean"]))]
    # A single task, and factors that were fixed, stay as they are.
    more = [
        facet
        for facet in _WORDS
        if not math.isnan(row[facet]) and facet[:-1] not in variances.fixed
    ]
    short = []
    if target_sd is not None and row["sd_difference_mean"] > target_sd:
        short.append(f"the sd is {row['sd_difference_mean'] - target_sd:.3g} above its target")
    if target_probability is not None and row["p_correct_mean"] < target_probability:
        missing = target_probability - row["p_correct_mean"]
        short.append(f"the probability is {missing:.3g} below its target")
    return (
        f"No design of the grid reaches {goal}. The most precise one is {_design(row, test_size)}; "
        f"{_precision(row, unit, digits)}: {' and '.join(short)}.{limit}"
        + (
            f" More {any_of(more)} extend the grid ({', '.join(map(argument, more))})."
            if more
            else ""
        )
    )


def _tried(levels: Mapping[str, Sequence[float]], free: Sequence[str]) -> str:
    """Between which numbers the cheapest design was looked for."""
    ranges = [f"{levels[facet][0]:g} to {levels[facet][-1]:g} {facet}" for facet in free]
    return f" Designs with {' and '.join(ranges)} were compared." if ranges else ""


def _dearer_present(table: pd.DataFrame, best: int) -> bool:
    """Whether the present design, the first row, reaches the targets at a higher cost."""
    return best != 0 and bool(table["reaches_target"].iloc[0])


def _incomplete(tree: xr.DataTree) -> list[str]:
    """That the present design is taken as complete, where the table is not."""
    arrays = read_arrays(tree)
    factors = names.MODEL, names.LANGUAGE, names.TASK
    models, languages, tasks = (len(arrays.levels[factor]) for factor in factors)
    n_cells = len({*zip(*(arrays.index[factor].tolist() for factor in factors), strict=True)})
    if n_cells == models * languages * tasks:
        return []
    return [
        f"present: as if all {counted(models, 'model')} had a score in all "
        f"{counted(languages * tasks, 'pair')} of a language and a task; the table has "
        f"{grouped(n_cells)} of these {grouped(models * languages * tasks)} cells"
    ]


def _limit(table: pd.DataFrame, variances: PlanVariances, exponent: int) -> str:
    """The sd of a difference that unlimited seeds, items and prompts would leave."""
    known = [
        word
        for word, values in (
            ("seeds", variances.seed),
            ("items", variances.test_set),
            ("prompts", variances.prompt),
        )
        if values is not None
    ]
    if not known:
        return ""
    languages, tasks = (float(table[facet].iloc[0]) for facet in ("languages", "tasks"))
    endless = Study(math.inf, math.inf, languages, tasks, math.inf)
    left = np.sqrt(2.0 * error_variance(variances, endless).mean(axis=1)).mean()
    return (
        f" With the present numbers of languages and tasks, unlimited "
        f"{any_of(known, 'and')} would leave an sd of "
        f"{in_unit(left, exponent):.3g}{unit_text(score_unit(None, exponent), before=' ')}."
    )
