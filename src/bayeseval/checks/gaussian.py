"""Leave-one-out predictions of a Gaussian design, and of tables drawn from it.

Given the sds the scores are jointly normal with covariance V = X D X' + R, and the score
of record i given all others is normal with precision (V^-1)_ii around
y_i - (V^-1 y)_i / (V^-1)_ii (Rasmussen and Williams 2006, section 5.4.2). The standardised
errors of all records are a linear map of the scores, so that tables drawn from the model
show how they depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import linalg, sparse

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.checks.blocks import row_blocks
from bayeseval.design import Design
from bayeseval.engines.base import residual_sd
from bayeseval.errors import EngineError

__all__ = ["LeaveOneOut", "why_no_closed_form"]


# With more coefficients than this, the inverse takes longer than all other checks.
_MOST_COEFFICIENTS = 2000


def why_no_closed_form(design: Design) -> str | None:
    """Reason why leave-one-out predictions have no closed form; None when they have one."""
    if design.outcome.families != ("normal",):
        return f"the likelihood is {' and '.join(design.outcome.families)}"
    if design.priors[names.INTERCEPT].dist != "normal":
        return "the intercept's prior is not normal"
    if design.spec.low_rank:
        return "products of loadings are not normal given the sds"
    known = {names.INTERCEPT, names.SD_RESIDUAL, names.SD_LOG_RESIDUAL}
    known |= {term.sd for term in design.terms if term.sd is not None}
    for source in design.sources:
        known |= {names.source_model_sd(source.name), names.source_log_sd(source.name)}
    unknown = sorted(set(design.priors) - known)
    if unknown:
        return f"the model has {', '.join(unknown)}"
    if sum(term.n_levels for term in design.terms) > _MOST_COEFFICIENTS:
        return "the model has too many effects"
    return None


class LeaveOneOut:
    """Closed form at one value of the sds.

    Parameters
    ----------
    design : Design
        Normal likelihood; residual sds, known errors and replicate noise may differ by
        record.
    sds : dict of str to ndarray
        One draw of every variable except the effects.
    """

    def __init__(self, design: Design, sds: Mapping[str, Floats]) -> None:
        self.loc = float(design.priors[names.INTERCEPT].loc or 0.0)
        n = design.n_records
        self.noise = np.broadcast_to(residual_sd(design, sds) ** 2, (n,)).astype(np.float64)
        sizes = [1, *(term.n_levels for term in design.terms)]
        starts = np.cumsum([0, *sizes])
        # The columns of X that are 1, record by record.
        self.columns = np.stack(
            [np.zeros(n, dtype=np.int64)]
            + [start + term.index for start, term in zip(starts[1:-1], design.terms, strict=True)],
            axis=1,
        )
        k = self.columns.shape[1]
        self.x = sparse.csr_array(
            (np.ones(n * k), (np.repeat(np.arange(n), k), self.columns.reshape(-1))),
            shape=(n, int(starts[-1])),
        )
        self.scale = np.empty(int(starts[-1]))
        self.scale[0] = float(design.priors[names.INTERCEPT].scale or 1.0)
        self.zero_sum = []
        for start, stop, term in zip(starts[1:-1], starts[2:], design.terms, strict=True):
            self.scale[start:stop] = sds[term.sd] if term.sd is not None else term.known_sd
            if term.zero_sum:
                self.zero_sum.append(slice(int(start), int(stop)))
        inner = (self.x.T @ sparse.dia_array((1.0 / self.noise[None], [0]), shape=(n, n))) @ self.x
        scaled = self._root(self._root(inner.toarray()).T)
        try:
            factor = linalg.cho_factor(np.eye(len(scaled)) + scaled, lower=True)
        except linalg.LinAlgError as error:
            raise EngineError(
                "the noise of the scores is lost in the rounding of their sds at a draw of the "
                "posterior; give priors of the order of the standard deviation of the scores"
            ) from error
        inverse = linalg.cho_solve(factor, np.eye(len(scaled)), overwrite_b=True)
        self.covariance = self._root(self._root(inverse).T)
        spread = np.empty(n)
        for rows in row_blocks(n, 2 * k * k):
            own = self.columns[rows]
            spread[rows] = self.covariance[own[:, :, None], own[:, None, :]].sum(axis=(1, 2))
        self.precision = 1.0 / self.noise - spread / self.noise**2

    def _root(self, values: Floats) -> Floats:
        """S times a matrix: D = S S is the prior covariance of the coefficients."""
        product = self.scale[:, None] * values
        for block in self.zero_sum:
            product[block] -= product[block].mean(axis=0)
        return product

    def errors(self, score: Floats) -> Floats:
        """Standardised leave-one-out errors.

        Parameters
        ----------
        score : ndarray, shape (n_records,) or (n_records, n_tables)

        Returns
        -------
        ndarray, the same shape
            Standard normal one by one under the model, and dependent.
        """
        scores = score.reshape(len(self.noise), -1) - self.loc
        weighted = scores / self.noise[:, None]
        fitted = self.x @ (self.covariance @ (self.x.T @ weighted))
        residual = (scores - fitted) / self.noise[:, None]
        return np.asarray((residual / np.sqrt(self.precision)[:, None]).reshape(score.shape))

    def tables(self, n: int, rng: np.random.Generator) -> Floats:
        """Tables drawn from the model at these sds, effects anew; shape (n_records, n)."""
        effects = self._root(rng.standard_normal((len(self.scale), n)))
        noise = rng.standard_normal((len(self.noise), n)) * np.sqrt(self.noise)[:, None]
        return np.asarray(self.loc + self.x @ effects + noise)
