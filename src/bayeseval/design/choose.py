"""Choose the model of ``auto``: the fullest that a table identifies, by counts of its levels.

Records beyond the cells of an interaction separate it from the residual, and degrees of
freedom beyond the rank of the terms are left for the residual. Both are counts of a table's
labels, so the choice does not depend on the machine. Ranks are bounds from connected
components, exact on complete tables; no matrix is factorised. Finally the design is built
as a trial, for problems that counts do not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bayeseval import names
from bayeseval._text import counted, grouped
from bayeseval._typing import Index
from bayeseval.design.build import build_design
from bayeseval.design.container import Design
from bayeseval.design.exact import ExactTableError
from bayeseval.design.levels import LevelTable, atoms_of, factor_operations
from bayeseval.errors import DesignError
from bayeseval.records import Records, average_over_others, reduce_replicates
from bayeseval.spec import AUTO, CovariateTerm, ModelSpec, load_spec

__all__ = ["LEAST_DF", "MOST_OPERATIONS", "Chosen", "choose_model", "identified_interactions"]


#: Least number of records beyond the cells of an interaction, and of residual degrees of freedom.
LEAST_DF: Final = 10
#: Most floating-point operations of one marginal likelihood. MEGA under `dataset`, with 856
#: coefficients beside the eliminated term, takes 2.2e8; its fit takes about 25 s on one core.
MOST_OPERATIONS: Final = 1e9

# Interactions of the fullest model, `dataset`.
_INTERACTIONS: Final = ("language:task", "model:task", "model:language", names.SHARED_BY_METRICS)
_RESIDUAL_BY: Final = "residual_by"
# Where scores share test items, effects of the items join every model, at these levels.
_TERMS_OF_ITEMS: Final = (names.TASK, "language:task", "model:task")
# Shipped models that the choice can coincide with; it then has their name.
_SHIPPED: Final = ("additive", "interaction", "crossed", "dataset", "replicates", "mexa")
# The order in which ranks are added up: each term overlaps with earlier ones in at most two
# sets of factors of which neither contains the other.
_RANK_ORDER: Final = (
    names.SHARED_BY_METRICS,
    "model:language",
    "language:task",
    "model:task",
    *names.FACTORS,
)


_DF_ARE: Final = ("degree of freedom is", "degrees of freedom are")


@dataclass(frozen=True)
class Chosen:
    """A spec, and why ``auto`` chose it.

    Attributes
    ----------
    spec : ModelSpec
        The model to fit.
    reasons : tuple of str
        Sentences that explain the choice of ``auto``; empty for any other model.
    design : Design or None
        Design of the spec on the table, without covariates, where the choice built it.
    """

    spec: ModelSpec
    reasons: tuple[str, ...] = ()
    design: Design | None = field(default=None, compare=False, repr=False)


def choose_model(
    source: str | Path | ModelSpec | Mapping[str, Any],
    records: Records,
    *,
    covariates: Sequence[str] = (),
    engine: str = "auto",
) -> Chosen:
    """Load a spec; ``auto`` becomes the fullest model that the table identifies.

    Parameters
    ----------
    source : str, Path, ModelSpec or mapping
        ``auto``, or what :func:`bayeseval.spec.load_spec` takes. Interactions that are
        ``auto`` become those of the default model.
    records : Records
        The table.
    covariates : sequence of str
        Names of covariates, which ``auto`` adds to the model.
    engine : str
        With ``ml``, which implements the published procedure, ``auto`` is ``paper``.

    Returns
    -------
    Chosen
        The name of its spec is never ``auto``.

    Raises
    ------
    DesignError
        If one metric of a dataset is computed from another.

    Notes
    -----
    With N records (cells of model, language and task), an interaction enters when

    - its factors have two levels or more, and it has more cells than the rank of its
      lower-order terms, so that it is not equivalent to them;
    - N minus the number of its cells is at least :data:`LEAST_DF`: so many contrasts
      within its cells separate it from the residual. For ``model:language:dataset`` these
      are further metrics of the same outputs.

    Then terms are dropped, ``model:language:dataset`` before any other, while

    - N minus the rank of all terms is below :data:`LEAST_DF`: the one with the most cells;
    - one marginal likelihood takes more than :data:`MOST_OPERATIONS`: the one whose removal
      leaves the fewest operations.

    Ties are resolved in the order ``language:task``, ``model:task``, ``model:language``, as
    the evenness of models over languages depends on the last. Finally, if
    :func:`bayeseval.design.build_design` refuses the model on this table, though not the
    model without interactions, these are dropped in the same order.

    On a table of one task ``model:language`` has one record in each cell and cannot be
    separated from the residual, unless the errors of all scores are known (``se``, ``n`` of
    shares, or bootstrapped test sets). Then it enters if the main effects leave at least
    :data:`LEAST_DF` degrees of freedom, and replaces residual sds by model.
    """
    # A source of another type, such as a data frame, may not be comparable with a string.
    if not (isinstance(source, str) and source == AUTO):
        spec = load_spec(dict(source) if isinstance(source, Mapping) else source)
        return Chosen(_with_interactions(spec, records))
    if engine == "ml":
        why = "model auto -> paper: the engine ml implements the published procedure for this model"
        return Chosen(load_spec("paper"), (why,))
    counts = _by_counts(_fullest(records), n_slopes=len(covariates))
    choice, design = _drop_refused(counts, records)
    fuller = _with_known_errors(choice, n_slopes=len(covariates))
    if fuller is not None:
        trial = _trial_design(records, fuller)
        if isinstance(trial, Design):
            left = _df_beyond_errors(fuller)
            if left >= LEAST_DF:
                choice, design = fuller, trial
            else:
                reason = (
                    "all errors are known, but with its"
                    f" {grouped(fuller.table.n_records)} cells {counted(left, *_DF_ARE)} left for"
                    f" variation beyond them, fewer than {LEAST_DF}; more models or languages add"
                    " to them"
                )
                choice = choice.without(fuller.terms[0], reason)
    spec = choice.spec(covariates)
    return Chosen(spec, _sentences(spec, choice), None if covariates else design)


def _with_interactions(spec: ModelSpec, records: Records) -> ModelSpec:
    """The spec, with the interactions of the default model in place of ``auto``."""
    if spec.interactions != (AUTO,):
        return spec
    names_of_slopes = [covariate.name for covariate in spec.covariates]
    averaged, _ = average_over_others(records, spec.sources)
    default = choose_model(AUTO, averaged, covariates=names_of_slopes).spec
    return load_spec({**spec.to_dict(), "interactions": list(default.interactions)})


def identified_interactions(
    index: Mapping[str, Index], sizes: Mapping[str, int]
) -> tuple[str, ...]:
    """Interactions of the fullest model that a table identifies, whatever they cost.

    Parameters
    ----------
    index : mapping of str to ndarray of int, shape (n_records,)
        Level of every record under each factor; without ``dataset`` every task counts as
        one dataset.
    sizes : mapping of str to int
        Number of levels of each factor.
    """
    base, number = dict(index), dict(sizes)
    if names.DATASET not in base:
        base[names.DATASET], number[names.DATASET] = index[names.TASK], sizes[names.TASK]
    return _identified(_Choice(LevelTable(base, number), _INTERACTIONS)).terms


@dataclass(frozen=True, eq=False)
class _Choice:
    """A candidate model, and why parts of the fullest model were dropped from it.

    `of_items` are the terms at whose levels shared test items have effects.
    """

    table: LevelTable
    terms: tuple[str, ...]
    residual_by: names.Factor | None = None
    errors_known: bool = False
    of_items: tuple[str, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)

    def without(self, part: str, reason: str) -> _Choice:
        return replace(
            self,
            terms=tuple(term for term in self.terms if term != part),
            residual_by=None if part == _RESIDUAL_BY else self.residual_by,
            dropped={**self.dropped, part: reason},
        )

    def spec(self, covariates: Sequence[str] = ()) -> ModelSpec:
        return _with_name(
            ModelSpec(
                name="unnamed",
                interactions=self.terms,
                covariates=tuple(CovariateTerm(name=name) for name in covariates),
                residual_by=self.residual_by,
            )
        )


def _fullest(records: Records) -> _Choice:
    """The fullest model, whether the table identifies it or not."""
    cells = reduce_replicates(records)
    return _Choice(
        LevelTable.from_records(records, {factor: cells.codes[factor] for factor in names.FACTORS}),
        _INTERACTIONS,
        names.MODEL if cells.has_replicates else None,
        of_items=_TERMS_OF_ITEMS if "item" in records.replicate_columns else (),
    )


def _by_counts(choice: _Choice, *, n_slopes: int) -> _Choice:
    """The candidate without the parts that the counts of the table rule out."""
    return _drop_for_cost(_identified(choice), n_slopes=n_slopes)


def _identified(choice: _Choice) -> _Choice:
    """The candidate without interactions that the table does not identify."""
    return _drop_for_residual_df(_drop_unreplicated(choice))


def _drop_unreplicated(choice: _Choice) -> _Choice:
    """Drop interactions that have too few records beyond their cells."""
    for term in choice.terms:
        reason = _why_not_identified(choice.table, term)
        if reason is not None:
            choice = choice.without(term, reason)
    return choice


def _why_not_identified(table: LevelTable, term: str) -> str | None:
    """Why the table cannot separate an interaction from the residual; None if it can."""
    for factor in term.split(":"):
        if table.size(factor) < 2:
            return f"there is one {factor}"
    if term == names.SHARED_BY_METRICS and table.size(names.DATASET) == table.size(names.TASK):
        return "no dataset has two tasks"
    n, cells = table.n_records, table.of_term(term).n
    if n - cells < LEAST_DF:
        return (
            f"{grouped(n - cells)} of {grouped(n)} records repeat one of its {grouped(cells)} "
            f"cells, and at least {LEAST_DF} are needed to separate it from the residual"
        )
    if cells <= table.rank(_lower_order_terms(term)):
        return f"its {grouped(cells)} cells do not exceed the rank of its lower-order terms"
    return None


def _lower_order_terms(term: str) -> list[frozenset[str]]:
    """The lower-order terms that an interaction contains."""
    if term == names.SHARED_BY_METRICS:
        return [atoms_of("model:language"), atoms_of(names.DATASET)]
    return [atoms_of(factor) for factor in term.split(":")]


def _drop_for_residual_df(choice: _Choice) -> _Choice:
    """Drop interactions until enough degrees of freedom are left for the residual."""
    while choice.terms and (df := _residual_df(choice)) < LEAST_DF:
        term = _first_to_drop({term: -choice.table.of_term(term).n for term in choice.terms})
        choice = choice.without(
            term,
            f"with its {grouped(choice.table.of_term(term).n)} cells {max(df, 0)} degrees of "
            f"freedom would be left for the residual, fewer than {LEAST_DF}",
        )
    return choice


def _residual_df(choice: _Choice) -> int:
    """Records minus the rank of all terms, or minus a bound of it; exact on complete tables."""
    table, total, earlier = choice.table, 0, list[frozenset[str]]()
    for term in _RANK_ORDER:
        if term not in (*choice.terms, *names.FACTORS):
            continue
        factors = atoms_of(term)
        shared = {factors & other for other in earlier} - {frozenset()}
        overlap = [part for part in shared if not any(part < other for other in shared)]
        total += table.levels(factors).n - (table.rank(overlap) if earlier else 0)
        earlier.append(factors)
    return table.n_records - total


def _first_to_drop(by_term: Mapping[str, float]) -> str:
    """The term to drop: the three-way interaction, or else the one with the least number."""
    return (
        names.SHARED_BY_METRICS
        if names.SHARED_BY_METRICS in by_term
        else min(by_term, key=by_term.__getitem__)
    )


def _drop_for_cost(choice: _Choice, *, n_slopes: int) -> _Choice:
    """Drop interactions until one marginal likelihood takes few enough operations."""
    while choice.terms and (operations := _operations(choice, n_slopes)) > MOST_OPERATIONS:
        term = _first_to_drop(
            {term: _operations(choice.without(term, ""), n_slopes) for term in choice.terms}
        )
        choice = choice.without(
            term,
            f"with its {grouped(choice.table.of_term(term).n)} cells one marginal likelihood would "
            f"take {operations:.2g} operations, more than {MOST_OPERATIONS:.0e}",
        )
    return choice


def _operations(choice: _Choice, n_slopes: int) -> float:
    """Operations of one marginal likelihood, of the elimination that ``marginal`` chooses.

    It eliminates one term, and then possibly all others that are nested in the levels of one of
    its factors. The block of the first term is diagonal: its Schur complement costs, for each of
    its levels, the square of the number of columns that are non-zero there, which is per term at
    most the number of records of the level.
    """
    table = choice.table
    terms = (*names.FACTORS, *choice.terms, *choice.of_items)
    # Effects of items have the levels of terms, beside which they are terms of their own.
    factored, eliminated = min(
        (_factor_operations(table, terms, position, factor, n_slopes=n_slopes), position)
        for position, factor in _eliminations(terms)
    )
    records = np.bincount(table.of_term(terms[eliminated]).index)
    meeting = np.full(len(records), 1.0 + n_slopes)
    for term in terms[:eliminated] + terms[eliminated + 1 :]:
        meeting += np.minimum(records, table.of_term(term).n)
    return factored + float((meeting**2).sum())


def _eliminations(terms: Sequence[str]) -> Iterator[tuple[int, str | None]]:
    """Positions of terms that can be eliminated first, and factors in which others are nested."""
    for position, term in enumerate(terms):
        yield position, None
        yield from ((position, factor) for factor in term.split(":") if factor in names.FACTORS)


def _factor_operations(
    table: LevelTable, terms: Sequence[str], eliminated: int, factor: str | None, *, n_slopes: int
) -> float:
    """Operations of the factor that is left after an elimination."""
    n_core, sizes = 1 + n_slopes, np.zeros(0 if factor is None else table.size(factor))
    for position, term in enumerate(terms):
        if position == eliminated:
            continue
        if factor in term.split(":"):
            sizes = sizes + table.levels_by_member(term, factor)
        else:
            n_core += table.of_term(term).n
    return factor_operations(n_core, sizes)


def _drop_refused(choice: _Choice, records: Records) -> tuple[_Choice, Design | None]:
    """Drop parts until the design can be built; also return this design, where it was built.

    Without interactions if even the additive model is refused. Counts do not show scores that
    the terms reproduce exactly. Where a model with terms of datasets does, one metric is
    computed from another, and a model without these terms would count both as evidence: such
    a table is refused.
    """
    additive = _Choice(choice.table, (), of_items=choice.of_items)
    while choice.terms or choice.residual_by:
        trial = _trial_design(records, choice)
        if isinstance(trial, Design):
            return choice, trial
        if isinstance(_trial_design(records, additive), DesignError):
            return additive, None
        if isinstance(trial, ExactTableError) and names.SHARED_BY_METRICS in choice.terms:
            raise trial
        reason = str(trial).removeprefix(f"{records.name}: ")
        if choice.residual_by is not None:
            one_residual = choice.without(_RESIDUAL_BY, reason)
            with_one = _trial_design(records, one_residual)
            if isinstance(with_one, Design):
                return one_residual, with_one
        cells = {term: -choice.table.of_term(term).n for term in choice.terms}
        choice = choice.without(_first_to_drop(cells) if cells else _RESIDUAL_BY, reason)
    return choice, None


def _with_known_errors(choice: _Choice, *, n_slopes: int) -> _Choice | None:
    """The candidate with ``model:language`` on a table of one task; None if it cannot enter.

    There it has one record in each cell, so it is identified only if the errors of all
    scores are known, which the design checks.
    """
    table, term = choice.table, "model:language"
    if table.size(names.TASK) > 1:
        return None
    dropped = {other: why for other, why in choice.dropped.items() if other != term}
    if choice.residual_by is not None:
        dropped[_RESIDUAL_BY] = f"{term} takes the place of the residual"
    fuller = replace(choice, terms=(term,), residual_by=None, dropped=dropped, errors_known=True)
    return fuller if _operations(fuller, n_slopes) <= MOST_OPERATIONS else None


def _df_beyond_errors(choice: _Choice) -> int:
    """Degrees of freedom that the main effects leave to the only interaction of a choice."""
    table = choice.table
    return table.n_records - table.rank(_lower_order_terms(choice.terms[0]))


def _trial_design(records: Records, choice: _Choice) -> Design | DesignError:
    """Design of the candidate without covariates, or the error with which it is refused."""
    try:
        return build_design(records, choice.spec())
    except DesignError as error:
        return error


def _with_name(spec: ModelSpec) -> ModelSpec:
    """The spec under the name of the equal shipped model, or a name made of its parts."""
    shipped = {name: load_spec(name) for name in _SHIPPED}
    for model in shipped.values():
        if model.content_hash == spec.content_hash:
            return model
    parts = [] if spec.residual_by is None else ["replicates"]
    unpooled = (
        model for model in shipped.values() if model.residual_by is None and not model.covariates
    )
    same = next((model.name for model in unpooled if model.interactions == spec.interactions), None)
    if same is not None:
        parts += [same] if same != "additive" or not parts else []
    else:
        parts = [*(parts or ["auto"]), *(names.term_dim(term) for term in spec.interactions)]
    parts += [covariate.name for covariate in spec.covariates]
    terms = " + ".join(["main effects", *spec.interactions])
    return spec.model_copy(update={"name": "-".join(parts), "summary": f"Chosen by auto: {terms}."})


def _sentences(spec: ModelSpec, choice: _Choice) -> tuple[str, ...]:
    """Reasons for the choice."""
    n = choice.table.n_records
    entered: list[str] = []
    for term in choice.terms:
        cells = choice.table.of_term(term).n
        words = ("cells", "records beyond them") if not entered else ("cells", "beyond")
        entered.append(f"{term} ({grouped(cells)} {words[0]}, {grouped(n - cells)} {words[1]})")
    terms = ", ".join(entered) or "main effects only"
    basis = f"at least {counted(_residual_df(choice), *_DF_ARE)} left for the residual"
    if choice.errors_known:
        free = _df_beyond_errors(choice)
        terms = f"{choice.terms[0]} ({grouped(n)} cells of one record each)"
        basis = (
            f"all errors are known, and {counted(free, *_DF_ARE)} left for variation beyond them"
        )
    reasons = [f"model auto -> {spec.name}: {terms}; {basis}"]
    if choice.dropped:
        listed = "; ".join(f"{term}: {why}" for term, why in choice.dropped.items())
        reasons.append(f"not in the model: {listed}")
    if spec.residual_by is not None:
        reasons.append(
            "the table has replicates, so each model has its own residual sd "
            f"(residual_by: {spec.residual_by})"
        )
    return tuple(reasons)
