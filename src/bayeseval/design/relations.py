"""How alike the effects of related languages are: matrices, and the contrasts they act on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.linalg import helmert

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.errors import DesignError, InputError
from bayeseval.languages.relation_files import by_file
from bayeseval.languages.relations import Related, by_family, by_place, by_script
from bayeseval.spec import LanguageRelations

if TYPE_CHECKING:
    from bayeseval.design.container import Term

__all__ = ["Relations", "build_relations", "relate", "restore_relations", "with_relations"]


@dataclass(frozen=True, eq=False)
class Relations:
    """Relations of the languages of a table.

    The effects of languages are N(0, S) with ``S = C (sd_language^2 I + sum_k sd_k^2 K_k) C``
    and ``C = I - 11'/L``, which makes their sum zero.

    Attributes
    ----------
    used : tuple of str
        Names of the relations; the standard deviation of ``place`` is ``sd_place``.
    matrices : ndarray, shape (n_relations, n_languages, n_languages)
        The matrices K_k, with a diagonal of 1.
    """

    used: tuple[str, ...]
    matrices: Floats

    @property
    def sds(self) -> tuple[str, ...]:
        """Names of their standard deviations."""
        return tuple(names.sd_name(name) for name in self.used)

    @cached_property
    def basis(self) -> Floats:
        """Orthonormal contrasts B, shape (n_languages, n_languages - 1); B B' = C."""
        return np.ascontiguousarray(helmert(self.matrices.shape[-1]).T)

    @cached_property
    def contrasts(self) -> Floats:
        """Matrices B' K B, shape (n_relations, n_languages - 1, n_languages - 1)."""
        return np.ascontiguousarray(self.basis.T @ self.matrices @ self.basis)

    def constant_data(self) -> dict[str, xr.Variable]:
        """The matrices, ``language_<relation>`` on (language, related_language)."""
        dims = (names.LANGUAGE, names.RELATED_LANGUAGE)
        return {
            names.relation_matrix(name): xr.Variable(dims, matrix)
            for name, matrix in zip(self.used, self.matrices, strict=True)
        }


def relate(spec: LanguageRelations, labels: Sequence[str]) -> tuple[Relations, tuple[str, ...]]:
    """Relations of languages by what a spec says, and notes on how labels were read.

    Parameters
    ----------
    spec : LanguageRelations
        What makes languages alike.
    labels : sequence of str
        Codes or English names of the languages.

    Raises
    ------
    InputError
        If a label is no known language, its place or family is not known, or a file lacks it.
    """
    found: dict[str, Related] = {}
    if spec.place is not None:
        found["place"] = by_place(labels, km=spec.place)
    if spec.family is not None:
        found["family"] = by_family(labels)
    if spec.script is not None:
        found["script"] = by_script(labels)
    for name, path in sorted((spec.files or {}).items()):
        found[name] = by_file(labels, path)
    notes = dict.fromkeys(note for one in found.values() for note in one.notes)
    return Relations(spec.used, np.stack([one.matrix for one in found.values()])), tuple(notes)


def build_relations(
    spec: LanguageRelations | None, labels: Sequence[str], *, name: str
) -> tuple[Relations | None, tuple[str, ...]]:
    """Relations of the languages of a table, None without any; and notes.

    Parameters
    ----------
    spec : LanguageRelations or None
        Of the model.
    labels : sequence of str
        Languages of the table.
    name : str
        Name of the table, for messages.

    Raises
    ------
    DesignError
        If a language is not known, or all are related alike.
    """
    if spec is None:
        return None, ()
    try:
        relations, notes = relate(spec, labels)
    except InputError as error:
        raise DesignError(f"{name}: languages: {error}") from error
    for used, matrix in zip(relations.used, relations.contrasts, strict=True):
        mean = float(np.trace(matrix)) / len(matrix)
        if np.abs(matrix - mean * np.eye(len(matrix))).max() < 1e-9:
            raise DesignError(
                f"{name}: languages: all {len(labels)} languages are related alike by {used}, so "
                f"it cannot be told from other differences of languages; remove {used} from "
                "languages: in the spec"
            )
    return relations, notes


def restore_relations(constant: xr.Dataset, spec: LanguageRelations | None) -> Relations | None:
    """Relations from the ``constant_data`` of a fit.

    Parameters
    ----------
    constant : xarray.Dataset
        Group ``constant_data``.
    spec : LanguageRelations or None
        Of the model that was fitted.
    """
    if spec is None:
        return None
    dims = (names.LANGUAGE, names.RELATED_LANGUAGE)
    matrices = [constant[names.relation_matrix(name)].transpose(*dims) for name in spec.used]
    return Relations(spec.used, np.stack([one.to_numpy() for one in matrices]).astype(np.float64))


def with_relations(terms: Sequence[Term], relations: Relations | None) -> list[Term]:
    """Terms, with the relations on the one of languages."""
    return [
        replace(term, relations=relations) if term.name == names.LANGUAGE else term
        for term in terms
    ]
