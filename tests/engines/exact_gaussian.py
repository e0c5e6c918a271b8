"""The Gaussian model written out in full, without the marginal engine's code.

Every column of the design is there, zero-sum terms on Helmert's contrasts, and the
covariance of the scores is a dense matrix: slow, plain and independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, stats

from bayeseval import names
from bayeseval.design import Design
from bayeseval.design.test_sets import _term

Sds = Mapping[str, float]


@dataclass(frozen=True)
class Dense:
    """Columns of all coefficients in free coordinates, and where each term is.

    `contrast[term]` maps the free coordinates of a term to its effects.
    """

    design: Design
    columns: np.ndarray
    place: dict[str, slice]
    contrast: dict[str, np.ndarray]

    def prior_sd(self, sds: Sds) -> np.ndarray:
        """Prior sd of every coefficient."""
        sd = np.empty(self.columns.shape[1])
        sd[self.place[names.INTERCEPT]] = self.design.priors[names.INTERCEPT].scale
        for slope in self.design.slopes:
            sd[self.place[slope.slope]] = self.design.priors[slope.slope].scale
        for term in self.design.terms:
            sd[self.place[term.name]] = term.known_sd if term.sd is None else sds[term.sd]
        return sd

    def prior_mean(self) -> np.ndarray:
        """Prior mean of every coefficient."""
        mean = np.zeros(self.columns.shape[1])
        mean[self.place[names.INTERCEPT]] = self.design.priors[names.INTERCEPT].loc
        return mean

    def noise_sd(self, sds: Sds) -> np.ndarray:
        """Residual sd of every record."""
        known = 0.0 if self.design.se is None else self.design.se
        return np.sqrt(np.full(self.design.n_records, sds[names.SD_RESIDUAL]) ** 2 + known**2)

    def covariance(self, sds: Sds) -> np.ndarray:
        """Covariance of the scores given the sds."""
        scaled = self.columns * self.prior_sd(sds)
        return scaled @ scaled.T + np.diag(self.noise_sd(sds) ** 2)

    def log_marginal(self, sds: Sds, kept: np.ndarray | None = None) -> float:
        """log p(y | sds), of the records in `kept` only if it is given."""
        kept = np.ones(self.design.n_records, dtype=bool) if kept is None else kept
        error = self.design.score - self.design.priors[names.INTERCEPT].loc
        return log_normal(error[kept], self.covariance(sds)[np.ix_(kept, kept)])

    def log_joint(self, sds: Sds, beta: np.ndarray) -> float:
        """log p(y, beta | sds)."""
        prior = stats.norm.logpdf(beta, self.prior_mean(), self.prior_sd(sds)).sum()
        noise = self.noise_sd(sds)
        return float(prior + stats.norm.logpdf(self.design.score, self.columns @ beta, noise).sum())

    def conditional(self, sds: Sds) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the coefficients given the scores and the sds.

        By the covariance of coefficients and scores, which holds for sds of zero too.
        """
        variance = self.prior_sd(sds) ** 2
        gain = linalg.solve(self.covariance(sds), self.columns * variance, assume_a="pos").T
        error = self.design.score - self.columns @ self.prior_mean()
        covariance = np.diag(variance) - gain @ self.columns * variance
        return self.prior_mean() + gain @ error, covariance

    def coordinates(self, effects: Mapping[str, np.ndarray]) -> np.ndarray:
        """Free coordinates of effects by term, each (m, n_levels); shape (m, P)."""
        parts = [effects[name] @ self.contrast[name] for name in self.place]
        return np.concatenate(parts, axis=1)


def write_out(design: Design) -> Dense:
    """All columns of a design."""
    columns, place = [np.ones((design.n_records, 1))], {names.INTERCEPT: slice(0, 1)}
    contrast = {names.INTERCEPT: np.eye(1)}
    start = 1
    for slope in design.slopes:
        columns.append(slope.known[slope.index][:, None])
        place[slope.slope] = slice(start, start + 1)
        contrast[slope.slope] = np.eye(1)
        start += 1
    for term in design.terms:
        basis = linalg.helmert(term.n_levels).T if term.zero_sum else np.eye(term.n_levels)
        columns.append(np.eye(term.n_levels)[term.index] @ basis)
        place[term.name] = slice(start, start + basis.shape[1])
        contrast[term.name] = basis
        start += basis.shape[1]
    return Dense(design, np.concatenate(columns, axis=1), place, contrast)


def log_normal(error: np.ndarray, covariance: np.ndarray) -> float:
    """Log density of a centred multivariate normal."""
    root = linalg.cholesky(covariance, lower=True)
    z = linalg.solve_triangular(root, error, lower=True)
    return float(-0.5 * z @ z - np.log(np.diag(root)).sum() - 0.5 * len(z) * np.log(2 * np.pi))


def select(design: Design, rows: np.ndarray) -> Design:
    """The design with some of its records, some of them repeatedly, in some order."""
    return replace(
        design,
        score=design.score[rows],
        outcome=design.outcome.take(rows),
        se=None if design.se is None else design.se[rows],
        terms=tuple(replace(term, index=term.index[rows]) for term in design.terms),
        factor_index={f: index[rows] for f, index in design.factor_index.items()},
        residual_index=None if design.residual_index is None else design.residual_index[rows],
    )


def replicated(design: Design, seed: int) -> Design:
    """The design with one to four records per cell and scores that differ within it."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(design.n_records), rng.integers(1, 5, design.n_records))
    more = select(design, rows)
    return with_scores(more, more.score + rng.normal(0.0, 4.0, len(rows)))


def with_test_sets(design: Design) -> Design:
    """The design with effects of test sets that cells share, whose sds differ by task."""
    variance = np.linspace(2.0, 40.0, len(design.coords[names.TASK]))
    shared = [
        _term(
            factors,
            design.factor_index,
            design.coords,
            share * variance[design.factor_index["task"]],
        )
        for share, factors in [
            (1.0, ("task",)),
            (0.5, ("language", "task")),
            (0.3, ("model", "task")),
        ]
    ]
    return replace(design, terms=(*design.terms, *shared))


def with_scores(design: Design, score: np.ndarray) -> Design:
    """The design with other scores, modelled as they are."""
    return replace(design, score=score, outcome=replace(design.outcome, share=score, linear=score))


def random_sds(design: Design, rng: np.random.Generator) -> dict[str, float]:
    """Standard deviations of the size that scores have."""
    found = [name for name in design.priors if name.startswith("sd_")]
    return {name: float(rng.uniform(2.0, 15.0)) for name in found}
