"""What measurements are to make precise: a ranking, potentials, a table, or one difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Bools, Floats, Index
from bayeseval.estimands.effects import Effects, Rows
from bayeseval.estimands.gains import p_right_order

__all__ = ["Asked", "asked_difference", "asked_potentials", "asked_ranking", "asked_table"]

# More expected scores than this are represented by as many of them, drawn at random.
MOST_SCORES = 3000


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What is asked, so that the root of the sum of the variances of `rows` is one sd.

    Attributes
    ----------
    rows : Rows, shape (n_asked, n_effects)
    pairs : ndarray of int, shape (n_pairs, 2)
        Rows whose difference is that of two models; the second is -1 where a row is one.
    difference : ndarray, shape (n_pairs,)
        Posterior means of these differences, score units.
    scale : float
        Score units of a row's unit.
    n_left_out : int
        Number of expected scores that others represent.
    """

    rows: Rows
    pairs: Index
    difference: Floats
    scale: float = 1.0
    n_left_out: int = 0

    def p_right_order(self, effects: Effects, fallen: Floats) -> Floats:
        """Mean over the pairs of the probability of the right order.

        Parameters
        ----------
        effects : Effects
        fallen : ndarray, shape (n, n_asked)
            What :meth:`bayeseval.estimands.gains.Gains.measure` returned, cell by cell.

        Returns
        -------
        ndarray, shape (n + 1,)
            Before any measurement, then after each; NaN without pairs.
        """
        if not len(self.pairs):
            return np.full(len(fallen) + 1, np.nan)
        explained = np.vstack([np.zeros(len(self.pairs)), self.explained(fallen)])
        return self.p_given(self.pair_variances(effects), np.cumsum(explained, axis=0))

    def pair_variances(self, effects: Effects) -> Floats:
        """Present variance of the difference of each pair, shape (n_pairs,)."""
        first, second = self.pairs.T
        rows = self.rows[first]
        if (second >= 0).all():
            rows = sparse.csr_array(rows - self.rows[second])
        n = effects.n_drawn
        variance = (effects.draws_of(rows) ** 2).sum(axis=1)
        return np.asarray(variance + rows[:, n:].multiply(rows[:, n:]) @ effects.prior)

    def explained(self, fallen: Floats) -> Floats:
        """By how much each measurement reduces these variances, shape (n, n_pairs)."""
        first, second = self.pairs.T
        other = fallen[:, second] if (second >= 0).all() else 0.0
        return np.asarray((fallen[:, first] - other) ** 2)

    def p_given(self, variance: Floats, explained: Floats) -> Floats:
        """Mean over the pairs of the probability of the right order, shape (n,).

        Parameters
        ----------
        variance : ndarray, shape (n_pairs,)
            From :meth:`pair_variances`.
        explained : ndarray, shape (n, n_pairs)
            By how much measurements together reduce it.
        """
        scale = self.scale**2
        return np.asarray(
            p_right_order(self.difference, scale * variance, scale * explained).mean(axis=1)
        )


def asked_ranking(effects: Effects, score: Floats) -> Asked:
    """Differences of all pairs of models in the standardised score: their mean variance.

    Parameters
    ----------
    effects : Effects
    score : ndarray, shape (n_models,)
        Posterior means of the standardised scores.
    """
    rows = _standardised(effects)
    n_models = rows.shape[0]
    # The mean variance of the differences is 2 / (M - 1) times the sum of squares about the mean.
    centre = np.eye(n_models) - 1.0 / n_models
    factor = np.sqrt(2.0 / (n_models - 1))
    a, b = np.triu_indices(n_models, k=1)
    return Asked(
        rows=sparse.csr_array(sparse.csr_array(factor * centre) @ rows),
        pairs=np.stack([a, b], axis=1),
        difference=score[a] - score[b],
        scale=1.0 / factor,
    )


def asked_difference(effects: Effects, score: Floats, first: int, second: int) -> Asked:
    """Difference of the standardised scores of two models."""
    rows = _standardised(effects)
    return Asked(
        rows=sparse.csr_array(rows[[first]] - rows[[second]]),
        pairs=np.array([[0, -1]]),
        difference=score[[first]] - score[[second]],
    )


def asked_potentials(effects: Effects) -> Asked:
    """Potentials of all languages, those without records included: their mean variance."""
    arrays = effects.arrays
    n_models, n_languages, n_tasks = (len(arrays.levels[f]) for f in _ORDER)
    if arrays.population == "observed":
        model, language, task = np.indices((n_models, n_languages, n_tasks)).reshape(3, -1)
        rows = effects.rows(model, language, task)
    else:
        language, task = np.indices((n_languages, n_tasks)).reshape(2, -1)
        rows = effects.rows(None, language, task)
    means = _means(language, n_languages) @ rows
    return Asked(sparse.csr_array(means / np.sqrt(n_languages)), _NO_PAIRS, np.empty(0))


def asked_table(effects: Effects, is_asked: Bools) -> Asked:
    """Expected scores of every model on some pairs of a language and a task: mean variance.

    Parameters
    ----------
    effects : Effects
    is_asked : ndarray of bool, shape (n_languages, n_tasks)
    """
    language, task = np.nonzero(is_asked)
    n_models = len(effects.arrays.levels[names.MODEL])
    n = n_models * len(language)
    chosen = np.arange(n)
    if n > MOST_SCORES:
        rng = generator(0, "next: expected scores of the table")
        chosen = np.sort(rng.choice(n, MOST_SCORES, replace=False))
    pair, model = np.divmod(chosen, n_models)
    rows = effects.rows(model, language[pair], task[pair]) / np.sqrt(len(chosen))
    return Asked(sparse.csr_array(rows), _NO_PAIRS, np.empty(0), n_left_out=n - len(chosen))


_ORDER = (names.MODEL, names.LANGUAGE, names.TASK)
_NO_PAIRS = np.empty((0, 2), dtype=np.int64)


def _standardised(effects: Effects) -> Rows:
    """Mean expected score of every model over the common pairs."""
    common, n_models = effects.arrays.common, len(effects.arrays.levels[names.MODEL])
    n = len(common.language)
    model = np.repeat(np.arange(n_models), n)
    rows = effects.rows(model, np.tile(common.language, n_models), np.tile(common.task, n_models))
    return sparse.csr_array(_means(model, n_models) @ rows)


def _means(group: Index, n_groups: int) -> Rows:
    """Weights of the means over groups of equal size."""
    n = len(group)
    weight = np.full(n, n_groups / n)
    return sparse.csr_array((weight, (group, np.arange(n))), shape=(n_groups, n))
