"""Read the labelled tree of a fit into plain arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

import numpy as np
import xarray as xr
from scipy import sparse

from bayeseval import names
from bayeseval._text import show
from bayeseval._typing import Floats, Index
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.container import (
    Cells,
    CommonPairs,
    Loadings,
    Pairs,
    PosteriorArrays,
    Response,
    SampledErrors,
    SharedErrors,
)
from bayeseval.estimands.covariates import read_slopes
from bayeseval.estimands.related import read_related
from bayeseval.families import FAMILIES, extra_parameters, link, of_quantity, scale_names

__all__ = ["default_margin", "group", "read_arrays", "refuse_infinite"]

_PARAMETERS = ("_effect", "_slope", "_unknown")
# Share of the range of scores.
_MARGIN = 0.01


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
    factors = [*crossed, *([names.DATASET] if f"{names.DATASET}_index" in constant else [])]
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
    by = next(
        (f for f in names.FACTORS for s in scale_names() if names.level_name(s, f) in posterior),
        None,
    )
    response = _read_response(posterior, constant, len(levels[names.TASK]), by)
    families = set(response.families)
    pairs, bounds = _pairs(index, levels), _bounds(constant, len(levels[names.TASK]))
    score = _numbers(group(tree, "observed_data"), names.SCORE, names.RECORD)
    if {len(positions) for positions in index.values()} != {len(score)}:
        raise InputError("the fit is damaged: it has not one score for each record")
    if not np.isfinite(score).all():
        raise InputError("the fit is damaged: a score is no finite number")
    residual = np.zeros((len(intercept), 1 if by is None else len(levels[by])))
    if names.SD_RESIDUAL in scale_names(families):
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
        shared_items=shared_item_variances(constant),
        intercept=intercept,
        main=main,
        main_sd={
            factor: _samples(posterior, names.sd_name(factor))
            for factor in crossed
            if names.sd_name(factor) in posterior
        },
        cells=tuple(
            _read_cells(posterior, constant, term, index, levels)
            for term in (*names.INTERACTIONS, *map(names.low_rank_term, names.LOW_RANK_TERMS))
            if names.effect_name(term) in posterior
        ),
        slopes=read_slopes(posterior, constant),
        related=read_related(posterior, constant),
        pairs=pairs,
        residual_sd=residual,
        residual_by=by,
        extra={p.name: _samples(posterior, p.name) for p in extra_parameters(families)},
        likelihood=families.pop() if len(families) == 1 else "mixed",
        population=str(constant.attrs.get("population", "observed")),
        response=response,
        common=_common_pairs(constant, pairs, levels),
        bounds=bounds,
        margin=_attribute(constant, "margin", default_margin(bounds, score)),
    )


def shared_item_variances(constant: xr.Dataset) -> dict[str, Floats]:
    """Variances of the effects of shared test sets on the records, by what shares them.

    Parameters
    ----------
    constant : xarray.Dataset
        Group ``constant_data``.

    Returns
    -------
    dict of str to ndarray, shape (n_records,)
        ``task``, ``language_task`` and ``model_task`` as far as there are such effects.
    """
    variances: dict[str, Floats] = {}
    for part in ("task", "language_task", "model_task"):
        name = names.term_dim(f"{names.TEST_SET}:{part}")
        if f"{name}_sd" in constant:
            sd = _vector(constant, f"{name}_sd")
            variances[part] = sd[_positions(constant, f"{name}_index", len(sd))] ** 2
    return variances


def refuse_infinite(tree: xr.DataTree, source: str) -> None:
    """Refuse draws of parameters that are no finite numbers, as no command can use them.

    Of what is derived from the draws some is NaN by design, where a table does not identify it.

    Raises
    ------
    InputError
        With the first such parameter; `source` says where it is.
    """
    posterior = group(tree, "posterior")
    known = {names.INTERCEPT, *scale_names(), *(p.name for p in extra_parameters())}
    for name, variable in posterior.data_vars.items():
        text = str(name)
        if text not in known and not (text.startswith("sd_") or text.endswith(_PARAMETERS)):
            continue
        if variable.dtype.kind == "f" and not np.isfinite(variable.values).all():
            raise InputError(
                f"{source} is damaged: {text} has draws that are no finite numbers; restore the "
                "file, or run bayeseval fit again"
            )


def default_margin(bounds: Floats, score: Floats) -> float:
    """Difference between models without practical meaning, where the user gives none.

    Parameters
    ----------
    bounds : ndarray, shape (2, n_tasks)
        Declared lower and upper bounds of the scores; NaN where one is not known.
    score : ndarray, shape (n_records,)

    Returns
    -------
    float
        1 % of the widest range; NaN where one is unknown, or all scores are closer than that.
    """
    margin = _MARGIN * float((bounds[1] - bounds[0]).max())
    return margin if float(np.ptp(score)) > margin else float("nan")


def _common_pairs(
    constant: xr.Dataset, pairs: Pairs, levels: Mapping[str, tuple[str, ...]]
) -> CommonPairs:
    choice = str(constant.attrs.get("pairs", "any"))
    if "common_pair_language" not in constant:
        return CommonPairs(pairs.language, pairs.task, choice)
    language, task = (
        _positions(constant, f"common_pair_{f}", len(levels[f]))
        for f in (names.LANGUAGE, names.TASK)
    )
    return CommonPairs(language, task, choice)


def _bounds(constant: xr.Dataset, n_tasks: int) -> Floats:
    """Declared bounds of the scores; NaN in results of earlier versions."""
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
    common_likelihood = str(constant.attrs.get("likelihood", "normal"))
    task_likelihoods = (common_likelihood,) * n_tasks
    if "likelihood" in constant:
        task_likelihoods = tuple(str(family) for family in constant["likelihood"].values)
    unknown = [family for family in task_likelihoods if family not in FAMILIES]
    if unknown:
        raise InputError(
            f"the fit has the unknown likelihood {unknown[0]!r}"
            f"{did_you_mean(unknown[0], FAMILIES)} (known: {', '.join(FAMILIES)})"
        )
    logit = link(task_likelihoods) == "logit"
    families = tuple(dict.fromkeys(task_likelihoods))
    place = {family: i for i, family in enumerate(families)}
    unknown_bounds = np.full(n_tasks, np.nan)
    return Response(
        link="logit" if logit else "identity",
        families=families,
        family=np.array([place[family] for family in task_likelihoods], dtype=np.int64),
        lower=_vector(constant, "score_lower") if logit else unknown_bounds,
        upper=_vector(constant, "score_upper") if logit else unknown_bounds,
        chance=_vector(constant, "chance_share") if "chance_share" in constant else None,
        edge=_attribute(constant, "edge", 0.0),
        n_items=_vector(constant, "n_items") if set(families) & set(of_quantity("count")) else None,
        dispersion={
            family: _noise_scale(posterior, name, by)
            for family in of_quantity("share", "count")
            for name in scale_names([family])
            if family in families
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


def _attribute(dataset: xr.Dataset, name: str, default: float) -> float:
    value = dataset.attrs.get(name, default)
    try:
        # Stored as text by some versions.
        return float(np.asarray(value).item())
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the fit is damaged: its attribute {name!r} is {show(value)}, not a number"
        ) from error


def _samples(posterior: xr.Dataset, name: str, *dims: str) -> Floats:
    """Flatten chains and draws of one variable: (n_samples, ...) in float64."""
    values = _numbers(posterior, name, "chain", "draw", *dims)
    return values.reshape(-1, *values.shape[2:])


def _vector(dataset: xr.Dataset, name: str) -> Floats:
    return _numbers(dataset, name, *(_variable(dataset, name).dims[:1] or (names.RECORD,)))


def _numbers(dataset: xr.Dataset, name: str, *dims: Hashable) -> Floats:
    """A variable that has these dimensions and no others."""
    array = _variable(dataset, name)
    if {*array.dims} != {*dims} or array.dtype.kind not in "iufb":
        raise InputError(
            f"the fit is damaged: {name!r} has the dimensions {show(array.dims)} and the type "
            f"{array.dtype}; numbers by {show(dims)} were expected"
        )
    return np.asarray(array.transpose(*dims).values, dtype=np.float64)


def _replicates(posterior: xr.Dataset, constant: xr.Dataset) -> Iterator[SampledErrors]:
    for source in names.SOURCES:
        if names.source_cell_sd(source) in posterior:
            dim = names.source_cell_dim(source)
            record = _positions(constant, f"{dim}_record", constant.sizes[names.RECORD])
            yield SampledErrors(
                record=record,
                share=_vector(constant, f"{source}_share")[record],
                sd=_samples(posterior, names.source_cell_sd(source), dim),
                shared=tuple(shared_errors(posterior, constant, source)),
            )


def shared_errors(
    posterior: xr.Dataset, constant: xr.Dataset, source: str
) -> Iterator[SharedErrors]:
    """What the prompts, or the judges, of several cells have in common.

    Parameters
    ----------
    posterior, constant : xarray.Dataset
        Groups ``posterior`` and ``constant_data``.
    source : str
        Any source of noise; seeds and test sets have none.
    """
    for name in names.shared_by(source):
        effect, rows = names.effect_name(name), f"{source}_row"
        if effect not in posterior:
            continue
        drawn = _samples(posterior, effect, names.term_dim(name))
        n_cells = constant.sizes[names.source_cell_dim(source)]
        cell = _positions(constant, f"{rows}_cell", n_cells)
        level = _positions(constant, f"{names.term_dim(name)}_{rows}", drawn.shape[1])
        average = sparse.csr_array(
            (1.0 / np.bincount(cell)[cell], (cell, np.arange(len(cell)))),
            shape=(n_cells, len(cell)),
        )
        mean = np.asarray((average @ drawn[:, level].T).T)
        yield SharedErrors(name, _samples(posterior, names.sd_name(name)), mean)


def _standard_errors(
    known: Floats | None, replicates: tuple[SampledErrors, ...], n_records: int
) -> Floats | None:
    if not replicates:
        return known
    squared = np.zeros(n_records) if known is None else known**2
    for noise in replicates:
        shared = sum(float(np.mean(one.sd**2)) for one in noise.shared)
        squared[noise.record] += noise.share * (np.mean(noise.sd**2, axis=0) + shared)
    return np.sqrt(squared)


def _labels(posterior: xr.Dataset, constant: xr.Dataset, factor: str) -> tuple[str, ...]:
    for dataset in (posterior, constant):
        if factor in dataset.coords:
            return tuple(str(label) for label in dataset.coords[factor].values)
    raise InputError(f"the fit has no coordinate with the levels of the dimension {factor!r}")


def _positions(constant: xr.Dataset, name: str, n_levels: int) -> Index:
    values = _vector(constant, name).astype(np.int64)
    if values.size and (values.min() < 0 or values.max() >= n_levels):
        raise InputError(
            f"the fit is damaged: {name} has positions outside the {n_levels} levels of its factor"
        )
    return values


def _pairs(index: Mapping[str, Index], levels: Mapping[str, tuple[str, ...]]) -> Pairs:
    n_tasks = len(levels[names.TASK])
    _, first, of_record = np.unique(
        index[names.LANGUAGE] * n_tasks + index[names.TASK], return_index=True, return_inverse=True
    )
    levels_of_pair = {f: values[first] for f, values in index.items() if f != names.MODEL}
    labels = tuple(
        names.cell_label(levels[names.LANGUAGE][i], levels[names.TASK][j])
        for i, j in zip(levels_of_pair[names.LANGUAGE], levels_of_pair[names.TASK], strict=True)
    )
    return Pairs(levels_of_pair, labels, of_record.reshape(-1).astype(np.int64))


def _loadings(posterior: xr.Dataset, term: str) -> Loadings | None:
    """Loadings of a low-rank interaction; None for others."""
    if not term.startswith(names.LOW_RANK):
        return None
    dim = names.rank_dim(term)
    by_factor = {
        factor: _samples(posterior, names.loading_name(term, factor), dim, factor)
        for factor in names.factors_of(term)
    }
    return Loadings(by_factor, _samples(posterior, names.sd_name(term), dim))


def _read_cells(
    posterior: xr.Dataset,
    constant: xr.Dataset,
    term: str,
    index: Mapping[str, Index],
    levels: Mapping[str, tuple[str, ...]],
) -> Cells:
    dim, factors = names.term_dim(term), names.factors_of(term)
    members = {f: _positions(constant, f"{dim}_{f}", len(levels[f])) for f in factors}
    shape = tuple(len(levels[factor]) for factor in factors)
    cell_codes = np.ravel_multi_index(tuple(members[f] for f in factors), shape)
    record_codes = np.ravel_multi_index(tuple(index[f] for f in factors), shape)
    order = np.argsort(cell_codes)
    position = np.searchsorted(cell_codes[order], record_codes).clip(max=len(order) - 1)
    of_record = order[position]
    stray = np.flatnonzero(cell_codes[of_record] != record_codes)
    if stray.size:
        raise InputError(f"record {stray[0]} is in none of the {len(order)} {dim} cells")
    loadings = _loadings(posterior, term)
    return Cells(
        term=term,
        members=members,
        effect=_samples(posterior, names.effect_name(term), dim),
        # Of a low-rank interaction that of an effect given the sds of the loadings.
        sd=_samples(posterior, names.sd_name(term))
        if loadings is None
        else np.sqrt((loadings.sd**2).sum(axis=1)),
        of_record=of_record.astype(np.int64),
        loadings=loadings,
    )
