"""Which languages can be forecast, and how related they are to those with records."""

from __future__ import annotations

from collections.abc import Sequence

from bayeseval import names
from bayeseval._text import shorten
from bayeseval._typing import Floats
from bayeseval.design import relate
from bayeseval.errors import InputError
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.fitting.relations import related_matrices
from bayeseval.forecasting.map import places
from bayeseval.languages.matching import understand
from bayeseval.spec import LanguageRelations

__all__ = ["languages_of_the_map", "related_languages", "why_unrelated"]

# Most labels that a note lists.
_SHOWN = 3


def languages_of_the_map(own: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Languages without records of which a place is known, and those that are asked for.

    Parameters
    ----------
    own : sequence of str
        Languages with records.
    asked : sequence of str
        Labels that the user wants; unknown ones are left out.

    Returns
    -------
    list of str
        ISO 639-3 codes, for languages of the user the user's label.
    """
    taken = {one.standard for label in own if (one := understand(label)) is not None}
    chosen: dict[str, str] = {}
    for label in [*asked, *places()]:
        one = understand(label)
        if one is not None and label not in own and one.standard not in taken:
            chosen.setdefault(one.standard, label)
    return sorted(chosen.values())


def related_languages(
    arrays: PosteriorArrays, spec: LanguageRelations | None, new: Sequence[str]
) -> tuple[list[str], Floats | None, list[str]]:
    """How related new languages are to those of a fit, and to each other.

    Parameters
    ----------
    arrays : PosteriorArrays
        The fit.
    spec : LanguageRelations or None
        Of its model.
    new : sequence of str
        Labels of languages without records.

    Returns
    -------
    known : list of str
        Those of the new languages whose relations are known.
    matrices : ndarray, shape (n_relations, n_languages + n_known, n_languages + n_known), or None
        Those of the fit's languages first, as the fit has them.
    notes : list of str

    Raises
    ------
    InputError
        If no relation of a new language is known.
    """
    if spec is None or names.LANGUAGE not in arrays.related:
        return list(new), None, []
    own = arrays.levels[names.LANGUAGE]
    try:
        found, known = relate(spec, [*own, *new])[0], list(new)
    except InputError:
        # One by one only where some are not known.
        known = [label for label in new if why_unrelated(spec, label) is None]
        found = relate(spec, [*own, *known])[0]
    if not known:
        raise InputError(
            "it is not known how any of the languages without records is related to others by "
            f"{', '.join(spec.used)}; name languages by ISO 639 codes or English names"
            f"{', and add them to languages: files in the spec' if spec.files else ''}"
        )
    lost = [label for label in new if label not in known]
    listed = shorten(lost, limit=_SHOWN)
    note = f"not forecast, because their relations to others are not known: {listed}"
    matrices = related_matrices(arrays, names.LANGUAGE, found.matrices)
    return known, matrices, [note] if lost else []


def why_unrelated(spec: LanguageRelations, label: str) -> str | None:
    """Why it is not known how a language is related to others; None if it is."""
    try:
        relate(spec, [label])
    except InputError as error:
        return str(error)
    return None
