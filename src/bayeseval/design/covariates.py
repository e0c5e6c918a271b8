"""Covariates in the linear predictor: standardised values, known and estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import numpy as np
import xarray as xr

from bayeseval import names
from bayeseval._resources import shipped_covariates
from bayeseval._typing import Floats, Index
from bayeseval.errors import DesignError, did_you_mean, wording
from bayeseval.records import Covariate, CovariateLevel
from bayeseval.spec import CovariateTerm, ModelSpec

__all__ = ["Slope", "build_slopes", "restore_slopes"]


# A covariate whose sd is this small relative to its values counts as constant.
_CONSTANT = 1e-9
# Rows and models that are compared for a slip in a name.
_MOST_COMPARED: Final = 50

# What has a value, in messages.
_LEVELS: Final[Mapping[CovariateLevel, str]] = {
    "language": "languages",
    "model": "models",
    "model:language": "pairs of model and language",
}


@dataclass(frozen=True, eq=False)
class Slope:
    """One covariate: x_l theta, x_ml theta or x_m theta.

    Values are standardised over the languages, models x languages or models of the benchmark that
    have one, so that theta is in score units per standard deviation and the intercept stays
    the mean of the benchmark.

    Attributes
    ----------
    name : str
        Name in the spec.
    by : {"language", "model:language", "model"}
        Whether each language, each pair of model and language, or each model has a value.
    raw, raw_se : ndarray, shape (n_languages,), (n_models, n_languages) or (n_models,)
        Values and standard errors in the covariate's own units; NaN where missing.
    mean, sd : float
        Mean and standard deviation (ddof 1) that the raw values are standardised with.
    index : ndarray of int, shape (n_records,)
        Position of each record's value among the flattened values.
    unknown : ndarray of int, shape (n_unknown,)
        Flattened positions of values that are estimated.
    labels : tuple of str
        Their labels.
    notes : tuple of str
        Remarks for the user.
    """

    name: str
    by: CovariateLevel
    raw: Floats
    raw_se: Floats
    mean: float
    sd: float
    index: Index
    unknown: Index
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def slope(self) -> str:
        """Name of the parameter theta."""
        return names.slope_name(self.name)

    @property
    def drawn(self) -> str:
        """Variable of the unknown values."""
        return names.covariate_unknown(self.name)

    @property
    def measured(self) -> str:
        """Name of the measurements of unknown values."""
        return names.covariate_measured(self.name)

    @property
    def dim(self) -> str:
        """Dimension of the unknown values."""
        return names.covariate_cell_dim(self.name)

    @property
    def n_unknown(self) -> int:
        """Number of values that are estimated."""
        return len(self.unknown)

    @property
    def known(self) -> Floats:
        """Standardised values, flattened; zero where they are unknown."""
        values = ((self.raw - self.mean) / self.sd).reshape(-1)
        values[self.unknown] = 0.0
        return values

    @property
    def with_error(self) -> Index:
        """Positions of the unknown values that have a measurement."""
        return np.flatnonzero(np.isfinite(self.raw.reshape(-1)[self.unknown]))

    @property
    def measurements(self) -> tuple[Floats, Floats]:
        """Standardised measurements of unknown values, and their standard errors."""
        at = self.unknown[self.with_error]
        return (self.raw.reshape(-1)[at] - self.mean) / self.sd, self.raw_se.reshape(-1)[
            at
        ] / self.sd

    def values(self, posterior: Mapping[str, Floats]) -> Floats:
        """Standardised values, with draws of the unknown ones.

        Parameters
        ----------
        posterior : dict of str to ndarray, shape (..., n_unknown)
            Holds :attr:`drawn` where values are unknown.

        Returns
        -------
        ndarray, shape (..., n_cells) or (n_cells,)
        """
        if not self.n_unknown:
            return self.known
        drawn = np.asarray(posterior[self.drawn])
        values = np.broadcast_to(self.known, (*drawn.shape[:-1], len(self.known))).copy()
        values[..., self.unknown] = drawn
        return values

    def constant_data(self) -> dict[str, xr.Variable]:
        """Standardised values, raw standard errors and positions of unknown values.

        Returns
        -------
        dict of str to xarray.Variable
            ``<name>_standardised`` on model, language or both, NaN where missing; its
            attributes ``mean`` and ``sd`` convert it to raw units: raw = mean + sd x.
            ``<name>_se`` in raw units where there are errors; ``<name>_cell_index``, the
            flattened position of each unknown value.
        """
        dims = names.factors_of(self.by)
        data = {
            names.covariate_standardised(self.name): xr.Variable(
                dims,
                (self.raw - self.mean) / self.sd,
                attrs={"mean": self.mean, "sd": self.sd, "by": self.by},
            )
        }
        if np.nan_to_num(self.raw_se).any():
            data[f"{self.name}_se"] = xr.Variable(dims, self.raw_se)
        if self.n_unknown:
            data[f"{self.dim}_index"] = xr.Variable((self.dim,), self.unknown)
        return data


def build_slopes(
    spec: ModelSpec,
    covariates: Sequence[Covariate],
    coords: Mapping[str, tuple[str, ...]],
    factor_index: Mapping[str, Index],
    *,
    name: str,
) -> list[Slope]:
    """Join the covariates that a spec names to the levels of a table.

    Parameters
    ----------
    spec : ModelSpec
        The model.
    covariates : sequence of Covariate
        The covariates that are available.
    coords : mapping of str to tuple of str
        Labels of the factors.
    factor_index : mapping of str to ndarray of int, shape (n_records,)
        Level of every record.
    name : str
        Name of the table, for messages.

    Raises
    ------
    DesignError
        If a covariate is missing, lacks values, does not vary, or is confounded with fixed
        language effects.
    """
    by_name = {covariate.name: covariate for covariate in covariates}
    slopes = []
    for term in spec.covariates:
        if term.name not in by_name:
            available = f" (available: {', '.join(by_name)})" if by_name else ""
            raise DesignError(
                f"{name}: the model {spec.name} has the covariate {term.name!r}, which this table "
                f"does not have{did_you_mean(term.name, by_name)}{available}; "
                f"{_how_to_give(term.name)}, or choose a model without it"
            )
        slopes.append(_slope(spec, term, by_name[term.name], coords, factor_index, name=name))
    return slopes


def _how_to_give(name: str) -> str:
    file = wording("covariate='FILE'", "--covariate FILE")
    shipped = shipped_covariates().get(name)
    if shipped is None:
        return f"give a file of it ({file})"
    own = wording(f"covariate={name!r}", f"--covariate {name}")
    return f"take the one shipped with {shipped.parents[1].name} ({own}), give a file ({file})"


def _slope(
    spec: ModelSpec,
    term: CovariateTerm,
    covariate: Covariate,
    coords: Mapping[str, tuple[str, ...]],
    factor_index: Mapping[str, Index],
    *,
    name: str,
) -> Slope:
    by = covariate.by
    if by in names.FACTORS and getattr(spec.effects, by) == "fixed":
        raise DesignError(
            f"{name}: {term.name} has one value per {by} and is confounded with fixed {by} "
            f"effects; make {by} effects pooled"
        )
    if covariate.categories:
        raise DesignError(
            f"{name}: {term.name} is text, not a number, so it has no slope; remove it from the "
            "covariates of the spec, or relate models by it with models: {family: true}"
        )
    levels = [coords[factor] for factor in names.factors_of(by)]
    raw, se = covariate.at(coords[names.LANGUAGE], coords[names.MODEL])
    missing = np.argwhere(np.isnan(raw))
    labels = [_label(cell, levels) for cell in missing]
    if len(missing) and term.missing == "refuse":
        shown = ", ".join(labels[:8]) + (f" and {len(labels) - 8} more" if len(labels) > 8 else "")
        where = f" in {covariate.source}" if by == "model" and covariate.source else ""
        unmatched = _unmatched_row(labels, covariate, coords[names.MODEL]) if by == "model" else ""
        raise DesignError(
            f"{name}: {term.name} has no value for {len(labels)} of {raw.size} {_LEVELS[by]} "
            f"({shown}){where}{unmatched}; add them, or set covariates: [{{name: {term.name}, "
            f"missing: model}}] in a spec ({wording('spec=FILE', '--model FILE')})"
        )
    present = raw[np.isfinite(raw)]
    spread = float(present.std(ddof=1)) if len(present) > 1 else 0.0
    if spread <= _CONSTANT * max(1.0, float(np.abs(present).max(initial=0.0))):
        raise DesignError(
            f"{name}: {term.name} does not vary over the {raw.size} {_LEVELS[by]} "
            f"({len(present)} with a value), so its slope cannot be estimated; remove it from the "
            "spec"
        )
    unknown = np.isnan(raw)
    notes = list(covariate.notes)
    if term.measurement_error:
        if covariate.se is None:
            raise DesignError(
                f"{name}: {term.name} has no standard errors, which measurement_error needs; add "
                "them to its file, or remove measurement_error"
            )
        unknown |= se > 0.0
    elif np.nan_to_num(se).any():
        notes.append(
            f"{term.name}: its standard errors are not used; measurement_error: true models them"
        )
    if labels:
        notes.append(f"{term.name}: {len(labels)} missing values are modelled as N(0, 1)")
    unknown_cells = np.argwhere(unknown)
    return Slope(
        name=term.name,
        by=by,
        raw=raw,
        raw_se=se,
        mean=float(present.mean()),
        sd=spread,
        index=_record_index(by, factor_index, len(coords[names.LANGUAGE])),
        unknown=np.flatnonzero(unknown).astype(np.int64),
        labels=tuple(_label(cell, levels) for cell in unknown_cells),
        notes=tuple(notes),
    )


def _unmatched_row(lacking: Sequence[str], covariate: Covariate, models: Sequence[str]) -> str:
    """The row without a model that is nearest to one of the models without a row, if any is."""
    rows = [row for row in covariate.models if row not in models][:_MOST_COMPARED]
    without = [one for one in lacking if one not in covariate.models][:_MOST_COMPARED]
    pairs = ((row, one) for row in rows for one in without)
    nearest = max(pairs, key=lambda pair: _similarity(*pair), default=None)
    hint = "" if nearest is None else did_you_mean(nearest[0], [nearest[1]])
    return f"; the row {nearest[0]!r} matches no model{hint}" if nearest and hint else ""


def _similarity(one: str, other: str) -> float:
    return SequenceMatcher(None, one.casefold(), other.casefold()).ratio()


def _label(cell: Index, levels: Sequence[Sequence[str]]) -> str:
    own = [labels[int(i)] for labels, i in zip(levels, cell, strict=True)]
    return own[0] if len(own) == 1 else names.cell_label(*own)


def _record_index(by: CovariateLevel, factor_index: Mapping[str, Index], n_languages: int) -> Index:
    if by in names.FACTORS:
        return factor_index[by]
    return factor_index[names.MODEL] * n_languages + factor_index[names.LANGUAGE]


def restore_slopes(
    constant: xr.Dataset,
    spec: ModelSpec,
    coords: Mapping[str, tuple[str, ...]],
    factor_index: Mapping[str, Index],
) -> list[Slope]:
    """Slopes from the ``constant_data`` of a fit, without notes.

    Parameters
    ----------
    constant : xarray.Dataset
        Group ``constant_data``.
    spec : ModelSpec
        The model that was fitted.
    coords, factor_index : mapping
        As for :func:`build_slopes`.
    """
    slopes = []
    for term in spec.covariates:
        values = constant[names.covariate_standardised(term.name)]
        mean, sd = float(values.attrs["mean"]), float(values.attrs["sd"])
        by: CovariateLevel = (
            "model:language"
            if values.ndim == 2
            else "model"
            if names.MODEL in values.dims
            else "language"
        )
        raw = mean + sd * values.to_numpy().astype(np.float64)
        dim = names.covariate_cell_dim(term.name)
        unknown = np.zeros(0, dtype=np.int64)
        if f"{dim}_index" in constant:
            unknown = constant[f"{dim}_index"].to_numpy().astype(np.int64)
        se_name = f"{term.name}_se"
        slopes.append(
            Slope(
                name=term.name,
                by=by,
                raw=raw,
                raw_se=(
                    constant[se_name].to_numpy().astype(np.float64)
                    if se_name in constant
                    else np.where(np.isnan(raw), np.nan, 0.0)
                ),
                mean=mean,
                sd=sd,
                index=_record_index(by, factor_index, len(coords[names.LANGUAGE])),
                unknown=unknown,
                labels=tuple(str(label) for label in constant[dim].to_numpy())
                if len(unknown)
                else (),
            )
        )
    return slopes
