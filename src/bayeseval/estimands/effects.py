"""Effects of a posterior as one vector, and the expected scores that are sums of them.

Effects with records have draws, and their covariance is that of the draws, with the uncertainty
of the standard deviations in it. Cells of interactions without records are uncorrelated with
everything else and have the variance of their population, so they need no draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from scipy import sparse

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Floats, Index
from bayeseval.estimands.completion import CompletedTerm
from bayeseval.estimands.container import Cells, PosteriorArrays, draw_blocks
from bayeseval.estimands.response import population_mean, score_mean
from bayeseval.estimands.table_prompts import TablePrompts

__all__ = ["Effects", "Rows", "read_effects"]

#: Sparse weights of the effects (`csr_array`), one row for each expected score or mean of several.
Rows: TypeAlias = Any

# Draws over which slopes of a link that is not linear are averaged.
_SLOPE_DRAWS: Final = 200
# Step of the derivative of an expected score, on the scale of the linear predictor.
_STEP: Final = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Effects of one term: its columns by key of the cell."""

    term: str
    column: Index
    completed: CompletedTerm | None = None

    def columns(
        self, arrays: PosteriorArrays, model: Index | None, language: Index, task: Index
    ) -> Index:
        """Column of the effect in every cell; `model` is None for terms without models."""
        factors = names.factors_of(self.term)
        n_inner = len(self.column)
        if names.MODEL in factors:
            n_inner //= len(arrays.levels[names.MODEL])
        if self.completed is not None:
            key = self.completed.keys(language, task)
        else:
            inner = [task if f == names.TASK else language for f in factors if f != names.MODEL]
            key = inner[0] if inner else np.zeros_like(task)
        if model is not None and names.MODEL in factors:
            key = model * n_inner + key
        return np.asarray(self.column[key])


@dataclass(frozen=True, eq=False)
class Effects:
    """All effects as one vector: those that were drawn, then those without records.

    Attributes
    ----------
    arrays : PosteriorArrays
        Its levels may include languages without records.
    centred : ndarray, shape (n_samples, n_drawn)
        Draws less their means, over the root of ``n_samples - 1``.
    mean : ndarray, shape (n_effects,)
        Posterior means.
    prior : ndarray, shape (n_effects - n_drawn,)
        Variances of the effects without records.
    prompts : TablePrompts or None
        Prompts that measurements use.
    """

    arrays: PosteriorArrays
    centred: Floats
    mean: Floats
    prior: Floats
    _blocks: tuple[_Block, ...]
    prompts: TablePrompts | None = None
    _of_prompts: tuple[Index, ...] = ()

    @property
    def n_drawn(self) -> int:
        """Number of effects with draws."""
        return int(self.centred.shape[1])

    def rows(
        self, model: Index | None, language: Index, task: Index, *, measured: bool = False
    ) -> Rows:
        """Weights of the effects in the expected scores of cells.

        Under a link that is not linear an effect counts with the mean slope of the expected
        score there.

        Parameters
        ----------
        model : ndarray of int, shape (m,), or None
            None for a model drawn from its population, whose effects average to nothing.
        language, task : ndarray of int, shape (m,)
        measured : bool
            Include what the metrics of one set of outputs share, and what prompts do to several
            cells.
        """
        rows = self._sums(model, language, task, measured=measured)
        if self.arrays.response.link != "identity":
            slope = self._slope(model, language, task)
            rows = sparse.csr_array(sparse.diags_array(slope) @ rows)
        if measured and self.prompts is not None and model is not None:
            for effects, column in zip(self.prompts.effects, self._of_prompts, strict=True):
                rows = rows + self.prompts.weights(
                    effects, column, len(self.mean), model=model, language=language, task=task
                )
        return rows

    def scores(self, model: Index, language: Index, task: Index) -> Floats:
        """Posterior means of the expected scores of cells."""
        total = np.zeros(len(task))
        for part, eta, draws in self._predictors(model, language, task):
            total[part] = self._expected(model, language, task, part, eta, draws)
        return total

    def predictor(self, model: Index, language: Index, task: Index) -> Floats:
        """Posterior means of the linear predictor in cells."""
        return np.asarray(self._sums(model, language, task) @ self.mean)

    def times_covariance(self, weights: Floats) -> Floats:
        """Product of the covariance of the effects with a vector of weights."""
        n = self.n_drawn
        drawn = self.centred.T @ (self.centred @ weights[:n])
        return np.concatenate([drawn, self.prior * weights[n:]])

    def draws_of(self, rows: Rows) -> Floats:
        """What rows add up to in every draw, scaled like `centred`; shape (m, n_samples)."""
        return np.asarray(rows[:, : self.n_drawn] @ self.centred.T)

    def _sums(
        self, model: Index | None, language: Index, task: Index, *, measured: bool = False
    ) -> Rows:
        """Weights in the linear predictor."""
        columns = [
            block.columns(self.arrays, model, language, task)
            for block in self._blocks
            if not (model is None and names.MODEL in names.factors_of(block.term))
            and (measured or block.term != names.SHARED_BY_METRICS)
        ]
        width, n = len(columns), len(task)
        starts = np.arange(0, n * width + 1, width)
        place = np.stack(columns, axis=1).reshape(-1)
        return sparse.csr_array((np.ones(n * width), place, starts), shape=(n, len(self.mean)))

    def _slope(self, model: Index | None, language: Index, task: Index) -> Floats:
        """Mean derivative of expected scores with respect to the linear predictor."""
        total = np.empty(len(task))
        for part, eta, draws in self._predictors(model, language, task):
            low, high = (
                self._expected(model, language, task, part, eta + shift, draws)
                for shift in (-_STEP, _STEP)
            )
            total[part] = (high - low) / (2.0 * _STEP)
        return total

    def _expected(
        self,
        model: Index | None,
        language: Index,
        task: Index,
        part: slice,
        eta: Floats,
        draws: slice,
    ) -> Floats:
        """Mean expected scores of some cells at their linear predictors in some draws."""
        arrays, language, task = self.arrays, language[part], task[part]
        if model is None:
            means = population_mean(arrays, eta, language=language, task=task, draws=draws)
        else:
            means = score_mean(
                arrays, eta, language=language, task=task, model=model[part], draws=draws
            )
        return np.asarray(means.mean(axis=0))

    def _predictors(
        self, model: Index | None, language: Index, task: Index
    ) -> Iterator[tuple[slice, Floats, slice]]:
        """Linear predictors in some draws, block of cells by block of cells."""
        draws = slice(None, None, max(1, len(self.centred) // _SLOPE_DRAWS))
        some = math.sqrt(len(self.centred) - 1) * self.centred[draws]
        rows = self._sums(model, language, task)
        for part in draw_blocks(len(task), 40 * len(some)):
            own = rows[part]
            yield part, (own @ self.mean)[None] + (own[:, : self.n_drawn] @ some.T).T, draws


class _Builder:
    """Collects the effects of the terms."""

    def __init__(self, arrays: PosteriorArrays) -> None:
        self.arrays, self.n_drawn = arrays, 0
        self.draws: list[Floats] = []
        self.prior: list[Floats] = []
        self.blocks: list[_Block] = []

    def add(
        self,
        term: str,
        draws: Floats,
        *,
        keys: Index | None = None,
        n_keys: int | None = None,
        variance: float = 0.0,
        completed: CompletedTerm | None = None,
    ) -> None:
        """Add a term, of which `draws` has the effects of some keys, by default of all."""
        column = np.full(draws.shape[1] if n_keys is None else n_keys, -1)
        drawn = np.arange(self.n_drawn, self.n_drawn + draws.shape[1])
        column[slice(None) if keys is None else keys] = drawn
        missing = np.flatnonzero(column < 0)
        # Counted from the end until the number of drawn effects is known.
        n_prior = sum(map(len, self.prior))
        column[missing] = -1 - n_prior - np.arange(len(missing))
        self.draws.append(draws)
        self.prior.append(np.full(len(missing), variance))
        self.blocks.append(_Block(term, column, completed))
        self.n_drawn += draws.shape[1]

    def effects(self, prompts: TablePrompts | None = None) -> Effects:
        """All of them; those of prompts are the last ones that were added."""
        values, prior = np.concatenate(self.draws, axis=1), np.concatenate(self.prior)
        mean = values.mean(axis=0)
        blocks = tuple(
            _Block(
                one.term,
                np.where(one.column < 0, self.n_drawn - 1 - one.column, one.column),
                one.completed,
            )
            for one in self.blocks
        )
        n_terms = len(blocks) - (0 if prompts is None else len(prompts.effects))
        return Effects(
            arrays=self.arrays,
            centred=(values - mean) / math.sqrt(max(len(values) - 1, 1)),
            mean=np.concatenate([mean, np.zeros(len(prior))]),
            prior=prior,
            _blocks=blocks[:n_terms],
            prompts=prompts,
            _of_prompts=tuple(one.column for one in blocks[n_terms:]),
        )


def read_effects(
    arrays: PosteriorArrays, *, seed: int, prompts: TablePrompts | None = None
) -> Effects:
    """Collect all effects of a posterior, and those of cells that have no records.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`, or with languages without records from
        :func:`bayeseval.estimands.cell_scores.with_new_languages`.
    seed : int
        Of the factors of new languages in low-rank interactions.
    prompts : TablePrompts, optional
        Prompts that measurements use.
    """
    made = _Builder(arrays)
    made.add(names.LANGUAGE, arrays.language_part())
    made.add(names.TASK, arrays.main[names.TASK] + arrays.intercept[:, None])
    of_models = [slope.contribution() for slope in arrays.slopes if slope.by == names.MODEL]
    made.add(names.MODEL, arrays.main[names.MODEL] + sum(of_models))
    n_models = len(arrays.levels[names.MODEL])
    of_pairs = [slope for slope in arrays.slopes if slope.by == "model:language"]
    if of_pairs:
        parts = [sum(slope.of_model(m) for slope in of_pairs) for m in range(n_models)]
        made.add("model:language", np.concatenate(parts, axis=1))
    for cells in arrays.cells:
        if cells.loadings is not None:
            made.add(cells.term, _products(arrays, cells, seed))
            continue
        completed = CompletedTerm(arrays, cells)
        others = [f for f in names.factors_of(cells.term) if f != names.MODEL]
        n_keys = math.prod(len(arrays.levels[f]) for f in others)
        keys = completed.keys_of(cells.members)
        if names.MODEL in cells.members:
            keys, n_keys = cells.members[names.MODEL] * n_keys + keys, n_models * n_keys
        made.add(
            cells.term,
            cells.effect,
            keys=keys,
            n_keys=n_keys,
            variance=float(np.mean(cells.sd**2)),
            completed=completed,
        )
    for one in () if prompts is None else prompts.effects:
        made.add(one.name, one.draws, keys=one.key, n_keys=one.n_keys, variance=one.variance)
    return made.effects(prompts)


def _products(arrays: PosteriorArrays, cells: Cells, seed: int) -> Floats:
    """Effects of a low-rank interaction in all its cells, new languages included."""
    assert cells.loadings is not None
    of_model, other = names.factors_of(cells.term)
    factors = cells.loadings.by_factor
    values = factors[other]
    new = arrays.levels[other][values.shape[2] :]
    further = [
        generator(seed, f"predict: {cells.term} {other} {label}").standard_normal(values.shape[:2])
        for label in new
    ]
    if further:
        values = np.concatenate([values, np.stack(further, axis=2)], axis=2)
    product = np.einsum("srm,srk->smk", factors[of_model], values)
    return np.asarray(product.reshape(len(product), -1))
