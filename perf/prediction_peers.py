"""Other ways to fill a table, for `prediction.py`: each tuned and widened by cross-validation.

A peer maps scores to predictions of other cells, one row for each of its settings. Ten folds of the
scores that are not left out choose the setting and give the errors. These errors, added to the
prediction, are the peer's distribution. LightGBM needs ``pip install -e ".[perf]"``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.comparison.predictive import sampled_scores
from bayeseval.comparison.two_way import TWO_WAY, two_way_means

__all__ = ["PEERS", "Codes", "predict"]

Array = Any
Codes = Mapping[str, Array]
Peer = Callable[[Codes, Array, Codes], Array]

_FOLDS: Final = 10
# Penalties of soft-impute as shares of the largest singular value of what is left.
_PENALTIES: Final = np.geomspace(0.6, 0.02, 10)
_RIDGES: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
_TREES: Final = (25, 50, 100, 200, 400, 800)
_LEAVES: Final = (8, 31)
# Scores without a logit are moved inside by so much.
_EDGE: Final = 0.5
# Scores that the pooled sd of a column counts as.
_WEIGHT: Final = 5.0


def predict(
    peer: str, codes: Codes, score: Array, unit: Array, out: Array, rng: np.random.Generator
) -> pd.DataFrame:
    """Scores of a peer's predictions: the columns of ``sampled_scores`` but the log score.

    Parameters
    ----------
    peer : str
        Key of :data:`PEERS`.
    codes : mapping of str to ndarray of int, shape (n,)
        Levels of model, language, task and dataset.
    score : ndarray, shape (n,)
    unit : ndarray of int, shape (n,)
        What is left out together.
    out : ndarray of int, shape (m,)
        Rows that are left out.
    rng : numpy.random.Generator
        Source of the folds.
    """
    kept = np.setdiff1d(np.arange(len(score)), out)
    _, place = np.unique(unit[kept], return_inverse=True)
    fold = rng.permutation(place.max() + 1)[place] % _FOLDS
    run = PEERS[peer]
    errors = []
    for part in range(_FOLDS):
        held, rest = kept[fold == part], kept[fold != part]
        errors.append(score[held] - run(_rows(codes, rest), score[rest], _rows(codes, held)))
    error = np.concatenate(errors, axis=1)
    best = int(np.argmin((error**2).mean(axis=1)))
    point = run(_rows(codes, kept), score[kept], _rows(codes, out))[best]
    draws = error[best][:, None] + point
    return sampled_scores(draws, np.zeros((1, len(out))), score[out]).drop(columns="log_score")


def _rows(codes: Codes, rows: Array) -> dict[str, Array]:
    return {factor: own[rows] for factor, own in codes.items()}


def _two_way(codes: Codes, score: Array, asked: Codes) -> Array:
    return two_way_means(codes, score, asked)[None]


def _matrix(codes: Codes, score: Array, asked: Codes) -> tuple[Array, tuple[Array, Array]]:
    """Models by (language, task), NaN where there is no score, and where the asked cells are."""
    n_models, n_tasks = (
        1 + max(int(codes[f].max()), int(asked[f].max())) for f in (names.MODEL, names.TASK)
    )
    pairs = [one[names.LANGUAGE] * n_tasks + one[names.TASK] for one in (codes, asked)]
    _, place = np.unique(np.concatenate(pairs), return_inverse=True)
    matrix = np.full((n_models, place.max() + 1), np.nan)
    matrix[codes[names.MODEL], place[: len(score)]] = score
    return matrix, (asked[names.MODEL], place[len(score) :])


def _means(values: Array, axis: int) -> Array:
    """Means of what is there; zero of nothing."""
    there = np.isfinite(values)
    return np.where(there, values, 0.0).sum(axis=axis) / np.maximum(there.sum(axis=axis), 1)


def _centred(matrix: Array) -> tuple[Array, Array]:
    """Least squares of rows and columns, and what it leaves, zero where nothing is known."""
    there, grand = np.isfinite(matrix), float(np.nanmean(matrix))
    row = np.zeros((len(matrix), 1))
    for _ in range(50):
        column = _means(matrix - grand - row, 0)
        row = _means(matrix - grand - column, 1)[:, None]
    base = grand + row + column
    return base, np.where(there, matrix - base, 0.0)


def _soft_impute(codes: Codes, score: Array, asked: Codes) -> Array:
    """Mazumder, Hastie and Tibshirani (2010), of what rows and columns leave."""
    matrix, at = _matrix(codes, score, asked)
    there = np.isfinite(matrix)
    base, rest = _centred(matrix)
    filled = np.zeros_like(rest)
    predictions = []
    for penalty in np.linalg.norm(rest, 2) * _PENALTIES:
        for _ in range(100):
            before = filled
            u, d, v = np.linalg.svd(np.where(there, rest, filled), full_matrices=False)
            filled = (u * np.maximum(d - penalty, 0.0)) @ v
            if np.linalg.norm(filled - before) <= 1e-3 * np.linalg.norm(filled):
                break
        predictions.append((base + filled)[at])
    return np.stack(predictions)


def _completion(codes: Codes, score: Array, asked: Codes) -> Array:
    """Two factors of standardised logits, as in BenchPress, by alternating ridges.

    Unlike there, row and column effects come first: without them, errors are a third larger on
    MEGA, where a column has four scores.
    """
    share = np.clip(score, _EDGE, 100.0 - _EDGE) / 100.0
    matrix, at = _matrix(codes, np.log(share / (1.0 - share)), asked)
    there = np.isfinite(matrix)
    count = there.sum(axis=0)
    squares = np.where(there, matrix - _means(matrix, 0), 0.0) ** 2
    pooled = squares.sum() / np.maximum(count - 1, 0).sum()
    # A column with few scores has nearly the pooled sd.
    sd = np.sqrt((squares.sum(axis=0) + _WEIGHT * pooled) / (count + _WEIGHT))
    base, rest = _centred(matrix / sd)
    u, d, v = np.linalg.svd(rest, full_matrices=False)
    predictions = []
    for ridge in _RIDGES:
        left, right = u[:, :2] * np.sqrt(d[:2]), v[:2].T * np.sqrt(d[:2])
        for _ in range(30):
            left = _solve(rest, there, right, ridge)
            right = _solve(rest.T, there.T, left, ridge)
        predictions.append(100.0 / (1.0 + np.exp(-(sd * (base + left @ right.T))[at])))
    return np.stack(predictions)


def _solve(z: Array, there: Array, other: Array, ridge: float) -> Array:
    outer = other[:, :, None] * other[:, None]
    gram = np.einsum("ij,jab->iab", there.astype(float), outer) + ridge * np.eye(other.shape[1])
    return np.linalg.solve(gram, (z @ other)[..., None])[..., 0]


def _trees(codes: Codes, score: Array, asked: Codes) -> Array:
    """LightGBM on codes and on cross-fitted mean scores of levels and pairs of levels."""
    import lightgbm
    from sklearn.model_selection import KFold
    from sklearn.preprocessing import TargetEncoder

    single = [f for f in (names.MODEL, names.LANGUAGE, names.TASK) if len(np.unique(codes[f])) > 1]
    pairs = [(a, b) for i, a in enumerate(single) for b in single[i + 1 :]]
    groups = [*((f,) for f in single), *pairs]
    if names.TASK in single:
        groups.append((names.MODEL, names.LANGUAGE, names.DATASET))
    text = [
        pd.DataFrame(
            {
                str(g): ["-".join(str(one[f][i]) for f in g) for i in range(len(one[names.MODEL]))]
                for g in groups
            }
        )
        for one in (codes, asked)
    ]
    folds = KFold(_FOLDS, shuffle=True, random_state=0)
    encoder = TargetEncoder(target_type="continuous", cv=folds)
    known = np.column_stack([encoder.fit_transform(text[0], score), *(codes[f] for f in single)])
    wanted = np.column_stack([encoder.transform(text[1]), *(asked[f] for f in single)])
    categories = list(range(len(groups), known.shape[1]))
    predictions = []
    for leaves in _LEAVES:
        settings = {
            "objective": "l2",
            "learning_rate": 0.05,
            "num_leaves": leaves,
            "min_data_in_leaf": 5,
            "feature_fraction": 0.8,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "seed": 0,
            "deterministic": True,
            "num_threads": 1,
            "verbose": -1,
        }
        data = lightgbm.Dataset(known, score, categorical_feature=categories, params=settings)
        model = lightgbm.train(settings, data, num_boost_round=max(_TREES))
        predictions += [model.predict(wanted, num_iteration=n) for n in _TREES]
    return np.stack(predictions)


#: How each table is filled, by the name that the tables use.
PEERS: Final[dict[str, Peer]] = {
    TWO_WAY: _two_way,
    "soft-impute": _soft_impute,
    "LightGBM": _trees,
    "rank-2 completion": _completion,
}
