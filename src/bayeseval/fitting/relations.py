"""How related levels without records are to those of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeseval import names
from bayeseval._text import shorten
from bayeseval._typing import Floats
from bayeseval.design import relate, same_family
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.related import NewLevels
from bayeseval.fitting.covariates import CovariateSource, called_models, stored_covariate
from bayeseval.spec import ModelSpec

if TYPE_CHECKING:
    import xarray as xr

    from bayeseval.estimands.container import PosteriorArrays

__all__ = ["new_levels", "related_matrices"]


def new_levels(
    data: xr.DataTree,
    run: Mapping[str, Any],
    spec: ModelSpec,
    given: CovariateSource,
    arrays: PosteriorArrays,
    labels: Mapping[str, tuple[str, ...]],
    notes: list[str],
) -> dict[str, NewLevels]:
    """Relations of levels without records, by factor; of the factors that the fit relates.

    Parameters
    ----------
    data, run, spec : DataTree, mapping, ModelSpec
        Those of the fit.
    given : Covariate, sequence of Covariate, str or Path, optional
        Families of models; when left out, those that the fit was made with.
    arrays : PosteriorArrays
        The posterior of the fit.
    labels : mapping of str to tuple of str
        Levels by factor, those of the fit among them or not.
    notes : list of str
        Gets notes on models without a family, or of one that no model of the fit is of.

    Raises
    ------
    InputError
        If a language is not known, or the relations have changed since the fit.
    """
    found = {}
    for factor in arrays.related:
        own = arrays.levels[factor]
        new = tuple(dict.fromkeys(label for label in labels[factor] if label not in own))
        if not new:
            continue
        if factor == names.LANGUAGE and spec.languages is not None:
            matrices = relate(spec.languages, [*own, *new])[0].matrices
        else:
            source = stored_covariate(data, run, spec, names.FAMILY, given)
            called = called_models(source, new, notes)
            # A table of new models alone says nothing of those of the fit.
            whole = set(own) <= set(source.models)
            fitted = source if whole else stored_covariate(data, run, spec, names.FAMILY)
            families = [*fitted.category_of(own), *source.category_of(called)]
            alone = [label for label, one in zip(new, families[len(own) :], strict=True) if not one]
            if alone:
                notes.append(
                    f"family: none is given for {shorten(alone)}, which no other model is "
                    "related to"
                )
            notes += _unknown_families(new, families[len(own) :], families[: len(own)])
            matrices = same_family(families)[None]
        found[factor] = NewLevels(new, related_matrices(arrays, factor, matrices))
    return found


def _unknown_families(
    new: Sequence[str], theirs: Sequence[str | None], own: Sequence[str | None]
) -> list[str]:
    """Notes on families of new models that no model of the fit is of."""
    known = dict.fromkeys(one for one in own if one)
    unknown = dict.fromkeys(one for one in theirs if one and one not in known)
    notes = []
    for family in unknown:
        models = [label for label, one in zip(new, theirs, strict=True) if one == family]
        notes.append(
            f"family: {family!r} ({shorten(models)}) has no model in the table"
            f"{did_you_mean(family, known)}"
        )
    return notes


def related_matrices(arrays: PosteriorArrays, factor: str, matrices: Floats) -> Floats:
    """Matrices of a fit's levels and new ones, if those of its own are as they were.

    Parameters
    ----------
    arrays : PosteriorArrays
        The posterior of the fit.
    factor : str
        ``language`` or ``model``.
    matrices : ndarray, shape (n_relations, n_levels + n_new, n_levels + n_new)
        As they are now.

    Raises
    ------
    InputError
        If relations of the fit's levels have changed.
    """
    n = len(arrays.levels[factor])
    if not np.allclose(matrices[:, :n, :n], arrays.related[factor].matrices, atol=1e-6):
        raise InputError(
            f"the relations of the table's {factor}s have changed since the fit was made; fit again"
        )
    return matrices
