"""What is known of languages and models besides their scores: covariates, labels and errors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from bayeseval._calls import explained_class
from bayeseval._typing import Floats
from bayeseval.errors import InputError, did_you_mean

__all__ = ["Covariate", "CovariateLevel"]

CovariateLevel = Literal["language", "model:language", "model"]


_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_LARGEST: Final = 1e12

# Part of every hash; to be raised when the content of the hash changes.
_HASH_VERSION: Final = b"bayeseval-covariate-1"


@explained_class
@dataclass(frozen=True, eq=False)
class Covariate:
    """One number per language, per model, or per model and language, in its own units.

    It may have values for more languages and models than the benchmark; those without records
    can be forecast and predicted.

    Attributes
    ----------
    name : str
        Lower case, for example ``mexa``; its slope is the variable ``mexa_slope``.
    by : {"language", "model:language", "model"}
        Whether there is one value per language, one per model and language, or one per model.
    labels : tuple of str
        All languages of the source: the benchmark's own label where one was matched,
        else the source's; empty for a covariate by model.
    models : tuple of str
        Models with values, as the benchmark writes them; empty unless `by` has them.
    values : ndarray, shape (n_labels,), (n_models, n_labels) or (n_models,)
        Raw units, NaN where missing. Read-only.
    se : ndarray, same shape, or None
        Standard errors of measurement, raw units. Read-only.
    source : str
        Where the values come from: a file, a table of a paper.
    matched : mapping of str to str
        Language of the benchmark to the source's label; for a covariate by model its models.
    notes : tuple of str
        Notes on how the source was read, a sentence each.
    elsewhere : float
        Value of every language that is not among the labels, for the models that have values:
        0 for lists of languages, which leave out the others. NaN where it is not known.
    categories : tuple of str
        What the values are positions in, for models of which no number is known but a family.

    Raises
    ------
    InputError
        If labels repeat, shapes differ from the labels, a number is infinite, a
        standard error is negative or missing where there is a value, or there are fewer than two
        values (for models, none).

    Examples
    --------
    >>> import bayeseval as be
    >>> speakers = be.Covariate(
    ...     "speakers", "language", labels=("de", "fr"), models=(), values=np.array([90.0, 310.0])
    ... )
    >>> speakers.labels
    ('de', 'fr')
    """

    name: str
    by: CovariateLevel
    labels: tuple[str, ...]
    models: tuple[str, ...]
    values: Floats
    se: Floats | None = None
    source: str = ""
    matched: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    elsewhere: float = np.nan
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                f"covariate {self.name!r}: a name is a lower-case letter, then letters, digits "
                "and underscores, such as mexa"
            )
        if self.by not in get_args(CovariateLevel):
            raise self._invalid(
                f"by must be one of {', '.join(get_args(CovariateLevel))}, got {self.by!r}"
            )
        for texts in ("labels", "models", "notes", "categories"):
            object.__setattr__(self, texts, tuple(str(text) for text in getattr(self, texts)))
        object.__setattr__(self, "matched", MappingProxyType(dict(self.matched)))
        self._check_labels()
        object.__setattr__(self, "values", self._array(self.values, "values"))
        at = self.values[np.isfinite(self.values)]
        if self.categories and not np.isin(at, np.arange(len(self.categories))).all():
            raise self._invalid(
                f"values of categories are whole numbers from 0 to {len(self.categories) - 1}"
            )
        n_values = int(np.isfinite(self.values).sum())
        if self.by == "model" and not n_values:
            raise self._invalid("no model has a value")
        if self.by != "model" and n_values < 2:
            raise self._invalid("fewer than two values; a slope needs at least two languages")
        if self.se is not None:
            object.__setattr__(self, "se", self._checked_se(self.se))

    def at(self, languages: Sequence[str], models: Sequence[str] = ()) -> tuple[Floats, Floats]:
        """Values and standard errors of some languages, in the order asked for.

        Parameters
        ----------
        languages : sequence of str
            Labels of the benchmark or of the source.
        models : sequence of str
            For a covariate that has values of models.

        Returns
        -------
        values : ndarray, shape (n_languages,), (n_models, n_languages) or (n_models,)
            Raw units, NaN where the source has none.
        se : ndarray, same shape
            Zero where the covariate counts as exact, NaN where there is no value.
        """
        rows = self._places(languages, self.labels)
        columns = self._places(models, self.models)
        at = {
            "language": (rows,),
            "model": (columns,),
            "model:language": np.ix_(columns, rows),
        }[self.by]
        values = self._padded(self.values, self.elsewhere)[at]
        if self.se is None:
            return values, np.where(np.isnan(values), np.nan, 0.0)
        return values, self._padded(self.se, np.nan)[at]

    def _padded(self, array: Floats, elsewhere: float) -> Floats:
        """The array with one place more on every axis, for labels that it does not have."""
        wide = np.pad(array, [(0, 1)] * array.ndim, constant_values=np.nan)
        if self.by == "model:language":
            there = np.isfinite(array).any(axis=1)
            wide[:-1, -1] = np.where(there, elsewhere, np.nan)
        return wide

    def category_of(self, models: Sequence[str]) -> tuple[str | None, ...]:
        """Category of each model, None where the source has none; for values by model."""
        values = self.at((), models)[0]
        return tuple(None if np.isnan(one) else self.categories[int(one)] for one in values)

    def missing(self, languages: Sequence[str]) -> tuple[str, ...]:
        """Of the given languages, those for which the source has no value; none by model."""
        known = np.asarray(np.isfinite(np.atleast_2d(self.values)).any(axis=0))
        if self.by == "model":
            return ()
        with_value = {self.labels[i] for i in np.flatnonzero(known)}
        return tuple(language for language in languages if language not in with_value)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of name, labels, values and errors, as 64 hexadecimal digits.

        The order of languages and models does not matter, nor do `source` and `notes`.
        """
        digest = hashlib.sha256(_HASH_VERSION)
        languages = sorted(range(len(self.labels)), key=lambda i: self.labels[i])
        models = sorted(range(len(self.models)), key=lambda i: self.models[i])
        texts = [self.name, self.by, *(self.labels[i] for i in languages)]
        for text in [*texts, "", *(self.models[i] for i in models)]:
            encoded = text.encode("utf-8")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        for array in (self.values, self.se):
            digest.update(b"\x00" if array is None else b"\x01")
            if array is not None:
                ordered = array if self.by == "model" else array[..., languages]
                ordered = ordered[models] if self.models else ordered
                digest.update((np.where(np.isnan(ordered), np.nan, ordered) + 0.0).tobytes())
        for text in self.categories:
            digest.update(text.encode("utf-8") + b"\x00")
        if not np.isnan(self.elsewhere):
            digest.update(np.float64(self.elsewhere).tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        counts = {"models": len(self.models), "languages": len(self.labels)}
        shape = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
        return f"<Covariate {self.name!r} by {self.by}: {shape}, {len(self.matched)} matched>"

    def _invalid(self, problem: str) -> InputError:
        where = f" ({self.source})" if self.source else ""
        return InputError(f"covariate {self.name}{where}: {problem}")

    def _check_labels(self) -> None:
        for what, labels in (("language", self.labels), ("model", self.models)):
            repeated = _first_repeated(labels)
            if repeated is not None:
                raise self._invalid(f"the {what} {repeated!r} is given twice")
        if self.by == "language" and self.models:
            raise self._invalid(
                "a covariate by language has no models; leave them out, or give by='model:language'"
            )
        if self.by == "model:language" and not self.models:
            raise self._invalid("a covariate by model and language needs models")
        if self.by == "model" and self.labels:
            raise self._invalid(
                "a covariate by model has no languages; leave them out, or give by='model:language'"
            )
        own, what = (self.models, "models") if self.by == "model" else (self.labels, "languages")
        unknown = [label for label in self.matched if label not in own]
        if unknown:
            raise self._invalid(
                f"{unknown[0]!r} is matched, but is not one of its {what}"
                f"{did_you_mean(unknown[0], own)}"
            )

    def _array(self, values: Any, content: str) -> Floats:
        array = np.array(values, dtype=np.float64)
        shape = {
            "language": (len(self.labels),),
            "model": (len(self.models),),
            "model:language": (len(self.models), len(self.labels)),
        }[self.by]
        if array.shape != shape:
            raise self._invalid(
                f"{content} have the shape {array.shape}, expected {shape} by the labels"
            )
        # Squares of larger ones are not finite, and no slope can be told from zero.
        if (np.abs(array) > _LARGEST).any():
            raise self._invalid(
                f"{content} must be numbers from -{_LARGEST:g} to {_LARGEST:g}, or NaN where "
                "missing"
            )
        array.flags.writeable = False
        return array

    def _checked_se(self, se: Any) -> Floats:
        array = self._array(se, "standard errors")
        has_value = np.isfinite(self.values)
        if (array[has_value & np.isfinite(array)] < 0).any():
            raise self._invalid("a standard error is negative")
        if np.isnan(array[has_value]).any():
            raise self._invalid("a value has no standard error; give 0 where it is exact")
        return array

    @staticmethod
    def _places(wanted: Sequence[str], labels: Sequence[str]) -> npt.NDArray[np.int64]:
        place = {label: i for i, label in enumerate(labels)}
        return np.array([place.get(label, len(labels)) for label in wanted], dtype=np.int64)


def _first_repeated(labels: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            return label
        seen.add(label)
    return None
