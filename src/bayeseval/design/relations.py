"""How alike effects of related languages or models are: matrices, and contrasts of effects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import xarray as xr
from scipy.linalg import helmert

from bayeseval import names
from bayeseval._text import shorten
from bayeseval._typing import Floats
from bayeseval.errors import DesignError, InputError, did_you_mean, wording
from bayeseval.languages.relation_files import by_file
from bayeseval.languages.relations import Related, by_family, by_place, by_script
from bayeseval.records import Covariate, look_alikes, look_alikes_text
from bayeseval.spec import LanguageRelations, ModelSpec

if TYPE_CHECKING:
    from bayeseval.design.container import Term

__all__ = [
    "Relations",
    "build_relations",
    "relate",
    "restore_relations",
    "same_family",
    "with_relations",
]

# How alike the names of two families are before one of them may be a slip.
_NEARLY: Final = 0.85


@dataclass(frozen=True, eq=False)
class Relations:
    """Relations of the languages, or of the models, of a table.

    The effects of languages are N(0, S) with ``S = C (sd_language^2 I + sum_k sd_k^2 K_k) C``
    and ``C = I - 11'/L``, which makes their sum zero; those of models likewise.

    Attributes
    ----------
    used : tuple of str
        Names of the relations; the standard deviation of ``place`` is ``sd_place``.
    matrices : ndarray, shape (n_relations, n_levels, n_levels)
        The matrices K_k, with a diagonal of 1.
    factor : str
        ``language`` or ``model``.
    """

    used: tuple[str, ...]
    matrices: Floats
    factor: str = names.LANGUAGE

    @property
    def sds(self) -> tuple[str, ...]:
        """Names of their standard deviations."""
        return tuple(names.sd_name(name) for name in self.used)

    @cached_property
    def basis(self) -> Floats:
        """Orthonormal contrasts B, shape (n_levels, n_levels - 1); B B' = C."""
        return np.ascontiguousarray(helmert(self.matrices.shape[-1]).T)

    @cached_property
    def contrasts(self) -> Floats:
        """Matrices B' K B, shape (n_relations, n_levels - 1, n_levels - 1)."""
        return np.ascontiguousarray(self.basis.T @ self.matrices @ self.basis)

    def constant_data(self) -> dict[str, xr.Variable]:
        """The matrices, such as ``language_place`` on (language, related_language)."""
        dims = (self.factor, names.related_dim(self.factor))
        return {
            names.relation_matrix(name, self.factor): xr.Variable(dims, matrix)
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


def same_family(families: Sequence[str | None]) -> Floats:
    """1 for models of one family, 0 for others; a model without a family is like no other."""
    labels = np.array([f"{i}" if one is None else f" {one}" for i, one in enumerate(families)])
    return np.asarray(labels[:, None] == labels, dtype=np.float64)


def build_relations(
    spec: ModelSpec,
    coords: Mapping[str, tuple[str, ...]],
    covariates: Sequence[Covariate],
    *,
    name: str,
) -> tuple[list[Relations], list[str]]:
    """Relations of the levels of a table, and notes.

    Parameters
    ----------
    spec : ModelSpec
        The model.
    coords : mapping of str to tuple of str
        Labels of the factors.
    covariates : sequence of Covariate
        Those that are available; families of models are one of them.
    name : str
        Name of the table, for messages.

    Raises
    ------
    DesignError
        If a language or the families are not known, or all levels are related alike.
    """
    found: list[Relations] = []
    notes: list[str] = []
    if spec.languages is not None:
        try:
            of_languages, read = relate(spec.languages, coords[names.LANGUAGE])
        except InputError as error:
            raise DesignError(f"{name}: languages: {error}") from error
        found.append(of_languages)
        notes += read
    if spec.models is not None:
        of_models, read = _families(spec, coords[names.MODEL], covariates, name)
        found.append(of_models)
        notes += read
    for one in found:
        _refuse_alike(one, name)
    return found, notes


def _families(
    spec: ModelSpec, models: Sequence[str], covariates: Sequence[Covariate], name: str
) -> tuple[Relations, tuple[str, ...]]:
    given = next((one for one in covariates if one.name == names.FAMILY), None)
    if given is None or not given.categories:
        file = wording("covariate='FILE'", "--covariate FILE")
        raise DesignError(
            f"{name}: the model {spec.name} relates models by family, and no table of models with "
            f"the columns model and family is given; give one ({file}), or name it in the card "
            "(covariates: {family: FILE})"
        )
    families = given.category_of(models)
    alone = [model for model, one in zip(models, families, strict=True) if one is None]
    notes = _slips(families)
    if alone:
        note = f"family: none is given for {shorten(alone)}, which no other model is related to"
        notes = (note, *notes)
    matrices = same_family(families)[None]
    return Relations((names.MODEL_FAMILY,), matrices, names.MODEL), notes


def _slips(families: Sequence[str | None]) -> tuple[str, ...]:
    """Notes on families that look alike, and those of one model named nearly as larger ones."""
    counts = Counter(one for one in families if one is not None)
    groups = look_alikes(list(counts))
    alike = {family for group in groups for family in group}
    notes = [
        f"family: names that look alike are families of their own: {look_alikes_text(group)}; "
        "correct the table of models if they are one"
        for group in groups
    ]
    for family in (one for one, number in counts.items() if number == 1 and one not in alike):
        near = [one for one, number in counts.items() if number > 1 and _is_slip(family, one)]
        if near:
            notes.append(f"family: {family!r} has one model{did_you_mean(family, near)}")
    return tuple(notes)


def _is_slip(one: str, other: str) -> bool:
    """Whether names are nearly the same; "gpt-3" and "gpt-4" are two generations."""
    ratio = SequenceMatcher(None, one.casefold(), other.casefold()).ratio()
    return ratio >= _NEARLY and re.findall(r"\d+", one) == re.findall(r"\d+", other)


def _refuse_alike(relations: Relations, name: str) -> None:
    """Refuse relations that are the same for all pairs of levels."""
    factor = relations.factor
    for used, matrix in zip(relations.used, relations.contrasts, strict=True):
        mean = float(np.trace(matrix)) / len(matrix)
        if np.abs(matrix - mean * np.eye(len(matrix))).max() < 1e-9:
            raise DesignError(
                f"{name}: {factor}s: all {len(matrix) + 1} {factor}s are related alike by "
                f"{used.removeprefix('model_')}, so it cannot be told from other differences of "
                f"{factor}s; remove {used.removeprefix('model_')} from {factor}s: in the spec"
            )


def restore_relations(constant: xr.Dataset, spec: ModelSpec) -> list[Relations]:
    """Relations from the ``constant_data`` of a fit.

    Parameters
    ----------
    constant : xarray.Dataset
        Group ``constant_data``.
    spec : ModelSpec
        The model that was fitted.
    """
    found = []
    for factor, one in ((names.LANGUAGE, spec.languages), (names.MODEL, spec.models)):
        if one is not None:
            dims = (factor, names.related_dim(factor))
            matrices = [
                constant[names.relation_matrix(name, factor)].transpose(*dims) for name in one.used
            ]
            values = np.stack([matrix.to_numpy() for matrix in matrices]).astype(np.float64)
            found.append(Relations(one.used, values, factor))
    return found


def with_relations(terms: Sequence[Term], relations: Sequence[Relations]) -> list[Term]:
    """Terms, with the relations on those whose levels they relate."""
    by_factor = {one.factor: one for one in relations}
    return [replace(term, relations=by_factor.get(term.name)) for term in terms]
