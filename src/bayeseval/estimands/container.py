"""A posterior as plain arrays, draw by draw: the input of all estimands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.estimands.covariates import SlopeDraws
from bayeseval.estimands.related import RelatedDraws
from bayeseval.families import FAMILIES, Quantity, of_quantity

__all__ = [
    "Cells",
    "CommonPairs",
    "Loadings",
    "Pairs",
    "PosteriorArrays",
    "Response",
    "SampledErrors",
    "at_languages",
    "draw_blocks",
]

_EVERYTHING = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class Loadings:
    """Factors of a low-rank interaction, whose effects are sums of their products.

    Signs, order and rotation of the products are not identified: report what they add up to.

    Attributes
    ----------
    by_factor : dict of str to ndarray, shape (n_samples, rank, n_levels)
        Of the model on the linear predictor's scale, with a sum of zero over models; of the
        other factor without unit.
    sd : ndarray, shape (n_samples, rank)
        Standard deviations of the loadings of models.
    """

    by_factor: Mapping[str, Floats]
    sd: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Effects of one interaction, which live on its observed cells.

    Attributes
    ----------
    term : str
        For example ``"model:task"``.
    members : dict of str to ndarray of int, shape (n_cells,)
        For each factor, the level each cell belongs to.
    effect : ndarray, shape (n_samples, n_cells)
        Effects on the linear predictor's scale.
    sd : ndarray, shape (n_samples,)
        Standard deviation of the cells, observed or not.
    of_record : ndarray of int, shape (n_records,)
        Cell of each record.
    loadings : Loadings or None
        Of a low-rank interaction.
    """

    term: str
    members: Mapping[str, Index]
    effect: Floats
    sd: Floats
    of_record: Index
    loadings: Loadings | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The language-task pairs that occur in the benchmark, by (language, task) position.

    Attributes
    ----------
    levels : dict of str to ndarray of int, shape (n_pairs,)
        Level of each pair under ``language``, ``task`` and, where the fit has datasets,
        ``dataset``.
    labels : tuple of str
        ``language|task``.
    of_record : ndarray of int, shape (n_records,)
        Pair of each record.
    """

    levels: Mapping[str, Index]
    labels: tuple[str, ...]
    of_record: Index

    @property
    def language(self) -> Index:
        """Language of each pair."""
        return self.levels[names.LANGUAGE]

    @property
    def task(self) -> Index:
        """Task of each pair."""
        return self.levels[names.TASK]


@dataclass(frozen=True, slots=True, eq=False)
class CommonPairs:
    """The language-task pairs that all models are compared on.

    Attributes
    ----------
    language, task : ndarray of int, shape (n_common,)
        Level of each pair; a pair need not occur in the benchmark.
    choice : str
        ``any`` (tested on any model), ``shared`` (on two or more) or where they are from.
    """

    language: Index
    task: Index
    choice: str


@dataclass(frozen=True, slots=True, eq=False)
class SharedErrors:
    """What the prompts (or judges) of several cells have in common.

    Attributes
    ----------
    name : str
        ``prompt:task``, ``prompt:language:task`` or ``prompt:model:task``.
    sd : ndarray, shape (n_samples,)
        Sd of one prompt, score units.
    mean : ndarray, shape (n_samples, n_cells)
        What the prompts of each cell add to its record.
    """

    name: str
    sd: Floats
    mean: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SampledErrors:
    """Errors of records due to replicates of one source (seeds, test sets or prompts).

    Attributes
    ----------
    record : ndarray of int, shape (n_cells,)
        Record of each cell; others have no such noise.
    share : ndarray, shape (n_cells,)
        Coefficient of a replicate's variance in the variance of the record.
    sd : ndarray, shape (n_samples, n_cells)
        Sd of one replicate, score units.
    shared : tuple of SharedErrors
        What the replicates of several cells have in common: of prompts and judges.
    """

    record: Index
    share: Floats
    sd: Floats
    shared: tuple[SharedErrors, ...] = ()

    def variance(self, draws: slice) -> Floats:
        """Error variance of the records of the cells, shape (n, n_cells)."""
        return np.asarray(self.share * self.sd[draws] ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """Likelihoods of the tasks, with what they need.

    Attributes
    ----------
    link : {"identity", "logit"}
    families : tuple of str
        Likelihoods of the tasks, each one once.
    family : ndarray of int, shape (n_tasks,)
        Which of them each task has.
    lower, upper : ndarray, shape (n_tasks,)
        Bounds of the scores; NaN under the identity link.
    chance : ndarray, shape (n_tasks,), or None
        Chance level, as a share of the range.
    edge : float
        Least distance of scores from a bound, as a share of the range.
    n_items : ndarray, shape (n_records,), or None
        Items of the records that are counts.
    dispersion : dict of str to ndarray, shape (n_samples, 1) or (n_samples, n_levels)
        By likelihood: 1 / sqrt(precision), common or by the levels of `residual_by`.
    """

    link: Literal["identity", "logit"]
    families: tuple[str, ...]
    family: Index
    lower: Floats
    upper: Floats
    chance: Floats | None
    edge: float
    n_items: Floats | None
    dispersion: Mapping[str, Floats]

    @property
    def quantities(self) -> set[Quantity]:
        """What the likelihoods of the tasks are of."""
        return {FAMILIES[family].quantity for family in self.families}

    def has_likelihood(self, task: Index, *likelihoods: str) -> Bools:
        """Which of some tasks have one of these likelihoods; looks at no other tasks."""
        own = np.array([family in likelihoods for family in self.families], dtype=np.bool_)
        return np.asarray(own[self.family[task]])

    def has_quantity(self, task: Index, *quantities: Quantity) -> Bools:
        """Which of some tasks have a likelihood of one of these quantities."""
        return self.has_likelihood(task, *of_quantity(*quantities))


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorArrays:
    """A posterior in plain arrays, draws flattened to one leading axis.

    Attributes
    ----------
    n_chains, n_draws : int
        Their product is `n_samples`, the length of every leading axis.
    levels : dict of str to tuple of str
        Labels of the three factors and, where the fit has them, of the datasets.
    index : dict of str to ndarray of int, shape (n_records,)
        Level of each record under each factor.
    score : ndarray, shape (n_records,)
        Observed scores.
    se : ndarray, shape (n_records,), or None
        Standard errors: known ones, and the root mean square over the draws of what
        replicates add.
    known_se : ndarray, shape (n_records,), or None
        Known ones alone.
    replicates : tuple of SampledErrors
        Errors with sampled sds.
    shared_items : dict of str to ndarray, shape (n_records,)
        Variances of what test sets that cells share do to the scores; empty without.
    intercept : ndarray, shape (n_samples,)
    main : dict of str to ndarray, shape (n_samples, n_levels)
        Main effects; zeros for a factor without a term.
    main_sd : dict of str to ndarray, shape (n_samples,)
        Standard deviations of the pooled main effects.
    cells : tuple of Cells
        Interactions in canonical order.
    slopes : tuple of SlopeDraws
        Covariates.
    related : dict of str to RelatedDraws
        What makes the effects of languages, or of models, alike; they are contained in `main`, and
        the sd in `main_sd` is that of what levels do not share.
    pairs : Pairs
    residual_sd : ndarray, shape (n_samples, 1) or (n_samples, n_levels)
        Residual scale, common or by the levels of `residual_by`: score units, of
        normal logits the logit scale, zero where no likelihood has one.
    residual_by : str or None
    extra : dict of str to ndarray, shape (n_samples,)
        Further parameters of the likelihoods: ``nu``, the degrees of freedom of Student-t
        residuals.
    likelihood, population : str
        Likelihood of all tasks, or ``mixed``; reference population of the models.
    response : Response
        Likelihood of each task, link, bounds and counts.
    common : CommonPairs
        The language-task pairs that all models are compared on.
    bounds : ndarray, shape (2, n_tasks)
        Lowest and highest possible score by task; NaN where not known.
    margin : float
        Difference of two models that is too small to matter, score units: the user's, or
        by default 1 % of the widest declared range; NaN where a range is unknown or all
        scores lie within this distance of each other.
    """

    n_chains: int
    n_draws: int
    levels: Mapping[str, tuple[str, ...]]
    index: Mapping[str, Index]
    score: Floats
    se: Floats | None
    known_se: Floats | None
    replicates: tuple[SampledErrors, ...]
    shared_items: Mapping[str, Floats]
    intercept: Floats
    main: Mapping[str, Floats]
    main_sd: Mapping[str, Floats]
    cells: tuple[Cells, ...]
    slopes: tuple[SlopeDraws, ...]
    related: Mapping[str, RelatedDraws]
    pairs: Pairs
    residual_sd: Floats
    residual_by: str | None
    extra: Mapping[str, Floats]
    likelihood: str
    population: str
    response: Response
    common: CommonPairs
    bounds: Floats
    margin: float

    @property
    def n_samples(self) -> int:
        """Number of posterior draws over all chains."""
        return self.n_chains * self.n_draws

    @property
    def residual_is_sd(self) -> bool:
        """Whether the residual scale of scores is their sd: all such likelihoods are normal."""
        families = [FAMILIES[family] for family in self.response.families]
        return all(f.kernel == "normal" for f in families if f.quantity == "score")

    @property
    def n_pairs(self) -> int:
        """Number of language-task pairs in the benchmark."""
        return len(self.pairs.labels)

    def error_variance(self, draws: slice = _EVERYTHING) -> Floats | None:
        """Variance of the records about their cells' means, (1 or n, n_records), or None.

        Known standard errors, and what replicates say: (sigma^2 + omega^2) / S + tau^2,
        with omega^2 and tau^2 times 1 + 1/B where scores are means of B bootstraps.
        """
        known = None if self.known_se is None else self.known_se[None] ** 2
        if not self.replicates:
            return known
        parts = [noise.variance(draws) for noise in self.replicates]
        total = np.zeros((len(parts[0]), len(self.score))) + (0.0 if known is None else known)
        for noise, part in zip(self.replicates, parts, strict=True):
            total[:, noise.record] += part
        return total

    def shared_error(self, draws: slice = _EVERYTHING) -> Floats | None:
        """What prompts that cells share add to the records, (n, n_records), or None."""
        shared = [(noise.record, one) for noise in self.replicates for one in noise.shared]
        if not shared:
            return None
        total = np.zeros((len(shared[0][1].sd[draws]), len(self.score)))
        for record, one in shared:
            total[:, record] += one.mean[draws]
        return total

    def language_part(self, draws: slice = _EVERYTHING) -> Floats:
        """Language effects and what covariates add, models averaged; (n, n_languages)."""
        values = self.main[names.LANGUAGE][draws].copy()
        for slope in self.slopes:
            values += slope.of_languages(draws)
        return values

    def model_part(self, model: int, draws: slice = _EVERYTHING) -> Floats:
        """Model effect, and what covariates of the model add, by language.

        Shape (n, n_languages); (n, 1) without covariates of models, the same in all languages.
        """
        values = self.main[names.MODEL][draws, model, None]
        for slope in self.slopes:
            if slope.by_model:
                values = values + slope.of_model(model, draws)
        return values

    def term(self, name: str) -> Cells | None:
        """Return the interaction called `name`, or None when the model has none."""
        return next((cells for cells in self.cells if cells.term == name), None)


def at_languages(values: Floats, language: Index) -> Floats:
    """Values by language, or one for all of them (a single column), at places of `language`."""
    return values if values.shape[1] == 1 else np.take(values, language, axis=1)


def draw_blocks(
    n_samples: int, values_per_draw: int, *, max_bytes: int = 300_000_000
) -> Iterator[slice]:
    """Cut the draws into blocks whose float64 working arrays stay below `max_bytes`."""
    size = max(1, max_bytes // (8 * max(1, values_per_draw)))
    for start in range(0, n_samples, size):
        yield slice(start, min(start + size, n_samples))
