"""How related languages without records are to those of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayeseval import names
from bayeseval.design import relate
from bayeseval.errors import InputError
from bayeseval.estimands.related import NewLanguages
from bayeseval.spec import LanguageRelations

if TYPE_CHECKING:
    from bayeseval.estimands.container import PosteriorArrays

__all__ = ["new_languages"]


def new_languages(
    arrays: PosteriorArrays, spec: LanguageRelations | None, labels: Sequence[str]
) -> NewLanguages | None:
    """Relations of languages without records; None where the fit does not relate languages.

    Parameters
    ----------
    arrays : PosteriorArrays
        The fit.
    spec : LanguageRelations or None
        Of its model.
    labels : sequence of str
        Languages, those of the fit among them or not.

    Raises
    ------
    InputError
        If a language is not known, or the relations have changed since the fit.
    """
    if spec is None or arrays.related is None:
        return None
    own = arrays.levels[names.LANGUAGE]
    new = tuple(dict.fromkeys(label for label in labels if label not in own))
    matrices = relate(spec, [*own, *new])[0].matrices.copy()
    if not np.allclose(matrices[:, : len(own), : len(own)], arrays.related.matrices, atol=1e-6):
        raise InputError(
            "the relations of the table's languages have changed since the fit was made; fit again"
        )
    return NewLanguages(new, matrices)
