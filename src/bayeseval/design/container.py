"""`Term` and `Design`: the frozen objects that engines read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.design.covariates import Slope
from bayeseval.design.noise import Replicates, Source
from bayeseval.design.outcome import Outcome
from bayeseval.design.relations import Relations
from bayeseval.families import scale_names
from bayeseval.spec import ModelSpec, Prior

__all__ = ["Design", "Term"]


@dataclass(frozen=True, eq=False)
class Term:
    """One term of the linear predictor.

    Attributes
    ----------
    name : str
        ``"language"`` or ``"language:task"``.
    factors : tuple of str
        The factors it crosses.
    labels : tuple of str
        Level labels, the coordinate of :attr:`dim`.
    index : ndarray of int, shape (n_records,)
        Level of each record.
    members : dict of str to ndarray of int, shape (n_levels,)
        For each factor, its level in each level of the term.
    known_sd : float, ndarray of float, shape (n_levels,), or None
        Standard deviation of a fixed effect, or of the levels of a test-set effect, in
        score units; None when pooled.
    zero_sum : bool
        Whether the effects sum to zero.
    centred : bool
        Whether engines sample the effects themselves or unit-scale offsets.
    rank : int
        Number of products that a low-rank interaction is the sum of; 0 for other terms, whose
        effects are independent of each other given their sd.
    relations : Relations or None
        What makes the effects of languages or models alike; their covariance is then not diagonal.
    """

    name: str
    factors: tuple[str, ...]
    labels: tuple[str, ...]
    index: Index
    members: Mapping[str, Index]
    known_sd: float | Floats | None
    zero_sum: bool
    centred: bool
    rank: int = 0
    relations: Relations | None = None

    @property
    def dim(self) -> str:
        """Dimension name, for example ``language_task``."""
        return names.term_dim(self.name)

    @property
    def effect(self) -> str:
        """Variable name of the effects."""
        return names.effect_name(self.name)

    @property
    def offset(self) -> str:
        """Variable name of the unit-scale offsets of the non-centred form."""
        return names.offset_name(self.name)

    @property
    def sd(self) -> str | None:
        """Name of the standard-deviation parameter; None for a fixed effect."""
        return names.sd_name(self.name) if self.known_sd is None else None

    @property
    def sds(self) -> tuple[str, ...]:
        """Names of all standard-deviation parameters: its own and those of relations."""
        own = () if self.sd is None else (self.sd,)
        return own if self.relations is None else (*own, *self.relations.sds)

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self.labels)

    @property
    def rank_dim(self) -> str:
        """Dimension of the products of a low-rank interaction."""
        return names.rank_dim(self.name)

    @property
    def loadings(self) -> tuple[str, str]:
        """Variables of a low-rank interaction: of the model, which sum to zero, and the other."""
        model, other = self.factors
        return names.loading_name(self.name, model), names.loading_name(self.name, other)

    @property
    def drawn_loadings(self) -> tuple[str, str]:
        """What engines sample in their place: loadings of models in units of their sd."""
        model, other = self.loadings
        return f"{model}_offset", other

    def n_members(self, factor: str) -> int:
        """Number of levels of a factor that a low-rank interaction crosses."""
        return int(self.members[factor].max()) + 1

    @property
    def is_noise(self) -> bool:
        """Whether it is noise of shared test sets, which expected scores do not include."""
        return self.name.startswith(names.TEST_SET)


@dataclass(frozen=True, eq=False)
class Design:
    """A model on a table, in arrays: all that an engine needs.

    Attributes
    ----------
    spec : ModelSpec
        The model.
    score : ndarray of float, shape (n_records,)
        Observed scores.
    outcome : Outcome
        Likelihoods, bounds, counts and link of the scores.
    se : ndarray of float, shape (n_records,), or None
        Known standard errors of the scores, including known seed and test-set sds; added
        to the residual in quadrature.
    terms : tuple of Term
        Terms of the linear predictor besides the intercept. A factor with a
        single level has none.
    slopes : tuple of Slope
        Covariates of the linear predictor.
    priors : dict of str to Prior
        Priors of the scalar parameters on the scale of the linear predictor, in
        canonical order.
    residual_index : ndarray of int, shape (n_records,), or None
        Level of ``spec.residual_by`` of each record.
    coords : dict of str to tuple of str
        Labels of every dimension: the three factors, the datasets where some have
        several tasks, then interaction cells.
    factor_index : dict of str to ndarray of int, shape (n_records,)
        Level of each record under each factor, including ``dataset`` where it has labels.
    replicates : Replicates or None
        Noise of replicates, with unknown sds. A record is then the mean of a cell's
        replicates.
    known_sds : dict of str to ndarray of float, shape (n_records,)
        Seed and test-set sds that are taken as known, by source, and standard errors
        given with the scores (``se``); NaN where there is none.
    notes : tuple of str
        Remarks for the user on how the table was read.
    """

    spec: ModelSpec
    score: Floats
    outcome: Outcome
    se: Floats | None
    terms: tuple[Term, ...]
    slopes: tuple[Slope, ...]
    priors: Mapping[str, Prior]
    residual_index: Index | None
    coords: Mapping[str, tuple[str, ...]]
    factor_index: Mapping[str, Index]
    replicates: Replicates | None
    known_sds: Mapping[str, Floats]
    notes: tuple[str, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of replicate noise with unknown sds; empty without replicates."""
        return () if self.replicates is None else self.replicates.sources

    @property
    def noise_scales(self) -> tuple[str, ...]:
        """Noise scales of the likelihoods, which differ by level under ``residual_by``."""
        return tuple(name for name in scale_names() if name in self.priors)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.score)

    def term(self, name: str) -> Term:
        """Return the term called `name`."""
        return next(term for term in self.terms if term.name == name)

    def sizes(self) -> dict[str, int]:
        """Lengths of the parameters of :attr:`priors` that are vectors."""
        n_models = len(self.coords[names.MODEL])
        by_model = {names.source_model_sd(source.name): n_models for source in self.sources}
        return by_model | {names.sd_name(term.name): term.rank for term in self.terms if term.rank}

    def dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of every posterior variable with more than chain and draw."""
        table: dict[str, tuple[str, ...]] = {
            names.effect_name(factor): (factor,) for factor in names.FACTORS
        }
        table |= {term.effect: (term.dim,) for term in self.terms}
        for term in self.terms:
            if term.rank:
                table |= {
                    name: (term.rank_dim, factor)
                    for name, factor in zip(term.loadings, term.factors, strict=True)
                }
                table[names.sd_name(term.name)] = (term.rank_dim,)
        table |= {slope.drawn: (slope.dim,) for slope in self.slopes if slope.n_unknown}
        if self.spec.residual_by is not None:
            factor = self.spec.residual_by
            table |= {names.level_name(name, factor): (factor,) for name in self.noise_scales}
        for source in self.sources:
            table[names.source_model_sd(source.name)] = (names.MODEL,)
            table[names.source_cell_sd(source.name)] = (source.dim,)
            table |= {one.effect: (one.dim,) for one in source.shared}
        return table

    def observed_data(self) -> xr.Dataset:
        """Observed scores on the dimension ``record``."""
        return xr.Dataset(
            {names.SCORE: (names.RECORD, self.score.copy())},
            coords={names.RECORD: np.arange(self.n_records)},
        )

    def constant_data(self) -> xr.Dataset:
        """Level of every record and of every interaction cell, by position.

        Returns
        -------
        xarray.Dataset
            ``<factor>_index`` on ``record`` and ``<cell>_<factor>`` on each cell
            dimension; known standard errors as ``se``; for replicate noise the record
            of every sd, ``<source>_cell_record``, its estimate from the cell's own
            replicates, ``<source>_cell_raw_sd``, the part of its variance in the record,
            ``<source>_share``, and known sds, ``<source>_sd``; of prompts (and judges) on
            ``prompt_row`` the position of the sd of each cell's prompts and their levels,
            ``<effect>_prompt_row``; for every effect of shared
            test sets the level of each record, ``<term>_index``, and the sds, ``<term>_sd``;
            covariates as in :meth:`Slope.constant_data`, and how related languages are as in
            :meth:`Relations.constant_data`.
        """
        data: dict[str, tuple[str, npt.NDArray[np.generic]]] = {
            f"{factor}_index": (names.RECORD, index) for factor, index in self.factor_index.items()
        }
        for term in self.terms:
            if term.is_noise:
                data[f"{term.dim}_index"] = (names.RECORD, term.index)
                data[f"{term.dim}_sd"] = (term.dim, np.asarray(term.known_sd, dtype=np.float64))
            elif len(term.factors) > 1:
                for factor, member in term.members.items():
                    data[f"{term.dim}_{factor}"] = (term.dim, member)
        if self.se is not None:
            data["se"] = (names.RECORD, self.se)
        for source in self.sources:
            data[f"{source.dim}_record"] = (source.dim, source.record)
            data[f"{source.dim}_raw_sd"] = (source.dim, source.raw_sd)
            data[f"{source.name}_share"] = (names.RECORD, source.share)
            if source.by_cell is not None:
                cell, place = np.nonzero(source.by_cell.there)
                rows = f"{source.name}_row"
                data[f"{rows}_cell"] = (rows, cell)
                for one in source.shared:
                    data[f"{one.dim}_{rows}"] = (rows, one.level[cell, place])
        for name, sd in self.known_sds.items():
            data[f"{name}_sd"] = (names.RECORD, sd)
        data |= self.outcome.constant_data()
        pool = str(self.spec.replicates.pool).lower()
        dims = {dim for dim, _ in data.values()}
        covariates: dict[str, xr.Variable] = {}
        for term in self.terms:
            covariates |= {} if term.relations is None else term.relations.constant_data()
        for slope in self.slopes:
            covariates |= slope.constant_data()
            dims |= {slope.dim} if slope.n_unknown else set()
        coords = {dim: np.array(self.coords[dim], dtype=str) for dim in dims & set(self.coords)}
        return xr.Dataset(
            {**data, **covariates},
            coords={
                names.RECORD: np.arange(self.n_records),
                **{
                    factor: np.array(self.coords[factor], dtype=str) for factor in self.factor_index
                },
                **coords,
            },
            attrs={"population": self.spec.population, "likelihood": self._likelihood()}
            | ({"pool_replicates": pool} if self.known_sds or self.replicates else {})
            | ({"edge": self.spec.edge} if self.outcome.link == "logit" else {}),
        )

    def _likelihood(self) -> str:
        """The one likelihood of all tasks, or ``mixed``."""
        families = self.outcome.families
        return families[0] if len(families) == 1 else "mixed"
