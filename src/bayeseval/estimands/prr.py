"""Performance realisation ratios and their summaries by model.

PRR = score / potential of the pair (paper 000, Eq. 4). Two flavours: the
numerator is the observed score, or the model's expected score (noise removed).
Two supports: the pairs the model was tested on, or every pair of the benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from bayeseval import names
from bayeseval._random import generator
from bayeseval.estimands.arrays import Floats, Index, drop_meaningless
from bayeseval.estimands.completion import (
    ModelTerm,
    missing_pairs,
    model_records,
    predicted_scores,
)
from bayeseval.estimands.container import PosteriorArrays, draw_blocks
from bayeseval.estimands.potential import pair_predictor
from bayeseval.estimands.response import population_mean, score_mean

__all__ = ["ModelSummary", "disparity_summaries", "record_prr"]

SingleFloats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ModelSummary:
    """Draws of one PRR summary, with what had to be left out.

    Attributes
    ----------
    values : ndarray, shape (n_samples, n_models)
        NaN where the ratio has no meaning.
    excluded : ndarray of int, shape (n_models,)
        Draws left out because a potential (for CV also the mean) is not positive.
    notes : dict of str to str
        Model label to the reason why it is not reported at all.
    """

    values: Floats
    excluded: Index
    notes: Mapping[str, str]


def disparity_summaries(
    arrays: PosteriorArrays, *, seed: int, max_bytes: int = 300_000_000
) -> dict[str, ModelSummary]:
    """Mean-, Std- (ddof 1) and CV-PRR of every model, both supports and flavours.

    On the support ``observed`` every record counts once, replicates included. On
    ``common`` every pair of the benchmark counts once: the mean of the model's
    scores there, or a prediction where it has none (its expected score; for the
    flavour ``observed`` with residual noise).

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    seed : int
        Seed of the predictions.
    max_bytes : int
        Working memory; more draws than fit are computed in blocks.

    Returns
    -------
    dict of str to ModelSummary
        Twelve entries named by :func:`bayeseval.names.disparity_name`; ratios
        without unit.

    References
    ----------
    Paper 000, Eq. 4 and 5.
    """
    n_models, pairs = len(arrays.levels[names.MODEL]), arrays.pairs
    records = [model_records(arrays, model) for model in range(n_models)]
    terms = [(c.term, ModelTerm(arrays, c)) for c in arrays.cells if names.MODEL in c.term]
    # Generators are kept: they go on where the previous block of draws stopped, so
    # the size of the blocks does not change the numbers.
    stream = cache(partial(generator, seed))
    # A model's streams are named by its place in the alphabet, not among the levels.
    place = np.argsort(np.argsort(np.array(arrays.levels[names.MODEL], dtype=object)))
    variants = [(s, f) for s in names.SUPPORTS for f in names.FLAVOURS]
    mean = {v: np.full((arrays.n_samples, n_models), np.nan) for v in variants}
    std = {v: np.full((arrays.n_samples, n_models), np.nan) for v in variants}

    for draws in draw_blocks(arrays.n_samples, 10 * arrays.n_pairs, max_bytes=max_bytes):
        predictor = pair_predictor(arrays, draws)
        potential = population_mean(
            arrays, predictor, language=pairs.language, task=pairs.task, draws=draws
        )
        # A ratio to nothing, or to less than nothing, has no meaning: NaN carries that on.
        divisor = np.where(potential > 0, potential, np.nan)
        for model, own in enumerate(records):
            expected = predictor + arrays.model_part(model, draws)
            for term, completed in terms:
                rng = stream(f"estimands: unobserved {term}, model {place[model]}")
                expected += completed.effect(model, draws, rng)
            new = missing_pairs(arrays, own)
            rng = stream(f"estimands: residual, model {place[model]}")
            drawn = predicted_scores(arrays, model, new, np.take(expected, new, axis=1), draws, rng)
            index = np.full(arrays.n_pairs, model)
            expected = score_mean(
                arrays, expected, language=pairs.language, task=pairs.task, model=index, draws=draws
            ).copy()
            predicted = np.broadcast_to(own.pair_score, expected.shape).copy()
            predicted[:, new] = drawn
            predicted /= divisor
            expected /= divisor
            ratios = {
                ("common", "observed"): predicted,
                ("common", "latent"): expected,
                ("observed", "observed"): arrays.score[own.rows]
                / np.take(divisor, own.pairs, axis=1),
                ("observed", "latent"): np.take(expected, own.pairs, axis=1),
            }
            for variant in variants:
                ratio = ratios[variant]
                n_pairs = own.n_pairs if variant[0] == "observed" else arrays.n_pairs
                if n_pairs > 0:
                    mean[variant][draws, model] = ratio.mean(axis=1)
                if n_pairs > 1:
                    std[variant][draws, model] = ratio.std(axis=1, ddof=1)

    result: dict[str, ModelSummary] = {}
    for support, flavour in variants:
        sizes = [own.n_pairs if support == "observed" else arrays.n_pairs for own in records]
        draws_by_quantity = _mean_std_cv(mean[support, flavour], std[support, flavour])
        for quantity, values in zip(names.DISPARITY, draws_by_quantity, strict=True):
            name = names.disparity_name(quantity, support=support, flavour=flavour)
            result[name] = _guard(quantity, values, arrays.levels[names.MODEL], sizes)
    return result


def _mean_std_cv(mean: Floats, std: Floats) -> tuple[Floats, Floats, Floats]:
    # A spread relative to a mean of nothing is as meaningless as the ratio itself.
    return mean, std, std / np.where(mean > 0, mean, np.nan)


def _guard(
    quantity: str, values: Floats, models: tuple[str, ...], n_pairs: list[int]
) -> ModelSummary:
    guarded, excluded, dropped = drop_meaningless(values)
    notes: dict[str, str] = {}
    what = "a potential or a Mean-PRR" if quantity == "cv_prr" else "a potential"
    for i, label in enumerate(models):
        if n_pairs[i] == 0 or (quantity != "mean_prr" and n_pairs[i] == 1):
            excluded[i] = 0
            notes[label] = "no records" if n_pairs[i] == 0 else "one language-task pair: no spread"
        elif dropped[i]:
            notes[label] = f"not reported: {_count(excluded[i], len(values))} {what} at or below 0"
    return ModelSummary(guarded, excluded, notes)


def _count(excluded: int, total: int) -> str:
    return f"{excluded} of {total} draws ({100 * excluded / total:.3g} %) have"


def record_prr(arrays: PosteriorArrays, potential: Floats) -> tuple[SingleFloats, Index]:
    """PRR of every record, flavour ``observed``.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    potential : ndarray, shape (n_samples, n_pairs)
        From :func:`bayeseval.estimands.potential.pair_potential`.

    Returns
    -------
    values : ndarray of float32, shape (n_samples, n_records)
        NaN in draws with a potential at or below zero, and throughout for a
        record hit in more than 1 % of the draws. Single precision halves what is
        the largest variable of a result file.
    excluded : ndarray of int, shape (n_pairs,)
        Draws in which each pair's potential is at or below zero.

    References
    ----------
    Paper 000, Eq. 4.
    """
    divisor, excluded, _ = drop_meaningless(np.where(potential > 0, potential, np.nan))
    of_record = arrays.pairs.of_record
    values = np.empty((len(divisor), len(of_record)), dtype=np.float32)
    for draws in draw_blocks(len(divisor), 2 * len(of_record)):
        values[draws] = arrays.score / np.take(divisor[draws], of_record, axis=1)
    return values, excluded
