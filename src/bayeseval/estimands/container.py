"""From the labelled tree to plain arrays: the only reader of the input container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from bayeseval import names
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.arrays import Floats, Index
from bayeseval.estimands.covariates import SlopeDraws, read_slopes
from bayeseval.estimands.response import Response

__all__ = [
    "Cells",
    "CommonPairs",
    "Pairs",
    "PosteriorArrays",
    "SampledErrors",
    "draw_blocks",
    "read_arrays",
]

_EVERYTHING = slice(None)
# Share of the range of scores.
_MARGIN = 0.01


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
    """

    term: str
    members: Mapping[str, Index]
    effect: Floats
    sd: Floats
    of_record: Index


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
class SampledErrors:
    """What replicates of one source, seeds or test sets, add to the errors of records.

    Attributes
    ----------
    record : ndarray of int, shape (n_cells,)
        Record of each cell; others have no such noise.
    share : ndarray, shape (n_cells,)
        What one replicate's variance is multiplied by to be that of the record.
    sd : ndarray, shape (n_samples, n_cells)
        Of one replicate, score units.
    """

    record: Index
    share: Floats
    sd: Floats

    def variance(self, draws: slice) -> Floats:
        """Error variance of the records of the cells, shape (n, n_cells)."""
        return np.asarray(self.share * self.sd[draws] ** 2)


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
    intercept : ndarray, shape (n_samples,)
    main : dict of str to ndarray, shape (n_samples, n_levels)
        Main effects; zeros for a factor without a term.
    main_sd : dict of str to ndarray, shape (n_samples,)
        Standard deviations of the pooled main effects.
    cells : tuple of Cells
        Interactions in canonical order.
    slopes : tuple of SlopeDraws
        Covariates.
    pairs : Pairs
    residual_sd : ndarray, shape (n_samples, 1) or (n_samples, n_levels)
        Residual scale, common or by the levels of `residual_by`: score units, of
        ``logit_normal`` the logit scale, zero where no likelihood has one.
    residual_by : str or None
    nu : ndarray, shape (n_samples,), or None
        Degrees of freedom of Student-t residuals.
    likelihood, population : str
        Likelihood of all tasks, or ``mixed``; reference population of the models.
    response : Response
        Likelihood of each task, link, bounds and counts.
    common : CommonPairs
        The language-task pairs that all models are asked about.
    bounds : ndarray, shape (2, n_tasks)
        Lowest and highest possible score by task; NaN where not known.
    margin : float
        Difference of two models that is too small to matter, score units: what was asked
        for, else 1 % of the widest declared range, or NaN where a range is unknown or all
        scores lie within that 1 % of each other.
    """

    n_chains: int
    n_draws: int
    levels: Mapping[str, tuple[str, ...]]
    index: Mapping[str, Index]
    score: Floats
    se: Floats | None
    known_se: Floats | None
    replicates: tuple[SampledErrors, ...]
    intercept: Floats
    main: Mapping[str, Floats]
    main_sd: Mapping[str, Floats]
    cells: tuple[Cells, ...]
    slopes: tuple[SlopeDraws, ...]
    pairs: Pairs
    residual_sd: Floats
    residual_by: str | None
    nu: Floats | None
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

    def language_part(self, draws: slice = _EVERYTHING) -> Floats:
        """Language effects and what covariates add, models averaged; (n, n_languages)."""
        values = self.main[names.LANGUAGE][draws].copy()
        for slope in self.slopes:
            values += slope.of_languages(draws)
        return values

    def model_part(self, model: int, draws: slice = _EVERYTHING) -> Floats:
        """Model effect, and what covariates of the model add, by language; (n, n_languages)."""
        n_languages = len(self.levels[names.LANGUAGE])
        values = np.repeat(self.main[names.MODEL][draws, model, None], n_languages, axis=1)
        for slope in self.slopes:
            if slope.by_model:
                values += slope.of_model(model, draws)
        return values

    def term(self, name: str) -> Cells | None:
        """Return the interaction called `name`, or None when the model has none."""
        return next((cells for cells in self.cells if cells.term == name), None)


def draw_blocks(
    n_samples: int, values_per_draw: int, *, max_bytes: int = 300_000_000
) -> Iterator[slice]:
    """Cut the draws into blocks whose float64 working arrays stay below `max_bytes`."""
    size = max(1, max_bytes // (8 * max(1, values_per_draw)))
    for start in range(0, n_samples, size):
        yield slice(start, min(start + size, n_samples))


def read_arrays(tree: xr.DataTree) -> PosteriorArrays:
    """Read the groups ``posterior``, ``constant_data`` and ``observed_data``.

    Parameters
    ----------
    tree : xarray.DataTree
        ArviZ schema with the variable names of :mod:`bayeseval.names`.

    Raises
    ------
    InputError
        If a group or variable is missing, an index is out of range, a record
        belongs to no cell of an interaction, or the likelihood is not known.
    """
    posterior, constant = group(tree, "posterior"), group(tree, "constant_data")
    crossed: tuple[str, ...] = names.FACTORS
    factors = [f for f in (*crossed, names.DATASET) if f"{f}_index" in constant]
    levels = {factor: _labels(posterior, constant, factor) for factor in factors}
    index = {
        factor: _positions(constant, f"{factor}_index", len(levels[factor])) for factor in factors
    }
    intercept = _samples(posterior, names.INTERCEPT)
    main = {
        factor: _samples(posterior, names.effect_name(factor), factor)
        if names.effect_name(factor) in posterior
        else np.zeros((len(intercept), len(levels[factor])))
        for factor in crossed
    }
    scales = (names.SD_RESIDUAL, *names.DISPERSIONS.values())
    by = next(
        (f for f in names.FACTORS for s in scales if names.level_name(s, f) in posterior), None
    )
    response = _read_response(posterior, constant, len(levels[names.TASK]), by)
    families = set(response.of_task)
    pairs, bounds = _pairs(index, levels), _bounds(constant, len(levels[names.TASK]))
    score = _vector(group(tree, "observed_data"), names.SCORE)
    residual = np.zeros((len(intercept), 1 if by is None else len(levels[by])))
    if families & set(names.WITH_RESIDUAL):
        residual = _noise_scale(posterior, names.SD_RESIDUAL, by)
    known_se = _vector(constant, "se") if "se" in constant else None
    replicates = tuple(_replicates(posterior, constant))
    return PosteriorArrays(
        n_chains=posterior.sizes["chain"],
        n_draws=posterior.sizes["draw"],
        levels=levels,
        index=index,
        score=score,
        se=_standard_errors(known_se, replicates, constant.sizes[names.RECORD]),
        known_se=known_se,
        replicates=replicates,
        intercept=intercept,
        main=main,
        main_sd={
            factor: _samples(posterior, names.sd_name(factor))
            for factor in crossed
            if names.sd_name(factor) in posterior
        },
        cells=tuple(
            _read_cells(posterior, constant, term, index, levels)
            for term in names.INTERACTIONS
            if names.effect_name(term) in posterior
        ),
        slopes=read_slopes(posterior, constant),
        pairs=pairs,
        residual_sd=residual,
        residual_by=by,
        nu=_samples(posterior, names.NU) if "student_t" in families else None,
        likelihood=families.pop() if len(families) == 1 else "mixed",
        population=str(constant.attrs.get("population", "observed")),
        response=response,
        common=_common_pairs(constant, pairs),
        bounds=bounds,
        margin=float(constant.attrs.get("margin", _default_margin(bounds, score))),
    )


def _default_margin(bounds: Floats, score: Floats) -> float:
    """1 % of the widest range; NaN where one is unknown, or all scores are closer than that."""
    margin = _MARGIN * float((bounds[1] - bounds[0]).max())
    return margin if float(np.ptp(score)) > margin else float("nan")


def _common_pairs(constant: xr.Dataset, pairs: Pairs) -> CommonPairs:
    choice = str(constant.attrs.get("pairs", "any"))
    if "common_pair_language" not in constant:
        return CommonPairs(pairs.language, pairs.task, choice)
    language, task = (
        np.asarray(constant[f"common_pair_{f}"].values, dtype=np.int64)
        for f in (names.LANGUAGE, names.TASK)
    )
    return CommonPairs(language, task, choice)


def _bounds(constant: xr.Dataset, n_tasks: int) -> Floats:
    """What the benchmark declares; a result of an older version does not say."""
    sides = ("declared_lower", "declared_upper")
    return np.stack(
        [_vector(constant, s) if s in constant else np.full(n_tasks, np.nan) for s in sides]
    )


def _noise_scale(posterior: xr.Dataset, name: str, by: str | None) -> Floats:
    """A parameter of the noise; shape (n_samples, 1) or (n_samples, n_levels)."""
    if by is None:
        return _samples(posterior, name)[:, None]
    return _samples(posterior, names.level_name(name, by), by)


def _read_response(
    posterior: xr.Dataset, constant: xr.Dataset, n_tasks: int, by: str | None
) -> Response:
    said = str(constant.attrs.get("likelihood", "normal"))
    of_task = (said,) * n_tasks
    if "likelihood" in constant:
        of_task = tuple(str(family) for family in constant["likelihood"].values)
    unknown = [family for family in of_task if family not in names.LIKELIHOODS]
    if unknown:
        raise InputError(
            f"the fit has the likelihood {unknown[0]!r}, which the estimands do not know"
            f"{did_you_mean(unknown[0], names.LIKELIHOODS)} "
            f"(they know: {', '.join(names.LIKELIHOODS)})"
        )
    logit = not set(of_task) <= set(names.IDENTITY_LINK)
    nothing = np.full(n_tasks, np.nan)
    return Response(
        link="logit" if logit else "identity",
        of_task=of_task,
        lower=_vector(constant, "score_lower") if logit else nothing,
        upper=_vector(constant, "score_upper") if logit else nothing,
        chance=_vector(constant, "chance_share") if "chance_share" in constant else None,
        edge=float(constant.attrs.get("edge", 0.0)),
        n_items=_vector(constant, "n_items") if set(of_task) & set(names.COUNTS) else None,
        dispersion={
            family: _noise_scale(posterior, name, by)
            for family, name in names.DISPERSIONS.items()
            if family in of_task
        },
    )


def group(tree: xr.DataTree, name: str) -> xr.Dataset:
    """Dataset view of a group; InputError when the tree has no such group."""
    if name not in tree.children:
        raise InputError(
            f"the fit has no group {name!r} (it has: {', '.join(tree.children) or 'none'})"
        )
    return tree[name].to_dataset()


def _variable(dataset: xr.Dataset, name: str) -> xr.DataArray:
    if name not in dataset:
        raise InputError(f"the fit has no variable {name!r}, which the estimands need")
    return dataset[name]


def _samples(posterior: xr.Dataset, name: str, *dims: str) -> Floats:
    """Flatten chains and draws of one variable: (n_samples, ...) in float64."""
    array = _variable(posterior, name).transpose("chain", "draw", *dims)
    values = np.asarray(array.values, dtype=np.float64)
    return values.reshape(-1, *values.shape[2:])


def _vector(dataset: xr.Dataset, name: str) -> Floats:
    return np.asarray(_variable(dataset, name).values, dtype=np.float64)


def _replicates(posterior: xr.Dataset, constant: xr.Dataset) -> Iterator[SampledErrors]:
    for source in names.SOURCES:
        if names.source_cell_sd(source) in posterior:
            dim = names.source_cell_dim(source)
            record = np.asarray(_variable(constant, f"{dim}_record").values, dtype=np.int64)
            yield SampledErrors(
                record=record,
                share=_vector(constant, f"{source}_share")[record],
                sd=_samples(posterior, names.source_cell_sd(source), dim),
            )


def _standard_errors(
    known: Floats | None, replicates: tuple[SampledErrors, ...], n_records: int
) -> Floats | None:
    if not replicates:
        return known
    squared = np.zeros(n_records) if known is None else known**2
    for noise in replicates:
        squared[noise.record] += noise.share * np.mean(noise.sd**2, axis=0)
    return np.sqrt(squared)


def _labels(posterior: xr.Dataset, constant: xr.Dataset, factor: str) -> tuple[str, ...]:
    for dataset in (posterior, constant):
        if factor in dataset.coords:
            return tuple(str(label) for label in dataset.coords[factor].values)
    raise InputError(f"the fit does not say which levels the dimension {factor!r} has")


def _positions(constant: xr.Dataset, name: str, n_levels: int) -> Index:
    values = np.asarray(_variable(constant, name).values, dtype=np.int64)
    if values.size and (values.min() < 0 or values.max() >= n_levels):
        raise InputError(f"{name} points outside the {n_levels} levels of its factor")
    return values


def _pairs(index: Mapping[str, Index], levels: Mapping[str, tuple[str, ...]]) -> Pairs:
    n_tasks = len(levels[names.TASK])
    _, first, of_record = np.unique(
        index[names.LANGUAGE] * n_tasks + index[names.TASK], return_index=True, return_inverse=True
    )
    of_pair = {f: values[first] for f, values in index.items() if f != names.MODEL}
    labels = tuple(
        names.cell_label(levels[names.LANGUAGE][i], levels[names.TASK][j])
        for i, j in zip(of_pair[names.LANGUAGE], of_pair[names.TASK], strict=True)
    )
    return Pairs(of_pair, labels, of_record.reshape(-1).astype(np.int64))


def _read_cells(
    posterior: xr.Dataset,
    constant: xr.Dataset,
    term: str,
    index: Mapping[str, Index],
    levels: Mapping[str, tuple[str, ...]],
) -> Cells:
    dim, factors = names.term_dim(term), tuple(term.split(":"))
    members = {f: _positions(constant, f"{dim}_{f}", len(levels[f])) for f in factors}
    shape = tuple(len(levels[factor]) for factor in factors)
    cell_codes = np.ravel_multi_index(tuple(members[f] for f in factors), shape)
    record_codes = np.ravel_multi_index(tuple(index[f] for f in factors), shape)
    order = np.argsort(cell_codes)
    place = np.searchsorted(cell_codes[order], record_codes).clip(max=len(order) - 1)
    of_record = order[place]
    stray = np.flatnonzero(cell_codes[of_record] != record_codes)
    if stray.size:
        raise InputError(f"record {stray[0]} belongs to none of the {len(order)} {dim} cells")
    return Cells(
        term=term,
        members=members,
        effect=_samples(posterior, names.effect_name(term), dim),
        sd=_samples(posterior, names.sd_name(term)),
        of_record=of_record.astype(np.int64),
    )
