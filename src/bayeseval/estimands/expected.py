"""Expected scores of all models on the same pairs, and the potentials that follow from them.

Everything that is concluded about models starts here. Noise is removed: residuals, seeds, test
sets, and what the metrics of one set of outputs share. Cells that nobody measured are drawn
from the posterior, and every model, potential and language mean of one draw uses the same
values of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Floats, Index
from bayeseval.estimands.completion import CompletedTerm, model_streams, model_terms
from bayeseval.estimands.container import PosteriorArrays, at_languages, draw_blocks
from bayeseval.estimands.response import population_mean, score_mean

__all__ = ["ExpectedBlock", "ExpectedScores", "expected_scores", "language_potential"]

# On the points, and means over tasks by language.
_Scores = tuple[Floats, Floats]
_OfModel = Callable[[int], _Scores]
_OfPopulation = Callable[[], _Scores]
_Effects = Callable[[int], list[tuple[CompletedTerm, Floats]]]
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

    def of_points(self) -> Iterator[tuple[slice, int, Floats]]:
        """Draws, a model and its score on every pair, block by block and model by model.

        The same numbers as :attr:`ExpectedBlock.points`, with one model in memory.
        """
        n_models = len(self.arrays.levels[names.MODEL])
        for draws, of_model, _ in self._parts(n_models):
            for model in range(n_models):
                yield draws, model, of_model(model)[0]

    def _blocks(self, models: Index) -> Iterator[ExpectedBlock]:
        n_languages = len(self.arrays.levels[names.LANGUAGE])
        for draws, of_model, of_population in self._parts(len(models)):
            shape = (draws.stop - draws.start, len(models))
            points = np.empty((*shape, len(self.language)))
            languages = np.empty((*shape, n_languages))
            for place, model in enumerate(models.tolist()):
                points[:, place], languages[:, place] = of_model(model)
            if self.arrays.population == "observed":
                potentials = points.mean(axis=1), languages.mean(axis=1)
            else:
                potentials = of_population()
            yield ExpectedBlock(draws, points, languages, *potentials)

    def _parts(self, n_models: int) -> Iterator[tuple[slice, _OfModel, _OfPopulation]]:
        """Draws, with what computes the scores of a model and of the population in them."""
        arrays = self.arrays
        n_languages, n_tasks = (len(arrays.levels[f]) for f in (names.LANGUAGE, names.TASK))
        terms = model_terms(arrays)
        stream = model_streams(arrays, self.seed, "estimands")
        shared = arrays.term("language:task")
        pair_term = None if shared is None else CompletedTerm(arrays, shared)
        pair_rng = generator(self.seed, "estimands: unobserved language:task")
        size = (n_models + 4) * (len(self.language) + n_languages)
        size += 8 * n_languages * n_tasks
        parts = self._linear if arrays.response.link == "identity" else self._by_cell
        for draws in draw_blocks(arrays.n_samples, size, max_bytes=self.max_bytes):
            cells = None if pair_term is None else pair_term.effect(None, draws, pair_rng)
            effects = partial(_effects, terms, stream, draws)
            yield draws, *parts(draws, pair_term, cells, effects)

    def _linear(
        self,
        draws: slice,
        pair_term: CompletedTerm | None,
        cells: Floats | None,
        effects: _Effects,
    ) -> tuple[_OfModel, _OfPopulation]:
        """Means over tasks are means of effects, without going through the cells."""
        arrays, language, task = self.arrays, self.language, self.task
        by_language = arrays.intercept[draws, None] + arrays.language_part(draws)
        by_task = arrays.main[names.TASK][draws]
        at_points = np.take(by_language, language, axis=1) + np.take(by_task, task, axis=1)
        of_languages = by_language + by_task.mean(axis=1, keepdims=True)
        if pair_term is not None and cells is not None:
            at_points += np.take(cells, pair_term.keys(language, task), axis=1)
            of_languages += pair_term.task_mean(cells)

        def of_model(model: int) -> _Scores:
            shift = arrays.model_part(model, draws)
            points = at_points + at_languages(shift, language)
            languages = of_languages + shift
            for term, effect in effects(model):
                points += np.take(effect, term.keys(language, task), axis=1)
                languages += term.task_mean(effect)
            return points, languages

        # The effects of models drawn from the population average to nothing.
        return of_model, lambda: (at_points, of_languages)

    def _by_cell(
        self,
        draws: slice,
        pair_term: CompletedTerm | None,
        cells: Floats | None,
        effects: _Effects,
    ) -> tuple[_OfModel, _OfPopulation]:
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

        def parts(score: Floats) -> _Scores:
            return score[:, chosen], score.reshape(-1, *shape).mean(axis=2)

        def of_model(model: int) -> _Scores:
            own_eta = eta + at_languages(arrays.model_part(model, draws), language)
            for term, effect in effects(model):
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
            return parts(score)

        def of_population() -> _Scores:
            return parts(population_mean(arrays, eta, language=language, task=task, draws=draws))

        return of_model, of_population


def _effects(
    terms: Iterable[CompletedTerm],
    stream: Callable[[str, int], np.random.Generator],
    draws: slice,
    model: int,
) -> list[tuple[CompletedTerm, Floats]]:
    """Interactions of a model on all their keys."""
    return [(term, term.effect(model, draws, stream(term.term, model))) for term in terms]


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
