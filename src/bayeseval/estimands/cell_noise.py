"""Noise of a new measurement of any cell: residuals, standard errors, seeds and test sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import xarray as xr

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Bools, Floats, Index
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.noise import read_noise
from bayeseval.estimands.read import shared_errors
from bayeseval.families import scale_names

__all__ = ["MeasurementNoise", "read_measurement_noise"]


@dataclass(frozen=True, slots=True, eq=False)
class MeasurementNoise:
    """What a posterior says about the noise of measurements that were not made.

    Attributes
    ----------
    sd : dict of str to ndarray, shape (n_samples or 1, n_records)
        By source of noise (``seed``, ``boot``, ``seed_boot``, ``prompt``, ``judge``, ``se``):
        sds of one run; NaN where the record has none. They include the effects of shared test
        sets and prompts.
    typical : dict of str to ndarray, shape (n_samples, n_models)
        By source with pooled sds: typical sds of the models.
    spread : dict of str to ndarray, shape (n_samples,)
        By source with pooled sds: sd of the log sds of a model's cells.
    shared : dict of str to ndarray, shape (n_samples,)
        By source: variance of what the prompts of several cells share, in `sd` but not in
        `typical`.
    scales : dict of str to ndarray, shape (n_samples,)
        Noise scales of likelihoods that differ by level: their typical value, by name.
    scale_spread : ndarray, shape (n_samples,), or None
        Sd of the logs of these scales.
    """

    sd: Mapping[str, Floats]
    typical: Mapping[str, Floats]
    spread: Mapping[str, Floats]
    shared: Mapping[str, Floats]
    scales: Mapping[str, Floats]
    scale_spread: Floats | None
    _means: dict[tuple[str, str, int], Floats] = field(default_factory=dict, repr=False)

    def with_new_levels(
        self, arrays: PosteriorArrays, new: tuple[str, ...], seed: int
    ) -> PosteriorArrays:
        """Add noise scales of new levels: log-normal about the typical one."""
        spread = self.scale_spread
        if not new or spread is None:
            return arrays

        def extended(name: str, known: Floats) -> Floats:
            streams = [generator(seed, f"predict: {name} of {label}") for label in new]
            drawn = [np.exp(spread * one.standard_normal(len(known))) for one in streams]
            return np.column_stack([known, *(self.scales[name] * one for one in drawn)])

        residual = arrays.residual_sd
        if names.SD_RESIDUAL in self.scales:
            residual = extended(names.SD_RESIDUAL, residual)
        else:
            residual = np.column_stack([residual, np.zeros((len(residual), len(new)))])
        dispersion = {
            family: extended(scale_names([family])[0], values)
            for family, values in arrays.response.dispersion.items()
        }
        response = replace(arrays.response, dispersion=dispersion)
        return replace(arrays, residual_sd=residual, response=response)

    def without_shared(self, source: str) -> MeasurementNoise:
        """The same noise without what the prompts (or judges) of several cells share."""
        own = self.sd[source] ** 2 - self.shared[source][:, None]
        sd = {**self.sd, source: np.sqrt(np.maximum(own, 0.0))}
        rest = {name: values for name, values in self.shared.items() if name != source}
        return replace(self, sd=sd, shared=rest, _means={})

    def items(self, arrays: PosteriorArrays, task: Index, given: Floats) -> Floats | None:
        """Items of counts: those given, else the median of the task, of all tasks if it is new."""
        known = arrays.response.n_items
        if known is None:
            return None
        counted = np.isfinite(known) & (known > 0)
        tasks, of_cell = np.unique(task, return_inverse=True)
        own = [counted & (arrays.index[names.TASK] == one) for one in tasks]
        typical = np.round([np.median(known[one if one.any() else counted]) for one in own])
        return np.where(np.isfinite(given), given, typical[of_cell])

    def standard_error(
        self,
        arrays: PosteriorArrays,
        place: Mapping[str, Index],
        expected: Floats,
        *,
        n_items: Floats,
        se: Floats,
        n_seeds: Floats,
        n_prompts: Floats | None = None,
        seed: int,
    ) -> Floats | None:
        """Sds of the noise beside the residual, (n_samples, m); None where there is none.

        A mean of S seeds on one test set has the variance ``(sigma**2 + omega**2) / S +
        tau**2``, and the noise of P prompts is that of one over P. A given standard error is
        that of the test set. Without one, n items give a binomial one if the fit knows the
        noise of test sets and the task has bounds. Without both, the test set is one like
        those of the cell's records, of its task or of the table.
        """
        variance = np.zeros_like(expected)
        given = np.isfinite(se)
        variance[:, given] = se[given] ** 2
        by_items = ~given & self.uses_items(arrays, place[names.TASK]) & np.isfinite(n_items)
        if by_items.any():
            lower, upper = arrays.bounds[:, place[names.TASK][by_items]]
            share = np.clip((expected[:, by_items] - lower) / (upper - lower), 0.0, 1.0)
            binomial = share * (1.0 - share) / n_items[by_items]
            variance[:, by_items] = (upper - lower) ** 2 * binomial
        seeds = np.where(np.isfinite(n_seeds), n_seeds, 1.0)
        prompts = np.ones(len(seeds))
        if n_prompts is not None:
            prompts = np.where(np.isfinite(n_prompts), n_prompts, 1.0)
        for source in self.sd:
            of_test_set = source in ("boot", "se")
            size = prompts if source in names.SHARED_SOURCES else seeds
            at = np.flatnonzero(~(given | by_items)) if of_test_set else np.arange(len(seeds))
            here = {factor: codes[at] for factor, codes in place.items()}
            for column, sd in zip(at, self._sds(source, arrays, here, seed), strict=True):
                variance[:, column] += sd**2 / (1.0 if of_test_set else size[column])
        return np.sqrt(variance) if variance.any() else None

    def uses_items(self, arrays: PosteriorArrays, task: Index) -> Bools:
        """Of which tasks items give a standard error: elsewhere residuals contain its noise."""
        known = np.isfinite(arrays.bounds[:, task]).all(axis=0)
        of_scores = arrays.response.has_quantity(task, "score")
        return np.asarray(known & of_scores & bool({"boot", "se"} & self.sd.keys()))

    def _sds(
        self, source: str, arrays: PosteriorArrays, place: Mapping[str, Index], seed: int
    ) -> Iterator[Floats]:
        """Sds of one run in cells, (n_samples,) or (1,): their own, or those of further cells."""
        values = self.sd[source]
        there = ~np.isnan(values[0]) & np.isin(arrays.index[names.MODEL], place[names.MODEL])
        has = np.flatnonzero(there)
        measured = zip(*(arrays.index[f][has].tolist() for f in names.FACTORS), strict=True)
        # The first record of a cell counts.
        record = dict(zip(reversed(list(measured)), has[::-1].tolist(), strict=True))
        for cell in zip(*(place[f].tolist() for f in names.FACTORS), strict=True):
            here = dict(zip(names.FACTORS, cell, strict=True))
            if cell in record:
                yield np.asarray(values[:, record[cell]])
            elif source in self.typical:
                yield self._further(source, arrays, here, seed)
            else:
                # Of a test set the task decides, of seeds the model.
                factor = names.TASK if source in ("boot", "se") else names.MODEL
                yield self._root_mean_square(source, arrays.index[factor], factor, here[factor])

    def _further(
        self, source: str, arrays: PosteriorArrays, here: Mapping[str, int], seed: int
    ) -> Floats:
        """Sd of a cell without its own, from the distribution of those of its model."""
        n_samples, n_models = self.typical[source].shape
        label = names.cell_label(*(arrays.levels[f][here[f]] for f in names.FACTORS))
        rng = generator(seed, f"predict: {source} of {label}")
        model = here[names.MODEL]
        # A new model has the sd of one of the models of the table.
        of_model = rng.integers(n_models, size=n_samples) if model >= n_models else model
        typical = self.typical[source][np.arange(n_samples), of_model]
        own = typical * np.exp(self.spread[source] * rng.standard_normal(n_samples))
        shared = self.shared.get(source)
        return np.asarray(own if shared is None else np.sqrt(own**2 + shared))

    def _root_mean_square(self, source: str, index: Index, factor: str, level: int) -> Floats:
        """Over the records of a level that have such a sd; over all where it has none."""
        # All new levels have the same one.
        key = source, factor, min(level, int(index.max()) + 1)
        if key not in self._means:
            values = self.sd[source]
            has = ~np.isnan(values[0])
            alike = has & (index == level)
            used = values[:, alike if alike.any() else has]
            self._means[key] = np.asarray(np.sqrt(np.mean(used**2, axis=1)))
        return self._means[key]


def read_measurement_noise(tree: xr.DataTree, arrays: PosteriorArrays) -> MeasurementNoise:
    """Read what a fit says about the noise of new measurements.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit.
    arrays : PosteriorArrays
        The same fit.
    """
    posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()

    def samples(name: str, *dims: str) -> Floats:
        values = posterior[name].transpose("chain", "draw", *dims).to_numpy().astype(np.float64)
        return np.asarray(values.reshape(-1, *values.shape[2:]))

    noise = read_noise(tree)
    sd = {} if noise is None else noise.sd
    pooled = [source for source in names.SOURCES if names.source_cell_sd(source) in posterior]
    by_source = {s: _shared_variance(posterior, constant, s) for s in pooled}
    by_level = arrays.residual_by is not None and names.SD_LOG_RESIDUAL in posterior
    return MeasurementNoise(
        sd={source: values for source, values in sd.items() if np.isfinite(values).any()},
        typical={s: samples(names.source_model_sd(s), names.MODEL) for s in pooled},
        spread={s: samples(names.source_log_sd(s)) for s in pooled},
        shared={s: values for s, values in by_source.items() if values is not None},
        scales={n: samples(n) for n in scale_names() if n in posterior} if by_level else {},
        scale_spread=samples(names.SD_LOG_RESIDUAL) if by_level else None,
    )


def _shared_variance(posterior: xr.Dataset, constant: xr.Dataset, source: str) -> Floats | None:
    """Variance of what the prompts of several cells share, (n_samples,); None without any."""
    parts = [one.sd**2 for one in shared_errors(posterior, constant, source)]
    return np.asarray(np.sum(parts, axis=0)) if parts else None
