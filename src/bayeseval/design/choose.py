"""Which model ``auto`` stands for: the fullest that a table identifies, by counts alone.

An interaction is told from the residual by records beyond its cells, and the residual
from the terms by degrees of freedom beyond their rank. Both are counts of a table's
labels, so the same table has the same model on every machine. Ranks are bounds from
connected components, exact on complete tables; nothing is factorised. Last, the design
is built once, for what no count can see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bayeseval import names
from bayeseval._typing import Index
from bayeseval.design.build import build_design
from bayeseval.design.exact import ExactTableError
from bayeseval.errors import DesignError
from bayeseval.records import Records, reduce_replicates
from bayeseval.spec import AUTO, CovariateTerm, ModelSpec, load_spec

__all__ = ["LEAST_DF", "MOST_OPERATIONS", "Chosen", "choose_model", "identified_interactions"]


#: Records beyond the cells of an interaction, and degrees of freedom of the residual.
LEAST_DF: Final = 10
#: Floating-point operations of one marginal likelihood. MEGA under `dataset`, with 856
#: coefficients beside the eliminated term, takes 2.2e8 and about 25 s in all on one core.
MOST_OPERATIONS: Final = 1e9

# From the fullest model down; with all of them a table has the model `dataset`.
_INTERACTIONS: Final = ("language:task", "model:task", "model:language", "model:language:dataset")
_THREE_WAY: Final = "model:language:dataset"
_RESIDUAL_BY: Final = "residual_by"
# A model of these terms has its shipped name.
_SHIPPED: Final = ("additive", "interaction", "crossed", "dataset", "replicates", "mexa")
# In the order in which ranks are added up: no later term has more than two overlaps with
# those before it that do not lie in each other.
_BY_RANK: Final = (_THREE_WAY, "model:language", "language:task", "model:task", *names.FACTORS)
# Up to this many combinations, a table of all of them beats sorting.
_TABLE_SIZE: Final = 10_000_000


@dataclass(frozen=True)
class Chosen:
    """A spec, and how ``auto`` came to it.

    Attributes
    ----------
    spec : ModelSpec
        What is fitted.
    reasons : tuple of str
        A sentence or more; empty when the spec was asked for.
    """

    spec: ModelSpec
    reasons: tuple[str, ...] = ()


def choose_model(
    source: str | Path | ModelSpec | Mapping[str, Any],
    records: Records,
    *,
    covariates: Sequence[str] = (),
    engine: str = "auto",
) -> Chosen:
    """Return the spec a user means; ``auto`` is the fullest that the table identifies.

    Parameters
    ----------
    source : str, Path, ModelSpec or mapping
        ``auto``, or what :func:`bayeseval.spec.load_spec` takes.
    records : Records
        The table.
    covariates : sequence of str
        Names of covariates that are given; ``auto`` takes them into the model.
    engine : str
        With ``ml``, the published procedure, ``auto`` is ``paper``.

    Returns
    -------
    Chosen
        The spec has a name of its own, never ``auto``.

    Raises
    ------
    DesignError
        If one metric of a dataset is computed from another.

    Notes
    -----
    With N records (cells of model, language and task), an interaction enters when

    - its factors have two levels or more, and it has more cells than its main effects
      have free levels, so that it is not another term under a new name;
    - N less the number of its cells is at least :data:`LEAST_DF`: so many contrasts
      within its cells tell it from the residual. For ``model:language:dataset`` these are
      further metrics of the same outputs.

    Then terms go, ``model:language:dataset`` before any other, while

    - N less the rank of all terms is below :data:`LEAST_DF`: the one with the most cells;
    - one marginal likelihood takes more than :data:`MOST_OPERATIONS`: the one without which
      it takes the fewest coefficients.

    Of several alike the first in the order ``language:task``, ``model:task``,
    ``model:language`` goes: how evenly a model does rests on the last. Last, a model that
    :func:`bayeseval.design.build_design` refuses on this table, though not without its
    interactions, loses them in the same order.

    On a table of one task ``model:language`` has one record in each cell and is the
    residual under another name, unless the errors of all scores are known (``se``, ``n`` of
    shares, or test sets that were bootstrapped): then it enters with :data:`LEAST_DF`
    degrees of freedom beside the main effects, in the place of residual sds by model.
    """
    # What is no text, a data frame say, may not be comparable with one.
    if not (isinstance(source, str) and source == AUTO):
        return Chosen(load_spec(dict(source) if isinstance(source, Mapping) else source))
    if engine == "ml":
        why = "model auto -> paper: the engine ml is the published procedure, of this model"
        return Chosen(load_spec("paper"), (why,))
    cells = reduce_replicates(records)
    table = _Table.of(records, {factor: cells.codes[factor] for factor in names.FACTORS})
    found = _Choice(table, _INTERACTIONS, names.MODEL if cells.has_replicates else None)
    found = _not_refused(_by_counts(found, n_slopes=len(covariates)), records)
    found = _beyond_known_errors(found, records, n_slopes=len(covariates))
    spec = found.spec(covariates)
    return Chosen(spec, _sentences(spec, found))


def identified_interactions(
    index: Mapping[str, Index], sizes: Mapping[str, int]
) -> tuple[str, ...]:
    """Interactions of the fullest model that a table identifies, by the rule of ``auto``.

    Parameters
    ----------
    index : mapping of str to ndarray of int, shape (n_records,)
        Level of every record under each factor; without ``dataset`` every task is a dataset
        of its own.
    sizes : mapping of str to int
        Number of levels of each factor.
    """
    base, number = dict(index), dict(sizes)
    if names.DATASET not in base:
        base[names.DATASET], number[names.DATASET] = index[names.TASK], sizes[names.TASK]
    return _by_counts(_Choice(_Table(base, number), _INTERACTIONS), n_slopes=0).terms


@dataclass(frozen=True, eq=False)
class _Levels:
    """Level of every record under some factors together, and how many levels there are."""

    index: Index
    n: int


class _Table:
    """Levels of a table under any set of factors, each counted once.

    A set of factors is a set of what it tells apart: ``task`` tells datasets apart too, so
    that what two terms have in common is the intersection of their sets.
    """

    def __init__(self, base: Mapping[str, Index], sizes: Mapping[str, int]) -> None:
        self._base, self._sizes = base, sizes
        self._found: dict[frozenset[str], _Levels] = {}

    @classmethod
    def of(cls, records: Records, codes: Mapping[names.Factor, Index]) -> _Table:
        tasks = records.coords[names.TASK]
        dataset = [records.datasets[task] for task in tasks]
        place = {label: i for i, label in enumerate(dict.fromkeys(dataset))}
        of_task = np.array([place[label] for label in dataset], dtype=np.int64)
        sizes: dict[str, int] = {f: len(records.coords[f]) for f in names.FACTORS}
        base: dict[str, Index] = {names.DATASET: of_task[codes[names.TASK]]}
        base |= {factor: codes[factor] for factor in names.FACTORS}
        return cls(base, sizes | {names.DATASET: len(place)})

    @property
    def n_records(self) -> int:
        return len(self._base[names.TASK])

    def size(self, factor: str) -> int:
        return self._sizes[factor]

    def levels(self, atoms: frozenset[str]) -> _Levels:
        """Combinations of the factors' levels that there are."""
        if atoms not in self._found:
            self._found[atoms] = self._count(atoms)
        return self._found[atoms]

    def _count(self, atoms: frozenset[str]) -> _Levels:
        factors = sorted(atoms - {names.DATASET} if names.TASK in atoms else atoms)
        key, size = np.zeros(self.n_records, dtype=np.int64), 1
        for factor in factors:
            key = key * self._sizes[factor] + self._base[factor]
            size *= self._sizes[factor]
        index, n = _compact(key, size)
        return _Levels(index, n)

    def of_term(self, term: str) -> _Levels:
        return self.levels(_atoms(term))

    def span(self, parts: Sequence[frozenset[str]]) -> int:
        """Rank of the levels of at most two sets of factors, neither within the other."""
        if not parts:
            return 1
        first = self.levels(parts[0])
        if len(parts) == 1:
            return first.n
        second = self.levels(parts[1])
        edges, n_edges = _compact(first.index * second.n + second.index, first.n * second.n)
        one = np.zeros(n_edges, dtype=np.int64)
        one[edges] = np.arange(len(edges))
        shape = (first.n + second.n,) * 2
        graph = sparse.coo_array(
            (np.ones(n_edges), (first.index[one], first.n + second.index[one])), shape=shape
        )
        return first.n + second.n - int(connected_components(graph, directed=False)[0])


def _compact(key: Index, size: int) -> tuple[Index, int]:
    """Keys below `size` as 0..n-1, in their order, and n."""
    if size <= _TABLE_SIZE:
        there = np.zeros(size, dtype=bool)
        there[key] = True
        place = np.cumsum(there) - 1
        return place[key], int(there.sum())
    values, index = np.unique(key, return_inverse=True)
    return index.reshape(-1).astype(np.int64), len(values)


def _atoms(term: str) -> frozenset[str]:
    factors = set(term.split(":"))
    return frozenset(factors | {names.DATASET} if names.TASK in factors else factors)


@dataclass(frozen=True, eq=False)
class _Choice:
    """What is left of the fullest model, and why the rest went."""

    table: _Table
    terms: tuple[str, ...]
    residual_by: names.Factor | None = None
    errors_known: bool = False
    dropped: Mapping[str, str] = field(default_factory=dict)

    def without(self, part: str, reason: str) -> _Choice:
        return replace(
            self,
            terms=tuple(term for term in self.terms if term != part),
            residual_by=None if part == _RESIDUAL_BY else self.residual_by,
            dropped={**self.dropped, part: reason},
        )

    def spec(self, covariates: Sequence[str] = ()) -> ModelSpec:
        return _named(
            ModelSpec(
                name="unnamed",
                interactions=self.terms,
                covariates=tuple(CovariateTerm(name=name) for name in covariates),
                residual_by=self.residual_by,
            )
        )


def _by_counts(found: _Choice, *, n_slopes: int) -> _Choice:
    """What the counts of a table leave of a model."""
    return _within_budget(_with_residual(_replicated(found)), n_slopes=n_slopes)


def _replicated(found: _Choice) -> _Choice:
    """Interactions with enough records beyond their cells."""
    for term in found.terms:
        reason = _not_replicated(found.table, term)
        if reason is not None:
            found = found.without(term, reason)
    return found


def _not_replicated(table: _Table, term: str) -> str | None:
    for factor in term.split(":"):
        if table.size(factor) < 2:
            return f"there is one {factor}"
    if term == _THREE_WAY and table.size(names.DATASET) == table.size(names.TASK):
        return "no dataset has two tasks"
    cells = table.of_term(term).n
    beyond = table.n_records - cells
    if beyond < LEAST_DF:
        return f"{beyond:,} records beyond its {cells:,} cells, fewer than {LEAST_DF}"
    if cells <= table.span(_margins(term)):
        return f"its {cells:,} cells are no more than its parts have levels"
    return None


def _margins(term: str) -> list[frozenset[str]]:
    """The lower terms that an interaction holds."""
    if term == _THREE_WAY:
        return [_atoms("model:language"), _atoms(names.DATASET)]
    return [_atoms(factor) for factor in term.split(":")]


def _with_residual(found: _Choice) -> _Choice:
    """Interactions that leave the residual enough degrees of freedom."""
    while found.terms and (left := _residual_df(found)) < LEAST_DF:
        term = _first_to_go({term: -found.table.of_term(term).n for term in found.terms})
        found = found.without(
            term,
            f"with its {found.table.of_term(term).n:,} cells {max(left, 0)} degrees of freedom "
            f"would be left for the residual, fewer than {LEAST_DF}",
        )
    return found


def _residual_df(found: _Choice) -> int:
    """Records less the rank of all terms, or less a bound of that; exact on complete tables."""
    table, rank, before = found.table, 0, list[frozenset[str]]()
    for term in _BY_RANK:
        if term not in (*found.terms, *names.FACTORS):
            continue
        own = _atoms(term)
        shared = {own & other for other in before} - {frozenset()}
        overlap = [part for part in shared if not any(part < other for other in shared)]
        rank += table.levels(own).n - (table.span(overlap) if before else 0)
        before.append(own)
    return table.n_records - rank


def _first_to_go(by_term: Mapping[str, int]) -> str:
    """The term with the least number; one of three factors before those of two."""
    return _THREE_WAY if _THREE_WAY in by_term else min(by_term, key=by_term.__getitem__)


def _within_budget(found: _Choice, *, n_slopes: int) -> _Choice:
    """Interactions that one marginal likelihood has the time for."""
    while found.terms and (operations := _operations(found, n_slopes)) > MOST_OPERATIONS:
        term = _first_to_go({term: _kept(found.without(term, ""))[1] for term in found.terms})
        found = found.without(
            term,
            f"with its {found.table.of_term(term).n:,} cells one marginal likelihood would take "
            f"{operations:.2g} operations, more than {MOST_OPERATIONS:.0e}",
        )
    return found


def _kept(found: _Choice) -> tuple[str, int]:
    """The term that is eliminated, the largest, and the number of levels of the others."""
    levels = {term: found.table.of_term(term).n for term in (*names.FACTORS, *found.terms)}
    eliminated = max(levels, key=levels.__getitem__)
    return eliminated, sum(levels.values()) - levels[eliminated]


def _operations(found: _Choice, n_slopes: int) -> float:
    """Of one marginal likelihood: eliminating the largest term, and a Cholesky factor.

    The eliminated block is diagonal; what it takes from the others is a product of the
    columns that meet in a level, of which each term has at most as many as the level has
    records. The other p coefficients cost p^3 / 3.
    """
    eliminated, n_levels = _kept(found)
    records = np.bincount(found.table.of_term(eliminated).index)
    meeting = np.full(len(records), 1.0 + n_slopes)
    for term in (*names.FACTORS, *found.terms):
        if term != eliminated:
            meeting += np.minimum(records, found.table.of_term(term).n)
    return (1 + n_slopes + n_levels) ** 3 / 3.0 + float((meeting**2).sum())


def _not_refused(found: _Choice, records: Records) -> _Choice:
    """Parts with which the table has a design; none where it has none without them either.

    What no count can see: scores that the terms reproduce exactly. Where the terms of datasets
    do, one metric is computed from another, and a model without these terms would count both as
    evidence: such a table is refused as it is.
    """
    additive = _Choice(found.table, ())
    while found.terms or found.residual_by:
        refusal = _refusal(records, found)
        if refusal is None:
            return found
        if _refusal(records, additive) is not None:
            return additive
        if isinstance(refusal, ExactTableError) and _THREE_WAY in found.terms:
            raise refusal
        reason = str(refusal).removeprefix(f"{records.name}: ")
        alike = found.without(_RESIDUAL_BY, reason)
        if found.residual_by is not None and _refusal(records, alike) is None:
            return alike
        cells = {term: -found.table.of_term(term).n for term in found.terms}
        found = found.without(_first_to_go(cells) if cells else _RESIDUAL_BY, reason)
    return found


def _beyond_known_errors(found: _Choice, records: Records, *, n_slopes: int) -> _Choice:
    """With ``model:language`` on a table of one task whose errors are all known.

    There it has one record in each cell and is what the records differ by beyond these
    errors, which the design knows; so it needs degrees of freedom beside the main effects.
    """
    table, term = found.table, "model:language"
    if table.size(names.TASK) > 1:
        return found
    if table.n_records - table.span(_margins(term)) < LEAST_DF:
        return found
    dropped = {other: why for other, why in found.dropped.items() if other != term}
    if found.residual_by is not None:
        dropped[_RESIDUAL_BY] = f"{term} is what would be left as the residual"
    fuller = replace(found, terms=(term,), residual_by=None, dropped=dropped, errors_known=True)
    affordable = _operations(fuller, n_slopes) <= MOST_OPERATIONS
    return fuller if affordable and _refusal(records, fuller) is None else found


def _refusal(records: Records, found: _Choice) -> DesignError | None:
    """What the table cannot tell about these terms; None when it can."""
    try:
        build_design(records, found.spec())
    except DesignError as error:
        return error
    return None


def _named(spec: ModelSpec) -> ModelSpec:
    """The spec, with the name of the shipped model that it is, or one made of its parts."""
    shipped = {name: load_spec(name) for name in _SHIPPED}
    for one in shipped.values():
        if one.content_hash == spec.content_hash:
            return one
    parts = [] if spec.residual_by is None else ["replicates"]
    plain = (one for one in shipped.values() if one.residual_by is None and not one.covariates)
    same = next((one.name for one in plain if one.interactions == spec.interactions), None)
    if same is not None:
        parts += [same] if same != "additive" or not parts else []
    else:
        parts = [*(parts or ["auto"]), *(names.term_dim(term) for term in spec.interactions)]
    parts += [covariate.name for covariate in spec.covariates]
    terms = " + ".join(["main effects", *spec.interactions])
    return spec.model_copy(update={"name": "-".join(parts), "summary": f"Chosen by auto: {terms}."})


def _sentences(spec: ModelSpec, found: _Choice) -> tuple[str, ...]:
    n = found.table.n_records
    entered: list[str] = []
    for term in found.terms:
        cells = found.table.of_term(term).n
        words = ("cells", "records beyond them") if not entered else ("cells", "beyond")
        entered.append(f"{term} ({cells:,} {words[0]}, {n - cells:,} {words[1]})")
    what = ", ".join(entered) or "main effects only"
    left = f"at least {_residual_df(found):,} degrees of freedom are left for the residual"
    if found.errors_known:
        free = n - found.table.span(_margins(found.terms[0]))
        what = f"{found.terms[0]} ({n:,} cells of one record each)"
        left = f"all errors are known, and {free:,} degrees of freedom tell what lies beyond them"
    reasons = [f"model auto -> {spec.name}: {what}; {left}"]
    if found.dropped:
        listed = "; ".join(f"{term}: {why}" for term, why in found.dropped.items())
        reasons.append(f"not in the model: {listed}")
    if spec.residual_by is not None:
        reasons.append(
            "the table has replicates, so models may differ in their residual sd "
            f"(residual_by: {spec.residual_by})"
        )
    return tuple(reasons)
