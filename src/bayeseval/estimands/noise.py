"""Replicate noise and what lies beneath it: the means of cells, draw by draw."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr

from bayeseval import names
from bayeseval._text import any_of
from bayeseval._typing import Bools, Floats, Index
from bayeseval.estimands.container import PosteriorArrays, draw_blocks
from bayeseval.estimands.predictor import expected_score
from bayeseval.estimands.read import group, shared_errors, shared_item_variances

__all__ = [
    "CellNoise",
    "SharedNoise",
    "cell_means",
    "model_components",
    "read_noise",
    "run_text",
    "sources_text",
]

_RUN = "one seed on one test set"
# Records whose draws are added at once.
_BLOCK = 512


class SharedNoise(NamedTuple):
    """Noise that one prompt (or judge) brings to several cells.

    Attributes
    ----------
    name : str
        ``prompt:task``, ``prompt:language:task`` or ``prompt:model:task``, which an effect of
        ``prompt:task`` counts as where no two models have a prompt in common.
    variance : ndarray, shape (n_samples,)
        Of one prompt.
    group_of : ndarray of int, shape (n_records,)
        The cells that share it; -1 for a record without prompts.
    """

    name: str
    variance: Floats
    group_of: Index

    def of(self, source: str) -> bool:
        """Whether prompts bring it, or judges."""
        return self.name.split(":")[0] == source

    @property
    def between_models(self) -> bool:
        """Whether models share it, so that it cancels in their differences."""
        return names.MODEL not in self.name.split(":")


@dataclass(frozen=True, slots=True, eq=False)
class CellNoise:
    """Noise of the cells' observed means.

    Attributes
    ----------
    sd : dict of str to ndarray, shape (n_samples or 1, n_records)
        By source of noise, ``seed``, ``boot``, ``seed_boot``, ``prompt``, ``judge`` or ``se``
        (standard errors given with the scores): its sd for one run, including what cells
        share; NaN where the record has none. One row when known.
    raw_sd : dict of str to ndarray, shape (n_records,)
        By source: what the cell's own replicates say; NaN where they do not.
    run_variance : ndarray, shape (n_samples or 1, n_records)
        Variance of one run, that is one seed on one test set (with one prompt): sigma^2 +
        tau^2 + omega^2.
    mean_variance : ndarray, shape (n_samples or 1, n_records)
        Variance of the observed scores, which are means of S seeds on one test set:
        (sigma^2 + omega^2) / S + tau^2, and what their bootstraps add.
    pooled : bool
        False: cell means are not drawn towards what the other cells suggest.
    shared : ndarray, shape (n_samples, n_records), or None
        What the test sets and prompts that cells share do to the observed means.
    shared_of_run : tuple of SharedNoise
        Of prompts: what several cells share, which `run_variance` contains.
    """

    sd: Mapping[str, Floats]
    raw_sd: Mapping[str, Floats]
    run_variance: Floats
    mean_variance: Floats
    pooled: bool
    shared: Floats | None = None
    shared_of_run: tuple[SharedNoise, ...] = ()

    def one_run(self, centre: Floats, rng: np.random.Generator) -> Floats:
        """Scores of one run about `centre`: cells that share a prompt have it in common."""
        own = self.run_variance
        scores = centre.copy() if self.shared_of_run else centre
        for _, variance, group_of in self.shared_of_run:
            has = group_of >= 0
            drawn = np.sqrt(variance)[:, None] * rng.standard_normal(
                (len(centre), int(group_of.max()) + 1)
            )
            scores[:, has] += drawn[:, group_of[has]]
            own = own - np.where(has, variance[:, None], 0.0)
        # In place: an array of draws by records has 320 MB at 10,000 records.
        drawn = rng.standard_normal(centre.shape)
        drawn *= np.sqrt(np.maximum(own, 0.0))
        drawn += scores
        return np.asarray(drawn)

    @property
    def is_upper_bound(self) -> Bools:
        """Records whose seed and test-set sds both hold the interaction, (n_records,).

        Summaries say nothing of it apart, so it counts in each of them.
        """
        there = {source: ~np.isnan(sd[0]) for source, sd in self.sd.items()}
        no = np.zeros(self.run_variance.shape[1], dtype=np.bool_)
        of_test_set = there.get("boot", no) | there.get("se", no)
        return np.asarray(there.get("seed", no) & of_test_set & ~there.get("seed_boot", no))


def run_text(sources: Container[str]) -> str:
    """What one run is where these sources of noise are known.

    Examples
    --------
    >>> run_text(["seed", "prompt"])
    'one seed on one test set with one prompt'
    """
    if "prompt" in sources:
        return f"{_RUN} with one prompt"
    return f"{_RUN}, scored by one judge" if "judge" in sources else _RUN


def sources_text(sources: Container[str]) -> str:
    """Sources of noise in words: those of a fit, standard errors as noise of test sets.

    Examples
    --------
    >>> sources_text(["seed", "judge"])
    'seeds and judges'
    >>> sources_text(["given_se"])
    'test sets'
    """
    of_test_sets = any(source in sources for source in ("boot", "se", "given_se"))
    there = ["seeds"] * ("seed" in sources) + ["test sets"] * of_test_sets
    there += [f"{source}s" for source in names.SHARED_SOURCES if source in sources]
    return any_of(there or ["seeds", "test sets"], "and")


def read_noise(tree: xr.DataTree, *, with_shared: bool = True) -> CellNoise | None:
    """Noise of a fit; None when its table has no replicates and no standard errors.

    Parameters
    ----------
    tree : xarray.DataTree
        Groups ``posterior`` and ``constant_data``.
    with_shared : bool
        Whether to compute :attr:`CellNoise.shared`, an array of draws by records.
    """
    posterior, constant = group(tree, "posterior"), group(tree, "constant_data")
    sd: dict[str, Floats] = {}
    raw: dict[str, Floats] = {}
    for source in (*names.SOURCES, "se"):
        known = constant.get(f"{source}_sd")
        values = None if known is None else known.to_numpy()[None].astype(np.float64)
        if f"{source}_share" in constant:
            sampled = _by_record(posterior, constant, source)
            values = sampled if values is None else np.where(np.isnan(sampled), values, sampled)
        if values is not None:
            sd[source] = values
            raw[source] = np.full(values.shape[1], np.nan) if known is None else known.to_numpy()
            own = constant.get(f"{names.source_cell_dim(source)}_raw_sd")
            if own is not None:
                raw[source] = raw[source].copy()
                raw[source][constant[f"{names.source_cell_dim(source)}_record"].to_numpy()] = own
    if not sd:
        return None
    parts = [np.nan_to_num(values) ** 2 for values in sd.values()]
    run_variance = parts[0]
    for part in parts[1:]:
        run_variance = run_variance + part
    pooled = str(constant.attrs.get("pool_replicates", "true")) == "true"
    shared = _shared(posterior, constant) if with_shared else None
    mean_variance = _mean_variance(posterior, constant)
    of_run = tuple(_shared_of_run(posterior, constant))
    return CellNoise(sd, raw, run_variance, mean_variance, pooled, shared, of_run)


def _shared_of_run(posterior: xr.Dataset, constant: xr.Dataset) -> Iterator[SharedNoise]:
    """What the prompts of several cells share."""
    for source in names.SHARED_SOURCES:
        for one in shared_errors(posterior, constant, source):
            level = constant[f"{names.term_dim(one.name)}_{source}_row"].to_numpy()
            cell = constant[f"{source}_row_cell"].to_numpy()
            record = constant[f"{names.source_cell_dim(source)}_record"].to_numpy()
            model = constant[f"{names.MODEL}_index"].to_numpy()[record][cell]
            n_levels = len(np.unique(level))
            name = one.name
            if len(np.unique(np.stack([level, model]), axis=1).T) == n_levels:
                name = names.shared_by(source)[-1]
            factors = name.split(":")[1:]
            codes = np.stack([constant[f"{factor}_index"].to_numpy() for factor in factors])
            _, group = np.unique(codes, axis=1, return_inverse=True)
            has = constant[f"{source}_share"].to_numpy() > 0.0
            yield SharedNoise(name, one.sd**2, np.where(has, group.reshape(-1), -1))


def _mean_variance(posterior: xr.Dataset, constant: xr.Dataset) -> Floats:
    """Variance of the observed scores about their cells' means, known parts and sampled."""
    total = np.zeros((1, constant.sizes[names.RECORD]))
    if "se" in constant:
        total = total + constant["se"].to_numpy() ** 2
    for values in shared_item_variances(constant).values():
        total = total + values
    for source in names.SOURCES:
        if f"{source}_share" in constant:
            sd = np.nan_to_num(_by_record(posterior, constant, source))
            total = total + constant[f"{source}_share"].to_numpy() * sd**2
    return np.asarray(total)


def _shared(posterior: xr.Dataset, constant: xr.Dataset) -> Floats | None:
    """Sum of the effects of shared test sets and prompts on the records."""
    total: Floats | None = None
    for name in posterior.data_vars:
        dim = str(name).removesuffix("_effect")
        if not dim.startswith(names.TEST_SET) or dim not in posterior[name].dims:
            continue
        drawn = posterior[name].transpose("chain", "draw", dim).to_numpy()
        flat, index = drawn.reshape(-1, drawn.shape[-1]), constant[f"{dim}_index"].to_numpy()
        if total is None:
            total = flat[:, index]
            continue
        # No second array of draws by records.
        for start in range(0, len(index), _BLOCK):
            total[:, start : start + _BLOCK] += flat[:, index[start : start + _BLOCK]]
    for source in names.SHARED_SOURCES:
        for one in shared_errors(posterior, constant, source):
            values = np.zeros((len(one.sd), constant.sizes[names.RECORD]))
            record = constant[f"{names.source_cell_dim(source)}_record"].to_numpy()
            values[:, record] = one.mean
            total = values if total is None else total + values
    return total


def _by_record(posterior: xr.Dataset, constant: xr.Dataset, source: str) -> Floats:
    """Sampled sds of a source on the records, with what cells share; (n_samples, n_records)."""
    dim = names.source_cell_dim(source)
    drawn = posterior[names.source_cell_sd(source)].transpose("chain", "draw", dim).to_numpy()
    flat = drawn.reshape(-1, drawn.shape[-1])
    values = np.full((len(flat), constant.sizes[names.RECORD]), np.nan)
    for one in shared_errors(posterior, constant, source):
        flat = np.sqrt(flat**2 + one.sd[:, None] ** 2)
    values[:, constant[f"{dim}_record"].to_numpy()] = flat
    return values


def cell_means(arrays: PosteriorArrays, noise: CellNoise, *, rng: np.random.Generator) -> Floats:
    """Draws of the mean of every cell: the score without seed and test-set noise.

    Given the expected score eta, the residual sd r and the variance v of the observed
    mean, a cell's mean is normal with precision 1/r^2 + 1/v around the precision-weighted
    mean of eta and the observed score, less what shared test sets did to it. Not pooled,
    it is N(score, v). Where a record has no noise of its own, its mean is what was
    observed.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`; normal likelihood.
    noise : CellNoise
        From :func:`read_noise`.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (n_samples, n_records)
        Score units.

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 5.4.
    """
    values = np.empty((arrays.n_samples, len(arrays.score)))
    residual = arrays.residual_sd
    if arrays.residual_by is not None:
        residual = residual[:, arrays.index[arrays.residual_by]]
    for draws in draw_blocks(arrays.n_samples, 6 * len(arrays.score)):
        errors = arrays.error_variance(draws)
        v = np.zeros((1, 1)) if errors is None else errors
        z = rng.standard_normal(values[draws].shape)
        if noise.pooled:
            eta, r2 = expected_score(arrays, draws), residual[draws] ** 2
            observed = arrays.score if noise.shared is None else arrays.score - noise.shared[draws]
            weight = r2 / (r2 + v)
            values[draws] = eta + weight * (observed - eta) + np.sqrt(weight * v) * z
        else:
            values[draws] = arrays.score + np.sqrt(v) * z
    return values


def model_components(
    arrays: PosteriorArrays,
    noise: CellNoise,
    language_score: Floats,
    *,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Variance between languages and within them, by model (arXiv:2509.22612, section 3).

    Parameters
    ----------
    arrays : PosteriorArrays
    noise : CellNoise
    language_score : ndarray, shape (n_samples, n_models, n_languages)
        Mean of every model on every language.
    rng : numpy.random.Generator

    Returns
    -------
    dict of str to ndarray, shape (n_samples, n_models)
        ``between_sd``: standard deviation (ddof 1) over the languages at hand.
        ``between_sd_population``: that of the population they come from, a draw of
        s sqrt((L - 1) / chi2(L - 1)). ``seed_sd``, ``boot_sd``, ``seed_boot_sd``,
        ``prompt_sd``, ``judge_sd``, ``se_sd``: root mean square over the model's cells that
        have one; NaN without any. ``within_sd``: root of the sum of their squares.
        ``prompt_shared_sd`` and ``prompt_own_sd`` (or of judges), where models share prompts:
        the parts of ``prompt_sd`` that models have in common and that they do not.
    """
    n_languages = language_score.shape[2]
    between = language_score.std(axis=2, ddof=1)
    chi2 = rng.chisquare(n_languages - 1, size=between.shape)
    variances = {
        "between_sd": between,
        "between_sd_population": between * np.sqrt((n_languages - 1) / chi2),
    }
    within = np.zeros_like(between)
    for source, sd in noise.sd.items():
        variance = np.full_like(between, np.nan)
        for model in range(between.shape[1]):
            own = (arrays.index[names.MODEL] == model) & ~np.isnan(sd[0])
            if own.any():
                variance[:, model] = (sd[:, own] ** 2).mean(axis=1)
        variances[f"{source}_sd"] = np.sqrt(variance)
        within += np.nan_to_num(variance)
        common = [s for s in noise.shared_of_run if s.between_models and s.of(source)]
        if common:
            total = np.sum([s.variance for s in common], axis=0)[:, None]
            shared = np.where(np.isnan(variance), np.nan, total)
            variances[f"{source}_shared_sd"] = np.sqrt(shared)
            variances[f"{source}_own_sd"] = np.sqrt(np.maximum(variance - shared, 0.0))
    return variances | {"within_sd": np.sqrt(within)}
