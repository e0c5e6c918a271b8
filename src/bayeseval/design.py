"""What a table can tell about a spec: index arrays, coords, scaled priors.

:func:`build_design` turns records and a spec into the frozen :class:`Design`
that every engine reads, and refuses a model the data cannot identify.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayeseval import names
from bayeseval.errors import DesignError
from bayeseval.records import Records, connected_components
from bayeseval.spec import ModelSpec, Prior

__all__ = ["Design", "Term", "build_design"]

Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Centred where the table itself says that a term's levels differ, non-centred where
# it does not (see `_spread`). The log ratio keeps a centred term out of the funnel at
# sd = 0; F tells which form mixes better outside it. Smallest bulk ESS of 4,000 draws,
# centred against non-centred: MEGA additive (F 12 to 150) 2,064 against 464; MEGA
# crossed language:task (F 2.3) 1,116 against 1,111; simulated interactions near zero
# (F 1) 8 against 386. A weak effect of five tasks (F 1.5): 43 divergences against 6.
_CENTRED_F = 3.0
_CENTRED_LOG_RATIO = 10.0

# Sweeps of alternating means: main effects of a connected table settle in a few.
_SWEEPS = 30

# Task bounds this far apart mean scores of different scales in one sum.
_MAX_SCALE_RATIO = 10.0


@dataclass(frozen=True, eq=False)
class Term:
    """One term of the linear predictor.

    Attributes
    ----------
    name : str
        ``"language"`` or ``"language:task"``.
    factors : tuple of str
        The factors it crosses.
    labels : tuple of str
        Level labels, the coordinate of :attr:`dim`.
    index : ndarray of int, shape (n_records,)
        Level of each record.
    members : dict of str to ndarray of int, shape (n_levels,)
        For each factor, which of its levels each level of the term belongs to.
    known_sd : float or None
        Standard deviation of a fixed effect, in score units; None when pooled.
    zero_sum : bool
        Whether the effects sum to zero.
    centred : bool
        Whether engines sample the effects themselves or unit-scale offsets.
    """

    name: str
    factors: tuple[str, ...]
    labels: tuple[str, ...]
    index: Index
    members: Mapping[str, Index]
    known_sd: float | None
    zero_sum: bool
    centred: bool

    @property
    def dim(self) -> str:
        """Dimension name, for example ``language_task``."""
        return names.term_dim(self.name)

    @property
    def effect(self) -> str:
        """Variable name of the effects."""
        return names.effect_name(self.name)

    @property
    def offset(self) -> str:
        """Variable name of the unit-scale offsets of the non-centred form."""
        return names.offset_name(self.name)

    @property
    def sd(self) -> str | None:
        """Name of the standard-deviation parameter; None for a fixed effect."""
        return names.sd_name(self.name) if self.known_sd is None else None

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Design:
    """Everything an engine needs, in arrays; scores stay in their own units.

    Attributes
    ----------
    spec : ModelSpec
        The model that was asked for.
    score : ndarray of float, shape (n_records,)
        Observed scores.
    se : ndarray of float, shape (n_records,), or None
        Known standard errors, added to the residual in quadrature.
    terms : tuple of Term
        Terms of the linear predictor beside the intercept. A factor with a
        single level has none.
    priors : dict of str to Prior
        Priors of the scalar parameters in score units, in canonical order.
    residual_index : ndarray of int, shape (n_records,), or None
        Level of ``spec.residual_by`` of each record.
    coords : dict of str to tuple of str
        Labels of every dimension: the three factors, then interaction cells.
    factor_index : dict of str to ndarray of int, shape (n_records,)
        Level of each record under each factor.
    notes : tuple of str
        What a reader should know about how the table was read.
    """

    spec: ModelSpec
    score: Floats
    se: Floats | None
    terms: tuple[Term, ...]
    priors: Mapping[str, Prior]
    residual_index: Index | None
    coords: Mapping[str, tuple[str, ...]]
    factor_index: Mapping[str, Index]
    notes: tuple[str, ...]

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.score)

    def term(self, name: str) -> Term:
        """Return the term called `name`."""
        return next(term for term in self.terms if term.name == name)

    def dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of every posterior variable with more than chain and draw."""
        table: dict[str, tuple[str, ...]] = {
            names.effect_name(factor): (factor,) for factor in names.FACTORS
        }
        table |= {term.effect: (term.dim,) for term in self.terms}
        if self.spec.residual_by is not None:
            table[names.residual_name(self.spec.residual_by)] = (self.spec.residual_by,)
        return table

    def observed_data(self) -> xr.Dataset:
        """Observed scores on the dimension ``record``."""
        return xr.Dataset(
            {names.SCORE: (names.RECORD, self.score.copy())},
            coords={names.RECORD: np.arange(self.n_records)},
        )

    def constant_data(self) -> xr.Dataset:
        """Level of every record and of every interaction cell, by position.

        Returns
        -------
        xarray.Dataset
            ``<factor>_index`` on ``record`` and ``<cell>_<factor>`` on each cell
            dimension; known standard errors as ``se``.
        """
        data: dict[str, tuple[str, npt.NDArray[np.generic]]] = {
            f"{factor}_index": (names.RECORD, self.factor_index[factor]) for factor in names.FACTORS
        }
        for term in self.terms:
            if len(term.factors) > 1:
                for factor, member in term.members.items():
                    data[f"{term.dim}_{factor}"] = (term.dim, member)
        if self.se is not None:
            data["se"] = (names.RECORD, self.se)
        dims = {dim for dim, _ in data.values()}
        coords = {dim: np.array(self.coords[dim], dtype=str) for dim in dims & set(self.coords)}
        return xr.Dataset(
            data,
            coords={
                names.RECORD: np.arange(self.n_records),
                **{factor: np.array(self.coords[factor], dtype=str) for factor in names.FACTORS},
                **coords,
            },
            attrs={"population": self.spec.population, "likelihood": self.spec.likelihood},
        )


def build_design(records: Records, spec: ModelSpec) -> Design:
    """Index arrays, coords and scaled priors of a spec on a table.

    Parameters
    ----------
    records : Records
        The validated table.
    spec : ModelSpec
        The model.

    Raises
    ------
    DesignError
        If the table cannot identify the model: replicate rows the spec does not
        describe, a disconnected or confounded design, an interaction without
        replication, scores that do not vary or that mix scales.
    """
    table = records.table
    notes = list(_unused_columns(records))
    score = records.scores
    mean, sd = float(score.mean()), float(score.std(ddof=1))
    if sd == 0.0:
        raise DesignError(f"{records.name}: all {len(score)} scores are {mean:g}; nothing varies")
    _check_scales(records)

    factor_index: dict[str, Index] = {f: records.codes(f) for f in names.FACTORS}
    sizes: dict[str, int] = {f: len(records.coords[f]) for f in names.FACTORS}
    _check_main_effects(records, factor_index, sizes)

    terms = []
    for name in spec.terms:
        factors = tuple(name.split(":"))
        if any(sizes[factor] == 1 for factor in factors):
            if len(factors) > 1:
                raise DesignError(
                    f"{records.name}: {name} needs at least two levels of each factor, and "
                    f"{next(f for f in factors if sizes[f] == 1)} has one"
                )
            notes.append(f"{name} has one level ({records.coords[factors[0]][0]}): no {name} term")
            continue
        terms.append(_build_term(records, spec, name, factor_index, sd))
    notes += _check_interactions(records, terms)
    terms = _choose_forms(terms, spec, score)

    coords: dict[str, tuple[str, ...]] = {f: records.coords[f] for f in names.FACTORS}
    coords |= {term.dim: term.labels for term in terms if len(term.factors) > 1}
    present = {term.sd for term in terms}
    absent = {names.sd_name(f) for f in names.FACTORS} - present
    return Design(
        spec=spec,
        score=score,
        se=table["se"].to_numpy(dtype=np.float64) if "se" in table else None,
        terms=tuple(terms),
        priors={
            key: prior.in_units(mean=mean, sd=sd)
            for key, prior in spec.prior_table().items()
            if key not in absent
        },
        residual_index=None if spec.residual_by is None else factor_index[spec.residual_by],
        coords=coords,
        factor_index=factor_index,
        notes=tuple(notes),
    )


def _unused_columns(records: Records) -> list[str]:
    table = records.table
    replicates = [column for column in ("seed", "boot", "item") if column in table]
    if replicates:
        raise DesignError(
            f"{records.name}: the rows are replicates ({', '.join(replicates)}), which are not "
            "independent records; average them to one score per model, language and task first"
        )
    unused = [c for c in ("n", "k", "seed_sd", "boot_sd", "chance") if c in table]
    if not unused:
        return []
    return [f"columns not used by this model: {', '.join(unused)}"]


def _check_scales(records: Records) -> None:
    bounds = {task: unit.upper for task, unit in records.units.items() if unit.upper is not None}
    if not bounds:
        return
    low, high = min(bounds, key=bounds.__getitem__), max(bounds, key=bounds.__getitem__)
    if bounds[high] > _MAX_SCALE_RATIO * bounds[low]:
        raise DesignError(
            f"{records.name}: {low} is scored up to {bounds[low]:g} and {high} up to "
            f"{bounds[high]:g}; bring the tasks to one scale, their effects are added up"
        )


def _check_main_effects(
    records: Records, factor_index: Mapping[str, Index], sizes: Mapping[str, int]
) -> None:
    """Refuse a design in which main effects cannot be told apart."""
    components = connected_components(records)
    if len(components) > 1:
        parts = "; ".join(
            " + ".join(
                f"{factor} {_first_few(getattr(component, factor))}" for factor in names.FACTORS
            )
            for component in components[:2]
        )
        raise DesignError(
            f"{records.name}: the table falls into {len(components)} parts with nothing in common, "
            f"so levels of different parts cannot be compared ({parts}); fit the parts separately"
        )
    free: list[str] = [factor for factor in names.FACTORS if sizes[factor] > 1]
    cross = _cross_products([factor_index[f] for f in free], [sizes[f] for f in free])
    # One direction per factor is always empty: a constant added to one factor
    # and taken from the intercept.
    expected_rank = 1 + sum(sizes[f] - 1 for f in free)
    values, vectors = np.linalg.eigh(cross)
    tolerance = values[-1] * len(values) * np.finfo(np.float64).eps
    if int((values > tolerance).sum()) >= expected_rank:
        return
    raise DesignError(f"{records.name}: {_confounding(records, free, sizes, values, vectors)}")


def _cross_products(indices: list[Index], sizes: list[int]) -> Floats:
    """X'X of intercept and indicator columns, without forming X."""
    starts = np.concatenate([[1], 1 + np.cumsum(sizes)])
    cross = np.zeros((starts[-1], starts[-1]))
    cross[0, 0] = len(indices[0])
    columns = [start + index for start, index in zip(starts[:-1], indices, strict=True)]
    for i, first in enumerate(columns):
        np.add.at(cross, (0, first), 1.0)
        np.add.at(cross, (first, 0), 1.0)
        for second in columns[i:]:
            np.add.at(cross, (first, second), 1.0)
            if first is not second:
                np.add.at(cross, (second, first), 1.0)
    return cross


def _confounding(
    records: Records,
    free: list[str],
    sizes: Mapping[str, int],
    values: Floats,
    vectors: Floats,
) -> str:
    """Name the levels that move together in a direction the data cannot see."""
    tolerance = values[-1] * len(values) * np.finfo(np.float64).eps
    null = vectors[:, values <= tolerance]
    starts = np.concatenate([[1], 1 + np.cumsum([sizes[f] for f in free])])
    # Take out the harmless directions (one constant per factor) first.
    centred = null.copy()
    centred[0] = 0.0
    for factor, start in zip(free, starts, strict=False):
        block = slice(start, start + sizes[factor])
        centred[block] -= centred[block].mean(axis=0)
    _, _, rotation = np.linalg.svd(centred, full_matrices=False)
    direction = centred @ rotation[0]
    moved = []
    sign = 0.0
    for factor, start in zip(free, starts, strict=False):
        block = direction[start : start + sizes[factor]]
        if np.abs(block).max() < 1e-6 * np.abs(direction).max():
            continue
        # What one factor's levels gain the other's lose: take the opposite side.
        sign = -sign if sign else float(np.sign(block[np.abs(block).argmax()]))
        side = sign * block
        largest = np.flatnonzero(side > 0.5 * side.max())
        moved.append(f"{factor} {_first_few([records.coords[factor][i] for i in largest])}")
    return (
        f"{' and '.join(moved)} always occur together, so their effects cannot be told apart; "
        "drop one of them, or add records that cross them"
    )


def _build_term(
    records: Records,
    spec: ModelSpec,
    name: str,
    factor_index: Mapping[str, Index],
    score_sd: float,
) -> Term:
    factors = tuple(name.split(":"))
    if len(factors) == 1:
        labels = records.coords[name]
        index = factor_index[name]
        members = {name: np.arange(len(labels), dtype=np.int64)}
        fixed = getattr(spec.effects, name) == "fixed"
        zero_sum = not (name == names.MODEL and spec.population == "models")
    else:
        stacked = np.stack([factor_index[factor] for factor in factors])
        cells, index = np.unique(stacked, axis=1, return_inverse=True)
        index = index.reshape(-1).astype(np.int64)
        labels = tuple(
            names.cell_label(*(records.coords[f][i] for f, i in zip(factors, cell, strict=True)))
            for cell in cells.T
        )
        members = {f: row.astype(np.int64) for f, row in zip(factors, cells, strict=True)}
        fixed, zero_sum = False, False
    return Term(
        name=name,
        factors=factors,
        labels=labels,
        index=index,
        members=members,
        known_sd=spec.fixed_scale * score_sd if fixed else None,
        zero_sum=zero_sum,
        centred=True,
    )


def _choose_forms(terms: list[Term], spec: ModelSpec, score: Floats) -> list[Term]:
    """Centred or non-centred, as the spec says or as the table suggests."""
    forms = {}
    for name, (f, log_ratio) in _spread(terms, score).items():
        told = spec.centring.get(name)
        forms[name] = (
            f >= _CENTRED_F and log_ratio >= _CENTRED_LOG_RATIO
            if told is None
            else told == "centred"
        )
    return [replace(term, centred=forms[term.name]) for term in terms]


def _spread(terms: list[Term], score: Floats) -> dict[str, tuple[float, float]]:
    """How clearly the levels of each term differ.

    Returns
    -------
    dict of str to (float, float)
        F, the variance of the level means over the mean variance of their errors, and
        the log likelihood ratio (K - 1) / 2 * (F - 1 - log F) against no spread.
        The errors come from the cells of the interactions that contain the term,
        where there are any, and from single records otherwise.
    """
    rest = score - score.mean()
    effects = {term.name: np.zeros(term.n_levels) for term in terms if len(term.factors) == 1}
    for _ in range(_SWEEPS):
        for term in terms:
            if term.name in effects:
                rest = rest + effects[term.name][term.index]
                effects[term.name] = _means(term.index, rest, term.n_levels)
                rest = rest - effects[term.name][term.index]

    found = {}
    for term in terms:
        values = rest + effects[term.name][term.index] if term.name in effects else rest
        means = _means(term.index, values, term.n_levels)
        counts = np.bincount(term.index, minlength=term.n_levels)
        finer = [other.index for other in terms if set(other.factors) > set(term.factors)]
        error = 0.0
        for units in finer or [np.arange(len(score))]:
            sizes = np.bincount(units)
            level = np.zeros(len(sizes), dtype=np.int64)
            level[units] = term.index
            free = len(sizes) - term.n_levels
            away = _means(units, values, len(sizes)) - means[level]
            variance = float((away**2).sum()) / free if free > 0 else np.inf
            shares = np.bincount(level, (sizes / counts[level]) ** 2, minlength=term.n_levels)
            error += variance * float(shares.mean())
        spread = float(means.var(ddof=1))
        # Without any noise the table says most clearly that the levels differ.
        f = spread / error if error > 0.0 else 1.0 / np.finfo(np.float64).eps
        log_ratio = (term.n_levels - 1) / 2 * (f - 1.0 - float(np.log(f))) if f > 1.0 else 0.0
        found[term.name] = (f, log_ratio)
    return found


def _means(index: Index, values: Floats, n_levels: int) -> Floats:
    return np.asarray(
        np.bincount(index, values, minlength=n_levels) / np.bincount(index, minlength=n_levels)
    )


def _check_interactions(records: Records, terms: list[Term]) -> list[str]:
    """Refuse an interaction that is the residual, or another term, under a new name."""
    notes = []
    for term in terms:
        if len(term.factors) == 1:
            continue
        counts = np.bincount(term.index, minlength=term.n_levels)
        if counts.max() < 2:
            rest = [factor for factor in names.FACTORS if factor not in term.factors]
            unit = rest[0] if rest else "record"
            raise DesignError(
                f"{records.name}: {term.name} has one {unit} in each of its {term.n_levels} cells, "
                "so it cannot be told apart from the residual; leave it out, or add replication"
            )
        for other in terms:
            if set(other.factors) < set(term.factors) and other.n_levels == term.n_levels:
                raise DesignError(
                    f"{records.name}: {term.name} has as many cells as {other.name} has levels, so "
                    "the two cannot be told apart; leave one out"
                )
        single = int((counts == 1).sum())
        if single > term.n_levels / 2:
            notes.append(
                f"{term.name}: {single} of {term.n_levels} cells have a single record, so "
                f"{names.sd_name(term.name)} rests on the others"
            )
    return notes


def _first_few(labels: tuple[str, ...] | list[str], most: int = 3) -> str:
    shown = ", ".join(labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"
