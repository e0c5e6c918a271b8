"""`bayeseval.next_cells`: the cells whose measurement makes an answer most precise, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_text
from bayeseval._calls import explained
from bayeseval._text import counted, shorten
from bayeseval.errors import InputError, argument, did_you_mean, wording
from bayeseval.estimands.asked import (
    Asked,
    asked_difference,
    asked_potentials,
    asked_ranking,
    asked_table,
)
from bayeseval.estimands.quantities import quantity_draws
from bayeseval.fitting.covariates import CovariateSource
from bayeseval.fitting.fitted import Fit, check_fit, check_posterior
from bayeseval.fitting.gate import GATE_FAILED, warn_of_gates
from bayeseval.fitting.predictions import CellSource
from bayeseval.languages.matching import with_names
from bayeseval.output.language_names import add_language_names
from bayeseval.planning.candidates import Candidates, read_candidates
from bayeseval.planning.choosing import LISTED, MOST, Chosen, Limits, choose
from bayeseval.planning.container import Costs
from bayeseval.planning.next_container import NextCells
from bayeseval.planning.run import number_between, read_costs

__all__ = ["NextCells", "next_cells"]

TARGETS: Final = ("ranking", "potential", "table")


@explained
def next_cells(
    fit: Fit,
    *,
    target: str = "ranking",
    cells: CellSource | None = None,
    languages: str | Sequence[str] | None = None,
    covariate: CovariateSource = None,
    budget: float | None = None,
    target_sd: float | None = None,
    target_probability: float | None = None,
    cost: CellSource | None = None,
    test_size: float | None = None,
    costs: Costs | None = None,
    cost_seed: float | None = None,
    cost_item: float | None = None,
    cost_language: float | None = None,
) -> NextCells:
    """Choose the cells to measure next: those that reduce a variance most per unit of cost.

    Cells are chosen one after the other, each given that those before it are measured.

    Parameters
    ----------
    fit : Fit
        The fit whose posterior is used.
    target : str
        What is to become precise: ``ranking`` (differences of all pairs of models in the score that
        ranks them), ``potential`` (potentials of all languages), ``table`` (expected scores of
        every model on the language-task pairs of the table) or ``"A > B"`` (the difference of two
        models). Of several quantities the mean variance is reduced.
    cells : DataFrame, str or Path, optional
        Cells that can be measured, as :meth:`Fit.predict` takes them. By default every cell without
        a record whose language and task some model was tested on.
    languages : str or sequence of str, optional
        Languages without records that can be measured too, on every task; in one text, separated
        by commas.
    covariate : Covariate, sequence of Covariate, str or Path, optional
        Values of these languages; when left out, those that the fit was made with.
    budget : float, optional
        Largest sum of costs. Without a budget and a target the first 20 cells are listed.
    target_sd : float, optional
        Stop when the posterior standard deviation, in score units, of what is asked is at most
        this: of the difference of two models, of a language's potential or of an expected score
        (root mean square).
    target_probability : float, optional
        Stop when two models will be ranked in the right order with at least this probability,
        between 0.5 and 1; for models only, mean over their pairs.
    cost : DataFrame, str or Path, optional
        What a cell costs: a table with the column ``cost`` and one or more of ``model``,
        ``language`` and ``task``. By default the cost of an item times `test_size`.
    test_size : float, optional
        Items in a test set.
    costs : Costs, optional
        As for :func:`bayeseval.plan`, without ``task`` and ``prompt``. ``language`` is paid once
        for a language without records, ``seed`` once for a model on a task where it has no
        records. Without any cost a cell costs 1.
    cost_seed, cost_item, cost_language : float, optional
        The fields of `costs` one by one, in its place.

    Returns
    -------
    NextCells
        The cells in their order, with the gain of each and of the first ones together.

    Raises
    ------
    InputError
        If a target, a label or a number is not allowed, no cell is left, or the fit is a point
        estimate.

    Warns
    -----
    ConvergenceWarning
        Once, if the convergence gate of the fit failed.

    Notes
    -----
    Gains are expected ones: the fall of a variance does not depend on the scores that will be
    measured if the effects are jointly normal, as they are given the standard deviations under a
    normal likelihood. Covariances are those of the posterior draws, so the uncertainty of the
    standard deviations is included; under other links expected scores are replaced by their
    tangents. Scores that will be measured also change the standard deviations, which is left out.

    References
    ----------
    Krause, Singh and Guestrin (2008), Journal of Machine Learning Research 9, 235-284.

    Examples
    --------
    >>> import bayeseval as be
    >>> chosen = be.next_cells(fit, target="ranking", budget=3)
    >>> chosen.table[["order", "model", "language", "cost"]].shape
    (3, 4)
    """
    check_fit(fit)
    warn_of_gates({"the fit": fit.gate}, stacklevel=3)
    check_posterior(str(fit.run["engine"]), "next_cells")
    pair = _target(target, fit)
    limits = Limits(
        number_between("budget", budget, above=0.0),
        number_between("target_sd", target_sd, above=0.0),
        number_between("target_probability", target_probability, above=0.5, below=1.0),
    )
    if limits.probability is not None and target in TARGETS[1:]:
        raise InputError(
            f"{argument('target_probability')} is about the order of models, and {target} has "
            f"none; use {argument('target_sd')}"
        )
    given = read_costs(costs, seed=cost_seed, item=cost_item, language=cost_language)
    if costs is None and cost_item is None:
        # A cell costs 1 where nothing says otherwise.
        given = replace(given, item=1.0 if cost is None else 0.0)
    _check_costs(cost, given)
    candidates = read_candidates(
        fit,
        cells,
        languages=languages,
        covariate=covariate,
        cost=cost,
        costs=given,
        test_size=number_between("test_size", test_size, above=0.0),
    )
    asked = _asked(fit, candidates, target, pair)
    chosen = choose(candidates, asked, limits)
    table = _table(fit, candidates, chosen, limits)
    notes = [*candidates.notes, *_notes(asked, limits, len(chosen.order))]
    return NextCells(
        table=table,
        comparison=chosen.comparison,
        target=" > ".join(pair) if pair else target,
        sd_now=float(chosen.sd[0]),
        p_now=float(chosen.p[0]),
        notes=((GATE_FAILED,) if fit.gate.status == "fail" else ()) + tuple(notes),
        n_cells=candidates.n,
        target_sd=limits.sd,
        target_probability=limits.probability,
        budget=limits.budget,
        fit=fit,
    )


def _target(target: object, fit: Fit) -> tuple[str, str] | None:
    """Check the target; the two models of a difference, None for other targets."""
    name = wording("target", "--for")
    # What is allowed says more than that a text is empty.
    text = target if isinstance(target, str) else as_text(name, target)
    models = [str(label) for label in fit.data["posterior"].coords[names.MODEL].to_numpy()]
    if text in TARGETS:
        if text == "ranking" and len(models) < 2:
            raise InputError("a ranking needs two models, and the table of the fit has one")
        return None
    parts = text.split(">")
    splits = [
        (">".join(parts[:i]).strip(), ">".join(parts[i:]).strip()) for i in range(1, len(parts))
    ]
    known = [split for split in splits if split[0] in models and split[1] in models]
    if known and known[0][0] != known[0][1]:
        return known[0]
    if len(splits) == 1:
        unknown = next((label for label in splits[0] if label not in models), None)
        if unknown is not None:
            raise InputError(
                f"{name}: model {unknown!r} is not in the table of the fit"
                f"{did_you_mean(unknown, models)} (models: {shorten(models)})"
            )
    raise InputError(
        f"{name} must be {', '.join(TARGETS)} or 'A > B' with two models of the table, got "
        f"{text!r}{did_you_mean(text, TARGETS)}"
    )


def _check_costs(cost: CellSource | None, costs: Costs) -> None:
    item = argument("cost_item")
    unused = next((name for name in ("task", "prompt") if getattr(costs, name)), None)
    if unused is not None:
        raise InputError(
            f"costs: {unused} is {getattr(costs, unused):g}, but cells to measure are on tasks and "
            f"prompts that the table has; leave {unused} out, or give costs of cells with "
            f"{argument('cost')}"
        )
    if cost is not None and costs.item:
        raise InputError(
            f"{argument('cost')} and {item} both say what a cell costs; leave out one of them"
        )
    if cost is None and not costs.item:
        raise InputError(f"every cell must cost something: set {item} or {argument('cost')}")


def _asked(fit: Fit, candidates: Candidates, target: str, pair: tuple[str, str] | None) -> Asked:
    effects = candidates.effects
    if target == "potential":
        return asked_potentials(effects)
    if target == "table":
        arrays = effects.arrays
        shape = (len(arrays.levels[names.LANGUAGE]), len(arrays.levels[names.TASK]))
        is_asked = np.zeros(shape, dtype=np.bool_)
        is_asked[arrays.pairs.language, arrays.pairs.task] = True
        is_asked[candidates.place[names.LANGUAGE], candidates.place[names.TASK]] = True
        return asked_table(effects, is_asked)
    score = quantity_draws(fit.data, names.STANDARDISED_SCORE).mean(axis=0)
    if pair is None:
        return asked_ranking(effects, score)
    models = effects.arrays.levels[names.MODEL]
    return asked_difference(effects, score, models.index(pair[0]), models.index(pair[1]))


def _table(fit: Fit, candidates: Candidates, chosen: Chosen, limits: Limits) -> pd.DataFrame:
    """One row per chosen cell."""
    order, sd, p = chosen.order, chosen.sd, chosen.p
    place = {factor: candidates.place[factor][order] for factor in names.FACTORS}
    levels = candidates.effects.arrays.levels
    model, language, task = (place[f] for f in (names.MODEL, names.LANGUAGE, names.TASK))
    columns: dict[str, object] = {"order": np.arange(1, len(order) + 1)}
    for factor in (names.MODEL, names.LANGUAGE, names.TASK):
        columns[factor] = np.array(levels[factor], dtype=object)[place[factor]]
    columns |= {
        "expected": candidates.effects.scores(model, language, task),
        "cost": chosen.cost,
        "cost_together": np.cumsum(chosen.cost),
        "gain_alone": chosen.alone,
        "gain": sd[:-1] - sd[1:],
        "gain_together": sd[0] - sd[1:],
        "sd_target": sd[1:],
    }
    if np.isfinite(p).all():
        columns["p_correct"] = p[1:]
    columns["reaches_target"] = limits.reached(sd[1:], p[1:])
    table = pd.DataFrame(columns)
    known = with_names(fit.run.get("language_names") or {}, table[names.LANGUAGE])
    table = add_language_names(table, known, after=names.LANGUAGE)
    if fit.gate.status == "fail":
        table["gate"] = fit.gate.status
    return table


def _notes(asked: Asked, limits: Limits, n_cells: int) -> list[str]:
    notes = []
    if asked.n_left_out:
        notes.append(
            f"the table is represented by {counted(asked.rows.shape[0], 'expected score')}, drawn "
            f"at random from {asked.rows.shape[0] + asked.n_left_out}"
        )
    if limits.most == LISTED and n_cells == LISTED:
        ends = wording("budget or target_sd", "--budget or --target-sd")
        notes.append(f"the first {LISTED} cells are listed; {ends} ends the list elsewhere")
    elif n_cells == MOST:
        notes.append(f"the list ends at {MOST} cells")
    return notes
