"""The published description: performance realisation ratios of records, summarised by model.

PRR = score / potential of the pair (arXiv:2508.17162, Eq. 4). They are exact given the scores and
the potentials, and say nothing of the noise in a score; models are described on different
pairs. So they are not ranked: see `inference`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.estimands.completion import ModelRecords, records_by_model
from bayeseval.estimands.container import PosteriorArrays, draw_blocks
from bayeseval.estimands.expected import ExpectedScores
from bayeseval.estimands.inference import may_be_zero, why_no_ratio

__all__ = ["ModelSummary", "disparity_summaries", "pairs_left_out", "record_prr"]

SingleFloats = npt.NDArray[np.float32]
Variant = tuple[names.Support, names.Flavour]
# Of ratios of records at a time, which the cache of a core holds.
_CACHED: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ModelSummary:
    """Draws of one PRR summary.

    Attributes
    ----------
    values : ndarray, shape (n_samples, n_models)
        Ratios without unit; NaN where `notes` says why.
    notes : dict of str to str
        Model label to the reason why it is not reported.
    """

    values: Floats
    notes: Mapping[str, str]


def pairs_left_out(arrays: PosteriorArrays, point_potential: Floats) -> Bools:
    """Pairs whose potential may be zero, which no model's ratios go through.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    point_potential : ndarray, shape (n_samples, n_points)
        Of :class:`bayeseval.estimands.inference.Inference`.

    Returns
    -------
    ndarray of bool, shape (n_points,)
        All of them on scales without a zero that means nothing was achieved.
    """
    if why_no_ratio(arrays):
        return np.ones(point_potential.shape[1], dtype=bool)
    return may_be_zero(arrays, point_potential)


def disparity_summaries(
    expected: ExpectedScores, point_potential: Floats
) -> dict[str, ModelSummary]:
    """Mean-, Std- (ddof 1) and CV-PRR of every model.

    On the support ``observed`` every record counts once, replicates included; on ``common``
    every common pair, with the expected score of the model. Pairs whose potential may be
    zero are left out for all models alike.

    Parameters
    ----------
    expected : ExpectedScores
        From :func:`bayeseval.estimands.expected.expected_scores`.
    point_potential : ndarray, shape (n_samples, n_points)
        Of :class:`bayeseval.estimands.inference.Inference`.

    Returns
    -------
    dict of str to ModelSummary
        Nine entries named by :func:`bayeseval.names.disparity_name`; ratios without unit.

    References
    ----------
    Paper 000, Eq. 4 and 5.
    """
    arrays = expected.arrays
    n_models, n_points = len(arrays.levels[names.MODEL]), point_potential.shape[1]
    left_out = pairs_left_out(arrays, point_potential)
    records = [_without(own, left_out[: arrays.n_pairs]) for own in records_by_model(arrays)]
    common = expected.common[~left_out[expected.common]]
    shape = (arrays.n_samples, n_models)
    mean: dict[Variant, Floats] = {v: np.full(shape, np.nan) for v in names.DESCRIPTIONS}
    std: dict[Variant, Floats] = {v: np.full(shape, np.nan) for v in names.DESCRIPTIONS}
    # Weights instead of copies of some of the pairs, which take longer.
    on_common = np.bincount(common, minlength=n_points)
    on_own = [np.bincount(own.pairs, minlength=n_points) for own in records]
    potential, block = np.empty((0, n_points)), slice(0, 0)
    for draws, model, points in expected.of_points():
        if draws != block:
            # Once for all models of a block of draws.
            potential, block = np.where(left_out, np.inf, point_potential[draws]), draws
        own = records[model]
        observed = np.take(potential, own.pairs, axis=1)
        np.divide(arrays.score[own.rows], observed, out=observed)
        latent = np.divide(points, potential, out=points)
        ratios: dict[Variant, tuple[Floats, Index]] = {
            ("observed", "observed"): (observed, np.ones_like(own.pairs)),
            ("observed", "latent"): (latent, on_own[model]),
            ("common", "latent"): (latent, on_common),
        }
        for variant, (ratio, times) in ratios.items():
            n_pairs = own.n_pairs if variant[0] == "observed" else len(common)
            if n_pairs > 0:
                mean[variant][draws, model], spread = _mean_and_std(ratio, times)
                if n_pairs > 1:
                    std[variant][draws, model] = spread

    result: dict[str, ModelSummary] = {}
    for support, flavour in names.DESCRIPTIONS:
        variant = (support, flavour)
        sizes = [own.n_pairs if support == "observed" else len(common) for own in records]
        values = {
            "mean_prr": mean[variant],
            "std_prr": std[variant],
            "cv_prr": _ratio_to_mean(std[variant], mean[variant]),
        }
        for quantity in names.DISPARITY:
            name = names.disparity_name(quantity, support=support, flavour=flavour)
            notes = _notes(arrays, quantity, values[quantity], sizes)
            result[name] = ModelSummary(values[quantity], notes)
    return result


def _without(own: ModelRecords, left_out: Bools) -> ModelRecords:
    kept = ~left_out[own.pairs]
    return ModelRecords(own.rows[kept], own.pairs[kept], own.has_pair & ~left_out)


def _mean_and_std(ratio: Floats, times: Index) -> tuple[Floats, Floats]:
    """Mean and std (ddof 1) along the last axis of values that occur so many times each."""
    total, weight = times.sum(), times.astype(np.float64)
    mean = np.vecdot(ratio, weight) / total
    # Of squares about the mean: sums of squares of almost equal ratios would cancel.
    apart = ratio - mean[:, None]
    apart *= apart
    return mean, np.sqrt(np.vecdot(apart, weight) / max(total - 1, 1))


def _ratio_to_mean(std: Floats, mean: Floats) -> Floats:
    """A spread relative to a mean of nothing is as meaningless as the ratio itself."""
    positive = ~(mean <= 0.0).any(axis=0)
    return np.asarray(std / np.where(positive, mean, np.nan))


def _notes(
    arrays: PosteriorArrays, quantity: str, values: Floats, n_pairs: list[int]
) -> dict[str, str]:
    why, notes = why_no_ratio(arrays), {}
    for label, number, own in zip(arrays.levels[names.MODEL], n_pairs, values.T, strict=True):
        if not np.isnan(own).any():
            continue
        if why:
            notes[label] = why
        elif number == 0:
            notes[label] = "no pair whose potential is clearly above zero"
        elif number == 1 and quantity != "mean_prr":
            notes[label] = "one language-task pair: no spread"
        else:
            notes[label] = "Mean-PRR at or below 0"
    return notes


def record_prr(arrays: PosteriorArrays, potential: Floats, left_out: Bools) -> SingleFloats:
    """PRR of every record.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    potential : ndarray, shape (n_samples, n_pairs)
        Potential of the pairs of the benchmark.
    left_out : ndarray of bool, shape (n_pairs,)
        Pairs whose potential may be zero.

    Returns
    -------
    ndarray of float32, shape (n_samples, n_records)
        NaN for records of pairs that are left out. Single precision halves what is the
        largest variable of a result file.

    References
    ----------
    Paper 000, Eq. 4.
    """
    of_record: Index = arrays.pairs.of_record
    values = np.empty((len(potential), len(of_record)), dtype=np.float32)
    for draws in draw_blocks(len(potential), len(of_record), max_bytes=_CACHED):
        divisor = np.where(left_out, np.nan, potential[draws])
        values[draws] = arrays.score / np.take(divisor, of_record, axis=1)
    return values
