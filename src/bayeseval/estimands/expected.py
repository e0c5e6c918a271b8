"""Expected scores of all models on the same pairs, and the potentials that follow from them.

Everything that is concluded about models starts here. Noise is removed: residuals, seeds, test
sets, and what the metrics of one set of outputs share. Cells that nobody measured are drawn
from the posterior, and every model, potential and language mean of one draw uses the same
values of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Floats, Index
from bayeseval.estimands.completion import CompletedTerm, model_streams, model_terms
from bayeseval.estimands.container import PosteriorArrays, at_languages, draw_blocks
from bayeseval.estimands.response import population_mean, score_mean

__all__ = ["ExpectedBlock", "ExpectedScores", "expected_scores", "language_potential"]

# Larger arrays would be fetched from the system, page by page, in every block.
_MAX_BYTES: Final = 32_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedBlock:
    """Expected scores in some of the draws; n of them, score units.

    Attributes
    ----------
    draws : slice
        Which of the flattened draws.
    points : ndarray, shape (n, n_models, n_points)
        Of every model on every pair of :class:`ExpectedScores`.
    languages : ndarray, shape (n, n_models, n_languages)
        Mean of every model over all tasks of every language.
    point_potential : ndarray, shape (n, n_points)
        Performance potential of every pair.
    language_potential : ndarray, shape (n, n_languages)
        Mean of the potential over all tasks of every language.
    """

    draws: slice
    points: Floats
    languages: Floats
    point_potential: Floats
    language_potential: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedScores:
    """Expected scores of a posterior, block of draws by block.

    Attributes
    ----------
    arrays : PosteriorArrays
        The posterior.
    seed : int
        Seed of the cells without a record.
    language, task : ndarray of int, shape (n_points,)
        The pairs of the benchmark, in their order, then common pairs that do not occur in it.
    common : ndarray of int, shape (n_common,)
        Which of them are common pairs.
    max_bytes : int
        Working memory of a block.
    """

    arrays: PosteriorArrays
    seed: int
    language: Index
    task: Index
    common: Index
    max_bytes: int

    def blocks(self) -> Iterator[ExpectedBlock]:
        """Go through all draws; the same numbers every time, whatever the memory."""
        yield from self._blocks(np.arange(len(self.arrays.levels[names.MODEL])))

    def of_languages(self, models: Index) -> Iterator[tuple[slice, Floats]]:
        """Draws, and means of some models over all tasks of every language, block by block.

        The same numbers as :attr:`ExpectedBlock.languages`, without the other models.
        """
        # Potentials of these models alone mean nothing.
        for block in self._blocks(models):
            yield block.draws, block.languages

    def _blocks(self, models: Index) -> Iterator[ExpectedBlock]:
        arrays = self.arrays
        n_languages, n_tasks = (len(arrays.levels[f]) for f in (names.LANGUAGE, names.TASK))
        terms = model_terms(arrays)
        stream = model_streams(arrays, self.seed, "estimands")
        shared = arrays.term("language:task")
        pair_term = None if shared is None else CompletedTerm(arrays, shared)
        pair_rng = generator(self.seed, "estimands: unobserved language:task")
        size = (len(models) + 4) * (len(self.language) + n_languages)
        size += 8 * n_languages * n_tasks
        for draws in draw_blocks(arrays.n_samples, size, max_bytes=self.max_bytes):
            cells = None if pair_term is None else pair_term.effect(None, draws, pair_rng)
            effects = [
                [(term, term.effect(model, draws, stream(term.term, model))) for term in terms]
                for model in models.tolist()
            ]
            if arrays.response.link == "identity":
                yield self._linear(draws, pair_term, cells, models, effects)
            else:
                yield self._by_cell(draws, pair_term, cells, models, effects)

    def _linear(
        self,
        draws: slice,
        pair_term: CompletedTerm | None,
        cells: Floats | None,
        models: Index,
        effects: list[list[tuple[CompletedTerm, Floats]]],
    ) -> ExpectedBlock:
        """Means over tasks are means of effects, without going through the cells."""
        arrays, language, task = self.arrays, self.language, self.task
        by_language = arrays.intercept[draws, None] + arrays.language_part(draws)
        by_task = arrays.main[names.TASK][draws]
        at_points = np.take(by_language, language, axis=1) + np.take(by_task, task, axis=1)
        of_languages = by_language + by_task.mean(axis=1, keepdims=True)
        if pair_term is not None and cells is not None:
            at_points += np.take(cells, pair_term.keys(language, task), axis=1)
            of_languages += pair_term.task_mean(cells)
        points = np.empty((len(at_points), len(effects), len(language)))
        languages = np.empty((len(at_points), len(effects), of_languages.shape[1]))
        for place, (model, own) in enumerate(zip(models.tolist(), effects, strict=True)):
            shift = arrays.model_part(model, draws)
            at = at_points + at_languages(shift, language)
            languages[:, place] = of_languages + shift
            for term, effect in own:
                at += np.take(effect, term.keys(language, task), axis=1)
                languages[:, place] += term.task_mean(effect)
            points[:, place] = at
        if arrays.population == "observed":
            return ExpectedBlock(draws, points, languages, points.mean(axis=1), languages.mean(1))
        # The effects of models drawn from the population average to nothing.
        return ExpectedBlock(draws, points, languages, at_points, of_languages)

    def _by_cell(
        self,
        draws: slice,
        pair_term: CompletedTerm | None,
        cells: Floats | None,
        models: Index,
        effects: list[list[tuple[CompletedTerm, Floats]]],
    ) -> ExpectedBlock:
        """Under a link that is not linear: every language with every task."""
        arrays = self.arrays
        shape = tuple(len(arrays.levels[f]) for f in (names.LANGUAGE, names.TASK))
        language, task = (index.reshape(-1) for index in np.indices(shape))
        chosen = np.ravel_multi_index((self.language, self.task), shape)
        eta = np.take(arrays.language_part(draws), language, axis=1)
        eta += np.take(arrays.main[names.TASK][draws], task, axis=1)
        eta += arrays.intercept[draws, None]
        if pair_term is not None and cells is not None:
            eta += np.take(cells, pair_term.keys(language, task), axis=1)
        shared = arrays.term(names.SHARED_BY_METRICS)
        points = np.empty((len(eta), len(effects), len(chosen)))
        languages = np.empty((len(eta), len(effects), shape[0]))
        total = np.zeros_like(eta)
        for place, (model, own) in enumerate(zip(models.tolist(), effects, strict=True)):
            own_eta = eta + at_languages(arrays.model_part(model, draws), language)
            for term, effect in own:
                own_eta += np.take(effect, term.keys(language, task), axis=1)
            score = score_mean(
                arrays,
                own_eta,
                language=language,
                task=task,
                model=np.full(len(task), model),
                draws=draws,
                noise_sd=None if shared is None else shared.sd[draws],
            )
            total += score
            points[:, place] = score[:, chosen]
            languages[:, place] = score.reshape(-1, *shape).mean(axis=2)
        potential = total / len(effects)
        if arrays.population != "observed":
            potential = population_mean(arrays, eta, language=language, task=task, draws=draws)
        return ExpectedBlock(
            draws,
            points,
            languages,
            potential[:, chosen],
            potential.reshape(-1, *shape).mean(axis=2),
        )


def language_potential(arrays: PosteriorArrays, *, seed: int) -> Floats:
    """Potential of every language: mean of its PP over all tasks of the benchmark.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    seed : int
        Seed of the cells of interactions that have no record.

    Returns
    -------
    ndarray, shape (n_samples, n_languages)
        Score units.

    References
    ----------
    Paper 000, Eq. 3. Its reference code averages over one task less, which
    shifts all languages by the same constant.
    """
    blocks = expected_scores(arrays, seed=seed).blocks()
    return np.concatenate([block.language_potential for block in blocks])


def expected_scores(
    arrays: PosteriorArrays, *, seed: int, max_bytes: int = _MAX_BYTES
) -> ExpectedScores:
    """Expected scores E_mlt, performance potentials PP_lt and language potentials LP_l.

    With ``population: observed`` the potential of a pair is the mean over the models at hand
    of their expected scores there, on every link. With ``population: models`` the effects of
    models are integrated over their population (identity link: they average to nothing; logit
    link: by quadrature).

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    seed : int
        Seed of the cells of interactions that have no record.
    max_bytes : int
        Working memory; more draws than fit are computed in blocks.

    References
    ----------
    Paper 000, Eq. 1 to 3 and 6.
    """
    pairs, common = arrays.pairs, arrays.common
    n_tasks = len(arrays.levels[names.TASK])
    own = pairs.language * n_tasks + pairs.task
    asked = common.language * n_tasks + common.task
    further = np.setdiff1d(asked, own)
    every = np.concatenate([own, further])
    order = np.argsort(every)
    place = order[np.searchsorted(every[order], asked)]
    return ExpectedScores(arrays, seed, every // n_tasks, every % n_tasks, place, max_bytes)
